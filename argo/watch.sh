#!/bin/sh
# What attempt.sh, clean.sh and supervise.sh share: how a job is looked at, how its conditions are
# recorded in the ConfigMap JOB-status, and how what still runs is freed.
#
#   MLGEN_JOB               the job's name
#   MLGEN_DECIDES           the deciding Job's name; where empty, labels say which
#   MLGEN_WORKLOADS         the other job/NAME and statefulset/NAME; where empty, found by label
#   MLGEN_OBJECTS           what cleanPodPolicy All deletes besides them, such as service/NAME;
#                           where MLGEN_WORKLOADS is empty, found by label
#   MLGEN_CLEAN_POD_POLICY  All, Running or None
#   MLGEN_POLL              seconds between two looks
#   TERMINATION_LOG         the file that Kubernetes reads when the container has ended
: "${MLGEN_DECIDES:=}" "${MLGEN_WORKLOADS:=}" "${MLGEN_OBJECTS:=}" "${MLGEN_POLL:=10}"
: "${MLGEN_CLEAN_POD_POLICY:=None}" "${TERMINATION_LOG:=/dev/termination-log}"

selector="mlgen.dev/job=$MLGEN_JOB"
status_map="configmap/$MLGEN_JOB-status"
nl='
'

# One line for each Job and StatefulSet. Jobs count what they have; a StatefulSet has no end.
workloads='{{define "one" -}}
{{if eq .kind "Job"}}job{{else}}statefulset{{end}}/{{.metadata.name}}
{{- with index .metadata.labels "mlgen.dev/role"}} {{.}}{{else}} -{{end}}
{{- with index .metadata.labels "mlgen.dev/decides"}} {{.}}
{{- else}}{{with index .metadata.labels "mlgen.dev/tolerates-failure"}} tolerated
{{- else}} false{{end}}{{end}}
{{- with .metadata.ownerReferences}} {{(index . 0).uid}}{{else}} -{{end}}
{{- if .metadata.annotations}}{{with index .metadata.annotations "mlgen.dev/judged"}} {{.}}
{{- else}} -{{end}}{{else}} -{{end}}
{{- if eq .kind "Job"}}{{with .spec.parallelism}} {{.}}{{else}} 0{{end}}
{{- with .spec.completions}} {{.}}{{else}} 0{{end}}
{{- with .status.active}} {{.}}{{else}} 0{{end}}
{{- with .status.ready}} {{.}}{{else}} 0{{end}}
{{- else}}{{with .spec.replicas}} {{.}}{{else}} 0{{end}} 0
{{- with .status.replicas}} {{.}}{{else}} 0{{end}}
{{- with .status.readyReplicas}} {{.}}{{else}} 0{{end}}
{{- end}}
{{- with .status.succeeded}} {{.}}{{else}} 0{{end}}
{{- with .status.failed}} {{.}}{{else}} 0{{end}}
{{- range .status.conditions}}{{if eq .status "True"}}
{{- if or (eq .type "Complete") (eq .type "Failed")}} {{.type}} {{.reason}} {{.message}}
{{- end}}{{end}}{{end}}
{{end -}}
{{if eq .kind "List"}}{{range .items}}{{template "one" .}}{{end}}
{{- else}}{{template "one" .}}{{end}}'

# look: what there is now. Fails when the API does not answer.
#
#   $state    a line for each Job and StatefulSet, as above
#   $decides  the deciding Job, job/NAME, or nothing, and of it:
#   $owner $judged $completions $ready $succeeded $end $reason $message
#   $culprit  another Job that failed, and whose role may not: job/NAME REASON MESSAGE
#   $starting whether a replica of any role is not ready, and has not succeeded
look() {
  if [ -n "$MLGEN_WORKLOADS" ]; then
    # shellcheck disable=SC2086  # a list of words
    set -- "job/$MLGEN_DECIDES" $MLGEN_WORKLOADS --ignore-not-found
  else
    set -- job,statefulset --selector "$selector"
  fi
  state=$(kubectl get "$@" --output "go-template=$workloads") || return
  decides='' owner='' judged='' completions='' ready=0 succeeded=0 end='' reason='' message=''
  culprit='' starting=''
  # shellcheck disable=SC2034  # what is found is for the scripts that read this one
  while read -r name _ deciding uid mark wanted all _ up through _ type why text; do
    [ -n "$name" ] || continue
    [ "$((up + through))" -ge "$wanted" ] || starting=yes
    [ "$name" != "job/$MLGEN_DECIDES" ] || deciding=true
    if [ "$deciding" = true ]; then
      decides=$name owner=$uid judged=$mark completions=$all ready=$up succeeded=$through
      end=$type reason=$why message=$text
    elif [ "$type" = Failed ] && [ "$deciding" != tolerated ]; then
      culprit=${culprit:-"$name $why $text"}
    fi
  done <<END
$state
END
}

