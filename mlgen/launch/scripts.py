"""Rules about shell scripts and the programs that command lines start."""

import re
from collections.abc import Iterator
from itertools import dropwhile

from mlgen.launch.line import COMMANDS, LAUNCHERS, PROGRAMS, Line, lines_of
from mlgen.launch.role import JobRole, Launched, of_launchers, of_remote, of_roles, of_scripts
from mlgen.problems import Problem, ValuePath
from mlgen.shell import (
    cut,
    has_carriage_returns,
    is_python,
    is_shell,
    program,
    unclosed,
)

VARIABLE = r"\$\{?([A-Z]+_[A-Z0-9_]+)\b"
"""A variable in a script."""

NAME, OWN = r"\b([A-Z]+_[A-Z0-9_]+)", r"\b([A-Z]+_[A-Z0-9_]+):?[-+=?]"
"""A variable anywhere in a script, and one that it sets, or that has a default."""

TESTS = r"(?<!\S)\[|\btest\b|\bcase\b"
"""A pattern of commands that test whether a variable is set."""

PRINTS = r"(?:^|[\n;&])[^\S\n]*(?:echo|printf)\b[^\n;&|<>]*(?=[\n;&]|$)"
"""A pattern of commands that only print variables."""

PROGRAM_TESTS = r"\b(if|which|type|command -v)\b|\["
"""A pattern of scripts that may test whether a program exists."""

FOLLOWING = 100
"""The number of words in which training is found that follows another command by mistake."""

DASHES = "\N{EN DASH}\N{EM DASH}"


@of_scripts
def cut_command(role: JobRole) -> Iterator[Problem]:
    r"""Report a line break or a blank that ends a command before its last words.

    YAML's `|` keeps line breaks, and `\` continues a line only if nothing follows it.

    wrong:
        framework: pytorch
        command:
          - bash
          - -c
          - |
            python train.py
              --lr 1e-5
        roles: {worker: {}}
    right:
        framework: pytorch
        command:
          - bash
          - -c
          - |
            python train.py \
              --lr 1e-5
        roles: {worker: {}}
    """
    for script in role.lines.scripts:
        if word := cut(script.text):
            message = f'the line break or blank before "{word}" ends the command before it'
            hint = (
                "end each line of the command except the last one with \\ and nothing after it,"
                " or write >- instead of |, with all lines equally indented and without \\"
            )
            yield role.error(script.path, message, hint)


@of_roles
def line_ends(role: JobRole) -> Iterator[Problem]:
    r"""Warn of scripts whose lines end with a carriage return, which a shell reads as text.

    wrong:
        framework: pytorch
        command: [bash, -c, "cd /code\r\npython train.py\r\n"]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, "cd /code\npython train.py\n"]
        roles: {worker: {}}
    """
    paths = dict[ValuePath, None]()
    for script in role.lines.scripts:
        if "\r\n" in script.text:
            paths[script.path] = None
    for name, volume in role.spec.volumes.items():
        for file, text in (volume.get("files") or {}).items():
            if has_carriage_returns(file, text):
                paths["volumes", name, "files", file] = None
    for path in paths:
        yield role.warning(path, *LINE_ENDS)


LINE_ENDS = (
    r"the lines end with \r\n, and \r becomes a part of the last word of each line",
    r"write \n instead of \r\n, for example with dos2unix, or as a block after |",
)
"""The message about a script with carriage returns, and the hint."""


@of_scripts
def batch_variable(role: JobRole) -> Iterator[Problem]:
    """Report variables of batch systems, which are empty in a pod: a copy of a Slurm script.

    A script may have a default, a test or a value for them, and programs of mpirun have its
    variables.

    wrong:
        framework: pytorch
        command: [bash, -c, "python train.py --nodes $SLURM_NNODES"]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, "python train.py --nodes ${SLURM_NNODES:-1}"]
        roles: {worker: {}}
    """
    systems = COMMANDS["batch_systems"]
    for script in () if role.spec.may_have_more_env else role.lines.scripts:
        text = re.sub(PRINTS, "", script.text)
        found = dict.fromkeys(re.findall(VARIABLE, text))
        names = [name for name in found if name.startswith(tuple(systems))]
        parts = re.split(r"[\n;]", text) if names else []
        tested = " ".join(rest for part in parts for rest in re.split(TESTS, part, maxsplit=1)[1:])
        known = {*role.spec.env, *re.findall(OWN, text), *re.findall(NAME, tested)}
        for name in (name for name in names if name not in known):
            system = next(system for start, system in systems.items() if name.startswith(start))
            if system in LAUNCHERS and _starts_by_mpi(role):
                continue
            meanings = COMMANDS["batch_meanings"].items()
            own = next((own for part, own in meanings if part in name and own in role.env), None)
            hint = f"write ${own}" if own else f"define {name} in env"
            # A launcher rejects an option whose value is empty.
            values = (value for each in role.lines.launches for value in each.options.values())
            is_option = {f"${name}", f"${{{name}}}"} & {*values}
            message = f"{system} sets {name}, so it is empty in a pod"
            yield role.error(script.path, message, hint, warn=not is_option)


