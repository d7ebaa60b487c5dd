"""Jobs as a step of Argo Workflows, run by the real controller, all at the same time.

A replica records its attempts in a folder of this machine, and behaves differently in each.
"""

import json
import re
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from itertools import pairwise

import pytest
import yaml
from support import ROOT, missing

pytestmark = pytest.mark.cluster

EXAMPLE = (ROOT / "argo/example-workflow.yaml").read_text()
DAG = (ROOT / "argo/example-dag.yaml").read_text()
STEP = EXAMPLE[EXAMPLE.index("        - - name: train") :]
TWICE = EXAMPLE + STEP.replace("name: train", "name: again", 1)
"""A Workflow with two steps that call the template."""

COUNT = 'f=/state/$JOB-$MLGEN_REPLICA_INDEX; date +%s >>"$f"; n=$(wc -l <"$f")'
HOLD = "trap 'exit 143' TERM; until [ -e /state/$JOB ]; do sleep 1; done"
FOR_EVER = "trap 'exit 143' TERM; while :; do sleep 1; done"
SERVER = {"restartPolicy": "Always", "command": ["sh", "-c", FOR_EVER]}

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {0}-data, labels: {{mlgen.dev/job: {0}}}}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}
"""


class Workflows:
    """The Workflows of these tests, in one namespace."""

    def __init__(self, namespace, state):
        self.namespace, self.state = namespace, state
        self.files, self.workflows = [], []

    def job(self, name, command, server=None, **spec):
        """Add a job with workers and, if given, one server; `runPolicy` adds to its policies."""
        worker = {"replicas": 2, "restartPolicy": "ExitCode"} | spec.pop("worker", {})
        policy = {"cleanPodPolicy": "Running"} | spec.pop("runPolicy", {})
        document = {
            "apiVersion": "mlgen.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {
                "framework": "generic",
                "image": "busybox:1.36",
                "command": ["sh", "-c", command],
                "env": {"JOB": name},
                "waitFor": [],
                "runPolicy": policy,
                "volumes": {"state": {"mountPath": "/state", "hostPath": str(self.state)}},
                "roles": {"worker": worker} | ({"server": server} if server else {}),
                **spec,
            },
        }
        file = self.state / f"{name}.json"
        file.write_text(json.dumps(document))
        self.files.append(str(file))

    def start(self, name, job=None, example=EXAMPLE, spec=None, labels=None, **parameters):
        """Add the Workflow of an example, with other parameters."""
        workflow = yaml.safe_load(example)
        workflow["metadata"] = {"name": name, "labels": labels or {}}
        workflow["spec"] |= spec or {}
        arguments = {"job": job or name, "manifests": f"{job or name}.manifests"}
        arguments |= {
            "image": self.namespace.python_image,
            "backoff-seconds": "2",
            **parameters,
        }
        template = workflow["spec"]["templates"][0]
        groups = [template["dag"]["tasks"]] if "dag" in template else template["steps"]
        steps = [step for group in groups for step in group]
        for step in [step for step in steps if step["name"] in ("train", "again")]:
            named = [{"name": k, "value": v} for k, v in arguments.items()]
            step["arguments"]["parameters"] = named
        self.workflows.append(json.dumps(workflow))

    def create(self):
        """Create everything added so far, at once."""
        if self.files:
            manifests = self.namespace.mlgen("argo", *self.files, "--no-workflow")
            # Only the job `broken` has this field, because mlgen rejects an unknown field.
            manifests = manifests.replace("nodeSelector:", "nodeSelectr:")
            self.namespace.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)
        self.namespace.kubectl("create", "-f", "-", stdin="\n---\n".join(self.workflows))
        self.files, self.workflows = [], []

    def argo(self, *words):
        command = ["argo", *words, "-n", self.namespace.name]
        environment = self.namespace.environment
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ended(self, name, phase):
        """Wait until a Workflow has ended; assert its phase."""

        def finished_status(workflow):
            status = workflow.get("status", {})
            return status if status.get("finishedAt") else None

        description = f"Workflow {name} ended"
        status = self.namespace.watch(description, "workflow", name, finished_status)
        nodes = [(n["displayName"], n["phase"], n.get("message")) for n in status["nodes"].values()]
        assert status["phase"] == phase, nodes

    def attempts(self, name):
        """Return the nodes of the attempts in order: start, end, exit code and message of each."""
        nodes = self.namespace.get("workflow", name).get("status", {}).get("nodes", {}).values()
        pods = [n for n in nodes if n["type"] == "Pod" and n["templateName"] == "attempt"]
        return sorted(pods, key=lambda node: node["startedAt"])

    def only_attempt(self, name):
        """Return the exit code and the message of the only attempt."""
        (node,) = self.attempts(name)
        return node["outputs"]["exitCode"], node.get("message", "")

    def recorded(self, job):
        return self.namespace.get("configmap", f"{job}.status")["data"]

    def conditions(self, job):
        """Return the conditions with their status, in the order of their last transition."""
        conditions = {k: v.split(" ", 2) for k, v in self.recorded(job).items() if v[:4] in WORDS}
        order = sorted(conditions, key=lambda name: (conditions[name][1], ORDER.index(name)))
        return [f"{name} {conditions[name][0]}" for name in order]

    def pods(self, job):
        return self.namespace.get("pods", "-l", f"mlgen.dev/job={job}")["items"]

    def active(self, job):
        phases = [(p["metadata"]["name"], p["status"]["phase"]) for p in self.pods(job)]
        return sorted(name for name, phase in phases if phase in ("Pending", "Running"))

    def runs(self, job, replicas=2):
        """Wait until the replicas run and the status reports it; return the UIDs of their pods."""

        def running_uids():
            pods = [p for p in self.pods(job) if p["status"]["phase"] == "Running"]
            return len(pods) == replicas and {p["metadata"]["uid"] for p in pods}

        uids = self.namespace.until(f"{job} runs", running_uids)
        runs = lambda record: record.get("Running", "").startswith("True ")  # noqa: E731
        self.namespace.recorded(job, runs)
        return uids

    def release(self, job):
        (self.state / job).touch()

    def starts(self, job, index=0):
        """Return the start times of a replica, one per attempt, in seconds."""
        return [int(line) for line in (self.state / f"{job}-{index}").read_text().split()]

    def step_pod(self, name):
        """Return the name of the pod of the last attempt."""
        node = self.attempts(name)[-1]["id"]
        pods = self.namespace.get("pods", "-l", f"workflows.argoproj.io/workflow={name}")["items"]
        (pod,) = (p for p in pods if p["metadata"]["annotations"][NODE] == node)
        return pod["metadata"]["name"]


WORDS = ("True", "Fals")
ORDER = ["Created", "Restarting", "Running", "Succeeded", "Failed"]


@pytest.fixture(scope="module")
def workflows(shared_namespace, here, tmp_path_factory):  # noqa: ARG001 - pods mount a folder
    shared_namespace.kubectl("apply", "--server-side", "-k", str(ROOT / "argo"))
    created = Workflows(shared_namespace, tmp_path_factory.mktemp("state"))
    start(created)
    return created


def start(workflows):
    """Start all Workflows, the slowest first."""
    job, start, one = workflows.job, workflows.start, {"replicas": 1}
    crashes = SERVER | {"command": ["sh", "-c", "exit 3"]}
    job("crash", HOLD, server=crashes, worker=one, runPolicy={"giveUpAfter": {"crashes": 2}})
    start("crash")
    job("limit", f"{COUNT}; exit $((140 + n))", worker=one)
    start("limit", **{"backoff-limit": "2", "backoff-seconds": "10"})
    job("twice", f'{COUNT}; [ "$n" -eq 3 ] || exit 143; sleep 8', worker=one)
    start("twice")
    for policy in ("None", "Running", "All"):
        name = f"clean-{policy.lower()}"
        workflows.namespace.kubectl("apply", "-f", "-", stdin=CLAIM.format(name))
        clean = {"cleanPodPolicy": policy}
        job(name, "sleep 8; echo trained", server=SERVER, worker=one, runPolicy=clean)
        start(name)
    job("permanent", f'{HOLD}; [ "$MLGEN_REPLICA_INDEX" != 1 ] || exit 42; {FOR_EVER}')
    start("permanent")
    job("again", f"{COUNT}; case $MLGEN_REPLICA_INDEX$n in 11) exit 138 ;; esac; sleep 8")
    start("again")
    job("memory", "exec tail /dev/zero", worker=one | {"resources": {"memory": "64Mi"}})
    start("memory", **{"backoff-limit": "1"})
    job("deadline", FOR_EVER, worker=one, runPolicy={"activeDeadlineSeconds": 8})
    start("deadline")
    fails, decides = {"command": ["sh", "-c", "exit 42"]}, {"role": "worker"}
    job("other", FOR_EVER, worker=one, server=fails, successPolicy=decides)
    start("other", **{"backoff-limit": "0"})
    for name in ("deleted", "evicted", "lost", "stopped", "terminated", "by-hand"):
        clean = {"cleanPodPolicy": "None" if name == "stopped" else "Running"}
        job(name, f'{COUNT}; [ "$n" -gt 1 ] || {{ {HOLD}; }}', runPolicy=clean)
        # Disruptions and lost step pods do not count as restarts.
        start(name, **{"backoff-limit": "0"})
    job("retried", f'{COUNT}; [ "$n" -gt 1 ] || exit 42', server=SERVER, worker=one)
    start("retried")
    job("repeated", COUNT, worker=one)
    start("repeated", example=TWICE)
    job("collected", f'{COUNT}; [ "$n" -gt 1 ] || {{ {HOLD}; }}', server=SERVER, worker=one)
    start("collected")
    start("missing")
    prepares, waits = {"command": ["true"]}, {"role": "server", "until": "Complete"}
    worker = one | {"waitFor": [waits]}
    job("order", "true", server=prepares, worker=worker, successPolicy=decides)
    start("order")
    job("pipeline", "true", worker=one)
    start("pipeline", example=DAG)
    job("broken", "true", worker=one | {"nodeSelector": {"a": "b"}})
    start("broken")
    workflows.namespace.kubectl("apply", "-f", "-", stdin=BARE)
    job("rights", "true", worker=one)
    start("rights", spec={"serviceAccountName": "bare"})
    workflows.create()


BARE = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: bare}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: bare}
rules:
  - {apiGroups: [argoproj.io], resources: [workflowtaskresults], verbs: [create, patch]}
  - {apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: bare}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: bare}
subjects: [{kind: ServiceAccount, name: bare}]
"""
"""The permissions that Argo and the status need, except the permissions on Jobs."""


