"""`mlgen diff`: the report of a change. tests/cluster compares it with a real API server."""

import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys

import pytest
import support
from click.testing import CliRunner
from support import FIXTURES, ROOT, each_file, load_all, spoilt, without_totals

import mlgen
from mlgen.cli import main

GOOD = ROOT / "fixtures/tensorflow-ps.yaml"
BAD = ROOT / "fixtures/invalid/unknown-role.yaml"


def run(*words, stdin=None):
    return CliRunner().invoke(main, list(map(str, words)), input=stdin, catch_exceptions=False)


@pytest.fixture
def rendered(tmp_path):
    """Render a fixture with other values into a file."""

    def rendered(name, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        result = run("render", ROOT / f"fixtures/{name}.yaml", *words)
        assert result.exit_code == 0, result.stderr
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
        file.write_text(result.stdout)
        return file

    return rendered


@pytest.fixture
def written(tmp_path):
    """Write objects into a file."""

    def written(*objects):
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return file

    return written


CHANGED = {
    "image": ("tensorflow-ps", "spec.image=example/mnist:2"),
    "one-more-server": ("tensorflow-ps", "spec.roles.ps.replicas=3"),
    "elastic": ("pytorch-elastic", "spec.roles.worker.replicas=4"),
    "suspended": ("tensorflow-single", "spec.runPolicy.suspend=true"),
    "limits": ("pytorch-elastic", "spec.runPolicy.backoffLimit=3"),
    "files": ("generic-files", r"spec.volumes.settings.files.widths\.txt=wide"),
    "gang": ("tensorflow-volcano", "spec.roles.worker.replicas=3"),
    "tensorboard": ("tensorflow-tensorboard", "spec.tensorboard.logDir=s3://logs/other"),
    "hash": ("tensorflow-hash", "spec.image=example/criteo:8"),
    "namespace": ("tensorflow-single", "metadata.namespace=vision"),
    "supervisor": ("tensorflow-clean-all", "spec.runPolicy.cleanPodPolicy=None"),
}
"""A fixture, and the value that changes in it."""


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_of_a_job_file(name, rendered, message):
    fixture, setting = CHANGED[name]

    result = run("diff", rendered(fixture), rendered(fixture, setting))

    assert (3, "") == (result.exit_code, result.stderr)
    assert result.stdout == message


def manifest(kind, name, version="v1", **content):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}


def workload(kind, name, image="example/serve:1", **spec):
    meta = {"labels": {"app": name}}
    pod = {"containers": [{"name": "main", "image": image}], **spec.pop("pod", {})}
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": 3, "selector": selector, "template": {"metadata": meta, "spec": pod}} | spec
    return manifest(kind, name, "apps/v1", spec=spec)


ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
PARTITION = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
GROUP = "scheduling.volcano.sh/v1beta1"
FORCED = {"argocd.argoproj.io/sync-options": "Force=true,ServerSideApply=false"}
LONG = "".join(f"echo {number}\n" for number in range(50))


def reader(name, *mounts, refs=()):
    """A Deployment with the ConfigMap `settings` as files, or other objects as variables."""
    mounted = [{"name": "v", "mountPath": f"/{number}", **m} for number, m in enumerate(mounts)]
    main = {"name": "main", "image": "a", "volumeMounts": mounted, "envFrom": list(refs)}
    volumes = [{"name": "v", "configMap": {"name": "settings"}}] if mounts else []
    return workload("Deployment", name, pod={"volumes": volumes, "containers": [main]})


