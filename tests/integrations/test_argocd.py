"""The Argo CD plugin: the commands of plugin.yaml in a folder, as Argo CD runs them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import ROOT, load, load_all

from mlgen import MlgenError
from mlgen.cli import main
from mlgen.integrations.argocd import Application, generate, read
from mlgen.kubernetes.versions import SUPPORTED, KubeVersion
from mlgen.result import Options

FOLDER = ROOT / "integrations/argocd"
PLUGIN = load((FOLDER / "plugin.yaml").read_text())
COMMANDS = {
    "init": PLUGIN["spec"]["init"]["command"],
    "generate": PLUGIN["spec"]["generate"]["command"],
    "parameters": PLUGIN["spec"]["parameters"]["dynamic"]["command"],
}

NATIVE = ["v1", "v1/ConfigMap", "v1/Service", "apps/v1", "batch/v1", "batch/v1/Job"]
VOLCANO = ["scheduling.volcano.sh/v1beta1", "scheduling.volcano.sh/v1beta1/PodGroup"]
ENVIRONMENT = {
    "ARGOCD_APP_NAME": "train",
    "ARGOCD_APP_NAMESPACE": "vision",
    "ARGOCD_APP_PROJECT_NAME": "default",
    "ARGOCD_APP_REVISION": "f913b6cbf58aa5ae5ca1f8a2b149477aebcbd9d8",
    "ARGOCD_APP_REVISION_SHORT": "f913b6c",
    "ARGOCD_APP_REVISION_SHORT_8": "f913b6cb",
    "ARGOCD_APP_SOURCE_PATH": "train",
    "ARGOCD_APP_SOURCE_REPO_URL": "https://git.example/training.git",
    "ARGOCD_APP_SOURCE_TARGET_REVISION": "main",
    "KUBE_VERSION": "1.34.4",
    "KUBE_API_VERSIONS": ",".join([*NATIVE, *VOLCANO]),
    "ARGOCD_ENV_FOO": "bar",
}
"""https://argo-cd.readthedocs.io/en/stable/user-guide/build-environment/, and a user variable."""

JOB, GANG = "fixtures/tensorflow-single.yaml", "fixtures/tensorflow-volcano.yaml"
RESOURCE = "fixtures/resources/volcano-job-v1alpha1-pytorch.yaml"

STATIC = ["files", "set"]


@pytest.fixture
def app(tmp_path):
    """The folder of an Application, in a copy of its repository."""
    folder = tmp_path / "repository/train"
    folder.mkdir(parents=True)
    return folder


def put(folder, source, name="job.mlgen.yaml"):
    """Copy a file without its permissions, as Argo CD does."""
    shutil.copyfile(ROOT / source, folder / name)
    (folder / name).chmod(0o644)


def environment(parameters=None, **variables):
    """The environment that Argo CD sets. Each parameter also has its own variables."""
    env = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    env |= ENVIRONMENT | variables
    if parameters is not None:
        env["ARGOCD_APP_PARAMETERS"] = json.dumps(parameters)
    for item in parameters or ():
        name = f"PARAM_{item['name'].upper()}"
        env |= {f"{name}_{i}": text for i, text in enumerate(item.get("array", ()))}
        env |= {f"{name}_{k.upper().replace('.', '_')}": v for k, v in item.get("map", {}).items()}
    return {name: text for name, text in env.items() if isinstance(text, str)}


def run(folder, command="generate", parameters=None, **variables):
    """Run a command of the plugin in this process."""
    program, *words = COMMANDS[command]
    assert program == "mlgen"
    here, env = Path.cwd(), environment(parameters, **variables)
    os.chdir(folder)
    try:
        unset = dict.fromkeys(os.environ.keys() - env.keys())
        done = CliRunner().invoke(main, words, env=unset | env, catch_exceptions=False)
    finally:
        os.chdir(here)
    assert done.exit_code in (0, 1)
    if command == "generate":
        # With an empty output, Argo CD would delete everything.
        assert bool(done.stdout) == (done.exit_code == 0)
    return done.exit_code, done.stdout, done.stderr


