"""Run mlgen as a KRM function of the real kustomize, and after `kubectl kustomize`."""

import json
import subprocess

import pytest
import yaml
from click.testing import CliRunner
from support import FIXTURES, RESOURCES, ROOT

from mlgen.cli import main
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.output.yaml import yaml_text

INTEGRATION = ROOT / "integrations/kustomize"
PLUGINS = ["--enable-alpha-plugins", "--enable-exec"]

OWN_NAME = ("elasticdl-elasticaijob-v1alpha1", "generic-subdomain", "jobset-jobset-v1alpha2")
"""Jobs that repeat their own name in arguments or addresses, where kustomize does not rename it."""

# A prefix does not change the name of the runtime to which a TrainJob refers.
FILES = [
    path
    for path in (*FIXTURES, *RESOURCES)
    if path.stem not in OWN_NAME
    and "kind: ClusterTrainingRuntime" not in path.read_text()
    and "kind: TrainingRuntime" not in path.read_text()
]
NAMES = {path: f"j{number}" for number, path in enumerate(FILES)}
"""A unique name for each job, because all are in one kustomization."""

FUNCTION = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: mlgen
  annotations:
    config.kubernetes.io/function: |
      exec: {path: mlgen, args: [krm]}
"""
OVERLAY = """\
resources: [../base]
transformers: [mlgen.yaml]
namePrefix: dev-
nameSuffix: -b
namespace: vision
"""


def named(path, name, **metadata):
    """Return the job of a fixture under another name, with sorted keys, as from kustomize."""
    (document,) = read_documents(Text(path.name, path.read_text()))
    document.data["metadata"] |= {"name": name, **metadata}
    return yaml_text([json.loads(json.dumps(document.data, sort_keys=True))])


def keyed(text):
    objects = [item for item in yaml.safe_load_all(text) if item]
    by_name = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item
        for item in objects
    }
    assert len(by_name) == len(objects)
    return by_name


def rendered(text):
    result = CliRunner().invoke(main, ["render", "-"], input=text, catch_exceptions=False)
    assert 0 == result.exit_code
    return keyed(result.stdout)


@pytest.fixture(scope="session")
def kustomize(tool, environment):
    program = tool("kustomize")

    def kustomize(folder, *options, status=0):
        result = subprocess.run(
            [program, "build", *options, folder],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert status == result.returncode, result.stderr
        return result.stdout, result.stderr

    return kustomize


def files(folder, **texts):
    """Write each text to `<name>.yaml` in a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def overlay(kustomize, tmp_path_factory):
    """Return the objects of an overlay whose base contains all jobs."""
    folder = tmp_path_factory.mktemp("kustomize")
    jobs = {name: named(path, name) for path, name in NAMES.items()}
    resources = f"resources: [{', '.join(f'{name}.yaml' for name in jobs)}]\n"
    files(folder / "base", kustomization=resources, **jobs)
    files(folder / "overlay", kustomization=OVERLAY, mlgen=FUNCTION)
    return keyed(kustomize(folder / "overlay", *PLUGINS)[0])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_prefix_suffix_and_namespace_apply_to_the_whole_job(path, overlay):
    expected = rendered(named(path, f"dev-{NAMES[path]}-b", namespace="vision"))

    assert expected == {key: overlay.get(key) for key in expected}


def test_the_overlay_contains_no_other_objects(overlay):
    jobs = [named(path, f"dev-{name}-b", namespace="vision") for path, name in NAMES.items()]

    assert rendered("".join(jobs)).keys() == overlay.keys()


def generator(path, name, command="exec: {path: mlgen, args: [krm]}"):
    return named(path, name, annotations={"config.kubernetes.io/function": command})


GENERATED = ["tensorflow-ps", "mpi-kubectl-exec", "pytorch-torchrun", "volcano-job-v1alpha1-mpi"]


def test_a_namespace_can_be_set_on_generated_jobs(kustomize, tmp_path):
    paths = {path.stem: path for path in FILES if path.stem in GENERATED}
    jobs = {name: generator(path, NAMES[path]) for name, path in paths.items()}
    generators = f"generators: [{', '.join(f'{name}.yaml' for name in jobs)}]\n"
    files(tmp_path / "base", kustomization=generators, **jobs)
    files(tmp_path / "vision", kustomization="resources: [../base]\nnamespace: vision\n")
    expected = [named(path, NAMES[path], namespace="vision") for path in paths.values()]

    out, _ = kustomize(tmp_path / "vision", *PLUGINS)

    assert GENERATED == sorted(paths, key=GENERATED.index)
    assert rendered("".join(expected)) == keyed(out)


