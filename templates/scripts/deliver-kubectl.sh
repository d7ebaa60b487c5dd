#!/bin/sh
# Copies kubectl to the launcher, whose image may not include it, and waits until commands can be
# run in the workers' pods.
#
#   MLGEN_TARGET     target directory for kubectl
#   MLGEN_PODS       pods to wait for; worker-[0-3] stands for four pods, worker-0 for one
#   MLGEN_CONTAINER  container in these pods that must have started
#   MLGEN_TIMEOUT    seconds to wait
#
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

deadline=$(($(date +%s) + MLGEN_TIMEOUT))
missing=$(names "$MLGEN_PODS") told='' pause=1
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
  if [ "$(date +%s)" -ge "$deadline" ]; then
    echo "timed out after ${MLGEN_TIMEOUT}s waiting for workers to start:$missing" >&2
    exit 75
  fi
  [ "$missing" = "$told" ] || echo "waiting for workers to start:$missing"
  told=$missing
  sleep "$pause"
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done
[ -z "$MLGEN_PODS" ] || echo "all workers have started"