def objects(text):
    return load_all(text)


def only(objects, kind):
    (item,) = [item for item in objects if item["kind"] == kind]
    return item


def rendered(*arguments, cwd=ROOT):
    command = [sys.executable, "-m", "mlgen", "render", *map(str, arguments), "--for", "argocd"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_the_manifests_of_a_folder_are_those_of_render(app):
    put(app, JOB)
    put(app, GANG, "gang.json.yaml")
    (app / "claim.yml").write_text("# mine\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (app / "notes.txt").write_text("{{ no manifest }}")

    expected = rendered(".", "-n", "vision", cwd=app)
    for command, text in (("init", ""), ("generate", expected)):
        done = subprocess.run(
            COMMANDS[command],
            cwd=app,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )

        assert (0, text, "") == (done.returncode, done.stdout, done.stderr)
        assert (0, text, "") == run(app, command)


def test_the_namespace_of_the_application_is_a_default(app):
    put(app, JOB)
    put(app, "fixtures/tensorflow-allreduce.yaml", "named.yaml")
    text = (app / "named.yaml").read_text()
    assert "namespace: vision" in text
    (app / "named.yaml").write_text(text.replace("namespace: vision", "namespace: own"))

    for default, expected in (("vision", {"vision", "own"}), ("", {None, "own"})):
        items = objects(run(app, ARGOCD_APP_NAMESPACE=default)[1])

        assert {item["metadata"].get("namespace") for item in items} == expected


def test_parameters_select_files_and_override_values(app):
    for number in (1, 2):
        put(app, JOB, f"{number}.mlgen.yaml")
    parameters = [
        {"name": "files", "array": ["2.mlgen.yaml"]},
        {"name": "set", "map": {"spec.image": "example/tune:9", "spec.runPolicy.suspend": "true"}},
    ]

    assert run(app)[0] == 1  # the same job twice
    code, text, _ = run(app, parameters=parameters)
    spec = only(objects(text), "Job")["spec"]

    assert code == 0
    assert spec["suspend"] is True
    assert spec["template"]["spec"]["containers"][0]["image"] == "example/tune:9"


def test_folders_within_the_folder_are_read_if_listed(app):
    (app / "jobs").mkdir()
    put(app / "jobs", JOB)

    assert run(app)[0] == 1
    assert run(app, parameters=[{"name": "files", "array": ["jobs"]}])[0] == 0


KUSTOMIZATION = "namePrefix: dev-\nresources: [job.mlgen.yaml]\n"


def program(folder, name, script):
    """Install a program, and return the PATH with it and without the tools of this machine."""
    tools = folder.parent / "tools"
    tools.mkdir(exist_ok=True)
    for each in ("cat", "sed", "sh"):
        if not (tools / each).exists():
            (tools / each).symlink_to(shutil.which(each))
    if name:
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    return {"PATH": str(tools)}


@pytest.mark.parametrize("name", ["kustomize", "kubectl"])
def test_a_kustomization_is_built_first(name, app):
    put(app, JOB)
    (app / "kustomization.yaml").write_text(KUSTOMIZATION)
    verb = "build" if name == "kustomize" else "kustomize"
    tools = program(
        app,
        name,
        f'[ "$*" = "{verb} ." ] && [ -z "$ARGOCD_ENV_FOO" ] && '
        "sed 's/name: tune/name: dev-tune/' job.mlgen.yaml",
    )

    assert run(app, "init", **tools) == (0, "", "")
    code, text, err = run(app, **tools)

    assert (code, err) == (0, "")
    assert only(objects(text), "Job")["metadata"]["name"].startswith("dev-tune")


def test_an_overlay_without_job_files_is_built(app):
    put(app.parent, JOB)
    (app / "kustomization.yaml").write_text("resources: [..]\n")
    tools = program(app, "kustomize", "cat ../job.mlgen.yaml")

    assert run(app, "init", **tools) == (0, "", "")
    assert run(app, **tools)[0] == 0


def test_a_chart_is_built_first(app):
    (app / "Chart.yaml").write_text("name: mnist\n")
    (app / "templates").mkdir()
    put(app / "templates", JOB)
    words = "template --kube-version=1.34 --include-crds --namespace=vision -- train ."
    tools = program(app, "helm", f'[ "$*" = "{words}" ] && cat templates/job.mlgen.yaml')

    code, text, err = run(app, **tools)

    assert (code, err) == (0, "")
    assert only(objects(text), "Job")["metadata"]["namespace"] == "vision"


@pytest.mark.parametrize(
    ("file", "program_name"), [("kustomization.yaml", "kustomize"), ("Chart.yaml", "helm")]
)
@pytest.mark.parametrize("command", ["init", "generate"])
def test_a_tool_that_is_not_in_the_container_is_named(command, file, program_name, app):
    put(app, JOB)
    (app / file).write_text(KUSTOMIZATION)

    code, out, err = run(app, command, **program(app, "", ""))

    assert (code, out) == (1, "")
    assert err.startswith(f"{file}: ")
    assert f"{program_name} is not installed; add {program_name} to the image" in err
    files = [{"name": "files", "array": ["job.mlgen.yaml"]}]
    assert run(app, command, files, **program(app, "", ""))[0] == 0


def test_a_tool_that_fails_is_an_error(app):
    put(app, JOB)
    (app / "kustomization.yaml").write_text(KUSTOMIZATION)

    code, out, err = run(app, **program(app, "kustomize", "echo no such base >&2; exit 3"))

    assert (code, out) == (1, "")
    assert err == (
        "kustomization.yaml: kustomize cannot build the folder: no such base; run kustomize build"
        " . in a checkout [unreadable]\n"
    )


def test_a_list_of_files_needs_no_tool(app):
    put(app, JOB)
    before = run(app)
    (app / "kustomization.yaml").write_text("resources: [job.mlgen.yaml]\n")

    assert run(app, **program(app, "", "")) == before


def test_a_chart_has_no_links_out_of_its_folder(app):
    (app.parent / "secret.yaml").write_text("kind: Secret\n")
    (app / "Chart.yaml").write_text("name: mnist\n")
    (app / "templates").mkdir()
    (app / "templates/a.yaml").symlink_to(app.parent / "secret.yaml")

    code, out, err = run(app, **program(app, "helm", "cat templates/a.yaml"))

    assert (code, out) == (1, "")
    assert err.startswith("templates/a.yaml:1:1: is a link to a file outside of the folder")


def test_the_announced_values_are_the_defaults(app):
    put(app, JOB)
    announced = [{k: p[k] for k in ("name", p["collectionType"])} for p in shown(app).values()]

    assert run(app, parameters=announced) == run(app)
    assert run(app, ARGOCD_APP_PARAMETERS="null") == run(app)


WRONG = {
    "unknown": [{"name": "sets", "map": {}}, {"name": "valueFiles", "array": []}],
    "not-a-list": [{"name": "files", "string": "a.yaml"}],
    "not-a-mapping": [{"name": "set", "array": ["spec.image=x"]}],
    "not-texts": [{"name": "set", "map": {"spec.suspend": True}}, {"name": "files", "array": [1]}],
    "no-path": [{"name": "set", "map": {"spec..image": "x", "spec.image": "[x"}}],
    "out-of-the-folder": [
        {"name": "files", "array": ["../job.yaml", "/etc/passwd", "link.yaml", "-"]}
    ],
    "link-in-a-folder": [{"name": "files", "array": ["linked"]}],
    "pipe": [{"name": "files", "array": ["pipe"]}],
    "not-there": [{"name": "files", "array": ["job.yaml", "empty", "a" * 300, "~", "--help"]}],
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_parameters(case, app, message):
    (app / "empty").mkdir()
    (app.parent / "secret.yaml").write_text("kind: Secret\n")
    (app / "linked").mkdir()
    os.mkfifo(app / "pipe")
    for link in ("link.yaml", "linked/a.yaml"):
        (app / link).symlink_to(app.parent / "secret.yaml")
    code, _, err = run(app, "init", WRONG[case])

    assert code == 1
    assert err == message


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"name": "files", "array": ["a\0b"]}, "files contains an invalid character"),
        ({"name": "set", "map": {"spec.image": "\0"}}, "set contains an invalid character"),
        ({"name": "set", "map": {"a\ud800": ""}}, "set contains an invalid character"),
    ],
)
def test_characters_that_only_json_can_have(parameter, message):
    """The variable contains them as escapes. Files and manifests cannot contain them."""
    with pytest.raises(MlgenError) as caught:
        read({"ARGOCD_APP_PARAMETERS": json.dumps([parameter])})

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["{", '{"name": "files"}', '["files"]', "[" * 100_000, "1" * 5000],
    ids=["cut", "one", "bare", "deep", "long"],
)
def test_parameters_that_are_not_a_list(text, app, message):
    put(app, JOB)

    code, _, err = run(app, ARGOCD_APP_PARAMETERS=text)

    assert code == 1
    assert err == message


