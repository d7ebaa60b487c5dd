"""The policies of a site at the exit: every command that prints objects, with every form of input.

A new command must be added to `EXITS` or to `OTHERS`.
"""

import json
import re
import subprocess
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from mlgen.cli import main

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert}
spec:
  framework: pytorch
  image: example/bert:1
  command: [train]
  roles: {worker: {replicas: 2}}
"""
RESOURCE = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: "example/bert:1"}]}}
"""
BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: x}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
"""


def resource_list(*texts):
    """A ResourceList with the documents of texts as items."""
    items = "".join(f"- {text.strip()}\n".replace("\n", "\n  ").rstrip(" ") for text in texts)
    return f"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n{items}"


def of_file(*words):
    return lambda texts, folder: [*words, written(folder / "a.yaml", "---\n".join(texts))]


def of_files(*words):
    """Each document in a file of a folder."""

    def arguments(texts, folder):
        for number, text in enumerate(texts):
            written(folder / f"in/{number}.yaml", text)
        return [*words, str(folder / "in")]

    return arguments


def of_list(*words):
    """All documents in a List, as kubectl prints it."""

    def arguments(texts, folder):
        items = [*map(yaml.safe_load, texts)]
        text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
        return [*words, written(folder / "a.yaml", text)]

    return arguments


def of_diff(texts, folder):
    empty = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    return ["diff", written(folder / "old.yaml", empty), *of_file()(texts, folder)]


def from_stdin(*words, joined="---\n".join):
    return lambda texts, _: (list(words), joined(texts))


def in_argocd(texts, folder):
    for number, text in enumerate(texts):
        written(folder / f"{number}.yaml", text)
    return ["argocd", "generate"]


EXITS = {
    "render": [
        of_file("render"),
        of_files("render"),
        of_list("render"),
        from_stdin("render", "-"),
        of_file("render", "-o", "out/"),
        of_file("render", "--format", "json"),
        of_file("render", "--as", "jobset"),
        of_file("render", "--for", "flux"),
        of_file("render", "--matrix", "spec.env.A=[a, b]"),
    ],
    "argo": [
        of_file("argo"),
        of_list("argo"),
        from_stdin("argo", "-"),
        of_file("argo", "--step"),
        of_file("argo", "--no-workflow"),
        of_file("argo", "--cron", "@daily"),
    ],
    "convert": [of_file("convert"), of_files("convert"), of_list("convert")],
    "diff": [of_diff],
    "helm-post-render": [from_stdin("helm-post-render")],
    "krm": [from_stdin("krm", joined=lambda texts: resource_list(*texts))],
    "argocd generate": [in_argocd],
}
"""The commands that print objects, or their changes, and for each form of input, its arguments."""

OTHERS = {
    "init": "has no input",
    "explain, frameworks, schema, completion": "prints no objects",
    "validate, show, graph, verify": "prints a report",
    "doctor, list, status, logs, wait, delete": "prints the state of jobs in the cluster",
    "apply": "sends what render prints to the cluster, with the same options",
    "rerun": "sends what was applied before",
    "argocd init": "prints nothing",
    "argocd parameters": "prints names and values of a job",
    "ssh-secret": "prints only a Secret of its own, in the namespace of the site",
}
"""The other commands, with the reason."""

FORMS = [
    pytest.param(form, id=f"{name}-{number}")
    for name, forms in EXITS.items()
    for number, form in enumerate(forms)
]

SITE = """\
namespace = "vision"
pod-security = "baseline"
only-jobs = true
enforce = ["namespace", "pod-security", "labels"]
labels = {team = "vision"}
"""


def written(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a form of a command on documents, under a site's file."""
    (tmp_path / "site/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "site")

    def run(form, *texts, site=SITE):
        (tmp_path / "site/mlgen.toml").write_text(site)
        arguments = form(texts, tmp_path / "site" if form is in_argocd else tmp_path)
        words, stdin = arguments if isinstance(arguments, tuple) else (arguments, "")
        result = CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)
        files = sorted((tmp_path / "site/out").glob("*"))
        printed = "".join([result.stdout, *(file.read_text() for file in files)])
        return result.exit_code, "" if printed == stdin else printed, result.stderr

    return run


def all_commands():
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        inner = command.commands if isinstance(command, click.Group) else {}
        yield from ((f"{name} {each}", inner[each]) for each in inner)
        if not inner:
            yield name, command


