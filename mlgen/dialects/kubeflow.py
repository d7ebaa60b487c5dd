"""Kubeflow: the jobs of the training operator, kubeflow.org/v1 and before.

Read from kubeflow/training-operator 1.9 (1.8 for MXJob): pkg/webhooks for rejections,
pkg/controller.v1 for behavior. The versions before v1: pkg/trainer and pkg/util/train of
kubeflow/tf-operator 0.3 and 0.5, pytorch-operator, mxnet-operator and xgboost-operator. For
v1alpha1: kubeflow/tf-operator before 0.4 (pkg/apis/tensorflow/v1alpha1, its validation, and
pkg/trainer), and the operators of PyTorch and MXNet, which started as copies of it.
"""

import re

from mlgen.dialects._builder import NOTHING, Field
from mlgen.dialects._kubeflow_common import ReplicatedJob, Rules, dialect
from mlgen.kubernetes.quantity import natural

JOB_NAME = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""A DNS label of RFC 1035. The operator names Services after the job, and rejects other names."""

PET_ENV = ("PET_NPROC_PER_NODE", "PET_NNODES")
ELASTIC_ENV = ("PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND", *PET_ENV)
"""Variables that the operator overwrites in elastic PyTorchJobs, and in those without a Master."""

TUNER_KEY = "tuner-server-key"
"""The pod template's annotation with the key of a tuner server."""

AUTOSCALER = "the operator creates a HorizontalPodAutoscaler, which cannot scale a Job"

PYTORCH_PORT = 23456
"""The default port of a PyTorchJob (pytorch_types.go, DefaultPort)."""

ELASTIC = ("options", "elasticPolicy")


