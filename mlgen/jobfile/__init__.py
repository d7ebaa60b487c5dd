"""Validates job files and converts them to `TrainingJob`s."""