def test_the_command_prints_the_objects_of_the_folder(workflows):
    namespace = workflows.namespace
    template = namespace.mlgen("argo", "--template", "-n", namespace.name)

    assert not namespace.kubectl("diff", "--server-side", "-f", "-", stdin=template)


def test_argo_lint_accepts_the_template_and_the_examples(environment):
    files = ("workflow-template.yaml", "example-workflow.yaml", "example-dag.yaml")
    program = shutil.which("argo", path=environment["PATH"])
    if not program:
        missing("there is no argo to lint with")
    command = [program, "lint", "--offline", "--strict", *(str(ROOT / "argo" / f) for f in files)]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_a_permanent_exit_code_is_not_retried(workflows):
    workflows.runs("permanent")
    workflows.release("permanent")
    workflows.ended("permanent", "Failed")

    code, message = workflows.only_attempt("permanent")
    assert code == "42"
    message = message.removeprefix("main: ")  # Argo 3.6 omits the container
    assert message.startswith("Error (exit code 42): training permanent: permanent-worker-1-")
    conditions = workflows.conditions("permanent")
    assert {"Created True", "Running False"} <= {*conditions}
    assert conditions[-1] == "Failed True"
    assert "exited with code 42" in workflows.recorded("permanent")["Failed"]


@pytest.fixture(scope="module")
def disturbed(workflows):
    """Disturb five running jobs in different ways; return the UIDs of their first pods."""
    namespace = workflows.namespace
    namespace.kubectl("apply", "-f", "-", stdin=CLAIM.format("terminated"))
    names = ("deleted", "evicted", "stopped", "terminated", "by-hand")
    before = {name: workflows.runs(name) for name in names}
    for name in ("deleted", "evicted"):
        (pod,) = namespace.get("pods", "-l", SECOND.format(name))["items"]
        evict_or_delete(namespace, name, pod["metadata"]["name"])
    workflows.argo("stop", "stopped")
    workflows.argo("terminate", "terminated")
    namespace.kubectl("delete", "job", "by-hand-worker", "--wait=false")
    return before


