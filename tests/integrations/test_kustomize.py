"""`mlgen krm`: a ResourceList as kustomize and kpt pass it, with every job rendered."""

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
import yaml
from click.testing import CliRunner
from support import FIXTURES, ROOT, each_file, load, load_all, without_totals

from mlgen import Options
from mlgen.cli import main
from mlgen.documents.files import Text
from mlgen.frameworks import get, names, schema
from mlgen.integrations import kustomize

INTEGRATION = ROOT / "integrations/kustomize"
JOB = (ROOT / "fixtures/pytorch-static.yaml").read_text()
WARNED = (ROOT / "fixtures/tensorflow-estimator.yaml").read_text()
WRONG = JOB.replace("replicas: 3", "replicas: three")

FOREIGN = """\
# of the first
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, annotations: {config.kubernetes.io/index: '0'}}
  spec:
    on: y    # two words
    rate: 1e-5
    volumes: [{name: x, configMap: {name: c, defaultMode: 0644}}]
    twice: [&a {b: c}, *a]
# of the second
-   # odd
  apiVersion: v1
  kind: ConfigMap
  metadata:
    name: c
  data:
    a: |+
      ends with lines  \n

    b: "\\u2028 \u2028 \U0001f600"
    "c": 'd'
"""
CONFIG = """\
functionConfig:
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: options}
"""


def item(text, indent=0):
    """A document as an item of a list."""
    dashed = f"- # an item\n{textwrap.indent(text.removeprefix('---'), '  ')}"
    return textwrap.indent(dashed, " " * indent)


def resource_list(*items, rest=""):
    head = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n"
    return head + "".join(items) + rest


