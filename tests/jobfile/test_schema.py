"""The schema describes every field, and has the same defaults as the classes of the model."""

import dataclasses
import json
import re
from functools import cache

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from mlgen import dialects, frameworks
from mlgen.jobfile import model as job
from mlgen.jobfile.validation import python_pattern
from mlgen.kubernetes.versions import DEFAULT

MERGED = frameworks.schema(frameworks.names())

ELSEWHERE = {"if", "then", "else", "not", "allOf", "anyOf", "oneOf"}
"""Keywords of conditions. Fields are described at their definitions."""


def subschemas(node, path=()):
    """Every schema in the schema, with its path."""
    yield path, node
    for keyword in ("properties", "definitions"):
        for name, child in node.get(keyword, {}).items():
            yield from subschemas(child, (*path, keyword, name))
    for keyword in ("items", "additionalProperties", "propertyNames", "if", "then", "else", "not"):
        if isinstance(node.get(keyword), dict):
            yield from subschemas(node[keyword], (*path, keyword))
    for keyword in ("allOf", "anyOf", "oneOf"):
        for number, child in enumerate(node.get(keyword, [])):
            yield from subschemas(child, (*path, keyword, str(number)))


def resolved(node):
    return MERGED["definitions"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


ALL = {"/".join(path): node for path, node in subschemas(MERGED)}

FIELDS = {
    name: resolved(node)
    for name, node in ALL.items()
    if name.split("/")[-2:-1] == ["properties"] and not ELSEWHERE & set(name.split("/"))
}
OPTIONS = {
    f"{framework}/{'/'.join(path)}": node
    for framework in frameworks.names()
    for path, node in subschemas({"properties": frameworks.options(framework)})
    if path[-2:-1] == ("properties",)
}
EVERY = FIELDS | OPTIONS


@pytest.mark.parametrize("validator", [Draft7Validator, Draft202012Validator])
def test_the_schema_is_valid_in_both_drafts(validator):
    dialect = {**MERGED, "$schema": validator.META_SCHEMA["$id"]}

    validator.check_schema(dialect)


def test_a_field_has_a_description_and_an_example():
    incomplete = [
        name
        for name, node in EVERY.items()
        if not re.fullmatch(r"\S(.*\S)?\.", node.get("description", ""), re.DOTALL)
        or not node.get("examples")
    ]

    assert [] == incomplete


def test_examples_and_defaults_are_valid():
    invalid = []
    for name, node in ({n: ALL[n] for n in ALL if n.startswith("definitions/")} | EVERY).items():
        validator = Draft7Validator({**node, "definitions": MERGED["definitions"]})
        values = [*node.get("examples", []), *([node["default"]] if "default" in node else [])]
        invalid += [f"{name}: {value}" for value in values if not validator.is_valid(value)]

    assert [] == invalid


def test_only_keywords_of_both_drafts_are_used():
    """`deprecated` is not in draft-07, but validators ignore unknown keywords."""
    common = {
        "$schema", "$ref", "title", "description", "default", "examples", "definitions",
        "type", "enum", "const", "required", "properties", "additionalProperties", "propertyNames",
        "minProperties", "maxProperties", "items", "minItems", "maxItems", "uniqueItems",
        "minLength", "maxLength", "pattern", "minimum", "maximum", "allOf", "if", "then", "not",
        "oneOf", "deprecated",
    }  # fmt: skip

    published = frameworks.published_schema([], DEFAULT)
    nodes = [*ALL.values(), *(node for _, node in subschemas(published))]

    assert set() == {keyword for node in nodes for keyword in node} - common
    assert [] == [name for name, node in ALL.items() if isinstance(node.get("items"), list)]


def test_a_reference_has_no_other_keywords():
    """Draft-07 ignores other keywords, 2020-12 does not."""
    assert [] == [name for name, node in ALL.items() if "$ref" in node and len(node) > 1]


def test_unknown_fields_are_invalid_except_in_specs_of_kubernetes():
    """mlgen/kubernetes/schema.py checks these specs."""
    names = ("template/properties/spec", "container", "volume")
    extensible = [f"definitions/{name}" for name in names]
    extensible.append("properties/spec/properties/claims/additionalProperties")
    extensible += ["definitions/shortVolume/properties/ephemeral", "definitions/storageSize"]
    extensible.append("definitions/shortVolume/properties/projected/properties/sources/items")
    accepting = {
        name
        for name, node in ALL.items()
        if "properties" in node
        and "additionalProperties" not in node
        and not ELSEWHERE & set(name.split("/"))
    }

    assert set(extensible) <= accepting
    assert [] == [name for name in accepting if not name.startswith(tuple(extensible))]


def test_all_roles_share_the_fields_of_a_role():
    role = MERGED["definitions"]["role"]["properties"]
    spec = MERGED["properties"]["spec"]["properties"]

    different = {"replicas", "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex"}
    different |= {"maxFailedIndexes", "restartScope"}
    assert different == {n for n, s in role.items() if spec.get(n) != s}


def test_alternatives_only_require_one_field_each():
    """validation.py has a message only for this form of oneOf."""
    alternatives = [one for node in ALL.values() for one in node.get("oneOf", [])]

    assert alternatives
    assert all(list(one) == ["required"] and len(one["required"]) == 1 for one in alternatives)


def snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


PARTS = {
    "runPolicy": job.RunPolicy,
    "successPolicy": job.SuccessPolicy,
    "wait": job.WaitPolicy,
    "network": job.Network,
    "network/hostPorts": job.HostPorts,
    "network/rdma": job.Rdma,
    "scheduling": job.Scheduling,
    "scheduling/topology": job.Together,
    "scheduling/spread": job.Placement,
    "security": job.Security,
    "tensorboard": job.Tensorboard,
    "helpers": job.Helpers,
}


def test_defaults_of_a_part_are_those_of_its_class():
    """Parts, empty values, and fields that are required have no default in the schema."""
    for part, of in PARTS.items():
        fields = dict.fromkeys(of._fields) | {
            name: default
            for name, default in of._field_defaults.items()
            if not isinstance(default, (tuple, dict))
        }
        node = MERGED["properties"]["spec"]
        for name in part.split("/"):
            node = node["properties"][name]
        defaults = {snake(n): resolved(p).get("default") for n, p in node["properties"].items()}

        assert fields == defaults


def test_defaults_of_a_role_are_those_of_its_dataclass():
    fields = {field.name: field.default for field in dataclasses.fields(job.RoleSpec)}
    properties = MERGED["definitions"]["role"]["properties"]
    defaults = {
        snake(n): resolved(p)["default"] for n, p in properties.items() if "default" in resolved(p)
    }

    assert {"replicas": 1, "main_container": "main"} == defaults
    assert defaults == {name: fields[name] for name in defaults}


def test_the_default_of_a_wait_is_that_of_its_class():
    properties = MERGED["definitions"]["waitForRole"]["properties"]

    assert job.WaitFor("ps").until == properties["until"]["default"]


@pytest.mark.parametrize("name", frameworks.names())
def test_an_option_left_out_means_its_default(name, render, tmp_path):
    """Also with ssh, for options that only apply to ssh."""
    defaults = {
        option: node["default"]
        for option, node in frameworks.options(name).items()
        if "default" in node
    }
    roles = {"worker": {"replicas": 2}}
    if name in ("mpi", "horovod", "deepspeed"):
        roles |= {"launcher": {}}
    elif name == "ray":
        roles |= {"head": {}, "submitter": {"command": ["ray", "job", "submit", "--", "true"]}}

    @cache
    def rendered(*items):
        options = dict(items)
        document = {
            "apiVersion": "mlgen.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": "x"},
            "spec": {"framework": name, "image": "i", "roles": roles, "options": options},
        }
        (tmp_path / "job.json").write_text(json.dumps(document))
        return render(tmp_path / "job.json")

    for option, default in defaults.items():
        others = [("transport", "ssh")] if option == "sshAuthMountPath" else []
        assert rendered(*others) == rendered(*others, (option, default)), option


