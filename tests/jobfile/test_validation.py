"""Each rule of a JSON Schema has a message with the error and a hint with the fix."""

import pytest

from mlgen import dialects, frameworks
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.jobfile import hints
from mlgen.jobfile.validation import invalid_fields, require_valid
from mlgen.problems import MAX_SHOWN, MlgenError, Place

LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LABEL_HINT = "use lowercase letters, digits and dashes, starting and ending with a letter or digit"


def document(text):
    (found,) = read_documents(Text("job.yaml", text))
    return found


def problems(schema, value):
    """The problems of a document with one field, `a`, as a user sees them, without the place."""
    found = invalid_fields(document(f"a: {value}\n"), {"properties": {"a": schema}})
    return [(".".join(map(str, p.path)), p.message, p.hint, p.code) for p in found]


def test_two_schemas_of_a_value_report_it_once_with_the_hint_of_either():
    text, example = {"type": "object"}, {"type": "object", "examples": [{"b": 1}]}
    message = 'expected a mapping, got the string "c"'

    for schemas in ([text, example], [example, text], [text, text, example]):
        expected = [("a", message, "for example {b: 1}", "wrong-type")]
        assert expected == problems({"allOf": schemas}, "c")


def test_a_wrong_type_is_named_with_its_fix():
    rows = [
        ("integer", '"2"', 'expected an integer, got the string "2"', "remove the quotes"),
        ("integer", "two", 'expected an integer, got the string "two"', ""),
        ("integer", "1.5", "expected an integer, got the number 1.5", ""),
        ("integer", "", "expected an integer, got nothing", ""),
        ("number", "x", 'expected a number, got the string "x"', ""),
        ("boolean", "1", "expected true or false, got the number 1", ""),
        ("boolean", '"1"', 'expected true or false, got the string "1"', ""),
        ("string", "0x1F", "expected a string, got the number 0x1F", "quote it: '0x1F'"),
        ("string", "True", "expected a string, got the boolean True", "quote it: 'True'"),
        (
            "string",
            "~",
            "expected a string, got ~",
            "write '' for an empty string, or remove it",
        ),
        ("integer", "24h", 'expected an integer, got the string "24h"', "write 86400"),
        ("integer", "80:8080", 'expected an integer, got the string "80:8080"', "write 8080"),
        (
            "integer",
            "${NODES}",
            'expected an integer, got the string "${NODES}"',
            "mlgen does not fill in placeholders; write the number, or pass it with --set",
        ),
        ("string", "", "expected a string, got nothing", "write '' for an empty string"),
        ("string", "[b]", 'expected a string, got the list ["b"]', "write b"),
        (
            "array",
            "{b: é}",
            'expected a list, got the mapping {"b": "é"}',
            "start each item with a dash",
        ),
        ("array", "", "expected a list, got nothing", ""),
        ("object", "", "expected a mapping, got nothing", "write {} if it has no fields"),
        ("object", "[]", "expected a mapping, got the list []", ""),
        (
            ["string", "integer"],
            "1.5",
            "expected a string or an integer, got the number 1.5",
            "quote it: '1.5'",
        ),
        (
            ["string", "object"],
            "",
            "expected a string or a mapping, got nothing",
            "write '' for an empty string",
        ),
    ]

    assert [problems({"type": types}, value) for types, value, _, _ in rows] == [
        [("a", message, hint, "wrong-type")] for _, _, message, hint in rows
    ]


@pytest.mark.parametrize(
    ("schema", "value", "message", "hint"),
    [
        ({"enum": ["x", "y"]}, "true", "the boolean true", "use one of: x, y"),
        ({"minLength": 1}, "", "nothing", "write a value, or remove it"),
        ({"pattern": "^.*$"}, "", "nothing", "write '' for an empty string"),
    ],
)
def test_the_hint_for_a_wrong_type_fits_the_schema(schema, value, message, hint):
    found = problems({"type": "string", **schema}, value)

    assert found == [("a", f"expected a string, got {message}", hint, "wrong-type")]


