"""`metadata.nameSuffix: hash` adds a hash of the pods' contents to the name of the job."""

import json
import re

import pytest
from support import ROOT, each_file, load_all, rendered

from mlgen import Options
from mlgen.documents.files import texts
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.pipeline import attempt
from mlgen.topology import Role, Topology
from mlgen.variants.name_hash import ALPHABET, LENGTH, digest, in_addresses, renamed

JOB = ROOT / "fixtures/tensorflow-hash.yaml"

HASH = (("metadata", "nameSuffix"), "hash")
SUFFIX = re.compile(rf"-[{ALPHABET}]{{{LENGTH}}}(?=: )")


def suffix(text):
    """The suffix of the first job, from its summary."""
    return SUFFIX.search(text.splitlines()[1])[0]


def assert_only_names_and_addresses_differ(plain, text):
    assert text != plain
    for job_suffix in {suffix(f"\n{line}") for line in text.splitlines() if SUFFIX.search(line)}:
        text = text.replace(job_suffix, "")
    manifests = load_all(text)
    for item in manifests:
        item["metadata"]["labels"].pop("app.kubernetes.io/part-of", None)
    assert manifests == load_all(plain)


@each_file("^", without="hostPort|app.kubernetes.io/part-of", sample=10)
def test_only_names_and_addresses_differ(file, text):
    """The ports of the host also depend on the job's name."""
    hashed = rendered(file, settings=(HASH,))

    assert_only_names_and_addresses_differ(text, hashed)


@each_file("^", without="hostPort|app.kubernetes.io/part-of", sample=4)
def test_the_suffix_hides_no_warning(file):
    """A variant omits policies before the name is hashed, and reports them afterwards."""
    for options in ({"target": "argocd"}, {"target": "flux"}, {"jobset": True}):
        results = [
            attempt(texts((str(file),)), Options(settings=settings, **options))
            for settings in ((), (HASH,))
        ]
        plain, hashed = ([(each.path, each.code) for each in of.problems] for of in results)
        assert hashed == plain


@pytest.mark.parametrize("name", ["launch-generic", "pytorch-nobody", "template-without-main"])
def test_the_suffix_hides_no_error(name):
    """Roles may lack one that decides, and a template may be wrong, before there is a hash."""
    (file,) = ROOT.glob(f"fixtures/**/{name}.yaml")
    plain, hashed = (
        [
            (each.path, each.code, each.warning)
            for each in attempt(texts((str(file),)), Options(settings=settings)).problems
        ]
        for settings in ((), (HASH,))
    )

    assert hashed == plain != []


HOSTS = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert, nameSuffix: hash}
spec:
  framework: deepspeed
  image: example/bert:1
  roles:
    launcher: {command: [deepspeed, "--include=bert-worker-0.bert:0@bert-worker-1.bert:0", a.py]}
    worker: {replicas: 2, resources: {nvidia.com/gpu: 1}}
"""


def test_options_contain_the_names_in_the_job_file(tmp_path):
    (tmp_path / "job.yaml").write_text(HOSTS)
    text = rendered(tmp_path / "job.yaml")

    name = f"bert{suffix(text)}"
    assert f"--include={name}-worker-0.{name}:0@{name}-worker-1.{name}:0" in text


ENDPOINT = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert}
spec:
  framework: pytorch
  image: example/bert:1
  command: [torchrun, --rdzv_backend=c10d, "--rdzv_endpoint=bert-master-0:29500", train.py]
  roles: {master: {}, worker: {replicas: 2}}
"""


def test_roles_are_the_same_if_the_endpoint_is_the_name_of_a_replica(render, tmp_path):
    """Otherwise, the master would be rank-0, and torchrun would not know its own name."""
    (tmp_path / "job.yaml").write_text(ENDPOINT)
    plain = render(tmp_path / "job.yaml")
    text = render(tmp_path / "job.yaml", settings=(HASH,))

    assert "name: bert-master" in plain
    assert_only_names_and_addresses_differ(plain, text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "image"), "example/criteo:8"),
        (("spec", "args"), ["--shards", "2"]),
        (("spec", "env"), {"SEED": "1"}),
        (("spec", "resources"), {"cpu": 2}),
        (("spec", "roles", "worker", "restartPolicy"), "ExitCode"),
        (("spec", "roles", "ps", "replicas"), 3),
        (("spec", "volumes"), {"conf": {"mountPath": "/c", "files": {"a": "b"}}}),
        (("metadata", "name"), "avazu"),
        (("metadata", "labels"), {"team": "ads"}),
    ],
)
def test_a_change_of_what_pods_run_changes_the_suffix(path, value, render):
    assert suffix(render(JOB)) != suffix(render(JOB, settings=((path, value),)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels"), {"helm.sh/chart": "criteo-1.2.0"}),
        (("metadata", "annotations"), {"commit": "8a67666"}),
        (("metadata", "namespace"), "ads"),
        (("spec", "runPolicy", "backoffLimit"), 9),
        (("spec", "runPolicy", "suspend"), True),
        (("spec", "runPolicy", "ttlSecondsAfterFinished"), 3600),
        (("spec", "runPolicy", "activeDeadlineSeconds"), 3600),
        (("spec", "runPolicy", "cleanPodPolicy"), "None"),
        (("spec", "tensorboard"), {"logDir": "gs://logs"}),
    ],
)
def test_a_change_that_running_pods_do_not_see_keeps_the_suffix(path, value, render):
    assert suffix(render(JOB)) == suffix(render(JOB, settings=((path, value),)))


