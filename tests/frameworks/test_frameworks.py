"""A framework is complete: module, fixtures, goldens, a page and a row in the docs."""

import re
from functools import cache

from support import FIXTURES, ROOT, load_all

from mlgen import frameworks
from mlgen.frameworks import Framework
from mlgen.jobfile.schema import base

NAMES = frameworks.names()
TABLE = (ROOT / "docs/frameworks/index.md").read_text()
GOLDENS = ROOT / "tests/__snapshots__/test_golden"
FAMILY = ("mpi", "horovod", "deepspeed")
"""Frameworks that share options. A fixture of one of them is enough."""


@cache
def every_spec():
    return [load_all(path.read_text())[0]["spec"] for path in FIXTURES]


def specs(*names):
    """Return the `spec` of each fixture of these frameworks."""
    return [spec for spec in every_spec() if spec["framework"] in names]


def missing(name):
    """Return the missing parts of a framework, as text."""
    framework = frameworks.get(name)
    if not re.fullmatch(r"[A-Z]\w+", framework.title):
        yield f"a title that is one word: {framework.title!r}"
    if not re.fullmatch(r"[A-Z].*\.", framework.summary):
        yield f"a summary that is a sentence: {framework.summary!r}"
    if f"| [`{name}`]({name}.md) |" not in TABLE:
        yield f"a row for `{name}` in the table of docs/frameworks/index.md"
    if not (ROOT / f"docs/frameworks/{name}.md").exists():
        yield f"a page docs/frameworks/{name}.md"
    fixtures = [path for path in FIXTURES if path.stem.split("-")[0] == name]
    if not fixtures:
        yield f"a job file fixtures/{name}.yaml or fixtures/{name}-*.yaml"
    for path in fixtures:
        if not (GOLDENS / f"test_manifests[{path.stem}].yaml").exists():
            yield f"the golden of fixtures/{path.name}; run pytest --snapshot-update"
    roles = {role for spec in specs(name) for role in spec["roles"]}
    for role in sorted(set(framework.roles or ()) - roles):
        yield f"a fixture with the role {role}"
    yield from missing_of_options(name)


def missing_of_options(name):
    """Return the missing parts of a framework's options, as text."""
    schemas = ROOT / f"schemas/options/{name}.json"
    if not schemas.exists():
        yield f"a schema for each of its options, or {{}}, in schemas/options/{name}.json"
    family = specs(*(FAMILY if name in FAMILY else [name]))
    options = {option for spec in family for option in spec.get("options", {})}
    own = frameworks.options(name) if schemas.exists() else {}
    for option in sorted({*own, *frameworks.get(name).renamed_options} - options):
        yield f"a fixture with the option {option}"


def test_a_framework_is_complete():
    lacks = [f"{name}: {part}" for name in NAMES for part in missing(name)]

    assert not lacks, "add to the frameworks:\n- " + "\n- ".join(lacks)


def test_a_framework_without_anything_gets_one_list_of_what_it_lacks(monkeypatch):
    new = Framework(
        name="new",
        title="a b",
        summary="no sentence",
        rules={"head": {}},
        first_job={"roles": {}},
        renamed_options={"length": "size"},
    )
    monkeypatch.setattr(frameworks, "get", {"new": new}.get)

    assert list(missing("new")) == [
        "a title that is one word: 'a b'",
        "a summary that is a sentence: 'no sentence'",
        "a row for `new` in the table of docs/frameworks/index.md",
        "a page docs/frameworks/new.md",
        "a job file fixtures/new.yaml or fixtures/new-*.yaml",
        "a fixture with the role head",
        "a schema for each of its options, or {}, in schemas/options/new.json",
        "a fixture with the option length",
    ]


def test_every_field_of_the_job_file_is_used_by_a_fixture():
    spec = base()["properties"]["spec"]["properties"]
    folders = ("matrix", "kubernetes-1.36", "kubernetes-1.37")
    several = [path for name in folders for path in (ROOT / "fixtures" / name).glob("*.yaml")]
    text = "".join(path.read_text() for path in [*FIXTURES, *several])
    nested = [name for field in spec.values() for name in field.get("properties", {})]

    unused = [field for field in [*spec, *nested] if f"{field}:" not in text]

    assert unused == ["managedBy"]  # it is always an error


def test_the_folder_of_the_frameworks_contains_nothing_else():
    files = {path.name for path in (ROOT / "mlgen/frameworks").glob("*") if path.is_file()}

    public = {name for name in files if not name.startswith("_")}
    assert public == {f"{name}.py" for name in NAMES}


def test_every_schema_of_options_is_that_of_a_framework():
    assert sorted(path.stem for path in (ROOT / "schemas/options").iterdir()) == NAMES


def test_the_names_are_sorted():
    assert sorted(NAMES) == NAMES
