"""`--for argocd`, `--for flux`: a GitOps tool recreates deleted objects but must not retrain."""

import copy
import json
from functools import cache

import pytest
from click.testing import CliRunner
from support import ROOT, each_file, load_all, without_totals

from mlgen import Options, frameworks, objects, pipeline
from mlgen.cli import main
from mlgen.documents.files import texts
from mlgen.jobfile.parser import training_job
from mlgen.runtime import api
from mlgen.variants import gitops, name_hash

TTL = "ttlSecondsAfterFinished"
INSTANCE = "app.kubernetes.io/instance"
OPTIONS = "argocd.argoproj.io/sync-options"
HEALTH = "argocd.argoproj.io/ignore-healthcheck"
FLUX = "kustomize.toolkit.fluxcd.io"
SET = "mlgen.dev/set"

GOLDEN = [
    ("argocd", "tensorflow-volcano"),  # a PodGroup
    ("argocd", "tensorflow-clean-all"),  # a time to live, a supervisor, a TensorBoard
    ("flux", "tensorflow-clean-all"),
    ("flux", "jax-kueue"),  # a Job that Kueue suspends
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
def in_project_folder(monkeypatch):
    monkeypatch.chdir(ROOT)


def run(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


@cache
def manifests(path, target=None, settings=()):
    """The manifests of the jobs in a file. They are cached, so no test may change them."""
    options = Options(target=target, settings=settings)
    result = pipeline.render(texts((str(path),)), options)
    return [item for job in result.jobs for item in job.objects]


@cache
def plain(path):
    """The manifests without the tool, without the policies that the tool would undo."""
    jobs = pipeline.render(texts((str(path),)), Options(target="argocd")).jobs
    return [item for job in jobs for item in built(job.topology)]


def built(topology):
    built = objects.build(topology)
    return name_hash.in_addresses(topology, built) if topology.job.part_of else built


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
    code, text, stderr = run("show", "fixtures/tensorflow-clean-all.yaml", "--for", target)

    assert code == 0
    assert "The supervisor stops the running pods." in text
    assert without_totals(stderr) == message


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_a_job_that_is_rendered_as_written_has_no_warning(target):
    assert run("render", "fixtures/jax.yaml", "--for", target)[2] == ""


@each_file()
def test_sync_options_of_argo_cd(file):
    rendered = manifests(file, "argocd")
    for item in rendered:
        options = annotations(item).get(OPTIONS, "").split(",")

        assert ("Force=true" in options) == (item["kind"] == "Job")
        assert ("ServerSideApply=false" in options) == (item["kind"] == "Job")
        assert ("SkipDryRunOnMissingResource=true" in options) == (item["kind"] == "PodGroup")
        assert ("Prune=false" in options) == (item["kind"] == "PersistentVolumeClaim")
        assert "Replace=true" not in options
        assert "argocd.argoproj.io/sync-wave" not in annotations(item)
        assert TTL not in item.get("spec", {})
    assert INSTANCE not in json.dumps(rendered)


@each_file()
def test_flux_recreates_only_jobs(file):
    for item in manifests(file, "flux"):
        force = annotations(item).get(f"{FLUX}/force")

        assert force == ("enabled" if item["kind"] == "Job" else None)
        kept = annotations(item).get(f"{FLUX}/prune") == "disabled"
        assert kept == (item["kind"] == "PersistentVolumeClaim")
        assert TTL not in item.get("spec", {})


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_the_supervisor_deletes_nothing(target):
    (role,) = of_kind(manifests(ROOT / "fixtures/tensorflow-clean-all.yaml", target), "Role")

    assert "delete" not in {verb for rule in role["rules"] for verb in rule["verbs"]}


@each_file()
def test_everything_else_is_the_same_without_the_tool(file):
    expected = [common(item) for item in plain(file)]

    for target in ("argocd", "flux"):
        assert [common(item) for item in manifests(file, target)] == expected


def common(item):
    """A copy of a manifest without the fields that depend on the tool."""
    item = copy.deepcopy(item)
    template = item.get("spec", {}).get("template", {})
    for metadata in (item["metadata"], template.get("metadata", {})):
        for name in (INSTANCE, SET):
            metadata.get("labels", {}).pop(name, None)
        noted = metadata.get("annotations", {})
        for name in [name for name in noted if name in (OPTIONS, HEALTH) or FLUX in name]:
            del noted[name]
        if not noted:
            metadata.pop("annotations", None)
    if item["kind"] == "Job":
        item["spec"].pop(TTL, None)
    if item["kind"] == "Service":
        item["spec"]["selector"].pop(SET, None)
    if item["kind"] == "StatefulSet" and item["spec"].get("replicas") == 1:
        del item["spec"]["replicas"]
    if "plan.json" in item.get("data", {}):
        item["data"]["plan.json"] = {**json.loads(item["data"]["plan.json"]), "set": ""}
    return item


def test_objects_that_are_no_jobs_pass_through(tmp_path):
    text = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: mine}  # and only mine\n"
    (tmp_path / "mine.yaml").write_text(text)

    counted = "no jobs, 1 other object (Job)\n"
    assert run("render", tmp_path, "--for", "argocd") == (0, text, counted)


def set_hashes(path, *settings, target="argocd"):
    """The label with the hash of the job's objects on each Job's pods, by the Job's name."""
    return {
        item["metadata"]["name"]: item["spec"]["template"]["metadata"]["labels"].get(SET)
        for item in of_kind(manifests(path, target, settings), "Job")
    }


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_if_one_job_is_recreated_all_jobs_of_the_set_are(target, tmp_path):
    path = job_file(tmp_path, "  runPolicy: {cleanPodPolicy: Running}\n")
    changed = (("spec", "roles", "worker", "image"), "i:2")
    before, after = set_hashes(path, target=target), set_hashes(path, changed, target=target)

    assert list(before) == ["job-chief", "job-worker", "job-supervisor"]
    assert before.keys() == after.keys()
    assert len(set(before.values())) == len(set(after.values())) == 1
    assert not set(before.values()) & set(after.values())


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_the_supervisor_knows_the_jobs_of_its_set(target, tmp_path):
    path = job_file(tmp_path, "  runPolicy: {cleanPodPolicy: Running}\n")
    (plan,) = plans(path, target)

    assert {plan["set"]} == set(set_hashes(path, target=target).values())


@each_file("kind: (Service|StatefulSet)")
def test_services_select_only_pods_of_their_own_set(file):
    """Until the old pods of a changed job have ended, peers would connect to them."""
    items = manifests(file, "argocd")
    templates = [item["spec"]["template"] for item in items if "template" in item.get("spec", {})]
    labels = [template["metadata"]["labels"] for template in templates]
    for service in of_kind(items, "Service"):
        name, selector = service["metadata"]["name"], service["spec"]["selector"]
        by_mlgen = {key: value for key, value in selector.items() if "kubernetes.io/" not in key}
        selected = [each for each in labels if by_mlgen.items() <= each.items()]
        assert selected, f"{name} selects no pods"
        is_hashed = "app.kubernetes.io/part-of" in service["metadata"]["labels"]
        assert (SET in selector) is not (is_hashed or name.endswith("-tensorboard"))


def test_a_stateful_set_keeps_its_selector(tmp_path):
    """It cannot change."""
    (sets,) = of_kind(manifests(job_file(tmp_path), "argocd"), "StatefulSet")

    assert sets["spec"]["selector"]["matchLabels"] == {
        "mlgen.dev/job": "job",
        "mlgen.dev/role": "ps",
    }
    assert sets["spec"]["template"]["metadata"]["labels"][SET]


def test_with_a_hash_in_its_name_the_supervisor_knows_its_jobs_by_name(tmp_path):
    policy = "  runPolicy: {cleanPodPolicy: Running}\n"
    (plan,) = plans(job_file(tmp_path, policy, ", nameSuffix: hash"), "flux")

    assert "set" not in plan


def plans(path, target):
    """The plans of the supervisors."""
    config_maps = of_kind(manifests(path, target), "ConfigMap")
    found = [item["data"] for item in config_maps if "plan.json" in item.get("data", {})]
    return [json.loads(data["plan.json"]) for data in found]


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("pytorch-elastic", ("roles", "worker", "replicas"), 4),
        ("pytorch-static", ("runPolicy", "suspend"), True),
        ("pytorch-static", ("runPolicy", "backoffLimit"), 3),
        ("pytorch-static", ("runPolicy", TTL), 60),
    ],
)
def test_a_change_in_place_recreates_no_job(name, path, value):
    file = ROOT / f"fixtures/{name}.yaml"

    assert set_hashes(file) == set_hashes(file, (("spec", *path), value))


