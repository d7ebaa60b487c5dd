"""Packages for CI and the image are pinned by hash (.ci/pins) and audited (.ci/audit)."""

import re
import sys

import pytest
from packaging.requirements import Requirement
from support import ROOT, load, script_of_ci

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PINS = ROOT / ".ci/pins"
VERSIONS = PINS / "versions.txt"
FILES = sorted({*PINS.glob("*.txt")} - {VERSIONS})
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()


def pinned(name):
    """Return the requirements of a file."""
    lines = re.findall(r"^([^\s#].*?) ?\\?$", (PINS / f"{name}.txt").read_text(), re.MULTILINE)
    return [Requirement(line) for line in lines]


def key(requirement):
    return re.sub(r"[-_.]+", "-", requirement.name).lower()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_package_has_one_version_and_a_hash_and_no_address(file):
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    packages = "\n".join(lines).replace(" \\\n    ", " ").splitlines()

    assert packages
    for package in packages:
        requirement, *hashes = re.split(r" (?=--hash=)", package)
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", requirement)
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", text) for text in hashes)


@pytest.mark.parametrize(
    ("name", "more"), [("run", []), ("build", PROJECT["build-system"]["requires"])]
)
def test_pins_are_those_of_pyproject(name, more):
    versions = {}
    for pin in pinned(name):
        versions.setdefault(key(pin), []).append(str(pin.specifier).removeprefix("=="))
    wanted = [*PROJECT["project"]["dependencies"], *more]

    for requirement in map(Requirement, wanted):
        found = versions.get(key(requirement), [])

        assert found, f"{name}.txt lacks {requirement}; run .ci/pin"
        assert all(map(requirement.specifier.contains, found)), f"{requirement}; run .ci/pin"


def test_files_agree_on_versions():
    run, build = ({(key(pin), pin.specifier) for pin in pinned(n)} for n in ("run", "build"))

    assert run <= build


def test_the_image_installs_nothing_else():
    text = (ROOT / "integrations/Dockerfile").read_text().replace("\\\n", "")
    commands = [part for line in text.splitlines() for part in re.split(r"RUN|&&", line)]
    installs = [line for line in commands if re.search(r"pip .*(install|wheel) ", line)]

    assert len(installs) == 4
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


def test_the_action_installs_nothing_else():
    steps = load((ROOT / "integrations/github/action.yml").read_text())["runs"]["steps"]
    (install,) = (step["run"] for step in steps if "pip" in step.get("run", "").split())

    options = {"--isolated", "--no-deps", "--require-hashes", "--only-binary"}
    assert options <= set(install.split())
    assert install.endswith('-r "$GITHUB_ACTION_PATH/../../.ci/pins/run.txt"')


def test_the_hooks_install_the_same_versions():
    hooks = load((ROOT / ".pre-commit-hooks.yaml").read_text())
    lines = VERSIONS.read_text().splitlines()

    assert {(key(pin), pin.specifier) for pin in map(Requirement, lines)} == {
        (key(pin), pin.specifier) for pin in pinned("run")
    }
    for hook in hooks:
        assert [f"--constraint={VERSIONS.relative_to(ROOT)}"] == hook["additional_dependencies"]


def test_actions_are_pinned_by_commit():
    workflows = (ROOT / ".github/workflows").glob("*.yml")
    actions = [ROOT / "integrations/github/action.yml", *workflows]
    used = [line for file in actions for line in re.findall(r"uses: (.*)", file.read_text())]

    assert len(used) >= 10
    for line in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+.*", line), line


def test_ci_runs_every_tier():
    """Each marker of tests, except those that only describe a test, is a tier."""
    markers = PROJECT["tool"]["pytest"]["ini_options"]["markers"]
    tiers = {re.match(r"\w+", marker)[0] for marker in markers} - {"long", "needs"}
    targets = {*re.findall(r"^(\w+):", (ROOT / ".ci/Makefile").read_text(), re.MULTILINE)}
    ci = re.sub(r"#.*", "", (ROOT / ".ci/run").read_text())

    assert tiers < targets
    assert [] == [target for target in targets if not re.search(rf"\b{target}\b", ci)]


def test_ci_has_no_rights_to_lose():
    workflow = load(WORKFLOW)

    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in WORKFLOW
    assert "secrets." not in WORKFLOW


@pytest.fixture(scope="module")
def audit():
    return script_of_ci("audit")


FOUND = {"id": "CVE-2026-1", "fix_versions": ["2.1", "3.0"]}


@pytest.mark.parametrize(
    ("packages", "lines", "failed"),
    [
        (None, ["NOT AUDITED: there is no network, or the package index has no such data"], False),
        ([], ["NOT AUDITED: there is no network, or the package index has no such data"], False),
        (
            [{"name": "a", "skip_reason": "not found"}],
            ["NOT AUDITED: there is no network, or the package index has no such data"],
            False,
        ),
        (
            [{"name": "a", "version": "1", "vulns": []}],
            ["1 packages, no known vulnerabilities"],
            False,
        ),
        (
            [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}],
            ["b: not known to the package index"],
            True,
        ),
        (
            [{"name": "a", "version": "2", "vulns": [FOUND, FOUND | {"fix_versions": []}]}],
            [
                "a 2: CVE-2026-1; fixed in 2.1, 3.0",
                "a 2: CVE-2026-1; fixed in no release yet",
            ],
            True,
        ),
    ],
)
def test_an_audit_that_learned_nothing_is_no_clean_one(packages, lines, failed, audit):
    report = None if packages is None else {"dependencies": packages}

    assert (lines, failed) == audit.verdict(report)
