"""Variables that programs of a role read → do they have a value that the programs can read?"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from mlgen.launch.addresses import first_address
from mlgen.launch._old import (
    LAUNCHERS,
    Placed,
    commands_of,
    files_of,
    launches_of,
    scripts_of,
)
from mlgen.launch._old import missing_in, roles_of, variables_of
from mlgen.frameworks._tables import problem
from mlgen.launch.line import COMMANDS
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.problems import Problem
from mlgen.shell import is_python, once, program
from mlgen.topology import INDEX, Topology

VARIABLES = COMMANDS["variables"]

READS = r"\b(source|eval)\b|^[^\S\n]*\. "
"""A pattern of scripts that may set any variable."""


def variable_problems(
    topology: Topology, spec: RoleSpec, values: Mapping[str, str]
) -> Iterator[Problem]:
    """Return the problems of the variables that a role's programs read.

    Args:
        topology: the job's topology.
        spec: the role.
        values: the value of each variable; see `_settings.values_of`.
    """
    env = {key: value for role in roles_of(topology, spec.name) for key, value in role.env.items()}
    return chain(_unset(topology, spec, values), _calls(topology.job, spec, env), _json(spec, env))


def _unset(topology: Topology, spec: RoleSpec, values: Mapping[str, str]) -> Iterator[Problem]:
    """Report variables in scripts that a framework sets, but not in this job."""
    roles = roles_of(topology, spec.name)
    if not _is_unset(spec) or not roles:
        return
    for words in _with_variables(commands_of(spec)):
        texts = [word for word, _ in words]
        for index, (text, path) in enumerate(words):
            for name in missing_in(text, values) if "$" in text and " " not in text else ():
                if name not in VARIABLES:
                    continue
                flag = text if text.startswith("-") else texts[index - 1]
                option = flag.partition("=")[0].lstrip("-").replace("-", "_")
                own = f"PET_{option.upper()}"
                hint = f"remove --{option}: mlgen sets {own}" if own in roles[0].env else ""
                hint = hint or _definition(topology, spec, name)
                where = f"--{option}" if flag.startswith("-") else text
                at = ("roles", spec.name, *path)
                yield problem("unset-variable", at, where=where, name=name, hint=hint)


@once
def _with_variables(commands: Sequence[Placed]) -> Iterator[Placed]:
    """Yield the commands of Python and launchers that contain variables."""
    for words in commands:
        texts = [word for word, _ in words if "$" in word]
        if texts and any(is_python(word) or program(word) in LAUNCHERS for word, _ in words):
            yield words


def _definition(topology: Topology, spec: RoleSpec, name: str) -> str:
    """Return a hint that replaces or defines a variable that is not set."""
    row = VARIABLES[name]
    if row.get("same_as", "") in roles_of(topology, spec.name)[0].env:
        return f"write ${row['same_as']}"
    if row.get("is_address"):
        return f"set {name}: {first_address(topology, spec, '')} in env"
    is_rank = re.search("RANK|_ID$", name)
    return f"set {name}: {INDEX} in env" if is_rank else f"set {name} in env"


def _is_unset(spec: RoleSpec) -> bool:
    """Return True if a variable that neither mlgen nor the job file sets is empty in scripts."""
    scripts = scripts_of(spec)
    reads = any(re.search(READS, script.text, re.MULTILINE) for script in scripts)
    return bool(scripts) and not reads and not spec.may_have_more_env


def _calls(job: TrainingJob, spec: RoleSpec, env: Mapping[str, object]) -> Iterator[Problem]:
    """Report a program in the job's files that joins others as another framework does."""
    together = job.framework not in ("generic", "ray") and "launcher" not in job.roles
    if not together or job.replicas == 1 or launches_of(spec):
        return
    rows = COMMANDS["calls"]
    run = {word for words in commands_of(spec) for word, _ in words}
    for file, text, path in files_of(spec):
        if not run & {file, posixpath.basename(file)}:
            continue
        code = re.sub(r"(?m)#.*", "", text)
        found = [(row, match[0]) for row in rows if (match := re.search(row["pattern"], code))]
        own = re.findall(r"environ(?:\.setdefault\(|\[).(\w+).(?:,|\]\s*=[^=])", code)
        for row, call in found if len(found) == 1 else ():  # several: it chooses at run time
            if row["reads"] not in {*env, *variables_of(spec), *own}:
                texts = {"call": call, "job": job, "row": row}
                yield problem("other-framework", ("roles", spec.name, *path), **texts)


def _json(spec: RoleSpec, env: Mapping[str, object]) -> Iterator[Problem]:
    """Report a variable that is not JSON, although the framework's own value is."""
    for name, (path, value) in variables_of(spec).items():
        if str(env.get(name, "")).startswith("{") and isinstance(value, str):
            try:
                json.loads(re.sub(r"\$\(\w+\)", "0", value))
            except (RecursionError, ValueError):
                yield problem("not-json", ("roles", spec.name, *path), name=name)