def krm(text, *options):
    done = CliRunner().invoke(main, ["krm", *options], input=text, catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def rendered(text, *options):
    """The objects that `mlgen render` prints for a text."""
    done = CliRunner().invoke(main, ["render", "-", *options], input=text, catch_exceptions=False)
    assert done.exit_code == 0
    return load_all(done.stdout)


def items(text):
    return load(text)["items"]


def annotated(text, annotations):
    return re.sub(
        r"metadata: \{name: ([\w-]+)\}",
        rf"metadata: {{name: \1, annotations: {json.dumps(annotations)}}}",
        text,
        count=1,
    )


@pytest.mark.parametrize("indent", [0, 2])
def test_a_job_is_replaced_in_place_and_all_other_items_stay_byte_for_byte(indent):
    before, after = textwrap.indent(FOREIGN, " " * indent), f"{' ' * indent}- {{a: 0o17}}\n"
    config = f"{CONFIG}  data: {{}} # none\n"

    status, out, err = krm(resource_list(before, item(JOB, indent), after, rest=config))

    head, tail = resource_list(before), after + config
    assert (0, "") == (status, err)
    assert out.startswith(head)
    assert out.endswith(tail)
    assert rendered(JOB) == items(resource_list(out[len(head) : -len(tail)]))


@pytest.mark.parametrize(
    "text",
    [
        resource_list(FOREIGN),
        resource_list(textwrap.indent(FOREIGN, "    "), rest=CONFIG),
        resource_list(FOREIGN, rest="# last\n"),
        resource_list().replace("items:", "items: []"),
        json.dumps(load(resource_list(FOREIGN)), indent=3, ensure_ascii=False) + "\n",
    ],
)
def test_a_list_without_a_job_is_unchanged(text):
    assert (0, text, "") == krm(text)


@pytest.mark.parametrize("runtimes", [1, 2])
def test_a_list_without_items_remains_a_list(runtimes):
    runtime = "- {apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime}\n"

    status, out, _ = krm(resource_list(runtime * runtimes))

    assert (status, items(out)) == (0, [])


@each_file(files=FIXTURES)
def test_the_manifests_are_those_of_render(file):
    text = file.read_text()
    done = CliRunner().invoke(main, ["render", "-"], input=text, catch_exceptions=False)

    status, out, err = krm(resource_list(item(text, 2)))

    assert 0 == status
    assert load_all(done.stdout) == items(out)
    assert len(without_totals(done.stderr).splitlines()) == len(err.splitlines())


def test_the_output_does_not_depend_on_libyaml(monkeypatch):
    text = resource_list(FOREIGN, item(JOB), "- {a: b}\n")
    expected = krm(text)
    monkeypatch.delattr(yaml, "CSafeLoader")

    assert expected == krm(text)


def test_json_stays_json_and_other_items_are_unchanged():
    job = json.dumps(load(JOB))
    foreign = '{"kind":  "Secret","data":{"a":1.50}}'
    head = '{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": ['

    _, out, _ = krm(f"{head}{foreign}, {job}, {foreign}]}}")

    assert out.startswith(f"{head}{foreign}, ")
    assert out.endswith(f", {foreign}]}}\n")
    assert rendered(JOB) == json.loads(out)["items"][1:-1]


def test_items_in_flow_style_within_block_style():
    text = resource_list().replace("items:", f"items: [{json.dumps(load(WARNED))}]")

    _, out, _ = krm(text)

    assert rendered(WARNED) == items(out)
    assert ["warning"] == [result["severity"] for result in load(out)["results"]]


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_of_the_list_is_supported_and_kept(version):
    text = resource_list(item(JOB)).replace("io/v1\n", f"io/{version}\n", 1)

    _, out, _ = krm(text)

    assert f"config.kubernetes.io/{version}" == load(out)["apiVersion"]


def generator(job, *others, config=None):
    """As kustomize calls a generator: the functionConfig is also an item, with local-config."""
    job = annotated(job, {"config.kubernetes.io/local-config": "true"})
    config = textwrap.indent(job if config is None else config, "  ")
    return resource_list(item(job), *others, rest=f"functionConfig:\n{config}")


def test_a_job_as_function_config_is_rendered_once():
    _, out, _ = krm(generator(JOB))

    first, *rest = items(out)
    assert "TrainingJob" == first["kind"]  # kustomize drops it because of local-config
    assert rendered(JOB) == rest


@pytest.mark.parametrize("others", [f"\n{FOREIGN}", " []\n", ' [{"a": "b"}]\n'])
def test_a_job_as_function_config_comes_after_the_items(others):
    config = f"functionConfig:\n{textwrap.indent(JOB, '  ')}"
    head = resource_list().removesuffix("\n")
    there = load(f"items:{others}")["items"]

    _, out, _ = krm(f"{head}{others}{config}")

    assert [*there, *rendered(JOB)] == items(out)


def test_a_custom_resource_can_be_the_function_config():
    resource = (ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml").read_text()

    _, out, _ = krm(generator(JOB, config=resource))

    assert rendered(resource) == items(out)[1:]


def test_a_job_with_local_config_is_unchanged():
    text = resource_list(item(annotated(JOB, {"config.kubernetes.io/local-config": "true"})))

    assert (0, text, "") == krm(text)


def test_annotations_of_kustomize_and_kpt_are_not_copied():
    tracking = [
        *("config.k8s.io/id", "config.kubernetes.io/index", "config.kubernetes.io/path"),
        *("internal.config.kubernetes.io/prefixes", "kustomize.config.k8s.io/needs-hash"),
        *("alpha.config.kubernetes.io/transformations", "internal.kpt.dev/upstream-identifier"),
    ]
    kept = {"example.com/team": "vision", "config.kubernetes.io/depends-on": "/Secret/keys"}
    job = annotated(JOB, dict.fromkeys(tracking, "a") | kept)

    _, out, _ = krm(resource_list(item(job)))

    assert all(kept.items() <= entry["metadata"]["annotations"].items() for entry in items(out))
    assert not [name for name in tracking if name in out]


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("kube-version: 1.36", ["--kube-version", "1.36"]),
        ("namespace: vision", ["--namespace", "vision"]),
        ("supervisor: 'false'", ["--no-supervisor"]),
        ("supervisor: true", []),
        ("for: argocd", ["--for", "argocd"]),
        ("as: jobset", ["--as", "jobset"]),
        (
            "set: |\n      spec.roles.worker.replicas=5\n\n      spec.image=i:2\n",
            ["--set", "spec.roles.worker.replicas=5", "--set", "spec.image=i:2"],
        ),
    ],
)
def test_a_config_map_sets_options_of_the_command_line(data, options):
    job = JOB + "  runPolicy: {cleanPodPolicy: All}\n"
    job = job.replace("metadata: {name: ", "metadata: {name: 0", 1) if "1.36" in data else job
    expected = rendered(job, *options)

    in_config = krm(resource_list(item(job), rest=f"{CONFIG}  data:\n    {data}\n"))
    on_command_line = krm(resource_list(item(job)), *options)

    assert (0, 0) == (in_config[0], on_command_line[0])
    assert expected == items(in_config[1]) == items(on_command_line[1])


