#!/usr/bin/env bash
# node.sh FOLDER NUMBER: starts another node of the cluster that ../shared/cluster/up made in FOLDER,
# or restarts its dead programs, in a separate network namespace, where node-1 has the address
# 10.123.0.2 and pods in 10.244.1.0/24.
# It has the images and settings of the first node. Its pids, logs and state are in FOLDER/node-1.
# Run it in the namespaces of private.py, and stop the node by ending these.
set -euo pipefail
cluster=$1 number=$2
name=node-$number address=10.123.0.$((number + 1)) first=10.123.0.1
home=$cluster/$name socket=/run/mlgen-cluster/$name.sock
mkdir -p "$home"/{etc/cni,log,run}

network() {
  [ ! -e "/run/netns/$name" ] || return 0
  ip netns add "$name"
  ip link add "$name" master mlgen-node type veth peer name mlgen-node netns "$name"
  ip link set "$name" up
  inside ip link set lo up
  inside ip addr add "$address/24" dev mlgen-node
  inside ip link set mlgen-node up
  inside ip route add default via "$first"
  inside sysctl -q -w net.ipv4.ip_forward=1
  ip route add "10.244.$number.0/24" via "$address"
}

inside() { nsenter --net="/run/netns/$name" -- "$@"; }  # `ip netns exec` would hide the cgroups

settings() {
  [ ! -e "$home/etc/kubelet.yaml" ] || return 0
  sed -E "s|10\.244\.0\.0|10.244.$number.0|; s|\"dataDir\": \"[^\"]*\"|\"dataDir\": \"$home/run/ipam\"|" \
    "$cluster/etc/cni/10-bridge.conflist" >"$home/etc/cni/10-bridge.conflist"
  sed -E "s|^(root = ).*|\1\"$home/containerd\"|; s|^(state = ).*|\1\"/run/mlgen-cluster/$name\"|
    s|^( *address = ).*|\1\"$socket\"|; s|^( *conf_dir = ).*|\1\"$home/etc/cni\"|" \
    "$cluster/etc/containerd.toml" >"$home/etc/containerd.toml"
  sed -E "s|^address: .*|address: $address|; s|^(containerRuntimeEndpoint: ).*|\1unix://$socket|" \
    "$cluster/etc/kubelet.yaml" >"$home/etc/kubelet.yaml"
  echo "podLogsDir: $home/pods" >>"$home/etc/kubelet.yaml"
}

start() {  # NAME COMMAND...
  local program=$1 pid=$home/run/$1.pid
  shift
  [ ! -e "$pid" ] || ! grep -q "$program" "/proc/$(cat "$pid")/cmdline" 2>/dev/null || return 0
  # shellcheck disable=SC2016  # expanded there
  setsid nsenter --net="/run/netns/$name" -- unshare --uts -- sh -c 'hostname "$0" && exec "$@"' \
    "$name" "$@" >"$home/log/$program.log" 2>&1 </dev/null &
  echo $! >"$pid"
}

is_ready() {
  kubectl get node "$name" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null | grep -q True
}

network
settings
start containerd containerd --config "$home/etc/containerd.toml"
until ctr -a "$socket" version >/dev/null 2>&1; do sleep 0.2; done
export NODE=$name  # the cgroup of its pods: see private.py
start kubelet kubelet --kubeconfig "$KUBECONFIG" --config "$home/etc/kubelet.yaml" \
  --hostname-override "$name" --node-ip "$address" --root-dir "$home/kubelet"
start kube-proxy kube-proxy --kubeconfig "$KUBECONFIG" --hostname-override "$name" \
  --cluster-cidr 10.244.0.0/16 --conntrack-max-per-core 0 --proxy-mode iptables
for _ in {1..90}; do
  is_ready && exit
  sleep 1
done
echo "$name does not get ready; see $home/log" >&2
exit 1
