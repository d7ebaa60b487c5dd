"""Validate a job file against its schema, and turn it into a `TrainingJob`."""