def test_a_set_with_a_hash_in_its_name_has_no_annotation(tmp_path):
    path = job_file(tmp_path, metadata=", nameSuffix: hash")
    names = list(set_hashes(path))

    assert set(set_hashes(path).values()) == {None}
    assert names == [item["metadata"]["name"] for item in of_kind(manifests(path), "Job")]


def test_the_user_s_own_annotations_win(tmp_path):
    annotated = (
        ", annotations: {argocd.argoproj.io/sync-options: 'Prune=false, Force=false',"
        " argocd.argoproj.io/sync-wave: '3', kustomize.toolkit.fluxcd.io/force: disabled}"
    )
    path = job_file(tmp_path, "  runPolicy: {cleanPodPolicy: Running}\n", annotated)
    (service,) = of_kind(manifests(path, "argocd"), "Service")

    assert annotations(service)[OPTIONS] == "Prune=false, Force=false"
    for job in of_kind(manifests(path, "argocd"), "Job"):
        assert annotations(job)[OPTIONS] == "Prune=false,Force=false,ServerSideApply=false"
        assert annotations(job)["argocd.argoproj.io/sync-wave"] == "3"
    for job in of_kind(manifests(path, "flux"), "Job"):
        assert annotations(job)[f"{FLUX}/force"] == "disabled"


