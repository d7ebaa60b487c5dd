"""Custom resources of the operators: their job files, their manifests and their problems."""

import json
import re
import subprocess
import sys
from copy import deepcopy

import pytest
from click.testing import CliRunner
from support import (
    FIXTURES,
    RESOURCES,
    ROOT,
    cases,
    each_file,
    load,
    load_all,
    rendered_once,
    without_totals,
)
from support import manifests_text as text

import mlgen
from mlgen import dialects
from mlgen.cli import main
from mlgen.documents.document import Document, marked
from mlgen.documents.files import Text
from mlgen.jobfile.schema import base
from mlgen.output import yaml as emit
from mlgen.problems import Collector, MlgenError, Place, Problem

ROLE_FIELDS = {*base()["definitions"]["role"]["properties"]} - {"template", "volumes"}
"""The fields of a role. TensorBoard also uses the volumes for all roles."""

KINDS = [(name, *key) for name in dialects.names() for key in dialects.get(name).kinds]


@pytest.fixture
def run(monkeypatch):
    monkeypatch.chdir(ROOT)

    def run(*words, stdin=None):
        return CliRunner().invoke(main, list(map(str, words)), stdin, catch_exceptions=False)

    return run


def relative(path):
    return path.relative_to(ROOT)


@pytest.mark.parametrize("path", cases(RESOURCES))
def test_the_job_file_of_a_custom_resource(path, run, manifest):
    result = run("convert", relative(path))

    warnings = "".join(f"# {line}\n" for line in without_totals(result.stderr).splitlines())
    assert result.exit_code == 0
    assert result.stdout + warnings == manifest


@each_file(files=RESOURCES)
def test_the_job_file_renders_to_the_same_bytes(file):
    job, _ = mlgen.convert(file)

    assert text(mlgen.validate(job).parts, "yaml") == rendered_once(file)


@each_file(files=RESOURCES)
def test_fields_for_all_roles_mean_the_same_as_in_each_role(file):
    (job,) = load_all(mlgen.convert(file)[0])
    shared = {name: value for name, value in job["spec"].items() if name in ROLE_FIELDS}
    spec = {name: value for name, value in job["spec"].items() if name not in shared}
    roles = deepcopy(spec["roles"])
    for name, role in roles.items():
        own = {"env": shared.get("env", {}) | role["env"]} if "env" in role else {}
        roles[name] = shared | role | own
    apart = job | {"spec": spec | {"roles": roles}}

    assert mlgen.render(apart) == mlgen.render(job)


def test_every_kind_and_version_has_a_fixture_of_its_dialect():
    first = {path: load_all(path.read_text())[0] for path in RESOURCES}
    found = {(path.stem.split("-")[0], r["apiVersion"], r["kind"]) for path, r in first.items()}

    assert [] == [key for key in KINDS if key not in found]
    assert {dialect for dialect, *_ in found} == {*dialects.names()}


def test_every_kind_and_version_has_a_row_in_the_docs():
    text = (ROOT / "docs/migrate/index.md").read_text()

    assert [] == [
        (dialect, version, kind)
        for dialect, version, kind in KINDS
        if not re.search(rf"^\| `{dialect}` \|(?=.*`{version}`).*\b{kind}\b", text, re.MULTILINE)
    ]


def test_the_differences_of_every_operator_are_in_the_docs():
    pages = {name: ROOT / f"docs/migrate/{name.replace('_', '-')}.md" for name in dialects.names()}

    assert [] == [name for name in pages if "\n| the operator" not in pages[name].read_text()]


def document(data):
    return Document(data, marked({(): Place("job.yaml")}))


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        (None, (), "expected a TrainingJob or another Kubernetes object, which is a mapping"),
        ([{}], (), "expected a TrainingJob or another Kubernetes object, which is a mapping"),
        ({"kind": "A"}, ("apiVersion",), 'field "apiVersion" is missing'),
        ({"apiVersion": "v1"}, ("kind",), 'field "kind" is missing'),
        ({"apiVersion": "v1", "kind": 1}, ("kind",), "expected a string, got the number 1"),
    ],
)
def test_a_document_that_is_no_object_is_rejected(data, path, message):
    with pytest.raises(MlgenError) as error:
        dialects.native(document(data))

    (problem,) = error.value.problems
    assert (problem.path, problem.message, problem.code) == (path, message, "unknown-kind")


