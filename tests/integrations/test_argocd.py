"""The plugin of Argo CD, driven as its server drives it: the commands of plugin.yaml in a copy."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import ROOT

FOLDER = ROOT / "integrations/argocd"
PLUGIN = yaml.safe_load((FOLDER / "plugin.yaml").read_text())
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
"""https://argo-cd.readthedocs.io/en/stable/user-guide/build-environment/, and one of a user's."""

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
    """Copy a file as the server does, without its permissions."""
    shutil.copyfile(ROOT / source, folder / name)
    (folder / name).chmod(0o644)


def environment(parameters=None, **given):
    """What the server sets; parameters also stand in variables of their own."""
    env = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    env |= ENVIRONMENT | given
    if parameters is not None:
        env["ARGOCD_APP_PARAMETERS"] = json.dumps(parameters)
    for item in parameters or ():
        name = f"PARAM_{item['name'].upper()}"
        env |= {f"{name}_{i}": text for i, text in enumerate(item.get("array", ()))}
        env |= {f"{name}_{k.upper().replace('.', '_')}": v for k, v in item.get("map", {}).items()}
    return {name: text for name, text in env.items() if isinstance(text, str)}


def run(folder, command="generate", parameters=None, **given):
    done = subprocess.run(
        COMMANDS[command],
        cwd=folder,
        env=environment(parameters, **given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1)
    if command == "generate":
        # Nothing at all would have Argo CD delete everything.
        assert bool(done.stdout) == (done.returncode == 0)
    return done.returncode, done.stdout, done.stderr


def objects(text):
    return list(yaml.safe_load_all(text))


def only(objects, kind):
    (found,) = [item for item in objects if item["kind"] == kind]
    return found


def rendered(*arguments, cwd=ROOT):
    command = [sys.executable, "-m", "mlgen", "render", *map(str, arguments), "--for", "argocd"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_a_folder_is_rendered_as_by_render(app):
    put(app, JOB)
    put(app, GANG, "gang.json.yaml")
    (app / "claim.yml").write_text("# mine\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (app / "notes.txt").write_text("{{ no manifest }}")

    assert run(app, "init") == (0, "", "")
    assert run(app) == (0, rendered(".", "-n", "vision", cwd=app), "")


def test_the_namespace_of_the_application_is_a_default(app):
    put(app, JOB)
    put(app, "fixtures/tensorflow-allreduce.yaml", "named.yaml")
    text = (app / "named.yaml").read_text()
    assert "namespace: vision" in text
    (app / "named.yaml").write_text(text.replace("namespace: vision", "namespace: own"))

    for given, wanted in (("vision", {"vision", "own"}), ("", {None, "own"})):
        found = objects(run(app, ARGOCD_APP_NAMESPACE=given)[1])

        assert {item["metadata"].get("namespace") for item in found} == wanted


def test_parameters_choose_files_and_replace_values(app):
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


def test_folders_in_the_folder_are_read_where_they_are_named(app):
    (app / "jobs").mkdir()
    put(app / "jobs", JOB)

    assert run(app)[0] == 1
    assert run(app, parameters=[{"name": "files", "array": ["jobs"]}])[0] == 0


def test_parameters_that_are_not_set_are_as_announced(app):
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
        {"name": "files", "array": ["../job.yaml", "/etc/passwd", "link.yaml", "linked", "-"]}
    ],
    "not-there": [{"name": "files", "array": ["job.yaml", "empty"]}],
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parameters(case, app, message):
    (app / "empty").mkdir()
    (app.parent / "secret.yaml").write_text("kind: Secret\n")
    (app / "linked").mkdir()
    for link in ("link.yaml", "linked/a.yaml"):
        (app / link).symlink_to(app.parent / "secret.yaml")
    code, _, said = run(app, "init", WRONG[case])

    assert code == 1
    assert said == message


@pytest.mark.parametrize(
    "text", ["{", '{"name": "files"}', '["files"]'], ids=["cut", "one", "bare"]
)
def test_parameters_that_are_no_list(text, app, message):
    put(app, JOB)

    code, _, said = run(app, ARGOCD_APP_PARAMETERS=text)

    assert code == 1
    assert said == message


@pytest.mark.parametrize("case", ["no-manifest", "no-job", "not-yaml", "bad-setting"])
def test_a_folder_that_cannot_be_rendered(case, app, message):
    """What the user interface shows: a line for each problem, and no colour."""
    given = {}
    if case == "no-job":
        put(app, "integrations/argocd/application.yaml", "a.yaml")
    elif case == "not-yaml":
        put(app, "fixtures/invalid/yaml-bracket.yaml", "a.yaml")
    elif case == "bad-setting":
        put(app, JOB)
        given = {"parameters": [{"name": "set", "map": {"spec.imgae": "x"}}]}

    code, _, said = run(app, **given)

    assert code == 1
    assert said == message


def test_what_a_folder_holds_beside_its_problems_is_not_printed(app):
    put(app, JOB)
    put(app, "fixtures/invalid/unknown-role.yaml", "z.yaml")

    assert run(app)[:2] == (1, "")


def test_what_init_finds_is_found_without_it_too(app):
    put(app, JOB)
    wrong = [problem for case in WRONG if case != "not-there" for problem in WRONG[case]]

    assert run(app, "generate", wrong) == run(app, "init", wrong)
    assert run(app, "generate", wrong)[0] == 1


@pytest.mark.parametrize("version", ["1.31.0", None])
def test_versions_that_are_known(version, app):
    put(app, JOB)

    assert run(app, KUBE_VERSION=version)[::2] == (0, "")


def test_a_newer_version_gets_what_the_newest_known_gets(app, message):
    put(app, "fixtures/invalid/name-begins-with-a-digit.yaml")  # which 1.36 allows
    code, text, said = run(app, KUBE_VERSION="1.52.1")

    assert (code, said) == (0, message)
    assert (0, text, "") == run(app, KUBE_VERSION="1.37.0")
    assert run(app, "init", KUBE_VERSION="1.52.1") == (0, "", said)
    assert run(app)[0] == 1


@pytest.mark.parametrize("version", ["1.30.9", "latest", "2"])
def test_versions_for_which_nothing_is_rendered(version, app, message):
    put(app, JOB)
    code, _, said = run(app, "init", KUBE_VERSION=version)

    assert (code, said) == (1, message)


@pytest.mark.parametrize("file", [GANG, RESOURCE], ids=["job-file", "custom-resource"])
def test_a_gang_without_its_scheduler(file, app, message):
    put(app, file)
    code, _, said = run(app, KUBE_API_VERSIONS=",".join(NATIVE))

    assert (code, said) == (1, message)


@pytest.mark.parametrize(
    ("apis", "code"),
    [
        ("", 0),  # nothing is known
        (",".join(["v1", VOLCANO[0]]), 0),
        (",".join([*NATIVE, VOLCANO[0], f"{VOLCANO[0]}/Queue"]), 1),
        (",".join([*NATIVE, "scheduling.volcano.sh/v1alpha1"]), 1),
    ],
)
def test_what_the_cluster_has(apis, code, app):
    put(app, GANG)

    assert run(app, KUBE_API_VERSIONS=apis)[0] == code


def shown(folder, **given):
    """The announcement by name, of the form that the server reads."""
    code, text, said = run(folder, "parameters", **given)
    listed = json.loads(text)

    assert (code, said) == (0, "")
    assert [item["name"] for item in listed] == STATIC
    for item in listed:
        assert set(item) == {"name", "title", "tooltip", "collectionType", item["collectionType"]}
    return {item["name"]: item for item in listed}


def test_what_can_be_tuned_of_one_job_is_shown(app):
    put(app, GANG)
    given = shown(app)["set"]["map"]

    assert given == {
        "spec.image": "example/wide-deep:2",
        "spec.roles.ps.replicas": "2",
        "spec.roles.worker.replicas": "4",
    }


def test_what_is_shown_of_a_custom_resource_can_be_set(app):
    put(app, RESOURCE)
    given = shown(app)["set"]["map"]

    assert [path for path in given if path.endswith(".image")]
    assert run(app, parameters=[{"name": "set", "map": given}]) == run(app)


@pytest.mark.parametrize("case", ["nothing", "two", "broken", "wrong", "parameters", "version"])
def test_the_rest_is_shown_where_there_is_no_one_job(case, app):
    given = {"ARGOCD_APP_PARAMETERS": "{"} if case == "parameters" else {}
    given |= {"KUBE_VERSION": "1.2"} if case == "version" else {}
    if case != "nothing":
        put(app, GANG)
    if case == "two":
        put(app, JOB, "other.yaml")
    if case == "broken":
        (app / "job.mlgen.yaml").write_text("a: [")
    if case == "wrong":
        head = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\n"
        (app / "job.mlgen.yaml").write_text(f"{head}spec: []\n")

    found = shown(app, **given)

    assert found["files"]["array"] == ["."]
    assert found["set"]["map"] == {}


def test_a_job_that_is_not_right_yet_shows_what_it_says(app):
    put(app, "fixtures/invalid/unknown-role.yaml")

    assert run(app)[0] == 1
    assert "spec.image" in shown(app)["set"]["map"]


def test_it_ends_at_once_and_in_silence_when_time_is_up(app):
    """The server ends the group of processes; reading waits here for a writer that never writes."""
    os.mkfifo(app / "pipe.yaml")
    mlgen = subprocess.Popen(
        COMMANDS["generate"],
        cwd=app,
        env=environment([{"name": "files", "array": ["pipe.yaml"]}]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with (app / "pipe.yaml").open("w"):  # opens once mlgen reads
        os.killpg(mlgen.pid, signal.SIGTERM)
        out, err = mlgen.communicate()

    assert (mlgen.returncode, out, err) == (-signal.SIGTERM, b"", b"")


def test_the_plugin_is_one_that_argo_cd_takes():
    assert (PLUGIN["apiVersion"], PLUGIN["kind"]) == (
        "argoproj.io/v1alpha1",
        "ConfigManagementPlugin",
    )
    # With a version, Applications would have to name it too.
    assert set(PLUGIN["spec"]) == {"init", "generate", "discover", "parameters"}
    assert PLUGIN["metadata"] == {"name": "mlgen"}


def test_a_folder_is_taken_by_a_file_that_is_then_read(app):
    pattern = PLUGIN["spec"]["discover"]["fileName"]
    (app / "jobs").mkdir()
    put(app / "jobs", JOB)

    assert not list(app.glob(pattern))
    put(app, JOB)
    assert list(app.glob(pattern))
    assert run(app)[0] == 0


def test_the_application_s_parameters_are_right(app):
    source = yaml.safe_load((FOLDER / "application.yaml").read_text())["spec"]["source"]
    put(app, GANG, source["plugin"]["parameters"][0]["array"][0])
    code, text, _ = run(app, parameters=source["plugin"]["parameters"])
    (worker,) = [o for o in objects(text) if o["metadata"]["name"] == "wide-deep-worker"]

    assert code == 0
    assert worker["spec"]["completions"] == 8
    assert source["plugin"]["name"] == PLUGIN["metadata"]["name"]


def test_the_sidecar_is_as_argo_cd_wants_it():
    pod = yaml.safe_load((FOLDER / "sidecar.yaml").read_text())["spec"]["template"]["spec"]
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


def test_the_image_has_all_that_the_package_is_made_of():
    lines = list(filter(None, (FOLDER / "Dockerfile").read_text().splitlines()))
    copies = [rest for word, *rest in map(str.split, lines) if word == "COPY"]
    copied = [source for rest in copies if "--from=build" not in rest for source in rest[:-1]]
    folders = re.findall(r'^"(\w+)" = "mlgen/', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    needed = {"pyproject.toml", "README.md", "LICENSE", "integrations/argocd/plugin.yaml"}

    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert {*needed, "mlgen", *folders} == set(copied)
    assert "USER 999" in lines