def test_every_command_prints_objects_under_a_policy_or_has_a_reason_not_to():
    others = {name for names in OTHERS for name in names.split(", ")}

    assert {name for name, _ in all_commands()} == {*EXITS, *others}
    assert not others & EXITS.keys()


def test_a_command_that_prints_objects_has_the_options_of_the_policies():
    for name, command in all_commands():
        if name in EXITS:
            options = {parameter.name for parameter in command.params}
            wanted = {"only_jobs"} | ({"strict"} if name != "diff" else set())
            assert wanted <= options, name
            assert "no_config" in options or name.startswith("argocd"), name


@pytest.mark.parametrize("form", FORMS)
def test_a_job_passes_and_other_objects_do_not(form, run):
    assert run(form, JOB)[0] in (0, 3)

    status, out, err = run(form, JOB, BINDING)

    assert (1, False) == (status, "cluster-admin" in out and "results:" not in out)
    assert "expected a job, got ClusterRoleBinding" in err
    assert run(form, JOB, BINDING, site='namespace = "vision"')[0] in (0, 3)


@pytest.mark.parametrize("text", [JOB, RESOURCE], ids=["job", "resource"])
@pytest.mark.parametrize("form", FORMS)
def test_a_job_cannot_change_an_enforced_value(form, text, run):
    for metadata in ("namespace: other", "labels: {team: other}"):
        wrong = text.replace("name: bert", f"name: bert, {metadata}", 1)

        status, out, err = run(form, wrong)

        assert (1, False) == (status, "kind: Job" in out)
        assert "mlgen.toml enforces vision, got other" in err


PRINTED = [form for form in FORMS if re.match("render|argo-[^3]", form.id)]


@pytest.mark.parametrize("form", PRINTED)
def test_the_objects_of_a_job_have_the_namespace_of_the_site(form, run):
    _, out, _ = run(form, JOB)

    printed = [item for each in yaml.safe_load_all(out) for item in objects_in(each)]
    assert {"vision"} == {item["metadata"].get("namespace") for item in printed}
    assert {"Job", "JobSet"} & {item["kind"] for item in printed}


def objects_in(value):
    """The objects in a value, also in the texts of a ConfigMap of Argo Workflows."""
    if isinstance(value, str) and value.startswith("---\n"):
        return [item for each in yaml.safe_load_all(value) for item in objects_in(each)]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = (
        [value]
        if isinstance(value, dict) and {"apiVersion", "kind", "metadata"} <= {*value}
        else []
    )
    return [*own, *(item for each in inner for item in objects_in(each))]


@pytest.mark.parametrize("form", FORMS)
def test_a_profile_of_the_site_rejects_what_it_does_not_allow(form, run):
    privileged = f"{JOB}  template: {{spec: {{hostPID: true}}}}\n"

    status, out, err = run(form, privileged)

    if form in EXITS["convert"]:  # prints a job file, which is still to be rendered
        assert (0, True) == (status, "kind: TrainingJob" in out)
    else:
        assert (1, False) == (status, "kind: Job" in out)
        assert "hostPID" in err


@pytest.mark.parametrize("form", [form for form in FORMS if form.id != "diff-0"])
def test_strict_applies_to_every_exit(form, run):
    warned = RESOURCE.replace("spec:\n", "spec:\n  runPolicy: {schedulingPolicy: {queue: a}}\n", 1)

    status, _, err = run(form, warned, site="strict = true")

    assert (1, True) == (status, "error" in err or "warning" not in err)


def test_a_function_config_cannot_leave_the_enforced_namespace(run):
    config = "{apiVersion: v1, kind: ConfigMap, data: {namespace: other}}"

    def form(texts, _):
        return ["krm"], f"{resource_list(*texts)}functionConfig: {config}\n"

    status, _, err = run(form, JOB)

    assert 1 == status
    assert "data.namespace: mlgen.toml enforces vision, got other" in err


def test_a_secret_of_ssh_keys_is_in_the_namespace_of_the_site(run, monkeypatch):
    def keygen(command, **_):
        key = Path(command[-1])
        written(key, "private")
        written(key.with_suffix(".pub"), "public")

    monkeypatch.setattr(subprocess, "run", keygen)

    assert "namespace: vision" in run(lambda *_: ["ssh-secret", "a"])[1]
    assert "namespace: b" in run(lambda *_: ["ssh-secret", "a", "-n", "b"])[1]
    assert "namespace" not in run(lambda *_: ["ssh-secret", "a", "--no-config"])[1]


LOCAL = 'annotations: {config.kubernetes.io/local-config: "true"}'
KPTFILE = f"apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {{name: x, {LOCAL}}}\n"

