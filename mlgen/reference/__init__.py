"""Reference texts about fields, frameworks, problem codes and commands.

`mlgen explain` and `mlgen man` print them, and `.ci/reference` writes them into `docs/`.
"""
