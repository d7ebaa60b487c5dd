"""Kubernetes' own rules as data, each with its source."""
