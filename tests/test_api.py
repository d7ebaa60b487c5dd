"""The public API, as documented in docs/integrations/python.md."""

import json
import logging
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from support import FIXTURES, RESOURCES, ROOT, load, load_all

import mlgen
from mlgen.cli import main

JOB = load((ROOT / "fixtures/pytorch-static.yaml").read_text())
PAGE = (ROOT / "docs/integrations/python.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def kinds(objects):
    return [item["kind"] for item in objects]


def test_the_documented_names_are_public():
    documented = set(re.findall(r"mlgen\.(\w+)", PAGE))

    assert documented - {"dev", "toml"} <= set(mlgen.__all__)
    assert {"render", "validate", "convert"} <= documented
    assert all(getattr(mlgen, name) for name in mlgen.__all__)


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rendr'"):
        mlgen.rendr  # noqa: B018


@pytest.mark.parametrize("path", FIXTURES[::20], ids=lambda path: path.stem)
def test_a_path_a_text_and_a_mapping_render_to_the_same_objects(path):
    """The command line prints the same objects."""
    text = path.read_text()
    printed = CliRunner().invoke(main, ["render", str(path)], catch_exceptions=False).stdout

    objects = mlgen.render(path)

    assert load_all(printed) == json.loads(json.dumps(objects))
    assert objects == mlgen.render(str(path)) == mlgen.render(text)
    assert objects == mlgen.render(mlgen.validate(text).jobs[0].document.data)


def test_several_jobs_are_rendered_in_order():
    other = json.loads(json.dumps(JOB))
    other["metadata"]["name"] = "second"

    objects = mlgen.render([JOB, other])

    assert kinds(objects) == 2 * kinds(mlgen.render(JOB))
    assert objects[-1]["metadata"]["labels"]["mlgen.dev/job"] == "second"


def test_options_set_the_namespace_and_fields_of_the_job_file():
    options = mlgen.Options(namespace="team-a", settings={"spec.roles.worker.replicas": 3})

    objects = mlgen.render(FIXTURES[0].parent / "pytorch-elastic.yaml", options)

    assert {"team-a"} == {item["metadata"]["namespace"] for item in objects}
    assert 3 in [item["spec"].get("completions") for item in objects if item["kind"] == "Job"]


def test_load_returns_the_jobs_that_render_renders():
    matrix = {"args.lr": ["1e-4", "1e-5"], "spec.env.SEED": range(2)}
    others = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}

    jobs = mlgen.load([JOB, others], set={"metadata.name": "bert"}, matrix=matrix, namespace="a")

    assert [("a", f"bert-lr-1e-{lr}-seed-{seed}") for lr in (4, 5) for seed in (0, 1)] == [
        (job.namespace, job.name) for job in jobs
    ]
    settings = {"metadata.name": "bert"}
    options = mlgen.Options(namespace="a", settings=settings, matrix=matrix)
    assert mlgen.render(JOB, options) == [dict(item) for job in jobs for item in job.objects]
    assert mlgen.load(JOB)[0].namespace is None


def test_load_logs_warnings(caplog):
    (path,) = [path for path in FIXTURES if path.stem == "generic-secrets"]

    with caplog.at_level(logging.WARNING, logger="mlgen"):
        mlgen.load(path)

    assert [str(each) for each in mlgen.validate(path).warnings] == caplog.messages


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kube_version": "1.35"}, ["--kube-version", "1.35"]),
        ({"kube_version": (1, 35)}, ["--kube-version", "1.35"]),
        ({"kube_version": "1.99"}, ["--kube-version", "1.99"]),
        ({"settings": {"spec.env.LR": "0.1"}}, ["--set", "spec.env.LR='0.1'"]),
        ({"settings": {"spec.roles.master.args": ["a"]}}, ["--set", "spec.roles.master.args=[a]"]),
        ({"settings": {"spec.roles.master.args": ("a",)}}, ["--set", "spec.roles.master.args=[a]"]),
        ({"settings": {"args.lr": 0.5}}, ["--set", "args.lr=0.5"]),
        ({"settings": {r"metadata.labels.a\.b/c": "d"}}, ["--set", r"metadata.labels.a\.b/c=d"]),
        ({"matrix": {"args.lr": [1, "a"]}}, ["--matrix", "args.lr=[1, a]"]),
    ],
)
def test_options_as_written_mean_the_same_as_on_the_command_line(options, words):
    path = str(ROOT / "fixtures/pytorch-static.yaml")
    printed = CliRunner().invoke(main, ["render", path, *words], catch_exceptions=False).stdout

    assert load_all(printed) == json.loads(json.dumps(mlgen.render(path, mlgen.Options(**options))))


