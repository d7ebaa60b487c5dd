#!/bin/sh
# Functions shared by attempt.sh, clean.sh and supervise.sh: reading the state of a job, recording
# its conditions in the ConfigMap JOB-status, and cleaning up.
#
#   MLGEN_JOB               name of the job
#   MLGEN_DECIDES           name of the deciding Job; if empty, found by label
#   MLGEN_WORKLOADS         the other job/NAME and statefulset/NAME; if empty, found by label
#   MLGEN_OBJECTS           other objects that cleanPodPolicy All deletes, such as service/NAME;
#                           if MLGEN_WORKLOADS is empty, found by label
#   MLGEN_CLEAN_POD_POLICY  All, Running or None
#   MLGEN_POLL              polling interval in seconds
#   TERMINATION_LOG         termination message file of the container
: "${MLGEN_DECIDES:=}" "${MLGEN_WORKLOADS:=}" "${MLGEN_OBJECTS:=}" "${MLGEN_POLL:=10}"
: "${MLGEN_CLEAN_POD_POLICY:=None}" "${TERMINATION_LOG:=/dev/termination-log}"

selector="mlgen.dev/job=$MLGEN_JOB"
status_map="configmap/$MLGEN_JOB-status"
nl='
'

# One line per Job and StatefulSet. The fields after the counts are set only for a finished Job.
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

# look: reads the current state. Fails if the API server does not answer.
#
#   $state    one line per Job and StatefulSet, as above
#   $decides  the deciding Job as job/NAME, or empty; its fields are
#             $owner $judged $completions $ready $succeeded $end $reason $message
#   $culprit  another failed Job whose failure is not tolerated: job/NAME REASON MESSAGE
#   $starting yes if any replica is neither ready nor succeeded
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
  # shellcheck disable=SC2034  # the scripts that source this one use the variables
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

# plain TEXT: removes the characters that JSON would have to escape.
plain() {
  printf %s "$1" | tr '\n\t' '  ' | tr -d '"\134'
}

# record KEY VALUE...: writes into the data of JOB-status.
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

# recorded: prints the data of JOB-status, one line per key.
recorded() {
  kubectl get "$status_map" --output "go-template=$data_lines"
}

# condition TYPE STATUS REASON MESSAGE: records a condition as a TFJob has it. Only one of Running,
# Restarting, Succeeded and Failed is True at a time. An unchanged condition keeps its time.
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

# replicas [FREED]: records the active replicas of each role and, for Jobs, the succeeded and failed
# ones. With FREED, no replica counts as active. Writes only if a count has changed.
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

# steadily COMMAND...: retries the command while the API server may be unavailable.
steadily() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt 30 ] || return 1
    sleep "$MLGEN_POLL"
  done
}

# clean POLICY: cleans up. JOB-status and claims are always kept.
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
    # The Deployment of TensorBoard is kept, so its Service must be kept too.
    set -- job,statefulset,service,configmap \
      --selector "$selector,app.kubernetes.io/component!=tensorboard"
  fi
  kubectl delete "$@" --ignore-not-found --wait=false
}

# A suspended Job keeps its finished pods and their logs. A StatefulSet can only be scaled to 0.
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
