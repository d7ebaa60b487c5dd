"""The reference pages of `docs/`, and the generated part of a framework's page, as Markdown.

`.ci/reference` writes them; a test compares them with what is checked in.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape

from mlgen.flow import flow
from mlgen.reference import fields, problem_codes
from mlgen.reference.facts import INDEX_MEANS, RoleFacts, facts, uses_index
from mlgen.reference.fields import Field
from mlgen.reference.man import Manual
from mlgen.reference.problem_codes import COMMAND, Example
from mlgen.topology import INDEX

NOTE = "<!-- Written by .ci/reference; do not edit. -->"

NAMES = {"<role>": "worker", "<name>": "data"}
"""Names for placeholders in examples."""

ROLE = ("spec", "roles", "<role>")

FIELDS = f"""# Fields

{NOTE}

Every field of a job file. `mlgen explain spec.runPolicy` prints the same for one of them, and
`mlgen explain --recursive` a tree of all. *Required* means: where its parent is set.
Below `spec.template`, all fields of the pod template of your Kubernetes version are allowed:
`mlgen explain spec.template.spec`.
"""

COMMANDS = f"""# Commands

{NOTE}

`mlgen COMMAND --help` prints the same, and `mlgen man` a manual page.
"""

PROBLEMS = f"""# Problems

{NOTE}

Each problem is reported as one line: `file:line:column: path: what is wrong; what to do [code]`.
A new version can reword the message, but the code does not change its meaning. If there is any
problem other than a warning, nothing is rendered, and the exit status is 1. `mlgen explain CODE`
prints what follows for one code; [How problems are printed](problem-formats.md) has the other
formats: JSON, SARIF and annotations of GitHub.
"""


def fields_page() -> str:
    """Return the page of all fields of the job file."""
    root = fields.root()
    objects = [root, *(field for field in fields.every() if _has_section(field))]
    return "\n".join([FIELDS, *(_object(field) for field in objects)])


def commands_page(manual: Manual, groups: Mapping[str, Collection[str]]) -> str:
    """Return the page of all commands.

    Args:
        manual: of mlgen.
        groups: the titles under which its commands are, with their names.
    """
    by_name = {inner.name.rpartition(" ")[2]: inner for inner in manual.commands}
    parts = [COMMANDS]
    for title, names in groups.items():
        parts.append(f"## {title}\n")
        parts += ["\n".join(_command(by_name[name], "###")) for name in names]
    return "\n".join(parts)


def problems_page() -> str:
    """Return the page of all problem codes."""
    return "\n".join([PROBLEMS, *("\n".join(_code(code)) for code in problem_codes.names())])


def framework_block(name: str) -> str:
    """Return the generated part of the page of a framework."""
    known = facts(name)
    roles = ", ".join(f"`{role}`" for role in known.roles) or "any"
    parts = [f"Roles: {roles}.", _block("yaml", known.example)]
    parts += ["In this example:", *map(_role, known.laid_out)]
    if uses_index(known.laid_out):
        parts.append(INDEX_MEANS.replace(INDEX, f"`{INDEX}`"))
    if known.more:
        parts += ["With more roles:", *map(_role, known.more)]
    for variant in known.variants:
        parts.append(f"With {_code_of(f'options: {flow({variant.option: variant.value})}')}:")
        parts += map(_role, variant.roles)
    options = fields.options(name)
    if options:
        alone = [replace(option, frameworks=(name,)) for option in options]
        parts += ["Options, under `spec.options`:", _list(alone, "../reference/fields.md")]
    return "\n\n".join(parts) + "\n"


def _has_section(field: Field) -> bool:
    """Return whether a field has fields that the page lists, and is not one of any name itself."""
    return any(child.schema for child in field.children())


def _object(field: Field) -> str:
    """Return the section of an object: what it means, and the fields in it."""
    children = [child for child in field.children() if child.schema]
    parts = []
    if field.path:
        parts += [f"## {_heading(field)}", _text(field.description)]
    if field.path == ROLE:
        children = [child for child in children if not fields.shared_with_roles(child)]
        parts.append(
            "A role also has the fields of [`spec`](#spec) that can be set for all roles, and"
            f" overrides them: {', '.join(f'`{name}`' for name in _shared_names())}."
        )
    return "\n\n".join([*parts, _list(children)]) + "\n"


def _shared_names() -> list[str]:
    """Return the names of the fields that can be set in `spec` and in a role."""
    (spec,) = fields.root().child("spec")
    return [child.name for child in spec.children() if fields.shared_with_roles(child)]


def _list(children: Sequence[Field], page: str = "") -> str:
    """Return a list of fields.

    Args:
        children: the fields.
        page: the page on which they have sections; "" for the same.
    """
    lines = []
    for child in children:
        name = f"`{child.name}`"
        if _has_section(child):
            name = f"[{name}]({page}#{_anchor(child)})"
        kinds = [_code_of(child.type), *["required"] * child.required]
        if not page and child.path[:-1] == ("spec", "options"):
            kinds.append(f"of {', '.join(child.frameworks)}")
        lines.append(f"- {name} ({', '.join(kinds)}): {' '.join(_meaning(child))}")
    return "\n".join(lines)


def _meaning(field: Field) -> Iterator[str]:
    """Yield the sentences about a field in a list."""
    yield _text(field.description)
    if field.values:
        yield f"Values: {', '.join(map(_code_of, field.values))}."
    if field.default is not None:
        yield f"Default: {_code_of(flow(field.default))}."
    name = field.name if not field.name.startswith("<") else NAMES[field.name]
    yield from (f"Example: {_code_of(f'{name}: {flow(e)}')}" for e in field.examples[:1])


def _role(role: RoleFacts) -> str:
    """Return what a role of a framework's example gets."""
    lines = [f"- `{role.name}`: {role.sentence}." if role.sentence else f"- `{role.name}`:"]
    lines += [
        f"    - listens on port {port}" + ("" if name == "peers" else f" ({name})")
        for name, port in role.ports.items()
    ]
    lines += [f"    - waits for {_text(text)}" for text in role.waits]
    if role.command:
        lines.append(f"    - runs, unless it has a command: `{role.command}`")
    lines += [f"    - gets {_code_of(f'{name}={value}')}" for name, value in role.env.items()]
    if role.without:
        lines.append(f"    - does not get {', '.join(map(_code_of, role.without))}")
    return "\n".join(lines)