def test_scaling_elastic_workers_keeps_the_name(render):
    elastic = ROOT / "fixtures/pytorch-elastic.yaml"
    more = ("spec", "roles", "worker", "replicas"), 3

    assert suffix(render(elastic, settings=(HASH,))) == suffix(
        render(elastic, settings=(HASH, more))
    )


def test_a_label_selects_all_versions_of_a_job(render):
    for item in load_all(render(JOB)):
        assert item["metadata"]["labels"]["app.kubernetes.io/part-of"] == "criteo"


PLAIN = TrainingJob("job", "generic", {}, name_suffix="hash")


def topology(*roles, job=PLAIN, files=None):
    return Topology(job, tuple(Role(name, 1, RoleSpec(name)) for name in roles), files=files or {})


def manifest(kind, name, **fields):
    versions = {"Job": "batch/v1", "StatefulSet": "apps/v1"}
    return {
        "apiVersion": versions.get(kind, "v1"),
        "kind": kind,
        "metadata": {"name": name},
    } | fields


TEMPLATE = {"spec": {"containers": [{"image": "i"}]}}
OTHER_TEMPLATE = {"spec": {"containers": [{"image": "j"}]}}
JOB_SPEC = {"template": TEMPLATE, "completionMode": "Indexed", "parallelism": 2}
SET_SPEC = {"template": TEMPLATE, "serviceName": "job", "replicas": 2}


def hashes(*manifests, **fields):
    return digest(topology("worker", **fields), manifests)


def test_a_hash_has_eight_letters_that_cannot_form_words():
    assert re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{8}", hashes())


def test_a_hash_is_the_same_in_every_version_of_mlgen():
    """Re-applying a job must not change its name."""
    job = manifest("Job", "job-worker", spec=JOB_SPEC)
    files = manifest("ConfigMap", "job-files", data={"a": "b"})

    assert (hashes(), hashes(job, files, files={"run.py": "x"})) == ("4xk2v6k9", "wth857vt")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (manifest("Job", "job-worker", spec=JOB_SPEC), None),
        (
            manifest("Job", "job-worker", spec=JOB_SPEC),
            manifest("Job", "job-worker", spec=JOB_SPEC | {"template": OTHER_TEMPLATE}),
        ),
        (
            manifest("Job", "job-worker", spec=JOB_SPEC),
            manifest("Job", "job-worker", spec=JOB_SPEC | {"completionMode": "NonIndexed"}),
        ),
        (
            manifest("StatefulSet", "job-worker", spec=SET_SPEC),
            manifest("StatefulSet", "job-worker", spec=SET_SPEC | {"template": OTHER_TEMPLATE}),
        ),
        (
            manifest("StatefulSet", "job-worker", spec=SET_SPEC),
            manifest("StatefulSet", "job-worker", spec=SET_SPEC | {"serviceName": "other"}),
        ),
        (
            manifest("ConfigMap", "job-files", data={"a": "b"}),
            manifest("ConfigMap", "job-files", data={"a": "c"}),
        ),
        (
            manifest("ConfigMap", "job-files", data={"a": "b"}),
            manifest("ConfigMap", "job-more", data={"a": "b"}),
        ),
    ],
)
def test_a_different_object_gives_a_different_hash(before, after):
    assert hashes(before) != hashes(*([after] if after else []))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            manifest("Job", "job-worker", spec=JOB_SPEC),
            manifest("Job", "job-worker", spec=JOB_SPEC | {"parallelism": 3}),
        ),
        (
            manifest("StatefulSet", "job-worker", spec=SET_SPEC),
            manifest("StatefulSet", "job-worker", spec=SET_SPEC | {"replicas": 3}),
        ),
        (
            manifest("Job", "job-supervisor", spec=JOB_SPEC),
            manifest("Job", "job-supervisor", spec=JOB_SPEC | {"template": OTHER_TEMPLATE}),
        ),
        (
            manifest("ConfigMap", "job.config", data={"wait.sh": "1"}),
            manifest("ConfigMap", "job.config", data={"wait.sh": "2"}),
        ),
        (
            manifest("ConfigMap", "job.supervisor", data={"plan.json": "{}", "decide.py": "1"}),
            manifest("ConfigMap", "job.supervisor", data={"plan.json": "[]", "decide.py": "2"}),
        ),
        (
            manifest("ConfigMap", "job.supervisor", data={"plan.json": "{}"}),
            manifest("ConfigMap", "job.status", data={}),
        ),
        (manifest("ConfigMap", "job.status"), manifest("ConfigMap", "job-other")),
        (manifest("Service", "job", spec={"a": 1}), manifest("Service", "job", spec={"a": 2})),
    ],
)
def test_what_replicas_do_not_see_does_not_change_the_hash(before, after):
    assert hashes(before) == hashes(after)