def evict_or_delete(namespace, how, pod):
    """Delete a pod by hand, or evict it as draining a node does."""
    if how == "deleted":
        namespace.kubectl("delete", "pod", pod, "--wait=false")
        return
    meta = {"name": pod, "namespace": namespace.name}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}/eviction"
    namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


SECOND = "mlgen.dev/job={},batch.kubernetes.io/job-completion-index=1"


@pytest.mark.parametrize("name", ["deleted", "evicted"])
def test_a_deleted_or_evicted_pod_starts_another_attempt_with_new_pods(name, workflows, disturbed):
    workflows.ended(name, "Succeeded")

    first, _ = workflows.attempts(name)
    assert first["outputs"]["exitCode"] == "143"
    assert "training retryable: " in first["message"]
    assert not disturbed[name] & {pod["metadata"]["uid"] for pod in workflows.pods(name)}


@pytest.mark.usefixtures("disturbed")
def test_stopping_a_workflow_stops_all_pods(workflows):
    """Even with cleanPodPolicy None."""
    workflows.ended("stopped", "Failed")

    workflows.namespace.until("no pod runs", lambda: not workflows.active("stopped"))
    assert "JobStopped" in workflows.recorded("stopped")["Failed"]


@pytest.mark.usefixtures("disturbed")
def test_deleting_a_terminated_workflow_deletes_its_job_but_not_the_claim(workflows):
    namespace = workflows.namespace
    workflows.ended("terminated", "Failed")
    assert workflows.active("terminated")

    namespace.kubectl("delete", "workflow", "terminated")

    words = ("jobs,services,pods", "-l", "mlgen.dev/job=terminated", "-o", "name")
    namespace.until("all has gone", lambda: not namespace.kubectl("get", *words))
    assert "terminated-data" in namespace.kubectl("get", "pvc")


