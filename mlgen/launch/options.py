"""Rules about the options of launchers, and about `ray start` and `ray job submit`.

`schemas/launch/launchers.json` lists the options.
"""

import re
from collections.abc import Iterator, Sequence

from mlgen.jobfile.model import is_below
from mlgen.launch.line import LAUNCHERS, Launcher, lines_of
from mlgen.launch.mpi import implementation
from mlgen.launch.role import (
    JobRole,
    Launched,
    of_all_roles,
    of_launchers,
    of_options,
    of_ray,
    of_roles,
)
from mlgen.problems import SURE, Problem, listed, similar, warning
from mlgen.shell import cut, is_python

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
    if raw.script and raw.script != ("job", "submit"):
        return
    pairs = tuple(f"{name}_" for name in row.pairs)
    for name in raw.options:
        is_known = name.startswith(pairs) or name in row.known
        if name in row.without_program or not is_known:
            return
    # `cut_command` reports a program that is on the next line.
    if not any(cut(script.text) for script in launched.role.lines.scripts):
        yield launched.error(
            f"{raw.program} has no program to start",
            "write the program after the options; in a script, on the same line,"
            " or after a line that ends with \\",
        )


@of_options
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


@of_options
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
    own = implementation(job)
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


@of_options
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


@of_options
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


IMAGE = r"(?:.*/)?ray(?:-ml|-llm)?:(\d+\.\d+\.\d+)(?:[.-][^/]*)?"
"""An image of Ray, with its version."""


@of_ray
def other_port_of_head(launched: Launched) -> Iterator[Problem]:
    """Report an address of the head with a port at which it does not listen.

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {command: [ray, start, --block, "--address=example-head-0.example:6380"]}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    right:
        framework: ray
        roles:
          head: {}
          worker: {command: [ray, start, --block, "--address=example-head-0.example:6379"]}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    """
    raw, job = launched.raw, launched.job
    if "head" not in job.roles or job.framework != "ray":
        return
    address = raw.literal("address") or ""
    found = re.search(r":(\d{1,5})/?$", address)
    if job.network.on_host or not found or not re.search(r"-head-0\b", address[: found.start()]):
        return
    head = job.roles["head"]
    lines = lines_of(head)
    starts = [each for each in lines.launches if each.script[:1] == ("start",)]
    option = "port" if raw.script[:1] == ("start",) else "dashboard_port"
    if (lines.words and not starts) or any(
        option in each.options and not each.number(option) for each in starts
    ):
        return
    default = (head.port or 6379) if option == "port" else 8265
    own = next((number for each in starts if (number := each.number(option))), default)
    if int(found[1]) != own:
        flag = f"--address={address}"
        message = f"{flag}, but the head listens on port {own}"
        yield launched.error(message, f"write {flag.replace(f':{found[1]}', f':{own}')}")


@of_ray
def ray_start(launched: Launched) -> Iterator[Problem]:
    """Report `ray start` that ends at once, starts a second cluster, or hides its dashboard.

    https://docs.ray.io/en/latest/cluster/cli.html#ray-start

    wrong:
        framework: ray
        roles:
          head: {command: [ray, start, --head]}
          worker: {}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    wrong:
        framework: ray
        roles:
          head: {}
          worker: {command: [ray, start, --head, --block]}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    right:
        framework: ray
        roles:
          head: {command: [ray, start, --head, --block, --dashboard-host=0.0.0.0]}
          worker: {}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    """
    raw, role = launched.raw, launched.role
    if raw.script[:1] != ("start",):
        return
    if "block" not in raw.options and role.lines.lines[-1].launch is raw:
        message = "without --block, ray start ends at once, and so does its container"
        yield launched.error(message, "add --block")
    if role.job.framework == "ray" and role.name != "head" and "head" in raw.options:
        message = f"with --head, each replica of {role.name} starts its own cluster"
        hint = f"remove the command: by default, {role.name} connects to the head"
        yield launched.error(message, hint)
    host = raw.options.get("dashboard_host", "127.0.0.1")
    has_submitter = role.name == "head" and "submitter" in role.job.roles
    if has_submitter and host in ("127.0.0.1", "localhost"):
        message = (
            "the dashboard listens only inside the head's pod, so the submitter cannot reach it"
        )
        yield launched.error(message, "add --dashboard-host=0.0.0.0")


@of_ray
def no_dashes(launched: Launched) -> Iterator[Problem]:
    """Report options of a program that `ray job submit` reads as its own, without `--` before.

    python/ray/dashboard/modules/job/cli.py

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [ray, job, submit, python, tune.py, --lr, "1"]}
    right:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [ray, job, submit, --, python, tune.py, --lr, "1"]}
    """
    raw = launched.raw
    if raw.script[:2] != ("job", "submit") or raw.dashed:
        return
    for word in raw.script[2:]:
        if word == "--":
            return
        name = word.lstrip("-").partition("=")[0].replace("-", "_")
        if re.match(r"--?[a-zA-Z]", word) and name not in raw.launcher.known:
            message = f"ray job submit reads {word} as its own option, and has none of that name"
            yield launched.error(message, f"write -- before {raw.script[2]}")
            return


