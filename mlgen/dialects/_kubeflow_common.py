"""Writes replica types and the run policy, which operators based on kubeflow/common share.

Kubeflow's training operator, its MPI operator and KubeDL all started with that library. A job is a
mapping of replica types, each with a pod template, and a policy for the whole job. Read from the
training operator 1.9, pkg/apis/kubeflow.org/v1 and pkg/controller.v1 (1.8 for MXJob), from
kubeflow/xgboost-operator, and from kubedl-io/kubedl at b93a2b4.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from mlgen.dialects._builder import ENDLESS, NOTHING, Builder, Dialect, Field, remove
from mlgen.dialects._schemas import COMMON, read
from mlgen.problems import choice

EARLIER_NAMES = {"eval": "evaluator"}
"""Earlier names of replica types, in the design of kubeflow.org/v1alpha2."""

POLICIES = (
    "cleanPodPolicy",
    "ttlSecondsAfterFinished",
    "backoffLimit",
    "suspend",
    "activeDeadlineSeconds",
)
"""The fields of a run policy that have the same names in a job file."""

JOB_NAME, OWN_NAME = (f"metadata.labels['{key}']" for key in ("job-name", "mlgen.dev/job"))
"""The operators' label with the job's name, and mlgen's. A Job sets the first one to its own name.

