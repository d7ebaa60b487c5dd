"""A name or value at a wrong place in a job file → the hint with the correction."""

import shlex

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from mlgen import dialects, frameworks
from mlgen.jobfile.hints import (
    JobFile,
    for_field,
    for_resource_field,
    for_type,
    normalized,
    texts,
)
from mlgen.jobfile.schema import base
from mlgen.kubernetes.versions import definition
from mlgen.problems import Problem
from mlgen.shell import MAX_FLOW, flow, flow_words

SPEC, WORKER = ("spec",), ("spec", "roles", "worker")
ROLE_FIELDS = list(base()["definitions"]["role"]["properties"])


def job_file(framework="pytorch", **spec):
    data = {"spec": {"framework": framework, **spec}}
    return JobFile(data, frameworks.schema([framework]), frameworks.owners)


def known(job, path):
    return job.spec_fields if path == SPEC else job.role_fields


def hint(name, value="x", path=SPEC, framework="pytorch", **spec):
    job = job_file(framework, **spec)
    return for_field(job, path, name, value, known(job, path))


@pytest.mark.parametrize("path", [SPEC, WORKER], ids=["spec", "role"])
def test_every_field_of_a_pod_has_its_place_in_the_template(path):
    names = set(definition("PodSpec").fields) - set(known(job_file(), path))
    elsewhere = {
        "hostNetwork",
        "schedulerName",
        "activeDeadlineSeconds",
        "priority",
        "serviceAccount",
        "subdomain",
    }

    hints = {name: hint(name, {}, path) for name in names - elsewhere}

    assert {"hostAliases", "priorityClassName", "containers"} <= hints.keys()
    assert hints == {name: f"move it to template.spec.{name}" for name in hints}


def test_every_field_of_a_container_has_its_place_in_the_template():
    names = set(definition("Container").fields) - set(known(job_file(), SPEC))
    elsewhere = set(definition("PodSpec").fields) | {"name", "volumeMounts"}

    hints = {name: hint(name, mainContainer="torch") for name in names - elsewhere}

    assert {"livenessProbe", "lifecycle", "stdin"} <= hints.keys()
    assert hints == {
        name: f"write template: {{spec: {{containers: [{{name: torch, {name}: …}}]}}}}"
        for name in hints
    }


def test_every_option_of_a_framework_has_its_place_in_options():
    for framework in frameworks.names():
        job = job_file(framework)
        for option in job.options:
            assert hint(option, 1, framework=framework) == f"write spec.options.{option}: 1"


def test_an_option_of_other_frameworks_names_them():
    message = "remove it: it is an option of deepspeed, horovod and mpi, not of pytorch"

    assert hint("transport", "ssh") == message
    assert hint("TRANSPORT", "ssh", ("spec", "options")) == message


def test_a_number_of_nodes_is_that_of_replicas():
    for path, expected in [(SPEC, "roles.launcher.replicas: 2"), (WORKER, "replicas: 2")]:
        for name in ["nodes", "numWorkers", "num-workers", "NNODES", "world_size"]:
            roles = {"launcher": {}, "trainer": {}}

            assert hint(name, 2, path, "generic", roles=roles) == f"write {expected}"