def _starts_by_mpi(role: JobRole) -> bool:
    """Return True if a launcher of the job starts processes in other pods."""
    launches = (each for spec in role.job.roles.values() for each in lines_of(spec).launches)
    return "launcher" in role.job.roles or any(not each.launcher.in_each_pod for each in launches)


@of_roles
def other_dash(role: JobRole) -> Iterator[Problem]:
    r"""Report options with a dash of a word processor or web page, which no program knows.

    wrong:
        framework: pytorch
        command: [torchrun, "\u2013nnodes=1", train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, --nnodes=1, train.py, --prompt, "a \u2013 b"]
        roles: {worker: {}}
    """
    for line in role.lines.lines:
        for word, path in zip(line.words, line.paths, strict=True):
            if re.match(rf"[{DASHES}][a-zA-Z]", word):
                message = f"{word} begins with a dash that is not the one of options"
                yield role.error(path, message, f"write --{word.lstrip(DASHES)}")


@of_roles
def placeholder(role: JobRole) -> Iterator[Problem]:
    """Warn of placeholders that nothing fills in: of tutorials, of Helm and Jinja, and of Compose.

    Tokens of language models, such as `<pad>`, are no placeholders. Argo fills in its own.

    wrong:
        framework: pytorch
        command: [torchrun, train.py, --data=<path-to-your-data>]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {RUN_NAME: "${RUN_NAME:-first}"}
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --pad-token=<pad>]
        env: {RUN_NAME: first}
        roles: {worker: {}}
    """
    words = () if role.lines.scripts else zip(role.lines.words, role.lines.paths, strict=True)
    variables = ((value, path) for path, value in role.variables.values())
    for text, path in (*words, *variables):
        found = re.fullmatch(PLACEHOLDER, text) if isinstance(text, str) else None
        if found:
            message = f"{found[1]} is a placeholder that nothing fills in"
            yield role.warning(path, message, "write the value")


PLACEHOLDER = (
    r"(?i)(?:--?[\w-]{1,60}=)?"
    r"(<(?:[^<>]{0,60}[ _-])?(?:your|my|path|insert|todo)(?:[ _-][^<>]{0,60})?>"
    r"|\{\{-? *(?!inputs|workflow|tasks|steps|item)[\w.]{1,60} *-?\}\}|\$\{\w+:-[^{}]*\})"
)
"""A word or a value that is only a placeholder."""


@of_roles
def batch_program(role: JobRole) -> Iterator[Problem]:
    """Report programs of batch systems, which pods do not have, unless a script tests for them.

    wrong:
        framework: pytorch
        command: [srun, torchrun, train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, "if command -v srun; then srun hostname; else python train.py; fi"]
        roles: {worker: {}}
    """
    for line in role.lines.lines:
        system = COMMANDS["system_programs"].get(line.program)
        if system:
            if any(re.search(PROGRAM_TESTS, script.text) for script in role.lines.scripts):
                return
            message = f"{line.program} needs {system}, which pods do not have"
            yield role.error(line.path, message, f"remove {line.program}")


