"""Objects → YAML, JSON, a folder, a summary."""
