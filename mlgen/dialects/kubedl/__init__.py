"""KubeDL: the jobs of training.kubedl.io. `annotations` converts their annotations.

Read from kubedl-io/kubedl at b93a2b4: apis/training/v1alpha1 for fields and defaults, controllers
and pkg/job_controller for behavior. KubeDL has no webhook. It would accept the jobs that mlgen
rejects, but never run them.
"""

from math import ceil

from mlgen.dialects._builder import NOTHING, Field
from mlgen.dialects._kubeflow_common import dialect
from mlgen.dialects.kubedl.annotations import ELASTIC_TRAINING, NETWORK_MODE, AnnotatedJob

TTL = "ttlSecondsAfterFinished"

XGBOOST_TTL = 100
"""KubeDL's default `ttlSecondsAfterFinished` for XGBoostJobs."""

XDL_BACKOFF_LIMIT = 20
"""KubeDL's default `backoffLimit` for XDLJobs."""

XDL_RATE = 90
"""KubeDL's default `minFinishWorkRate` for XDLJobs."""

V1ALPHA1_FIELDS = ("gpus", "processingUnits", "replicas")
"""Fields of the earliest MPIJobs, from which KubeDL creates the replica types."""


class KubeDLJob(AnnotatedJob):
    """A job of training.kubedl.io."""

    def write(self) -> None:
        """Write a job of any kind."""
        framework = self.rules.framework
        self.write_roles()
        if framework != "mpi":
            self.warn(
                self.spec.get("runPolicy"),
                "KubeDL ignores runPolicy, and reads its fields from spec; so does mlgen",
                "move the fields of runPolicy to spec",
                code="no-effect",
            )
            own = {k: v for k, v in self.spec.value.items() if k != "runPolicy"}
            self.resource = Field({**self.resource.value, "spec": own})
        for role in self.roles:
            self._write_spot_pods(role, self.replica_types[role])
        # Some frameworks have a method for the fields that only their kind has.
        getattr(self, f"_write_{framework}", lambda: None)()
        self.write_run_policy()
        self.warn(
            self.policy("cronPolicy"),
            "KubeDL starts the job on this schedule; mlgen does not",
            "run the job in a CronWorkflow: mlgen argo --cron",
        )
        self.warn(
            self.policy("schedulingPolicy").get("priority"),
            "KubeDL's queue starts jobs of high priority first; mlgen has no queue",
            "write priorityClassName in the templates",
        )
        if source := self.host_network:
            self.put(("network", "host"), source, value=True)
            restarts = {role.get("restartPolicy") for role in self.roles.values()} - {"Never"}
            if self.rules.port and restarts:
                self.warn(
                    source,
                    "KubeDL gives a restarted replica another host port; with mlgen, it keeps "
                    "its own",
                    "if a program of a node uses one of the ports, choose others: "
                    "--set 'spec.network.hostPorts={base: 25000, size: 1000}'",
                )
            self.remove_annotation(NETWORK_MODE)
        self.write_code_sync()
        self.share_templates()
        if framework == "tensorflow":
            self.write_tensorboard()
        elif framework == "xgboost" and not self.policy(TTL):
            self.put(("runPolicy", TTL), self.spec, XGBOOST_TTL)

    def _write_spot_pods(self, role: str, source: Field) -> None:
        """Write the priority class and labels of a role, if all of its replicas are spot pods.

        KubeDL can limit spot pods to the last replicas. Here, all replicas share one template.
        """
        spot, at = source.get("spotReplicaSpec"), ("roles", role, "template")
        number, replicas = spot.get("spotReplicaNumber"), self.roles[role].get("replicas", 1)
        if not number.value:
            return
        if number.value < replicas:
            self.warn(
                spot,
                f"KubeDL runs the last {number.value} of {replicas} replicas as spot pods; "
                "mlgen does not",
                "write priorityClassName and labels in the template, for all replicas",
            )
            return
        self.put((*at, "spec", "priorityClassName"), spot.get("priorityClassName"))
        labels = self.roles[role].get("template", {}).get("metadata", {}).get("labels", {})
        spot_labels = spot.get("labels")
        self.put((*at, "metadata", "labels"), spot_labels, labels | (spot_labels.value or {}))

    def _write_tensorflow(self) -> None:
        """Write the deciding role of a TFJob, and its artifacts."""
        success = self.spec.get("successPolicy")
        if self.leaders and success.value == "AllWorkers" and "worker" in self.roles:
            self.put(("successPolicy", "roles"), success, [*self.leaders, "worker"])
        self.write_all_workers()
        self.write_artifacts()

    def _write_pytorch(self) -> None:
        """Write the success policy (all ranks) and the artifacts of a PyTorchJob."""
        master = self.replica_types.get("master")
        if not master:
            self.refuse_without_master()
        elif self.require_one(master, "Master") and "worker" in self.replica_types:
            self.put(("successPolicy", "roles"), master, ["master", "worker"])
        elastic = self.annotation(ELASTIC_TRAINING)
        if elastic.value == "true":
            self.warn(
                elastic,
                "KubeDL restarts replicas with a new WORLD_SIZE when their number changes; "
                "mlgen renders a fixed number",
                "use torchrun, and options.elasticPolicy in a job file",
            )
        self.write_artifacts()

    def _write_xdl(self) -> None:
        """Write the options of an XDLJob, with a unique ZooKeeper path."""
        for role in self.roles.values():
            address = role.get("env", {}).get("ZK_ADDR")
            if isinstance(address, str):
                role["env"]["ZK_ADDR"] = f"{address.rstrip('/')}/{self.name}"
        rate = self.spec.get("minFinishWorkRate")
        self.copy(self.spec, ("options",), "minFinishWorkNum" if not rate else "minFinishWorkRate")
        if self.host_network:
            self._require_all_workers()
        self.warn(
            self.replica_types.get("extendrole", NOTHING),
            "KubeDL counts these replicas toward the required successes; mlgen counts only workers",
        )
        restarts = {role["restartPolicy"] for role in self.roles.values()} - {"Never"}
        # The default limit does not apply to restarts after exit codes.
        if not self.policy("backoffLimit") and restarts != {"ExitCode"}:
            self.put(("runPolicy", "backoffLimit"), self.spec, XDL_BACKOFF_LIMIT)

    def _require_all_workers(self) -> None:
        """Write that all workers must succeed. On the host network, each is a separate Job."""
        source = self.host_network
        self.put(("successPolicy", "replicas"), source, "All")
        replicas = self.roles.get("worker", {}).get("replicas", 1)
        options = self.data["spec"].get("options", {})
        rate = options.get("minFinishWorkRate", XDL_RATE)
        needed = options.get("minFinishWorkNum", ceil(replicas * rate / 100))
        if needed < replicas:
            self.warn(
                source,
                "with host networking, mlgen renders a Job for each worker, and all must succeed; "
                f"KubeDL requires {needed} of {replicas}",
                "remove it",
            )

    def _write_mars(self) -> None:
        """Write the memory options of a MarsJob's workers."""
        memory = "workerMemoryTuningPolicy"
        at, source = ("options", memory), self.spec.get(memory)
        self.copy(source, at, "plasmaStore", "lockFreeFileIO", "spillDirs")
        size, percentage = source.get("workerCacheSize"), source.get("workerCachePercentage")
        if size:
            self.put((*at, "workerCacheSize"), size, str(size.value))
        elif percentage.value:
            self.put((*at, "workerCachePercentage"), percentage, min(100, percentage.value))
        host = self.spec.get("webHost")
        self.warn(
            host,
            f"KubeDL creates an Ingress for {host.value}; mlgen does not",
            f"create an Ingress for the Service {self.name}",
        )

    def _write_elasticdl(self) -> None:
        """Warn about an ElasticDL master without a command."""
        master = self.roles.get("master", {})
        if master and not master.get("command") and not master.get("args"):
            self.warn(
                self.replica_types["master"].get("template", "spec", "containers"),
                "KubeDL runs the image's entrypoint; mlgen starts ElasticDL's master",
                "set command if the entrypoint starts another program",
            )

    def _write_mpi(self) -> None:
        """Write the framework and options of an MPIJob.

        By default, the launcher also runs processes. A launcher without workers is a `generic` job.
        The framework controls how workers restart.
        """
        spec, worker = self.spec, self.replica_types.get("worker")
        launcher = self.replica_types.get("launcher")
        for name in V1ALPHA1_FIELDS:
            self.refuse(
                spec.get(name),
                f"with {name}, KubeDL creates workers that run mpirun themselves",
                "write mpiReplicaSpecs and slotsPerWorker instead",
            )
        if launcher:
            self.require_one(launcher, "Launcher")
        else:
            self.refuse(
                spec.get("mpiReplicaSpecs"),
                "a Launcher is required, because it runs mpirun",
                "add a Launcher",
            )
        if not worker:
            self.put_framework("generic")
            return
        if not worker.get("replicas"):
            self.refuse(worker, "replicas is required for Worker", "add replicas")
        self.write_slots()
        distribution = spec.get("mpiDistribution")
        implementation = "Intel" if distribution.value == "IntelMPI" else distribution.value
        self.put(("options", "implementation"), distribution, implementation)
        self.warn(
            self.host_network,
            "KubeDL also starts processes in the launcher; mlgen does not with host networking",
            "reduce the number after -np by the number of processes in the launcher",
        )
        if not self.host_network:
            self.put(("options", "runLauncherAsWorker"), launcher or spec, value=True)
        for name in ("restartPolicy", "retryableExitCodes"):
            self.roles.get("worker", {}).pop(name, None)
        self.warn_of_worker_restarts(worker.get("restartPolicy"))


DIALECT = dialect("kubedl", KubeDLJob)
