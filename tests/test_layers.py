"""Data moves one way through the rooms: who may know whom is read off the source itself."""

import ast

import pytest
from jinja2 import nodes
from support import ROOT

from mlgen.frameworks import names
from mlgen.objects.skeleton import environment

PACKAGE = ROOT / "mlgen"

LAYERS = [
    {"mlgen"},
    {"problems", "resources", "files", "quantity", "podsecurity"},
    {"source", "job"},
    {"overrides", "topology", "hostports"},
    {"policies", "workflow"},
    {"layout"},
    {"ranks"},
    {"frameworks.*"},
    {"frameworks"},
    {"schema"},
    {"draft"},
    {"kubeflow_common"},
    {"kubeflow_old"},
    {"dialects.*"},
    {"dialects"},
    {"objects"},
    {"checks"},
    {"suffix"},
    {"gitops"},
    {"comments", "emit"},
    {"convert", "render", "resourcelist", "ssh", "verify"},
    {"folder"},
    {"diff"},
    {"hosts.*"},
    {"hosts"},
    {"cli"},
    {"__main__"},
]
"""From the first to the last; a module may import what stands in an earlier layer."""

ROOMS_OF_MANY = [["frameworks"], ["dialects"]]

INSIDE = {
    "mlgen.objects": [
        {"merge", "skeleton", "labels"},
        {"placement", "network", "storage", "security"},
        {"pod", "gang", "tensorboard"},
        {"workload", "supervisor"},
        {"objects"},
    ],
    "mlgen.checks": [{"pods"}, {"peers"}, {"references"}, {"checks"}],
    "mlgen.diff": [
        {"defaults"},
        {"compare"},
        {"immutable", "live", "shown"},
        {"effects"},
        {"diff"},
    ],
}
"""The same within a room of several modules."""

MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imported(tree):
    """Every module that is imported, be it late; what only type checkers read does not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        else:
            yield from imported(node)


def parsed(name):
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def within(name):
    """The room of several modules that a module is in, or is; or ""."""
    return next((room for room in INSIDE if f"{name}.".startswith(f"{room}.")), "")


def layer(name):
    room = name.removeprefix("mlgen.")
    for many in ("frameworks", "dialects", "hosts"):
        room = f"{many}.*" if room.startswith(f"{many}.") else room
    room = within(name).removeprefix("mlgen.") or room
    return next(number for number, rooms in enumerate(LAYERS) if room in rooms)


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_one_way(name):
    ours = {other for other in imported(parsed(name)) if other.split(".")[0] == "mlgen"}
    later = {other for other in ours if layer(other) >= layer(name)}

    for many in ("mlgen.frameworks.", "mlgen.dialects."):  # horovod is mpi, and more
        if name.startswith(many):
            later -= {other for other in later if other.startswith(many)}
    if within(name):
        later -= {other for other in later if within(other) == within(name)}
    assert set() == later


@pytest.mark.parametrize("name", [name for name in MODULES if within(name)])
def test_imports_within_a_room_go_one_way_too(name):
    def inner(module):
        return next(i for i, names in enumerate(layers) if module.rpartition(".")[2] in names)

    layers = INSIDE[within(name)]
    ours = {other for other in imported(parsed(name)) if within(other) == within(name)}

    assert set() == {other for other in ours if inner(other) >= inner(name)}


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("mlgen.frameworks.")])
def test_a_framework_knows_neither_yaml_nor_kubernetes_objects(name):
    tree = parsed(name)
    packages = {other.split(".")[0] for other in imported(tree)}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}

    assert set() == packages & {"yaml", "ruamel", "jinja2"}
    assert set() == texts & {"apiVersion", "kind", "metadata", "StatefulSet", "ConfigMap"}


@pytest.mark.parametrize("name", [n for n in MODULES if n.split(".")[1:2] not in ROOMS_OF_MANY])
def test_no_room_but_frameworks_and_dialects_knows_one_by_name(name):
    texts = {
        node.value
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    assert set() == texts & set(names())


def test_templates_do_not_know_a_framework_by_name():
    for template in (ROOT / "templates/objects").glob("*.yaml"):
        assert not [name for name in names() if name in template.read_text()]


@pytest.mark.parametrize("module", ["yaml", "ruamel", "jinja2", "jsonschema"])
def test_what_is_slow_to_import_is_imported_late(module):
    """So that `mlgen --help` is quick; what stands in a function is late."""
    early = [
        name
        for name in MODULES
        for node in parsed(name).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and module in {n.split(".")[0] for n in imported(ast.Module([node], []))}
    ]

    assert [] == early


TEMPLATES = environment().list_templates()


def test_templates_are_found():
    assert {path.name for path in (ROOT / "templates/objects").iterdir()} == set(TEMPLATES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_hole_holds_one_value_and_nothing_is_made_in_a_template(name):
    env = environment()
    tree = env.parse(env.loader.get_source(env, name)[0])

    outputs = [node for output in tree.find_all(nodes.Output) for node in output.nodes]
    holes = [node for node in outputs if not isinstance(node, nodes.TemplateData)]

    assert holes
    for hole in holes:
        assert isinstance(hole, nodes.Filter)
        assert ("hole", nodes.Name) == (hole.name, type(hole.node))
        assert not hole.args
    allowed = (nodes.If, nodes.Output)
    assert all(isinstance(node, allowed) for node in tree.body)


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_stands_around_a_hole_is_yaml(name):
    """A hole is the whole of a value, so it can never break the text around it."""
    for line in (ROOT / "templates/objects" / name).read_text().splitlines():
        before, opened, rest = line.partition("{{")
        if opened:
            assert before.endswith((": ", "- "))
            assert rest.endswith("| hole }}")
