"""`--for argocd`, `--for flux`: what brings back all that is gone must not train anew."""

import copy
import json
from functools import cache

import pytest
import yaml
from click.testing import CliRunner
from support import ROOT

from mlgen import Options, pipeline
from mlgen.cli import main
from mlgen.documents.files import texts

TTL = "ttlSecondsAfterFinished"
INSTANCE = "app.kubernetes.io/instance"
OPTIONS = "argocd.argoproj.io/sync-options"
FLUX = "kustomize.toolkit.fluxcd.io"
QUEUE = "kueue.x-k8s.io/queue-name"
SET = "mlgen.dev/set"

GOLDEN = [
    ("argocd", "tensorflow-volcano"),  # a PodGroup
    ("argocd", "tensorflow-clean-all"),  # a time to live, a supervisor, a TensorBoard
    ("flux", "tensorflow-clean-all"),
    ("flux", "jax-kueue"),  # a Job that another one lets go
]

HEAD = """apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: job%s}
spec:
  framework: tensorflow
  image: i
"""
ROLES = "  roles: {chief: {}, ps: {}, worker: {replicas: 2}}\n"


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def run(*words):
    done = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@cache
def made(path, target=None, settings=()):
    """The objects of the jobs in a file, which no test changes."""
    options = Options(target=target, settings=settings)
    result = pipeline.render(texts((str(path),)), options)
    return [item for job in result.jobs for item in job.objects]


@cache
def plain(path):
    """What a plain render makes, deleting nothing: All is rendered as Running."""
    jobs = pipeline.render(texts((str(path),)), Options()).jobs
    policies = {job.asked.run_policy.clean_pod_policy for job in jobs}
    setting = (("spec", "runPolicy", "cleanPodPolicy"), "Running")
    return made(path, None, (setting,) if "All" in policies else ())


def job_file(folder, rest="", metadata=""):
    path = folder / "job.yaml"
    path.write_text(HEAD % metadata + ROLES + rest)
    return path


def of_kind(objects, *kinds):
    return [item for item in objects if item["kind"] in kinds]


def annotations(item):
    return item["metadata"].get("annotations", {})


@pytest.mark.parametrize(("target", "name"), GOLDEN)
def test_manifests(target, name, manifest):
    code, text, _ = run("render", f"fixtures/{name}.yaml", "--for", target)

    assert code == 0
    assert text == manifest


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_warnings(target, message):
    """Of what is rendered otherwise than it reads, and of what the tool starts again."""
    code, text, said = run("validate", "fixtures/tensorflow-clean-all.yaml", "--for", target)

    assert code == 0
    assert "ends the others when training has ended" in text
    assert said == message


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_nothing_is_said_of_a_job_of_which_nothing_is_changed(target):
    assert run("render", "fixtures/jax.yaml", "--for", target)[2] == ""


def test_what_argo_cd_is_told(any_file):
    found = made(any_file, "argocd")
    for item in found:
        options = annotations(item).get(OPTIONS, "").split(",")

        assert ("Force=true" in options) == (item["kind"] == "Job")
        assert ("ServerSideApply=false" in options) == (item["kind"] == "Job")
        assert ("SkipDryRunOnMissingResource=true" in options) == (item["kind"] == "PodGroup")
        assert "Replace=true" not in options
        assert "argocd.argoproj.io/sync-wave" not in annotations(item)
        assert TTL not in item.get("spec", {})
    assert INSTANCE not in json.dumps(found)


def test_what_flux_is_told(any_file):
    for item in made(any_file, "flux"):
        force = annotations(item).get(f"{FLUX}/force")

        assert force == ("enabled" if item["kind"] == "Job" else None)
        assert TTL not in item.get("spec", {})


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_the_supervisor_deletes_nothing(target):
    found = made(ROOT / "fixtures/tensorflow-clean-all.yaml", target)
    (role,) = of_kind(found, "Role")

    assert {"get", "patch"} == {verb for rule in role["rules"] for verb in rule["verbs"]}


def test_all_else_is_as_it_is_without_the_tool(any_file):
    wanted = [common(item) for item in plain(any_file)]

    for target in ("argocd", "flux"):
        assert [common(item) for item in made(any_file, target)] == wanted


def common(item):
    """An object without what the tool is told, and without what is not for it."""
    item = copy.deepcopy(item)
    template = item.get("spec", {}).get("template", {})
    for metadata in (item["metadata"], template.get("metadata", {})):
        metadata.get("labels", {}).pop(INSTANCE, None)
        metadata.get("labels", {}).pop("mlgen.dev/instance", None)
        told = metadata.get("annotations", {})
        for name in [name for name in told if name in (SET, OPTIONS) or name.startswith(FLUX)]:
            del told[name]
        if not told:
            metadata.pop("annotations", None)
    selector = item.get("spec", {}).get("selector", {})
    for labels in (selector, selector.get("matchLabels", {})):
        labels.pop(INSTANCE, None)
        labels.pop("mlgen.dev/instance", None)
    if item["kind"] == "Job":
        item["spec"].pop(TTL, None)
        if QUEUE in item["metadata"]["labels"]:
            item["spec"].pop("suspend", None)
    return item