def test_a_version_that_is_too_new_is_logged(caplog):
    assert mlgen.Options(kube_version="1.99").kube_version == (1, 37)

    assert "rendering for 1.37 instead" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kube_version": 1.34}, 'kube_version=1.34 is of type float; write kube_version="1.34"'),
        ({"kube_version": (1, "34")}, 'is of type tuple; write kube_version="1.34"'),
        ({"namespace": 5}, 'namespace=5 is of type int; write namespace="team-a"'),
        ({"settings": ["a=b"]}, "settings has an item 'a=b'; write a mapping: settings={"),
        ({"settings": 5}, "settings=5 is of type int; write settings={"),
        ({"settings": {5: 1}}, "the path 5 of settings is no string; write settings={"),
        ({"settings": {"spec.env": {1: "a"}}}, 'spec.env has the key 1; write a string: "1"'),
        ({"settings": {"spec.args": [{1}]}}, "spec.args has a value of type set; write a string"),
        ({"matrix": {"args.lr": "1e-4"}}, "the value '1e-4' of args.lr is no list; write matrix"),
        ({"strict": "no"}, "strict='no' is of type str; write strict=True or strict=False"),
        ({"site": "."}, "site='.' is of type str; write mlgen.site_options().site"),
    ],
)
def test_an_option_of_a_wrong_type_says_what_to_write(options, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        mlgen.Options(**options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"kube_version": "1.20"},
            'kube_version: expected a version from 1.31 to 1.37, got "1.20"',
        ),
        ({"settings": {"a..b": 1}}, 'settings: "a..b" is not a path'),
        ({"settings": {"metadata.labels.a.b/c": 1}}, r"settings: escape the dots in the key "),
        ({"matrix": {"args.lr": []}}, "matrix: args.lr has no values"),
        ({"matrix": {"args.lr": [1, 1]}}, "matrix: args.lr: duplicate value 1"),
        ({"matrix": {"args.lr": [None]}}, "matrix: expected a value for args.lr"),
        ({"target": "argo"}, 'target: unknown tool "argo"; expected one of: argocd, flux'),
    ],
)
def test_an_option_with_an_invalid_value_is_a_problem(options, problem):
    with pytest.raises(mlgen.MlgenError, match=re.escape(problem)):
        mlgen.Options(**options)


@pytest.mark.parametrize("call", [mlgen.render, mlgen.load, mlgen.validate, mlgen.convert])
@pytest.mark.parametrize("job", [42, None, [42]])
def test_a_job_of_a_wrong_type_says_what_to_write(call, job):
    with pytest.raises(TypeError, match="write a mapping, a path, text, or a list of these"):
        call(job)


def test_other_options_than_options_say_what_to_write():
    with pytest.raises(TypeError, match=r'write mlgen.Options\(namespace="team-a"\)'):
        mlgen.render(JOB, {"namespace": "team-a"})


def test_objects_share_nothing():
    objects = mlgen.render(
        "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: bert}\n"
        "spec: {framework: pytorch, image: example/bert:1, network: {host: true},"
        " resources: {cpu: 2}, roles: {worker: {replicas: 5}}}"
    )
    templates = [item["spec"]["template"] for item in objects if item["kind"] == "Job"]
    jobs = [pod for pod in templates if pod["metadata"]["labels"]["mlgen.dev/role"] == "worker"]
    assert len(jobs) == 5

    jobs[0]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = 3

    assert {job["spec"]["containers"][0]["resources"]["limits"]["cpu"] for job in jobs[1:]} == {"2"}


def test_an_error_has_every_problem_with_its_place():
    broken = {**JOB, "spec": {"framework": "pytorch", "imgae": "x", "roles": {}}}

    with pytest.raises(mlgen.MlgenError) as caught:
        mlgen.render(broken)

    problem = caught.value.problems[0]
    assert isinstance(problem, mlgen.Problem)
    assert (("spec", "imgae"), "unknown-field") == (problem.path, problem.code)
    assert problem.place.file == "<mapping>"


def test_render_logs_the_warnings_that_validate_returns(caplog):
    (path,) = [path for path in FIXTURES if path.stem == "generic-secrets"]
    warnings = mlgen.validate(path).warnings

    with caplog.at_level(logging.WARNING, logger="mlgen"):
        mlgen.render(path)

    assert warnings
    assert [str(warning) for warning in warnings] == [r.getMessage() for r in caplog.records]


def test_convert_returns_a_job_file_that_renders_to_the_same_objects():
    (path,) = [path for path in RESOURCES if path.stem == "kubeflow-pytorchjob-v1"]

    text, warnings = mlgen.convert(path)

    assert load(text)["kind"] == "TrainingJob"
    assert warnings == mlgen.validate(path).warnings
    assert mlgen.render(text) == mlgen.render(path)


def test_importing_the_package_imports_no_slow_dependency():
    code = (
        "import mlgen, sys; print(sorted({'click', 'yaml', 'ruamel', 'jinja2'} & set(sys.modules)))"
    )

    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert out.stdout == "[]\n"


class Cluster(SimpleNamespace):
    """Stands for `mlgen.Cluster`, and records its calls. All jobs succeed."""

    calls = []  # noqa: RUF012 - of all instances

    def __getattr__(self, name):
        def call(*jobs, **options):
            self.calls.append((name, [getattr(job, "name", job) for job in jobs], options))
            return [SimpleNamespace(name="bert", phase="Succeeded", message="")]

        return call


def test_the_examples_in_the_documentation_run(monkeypatch, tmp_path, capsys):
    """tests/cluster/test_guides.py runs the examples that need a cluster in a real one."""
    monkeypatch.setattr(mlgen, "Cluster", Cluster)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/bert.yaml").write_text((ROOT / "fixtures/pytorch-static.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    notebook, more, sweep, offline, test = EXAMPLES

    scope = {}
    for example in (notebook, more.replace(").phase", ")"), sweep, offline, test):
        exec(compile(example, "docs/integrations/python.md", "exec"), scope)
    scope["test_job_files_are_valid"]()

    assert f"# {kinds(scope['objects'])}" in offline
    assert ["apply", "wait", "logs", "rerun", "status", "delete"] == [n for n, *_ in Cluster.calls]
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[-2:]]
    assert f"# {', '.join(names)}" in sweep