def test_a_mapping_has_an_example():
    schema = {"type": "object", "examples": [{"mode": "x"}]}

    assert [hint for _, _, hint, _ in problems(schema, "true")] == ["for example {mode: x}"]
    assert [hint for _, _, hint, _ in problems(schema, "[]")] == [""]


def test_a_bad_value_is_shown_with_its_bound():
    rows = [
        ({"minimum": 0}, "-1", "expected at least 0, got -1", ""),
        ({"maximum": 255}, "256", "expected at most 255, got 256", ""),
        ({"minLength": 1}, "''", 'expected a non-empty string, got ""', ""),
        ({"maxLength": 1}, "été", "expected at most 1 character, got 3", ""),
        ({"maxLength": 2}, "été", "expected at most 2 characters, got 3", ""),
        (
            {"minItems": 1},
            "[]",
            "expected at least 1 item, got 0",
            "add one, or remove the field",
        ),
        ({"maxItems": 2}, "[1, 2, 3]", "expected at most 2 items, got 3", ""),
        (
            {"minProperties": 1, "examples": [{"a": 1}]},
            "{}",
            "expected at least 1 field, got 0",
            "use a value such as {a: 1}",
        ),
        ({"maxProperties": 1}, "{b: 1, c: 2}", "expected at most 1 field, got 2", ""),
        ({"uniqueItems": True}, "[1, 2, 1]", "duplicate items", "remove the duplicates"),
        ({"pattern": LABEL}, "B_", 'invalid value "B_"', LABEL_HINT),
        (
            {"pattern": LABEL, "examples": ["b"]},
            "B",
            'invalid value "B"',
            f'{LABEL_HINT}, for example "b"',
        ),
        (
            {"pattern": "^x", "examples": ["x", 3]},
            "B",
            'invalid value "B"',
            'use a value such as "x" or 3',
        ),
        (
            {"pattern": "^x", "examples": ["x", "xy", 3]},
            "B",
            'invalid value "B"',
            'use a value such as "x", "xy" or 3',
        ),
    ]

    assert [problems(schema, value) for schema, value, _, _ in rows] == [
        [("a", message, hint, "bad-value")] for _, _, message, hint in rows
    ]


def test_a_value_at_its_bound_is_valid():
    rows = [
        ({"minimum": 0}, "0"),
        ({"maximum": 255}, "255"),
        ({"maxLength": 3}, "été"),
        ({"minItems": 1}, "[1]"),
        ({"uniqueItems": True}, "[1, 2]"),
        ({"type": "integer"}, "2"),
        ({"enum": ["b"]}, "b"),
    ]

    assert [problems(schema, value) for schema, value in rows] == [[] for _, _ in rows]


def test_an_unknown_value_is_shown_with_the_allowed_ones():
    rows = [
        ({"enum": ["Never", "Always"]}, "never", 'unknown value "never"', 'did you mean "Never"?'),
        ({"enum": ["Never", "Always"]}, "x", 'unknown value "x"', "use one of: Never, Always"),
        ({"enum": ["Never"]}, "1", "unknown value 1", "use Never"),
        ({"const": "v1"}, "x", 'unknown value "x"', "use v1"),
    ]

    assert [problems(schema, value) for schema, value, _, _ in rows] == [
        [("a", message, hint, "unknown-value")] for _, _, message, hint in rows
    ]


VOLUME = {"oneOf": [{"required": [name]} for name in ("pvc", "nfs", "git")]}


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("{}", "expected one of pvc, nfs, git, got none of them", "add one of them"),
        ("{git: 1, pvc: 1}", "pvc and git are mutually exclusive", "keep one of them"),
        ("{git: 1, nfs: 1, pvc: 1}", "pvc, nfs and git are mutually exclusive", "keep one of them"),
    ],
)
def test_alternatives_are_mutually_exclusive(value, message, hint):
    assert problems(VOLUME, value) == [("a", message, hint, "bad-value")]


