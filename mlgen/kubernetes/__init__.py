"""Kubernetes' rules as data: schemas, defaults, limits and validation, with sources."""