@of_ray
def no_wait(launched: Launched) -> Iterator[Problem]:
    """Warn of a submitter that does not wait for the end of training, which decides the job.

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [ray, job, submit, --no-wait, --, python, tune.py]}
    right:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    """
    raw, role = launched.raw, launched.role
    is_submitter = role.job.framework == "ray" and role.name == "submitter"
    if is_submitter and raw.script[:2] == ("job", "submit") and "no_wait" in raw.options:
        message = "with --no-wait, the job succeeds before training ends"
        yield launched.warning(message, "remove --no-wait")


@of_roles
def no_submission(role: JobRole) -> Iterator[Problem]:
    """Warn of a submitter that submits nothing, so that training runs outside of the cluster.

    RAY_ADDRESS is the address of the job API. ray.init() cannot connect to it, but to `ray://`:
    https://github.com/ray-project/ray/issues/35010

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [python, tune.py]}
    right:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter: {command: [python, tune.py, "ray://example-head-0.example:10001"]}
    """
    if role.job.framework != "ray" or role.name != "submitter":
        return
    words, launches = role.lines.words, role.lines.launches
    texts = " ".join((*words, *map(str, role.spec.env.values()))).lower()
    trains = launches or any(map(is_python, words[:1]))
    if not trains or re.search("submi(t|ssion)|ray://", texts):
        return
    runs_ray = launches and launches[0].program == "ray"
    training = "python, train.py" if runs_ray else ", ".join(words)
    message = "the submitter does not submit a job to the cluster"
    hint = f"write command: [ray, job, submit, --, {training}]"
    yield warning(("roles", "submitter", "command"), message, hint, "launch")


@of_ray
def script_on_submitter(launched: Launched) -> Iterator[Problem]:
    """Warn of a program that `ray job submit` names on a volume of the submitter only.

    The head runs it: https://docs.ray.io/en/latest/cluster/running-applications/job-submission/

    wrong:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter:
            command: [ray, job, submit, --, python, /code/tune.py]
            volumes: {code: {mountPath: /code, pvc: code}}
    right:
        framework: ray
        roles:
          head: {volumes: {code: {mountPath: /code, pvc: code}}}
          worker: {}
          submitter:
            command: [ray, job, submit, --, python, /code/tune.py]
            volumes: {code: {mountPath: /code, pvc: code}}
    right:
        framework: ray
        roles:
          head: {}
          worker: {}
          submitter:
            command: [ray, job, submit, --working-dir, /code, --, python, tune.py]
            volumes: {code: {mountPath: /code, pvc: code}}
    """
    raw, roles = launched.raw, launched.job.roles
    if raw.script[:2] != ("job", "submit") or "head" not in roles:
        return
    for word in raw.script[2:]:
        own, there = (
            any(is_below(word, path) for path in spec.mount_paths)
            for spec in (launched.spec, roles["head"])
        )
        if own and not there and re.fullmatch(r"/.*\.(py|sh)", word):
            message = f"the head runs {word}, but only {launched.role.name} mounts its volume"
            hint = "mount it in the head too, or pass its folder with --working-dir"
            yield launched.warning(message, hint)


@of_all_roles
def different_ray(roles: Sequence[JobRole]) -> Iterator[Problem]:
    """Warn of workers with another version of Ray or Python than the head, which rejects them.

    python/ray/_private/utils.py, check_version_info. The images are those of
    https://hub.docker.com/r/rayproject/ray, or copies of them.

    wrong:
        framework: ray
        roles:
          head: {image: "rayproject/ray:2.49.0"}
          worker: {image: "rayproject/ray:2.9.3-gpu"}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    wrong:
        framework: ray
        roles:
          head: {image: "rayproject/ray:2.49.0-py310"}
          worker: {image: "rayproject/ray-ml:2.49.0-py311-gpu"}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    right:
        framework: ray
        roles:
          head: {image: "rayproject/ray:2.49.0-py310"}
          worker: {image: "mirror.example/rayproject/ray-ml:2.49.0-py310-gpu"}
          submitter: {command: [ray, job, submit, --, python, tune.py]}
    """
    images = {role.name: str(role.spec.patched("image", role.spec.image)) for role in roles}
    head = re.fullmatch(IMAGE, images.get("head", ""))
    for role in roles if head else ():
        image = images[role.name]
        found = re.fullmatch(IMAGE, image) if role.name != "submitter" else None
        pythons = {*re.findall(r"-py\d+", f"{image} {images['head']}")}
        if found and head and (found[1] != head[1] or len(pythons) > 1):
            message = (
                f"{image} has another version of Ray or Python than the head's image, so"
                f" {role.name} cannot join the cluster"
            )
            hint = f"write images of one version, such as {images['head']}"
            yield role.warning(("image",), message, hint)
