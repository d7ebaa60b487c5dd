"""A role's command line → the launcher that it runs, with the launcher's options.

Launchers are the programs in `SWITCHES`. They are found in `command` and `args`, also in the text
of `sh -c`. The text is split as a shell splits it, but nothing in it is expanded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mlgen.jobfile.model import RoleSpec
from mlgen.kubernetes.merge import merged
from mlgen.kubernetes.quantity import natural
from mlgen.problems import ValuePath
from mlgen.shell import is_python, is_shell, program, simple_commands, text_index


def _names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


MPIRUN = frozenset(("mpirun", "mpiexec", "mpiexec.hydra", "mpiexec.mpich", "orterun"))

MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torch.distributed.elastic.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "horovod.runner.launch": "horovodrun",
}
"""Launchers that start as `python -m MODULE`."""

SWITCHES: Mapping[str, frozenset[str]] = {
    "torchrun": _names("standalone m module no_python run_path use_env h help"),
    "accelerate": _names(
        "cpu multi_gpu tpu mps ipex use_mps_device use_xpu use_deepspeed use_fsdp use_megatron_lm"
        " use_parallelism_config use_fp8 m module no_python debug q quiet enable_cpu_affinity"
        " dynamo_use_fullgraph dynamo_use_dynamic dynamo_use_regional_compilation tpu_use_cluster"
        " tpu_use_sudo same_network h help"
    ),
    "deepspeed": _names(
        "module no_python no_local_rank force_multi save_pid elastic_training no_ssh no_ssh_check"
        " bind_cores_to_rank h help"
    ),
    "horovodrun": _names(
        "v version cb check_build verbose disable_cache autotune no_autotune gloo mpi jsrun tcp"
        " hierarchical_allreduce no_hierarchical_allreduce hierarchical_allgather stall_check"
        " no_hierarchical_allgather timeline_mark_cycles no_timeline_mark_cycles no_stall_check"
        " prefix_output_with_timestamp log_with_timestamp log_without_timestamp"
        " binding_args_enabled h help"
    ),
    "mpirun": _names(
        "allow_run_as_root oversubscribe nooversubscribe bycore bynode byslot bysocket pernode"
        " nolocal display_map display_allocation display_devel_map display_topo report_bindings"
        " tag_output timestamp_output merge_stderr_to_stdout v verbose q quiet V version xml"
        " enable_recovery disable_recovery continuous bind_to_core bind_to_socket bind_to_none"
        " use_hwthread_cpus leave_session_attached do_not_launch do_not_resolve debug_daemons"
        " debug_daemons_file debug_devel d h help l prepend_rank envall envnone genvall genvnone"
        " info print_rank_map print_all_exitcodes disable_auto_cleanup"
    ),
    "ray": _names(
        "head block disable_usage_stats no_wait verbose v no_monitor ray_debugger_external f force"
        " enable_object_reconstruction y yes no_redirect_output help"
    ),
}
"""By launcher: the options that have no value.