class KubeflowJob(ReplicatedJob):
    """A job with a mapping of replica types."""

    def write(self) -> None:
        """Write a job of any kind and version."""
        if not JOB_NAME.fullmatch(self.name):
            self.refuse_name()
        self.write_job()

    def write_job(self) -> None:
        """Write everything but the name."""
        self.write_roles()
        framework, rules = self.rules.framework, self.rules
        if rules.needs_master and "master" not in self.replica_types:
            self.refuse_without_master()
        elif rules.needs_master or framework == "pytorch":
            self.require_one(self.replica_types.get("master", NOTHING), "Master")
        if framework == "tensorflow":
            self._write_tensorflow()
        elif framework == "pytorch":
            self._write_pytorch()
        else:
            self.drop_overwritten(rules.overwritten)
            self.warn(self.spec.get("elasticPolicy", "metrics"), AUTOSCALER, "set replicas")
            self._write_tuner_keys()
        self.write_run_policy()
        self.copy(self.spec, ("runPolicy",), ttlSecondsAfterFinishing="ttlSecondsAfterFinished")

    def _write_tensorflow(self) -> None:
        """Write the deciding role and the options of a TFJob."""
        if len(self.leaders) > 1:
            self.refuse_both(self.replica_types["master"], "Chief", "Master")
        self.write_all_workers()
        self.copy(self.spec, ("options",), "enableDynamicWorker")
        if sum(role.get("replicas", 1) for role in self.roles.values()) > 1:
            self.drop_overwritten(self.rules.overwritten)

    def _write_pytorch(self) -> None:
        """Write the options of a PyTorchJob, elastic or not."""
        elastic, processes = self.spec.get("elasticPolicy"), self.spec.get("nprocPerNode")
        if elastic:
            processes = self._elastic(elastic) or processes
        else:
            # Without a Master, the operator sets no ranks, so the user's variables take effect.
            has_master = "master" in self.replica_types
            self.drop_overwritten(self.rules.overwritten if has_master else PET_ENV)
        if processes:
            number = natural(str(processes.value))
            value = str(processes.value) if number is None else number
            self.put(("options", "nprocPerNode"), processes, value)

    def _write_tuner_keys(self) -> None:
        """Write an MXJob's keys of tuner servers, from annotations, or before v1 from a field."""
        for role, replica_type in self.replica_types.items():
            annotation = replica_type.get("template", "metadata", "annotations", TUNER_KEY)
            label = replica_type.get("label")
            key = label if self.rules.tuner_label else annotation
            if self.rules.framework == "mxnet":
                self.put(("options", "tunerServerKeys", role), key)
            if not self.rules.tuner_label:
                self.warn(
                    label,
                    "the operator ignores this field since v1",
                    f"set the annotation {TUNER_KEY} in the template's metadata",
                )

    def _elastic(self, elastic: Field) -> Field | None:
        """Write the options of torchrun. Return its processes per node, or None if unset."""
        if "worker" not in self.replica_types:
            self.refuse(elastic, "a Worker is required", "add a Worker, or remove elasticPolicy")
            return None
        processes = elastic.get("nProcPerNode")
        if self.spec.get("nprocPerNode"):
            names = ("nProcPerNode", "spec.nprocPerNode")
            self.refuse_both(processes, *names, hint=f"keep {names[1]}")
        self.copy(elastic, ELASTIC, "minReplicas", "maxReplicas", "maxRestarts", "rdzvId")
        settings = elastic.get("rdzvConf")
        pairs = {item.value["key"]: item.value["value"] for item in settings.items()}
        self.put((*ELASTIC, "rdzvConf"), settings, pairs)
        if set(self.roles) == set(self.replica_types):
            self._count_master(elastic)
            self._write_rendezvous(elastic)
        self.warn(
            elastic.get("metrics"),
            AUTOSCALER,
            "patch completions and parallelism of the Job together",
        )
        return processes or None

    def _count_master(self, elastic: Field) -> None:
        """Write the maximum number of replicas, with the Master: the operator counts only workers.

        torchrun accepts at most as many replicas as the second number of PET_NNODES. Without this,
        a Master that joins last would wait forever.
        """
        path = (*ELASTIC, "maxReplicas")
        count = sum(role.get("replicas", 1) for role in self.roles.values())
        maximum = elastic.get("maxReplicas")
        if "master" in self.roles and maximum and maximum.value < count:
            self.warn(
                maximum,
                "the operator does not count the Master in maxReplicas, so one replica would wait; "
                f"mlgen sets maxReplicas to {count}",
                "include the Master in maxReplicas",
            )
            self.put(path, maximum, count)
        elif not self.data["spec"].get("options"):
            self.put(path, elastic, count)

    def _write_rendezvous(self, elastic: Field) -> None:
        """Write the rendezvous of torchrun, unless it is at worker 0 with the backend c10d."""
        self.drop_overwritten(ELASTIC_ENV)
        backend, host, port = (elastic.get(f"rdzv{name}") for name in ("Backend", "Host", "Port"))
        if str(backend.value).startswith("etcd") and not host:
            self.warn(
                backend,
                "without rdzvHost, torchrun looks for etcd at worker 0, which must run it",
                "remove rdzvBackend, for the backend c10d, or add rdzvHost with the address of "
                "etcd",
                code="launch",
            )
        env: dict[str, tuple[Field, str]] = {}
        if host and str(host.value).partition(".")[0] != f"{self.name}-worker-0":
            number = port.value or self.roles["worker"].get("port", PYTORCH_PORT)
            env["PET_RDZV_ENDPOINT"] = (host, f"{host.value}:{number}")
        else:
            self.put(("roles", "worker", "port"), port)
        if backend.value not in (None, "", "c10d"):
            env["PET_RDZV_BACKEND"] = (backend, backend.value)
        if elastic.get("standalone").value:
            env["PET_STANDALONE"] = (elastic.get("standalone"), "1")
        for role in self.roles:
            for name, (source, value) in env.items():
                self.put(("roles", role, "env", name), source, value)