@pytest.mark.parametrize(
    ("known", "hint"),
    [
        (["image", "env"], 'did you mean "image"?'),
        (["env", "args"], "use one of: env, args"),
        (["env"], "use env"),
        ([], "remove it"),
    ],
)
def test_an_unknown_field_is_reported_at_its_key(known, hint):
    schema = {"additionalProperties": False, "properties": {name: {} for name in known}}
    (problem,) = invalid_fields(document("{\nimgae: x}"), schema)

    assert (problem.path, problem.message) == (("imgae",), 'unknown field "imgae"')
    assert (problem.hint, problem.code, problem.place) == (
        hint,
        "unknown-field",
        Place("job.yaml", 2, 1),
    )


def test_a_deprecated_field_is_not_suggested():
    schema = {
        "additionalProperties": False,
        "properties": {"env": {}, "image": {"deprecated": True}},
    }
    (problem,) = invalid_fields(document("imgae: x"), schema)

    assert problem.hint == "use env"


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ({"examples": ["x:1", "x:2"]}, 'for example image: "x:1"'),
        ({"const": "v1", "examples": ["v2"]}, 'for example image: "v1"'),
        ({}, ""),
    ],
)
def test_a_missing_field_is_named_with_an_example(field, hint):
    schema = {"required": ["image"], "properties": {"image": field}}
    (problem,) = invalid_fields(document("{}"), schema)

    assert (problem.path, problem.message) == ((), 'field "image" is missing')
    assert (problem.hint, problem.code) == (hint, "missing-field")


@pytest.mark.parametrize(
    ("names", "key", "message", "hint", "code"),
    [
        (
            {"enum": ["worker"]},
            "wroker",
            'unknown role "wroker"',
            'did you mean "worker"?',
            "unknown-role",
        ),
        (
            {"enum": ["ps", "worker"]},
            "x",
            'unknown role "x"',
            "use one of: ps, worker",
            "unknown-role",
        ),
        ({"pattern": LABEL}, "X", 'invalid name "X"', LABEL_HINT, "bad-value"),
    ],
)
def test_a_bad_name_is_reported_at_its_key(names, key, message, hint, code):
    (problem,) = invalid_fields(document(f"  {key}: 1"), {"propertyNames": names})

    assert (problem.path, problem.place) == ((key,), Place("job.yaml", 1, 3))
    assert (problem.message, problem.hint, problem.code) == (message, hint, code)


@pytest.mark.parametrize(("length", "cut"), [(MAX_SHOWN - 2, False), (MAX_SHOWN - 1, True)])
def test_a_long_value_is_cut(length, cut):
    ((_, message, _, _),) = problems({"type": "integer"}, "x" * length)

    assert message.endswith("…") == cut
    assert len(message) == len("expected an integer, got the string ") + MAX_SHOWN + cut


def test_problems_of_a_document_are_raised_in_the_order_of_their_lines():
    text = document("a: x\nb: 1\nb: 2\nc: .inf\nd: y\n")
    number = {"type": "integer"}

    with pytest.raises(MlgenError) as raised:
        require_valid(text, {"properties": dict.fromkeys("acd", number)})

    assert [(p.path, p.code) for p in raised.value.problems] == [
        (("a",), "wrong-type"),
        (("b",), "duplicate-key"),
        (("c",), "not-yaml"),
        (("d",), "wrong-type"),
    ]


def test_a_valid_document_raises_nothing():
    require_valid(document("a: 1"), {"properties": {"a": {"type": "integer"}}})


def patterns(node):
    """Yield every schema with a pattern in a schema."""
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node
        for child in node.values():
            yield from patterns(child)
    elif isinstance(node, list):
        for child in node:
            yield from patterns(child)


SPECS = [dialects.schema(*key)["properties"]["spec"] for key in dialects.kinds()]
SCHEMAS = [frameworks.schema(frameworks.names()), *SPECS]


def test_every_pattern_of_every_schema_has_a_description_or_examples():
    nodes = [node for schema in SCHEMAS for node in patterns(schema)]

    described = hints.texts("patterns")
    assert set(described) <= {node["pattern"] for node in nodes}
    assert [] == [n for n in nodes if n["pattern"] not in described and not n.get("examples")]