def test_a_prefix_applied_after_the_function_does_not_change_addresses(kustomize, tmp_path):
    """The docs on kustomize warn about this mistake. Only configured references are updated."""
    references = (INTEGRATION / "overlay/name-references.yaml").read_text()
    job = generator(ROOT / "fixtures/tensorflow-ps.yaml", "mnist")
    kustomization = "generators: [job.yaml]\nnamePrefix: dev-\nconfigurations: [references.yaml]\n"
    files(tmp_path, kustomization=kustomization, job=job, references=references)

    out, _ = kustomize(tmp_path, *PLUGINS)

    built = keyed(out)
    assert ("Service", None, "dev-mnist") in built
    for kind, name in (("Job", "dev-mnist-chief"), ("StatefulSet", "dev-mnist-ps")):
        pod = built[kind, None, name]["spec"]["template"]["spec"]
        assert "dev-mnist" == pod["subdomain"]
        (cluster,) = (v["value"] for v in pod["containers"][0]["env"] if v["name"] == "TF_CONFIG")
        assert '"mnist-ps-0.mnist:2222"' in cluster


def test_an_outer_kustomization_can_set_images_labels_and_patches(kustomize, tmp_path):
    job = named(ROOT / "fixtures/tensorflow-ps.yaml", "mnist")
    above = """\
resources: [../base]
images: [{name: python, newName: registry.example/python}]
labels: [{pairs: {team: vision}, includeSelectors: true}]
patches:
- target: {kind: Job, name: mnist-chief}
  patch: '- {op: add, path: /spec/template/spec/priorityClassName, value: high}'
"""
    kustomization = "resources: [job.yaml]\ntransformers: [mlgen.yaml]\n"
    files(tmp_path / "base", kustomization=kustomization, job=job, mlgen=FUNCTION)
    files(tmp_path / "above", kustomization=above)

    out, _ = kustomize(tmp_path / "above", *PLUGINS)

    built = keyed(out)
    chief = built["Job", None, "mnist-chief"]["spec"]["template"]
    assert "high" == chief["spec"]["priorityClassName"]
    supervisor = built["Job", None, "mnist-supervisor"]["spec"]["template"]["spec"]
    assert supervisor["containers"][0]["image"].startswith("registry.example/python:3")
    selector = built["Service", None, "mnist"]["spec"]["selector"]
    assert {"team": "vision", "mlgen.dev/job": "mnist"} == selector
    for name in ("mnist-chief", "mnist-worker"):
        labels = built["Job", None, name]["spec"]["template"]["metadata"]["labels"]
        assert selector.items() <= labels.items()


def test_a_patch_transformer_after_the_function_changes_rendered_objects(kustomize, tmp_path):
    job = named(ROOT / "fixtures/tensorflow-ps.yaml", "mnist")
    patch = """\
apiVersion: builtin
kind: PatchTransformer
metadata: {name: priority}
target: {kind: Job, name: mnist-chief}
patch: '- {op: add, path: /spec/template/spec/priorityClassName, value: high}'
"""
    kustomization = "resources: [job.yaml]\ntransformers: [mlgen.yaml, patch.yaml]\n"
    files(tmp_path, kustomization=kustomization, job=job, mlgen=FUNCTION, patch=patch)

    chief = keyed(kustomize(tmp_path, *PLUGINS)[0])["Job", None, "mnist-chief"]

    assert "high" == chief["spec"]["template"]["spec"]["priorityClassName"]


def test_the_example_renders_as_documented(kustomize):
    built = keyed(kustomize(INTEGRATION, *PLUGINS)[0])

    (settings,) = (key[2] for key in built if key[2].startswith("dev-settings-b-"))
    for kind, name in (("Job", "chief"), ("StatefulSet", "ps"), ("Job", "worker")):
        template = built[kind, "vision", f"dev-mnist-b-{name}"]["spec"]["template"]
        volumes = {v["name"]: v for v in template["spec"]["volumes"]}
        assert settings == volumes["settings"]["configMap"]["name"]
        assert "example/mnist:1.5" == template["spec"]["containers"][0]["image"]
        assert "vision" == template["metadata"]["labels"]["team"]
    worker = built["Job", "vision", "dev-mnist-b-worker"]["spec"]
    assert (8, "FailJob") == (
        worker["completions"],
        worker["podFailurePolicy"]["rules"][-1]["action"],
    )


