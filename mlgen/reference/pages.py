"""Pages of `mlgen explain`, as plain text for a terminal."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from textwrap import fill, indent
from typing import Any

from mlgen import frameworks
from mlgen.flow import flow
from mlgen.output.yaml import yaml_text
from mlgen.problems import did_you_mean
from mlgen.reference import fields, problem_codes
from mlgen.reference.facts import INDEX_MEANS, FrameworkFacts, RoleFacts, facts, uses_index
from mlgen.reference.fields import Field
from mlgen.reference.problem_codes import COMMAND, Example, Explanation

WIDTH = 100
MARGIN = 4
"""The number of columns of the pages, and of the margin of sections."""

EMPTY = '""'
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def page(topic: str = "", *, recursive: bool = False) -> str:
    """Return the page of a topic.

    Args:
        topic: a framework, a problem code or the path of a field; "" for the job file.
        recursive: print all fields in a field, as a tree.

    Raises:
        LookupError: there is nothing of that name; the message says what may be meant.
    """
    topic = topic.strip("[]")  # a code as in a message: [no-such-peer]
    if not topic:
        root = fields.root()
        names = frameworks.names()
        return field_page(root, recursive=True) if recursive else overview(names)
    if topic in frameworks.names():
        return framework_page(facts(topic), fields.options(topic))
    if topic in problem_codes.names():
        return code_page(problem_codes.explanation(topic))
    try:
        found = fields.find(topic)
    except LookupError as error:
        names = [*frameworks.names(), *problem_codes.names()]
        hint = did_you_mean(topic, names, cutoff=0.75)
        if "." in topic or not hint:
            raise
        message = f'there is no field, framework or problem code "{topic}"; {hint}'
        raise LookupError(message) from error
    return "\n".join(field_page(field, recursive=recursive) for field in found)


def field_page(field: Field, *, recursive: bool = False) -> str:
    """Return a field: its type, default, values, meaning and an example, and the fields in it.

    Args:
        field: of the job file.
        recursive: print all fields in it as a tree, with nothing but their types.
    """
    parts = [_title(field)]
    if field.default is not None:
        parts.append(_section("DEFAULT", [flow(field.default)]))
    if field.values:
        parts.append(_section("VALUES", [_wrapped(", ".join(field.values))]))
    parts.append(_section("DESCRIPTION", [_wrapped(field.description), *_elsewhere(field)]))
    if field.examples:
        lines = "\n".join("\n".join(example_lines(field, value)) for value in field.examples[:1])
        parts.append(_section("EXAMPLE", [lines]))
    children = field.children()
    if children and recursive:
        parts.append("FIELDS:\n" + "\n".join(_tree(field, native=bool(field.kind))))
    elif len(children) == 1 and children[0].name.startswith("<"):
        inner = "\n\n".join(map(_summary, children[0].children()))
        parts.append(f"FIELDS:\n{_summary(children[0])}\n\n{indent(inner, '  ')}")
    elif children:
        between = "\n\n" if any(child.schema for child in children) else "\n"
        parts.append("FIELDS:\n" + between.join(map(_summary, children)))
    return "\n\n".join(parts) + "\n"


def framework_page(known: FrameworkFacts, options: Sequence[Field]) -> str:
    """Return a framework: its roles, an example, what each replica of that gets, its options."""
    roles = ", ".join(known.roles) or "any"
    parts = [
        f"FRAMEWORK: {known.name} ({known.title})",
        _section("DESCRIPTION", [_wrapped(known.summary)]),
        _section("ROLES", [roles]),
        _section("EXAMPLE", [known.example.rstrip("\n")]),
        "IN THIS EXAMPLE:\n" + "\n\n".join(map(role_lines, known.laid_out)),
    ]
    if uses_index(known.laid_out):
        parts.append(f"  {INDEX_MEANS}")
    if known.more:
        parts.append("WITH MORE ROLES:\n" + "\n\n".join(map(role_lines, known.more)))
    for variant in known.variants:
        setting = flow({variant.option: variant.value})
        parts.append(f"WITH OPTIONS {setting}:\n" + "\n\n".join(map(role_lines, variant.roles)))
    if options:
        alone = [replace(option, frameworks=()) for option in options]
        parts.append("OPTIONS:\n" + "\n\n".join(map(_summary, alone)))
        parts.append(f"For more about an option: mlgen explain spec.options.{options[0].name}")
    return "\n\n".join(parts) + "\n"


def code_page(explanation: Explanation) -> str:
    """Return a problem code: what it means, what to do, a wrong and a right example."""
    parts = [
        f"CODE: {explanation.code}",
        _section("MEANING", [_wrapped(_plain(explanation.meaning))]),
        _section("WHAT TO DO", [_wrapped(_plain(explanation.remedy))]),
        _section("WRONG", list(_example(explanation.wrong))),
        _section("RIGHT", list(_example(explanation.right))),
    ]
    return "\n\n".join(parts) + "\n"


def overview(names: Iterable[str]) -> str:
    """Return the fields of the job file, and what else can be explained.

    Args:
        names: of the frameworks.
    """
    root = fields.root()
    (spec,) = root.child("spec")
    tops = [field for field in root.children() if field.name != "spec"]
    parts = [
        "A job file has these fields:",
        "\n".join(f"  {field.name} <{field.type}>{_required(field)}" for field in [*tops, spec]),
        "\n".join(
            f"    {field.name} <{field.type}>{_required(field)}" for field in spec.children()
        ),
        _section("For more, name one of these", list(_topics(names)), width=2),
    ]
    return "\n".join(parts[:3]) + "\n\n" + parts[3] + "\n"


def _topics(names: Iterable[str]) -> Iterator[str]:
    """Yield an example of each topic that can be explained."""
    yield "a field           mlgen explain spec.roles.worker.restartPolicy"
    yield "all fields        mlgen explain --recursive"
    yield "a framework       mlgen explain pytorch"
    yield fill(
        f"The frameworks are {', '.join(names)}.", WIDTH, initial_indent=" " * 18,
        subsequent_indent=" " * 18,
    )  # fmt: skip
    yield "a problem code    mlgen explain no-such-peer"


def example_lines(field: Field, value: Any) -> Iterator[str]:
    """Yield the lines of an example, within the fields around it."""
    steps = _shown_path(field)
    margins = ["  " * depth for depth in range(len(steps))]
    for depth in field.items:
        margins[depth] = f"{margins[depth][:-2]}- "
    for margin, step in zip(margins, steps[:-1], strict=False):
        yield f"{margin}{step}:"
    line = f"{margins[-1]}{steps[-1]}: {flow(value)}"
    if len(line) <= WIDTH - MARGIN:
        yield line
    else:
        lines = yaml_text([{steps[-1]: value}]).splitlines()[1:]
        rest = " " * len(margins[-1])
        yield from (f"{rest if number else margins[-1]}{line}" for number, line in enumerate(lines))


def _shown_path(field: Field) -> tuple[str, ...]:
    """Return the path of a field for an example, in which names stand for placeholders."""
    names = {"<role>": "worker", "<name>": "name"}
    return tuple(names.get(step, step) for step in field.path)


def _title(field: Field) -> str:
    """Return the first line of the page of a field."""
    owners = f" (option of {', '.join(field.frameworks)})" if field.frameworks else ""
    path = ".".join(field.path) or "a job file"
    return f"FIELD: {path} <{field.type}>{_required(field)}{owners}"


def _elsewhere(field: Field) -> Iterator[str]:
    """Yield where else a field can be set: for all roles, or for one."""
    if fields.shared_with_roles(field):
        alone = len(field.path) > 2  # noqa: PLR2004 - spec.image, spec.roles.worker.image
        other = f"spec.{field.name}" if alone else f"spec.roles.<role>.{field.name}"
        yield f"For {'all roles' if alone else 'one role'}: {other}"


def _required(field: Field) -> str:
    """Return the mark of a required field, as kubectl writes it."""
    return " -required-" if field.required else ""


def _summary(field: Field) -> str:
    """Return a field in the list of fields of another."""
    is_option = field.frameworks and field.path[:-1] == ("spec", "options")
    owners = f" ({', '.join(field.frameworks)})" if is_option else ""
    head = f"  {field.name} <{field.type}>{_required(field)}{owners}"
    if not field.schema:
        return head
    default = f" Default: {flow(field.default)}." if field.default is not None else ""
    return f"{head}\n{_wrapped(field.description + default, '    ')}"


def _tree(field: Field, depth: int = 1, *, native: bool) -> Iterator[str]:
    """Yield the lines of a tree of fields; with those that only Kubernetes' API has, or without."""
    for child in field.children():
        if child.schema or native:
            yield f"{'  ' * depth}{child.name} <{child.type}>{_required(child)}"
            yield from _tree(child, depth + 1, native=native)


