"""Targets for texts in which parts are repeated many times: `mlgen.toml`, and command lines.

Their limit on processor time grows with the text, so that they find work that grows faster.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.checks import JOB, flawless, require, target
from fuzz.commands import FAILURE, run_on
from fuzz.jobs import KNOWN
from yaml_texts import ODD, PLAIN, damaged

from mlgen import site as sites
from mlgen.launch.line import COMMANDS as TABLE
from mlgen.launch.line import LAUNCHERS
from mlgen.problems import MlgenError, Place, Problem
from mlgen.shell import cut, needs_shell, sequence, simple_commands, text_index, unclosed

LONGEST = 20_000
"""The most characters of a text."""

MESSAGE = 2_000
"""The most characters of a message about a command line."""


def repeated(chance: Any, parts: Any) -> str:
    """Return a text of parts, some of which occur many times in a row."""
    text = ""
    for _ in range(chance.choice((1, 2, 4, 8, 16))):
        part = "".join(chance.choice(parts) for _ in range(chance.choice((1, 1, 1, 2, 3))))
        times = chance.choice((10, 300, 3_000, LONGEST)) if chance.random() < 0.1 else 1
        text += part * min(times, LONGEST // (len(part) or 1))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        text = damaged(chance, text)
    return text[:LONGEST]


SITE = """\
kube-version = "1.33"
namespace = "a"
pod-security = "restricted"
supervisor = false
enforce = ["namespace", "labels"]
image-pull-secrets = ["a", "b"]
[labels]
team = "b"
"example.com/site" = "c"
[helpers]
wait-image = "d"
"""

TOML = (
    *SITE.splitlines(keepends=True),
    *("\n", "\r\n", "\r", " ", "\t", ".", "a.", '"a".', "'a' . ", "a", "a-b", "é", "\ufeff"),
    *("[", "]", "[[", "]]\n", "[a]\n", "[[a]]\n", "[a.b]\n", "[labels]\n", "[tool.mlgen]\n"),
    *(
        "{",
        "}",
        "{a = ",
        "{a.a = 1}, ",
        "[1, ",
        "1, ",
        ", ",
        " = ",
        "= 1\n",
        "a = 1\n",
        "a.b = 1\n",
    ),
    *('"', "'", '"""', "'''", '"""\n', '""', '"\\', "\\", "\\\n", '\\"', "\\u0000", "\\ud800"),
    *("\\x1b", "#", "# a\n", "# ]\n", "\x00", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u202e"),
    *(
        "0",
        "9",
        "9" * 5000,
        "0x" + "f" * 5000,
        "1e999",
        "-0.0",
        "+inf",
        "nan",
        "0b1",
        "1_0",
        "1__0",
    ),
    *("2020-01-01", "2020-01-01T00:00:00Z", "00:00:00", "9999-99-99", "true", "false", "null"),
    *('namespace = "', 'labels."', "enforce = ['labels']\n", 'strict = "a"\n', "helpers = {"),
)
"""Parts of TOML."""


def toml(chance: Any) -> str:
    """Return the text of a TOML file, which may be invalid."""
    if chance.random() < 0.5:
        return repeated(chance, TOML)
    lines = SITE.splitlines(keepends=True)
    for _ in range(chance.choice((1, 1, 2, 3))):
        lines.insert(chance.randrange(len(lines) + 1), repeated(chance, TOML))
    return "".join(lines)[: 2 * LONGEST]


def _read() -> tuple[sites.Site | None, tuple[Problem, ...]]:
    """Return the defaults of the current folder, and their problems."""
    try:
        return sites.find(Path()), ()
    except MlgenError as error:
        return None, tuple(error.problems)


@target(make=toml, is_linear=True)
def site(text: str) -> None:
    """The site defaults are a TOML file. Each location is in it."""
    path = Path(sites.PYPROJECT if "[tool.mlgen" in text else sites.NAME)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found, problems = _read()
        require((found, problems) == _read(), "reads something else")
        fields = found.fields.items() if found else ()
        rows = text.split("\n")
        for place in (*(place for _, (_, place) in fields), *(each.place for each in problems)):
            _require_within(place, rows)
        flawless("render", JOB)
    finally:
        path.unlink()


