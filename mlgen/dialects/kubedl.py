"""KubeDL: the jobs of training.kubedl.io, and the fields of their annotations `kubedl.io/…`.

Some annotations hold a configuration as JSON. Annotations that become fields of the TrainingJob are
removed from its metadata.

Read from kubedl-io/kubedl at b93a2b4: apis/training/v1alpha1 for fields and defaults, controllers,
pkg/job_controller, pkg/code_sync and pkg/tensorboard for behavior. KubeDL has no webhook. It would
accept the jobs that mlgen rejects, but never run them.
"""

import json
import posixpath
from math import ceil
from shlex import quote

from mlgen.dialects._builder import NOTHING, Field, remove
from mlgen.dialects._kubeflow_common import ReplicatedJob, dialect
from mlgen.dialects._schemas import read
from mlgen.documents.document import is_too_deep
from mlgen.input_limits import DEPTH
from mlgen.problems import ValuePath, choice, dotted

NETWORK_MODE = "kubedl.io/network-mode"
ELASTIC_TRAINING = "kubedl.io/enable-elastic-training"

GIT_SYNC = "kubedl.io/git-sync-config"
TENSORBOARD = "kubedl.io/tensorboard-config"

TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "boolean": (bool, "a boolean"),
    "integer": (int, "an integer"),
    "number": (float, "a number"),
    "object": (dict, "an object"),
    "array": (list, "a list"),
}
"""The Python type and its name in messages, by type in JSON Schema."""


CREDENTIALS = ("ssh", "sshFile", "user", "password")


LEADERS = ("chief", "master", "worker")
"""The roles that can be the leader, the preferred first. TensorBoard reads the leader's volumes."""

SHAREABLE = ("pvc", "nfs", "hostPath")
"""Volumes that pods can share."""


MODEL_PATH = "/kubedl-model"
"""The folder in which training code saves a model by default."""

MODEL_PATH_ENV = "KUBEDL_MODEL_PATH"