torch/distributed/run.py, accelerate/commands/launch.py, deepspeed/launcher/runner.py,
horovod/runner/launch.py, the manual pages of Open MPI's and Hydra's mpirun, `ray start --help`.
"""

TWO_VALUES = frozenset(("mca", "gmca", "pmixmca", "prtemca", "genv", "env"))
"""Options of mpirun with a name and a value: `--mca NAME VALUE` is the option `mca_NAME`."""

RANGE = "blacklist_cooldown_range"
"""The option of horovodrun with two values, of which the first one is kept."""

ALIASES: Mapping[str, Mapping[str, str]] = {
    "torchrun": {"m": "module"},
    "accelerate": {"m": "module", "q": "quiet"},
    "deepspeed": {"H": "hostfile", "i": "include", "e": "exclude"},
    "horovodrun": {
        "n": "np",
        "num_proc": "np",
        "min_num_proc": "min_np",
        "max_num_proc": "max_np",
        "H": "hosts",
        "p": "ssh_port",
        "i": "ssh_identity_file",
    },
    "mpirun": {
        "n": "np",
        "c": "np",
        "H": "host",
        "hosts": "host",
        "machinefile": "hostfile",
        "f": "hostfile",
        "ppn": "npernode",
        "perhost": "npernode",
        "N": "npernode",
    },
    "ray": {},
}
"""By launcher: the name under which `Launch.options` has an option that has several names."""

INSTALLERS = frozenset(("pip", "pip3", "install", "add"))
"""Words that are followed by names of packages, which may be those of launchers."""

WRAPPERS = _names(
    "exec nohup env time timeout command sudo nice ionice numactl taskset setsid stdbuf tini"
    " dumb-init gosu su-exec conda mamba micromamba poetry uv pipenv nsys xvfb-run unbuffer"
    " if then else elif do while until ! {"
)
"""Words before a program: programs that run another one, and words of the shell."""


@dataclass(frozen=True)
class Launch:
    """A launcher and its options.

    Attributes:
        program: a key of `SWITCHES`: `torchrun` also for `python -m torch.distributed.run`, and
            `mpirun` for all of `MPIRUN`.
        options: by name, without leading dashes and with `_` for `-`; the last one counts. A
            switch has the value "". `-n` and its like are `np`; see `ALIASES` and `TWO_VALUES`.
        script: the words after the launcher's own options. Those of ray begin with its
            subcommand: ("start",) or ("job", "submit", "python", "train.py").
        path: the field below the role that has the options: command, args or template.
    """

    program: str
    options: Mapping[str, str]
    script: tuple[str, ...] = ()
    path: ValuePath = ("command",)

    def literal(self, name: str) -> str | None:
        """Return the value of an option; None if it is absent, or known only at run time."""
        value = self.options.get(name)
        return None if value is None or "$" in value or "`" in value else value

    def number(self, name: str) -> int | None:
        """Return the value of an option that is a whole number; else None."""
        value = self.literal(name)
        return natural(value or "")


def words_of(spec: RoleSpec) -> tuple[str, ...]:
    """Return the command and args of a role's training container, with its templates merged."""
    command, args, _ = _merged(spec)
    return (*command, *args)


def launches_of(spec: RoleSpec) -> tuple[Launch, ...]:
    """Return all launchers that a role runs, in the order of its command line."""
    command, args, templated = _merged(spec)
    return _launches_in(tuple(command), tuple(args), frozenset(templated))


@lru_cache
def _launches_in(
    command: tuple[str, ...], args: tuple[str, ...], templated: frozenset[str]
) -> tuple[Launch, ...]:
    """Return the launchers of a command line; several checks ask for those of each role."""

    def path(index: int) -> ValuePath:
        name = "command" if index < len(command) else "args"
        return ("template",) if name in templated else (name,)

    return tuple(_launches((*command, *args), path))


def _merged(spec: RoleSpec) -> tuple[list[str], list[str], set[str]]:
    """Return command, args, and which of them a template sets, as `objects.pod` merges them."""
    container: dict[str, Any] = {"command": [*spec.command], "args": [*spec.args]}
    templated: set[str] = set()
    for patch in spec.container_patches:
        fields = {name: patch[name] for name in ("command", "args") if name in patch}
        templated |= set(fields)
        container = merged(container, fields)
    command, args = (container.get(name) or [] for name in ("command", "args"))
    return [str(word) for word in command], [str(word) for word in args], templated


def trains(words: Sequence[str]) -> bool:
    """Return whether a simple command of a shell runs a launcher, or a script with python."""
    start = _start(words)
    if start is None:
        return False
    scripts = any(word.endswith(".py") for word in words[start + 1 :])
    return bool(_launcher(words, start)) or (is_python(words[start]) and scripts)


