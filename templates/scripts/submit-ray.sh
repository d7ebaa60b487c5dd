#!/bin/sh
# Submits a Ray job. If an earlier pod of the same Job has submitted it, follows that submission.
#
#   MLGEN_SUBMISSION  the ID of the submission, which is the same in all pods of the Job
#   "$@"              `ray job submit` and its arguments
set -u
id=$MLGEN_SUBMISSION
shift 3

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
