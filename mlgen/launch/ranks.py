"""Rules about the processes that launchers start: how many, their ranks, and their GPUs.

Launchers such as torchrun run once in each replica, and must agree on the number of replicas. A
program may use its variables and options in other ways, so most of these rules are warnings.
"""

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from mlgen.jobfile.model import RoleSpec, gpu_count, has_devices, process_devices
from mlgen.kubernetes.quantity import natural
from mlgen.launch.line import COMMANDS
from mlgen.launch.role import (
    NNODES,
    JobRole,
    Launched,
    contradicted,
    differs,
    of_all_roles,
    of_launchers,
    of_options,
    of_roles,
    of_variables,
)
from mlgen.launch.variables import first_address
from mlgen.problems import Problem, ValuePath, listed, warning
from mlgen.topology import INDEX, INDEX_NAME

RANKS = ("RANK", "PADDLE_RANK", INDEX_NAME)
"""The variables with the rank of a replica, the preferred one first."""

NAME_OF_POD = r"\$\((metadata\.(name|uid)|status\.podIP)\)|\$\{?HOSTNAME\}?|(\$\(|`)hostname[)`]"
"""The name of the pod, which is not a number."""


@of_options
def min_above_max(launched: Launched) -> Iterator[Problem]:
    """Report a minimum that exceeds its maximum.

    wrong:
        framework: horovod
        roles:
          launcher: {command: [horovodrun, -np, "4", --min-np, "8", python, train.py]}
          worker: {replicas: 8}
    wrong:
        framework: pytorch
        command: [torchrun, "--nnodes=4:2", train.py]
        roles: {worker: {replicas: 4}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        options: {elasticPolicy: {minReplicas: 2, maxReplicas: 4}}
        roles: {worker: {replicas: 4}}
    """
    launch, nodes, row = launched.launch, launched.nodes, launched.launch.launcher
    hint = "lower the first number, or raise the second"
    if row.in_each_pod and nodes and nodes[0] > nodes[-1]:
        flag = launched.flag(row.nodes)
        yield launched.error(f"{flag} exceeds its maximum, {nodes[-1]}", hint)
    less, name = -1, ""
    for option in row.ordered:
        more = launch.number(option)
        if more is not None:
            other = option.replace("_", "-")
            if less > more:
                yield launched.error(f"--{name} {less} exceeds --{other} {more}", hint)
            less, name = more, other


@of_options
def other_nodes(launched: Launched) -> Iterator[Problem]:
    """Report a number of pods that is not the number of replicas.

    A launcher that waits for more pods never starts to train. Fewer pods train without the others.

    wrong:
        framework: pytorch
        command: [torchrun, --nnodes=4, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, --nnodes=2, train.py]
        roles: {worker: {replicas: 4}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 4}}
    """
    launch, replicas, nodes = launched.launch, launched.replicas, launched.nodes
    if not launch.launcher.in_each_pod or not nodes or nodes[0] > nodes[-1]:
        return
    option, flag, job = launch.launcher.nodes, launched.flag(launch.launcher.nodes), launched.job
    everyone = max(replicas, int(str(launched.env.get("PET_NNODES", 0)).rpartition(":")[2]))
    least, most = min(nodes), max(nodes)
    if least > everyone:
        # Pods of another job may join, unless the addresses are of this one.
        joins = not (launched.ranked or (launched.meets_own and least > job.replicas))
        hint = f"write --{option}={replicas}"
        if replicas == 1:  # with this option, one pod would train alone
            fields = f"run {least} pods: set replicas, numNodes or completions to {least}"
            hint = fields if job.converted else f"write replicas: {least}"
        message = f"{flag} waits for {least} pods, but the job has {everyone}"
        yield launched.error(message, hint, warn=joins)
    elif launched.ranked and 1 < most < replicas:
        message = f"{flag} leaves {replicas - most} of the {replicas} replicas unused"
        yield launched.warning(message, f"write --{option}={replicas}")


