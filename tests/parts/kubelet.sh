#!/bin/sh
# Runs the kubelet of a private cluster in its own cgroup, because it kills unknown processes there.
group=${MLGEN_CLUSTER_HOME##*/}/${NODE:-node-0}
for controller in /sys/fs/cgroup/*/; do
  [ -e /sys/fs/cgroup/cgroup.procs ] && controller=/sys/fs/cgroup  # cgroup v2
  mkdir -p "$controller/$group"
done
exec "$MLGEN_CLUSTER_HOME/bin/kubelet.real" --cgroup-root "/$group" "$@"
