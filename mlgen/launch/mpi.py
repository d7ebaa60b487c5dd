"""Rules about launchers that one pod runs, and that start processes in the workers."""

import re
from collections.abc import Iterator

from mlgen.jobfile.model import containers_of
from mlgen.launch.line import FOREVER, lines_of
from mlgen.launch.role import JobRole, Launched, of_launchers, of_roles, users_of
from mlgen.problems import Problem, error, warning


@of_launchers
def training_in_worker(launched: Launched) -> Iterator[Problem]:
    """Report workers that run the launcher or its program themselves, instead of waiting for it.

    It is a warning if the launcher uses `kubectl exec`, which also starts processes in a worker
    that runs another program.

    wrong:
        framework: mpi
        command: [mpirun, ./train]
        runPolicy: {cleanPodPolicy: Running}
        roles: {launcher: {}, worker: {}}
    wrong:
        framework: mpi
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {command: [./train]}
    right:
        framework: mpi
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {}
    """
    raw, job = launched.raw, launched.job
    if "launcher" not in job.roles or raw.launcher.in_each_pod or raw.program == "ray":
        return
    reached = job.options.get("transport") != "ssh"
    hint = "write the command only in roles.launcher"
    lines = lines_of(job.roles["launcher"])
    if launched.role.name == "worker":
        same = any(each.program == raw.program for each in lines.launches)
        if same or re.match(FOREVER, lines.text):
            message = f"each worker runs {raw.program}, too, instead of waiting for the launcher"
            yield launched.error(message, hint, warn=reached)
    elif launched.role.name == "launcher" and "worker" in job.roles:
        worker = lines_of(job.roles["worker"])
        if worker.words and worker.words == raw.script:
            message = f"each worker runs {worker.text} itself, instead of waiting for the launcher"
            report = warning if reached else error
            yield report(("roles", "worker", "command"), message, hint, "launch")


@of_launchers
def root_refused(launched: Launched) -> Iterator[Problem]:
    """Warn of mpirun of Open MPI as root, which it refuses without `--allow-run-as-root`.

    wrong:
        framework: mpi
        security: {runAsUser: 0}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {}
    right:
        framework: mpi
        security: {runAsUser: 0}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, --allow-run-as-root, ./train]}
          worker: {}
    """
    raw, spec, job = launched.raw, launched.spec, launched.job
    is_open_mpi = job.options.get("implementation", "OpenMPI") == "OpenMPI"
    if raw.program != "mpirun" or spec.name != "launcher" or not is_open_mpi:
        return
    allowed = "allow_run_as_root" in raw.options or "ALLOW_RUN_AS_ROOT" in repr(spec)
    if 0 in users_of(job, spec) and not (allowed or spec.may_have_more_env):
        yield launched.warning(
            "mpirun of Open MPI refuses to run as root, and runAsUser is 0",
            "write mpirun --allow-run-as-root, or another runAsUser",
        )


@of_roles
def no_sshd(role: JobRole) -> Iterator[Problem]:
    """Report workers that only sleep, although the launcher connects to them with ssh.

    wrong:
        framework: mpi
        options: {transport: ssh, sshSecret: keys}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {command: [sleep, infinity]}
    right:
        framework: mpi
        options: {transport: ssh, sshSecret: keys}
        runPolicy: {cleanPodPolicy: Running}
        roles:
          launcher: {command: [mpirun, ./train]}
          worker: {command: [bash, -c, service ssh start && sleep infinity]}
    """
    spec, lines = role.spec, role.lines.lines
    by_ssh = role.job.options.get("transport") == "ssh" and spec.name == "worker"
    if not by_ssh or not spec.command or len(lines) != 1:
        return
    # Without a command, the entrypoint of the image may start sshd.
    several = any(containers_of(template) for template in spec.templates)
    command = " ".join(lines[0].words)
    if not several and re.match(FOREVER, command):
        yield role.error(
            ("command",),
            "with transport: ssh, the launcher connects to sshd,"
            f" but the workers only run {command}",
            "remove the command: by default, mlgen starts sshd",
        )