@of_launchers
def trains_alone(launched: Launched) -> Iterator[Problem]:
    """Report replicas of which each trains alone, with the same data and without the others.

    torchrun does so with `--standalone`, tune without options of torchrun, and deepspeed without a
    hostfile (deepspeed/launcher/runner.py).

    wrong:
        framework: pytorch
        command: [torchrun, --standalone, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, --nnodes=1, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [tune, run, lora_finetune_single_device, --config, c.yaml]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [deepspeed, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: jax
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: mpi
        roles:
          launcher: {command: [torchrun, train.py]}
          worker: {replicas: 2}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
    """
    launch, row, replicas = launched.launch, launched.launch.launcher, launched.replicas
    options, several = {*launch.options}, launched.ranked and launched.replicas > 1
    own = launched.spec.replicas > 1 and launched.role.trains_together
    framework = f"use framework: {row.framework}"
    if not row.in_each_pod:
        if row.reaches and options.isdisjoint(row.reaches) and own:
            hint = f"write torchrun instead, or {framework}"
            hint = hint if "PET_NNODES" in launched.env else framework
            yield launched.alone(f"the {launch.program} launcher", hint)
        return
    if several and "standalone" in options:
        yield launched.alone("--standalone")
    elif several and launched.nodes and max(launched.nodes) == 1:
        yield launched.alone(launched.flag(row.nodes))
    if several and row.alone_without_options and not options:
        hint = f"add --{row.nodes}={replicas}"
        yield launched.alone(f"{launch.program} without options of torchrun", hint)
    word = next(iter(launch.script), "")
    if several and row.alone and re.search(row.alone, word):
        yield launched.alone(word, "write a recipe for several GPUs, or replicas: 1")
    reads = row.reads in {*launched.env, *launched.role.variables}
    if not reads and options.isdisjoint((*row.addresses, "standalone")):
        if launched.spec.name == "launcher" and "worker" in launched.job.roles:
            yield launched.all_local(framework)
        elif own:
            flag = f"{launch.program} and framework: {launched.job.framework}"
            yield launched.alone(flag, framework)


@of_options
def same_rank(launched: Launched) -> Iterator[Problem]:
    """Report a rank that several replicas share, or that is not a number.

    The launchers then wait for the missing ranks until their timeout.

    wrong:
        framework: pytorch
        command: [torchrun, --node_rank=0, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [sh, -c, 'torchrun --node_rank=$HOSTNAME train.py']
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        roles:
          master: {command: [torchrun, --node_rank=1, train.py]}
          worker: {replicas: 1, command: [torchrun, train.py]}
    right:
        framework: pytorch
        command: [torchrun, --node_rank=$(RANK), train.py]
        roles: {worker: {replicas: 2}}
    """
    launch, replicas, option = (
        launched.launch,
        launched.spec.replicas,
        launched.launch.launcher.rank,
    )
    rank, text = launch.number(option), launch.options.get(option, "")
    no_number = re.fullmatch(NAME_OF_POD, text) or re.fullmatch(r"(?!-?\d+$)[^$`]+", text)
    if not (no_number or rank is not None) or not launched.expects_others or not launched.is_static:
        return
    variable = next(name for name in RANKS if name in launched.env or name == INDEX_NAME)
    hint, flag = f"write --{option}=$({variable})", launched.flag(option)
    if no_number:
        yield launched.error(f"{flag} is not a number", hint)
    elif replicas > 1:
        message = f"{flag} is the same in all {replicas} replicas, which need different ranks"
        yield launched.error(message, hint)
    elif launched.ranked and (own := _own_rank(launched.role)) not in (None, rank):
        yield launched.warning(f"{flag}, but the rank of this replica is {own}", hint)


def _own_rank(role: JobRole) -> int | None:
    """Return the rank of a role's only replica; None if it is unknown."""
    of_job = role.roles[0]
    index = of_job.merged.index(role.name) if role.name in of_job.merged else of_job.index or 0
    return natural(str(of_job.env.get("PET_NODE_RANK", "")).replace(INDEX, str(index)))