def _require_within(place: Place | None, rows: list[str]) -> None:
    """Require that a place is in a text of some lines."""
    require(place, "has no place")
    assert place
    is_within = 1 <= place.line <= len(rows) and 1 <= place.column <= len(rows[place.line - 1]) + 1
    require(is_within, "a place is not in the text", place)


VALUES = (
    *("0", "1", "2", "8", "-1", "1:4", "4:1", "0x10", "1e3", "1.5", "auto", "gpu", "a", "", "''"),
    *("worker-0", "job-worker-0.job:29500", "localhost", "127.0.0.1:80", "[::1]:1", "host:", ":80"),
    *("$RANK", "${RANK}", "$(RANK)", "$(hostname)", "`hostname`", "%h", "*", "a,b:2,c:3", "@file"),
    *("9" * 5000, "99999999999", "²", "٣", "é", "名前", "\u202e", "train.py", "/code/run.sh", "-"),
    *('"a b"', "'a b'", "a=b", "a,b", "a b", "--", "\\", "true", "None", "{}", "[]", "/etc/hosts"),
)
"""Values of options."""

SHELL = (
    *("'", '"', "`", "$(", ")", "(", "((", "))", "{", "}", "${", "${A", "${A:-", "$((", "$", "\\"),
    *("\\\n", "\n", "\r\n", "\r", " ", "\t", "\x0b", "\xa0", "\u2028", ";", ";;", "&", "&&", "|"),
    *("||", "|&", "<", ">", ">>", ">&", "2>&1", "<(", "<<", "<<<", "<<EOF\n", "<<-'E'\n", "EOF\n"),
    *("#", "# a\n", "!", "~", "~/a", "*", "[", "]", "[[", "]]", "[ -n ", "=", "A=1 ", "A=$B ", "a"),
    *(
        "if ",
        "then ",
        "else ",
        "fi\n",
        "for x in ",
        "for x",
        "do ",
        "done\n",
        "while true; do ",
        ":",
    ),
    *(
        "case a in ",
        "a) ",
        "esac\n",
        "function a ",
        "a() ",
        "until ",
        "exec ",
        "eval ",
        "trap ",
        "set ",
    ),
    *("set -e\n", "cd /a\n", "export A=1\n", "source a\n", ". a\n", "wait\n", "exit 0\n", "echo "),
    *("sleep 1\n", "sleep infinity", "tail ", "tail -f ", "sshd ", "/usr/sbin/sshd -D", "-p 22 "),
    *(
        "sh -c ",
        "bash ",
        "bash -euo pipefail -c ",
        "python ",
        "python -m ",
        "python3 -c ",
        "pip install ",
    ),
    *(
        "nohup ",
        "timeout 5 ",
        "env ",
        "sudo -E ",
        "ssh worker-0 ",
        "$SLURM_NODEID",
        "$RANK",
        "${WORLD_SIZE}",
    ),
    *("MASTER_ADDR", "MASTER_PORT=29500 ", "--", "-", "--a", "--a=", "-a ", "worker-0", ":29500"),
    *("dist.init_process_group(", "hvd.init()", 'init_method="tcp://a:1"', "os.environ['RANK']"),
    *(
        "import torch\n",
        "rank=0",
        "fieldPath",
        "iqn.2000-01.a",
        "$(A)",
        "{{=1}}",
        "::error::",
        "##[a]",
    ),
)
"""Parts of shell scripts."""


@cache
def commands() -> tuple[str, ...]:
    """Return launchers and other known programs."""
    lists = ("wrappers", "system_programs", "before_training", "installers", "filters", "trailing")
    words = [word for row in LAUNCHERS.values() for word in row.programs]
    modules = [f"python -m {name}" for row in LAUNCHERS.values() for name in row.modules]
    return (*words, *modules, *(word for name in lists for word in TABLE[name]))


