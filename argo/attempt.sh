#!/bin/sh
# One attempt at one job, as a step of Argo Workflows: submits it, watches it to its end, and ends
# with its exit code. The last line says whether the step may be retried: "training permanent: ..."
# or "training retryable: ...". An end without such a line is a failure of this script alone (200,
# or a kill), and the next attempt goes on with the job as it runs.
#
#   MLGEN_MANIFESTS   the file with the job's objects
#   MLGEN_CONFIG_MAP  where it comes from, for messages
#   MLGEN_RETRYABLE   the exit codes after which a new start may help; where empty, 128 to 255
#   MLGEN_RETRY_OOM   true: also after the kernel has killed a container that took too much memory
#   WORKFLOW          the Workflow, with which the objects are deleted
#   WORKFLOW_UID
#   ATTEMPT           0, 1, ...
#
# watch.sh says what else it reads.
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
    # So that the next attempt starts it anew. One that is not judged yet would only be watched.
    [ -z "$decides" ] || kubectl annotate "$decides" mlgen.dev/judged=true >/dev/null
  fi
  exit "$code"
}

# The JSON by which the Workflow owns an object.
owner_kind='"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow"'
owners="\"ownerReferences\":[{$owner_kind,\"name\":\"$WORKFLOW\",\"uid\":\"$WORKFLOW_UID\"}]"

# ask COMMAND...: its output in $answer. What will never work ends the attempt; else it is tried
# again for as long as the API may be away for.
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

# A status of an earlier Workflow is none of this one's.
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

# Only when the last pod is gone may the next gang start: it must not meet an old rendezvous.
submit() {
  ask kubectl delete job,statefulset --selector "$selector" --cascade=foreground --timeout=15m
  ask kubectl apply --server-side --force-conflicts --field-manager=mlgen \
    --filename "$MLGEN_MANIFESTS"
  echo "$answer"
}

# Deleting the Workflow deletes the job, but never a claim, which holds checkpoints.
own_objects() {
  ask kubectl get --filename "$MLGEN_MANIFESTS" --ignore-not-found --output name
  for object in $answer; do
    case $object in
      persistentvolume*) ;;
      */*) ask kubectl patch "$object" --type=merge --patch "{\"metadata\":{$owners}}" ;;
    esac
  done
}

# One line for each training container and each init container:
#   POD PHASE Disrupted|- main|init TIME CODE REASON, and
#   RESTARTS WAITING TIME CODE of one that restarts in its pod: of its last run.
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

# look_at_pods: reads them into $pods. Those that restart in their pods are gone with them when
# their Job has failed, so $restarts keeps what was last seen: TIME CODE REASON POD KIND.
look_at_pods() {
  pods=$(kubectl get pods --selector "$selector" --output "go-template=$containers") || return
  seen=$(echo "$pods" | awk '$11 > 0 { print $10, $11, "Error", $1, $4 }' | sort)
  restarts=${seen:-$restarts}
}

# give_up_on_crashes: on what serves and crashes for ever, for which the rest would wait.
give_up_on_crashes() {
  looping=$(echo "$pods" | awk '$9 == "CrashLoopBackOff" && $8 >= 5 { print $1, $8, $11 }')
  while read -r pod count code; do
    case $state in
      *"statefulset/${pod%-*} "*)
        # What serves may not end at all, so that 0 is no success.
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

# judge JOB REASON MESSAGE: ends the attempt as the container ended that failed first. On a tie the
# higher code counts: peers of a killed pod often exit with 1 in the same second.
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
  # Of a pod that was deleted, or whose node is lost, no container is left to ask; and what one
  # says that had to go tells nothing of the training.
  if [ $# -eq 0 ] || [ "$3" = Disrupted ]; then finish 143 retryable JobDisrupted "$lost"; fi
  text="$4 exited with $2"
  case $5/$3 in
    # It waits for others, or brings something from them, and they may be late.
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
  echo "the image of this step has no kubectl; name one that has in the parameter image" >&2
  exit
}
pods='' restarts='' decides=''
prepare_status
if [ ! -s "$MLGEN_MANIFESTS" ]; then
  finish 1 permanent JobNotSubmitted \
    "ConfigMap $MLGEN_CONFIG_MAP has no key ${MLGEN_MANIFESTS##*/}, or is not there"
fi
ask kubectl get job,statefulset,pod --selector "$selector" --output name
steadily look || exit
if [ "$owner/$judged" = "$WORKFLOW_UID/-" ]; then
  echo "$decides is watched on"
else
  [ "$ATTEMPT" -eq 0 ] || case $(recorded) in
    *"Restarting True"*) ;;
    *) condition Restarting True JobRestarting "attempt $((ATTEMPT + 1))" ;;
  esac
  submit
fi
own_objects
condition Created True JobCreated "$MLGEN_JOB is created"
steadily look || exit
[ -n "$decides" ] || finish 1 permanent JobNotSubmitted \
  "no Job of $MLGEN_CONFIG_MAP has the labels $selector,mlgen.dev/decides=true"

while sleep "$MLGEN_POLL"; do
  look || continue
  replicas
  [ -n "$decides" ] || finish 1 permanent JobDeleted "the deciding Job was deleted by hand"
  # What has succeeded has run, even where that was over before anybody looked.
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
