#!/bin/sh
# Brings kubectl to the launcher, whose image need not have it, once commands can be run in the
# workers' pods.
#
#   MLGEN_TARGET     the folder for kubectl
#   MLGEN_PODS       the pods to wait for: worker-[0-3] stands for four, worker-0 for one
#   MLGEN_CONTAINER  the container of theirs that must have started
#   MLGEN_TIMEOUT    seconds
#
# Ends with 75 (try again later, as sysexits.h has it) when time is up.
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

started() {  # PODS...: name=true for those that have; one that is not there is no error
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
    echo "gave up after $MLGEN_TIMEOUT s; still not started:$missing" >&2
    exit 75
  fi
  [ "$missing" = "$told" ] || echo "waiting for$missing"
  told=$missing
  sleep "$pause"
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done
[ -z "$MLGEN_PODS" ] || echo "all workers have started"