@of_roles
def module_of_file(role: JobRole) -> Iterator[Problem]:
    """Report a file after -m: `python -m train.py` looks for a module `py` in a package `train`.

    https://docs.python.org/3/using/cmdline.html#cmdoption-m

    wrong:
        framework: pytorch
        command: [python, -u, -m, src/train.py]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [torchrun, -m, train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, -m, src.train]
        roles: {worker: {}}
    """
    for line in role.lines.lines:
        launch = line.launch
        if launch and launch.launcher.runs_python and "module" in launch.options:
            word, path = next(iter(launch.script), ""), launch.paths["module"]
        else:
            options = dropwhile(lambda word: re.fullmatch(r"-[^m]\w*", word), line.arguments)
            runs_module = is_python(line.program) and next(options, "") == "-m"
            word, path = next(options, "") if runs_module else "", line.path
        if word.endswith(".py") or "/" in word:
            message = f"-m takes the name of a module, not a file such as {word}"
            yield role.error(path, message, f"write {word} without -m")


@of_scripts
def source_in_sh(role: JobRole) -> Iterator[Problem]:
    """Warn of `source` in sh, which is dash in images of Debian and Ubuntu, and has only `.`.

    https://wiki.ubuntu.com/DashAsBinSh#source

    wrong:
        framework: pytorch
        command: [sh, -c, source /opt/venv/bin/activate && python train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [sh, -c, . /opt/venv/bin/activate && python train.py]
        roles: {worker: {}}
    """
    for line in role.lines.lines:
        if line.shell and line.shell.shell in ("sh", "dash") and line.words[0] == "source":
            message = "sh of Debian and Ubuntu is dash, which has no command source"
            yield role.warning(line.shell.path, message, "run the script with bash, or write .")


@of_scripts
def conda_activate(role: JobRole) -> Iterator[Problem]:
    """Warn of `conda activate` in a shell that has not read conda's functions: it fails.

    conda init writes them into ~/.bashrc, which only an interactive shell reads:
    https://docs.conda.io/projects/conda/en/stable/dev-guide/deep-dives/activation.html

    wrong:
        framework: pytorch
        command: [bash, -c, conda activate train && python train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, eval "$(conda shell.bash hook)" && conda activate a && python train.py]
        roles: {worker: {}}
    """
    for line in role.lines.lines:
        script = line.shell
        if not script or line.words[:2] not in (("conda", "activate"), ("mamba", "activate")):
            continue
        reads = any(re.match(r"-\w*[il]|--(login|rcfile)", option) for option in script.options)
        texts = " ".join(each.text for each in role.lines.scripts)
        if not reads and "BASH_ENV" not in role.variables and not re.search(CONDA, texts):
            name = line.words[0]
            message = f"{name} activate fails in a shell that has not read the functions of {name}"
            hint = f'write eval "$({name} shell.bash hook)" before it, or {name} run -n ENVIRONMENT'
            yield role.warning(script.path, message, hint)


CONDA = r"shell\.|\bhook\b|(conda|mamba|init)\.sh\b|\.(bash|z)rc\b|profile\b"
"""Parts of a script that read conda's functions."""


@of_scripts
def unclosed_quote(role: JobRole) -> Iterator[Problem]:
    """Report scripts that a shell rejects, because a quote has no end.

    wrong:
        framework: pytorch
        command: [bash, -c, "python train.py --name 'my run"]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [bash, -c, "python train.py --name 'my run'"]
        roles: {worker: {}}
    """
    for script in role.lines.scripts:
        if quote := unclosed(script.text):
            message = f"the script has a quote {quote} without an end, which the shell rejects"
            yield role.error(script.path, message, f"add the second {quote}")


@of_scripts
def only_comment(role: JobRole) -> Iterator[Problem]:
    """Report scripts without a command: YAML's `>` appends all lines to the comment in the first.

    wrong:
        framework: pytorch
        command:
          - bash
          - -c
          - >
            # start the training
            python train.py
        roles: {worker: {}}
    right:
        framework: pytorch
        command:
          - bash
          - -c
          - |
            # start the training
            python train.py
        roles: {worker: {}}
    """
    for script in role.lines.scripts:
        if script.text.strip() and not re.search(r"(?m)^[^\S\n]*[^#\s]", script.text):
            message = "the script contains only a comment, so it ends at once"
            hint = "write | instead of >, so that the comment ends with its line"
            yield role.error(script.path, message, hint)


