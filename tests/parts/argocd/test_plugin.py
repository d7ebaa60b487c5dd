"""The plugin as Argo CD runs it: parameters, and errors."""

import pytest
import yaml
from parts.argocd.server import PLUGIN
from parts.gitops.repository import Rendered, job
from parts.gitops.training import Training

pytestmark = pytest.mark.long
FILE = "job.mlgen.yaml"


def test_an_application_sets_parameters(application, repository, namespace):
    repository.commit(FILE, job("first"))
    repository.commit("second.mlgen.yaml", job("second"))
    files = {"name": "files", "array": [FILE]}
    settings = {"name": "set", "map": {"spec.roles.server.replicas": "1"}}
    app = application("parameters", plugin={"name": "mlgen", "parameters": [files, settings]})
    app.until(health="Progressing")

    servers = namespace.get("statefulset", "-l", "mlgen.dev/job in (first, second)")["items"]
    assert [(each["metadata"]["name"], each["spec"]["replicas"]) for each in servers] == [
        ("first-server", 1)
    ]


def test_an_error_is_shown_with_its_place_and_changes_nothing(application, repository, namespace):
    repository.commit(FILE, job("right"))
    app = application("right")
    app.until(health="Progressing")

    repository.commit(FILE, job("wrong", roles={"trainer": {"replica": 2}}))
    place = f"{FILE}:17:7: spec.roles.trainer.replica"
    message = f'{place}: unknown field "replica"; did you mean "replicas"? [unknown-field]'
    assert app.conditions()["ComparisonError"].endswith(message)

    repository.commit(FILE, "{apiVersion: v1, kind: ConfigMap, metadata: {name: alone}}")
    assert "no job found in: ." in app.conditions()["ComparisonError"]
    assert namespace.get("job", "right-trainer")


def test_rendered_manifests_need_no_plugin(application, namespace, tmp_path):
    repository = Rendered(tmp_path / "rendered", namespace, "argocd")
    repository.commit(FILE, job("rendered"))
    app = application("rendered", repository=repository, path="manifests")
    app.until(health="Progressing")
    Training(namespace, "rendered").runs()
    assert app.out_of_sync() == set()


def test_a_site_allows_jobs_only(application, argocd, repository, tmp_path):
    plugin = yaml.safe_load((PLUGIN / "plugin.yaml").read_text())
    plugin["metadata"]["name"] = "mlgen-jobs"
    for command in ("init", "generate"):
        plugin["spec"][command]["command"].append("--only-jobs")
    (tmp_path / "plugin.yaml").write_text(yaml.safe_dump(plugin))
    argocd.plugin(tmp_path)
    repository.commit(
        FILE, job("mixed") + "---\n{apiVersion: v1, kind: Secret, metadata: {name: s}}\n"
    )
    app = application("mixed", plugin={"name": "mlgen-jobs"})

    assert "Secret" in app.conditions()["ComparisonError"]