def role_lines(role: RoleFacts) -> str:
    """Return what is known about a role of an example."""
    lines = [f"  {role.name}: {role.sentence}".rstrip()]
    if role.command:
        lines.append(f"    command:  {role.command}")
    for name, port in role.ports.items():
        lines.append(f"    port:     {port}" + ("" if name == "peers" else f" ({name})"))
    lines += [f"    waits for {text}" for text in role.waits]
    if role.env:
        width = max(map(len, role.env))
        lines.append("    variables:")
        lines += [f"      {name:{width}}  {value or EMPTY}" for name, value in role.env.items()]
    if role.without:
        lines.append(_wrapped(f"without {', '.join(role.without)}", "    "))
    return "\n".join(lines)


def _example(example: Example) -> Iterator[str]:
    """Yield the files, the commands and the messages of an example."""
    several = len(example.files) > 1 or example.commands != COMMAND
    for name, text in example.files.items():
        yield (f"# {name}\n" if several else "") + text.rstrip("\n")
    if several:
        yield "\n".join(f"$ {line}" for line in example.commands.splitlines())
    if example.messages:
        yield _wrapped(example.messages)


def _section(title: str, texts: Sequence[str], width: int = MARGIN) -> str:
    """Return a section: its texts, indented, each in a paragraph if one of them has lines."""
    between = "\n\n" if any("\n" in text for text in texts) and width > 2 else "\n"  # noqa: PLR2004
    return f"{title}:\n" + indent(between.join(texts), " " * width)


def _wrapped(text: str, margin: str = "") -> str:
    """Return a paragraph in lines that fit a terminal."""
    return fill(
        text,
        WIDTH - MARGIN,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _plain(text: str) -> str:
    """Return Markdown without its links and quotes of code."""
    return LINK.sub(r"\1", text).replace("`", "")
