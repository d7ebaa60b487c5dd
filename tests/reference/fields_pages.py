"""Generate the pages of docs/reference/fields from the schema and the frameworks."""

from itertools import groupby
from operator import attrgetter
from textwrap import dedent
from typing import NamedTuple

from reference.markdown import anchor, cell, filled, markdown

from mlgen.jobfile.schema import meanings
from mlgen.reference import fields
from mlgen.reference.fields import Field
from mlgen.reference.pages import MORE_ROLES, example, facts


class Group(NamedTuple):
    """A page: its title, the subject of its fields, and the names of its fields of `spec`."""

    title: str
    subject: str
    names: str


GROUPS = {
    "options": Group("Framework and options", "the framework and its options", "framework options"),
    "roles": Group(
        "Roles and restarts",
        "roles, restarts of their replicas, waits and sweeps",
        "roles restartPolicy retryableExitCodes waitFor wait matrix",
    ),
    "containers": Group(
        "Containers",
        "the training container, init containers and the template of the pods",
        "image imagePullPolicy imagePullSecrets command args workingDir env envFrom resources"
        " mainContainer securityContext initContainers preflight template",
    ),
    "volumes": Group(
        "Volumes",
        "volumes, shared memory, PersistentVolumeClaims and TensorBoard",
        "volumes shmSize claims tensorboard",
    ),
    "scheduling": Group(
        "Scheduling",
        "gangs, queues, priority and the choice of nodes",
        "scheduling nodeSelector tolerations affinity topologySpreadConstraints",
    ),
    "run-policy": Group(
        "Run policy",
        "retries, restarts, deadlines, cleanup, progress and the outcome of the job",
        "runPolicy successPolicy",
    ),
    "network": Group("Network", "addresses, ports, the host network and RDMA", "network port"),
    "security": Group(
        "Security and helpers",
        "users, PodSecurity levels, ServiceAccounts, and the containers that mlgen adds",
        "security serviceAccountName helpers",
    ),
}
"""Pages by file name. Together they contain every field of `spec`."""

NATIVE = ("affinity", "initContainers", "template")
"""Fields of `spec` whose fields `kubectl explain` describes."""

LONG = 9
"""Words of a description that is not repeated."""


class Row(NamedTuple):
    """A field in a table.

    Attributes:
        name: its path from the object of the table.
        same: another field that has the description, or None.
        inner: another field that has the inner fields, or None.
        example: True to show an example: neither its values nor its parent's example is one.
    """

    field: Field
    name: str
    same: Field | None
    inner: Field | None
    example: bool


class Section(NamedTuple):
    """A table of fields inside a field, or in `spec` if it is None, and the owners of options."""

    field: Field | None
    frameworks: tuple[str, ...]
    rows: list[Row]


def fields_pages():
    """Return the pages of fields, by file name without its extension."""
    (spec,) = fields.root().child("spec")
    children = {child.name: child for child in spec.children()}
    pages = {
        page: [children.pop(name) for name in group.names.split()] for page, group in GROUPS.items()
    }
    assert not children, f"no page has the fields {', '.join(children)}"
    tops = [field for field in fields.root().children() if field != spec]
    seen = _first([*tops, *(field for found in pages.values() for field in found)])
    texts = {"index": _filled("fields.md", sections=_sections(tops, seen), groups=GROUPS, of=pages)}
    for page, found in pages.items():
        sections = _sections(found, seen)
        texts[page] = _filled("fields-group.md", sections=sections, group=GROUPS[page], page=page)
    return texts


def framework_block(name):
    """Return the generated part of the page of a framework."""
    known = facts(name)
    return _filled(
        "framework.md",
        known=known,
        spec=dedent(known.example.partition("\nspec:\n")[2]),
        settings={key: known.settings[key] for key in ("", MORE_ROLES) if key in known.settings},
        options=fields.options(name),
    )


def _filled(template, **values):
    functions = {
        "example": example,
        "explained": _explained,
        "id": _id,
        "per_role": fields.shared_with_roles,
        "target": target,
        "valued": _valued,
    }
    return filled(template, **functions, **values)


def target(field, here=""):
    """Return the address of a field for a link from a page in the folder of fields."""
    step = field.path[1] if field.path[1:] else ""
    names = (page for page, group in GROUPS.items() if step in group.names.split())
    page = f"{next(names, 'index')}.md"
    has_section = len(field.path) < 3 and _inside(field)
    place = anchor(f"`{'.'.join(field.path)}`") if has_section else _id(field)
    return f"{page if page != here else ''}#{place}" if place != "specoptions" else page


def _id(field):
    """Return the anchor of a field: `spec-roles-role-replicas`."""
    steps = [*field.path, *(field.frameworks[:1] if field.path[1:2] == ("options",) else ())]
    return "-".join(step.strip("<>").lower() for step in steps)


def _explained(field):
    """Return the values of a field if its description explains all: `None: keep everything.`."""
    return field.values if all(meanings(field.description, field.values)) else []


def _valued(field):
    """Return the description of a field for a table cell, with a line per explained value."""
    text = markdown(field.description)
    for value in _explained(field):
        text = text.replace(f". {value}: ", f".<br>{cell(value)}: ", 1)
    return text


def _first(found):
    """Return the first field with a description, and with some inner fields, breadth first."""
    first, found = {}, list(found)
    for field in found:
        found += _inside(field)
        first.setdefault((field.name, field.description), field)
        first.setdefault(_shape(field), field)
    return first


def _shape(field):
    return tuple((child.name, child.description) for child in _inside(field))


def _sections(found, seen):
    """Return the sections of a page with some fields."""
    alone = [field for field in found if not _inside(field)]
    sections = [Section(None, (), [row for field in alone for row in _rows(field, seen)])]
    for field in filter(_inside, found):
        owner = attrgetter("frameworks")
        for frameworks, part in groupby(sorted(_inside(field), key=owner), owner):
            rows = [row for child in part for row in _rows(child, seen)]
            sections.append(Section(field, frameworks, rows))
    return [section for section in sections if section.rows]


def _inside(field):
    """Return the fields inside a field that are in the reference."""
    children = [child for child in field.children() if child.schema and field.name not in NATIVE]
    shared = fields.shared_with_roles if field.name == "<role>" else lambda _: False
    return [child for child in children if not shared(child)]


def _rows(field, seen, prefix="", parent=None):
    """Yield the row of a field, and the rows of the fields inside it."""
    same, inner = seen[field.name, field.description], seen[_shape(field)]
    is_new = len(field.description.split()) < LONG or same == field
    is_simple = field.values or {*field.type.split(" or ")} <= {"boolean", "integer"}
    children = _inside(field) if is_new and inner == field else ()
    yield Row(
        field,
        prefix + field.name,
        None if is_new else same,
        inner if is_new and not children and _inside(field) else None,
        is_new and not is_simple and not (parent and field.name in str(parent.examples[:1])),
    )
    prefix = "" if field.name.startswith("<") else f"{prefix}{field.name}."
    for child in children:
        yield from _rows(child, seen, prefix, field)