SUB_PATH = {"subPath": "run.sh"}
REFS = ({"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "key"}})
READERS = [
    reader("files", {}),
    reader("variables", refs=REFS),
    reader("both", {}, SUB_PATH),
    reader("late", SUB_PATH),
    reader("other", refs=({"configMapRef": {"name": "other"}},)),
]

BEFORE = [
    workload("StatefulSet", "by-hand", **ON_DELETE),
    workload("StatefulSet", "half", **PARTITION),
    workload("Deployment", "board"),
    workload("Deployment", "board-alone", strategy={"type": "Recreate"}),
    workload("DaemonSet", "agent"),
    workload("StatefulSet", "renamed", serviceName="a"),
    manifest("Service", "address", spec={"selector": {"app": "a"}, "ports": [{"port": 80}]}),
    manifest("Service", "headless", spec={"clusterIP": "None", "selector": {"app": "a"}}),
    manifest("ConfigMap", "locked", data={"a": "1"}, immutable=True),
    manifest("ConfigMap", "settings", data={"run.sh": LONG, "a": "1"}),
    manifest("Secret", "key", stringData={"token": "hunter2"}),
    manifest("PersistentVolumeClaim", "data")
    | {"spec": {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}},
    manifest("PersistentVolumeClaim", "more")
    | {"spec": {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}},
    manifest("RoleBinding", "binding", "rbac.authorization.k8s.io/v1")
    | {"roleRef": {"kind": "Role", "name": "a"}, "subjects": []},
    manifest("Gang", "gang", "example.org/v1", spec={"size": 1}),
    manifest("Gang", "old", "example.org/v1", spec={"size": 1}),
    manifest("Role", "old", "rbac.authorization.k8s.io/v1", rules=[]),
    *READERS,
]


def after():
    """BEFORE, with one change in each object except the readers."""
    objects = {(item["kind"], item["metadata"]["name"]): item for item in BEFORE}

    def changed(kind, name, **content):
        return {**objects[kind, name], **content}

    forced = workload("StatefulSet", "renamed", serviceName="b")
    forced["metadata"]["annotations"] = FORCED
    return [
        workload("StatefulSet", "by-hand", "example/serve:2", **ON_DELETE),
        workload("StatefulSet", "half", "example/serve:2", **PARTITION),
        workload("Deployment", "board", "example/serve:2", replicas=1),
        workload("Deployment", "board-alone", "example/serve:2", strategy={"type": "Recreate"}),
        workload("DaemonSet", "agent", "example/serve:2"),
        forced,
        changed("Service", "address", spec={"selector": {"app": "b"}, "ports": [{"port": 80}]}),
        changed("Service", "headless", spec={"selector": {"app": "a"}}),
        changed("ConfigMap", "locked", data={"a": "2"}),
        changed("ConfigMap", "settings", data={"run.sh": f"set -e\n{LONG}", "a": "yes"}),
        changed("Secret", "key", stringData={"token": "hunter3", "other": "x"}),
        changed(
            "PersistentVolumeClaim",
            "data",
            spec={"resources": {"requests": {"storage": "512Mi"}}, "accessModes": ["ReadOnlyMany"]},
        ),
        changed(
            "PersistentVolumeClaim",
            "more",
            spec={"resources": {"requests": {"storage": "2Gi"}}, "accessModes": ["ReadWriteOnce"]},
        ),
        changed("RoleBinding", "binding", roleRef={"kind": "Role", "name": "b"}),
        changed("Gang", "gang", spec={"size": 2}),
        *READERS,
        reader("new", {}),
    ]


def test_objects_of_all_kinds(written, message):
    result = run("diff", written(*BEFORE), written(*after()))

    assert (3, "") == (result.exit_code, result.stderr)
    assert result.stdout == message
    assert "hunter" not in result.stdout


def test_a_single_change_that_is_rejected(written, message):
    old, new = (manifest("ConfigMap", "a", data={"a": value}, immutable=True) for value in "12")

    result = run("diff", written(old), written(new))

    assert 3 == result.exit_code
    assert result.stdout == message


def test_another_version_of_the_supervisor_s_program_is_one_line(rendered):
    old, new = rendered("tensorflow-ps"), rendered("tensorflow-ps")
    text = old.read_text().replace("mlgen:0.2.0@", "mlgen:0.1.0@")
    old.write_text(re.sub(r"(supervisor\.pyz: 'UEsDBBQ)(\w+)", r"\g<1>another\2", text))

    result = run("diff", old, new)

    assert (3, "") == (result.exit_code, result.stderr)
    assert result.stdout == (
        "ConfigMap mnist.supervisor: changed\n"
        "  binaryData: the supervisor's program, which mlgen verify checks\n"
        "  Job mnist-supervisor sees the change only after its containers restart\n"
        "no change will be rejected: 1 changed\n"
    )


def test_a_change_of_the_supervisor_s_plan_is_shown(rendered):
    limit = "spec.runPolicy.giveUpAfter.crashes=7"

    result = run("diff", rendered("tensorflow-ps"), rendered("tensorflow-ps", limit))

    assert '+  "crashes": 7' in result.stdout
    assert "supervisor sees the change only after its containers restart" in result.stdout
    assert "program" not in result.stdout


@each_file(files=FIXTURES)
def test_a_job_does_not_differ_from_its_manifests(file):
    result = run("diff", "-", file, stdin=support.rendered(file))

    assert (0, "") == (result.exit_code, result.stdout)


def test_a_folder_is_compared_object_by_object_whatever_the_files(tmp_path, rendered):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    shutil.copy(rendered("tensorflow-single"), old / "a.yaml")
    shutil.copy(rendered("pytorch-static"), old / "b.yaml")
    both = (old / "b.yaml").read_text() + (old / "a.yaml").read_text()
    (new / "c.yaml").write_text(both)

    assert (0, "") == (run("diff", old, new).exit_code, run("diff", old, new).stdout)


def test_old_or_new_can_be_standard_input(rendered):
    text = rendered("tensorflow-ps").read_text()

    assert 0 == run("diff", "-", GOOD, stdin=text).exit_code
    assert 0 == run("diff", GOOD, "-", stdin=text).exit_code


def test_options_apply_to_old_and_new():
    words = ("--set", "spec.image=a", "-n", "vision", "--no-supervisor", "--kube-version", "1.31")

    assert 0 == run("diff", GOOD, GOOD, *words).exit_code


@pytest.mark.parametrize(("version", "status"), [("1.35", "will be"), ("1.36", "may be")])
def test_resources_of_a_suspended_job_may_change_from_1_36_on(version, status, written):
    """pkg/registry/batch/job/strategy.go: MutablePodResourcesForSuspendedJobs."""

    def job(cpu):
        resources = {"requests": {"cpu": cpu}}
        pod = {"containers": [{"name": "main", "image": "a", "resources": resources}]}
        spec = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", **pod}}}
        return manifest("Job", "a", "batch/v1", spec=spec)

    result = run("diff", written(job(1)), written(job(2)), "--kube-version", version)

    assert result.stdout.startswith(
        f"Job a: {status} rejected by the API server: spec.template is immutable"
    )


@pytest.mark.parametrize("pair", [(1, "1000m"), ("1Gi", "1024Mi"), (0.5, "500m")])
def test_equal_quantities_do_not_differ(pair, written):
    one, other = (
        workload("Deployment", "a", pod={"containers": [{"name": "a", "resources": resources}]})
        for resources in ({"limits": {"memory": amount}} for amount in pair)
    )

    assert 0 == run("diff", written(one), written(other)).exit_code


def test_true_is_not_1(written):
    one, other = (manifest("Gang", "a", "example.org/v1", spec={"a": value}) for value in (1, True))

    assert 3 == run("diff", written(one), written(other)).exit_code


def test_reordered_items_are_a_change(written):
    names = [{"name": name, "image": name} for name in "ab"]
    one, other = (
        workload("Deployment", "a", pod={"containers": items}) for items in (names, names[::-1])
    )

    result = run("diff", written(one), written(other))

    assert "  spec.template.spec.containers: new order: b, a\n" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["diff"],
        ["diff", GOOD],
        ["diff", GOOD, GOOD, GOOD],
        ["diff", "-", "-"],
        ["diff", "--live"],
        ["diff", "--live", GOOD, GOOD],
    ],
    ids=len,
)
def test_a_wrong_command_line_exits_with_2(words):
    result = run(*words, stdin="")

    assert (2, "") == (result.exit_code, result.stdout)
    assert result.stderr.startswith("Usage: ")


