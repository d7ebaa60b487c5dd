#!/bin/sh
# Waits until every peer is reachable, and reports those that are not: at first, on every change,
# and at least once a minute.
#
#   MLGEN_PEERS    host:port must accept connections, host must resolve; host-[0-3].x is four hosts
#   MLGEN_SELF     own host name, without a domain, if it is a peer with a port; only its name counts
#   MLGEN_TIMEOUT  seconds to wait, then exits with 75 (EX_TEMPFAIL); not set: as long as it takes
set -uf

expand() {  # PEER: prints it, or every host of a range
  case $1 in
    *\[*-*\]*)
      range=${1#*\[}
      range=${range%%\]*}
      for i in $(seq "${range%-*}" "${range#*-}"); do echo "${1%%\[*}$i${1#*\]}"; done
      ;;
    *) echo "$1" ;;
  esac
}

# nc resolves names through libc, as the program will; nslookup of busybox finds no short names.
reached() {  # PEER
  case $1 in
    *:*) nc -z -w 2 "${1%:*}" "${1##*:}" >/dev/null 2>&1 ;;
    *) case $(nc -z -w 1 "$1" 9 2>&1) in  # a refused connection is fine
      *"bad address"* | *getaddrinfo* | *"not known"* | *resolve*) return 1 ;;
    esac ;;
  esac
}

is_over() {
  [ -n "${MLGEN_TIMEOUT-}" ] && [ "$(date +%s)" -ge $((start + MLGEN_TIMEOUT)) ]
}

summary() {  # PEERS...: prints how many of all peers these are, and names the first ten
  count=$# shown=$1
  while shift && [ $# -gt 0 ] && [ $# -gt $((count - 10)) ]; do shown="$shown, $1"; done
  [ "$count" -le 10 ] || shown="$shown and $((count - 10)) more"
  echo "$count of $total peers: $shown"
}

command -v nc >/dev/null || {
  echo "this image has no nc; set spec.helpers.waitImage to an image that has it" >&2
  exit 127
}
start=$(date +%s) missing='' told='' total=0 pause=1
for peer in $(for each in $MLGEN_PEERS; do expand "$each"; done); do
  # This replica listens only after the wait, but a program may dial its own name at startup.
  [ "${peer%%[.:]*}" != "${MLGEN_SELF-}" ] || peer=${peer%:*}
  missing="$missing $peer" total=$((total + 1))
done
# shellcheck disable=SC2086  # $missing is a list of words
while [ -n "$missing" ]; do
  pending=$missing missing=''
  for peer in $pending; do
    reached "$peer" || missing="$missing $peer"
  done
  [ -n "$missing" ] || break
  if is_over; then
    echo "timed out after ${MLGEN_TIMEOUT}s waiting for $(summary $missing)" >&2
    exit 75
  fi
  if [ "$missing" != "$told" ] || [ $(($(date +%s) - told_at)) -ge 60 ]; then
    echo "waiting for $(summary $missing)"
    told=$missing told_at=$(date +%s)
  fi
  sleep "$pause"  # not too often: resolvers cache negative answers
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done
echo "all peers are reachable"