class ListJob(KubeflowJob):
    """A job of kubeflow.org/v1alpha1, where replica types are a list.

    The pod template sets the restart policy, and `terminationPolicy` names the deciding replica.
    The rules of a kind have a `list`:

    - `default`: the replica type of list items that do not name one.
    - `type`: the fields of an item that name its replica type, under the current or earlier names.
    - `port`: the field that sets the port.
    - `decider`: the field of `terminationPolicy` that names the deciding replica. The default is
      the first of `roles`, if the job has it.
    - `index`: the field of `decider` for the index of that replica.
    - `judges`: the operator applies ExitCode to the deciding replica.
    - `ps`: the container of parameter servers without a template. It replaces
      grpc_tensorflow_server.py, which the operator mounted into pods of `tfImage`.
    """

    def write_job(self) -> None:
        """Write everything but the name."""
        self.put_framework(self.rules.framework)
        self._read_list()
        decider = self._decider()
        for role in (name.lower() for name in self.rules.roles):
            if role in self.replica_types:
                self._write_role(role, self.replica_types[role], decides=role == decider)
        self.write_run_policy()
        clean = self.spec.get("cleanupPodPolicy")
        self.put(("runPolicy", "cleanPodPolicy"), clean or self.spec, clean.value or "All")
        self.copy(self.spec, ("scheduling",), "schedulerName")
        self.warn(
            self.spec.get("tensorboard"),
            "the operator runs TensorBoard with the image in tfImage; mlgen does not",
            "set spec.tensorboard in the job file that mlgen convert prints",
        )

    def _read_list(self) -> None:
        """Read the replica types."""
        for item in self.spec.get("replicaSpecs").items():
            named = next(filter(None, map(item.get, self.rules.list["type"])), NOTHING)
            name = named.value or self.rules.list["default"]
            if name.lower() in self.replica_types:
                self.refuse(named or item, f"duplicate replica type {name}", "set replicas instead")
            self.replica_types[name.lower()] = item

    def _decider(self) -> str:
        """Return the deciding role, and write it if the framework would choose another one."""
        rules = self.rules.list
        policy = self.spec.get("terminationPolicy", rules["decider"])
        replica_name, index = policy.get("replicaName"), policy.get(rules["index"])
        name = replica_name.value or rules["default"]
        source = replica_name or self.spec.get("replicaSpecs")
        if name.lower() not in self.replica_types:
            self.refuse(
                source,
                f"training ends when the {name} ends, but there is no {name}",
                f"add it, or name another replica type in terminationPolicy.{rules['decider']}",
            )
        elif index.value:
            self.refuse(
                index,
                "only the first replica can determine the end of training",
                f"write {rules['index']}: 0",
            )
        elif name != self.rules.roles[0]:
            self.put(("successPolicy", "role"), source, name.lower())
            if self.spec.get("cleanupPodPolicy").value != "None":
                self.put(("successPolicy", "replicas"), source, "First")
        return str(name.lower())

    def _write_role(self, role: str, replica_type: Field, *, decides: bool) -> None:
        """Write a role, by default with the operator's template. Report one without a template."""
        rules, template, path = self.rules.list, replica_type.get("template"), ("roles", role)
        server, image = rules.get(role), self.spec.get("tfImage").value
        if server and not template:
            container = server | ({"image": image} if image else {})
            template = Field({"spec": {"containers": [container]}}, template.path)
        if not template:
            self.refuse(replica_type, "the pod template is missing", "add template")
            return
        main = self.main_container(template, self.rules.container)
        if not main:
            return
        self.role(role, template, main)
        self.copy(replica_type, path, "replicas")
        port = replica_type.get(rules["port"]) or self.spec.get(rules["port"])
        if port:
            number = natural(str(port.value))
            self.put((*path, "port"), port, port.value if number is None else number)
        restart = template.get("spec", "restartPolicy")
        policy = restart.value or ("Always" if role == "ps" else "OnFailure")
        if decides and rules["judges"]:
            policy = "ExitCode"
        elif policy == "Never" and not decides:
            policy = "OnFailure"  # other failed replicas always get a new pod
        self.put((*path, "restartPolicy"), restart, policy)


def _job(resource: Field, rules: Rules) -> KubeflowJob:
    """Return a job, with the class that its rules require."""
    return (ListJob if rules.list else KubeflowJob)(resource, rules)


DIALECT = dialect("kubeflow", _job)