def test_a_name_in_spec_has_its_place():
    rows = [
        ("gpus", 8, "write resources: {nvidia.com/gpu: 8}"),
        ("memory", "64Gi", "write resources: {memory: 64Gi}"),
        ("gpu", {"count": 8}, "write resources: {nvidia.com/gpu: …}"),
        ("restart", "unless-stopped", "write restartPolicy: Always"),
        ("restart", "on-failure", "write restartPolicy: OnFailure"),
        ("accelerators", "A100:8", "write resources: {nvidia.com/gpu: 8}"),
        ("gres", "gpu:a100:4", "write resources: {nvidia.com/gpu: 4}"),
        ("time", "1-12:00:00", "write spec.runPolicy.activeDeadlineSeconds: 129600"),
        ("timeout", "2h", "write spec.runPolicy.activeDeadlineSeconds: 7200"),
        ("failurePolicy", {}, "write spec.runPolicy: {restartScope: All, backoffLimit: …}"),
        ("maxRestarts", 3, "write spec.runPolicy.backoffLimit: 3"),
        ("serviceAccount", "a", "write serviceAccountName: a"),
        ("secrets", "hub", "write envFrom: [{secretRef: {name: hub}}]"),
        ("setup", "pip install -r a", 'write command: [sh, -c, "… && exec …"]'),
        ("trainer", {"numNodes": 2}, "write spec.roles: {master: …, worker: …}"),
        ("schedule", "0 2 * * *", "run mlgen in a CronJob: see docs/guides/nightly.md"),
        (
            *("use_spot", True),
            "select spot nodes with nodeSelector and tolerations: see docs/guides/spot.md",
        ),
        ("run", "torchrun train.py", "write command: [torchrun, train.py]"),
        ("depends_on", ["redis"], "write waitFor: [{role: …}]"),
        ("envs", {"LR": "0.1"}, 'write env: {LR: "0.1"}'),
        ("minAvailable", 3, "write spec.scheduling.minMember: 3"),
        ("imagePullSecret", "hub", "write imagePullSecrets: [{name: hub}]"),
        ("worker", {"replicas": 2}, "move it to spec.roles.worker"),
        ("Worker", 2, "write spec.roles.worker: {replicas: 2}"),
        ("xgbReplicaSpecs", {}, "write spec.roles: {master: …, worker: …}"),
        ("backoffLimit", 0, "write spec.runPolicy.backoffLimit: 0"),
        ("suspend", False, "write spec.runPolicy.suspend: false"),
        ("gang", "volcano", "write spec.scheduling.gang: volcano"),
        ("name", "mnist", "write metadata.name: mnist"),
        ("backoffLimitPerIndex", 1, "write roles.worker.backoffLimitPerIndex: 1"),
        ("entrypoint", "python train.py", "write command: [python, train.py]"),
        ("arguments", ["--lr", "0.1"], 'write args: [--lr, "0.1"]'),
        ("command_", "x", 'did you mean "command"?'),
        ("xgb_replica_specs", {}, "write spec.roles: {master: …, worker: …}"),
        ("rol", {}, 'did you mean "roles"?'),
    ]

    assert [hint(name, value) for name, value, _ in rows] == [expected for _, _, expected in rows]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("persistentVolumeClaim", {"claimName": "coco"}, "write pvc: coco"),
        ("claim", "coco", "write pvc: coco"),
        ("secretName", "hub", "write secret: hub"),
        ("MountPath", "/a", 'did you mean "mountPath"?'),
        ("nfss", {}, 'did you mean "nfs"?'),
    ],
)
def test_a_name_in_a_volume_has_its_short_form(name, value, expected):
    known = list(base()["definitions"]["shortVolume"]["properties"])

    assert for_field(job_file(), ("spec", "volumes", "data"), name, value, known) == expected


def test_a_name_elsewhere_has_its_place():
    rows = [
        (("spec", "waitFor", 0), "rol", 'did you mean "role"?'),
        (("spec", "wait"), "rolle", 'did you mean "role"?'),
        (("spec", "wait"), "rol", 'did you mean "role"?'),
        (("spec", "wait"), "suspend", "write spec.runPolicy.suspend: x"),
        (WORKER, "labels", "move it to template.metadata.labels"),
        ((), "nodes", "write roles.worker.replicas: x"),
        ((), "gpus", "write spec.resources: {nvidia.com/gpu: x}"),
        ((), "volumeMounts", "write spec.volumes: {NAME: {mountPath: …}}"),
        ((), "limits", "write spec.resources.limits: x"),
    ]

    assert [
        for_field(job_file(), path, name, "x", ["role", "until"]) for path, name, _ in rows
    ] == [expected for _, _, expected in rows]


def test_a_name_in_helpers_is_not_sent_to_the_training_pods():
    fields = ["runAsUser", "labels"]
    found = for_field(job_file(), ("spec", "helpers"), "securityContext", {"runAsUser": 5}, fields)

    assert "use one of: runAsUser, labels" == found