def options(chance: Any) -> str:
    """Return a launcher and some of its options with values."""
    row = chance.choice(list(LAUNCHERS.values()))
    known = sorted(row.known) or [*row.switches, *row.aliases, row.nodes, row.processes, "x"]
    words = [chance.choice((*row.programs, *(f"python -m {name}" for name in row.modules)))]
    for _ in range(chance.randrange(6)):
        name = chance.choice([*known, *TABLE["arguments"]])
        name = name.replace("_", chance.choice("-_"))
        dashes, joint = chance.choice(("--", "--", "-", "")), chance.choice(" =")
        words.append(dashes + name + joint + chance.choice(VALUES))
    return " ".join((*words, chance.choice(("train.py", "python train.py", "a", ""))))


WAYS = ("shell", "words", "args", "file", "sidecar", "value", "mpijob")
"""Places of a command line in a job."""


def command_line(chance: Any) -> str:
    """Return a framework, one of WAYS, and in the next lines a command line."""
    head = f"{chance.choice(sorted(KNOWN))} {chance.choice(WAYS)}\n"
    parts = (*SHELL, *(f"{word} " for word in (*VALUES, *PLAIN, *commands())), *ODD)
    text = options(chance) if chance.random() < 0.7 else ""
    if chance.random() < 0.7:
        at = chance.randrange(len(text) + 1) if chance.random() < 0.5 else len(text)
        text = text[:at] + chance.choice((" ", "\n", "")) + repeated(chance, parts) + text[at:]
    return head + text


@target(make=command_line, is_linear=True)
def launch(text: str) -> None:
    """Any command line renders or causes messages of one line."""
    head, _, line = text.partition("\n")
    framework, _, way = head.partition(" ")
    line = line.encode("utf-8", "replace").decode()
    for words in simple_commands(line):
        text_index(words)
    needs_shell(line), sequence(line), cut(line), unclosed(line)
    job = json.dumps(_job(framework if framework in KNOWN else "pytorch", way, line))
    flawless("render", job)
    for message in run_on("render", job.encode()).err.splitlines():
        require(FAILURE.search(message) or message[:1].isdigit(), "is no message", message)
        require(len(message) <= MESSAGE, "a message is long", message[:300])


def _job(framework: str, way: str, line: str) -> Any:
    """Return a job with a command line in one of WAYS."""
    words = line.split()[:2000] or ["a"]
    if way == "mpijob":
        return _mpi_job(["sh", "-c", line], words)
    roles = json.loads(json.dumps(KNOWN[framework][0])) or {}
    spec: dict[str, Any] = {"framework": framework, "image": "a", "roles": roles}
    fields: dict[str, dict[str, Any]] = {
        "shell": {"command": ["bash", "-c", line]},
        "args": {"command": words[:1], "args": words[1:]},
        "file": {
            "command": ["bash", "/code/run.sh"],
            "volumes": {"code": {"mountPath": "/code", "files": {"run.sh": line}}},
        },
        "sidecar": {
            "command": ["python", "a.py"],
            "template": {"spec": {"containers": [
                {"name": "b", "image": "b", "command": ["sh", "-c", line]},
                {"name": "c", "image": "c", "args": words},
            ]}},
        },
        "value": {
            "command": words[:9],
            "env": dict.fromkeys(("A", "NCCL_IB_HCA", "MASTER_ADDR"), line),
        },
    }  # fmt: skip
    spec |= fields.get(way, {"command": words})
    for role in roles.values():
        for name in ("command", "args", "template"):
            (role or {}).pop(name, None)
    return {
        "apiVersion": "mlgen.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "job"},
        "spec": spec,
    }


def _mpi_job(*lines: list[str]) -> Any:
    """Return an MPIJob with these commands of the launcher and of the workers."""
    replicas = {
        name: {"template": {"spec": {"containers": [{"name": "a", "image": "a", "command": line}]}}}
        for name, line in zip(("Launcher", "Worker"), (*lines, *reversed(lines)), strict=False)
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "job"},
        "spec": {"mpiReplicaSpecs": replicas},
    }
