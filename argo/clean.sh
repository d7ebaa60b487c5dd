#!/bin/sh
# The exit hook of the step: runs once, whatever happened, records how training has ended, and frees
# what still runs.
#
#   STATUS  of the step: Succeeded, Failed or Error
#
# watch.sh says what else it reads.
set -u
# shellcheck source=watch.sh
. "${0%/*}/watch.sh"

# The condition tells why training failed, where the last attempt knew.
record_end() {
  so_far=$nl$(recorded)$nl || return
  case $STATUS$so_far in
    *"${nl}Failed True "*) ;;
    Succeeded*) condition Succeeded True JobSucceeded "$decides has succeeded" ;;
    *"${nl}Restarting True "*)
      cause=${so_far#*"${nl}Restarting True "*: }
      condition Failed True JobFailed "no attempt is left; ${cause%%"$nl"*}"
      ;;
    *) condition Failed True JobStopped "the step has ended before the training: $STATUS" ;;
  esac
}

# Without rights nothing was submitted, and to ask again is of no use.
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

# cleanPodPolicy None keeps the pods of a job that has ended; one that was stopped must not run on.
policy=$MLGEN_CLEAN_POD_POLICY
if [ -z "$end" ] && [ "$policy" = None ]; then policy=Running; fi
steadily clean "$policy" || exit
[ "$policy" = None ] || steadily replicas freed