# plain TEXT: without what JSON would have to escape.
plain() {
  printf %s "$1" | tr '\n\t' '  ' | tr -d '"\134'
}

# record KEY VALUE...: into the data of JOB-status.
record() {
  data=''
  while [ $# -gt 0 ]; do
    data="$data,\"$1\":\"$2\""
    shift 2
  done
  kubectl patch "$status_map" --type=merge --patch "{\"data\":{${data#,}}}" >/dev/null
}

# shellcheck disable=SC2016  # variables of the template
data_lines='{{range $key, $value := .data}}{{$key}} {{$value}}{{"\n"}}{{end}}'

# recorded: the data of JOB-status, a line for each key.
recorded() {
  kubectl get "$status_map" --output "go-template=$data_lines"
}

# condition TYPE STATUS REASON MESSAGE: as a TFJob has them. Running and Restarting are never both
# True, and neither is when Succeeded or Failed is. What holds already keeps its time.
condition() {
  set -- "$1" "$2" "$3" "$(plain "$4")"
  so_far=$nl$(recorded)$nl || return
  case $so_far in
    *"$nl$1 $2 "????????????????????" $3: $4$nl"*) return 0 ;;
  esac
  now=$(date -u +%Y-%m-%dT%H:%M:%SZ) others='' why="$now $3: $4"
  set -- "$1" "$2"
  case "$1 $2" in
    "Created True") set -- "$@" startTime "$now" ;;
    "Running True") others=Restarting ;;
    "Restarting True") others=Running ;;
    "Succeeded True" | "Failed True")
      others="Running Restarting"
      set -- "$@" completionTime "$now"
      ;;
  esac
  for other in $others; do
    case $so_far in
      *"$nl$other True "*) set -- "$@" "$other" "False $why" ;;
    esac
  done
  type=$1 holds=$2
  shift 2
  record "$type" "$holds $why" "$@"
}

# replicas [FREED]: how many of each role are active, and of Jobs, how many succeeded and failed.
# When the rest has been FREED none is active. Only what has changed is written.
replicas() {
  counts=$(echo "$state" | awk -v freed="${1:-}" '
    NF { kind[$2] = $1; active[$2] += freed ? 0 : $8; succeeded[$2] += $10; failed[$2] += $11 }
    END {
      for (role in kind) {
        printf "replicas.%s active %d", role, active[role]
        if (kind[role] ~ /^job/) printf ", succeeded %d, failed %d", succeeded[role], failed[role]
        print ""
      }
    }' | sort)
  [ "$counts" != "${counted:-}" ] || return 0
  set --
  while read -r key text; do
    [ -z "$key" ] || set -- "$@" "$key" "$text"
  done <<END
$counts
END
  [ $# -eq 0 ] || record "$@" || return
  counted=$counts
}

# steadily COMMAND...: until it succeeds, as long as the API may be away for.
steadily() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt 30 ] || return 1
    sleep "$MLGEN_POLL"
  done
}

# clean POLICY: free what still runs. JOB-status and claims always stay.
clean() {
  case $1 in
    All) delete_all ;;
    Running) stop_running ;;
  esac
}

delete_all() {
  if [ -n "$MLGEN_WORKLOADS" ]; then
    # shellcheck disable=SC2086  # lists of words
    set -- "job/$MLGEN_DECIDES" $MLGEN_WORKLOADS $MLGEN_OBJECTS
  else
    # TensorBoard stays until it is deleted, so that its Service does too.
    set -- job,statefulset,service,configmap \
      --selector "$selector,app.kubernetes.io/component!=tensorboard"
  fi
  kubectl delete "$@" --ignore-not-found --wait=false
}

# A suspended Job keeps the pods that have finished, with their logs; a StatefulSet can be emptied.
stop_running() {
  look || return
  failures=''
  while read -r name _ _ _ _ _ _ active _; do
    case $name in
      statefulset/*) patch='{"spec":{"replicas":0}}' ;;
      *) patch='{"spec":{"suspend":true}}' ;;
    esac
    [ "${active:-0}" -eq 0 ] || kubectl patch "$name" --type=merge --patch "$patch" || failures=yes
  done <<END
$state
END
  [ -z "$failures" ]
}
