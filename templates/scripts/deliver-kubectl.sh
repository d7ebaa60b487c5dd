#!/bin/sh
# Copies kubectl to the launcher, whose image may not include it, and waits until commands can be
# run in the workers' pods.
#
#   MLGEN_TARGET     target directory for kubectl
#   MLGEN_PODS       pods to wait for; worker-[0-3] stands for four pods, worker-0 for one
#   MLGEN_CONTAINER  container in these pods that must have started
#   MLGEN_TIMEOUT    seconds to wait; not set: as long as it takes
#
# Reports the missing pods at first, on every change, and at least once a minute.
# Exits with 75 (EX_TEMPFAIL in sysexits.h) on timeout.
set -uf

cp "$(command -v kubectl)" "$MLGEN_TARGET/kubectl" || exit

names() {  # RANGE
  case $1 in
    *\[*-*\])
      range=${1#*\[}
      range=${range%\]}
      i=${range%-*}
      while [ "$i" -le "${range#*-}" ]; do
        echo "${1%%\[*}$i"
        i=$((i + 1))
      done
      ;;
    *) echo "$1" ;;
  esac
}

started() {  # PODS...: prints name=true for each that has started; ignores pods that do not exist
  state="{.metadata.name}={.status.containerStatuses[?(@.name==\"$MLGEN_CONTAINER\")].started}"
  kubectl get pod --ignore-not-found "$@" -o "jsonpath={range .items[*]}$state {end}$state"
}

start=$(date +%s)
missing=$(names "$MLGEN_PODS") told=''
while [ -n "$missing" ]; do
  # shellcheck disable=SC2086  # a list of words
  up=$(started $missing)
  pending=$missing missing=''
  for pod in $pending; do
    case " $up " in
      *" $pod=true "*) ;;
      *) missing="$missing $pod" ;;
    esac
  done
  [ -n "$missing" ] || break
  now=$(date +%s)
  if [ -n "${MLGEN_TIMEOUT-}" ] && [ "$now" -ge $((start + MLGEN_TIMEOUT)) ]; then
    echo "timed out after ${MLGEN_TIMEOUT}s waiting for workers to start:$missing" >&2
    exit 75
  fi
  if [ "$missing" != "$told" ] || [ $((now - told_at)) -ge 60 ]; then
    echo "waiting for workers to start:$missing"
    told=$missing told_at=$now
  fi
  elapsed=$((now - start))
  if [ "$elapsed" -lt 4 ]; then sleep 0.5 2>/dev/null || sleep 1
  elif [ "$elapsed" -lt 40 ]; then sleep $((1 + elapsed / 10))
  else sleep 5
  fi
done
[ -z "$MLGEN_PODS" ] || echo "all workers have started"
