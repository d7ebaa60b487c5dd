"""What mlgen knows about itself, as texts: fields, frameworks, problem codes and commands.

`mlgen explain` prints them, `mlgen man` the commands, and `.ci/reference` writes them into `docs/`.
"""