@of_options
def different_value(launched: Launched) -> Iterator[Problem]:
    """Report an option that must be the same in all pods, but differs in each.

    wrong:
        framework: pytorch
        command: [sh, -c, "torchrun --rdzv_backend=c10d --rdzv_id=$RANDOM train.py"]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, --rdzv_backend=c10d, --rdzv_id=bert, train.py]
        roles: {worker: {replicas: 2}}
    """
    row = launched.launch.launcher
    for name in row.shared if row.in_each_pod and launched.expects_others else ():
        if name not in row.addresses and differs(launched.launch.options.get(name, "")):
            message = (
                f"{launched.flag(name)} is different in each pod, so the pods wait for each other"
            )
            yield launched.error(message, f"write --{name}={launched.job.name}")


@of_options
def needs_option(launched: Launched) -> Iterator[Problem]:
    """Report a missing option that the launcher needs for several pods.

    wrong:
        framework: generic
        command: [torchrun, --nnodes=2, "--master_addr=train-worker-0.train", train.py]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, --nnodes=2, train.py]
        roles: {worker: {replicas: 2}}
    """
    row, options, role = launched.launch.launcher, launched.written, launched.role
    most = (launched.launch.literal(row.nodes) or "1").rpartition(":")[2]
    unset = role.trains_together and row.reads not in launched.env
    several = most != "1" and launched.expects_others and launched.is_static and not unset
    if not several or row.config in options or launched.spec.may_have_more_env:
        return
    variables = {*launched.env, *role.variables}
    for name, own in row.required.items():
        has_address = name in row.addresses and {*row.addresses} & {*options}
        if not (name in options or has_address or f"PET_{name.upper()}" in variables):
            variable = next((each for each in own if each in {*launched.env, INDEX_NAME}), "")
            value = f"$({variable})" if variable else first_address(role, "")
            unless = ", unless a configuration file in the image has it" if row.config else ""
            message = f"{launched.flag(row.nodes)} without --{name} fails{unless}"
            yield launched.warning(message, f"add --{name}={value}")


@of_options
def more_processes_than_gpus(launched: Launched) -> Iterator[Problem]:
    """Report more processes, or higher indexes of GPUs, than each pod has GPUs.

    wrong:
        framework: pytorch
        command: [torchrun, --nproc_per_node=8, train.py]
        resources: {limits: {nvidia.com/gpu: 4}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [accelerate, launch, --num_machines=2, --num_processes=16, train.py]
        resources: {limits: {nvidia.com/gpu: 4}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [accelerate, launch, --num_machines=2, --num_processes=4, train.py]
        resources: {limits: {nvidia.com/gpu: 4}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, --nproc_per_node=4, train.py]
        resources: {limits: {nvidia.com/gpu: 4}}
        roles: {worker: {replicas: 2}}
    """
    launch, row, count = launched.launch, launched.launch.launcher, process_devices(launched.spec)
    if not row.in_each_pod or not count:
        return
    sizes = {row.processes: launch.number(row.processes) or 0}
    for name in row.device_lists:
        text = launch.literal(name) or ""
        if re.fullmatch(r"\d{1,4}(,\d{1,4})*", text):
            sizes[name] = max(map(int, text.split(","))) + 1
    for name, size in sizes.items():
        if size > count:
            right = count if name == row.processes else ",".join(map(str, range(count)))
            message = f"{launched.flag(name)} exceeds the number of GPUs per pod, {count}"
            yield launched.warning(message, f"write --{name}={right}")
    name, machines = row.all_processes, launch.number(row.nodes) or 1
    total = launch.number(name) or 0 if "cpu" not in launch.options else 0
    hint = f"write --{name}={count * machines}"
    if total > count * machines:
        message = f"--{name}={total} exceeds the number of GPUs, {count} in each of {machines} pods"
        yield launched.warning(message, hint)
    elif total == count and machines > 1 and total != machines:
        # The number of one pod is probably meant for each, unless it is one process for each pod.
        message = (
            f"--{name}={total} is the number of processes in all pods,"
            f" but {machines} pods have {count} GPUs each"
        )
        yield launched.warning(message, hint)


