#!/bin/sh
# Submits a Ray job. If an earlier pod of the same Job has submitted it, follows that submission.
#
#   MLGEN_SUBMISSION  the ID of the submission, which is the same in all pods of the Job
#   MLGEN_NODES       the number of nodes that must have joined the cluster before, if set
#   RAY_ADDRESS       the address of the head's dashboard
#   "$@"              `ray job submit` and its arguments
set -u
id=$MLGEN_SUBMISSION
shift 3

# Prints the number of nodes whose agents report to the dashboard. Ray fails to submit a job while
# there is none.
count='
import json, os, urllib.request
token = os.environ.get("RAY_AUTH_TOKEN")
headers = {"Authorization": "Bearer " + token} if token else {}
url = os.environ["RAY_ADDRESS"] + "/nodes?view=summary"
with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as response:
    nodes = json.load(response)["data"]["summary"]
print(sum(node["raylet"].get("state") == "ALIVE" for node in nodes))
'
tries=0
while :; do
  found=$(python3 -c "$count" 2>&1 | tail -n 1)
  [ "$found" -ge "${MLGEN_NODES:-1}" ] 2>/dev/null && break
  [ $((tries % 30)) -gt 0 ] || echo "waiting for ${MLGEN_NODES:-1} nodes of the Ray cluster: $found"
  tries=$((tries + 1))
  # An old version of Ray may not have this list. Without MLGEN_NODES, Ray decides after a minute.
  [ -n "${MLGEN_NODES:-}" ] || [ "$tries" -lt 30 ] || break
  sleep 2
done

ray job submit --submission-id "$id" "$@" && exit
# Ray rejects an ID that exists. A failed submission is deleted, so that a retry can submit it again.
while :; do
  case $(ray job status "$id" 2>&1) in
    *"'$id' succeeded"*) exit 0 ;;
    *"'$id' failed"* | *"'$id' was stopped"*)
      ray job delete "$id"
      exit 1
      ;;
    *"Status for job '$id'"*)
      echo "following the submission of an earlier pod: $id"
      ray job logs --follow "$id"
      sleep 1
      ;;
    *) exit 1 ;;
  esac
done
