#!/bin/sh
# Waits until every peer can be reached, and says which cannot when time is up.
#
#   MLGEN_PEERS    host:port, or host alone until its name leads to an address; separated by
#                  spaces; host-[0-3].domain stands for four hosts
#   MLGEN_SELF     this replica's own host name, without a domain, of which the name will do
#   MLGEN_TIMEOUT  seconds
#
# Ends with 75 (try again later, as sysexits.h has it) when time is up.
set -uf

expand() {  # PEERS...: each peer on a line of its own
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

# Only a program that asks as training will, by libc, tells what training will see: busybox's
# nslookup asks DNS itself and does not find short names.
reached() {  # PEER
  case $1 in
    *:*) nc -z -w 2 "${1%:*}" "${1##*:}" >/dev/null 2>&1 ;;
    *) named "$1" ;;
  esac
}

named() {  # HOST: any answer but that there is no such name will do, also a refusal
  case $(nc -z -w 1 "$1" 9 2>&1) in
    *"bad address"* | *getaddrinfo* | *"not known"* | *resolve*) return 1 ;;
  esac
}

few() {  # WORDS...: the first of them, and how many more
  shown='' count=0
  for word in "$@"; do
    count=$((count + 1))
    [ "$count" -gt 10 ] || shown="$shown $word"
  done
  [ "$count" -le 10 ] || shown="$shown and $((count - 10)) more"
  echo "${shown# }"
}

command -v nc >/dev/null || {
  echo "the image of this container has no nc; name one that has in spec.helpers.waitImage" >&2
  exit 127
}
deadline=$(($(date +%s) + MLGEN_TIMEOUT))
missing='' told='' pause=1
# shellcheck disable=SC2086  # a list of words
for peer in $(expand $MLGEN_PEERS); do
  # It listens only later, but many a program dials itself at once, and gives up on no address.
  [ "${peer%%[.:]*}" != "$MLGEN_SELF" ] || peer=${peer%:*}
  missing="$missing $peer"
done
while [ -n "$missing" ]; do
  pending=$missing missing=''
  for peer in $pending; do
    if [ "$(date +%s)" -gt "$deadline" ] || ! reached "$peer"; then missing="$missing $peer"; fi
  done
  [ -n "$missing" ] || break
  if [ "$(date +%s)" -ge "$deadline" ]; then
    # shellcheck disable=SC2086  # a list of words
    echo "gave up after $MLGEN_TIMEOUT s; still missing: $(few $missing)" >&2
    exit 75
  fi
  if [ "$missing" != "$told" ]; then
    # shellcheck disable=SC2086
    echo "waiting for $(few $missing)"
    told=$missing
  fi
  # Asking for a name too often before it exists is what delays it: resolvers remember a "no".
  sleep "$pause"
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done
echo "all peers are there"
