#!/bin/sh
# One attempt to run a job, as a step of Argo Workflows. Submits the job, watches it until it ends,
# and exits with its exit code. The last line tells Argo whether to retry the step: "training
# permanent: ..." or "training retryable: ...". Without such a line, the script itself failed (exit
# code 200) or was killed; the next attempt then resumes watching the running job.
#
#   MLGEN_MANIFESTS   file with the job's objects
#   MLGEN_CONFIG_MAP  ConfigMap that the file comes from, for messages
#   MLGEN_RETRYABLE   exit codes to retry; if empty, 128 to 255
#   MLGEN_RETRY_OOM   true to retry after a container was OOM-killed
#   WORKFLOW          name of the Workflow that owns the objects
#   WORKFLOW_UID      UID of the Workflow
#   ATTEMPT           number of the attempt, starting at 0
#
# watch.sh documents the other variables.
set -u
# shellcheck source=watch.sh
. "${0%/*}/watch.sh"
: "${MLGEN_RETRYABLE:=}" "${MLGEN_RETRY_OOM:=false}"

verdict=''
trap '[ -n "$verdict" ] || exit 200' EXIT

# finish CODE permanent|retryable REASON TEXT
finish() {
  code=$1 verdict=$2 text=$(plain "$4" | cut -c 1-1000)
  echo "training $verdict: $text"
  printf %s "training $verdict: $text" >"$TERMINATION_LOG"
  if [ "$verdict" = permanent ]; then
    condition Failed True "$3" "$text"
  else
    condition Restarting True "$3" "$text"
    # The next attempt restarts a judged Job; it would only resume watching an unjudged one.
    [ -z "$decides" ] || kubectl annotate "$decides" mlgen.dev/judged=true >/dev/null
  fi
  exit "$code"
}

# JSON that makes the Workflow the owner of an object.
owner_kind='"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow"'
owners="\"ownerReferences\":[{$owner_kind,\"name\":\"$WORKFLOW\",\"uid\":\"$WORKFLOW_UID\"}]"

# ask COMMAND...: stores the output in $answer. A permanent error ends the attempt; any other error
# is retried, because the API server may be unavailable for a while.
ask() {
  tries=0
  until answer=$("$@" 2>&1); do
    echo "$answer"
    case $answer in
      *"exceeded quota"*) ;;
      *orbidden* | *Invalid* | *"is invalid"* | *BadRequest* | *NotFound* | *MethodNotAllowed* | \
        *"error parsing"* | *"error validating"* | *"unable to decode"* | *"unknown field"* | \
        *"no matches for kind"* | *"no objects passed"* | *"have a resource type"* | \
        *"typed patch object"* | *"denied the request"* | *"too large"*)
        error=$(printf '%s\n' "$answer" | grep -v '^Warning' | grep -i error)
        finish 1 permanent JobNotSubmitted "$1 $2: ${error:-$answer}"
        ;;
    esac
    tries=$((tries + 1))
    [ "$tries" -lt 30 ] || exit
    sleep "$MLGEN_POLL"
  done
}

# Discards the status of an earlier Workflow.
prepare_status() {
  ask kubectl get "$status_map" --ignore-not-found --output \
    'go-template={{range .metadata.ownerReferences}}{{.uid}}{{end}}'
  [ "$answer" != "$WORKFLOW_UID" ] || return 0
  ask kubectl delete "$status_map" --ignore-not-found
  ask create_status
}

create_status() {
  kubectl create --filename - <<END
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"$MLGEN_JOB-status",$owners,"labels":{
"app.kubernetes.io/part-of":"$MLGEN_JOB","app.kubernetes.io/managed-by":"mlgen"}}}
END
}

# Waits until the last pod is gone, so that the new pods cannot join the old rendezvous.
submit() {
  ask kubectl delete job,statefulset --selector "$selector" --cascade=foreground --timeout=15m
  ask kubectl apply --server-side --force-conflicts --field-manager=mlgen \
    --filename "$MLGEN_MANIFESTS"
  echo "$answer"
}