@pytest.mark.parametrize(
    ("version", "kind", "path", "hint"),
    [
        ("mlgen.dev/v1", "TrainingJob", "apiVersion", "use mlgen.dev/v1alpha1"),
        ("mlgen.dev/v1alpha1", "TrainingJbo", "kind", 'did you mean "TrainingJob"?'),
        ("mlgen.dev/v1alpha1", "A", "kind", "use TrainingJob"),
        (
            *("mlgen.dev/v1alpha1", "MarsJob", "apiVersion"),
            (
                "write kind: TrainingJob for a job file; "
                "for the operator's MarsJob, use training.kubedl.io/v1alpha1"
            ),
        ),
        ("elasticdl.org/v1", "A", "kind", "use ElasticAIJob"),
        (
            "elasticdl.org/v2",
            "ElasticAIJob",
            "apiVersion",
            "use one of: elasticdl.org/v1, elasticdl.org/v1alpha1",
        ),
        ("batch.paddlepaddle.org/v1", "PaddleJob", "apiVersion", "use kubeflow.org/v1"),
        ("kubeflow.org/v1", "TFJbo", "kind", 'did you mean "TFJob"?'),
        ("trainer.kubeflow.org/v1alpha1", "TrainJbo", "kind", 'did you mean "TrainJob"?'),
    ],
)
def test_a_misspelt_job_is_rejected_with_what_to_write(version, kind, path, hint):
    data = {"apiVersion": version, "kind": kind}

    with pytest.raises(MlgenError) as error:
        dialects.native(document(data))

    (problem,) = error.value.problems
    assert (problem.path, problem.hint) == ((path,), hint)
    assert not dialects.is_foreign(version, kind)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "ConfigMap"),
        ("batch/v1", "Job"),
        ("kubeflow.org/v1", "Notebook"),
        ("kubeflow.org/v2beta1", "Experiment"),
        ("example.org/v1", "MyJob"),
    ],
)
def test_other_objects_are_foreign(version, kind):
    assert dialects.native(document({"apiVersion": version, "kind": kind})) == (None, [])
    assert dialects.is_foreign(version, kind)


def test_a_training_job_is_returned_as_it_is():
    job = document({"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob", "a": 1})

    assert dialects.native(job) == (job, [])
    assert not dialects.is_foreign("mlgen.dev/v1alpha1", "TrainingJob")


def test_the_groups_are_those_of_all_kinds_and_of_mlgen():
    groups = {"mlgen.dev", "kubeflow.org", "xgboostjob.kubeflow.org", "elasticdl.org"}

    assert groups <= dialects.groups()
    assert "apps" not in dialects.groups()


def read(text):
    return [each.data for each in dialects.documents(Text("job.yaml", text))]


def test_only_a_list_that_contains_a_job_is_split():
    job = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob"}
    other = {"apiVersion": "v1", "kind": "ConfigMap"}
    mixed, others = (
        {"apiVersion": "v1", "kind": "List", "items": items} for items in ([other, job], [other])
    )

    assert read(json.dumps(mixed)) == [other, job]
    assert read(json.dumps(others)) == [others]
    assert read(json.dumps(mixed | {"items": None})) == [mixed | {"items": None}]
    nothing = {"apiVersion": [1], "kind": {}}
    assert read(json.dumps(mixed | {"items": [nothing, job]})) == [nothing, job]


def test_documents_are_processed_after_those_that_fail():
    texts = [Text("a.yaml", "a: [\n---\nb: 1\n"), Text("b.yaml", "c: 1\n")]
    failed = Problem((), "no", "refused")
    warning = Problem((), "maybe", "differs", warning=True)
    collector = Collector()

    def process(document):
        if "b" in document.data:
            raise MlgenError([failed])
        return document.data, [warning]

    results = list(dialects.each(texts, process, collector))

    assert results == [{"c": 1}]
    assert [problem.code for problem in collector.problems] == ["not-yaml", "refused", "differs"]


CONFIG = """\
# the data   that 'both' jobs read
apiVersion: v1
kind: ConfigMap
metadata: {name: data,   namespace: a}
data: {on: "yes", list: '[1,
  2]'}
"""


def test_other_objects_pass_through_byte_for_byte(run, tmp_path):
    job = FIXTURES[0].read_text()
    resource = RESOURCES[0].read_text()
    file = tmp_path / "all.yaml"
    file.write_text(f"{CONFIG}---\n{job}--- # and\n{resource}---\n{CONFIG.replace('data,', 'd,')}")

    rendered = run("render", file).stdout

    assert rendered.startswith(f"---\n{CONFIG}---\n# ")
    assert rendered.endswith(f"\n---\n{CONFIG.replace('data,', 'd,')}")
    between = rendered.removeprefix(f"---\n{CONFIG}").removesuffix(
        f"---\n{CONFIG.replace('data,', 'd,')}"
    )
    alone = [run("render", path).stdout for path in (FIXTURES[0], RESOURCES[0])]
    assert between == "".join(alone)


def test_a_mixed_stream_converts_and_renders_to_the_same_bytes(run, tmp_path):
    file = tmp_path / "all.yaml"
    parts = [CONFIG, FIXTURES[0].read_text(), RESOURCES[0].read_text()]
    file.write_text("---\n".join(parts))

    job = run("convert", file).stdout

    assert job.startswith(f"---\n{CONFIG}---\n{parts[1]}---\n")
    assert run("render", "-", stdin=job).stdout == run("render", file).stdout


@pytest.mark.parametrize("line_end", ["", "\n"])
def test_another_object_alone_passes_through(run, line_end):
    result = run("render", "-", stdin=CONFIG.rstrip() + line_end)

    assert (0, f"---\n{CONFIG}") == (result.exit_code, result.stdout)
    assert "no jobs, 1 other object (ConfigMap)\n" == result.stderr


