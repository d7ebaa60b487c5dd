#!/bin/sh
# The supervisor. Waits until training ends, ends it early if another role fails, records the
# conditions, and cleans up according to cleanPodPolicy. Its exit status does not reflect the result
# of the training. It accesses objects only by name; watch.sh documents the variables for them.
set -u
# shellcheck source=watch.sh
. "${0%/*}/watch.sh"

# Makes the Job controller fail the deciding Job, because that Job determines the outcome: the
# deadline is already exceeded.
end_training() {
  kubectl patch "$decides" --type=merge --patch '{"spec":{"activeDeadlineSeconds":1}}'
}

steadily condition Created True JobCreated "$MLGEN_JOB is created"
cause='' seen=''
while :; do
  if look; then
    replicas
    if [ -n "$decides" ]; then
      seen=yes
      # A replica may start and succeed between two polls.
      [ "$((ready + succeeded))" -eq 0 ] || condition Running True JobRunning "$decides is running"
      [ -z "$end" ] || break
      if [ -z "$cause" ] && [ -n "$culprit" ] && end_training; then
        cause=$culprit
        echo "ending training, because another Job failed: $cause"
      fi
    elif [ -n "$seen" ]; then
      end=Failed reason=JobDeleted message='the deciding Job was deleted by hand'
      break
    fi
  fi
  sleep "$MLGEN_POLL"
done

if [ "$end" = Complete ]; then
  steadily condition Succeeded True "$reason" "$message"
elif [ -n "$cause" ]; then
  name=${cause%% *} cause=${cause#* }
  steadily condition Failed True "${cause%% *}" "$name: ${cause#* }"
else
  steadily condition Failed True "$reason" "$message"
fi
echo "training ended: $end, $reason: $message"
steadily clean "$MLGEN_CLEAN_POD_POLICY" || exit
[ "$MLGEN_CLEAN_POD_POLICY" = None ] || replicas freed