AS_JSON = json.dumps(yaml.safe_load(BINDING))
TRICKS = {
    "kind-twice": f"{JOB}{BINDING}",
    "kind-twice-first": f"{BINDING}{JOB}",
    "escaped-key": f'{JOB}"k\\u0069nd": ClusterRoleBinding\nroleRef: {{name: cluster-admin}}\n',
    "escaped-kind": BINDING.replace("ClusterRoleBinding", '"\\x43lusterRoleBinding"'),
    "binary-kind": f"{JOB}".replace("TrainingJob", "!!binary Q2x1c3RlclJvbGVCaW5kaW5n"),
    "merge-below": f"{JOB}<<: {{kind: ClusterRoleBinding, roleRef: {{name: cluster-admin}}}}\n",
    "merge-twice": f"{JOB}<<: {{kind: A}}\n<<: {{kind: ClusterRoleBinding}}\n",
    "alias-as-kind": f"a: &a ClusterRoleBinding\n{BINDING.replace('ClusterRoleBinding', '*a')}",
    "alias-as-key": f"{JOB}a: &k kind\n*k : ClusterRoleBinding\nroleRef: {{name: cluster-admin}}\n",
    "alias-as-metadata": f"a: &a {{name: x}}\n{BINDING.replace('{name: x}', '*a', 1)}",
    "items-of-a-job": f"{JOB}items:\n- {AS_JSON}\n",
    "items-of-a-kptfile": f"{KPTFILE}items:\n- {AS_JSON}\n",
    "another-list": f"apiVersion: v1\nkind: ConfigMapList\nitems: [{AS_JSON}]\n",
    "list-in-a-list": f"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n"
    f"  items: [{AS_JSON}]\n",
    "kptfile-twice": KPTFILE + BINDING.replace("metadata: {name: x}\n", ""),
    "kptfile-local-twice": KPTFILE.replace("local-config", 'local-config: "false", "&').replace(
        '"&: "true"', 'config.kubernetes.io/local-config: "true"'
    ),
    "case": BINDING.replace("kind", "Kind", 1) + "kind: ClusterRoleBinding\n",
    "blank-in-kind": BINDING.replace("ClusterRoleBinding", '"ClusterRoleBinding "'),
    "odd-version": BINDING.replace("rbac.authorization.k8s.io/v1\n", "rbac.authorization.k8s.io\n"),
    "wrapper": "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: a}\n"
    f"spec: {{components: [{{template: {AS_JSON}}}]}}\n",
    "json": AS_JSON,
    "json-after-json": json.dumps(yaml.safe_load(JOB)) + "\n" + AS_JSON,
    "yaml-1.1": f"%YAML 1.1\n---\n{BINDING}",
    "tag-directive": f"%TAG ! tag:yaml.org,2002:\n---\n{BINDING.replace('Cl', '!str Cl', 1)}",
    "end-of-document": f"{JOB}...\n{BINDING}",
    "comment-marker": f"{JOB}--- # next\n{BINDING}",
    "tight-comment-marker": f"{JOB}---# next\n{BINDING}",
    "content-after-marker": f"{JOB}--- {AS_JSON}\n",
    "vertical-tab": f"{JOB}---\x0b\n{BINDING}",
    "byte-order-mark": f"{JOB}\ufeff---\n{BINDING}",
    "carriage-returns": f"{JOB}---\n{BINDING}".replace("\n", "\r\n"),
    "lone-returns": f"{JOB}---\n{BINDING}".replace("\n", "\r"),
    "nul": f"{JOB}---\x00\n{BINDING}",
    "line-separator": f"{JOB}#\u2028---\n{BINDING}",
    "runtime": BINDING.replace("rbac.authorization.k8s.io/v1", "trainer.kubeflow.org/v1alpha1", 1),
}
"""Documents that hide another object, or look like one."""


READERS = [
    ("render", "helm-post-render", "krm"),
    pytest.param(("argo", "convert", "argocd generate"), marks=pytest.mark.slow),
]
"""Commands: the first ones read their input in their own ways. `diff` reports the object."""


@pytest.mark.parametrize("commands", READERS, ids=" ".join)
@pytest.mark.parametrize("name", TRICKS)
def test_no_object_hides_from_only_jobs(name, commands, run):
    for command in commands:
        forms = EXITS[command]
        status, out, err = run(forms[0], JOB.replace("bert", "first"), TRICKS[name])

        assert (1, True) == (status, ": " in err), command
        assert not out or "results:" in out, command
