"""Generate docs/reference/python.md from the signatures and docstrings of the Python API.

Docstrings contain the sections Args, Attributes, Returns and Raises (Google style).
"""

import inspect
import json
import re
import textwrap

import mlgen
from mlgen.apply import Applied
from mlgen.checks.prerequisites import Prerequisite
from mlgen.live.delete import Deletion
from mlgen.live.listing import JobSummary
from mlgen.live.ranks import LogLine
from mlgen.live.state import JobState, ProgressState
from mlgen.problems import Place
from mlgen.result import Foreign, Rendered

MISSING = inspect.Parameter.empty

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises):\n((?:    .*\n|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^(\**\w+): (.*(?:\n {4,}.*)*)", re.MULTILINE)

FUNCTIONS = [name for name in mlgen.__all__ if inspect.isfunction(getattr(mlgen, name))]
CLASSES = [getattr(mlgen, name) for name in mlgen.__all__ if name not in FUNCTIONS]
VALUES = [
    *(Rendered, Foreign, Prerequisite, Place),
    *(Applied, JobState, ProgressState, JobSummary, LogLine, Deletion),
]
"""Classes of values in a result, which `mlgen` does not export."""

SOURCES = "Source, or several"

SHORT = {
    "Source | Iterable[Source]": SOURCES,
    "dict[str, Any]": "dict",
    "ValuePath": "tuple[str | int, ...]",
    "Object": "dict",
    "Target": "str",
    "Site": "object",
    "KubeVersion": "KubeVersion",
    "TrainingJob": "object",
    "Topology": "object",
    "Document": "object",
    "Combination": "object",
}
"""Types in the form of the page. `object` is a class that is not public."""

INTRO = """\
# Python API

<!-- Written by .ci/reference; do not edit. -->

Use mlgen from a notebook, a test or an Airflow task, without the command line.
[Python](../integrations/python.md) has examples.

```python
import mlgen
```

These names are the public API. All other modules are private and can change in any version. The
functions read no cluster, no network and no environment variables. For invalid input, they raise
`MlgenError` with all problems.

A *Source* is a [job](../glossary.md#job) in one of these forms. Pass several as a list.

- a mapping with the fields of a [job file](fields/index.md) or a custom resource
- the path of a file or folder, as `str` or `pathlib.Path`, or `"-"` for stdin
- text: a string with at least one line break
"""


def sections(item):
    """Return the text of a docstring, and its sections: a mapping of entries, or a text."""
    text = inspect.cleandoc(item.__doc__ or "") + "\n"
    parts = {name: textwrap.dedent(body) for name, body in SECTION.findall(text)}
    entries = {
        name: {key: _joined(value) for key, value in ENTRY.findall(body)}
        for name, body in parts.items()
        if name != "Returns"
    }
    prose = SECTION.sub("", text).strip()
    return prose, entries, _joined(parts.get("Returns", ""))


def _joined(text):
    """Return a text with one line per paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _type(annotation):
    """Return a type in the form of the page."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"(?:typing\.)?Literal\[.*?\]", "str", text)
    text = re.sub(r"\b(?:typing|collections\.abc|mlgen(?:\.\w+)*)\.(?=\w)", "", text)
    text = text.replace('"', "").replace("'", "")
    for long, short in SHORT.items():
        text = re.sub(rf"(?<![\w.]){re.escape(long)}(?!\w)", short, text)
    return text


def described(item):
    """Return the rows of a function's parameters or a class's fields: name, type, default, text.

    The text is "" if the docstring does not describe it.
    """
    _, entries, _ = sections(item)
    texts = entries.get("Args", {}) | entries.get("Attributes", {})
    if inspect.isclass(item) and issubclass(item, Exception):
        types = {"problems": "tuple[Problem, ...]"}
        rows = [(name, types.get(name, "str"), MISSING) for name in texts]
    else:
        parameters = inspect.signature(item).parameters.values()
        rows = [(_written(each), each.annotation, each.default) for each in parameters]
    return [
        (name, _type(of), "" if default is MISSING else _default(default), _sentence(texts, name))
        for name, of, default in rows
    ]


def _written(parameter):
    """Return the name of a parameter, with the stars of further arguments."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    return stars.get(parameter.kind, "") + parameter.name


def _sentence(texts, name):
    """Return the description of a name, with a capital first letter, or ""."""
    text = texts.get(name, "")
    return text[:1].upper() + text[1:]


def _default(value):
    """Return a default as code, with strings in double quotes as ruff formats them."""
    if isinstance(value, str):
        return json.dumps(value)
    return str(value) if type(value).__name__ == "KubeVersion" else repr(value)


def properties(item):
    """Return the rows of a class's public properties: name, type, text."""
    return [
        (name, _type(value.fget.__annotations__["return"]), _joined(value.__doc__ or ""))
        for name, value in vars(item).items()
        if isinstance(value, property) and not name.startswith("_")
    ]


def methods(item):
    """Return the rows of a class's public methods: call, type of the result, first paragraph."""
    return [
        (f"{name}({_signature(value)})", _type(inspect.signature(value).return_annotation), text)
        for name, value in vars(item).items()
        if inspect.isfunction(value) and not name.startswith("_")
        if not (text := _joined(sections(value)[0].split("\n\n")[0])).endswith("Internal.")
    ]


def _signature(item):
    """Return the parameters of a function or method as in a call."""
    return ", ".join(
        _written(each) + ("" if each.default is MISSING else f"={_default(each.default)}")
        for each in inspect.signature(item).parameters.values()
        if each.name != "self"
    )


def function(name):
    """Return the section of a function."""
    item = getattr(mlgen, name)
    prose, _, returns = sections(item)
    lines = [f"### mlgen.{name}", "", "```python", f"mlgen.{name}({_signature(item)})", "```", ""]
    lines += [prose, ""]
    for parameter, of, _, text in described(item):
        rest = text.partition(". ")[2] if of == SOURCES else text  # the introduction defines it
        lines.append(_entry(parameter, of, rest).strip())
    kind = _type(inspect.signature(item).return_annotation)
    return "\n".join([*lines, f"- Returns `{kind}`: {returns}", ""])


def klass(item, name, seen):
    """Return the section of a class. Fields as in a class that was seen are only named."""
    lines, same = [f"### {name}", "", _joined(sections(item)[0]), ""], {}
    values = item in VALUES
    for field, of, default, text in described(item):
        end = f" Default: `{default}`." if default and not values and "Default" not in text else ""
        entry = _entry(field, of, text + end)
        if seen.setdefault(entry, item) is item or len(text.split()) < 4:
            lines += [entry] * ("Internal" not in text)
        else:
            same.setdefault(seen[entry].__name__, []).append(f"`{field}`")
    lines += [_entry(field, of, text) for field, of, text in properties(item)]
    lines += [f"- {', '.join(names)}: as in `{other}`" for other, names in same.items()]
    lines += [_entry(call, of, text) for call, of, text in methods(item)]
    return "\n".join([*lines, ""])


def _entry(name, of, text):
    return f"- `{name}`: `{of}`. {text}"


def python_page():
    """Return docs/reference/python.md."""
    seen = {}
    return "\n".join(
        [
            INTRO,
            "## Functions\n",
            *map(function, FUNCTIONS),
            "## Classes\n",
            *(klass(item, f"mlgen.{item.__name__}", seen) for item in CLASSES),
            "## Values in a result\n",
            "Functions return these. Do not create them yourself.\n",
            *(klass(item, item.__name__, seen) for item in VALUES),
        ]
    )
