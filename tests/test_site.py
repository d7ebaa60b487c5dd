"""mlgen.toml: its search path, settings, precedence and errors."""

import json

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator
from support import ROOT, load_all

import mlgen
from mlgen import site
from mlgen.cli import main
from mlgen.documents.files import Text
from mlgen.input_limits import SITE_BYTES
from mlgen.integrations import helm
from mlgen.kubernetes.versions import DEFAULT, KubeVersion
from mlgen.output.yaml import yaml_text
from mlgen.problems import MlgenError

JOB = {
    "apiVersion": "mlgen.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "bert"},
    "spec": {
        "framework": "pytorch",
        "image": "example/bert:2",
        "command": ["torchrun", "train.py"],
        "roles": {"worker": {"replicas": 2}},
    },
}

EVERY_KEY = """\
kube-version = "1.33"
namespace = "training"
pod-security = "baseline"
supervisor = false
only-jobs = true
strict = true
enforce = ["pod-security"]
image-pull-secrets = ["registry"]

[labels]
team = "vision"
"example.com/site" = "north"

[helpers]
wait-image = "registry.example/busybox:1"
python-image = "registry.example/python:3"
supervisor-image = "registry.example/mlgen:1"
kubectl-image = "registry.example/kubectl:1"
git-image = "registry.example/git:2"
run-as-user = "Cluster"
run-as-group = 10001
labels = {cost-center = "ml"}
annotations = {owner = "ml"}
node-selector = {pool = "cpu"}
tolerations = [{key = "infra", operator = "Exists"}]
priority-class-name = "low"
resources = {requests = {cpu = "20m"}}
"""


STEPS = ".".join(["'a\"'"] * 101)
"""A key with too many steps."""

DEEP = "mlgen.toml:1:1: is nested more than 100 levels deep [too-large]"
DIGITS = "mlgen.toml:1:1: a value is nested too deeply, or has too many digits [too-large]"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a job file, which is the working folder."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "job.yaml").write_text(yaml_text([JOB]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def job_with(metadata=(), **spec):
    return json.loads(json.dumps(JOB | {
        "metadata": JOB["metadata"] | dict(metadata), "spec": JOB["spec"] | spec
    }))  # fmt: skip


def rendered(folder, job=JOB, **options):
    """The document of a job with the defaults of a folder."""
    result = mlgen.validate(job, mlgen.Options(site=site.find(folder), **options))
    return result.jobs[0].document.data


