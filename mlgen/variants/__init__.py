"""Variants of a job for one use: a name with a hash, an Argo workflow, a GitOps tool."""
