#!/bin/sh
# Waits until every peer is reachable. Reports the peers that are not: at first, on every change,
# and at least once a minute.
#
#   MLGEN_PEERS    peers, separated by spaces: host:port waits until the port accepts connections,
#                  host until the name resolves; host-[0-3].domain stands for four hosts
#   MLGEN_SELF     own host name, without a domain, if it is a peer with a port
#   MLGEN_TIMEOUT  seconds to wait; not set: as long as it takes
#
# Exits with 75 (EX_TEMPFAIL in sysexits.h) on timeout.
set -uf

expand() {  # PEERS...: prints one peer per line
  for peer in "$@"; do
    case $peer in
      *\[*-*\]*)
        before=${peer%%\[*} range=${peer#*\[} after=${peer#*\]}
        range=${range%%\]*}
        i=${range%-*}
        while [ "$i" -le "${range#*-}" ]; do
          echo "$before$i$after"
          i=$((i + 1))
        done
        ;;
      *) echo "$peer" ;;
    esac
  done
}

# nc resolves names through libc, as the training program will. nslookup of busybox queries DNS
# directly and does not find short names.
reached() {  # PEER
  case $1 in
    *:*) nc -z -w 2 "${1%:*}" "${1##*:}" >/dev/null 2>&1 ;;
    *) named "$1" ;;
  esac
}

named() {  # HOST: succeeds unless nc reports an unknown name; a refused connection is fine
  case $(nc -z -w 1 "$1" 9 2>&1) in
    *"bad address"* | *getaddrinfo* | *"not known"* | *resolve*) return 1 ;;
  esac
}

summary() {  # PEERS...: prints how many of all peers these are, and names the first ten
  shown='' count=0
  for peer in "$@"; do
    count=$((count + 1))
    [ "$count" -gt 10 ] || shown="$shown, $peer"
  done
  [ "$count" -le 10 ] || shown="$shown and $((count - 10)) more"
  echo "$count of $total peers: ${shown#, }"
}

command -v nc >/dev/null || {
  echo "this image has no nc; set spec.helpers.waitImage to an image that has it" >&2
  exit 127
}
seconds_left() {
  if [ -z "${MLGEN_TIMEOUT-}" ]; then echo 1; else echo $((start + MLGEN_TIMEOUT - $(date +%s))); fi
}

start=$(date +%s) missing='' told='' total=0 pause=1
# shellcheck disable=SC2086  # a list of words
for peer in $(expand $MLGEN_PEERS); do
  # This replica listens only after the wait, but a program may dial its own name at startup.
  [ "${peer%%[.:]*}" != "${MLGEN_SELF-}" ] || peer=${peer%:*}
  missing="$missing $peer" total=$((total + 1))
done
while [ -n "$missing" ]; do
  pending=$missing missing=''
  for peer in $pending; do
    if [ "$(seconds_left)" -lt 0 ] || ! reached "$peer"; then missing="$missing $peer"; fi
  done
  [ -n "$missing" ] || break
  if [ "$(seconds_left)" -le 0 ]; then
    # shellcheck disable=SC2086  # a list of words
    echo "timed out after ${MLGEN_TIMEOUT}s waiting for $(summary $missing)" >&2
    exit 75
  fi
  if [ "$missing" != "$told" ] || [ $(($(date +%s) - told_at)) -ge 60 ]; then
    # shellcheck disable=SC2086
    echo "waiting for $(summary $missing)"
    told=$missing told_at=$(date +%s)
  fi
  # Resolvers cache negative answers, so polling too often would delay the name.
  sleep "$pause"
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done
echo "all peers are reachable"