class AnnotatedJob(ReplicatedJob):
    """A job with KubeDL's annotations."""

    @property
    def host_network(self) -> Field:
        """The annotation if the pods use the network of their nodes; else an unset value."""
        mode = self.annotation(NETWORK_MODE)
        return mode if mode.value == "host" else NOTHING

    def remove_annotation(self, name: str) -> None:
        """Remove an annotation from the TrainingJob."""
        remove(self.data["metadata"], "annotations", name)

    def read_json(self, name: str) -> Field:
        """Return the JSON object in an annotation, and remove the annotation from the TrainingJob.

        Args:
            name: of the annotation. Its schema is in `schemas/resources/kubedl.json`.

        Returns:
            The object without null fields; an unset value if the annotation is missing or invalid.
        """
        source = self.annotation(name)
        if not source:
            return source
        self.remove_annotation(name)
        schema = read("kubedl.json")["annotations"][name]
        hint = f"for example {json.dumps(schema['examples'][0])}"
        try:
            content = json.loads(source.value)
            json.dumps(content, ensure_ascii=False).encode()  # rejects half of a surrogate pair
            if is_too_deep(content):
                raise RecursionError(f"nested more than {DEPTH} levels deep")
        except (ValueError, RecursionError) as error:
            self.refuse(source, f"invalid JSON: {error}", hint)
            return NOTHING
        if not isinstance(content, dict):
            self.refuse(source, "expected a JSON object", hint)
            return NOTHING
        config = Field({k: v for k, v in content.items() if v is not None}, source.path)
        known, wrong = schema["properties"], False
        types = {name: TYPES[field["type"]] for name, field in known.items()}
        for field_name, field in config.fields():
            kind, expected = types.get(field_name, (object, ""))
            if not isinstance(field.value, kind):
                wrong = True
                got = dict(TYPES.values())[type(field.value)]
                self.refuse(field, f"expected {expected}, got {got}", hint)
        for field_name, field in config.fields():
            if field_name not in known:
                suggestion = choice(field_name, list(known))
                message = f'unknown field "{field_name}"; KubeDL also ignores it'
                self.warn(field, message, suggestion)
        (required,) = schema["required"]
        if not wrong and not config.get(required).value:
            self.refuse(config, f'field "{required}" is missing', hint)
            wrong = True
        return NOTHING if wrong else config

    def write_code_sync(self) -> None:
        """Write the repository as a volume, mounted below the working directory of each role."""
        config = self.read_json(GIT_SYNC)
        if not config:
            return
        git = {"repository": config.get("source").value}
        revision = config.get("revision").value or config.get("branch").value
        if revision:
            git["revision"] = revision
        paths = self._mount_paths(config)
        same = len(set(paths.values())) == 1
        owners: list[ValuePath] = [()] if same else [("roles", role) for role in paths]
        volumes = [(*owner, "volumes", "git-sync") for owner in owners]
        for volume, path in zip(volumes, paths.values(), strict=False):
            self.put(volume, config, {"mountPath": path, "git": git})
        if any(
            config.get(name).value for name in CREDENTIALS
        ):  # readable by all readers of the job
            settings = " ".join(
                f"--set spec.{dotted(volume)}.git.secret=NAME" for volume in volumes
            )
            self.warn(
                config,
                "credentials in an annotation are not secret, and mlgen does not use them",
                "create a Secret with ssh-privatekey and known_hosts, or with username and "
                f"password, and pass {settings}",
            )
        for name in ("image", "envs"):
            if config.get(name).value:
                self.warn(
                    config.get(name),
                    f"{name} applies to KubeDL's own container; mlgen runs git in another image",
                    "to choose the image, pass --set spec.helpers.gitImage=IMAGE",
                )

    def _mount_paths(self, config: Field) -> dict[str, str]:
        """Return the absolute path of the repository in the containers of each role.

        KubeDL joins the working directory and the folder. Relative paths start at `/`.
        """
        name = config.get("source").value.strip("/").rpartition("/")[2].removesuffix(".git")
        folder = config.get("destPath").value or name
        joined = {
            role: posixpath.normpath(f"/{fields.get('workingDir', '')}/{folder}")
            for role, fields in self.roles.items()
        }
        return {role: f"/{path.lstrip('/')}" for role, path in joined.items()}

    def write_tensorboard(self) -> None:
        """Write `spec.tensorboard`, with the leader's volume that contains the logs."""
        config = self.read_json(TENSORBOARD)
        leader = next((role for role in LEADERS if role in self.roles), None)
        if not config or leader is None:
            return
        log_dir = config.get("logDir")
        if "://" not in log_dir.value and not self._share_volume(leader, log_dir):
            self.warn(
                log_dir,
                f"TensorBoard is not rendered, because {log_dir.value} is not on a volume that it "
                "can share",
                "mount a PersistentVolumeClaim or an NFS volume at this path, only in the training "
                f"container of the {leader}",
            )
            return
        image = config.get("image").value or self.roles[leader]["image"]
        self.copy(config, ("tensorboard",), "logDir")
        self.put(("tensorboard", "image"), config.get("image"), image)
        name = f"{self.name}-tensorboard"
        # These fields are not rendered.
        seconds, ingress = config.get("ttlSecondsAfterJobFinished"), config.get("ingressSpec")
        self.warn(
            seconds,
            f"KubeDL deletes TensorBoard {seconds.value} s after training; mlgen keeps it",
            f"to delete it, run kubectl delete deployment,service {quote(name)}",
        )
        self.warn(
            ingress,
            "KubeDL creates an Ingress for TensorBoard; mlgen does not",
            f"create one for the Service {name}, port 6006",
        )

    def _share_volume(self, leader: str, log_dir: Field) -> bool:
        """Move the leader's volume that contains the logs to the volumes of all roles.

        TensorBoard mounts the volumes of all roles. Return False if there is no such volume.
        """
        mounted = {
            name: volume
            for name, volume in self.roles[leader].get("volumes", {}).items()
            if set(SHAREABLE) & set(volume)
            and f"{log_dir.value}/".startswith(f"{volume['mountPath'].rstrip('/')}/")
        }
        if not mounted:
            return False
        name = max(mounted, key=lambda name: len(mounted[name]["mountPath"]))
        volume = mounted[name]
        without = [role for role in self.roles if name not in self.roles[role].get("volumes", {})]
        if without:
            roles = ", ".join(without)
            self.warn(log_dir, f"mlgen mounts the volume {name} of TensorBoard also in {roles}")
        path = self.origins["spec", "roles", leader, "volumes", name]
        self.put(("volumes", name), Field(volume, path))
        for role in self.roles.values():
            if role.get("volumes", {}).get(name) == volume:  # not another volume of this name
                remove(role, "volumes", name)
        return True

    def write_artifacts(self) -> None:
        """Mount the storage of the model, and report fields for KubeDL's other controllers."""
        model, cache = self.spec.get("modelVersion"), self.spec.get("cacheBackend")
        if model and self._mount_model(model.get("storage")):
            self.warn(
                model,
                "KubeDL builds an image of the model after training; mlgen does not",
                "build the image in a later step",
            )
        else:
            self.warn(
                model,
                "KubeDL mounts this storage and builds an image of the model; mlgen does neither",
                f"mount the storage in the templates, and set {MODEL_PATH_ENV} to the mount path",
            )
        path = cache.get("mountPath").value or "its folder"
        self.warn(
            cache,
            "KubeDL caches this data with Fluid and mounts it; mlgen does not",
            f"mount a PersistentVolumeClaim with the data at {path} in the templates",
        )

    def _mount_model(self, storage: Field) -> bool:
        """Mount the storage of a model in every role. Return False if it is not a folder."""
        kind = "nfs" if storage.get("nfs") else "localStorage"
        source = storage.get(kind)
        path, server = source.get("path").value, source.get("server").value
        if not path or (kind == "nfs" and not server):
            return False
        mount_path = source.get("mountPath").value or MODEL_PATH
        volume = {"mountPath": mount_path, "hostPath": path}
        if kind == "nfs":
            volume = {"mountPath": mount_path, "nfs": {"server": server, "path": path}}
        for name, role in self.roles.items():
            at = ("roles", name)
            self.put((*at, "volumes", "modelvolume"), source, volume)
            if MODEL_PATH_ENV not in role.get("env", {}):
                self.put((*at, "env", MODEL_PATH_ENV), source, mount_path)
        return True


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