pkg/apis/common/v1/constants.go of kubeflow/common, and api/v1/constants.go of KubeDL.
"""


class Rules(NamedTuple):
    """The names and defaults of one kind in one version: a row of `jobs` in common.json.

    Attributes:
        framework: the TrainingJob's name of the framework.
        like: another kind. Its row provides the fields that are missing here.
        retryable: the exit codes that ExitCode retries; by default 128 and above.
        tuner_label: an MXJob's key of a tuner server is a field, not an annotation.
        replica_field: the field of `spec` that holds the replica types.
        roles: the replica types, in output order.
        needs_master: the operator requires a Master.
        container: the name of the training container.
        port: the name of the port that peers connect to; "" if the operator creates no Services.
        servers: the roles that never end by themselves.
        restart: the default restart policy.
        restarts: the default restart policies of roles, where they differ from `restart`.
        overwritten: variables that the operator appends to the user's, overriding their values.
        clean_pod_policy: the default `cleanPodPolicy`, if it differs from the job file's.
        limited: restarts have Kubernetes' default limit. With other kinds, they have no limit.
        manager: the operator's name for itself in `managedBy`.
        transport: how mpirun reaches the workers, "ssh" or "kubectl-exec".
        list: the rules of v1alpha1's list of replica types; see `mlgen.dialects.kubeflow.ListJob`.
    """

    framework: str
    like: str = ""
    retryable: Sequence[int] = ()
    tuner_label: bool = False
    replica_field: str = ""
    roles: Sequence[str] = ()
    needs_master: bool = False
    container: str = ""
    port: str = ""
    servers: Sequence[str] = ()
    restart: str = "Never"
    restarts: Mapping[str, str] = {}
    overwritten: Sequence[str] = ()
    clean_pod_policy: str = ""
    limited: bool = False
    manager: str = ""
    transport: str = ""
    list: Mapping[str, Any] = {}


def dialect(name: str, job: Callable[..., Builder]) -> Dialect:
    """Return a dialect that writes all its kinds with one class, each with its own rules."""
    file = read(f"{name}.json")
    kinds = {
        (version, kind): partial(job, rules=Rules(**_row(f"{version}/{kind}")))
        for version, schemas in file["kinds"].items()
        for kind in schemas
    }
    return Dialect(kinds=kinds, groups=tuple(file.get("groups", ())))


def _row(name: str) -> dict[str, Any]:
    row: dict[str, Any] = read(COMMON)["jobs"][name]
    return _row(row["like"]) | row if "like" in row else row


class ReplicatedJob(Builder):
    """A job with replica types.

    Attributes:
        rules: of its kind.
        replica_types: by role, when they have been read.
    """

    def __init__(self, resource: Field, rules: Rules) -> None:
        super().__init__(resource)
        self.rules = rules
        self.replica_types: dict[str, Field] = {}

    def _read_replica_types(self) -> None:
        """Read the replica types. As in the operator, their names are case-insensitive."""
        rules = self.rules
        canonical = {name.lower(): name for name in rules.roles}
        by_role: dict[str, Field] = {}
        for name, replica_type in self.spec.get(rules.replica_field).fields():
            role = EARLIER_NAMES.get(name.lower(), name.lower())
            if role not in canonical:
                self.refuse(
                    replica_type, f'unknown replica type "{name}"', choice(name, rules.roles)
                )
            elif role in by_role:
                self.refuse(
                    replica_type,
                    f"duplicate replica type {canonical[role]}; upper and lower case are not "
                    "distinguished",
                    "remove one of them",
                )
            else:
                by_role[role] = replica_type
        self.replica_types = {role: by_role[role] for role in canonical if role in by_role}

    def main_container(self, template: Field, name: str) -> Field | None:
        """Return the container with this name, which the operator's webhook requires, or the only.

        Operators without a webhook also run pods without a container of this name.
        """
        containers = template.get("spec", "containers")
        main = containers.get(0) if len(containers.value) == 1 else None
        for container in containers.items():
            if container.value["name"] == name:
                main = container
        if main is None:
            self.refuse(
                containers,
                f'no container has the name "{name}"',
                f'name the training container "{name}"',
            )
        elif not main.get("image").value:
            self.refuse(main, "the training container has no image", "set image")
            return None
        elif main.value["name"] != name:
            self.warn_of_container(main, name)
        return main

    def warn_of_container(self, main: Field, name: str) -> None:
        """Warn that the only container of a pod does not have the name that the operator needs."""
        self.warn(
            main.get("name"),
            f'the operator requires a container named "{name}"; mlgen uses the only container',
            f"write name: {name}",
        )

    def write_roles(self) -> None:
        """Write the framework and all roles, with the operator's defaults."""
        rules = self.rules
        self.put_framework(rules.framework)
        self._read_replica_types()
        self.warn(
            self.replica_types.pop("aimaster", NOTHING),
            "mlgen does not render the AIMaster: it controls the job through a custom resource, "
            "which mlgen does not create",
        )
        for role, replica_type in self.replica_types.items():
            path, template = ("roles", role), with_job_label(replica_type.get("template"))
            main = self.main_container(template, self._container_name(template))
            if main:
                self.role(role, template, main, rules.port)
                self.copy(replica_type, path, "replicas")
                restart = replica_type.get("restartPolicy")
                policy = restart.value or rules.restarts.get(role, rules.restart)
                self.put((*path, "restartPolicy"), restart, policy)
                self.warn_of_template(template, policy)
                if policy == "ExitCode":
                    self.put((*path, "retryableExitCodes"), restart, list(rules.retryable))

    def warn_of_template(self, template: Field, policy: str) -> None:
        """Warn if a pod template has another restart policy than its replica type.

        The operators overwrite it: SetRestartPolicy in the training operator's
        pkg/controller.v1/common/util.go, and setRestartPolicy in the MPI operator's
        pkg/controller/mpi_job_controller.go.
        """
        in_template = template.get("spec", "restartPolicy")
        if in_template.value not in (None, "Never" if policy == "ExitCode" else policy):
            self.warn(
                in_template,
                "the operator ignores restartPolicy in a pod template; "
                f"{policy} of the replica type applies",
                f"write restartPolicy: {in_template.value} next to template, or remove it here",
            )

    def _container_name(self, template: Field) -> str:
        """Return the name of the training container.

        If KubeDL creates no Services, it is `mainContainer`, else the kind's default, else the
        first.
        """
        rules = self.rules
        if rules.port:
            return rules.container
        names = [container["name"] for container in template.get("spec", "containers").value]
        candidates = (self.spec.get("mainContainer").value, rules.container, names[0])
        return str(next(candidate for candidate in candidates if candidate in names))

    def require_one(self, replica_type: Field, name: str) -> bool:
        """Return True if a replica type has one replica. Report an error for another number.

        The webhook of the training operator 1.8 and later also rejects a Master without `replicas`.
        In all other cases, the default is 1.
        """
        replicas = replica_type.get("replicas")
        if replicas.value not in (None, 1):
            self.refuse(replicas, f"the {name} must have one replica", "write replicas: 1")
            return False
        return True

    def refuse_without_master(self) -> None:
        """Report a job without a Master."""
        self.refuse(
            self.spec.get(self.rules.replica_field),
            "a Master is required",
            "add a Master with replicas: 1, and reduce the replicas of Worker by 1",
        )

    @property
    def leaders(self) -> list[str]:
        """The roles of a TFJob that determine its outcome by default."""
        return [name for name in ("chief", "master") if name in self.replica_types]

    def write_all_workers(self) -> None:
        """Write the successPolicy AllWorkers of a TFJob without a chief or master."""
        policy = self.spec.get("successPolicy")
        if policy.value == "AllWorkers" and "worker" in self.roles and not self.leaders:
            self.put(("successPolicy", "role"), policy, "worker")
            self.put(("successPolicy", "replicas"), policy, "All")

    def write_slots(self) -> None:
        """Write the slots of an MPI job's workers. The operators' default is always 1."""
        slots = self.spec.get("slotsPerWorker")
        self.put(("options", "slotsPerWorker"), slots or self.kind, slots.value or 1)

    def warn_of_worker_restarts(self, restart: Field) -> None:
        """Warn if a failed worker ends the operator's MPI job, but here its launcher retries.

        Workers that are reached by `kubectl exec` run in a StatefulSet, because they need fixed
        names. It restarts containers in place, as OnFailure does. mpirun fails when it loses a
        worker, so the job ends anyway if the launcher does not restart.
        """
        launcher_restarts = self.roles.get("launcher", {}).get("restartPolicy") != "Never"
        if launcher_restarts and restart.value in ("Never", "ExitCode"):
            self.warn(
                restart,
                "the operator ends the job if a worker fails; "
                "mlgen restarts the worker and the launcher",
                "write restartPolicy: Never for the Launcher, which fails if it loses a worker",
            )

    def drop_overwritten(self, names: Iterable[str]) -> None:
        """Remove the user's values of these variables, which the operator overwrites."""
        for role, fields in self.roles.items():
            for name in [name for name in names if name in fields.get("env", {})]:
                self.warn(
                    Field(name, self.origins["spec", "roles", role, "env", name]),
                    f"{name} has no effect: the operator and mlgen overwrite it",
                    "remove it",
                )
                remove(fields, "env", name)

    def policy(self, name: str) -> Field:
        """Return a field of the run policy from its place in this version. "" is not set."""
        spec = self.spec
        places = [spec.get("runPolicy", name), spec.get("RunPolicy", name), spec.get(name)]
        return next((value for value in places if value), places[0]).or_unset()

    def write_run_policy(self) -> None:
        """Write the policies of the whole job, from `runPolicy` or from `spec` itself."""
        rules, spec = self.rules, self.data["spec"]
        for name in POLICIES:
            self.put(("runPolicy", name), self.policy(name))
        restarts = any(
            role.get("restartPolicy", "Never") != "Never" for role in self.roles.values()
        )
        limit = ENDLESS if restarts and not rules.limited else None
        defaults = {"cleanPodPolicy": rules.clean_pod_policy, "backoffLimit": limit}
        for name, default in defaults.items():
            if default and name not in spec.get("runPolicy", {}):
                self.put(("runPolicy", name), self.spec, default)
        self._never_retry()
        self.put_manager(rules.manager, self.policy("managedBy"))
        self._write_scheduling()
        for name in rules.servers:
            if self.roles.get(name, {}).get("restartPolicy") == "Always":
                # These roles are StatefulSets, which have no limit. The operators add up the
                # restarts of running pods (PastBackoffLimit in pkg/core/job.go).
                limit = spec["runPolicy"]["backoffLimit"]
                crashes = 0 if limit == ENDLESS else max(limit, 1)
                source = self.policy("backoffLimit") or self.spec
                self.put(("runPolicy", "giveUpAfter", "crashes"), source, crashes)

    def _never_retry(self) -> None:
        """Set backoffLimit 0 for roles with Never: the operators fail the job when one fails.

        In a job file, as in a Kubernetes Job, the job's backoffLimit also applies to them.
        """
        if "backoffLimit" not in self.data["spec"].get("runPolicy", {}):
            return
        for name, role in self.roles.items():
            limits = {"backoffLimit", "backoffLimitPerIndex"}
            if role.get("restartPolicy") == "Never" and not limits & set(role):
                source = Field(None, self.origins["spec", "roles", name, "restartPolicy"])
                self.put(("roles", name, "backoffLimit"), source, 0)

    def _write_scheduling(self) -> None:
        """Write gang scheduling.

        The scheduler is an option of the operator. In the resource, only the pods' schedulerName
        shows it: volcano, or any other name for the coscheduling plugin.
        """
        policy = self.policy("schedulingPolicy")
        if not policy:
            return
        schedulers = {
            replica_type.get("template", "spec", "schedulerName").value
            for replica_type in self.replica_types.values()
        } - {None, "", "default-scheduler"}
        if not schedulers:
            self.warn_of_gang(
                policy,
                "the operator's",
                "set schedulerName in the templates, or pass --set spec.scheduling.gang=volcano",
            )
            return
        gang = "volcano" if "volcano" in schedulers else "coscheduling"
        self.put(("scheduling", "gang"), policy, gang)
        self.copy(policy, ("scheduling",), **read(COMMON)["gang"][gang])


def with_job_label(template: Field) -> Field:
    """Return a pod template that reads the name of the job from mlgen's label."""

    def own(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: own(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [own(item) for item in value]
        return OWN_NAME if value == JOB_NAME else value

    return Field(own(template.value), template.path)


def has_gpus(replica_type: Field) -> bool:
    """Return True if a container has GPUs. The training operator then runs processes in it."""
    containers = replica_type.get("template", "spec", "containers").items()
    limits = [container.get("resources", "limits").value or {} for container in containers]
    return any("gpu" in name for names in limits for name in names)
