"""The packages of `mlgen/` and their imports match the table in CONTRIBUTING.md."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter

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


COMMON = {
    *("version", "input_limits", "problems", "resources"),
    *("kubernetes", "documents", "jobfile", "topology"),
}
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


def imported(nodes):
    """Yield every imported module, including late and type-checking imports."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                qualified_name = f"{node.module}.{alias.name}"
                yield qualified_name if qualified_name in MODULES else node.module


def names_imported(name):
    """Yield the module and the name of each `from ... import ...` of a module."""
    for node in of_interest(name):
        if isinstance(node, ast.ImportFrom) and package(node.module or "") and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


@cache
def parsed(name):
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


@cache
def of_interest(name):
    """Return the imports and the string constants of a module."""
    return [
        node
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ]


@cache
def ours(name):
    return {other for other in imported(of_interest(name)) if other.split(".")[0] == "mlgen"}


def texts(name):
    """Return the string constants of a module."""
    return {node.value for node in of_interest(name) if isinstance(node, ast.Constant)}


def test_the_table_lists_every_package():
    assert set(PACKAGES) == {package(name) for name in MODULES} - {"__main__"}


def test_a_package_imports_the_packages_in_its_row():
    imports = {name: set() for name in PACKAGES}
    for module in set(MODULES) - {"mlgen.__main__"}:
        imports[package(module)] |= {package(other) for other in ours(module)} - {package(module)}
    rows = {name: row for name, row in PACKAGES.items() if row != {"any"}}

    assert rows == {name: imports[name] - COMMON for name in rows}


def test_packages_import_only_packages_above_them_in_the_table():
    """Imports have no cycles, and the table follows the data flow."""
    order = list(PACKAGES)

    below = [
        f"{module} imports {other}"
        for module in MODULES
        if module != "mlgen.__main__"
        for other in ours(module)
        if order.index(package(other)) > order.index(package(module))
    ]

    assert [] == below


def test_no_private_name_is_imported_across_packages():
    private = [
        f"{name} imports {module}.{imported_name}"
        for name in MODULES
        for module, imported_name in names_imported(name)
        if module.split(".")[0] == "mlgen"
        and package(module) != package(name)
        and any(re.match(r"_[^_]", part) for part in (*module.split("."), imported_name))
    ]

    assert [] == private


def test_modules_of_a_package_have_no_circular_imports():
    graph = {
        module: {
            other
            for other in ours(module) - {module}
            if package(other) == package(module)
            # A submodule imports its package, which may import submodules.
            and other != f"mlgen.{package(module)}"
        }
        for module in MODULES
        if package(module) not in PLUGINS
    }
    try:
        circle = TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]

    assert circle is None


def test_a_framework_uses_neither_yaml_nor_kubernetes_objects():
    unwanted = {
        name: found
        for name in MODULES
        if package(name) == "frameworks"
        if (
            found := {other.split(".")[0] for other in imported(of_interest(name))}
            & {"yaml", "ruamel", "jinja2"}
            | texts(name) & {"apiVersion", "kind", "metadata", "StatefulSet", "ConfigMap"}
        )
    }

    assert {} == unwanted


def test_other_packages_do_not_mention_a_framework():
    mentioned = {
        name: found
        for name in MODULES
        if package(name) not in (*PLUGINS, "launch")  # launchers, such as ray, have these names
        if (found := texts(name) & set(names()))
    }

    assert {} == mentioned


def test_templates_do_not_mention_a_framework():
    for template in (ROOT / "templates/objects").glob("*.yaml"):
        assert not [name for name in names() if name in template.read_text()]


def test_slow_modules_are_imported_inside_functions():
    """Late imports keep `mlgen --help` fast. Only reading documents needs the YAML parser."""
    early = [
        f"{name} imports {module}"
        for name in MODULES
        for node in parsed(name).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for module in {each.split(".")[0] for each in imported([node])}
        if module in {"yaml", "ruamel", "jinja2", "jsonschema"}
        and (module, package(name)) != ("yaml", "documents")
        and (module, name) != ("ruamel", "mlgen.output.round_trip")  # is imported late itself
    ]

    assert [] == early


def test_no_file_has_more_than_700_lines():
    lines = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}

    assert {} == {name: number for name, number in lines.items() if number > 700}


TEMPLATES = sorted((ROOT / "templates/objects").iterdir())


def test_a_slot_holds_one_value_and_a_template_computes_nothing():
    wrong = []
    for path in TEMPLATES:
        tree = environment().parse(path.read_text())
        outputs = [node for output in tree.find_all(nodes.Output) for node in output.nodes]
        slots = [node for node in outputs if not isinstance(node, nodes.TemplateData)]
        wrong += [
            f"{path.name}: {slot}"
            for slot in slots
            if not isinstance(slot, nodes.Filter)
            or slot.name not in SLOTS
            or not isinstance(slot.node, nodes.Name)
            or slot.args
        ]
        wrong += [f"{path.name}: {n}" for n in tree.body if not isinstance(n, nodes.Output)]
        wrong += [] if slots else [f"{path.name} has no slot"]

    assert [] == wrong


def test_a_slot_is_the_whole_value_of_a_yaml_key_or_item():
    """Otherwise, a value could break the YAML around it."""
    lines = [
        f"{path.name}: {line}"
        for path in TEMPLATES
        for line in path.read_text().splitlines()
        if "{{" in line and not re.fullmatch(r".*(: |- )\{\{[^{]* \| (slot|optional) \}\}", line)
    ]

    assert [] == lines


def test_the_path_of_one_job_names_files_and_functions_that_exist():
    text = (ROOT / "docs/contributing/code.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)

    assert len(rows) == 10
    for files, functions in rows:
        sources = [(PACKAGE / name).read_text() for name in re.findall(r"`(.+?)`", files)]
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", functions):
            assert any(re.search(rf"^ *(def|class) {name}\b", one, re.MULTILINE) for one in sources)