@of_options
def overrides_option(launched: Launched) -> Iterator[Problem]:
    """Report an option of the launcher that contradicts a field of the job file.

    wrong:
        framework: pytorch
        options: {nprocPerNode: 8}
        command: [torchrun, --nproc_per_node=4, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        options: {elasticPolicy: {minReplicas: 1, maxReplicas: 2}}
        command: [torchrun, --rdzv_backend=static, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        options: {elasticPolicy: {minReplicas: 1, maxReplicas: 2}}
        command: [torchrun, --nnodes=2, train.py]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        options: {nprocPerNode: 8}
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
    """
    launch, row = launched.launch, launched.launch.launcher
    if not row.in_each_pod:
        return
    number, own = launch.number(row.processes), launched.job.options.get("nprocPerNode")
    if launched.ranked and number and isinstance(own, int) and own != number:
        message = f"--{row.processes}={number} overrides nprocPerNode: {own}"
        yield launched.warning(message, "remove one of them")
    elastic = "PET_RDZV_BACKEND" in launched.env and not row.elastic
    if elastic and launch.literal("rdzv_backend") == "static":
        message = "--rdzv_backend=static cannot be used with elasticPolicy, because it needs ranks"
        yield launched.error(message, "remove --rdzv_backend")
    if elastic and len(launched.nodes) == 1:
        message = f"{launched.flag(row.nodes)} overrides elasticPolicy, so the job cannot shrink"
        yield launched.warning(message, f"remove --{row.nodes}: mlgen sets PET_NNODES")


@of_roles
def not_torchrun(role: JobRole) -> Iterator[Problem]:
    """Report options of torchrun in a job whose program starts without it.

    `nprocPerNode` and `elasticPolicy` set variables that only torchrun reads.

    wrong:
        framework: pytorch
        options: {elasticPolicy: {minReplicas: 1, maxReplicas: 2}}
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        options: {nprocPerNode: 4}
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        options: {nprocPerNode: 8}
        resources: {limits: {nvidia.com/gpu: 4}}
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        options: {nprocPerNode: 4}
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
    """
    launches, script = role.lines.launches, role.lone_script
    if "PET_RDZV_BACKEND" in role.env:
        starts = {"python": script} | {
            launch.program: " ".join(launch.script[:1])
            for launch in launches
            if launch.launcher.elastic not in ("", *launch.options)
        }
        for program, file in starts.items():
            if file:
                message = (
                    f"elasticPolicy requires torchrun, but the command starts {file} with {program}"
                )
                yield role.warning(("command",), message, f"write torchrun {file}")
    processes = natural(str(role.env.get("PET_NPROC_PER_NODE", ""))) or 0
    count = process_devices(role.spec)
    if processes in (0, 1) or "PET_NPROC_PER_NODE" in role.spec.env:
        return
    if "WORLD_SIZE" in role.env and script:
        message = (
            "python starts one process in each replica,"
            f" but nprocPerNode: {processes} sets WORLD_SIZE to {role.env['WORLD_SIZE']}"
        )
        hint = "or remove nprocPerNode if the program starts no other processes"
        yield role.warning(("command",), message, f"write torchrun {script}, {hint}")
    elif 0 < count < processes and not any("nproc_per_node" in each.options for each in launches):
        message = f"nprocPerNode: {processes} exceeds the number of GPUs per pod, {count}"
        hint = f"write nprocPerNode: {count}"
        yield warning(("options", "nprocPerNode"), message, hint, "launch")