def test_a_config_map_overrides_the_command_line():
    config = f"{CONFIG}  data: {{namespace: b, set: spec.image=i:2}}\n"

    _, out, _ = krm(
        resource_list(item(JOB), rest=config), "-n", "a", "--set", "spec.roles.worker.replicas=5"
    )

    settings = ["--set", "spec.roles.worker.replicas=5", "--set", "spec.image=i:2"]
    assert rendered(JOB, "-n", "b", *settings) == items(out)


def test_with_errors_the_items_are_unchanged_and_results_list_all_problems(message, manifest):
    path = {"config.kubernetes.io/index": "1", "internal.config.kubernetes.io/path": "jobs/a.yaml"}
    wrong = annotated(WRONG, path).replace("metadata: {", "metadata: {namespace: ml, ", 1)
    config = f"{CONFIG}  data: {{kube-versoin: '1.34'}}\n"
    text = resource_list(FOREIGN, item(wrong), item(WARNED), rest=config)

    status, out, err = krm(text)

    assert 1 == status
    assert out.startswith(text)
    assert out[len(text) :] == manifest
    assert err == message


def test_results_also_list_warnings():
    status, out, err = krm(resource_list(item(WARNED)))

    (result,) = load(out)["results"]
    assert (0, "warning") == (status, result["severity"])
    assert f"warning: {result['field']['path']}: {result['message']}\n" in err
    assert err.startswith("TrainingJob/")


def test_results_of_an_earlier_function_are_dropped():
    old = "results:\n- message: old\n"
    for rest in (old, old + CONFIG, CONFIG + old):
        _, out, _ = krm(resource_list(item(WARNED), rest=rest))

        assert 1 == out.count("results:")
        assert "message: old" not in out
    data = load(resource_list(item(WRONG), rest=old))
    status, out, _ = krm(json.dumps(data))
    assert (1, ["error"]) == (status, [result["severity"] for result in json.loads(out)["results"]])


def test_an_object_of_a_job_may_collide_with_an_item():
    first = rendered(JOB)[0]
    other = json.dumps({key: first[key] for key in ("apiVersion", "kind", "metadata")})

    status, out, err = krm(resource_list(item(JOB), f"- {other}\n"))

    assert (1, "TrainingJob") == (status, items(out)[0]["kind"])
    assert "would be rendered twice" in err
    assert "[name-collision]" in err


def test_the_same_other_object_twice_is_accepted():
    text = resource_list(FOREIGN, FOREIGN)

    assert (0, text, "") == krm(text)


@pytest.mark.parametrize(
    ("env", "order"),
    [
        ("{DATA: $(ROOT)/coco, FILE: $(DATA)/a, ROOT: /d}", ["ROOT", "DATA", "FILE"]),
        ("{A: $(A) $(NONE) $(MLGEN_REPLICA_INDEX), B: $(A), C: c}", ["A", "B", "C"]),
        ("{A: $(B), B: $(A), C: c}", ["A", "B", "C"]),
        ("{A: {valueFrom: {secretKeyRef: {name: a, key: b}}}, B: $(C), C: $(A)}", ["A", "C", "B"]),
    ],
)
def test_variables_come_after_those_that_they_refer_to(env, order):
    """kustomize sorts keys, and Kubernetes only expands variables that are defined earlier."""
    _, out, _ = krm(resource_list(item(f"{JOB}  env: {env}\n")))

    for entry in items(out):
        if entry["kind"] == "Job":
            (main,) = entry["spec"]["template"]["spec"]["containers"]
            names = [variable["name"] for variable in main["env"]]
            assert ["MLGEN_REPLICA_INDEX", *order] == [names[0], *names[-len(order) :]]


