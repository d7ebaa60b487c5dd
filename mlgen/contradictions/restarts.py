"""Rules about restarts: their policies, limits and signals, and the progress that causes them."""

import posixpath
from collections.abc import Iterator

from mlgen.contradictions.lifecycle import of_jobs, of_run_policy, unknown_role
from mlgen.jobfile.model import GANG_BOUNDS, GiveUpAfter, is_below, written
from mlgen.launch.line import Line, lines_of
from mlgen.problems import Problem, error, warning
from mlgen.shell import is_shell, program
from mlgen.topology import Topology

OWN_LIMITS = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
"""The limits of a role that restarts alone. They have no effect in a gang."""

DEFAULT_GRACE = 30
"""terminationGracePeriodSeconds of pods that do not set it."""


@of_jobs
def exit_codes_unused(topology: Topology) -> Iterator[Problem]:
    """Report retryable exit codes without restartPolicy ExitCode, which have no effect.

    Codes that are set for all roles need only one role with that policy.

    wrong:
        framework: jax
        command: [python, train.py]
        retryableExitCodes: [137]
        roles: {worker: {restartPolicy: Never}}
    right:
        framework: jax
        command: [python, train.py]
        retryableExitCodes: [137]
        roles: {worker: {replicas: 2, restartPolicy: ExitCode}}
    """
    used = {role.spec.retryable_exit_codes for role in topology.roles if role.restart == "ExitCode"}
    for role in topology.roles:
        if role.spec.retryable_exit_codes and role.spec.retryable_exit_codes not in used:
            yield warning(
                ("roles", role.spec.name, "retryableExitCodes"),
                f"retryableExitCodes has no effect with restartPolicy: {role.restart}",
                "write restartPolicy: ExitCode",
                "no-effect",
            )


@of_jobs
def unused_limits(topology: Topology) -> Iterator[Problem]:
    """Report limits of a role that its workload does not have, or that a gang replaces.

    wrong:
        framework: tensorflow
        command: [python, train.py]
        roles: {ps: {backoffLimit: 3}, worker: {replicas: 2}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2, backoffLimit: 3}}
        runPolicy: {restartScope: All}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2, backoffLimit: 3, restartPolicy: ExitCode}}
    """
    for role in topology.roles:
        names = written(role.spec)
        for name in ("activeDeadlineSeconds", *OWN_LIMITS):
            path = ("roles", role.spec.name, name)
            if role.serves and name in names:
                message = f"{role.name} is rendered as a StatefulSet, which has no {name}"
                hint = "remove it, or use a restartPolicy other than Always"
                yield warning(path, message, hint, "no-effect")
            if role.restarts_together and name in OWN_LIMITS and name in names:
                message = f"{role.name} restarts together with its peers, so {name} has no effect"
                hint = f"remove it, or write restartScope: Replica for {role.name}"
                yield warning(path, message, hint, "no-effect")


@of_jobs
def limit_per_index(topology: Topology) -> Iterator[Problem]:
    """Report a limit per index of a Job that does not count the failures of an index.

    It needs restartPolicy Never, and a Job for all replicas.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2, maxFailedIndexes: 1}}
    wrong:
        framework: paddle
        command: [python, train.py]
        roles: {worker: {replicas: 2, backoffLimitPerIndex: 1}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2, backoffLimitPerIndex: 1}}
        network: {host: true}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2, backoffLimitPerIndex: 1, maxFailedIndexes: 1}}
    """
    for role in topology.roles:
        spec, path = role.spec, ("roles", role.spec.name, "backoffLimitPerIndex")
        if role.serves:
            continue
        if spec.backoff_limit_per_index is None:
            if spec.max_failed_indexes is not None:
                path = ("roles", spec.name, "maxFailedIndexes")
                message = "maxFailedIndexes requires backoffLimitPerIndex"
                yield error(path, message, "add backoffLimitPerIndex")
            continue
        if role.restart == "OnFailure" and not role.restarts_together:
            message = "backoffLimitPerIndex cannot be used with restartPolicy: OnFailure"
            yield error(path, message, "write restartPolicy: ExitCode or restartPolicy: Never")
        if role.index is not None:
            yield error(
                path,
                "backoffLimitPerIndex has no effect, because each replica of"
                f" {spec.name} has its own Job",
                "write backoffLimit, which limits the retries of each replica",
            )


@of_run_policy
def managed_by(topology: Topology) -> Iterator[Problem]:
    """Report another manager of the Jobs. The Job controller ignores them, and mlgen has none.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#delegation-of-managing-a-job-object-to-external-controller

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {managedBy: kueue.x-k8s.io/multikueue}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
    """
    if topology.job.run_policy.managed_by is not None and not topology.job.jobset:
        message = "another controller manages a Job with managedBy, so Kubernetes does not run it"
        yield warning(("runPolicy", "managedBy"), message, "remove it")