@pytest.mark.usefixtures("disturbed")
def test_a_job_deleted_by_hand_is_not_recreated(workflows):
    workflows.ended("by-hand", "Failed")

    assert "deleted by another client" in workflows.only_attempt("by-hand")[1]


def test_a_drained_step_pod_is_replaced_and_a_second_workflow_waits(workflows):
    before = workflows.runs("lost")
    workflows.start("lost-2", job="lost")
    workflows.create()
    evict_or_delete(workflows.namespace, "evicted", workflows.step_pod("lost"))
    words = ("logs", "-l", "workflows.argoproj.io/workflow=lost", "-c", "main")
    workflows.namespace.until(
        "it is watched on",
        lambda: "resuming watch of" in workflows.namespace.kubectl(*words, check=False),
    )
    assert before == {pod["metadata"]["uid"] for pod in workflows.pods("lost")}
    assert not workflows.attempts("lost-2")
    recorded = workflows.recorded("lost")
    assert (recorded["restarts"], recorded["disruptions"]) == ("0", "0")

    workflows.release("lost")
    workflows.ended("lost", "Succeeded")

    workflows.ended("lost-2", "Succeeded")
    first, second = workflows.attempts("lost")[-1], workflows.attempts("lost-2")[0]
    assert first["finishedAt"] <= second["startedAt"]