def _command(manual: Manual, level: str) -> Iterator[str]:
    """Yield the lines of a command."""
    yield f"{level} {manual.name}\n"
    yield _block("text", manual.usage) + "\n"
    yield f"{_text(manual.summary)}\n"
    for paragraph in manual.paragraphs:
        yield (_block("text", paragraph) if "\n" in paragraph else _text(paragraph)) + "\n"
    for names, text in manual.own_options:
        yield f"- {_code_of(names)}: {_text(text)}"
    yield ""
    if manual.examples:
        yield _block("text", manual.examples) + "\n"
    for inner in manual.commands:
        yield from _command(inner, f"{level}#")


def _code(code: str) -> Iterator[str]:
    """Yield the lines of a problem code."""
    explanation = problem_codes.explanation(code)
    yield from (f"## {code}\n", f"{explanation.meaning}\n", f"{explanation.remedy}\n", "Wrong:\n")
    yield from _example(explanation.wrong)
    yield "Right:\n"
    yield from _example(explanation.right)


def _example(example: Example) -> Iterator[str]:
    """Yield the blocks of an example."""
    for name, text in example.files.items():
        language = "toml" if name.endswith(".toml") else "yaml"
        yield _block(f'{language} title="{name}"', text) + "\n"
    if example.commands != COMMAND:
        lines = [f"$ {line}" for line in example.commands.splitlines()]
        yield _block("text", "\n".join(lines)) + "\n"
    for message in example.messages.splitlines():
        yield f"> {_code_of(message)}\n"


def _block(language: str, text: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def _heading(field: Field) -> str:
    """Return the heading of an object; options say of which framework they are."""
    owners = f" of {', '.join(field.frameworks)}" if field.frameworks else ""
    return f"`{'.'.join(field.path)}`{owners}"


def _anchor(field: Field) -> str:
    """Return the anchor of the heading of an object, as GitHub and MkDocs make it."""
    heading = _heading(field).lower().replace(" ", "-")
    return "".join(c for c in heading if c.isalnum() or c in "-_")


def _text(text: str) -> str:
    """Return plain text, in which backquotes mark code, for a paragraph."""
    parts = text.split("`")
    parts[::2] = [escape(part, quote=False) for part in parts[::2]]
    return "`".join(parts)


def _code_of(text: str) -> str:
    """Return text as code."""
    return f"`{text}`"