def test_problems_of_old_and_new_are_reported(tmp_path):
    result = run("diff", tmp_path / "none.yaml", BAD)

    assert (1, "") == (result.exit_code, result.stdout)
    assert "none.yaml:1:1: cannot be read: No such file or directory [unreadable]" in result.stderr
    assert "[unknown-role]" in result.stderr


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """Replace kubectl with a program that prints fixed output."""

    def kubectl(answer="", error="", status=0):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in (("answer", answer), ("error", error)):
            (folder / name).write_text(text)
        program = folder / "kubectl"
        program.write_text(
            f"#!/bin/sh\ncat > {folder}/request\ncat {folder}/answer\ncat {folder}/error >&2\n"
            f"exit {status}\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        return folder

    return kubectl


def test_everything_is_new_in_an_empty_cluster(kubectl, message):
    folder = kubectl()

    result = run("diff", "--live", GOOD, "-n", "vision")

    assert (3, "") == (result.exit_code, result.stderr)
    assert result.stdout == message
    requested = json.loads((folder / "request").read_text())["items"]
    assert {"vision"} == {item["metadata"]["namespace"] for item in requested}


def test_objects_that_belong_to_others_are_named(kubectl, tmp_path):
    role = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: %s}\nspec:\n"
    role += "  framework: generic\n  image: a\n  roles: {%s: {}}\n"
    for job, name in (("a", "b-c"), ("a-b", "c")):
        (tmp_path / f"{job}.yaml").write_text(role % (job, name))
    theirs = mlgen.render((tmp_path / "a.yaml").read_text())
    (job,) = (item for item in theirs if item["metadata"]["name"] == "a-b-c")
    uid = {"uid": "u", "namespace": "default"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a-b", **uid}}
    job["metadata"] |= uid
    kubectl(json.dumps({"kind": "List", "items": [job, service]}))

    result = run("diff", "--live", tmp_path / "a-b.yaml")

    assert (3, "") == (result.exit_code, result.stderr)
    headings = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert headings == [
        "Service a-b: exists, but mlgen did not render it",
        "Job a-b-c: belongs to job a",
        "do not apply it: 2 names already in use by others; rename the job or its roles",
    ]


def test_an_error_of_kubectl_is_reported_in_one_line(kubectl):
    kubectl(
        error="E0101 00:00:00 memcache.go:265] couldn't get current server API group list\n"
        "error: resource mapping not found for name: a\nensure CRDs are installed first\n",
        status=1,
    )

    result = run("diff", "--live", GOOD)

    assert (1, "") == (result.exit_code, result.stdout)
    assert without_totals(result.stderr) == (
        "kubectl failed: resource mapping not found for name: a ensure CRDs are installed first; "
        "fix the cause, or compare files: mlgen diff OLD NEW [kubectl]\n"
    )


def test_only_fields_of_the_manifests_are_compared_with_the_cluster(kubectl, rendered):
    """Defaults, status and fields of other writers are ignored, unless they were applied last."""
    objects = load_all(rendered("tensorflow-ps").read_text())
    for item in objects:
        own = {**item["metadata"].get("annotations", {}), "own": "x"}
        last = {**item, "metadata": {**item["metadata"], "annotations": own}}
        annotations = {
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps(last),
            **own,
            "other": "y",
        }
        item["metadata"] |= {"uid": "1", "namespace": "a", "annotations": annotations}
        item["status"] = {"replicas": 1}
        if "template" in item.get("spec", {}):
            pod = item["spec"]["template"]["spec"]
            pod["containers"].append({"name": "injected", "image": "example/mesh:1"})
            pod["dnsPolicy"] = "ClusterFirst"
    kubectl(json.dumps({"kind": "List", "items": objects}))

    result = run("diff", "--live", GOOD)

    changed = [line for line in result.stdout.splitlines() if line.startswith("  ")]
    assert ["  metadata.annotations[own]: x -> (not set)"] * len(objects) == changed
    assert 3 == result.exit_code


@pytest.mark.slow
def test_output_is_the_same_in_every_process(rendered):
    old, new = rendered("tensorflow-ps"), rendered("tensorflow-ps", "spec.image=a")
    command = [sys.executable, "-m", "mlgen", "diff", str(old), str(new)]

    texts = {
        subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in "123"
    }

    assert 1 == len(texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tensorflow-ps", "mpi-kubectl-exec", "pytorch-volumes"])
def test_malformed_manifests_cause_no_traceback(name, rendered, tmp_path):
    chance = random.Random(name)
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    for item in load_all(rendered(name).read_text()):
        for _ in range(4):
            old.write_text(json.dumps(item))
            new.write_text(json.dumps(spoilt(json.loads(old.read_text()), chance)))
            for sides in ((old, new), (new, old)):
                assert run("diff", *sides).exit_code in (0, 1, 3)


@pytest.mark.parametrize("name", ["secret-as-lists", "list-without-items", "types-in-a-list"])
def test_objects_of_other_shapes_are_what_they_were(name):
    file = ROOT / f"fixtures/hostile/{name}.yaml"

    assert run("diff", file, file).exit_code == (name == "types-in-a-list")


def test_a_secret_of_another_shape_is_compared_as_it_is(written):
    old = written(manifest("Secret", "key", stringData=["a"]))
    new = written(manifest("Secret", "key", stringData=["b"]), {"metadata": {"name": "no-kind"}})

    result = run("diff", old, new)

    assert (3, True) == (result.exit_code, "stringData: *** -> ***" in result.stdout)
    assert "no-kind" not in result.stdout


@pytest.mark.parametrize("field", ["data", "stringData", "dta"])
def test_no_value_of_a_secret_is_printed(field, written):
    old, new = (written(manifest("Secret", "key", **{field: {"k": t}})) for t in ("aHVu", "dGVy"))

    result = run("diff", old, new)

    assert result.exit_code == 3
    assert "*** -> ***" in result.stdout
    assert not {"aHVu", "dGVy", "hun", "ter"} & set(re.findall(r"\w+", result.stdout))


def test_no_value_of_a_secret_in_another_object_is_printed(written):
    secrets = (manifest("Secret", "key", data={"k": text}) for text in ("aHVu", "dGVy"))
    old, new = (written(manifest("Wrapper", "a", spec={"parts": [each]})) for each in secrets)

    result = run("diff", old, new)

    assert (3, True) == (result.exit_code, "*** -> ***" in result.stdout)
    assert not {"aHVu", "dGVy", "hun", "ter"} & set(re.findall(r"\w+", result.stdout))
