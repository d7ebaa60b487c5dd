#!/bin/sh
# Prints host:slots for each worker if its name resolves now. horovodrun calls it repeatedly.
#
# Each line of elastic-hosts, next to this script, contains the line to print and the host name.
while read -r line host; do
  if getent hosts "$host" >/dev/null; then echo "$line"; fi
done <"${0%/*}/elastic-hosts"
