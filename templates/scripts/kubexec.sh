#!/bin/sh
# mpirun's way to a worker: runs a command there by kubectl, as `rsh HOST COMMAND...` would.
host=$1
shift
exec /opt/kube/kubectl exec "$host" -- /bin/sh -c "$*"
