"""The hosts: every module of this package meets the contract of one tool that calls for manifests.

It does not render by itself: it wraps what `mlgen.render` made for that tool.
"""
