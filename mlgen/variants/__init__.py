"""What changes a job for one use of it: a name with a hash, a workflow, a GitOps tool."""