def test_flux_substitutes_no_variables_in_scripts():
    config_maps = of_kind(manifests(ROOT / "fixtures/xgboost.yaml", "flux"), "ConfigMap")
    scripts = [item for item in config_maps if "${" in json.dumps(item.get("data"))]

    assert scripts
    assert {annotations(item)[f"{FLUX}/substitute"] for item in scripts} == {"disabled"}


def test_an_unknown_tool_is_an_error():
    code, stdout, stderr = run("render", "fixtures/jax.yaml", "--for", "argo")

    assert (code, stdout) == (2, "")
    assert "'--for': unknown tool \"argo\"; expected one of: argocd, flux\n" in stderr


@pytest.mark.parametrize("name", ["argocd", "flux"])
def test_tool_returns_the_name_of_a_tool(name):
    assert gitops.tool(name) == name


@pytest.mark.parametrize("text", ["", "argo", "Flux", "argocd "])
def test_tool_of_another_text_is_an_error(text):
    with pytest.raises(ValueError, match=r"^unknown tool .*; expected one of: argocd, flux$"):
        gitops.tool(text)


def test_the_printed_manifests_are_those_of_the_pipeline():
    path = "fixtures/tensorflow-clean-all.yaml"
    text = run("render", path, "--for", "argocd")[1]

    assert load_all(text) == manifests(ROOT / path, "argocd")


def job(**run_policy):
    spec = {"framework": "tensorflow", "image": "i", "runPolicy": run_policy}
    roles = {"chief": {}, "ps": {"replicas": 2}, "worker": {}}
    metadata = {"name": "job"}
    return training_job({"metadata": metadata, "spec": spec | {"roles": roles}})


def topology(training):
    return frameworks.get("tensorflow").topology(gitops.GitOps("argocd").job(training))


@pytest.mark.parametrize(
    ("policy", "clean", "ttl"),
    [
        ({}, "None", None),
        ({"cleanPodPolicy": "Running"}, "Running", None),
        ({"cleanPodPolicy": "All", TTL: 0}, "Running", None),
        ({"cleanPodPolicy": "None", TTL: 9, "backoffLimit": 3}, "None", None),
    ],
)
def test_policies_that_delete_objects_are_dropped(policy, clean, ttl):
    before = job(**policy)
    after = gitops.GitOps("argocd").job(before)

    assert after.run_policy.clean_pod_policy == clean
    assert after.run_policy.ttl_seconds_after_finished == ttl
    assert after.run_policy.backoff_limit == before.run_policy.backoff_limit


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_a_cleanup_of_a_job_without_other_pods_is_no_warning(target):
    training = job(cleanPodPolicy="All")._replace(framework="jax")
    training = training._replace(roles={"worker": training.roles["worker"]})
    laid_out = frameworks.get("jax").topology(gitops.GitOps("argocd").job(training))

    assert gitops.GitOps(target).topology(laid_out, training, {}).problems == laid_out.problems


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        ({}, []),
        ({TTL: 0}, [TTL]),
        ({"cleanPodPolicy": "Running"}, []),
        ({"cleanPodPolicy": "All", TTL: 60}, [TTL, "cleanPodPolicy"]),
    ],
)
@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_each_policy_that_is_not_rendered_as_written_is_a_warning(policy, fields, target):
    training = job(**policy)
    laid_out = topology(training)
    warnings = gitops.GitOps(target).topology(laid_out._replace(problems=()), training, {}).problems

    assert [warning.path for warning in warnings] == [
        ("spec", "runPolicy", field) for field in fields
    ]
    assert all(warning.warning and warning.code == "combination" for warning in warnings)


