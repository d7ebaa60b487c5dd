"""Reads files, streams and ResourceLists as documents that record the line of every value."""