@of_jobs
def restarts_alone(topology: Topology) -> Iterator[Problem]:
    """Report replicas with ranks that restart alone, while their peers hang.

    Operators do the same. torchrun's dynamic rendezvous admits a new replica.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2, restartPolicy: OnFailure}}
    wrong:
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: example}
        spec:
          pytorchReplicaSpecs:
            Worker:
              replicas: 2
              restartPolicy: OnFailure
              template:
                spec:
                  containers:
                  - {name: pytorch, image: example/train:1, command: [torchrun, train.py]}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2, restartPolicy: OnFailure}}
        options: {elasticPolicy: {minReplicas: 1, maxReplicas: 2}}
    """
    job = topology.job
    if job.replicas == 1 or not job.supervisor or job.workflow:
        return
    for role in topology.roles:
        spec = role.spec
        is_own_policy = spec.restart_policy == "OnFailure" and not role.gang and role.keeps_rank
        if not is_own_policy or job.unwritten.issuperset(role.merged or [spec.name]):
            continue
        options = [launch.options for launch in lines_of(spec).launches]
        is_dynamic = any(each.get("rdzv_backend", "static") != "static" for each in options)
        if is_dynamic or "PET_RDZV_BACKEND" in spec.env:
            continue
        there = ", as with the operator," if job.converted else ","
        message = (
            f"a replica that fails restarts alone{there} but its peers cannot continue with it,"
            " and may hang"
        )
        path = ("roles", spec.name, "restartPolicy")
        if job.converted:
            hint = "to restart all replicas, pass --set spec.runPolicy.restartScope=All"
            yield warning(path, message, hint, "differs")
        else:
            hint = "write runPolicy: {restartScope: All}, so that all replicas restart"
            yield warning(path, message, hint)


@of_run_policy
def restart_scope(topology: Topology) -> Iterator[Problem]:
    """Report roles that cannot restart together with others.

    Kueue admits a group of pods once. It does not replace a pod that must keep its name.

    wrong:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}, server: {restartPolicy: Always}}
        runPolicy: {restartScope: [trainers]}
    wrong:
        framework: mpi
        roles:
          launcher: {command: [mpirun, python, train.py]}
          worker: {replicas: 2}
        scheduling: {gang: kueue, queue: research}
        runPolicy: {restartScope: All}
    right:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}, server: {restartPolicy: Always}}
        runPolicy: {restartScope: [trainer]}
    """
    job, scope = topology.job, topology.job.run_policy.restart_scope
    if scope == "Replica":
        return
    names = [role.name for role in topology.roles if role.gang and role.serves]
    if names and job.scheduling.gang == "kueue" and not job.jobset:
        yield error(
            ("runPolicy", "restartScope"),
            f"Kueue cannot replace the pods of {names[0]}, which the launcher reaches by their"
            " names, so they cannot restart",
            "write transport: ssh in options, or gang: none",
        )
    known = [role.name for role in topology.roles]
    for name in scope if isinstance(scope, tuple) else ():
        if name not in known:
            yield unknown_role(("runPolicy", "restartScope"), name, known)


@of_run_policy
def restart_bounds(topology: Topology) -> Iterator[Problem]:
    """Report bounds on the restarts of all replicas that contradict each other or never apply.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {backoffResetSeconds: 600}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All, backoffLimit: 2, giveUpAfter: {startFailures: 5}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All, backoffResetSeconds: 60, giveUpAfter: {startSeconds: 600}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All, giveUpAfter: {startFailures: 0, startSeconds: 600}}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All, backoffResetSeconds: 600, giveUpAfter: {startFailures: 5}}
    """
    job, policy = topology.job, topology.job.run_policy
    bounds = policy.give_up_after or GiveUpAfter()
    names = {*written(policy), *written(bounds)}
    written_bounds = [path for path in GANG_BOUNDS if path[-1] in names]
    if job.converted or not job.supervisor or job.jobset or not written_bounds:
        return
    if not any(role.gang for role in topology.roles):
        for bound in written_bounds if not job.workflow else ():
            message = f"{bound[-1]} has no effect without runPolicy.restartScope"
            hint = "remove it, or write restartScope: All"
            yield warning(("runPolicy", *bound), message, hint, "no-effect")
        return
    path = ("runPolicy", "giveUpAfter")
    start, reset, most = bounds.start_seconds, policy.backoff_reset_seconds, policy.retries + 1
    if "startFailures" in names and bounds.start_failures > most:
        message = f"backoffLimit: {policy.retries} already ends the job at failure {most}"
        hint = f"write at most {most}, or raise backoffLimit"
        yield warning((*path, "startFailures"), message, hint, "no-effect")
    if not bounds.start_failures:
        if "startSeconds" in names:
            message = "startSeconds has no effect with startFailures: 0"
            yield warning((*path, "startSeconds"), message, "remove one of them", "no-effect")
    elif names & {"startSeconds", "backoffResetSeconds"} and 0 < reset <= start:
        is_reset = "backoffResetSeconds" in names
        place = ("runPolicy", "backoffResetSeconds") if is_reset else (*path, "startSeconds")
        message = f"backoffResetSeconds: {reset} must be greater than startSeconds: {start}"
        yield error(place, message, "raise backoffResetSeconds, or lower startSeconds")


