"""Rules about the options of launchers, as written. `schemas/launch/launchers.json` lists them."""

import re
from collections.abc import Iterator

from mlgen.launch.line import LAUNCHERS, Launcher
from mlgen.launch.role import Launched, of_launchers
from mlgen.problems import SURE, Problem, listed, similar
from mlgen.shell import cut

SHORTEST = 4
"""The length from which an option is compared with others."""


@of_launchers
def no_program(launched: Launched) -> Iterator[Problem]:
    """Report a launcher without a program, if all of its options are known.

    wrong:
        framework: pytorch
        command: [accelerate, launch, --cpu]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [accelerate, launch, --cpu, train.py]
        roles: {worker: {}}
    """
    raw, row = launched.raw, launched.raw.launcher
    needs_none = (raw.script and raw.script != ("job", "submit")) or any(
        name in raw.options for name in row.without_program
    )
    pairs = tuple(f"{name}_" for name in row.pairs)
    if needs_none or any(
        not name.startswith(pairs) and name not in row.known for name in raw.options
    ):
        return
    # `cut_command` reports a program that is on the next line.
    if not any(cut(script.text) for script in launched.role.lines.scripts):
        yield launched.error(
            f"{raw.program} has no program to start",
            "write the program after the options; in a script, on the same line,"
            " or after a line that ends with \\",
        )


@of_launchers
def unknown_option(launched: Launched) -> Iterator[Problem]:
    """Warn of misspelled options, and of options of another launcher with the same meaning.

    argparse accepts unique beginnings of options:
    https://docs.python.org/3/library/argparse.html#allow-abbrev

    wrong:
        framework: pytorch
        command: [torchrun, --nproc-per-nodes=1, train.py]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [accelerate, launch, --nproc_per_node=1, train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, --nproc_per=1, --a-future-option=2, train.py]
        roles: {worker: {}}
    """
    raw, row = launched.raw, launched.raw.launcher
    known = row.known
    for written in raw.written.values() if known else ():
        text = written.lstrip("-")
        name = text.replace("-", "_")
        # argparse rejects the beginning of several options.
        starts = {row.aliases.get(each, each) for each in known if each.startswith(name)}
        is_start = len(starts) == 1 or (starts and not row.modules)
        if re.search(rf"[^a-zA-Z0-9{row.separators}]", text) if name in known else not is_start:
            close = name if name in known else similar(name, known, SURE) or _meant(name, row)
            if len(name) >= SHORTEST and close and " " not in written:
                dash = "_" if "_" in text and "_" in row.separators else row.separators[0]
                hint = f"did you mean --{close.replace('_', dash)}?"
                yield launched.warning(f"{raw.program} has no option {written}", hint)


def _meant(name: str, row: Launcher) -> str:
    """Return the option with the meaning that an option has in other launchers; "" for none."""
    columns = ("nodes", "rank", "processes", "all_processes", "port")
    same = ((other, column) for other in LAUNCHERS.values() for column in columns)
    column = next((column for other, column in same if getattr(other, column) == name), "")
    if column == "processes" and not row.processes:
        column = "all_processes"
    return getattr(row, column) if column else ""


@of_launchers
def wrong_side_of_program(launched: Launched) -> Iterator[Problem]:
    """Warn of options of the program before it, and of options of the launcher after it.

    argparse gives all words after the program to it: nargs=REMAINDER in torch/distributed/run.py,
    accelerate/commands/launch.py and deepspeed/launcher/runner.py.

    wrong:
        framework: pytorch
        command: [torchrun, train.py, --nproc_per_node=1]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [torchrun, --lr=1e-5, train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, --nproc_per_node=1, train.py, --lr=1e-5]
        roles: {worker: {}}
    """
    raw, row = launched.raw, launched.raw.launcher
    if not row.nodes or not raw.script:
        return
    # Programs have options of their own such as --nnodes, but hardly this one.
    count = "" if row.processes in raw.options or raw.inner else row.processes
    for word in raw.script[1:] if count else ():
        option = word.partition("=")[0]
        if option[:2] == "--" and option[2:].replace("-", "_") == count:
            message = f"{option} is an option of {raw.program}, but {raw.script[0]} gets it"
            yield launched.warning(message, f"write it before {raw.script[0]}")
    for name, option in raw.written.items():
        if re.fullmatch(OF_PROGRAM, name) and not any(each.startswith(name) for each in row.known):
            message = f"{raw.program} has no option {option}"
            yield launched.warning(message, f"write it after {raw.script[0]}, which may have it")


OF_PROGRAM = (
    r"lr|learning_rate|(num_|max_)?epochs?|(\w+_)?batch_size|model(_name(_or_path)?)?|max_steps"
    r"|data(set)?(_dir|_path|_name)?|train_file|config(_name|_path)?|output_dir|resume|seed"
)
"""Common names of options of training programs."""


@of_launchers
def other_implementation(launched: Launched) -> Iterator[Problem]:
    """Report options that only the mpirun of another implementation has.

    https://www.mpich.org/static/docs/latest/www1/mpiexec.html

    wrong:
        framework: mpi
        options: {implementation: MPICH}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, -n, "1", --oversubscribe, ./train]}
          worker: {}
    right:
        framework: mpi
        options: {implementation: MPICH}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, -n, "1", -genv, A, "1", ./train]}
          worker: {}
    """
    raw, job = launched.raw, launched.job
    own = job.options.get("implementation", "OpenMPI")
    for written in raw.written.values() if "launcher" in job.roles else ():
        name = written.lstrip("-").replace("-", "_")
        others = [each for each, names in raw.launcher.only.items() if name in names]
        if others and own not in others:
            yield launched.error(
                f"{written} is an option of {listed(others, 'and')},"
                f" but the implementation of the job is {own}",
                f"remove it, or write options.implementation: {others[0]}",
                warn="implementation" not in job.options,  # the image may have another one
            )


@of_launchers
def bad_value(launched: Launched) -> Iterator[Problem]:
    """Report a value that an option does not accept, or that is no number.

    A missing blank joins two options: `--nnodes=2--nproc_per_node=8`.

    wrong:
        framework: pytorch
        command: [torchrun, --nnodes=1--nproc_per_node=8, train.py]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [torchrun, --rdzv-backend=nccl, train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, --nproc-per-node=cpu, train.py]
        roles: {worker: {}}
    """
    raw, row = launched.raw, launched.raw.launcher
    counts = (row.nodes, row.processes, row.all_processes, row.port)
    # A template of Helm or Argo is not yet a number.
    numbers = dict.fromkeys(counts, (r"-?\d+(:\d+)?|.*\{\{.*", "a number"))
    for name, (pattern, right) in (numbers | dict(row.values)).items():
        value = raw.literal(name)
        if value is not None and not re.fullmatch(pattern, value):
            message = f'"{value}" is not a value of {raw.written[name]} of {raw.program}'
            yield launched.error(message, f"write {right}")


@of_launchers
def option_of_batch_system(launched: Launched) -> Iterator[Problem]:
    """Report options that make a launcher use a batch system, which pods do not have.

    wrong:
        framework: mpi
        options: {implementation: MPICH}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, -bootstrap, slurm, -n, "1", ./train]}
          worker: {}
    right:
        framework: mpi
        options: {implementation: MPICH}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, -bootstrap, ssh, -n, "1", ./train]}
          worker: {}
    """
    raw = launched.raw
    for name, value in raw.options.items():
        system = raw.launcher.needs.get(f"{name}={value}")
        if system:
            flag = f"{raw.written[name]}={value}" if value else raw.written[name]
            yield launched.error(f"{flag} needs {system}, which pods do not have", f"remove {flag}")
