"""Comments and quotes of a YAML document, by value."""

import yaml

from mlgen.output.round_trip import END, Style, styled_text, styles

TEXT = """\
---
# head
# of the file
spec:  # beside spec
  # above image
  image: "a#b"  # beside image
  args:
  # above the first item
  - --lr  # beside the first item
  - name: x  # beside name
  - {name: z}  # beside the third item
  # above roles
  roles: {a: 'b'}
# end
"""

STYLES = {
    ("spec",): Style(["# head", "# of the file"], "# beside spec"),
    ("spec", "image"): Style(["# above image"], "# beside image", '"'),
    ("spec", "args", 0): Style(["# above the first item"], "# beside the first item"),
    ("spec", "args", 1, "name"): Style([], "# beside name"),
    ("spec", "args", 2): Style([], "# beside the third item"),
    ("spec", "roles"): Style(["# above roles"]),
    ("spec", "roles", "a"): Style(quotes="'"),
    END: Style(["# end"]),
}


def test_each_comment_is_read_with_the_value_it_is_about():
    assert STYLES == styles(TEXT)


def test_a_document_keeps_its_comments_and_quotes():
    assert TEXT == styled_text(yaml.safe_load(TEXT), STYLES)


def test_a_mapping_with_a_comment_in_it_is_written_on_several_lines():
    found = {("a", "c"): Style(["# above"], "# beside")}

    assert "---\na:\n  b: 1\n  # above\n  c: 2  # beside\n" == styled_text(
        {"a": {"b": 1, "c": 2}}, found
    )


def test_comments_between_lines_without_content_keep_their_order():
    assert {("b",): Style(["# x", "# y"])} == styles("a: 1\n\n# x\n\n# y\nb: 2\n")


def test_a_comment_beside_a_block_scalar_moves_above_it():
    found = styles("a: |  # x\n  b\n")

    assert {("a",): Style([], "# x")} == found
    assert "---\n# x\na: |\n  b\n  c\n" == styled_text({"a": "b\nc\n"}, found)


def test_a_hash_within_a_value_is_not_a_comment():
    rows = ["a: b#c\n", "a: |\n  # b\n  c\n", "a: b\n"]

    assert [{} for text in rows] == [styles(text) for text in rows]


def test_a_comment_beside_no_value_is_dropped():
    assert {} == styles("a: {\n  }  # beside the end\n")


def test_comments_on_missing_values_are_dropped():
    assert "---\na: 1\n" == styled_text({"a": 1}, {("b",): Style(["# b"], "# c")})


def test_windows_line_endings_do_not_belong_to_a_comment():
    assert {("a",): Style(["# x"], "# y")} == styles("# x\r\na: 1  # y\r\n")


def test_a_document_that_cannot_be_read_has_no_styles():
    assert {} == styles("[a # b\n")
