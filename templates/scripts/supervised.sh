#!/bin/sh
# Connects a pod with the supervisor of its job. Runs as a sidecar in busybox.
#
#   MLGEN_SUPERVISOR  URL of the supervisor
#   MLGEN_FILE        a file of the training program: each change is reported. Optional.
#   MLGEN_PEERS       peers to wait for before each start, as in wait-for-peers.sh. Optional.
#   /mlgen/run        a volume, if the job restarts in place. It keeps the number of the attempt
#                     while all containers of the pod restart. Optional.
#
# The exit code 75 restarts all containers of the pod (restartPolicyRules).

number=/mlgen/run/attempt
address=${MLGEN_SUPERVISOR#http://}

# A new supervisor has another address. wget alone would try the old address for two minutes.
request() {  # TIMEOUT ARGUMENTS...
  nc -z -w 3 "${address%:*}" "${address##*:}" > /dev/null 2>&1 || return 1
  wget -q -O - --header "Authorization: Bearer $(cat /mlgen/pod/uid)" -T "$@" 2> /dev/null
}

changed() {
  stat -c '%Y %s' "$MLGEN_FILE" 2> /dev/null
}

post() {
  request 10 --post-data "$1" "$MLGEN_SUPERVISOR/progress"
}

# Report each change of the file. A file from an earlier attempt is not a report.
report() {
  last=$(changed)
  while sleep 5; do
    now=$(changed)
    [ "$now" != "$last" ] || continue
    text=$(head -c 32768 "$MLGEN_FILE")
    case $text in
      '{'*) ;;
      *) text='{}' ;;
    esac
    # Text that is rejected still shows that the program runs. Without an answer, try again.
    if post "$text" || post '{}'; then
      last=$now
    fi
  done
}

# Wait for the start of the next attempt if this pod has run before, then until it must restart.
follow() {
  query=attempt
  [ ! -e "$number" ] || query=after
  attempt=$(cat "$number" 2> /dev/null)
  [ "$query" = after ] || start ""
  while :; do
    answer=$(request 150 "$MLGEN_SUPERVISOR/attempt?$query=$attempt") || sleep 1
    case $answer in
      restart) exit 75 ;;
      start\ *)
        query=attempt
        start "${answer#start }"
        ;;
      is\ *)
        attempt=${answer#is }
        echo "$attempt" > "$number"
        ;;
    esac
  done
}

# Let the other containers start. The kubelet creates an empty log for each run of a container.
start() {
  attempt=$1
  echo "$attempt" > "$number"
  [ -z "$MLGEN_PEERS" ] || sh /mlgen/scripts/wait-for-peers.sh
  echo started > /dev/termination-log
}

# A shell runs a trap only while it waits for a background process.
trap 'exit 0' TERM
[ -z "$MLGEN_FILE" ] || report &
if [ -d /mlgen/run ]; then
  follow &
fi
wait $!