@pytest.mark.parametrize("case", ["no-manifest", "no-job", "not-yaml", "bad-setting"])
def test_a_folder_that_cannot_be_rendered(case, app, message):
    """The user interface shows the messages: one line per problem, without colors."""
    arguments = {}
    if case == "no-job":
        put(app, "integrations/argocd/application.yaml", "a.yaml")
    elif case == "not-yaml":
        put(app, "fixtures/invalid/yaml-bracket.yaml", "a.yaml")
    elif case == "bad-setting":
        put(app, JOB)
        arguments = {"parameters": [{"name": "set", "map": {"spec.imgae": "x"}}]}

    code, _, err = run(app, **arguments)

    assert code == 1
    assert err == message


def test_nothing_is_printed_if_one_file_is_wrong(app):
    put(app, JOB)
    put(app, "fixtures/invalid/unknown-role.yaml", "z.yaml")

    assert run(app)[:2] == (1, "")


def test_defaults_of_a_site_are_in_no_link(app):
    put(app, JOB)
    (app.parent / "mlgen.toml").symlink_to("/etc/passwd")

    code, out, err = run(app)

    assert (1, "") == (code, out)
    assert err == (
        "../mlgen.toml:1:1: is a symbolic link, which mlgen does not follow; replace it with the"
        " file that it points to [unreadable]\n"
    )


