"""Programs, options and commands in command lines."""

import pytest

from mlgen.shell import is_python, is_shell, needs_shell, sequence, simple_commands, text_index


@pytest.mark.parametrize("word", ["python", "/usr/bin/python3.11", "python3", "pypy3", "./python"])
def test_python(word):
    assert is_python(word)


@pytest.mark.parametrize("word", ["", "python.sh", "python/", "pythonista", "ipython", "bash"])
def test_not_python(word):
    assert not is_python(word)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("sh -c T", "T"),
        ("/bin/bash -euo pipefail -c T x", "T"),
        ("bash --login -O extglob +x -lc T", "T"),
        ("bash -c -e T", "T"),
        ("sh -o pipefail", None),
        ("sh -c", None),
        ("sh script.sh -c T", None),
        ("bash --rcfile FILE -c T", None),
        ("sh", None),
        ("python -c T", None),
        ("", None),
    ],
)
def test_the_text_of_a_shell(line, text):
    words = line.split()

    index = text_index(words)

    assert text == (None if index is None else words[index])
    assert bool(words and words[0] != "python") == any(map(is_shell, words[:1]))


def test_the_text_of_a_shell_after_a_wrapper():
    assert text_index(["env", "sh", "-c", "T"]) is None
    assert text_index(["env", "sh", "-c", "T"], 1) == 3


@pytest.mark.parametrize(
    "text", ["a | b", "a; b", "a > f", "a\nb", "$A", "${A}", "$(a)", "$1", "cd /a", "`a`"]
)
def test_what_needs_a_shell(text):
    assert needs_shell(text)


@pytest.mark.parametrize("text", ["python a.py --cd 1", "a $", "a b-cd c", ""])
def test_what_needs_no_shell(text):
    assert not needs_shell(text)


def test_quotes_are_removed():
    text = """a "b \\" $c" 'd "e' f\\ g"h" `i j` $(k l) # m\n n"""
    expected = [["a", 'b " $c', 'd "e', "f gh", "`i j`", "$(k l)"], ["n"]]
    assert simple_commands(text) == expected


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a ${b}c $d", [["a", "${b}c", "$d"]]),
        ("a $(b $(c)) e", [["a", "$(b $(c))", "e"]]),
        ("a; b ${c d", [["a"], ["b"]]),
        ("a; b${c d", [["a"], ["b"]]),
        ("a '$' $", [["a", "$", "$"]]),
    ],
)
def test_the_rest_after_an_expansion_without_end_is_left_out(text, commands):
    assert simple_commands(text) == commands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b; c", [("a b", ";"), ("c", "")]),
        ("a\n\nb;\n", [("a", ";"), ("b", "")]),
        ("a && b ||\n c | d |& e", [("a", "&&"), ("b", "||"), ("c", "|"), ("d", "|"), ("e", "")]),
        ("a > b 2>&1 &> c >> d < e | f", [("a 2", "|"), ("f", "")]),
        ("a 'x; y' # b; c", [("a x; y", "")]),
        ("a & b", [("a", "&"), ("b", "")]),
        ("(a; b)", None),
        ("a <<'E' | b\nc 'd\nE\ne", [("a", "|"), ("b", ";"), ("e", "")]),
        ("a <<E\nb", None),
        ("case a in b) c;; esac", None),
        ("a; 'b", None),
        ("", []),
    ],
)
def test_a_sequence_of_commands_has_the_operators_between_them(text, expected):
    found = sequence(text)

    assert expected == (found if found is None else [(" ".join(w), o) for w, o in found])
