"""Reference texts about fields, frameworks, problem codes and commands.

`mlgen explain` prints them, and `.ci/reference` writes them into `docs/`.
"""