@of_roles
def nodes_of_program(role: JobRole) -> Iterator[Problem]:
    """Report a program that starts torchrun itself, but not for all replicas of the job.

    LLaMA-Factory and ms-swift read NNODES, whose default is 1, and which mlgen does not set.

    wrong:
        framework: pytorch
        command: [llamafactory-cli, train, sft.yaml]
        env: {FORCE_TORCHRUN: "1"}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [swift, sft, --model, qwen]
        env: {NNODES: "4", NODE_RANK: $(RANK)}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [llamafactory-cli, train, sft.yaml]
        env: {FORCE_TORCHRUN: "1", NNODES: "2", NODE_RANK: $(RANK)}
        roles: {worker: {replicas: 2}}
    """
    replicas = role.job.replicas
    if replicas == 1 or not role.trains_together or role.spec.may_have_more_env:
        return
    for line in role.lines.lines:
        row = COMMANDS["own_launchers"].get(line.program)
        if not row or line.arguments[:1] not in [(command,) for command in row["commands"]]:
            continue
        name, value = row["nodes"], role.values.get(row["nodes"], "")
        size, path = natural(value), role.variables.get(name, (("env",),))[0]
        if not value and not any(word.startswith(f"{name}=") for word in line.words):
            message = (
                f"without {name}, each of the {replicas} replicas of {line.program} trains alone"
            )
            hint = f'set {name}: "{replicas}" and {row["rank"]}: $(RANK) in env'
            yield role.warning(line.paths[line.start or 0], message, hint)
        elif size not in (None, replicas):
            message = contradicted(name, value, replicas)
            yield role.warning(path, message, f'write "{replicas}"')


@of_variables
def parallel_sizes(role: JobRole) -> Iterator[Problem]:
    """Report parallel sizes of a program whose product does not fit the processes of the job.

    Megatron then stops: "world size is not divisible by". verl waits for GPUs that never come.

    wrong:
        framework: pytorch
        command:
          - torchrun
          - pretrain_gpt.py
          - --tensor-model-parallel-size=8
          - --pipeline-model-parallel-size=4
        resources: {limits: {nvidia.com/gpu: 8}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: ray
        roles:
          head: {}
          worker: {replicas: 2, resources: {limits: {nvidia.com/gpu: 8}}}
          submitter:
            command: [ray, job, submit, --, python, -m, verl.trainer.main_ppo,
                      trainer.nnodes=4, trainer.n_gpus_per_node=8]
        runPolicy: {cleanPodPolicy: All}
    right:
        framework: pytorch
        command:
          - torchrun
          - pretrain_gpt.py
          - --tensor-model-parallel-size=8
          - --pipeline-model-parallel-size=2
        resources: {limits: {nvidia.com/gpu: 8}}
        roles: {worker: {replicas: 2}}
    """
    settings = {setting.name: setting for setting in role.settings}
    for row in COMMANDS["parallel_sizes"]:
        found = []
        for name in row["options"]:
            size = natural(settings[name].value) if name in settings else None
            if size:
                found.append((settings[name], size))
        if not found:
            continue
        product, path = prod(size for _, size in found), found[0][0].path
        texts = "with " + listed([f"{each.text}={size}" for each, size in found], "and")
        in_file = path[0] == "volumes"  # that another program may read
        if row.get("in_cluster"):
            have = sum(each.replicas * gpu_count(each) for each in role.job.roles.values())
            fits = product <= have
            message = f"{texts}, the program needs {product} GPUs, but the job has {have}"
        else:
            have = _processes_of(role)
            fits = have % product == 0
            message = (
                f"{texts}, the number of processes must be a multiple of {product}"
                f", but it is {have}"
            )
        if have and not fits:
            yield role.error(path, message, "change them, or replicas", warn=in_file)


def _processes_of(role: JobRole) -> int:
    """Return the number of processes that train together; 0 if it is unknown."""
    launched = [each for each in role.launched if each.launch.launcher.in_each_pod]
    if len(launched) != 1 or not launched[0].ranked or ":" in str(role.env.get("PET_NNODES", ":")):
        return 0
    launch, row = launched[0].launch, launched[0].launch.launcher
    if row.processes in launch.options:
        each = launch.number(row.processes) or 0
    else:
        each = natural(str(role.env.get("PET_NPROC_PER_NODE"))) or process_devices(role.spec)
    return launch.number(row.all_processes) or each * launched[0].replicas


