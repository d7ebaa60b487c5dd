"""The parts that are made when a wheel is built: `mlgen/prepared/`, modules of plain data.

Each saves a start more than 15 ms: the checks of the schemas need no jsonschema, and the skeletons
of objects no Jinja. A checkout has no parts: there, mlgen computes what they say
(`resources.prepared`). `hook.py` puts the parts into the wheel; nothing else imports this package.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mlgen import dialects, frameworks
from mlgen.jobfile.patterns import python_pattern
from mlgen.jobfile.schema import base, of_matrix
from mlgen.objects.skeleton import parsed
from mlgen.resources import folder

MADE = '"""Made by `mlgen.build` for this version of mlgen. Do not edit."""\n\n'

Schema = Mapping[str, Any] | bool

TESTS = {
    "array": "isinstance({0}, list)",
    "boolean": "isinstance({0}, bool)",
    "integer": "(isinstance({0}, int) and not isinstance({0}, bool)"
    " or isinstance({0}, float) and {0}.is_integer())",
    "null": "{0} is None",
    "number": "(isinstance({0}, (int, float)) and not isinstance({0}, bool))",
    "object": "isinstance({0}, dict)",
    "string": "isinstance({0}, str)",
}
"""Each type of JSON Schema as a condition of Python."""

UNTYPED = ("object", "array", "string", "number")
"""The types that have keywords of their own."""

SILENT = {"$schema", "default", "definitions", "deprecated", "description", "examples", "title"}
"""Keywords by which no value is invalid."""

KNOWN = {
    *SILENT,
    *("$ref", "allOf", "const", "enum", "if", "not", "oneOf", "then", "type"),
    *("additionalProperties", "maxProperties", "minProperties", "properties", "propertyNames"),
    *("items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern"),
    *("required", "uniqueItems"),
}

REFERENCE = "#/definitions/"

PRELUDE = '''\
from re import search


def unique(items):
    """Return whether no two items are equal; True is not equal to 1 in JSON Schema.

    Lists and mappings are compared as in Python, so False may be wrong for them.
    """
    try:
        return len({(item, isinstance(item, bool)) for item in items}) == len(items)
    except TypeError:
        return not any(item in items[:number] for number, item in enumerate(items))
'''
"""What the functions use."""


def write(target: Path) -> None:
    """Write all prepared files into a folder.

    They depend on the checkout and its dependencies alone: the same input makes the same wheel.
    """
    for name, text in files().items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def files() -> dict[str, str]:
    """Return the text of every prepared file by its path below `mlgen/prepared/`."""
    texts = {"__init__.py": "", "checkers/__init__.py": "", "checkers/jobs.py": _jobs()}
    for name in dialects.names():
        texts[f"checkers/{name}.py"] = _dialect(name)
    names = sorted(path.stem for path in (folder("templates") / "objects").glob("*.yaml"))
    rows = "".join(f"    {name!r}: {parsed(name)!r},\n" for name in names)
    texts["skeletons.py"] = f"SKELETONS = {{\n{rows}}}\n"
    return {name: MADE + text for name, text in texts.items()}


def _jobs() -> str:
    """Return the checks of the job files of each framework, by its name, and of `spec.matrix`."""
    compiler = Compiler(base()["definitions"])
    every = frameworks.schema([])
    functions = {"spec.matrix": compiler.function(of_matrix())}
    for name in frameworks.names():
        own = frameworks.schema([name])["allOf"]
        functions[name] = compiler.function({"allOf": [every, *own]})
    return compiler.module(functions)


def _dialect(name: str) -> str:
    """Return the checks of the custom resources of an operator, by apiVersion and kind."""
    compiler = Compiler(base()["definitions"])
    kinds = dialects.get(name).kinds
    return compiler.module({key: compiler.function(dialects.schema(*key)) for key in kinds})


class Compiler:
    """A JSON Schema → the source of Python functions that return whether a value is valid.

    `jsonschema` says what is wrong, but takes forty times as long. The keywords are those of
    draft-07 that the schemas of mlgen use; another one is an error. A rule is as in jsonschema 4
    (_keywords.py, _types.py and _utils.py), for the values that YAML has. Equal parts of schemas
    share a function.

    Args:
        definitions: the schemas to which `$ref` refers, by name.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._lines: list[str] = [PRELUDE]
        self._functions: dict[str, str] = {}
        self._variables = 0

    def text(self) -> str:
        """Return the source of all functions."""
        return "\n".join(self._lines)

    def module(self, functions: Mapping[Any, str]) -> str:
        """Return the source of a module with a table of functions."""
        table = "".join(f"    {key!r}: {function},\n" for key, function in functions.items())
        return f"{self.text()}\n\nCHECKERS = {{\n{table}}}\n"

    def function(self, schema: Mapping[str, Any]) -> str:
        """Return the name of the function that returns whether a value is valid.

        Raises:
            ValueError: the schema has a keyword, or a use of one, that the compiler does not know.
        """
        text = json.dumps(schema)
        if text not in self._functions:
            name = self._functions[text] = f"is_valid_{len(self._functions)}"
            body = list(self._statements(schema, "value"))
            self._lines += ["", f"def {name}(value):", *_indented(body), "    return True", ""]
        return self._functions[text]

    def _checks(self, schema: Schema, value: str) -> Iterator[str]:
        """Yield the statements that return False if a value within another is invalid.

        Args:
            schema: of the value.
            value: the name of its variable.
        """
        if isinstance(schema, bool):
            yield from [] if schema else ["return False"]
        elif "properties" in schema:
            yield f"if not {self.function(schema)}({value}): return False"
        else:
            yield from self._statements(schema, value)

    def _statements(self, schema: Mapping[str, Any], value: str) -> Iterator[str]:
        """Yield the statements that return False if a value is invalid."""
        if "$ref" in schema:  # which overrides its siblings in draft-07
            definition = self._definitions[schema["$ref"].removeprefix(REFERENCE)]
            yield f"if not {self.function(definition)}({value}): return False"
            return
        if unknown := schema.keys() - KNOWN:
            raise ValueError(f"the compiler does not know {', '.join(sorted(unknown))}")
        yield from self._by_type(schema, value)
        choices = [*schema.get("enum", []), *([schema["const"]] if "const" in schema else [])]
        if not all(isinstance(choice, str) for choice in choices):
            raise ValueError("the compiler knows only strings in enum and const")  # 1 == True
        if "enum" in schema:
            yield f"if {value} not in {tuple(schema['enum'])!r}: return False"
        if "const" in schema:
            yield f"if {value} != {schema['const']!r}: return False"
        for inner in schema.get("allOf", []):
            yield from self._checks(inner, value)
        if "oneOf" in schema:
            calls = " + ".join(f"{self.function(option)}({value})" for option in schema["oneOf"])
            yield f"if {calls} != 1: return False"
        if "not" in schema:
            yield f"if {self.function(schema['not'])}({value}): return False"
        if "if" in schema:
            yield f"if {self.function(schema['if'])}({value}):"
            yield from _indented([*self._checks(schema.get("then", True), value), "pass"])

    def _by_type(self, schema: Mapping[str, Any], value: str) -> Iterator[str]:
        """Yield the statements for `type` and for the keywords that apply to one type only."""
        types = schema.get("type", UNTYPED)
        names = [types] if isinstance(types, str) else types
        word = "if"
        for name in names:
            body = list(self._of_type(name, schema, value))
            if body or "type" in schema:
                yield f"{word} {TESTS[name].format(value)}:"
                yield from _indented(body or ["pass"])
                word = "elif"
        if "type" in schema:
            yield "else: return False"

    def _of_type(self, name: str, schema: Mapping[str, Any], value: str) -> Iterator[str]:
        """Yield the statements for a value of a type."""
        if name == "object":
            yield from self._mapping(schema, value)
        elif name == "array":
            yield from self._list(schema, value)
        elif name == "string":
            yield from _limits(schema, f"len({value})", "minLength", "maxLength")
            if "pattern" in schema:
                pattern = python_pattern(schema["pattern"])
                yield f"if not search({pattern!r}, {value}): return False"
        elif name in ("integer", "number"):
            yield from _limits(schema, value, "minimum", "maximum")

    def _mapping(self, schema: Mapping[str, Any], value: str) -> Iterator[str]:
        yield from _limits(schema, f"len({value})", "minProperties", "maxProperties")
        missing = [f"{name!r} not in {value}" for name in schema.get("required", [])]
        if missing:
            yield f"if {' or '.join(missing)}: return False"
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        key, inner = self._variable("key"), self._variable("value")
        each = list(self._checks(schema.get("propertyNames", True), key))
        rest = list(self._checks(others, inner))
        if known and rest:
            rest = [f"if {key} not in {{{', '.join(map(repr, known))}}}:", *_indented(rest)]
        if each or rest:
            yield f"for {key}, {inner} in {value}.items():"
            yield from _indented([*each, *rest])
        for name, field in known.items():
            checks = list(self._checks(field, inner))
            if checks:
                yield f"if {name!r} in {value}:"
                yield from _indented([f"{inner} = {value}[{name!r}]", *checks])

    def _list(self, schema: Mapping[str, Any], value: str) -> Iterator[str]:
        yield from _limits(schema, f"len({value})", "minItems", "maxItems")
        if schema.get("uniqueItems"):
            yield f"if not unique({value}): return False"
        item = self._variable("item")
        each = list(self._checks(schema.get("items", True), item))
        if each:
            yield f"for {item} in {value}:"
            yield from _indented(each)

    def _variable(self, kind: str) -> str:
        """Return a name that no other variable has."""
        self._variables += 1
        return f"{kind}_{self._variables}"


def _limits(schema: Mapping[str, Any], size: str, low: str, high: str) -> Iterator[str]:
    """Yield the statements for the keywords of the least and the greatest size."""
    if low in schema:
        yield f"if {size} < {schema[low]!r}: return False"
    if high in schema:
        yield f"if {size} > {schema[high]!r}: return False"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