@pytest.fixture(scope="module")
def started_again(workflows):
    """Start three jobs again in different ways; return the name of the resubmitted Workflow."""
    workflows.runs("collected", 2)
    workflows.ended("repeated", "Succeeded")
    workflows.ended("retried", "Failed")
    workflows.namespace.until("no pod runs", lambda: not workflows.active("retried"))
    before = workflows.only_attempt("retried"), len(workflows.starts("repeated"))
    workflows.argo("retry", "retried")
    resubmitted = workflows.argo("resubmit", "repeated", "-o", "name").strip()
    workflows.namespace.kubectl("delete", "workflow", "collected")  # and its objects, later
    workflows.start("collected")
    workflows.create()
    return before, resubmitted


def test_argo_retry_trains_again_and_cleans_up_again(workflows, started_again):
    (code, _), _ = started_again[0]
    assert code == "42"

    workflows.ended("retried", "Succeeded")

    assert workflows.only_attempt("retried")[0] == "0"
    assert len(workflows.starts("retried")) == 2
    assert workflows.conditions("retried")[-1] == "Succeeded True"
    workflows.namespace.until("the server is stopped", lambda: not workflows.active("retried"))


def test_two_steps_for_the_same_job_and_a_resubmitted_workflow_train_again(
    workflows, started_again
):
    (_, starts), resubmitted = started_again
    assert starts == 2

    workflows.ended(resubmitted, "Succeeded")

    assert len(workflows.starts("repeated")) == 4


def test_a_workflow_can_be_deleted_and_created_again_at_once(workflows, started_again):  # noqa: ARG001
    """The garbage collector deletes the objects of the first one while the second one starts."""
    workflows.ended("collected", "Succeeded")

    # If the collector deletes an object after the step's check, the step fails and is retried.
    assert len(workflows.starts("collected")) >= 2
    assert workflows.conditions("collected")[-1] == "Succeeded True"


NODE = "workflows.argoproj.io/node-id"


def test_the_watcher_retries_while_the_api_server_is_unreachable(workflows, here, server):
    """The watcher connects through a proxy that the test closes and opens."""
    proxy = Proxy(here, server)
    env = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": here},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(proxy.port)},
    ]
    patch = json.dumps({"containers": [{"name": "main", "env": env}]})
    workflows.job("away", HOLD, worker={"replicas": 1})
    workflows.start("away", spec={"podSpecPatch": patch})
    workflows.create()
    workflows.runs("away", 1)
    words = ("logs", "-l", "workflows.argoproj.io/workflow=away", "-c", "main", "--tail=-1")

    proxy.close()
    # Its watches stay open, and make it check.
    workflows.namespace.kubectl("annotate", "job", "away-worker", "look=now")
    workflows.namespace.until(
        "the watcher misses it",
        lambda: workflows.namespace.kubectl(*words).count("refused") > 2,
    )
    workflows.release("away")
    proxy.open()

    workflows.ended("away", "Succeeded")
    assert len(workflows.attempts("away")) == 1


@pytest.fixture
def server(environment):
    """Host and port of the API server."""
    path = "jsonpath={.clusters[0].cluster.server}"
    command = ["kubectl", "config", "view", "--minify", "-o", path]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    host, port = re.fullmatch(r"https://([^:/]+):(\d+)", result.stdout).groups()
    return host, int(port)