BACKEND = r"(.*\.)?(\w+_)?backend"
"""The names of arguments and entries that choose a backend."""

CALL = r"init_process_group\(\s*(backend\s*=\s*)?['\"]nccl['\"]\s*[,)]"
"""A call that always uses NCCL. If a program asks for GPUs first, other calls may use another."""

ELSEWHERE = r"(?i)nvidia|gpu|cuda|runtimeClassName|privileged"
"""Signs in a template or a variable of GPUs that a container gets without requesting them."""


def _may_have_gpus(spec: RoleSpec) -> bool:
    """Return True if a role requests a device, or may get GPUs without a request."""
    if spec.gpus or has_devices(spec):
        return True
    return re.search(ELSEWHERE, repr((spec.templates, spec.env))) is not None


@of_roles
def nccl_without_gpus(role: JobRole) -> Iterator[Problem]:
    """Report the backend NCCL in a role without GPUs, where it fails.

    https://github.com/pytorch/pytorch/pull/45642

    wrong:
        framework: pytorch
        command: [torchrun, train.py, --backend, nccl]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, /code/train.py]
        volumes:
          code: {mountPath: /code, files: {train.py: "dist.init_process_group('nccl')"}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {PL_TORCH_DISTRIBUTED_BACKEND: nccl}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --backend, nccl]
        resources: {nvidia.com/gpu: 1}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --backend, gloo]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --backend, nccl]
        env: {NVIDIA_VISIBLE_DEVICES: all}
        roles: {worker: {replicas: 2}}
    """
    spec = role.spec
    if _may_have_gpus(spec) or not role.trains_together:
        return
    lines = role.lines
    named: list[tuple[str, Any, ValuePath]] = [
        *((setting.name, setting.value, setting.path) for setting in role.settings),
        *((name.lower(), value, ("env", name)) for name, value in spec.env.items()),
    ]
    places = [
        path for name, value, path in named if value == "nccl" and re.fullmatch(BACKEND, name)
    ]
    words = zip(lines.words, lines.paths, strict=True)
    for text, path in (*((text, path) for _, text, path in lines.files), *words):
        if re.search(CALL, text) and not re.search("gloo|is_available", text):
            places.append(path)
    for place in dict.fromkeys(places):
        message = f"NCCL works only with GPUs, and {role.name} has none"
        yield role.warning(place, message, "add nvidia.com/gpu to resources, or write gloo")


@of_all_roles
def rank_without_gpus(roles: Sequence[JobRole]) -> Iterator[Problem]:
    """Report a role without GPUs whose replicas train together with those of roles with GPUs.

    All ranks usually run the same program. The master of a PyTorchJob is rank 0, not a launcher:
    pkg/controller.v1/pytorch/envvar.go of kubeflow/training-operator 1.5.

    wrong:
        framework: pytorch
        command: [python, train.py]
        roles:
          master: {}
          worker: {replicas: 2, resources: {nvidia.com/gpu: 1}}
    right:
        framework: pytorch
        command: [python, train.py]
        resources: {nvidia.com/gpu: 1}
        roles: {master: {}, worker: {replicas: 2}}
    right:
        framework: pytorch
        roles:
          master: {command: [python, parameters.py]}
          worker: {replicas: 2, command: [python, train.py], resources: {nvidia.com/gpu: 1}}
    """
    ranks = [role for role in roles if not role.env.keys().isdisjoint(NNODES)]
    with_gpus = [role for role in ranks if role.spec.gpus]
    for role in ranks:
        # A role with another command may be a parameter server, which needs none.
        same = (other.name for other in with_gpus if other.lines.words == role.lines.words)
        other = next(same, None)
        if other and not _may_have_gpus(role.spec):
            message = f"{role.name} has no GPUs, but trains together with {other}, which has"
            hint = f"write the resources of {other} for {role.name}, too"
            yield role.warning((), message, hint, code="combination")
