#!/bin/sh
# The exit hook of the step. Runs once, whatever the outcome: records the result of the training and
# cleans up what is still running.
#
#   STATUS  status of the step: Succeeded, Failed or Error
#
# watch.sh documents the other variables.
set -u
# shellcheck source=watch.sh
. "${0%/*}/watch.sh"

# Keeps the reason of the failure if the last attempt recorded one.
record_end() {
  so_far=$nl$(recorded)$nl || return
  case $STATUS$so_far in
    *"${nl}Failed True "*) ;;
    Succeeded*) condition Succeeded True JobSucceeded "$decides has succeeded" ;;
    *"${nl}Restarting True "*)
      cause=${so_far#*"${nl}Restarting True "*: }
      condition Failed True JobFailed "no attempts left; ${cause%%"$nl"*}"
      ;;
    *) condition Failed True JobStopped "the step ended ($STATUS) before training finished" ;;
  esac
}

# Without permissions nothing was submitted, and retrying does not help.
decides='' end=''
forbidden=$(kubectl get job,statefulset --selector "$selector" --output name 2>&1)
case $forbidden in
  *orbidden*)
    echo "$forbidden" >&2
    record_end
    exit 1
    ;;
esac
steadily look
steadily record_end

# cleanPodPolicy None keeps the pods of a finished job, but a stopped job must not keep running.
policy=$MLGEN_CLEAN_POD_POLICY
if [ -z "$end" ] && [ "$policy" = None ]; then policy=Running; fi
steadily clean "$policy" || exit
[ "$policy" = None ] || steadily replicas freed