def text_of(spec: RoleSpec) -> tuple[str, tuple[str, ...], ValuePath] | None:
    """Return the text that a role runs in a shell, the shell's options, and the field of the text.

    None if the role runs a program without a shell.
    """
    command, args, templated = _merged(spec)
    words = [*command, *args]
    start = _start(words)
    index = None if start is None else text_index(words, start)
    if start is None or index is None:
        return None
    name = "command" if index < len(command) else "args"
    return (
        words[index],
        tuple(words[start + 1 : index]),
        ("template" if name in templated else name,),
    )


def _launches(words: Sequence[str], path: Any) -> Iterator[Launch]:
    """Yield the launchers of a list of words.

    Args:
        words: as in `command` and `args`, or of one simple command of a shell.
        path: returns the field that has the word at an index.
    """
    start = _start(words)
    if start is None:
        return
    shell_text = text_index(words, start)
    if shell_text is not None:
        for command in simple_commands(words[shell_text]):
            yield from _launches(command, lambda _: path(shell_text))
        return
    named = _launcher(words, start)
    if named:
        launcher, after = named
        at = path(min(after, len(words) - 1))
        yield _parsed(launcher, words[after:], at)


def _start(words: Sequence[str]) -> int | None:
    """Return the index of the program that runs in the end; None if there is none."""
    wrapped = False
    for index, word in enumerate(words):
        name = program(word)
        if _is_assignment(word):
            continue
        if name in INSTALLERS:
            return None
        if name in WRAPPERS or "entrypoint" in name:
            wrapped = True
        elif not wrapped or _launcher(words, index) or is_shell(name):
            return index
    return None


def _is_assignment(word: str) -> bool:
    """Return True for `NAME=value`, which sets a variable of the command that follows."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _launcher(words: Sequence[str], start: int) -> tuple[str, int] | None:
    """Return the launcher that starts at an index, and the index after its name; or None."""
    name = program(words[start])
    if is_python(name):
        return _python(words, start + 1)
    if name == "accelerate-launch":
        return "accelerate", start + 1
    if name == "accelerate":
        return ("accelerate", start + 2) if "launch" in words[start + 1 : start + 2] else None
    if name in MPIRUN:
        return "mpirun", start + 1
    return (name, start + 1) if name in SWITCHES else None


def _python(words: Sequence[str], start: int) -> tuple[str, int] | None:
    """Return the launcher that `python` runs as a module or a file, as `_launcher` does."""
    for index in range(start, len(words)):
        word = words[index]
        if word == "-m" and index + 1 < len(words):
            launcher = MODULES.get(words[index + 1])
            return (launcher, index + 2) if launcher else None
        if not word.startswith("-"):
            name = program(word)
            return (name, index + 1) if name in SWITCHES else None
    return None


def _parsed(launcher: str, words: Sequence[str], path: ValuePath) -> Launch:
    """Return a launcher with the words after its name parsed."""
    queue, options = list(words), dict[str, str]()
    subcommand: list[str] = []
    if launcher == "ray":
        size = 2 if queue[:1] == ["job"] else 1
        subcommand, queue = queue[:size], queue[size:]
    while queue and queue[0].startswith("-") and queue[0] != "-":
        word = queue.pop(0)
        if word == "--":
            break
        text, equals, value = word.lstrip("-").partition("=")
        name = text.replace("-", "_")
        if not equals and name in TWO_VALUES and launcher == "mpirun" and len(queue) > 1:
            name, value = f"{name}_{queue.pop(0).partition('=')[0]}", queue.pop(0)
        elif not equals and name not in SWITCHES[launcher] and _is_value(queue):
            value = queue.pop(0)
            if name == RANGE and _is_value(queue):
                queue.pop(0)
        options[ALIASES[launcher].get(name, name)] = value
    return Launch(launcher, options, (*subcommand, *queue), path)


def _is_value(queue: Sequence[str]) -> bool:
    """Return True if the next word can be an option's value, and is no program or script."""
    if not queue or queue[0].startswith("-"):
        # A value such as "-p 2222" has a space, which an option does not have.
        return bool(queue) and " " in queue[0]
    return not (is_python(queue[0]) or queue[0].endswith((".py", ".sh")))