@of_scripts
def not_separated(role: JobRole) -> Iterator[Problem]:
    """Report training that is an argument of the command before it: YAML's `>` joins lines.

    wrong:
        framework: pytorch
        command:
          - bash
          - -c
          - >
            cd /code
            python train.py
        roles: {worker: {}}
    right:
        framework: pytorch
        command:
          - bash
          - -c
          - >
            cd /code &&
            python train.py
        roles: {worker: {}}
    """
    for line in role.lines.lines:
        first = program(line.words[0])
        if not line.shell or first not in COMMANDS["before_training"] or "--" in line.words:
            continue
        for index, word in enumerate(line.words[1:FOLLOWING], 1):
            if _starts_script(line, index):
                message = f"{word} is an argument of {first} here, not a command"
                hint = f"write | instead of >, or && before {word}"
                yield role.error(line.shell.path, message, hint)
                break


def _starts_script(line: Line, index: int) -> bool:
    """Return True if a word is python or a launcher, and a Python script follows it."""
    name = program(line.words[index])
    named = is_python(name) or any(name == each[0] for each in PROGRAMS)
    words = line.words[index:] if named else ()
    return any(word.endswith(".py") for word in words) and Line(words).trains


@of_roles
def daemon(role: JobRole) -> Iterator[Problem]:
    """Report a last command that continues in the background: the container ends with it.

    wrong:
        framework: mpi
        options: {transport: ssh, sshSecret: keys}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {command: [/usr/sbin/sshd, -e]}
    right:
        framework: mpi
        options: {transport: ssh, sshSecret: keys}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {command: [/usr/sbin/sshd, -De]}
    """
    for line in role.lines.lines[-1:]:
        words = line.words
        starts_sshd = program(words[0]) == "sshd"
        if starts_sshd and any(re.match(r"-\w*[Ddt]", word) for word in words):
            continue
        if starts_sshd or (words[0] == "service" and words[-1] == "start"):
            command = " ".join(words)
            message = f"{command} continues in the background, so the container ends at once"
            hint = "write /usr/sbin/sshd -D, or remove the command: by default, mlgen starts sshd"
            yield role.error(("command",), message, hint)


@of_launchers
def two_launchers(launched: Launched) -> Iterator[Problem]:
    """Warn of a launcher whose processes start another one, which starts processes itself.

    wrong:
        framework: pytorch
        command: [torchrun, -m, accelerate.commands.launch, train.py]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [accelerate, launch, train.py]
        roles: {worker: {}}
    """
    raw = launched.raw
    if raw.inner and raw.inner not in raw.launcher.may_start:
        yield launched.warning(
            f"each process of {raw.program} would start {raw.inner}, which starts processes itself",
            "remove one of the two launchers",
        )


@of_launchers
def not_a_python_script(launched: Launched) -> Iterator[Problem]:
    """Report python or a shell script after a launcher that starts its program with python.

    torch/distributed/run.py, config_from_args; accelerate/commands/launch.py, simple_launcher.

    wrong:
        framework: pytorch
        command: [torchrun, python, -u, train.py]
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [accelerate, launch, run.sh]
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, --no-python, bash, run.sh]
        roles: {worker: {}}
    """
    raw = launched.raw
    is_script = raw.launcher.runs_python and not {"module", "no_python"} & {*raw.options}
    if not is_script or not raw.script or raw.inner:
        return
    word, starts = raw.script[0], f"{raw.program} starts its program with python,"
    if is_python(word):
        options = [*raw.script[1:]]
        rest = [*dropwhile(lambda each: re.match(r"-(?!m$)", each), options)]
        words = " ".join((word, *options[: len(options) - len(rest)]))
        message = f"{starts} so it would look for a script named {word}"
        yield launched.error(message, f"remove {words}")
    elif is_shell(word) or word.endswith(".sh"):
        message = f"{starts} but {word} is not a Python script"
        yield launched.error(message, f"write --no_python before {word}")


@of_remote
def script_without_python(launched: Launched) -> Iterator[Problem]:
    """Warn of a Python script as the program of mpirun or horovodrun, which start no python.

    wrong:
        framework: mpi
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, train.py]}
          worker: {}
    right:
        framework: mpi
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, python, train.py]}
          worker: {}
    """
    raw = launched.raw
    word = raw.script[0] if raw.program in ("mpirun", "horovodrun") and raw.script else ""
    if re.fullmatch(r"[\w-]+\.py", word):
        message = f"{raw.program} would look for a program named {word} in PATH"
        yield launched.warning(message, f"write python {word}")
