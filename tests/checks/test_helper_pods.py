"""Pods and containers that mlgen adds obey the rules of the cluster, in every output."""

import json
from functools import cache

import pytest
from click.testing import CliRunner
from support import ROOT, each_file, load_all, rendered

from mlgen import Options, validate
from mlgen.cli import main
from mlgen.documents.files import Text
from mlgen.integrations.argo import Form, argo
from mlgen.problems import MlgenError

TEAM = {"billing": "vision", "example.com/cost-center": "42"}
RECOMMENDED = {
    f"app.kubernetes.io/{name}": "user"
    for name in ("name", "instance", "component", "part-of", "managed-by")
}
HELPERS = ("helpers",)
SETTINGS = {
    "runAsUser": "Cluster",
    "labels": {"owner": "ml"},
    "annotations": {"example.com/owner": "ml"},
    "nodeSelector": {"pool": "cpu"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "priorityClassName": "helpers",
    "resources": {"requests": {"cpu": "21m"}, "limits": {"memory": "4Gi"}},
}
BOARD = {"logDir": "s3://logs", "image": "example/tb:2"}


@pytest.fixture
def run():
    """Run mlgen; return its exit status, stdout and stderr."""

    def run(*words, stdin=None):
        result = CliRunner().invoke(main, list(words), input=stdin, catch_exceptions=False)
        return result.exit_code, result.stdout, result.stderr

    return run


FORMS = ("manifests", "jobset", "argo")


def text_of(file):
    return (Text(str(file), file.read_text()),)


@cache
def objects_of(file, form, settings):
    """All objects of an output, with those that the step of Argo applies; [] if it is rejected."""
    values = tuple((tuple(path.split("/")), json.loads(value)) for path, value in settings)
    options = {"settings": values, "jobset": form == "jobset", "workflow": form == "argo"}
    try:
        if form == "argo":
            parts, _ = argo(text_of(file), Options(**options), Form())
            objects = load_all("".join(parts))
        else:
            objects = load_all(rendered(file, **options))
    except MlgenError:
        # JobSet and Argo cannot express every job.
        assert form != "manifests"
        return []
    inner = [(item.get("data") or {}).get("manifests.yaml") for item in objects]
    return [*objects, *(item for text in inner if text for item in load_all(text))]


def outputs(file, **settings):
    """The objects of a fixture in every form that it can have, with these settings."""
    found = tuple((path, json.dumps(value)) for path, value in settings.items())
    for form in FORMS:
        yield objects_of(file, form, found)


def templates(objects):
    """Yield the kind, and the pod template or Argo's fields for it, of everything with pods."""
    for item in objects:
        spec = item.get("spec") or {}
        for job in spec.get("replicatedJobs") or ():
            yield "Job", job["template"]["spec"]["template"]
        if item["kind"] in ("Job", "StatefulSet", "Deployment"):
            yield item["kind"], spec["template"]
        if item["kind"] in ("Workflow", "CronWorkflow"):
            spec = spec.get("workflowSpec", spec)
            placed = {**spec, "priorityClassName": spec.get("podPriorityClassName")}
            yield "Workflow", {"metadata": spec.get("podMetadata") or {}, "spec": placed}


def helper_pods(objects):
    """Yield the templates of the pods that mlgen adds, without Kueue's."""
    names = ("supervisor", "tensorboard")
    for kind, template in templates(objects):
        if kind == "Workflow" or template["metadata"]["labels"].get("mlgen.dev/role") in names:
            yield kind, template


def added(objects):
    """Yield the containers that mlgen adds."""
    for kind, template in templates(objects):
        spec = template["spec"]
        for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
            command = " ".join(container.get("command") or ())
            own = kind == "Deployment" or container["name"] == "supervisor"
            if own or "/mlgen/scripts/" in command or command == "true":
                yield container


@each_file(sample=3)
def test_every_pod_has_the_labels_of_the_job(file):
    for objects in outputs(file, **{"metadata/labels": TEAM, "spec/tensorboard": BOARD}):
        for _, template in templates(objects):
            assert TEAM.items() <= template["metadata"]["labels"].items()


@each_file(sample=3)
def test_settings_of_helpers_are_those_of_every_pod_and_container_that_mlgen_adds(file):
    settings = {"spec/helpers": SETTINGS, "spec/tensorboard": BOARD}
    for objects in outputs(file, **settings):
        for kind, template in helper_pods(objects):
            metadata, spec = template["metadata"], template["spec"]
            assert SETTINGS["labels"].items() <= metadata["labels"].items()
            assert SETTINGS["annotations"].items() <= metadata["annotations"].items()
            assert SETTINGS["nodeSelector"].items() <= spec["nodeSelector"].items()
            assert SETTINGS["tolerations"] == spec["tolerations"]
            assert "helpers" == spec["priorityClassName"]
            if kind == "Workflow":
                (patch,) = json.loads(spec["podSpecPatch"])["containers"]
                assert {"runAsUser": None, "runAsGroup": None} == patch["securityContext"]
                assert {"cpu": "21m", "memory": None} == patch["resources"]["requests"]
        for container in added(objects):
            assert {"cpu": "21m"} == container["resources"]["requests"]
            assert {"memory": "4Gi"} == container["resources"]["limits"]


USERS = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups")


def contexts(objects):
    """Yield every security context of pods and containers."""
    for _, template in templates(objects):
        spec = template["spec"]
        yield spec.get("securityContext") or {}
        for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
            yield container.get("securityContext") or {}


@each_file("^", without="runAs(User|Group): (?!65534)|fsGroup", sample=3)
def test_the_cluster_can_assign_every_user(file):
    """The SCC restricted-v2 of OpenShift rejects users outside of the namespace's range.

    It requires of the rest what Pod Security restricted requires, or sets it.
    """
    for objects in outputs(file, **{"spec/helpers": {"runAsUser": "Cluster"}}):
        for context in contexts(objects):
            assert not {*USERS} & {*context}
        for container in added(objects):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert ["ALL"] == context["capabilities"]["drop"]
            assert {"type": "RuntimeDefault"} == context["seccompProfile"]


PROTECTED = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


@each_file(sample=3)
def test_every_pod_of_the_job_is_protected_against_eviction(file):
    """TensorBoard outlives the job, and would keep its node forever."""
    settings = {"spec/scheduling/safeToEvict": False, "spec/tensorboard": BOARD}
    for objects in outputs(file, **settings):
        for kind, template in templates(objects):
            annotations = template["metadata"].get("annotations") or {}
            assert (kind != "Deployment") == (PROTECTED.items() <= annotations.items())


def keys(selector):
    listed = [each["key"] for each in selector.get("matchExpressions") or ()]
    plain = [key for key in selector if key not in ("matchLabels", "matchExpressions")]
    return {*(selector.get("matchLabels") or ()), *listed, *plain}


def selectors(node):
    if isinstance(node, list):
        for item in node:
            yield from selectors(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name in ("selector", "labelSelector") and isinstance(value, dict):
                yield value
            yield from selectors(value)


@each_file(sample=3)
def test_no_selector_uses_a_label_that_a_user_or_tool_may_overwrite(file):
    """And what mlgen reads from its own manifests does not depend on them."""
    settings = {"metadata/labels": RECOMMENDED}
    for objects in outputs(file, **settings):
        for selector in selectors(objects):
            assert not {*RECOMMENDED} & keys(selector)


def test_the_manifests_of_a_job_with_other_recommended_labels_are_verified(run):
    name = str(ROOT / "fixtures/tensorflow-clean-all.yaml")
    words = [f"--set=metadata.labels={json.dumps(RECOMMENDED)}"]

    manifests = run("render", name, *words)[1]
    code, out, err = run("verify", "-", stdin=manifests)

    assert (0, "") == (code, err)
    assert "verified" in out
    assert "supervisor" in run("show", name, *words)[1]


JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert, labels: {team: vision, app: bert}}
spec:
  framework: tensorflow
  image: example/x:1
  command: [python, t.py]
  imagePullSecrets: [{name: reg}]
  tolerations: [{key: dedicated, value: vision}]
  nodeSelector: {pool: gpu, kubernetes.io/arch: arm64, kubernetes.io/os: linux}
  scheduling: {priorityClassName: high}
  roles: {chief: {}, worker: {replicas: 2}}
  volumes: {logs: {mountPath: /l, pvc: logs}}
  tensorboard: {logDir: /l}
  runPolicy: {cleanPodPolicy: Running}
"""


@pytest.fixture
def pods(tmp_path):
    """The pods that mlgen adds to JOB, by their role, with more lines of the spec."""

    def pods(*lines, **options):
        file = tmp_path / "job.yaml"
        file.write_text(JOB + "".join(f"  {line}\n" for line in lines))
        (job,) = validate(str(file), Options(**options)).jobs
        found = [template for _, template in helper_pods(job.objects)]
        return {each["metadata"]["labels"]["mlgen.dev/role"]: each for each in found}

    return pods


def test_helper_pods_have_what_a_cluster_may_require_of_every_pod(pods):
    found = pods()

    for template in found.values():
        spec = template["spec"]
        assert [{"name": "reg"}] == spec["imagePullSecrets"]
        assert [{"key": "dedicated", "value": "vision"}] == spec["tolerations"]
    assert "high" == found["supervisor"]["spec"]["priorityClassName"]
    assert "priorityClassName" not in found["tensorboard"]["spec"]


def test_only_the_platform_of_an_image_determines_its_node(pods):
    """The node selector of training would place it on a node with GPUs."""
    own, with_training_image = pods()["supervisor"], pods()["tensorboard"]
    other = pods("helpers: {nodeSelector: {pool: cpu}}")["supervisor"]

    assert {"kubernetes.io/os": "linux"} == own["spec"]["nodeSelector"]
    assert {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"} == (
        with_training_image["spec"]["nodeSelector"]
    )
    assert {"kubernetes.io/os": "linux", "pool": "cpu"} == other["spec"]["nodeSelector"]


SELECTOR = "labelSelector: {matchLabels: {LABELS}}"
TERM = f"[{{topologyKey: kubernetes.io/hostname, {SELECTOR}}}]"
ANTI = f"affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {TERM}}}}}"


@pytest.mark.parametrize(
    ("lines", "labels"),
    [
        ([], {"team", "app"}),
        ([ANTI.replace("LABELS", "app: bert")], {"team"}),
        ([ANTI.replace("LABELS", "app: bert, mlgen.dev/job: bert")], {"team", "app"}),
        ([ANTI.replace("LABELS", "app: bert"), "helpers: {labels: {app: h}}"], {"team", "app"}),
    ],
)
def test_training_pods_are_not_placed_relative_to_helper_pods(lines, labels, pods):
    """With the label, the supervisor could take the only node of a worker."""
    found = pods(*lines)["supervisor"]["metadata"]["labels"]

    assert labels == {"team", "app"} & {*found}


@pytest.mark.parametrize(
    ("written", "resources"),
    [
        (
            "{cpu: 20m}",
            {"requests": {"memory": "128Mi"}, "limits": {"memory": "128Mi", "cpu": "20m"}},
        ),
        (
            "{requests: {cpu: 1}}",
            {"requests": {"memory": "128Mi", "cpu": "1"}, "limits": {"memory": "128Mi"}},
        ),
        (
            "{memory: 16Mi}",
            {"requests": {"cpu": "50m"}, "limits": {"cpu": "500m", "memory": "128Mi"}},
        ),
    ],
)
def test_resources_of_helpers_replace_requests_and_limits_but_leave_enough_memory(
    written, resources, pods
):
    template = pods(f"helpers: {{resources: {written}}}")["supervisor"]

    assert resources == template["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize(
    ("written", "user", "group"),
    [("runAsUser: 10001", 10001, 65534), ("runAsUser: 10001, runAsGroup: 10002", 10001, 10002)],
)
def test_the_user_of_helpers(written, user, group, pods):
    context = pods(f"helpers: {{{written}}}")["supervisor"]["spec"]["containers"][0][
        "securityContext"
    ]

    assert (user, group) == (context["runAsUser"], context["runAsGroup"])


def test_kueue_places_the_pod_that_ends_a_group():
    """Its node depends on the admission of the group, so `helpers.nodeSelector` does not apply."""
    file = ROOT / "fixtures/tensorflow-kueue.yaml"
    settings = (("spec", "helpers"), SETTINGS), (("metadata", "labels"), TEAM)
    (job,) = validate(str(file), Options(settings=settings)).jobs
    (release,) = (item for item in job.objects if item["metadata"]["name"].endswith("-kueue"))
    template = release["spec"]["template"]

    assert {**TEAM, "owner": "ml"}.items() <= template["metadata"]["labels"].items()
    assert "helpers" == template["spec"]["priorityClassName"]
    assert "nodeSelector" not in template["spec"]


def test_a_step_of_a_users_workflow_has_that_workflows_settings(run):
    """mlgen cannot set fields of a Workflow that it does not print."""
    words = [str(ROOT / "fixtures/tensorflow-ps.yaml"), "--set=spec.helpers.priorityClassName=low"]

    code, _, err = run("argo", "--step", *words)

    assert 0 == code
    assert "spec.helpers.priorityClassName: does not apply to the pods of the step" in err
    assert "set podPriorityClassName in that Workflow" in err