def test_the_namespace_of_the_application_is_checked(app):
    put(app, JOB)

    code, out, err = run(app, ARGOCD_APP_NAMESPACE="a/b")

    assert (1, "") == (code, out)
    assert err.startswith('ARGOCD_APP_NAMESPACE: "a/b" is not a valid namespace; use at most')


@pytest.mark.parametrize("by", ["option", "site"])
def test_only_jobs_refuses_every_other_object(by, app, monkeypatch):
    monkeypatch.chdir(app)
    put(app, JOB)
    (app / "a.yaml").write_text("apiVersion: v1\nkind: List\nitems: [{kind: ClusterRoleBinding}]\n")
    if by == "site":
        (app / "mlgen.toml").write_text("only-jobs = true\n")

    with pytest.raises(MlgenError) as caught:
        generate({}, only_jobs=by == "option")

    assert "a.yaml:2:7: kind: expected a job, got List; remove it" in str(caught.value)
    (app / "a.yaml").unlink()
    (jobs, _), (everything, _) = generate({}, only_jobs=True), generate({})
    assert "".join(jobs) == "".join(everything)


def test_generate_reports_the_same_invalid_parameters_as_init(app):
    put(app, JOB)
    unread = ("not-there", "link-in-a-folder")
    wrong = [problem for case in WRONG if case not in unread for problem in WRONG[case]]

    assert run(app, "generate", wrong) == run(app, "init", wrong)
    assert run(app, "generate", wrong)[0] == 1