# Deleting the Workflow deletes the job, except for its claims, because they hold checkpoints.
own_objects() {
  ask kubectl get --filename "$MLGEN_MANIFESTS" --ignore-not-found --output name
  for object in $answer; do
    case $object in
      persistentvolume*) ;;
      */*) ask kubectl patch "$object" --type=merge --patch "{\"metadata\":{$owners}}" ;;
    esac
  done
}

# One line per training container and init container:
#   POD PHASE Disrupted|- main|init TIME CODE REASON RESTARTS WAITING TIME CODE
# The last TIME and CODE are those of the previous run of a container that restarts in its pod.
# shellcheck disable=SC2016  # variables of the template
containers='{{define "status" -}}
{{with .state.terminated}} {{or .finishedAt "-"}} {{.exitCode}} {{or .reason "Error"}}
{{- else}} - 0 -{{end}}
{{- with .restartCount}} {{.}}{{else}} 0{{end}}
{{- with .state.waiting}} {{or .reason "-"}}{{else}} -{{end}}
{{- with .lastState.terminated}} {{or .finishedAt "-"}} {{.exitCode}}{{else}} - 0{{end}}
{{end -}}
{{range .items}}{{$disrupted := "-"}}
{{- range .status.conditions}}{{if and (eq .type "DisruptionTarget") (eq .status "True")}}
{{- $disrupted = "Disrupted"}}{{end}}{{end}}
{{- $pod := printf "%s %s %s" .metadata.name .status.phase $disrupted}}
{{- $main := (index .spec.containers 0).name}}
{{- range .status.initContainerStatuses}}{{$pod}} init{{template "status" .}}{{end}}
{{- range .status.containerStatuses}}
{{- if eq .name $main}}{{$pod}} main{{template "status" .}}{{end}}{{end}}
{{- end}}'

# look_at_pods: reads the containers into $pods. When a Job fails whose containers restart in place,
# its pods are deleted, so $restarts keeps the last known restarts: TIME CODE REASON POD KIND.
look_at_pods() {
  pods=$(kubectl get pods --selector "$selector" --output "go-template=$containers") || return
  seen=$(echo "$pods" | awk '$11 > 0 { print $10, $11, "Error", $1, $4 }' | sort)
  restarts=${seen:-$restarts}
}

# give_up_on_crashes: fails the job if a server crash-loops; the other roles would wait forever.
give_up_on_crashes() {
  looping=$(echo "$pods" | awk '$9 == "CrashLoopBackOff" && $8 >= 5 { print $1, $8, $11 }')
  while read -r pod count code; do
    case $state in
      *"statefulset/${pod%-*} "*)
        # A server must not exit at all, so exit code 0 is a failure too.
        finish "$((code > 0 ? code : 1))" permanent CrashLoopBackOff \
          "$pod crashed $count times, last with exit code $code"
        ;;
    esac
  done <<END
$looping
END
}

retryable() {  # CODE
  case " $MLGEN_RETRYABLE " in
    "  ") [ "$1" -ge 128 ] ;;
    *" $1 "*) ;;
    *) return 1 ;;
  esac
}

# judge JOB REASON MESSAGE: ends the attempt with the exit code of the container that failed first.
# On a tie the higher code wins, because peers of a killed pod often exit with 1 in the same second.
judge() {
  first=$(echo "$pods" | awk '
    $2 == "Failed" && $6 > 0 { print $5, $6, $3 == "-" ? $7 : $3, $1, $4 }' |
    sort -k 1,1 -k 2,2nr | head -n 1)
  case $2/$first in
    DeadlineExceeded/*) finish 124 permanent "$2" "$1: $3" ;;
    BackoffLimitExceeded/) first=$(echo "$restarts" | tail -n 1) ;;
  esac
  lost="a pod of $1 was deleted, drained or preempted ($2)"
  # shellcheck disable=SC2086  # words
  set -- $first
  # A pod that was deleted or whose node is lost leaves no exit code, and the exit code of a
  # disrupted pod says nothing about the training.
  if [ $# -eq 0 ] || [ "$3" = Disrupted ]; then finish 143 retryable JobDisrupted "$lost"; fi
  text="$4 exited with $2"
  case $5/$3 in
    # Init containers wait for peers or fetch code, and may succeed on the next attempt.
    init/*) finish "$2" retryable JobNotStarted "an init container of $text" ;;
    main/OOMKilled)
      text="$text, OOMKilled"
      if [ "$MLGEN_RETRY_OOM" = true ]; then finish "$2" retryable OOMKilled "$text"; fi
      finish "$2" permanent OOMKilled "$text"
      ;;
  esac
  if retryable "$2"; then finish "$2" retryable JobFailed "$text"; fi
  finish "$2" permanent JobFailed "$text"
}

command -v kubectl >/dev/null || {
  echo "this image has no kubectl; set the parameter image to an image that has it" >&2
  exit
}
pods='' restarts='' decides=''
prepare_status
if [ ! -s "$MLGEN_MANIFESTS" ]; then
  finish 1 permanent JobNotSubmitted \
    "ConfigMap $MLGEN_CONFIG_MAP not found, or it has no key ${MLGEN_MANIFESTS##*/}"
fi
ask kubectl get job,statefulset,pod --selector "$selector" --output name
steadily look || exit
if [ "$owner/$judged" = "$WORKFLOW_UID/-" ]; then
  echo "resuming watch of $decides"
else
  [ "$ATTEMPT" -eq 0 ] || case $(recorded) in
    *"Restarting True"*) ;;
    *) condition Restarting True JobRestarting "starting attempt $((ATTEMPT + 1))" ;;
  esac
  submit
fi
own_objects
condition Created True JobCreated "$MLGEN_JOB is created"
steadily look || exit
[ -n "$decides" ] || finish 1 permanent JobNotSubmitted \
  "no Job in ConfigMap $MLGEN_CONFIG_MAP has the labels $selector,mlgen.dev/decides=true"

while sleep "$MLGEN_POLL"; do
  look || continue
  replicas
  [ -n "$decides" ] || finish 1 permanent JobDeleted "the deciding Job was deleted by hand"
  # A replica may start and succeed between two polls.
  [ "$((ready + succeeded))" -eq 0 ] || condition Running True JobRunning "$decides is running"
  case $end in
    Complete)
      verdict=success
      exit 0
      ;;
    Failed)
      steadily look_at_pods || exit
      judge "$decides" "$reason" "$message"
      ;;
  esac
  if [ -n "$culprit" ]; then
    steadily look_at_pods || exit
    rest=${culprit#* }
    judge "${culprit%% *}" "${rest%% *}" "${rest#* }"
  fi
  [ "$completions" -eq 0 ] || echo "$succeeded/$completions" >"${ARGO_PROGRESS_FILE:-/dev/null}"
  if [ -n "$starting" ] && look_at_pods; then give_up_on_crashes; fi
done
