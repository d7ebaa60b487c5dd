"""Texts of `mlgen explain` about fields, frameworks, problem codes and rules.

`tests/reference` writes them into `docs/`, too.
"""
