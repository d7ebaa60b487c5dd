""".ci/release checks, describes and builds releases; .github/workflows/release.yml runs it."""

import json
import re
import subprocess

import pytest
import yaml
from jsonschema import Draft7Validator
from support import ROOT, load, script_of_ci

from mlgen import __version__

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
OWNER = "OWN" + "ER"  # not a placeholder of this file
PLACES = {
    ".mkdocs.yml",
    "README.md",
    "docs/contributing/releasing.md",
    "docs/guides/ci.md",
    "docs/install.md",
    "docs/integrations/git.md",
    "docs/tutorials/laptop.md",
    "integrations/Dockerfile",
    "pyproject.toml",
}


@pytest.fixture(scope="module")
def script():
    return script_of_ci("release")


@pytest.fixture
def checkout(script, tmp_path, monkeypatch):
    """A small repository in place of this one, whose owner is Ada. Return a function to commit."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    monkeypatch.setattr(script, "ROOT", folder)
    monkeypatch.setenv("GITHUB_REPOSITORY", "Ada/mlgen")
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.com"]

    def commit(**files):
        for name, text in files.items():
            (folder / f"{name}.md").write_text(text)
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*git, *words], check=True)

    return commit


def test_the_placeholder_is_in_these_files_only(script):
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    files = [ROOT / name for name in listed if name and (ROOT / name).is_file()]

    found = {str(file.relative_to(ROOT)) for file in files if script.LEFT.search(file.read_bytes())}

    assert found == PLACES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"https://github.com/{OWNER}/mlgen/issues", "https://github.com/Ada/a.b/issues"),
        (f"uses: {OWNER}/mlgen/x@v1", "uses: Ada/a.b/x@v1"),
        (f"https://{OWNER}.github.io/mlgen/schema", "https://ada.github.io/a.b/schema"),
        (f"ghcr.io/{OWNER}/mlgen:1", "ghcr.io/ada/a.b:1"),
        (f"| OWNER | my-{OWNER}/mlgens", f"| OWNER | my-{OWNER}/mlgens"),
    ],
)
def test_addresses_are_filled_in(text, expected, script):
    assert expected == script.filled(text, "Ada/a.b")


@pytest.mark.parametrize(
    ("tag", "headings", "expected"),
    [
        ("v1.2.3", ["1.2.3 - 2026-01-02"], []),
        ("v1.2.3", ["Unreleased", "1.2.3 - 2026-01-02"], ["under"]),
        ("v1.2.3", ["Unreleased"], ["no section"]),
        ("v1.2.3", ["1.2.3"], ["no section"]),
        ("v1.2.3", ["1.2.30 - 2026-01-02"], ["no section"]),
        ("1.2.3", ["1.2.3 - 2026-01-02"], ["the tag is 1.2.3"]),
        ("v1.2.4", ["1.2.4 - 2026-01-02"], ["the tag is v1.2.4", "no section"]),
    ],
)
def test_a_tag_is_checked(tag, headings, expected, script):
    changelog = "# Changelog\n\n" + "".join(f"## {each}\n\n- text\n\n" for each in headings)

    found = script.problems(tag, changelog, "1.2.3")

    assert len(expected) == len(found)
    assert all(part in message for part, message in zip(expected, found, strict=True)), found


def test_an_empty_heading_for_the_next_changes_is_no_problem(script):
    changelog = "## Unreleased\n\n## 1.2.3 - 2026-01-02\n\nfirst\n\n## 1.2.2 - 2026-01-01\n\nold\n"

    assert [] == script.problems("v1.2.3", changelog, "1.2.3")
    assert script.section(changelog, "1.2.3") == "first"
    assert script.section(changelog, "1.2.2") == "old"


def test_links_of_the_notes_lead_to_the_tag(script):
    text = "[a](docs/a.md#b), ![c](docs/c.svg), [d](https://example.com), [e](#f)"
    html = '<img src="docs/g.png"><a href="docs/h.md"><a href="#i">'

    assert script.absolute(text, "ada/mlgen") == (
        f"[a](https://github.com/ada/mlgen/blob/v{__version__}/docs/a.md#b),"
        f" ![c](https://raw.githubusercontent.com/ada/mlgen/v{__version__}/docs/c.svg),"
        " [d](https://example.com), [e](#f)"
    )
    assert script.absolute(html, "ada/mlgen") == (
        f'<img src="https://raw.githubusercontent.com/ada/mlgen/v{__version__}/docs/g.png">'
        f'<a href="https://github.com/ada/mlgen/blob/v{__version__}/docs/h.md"><a href="#i">'
    )


def test_the_copy_is_the_commit_with_the_address(script, checkout, tmp_path):
    checkout(README="[a](b.md)", b=f"https://github.com/{OWNER}/mlgen")
    (script.ROOT / "b.md").write_text("changed later")

    script.source(tmp_path / "copy")

    copy = {file.name: file.read_text() for file in (tmp_path / "copy").iterdir()}
    assert copy == {
        "README.md": f"[a](https://github.com/Ada/mlgen/blob/v{__version__}/b.md)",
        "b.md": "https://github.com/Ada/mlgen",
    }


def test_a_placeholder_that_is_left_ends_the_release(script, checkout, tmp_path):
    checkout(README="", b=f"github.com/{OWNER}/other")

    with pytest.raises(SystemExit, match=r"placeholder.*: b\.md"):
        script.source(tmp_path / "copy")


@pytest.mark.parametrize("name", ["", "mlgen", f"{OWNER}/mlgen", "a/b c", "a/b/c"])
def test_the_repository_is_required(name, script, monkeypatch):
    monkeypatch.setenv("GITHUB_REPOSITORY", name)

    with pytest.raises(SystemExit, match="set GITHUB_REPOSITORY"):
        script.repository()


def test_the_published_schema_has_its_address_and_accepts_jobs(script):
    schema = json.loads(script.published_schema("Ada/mlgen"))

    assert list(schema)[:2] == ["$schema", "$id"]
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema["$id"] == "https://ada.github.io/mlgen/schema/v1alpha1.json"
    validator = Draft7Validator(schema)
    assert validator.is_valid(load((ROOT / "fixtures/pytorch-static.yaml").read_text()))
    assert not validator.is_valid(load((ROOT / "fixtures/invalid/unknown-role.yaml").read_text()))


def test_the_entry_for_schemastore_has_the_address(script):
    page = (ROOT / "docs/contributing/releasing.md").read_text()
    (text,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    entry = json.loads(script.filled(text, "Ada/mlgen"))

    assert entry["url"] == json.loads(script.published_schema("Ada/mlgen"))["$id"]
    # The rules of SchemaStore's cli.js: assertCatalogJsonHasNoBadFields
    for name in ("name", "description"):
        assert "schema" not in entry[name].lower()
        assert not re.search(r"[,. \t-]$", entry[name])


def test_the_workflow_runs_commands_that_exist(script):
    """Only the jobs that publish have permissions, and none of them installs unpinned packages."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    jobs = {
        name: "\n".join(step.get("run", "") for step in job["steps"])
        for name, job in workflow["jobs"].items()
    }
    used = set(re.findall(r"\.ci/release (\w+)", "\n".join(jobs.values())))

    assert used == set(re.findall(r"^ {4}\.ci/release (\w+)", script.__doc__, re.MULTILINE))
    assert workflow["permissions"] == {}
    installing = {
        name for name, text in jobs.items() if re.search(r"pip install(?!.*--require-hashes)", text)
    }
    assert {"contents": "read"} == {
        right: level
        for name in installing
        for right, level in workflow["jobs"][name]["permissions"].items()
    }


def test_the_hooks_of_this_repository_run_the_commands_of_ci():
    makefile = (ROOT / ".ci/Makefile").read_text()
    (lint,) = re.findall(r"^lint:\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    (repository,) = load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]

    assert [hook["entry"] for hook in repository["hooks"]] == lint.replace("\t", "").splitlines()