def test_kubectl_kustomize_piped_to_mlgen_gives_the_same_objects(kustomize, tool):
    kubectl = [tool("kubectl"), "kustomize", INTEGRATION / "overlay"]
    resources = subprocess.run(kubectl, capture_output=True, text=True, check=True).stdout

    assert keyed(kustomize(INTEGRATION, *PLUGINS)[0]) == rendered(resources)


def test_every_configured_name_reference_is_updated(kustomize, tmp_path):
    """Use jobs that name an object in every listed field, one for each kind."""
    configuration = yaml.safe_load((INTEGRATION / "overlay/name-references.yaml").read_text())
    objects, paths = [], []
    for reference in configuration["nameReference"]:
        kind, group = reference["kind"], reference.get("group")
        version = f"{group}/v1" if group else "v1"
        objects.append({"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}})
        job = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob"}
        objects.append(job | {"metadata": {"name": f"of-{kind.lower()}"}})
        for spec in reference["fieldSpecs"]:
            if spec["kind"] == "TrainingJob":
                paths.append((spec["path"].split("/"), kind.lower()))
                put(objects[-1], paths[-1][0], kind.lower())
    kustomization = "resources: [all.yaml]\nnamePrefix: dev-\nconfigurations: [references.yaml]\n"
    files(tmp_path, kustomization=kustomization, references=yaml.safe_dump(configuration))
    (tmp_path / "all.yaml").write_text(yaml_text(objects))

    built = keyed(kustomize(tmp_path)[0])

    for path, kind in paths:
        value = built["TrainingJob", None, f"dev-of-{kind}"]
        for step in path:
            value = value[step]
        assert f"dev-{kind}" == value, path


def put(data, path, name):
    for step in path[:-1]:
        data = data.setdefault(step, {})
    data[path[-1]] = name


def test_problems_are_reported_and_nothing_is_built(kustomize, tmp_path):
    job = (ROOT / "fixtures/invalid/unknown-role.yaml").read_text()
    kustomization = "resources: [job.yaml]\ntransformers: [mlgen.yaml]\n"
    files(tmp_path, kustomization=kustomization, job=job, mlgen=FUNCTION)

    out, err = kustomize(tmp_path, *PLUGINS, status=1)

    assert not out
    assert "[unknown-role]\n" in err
    assert err.startswith("TrainingJob/")
    assert "couldn't execute function: exit status 1" in err


ADMIN = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: admin
  annotations: {config.kubernetes.io/local-config: "true"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
"""
LATER = """\
apiVersion: builtin
kind: PatchTransformer
metadata: {name: later}
target: {kind: ClusterRoleBinding}
patch: '- {op: remove, path: /metadata/annotations}'
"""


def test_with_only_jobs_a_later_transformer_cannot_bring_another_object(kustomize, tmp_path):
    job = named(ROOT / "fixtures/tensorflow-ps.yaml", "mnist")
    kustomization = "resources: [job.yaml, admin.yaml]\ntransformers: [mlgen.yaml, later.yaml]\n"
    function = FUNCTION.replace("[krm]", "[krm, --only-jobs]")
    files(tmp_path, kustomization=kustomization, job=job, admin=ADMIN, later=LATER, mlgen=FUNCTION)
    assert ("ClusterRoleBinding", None, "admin") in keyed(kustomize(tmp_path, *PLUGINS)[0])

    files(tmp_path, mlgen=function)
    out, err = kustomize(tmp_path, *PLUGINS, status=1)

    assert not out
    assert "[foreign-object]\n" in err


def test_without_enable_exec_nothing_is_rendered_and_no_error_is_reported(kustomize, tmp_path):
    """Documented in docs/integrations/kustomize.md."""
    job = generator(ROOT / "fixtures/tensorflow-ps.yaml", "mnist")
    files(tmp_path, kustomization="generators: [job.yaml]\n", job=job)

    assert "" == kustomize(tmp_path, PLUGINS[0])[0]
    assert "TrainingJob" in [key[0] for key in keyed(kustomize(INTEGRATION, PLUGINS[0])[0])]
    assert "external plugins disabled" in kustomize(tmp_path, status=1)[1]