@pytest.mark.parametrize("by", ["option", "config"])
def test_only_jobs_refuses_every_other_item(by):
    data = {"only-jobs": "true" if by == "config" else "false"}
    rest = f"functionConfig: {{apiVersion: v1, kind: ConfigMap, data: {json.dumps(data)}}}\n"
    options = ["--only-jobs"] if by == "option" else []
    text = resource_list(item(JOB), FOREIGN, rest=rest)

    status, out, err = krm(text, *options)

    assert (1, 2, True) == (status, err.count("[foreign-object]"), out.startswith(text))
    assert "Deployment/web: kind: expected a job, got Deployment; remove it" in err
    assert 0 == krm(resource_list(item(JOB), rest=rest), *options)[0]


def local(text, **more):
    """An object with the annotation of objects that are not applied."""
    data = load(text) | more
    metadata = data.get("metadata", {})
    annotations = metadata.get("annotations", {}) | {"config.kubernetes.io/local-config": "true"}
    return data | {"metadata": metadata | {"annotations": annotations}}


RESOURCE = (ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml").read_text()
OPTIONS = "{apiVersion: v1, kind: ConfigMap, metadata: {name: options}}"
LOCALS = {
    "object": (local("{apiVersion: v1, kind: Secret, metadata: {name: a}}"), "{}"),
    "list": (local("{apiVersion: v1, kind: List}", items=[load(JOB)]), "{}"),
    "job": (local(JOB), "{}"),
    "custom-resource": (local(RESOURCE), "{}"),
    "own-name": (local(RESOURCE, spec={}), RESOURCE),
    "own-name-without-annotation": (load(RESOURCE), RESOURCE),
    "name-of-options": (local(OPTIONS, data={"a": "b"}), OPTIONS),
    "kptfile-of-another-group": (local("{apiVersion: kpt.example/v1, kind: Kptfile}"), "{}"),
}


def with_config(config, *others):
    """A list of objects with a functionConfig."""
    data = load(resource_list()) | {"items": list(others)}
    return json.dumps(data | {"functionConfig": load(config)})


@pytest.mark.parametrize("name", LOCALS)
def test_only_jobs_rejects_items_that_a_later_function_could_apply(name):
    """A later transformer can remove the annotation local-config."""
    other, config = LOCALS[name]

    status, out, err = krm(with_config(config, other), "--only-jobs")

    assert (1, 1) == (status, err.count("[foreign-object]"))
    assert [other] == items(out)


@pytest.mark.parametrize("config", [JOB, RESOURCE, OPTIONS], ids=["job", "resource", "options"])
def test_only_jobs_accepts_a_copy_of_the_config_and_a_kptfile(config):
    kptfile = local("{apiVersion: kpt.dev/v1, kind: Kptfile, metadata: {name: a}}")

    status, _, err = krm(with_config(config, local(config), kptfile), "--only-jobs")

    assert (0, 0) == (status, err.count("[foreign-object]"))


@pytest.mark.parametrize(
    "text",
    [
        f"<<: {{items: []}}\n{resource_list(item(JOB))}",
        resource_list(item(JOB)).replace("kind:", "a: &i items\n*i : []\nkind:", 1),
        f"%TAG ! tag:yaml.org,2002:\n---\n{resource_list(item(JOB))}",
    ],
    ids=["merge", "alias", "directive"],
)
def test_a_list_that_readers_read_differently_is_an_error(text):
    status, out, _ = krm(text)

    assert (1, "") == (status, out)


@pytest.mark.parametrize("kind", ["&a TrainingJob", '"Trainin\\x67Job"', "!!str TrainingJob"])
def test_an_item_is_a_job_by_its_value_in_any_spelling(kind):
    spelt = resource_list(item(JOB.replace("kind: TrainingJob", f"kind: {kind}")))

    assert krm(resource_list(item(JOB)))[:2] == krm(spelt)[:2]


@pytest.mark.parametrize("options", [[], ["--only-jobs"]], ids=["all", "only-jobs"])
@pytest.mark.parametrize(
    "twice", ["kind: Secret", "apiVersion: v2", "metadata: {name: a, namespace: a, name: b}"]
)
def test_an_item_whose_identity_is_ambiguous_is_an_error(twice, options):
    other = f"- kind: ConfigMap\n  apiVersion: v1\n  metadata: {{name: a}}\n  {twice}\n"
    text = resource_list(item(JOB), other)

    status, out, err = krm(text, *options)

    assert (1, True) == (status, out.startswith(text))
    assert "duplicate key" in err


def test_an_item_with_other_duplicate_keys_passes_unless_only_jobs_reads_it():
    text = resource_list(item(JOB), "- {kind: ConfigMap, apiVersion: v1, data: {a: b, a: c}}\n")

    assert 0 == krm(text)[0]
    assert "duplicate key" in krm(text, "--only-jobs")[2]


CONFIGS = {
    "of-another-kind": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}",
    "of-a-near-kind": "{apiVersion: mlgen.dev/v1, kind: TrainingJob, metadata: {name: mnist}}",
    "unknown-option": "{apiVersion: v1, kind: ConfigMap, metadata: {name: o}, data: {sets: a=b}}",
    "bad-values": "{apiVersion: v1, kind: ConfigMap, metadata: {name: o}, data: {namespace: A_b,"
    " kube-version: 1.3, supervisor: no, set: spec.image, for: argo, as: job}}",
    "data-as-list": "{apiVersion: v1, kind: ConfigMap, metadata: {name: o}, data: [a]}",
    "key-twice": "{apiVersion: v1, kind: ConfigMap, metadata: {name: o}, data: {set: a=b, set: c}}",
    "bad-setting": "{apiVersion: v1, kind: ConfigMap, metadata: {name: o},"
    " data: {set: spec.imgae=i}}",
}


