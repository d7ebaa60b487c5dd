#!/bin/sh
# Replaces rsh for mpirun: runs a command in a worker's pod with kubectl, as `rsh HOST COMMAND...`.
#
#   MLGEN_CONTAINER  container of the pod that must have started before; not set: do not wait
#   MLGEN_TIMEOUT    seconds to wait, then exits with 75 (EX_TEMPFAIL); not set: as long as it takes
#
# Reports a container that has not started within ten seconds, and again once a minute.
host=$1
shift
kubectl=/opt/kube/kubectl

started() {
  state="{.status.containerStatuses[?(@.name==\"$MLGEN_CONTAINER\")].started}"
  [ "$("$kubectl" get pod --ignore-not-found "$host" -o "jsonpath=$state")" = true ]
}

begin=$(date +%s) told_at=''
until [ -z "${MLGEN_CONTAINER-}" ] || started; do
  now=$(date +%s)
  elapsed=$((now - begin))
  if [ -n "${MLGEN_TIMEOUT-}" ] && [ "$elapsed" -ge "$MLGEN_TIMEOUT" ]; then
    echo "timed out after ${MLGEN_TIMEOUT}s waiting for $host to start" >&2
    exit 75
  fi
  if [ "$elapsed" -ge 10 ] && [ $((now - ${told_at:-0})) -ge 60 ]; then
    echo "waiting for $host to start" >&2
    told_at=$now
  fi
  if [ "$elapsed" -lt 4 ]; then sleep 0.5 2>/dev/null || sleep 1
  elif [ "$elapsed" -lt 40 ]; then sleep $((1 + elapsed / 10))
  else sleep 5
  fi
done
exec "$kubectl" exec "$host" -- /bin/sh -c "$*"