FREE = {"annotations", "files"}
"""Fields that accept any text."""


def texts():
    """Every schema of a text, with its path, in the job file and in the options of frameworks."""
    for path, node in subschemas(MERGED):
        types = node.get("type", ())
        if "string" in ([types] if isinstance(types, str) else types) and "enum" not in node:
            yield path, node


def test_no_name_path_or_argument_has_control_characters():
    """Arguments and variables may contain any text but U+0000, because programs process them."""
    for path, node in texts():
        if not FREE & set(path):
            pattern = re.compile(python_pattern(node["pattern"]))
            example = next(iter(node.get("examples", ["x"])))
            characters = "\x00" if node["pattern"] == r"^[^\x00]*$" else "\x00\n\r\x1b\x7f"
            texts_with = [text for c in characters for text in (f"{example}{c}", f"/{c}", c)]

            assert not list(filter(pattern.search, texts_with)), path


@pytest.mark.parametrize("name", ["cpu", "cpu\n", "\ncpu"])
def test_a_dollar_is_the_end_of_the_text(name):
    assert bool(re.search(python_pattern("^[a-z]+$"), name)) == (name == "cpu")


def test_a_dollar_in_a_pattern_is_at_its_end():
    """python_pattern converts only a `$` at the end."""
    schemas = [
        MERGED,
        *(dialects.schema(*k) for n in dialects.names() for k in dialects.get(n).kinds),
    ]
    patterns = {
        node["pattern"] for each in schemas for _, node in subschemas(each) if "pattern" in node
    }

    assert 10 < len(patterns)
    assert not [pattern for pattern in patterns if "$" in pattern[:-1]]