@pytest.mark.parametrize("name", CONFIGS)
def test_an_invalid_function_config(name, message):
    text = resource_list(item(JOB), rest=f"functionConfig: {CONFIGS[name]}\n")

    status, out, err = krm(text)

    assert 1 == status
    assert out.startswith(text)
    assert len(err.splitlines()) == len(load(out)["results"])
    assert err == message


def test_krm_needs_no_home_and_writes_no_files(tmp_path):
    """As kustomize runs a container: without arguments and a home folder."""
    result = subprocess.run(
        [sys.executable, "-m", "mlgen", "krm"],
        input=resource_list(item(JOB)).encode(),
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )

    assert rendered(JOB) == items(result.stdout.decode())
    assert [] == list(tmp_path.iterdir())


OVERLAY = INTEGRATION / "overlay"

REMOVED = {"azureFile", "cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"}
"""Volumes of pods that CSI has replaced."""

OTHERS = {"sshSecret": ["Secret"], "queue": ["LocalQueue", "Queue"]}
"""Names of fields with which a job file refers to objects, but that pods do not have."""


def of_pods(rows, path=()):
    """Yield the path and the kind of each field of a pod that contains the name of an object."""
    for row in rows:
        for part in row.get("in", "").split() or [""]:
            inner = (*path, *(step.removesuffix("[]") for step in part.split(".") if step))
            if "within" in row:
                yield from of_pods(row["within"], inner)
            elif not REMOVED & set(inner):
                yield "/".join((*inner, row["field"])), row["kind"]


OF_POD = [*of_pods(load((ROOT / "schemas/kubernetes/references.json").read_text()))]
OF_CONTAINER = [
    (path.removeprefix("containers/"), kind) for path, kind in OF_POD if path.startswith("contain")
]
ROLES = sorted({role for name in names() for role in get(name).roles or ()})


def resolved(node, whole):
    """The schema of a value; of an item for a list, because kustomize descends into lists."""
    while "$ref" in node or "items" in node:
        node = node.get("items") or whole["definitions"][node["$ref"].rpartition("/")[2]]
    return node


def of_jobs(node, whole, path):
    """Yield the path and the kind of each field of a job file with the name of an object.

    A field below a name that the user chooses, such as that of a volume, has no path in kustomize.
    """
    for name, child in resolved(node, whole).get("properties", {}).items():
        inner = f"{path}/{name}"
        if name == "template":
            yield from ((f"{inner}/spec/{own}", kind) for own, kind in OF_POD)
        elif name in ("initContainers", "preflight"):
            yield from ((f"{inner}/{own}", kind) for own, kind in OF_CONTAINER)
        elif inner == "spec/roles":
            for role in ROLES:
                yield from of_jobs(child["additionalProperties"], whole, f"{inner}/{role}")
        elif name in OTHERS:
            yield from ((inner, kind) for kind in OTHERS[name])
        else:
            alike = [(own, kind) for own, kind in (*OF_CONTAINER, *OF_POD) if own == name]
            yield from ((inner, kind) for _, kind in alike)
            below = [pair for pair in (*OF_CONTAINER, *OF_POD) if pair[0].startswith(f"{name}/")]
            if name in ("envFrom", "imagePullSecrets"):
                yield from ((f"{path}/{own}", kind) for own, kind in below)
            elif not below:
                yield from of_jobs(child, whole, inner)