def test_a_name_in_roles_that_is_no_role_has_its_place():
    rows = [
        ("pytorch", "MASTER", 'did you mean "master"?'),
        ("pytorch", "master", ""),
        ("pytorch", "runPolicy", "move it to spec.runPolicy"),
        ("pytorch", "replicas", "write roles.worker.replicas: 2"),
        ("pytorch", "wrker", 'did you mean "worker"?'),
        ("generic", "runPolicy", "move it to spec.runPolicy"),
        ("generic", "any", ""),
    ]

    assert [job_file(framework, roles={name: 2}).for_role(name) for framework, name, _ in rows] == [
        expected for _, _, expected in rows
    ]


@pytest.mark.parametrize(
    ("path", "code", "repeats"),
    [
        (("spec", "roles", "runPolicy"), "unknown-role", False),
        (("spec", "roles", "runPolicy"), "bad-value", True),
        (("spec", "roles", "runPolicy", "suspend"), "unknown-field", True),
        (("spec", "roles", "replicas"), "wrong-type", True),
        (("spec", "roles", "wrker", "replicas"), "wrong-type", False),
        (("spec", "roles", "worker", "replicas"), "wrong-type", False),
        (("spec", "roles", "worker"), "wrong-type", False),
        (("spec", "roles"), "wrong-type", False),
        (("spec", "runPolicy"), "wrong-type", False),
    ],
)
def test_what_follows_from_a_wrong_name_in_roles_is_not_reported(path, code, repeats):
    problem = Problem(path, "", code)

    assert job_file().repeats(problem) == repeats
    assert not job_file("generic").repeats(problem)


def test_a_name_that_nothing_resembles_has_the_possible_ones():
    assert hint("zzz").startswith("use one of: framework, ")


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        (SPEC, "cleanPodPolicy", "move it to spec.runPolicy.cleanPodPolicy"),
        (SPEC, "slots_per_worker", 'did you mean "slotsPerWorker"?'),
        ((*SPEC, "x"), "image", "move it to template.spec.containers[0].image"),
        ((*SPEC, "x"), "nodeName", "move it to template.spec.nodeName"),
        ((*SPEC, "x"), "replica", 'did you mean "replicas"?'),
        ((*SPEC, "x"), "cleanPodPolicy", "use one of: replicas, restartPolicy, template"),
    ],
)
def test_a_field_of_a_custom_resource_has_its_place(path, name, expected):
    schema = dialects.schema("kubeflow.org/v2beta1", "MPIJob")
    job = JobFile({}, schema)
    fields = {SPEC: list(schema["properties"]["spec"]["properties"])}

    known = fields.get(path, ["replicas", "restartPolicy", "template"])
    assert for_resource_field(job, path, name, known) == expected


def test_a_field_of_an_empty_mapping_is_to_be_removed():
    assert for_resource_field(JobFile({}, {}), SPEC, "a", []) == "remove it"


def test_confusions_are_normalized_and_lead_to_fields_that_exist():
    tables = [texts(name) for name in ("fields", "advice", "volumes", "values", "booleans")]
    names = " ".join(text for each in tables for text in each.values()).split()
    spec = base()["properties"]["spec"]["properties"]

    assert [normalized(name) for name in names] == names
    assert set(texts("volumes")) <= set(base()["definitions"]["shortVolume"]["properties"])
    for place in texts("fields"):
        first, field, *steps = place.partition(": ")[0].split(".")
        if first in ("", "roles"):
            assert (steps[0] if first else field) in ROLE_FIELDS
        elif steps and field != "options":
            assert steps[-1] in spec[field]["properties"]
        else:
            assert field in spec


