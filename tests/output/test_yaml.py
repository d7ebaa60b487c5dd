"""Every YAML reader reads the strings that were written."""

import io
import json
import re
import subprocess
from itertools import product

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from libyaml_writer import libyaml_text
from ruamel.yaml import YAML
from support import FIXTURES, each_file, load_all, rendered
from support import manifests_text as manifests

from mlgen.documents.document import Document
from mlgen.output import yaml as emit
from mlgen.output.yaml import style
from mlgen.result import Foreign

WORDS = """
    y Y n N yes Yes YES no No on On ON off Off true True TRUE false False null Null NULL ~ 1 0
    -1 +1 08 0o7 0o14 010 0x1F 0b1 1_000 1. .5 -.5 1e3 1E3 1e-5 6e7 12e03 1.5e+3 .inf -.inf .NaN
    nan inf Infinity 1:30 190:20:30 2024-01-02 2024-01-02T03:04:05Z 1.34.1 1.30 v1 - -- --- -a
    -1a ? ?a : a: :a a:b a:1 host:22 # #a a#b & &a * *a ! !a | > % %a @ @a ` {a} [a] a,b = << .
    -_1 -_0x1F -_.5 --_1
    .. ... / /a a/b $(A) $$ {{a}} a\\tb \\n ' " '' "" it's "a" a'b"c \\
""".split()  # noqa: SIM905 - a list of these would be a page long
"""Words that YAML readers may take for something other than a string, and arguments of programs."""

AWKWARD = [
    "",
    " ",
    "  a",
    "a ",
    "\n",
    "\n\n",
    "a\n",
    "a\n\n",
    "\na",
    " a\nb",
    "a\n b\n",
    "a\n\n\nb",
    "\ta",
    "a\tb",
    "a\n\tb",
    "a\r\nb",
    "\r",
    "\x00",
    "\x07",
    "\x1b[0m",
    "\x7f",
    "\x85",
    "a\x85b",
    "\xa0",
    "\xad",
    "\u200b",
    "\u2028",
    "a\u2029b",
    "\ufeff",
    "\ufeffa",
    "\ufffe",
    "\uffff",
    "größe",
    "時間",
    "🚀",
    "e\u0301",
    "a: b",
    "a #b",
    "- a",
    "a:",
    "# a",
    "---\na",
    "a\n---\nb",
    "a\n...\n",
    "%YAML 1.1\n---",
    "  \n a",
    "a    \n\n    \n  b \t\n\tc\t",
    "a \nb\n",
    "a\nb ",
    "a\n\tb\t\n \n",
    "a\n\n\n\n \n\n\nb",
    "\ta\nb",
    "a\n--- \n... \n# b\n",
    "a \r\nb",
    "a \n\ufeffb",
    "a \x85b\n",
    "a\n \n",
    "x" * 500,
    "a " * 200,
    "'\n'",
    '"\n"',
    "\\\n",
    "a\x85\nb",
    "hole:0",
    "\n#",
    "#\n",
    "a: |\n  b\n",
    "-\n-",
]

AFFIXES = st.sampled_from(
    ["", " ", "\n", "\t", "-", ":", "#", "'", '"', "1", "\\", "\x85", "\u2028", "$", ","]
)

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text("yYnNoOfF01289eExX._-+:,#'\"\\ \n\t~{}[]&*!|>%@`=<?", max_size=12),
    st.builds("".join, st.tuples(AFFIXES, st.sampled_from(WORDS + AWKWARD), AFFIXES)),
)

KEYS = st.text("yYnNoO018eE_./-~", min_size=1, max_size=8)
"""Keys as in labels, annotations and ConfigMaps."""


def data(keys):
    return st.recursive(
        st.one_of(
            TEXTS,
            st.integers(-(2**53), 2**53),
            st.floats(allow_nan=False),
            st.booleans(),
            st.none(),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)
        ),
        max_leaves=12,
    )


def dumped(data):
    return emit.yaml_text([data])


def config_map(texts):
    data = {f"k{number}": text for number, text in enumerate(texts)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "texts"}, "data": data}


def read_by_kubectl(texts):
    """Return texts as read by kubectl; `annotate --local` needs no cluster."""
    command = ["kubectl", "annotate", "--local", "-o", "json", "-f", "-", "a=b"]
    result = subprocess.run(
        command, input=dumped(config_map(texts)).encode(), capture_output=True, check=True
    )
    return list(json.loads(result.stdout)["data"].values())


def in_order_of_keys(texts):
    return [texts[int(key[1:])] for key in sorted(config_map(texts)["data"])]


def test_a_text_survives_every_reader():
    for text in [*WORDS, *AWKWARD]:
        value = {"a": text, "b": [text], text or "c": 1}
        written = dumped(value)

        assert (text, value) == (text, yaml.safe_load(written))
        assert (text, value) == (text, YAML(typ="safe", pure=True).load(written))


