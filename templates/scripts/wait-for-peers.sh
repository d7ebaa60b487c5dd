#!/bin/sh
# Waits until every peer is reachable. Reports the missing peers at first, when one more becomes
# reachable (at most once in five seconds), and at least once a minute.
#
#   MLGEN_PEERS    host:port must accept connections, host must resolve; host-[0-3].x is four hosts
#   MLGEN_SELF     own host name without a domain; as a peer, it must only resolve
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

# nc resolves names through libc, as the program does; busybox nslookup finds no short names.
reached() {  # PEER
  case $1 in
    *:*) nc -z -w 2 "${1%:*}" "${1##*:}" >/dev/null 2>&1 ;;
    *) case $(nc -z -w 1 "$1" 9 2>&1) in  # a refused connection is fine
      *"bad address"* | *getaddrinfo* | *"not known"* | *resolve*) return 1 ;;
    esac ;;
  esac
}

is_over() {
  [ -n "${MLGEN_TIMEOUT-}" ] && [ "$now" -ge $((start + MLGEN_TIMEOUT)) ]
}

is_due() {
  elapsed=$((now - ${told_at:-0}))
  [ "$elapsed" -ge 60 ] || { [ "$elapsed" -ge 5 ] && [ "$pending" != "$told" ]; }
}

summary() {  # PEERS...: prints how many of all peers these are, and names the first ten
  count=$# shown=$1
  while shift && [ $# -gt 0 ] && [ $# -gt $((count - 10)) ]; do shown="$shown, $1"; done
  [ "$count" -le 10 ] || shown="$shown and $((count - 10)) more"
  echo "$count of $total peers: $shown"
}

# The names of pods that start together resolve within two seconds. After that, the pause is about
# a tenth of the time waited so far, up to five seconds.
pause() {
  elapsed=$((now - start))
  if [ "$elapsed" -lt 4 ]; then sleep 0.25 2>/dev/null || sleep 1
  elif [ "$elapsed" -lt 40 ]; then sleep $((1 + elapsed / 10))
  else sleep 5
  fi
}

command -v nc >/dev/null || {
  echo "nc not found; set spec.helpers.waitImage to an image that includes nc" >&2
  exit 127
}
start=$(date +%s) missing='' told='' total=0
for peer in $(for each in $MLGEN_PEERS; do expand "$each"; done); do
  # This replica listens only after the wait. Its name must resolve, because programs may use it.
  [ "${peer%%[.:]*}" != "${MLGEN_SELF-}" ] || peer=${peer%:*}
  missing="$missing $peer" total=$((total + 1))
done
# shellcheck disable=SC2086  # $missing is a list of words
while [ -n "$missing" ]; do
  now=$(date +%s) all='' pending=$missing missing=''
  if is_over || is_due; then all=yes; fi
  for peer in $pending; do
    # One missing peer is enough to wait; try all peers only for a report. A name that
    # does not resolve costs DNS several queries, and thousands of replicas may wait for it.
    if { [ -n "$missing" ] && [ -z "$all" ]; } || ! reached "$peer"; then
      missing="$missing $peer"
    fi
  done
  [ -n "$missing" ] || break
  if is_over; then
    echo "timed out after ${MLGEN_TIMEOUT}s waiting for $(summary $missing)" >&2
    exit 75
  fi
  if [ -n "$all" ]; then
    echo "waiting for $(summary $missing)"
    told=$missing told_at=$now
  fi
  pause
done
echo "all peers are reachable"