def messages(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    with pytest.raises(MlgenError) as error:
        site.find(folder)
    return str(error.value).splitlines()


def run(*arguments):
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_every_key_is_a_default_of_the_job_file(repository):
    (repository / "mlgen.toml").write_text(EVERY_KEY)

    job = rendered(repository)

    assert job["metadata"] == {
        "name": "bert",
        "namespace": "training",
        "labels": {"team": "vision", "example.com/site": "north"},
    }
    assert JOB["spec"] == {name: job["spec"][name] for name in JOB["spec"]}
    assert {
        "security": {"profile": "baseline"},
        "template": {"spec": {"imagePullSecrets": [{"name": "registry"}]}},
        "helpers": {
            "waitImage": "registry.example/busybox:1",
            "pythonImage": "registry.example/python:3",
            "supervisorImage": "registry.example/mlgen:1",
            "kubectlImage": "registry.example/kubectl:1",
            "gitImage": "registry.example/git:2",
            "runAsUser": "Cluster",
            "runAsGroup": 10001,
            "labels": {"cost-center": "ml"},
            "annotations": {"owner": "ml"},
            "nodeSelector": {"pool": "cpu"},
            "tolerations": [{"key": "infra", "operator": "Exists"}],
            "priorityClassName": "low",
            "resources": {"requests": {"cpu": "20m"}},
        },
    } == {name: value for name, value in job["spec"].items() if name not in JOB["spec"]}


def test_the_example_has_every_key():
    validator = Draft7Validator(site.schema())

    assert list(validator.iter_errors({"labels": {"mlgen.dev/job": "x"}}))
    keys = set(site.schema()["properties"]) - {"helpers"}
    helpers = site.schema()["properties"]["helpers"]["properties"]
    assert all(f"\n{key} =" in f"\n{EVERY_KEY}" for key in {*keys, *helpers} - {"labels"})
    assert "\nlabels =" in EVERY_KEY


def test_the_job_file_takes_precedence(repository):
    (repository / "mlgen.toml").write_text(EVERY_KEY)
    pull_secrets = {"spec": {"imagePullSecrets": [{"name": "own"}]}}
    job = job_with(
        {"namespace": "own", "labels": {"team": "nlp"}},
        security={"profile": "restricted", "runAsUser": 1000},
        template=pull_secrets,
        helpers={"waitImage": "own/busybox:1"},
    )

    data = rendered(repository, job)

    assert data["metadata"]["namespace"] == "own"
    assert data["metadata"]["labels"] == {"team": "nlp", "example.com/site": "north"}
    assert data["spec"]["security"]["profile"] == "restricted"
    assert data["spec"]["template"] == pull_secrets
    assert data["spec"]["helpers"]["waitImage"] == "own/busybox:1"
    assert data["spec"]["helpers"]["gitImage"] == "registry.example/git:2"


def test_a_setting_takes_precedence(repository):
    (repository / "mlgen.toml").write_text(EVERY_KEY)
    settings = ((("spec", "helpers", "waitImage"), "set/busybox:1"),)

    data = rendered(repository, settings=settings)

    assert data["spec"]["helpers"]["waitImage"] == "set/busybox:1"


ENFORCED = """\
namespace = "training"
pod-security = "baseline"
enforce = ["pod-security", "namespace", "helpers", "labels"]
[labels]
team = "vision"
[helpers]
wait-image = "registry.example/busybox:1"
"""


@pytest.mark.parametrize(
    ("path", "value", "enforced"),
    [
        (("spec", "security"), {"profile": "privileged"}, "baseline"),
        (("spec", "security"), {"profile": "restricted"}, None),
        (("spec", "security"), {"profile": "baseline"}, None),
        (("metadata", "namespace"), "other", "training"),
        (("metadata", "namespace"), "training", None),
        (("metadata", "labels"), {"team": "speech"}, "vision"),
        (("metadata", "labels"), {"cost": "1"}, None),
        (("spec", "helpers"), {"waitImage": "evil/busybox"}, "registry.example/busybox:1"),
        (("spec", "helpers"), {"gitImage": "other/git"}, None),
    ],
)
def test_a_job_file_cannot_change_what_is_enforced(path, value, enforced, repository):
    (repository / "mlgen.toml").write_text(ENFORCED)
    job = JOB | {path[0]: JOB[path[0]] | {path[1]: value}}
    text = ""
    try:
        rendered(repository, job)
    except MlgenError as error:
        text = str(error)

    assert (f"mlgen.toml enforces {enforced}, got" in text) == (enforced is not None)
    assert "enforces None" not in text


def test_an_enforced_image_cannot_be_replaced_by_another_field(repository):
    python, both = 'python-image = "a/python:3"\n', 'supervisor-image = "a/mlgen:1"\n'
    job = JOB | {"spec": JOB["spec"] | {"helpers": {"supervisorImage": "a/mlgen:1"}}}
    (repository / "mlgen.toml").write_text(f'enforce = ["helpers"]\n[helpers]\n{python}')

    with pytest.raises(MlgenError, match=r"enforces helpers\.python-image, which this image"):
        rendered(repository, job)

    (repository / "mlgen.toml").write_text(f'enforce = ["helpers"]\n[helpers]\n{python}{both}')
    assert rendered(repository, job)


def test_what_is_not_set_cannot_be_enforced(repository):
    text = 'enforce = ["pod-security"]\n'
    message = "the file does not set pod-security; set pod-security, or remove it here"

    assert messages(repository, mlgen=text) == [
        f"mlgen.toml:1:1: enforce[0]: {message} [combination]"
    ]


def test_custom_resources_have_the_defaults_too(repository):
    (repository / "mlgen.toml").write_text(EVERY_KEY)
    options = mlgen.Options(site=site.find(repository))

    objects = mlgen.render(ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml", options)

    assert all(item["metadata"]["labels"]["example.com/site"] == "north" for item in objects)


def test_empty_tables_change_nothing(repository):
    (repository / "mlgen.toml").write_text("[labels]\n[helpers]\n")

    assert rendered(repository) == JOB


@pytest.mark.parametrize("broken", [{"spec": None}, {"metadata": "bert"}, {"spec": {"helpers": 1}}])
def test_a_job_file_with_errors_has_the_same_problems(broken, repository):
    (repository / "mlgen.toml").write_text(EVERY_KEY)
    text = yaml_text([JOB | broken])

    def problems(options):
        with pytest.raises(MlgenError) as error:
            mlgen.validate(text, options)
        return str(error.value)

    assert problems(mlgen.Options()) == problems(mlgen.Options(site=site.find(repository)))


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({"mlgen.toml": ""}, "../../mlgen.toml"),
        ({"a/mlgen.toml": "", "mlgen.toml": ""}, "../mlgen.toml"),
        ({"a/b/pyproject.toml": "[tool.mlgen]", "mlgen.toml": ""}, "pyproject.toml"),
        ({"a/b/pyproject.toml": "[project]\nname = 'mlgen-jobs'", "mlgen.toml": ""},
         "../../mlgen.toml"),
        ({"a/.git/HEAD": "", "mlgen.toml": ""}, None),
        ({"a/b/mlgen.toml/x": ""}, None),
    ],
)  # fmt: skip
def test_the_nearest_file_up_to_git_is_used(files, used, repository):
    for name, text in {"a/b/job.yaml": "", **files}.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    found = site.find(repository / "a/b")

    assert used == (found and found.file)