class Proxy:
    """Forwards connections from this machine to another address until it is closed."""

    def __init__(self, address, to):
        self.address, self.port, self.to = address, 0, to
        self.open()

    def open(self):
        self.listener = socket.create_server((self.address, self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, args=(self.listener,), daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _serve(self, listener):
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                upstream = socket.create_connection(self.to)
                for source, target in ((client, upstream), (upstream, client)):
                    threading.Thread(
                        target=self._forward, args=(source, target), daemon=True
                    ).start()

    def _forward(self, source, target):
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_a_restarted_controller_resumes_the_workflow(workflows, environment, tmp_path):
    """Uses a separate controller, to not interrupt the Workflows of other tests."""
    program = shutil.which("workflow-controller", path=environment["PATH"])
    if not program:
        missing("there is no workflow-controller to start")
    namespace = workflows.namespace
    namespace.kubectl("apply", "-f", "-", stdin=CONTROLLER.replace("NAME", namespace.name))
    (pod, *_) = namespace.get("pods", "-l", "workflows.argoproj.io/workflow")["items"]
    (executor,) = (c["image"] for c in pod["spec"]["initContainers"] if c["name"] == "init")
    command = [program, "--namespaced", "-n", namespace.name, "--managed-namespace", namespace.name]
    command += ["--executor-image", executor, "--executor-image-pull-policy", "IfNotPresent"]

    def controller():
        log = (tmp_path / "log").open("a")
        alone = environment | {"LEADER_ELECTION_DISABLE": "true"}
        return subprocess.Popen(command, env=alone, stdout=log, stderr=log)

    own = {"workflows.argoproj.io/controller-instanceid": namespace.name}
    workflows.job("restarted", HOLD, worker={"replicas": 1})
    workflows.start("restarted", labels=own)
    workflows.create()
    process = controller()
    try:
        before = workflows.runs("restarted", 1)
        process.kill()
        process.wait()
        workflows.release("restarted")
        namespace.until("training has ended", lambda: not workflows.active("restarted"))
        process = controller()
        workflows.ended("restarted", "Succeeded")
    finally:
        process.kill()
        process.wait()

    assert len(workflows.attempts("restarted")) == 1
    assert before == {pod["metadata"]["uid"] for pod in workflows.pods("restarted")}


CONTROLLER = """
apiVersion: v1
kind: ConfigMap
metadata: {name: workflow-controller-configmap}
data:
  config: |
    instanceID: NAME
    metricsConfig: {enabled: false}
    telemetryConfig: {enabled: false}
"""


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_clean_pod_policy_determines_what_remains_after_success(policy, workflows):
    job, namespace = f"clean-{policy.lower()}", workflows.namespace

    workflows.ended(job, "Succeeded")

    left = ["clean-none-server-0"] if policy == "None" else []
    namespace.until("the rest has gone", lambda: workflows.active(job) == left)
    label = ("-l", f"mlgen.dev/job={job}", "-o", "name")
    if policy == "All":
        kinds = "jobs,statefulsets,services,configmaps,pods"
        namespace.until("all has gone", lambda: not namespace.kubectl("get", kinds, *label))
    else:
        assert namespace.kubectl("logs", f"job/{job}-worker") == "trained\n"
    assert namespace.kubectl("get", "pvc", *label)
    assert workflows.conditions(job) == ["Created True", "Running False", "Succeeded True"]
    recorded = workflows.recorded(job)
    assert recorded["replicas.worker"] == "active 0, succeeded 1, failed 0"
    active = 1 if policy == "None" else 0
    assert recorded["replicas.server"] == f"active {active}, succeeded 0, failed 0"
    assert recorded["startTime"] <= recorded["completionTime"]  # in whole seconds


def test_a_retryable_exit_code_replaces_all_pods(workflows):
    workflows.ended("again", "Succeeded")

    first, second = workflows.attempts("again")
    assert (first["outputs"]["exitCode"], second["outputs"]["exitCode"]) == ("138", "0")
    events = workflows.namespace.get("events", "--field-selector", "reason=Scheduled")["items"]
    uids = {
        event["involvedObject"]["uid"]
        for event in events
        if event["involvedObject"]["name"].startswith("again-worker-")
    }
    assert len(uids) == 4
    conditions = ["Created True", "Restarting False", "Running False", "Succeeded True"]
    assert workflows.conditions("again") == conditions


def gaps(times):
    return [after - before for before, after in pairwise(times)]


def test_attempts_back_off_and_stop_at_the_limit(workflows):
    workflows.ended("limit", "Failed")

    codes = [node["outputs"]["exitCode"] for node in workflows.attempts("limit")]
    assert codes == ["141", "142", "143"]
    first, second = gaps(workflows.starts("limit"))
    assert first >= 10
    assert second >= 20
    text = "exited with code 143 after 2 restarts (runPolicy.backoffLimit)"
    assert workflows.attempts("limit")[-1]["message"].endswith(text)
    assert "BackoffLimitExceeded: limit-worker-0-" in workflows.recorded("limit")["Failed"]


def test_argo_get_shows_two_failed_attempts_before_a_success(workflows):
    workflows.ended("twice", "Succeeded")

    codes = [node["outputs"]["exitCode"] for node in workflows.attempts("twice")]
    assert codes == ["143", "143", "0"]
    shown = workflows.argo("get", "twice", "--no-color")
    assert [shown.count(f"attempt({n})") for n in range(4)] == [1, 1, 1, 0]
    assert shown.count("training retryable: twice-worker-0-") == 2


def test_exceeding_the_memory_limit_restarts_the_job(workflows):
    workflows.ended("memory", "Failed")

    first, last = workflows.attempts("memory")
    assert {node["outputs"]["exitCode"] for node in (first, last)} == {"137"}
    # The kubelet may report the end of the container before it reports OOMKilled.
    assert "training retryable: memory-worker-0-" in first["message"]
    assert last["message"].endswith(" after 1 restarts (runPolicy.backoffLimit)")


def test_exceeding_the_deadline_is_permanent(workflows):
    workflows.ended("deadline", "Failed")

    code, message = workflows.only_attempt("deadline")
    assert code == "124"
    assert "training permanent: " in message
    assert "DeadlineExceeded" in workflows.recorded("deadline")["Failed"]


def test_a_failure_in_another_role_ends_training(workflows):
    workflows.ended("other", "Failed")

    assert workflows.only_attempt("other")[0] == "42"
    workflows.namespace.until("the workers are ended", lambda: not workflows.active("other"))


def test_a_role_starts_when_another_is_complete(workflows):
    workflows.ended("order", "Succeeded")

    prepared = workflows.namespace.get("job", "order-server")["status"]["completionTime"]
    (worker,) = workflows.namespace.get("pods", "-l", "mlgen.dev/role=worker,mlgen.dev/job=order")[
        "items"
    ]
    assert prepared <= worker["metadata"]["creationTimestamp"]


def test_a_submission_error_is_reported_and_not_retried(workflows):
    for name in ("missing", "broken", "rights"):
        workflows.ended(name, "Failed")

    code, message = workflows.only_attempt("missing")
    assert code == "1"
    assert "training permanent: ConfigMap missing.manifests not found" in message
    assert "nodeSelectr" in workflows.only_attempt("broken")[1]
    rights = workflows.only_attempt("rights")[1]
    assert 'cannot list resource "jobs" in API group "batch"' in rights


def test_a_pipeline_runs_training_between_two_steps(workflows):
    workflows.ended("pipeline", "Succeeded")

    nodes = workflows.namespace.get("workflow", "pipeline")["status"]["nodes"].values()
    times = {node["displayName"]: (node["startedAt"], node["finishedAt"]) for node in nodes}
    assert times["prepare"][1] <= times["train"][0] < times["train"][1] <= times["evaluate"][0]


def test_a_crash_looping_server_ends_training(workflows):
    workflows.ended("crash", "Failed")

    code, message = workflows.only_attempt("crash")
    assert code == "3"
    # The kubelet restarts the server after 10, 20 and 40 seconds. A step that gets no CPU for 20
    # seconds sees the third crash.
    (crashes,) = re.findall(r"crash-server-0 crashed (\d+) times, last exit code 3", message)
    assert int(crashes) >= 2
    assert "CrashLoopBackOff" in workflows.recorded("crash")["Failed"]
    workflows.namespace.until("no pod runs", lambda: not workflows.active("crash"))
