"""Fixtures for all tests: job files, a function that renders them, and goldens."""

import gc
import os
import shutil
import signal
import sys
from functools import cache

import pytest
from _pytest.runner import runtestprotocol
from goldens import golden_text
from hypothesis import HealthCheck, settings
from parts import programs
from support import FIXTURES, ROOT, cases, codes_in_goldens, missing, rendered
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

# No time limit, so slow machines pass. CI always runs the same examples.
settings.register_profile(
    "mlgen",
    deadline=None,
    max_examples=int(os.environ.get("MLGEN_EXAMPLES", "10")),
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("mlgen")


SECONDS = {"long": 3600, "slow": 1200, "cluster": 1800, "parts": 1800, "pythons": 1800}
"""Time limits of tests by marker. Others use `timeout` in pyproject.toml."""


def pytest_configure():
    """Handle signals as in a terminal, and collect garbage as seldom as the program does."""
    # `nohup pytest &` would let every program ignore these signals.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, handler)
    gc.set_threshold(200_000)  # each collection visits all cached manifests


TIERS = ("cluster", "parts", "tools")
"""Markers of all tests in the folder of the same name."""


def pytest_ignore_collect(collection_path, config):
    """Do not import the tests of a tier that `-m` excludes: each worker would do it."""
    name = collection_path.name
    is_tier = name in TIERS and collection_path.parent == ROOT / "tests"
    return (is_tier and f"not {name}" in config.option.markexpr) or None


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/tools" in item.path.as_posix():
            item.add_marker(pytest.mark.tools)
        marks = {mark.name for mark in item.iter_markers()}
        if "long" in marks and os.environ.get("MLGEN_PARTS") != "all":
            item.add_marker(pytest.mark.skip(reason="takes long: set MLGEN_PARTS=all"))
        seconds = next((SECONDS[name] for name in SECONDS if name in marks), None)
        if seconds and "timeout" not in marks:
            item.add_marker(pytest.mark.timeout(seconds))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Send one short report for a test that passes, instead of five messages.

    Messages to the process that prints the results take longer than most tests.
    """
    option = item.config.option
    if not hasattr(item.config, "workerinput") or option.durations or option.xmlpath:
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.passed:
            report.keywords = {}
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            if not shutil.which(program):
                missing(f"there is no {program}")


class Full(SingleFileSnapshotExtension):
    """One YAML file for each case."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


class Manifest(Full):
    """One YAML file for each case, with abridged manifests: see goldens.py."""

    def serialize(self, data, **options):
        return super().serialize(golden_text(data), **options)


def pytest_generate_tests(metafunc):
    if "job_file" in metafunc.fixturenames:
        metafunc.parametrize("job_file", cases(FIXTURES))


class Message(Full):
    """One text file with the content of stderr."""

    file_extension = "txt"


@pytest.fixture
def full(snapshot):
    return snapshot.use_extension(Full)


@pytest.fixture
def manifest(snapshot):
    return snapshot.use_extension(Manifest)


@pytest.fixture
def message(snapshot):
    return snapshot.use_extension(Message)


@pytest.fixture(scope="session", autouse=True)
def _known_site():
    """Parse each text of a site once: many commands run in this checkout, with its pyproject."""
    from mlgen import site

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "_toml", cache(site._toml))  # noqa: SLF001
        yield


@pytest.fixture
def codes_of_rules(monkeypatch):
    """Use the codes in goldens. To compute them, mlgen validates all wrong examples."""
    from mlgen.reference import rules

    monkeypatch.setattr(rules, "computed", codes_in_goldens)


@pytest.fixture
def render(monkeypatch):
    """Function that renders a job file as on the command line, in the project's folder."""
    monkeypatch.chdir(ROOT)
    return rendered


@pytest.fixture
def topology():
    """Function that lays out a job of a framework from a few roles."""
    from mlgen import frameworks
    from mlgen.jobfile.model import Network, RoleSpec, RunPolicy, TrainingJob

    def topology(framework, roles, *, host=None, clean="None", **options):
        """Lay out a job; `roles` maps a name to a number of replicas or a RoleSpec."""
        specs = {
            name: RoleSpec(name, spec) if isinstance(spec, int) else spec
            for name, spec in roles.items()
        }
        policies = {"network": Network(host=host), "run_policy": RunPolicy(clean)}
        job = TrainingJob("ctr", framework, specs, options=options, **policies)
        return frameworks.get(framework).topology(job)

    return topology


@pytest.fixture(scope="session")
def prepared_folder(tmp_path_factory):
    """A folder with `prepared`, the parts that are generated for a wheel of this checkout."""
    from mlgen.build import write

    folder = tmp_path_factory.mktemp("built")
    write(folder / "prepared")
    return folder


@pytest.fixture
def prepared(prepared_folder, monkeypatch):
    """Let mlgen use the prepared parts, as if it were installed from a wheel."""
    import mlgen

    monkeypatch.setattr(mlgen, "__path__", [*mlgen.__path__, str(prepared_folder)])
    yield prepared_folder / "prepared"
    for name in [name for name in sys.modules if name.startswith("mlgen.prepared")]:
        del sys.modules[name]
    vars(mlgen).pop("prepared", None)


BUILT = ("checkov", "conftest", "helm3", "helm4", "kube-score", "kubeconform", "kustomize")
"""Programs that `.ci/tools` builds or installs."""


@pytest.fixture(scope="session")
def tool():
    """Function that finds a program of another project: see `parts.programs.program`."""
    folder = os.environ.get("MLGEN_TOOLS")

    def tool(name):
        hint = (
            "`.ci/tools DIR` builds it, MLGEN_TOOLS=DIR names it" if name in BUILT else "install it"
        )
        try:
            return programs.program(name, hint)
        except programs.MissingError as error:
            if folder and name in BUILT:
                pytest.fail(f"{folder} has no {name}")
            missing(str(error))

    return tool
