"""Files, streams and ResourceLists → documents in which every value knows its line."""
