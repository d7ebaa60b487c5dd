#!/bin/sh
# Prints host:slots for each worker whose name resolves now. horovodrun calls it repeatedly.
#
# Each line of elastic-hosts, next to this script, has the line to print and the name to resolve.
while read -r line host; do
  if getent hosts "$host" >/dev/null; then echo "$line"; fi
done <"${0%/*}/elastic-hosts"
