"""Adapters for other tools, one module per tool.

Each passes the input of its tool to `mlgen.pipeline`, and returns the output that the tool expects.
"""
