#!/bin/sh
# Replaces rsh for mpirun: runs a command in a worker's pod with kubectl, as `rsh HOST COMMAND...`.
host=$1
shift
exec /opt/kube/kubectl exec "$host" -- /bin/sh -c "$*"
