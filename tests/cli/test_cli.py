"""The command line: output, stderr and exit status of each command."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator
from support import BERT, FIXTURES, ROOT, load, load_all, without_totals

from mlgen import __version__, frameworks
from mlgen.cli import COMMANDS, MEANT, main

RESTRICTED, ON_HOST = "fixtures/pytorch-restricted.yaml", "fixtures/mpi-host-network.yaml"
GOOD, OTHER = "fixtures/tensorflow-single.yaml", "fixtures/pytorch-static.yaml"
WARNED, CLEANED = "fixtures/tensorflow-estimator.yaml", "fixtures/tensorflow-ps.yaml"
BAD, WORSE = "fixtures/invalid/unknown-role.yaml", "fixtures/invalid/yaml-bracket.yaml"


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def run(*arguments, stdin=None):
    """Like `process`, but faster: within this process."""
    result = CliRunner().invoke(
        main, list(map(str, arguments)), input=stdin, catch_exceptions=False
    )
    return result.exit_code, result.stdout, result.stderr


def process(*arguments, stdin=b"", **env):
    return subprocess.run(
        [sys.executable, "-m", "mlgen", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **env},
    )


def names(folder):
    return [path.name for path in folder.iterdir()]


def kinds(text):
    return [item["kind"] for item in load_all(text)]


def test_manifests_go_to_stdout_and_warnings_to_stderr():
    result = process("render", WARNED)

    assert 0 == result.returncode
    assert {"Service", "Job", "ConfigMap"} <= set(kinds(result.stdout))
    assert result.stderr.startswith(b"fixtures/tensorflow-estimator.yaml:12:42: warning: ")


def test_problems_go_to_stderr_and_stdout_stays_empty():
    status, out, err = run("render", BAD)

    assert (1, "") == (status, out)
    assert err.startswith("fixtures/invalid/unknown-role.yaml:8:5: ")


def test_nothing_is_rendered_if_any_file_is_wrong_and_all_problems_are_reported():
    status, out, err = run("render", GOOD, BAD, OTHER, WORSE)

    assert (1, "") == (status, out)
    lines = without_totals(err).splitlines()
    assert [BAD, BAD, WORSE] == [line.partition(":")[0] for line in lines]


def test_files_are_rendered_in_their_order():
    status, out, _ = run("render", OTHER, GOOD)

    assert (0, run("render", OTHER)[1] + run("render", GOOD)[1]) == (status, out)


def test_a_folder_means_its_files_in_the_order_of_their_names(tmp_path):
    for name, source in (("b.yaml", GOOD), ("a.yml", OTHER)):
        shutil.copy(source, tmp_path / name)

    assert run("render", OTHER, GOOD)[1] == run("render", tmp_path)[1]


def test_files_folders_and_standard_input_can_be_mixed(tmp_path):
    shutil.copy(GOOD, tmp_path / "a.yaml")
    stdin = (ROOT / WARNED).read_text()

    status, out, err = run("render", tmp_path, "-", OTHER, stdin=stdin)

    assert (0, "".join(run("render", name)[1] for name in (GOOD, WARNED, OTHER))) == (status, out)
    assert err.startswith("<stdin>:12:42: warning: ")


def test_standard_input_is_read_as_bytes():
    job = (ROOT / "fixtures/generic-texts.yaml").read_bytes()

    result = process("render", "-", stdin=job, PYTHONIOENCODING="latin-1")

    assert 0 == result.returncode
    assert run("render", "fixtures/generic-texts.yaml")[1].encode() == result.stdout


def test_the_same_job_twice_is_a_collision():
    status, out, err = run("render", GOOD, GOOD)

    assert (1, "") == (status, out)
    assert "[name-collision]" in err


def test_the_same_job_in_two_namespaces_is_not_a_collision(tmp_path):
    (tmp_path / "job.yaml").write_text(
        (ROOT / GOOD).read_text().replace("{name: tune}", "{name: tune, namespace: b}")
    )

    assert 0 == run("render", GOOD, tmp_path)[0]
    assert 1 == run("render", GOOD, tmp_path, "--namespace", "b")[0]


def test_a_wrong_command_line_exits_with_2_and_is_reported_on_stderr():
    rows = [
        ["render"],
        ["render", GOOD, "--set", "spec.image"],
        ["render", GOOD, "--set", "spec..image=x"],
        ["render", GOOD, "--set", "spec.image=[x"],
        ["render", GOOD, "--set", "spec.image=a,spec.args=[b]"],
        ["render", GOOD, "--set", "spec.resources.nvidia.com/gpu=4"],
        ["render", GOOD, "--kube-version", "1.30"],
        ["render", GOOD, "--kube-version", "latest"],
        ["render", GOOD, "--kube-version", "1"],
        ["render", "-", "-"],
        ["render", GOOD, "-q", "-v"],
        ["render", GOOD, "--problems", "xml"],
        ["render", GOOD, "-o", "a.yaml", "--check", "b"],
        ["render", GOOD, "--namespace", "Vision"],
        ["render", GOOD, "--namespace", ""],
        ["render", GOOD, "--namespace", "a" * 64],
        ["render", GOOD, "--format", "xml"],
        ["render", GOOD, "--no-such-option"],
        ["validate"],
        ["ssh-secret"],
        ["rende", GOOD],
    ]

    for arguments in rows:
        status, out, err = run(*arguments)

        assert (2, "") == (status, out)
        assert err.startswith("Usage: ")
        assert "\nError: " in err


def test_a_version_may_be_written_as_kubectl_prints_it():
    rows = ["1.31", "1.34", "v1.34", "1.34.1", "v1.33.5-gke.100", "1.37", "1.33-gke.100"]

    assert [run("render", GOOD)[:2] for version in rows] == [
        run("render", GOOD, "--kube-version", version)[:2] for version in rows
    ]


def test_a_newer_version_is_a_warning():
    message = 'expected a version from 1.31 to 1.37, got "1.99"; rendering for 1.37 instead'
    warning = f"--kube-version: warning: {message} [bad-value]\n1 job, 1 warning\n"

    newest = run("render", GOOD, "--kube-version", "1.37")[1]

    assert (0, newest, warning) == run("render", GOOD, "--kube-version", "1.99")


def test_of_a_repeated_option_the_last_takes_effect():
    """As in kubectl and Helm."""
    last = run("render", GOOD, "-n", "b", "--set", "spec.image=b")

    assert last == run(
        "render", GOOD, "-n", "a", "-n", "b", "--set", "spec.image=a", "--set", "spec.image=b"
    )


def test_namespace_overrides_the_one_in_the_file():
    text = run("render", "fixtures/tensorflow-allreduce.yaml", "--namespace", "other")[1]

    assert {"other"} == {item["metadata"]["namespace"] for item in load_all(text)}
    assert "vision" not in text


def test_namespace_completes_addresses_with_a_cluster_domain():
    name = "fixtures/invalid/cluster-domain-without-namespace.yaml"

    status, out, _ = run("render", name, "-n", "vision")

    assert 0 == status
    assert "mnist-worker-0.mnist.vision.svc.cluster.local:2222" in out


def test_settings_are_applied_in_their_order_to_every_job():
    text = run(
        "render", GOOD, OTHER, "--set", "spec.image=a", "--set", "spec.image=b", "--set", "wait=1"
    )[2]

    assert 2 == text.count('--set: wait: unknown field "wait"')


def test_a_setting_changes_what_is_rendered():
    (job,) = (
        item
        for item in load_all(run("render", GOOD, "--set", "spec.image=b")[1])
        if item["kind"] == "Job"
    )

    assert "b" == job["spec"]["template"]["spec"]["containers"][0]["image"]


def test_json_is_one_list_of_the_same_objects():
    items = load_all(run("render", OTHER, GOOD)[1])

    found = json.loads(run("render", OTHER, GOOD, "--format", "json")[1])

    assert {"apiVersion": "v1", "kind": "List", "items": items} == found


def test_a_file_is_written_only_after_everything_has_succeeded(tmp_path):
    file = tmp_path / "out.yaml"
    file.write_text("old")

    assert 1 == run("render", BAD, "-o", file)[0]
    assert ("old", ["out.yaml"]) == (file.read_text(), names(tmp_path))

    assert (0, "", "") == run("render", GOOD, "-o", file)
    assert (run("render", GOOD)[1], ["out.yaml"]) == (file.read_text(), names(tmp_path))


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path):
    (tmp_path / "touched").touch()

    run("render", GOOD, "-o", tmp_path / "out.yaml")

    assert (tmp_path / "touched").stat().st_mode == (tmp_path / "out.yaml").stat().st_mode


def test_an_overwritten_file_keeps_its_permissions(tmp_path):
    file = tmp_path / "out.yaml"
    file.touch(0o640)

    run("render", GOOD, "-o", file)

    assert 0o640 == file.stat().st_mode & 0o777


def test_an_output_that_cannot_be_written_is_reported(tmp_path):
    status, out, err = run("render", GOOD, "-o", tmp_path / "none/out.yaml")

    assert (1, "") == (status, out)
    assert f"Error: {tmp_path}/none/out.yaml: cannot be written: No such file or directory\n" == err


def test_a_folder_as_output_of_argo_is_reported_and_kept(tmp_path):
    (tmp_path / "out").mkdir()

    status, _, err = run("argo", GOOD, "-o", tmp_path / "out")

    assert 1 == status
    assert f"Error: {tmp_path}/out: cannot be written: Is a directory\n" == err
    assert ["out"] == names(tmp_path)


@pytest.mark.slow
def test_the_output_may_be_a_device():
    assert process("render", GOOD).stdout == process("render", GOOD, "-o", "/dev/stdout").stdout


@pytest.mark.parametrize("words", [["render", GOOD], ["validate", GOOD], ["--help"]])
def test_after_a_closed_pipe_the_status_is_that_of_sigpipe(words):
    reader, writer = os.pipe()
    os.close(reader)

    command = [sys.executable, "-m", "mlgen", *words]
    done = subprocess.run(command, check=False, stdout=writer, stderr=subprocess.PIPE)

    os.close(writer)
    assert (141, b"") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("lint", "use mlgen validate"),
        ("ps", "use mlgen list"),
        ("run", "use mlgen apply"),
        ("kill", "use mlgen delete"),
        ("version", "use mlgen --version"),
        ("vaildate", 'did you mean "validate"?'),
        ("xyz", "mlgen --help lists all commands"),
    ],
)
def test_an_unknown_command_has_a_hint(word, hint):
    assert run(word)[2].endswith(f'Error: unknown command "{word}"; {hint}\n')


def test_the_hints_for_unknown_commands_are_commands_and_options():
    words = " ".join(MEANT.values()).split()

    assert not {*words} & COMMANDS.keys()
    assert len(words) == len({*words})
    assert {*MEANT} <= {*COMMANDS, "--help", "--version"}


def test_a_post_renderer_without_arguments_names_its_command():
    done = process(stdin=b"a: b\n")

    hint = b"for a Helm 3 post-renderer, add --post-renderer-args helm-post-render\n"
    assert (2, b"", b"Error: no command; " + hint) == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("command", ["render", "status"])
def test_a_url_is_no_file(command):
    message = "https://a.b/c.yaml:1:1: is a URL, not a file; download it, or pipe it in and pass -"

    assert run(command, "https://a.b/c.yaml")[2].startswith(message)


@pytest.mark.slow
def test_output_does_not_depend_on_the_environment():
    bare = process(
        "render", *FIXTURES, LC_ALL="C", PYTHONHASHSEED="1", TZ="Asia/Tokyo", COLUMNS="20"
    )

    assert process("render", *FIXTURES, PYTHONHASHSEED="2").stdout == bare.stdout


def test_validate_prints_one_line_per_job():
    status, out, err = run("validate", WARNED, "fixtures/pytorch-torchrun.yaml", ON_HOST, "-n", "a")
    lines = [line for line in out.splitlines() if ": warning: " not in line]

    assert 0 == status
    assert lines == [
        "fixtures/tensorflow-estimator.yaml: a/census: valid, tensorflow, 5 pods",
        "fixtures/pytorch-torchrun.yaml: a/llama: valid, pytorch, 4 pods, 32 GPUs",
        "fixtures/mpi-host-network.yaml: a/lbm: valid, mpi, 3 pods",
    ]
    assert "3 files, 3 jobs, 1 warning\n" == err


def test_validate_also_lists_the_valid_jobs_beside_invalid_ones():
    status, out, err = run("validate", GOOD, BAD, OTHER, GOOD)

    assert 1 == status
    assert out == (
        "fixtures/tensorflow-single.yaml: tune: valid, tensorflow, 1 pod\n"
        "fixtures/pytorch-static.yaml: bert: valid, pytorch, 4 pods, 4 GPUs\n"
        + without_totals(run("render", GOOD, BAD, OTHER, GOOD)[2])
    )
    assert "4 files, 4 jobs, 3 problems\n" == err


SECRET = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: wandb}\n"
NEEDS = "prerequisites: Secret wandb\n"


def test_a_prerequisite_is_listed_unless_another_document_brings_it(tmp_path):
    job = (ROOT / "fixtures/generic-secrets.yaml").read_text()
    (tmp_path / "secret.yaml").write_text(SECRET)

    alone, beside = run("render", "-", stdin=job), run("render", "-", stdin=job + SECRET)
    in_two_files = run("render", tmp_path / "secret.yaml", "-", stdin=job)

    assert NEEDS in alone[1]
    assert alone[1].replace(f"#   {NEEDS}", "") + SECRET == beside[1]
    assert NEEDS not in in_two_files[1]


@pytest.mark.parametrize("command", ["render", "validate"])
def test_what_passes_through_is_said_on_stderr(command, tmp_path):
    text = (ROOT / GOOD).read_text()
    folder = ["-o", f"{tmp_path}/"] if command == "render" else []

    assert "1 job, 1 other object (Secret)\n" == run(command, "-", stdin=text + SECRET)[2]
    assert "1 job, 1 other object (Secret)\n" == run(command, "-", *folder, stdin=text + SECRET)[2]
    assert "no jobs, 1 other object (Secret)\n" == run(command, "-", stdin=SECRET)[2]
    assert run(command, "-", stdin=text)[2] == ""


@pytest.mark.parametrize("command", ["render", "argo", "convert"])
def test_an_input_is_not_overwritten(command, tmp_path):
    job = tmp_path / "job.yaml"
    shutil.copy(GOOD, job)

    status, out, err = run(command, tmp_path, "-o", job)

    assert (2, "") == (status, out)
    assert err.endswith(f"Error: {job} is both input and output; write to another file\n")
    assert job.read_text() == (ROOT / GOOD).read_text()


def test_only_jobs_refuses_every_other_object():
    text = (ROOT / GOOD).read_text()
    expected = "kind: expected a job, got Secret; remove it: --only-jobs rejects all other objects"

    for command in ("render", "validate"):
        status, out, err = run(command, "-", "--only-jobs", stdin=text + SECRET)
        assert 1 == status
        assert expected in out + err
        assert 0 == run(command, "-", "--only-jobs", stdin=text)[0]


def test_strict_makes_warnings_errors(tmp_path, monkeypatch):
    text = (ROOT / GOOD).read_text()
    text = text.replace("spec:\n", "spec:\n  env: {HUB_TOKEN: hf_0123456789abcdef}\n", 1)

    for command in ("render", "validate", "argo"):
        assert 0 == run(command, "-", stdin=text)[0]
        status, out, err = run(command, "-", "--strict", "--quiet", stdin=text)
        assert 1 == status
        assert "kind: Job" not in out
        assert "[secret-in-env]" in out + err
        assert "warning" not in out + err
    (tmp_path / "mlgen.toml").write_text("strict = true\n")
    monkeypatch.chdir(tmp_path)
    assert 1 == run("render", "-", stdin=text)[0]
    assert 0 == run("render", "-", "--no-config", stdin=text)[0]


def test_an_input_in_the_folder_of_the_output_is_not_removed(tmp_path):
    assert 0 == run("render", GOOD, "-o", tmp_path)[0]
    service, renamed = tmp_path / "service_tune.yaml", tmp_path / "service_other.yaml"
    renamed.write_text(service.read_text())

    status, _, err = run("render", renamed, "-o", tmp_path)

    assert 2 == status
    assert "service_other.yaml is both input and output" in err
    assert {"job_tune-worker.yaml", "service_tune.yaml", "service_other.yaml"} == {*names(tmp_path)}


def test_no_supervisor_omits_the_supervisor_and_warns_about_remaining_pods():
    supervised, bare = run("render", CLEANED), run("render", CLEANED, "--no-supervisor")
    names = [item["metadata"]["name"] for item in load_all(supervised[1])]

    assert (0, "") == (supervised[0], supervised[2])
    assert "mnist-supervisor" in names
    assert "supervis" not in bare[1]
    assert (
        "warning: spec.runPolicy.cleanPodPolicy: without the supervisor, pods keep running"
        in bare[2]
    )


def test_a_suspended_job_has_a_suspended_supervisor():
    out = run("render", CLEANED, "--set", "spec.runPolicy.suspend=true")[1]
    found = [item["spec"] for item in load_all(out) if item["kind"] == "Job"]

    assert [True] * 3 == [spec.get("suspend") for spec in found]


LISTED = "apiVersion: mlgen.dev/v1alpha1\n    kind: TrainingJob\n    metadata: {name: a}"

OTHERS = {
    "template.yaml": f"{BERT}  volumes: {{{{ .Values.volumes }}}}\n",
    "map.yaml": "kind: ConfigMap\n{{- if .Values.x }}\ndata: {}\n{{- end }}\n",
    "compose.yml": "services: {web: {image: nginx}}\n",
    "empty.yaml": "",
    "list.yaml": "- a\n",
    "mkdocs.yml": "nav: [a]\nindent:\n  apiVersion: mlgen.dev/v1alpha1\n",
    "service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {labels: {mlgen.dev/job: a}}\n",
    "kustomization.yaml": "kind: Kustomization\nresources: [a.yaml]\n",
    "tagged.yaml": "a: !Ref b\n",
}
"""YAML files of a repository that contain no job, or only a template of one."""


def test_validate_skips_other_files(tmp_path):
    for name, text in OTHERS.items():
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in OTHERS]

    assert run("validate", "--skip-other-files", *paths) == (0, "", "")
    assert run("validate", "--skip-other-files", *paths, BAD) == run("validate", BAD)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("apiVersion: mlgen.dev/v1alpha1\nkind: TrainJob\n", "unknown-kind"),
        (f"{BERT}  command: ['{{{{ a }}}}']\n   b: c\n", "not-yaml"),
        (f"{BERT}  x: |\n    {{{{ a }}}}\n", "unknown-field"),
        ('{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}', "missing-field"),
        (f"apiVersion: v1\nkind: List\nitems:\n  - {LISTED}\n", "missing-field"),
    ],
)
def test_validate_skips_no_file_with_a_job(text, problem, tmp_path):
    (tmp_path / "job.yaml").write_text(text)

    for path in (tmp_path / "job.yaml", tmp_path):
        status, out, _ = run("validate", "--skip-other-files", path)
        assert (status, True) == (1, f"[{problem}]" in out), out


def test_validate_skips_no_file_that_cannot_be_read(tmp_path):
    status, out, _ = run("validate", "--skip-other-files", tmp_path / "missing.yaml")

    assert (status, True) == (1, "[unreadable]" in out)


def test_validate_reports_the_same_problems_as_render():
    status, out, err = run("render", BAD, WORSE)

    assert (status, without_totals(err), "2 files, 1 job, 3 problems\n") == run(
        "validate", BAD, WORSE
    )
    assert ("", "2 files, 1 job, 3 problems\n") == (out, err.removeprefix(without_totals(err)))


HINTS = ("defaultSnippets", "enumDescriptions")
"""Keywords for editors, which validators ignore."""


def without_hints(node):
    """A schema, or a part of it, without the keywords for editors."""
    if isinstance(node, list):
        return [without_hints(item) for item in node]
    if not isinstance(node, dict):
        return node
    hints = {*HINTS, "default"} if "const" in node else {*HINTS}
    if "enum" in node.get("propertyNames", {}):
        hints.add("properties")
    return {name: without_hints(part) for name, part in node.items() if name not in hints}


@cache
def published():
    """The schema that `mlgen schema` prints."""
    return json.loads(run("schema")[1])


def test_schema_prints_the_schema_that_files_are_validated_against():
    """It adds the schema of pod templates, which are also validated against it."""
    status, out, _ = run("schema")
    added = without_hints(json.loads(out))

    assert 0 == status
    Draft7Validator.check_schema(added)
    parts = added["definitions"]
    claim = added["properties"]["spec"]["properties"]["claims"]["additionalProperties"]
    for part in (parts["template"], parts["affinity"], claim):
        assert part.pop("allOf")
    added["definitions"] = {k: v for k, v in parts.items() if not k.startswith("kubernetes.")}
    for rule in added["allOf"]:
        roles = rule["then"]["properties"]["spec"]["properties"].get("roles", {})
        if "properties" in roles:
            roles["properties"] = {role: {} for role in roles["properties"]}
    assert frameworks.schema(frameworks.names()) == added


@pytest.mark.parametrize(("version", "valid"), [("1.34", False), ("1.35", True)])
def test_the_schema_has_the_pod_fields_of_a_version(version, valid):
    validator = Draft7Validator(json.loads(run("schema", "--kube-version", version)[1]))
    document = load((ROOT / "fixtures/tensorflow-single.yaml").read_text())
    document["spec"]["template"] = {"spec": {"hostnameOverride": "a"}}

    assert validator.is_valid(document) == valid


def test_schema_prints_that_of_a_kind_with_the_pods_of_a_version():
    status, out, _ = run("schema", "pytorchjob", "--kube-version", "1.31")
    schema = json.loads(out)

    assert (status, schema["title"]) == (0, "PyTorchJob")
    assert "hostnameOverride" not in schema["definitions"]["kubernetes.PodSpec"]["properties"]
    assert run("schema", "TrainingJob") == run("schema")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["PyTorchJobs"], 'unknown kind "PyTorchJobs"; did you mean "PyTorchJob"?'),
        (["TFJob", "--config"], "KIND and --config are mutually exclusive"),
    ],
)
def test_schema_of_an_unknown_kind(arguments, message):
    status, out, err = run("schema", *arguments)

    assert (status, out) == (2, "")
    assert message in err


def test_the_schema_accepts_every_fixture():
    validator = Draft7Validator(published())
    jobs = {path.stem: load_all(path.read_text()) for path in FIXTURES}

    assert [] == [name for name, (job,) in jobs.items() if not validator.is_valid(job)]


@pytest.mark.parametrize(
    "name",
    ["unknown-fields", "unknown-role", "unknown-options", "bad-values", "template-fields"],
)
def test_the_schema_rejects_what_render_rejects(name):
    validator = Draft7Validator(published())
    document = load((ROOT / f"fixtures/invalid/{name}.yaml").read_text())

    assert not validator.is_valid(document)


def test_frameworks_lists_summary_and_roles_of_each():
    status, out, _ = run("frameworks")
    lines = out.splitlines()

    assert 0 == status
    assert [line.split()[0] for line in lines[::2]] == frameworks.names()
    for name, summary, roles in zip(frameworks.names(), lines[::2], lines[1::2], strict=True):
        framework = frameworks.get(name)
        assert summary.split(maxsplit=1) == [name, framework.summary]
        assert roles.strip() == f"roles: {', '.join(framework.roles or ['any'])}"


@pytest.mark.needs("ssh-keygen")
def test_an_ssh_secret_is_new_each_time(tmp_path):
    first, second = (load(run("ssh-secret", "keys", "-n", "hpc")[1]) for _ in range(2))

    assert ("v1", "Secret", "kubernetes.io/ssh-auth", {"name": "keys", "namespace": "hpc"}) == (
        first["apiVersion"],
        first["kind"],
        first["type"],
        first["metadata"],
    )
    for name in ("ssh-privatekey", "ssh-publickey"):
        assert first["stringData"][name] != second["stringData"][name]
    (tmp_path / "key").write_text(first["stringData"]["ssh-privatekey"])
    (tmp_path / "key").chmod(0o600)
    shown = subprocess.run(
        ["ssh-keygen", "-y", "-f", tmp_path / "key"], capture_output=True, text=True, check=True
    )
    assert first["stringData"]["ssh-publickey"].split()[:2] == shown.stdout.split()[:2]


def test_without_ssh_keygen_the_message_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    status, out, err = run("ssh-secret", "keys")

    assert (1, "") == (status, out)
    assert (
        "Error: ssh-keygen is not installed; install the OpenSSH client (openssh-client)"
        == err.strip()
    )


def test_help_does_not_wrap_example_commands():
    assert "\n  mlgen render job.yaml | kubectl apply -f -\n" in run("--help")[1]
    assert "  mlgen ssh-secret resnet-ssh | kubectl apply -f -\n" in run("ssh-secret", "--help")[1]


def test_every_command_has_help_as_h_and_help():
    for command in ([], *([name] for name in main.commands)):
        assert run(*command, "-h") == run(*command, "--help")
        assert 0 == run(*command, "-h")[0]


def test_the_version_is_that_of_the_package():
    status, out, _ = run("--version")

    assert (0, True) == (status, out.startswith(f"mlgen, version {__version__}"))
