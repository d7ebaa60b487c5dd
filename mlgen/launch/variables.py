"""Rules about variables and arguments that must fit the whole job, such as ranks and sizes.

A value in the job file replaces the framework's value. A program may use its variables in other
ways, so most of these rules are warnings.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Sequence

from mlgen.jobfile.model import gpu_count
from mlgen.kubernetes.quantity import natural
from mlgen.launch.addresses import first_address
from mlgen.launch.line import COMMANDS, LAUNCHERS
from mlgen.launch.ranks import LOOPS, lone_script
from mlgen.launch.role import (
    NNODES,
    VARIABLES,
    JobRole,
    contradicted,
    missing_in,
    of_all_roles,
    of_roles,
)
from mlgen.problems import Problem, ValuePath
from mlgen.shell import is_python, program
from mlgen.topology import INDEX

READS = r"\b(source|eval)\b|^[^\S\n]*\. "
"""A pattern of scripts that may set any variable."""


@of_all_roles
def same_variable(roles: Sequence[JobRole]) -> Iterator[Problem]:
    """Report a constant in a variable that must differ between replicas, such as a rank.

    All replicas then have the same rank, and wait for the others.

    wrong:
        framework: pytorch
        command: [python, train.py]
        env: {RANK: "0"}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [python, train.py]
        env: {NODE_RANK: "0"}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [python, train.py]
        env: {NODE_RANK: $(RANK)}
        roles: {worker: {replicas: 2}}
    """
    by_name, topology = {role.name: role for role in roles}, roles[0].topology
    ranks = {
        name
        for each in topology.roles
        for name, value in each.env.items()
        if isinstance(value, str) and (INDEX in value or "differs" in VARIABLES.get(name, {}))
    }
    for role in roles:
        for name, (path, value) in role.constants.items():
            row = VARIABLES.get(name, {})
            same_as = name if name in ranks else row.get("same_as", "")
            if same_as not in ranks or not role.is_read(name):
                continue
            needed, size = set[str](), 0
            for each in topology.roles:
                own = each.env.get(same_as)
                if isinstance(own, str):
                    only = own.replace(INDEX, str(each.index or 0)) if each.replicas == 1 else own
                    # Roles of the job file that are merged have the same fields.
                    source = by_name[each.merged[0] if each.merged else each.spec.name]
                    if source.constants.get(name, ((), only))[1] == value:
                        size += each.replicas
                        needed |= {only} if INDEX not in only else {only, ""}
            if len(needed) > 1:
                message = f"{name} is the same in {size} replicas, which need different values"
                hint = f"write $({same_as})" if "same_as" in row else "remove it: mlgen sets it"
                yield role.warning(path, message, hint)


@of_roles
def other_size(role: JobRole) -> Iterator[Problem]:
    """Report a number of replicas or processes that contradicts the job.

    wrong:
        framework: pytorch
        command: [python, train.py]
        env: {WORLD_SIZE: "3"}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [python, train.py]
        env: {WORLD_SIZE: "2"}
        roles: {worker: {replicas: 2}}
    """
    count = gpu_count(role.spec)
    for name, (path, value) in role.constants.items():
        counted = VARIABLES.get(name, {}).get("counts")
        own, size = natural(str(role.env.get(name, ""))) or 0, natural(value)
        # A program may start several processes in each pod, but not a single script.
        several = counted == "processes" or (counted == "ranks" and not lone_script(role))
        if counted == "gpus":
            own, fits = count, not size or not 0 < count < size
        elif several and own and size:
            fits = size % own == 0 and (not count or size <= own * count)
        else:
            fits = not (counted and own) or size is None or value == str(own)
        if not fits and role.is_read(name):
            message = contradicted(name, value, own)
            # A launcher that waits for more replicas never starts to train.
            waits = counted == "replicas" and (size or 0) > own
            warn = not waits or ("options" in VARIABLES[name] and not role.lines.launches)
            yield role.error(path, message, "remove it: mlgen sets it", warn=warn)


@of_roles
def size_in_argument(role: JobRole) -> Iterator[Problem]:
    """Report a number of replicas, processes or hosts in an argument that contradicts the job.

    wrong:
        framework: pytorch
        command: [python, train.py, fit, --trainer.num_nodes=4]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: tensorflow
        command: [python, train.py, "--worker_hosts=a:2222,b:2222"]
        roles: {ps: {replicas: 1}, worker: {replicas: 3}}
    right:
        framework: pytorch
        command: [python, train.py, fit, --trainer.num_nodes=2]
        roles: {worker: {replicas: 2}}
    """
    job, count = role.job, gpu_count(role.spec)
    loops = any(re.search(LOOPS, script.text) for script in role.lines.scripts)
    for row, setting, value in role.arguments:
        own, counted, hosts = job.replicas, row.get("counts"), value.split(",")
        if row.get("hosts"):
            own = job.roles[row["hosts"]].replicas if row["hosts"] in job.roles else 0
        size = natural(value) if counted else len(hosts) if "hosts" in row else None
        if size is None or "$" in value or (counted == "ranks" and loops):
            continue
        if counted == "gpus":
            own, fits = count, not 0 < count < size
        else:
            several = counted == "processes" and size and (not count or size <= own * count)
            fits = size == own or bool(several and size % own == 0)
        if not fits:
            noun = f"{own} hosts" if "hosts" in row else str(own)
            message = contradicted(setting.text, value, noun)
            # A program waits for the other replicas, unless it ignores the file.
            warn = counted != "replicas" or size < own or setting.path[0] == "volumes"
            hint = row.get("hint", f"write {noun}")
            yield role.error(setting.path, message, hint, warn=warn)


@of_roles
def bad_argument(role: JobRole) -> Iterator[Problem]:
    """Report an argument with which replicas train alone, or have the same rank.

    wrong:
        framework: tensorflow
        command: [python, train.py, --distribution_strategy=mirrored]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: jax
        command: [python, train.py, --process_id=0, --num_processes=2]
        roles: {worker: {replicas: 2}}
    right:
        framework: tensorflow
        command: [python, train.py, --distribution_strategy=multi_worker_mirrored]
        roles: {worker: {replicas: 2}}
    """
    count = role.spec.replicas
    for row, setting, value in role.arguments if count > 1 else ():
        if value in row.get("alone", ()):
            flag = f"{setting.text}={value}"
            message = f"with {flag}, each of the {count} replicas trains alone"
            yield role.warning(setting.path, message, row["hint"])
        if "same_as" in row and natural(value) is not None:
            message = f"{setting.text} is the same in {count} replicas, which need different values"
            yield role.warning(setting.path, message, row.get("hint", f"write $({row['same_as']})"))


@of_all_roles
def differs_between_roles(roles: Sequence[JobRole]) -> Iterator[Problem]:
    """Report a port or an identifier that differs between roles that train together.

    wrong:
        framework: pytorch
        roles:
          master: {command: [torchrun, --master_port=29500, train.py]}
          worker: {replicas: 1, command: [torchrun, --master_port=29501, train.py]}
    right:
        framework: pytorch
        command: [torchrun, --master_port=29500, train.py]
        roles: {master: {}, worker: {replicas: 1}}
    """
    seen: dict[str, tuple[str, str]] = {}
    for role in roles:
        if role.env.keys().isdisjoint(NNODES) or role.job.network.on_host:
            continue
        settings: list[tuple[str, str, ValuePath]] = [
            (f"--{option}", launch.literal(option) or "", launch.place(f"--{option}"))
            for launch in role.lines.launches
            for option in launch.launcher.shared
        ]
        for name, row in VARIABLES.items():
            if "shared" in row and name in role.env and role.is_read(name):
                path, value = role.constants.get(name, (("env",), str(role.env[name])))
                settings.append((name, value, path))
        for name, text, path in settings:
            value = text.rpartition(":")[2]
            other, first = seen.setdefault(name, (value, role.name)) if value else ("", "")
            if value != other:
                message = (
                    f"{name} is {value}, but {other} in the role {first},"
                    " so the pods wait for each other"
                )
                yield role.error(path, message, "use the same value in both roles")


@of_roles
def unset_variable(role: JobRole) -> Iterator[Problem]:
    """Report variables in scripts that a framework sets, but not in this job.

    wrong:
        framework: pytorch
        command: [sh, -c, "torchrun --nnodes=2 --node_rank=$NODE_RANK train.py"]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [sh, -c, "torchrun --nnodes=2 --node_rank=$RANK train.py"]
        roles: {worker: {replicas: 2}}
    """
    scripts = role.lines.scripts
    reads = any(re.search(READS, script.text, re.MULTILINE) for script in scripts)
    if not scripts or reads or role.spec.may_have_more_env or not role.roles:
        return
    for line in role.lines.lines:
        words = line.words
        if not any(is_python(word) or program(word) in LAUNCHERS for word in words):
            continue
        for index, text in enumerate(words):
            for name in missing_in(text, role.values) if "$" in text and " " not in text else ():
                if name not in VARIABLES:
                    continue
                flag = text if text.startswith("-") else words[index - 1]
                option = flag.partition("=")[0].lstrip("-").replace("-", "_")
                own = f"PET_{option.upper()}"
                hint = f"remove --{option}: mlgen sets {own}"
                hint = hint if own in role.env else _definition(role, name)
                where = f"--{option}" if flag.startswith("-") else text
                message = f"{where} uses {name}, which is not set in this job"
                yield role.warning(line.paths[index], message, hint)


def _definition(role: JobRole, name: str) -> str:
    """Return a hint that replaces or defines a variable that is not set."""
    row = VARIABLES[name]
    if row.get("same_as", "") in role.env:
        return f"write ${row['same_as']}"
    if row.get("is_address"):
        return f"set {name}: {first_address(role, '')} in env"
    return f"set {name}: {INDEX} in env" if re.search("RANK|_ID$", name) else f"set {name} in env"


@of_roles
def other_framework(role: JobRole) -> Iterator[Problem]:
    """Report a program in the job's files that joins others as another framework does.

    wrong:
        framework: tensorflow
        command: [python, /code/train.py]
        volumes:
          code:
            mountPath: /code
            files: {train.py: "torch.distributed.init_process_group('gloo')"}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [python, /code/train.py]
        volumes:
          code:
            mountPath: /code
            files: {train.py: "torch.distributed.init_process_group('gloo')"}
        roles: {worker: {replicas: 2}}
    """
    if not role.trains_together or role.job.replicas == 1 or role.lines.launches:
        return
    run = {word for line in role.lines.lines for word in line.words}
    for file, text, path in role.lines.files:
        if not run & {file, posixpath.basename(file)}:
            continue
        code = re.sub(r"(?m)#.*", "", text)
        calls = ((row, re.search(row["pattern"], code)) for row in COMMANDS["calls"])
        found = [(row, match[0]) for row, match in calls if match]
        own = re.findall(r"environ(?:\.setdefault\(|\[).(\w+).(?:,|\]\s*=[^=])", code)
        # A program with several calls chooses among them at run time.
        for row, call in found if len(found) == 1 else ():
            env = {name for each in role.roles for name in each.env}
            if row["reads"] not in {*env, *role.variables, *own}:
                message = (
                    f"{call} reads variables that framework: {role.job.framework} does not set"
                )
                yield role.warning(path, message, f"use framework: {row['framework']}")


@of_roles
def not_json(role: JobRole) -> Iterator[Problem]:
    """Report a variable that is not JSON, although the framework's own value is.

    wrong:
        framework: tensorflow
        command: [python, train.py]
        env: {TF_CONFIG: "{'cluster': {'worker': ['a:2222']}}"}
        roles: {worker: {replicas: 2}}
    right:
        framework: tensorflow
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
    """
    env = {name: value for each in role.roles for name, value in each.env.items()}
    for name, (path, value) in role.variables.items():
        if str(env.get(name, "")).startswith("{") and isinstance(value, str):
            try:
                json.loads(re.sub(r"\$\(\w+\)", "0", value))
            except (RecursionError, ValueError):
                yield role.warning(path, f"{name} is not JSON", "remove it: mlgen sets it")