@pytest.mark.parametrize("version", ["1.31.0", None])
def test_a_supported_version_is_accepted(version, app):
    put(app, JOB)

    assert run(app, KUBE_VERSION=version)[::2] == (0, "")


def test_a_newer_version_renders_as_the_newest_supported_one(app, message):
    put(app, "fixtures/invalid/name-begins-with-a-digit.yaml")  # which 1.36 allows
    code, text, err = run(app, KUBE_VERSION="1.52.1")

    assert (code, err) == (0, message)
    assert (0, text, "") == run(app, KUBE_VERSION="1.37.0")
    assert run(app, "init", KUBE_VERSION="1.52.1") == (0, "", err)
    assert run(app)[0] == 1


@pytest.mark.parametrize("version", ["1.30.9", "latest", "2"])
def test_an_unsupported_version_is_rejected(version, app, message):
    put(app, JOB)
    code, _, err = run(app, "init", KUBE_VERSION=version)

    assert (code, err) == (1, message)


@pytest.mark.parametrize("file", [GANG, RESOURCE], ids=["job-file", "custom-resource"])
def test_gang_scheduling_without_the_scheduler_is_rejected(file, app, message):
    put(app, file)
    code, _, err = run(app, KUBE_API_VERSIONS=",".join(NATIVE))

    assert (code, err) == (1, message)


@pytest.mark.parametrize(
    ("apis", "code"),
    [
        ("", 0),  # not known
        (",".join(["v1", VOLCANO[0]]), 0),
        (",".join([*NATIVE, VOLCANO[0], f"{VOLCANO[0]}/Queue"]), 1),
        (",".join([*NATIVE, "scheduling.volcano.sh/v1alpha1"]), 1),
    ],
)
def test_the_apis_of_the_cluster_decide_on_gang_scheduling(apis, code, app):
    put(app, GANG)

    assert run(app, KUBE_API_VERSIONS=apis)[0] == code


def shown(folder, **variables):
    """The announced parameters by name, in the form that Argo CD reads."""
    code, text, err = run(folder, "parameters", **variables)
    listed = json.loads(text)

    assert (code, err) == (0, "")
    assert [item["name"] for item in listed] == STATIC
    for item in listed:
        assert set(item) == {"name", "title", "tooltip", "collectionType", item["collectionType"]}
    return {item["name"]: item for item in listed}


def test_images_and_replicas_of_one_job_are_announced(app):
    put(app, GANG)
    values = shown(app)["set"]["map"]

    assert values == {
        "spec.image": "example/wide-deep:2",
        "spec.roles.ps.replicas": "2",
        "spec.roles.worker.replicas": "4",
    }


def test_announced_values_of_a_custom_resource_can_be_set(app):
    put(app, RESOURCE)
    values = shown(app)["set"]["map"]

    assert [path for path in values if path.endswith(".image")]
    assert run(app, parameters=[{"name": "set", "map": values}]) == run(app)


@pytest.mark.parametrize("case", ["nothing", "two", "broken", "wrong", "parameters", "version"])
def test_parameters_are_announced_without_values_unless_there_is_one_job(case, app):
    variables = {"ARGOCD_APP_PARAMETERS": "{"} if case == "parameters" else {}
    variables |= {"KUBE_VERSION": "1.2"} if case == "version" else {}
    if case != "nothing":
        put(app, GANG)
    if case == "two":
        put(app, JOB, "other.yaml")
    if case == "broken":
        (app / "job.mlgen.yaml").write_text("a: [")
    if case == "wrong":
        head = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\n"
        (app / "job.mlgen.yaml").write_text(f"{head}spec: []\n")

    announced = shown(app, **variables)

    assert announced["files"]["array"] == ["."]
    assert announced["set"]["map"] == {}


