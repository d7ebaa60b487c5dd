#!/bin/sh
# Waits until each peer of MLGEN_PEERS accepts connections (host:port) or resolves (host).
# host-[0-3] stands for four hosts. MLGEN_SELF must only resolve. MLGEN_TIMEOUT: limit in seconds.
# shellcheck disable=SC2086  # $missing is a list of words
set -uf; start=$(date +%s) missing='' told='' told_at=0
command -v nc >/dev/null || { echo "nc not found; set spec.helpers.waitImage" >&2; exit 127; }
reached() {  # nc resolves names as the program does; busybox nslookup finds no short names
  case $1 in *:*) nc -z -w 2 "${1%:*}" "${1##*:}" >/dev/null 2>&1; return ;; esac
  case $(nc -z -w 1 "$1" 9 2>&1) in *bad\ address*|*getaddrinfo*|*not\ known*|*resolve*) false; esac
}
add() {  # this replica itself listens only after the wait
  [ "${1%%[.:]*}" = "${MLGEN_SELF-}" ] && missing="$missing ${1%:*}" || missing="$missing $1"
}
list() {
  [ $# -le 10 ] && more='' || more=" and $(($# - 10)) more"
  echo "$# of $total peers: $(echo "$*" | cut -d ' ' -f -10 | sed 's/ /, /g')$more"
}
for each in $MLGEN_PEERS; do
  range=${each#*\[} && range=${range%%\]*} rest=${each#*\]}
  case $each in
    *\[*-*\]*) for i in $(seq "${range%-*}" "${range#*-}"); do add "${each%%\[*}$i$rest"; done ;;
    *) add "$each" ;;
  esac
done
set -- $missing && total=$#
while [ -n "$missing" ]; do
  now=$(date +%s) pending=$missing missing='' report='' && passed=$((now - start))
  [ $((now - told_at)) -lt 5 ] || [ "$pending" = "$told" ] || report=changed
  [ $((now - told_at)) -lt 60 ] && [ $passed -lt "${MLGEN_TIMEOUT:-$((passed + 1))}" ] || report=due
  for peer in $pending; do  # one missing peer is enough, because thousands may ask the DNS server
    { [ -n "$missing" ] && [ -z "$report" ]; } || ! reached "$peer" || continue
    missing="$missing $peer"
  done
  [ -n "$missing" ] || break
  [ $passed -lt "${MLGEN_TIMEOUT:-$((passed + 1))}" ] || {
    echo "timed out after ${MLGEN_TIMEOUT}s waiting for $(list $missing)" >&2; exit 75; }
  [ -z "$report" ] || { echo "waiting for $(list $missing)"; told=$missing told_at=$now; }
  { [ $passed -lt 4 ] && sleep 0.25 2>/dev/null; } || sleep $((passed < 40 ? 1 + passed / 10 : 5))
done
echo "all peers are reachable"
