"""Items of a ResourceList are replaced, and all other text stays as it is."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import load

from mlgen.documents.files import Text
from mlgen.documents.resource_list import VERSIONS, read
from mlgen.output.resource_list import resource_list_texts

HEAD = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n"
BLOCK = f"{HEAD}items:\n  - a: 0644  # kept\n  # before\n  - b: 1\nfunctionConfig: {{}}\n"
FLOW = "{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: [{a: 0644}, {b: 1}]}\n"
EMPTY = f"{HEAD}items: []\n"
NEW, MORE = {"kind": "Job", "args": ["x"]}, {"kind": "Service"}


def written(text, replacements=None, results=()):
    return "".join(resource_list_texts(read(Text("", text)), replacements or {}, results))


@pytest.mark.parametrize("text", [BLOCK, FLOW, EMPTY])
def test_a_list_without_changes_keeps_every_byte(text):
    assert text == written(text)


def test_items_are_replaced_and_appended_in_the_style_of_the_list():
    rows = [
        (
            BLOCK,
            {1: [NEW, MORE]},
            BLOCK.replace("  - b: 1\n", "  - {kind: Job, args: [x]}\n  - {kind: Service}\n"),
        ),
        (BLOCK, {2: [MORE]}, BLOCK.replace("  - b: 1\n", "  - b: 1\n  - {kind: Service}\n")),
        (FLOW, {0: [MORE]}, FLOW.replace("{a: 0644}", '{"kind": "Service"}')),
        (FLOW, {2: [MORE]}, FLOW.replace("{b: 1}", '{b: 1}, {"kind": "Service"}')),
        (
            FLOW,
            {1: [NEW, MORE]},
            FLOW.replace("{b: 1}", '{"kind": "Job", "args": ["x"]}, {"kind": "Service"}'),
        ),
        (EMPTY, {0: [MORE]}, EMPTY.replace(" []", "\n- kind: Service")),
    ]

    assert [expected for _, _, expected in rows] == [
        written(text, replacements) for text, replacements, _ in rows
    ]


@pytest.mark.parametrize("text", [BLOCK, FLOW, EMPTY])
def test_results_are_a_field_of_the_list(text):
    results = [{"message": "größe: 1", "severity": "error"}]
    before, after = (load(t) for t in (text, written(text, results=results)))

    assert {**before, "results": results} == after


def test_several_items_and_results_change_at_once():
    list_ = load(written(FLOW, {1: [MORE], 0: [NEW], 2: [{"c": 1}]}, [{"message": "x"}]))

    assert ([NEW, MORE, {"c": 1}], [{"message": "x"}]) == (list_["items"], list_["results"])


def test_a_blank_line_in_a_string_is_not_indented():
    text = written(BLOCK, {0: [{"data": "a\n\nb"}]})

    assert "  - data: |-\n      a\n\n      b\n" in text


def test_results_of_earlier_functions_are_removed():
    rows = [
        (f"{HEAD}results:\n- message: a\nitems:\n- a: 0644\n", f"{HEAD}items:\n- a: 0644\n"),
        (f"{HEAD}items: []\nresults: []\n# end\n", f"{HEAD}items: []\n"),
        (f"{FLOW.strip()[:-1]}, results: [a]}}\n", FLOW),
        (f"{BLOCK}results: []\nresults:\n- a\nresults: []\n", BLOCK),
    ]

    assert [without for _, without in rows] == [written(with_results) for with_results, _ in rows]


def test_json_is_also_yaml():
    """YAML treats these characters as line ends, or rejects them."""
    value = "\x7f\x85\u2028\ufeff\U0001f600"

    text = written(FLOW, {0: [{"a": value}]})

    assert value == yaml.safe_load(text)["items"][0]["a"]
    assert text.isascii() == ("\U0001f600" not in text)


BLOCKS = (
    "kind: ConfigMap\nmode: 0644  # octal\ntime: 1:30\nnone:\ndate: 2001-01-01",
    'kind: "A"\ndata:\n  a: |+\n    text  \n\n  b: >-\n    folded\n    line\n\n    more',
    "# of a field\nkind: A\nlist:\n- - 1e5\n  -\n- {x: &@ [~, '0o7'], y: *@}\n# in the item",
    "? kind\n: A\ntagged: !!str 5\nempty: {a: [], b: {}, c: ''}\nwords: plain text\n  of two lines",
    'kind: A\n"\\u2028 \U0001f600\\t": "\\e\\x85 - #"\ntext: |2\n    two more spaces\n  end',
    "kind: A\nlast: |\n  a block of lines",
    "kind: &@ Aé\n<<: {m: *@}\n-a: -b\na b: c#d",
    "{kind: A, x: 'it''s', y: [1, 0x1F, +1, .5,], z: {? a, b}}",
)
"""Items in many spellings."""

FLOWS = (
    "{kind: A, x: [1:30, 0644, ~, ]}",
    '{"kind":"A","a\\u0041":1.50}',
    "{kind: A, # x\n   y: z}",
)
FIELDS = (
    "# of a field\nfunctionConfig:\n  kind: C",
    "results: []",
    "results:\n- a: b",
    "other: 'x'",
    "? [a, {b: c}]\n: d",
)


@st.composite
def lists(draw):
    """A ResourceList in any spelling."""
    flow = draw(st.sampled_from(["no", "items", "all"]))
    pool = BLOCKS if flow == "no" else FLOWS
    drawn = draw(st.lists(st.sampled_from(pool), min_size=flow == "no", max_size=4))
    items = [item.replace("@", f"a{number}") for number, item in enumerate(drawn)]
    head = [f"apiVersion: {VERSIONS[1]}", "kind: ResourceList"]
    if flow == "all":
        comma = draw(st.sampled_from([", ", ",\n  ", " , # c\n  "]))
        texts = [
            *head,
            f"items: [{comma.join(items)}]",
            *draw(st.sampled_from([[], ["results: []"]])),
        ]
        text = f"{{{comma.join(draw(st.permutations(texts)))}}}"
    else:
        anchor = draw(st.sampled_from(["", "", " &items"]))
        block = f"items:{anchor} [{', '.join(items)}]"
        if flow == "no":
            margin = " " * draw(st.sampled_from([0, 2, 3]))
            dashes = ("- ", "- ", "-\n  ", "- # c\n\n  # d\n  ", "-   # c\n  ")
            entries = [draw(st.sampled_from(dashes)) + item.replace("\n", "\n  ") for item in items]
            block = f"items:{anchor}\n{margin}" + f"\n{margin}".join(
                entry.replace("\n", f"\n{margin}") for entry in entries
            )
        others = draw(st.lists(st.sampled_from(FIELDS), unique_by=lambda text: text[:9]))
        text = "\n".join(draw(st.permutations([*head, block, *others])))
    before = draw(st.sampled_from(["", "", "# c\n", "---\n", "%YAML 1.2\n---\n"]))
    after = draw(st.sampled_from(["", "\n", "\n", "\n\n# end\n", "\n...\n"]))
    text = before + text + after
    return draw(st.sampled_from([text, text, text.replace("\n", "\r\n")]))


def tree(node):
    """A value by the tags and texts of its scalars, so that 0644 is not 420."""
    if isinstance(node, yaml.MappingNode):
        return tuple((tree(key), tree(value)) for key, value in node.value)
    if isinstance(node, yaml.SequenceNode):
        return tuple(tree(value) for value in node.value)
    return node.tag, "" if node.tag.endswith(":null") else node.value


def composed(text):
    return tree(yaml.compose(text, Loader=yaml.CSafeLoader))


@given(lists(), st.data())
def test_a_list_in_any_spelling_is_what_it_should_be(text, data):
    """Replaced items have the new values, and all other values are unchanged."""
    source = read(Text("", text))
    old = {key[1]: value for key, value in composed(text)}
    new = data.draw(st.dictionaries(st.integers(0, len(old["items"])), st.just([NEW, MORE])))
    results = data.draw(st.sampled_from([[], [{"message": "größe: 1"}]]))

    out = composed("".join(resource_list_texts(source, new, results)))

    as_tree = composed(yaml.safe_dump([NEW, MORE], sort_keys=False))
    items = [as_tree if n in new else [item] for n, item in enumerate([*old["items"], None])]
    expected = {**old, "items": tuple(item for part in items for item in part if item)}
    expected.pop("results", None)
    if results:
        expected["results"] = composed(yaml.safe_dump(results))
    assert expected == {key[1]: value for key, value in out}
    assert old["items"] == tuple(composed(item.text) for item in source.items)
