"""Comments of a YAML document, by value."""

from mlgen.documents.comments import END, Comment, insert, read

TEXT = """\
# head
# of the file
spec:  # beside spec
  # above image
  image: "a#b"  # beside image
  args:
    # above the first item
    - --lr  # beside the first item
    - name: x  # beside name
    - {name: y}  # beside the third item
  # above roles
  roles: {}
# end
"""

COMMENTS = {
    ("spec",): Comment(["# head", "# of the file"], "# beside spec"),
    ("spec", "image"): Comment(["# above image"], "# beside image"),
    ("spec", "args", 0): Comment(["# above the first item"], "# beside the first item"),
    ("spec", "args", 1, "name"): Comment([], "# beside name"),
    ("spec", "args", 2): Comment([], "# beside the third item"),
    ("spec", "roles"): Comment(["# above roles"]),
    END: Comment(["# end"]),
}


WITHOUT_COMMENTS = """\
spec:
  image: "a#b"
  args:
    - --lr
    - name: x
    - {name: y}
  roles: {}
"""


def test_each_comment_is_read_with_the_value_it_is_about():
    assert COMMENTS == read(TEXT)


def test_inserted_comments_are_at_the_values_they_are_about():
    assert TEXT == insert(WITHOUT_COMMENTS, COMMENTS)


def test_a_hash_within_a_value_is_not_a_comment():
    rows = ["a: b#c\n", "a: 'b # c'\n", "a: |\n  # b\n  c\n", "a: b\n", "a:\n  'b\n  # c'\n"]

    assert [{} for text in rows] == [read(text) for text in rows]


def test_a_comment_beside_no_value_is_dropped():
    assert {} == read("a: {\n  }  # beside the end\n")


def test_comments_on_missing_values_are_dropped():
    assert "a: 1\n" == insert("a: 1\n", {("b",): Comment(["# b"], "# c")})


def test_windows_line_endings_do_not_belong_to_a_comment():
    assert {("a",): Comment(["# x"], "# y")} == read("# x\r\na: 1  # y\r\n")


def test_a_document_that_cannot_be_read_has_no_comments_in_lines():
    assert "[a # b\n" == insert("[a # b\n", {})
