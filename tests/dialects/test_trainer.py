"""TrainJobs: where their runtimes come from, and what Trainer's plugins add."""

import copy
import json

import pytest
import yaml
from click.testing import CliRunner
from support import load_all

import mlgen
from mlgen.cli import main
from mlgen.dialects.trainer.job import published, versions

VERSION = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def trainjob(name="bert", runtime="large", kind="ClusterTrainingRuntime", **spec):
    reference = {"name": runtime, "kind": kind}
    spec = {"trainer": {"numNodes": 2}, **spec, "runtimeRef": reference}
    return {"apiVersion": VERSION, "kind": "TrainJob", "metadata": {"name": name}, "spec": spec}


def runtime(name="large", image="example/bert:1", policy="torch", **resources):
    node = {"name": "node", "image": image, "command": ["python"], "resources": resources}
    template = {
        "metadata": {"labels": {STEP: "trainer"}},
        "spec": {"template": {"spec": {"containers": [node]}}},
    }
    jobs = [{"name": "node", "template": template}]
    return {
        "apiVersion": VERSION,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {"mlPolicy": {policy: {}}, "template": {"spec": {"replicatedJobs": jobs}}},
    }


def job(*documents):
    """The job file of the TrainJob in the documents."""
    text, warnings = mlgen.convert(documents)
    assert warnings == ()
    (converted,) = load_all(text)
    return converted["spec"]


def image(*documents):
    return job(*documents)["roles"]["node-0"]["image"]


def env(*documents):
    return job(*documents)["roles"]["node-0"]["env"]


