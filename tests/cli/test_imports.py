"""The slow libraries that each command of an installed mlgen imports."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import ROOT

from mlgen.cli import COMMANDS

SLOW = ("jinja2", "jsonschema", "mlgen.live")

JOB = "fixtures/tensorflow-ps.yaml"
RESOURCE = "fixtures/resources/kubeflow-tfjob-v1.yaml"
MANIFESTS = "tests/__snapshots__/test_golden/test_manifests[mars].yaml"

LINES = [
    "--help",
    "--version",
    "render --help",
    "init pytorch --image example/a:1 -o - --no-schema",
    "explain spec.runPolicy",
    "frameworks",
    "schema",
    f"render {JOB}",
    f"render {JOB} --namespace team",
    f"render {JOB} --quiet",
    f"render {JOB} --set spec.roles.worker.replicas=2",
    f"render {RESOURCE}",
    "render fixtures/invalid/unknown-role.yaml",
    f"argo {JOB}",
    f"convert {RESOURCE}",
    f"validate {JOB}",
    f"show {JOB}",
    f"graph {JOB}",
    f"diff {JOB} {JOB}",
    f"verify {MANIFESTS}",
    f"doctor {JOB}",
    f"apply {JOB}",
    "rerun bert",
    "list",
    f"status {JOB}",
    f"logs {JOB}",
    f"wait {JOB}",
    f"delete {JOB} --yes",
    "ssh-secret keys",
    f"helm-post-render < {JOB}",
    "helm-post-render < argo/kustomization.yaml",
    f"krm < {JOB}",
    "argocd init",
    "completion bash",
]
"""One line for each command, and more if its imports depend on the arguments.

The PATH is empty, so commands that run kubectl end there.
"""

PROGRAM = """
import os, sys, mlgen
os._exit = sys.exit
mlgen.__path__.append(sys.argv.pop(1))
from mlgen.__main__ import main
sys.argv[0] = "mlgen"
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported(line, prepared, folder):
    """Return the modules of `SLOW` that a command line of an installed mlgen imports."""
    words, _, stdin = line.partition(" < ")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, prepared, *words.split()],
        cwd=folder,
        env={**os.environ, "PATH": "", "COLUMNS": "80"},
        input=(ROOT / stdin).read_bytes() if stdin else b"",
        capture_output=True,
        check=False,
    )
    modules = set(done.stderr.decode().splitlines()[-1].split())
    return [name for name in SLOW if name in modules]


@pytest.mark.slow
def test_what_each_command_imports(prepared_folder, tmp_path, message):
    for name in ("argo", "fixtures", "tests"):  # without a pyproject.toml
        (tmp_path / name).symlink_to(ROOT / name)
    with ThreadPoolExecutor(2) as pool:
        rows = [*pool.map(lambda line: imported(line, prepared_folder, tmp_path), LINES)]

    assert {line.split()[0] for line in LINES} >= {*COMMANDS}
    width = max(map(len, LINES))
    table = [
        f"{line:{width}}  {' '.join(row) or '-'}" for line, row in zip(LINES, rows, strict=True)
    ]
    assert "\n".join(table) + "\n" == message