def test_a_generated_file_changes_the_hash():
    assert hashes(files={"a": "b"}) != hashes(files={"a": "c"})


def test_a_renamed_job_remembers_its_plain_name():
    job = renamed(PLAIN, topology("worker"), [])

    assert job.name == f"job-{hashes()}"
    assert (job.part_of, job.name_suffix) == ("job", None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("job-worker-0.job", "job-x-worker-0.job-x"),
        ("job-worker-12.job:22", "job-x-worker-12.job-x:22"),
        ("job-worker-3-0.job.ns.svc", "job-x-worker-3-0.job-x.ns.svc"),
        ("http://job-ps-[0-3].job/", "http://job-x-ps-[0-3].job-x/"),
        (
            "job-ps-$(MLGEN_REPLICA_INDEX).job,job-ps-1.job",
            "job-x-ps-$(MLGEN_REPLICA_INDEX).job-x,job-x-ps-1.job-x",
        ),
        ("job-chief-0.job", "job-chief-0.job"),
        ("my-job-worker-0.job", "my-job-worker-0.job"),
        ("a.job-worker-0.job", "a.job-worker-0.job"),
        ("job-worker-0.jobs", "job-worker-0.jobs"),
        ("job-worker-0.job-2", "job-worker-0.job-2"),
        ("job-worker-0", "job-worker-0"),
        ("job-worker-a.job", "job-worker-a.job"),
        ("job", "job"),
        (7, 7),
        (None, None),
    ],
)
def test_addresses_of_replicas_get_the_suffix_wherever_they_are(before, after):
    job = TrainingJob("job-x", "generic", {}, part_of="job")
    laid_out = topology("worker", "ps", job=job)

    assert in_addresses(laid_out, [{"a": [before], "b": {"c": before}}]) == [
        {"a": [after], "b": {"c": after}}
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("job-worker-0", "job-x-worker-0"),
        ("--ps=job-ps-0:22,job-ps-1:22", "--ps=job-x-ps-0:22,job-x-ps-1:22"),
        ("job-ps-0.n.svc", "job-x-ps-0.n.svc"),
        ("job-ps-0.txt /data/job-ps-0", "job-ps-0.txt /data/job-ps-0"),
    ],
)
def test_names_of_services_get_the_suffix_where_they_are_dialled(before, after):
    job = TrainingJob("job-x", "generic", {}, part_of="job")

    assert in_addresses(topology("worker", "ps", job=job), [{"args": [before], "b": before}]) == [
        {"args": [after], "b": before}
    ]


def test_the_program_of_the_supervisor_is_not_changed():
    job = TrainingJob("job-x", "generic", {}, part_of="job")
    program = manifest("ConfigMap", "job-x.supervisor", data={"a.py": "# job-worker-0.job"})

    assert in_addresses(topology("worker", job=job), [program]) == [program]


def test_the_plan_of_the_supervisor_has_the_names_with_the_suffix(render):
    items = load_all(render(JOB))
    names = {(item["kind"], item["metadata"]["name"]) for item in items}
    (text,) = (item["data"]["plan.json"] for item in items if "plan.json" in item.get("data", {}))
    plan = json.loads(text)

    assert {(each["kind"], each["name"]) for each in plan["workloads"]} < names
    assert ("ConfigMap", f"{plan['job']}.status") in names
    assert plan["job"] != "criteo"


def test_references_to_config_maps_of_the_job_get_the_suffix():
    job = TrainingJob("job-x", "generic", {}, part_of="job")
    config_map = manifest("ConfigMap", "job-x-files")
    volumes = [{"configMap": {"name": name}} for name in ("job-files", "job-other")]

    renamed = in_addresses(topology(job=job), [config_map, {"volumes": volumes}])

    assert [volume["configMap"]["name"] for volume in renamed[1]["volumes"]] == [
        "job-x-files",
        "job-other",
    ]
