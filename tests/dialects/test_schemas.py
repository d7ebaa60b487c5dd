"""The schemas of custom resources in `schemas/resources`, and finding a kind by its name."""

import json
from functools import cache

import pytest
from jsonschema import Draft7Validator
from support import RESOURCES, ROOT, each_file, load_all

from mlgen import dialects, frameworks
from mlgen import input_limits as bounds
from mlgen.dialects import mpi_operator
from mlgen.dialects.volcano.job import ANY, TABLES
from mlgen.kubernetes.versions import KubeVersion

FOLDER = ROOT / "schemas" / "resources"
PODS = FOLDER / "operator_pods.json"
FILES = sorted(set(FOLDER.glob("*.json")) - {PODS})
NEWEST = KubeVersion(1, 37)
REPLICA_TYPES = ("kubeflow", "mpi_operator", "kubedl")


def nodes(node):
    """Yield every mapping in a schema."""
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node:
        if isinstance(inner, (dict, list)):
            yield from nodes(inner)


@cache
def editor_validator(name):
    """A validator of a kind's schema for editors."""
    return Draft7Validator(dialects.editor_schema(name, NEWEST))


def test_each_dialect_has_a_file_with_the_schemas_of_its_kinds():
    written = {
        file.stem: {
            (version, kind)
            for version, kinds in json.loads(file.read_text()).get("kinds", {}).items()
            for kind in kinds
        }
        for file in FILES
    }

    assert written == {
        "appwrapper": set(dialects.WRAPPERS),
        "common": set(),
        **{name: set(dialects.get(name).kinds) for name in dialects.names()},
    }


def test_every_definition_is_used():
    named = {
        (reference.partition("#")[0] or file.name, reference.rpartition("/")[2])
        for file in FILES
        for node in nodes(json.loads(file.read_text()))
        if (reference := node.get("$ref"))
    }
    defined = {
        (file.name, name) for file in FILES for name in json.loads(file.read_text())["definitions"]
    }

    assert defined == {key for key in named if key[0] != "../job.schema.json"}


def test_each_schema_is_valid():
    for file in FILES:
        parts = json.loads(file.read_text())
        versions = {name: {"properties": of} for name, of in parts.get("kinds", {}).items()}

        Draft7Validator.check_schema({"definitions": parts["definitions"], "properties": versions})


def test_each_schema_has_the_bounds_of_mlgen():
    for key in dialects.kinds():
        schema = dialects.schema(*key)
        spec = list(nodes(schema["properties"]["spec"]))
        replicas = {node["maximum"] for node in spec if "maximum" in node}
        limits = {node.get("maxProperties", node.get("maxItems", bounds.ROLES)) for node in spec}
        assert (replicas, limits) == ({bounds.REPLICAS}, {bounds.ROLES}), key


def test_the_rules_know_the_values_that_the_schemas_allow():
    mpi = dialects.schema("kubeflow.org/v1alpha2", "MPIJob")["properties"]["spec"]["properties"]
    ssh = dialects.schema("kubeflow.org/v2beta1", "MPIJob")["properties"]["spec"]["properties"]
    job = dialects.schema("batch.volcano.sh/v1alpha1", "Job")["properties"]["spec"]["properties"]
    policy = job["policies"]["items"]["properties"]

    assert mpi["mpiDistribution"]["enum"] == list(mpi_operator.DISTRIBUTIONS)
    assert (
        ssh["sshAuthMountPath"]["pattern"]
        == frameworks.options("mpi")["sshAuthMountPath"]["pattern"]
    )
    assert policy["action"]["enum"] == list(TABLES["actions"])
    assert policy["event"]["enum"] == ["", ANY, *TABLES["events"]]
    assert policy["events"]["items"]["enum"] == [ANY, *TABLES["events"]]


def key_of(schema):
    return "/".join(schema["properties"][name]["const"] for name in ("apiVersion", "kind"))


def test_each_schema_for_editors_is_valid():
    """All contain the same pods, which are validated once."""
    names = ["/".join(key) for key in dialects.kinds()]
    schemas = [dialects.editor_schema(name, NEWEST) for name in names]
    assert names == [*map(key_of, schemas)]

    seen = []
    for schema in schemas:
        definitions = schema.get("definitions", {})
        new = {name: part for name, part in definitions.items() if part not in seen}
        seen += new.values()
        Draft7Validator.check_schema(schema | {"definitions": new})


@each_file(files=RESOURCES)
def test_the_schema_for_editors_accepts_every_fixture_with_its_pods(file):
    for document in load_all(file.read_text()):
        key = f"{document['apiVersion']}/{document['kind']}"
        if tuple(key.rsplit("/", 1)) in dialects.kinds():
            validator = editor_validator(key)

            assert [] == list(validator.iter_errors(document))
            assert not validator.is_valid(document | {"kind": "Other"})


def test_the_schema_for_editors_has_the_fields_of_pods_and_nothing_unused():
    schema = dialects.editor_schema("jaxjob", NEWEST)
    pod = {"containers": [{"name": "jax", "image": "example/a:1", "resizePolicy": [1]}]}
    job = {
        "metadata": {"name": "a"},
        "spec": {"jaxReplicaSpecs": {"Worker": {"template": {"spec": pod}}}},
    }

    assert not Draft7Validator(schema).is_valid(job)
    del pod["containers"][0]["resizePolicy"]
    assert Draft7Validator(schema).is_valid(job)
    names = {node["$ref"].rpartition("/")[2] for node in nodes(schema) if "$ref" in node}
    assert set(schema["definitions"]) == names


def test_a_kind_is_found_by_the_end_of_its_name():
    rows = [
        ("pytorchjob", ("kubeflow.org/v1", "PyTorchJob")),
        ("MPIJOB", ("kubeflow.org/v2beta1", "MPIJob")),
        ("kubeflow.org/v1/MPIJob", ("kubeflow.org/v1", "MPIJob")),
        ("training.kubedl.io/v1alpha1/mpijob", ("training.kubedl.io/v1alpha1", "MPIJob")),
        ("v1alpha2/tfjob", ("kubeflow.org/v1alpha2", "TFJob")),
        ("jobset", ("jobset.x-k8s.io/v1alpha2", "JobSet")),
        ("job", ("batch.volcano.sh/v1alpha1", "Job")),
        ("xgboostjob", ("kubeflow.org/v1", "XGBoostJob")),
    ]

    for name, key in rows:
        properties = dialects.editor_schema(name, NEWEST)["properties"]

        assert (name, properties["apiVersion"]["const"], properties["kind"]["const"]) == (
            name,
            *key,
        )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("PyTorchJobs", 'unknown kind "PyTorchJobs"; did you mean "PyTorchJob"?'),
        (
            "set",
            'unknown kind "set"; use one of: ClusterTrainingRuntime, ElasticAIJob,',
        ),
        ("v2/tfjob", 'unknown kind "v2/tfjob"; use one of: training.kubedl.io/v1alpha1/TFJob,'),
    ],
)
def test_the_message_for_an_unknown_kind_says_what_may_be_meant(name, message):
    with pytest.raises(LookupError) as error:
        dialects.editor_schema(name, NEWEST)

    assert error.value.args[0].startswith(message)


def test_the_rules_of_a_kind_are_a_row_of_its_name():
    jobs = json.loads((FOLDER / "common.json").read_text())["jobs"]
    kinds = {"/".join(key) for name in REPLICA_TYPES for key in dialects.get(name).kinds}

    assert kinds == set(jobs)
    assert all(row["framework" if "like" not in row else "like"] for row in jobs.values())