@of_run_policy
def nothing_to_restart(topology: Topology) -> Iterator[Problem]:
    """Report restarts of a stalled job, or in place, without the roles to restart or a limit.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {progress: {stalledSeconds: 3600, onStall: Restart}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All, progress: {onStall: Restart}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartMode: InPlace}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All, progress: {stalledSeconds: 3600, onStall: Restart}}
    """
    job, policy, hint = topology.job, topology.job.run_policy, "write restartScope: All"
    progress, path = policy.progress, ("runPolicy", "progress", "onStall")
    if not progress and policy.restart_mode != "InPlace":
        return
    needs = "requires runPolicy.restartScope, which names the roles to restart"
    # Without a supervisor, there is no gang, and the fields have no effect, with a warning.
    is_missing = job.supervisor and not job.workflow and not any(r.gang for r in topology.roles)
    if progress and progress.on_stall == "Restart":
        if is_missing:
            yield error(path, f"onStall: Restart {needs}", hint)
        if progress.start_seconds is None and progress.stalled_seconds is None:
            yield warning(
                path,
                "onStall: Restart has no effect without startSeconds or stalledSeconds",
                "add stalledSeconds, longer than the longest checkpoint or evaluation",
                "no-effect",
            )
    if policy.restart_mode == "InPlace" and is_missing:
        yield error(("runPolicy", "restartMode"), f"restartMode: InPlace {needs}", hint)


@of_run_policy
def progress_file(topology: Topology) -> Iterator[Problem]:
    """Report a file of progress that is not in a volume, so that the sidecar cannot see it.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {progress: {file: /out/progress.json}}
    right:
        framework: jax
        command: [python, train.py]
        volumes: {out: {mountPath: /out, emptyDir: {}}}
        roles: {worker: {replicas: 2}}
        runPolicy: {progress: {file: /out/progress.json}}
    """
    progress = topology.job.run_policy.progress
    if not progress or not progress.file:
        return
    file = posixpath.normpath(progress.file)
    for role in topology.roles:
        for folder in role.spec.mount_paths:
            if is_below(file, folder):
                return
    yield error(
        ("runPolicy", "progress", "file"),
        f"no volume of a training container contains {progress.file}, so the sidecar cannot see"
        " the file",
        "add a volume, such as emptyDir: {}, whose mountPath contains it",
    )


@of_run_policy
def force_delete(topology: Topology) -> Iterator[Problem]:
    """Report a time after which no pod is deleted, because the job has no StatefulSet.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {forceDeleteAfterSeconds: 60}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
    """
    is_set = topology.job.run_policy.force_delete_after_seconds is not None
    if is_set and not any(role.serves for role in topology.roles):
        yield warning(
            ("runPolicy", "forceDeleteAfterSeconds"),
            "forceDeleteAfterSeconds has no effect in a job without a StatefulSet, such as"
            " parameter servers or MPI workers",
            "remove it",
            "no-effect",
        )


@of_jobs
def no_sigterm(topology: Topology) -> Iterator[Problem]:
    """Report a shell that keeps SIGTERM from a program for which the job file prepares it.

    The shell is process 1, and the kernel discards signals for which process 1 has no handler
    (pid_namespaces(7)). So the program gets only SIGKILL, after the grace period. bash replaces
    itself with the last command of its script, unless that has a redirection. dash and busybox
    do not.

    wrong:
        framework: generic
        command: [sh, -c, cd /code && python train.py]
        roles: {trainer: {}}
        template: {spec: {terminationGracePeriodSeconds: 300}}
    right:
        framework: generic
        command: [sh, -c, cd /code && exec python train.py]
        roles: {trainer: {}}
        template: {spec: {terminationGracePeriodSeconds: 300}}
    """
    for role in topology.roles:
        spec, lines = role.spec, lines_of(role.spec)
        if role.endless or not lines.scripts:
            continue
        is_prepared = any("signal.SIGTERM" in text for text in spec.file_texts)
        for template in spec.templates:
            grace = (template.get("spec") or {}).get("terminationGracePeriodSeconds") or 0
            is_prepared = is_prepared or grace > DEFAULT_GRACE
        for patch in spec.container_patches:
            is_prepared = is_prepared and not (patch.get("lifecycle") or {}).get("preStop")
        script = lines.scripts[0]
        commands = [words for words, _ in script.sequence] if is_prepared else []
        last = Line(tuple(commands[-1])) if commands else None
        shell = next((word for word in lines.words if is_shell(word)), "sh")
        if not last or not last.trains or (program(shell) == "bash" and ">" not in script.text):
            continue
        if not any(words[0] in ("exec", "trap") for words in commands):
            command = " ".join(last.words[:2])
            yield warning(
                ("roles", spec.name, *script.path),
                f"{shell} does not pass SIGTERM to {command}, so it is killed before it can save"
                " its state",
                f"write exec before {command}",
                "launch",
            )