def problems(*documents):
    with pytest.raises(mlgen.MlgenError) as error:
        mlgen.convert(documents)
    return [(str(each.place), each.message, each.hint) for each in error.value.problems]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in a folder with these files, and return its result."""
    monkeypatch.chdir(tmp_path)

    def run(*words, stdin=None, **files):
        for name, data in files.items():
            text = data if isinstance(data, str) else yaml.safe_dump(data)
            (tmp_path / f"{name}.yaml").write_text(text)
        return CliRunner().invoke(main, words, stdin, catch_exceptions=False)

    return run


def test_the_runtime_comes_before_or_after_its_job():
    assert image(trainjob(), runtime()) == image(runtime(), trainjob()) == "example/bert:1"


def test_the_runtime_is_in_another_file(run):
    result = run("render", "a.yaml", "b.yaml", a=trainjob(), b=runtime())

    assert (result.exit_code, result.stderr) == (0, "2 files, 1 job\n")
    assert "image: example/bert:1" in result.stdout
    assert "TrainingRuntime" not in result.stdout


def test_the_runtime_is_in_a_list(run):
    items = {"apiVersion": "v1", "kind": "List", "items": [trainjob(), runtime()]}

    assert "example/bert:1" in run("convert", "a.yaml", a=items).stdout
    assert "example/bert:1" in run("render", "a.yaml", a=items).stdout


def test_the_runtime_comes_from_the_option(run):
    files = {"a": trainjob(), "b": runtime()}
    converted = run("convert", "a.yaml", "--runtime", "b.yaml", **files)
    rendered = run("render", "a.yaml", "--runtime", "b.yaml", **files)

    assert (converted.exit_code, converted.stderr) == (0, "")
    assert (rendered.exit_code, rendered.stderr) == (0, "")


def test_the_runtime_in_the_input_takes_precedence(run):
    files = {"a": trainjob(), "b": runtime(), "c": runtime(image="example/other:1")}
    result = run("convert", "a.yaml", "b.yaml", "--runtime", "c.yaml", **files)

    assert "example/bert:1" in result.stdout


@pytest.mark.parametrize(
    ("version", "tag"),
    [("2.1", "2.7.1"), ("v2.2.1", "2.10.0"), ("2.3.0", "2.13.0"), (None, "2.13.0")],
)
def test_the_runtime_is_one_that_trainer_publishes(version, tag, run):
    options = ["--runtime", version] if version else []
    result = run("convert", "a.yaml", *options, a=trainjob(runtime="torch-distributed"))

    assert f"image: pytorch/pytorch:{tag}-cuda" in result.stdout
    assert ("Trainer 2.3 publishes" in result.stderr) == (version is None)


@pytest.mark.parametrize(
    ("version", "namespace"),
    [*((version, None) for version in versions()), (max(versions()), "nlp")],
)
def test_every_published_runtime_renders(version, namespace, run):
    for document in published(version):
        name = document.data["metadata"]["name"]
        resource = trainjob(runtime=name, trainer={"command": ["python", "train.py"]})
        resource["metadata"] |= {"namespace": namespace} if namespace else {}
        result = run("render", "a.yaml", "--runtime", version, a=resource)

        assert result.exit_code == 0, result.stderr
        assert ":v{version}" not in result.stdout


def test_a_problem_of_a_published_runtime_names_it(run):
    resource = trainjob(runtime="torchtune-llama3.2-1b", trainer={"command": ["tune"]})
    result = run("validate", "a.yaml", "--runtime", "2.2", a=resource)

    place = (
        "torchtune-llama3.2-1b of Trainer 2.2.0: warning: spec.template.spec.volumeClaimPolicies"
    )
    assert place in result.stdout


def test_a_problem_of_a_runtime_has_its_file_and_line(run):
    wrong = yaml.safe_dump(runtime()).replace("image: example/bert:1", "imagge: example/bert:1")
    line = next(i for i, text in enumerate(wrong.splitlines(), 1) if "imagge" in text)
    result = run("validate", "a.yaml", "--runtime", "b.yaml", a=trainjob(), b=wrong)

    assert f"b.yaml:{line}:" in result.stdout
    assert "spec.template.spec.replicatedJobs[0].template.spec.template.spec" in result.stdout


def test_a_problem_after_merging_is_at_the_value_that_causes_it(run):
    resource = trainjob(trainer={"image": "a b"})
    result = run("validate", "a.yaml", "--runtime", "b.yaml", a=resource, b=runtime())

    assert "spec.trainer.image:" in result.stdout
    assert "b.yaml" not in result.stdout


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("a.yaml", "a.yaml: contains no runtime of Trainer; pass a file with a Cluster"),
        ("no.yaml", "no.yaml:1:1: cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_option_is_reported(option, message, run):
    resource = trainjob(runtime="torch-distributed")
    result = run("validate", "a.yaml", "--runtime", option, a=resource)

    assert result.exit_code == 1
    assert message in result.stdout


def test_a_runtime_without_a_job_is_not_dropped_silently(run):
    result = run("render", "a.yaml", a=runtime())

    assert (result.exit_code, result.stdout) == (0, "")
    assert "is not rendered: no job in the input refers to it" in result.stderr


def test_helm_and_kustomize_find_the_runtime(run):
    chart = "\n---\n".join(map(json.dumps, [trainjob(), runtime()]))
    items = {
        "apiVersion": "config.kubernetes.io/v1",
        "kind": "ResourceList",
        "items": [trainjob(), runtime()],
    }

    assert "example/bert:1" in run("helm-post-render", stdin=chart).stdout
    assert "kind: Job" in run("krm", stdin=yaml.safe_dump(items)).stdout


@pytest.mark.parametrize(
    ("wanted", "resources", "processes"),
    [
        (None, {}, "1"),
        (None, {"limits": {"cpu": "3500m"}}, "4"),
        (None, {"limits": {"cpu": 8}, "requests": {"cpu": 2}}, "2"),
        (None, {"limits": {"nvidia.com/gpu": 8, "cpu": 4}}, "auto"),
        ("cpu", {"limits": {"nvidia.com/gpu": 8, "cpu": 4}}, "4"),
        ("gpu", {"limits": {"nvidia.com/gpu": 8}}, "gpu"),
        (3, {"limits": {"nvidia.com/gpu": 8}}, "3"),
    ],
)
def test_the_number_of_processes_is_that_of_trainer(wanted, resources, processes):
    """https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/torch/torch.go"""
    given = {"numProcPerNode": wanted} if wanted else {}
    from_runtime = env(trainjob(trainer=given), runtime(**resources))
    from_job = env(trainjob(trainer={**given, "resourcesPerNode": resources}), runtime())

    assert from_runtime["PET_NPROC_PER_NODE"] == from_job["PET_NPROC_PER_NODE"] == processes


@pytest.mark.parametrize(
    ("args", "processes", "command"),
    [
        ([], 1, "full_finetune_single_device --config llama3_2/1B_full_single_device"),
        ([], 2, "full_finetune_distributed --config llama3_2/1B_full"),
        (
            ["model.lora_attn_modules=[q_proj]"],
            1,
            "lora_finetune_single_device --config llama3_2/1B_lora_single_device",
        ),
        (
            ["model.lora_attn_modules=[q_proj]"],
            2,
            "lora_finetune_distributed --config llama3_2/1B_lora",
        ),
        (
            ["model.quantize_base=True"],
            1,
            "lora_finetune_single_device --config llama3_2/1B_qlora_single_device",
        ),
        (
            ["model.quantize_base=True", "model.use_dora=True"],
            1,
            "full_finetune_single_device --config llama3_2/1B_full_single_device",
        ),
    ],
)
def test_the_recipe_of_torchtune_is_that_of_trainer(args, processes, command):
    """https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/torch/torchtune.go"""
    trainer = {"command": ["tune", "run"], "args": args, "numProcPerNode": processes}
    spec = job(
        trainjob(runtime="torchtune-llama3.2-1b", trainer=trainer),
        runtime("torchtune-llama3.2-1b"),
    )
    endpoint = ["--rdzv_endpoint=bert-node-0-0.bert:29500"] if processes > 1 else []

    expected = ["tune", "run", *endpoint, *command.split()]
    assert spec["roles"]["node-0"]["command"] == expected
    assert "PET_MASTER_ADDR" not in spec["roles"]["node-0"]["env"]


def test_a_variable_of_the_job_replaces_one_of_the_runtime():
    base = runtime()
    (node,) = base["spec"]["template"]["spec"]["replicatedJobs"]
    node = node["template"]["spec"]["template"]["spec"]["containers"][0]
    node["env"] = [
        {"name": "TOKEN", "value": "a"},
        {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ]
    secret = {"valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    given = [{"name": "TOKEN", **secret}, {"name": "HOST", "value": "b"}]
    variables = env(trainjob(trainer={"env": given}), base)

    assert (variables["TOKEN"], variables["HOST"]) == (secret, "b")


def test_without_a_trainer_there_are_no_variables():
    resource = trainjob()
    del resource["spec"]["trainer"]

    assert "env" not in job(resource, runtime())["roles"]["node-0"]


def test_only_the_job_is_suspended_not_its_runtime():
    base = runtime()
    base["spec"]["template"]["spec"]["suspend"] = True

    assert "runPolicy" not in job(trainjob(), base)
    assert job(trainjob(suspend=True), base)["runPolicy"] == {"suspend": True}


def test_the_input_is_not_changed():
    documents = [trainjob(), runtime()]
    before = copy.deepcopy(documents)
    job(*documents)

    assert documents == before


def test_a_runtime_of_another_namespace_is_not_used():
    resource, other = trainjob(kind="TrainingRuntime"), runtime()
    resource["metadata"]["namespace"] = "nlp"
    other |= {"kind": "TrainingRuntime", "metadata": {"name": "large", "namespace": "vision"}}

    ((_, message, hint),) = problems(resource, other)
    assert message.startswith('unknown TrainingRuntime "large"')
    assert hint == "the one in the input is in the namespace vision"


def mpi_runtime(pod=None, **policy):
    """A runtime with a launcher, which is also a node, and nodes with these fields."""
    own = runtime()
    own["spec"]["mlPolicy"] = {"mpi": {"runLauncherAsNode": True, **policy}}
    (launcher,) = own["spec"]["template"]["spec"]["replicatedJobs"]
    launcher["template"]["spec"]["template"]["spec"] |= pod or {}
    node = copy.deepcopy(launcher) | {"name": "node"}
    del node["template"]["metadata"]
    launcher["name"] = "launcher"
    own["spec"]["template"]["spec"]["replicatedJobs"] = [launcher, node]
    return own


HOME = {"sshAuthMountPath": "/home/mpiuser/.ssh"}


@pytest.mark.parametrize(
    ("pod", "policy", "mode"),
    [
        ({"securityContext": {"fsGroup": 1000}}, HOME, 0o640),
        ({"securityContext": {"runAsUser": 1000}}, HOME, 0o644),
        ({}, HOME, 0o644),
        ({"securityContext": {"runAsUser": 0}}, HOME, 0o600),
        ({}, {}, 0o600),
    ],
)
def test_the_user_of_a_pod_can_read_the_private_key(pod, policy, mode):
    """Before Trainer 2.3, the runtimes have no fsGroup, and user 1000 reads a key of root."""
    text, _ = mlgen.convert([trainjob(), mpi_runtime(pod, **policy)])

    (converted,) = load_all(text)
    holders = [converted["spec"], *converted["spec"]["roles"].values()]
    volumes = [each["volumes"]["mpi-ssh-auth"] for each in holders if "volumes" in each]
    items = [item for each in volumes for item in each["secret"]["items"]]
    keys = [item["mode"] for item in items if item["path"] == "id_rsa"]
    assert set(keys) == {mode}


def test_the_launcher_is_in_its_hostfile_under_a_name_that_its_pod_resolves():
    text, _ = mlgen.convert([trainjob(), mpi_runtime()])

    (converted,) = load_all(text)
    (volume,) = (
        volume
        for role in converted["spec"]["roles"].values()
        for name, volume in role.get("volumes", {}).items()
        if name == "mpi-hostfile"
    )
    assert volume["files"]["hostfile"] == "bert-launcher-0-0 slots=1\nbert-node-0-0.bert slots=1\n"


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_variables_of_mpi_are_reserved_since_trainer_2_3(version, run):
    trainer = {"env": [{"name": "OMPI_MCA_plm_rsh_args", "value": "-v"}]}
    trainer["command"] = ["mpirun", "python", "a.py"]
    resource = trainjob(runtime="mlx-distributed", trainer=trainer)

    result = run("render", "--runtime", version, "-", stdin=yaml.safe_dump(resource))

    assert ("OMPI_MCA_plm_rsh_args, value: -v" in result.stdout) is (version == "2.2")
    assert ("Trainer rejects OMPI_MCA_plm_rsh_args" in result.stderr) is (version == "2.3")