def test_a_job_of_kubernetes_passes_through(run):
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {}}\n"

    assert run("render", "-", stdin=job).stdout == f"---\n{job}"


def test_another_object_is_an_item_of_the_json_list(run):
    items = json.loads(run("render", "-", "--format", "json", stdin=CONFIG).stdout)["items"]

    assert items == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "data", "namespace": "a"},
            "data": {"on": "yes", "list": "[1, 2]"},
        }
    ]


def test_an_object_that_a_job_renders_too_is_rejected(run, tmp_path):
    file = tmp_path / "all.yaml"
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: mnist, namespace: vision}\n"
    file.write_text((ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml").read_text())
    with file.open("a") as text:
        text.write(f"---\n{service}")

    result = run("render", file)

    assert result.exit_code == 1
    assert "Service mnist would be rendered twice" in result.stderr


def test_the_output_of_kubectl_get_renders_to_the_same_bytes(run):
    """`kubectl get -o yaml` also prints the fields that the API server adds."""
    path = ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml"
    item = load(path.read_text())
    item["metadata"] |= {
        "uid": "a",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "managedFields": [],
    }
    item["status"] = {"conditions": []}
    item["spec"]["tfReplicaSpecs"]["Chief"]["template"]["metadata"] = {"creationTimestamp": None}

    rendered = run("render", "-", stdin=emit.yaml_text([item]))

    assert rendered.stdout == run("render", relative(path)).stdout, rendered.stderr


def test_a_list_renders_as_its_items(run):
    """`kubectl get tfjobs -o yaml` prints a List."""
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data"}}]
    items += [load(path.read_text()) for path in (FIXTURES[0], RESOURCES[0])]
    text = emit.yaml_text([{"apiVersion": "v1", "kind": "List", "items": items}])

    rendered = run("render", "-", stdin=text)

    alone = [run("render", path).stdout for path in (FIXTURES[0], RESOURCES[0])]
    assert rendered.stdout == "".join([emit.yaml_text(items[:1]), *alone]), rendered.stderr
    job = run("convert", "-", stdin=text).stdout
    assert run("render", "-", stdin=job).stdout == rendered.stdout


def test_a_problem_of_an_item_has_its_line(run):
    item = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {}\n"
    text = "".join(f"  {line}\n" for line in item.splitlines())

    stderr = run("render", "-", stdin=f"apiVersion: v1\nkind: List\nitems:\n-{text[1:]}").stderr

    assert stderr.startswith('<stdin>:7:9: spec: field "tfReplicaSpecs" is missing')


def test_settings_apply_to_the_equivalent_job_file(run):
    path = "fixtures/resources/kubeflow-tfjob-v1.yaml"

    rendered = run("render", path, "--set", "spec.roles.worker.replicas=7").stdout

    assert re.search("worker +7 in Job", rendered)


def test_a_problem_of_the_job_file_is_reported_at_the_custom_resource(run):
    """It has the path in the custom resource, even if the path in the job file differs."""
    text = (ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml").read_text()
    text = text.replace('value: "1e-5"', "value: 1e-5").replace("gpu: 1}", "gpu: 0.5}")
    line = text.splitlines().index("                limits: {nvidia.com/gpu: 0.5}") + 1

    before_conversion = without_totals(run("render", "-", stdin=text).stderr).splitlines()
    text = text.replace("value: 1e-5", 'value: "1e-5"')
    after_conversion = run("render", "-", stdin=text).stderr

    worker = "spec.tfReplicaSpecs.Worker.template.spec.containers[0]"
    assert len(before_conversion) == 1
    assert before_conversion[0].startswith(f"<stdin>:{line - 4}:37: {worker}.env[0].value: ")
    assert f"<stdin>:{line}:42: {worker}.resources.limits.nvidia.com/gpu: " in after_conversion


def test_the_last_of_duplicate_keys_takes_effect_and_is_a_warning():
    text = """
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: a}
spec:
  jaxReplicaSpecs:
    Worker:
      replicas: 1
      template: {spec: {containers: [{name: jax, image: "example/a:1"}]}}
      replicas: 2
"""
    (document,) = dialects.documents(Text("job.yaml", text))

    job, warnings = dialects.native(document)

    assert job.data["spec"]["roles"]["worker"]["replicas"] == 2
    assert [str(warning) for warning in warnings] == [
        (
            "job.yaml:10:7: warning: spec.jaxReplicaSpecs.Worker.replicas: duplicate key"
            ' "replicas"; first used on line 8; the last value takes effect; remove the others'
            " [duplicate-key]"
        )
    ]


def test_the_groups_of_merged_resources_are_known_without_an_import():
    every = [dialects.get(name) for name in dialects.names()]
    merged = [group for each in every if each.find for group in each.groups]

    assert sorted(dialects.MERGED_GROUPS) == sorted(merged)


def test_a_plain_job_file_does_not_import_a_dialect():
    program = (
        "import sys; from mlgen.cli import main; main(['render', sys.argv[1]], standalone_mode=0);"
        " print([name for name in sys.modules if name.startswith('mlgen.dialects.')"
        " and not name.startswith('mlgen.dialects._')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, FIXTURES[0]], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"
