#!/usr/bin/env bash
# The first process of a private cluster, which private.py runs in new namespaces: it prepares them
# for a node, prints "ready", and ends when its input does. Every process of the cluster, every mount
# and every network link then ends with it.
set -euo pipefail

mount --make-rshared /                # as on a machine; the real one is not affected
mount -t tmpfs tmpfs /run             # sockets, network namespaces and locks
for folder in /var/lib/cni /var/log/pods /var/log/containers; do
  mkdir -p "$folder"
  mount -t tmpfs tmpfs "$folder"
done
hostname node-0
printf '%s\n' '127.0.0.1 localhost' '10.123.0.1 node-0' '10.123.0.2 node-1' >/run/hosts
mount --bind /run/hosts /etc/hosts

ip link set lo up
ip link add mlgen-node type bridge    # ../shared/cluster/up would create it without a route
ip addr add 10.123.0.1/24 dev mlgen-node
ip link set mlgen-node up
ip route add default dev mlgen-node   # addresses of Services need a way out, before they are rewritten

echo ready
read -r _ || true
