"""The packages of `mlgen/` and their imports match the table in CONTRIBUTING.md."""

import ast
import re
from graphlib import TopologicalSorter

import pytest
from jinja2 import nodes
from support import ROOT

from mlgen.frameworks import names
from mlgen.objects.skeleton import SLOTS, environment

PACKAGE = ROOT / "mlgen"

MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

PLUGINS = ("dialects", "frameworks")
"""Packages with modules that may import each other. For example, horovod extends mpi."""


COMMON = {"bounds", "problems", "resources", "kubernetes", "documents", "jobfile", "topology"}
"""Packages that every package below them in the table may import. The table omits them."""


def table():
    """Return each package of the table in CONTRIBUTING.md, with its other imports."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)(?:/[\w.<>]*)?` \|[^\n]*\|([^|\n]*)\|$", text, re.MULTILINE)
    return {name.removesuffix(".py"): set(re.findall(r"`(\w+)`", cell)) for name, cell in rows}


PACKAGES = table()


def package(module):
    """Return the package of a module: a folder or file in `mlgen/`, or "mlgen" itself."""
    return module.split(".")[1] if "." in module else "mlgen"


def imported(tree):
    """Yield every imported module, including late and type-checking imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                qualified_name = f"{node.module}.{alias.name}"
                yield qualified_name if qualified_name in MODULES else node.module


def names_imported(tree):
    """Yield the module and the name of each `from ... import ...`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and package(node.module or "") and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def parsed(name):
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def ours(name):
    return {other for other in imported(parsed(name)) if other.split(".")[0] == "mlgen"}


def test_the_table_lists_every_package():
    assert set(PACKAGES) == {package(name) for name in MODULES} - {"__main__"}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_imports_only_packages_in_its_row(name):
    imports = {
        package(other) for module in MODULES if package(module) == name for other in ours(module)
    } - {name}

    assert PACKAGES[name] in (imports - COMMON, {"any"})


def test_packages_import_only_packages_above_them_in_the_table():
    """Imports have no cycles, and the table follows the data flow."""
    order = list(PACKAGES)

    for module in set(MODULES) - {"mlgen.__main__"}:
        below = [
            other
            for other in map(package, ours(module))
            if other != package(module) and order.index(other) > order.index(package(module))
        ]
        assert [] == below, module


@pytest.mark.parametrize("name", MODULES)
def test_no_private_name_is_imported_across_packages(name):
    private = [
        f"{module}.{imported_name}"
        for module, imported_name in names_imported(parsed(name))
        if module.split(".")[0] == "mlgen"
        and package(module) != package(name)
        and any(re.match(r"_[^_]", part) for part in (*module.split("."), imported_name))
    ]

    assert [] == private


@pytest.mark.parametrize("name", [name for name in PACKAGES if name not in PLUGINS])
def test_modules_of_a_package_have_no_circular_imports(name):
    graph = {
        module: {other for other in ours(module) if package(other) == name and other != module}
        for module in MODULES
        if package(module) == name
    }
    entry = f"mlgen.{name}"
    for imports in graph.values():
        imports.discard(entry)  # a submodule imports its package, which may import submodules

    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("mlgen.frameworks.")])
def test_a_framework_uses_neither_yaml_nor_kubernetes_objects(name):
    tree = parsed(name)
    packages = {other.split(".")[0] for other in imported(tree)}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}

    assert set() == packages & {"yaml", "ruamel", "jinja2"}
    assert set() == texts & {"apiVersion", "kind", "metadata", "StatefulSet", "ConfigMap"}


@pytest.mark.parametrize("name", [n for n in MODULES if package(n) not in PLUGINS])
def test_only_frameworks_and_dialects_mention_a_framework(name):
    texts = {
        node.value
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    assert set() == texts & set(names())


def test_templates_do_not_mention_a_framework():
    for template in (ROOT / "templates/objects").glob("*.yaml"):
        assert not [name for name in names() if name in template.read_text()]


@pytest.mark.parametrize("module", ["yaml", "ruamel", "jinja2", "jsonschema"])
def test_slow_modules_are_imported_inside_functions(module):
    """Late imports keep `mlgen --help` fast. Only reading documents needs the YAML parser."""
    early = [
        name
        for name in MODULES
        if (module, package(name)) != ("yaml", "documents")
        for node in parsed(name).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and module in {n.split(".")[0] for n in imported(ast.Module([node], []))}
    ]

    assert [] == early


@pytest.mark.parametrize("name", MODULES)
def test_no_file_has_more_than_700_lines(name):
    assert len(MODULES[name].read_text().splitlines()) <= 700


TEMPLATES = sorted(path.name for path in (ROOT / "templates/objects").iterdir())


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_slot_holds_one_value_and_a_template_computes_nothing(name):
    tree = environment().parse((ROOT / "templates/objects" / name).read_text())

    outputs = [node for output in tree.find_all(nodes.Output) for node in output.nodes]
    slots = [node for node in outputs if not isinstance(node, nodes.TemplateData)]

    assert slots
    for slot in slots:
        assert isinstance(slot, nodes.Filter)
        assert slot.name in SLOTS
        assert isinstance(slot.node, nodes.Name)
        assert not slot.args
    assert all(isinstance(node, nodes.Output) for node in tree.body)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_slot_is_the_whole_value_of_a_yaml_key_or_item(name):
    """Otherwise, a value could break the YAML around it."""
    for line in (ROOT / "templates/objects" / name).read_text().splitlines():
        before, opened, rest = line.partition("{{")
        if opened:
            assert before.endswith((": ", "- "))
            assert rest.endswith(("| slot }}", "| optional }}"))


def test_the_path_of_one_job_names_files_and_functions_that_exist():
    text = (ROOT / "docs/how/code.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+\. .* \| (.*) \| (.*) \|$", text, re.MULTILINE)

    assert len(rows) > 10
    for files, functions in rows:
        sources = [(PACKAGE / name).read_text() for name in re.findall(r"`(.+?)`", files)]
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", functions):
            assert any(re.search(rf"^ *(def|class) {name}\b", one, re.MULTILINE) for one in sources)