def test_values_of_an_invalid_job_are_announced(app):
    put(app, "fixtures/invalid/unknown-role.yaml")

    assert run(app)[0] == 1
    assert "spec.image" in shown(app)["set"]["map"]


def test_the_plugin_configuration_is_valid():
    assert (PLUGIN["apiVersion"], PLUGIN["kind"]) == (
        "argoproj.io/v1alpha1",
        "ConfigManagementPlugin",
    )
    # With a version, Applications would also have to name it.
    assert set(PLUGIN["spec"]) == {"init", "generate", "discover", "parameters"}
    assert PLUGIN["metadata"] == {"name": "mlgen"}


def test_a_folder_is_discovered_by_a_file_that_is_then_read(app):
    pattern = PLUGIN["spec"]["discover"]["fileName"]
    (app / "jobs").mkdir()
    put(app / "jobs", JOB)

    assert not list(app.glob(pattern))
    put(app, JOB)
    assert list(app.glob(pattern))
    assert run(app)[0] == 0


def test_the_parameters_of_the_example_application_are_valid(app):
    source = load((FOLDER / "application.yaml").read_text())["spec"]["source"]
    put(app, GANG, source["plugin"]["parameters"][0]["array"][0])
    code, text, _ = run(app, parameters=source["plugin"]["parameters"])
    (worker,) = [o for o in objects(text) if o["metadata"]["name"] == "wide-deep-worker"]

    assert code == 0
    assert worker["spec"]["completions"] == 8
    assert source["plugin"]["name"] == PLUGIN["metadata"]["name"]


def test_the_sidecar_meets_the_requirements_of_argo_cd():
    pod = load((FOLDER / "sidecar.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}

    assert container["command"] == ["/var/run/argocd/argocd-cmp-server"]
    assert container["securityContext"]["runAsUser"] == 999
    assert mounts == {
        "/var/run/argocd": "var-files",
        "/home/argocd/cmp-server/plugins": "plugins",
        "/tmp": "mlgen-tmp",
    }
    assert [volume["name"] for volume in pod["volumes"]] == ["mlgen-tmp"]


def test_an_empty_environment_means_the_defaults():
    assert read({}) == Application((".",), Options(target="argocd"), ())


def test_every_variable_of_the_environment_is_read():
    parameters = [
        {"name": "files", "array": ["a.yaml", "jobs"]},
        {"name": "set", "map": {"spec.roles.worker.replicas": "8"}},
    ]
    variables = {
        "ARGOCD_APP_PARAMETERS": json.dumps(parameters),
        "ARGOCD_APP_NAMESPACE": "vision",
        "KUBE_VERSION": "v1.33.2",
        "KUBE_API_VERSIONS": "v1,batch/v1",
    }

    options = Options(
        KubeVersion(1, 33),
        settings=((("spec", "roles", "worker", "replicas"), 8),),
        target="argocd",
        default_namespace="vision",
    )
    assert read(variables) == Application(("a.yaml", "jobs"), options, ("v1", "batch/v1"))


@pytest.mark.parametrize("version", ["1.38", "v1.100.1", "2.0"])
def test_a_newer_version_is_a_warning(version):
    application = read({"KUBE_VERSION": version})

    assert application.options.kube_version == SUPPORTED[-1]
    assert [(p.warning, p.code) for p in application.warnings] == [(True, "bad-value")]


@pytest.mark.parametrize("by", ["option", "site"])
def test_strict_makes_warnings_errors(by, app, monkeypatch):
    monkeypatch.chdir(app)
    put(app, JOB)
    job = app / "job.mlgen.yaml"
    job.write_text(
        job.read_text().replace("spec:\n", "spec:\n  env: {A_TOKEN: hf_0123456789}\n", 1)
    )
    assert len(generate({})[1]) == 1
    if by == "site":
        (app / "mlgen.toml").write_text("strict = true\n")

    with pytest.raises(MlgenError) as caught:
        generate({}, strict=by == "option")

    assert [(each.code, each.warning) for each in caught.value.problems] == [
        ("secret-in-env", False)
    ]