def test_a_table_of_pyproject_has_the_same_keys(repository):
    (repository / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n[tool.mlgen]\nnamespac = 'a'\nhelpers.wait-image = 3\n"
    )

    with pytest.raises(MlgenError) as error:
        site.find(repository)

    assert str(error.value).splitlines() == [
        (
            'pyproject.toml:4:1: namespac: unknown field "namespac"; did you mean "namespace"?'
            " [unknown-field]"
        ),
        "pyproject.toml:5:1: helpers.wait-image: expected a string, got the number 3 [wrong-type]",
    ]


def test_errors_have_their_places(repository, message):
    text = EVERY_KEY.replace("wait-image", "wait-imag").replace("vision", "a b")
    text = text.replace("baseline", "strict").replace("false", "0")

    assert "".join(f"{line}\n" for line in messages(repository, mlgen=text)) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = x", "mlgen.toml:2:5: is not valid TOML: Invalid value [not-toml]"),
        ("a = [", ("mlgen.toml:1:1: is not valid TOML: Invalid value (at end of document)"
         " [not-toml]")),
        ('kube-version = "1.20"', ('mlgen.toml:1:1: kube-version: expected a version from 1.31 to'
         ' 1.37, got "1.20" [bad-value]')),
        ("strict = 2020-01-01", ('mlgen.toml:1:1: strict: expected true or false, got the string'
         ' "2020-01-01" [wrong-type]')),
        (f"namespace = 0x{'f' * 5000}", DIGITS),
        (f"a = {'[' * 20_000}", DIGITS),
        (f"a = [{'{a = [' * 60}{']}' * 60}]", DEEP),
        (f"{'a.' * 200}a = 1", DEEP),
        (f"b = 1\n{'a.' * 101}a = 1", DEEP),
        (f"[{'a . ' * 100}a]", DEEP),
        (f"a = {{b = 1, {STEPS} = 1}}", DEEP),
        (f'a = {{b = """\n\\"""", {STEPS} = 1}}', DEEP),
        (f"a = {{b = '''\n''''', {STEPS} = 1}}", DEEP),
        (f"#{' ' * SITE_BYTES}", "mlgen.toml:1:1: is larger than 256 KiB [too-large]"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_an_error(text, message, repository):
    assert messages(repository, mlgen=text) == [message]


def test_a_file_that_is_not_text_is_an_error(repository):
    (repository / "mlgen.toml").write_bytes(b"\xff")

    with pytest.raises(MlgenError, match=r"^mlgen.toml:1:1: cannot be read: is not UTF-8 text"):
        site.find(repository)


def test_two_files_in_a_folder_are_an_error(repository):
    (line,) = messages(repository, mlgen="", pyproject="[tool.mlgen]\n")

    assert line.endswith("[tool.mlgen] in pyproject.toml set defaults; keep one [combination]")


def test_the_place_of_a_key_is_its_line(repository):
    (repository / "mlgen.toml").write_text(
        '\tnamespace = 1\n[ labels ]\n"team" = """\n\n"""\nsite = 2\nhelpers.a = 1\n'
        "c.d = 1\n[[helpers]]\n"
    )

    with pytest.raises(MlgenError) as error:
        site.find(repository)

    assert [1, 3, 6, 7, 8, 9] == sorted(p.place.line for p in error.value.problems)


def test_a_value_of_the_site_that_a_job_cannot_have_is_reported_there(repository):
    (repository / "mlgen.toml").write_text('\n[helpers]\nwait-image = "A:B"\n')

    with pytest.raises(MlgenError, match=r"^mlgen.toml:3:1: spec.helpers.waitImage: .*lowercase"):
        rendered(repository)


def test_the_command_line_uses_and_names_it(repository):
    (repository / "mlgen.toml").write_text(EVERY_KEY)

    result = run("render", "job.yaml", "-v")

    assert "using the defaults in mlgen.toml" in result.stderr
    objects = load_all(result.stdout)
    assert {"training"} == {item["metadata"]["namespace"] for item in objects}
    assert result.stdout == run("render", "job.yaml").stdout
    assert run("render", "job.yaml", "--no-config").stdout != result.stdout
    assert "namespace: training" not in run("render", "job.yaml", "--no-config").stdout


def test_options_of_the_command_line_take_precedence(repository):
    (repository / "mlgen.toml").write_text('kube-version = "1.99"\n')
    assert run("validate", "job.yaml").exit_code == 1
    (repository / "mlgen.toml").write_text('kube-version = "1.33"\nsupervisor = false\n')
    job = job_with(runPolicy={"cleanPodPolicy": "All", "restartScope": "All"})
    (repository / "job.yaml").write_text(yaml_text([job]))

    assert "supervisor" in run("render", "job.yaml").stderr
    assert run("render", "job.yaml", "--supervisor").stderr == ""


def test_the_version_is_also_that_of_verify_and_schema(repository):
    (repository / "mlgen.toml").write_text('kube-version = "1.31"\n')
    manifests = run("render", "job.yaml").stdout
    newer = manifests.replace("      containers:", "      resources: {}\n      containers:", 1)
    (repository / "all.yaml").write_text(newer)

    assert "resources requires Kubernetes 1.32, not 1.31" in run("verify", "all.yaml").stdout
    assert run("verify", "all.yaml", "--no-config").exit_code == 0
    assert run("schema").stdout == run("schema", "--kube-version", "1.31").stdout


def test_users_of_helm_4_see_its_errors(repository, monkeypatch):
    """Helm 4 discards the stderr of a plugin."""
    (repository / "mlgen.toml").write_text("namespace = 1\n")
    monkeypatch.setenv("HELM_PLUGIN_NAME", "mlgen")
    monkeypatch.setenv("MLGEN_LOG", str(repository / "log"))

    assert run("helm-post-render").exit_code == 1
    assert (repository / "log").read_text().startswith("mlgen.toml:1:1: namespace: expected a str")


def test_helm_decides_on_the_namespace(repository):
    (repository / "mlgen.toml").write_text(EVERY_KEY)
    options = mlgen.site_options()

    parts, _ = helm.post_render(yaml_text([JOB]).encode().splitlines(keepends=True), options)

    objects = load_all(b"".join(parts))
    assert {None} == {item["metadata"].get("namespace") for item in objects}
    assert {"vision"} == {item["metadata"]["labels"]["team"] for item in objects}


def test_argo_cd_uses_it(repository, monkeypatch):
    (repository / "mlgen.toml").write_text(EVERY_KEY)

    objects = load_all(run("argocd", "generate").stdout)

    assert {"training"} == {item["metadata"]["namespace"] for item in objects}
    monkeypatch.setenv("ARGOCD_APP_NAMESPACE", "vision")
    objects = load_all(run("argocd", "generate").stdout)
    assert {"vision"} == {item["metadata"]["namespace"] for item in objects}
    (repository / "mlgen.toml").write_text("x = 1\n")
    assert "mlgen.toml:1:1: x: unknown field" in run("argocd", "generate").stderr


def test_the_python_api_reads_it_when_asked(repository):
    (repository / "mlgen.toml").write_text(EVERY_KEY)

    options = mlgen.site_options()

    assert (options.kube_version, options.supervisor) == (KubeVersion(1, 33), False)
    assert {"training"} == {i["metadata"].get("namespace") for i in mlgen.render(JOB, options)}
    assert {None} == {i["metadata"].get("namespace") for i in mlgen.render(JOB)}
    (repository / "mlgen.toml").unlink()
    assert mlgen.site_options(repository) == mlgen.Options()
    assert mlgen.site_options().kube_version == DEFAULT


def test_the_documented_keys_are_those_of_the_schema():
    table, _, _ = (ROOT / "docs/reference/config.md").read_text().partition("```")
    keys = {key for row in table.splitlines() for key in row.split(" | ")[0].split("`")[1::2]}
    schema = site.schema()["properties"]
    helpers = {f"helpers.{name}" for name in schema["helpers"]["properties"]}

    assert {*schema, *helpers} - {"helpers"} == {key for key in keys if "mlgen" not in key}


def test_a_job_of_another_text_is_rendered_with_it(repository):
    """`find` reads files, `render` does not."""
    (repository / "mlgen.toml").write_text('namespace = "training"')
    from mlgen import pipeline

    options = mlgen.Options(site=site.find(repository))
    (repository / "mlgen.toml").unlink()

    (job,) = pipeline.render([Text("job.yaml", yaml_text([JOB]))], options).jobs
    assert job.document.places["metadata", "namespace"].file == "mlgen.toml"
