"""Run the real Helm 3 and Helm 4 with mlgen as the post-renderer."""

import re
import subprocess
import sys
from functools import cache

import pytest
import yaml
from support import ROOT

from mlgen import __version__

CHART = ROOT / "tests/tools/charts/shop"
PLUGIN = ROOT / "integrations/helm"
JOBS = ("TrainingJob", "PyTorchJob")
CALL = {
    "helm3": ["--post-renderer", "mlgen", "--post-renderer-args", "helm-post-render"],
    "helm4": ["--post-renderer", "mlgen"],
}


@pytest.fixture(scope="module", params=CALL)
def helm(request, tool, environment, tmp_path_factory):
    """Run `helm template shop CHART` with or without the post-renderer. Results are cached."""
    program, folder = tool(request.param), tmp_path_factory.mktemp(request.param)
    homes = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    env = environment | homes | {"XDG_CACHE_HOME": str(folder)}

    def run(*words):
        return subprocess.run(
            [program, *map(str, words)], capture_output=True, text=True, check=False, env=env
        )

    if request.param == "helm4":
        assert run("plugin", "install", PLUGIN).returncode == 0

    @cache
    def template(*words, post=(), **settings):
        values = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        arguments = [word for argument in post or () for word in ("--post-renderer-args", argument)]
        call = [] if post is None else [*CALL[request.param], *arguments]
        return run("template", "shop", CHART, *words, *values, *call)

    template.run, template.name = run, request.param
    template.log = folder / "mlgen/last-error.txt"
    return template


def mlgen(text, *words):
    command = [sys.executable, "-m", "mlgen", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def objects(text):
    by_name = {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text)}
    return dict(sorted(by_name.items()))


def sources(text):
    """Return the template of each object, from its source comment."""
    return {
        (item["kind"], item["metadata"]["name"]): re.search("# Source: (.*)", document)[1]
        for document in text.split("---\n")[1:]
        if (item := yaml.safe_load(document))
    }


def test_only_jobs_are_replaced(helm):
    plain, result = helm(post=None), helm()

    assert (0, "") == (result.returncode, result.stderr)
    assert objects(mlgen(plain.stdout, "render", "-")) == objects(result.stdout)
    assert not {kind for kind, _ in objects(result.stdout)} & set(JOBS)
    assert f"# shop: tensorflow, 3 pods. Made by mlgen {__version__}.\n" in result.stdout


def test_every_object_has_the_source_comment_of_its_job(helm):
    templates = sources(helm().stdout)

    assert "shop/templates/config.yaml" == templates["ConfigMap", "prices"]
    assert "shop/templates/tests/ping.yaml" == templates["Pod", "ping"]
    for (_, name), source in templates.items():
        if name.startswith("shop"):
            job = "pytorchjob" if name.startswith("shop-images") else "job"
            assert f"shop/templates/{job}.yaml" == source


def test_show_only_prints_the_objects_of_one_template(helm):
    result = helm("--show-only", "templates/job.yaml")
    templates = sources(helm().stdout)

    of_job = {key for key, source in templates.items() if source == "shop/templates/job.yaml"}
    assert of_job == objects(result.stdout).keys()
    assert {"Job", "Service", "Role"} <= {kind for kind, _ in of_job}


def test_helm_3_prints_other_objects_unchanged(helm):
    """Helm 4 reformats all YAML itself."""
    if helm.name == "helm4":
        assert "# Prices   in cents\napiVersion: v1\n" in helm().stdout
        return
    text = (
        '# Prices   in cents\napiVersion:   v1\nkind: ConfigMap\nmetadata: {name: "prices",\n  la'
    )
    assert text in helm().stdout


def test_post_renderer_arguments_are_passed_to_mlgen(helm):
    result = helm(post=("--no-supervisor", "--set", "spec.image=other:1", "--namespace=vision"))
    rendered = objects(result.stdout)

    assert ("Job", "shop-supervisor") in objects(helm().stdout)
    assert ("Job", "shop-supervisor") not in rendered
    assert "vision" == rendered["Job", "shop-chief"]["metadata"]["namespace"]
    (main,) = rendered["Job", "shop-chief"]["spec"]["template"]["spec"]["containers"]
    assert "other:1" == main["image"]


LINE = 'shop/templates/job.yaml:12:5: spec.roles.wroker: unknown role "wroker"'


def test_a_problem_is_reported_with_file_and_line(helm):
    result = helm(role="wroker")

    assert (1, "") == (result.returncode, result.stdout)
    assert LINE in result.stderr
    if helm.name == "helm4":
        assert result.stderr.startswith(helm.log.read_text())
    else:
        assert not helm.log.exists()


def test_an_invalid_argument_is_reported(helm):
    result = helm(post=("--kube-version", "1.10"))

    assert (1, "") == (result.returncode, result.stdout)
    assert "expected a version from 1.31" in result.stderr


def test_a_chart_that_renders_nothing_is_an_error(helm):
    result = helm(enabled="false")

    assert (1, "") == (result.returncode, result.stdout)
    assert "the chart renders no manifests" in result.stderr


def test_a_job_as_a_hook_is_not_rendered(helm):
    """Helm 3 does not pass hooks to post-renderers. With Helm 4, the hooks would deadlock."""
    result = helm(hook="true")

    if helm.name == "helm3":
        assert "kind: TrainingJob" in result.stdout
    else:
        assert (1, "") == (result.returncode, result.stdout)
        assert "Helm waits for Job shop-chief" in result.stderr


def test_the_post_renderer_gives_the_same_result_without_helm(helm):
    by_hand = mlgen(helm(post=None).stdout, "helm-post-render")

    assert objects(helm().stdout) == objects(by_hand)
    assert sources(helm().stdout) == sources(by_hand)


def test_the_plugin_can_be_listed_and_uninstalled(helm):
    if helm.name == "helm3":
        pytest.skip("Helm 3 has no plugins that are post-renderers")
    listed = helm.run("plugin", "list").stdout

    assert re.search(r"^mlgen\s+\d+\.\d+\.\d+\s+postrenderer/v1\s+v1", listed, re.MULTILINE)
    assert 0 == helm.run("plugin", "uninstall", "mlgen").returncode
    assert "mlgen" not in helm.run("plugin", "list").stdout
    assert (PLUGIN / "plugin.yaml").exists()
    assert 0 == helm.run("plugin", "install", PLUGIN).returncode
