#!/bin/sh
# The supervisor: waits for the end of training, ends it when another role has failed, records the
# conditions, and frees what still runs by cleanPodPolicy. Its own exit status says nothing of
# training. It asks for objects by name alone; watch.sh says which variables name them.
set -u
# shellcheck source=watch.sh
. "${0%/*}/watch.sh"

# So that the end of training stays the end of the deciding Job, it is the Job controller that ends
# it: the deadline of this Job has passed.
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
      # What has succeeded has run, even where that was over before anybody looked.
      [ "$((ready + succeeded))" -eq 0 ] || condition Running True JobRunning "$decides is running"
      [ -z "$end" ] || break
      if [ -z "$cause" ] && [ -n "$culprit" ] && end_training; then
        cause=$culprit
        echo "training ends: $cause"
      fi
    elif [ -n "$seen" ]; then
      end=Failed reason=JobDeleted message='deleted by hand'
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
echo "training has ended: $end, $reason: $message"
steadily clean "$MLGEN_CLEAN_POD_POLICY" || exit
[ "$MLGEN_CLEAN_POD_POLICY" = None ] || replicas freed
