"""`conforms` accepts and rejects the same values as `jsonschema`.

`MLGEN_MUTANTS=50000 MLGEN_SEED=any pytest -n 0 -s tests/jobfile/test_conforms.py` tries more.
"""

import json
import os
import random
from contextlib import suppress
from copy import deepcopy
from functools import cache
from itertools import islice

import pytest
import yaml
from support import FILES, ROOT, load_all

from mlgen import dialects, frameworks
from mlgen.jobfile.model import API_VERSION, KIND
from mlgen.jobfile.schema import base
from mlgen.jobfile.validation import conforms, validator

MUTANTS = int(os.environ.get("MLGEN_MUTANTS", "400"))
SEED = os.environ.get("MLGEN_SEED", "mlgen")

VALUES = [
    *(None, True, False, 0, 1, -1, 2, 255, 256, 1023, 65535, 65536, 2**31 - 1, 2**31),
    *(0.0, 1.0, 0.5, -0.0, float("inf"), float("nan")),
    *("", "x", "X y", "a\n", "1", "1.5", "/", "/x", "All", "All\n", "a=b", "10Gi", "1e3", "-1"),
    *("mlgen.dev/x", "args.x", "None", "port", "a" * 63, "a" * 64, "é", "é\n"),
    *([], [[]], [{}], [None], ["x"], ["x", "x"], [1, 1.0], [1, True], [0, False], [1, 2], [True]),
    *([{"a": 1}, {"a": 1}], ["All"], [0], [256], [float("nan")] * 2),
    *({}, {"a": 1}, {"a": "b"}, {"name": "x"}, {1: 2}, {None: "x"}, {"": {}}, {"$patch": "delete"}),
]
"""Values of all types, including values at the limits of rules."""


def parts(schema):
    """Yield every schema in a schema."""
    yield schema
    inner = [schema.get(word) for word in ("items", "additionalProperties", "propertyNames")]
    inner += [schema.get(word) for word in ("if", "then", "not")]
    inner += [part for word in ("allOf", "oneOf") for part in schema.get(word, [])]
    inner += schema.get("properties", {}).values()
    for part in inner:
        if isinstance(part, dict):
            yield from parts(part)


DEFINITIONS = base()["definitions"]


@cache
def every_part():
    """Return the different schemas in the schemas of all documents."""
    roots = [
        *DEFINITIONS.values(),
        *(frameworks.schema([name]) for name in frameworks.names()),
        *(dialects.schema(*key) for key in dialects.kinds()),
    ]
    return list({json.dumps(part): part for root in roots for part in parts(root)}.values())


@cache
def names():
    return sorted({name for part in every_part() for name in part.get("properties", {})})


@pytest.mark.slow
def test_each_part_of_a_schema_accepts_the_same_values():
    for part in every_part():
        by_jsonschema = validator()({**part, "definitions": DEFINITIONS})
        fields = [{name: value} for name in part.get("properties", {}) for value in VALUES[::7]]
        for value in [*VALUES, *fields]:
            expected = by_jsonschema.is_valid(value)
            assert conforms(value, part, base()) == expected, (part, value)


KEYWORDS = {
    *("$schema", "default", "definitions", "deprecated", "description", "examples", "title"),
    *("$ref", "allOf", "const", "enum", "if", "not", "oneOf", "then", "type"),
    *("additionalProperties", "maxProperties", "minProperties", "properties", "propertyNames"),
    *("items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern"),
    *("required", "uniqueItems"),
}


def test_the_schemas_have_no_other_keywords():
    assert {word for part in every_part() for word in part} <= KEYWORDS
    words = [[*part.get("enum", []), part.get("const", "")] for part in every_part()]
    assert all(isinstance(word, str) for row in words for word in row)  # True == 1


def key(document):
    """Return the schema of a document, as a function and its arguments; None without a schema."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if (version, kind) == (API_VERSION, KIND):
        spec = document.get("spec")
        name = spec.get("framework") if isinstance(spec, dict) else None
        known = isinstance(name, str) and name in frameworks.names()
        return (frameworks.schema, (name,)) if known else None
    if isinstance(kind, str) and isinstance(version, str) and (version, kind) in dialects.kinds():
        return dialects.schema, version, kind
    return None


MOST = 10_000
"""The number of values in a document. Some fixtures have many more, because of aliases."""


@cache
def documents():
    """Return the documents of the fixtures, valid and invalid, that have a schema."""
    files = [*FILES, *sorted((ROOT / "fixtures/invalid").rglob("*.yaml"))]
    found = []
    for file in files:
        with suppress(yaml.YAMLError, RecursionError):  # some are not YAML, and one contains itself
            items = [item for item in load_all(file.read_text()) if isinstance(item, dict)]
            counts = [len([*islice(places(item), MOST)]) for item in items]
            found += [i for i, n in zip(items, counts, strict=True) if 0 < n < MOST and key(i)]
    return found


VALIDATORS = {}


def agree(document):
    """Assert that both agree on a document. Return their verdict; None without a schema."""
    found = key(document)
    if not found:
        return None
    if found not in VALIDATORS:
        schema, *arguments = found
        VALIDATORS[found] = validator()(schema(*arguments))
    valid = conforms(document, VALIDATORS[found].schema, base())
    assert valid == VALIDATORS[found].is_valid(document), document
    return valid


def test_documents_of_the_fixtures():
    assert {agree(document) for document in documents()} == {True, False}


def places(value):
    """Yield each mapping and list in a value with each of its keys and indexes."""
    for step in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, step
        if isinstance(value[step], (dict, list)):
            yield from places(value[step])


def mutant(document, chance):
    """Return a copy of a document with a random value or key replaced."""
    document = deepcopy(document)
    holder, step = chance.choice(list(places(document)))
    action = chance.random()
    if action < 0.6:
        holder[step] = deepcopy(chance.choice(VALUES))
    elif action < 0.75:
        del holder[step]
    elif isinstance(holder, list):
        holder.append(deepcopy(chance.choice(VALUES)))
    else:
        value = holder.pop(step) if action < 0.9 else deepcopy(chance.choice(VALUES))
        holder[chance.choice([*names(), "X", 1, None, "a=b"])] = value
    return document


def test_documents_with_changes_at_random():
    chance, originals = random.Random(SEED), documents()
    results = []
    for _ in range(MUTANTS):
        document = chance.choice(originals)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            document = mutant(document, chance)
        results.append(agree(document))
    print(f"{len(results)}: {results.count(True)} valid, {results.count(False)} invalid")
    assert {True, False} <= set(results)
