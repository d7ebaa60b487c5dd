"""Objects → YAML, JSON, the files of a folder, a summary."""
