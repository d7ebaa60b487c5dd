"""Objects → YAML, JSON, the files of a folder, or a summary."""