def test_a_command_line_is_a_list_of_words():
    rows = [
        ("python train.py", True, "[python, train.py]"),
        ("--lr 0.1 --name 'a b'", False, '[--lr, "0.1", --name, "a b"]'),
        ("cd /app && make", True, '[sh, -c, "cd /app && make"]'),
        ("python $SCRIPT", True, '[sh, -c, "python $SCRIPT"]'),
        ("a;b", False, '["a;b"]'),
        ("echo 'a", False, '[echo, "\'a"]'),
        ("x && " * 40, True, '[sh, -c, "…"], with all of it as the last item'),
        ("python train.py " + "--a b " * 40, True, "[python, train.py, --a, …]"),
    ]

    assert [flow_words(text, command=command) for text, command, _ in rows] == [
        expected for _, _, expected in rows
    ]


PLAIN = st.recursive(
    st.text(st.characters(exclude_categories=["C", "Z"]), max_size=6)
    | st.sampled_from(["no", "1e5", "0x1", "-1", ".5", "12:30", "64Gi", "~", "a: b", "-", "--lr"])
    | st.booleans()
    | st.integers(-9, 99),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "a b", "no", ""]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(PLAIN)
def test_yaml_reads_what_a_hint_shows_as_that_value(value):
    assert YAML(typ="safe", pure=True).load(f"a: {flow(value)}") == {"a": value}
    assert yaml.safe_load(f"a: {flow(value)}") == {"a": value}


def test_a_shown_command_is_read_as_the_words_that_a_shell_reads():
    text = "python -m torch.distributed.run --nnodes=2 --x 'a b' \"c\" 1 no image:1 a:"

    assert yaml.safe_load(flow_words(text, command=True)) == shlex.split(text)
    assert len(flow_words(text, command=True)) <= MAX_FLOW


MANY = f"{{A0: {'x' * 20}, …}}"


def test_a_value_of_another_type_is_written_as_the_right_one():
    rows = [
        (("env",), ["object"], [{"name": "A", "value": "1"}, {"name": "B"}], '{A: "1", B: ""}'),
        (("env",), ["object"], ["A=1", "B"], ""),
        (("env",), ["object"], [{"name": ["A"]}], ""),
        (("env",), ["object"], [{"name": "A" * 200}], f"{{{'A' * 200}: …}}"),
        (("env",), ["object"], [{"name": f"A{i}", "value": "x" * 20} for i in range(9)], MANY),
        (("volumes",), ["object"], [{"name": "d", "nfs": {}}], "{d: {mountPath: …, nfs: {}}}"),
        (("spec", "roles", "worker"), ["object"], 2, "{replicas: 2}"),
        (("args",), ["array"], 8, '["8"]'),
        (
            ("env",),
            ["array"],
            {"LR": "0.1", "B": ""},
            '[{name: LR, value: "0.1"}, {name: B, value: ""}]',
        ),
        (("env",), ["array"], {"A": "x" * 90, "B": "y"}, f"[{{name: A, value: {'x' * 90}}}, …]"),
        (("retryableExitCodes",), ["array"], 8, "[8]"),
        (("spec", "roles"), ["object"], [[]], ""),
        (("a",), ["boolean"], "off", "false"),
        (("a",), ["boolean"], "2", ""),
        (("a",), ["object"], True, ""),
        (("image",), ["string"], {"repository": "a/b", "tag": 2}, "a/b:2"),
        (("image",), ["string"], {"repository": "a/b"}, "a/b"),
        (("configMap",), ["string"], {"name": "a"}, "a"),
        (("secret",), ["string"], {"secretName": "a"}, "a"),
        (("secret",), ["string"], {"items": "a"}, ""),
        (("successPolicy",), ["object"], "AllWorkers", "{replicas: All}"),
        (("successPolicy",), ["object"], "x", ""),
        (("waitFor", 0), ["object"], "a", "{role: a}"),
        (
            *(("tolerations", 0), ["object"], "gpu=yes:NoSchedule"),
            '{key: gpu, value: "yes", effect: NoSchedule}',
        ),
        (
            *(("tolerations", 0), ["object"], "gpu:NoSchedule"),
            "{key: gpu, operator: Exists, effect: NoSchedule}",
        ),
    ]

    for path, types, value, expected in rows:
        text = str(value) if isinstance(value, int) else None

        assert for_type(path, types, value, text) == (expected and f"write {expected}")