def test_other_objects_stay_as_they_are(tmp_path):
    text = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: mine}  # and only mine\n"
    (tmp_path / "mine.yaml").write_text(text)

    assert run("render", tmp_path, "--for", "argocd") == (0, text, "")


def marks(path, *settings, target="argocd"):
    """The annotation of each Job's pods, by the Job's name."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]["metadata"]["annotations"].get(SET)
        for item in of_kind(made(path, target, settings), "Job")
    }


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_where_one_job_is_made_again_all_of_the_set_are(target, tmp_path):
    path = job_file(tmp_path, "  runPolicy: {cleanPodPolicy: Running}\n")
    changed = (("spec", "roles", "worker", "image"), "i:2")
    before, after = marks(path, target=target), marks(path, changed, target=target)

    assert list(before) == ["job-chief", "job-worker", "job-supervisor"]
    assert before.keys() == after.keys()
    assert len(set(before.values())) == len(set(after.values())) == 1
    assert not set(before.values()) & set(after.values())


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("pytorch-elastic", ("roles", "worker", "replicas"), 4),
        ("pytorch-static", ("runPolicy", "suspend"), True),
        ("pytorch-static", ("runPolicy", "backoffLimit"), 3),
        ("pytorch-static", ("runPolicy", TTL), 60),
    ],
)
def test_what_may_change_in_place_makes_no_job_again(name, path, value):
    file = ROOT / f"fixtures/{name}.yaml"

    assert marks(file) == marks(file, (("spec", *path), value))


def test_a_set_whose_name_follows_from_it_needs_no_mark(tmp_path):
    path = job_file(tmp_path, metadata=", nameSuffix: hash")
    names = list(marks(path))

    assert set(marks(path).values()) == {None}
    assert names == [item["metadata"]["name"] for item in of_kind(made(path), "Job")]


def test_the_user_s_own_annotations_win(tmp_path):
    own = (
        ", annotations: {argocd.argoproj.io/sync-options: 'Prune=false, Force=false',"
        " argocd.argoproj.io/sync-wave: '3', kustomize.toolkit.fluxcd.io/force: disabled}"
    )
    path = job_file(tmp_path, "  runPolicy: {cleanPodPolicy: Running}\n", own)
    (service,) = of_kind(made(path, "argocd"), "Service")

    assert annotations(service)[OPTIONS] == "Prune=false, Force=false"
    for job in of_kind(made(path, "argocd"), "Job"):
        assert annotations(job)[OPTIONS] == "Prune=false,Force=false,ServerSideApply=false"
        assert annotations(job)["argocd.argoproj.io/sync-wave"] == "3"
    for job in of_kind(made(path, "flux"), "Job"):
        assert annotations(job)[f"{FLUX}/force"] == "disabled"
        assert annotations(job)[f"{FLUX}/ssa"] == "Merge"


def test_flux_leaves_what_the_supervisor_has_written():
    for policy in ("None", "Running"):
        setting = (("spec", "runPolicy", "cleanPodPolicy"), policy)
        found = made(ROOT / "fixtures/tensorflow-ps.yaml", "flux", (setting,))
        merged = [o["metadata"]["name"] for o in found if f"{FLUX}/ssa" in annotations(o)]
        jobs = [item["metadata"]["name"] for item in of_kind(found, "Job")]

        assert merged == (["mnist-status", *jobs] if policy == "Running" else [])


def test_flux_replaces_nothing_in_scripts():
    found = made(ROOT / "fixtures/tensorflow-ps.yaml", "flux")
    scripts = [o for o in of_kind(found, "ConfigMap") if "${" in json.dumps(o.get("data"))]

    assert scripts
    assert {annotations(item)[f"{FLUX}/substitute"] for item in scripts} == {"disabled"}


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_git_does_not_stop_what_a_queue_has_let_go(target):
    file = ROOT / "fixtures/jax-kueue.yaml"
    (before,), (after,) = of_kind(made(file), "Job"), of_kind(made(file, target), "Job")
    (stopped,) = of_kind(made(file, target, ((("spec", "runPolicy", "suspend"), True),)), "Job")

    assert before["spec"]["suspend"] is True
    assert "suspend" not in after["spec"]
    assert stopped["spec"]["suspend"] is True


def test_the_tool_is_one_that_is_known():
    code, _, said = run("render", "fixtures/jax.yaml", "--for", "argo")

    assert code == 2
    assert "'argocd', 'flux'" in said


def test_the_text_is_that_of_the_objects():
    path = "fixtures/tensorflow-clean-all.yaml"
    text = run("render", path, "--for", "argocd")[1]

    assert list(yaml.safe_load_all(text)) == made(ROOT / path, "argocd")