ARGOCD = """\
#   add to the Application, so that Argo CD keeps the supervisor's changes:
#     syncPolicy: {syncOptions: [ApplyOutOfSyncOnly=true]}
#     ignoreDifferences:
#     - {group: batch, kind: Job, managedFieldsManagers: [mlgen-supervisor]}
#     - {group: apps, kind: StatefulSet, managedFieldsManagers: [mlgen-supervisor]}
"""
INTRO = (
    "#   add to the Kustomization, so that Flux keeps the supervisor's changes:\n#     ignore:\n"
)
SETS = "{kind: StatefulSet, labelSelector: mlgen.dev/job}"
SCALED = f"#     - {{paths: [/spec/replicas], target: {SETS}}}\n"


@pytest.mark.parametrize(
    ("setting", "needed"),
    [
        ("cleanPodPolicy=Running", True),
        ("restartScope=All", True),
        ("restartScope=[worker]", False),  # the supervisor does not scale the parameter servers
        ("cleanPodPolicy=None", False),
    ],
)
def test_the_summary_says_how_the_tool_keeps_scaled_sets(setting, needed, tmp_path):
    path, words = job_file(tmp_path), ("--set", f"spec.runPolicy.{setting}")
    words = (*words, "--set", "spec.roles.ps.replicas=2")

    assert (ARGOCD in run("render", path, "--for", "argocd", *words)[1]) is needed
    assert (INTRO + SCALED in run("render", path, "--for", "flux", *words)[1]) is needed
    assert "add to the" not in run("render", path, *words)[1]


def test_the_summary_says_how_the_tool_keeps_resumed_jobs():
    text = run("render", "fixtures/generic-order.yaml", "--for", "flux")[1]
    roles = '"mlgen.dev/role in (trainer, evaluator)"'

    rule = f"#     - {{paths: [/spec/suspend], target: {{kind: Job, labelSelector: {roles}}}}}\n"
    assert INTRO + rule in text
    assert ARGOCD in run("render", "fixtures/generic-order.yaml", "--for", "argocd")[1]


@pytest.mark.parametrize("target", ["argocd", "flux"])
@pytest.mark.parametrize(("replicas", "rendered"), [(1, None), (2, 2)])
def test_the_default_number_of_replicas_is_not_in_git(target, replicas, rendered, tmp_path):
    path = job_file(tmp_path, "  runPolicy: {cleanPodPolicy: Running}\n")
    setting = (("spec", "roles", "ps", "replicas"), replicas)
    (stateful_set,) = of_kind(manifests(path, target, (setting,)), "StatefulSet")

    assert stateful_set["spec"].get("replicas") == rendered


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_the_number_of_replicas_is_in_git_if_no_supervisor_scales_them(target, tmp_path):
    setting = (("spec", "roles", "ps", "replicas"), 1)
    options = Options(target=target, settings=(setting,), supervisor=False)
    result = pipeline.render(texts((str(job_file(tmp_path)),)), options)
    (stateful_set,) = of_kind(result.jobs[0].objects, "StatefulSet")

    assert stateful_set["spec"]["replicas"] == 1


def test_settings_of_a_tool_are_written_by_the_supervisor_s_field_manager():
    lines = "".join(line for _, line in gitops.tools()["argocd"]["settings"])

    assert lines.count(f"managedFieldsManagers: [{api.MANAGER['fieldManager']}]") == 2


@pytest.mark.parametrize("target", ["argocd", "flux"])
def test_adapting_changes_no_manifest_in_place(target):
    laid_out = topology(job(cleanPodPolicy="All"))
    before = objects.build(laid_out)
    after = gitops.GitOps(target).objects(laid_out, before)

    assert before == objects.build(laid_out)
    assert len(after) == len(before)
    assert after != before