@given(st.lists(TEXTS, max_size=30))
def test_texts_survive_pyyaml_and_yaml_1_2(texts):
    written = dumped(config_map(texts))

    assert config_map(texts) == yaml.safe_load(written)
    assert config_map(texts) == YAML(typ="safe", pure=True).load(written)


@pytest.mark.tools
@pytest.mark.needs("kubectl")
def test_awkward_texts_survive_kubectl():
    texts = [*WORDS, *AWKWARD]

    assert in_order_of_keys(texts) == read_by_kubectl(texts)


@pytest.mark.tools
@pytest.mark.needs("kubectl")
@given(st.lists(TEXTS, min_size=100, max_size=300))
def test_texts_survive_kubectl(texts):
    assert in_order_of_keys(texts) == read_by_kubectl(texts)


ALPHABETS = {"+-_.019xXeEoObB:~nNyYif": 4, "-_.01xe": 6}
"""Characters of numbers and of the words of YAML, with the length up to which all are tried."""


@pytest.fixture(scope="module")
def unquoted():
    """The short strings that are written without quotes."""
    return {
        text
        for characters, longest in ALPHABETS.items()
        for length in range(1, longest + 1)
        for text in map("".join, product(characters, repeat=length))
        if style(text) is None
    }


def is_string_in_go(text):
    """Return True if go.yaml.in/yaml, v2 and v3, reads a plain scalar as a string.

    resolve.go, without dates, which no unquoted string contains.
    """
    if text.lower() in {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"}:
        return False
    if re.fullmatch(r"[+-]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)|<<", text):
        return False
    if text[0] == ".":
        return not re.fullmatch(r"\.[0-9][0-9_]*([eE][+-]?[0-9]+)?", text)
    plain = text.replace("_", "") if text[0] in "+-0123456789" else ""
    number = r"[+-]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)"
    exponent = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    return not re.fullmatch(f"{number}|{exponent}", plain)


@pytest.mark.slow
def test_go_reads_every_unquoted_string_as_a_string(unquoted):
    assert len(unquoted) > 10_000
    assert [] == [text for text in unquoted if not is_string_in_go(text)]


@pytest.mark.tools
@pytest.mark.needs("kubectl")
def test_kubectl_reads_every_unquoted_string_as_a_string(unquoted):
    texts = sorted(text for text in unquoted if text[0] not in "xXeEoObBnNyYif" or len(text) < 4)

    assert in_order_of_keys(texts) == read_by_kubectl(texts)


@given(data(TEXTS))
def test_any_data_survives(value):
    written = dumped({"a": value})

    assert {"a": value} == yaml.safe_load(written)


def is_written_by_libyaml(value):
    """Return whether libyaml also writes blocks: without tabs, and spaces at the ends of lines."""
    if isinstance(value, dict):
        return is_written_by_libyaml([*value, *value.values()])
    if isinstance(value, list):
        return all(map(is_written_by_libyaml, value))
    is_block = isinstance(value, str) and style(value) == "|"
    return not is_block or not re.search(r"\t| \n| \Z", value)


@given(data(st.one_of(KEYS, TEXTS)))
def test_libyaml_writes_the_same_bytes(value):
    objects = [value, {"a": [value, value], "b": {"c": value}}]
    assume(is_written_by_libyaml(objects))

    assert libyaml_text(objects) == emit.yaml_text(objects)


VALUES = [
    *AWKWARD,
    1.0,
    1e20,
    1e-7,
    float("inf"),
    float("-inf"),
    float("nan"),
    None,
    True,
    {"k" * 200: {"k" * 129: 1}, "k" * 128: [1], "\u00e9" * 70: 1},
    {"": {"a:b": "a:b", "a\nb": "a:b"}, 1: True, None: 1.5},
    [[[1, [2]], []], [{}, {"a": ["b", {}]}], "a\n\n\n\nb\n"],
]


def test_libyaml_writes_the_same_bytes_for_awkward_values():
    for value in VALUES:
        objects = [value, {"a": value, "b": [value], "c": {"d": {"e": value}}}]

        if is_written_by_libyaml(value):
            assert libyaml_text(objects) == emit.yaml_text(objects)


@pytest.mark.parametrize("line", ["echo a ", "\techo a\t", "    ", "\t"])
def test_a_script_with_blanks_at_the_ends_of_lines_is_a_block(line):
    script = f"#!/bin/sh\n{line}\n\necho b\n"

    assert f"---\ndata:\n  run.sh: |\n    #!/bin/sh\n    {line}\n\n    echo b\n" == emit.yaml_text(
        [{"data": {"run.sh": script}}]
    )


def test_values_of_other_types_are_rejected():
    with pytest.raises(TypeError, match="cannot write set as YAML"):
        emit.yaml_text([{"a": {1}}])


@each_file(files=FIXTURES)
def test_libyaml_writes_the_same_bytes_for_every_fixture(text):
    text = re.sub("^( +\\w+: \\w+)  # .*$", r"\1", text, flags=re.MULTILINE)

    again = libyaml_text(load_all(text))

    assert [row for row in text.splitlines() if not row.startswith("# ")] == [
        row for row in again.splitlines() if not row.startswith("# ")
    ]


@each_file(files=FIXTURES)
def test_json_has_the_same_objects_as_yaml(file, objects):
    assert {"apiVersion": "v1", "kind": "List", "items": objects} == json.loads(
        rendered(file, "json")
    )


@given(data(KEYS))
def test_any_data_survives_json(value):
    part = Foreign(Document({"a": value}))

    assert [{"a": value}] == json.loads(manifests([part], "json"))["items"]


def test_a_string_is_unquoted_only_if_it_is_unambiguous():
    rows = [
        ("example/mnist:1.4", "example/mnist:1.4"),
        ("TF_CONFIG", "TF_CONFIG"),
        ("mnist-ps-0.mnist:2222", "mnist-ps-0.mnist:2222"),
        ("--lr", "--lr"),
        ("--lr=1e-5", "--lr=1e-5"),
        ("$(RANK)", "$(RANK)"),
        ("50m", "50m"),
        ("1.5Gi", "1.5Gi"),
        ("1E", "'1E'"),
        ("1_000", "'1_000'"),
        ("1e-5", "'1e-5'"),
        ("y", "'y'"),
        ("No", "'No'"),
        ("a b", "'a b'"),
        ("it's", '"it\'s"'),
        ('it\'s "so"', "'it''s \"so\"'"),
        ("a\tb", '"a\\tb"'),
        ("größe", "'größe'"),
        ("🚀", '"\\U0001F680"'),
        ("a\nb\n", "|\n  a\n  b"),
        ("a\nb", "|-\n  a\n  b"),
    ]

    assert [f"---\na: {written}\n" for _, written in rows] == [
        dumped({"a": text}) for text, _ in rows
    ]


def test_a_list_of_integers_is_written_on_one_line():
    numbers = list(range(100))

    assert f"---\na: {numbers}\n" == dumped({"a": numbers})


def test_what_is_short_is_written_on_one_line():
    rows = [
        ({"args": ["--lr", "1"]}, "args: [--lr, '1']"),
        ({"drop": {"all": ["x"]}}, "drop: {all: [x]}"),
        ({"env": [{"name": "A", "value": "b"}]}, "env:\n- {name: A, value: b}"),
        ({"long": ["x" * 50, "y" * 50]}, f"long:\n- {'x' * 50}\n- {'y' * 50}"),
        ({"many": dict.fromkeys("abcde", 1)}, "many:\n  a: 1\n  b: 1\n  c: 1\n  d: 1\n  e: 1"),
        ({"text": ["a\n"]}, "text:\n- |\n  a"),
        ({"c": [], "d": {}}, "c: []\nd: {}"),
    ]

    assert [f"---\n{text}\n" for _, text in rows] == [dumped(data) for data, _ in rows]


def test_file_modes_are_octal():
    assert "---\na: {defaultMode: 0555, mode: 07, other: 7}\n" == dumped(
        {"a": {"defaultMode": 0o555, "mode": 0o7, "other": 7}}
    )


def test_repeated_values_are_written_out_without_aliases():
    shared = {"a": [1]}

    assert "---\nb: {a: [1]}\nc: {a: [1]}\nd:\n- {a: [1]}\n- {a: [1]}\n" == dumped(
        {"b": shared, "c": shared, "d": [shared, shared]}
    )


def test_long_strings_are_not_wrapped():
    assert 2 == len(
        dumped(
            {
                "a": "word " * 1000,
            }
        ).splitlines()
    )


def test_keys_keep_their_order():
    assert "---\nb: 1\na: 2\n" == dumped({"b": 1, "a": 2})


def test_a_comment_is_above_the_first_object():
    text = emit.yaml_text([{"a": 1}, {"b": 2}], "x\n\n  y")

    assert text == "---\n# x\n#\n#   y\na: 1\n---\nb: 2\n"


def test_no_objects_are_an_empty_stream_or_list():
    assert "" == emit.yaml_text([])
    assert {"apiVersion": "v1", "kind": "List", "items": []} == json.loads(manifests([], "json"))


@each_file(files=FIXTURES, sample=10)
def test_manifests_that_a_tool_rewrites_do_not_change(text):
    objects = list(YAML(typ="safe", pure=True).load_all(io.StringIO(text)))

    assert load_all(emit.yaml_text(objects)) == objects