def references():
    """The path and the kind of each field of a job file with the name of an object."""
    whole = schema(names())
    options = {
        name
        for path in (ROOT / "schemas/options").glob("*.json")
        for name in load(path.read_text())
    }
    yield from of_jobs(whole["properties"]["spec"], whole, "spec")
    for name in sorted(options & OTHERS.keys()):
        yield from ((f"spec/options/{name}", kind) for kind in OTHERS[name])


def listed(file):
    """The path and the kind of each field of a TrainingJob in a shipped configuration."""
    configuration = load((OVERLAY / f"{file}.yaml").read_text())
    rows = configuration.pop("nameReference", [])
    rows += [{"kind": kind, "fieldSpecs": specs} for kind, specs in configuration.items()]
    return [
        (spec["path"], row["kind"])
        for row in rows
        for spec in row["fieldSpecs"]
        if spec["kind"] == "TrainingJob"
    ]


def test_the_configuration_lists_every_field_with_the_name_of_an_object():
    """Otherwise, kustomize renames an object, but not the reference of the job."""
    found = listed("name-references")
    of_example = ("spec/volumes/settings/configMap", "ConfigMap")

    assert len(found) == len({*found})
    assert {*found} == {*references(), of_example}


def images():
    """The paths of all images in a job file."""
    whole = schema(names())

    def below(node, path):
        for name, child in resolved(node, whole).get("properties", {}).items():
            if f"{path}/{name}" == "spec/roles":
                for role in ROLES:
                    yield from below(child["additionalProperties"], f"{path}/{name}/{role}")
            elif name == "image" or name.endswith("Image"):
                yield f"{path}/{name}"
            elif name != "template":  # kustomize finds the images of all containers
                yield from below(child, f"{path}/{name}")

    yield from below(whole["properties"]["spec"], "spec")


def test_the_configuration_lists_every_image():
    found = [path for path, kind in listed("fields") if kind == "images"]

    assert {*found} == {path for path in images() if "initContainers" not in path}


@pytest.mark.parametrize(
    ("job", "severities", "kinds"),
    [
        (JOB, [], None),
        (WARNED, ["warning"], None),
        (WRONG, ["error"], ["TrainingJob"]),
    ],
)
def test_only_errors_leave_a_job_in_the_list(job, severities, kinds):
    parts, problems = kustomize.krm(Text("<stdin>", resource_list(item(job))), Options())
    output = load("".join(parts))

    assert severities == [result["severity"] for result in output.get("results", [])]
    assert severities == ["warning" if problem.warning else "error" for problem in problems]
    assert (kinds or [entry["kind"] for entry in rendered(job)]) == [
        entry["kind"] for entry in output["items"]
    ]


def test_a_text_that_is_not_a_resource_list_has_no_output():
    texts, problems = kustomize.krm(Text("<stdin>", "kind: ConfigMap\n"), Options())

    assert ([], ["resource-list"]) == ([*texts], [problem.code for problem in problems])


@pytest.mark.parametrize("by", ["option", "config"])
def test_strict_makes_warnings_errors(by):
    job = JOB.replace("spec:\n", "spec:\n  env: {HUB_TOKEN: hf_0123456789abcdef}\n", 1)
    data = {"strict": "true" if by == "config" else "false"}
    rest = f"functionConfig: {{apiVersion: v1, kind: ConfigMap, data: {json.dumps(data)}}}\n"

    assert krm(resource_list(item(job)))[0] == 0
    status, out, err = krm(
        resource_list(item(job), rest=rest), *(["--strict"] if by == "option" else [])
    )

    assert (status, "severity: error" in out, "warning" in err) == (1, True, False)
