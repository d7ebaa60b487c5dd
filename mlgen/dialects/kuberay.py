"""KubeRay: RayJobs and RayClusters of ray.io/v1 and v1alpha1 → jobs of the framework ray.

The head, each worker group and the submitter become roles. Sources, in ray-project/kuberay,
ray-operator (1.5):

- fields: apis/ray/v1
- rejections: controllers/ray/utils/validation.go
- pods: controllers/ray/common/pod.go, and common/job.go for the submitter
- behavior: controllers/ray/rayjob_controller.go
"""

import json
import re
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from mlgen.dialects._builder import ENDLESS, Builder, Dialect, Field
from mlgen.dialects._schemas import read
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.kubernetes.quantity import parse
from mlgen.launch.line import container_lines
from mlgen.problems import ValuePath
from mlgen.shell import split

FACTS = read("kuberay.json")

VERSIONS = ("ray.io/v1", "ray.io/v1alpha1")
"""The newest version first. The operator runs both in the same way."""

HEAD, SUBMITTER = "head", "submitter"

CONTROLLER = "ray.io/kuberay-operator"
"""The value of `managedBy` in resources that KubeRay manages."""

OVERWRITE = "ray.io/overwrite-container-cmd"
"""The annotation of a cluster whose containers keep their own commands."""

SHELL = re.compile(r"[$`;&|<>()\n]|(?:^|\s)#")
"""A character outside quotes that only a shell interprets."""

QUOTED = re.compile(r"'[^']*'?|\"(?:[^\"\\$`]|\\.)*\"?", re.DOTALL)


class RayBuilder(Builder):
    """A RayCluster, or a RayJob with its cluster.

    Attributes:
        at: the path of the cluster in the resource.
        cluster: the fields of the cluster.
        head: of its head.
        service: the name of the head's Service.
        host: the address of the head.
        port: the port on which the head listens.
    """

    at: ValuePath = ("spec",)

    def __init__(self, resource: Field) -> None:
        super().__init__(resource)
        self.cluster = resource.get(*self.at)
        self.head = self.cluster.get("headGroupSpec")
        own = self.head.get("headService", "metadata", "name").value
        self.service = own or f"{self.name}-head-svc"
        self.host = f"{self.name}-{HEAD}-0.{self.name}"
        self.port = str((self.head.get("rayStartParams").value or {}).get("port", 6379))

    def write_cluster(self) -> None:
        """Write the framework, the head and the worker groups, and report what is not rendered."""
        if "." in self.name:
            self.refuse_name()
        version = self.resource.get("apiVersion")
        if version.value != VERSIONS[0]:
            self.warn(
                version,
                "KubeRay 1.0 and later run this version as ray.io/v1",
                "write apiVersion: ray.io/v1",
                code="deprecated",
            )
        self.put_framework("ray")
        self.put(("options", "headService"), self.kind, self.service)
        self._write_group(HEAD, self.head)
        replicas = [self._write_workers(g) for g in self.cluster.get("workerGroupSpecs").items()]
        autoscaling = self.cluster.get("enableInTreeAutoscaling")
        if autoscaling.value and replicas and not any(replicas):
            source = self.cluster.get("workerGroupSpecs", 0, "replicas") or autoscaling
            most = self.cluster.get("workerGroupSpecs", 0, "maxReplicas").value
            number = most if most and most < ENDLESS else "N"
            self.warn(
                source,
                "all worker groups have 0 replicas, and without Ray's autoscaler no pod is added "
                "to them",
                f"set the number of workers that the program needs: replicas: {number}",
            )
        elif autoscaling.value:
            self.warn(
                autoscaling,
                "KubeRay scales the worker groups; "
                "mlgen always runs the number of workers in replicas",
                "set replicas to the number of workers that the program needs",
            )
        for field, hint in FACTS["dropped"].items():
            dropped = self.cluster.get(*field.split("."))
            if dropped.value not in (None, False, "ClusterIP", "", {}):
                self.warn(dropped, f"mlgen does not render {field}", hint)
        self._write_redis(self.cluster.get("gcsFaultToleranceOptions"))
        if self.cluster.get("authOptions").value and self._auth:
            self.warn(
                self.cluster.get("authOptions"),
                "KubeRay creates a Secret with a token; mlgen does not, and pods do not start "
                f"until the Secret {self.name} exists",
                f"run once: kubectl create secret generic {self.name} "
                "--from-literal=auth_token=$(openssl rand -hex 32)",
            )
        self._write_scheduler()

    @property
    def _auth(self) -> bool:
        """True if the processes of the cluster need a token."""
        options = self.cluster.get("authOptions").value
        return options is not None and options.get("mode", "token") == "token"

    def _write_workers(self, group: Field) -> int:
        """Write a worker group. Return its number of pods: see GetWorkerGroupDesiredReplicas."""
        name, hosts = group.get("groupName"), group.get("numOfHosts")
        least, most = group.get("minReplicas"), group.get("maxReplicas")
        low, high = least.value or 0, ENDLESS if most.value is None else most.value
        wanted = group.get("replicas")
        number = min(max(wanted.value or 0, low), high)
        if (wanted.value or 0) > high:
            self.warn(
                wanted,
                f"KubeRay runs only {number} replicas of the group, because of maxReplicas",
                f"write {number}, or raise maxReplicas",
            )
        number = 0 if group.get("suspend").value else number * (hosts.value or 1)
        role = str(name.value).replace(".", "-")
        if role in (HEAD, SUBMITTER, *self.roles):
            self.refuse(
                name,
                f"the name {name.value} of a worker group is not available",
                f"use another name than {HEAD}, {SUBMITTER} and the names of other groups",
            )
            return number
        self._write_group(role, group)
        replicas = wanted if wanted.value == number else least
        self.put(("roles", role, "replicas"), replicas or name, number)
        if (hosts.value or 1) > 1:
            self.warn(
                hosts,
                f"if a pod fails, KubeRay replaces all {hosts.value} pods of its replica; "
                "mlgen replaces only the pod",
                "to restart all pods together, pass --set spec.runPolicy.restartScope=All",
            )
        return number

    def _write_group(self, role: str, group: Field) -> None:
        """Write the role of the head, or of a worker group."""
        template, main = group.get("template"), group.get("template", "spec", "containers", 0)
        path = ("roles", role)
        line = container_lines(main.value).text
        start = self._start(role, group)
        overwrite = self._of_pod(template, OVERWRITE).lower() == "true"
        own = overwrite or "ray start" in line
        bare = {k: v for k, v in main.value.items() if own or k not in ("command", "args")}
        self.role(role, self._template(role, group), Field(bare, main.path))
        source = group.get("rayStartParams") or group
        variables = self._variables(role, name=group.get("groupName").value or "headgroup")
        env = self.roles[role].get("env", {})
        for name, value in variables.items():
            if name not in env or name in FACTS["overwritten"]:
                self.put((*path, "env", name), source, value)
        if own:
            self.put((*path, "env", "KUBERAY_GEN_RAY_START_CMD"), source, start)
        else:
            script = f"{line} && " if line else ""
            script += f"ulimit -n 65536; exec {start}"
            command = main.get("command") or main.get("args") or source
            self.put((*path, "command"), command, ["/bin/bash", "-c", script])
        resources = main.get("resources")
        memory = resources.get("limits", "memory") or resources.get("requests", "memory")
        mounts = [mount.get("mountPath") for mount in main.value.get("volumeMounts") or []]
        if memory.value and FACTS["shared memory"] not in mounts:
            self.put((*path, "shmSize"), memory, str(memory.value))

    def _of_pod(self, template: Field, name: str) -> str:
        """Return an annotation of a template, or of the resource."""
        of_pod = template.get("metadata", "annotations", name).value
        return str(of_pod or self.annotation(name).value)

    def _template(self, role: str, group: Field) -> Field:
        """Return the pod template of a group, with the labels and variables that KubeRay adds."""
        value = group.get("template").value
        labels = {
            **value.get("metadata", {}).get("labels", {}),
            **(group.get("labels").value or {}),
            "ray.io/is-ray-node": "yes",
            "ray.io/cluster": self.name,
            "ray.io/node-type": HEAD if role == HEAD else "worker",
            "ray.io/group": group.get("groupName").value or "headgroup",
        }
        spec = dict(value["spec"])
        added = [{"name": k, "value": v} for k, v in self._head_names().items()]
        if spec.get("initContainers"):
            spec["initContainers"] = [
                container | {"env": [*(container.get("env") or []), *added]}
                for container in spec["initContainers"]
            ]
        metadata = value.get("metadata", {}) | {"labels": labels}
        return Field({"metadata": metadata, "spec": spec}, group.get("template").path)

    def _head_names(self) -> dict[str, str]:
        """Return the variables with the head's names in the cluster's DNS."""
        namespace = self.data["metadata"].get("namespace")
        suffix = f".{namespace}.svc" if namespace else ""
        return {"FQ_RAY_IP": f"{self.service}{suffix}", "RAY_IP": self.service}

    def _variables(self, role: str, name: str) -> dict[str, Any]:
        """Return the variables that KubeRay sets in a container of Ray."""
        host = "127.0.0.1" if role == HEAD else self.service
        variables: dict[str, Any] = {} if role == HEAD else self._head_names()
        variables |= {
            "RAY_CLUSTER_NAME": self.name,
            "RAY_NODE_TYPE_NAME": name,
            "RAY_PORT": self.port,
            "RAY_ADDRESS": f"{host}:{self.port}",
        }
        if role != HEAD and self.cluster.get("gcsFaultToleranceOptions"):
            variables |= FACTS["worker with redis"]
        return variables | self.token()

    def token(self) -> dict[str, Any]:
        """Return the variables with the token of the cluster, if it needs one."""
        secret = {"secretKeyRef": {"name": self.name, "key": "auth_token"}}
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": {"valueFrom": secret}}
        return token if self._auth else {}

    def _start(self, role: str, group: Field) -> str:
        """Return the command that starts Ray; see setMissingRayStartParams and convertParamMap."""
        options: dict[str, str] = dict(group.get("rayStartParams").value or {})
        amounts: dict[str, float] = {}
        for name, amount in (group.get("resources").value or {}).items():
            option = FACTS["resources"].get(name.lower(), "num-gpus" if _is_gpu(name) else "")
            if option:
                options[option] = str(_whole(amount))
            else:
                amounts[name] = float(parse(amount))
        if amounts:
            options["resources"] = _flow(amounts)
        if group.get("labels").value:
            labels = sorted(group.value["labels"].items())
            options["labels"] = ",".join(f"{name}={value}" for name, value in labels)
        own = FACTS["head"] if role == HEAD else {"address": f"{self.host}:{self.port}"}
        for name in self._redis if role == HEAD else ():
            own = {**own, f"redis-{name}": f"$REDIS_{name.upper()}"}
        options = {**own, **FACTS["options"], **options, "block": "true"}
        resources = group.get("template", "spec", "containers", 0, "resources")
        limits = resources.get("limits").value or {}
        for kind, name, option in FACTS["defaults"]:
            if amount := resources.get(kind, name).value:
                options.setdefault(option, str(_whole(amount)))
        options |= _accelerators(options, limits)
        flags = [_flag(name, value) for name, value in sorted(options.items())]
        return " ".join(["ray start", *(["--head"] if role == HEAD else []), *filter(None, flags)])

    @property
    def _redis(self) -> dict[str, Field]:
        """The credentials for Redis that are set, by name."""
        options = self.cluster.get("gcsFaultToleranceOptions")
        names = ("username", "password")
        credentials = {name: options.get(f"redis{name.capitalize()}") for name in names}
        return {name: source for name, source in credentials.items() if source}

    def _write_redis(self, options: Field) -> None:
        """Write the variables of a head that keeps its state in Redis."""
        if not options:
            return
        path = ("roles", HEAD, "env")
        self.put((*path, "RAY_REDIS_ADDRESS"), options.get("redisAddress"))
        for name, source in self._redis.items():
            value = source.get("value").value or source.value
            self.put((*path, f"REDIS_{name.upper()}"), source, value)
        namespace = options.get("externalStorageNamespace")
        value = namespace.value or self.name
        self.put((*path, "RAY_external_storage_namespace"), namespace or options, value)
        if not namespace.value:
            self.warn(
                options,
                "KubeRay uses a new namespace in Redis for each cluster; "
                f"mlgen always uses {value}",
                "set externalStorageNamespace, and another value for each run",
            )

    def _write_scheduler(self) -> None:
        """Write the gang of Volcano, which the labels of the resource request."""
        labels = self.resource.get("metadata", "labels")
        scheduler = labels.get("ray.io/scheduler-name")
        if scheduler.value == "volcano":
            self.put(("scheduling", "gang"), scheduler)
            self.copy(labels, ("scheduling",), **FACTS["volcano"])
        elif (enabled := labels.get("ray.io/gang-scheduling-enabled")).value == "true":
            self.warn_of_gang(
                enabled,
                "KubeRay's",
                "pass --set spec.scheduling.gang=coscheduling, or another scheduler",
            )


def _is_gpu(resource: str) -> bool:
    """Return True for GPUs and parts of GPUs, as IsGPUResourceKey."""
    return bool(re.search(r"gpu$|nvidia\.com/mig-\d+g\.\d+gb$", resource))


def _whole(amount: Any) -> int:
    """Return an amount, rounded up; 0 if it is not a quantity, which other checks report."""
    try:
        return ceil(parse(amount))
    except ValueError:
        return 0


def _flow(amounts: Mapping[str, float]) -> str:
    """Return amounts as a word of a shell script in JSON."""
    whole = {name: int(n) if n == int(n) else n for name, n in sorted(amounts.items())}
    return f"'{json.dumps(whole, separators=(',', ':'))}'"


def _accelerators(options: Mapping[str, str], limits: Mapping[str, Any]) -> dict[str, str]:
    """Return the options for GPUs and an accelerator; see addWellKnownAcceleratorResources."""
    added: dict[str, str] = {}
    try:
        amounts = json.loads(options.get("resources", "{}").strip("'\"` "))
    except ValueError:
        return added
    gpus = [name for name in sorted(limits) if _is_gpu(name) and _whole(limits[name])]
    if gpus and "num-gpus" not in options:
        added["num-gpus"] = str(_whole(limits[gpus[0]]))
    names = {k: v for k, v in FACTS["accelerators"].items() if k in limits and _whole(limits[k])}
    if names and isinstance(amounts, dict) and not {*FACTS["accelerators"].values()} & {*amounts}:
        first = min(names)
        added["resources"] = _flow(amounts | {names[first]: _whole(limits[first])})
    return added


def _flag(name: str, value: str) -> str:
    """Return an option of `ray start`; "" for a switch that is off."""
    is_switch = value.lower() in ("true", "false") and name not in FACTS["options with booleans"]
    if is_switch:
        return f"--{name}" if value.lower() == "true" else ""
    return f"--{name}={value}"


class RayCluster(RayBuilder):
    """A RayCluster, whose head runs until it is deleted."""

    def write(self) -> None:
        """Write the cluster."""
        self.write_cluster()
        path = ("roles", HEAD)
        self.put((*path, "restartPolicy"), self.kind, "OnFailure")
        self.put((*path, "backoffLimit"), self.kind, ENDLESS)
        self.copy(self.spec, ("runPolicy",), "suspend")
        self.put_manager(CONTROLLER, self.spec.get("managedBy"))
        self.warn(
            self.kind,
            "a RayCluster has no end: its head and workers run until you delete them",
            "for a program that ends, write a RayJob",
        )
        self.share_templates()


class RayJob(RayBuilder):
    """A RayJob: a cluster, and the program that is submitted to it."""

    at = ("spec", "rayClusterSpec")

    def write(self) -> None:
        """Write the job."""
        spec, selector = self.spec, self.spec.get("clusterSelector")
        if selector.value:
            self.refuse(
                selector,
                "the job runs on a RayCluster of KubeRay, to which mlgen has no access",
                "remove clusterSelector, and write the cluster in rayClusterSpec",
            )
        elif not self.cluster:
            self.refuse(
                spec, "the job has no cluster: rayClusterSpec is missing", "add rayClusterSpec"
            )
        mode, entrypoint = spec.get("submissionMode"), spec.get("entrypoint")
        own = spec.get("submitterPodTemplate", "spec", "containers", 0, "command").value
        if mode.value == "InteractiveMode":
            self.refuse(
                mode,
                "in InteractiveMode, KubeRay waits until you submit a program and write its ID to "
                "jobId",
                "set entrypoint and remove submissionMode, or write a RayCluster",
            )
        elif not (own or str(entrypoint.value or "").strip()):
            self.refuse(
                entrypoint or spec,
                "the job has no program: entrypoint is missing",
                "add entrypoint: python train.py",
            )
        if not self.collector.has_errors:
            self.write_cluster()
            self._write_submitter()
            self._write_policies()
        self.share_templates()

    def _write_submitter(self) -> None:
        """Write the role that submits the program and follows it."""
        template = self.spec.get("submitterPodTemplate")
        image = self.head.get("template", "spec", "containers", 0, "image")
        entrypoint, path = self.spec.get("entrypoint"), ("roles", SUBMITTER)
        if not template:
            container = {**FACTS["submitter"], "image": image.value}
            template = Field({"spec": {"containers": [container]}}, entrypoint.path)
        main = template.get("spec", "containers", 0)
        if not main.get("image").value:
            main = Field({**main.value, "image": image.value}, main.path)
        own = bool(main.get("command").value)
        bare = {k: v for k, v in main.value.items() if own or k != "args"}
        self.role(SUBMITTER, template, Field(bare, main.path))
        uid = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}}
        env = {"PYTHONUNBUFFERED": "1", **self.token()}
        if own:
            port = self.head.get("rayStartParams", "dashboard-port").value or 8265
            dashboard = f"{self.host}:{port}"
            env |= {"RAY_DASHBOARD_ADDRESS": dashboard, "RAY_JOB_SUBMISSION_ID": {"valueFrom": uid}}
        else:
            command = ["ray", "job", "submit", *self._options(), "--", *self._words(entrypoint)]
            self.put((*path, "command"), entrypoint, command)
            self.put(("options", "waitForWorkers"), entrypoint, value=True)
        for name, value in env.items():
            self.put((*path, "env", name), template, value)

    def _options(self) -> Iterator[str]:
        """Yield the options of the submission; see BuildJobSubmitCommand."""
        spec = self.spec
        runtime, metadata = spec.get("runtimeEnvYAML"), spec.get("metadata")
        if runtime.value:
            for document in read_documents(Text("", str(runtime.value))):
                if isinstance(document, list):
                    self.refuse(runtime, document[0].message, code="not-yaml")
                else:
                    yield f"--runtime-env-json={json.dumps(document.data)}"
        if metadata.value:
            yield f"--metadata-json={json.dumps(metadata.value)}"
        for name, option in FACTS["submission"].items():
            if spec.get(name).value:
                yield f"--{option}={spec.get(name).value}"

    def _words(self, entrypoint: Field) -> list[str]:
        """Return the words of the program.

        Bash reads the entrypoint in KubeRay's submitter, so it would run a second command of it.
        """
        text = str(entrypoint.value).strip().replace("\\\n", "")
        if SHELL.search(QUOTED.sub("''", text)):
            if self.spec.get("submissionMode").value != "HTTPMode":
                self.warn(
                    entrypoint,
                    "in KubeRay, the submitter's shell interprets this and runs only the first "
                    "command on the cluster; mlgen runs all of it on the head",
                    "to set variables of the program, use env_vars in runtimeEnvYAML",
                )
            return ["sh", "-c", text]
        words = split(text)
        if words is None:
            self.refuse(entrypoint, "a quote is not closed", "add the second quote")
        return words or []

    def _write_policies(self) -> None:
        """Write how the job restarts and ends."""
        spec, put, path = self.spec, self.put, ("runPolicy",)
        limit, ttl = spec.get("backoffLimit"), spec.get("ttlSecondsAfterFinished")
        submitter = ("roles", SUBMITTER)
        self.copy(spec, path, "suspend", "activeDeadlineSeconds")
        if limit.value:
            self.restart_together(limit, "All")
            put((*path, "backoffLimit"), limit)
        else:
            pod, retries = (
                spec.get("submitterPodTemplate", "spec"),
                spec.get("submitterConfig", "backoffLimit"),
            )
            policy = pod.get("restartPolicy")
            put((*submitter, "restartPolicy"), policy or spec, policy.value or "Never")
            if pod.get("containers", 0, "command").value:
                number = 2 if retries.value is None else retries.value
                put((*submitter, "backoffLimit"), retries or spec, number)
            else:
                # A retry of mlgen's submitter would run the program again.
                put((*submitter, "backoffLimit"), retries or spec, 0)
                if retries.value:
                    self.warn(
                        retries,
                        "KubeRay retries only the submission; mlgen does not, because a retry "
                        "would run the program again",
                        "to run the program again on a new cluster, set backoffLimit of the RayJob",
                    )
        if ttl.value and not spec.get("shutdownAfterJobFinishes").value:
            self.refuse(
                ttl,
                "KubeRay rejects ttlSecondsAfterFinished without shutdownAfterJobFinishes",
                "add shutdownAfterJobFinishes: true",
            )
        elif ttl.value:
            put((*path, "ttlSecondsAfterFinished"), ttl)
            self.warn(
                ttl,
                f"KubeRay deletes the cluster after {ttl.value} seconds; "
                "mlgen also deletes the submitter with its log",
                "to keep the submitter, remove ttlSecondsAfterFinished",
            )
        elif spec.get("shutdownAfterJobFinishes").value:
            put((*path, "cleanPodPolicy"), spec.get("shutdownAfterJobFinishes"), "Running")
        self._write_deletion(spec.get("deletionStrategy"))
        self.put_manager(CONTROLLER, spec.get("managedBy"))
        if (given := spec.get("jobId")).value:
            message = "the ID of the submission is the UID of the submitter's Job, not "
            self.warn(given, f"{message}{given.value}", "remove jobId")

    def _write_deletion(self, strategy: Field) -> None:
        """Write the rules that delete workers, the cluster, or everything."""
        rules = [
            (rule.get("policy").value, rule.get("condition", "ttlSeconds").value or 0)
            for rule in strategy.get("deletionRules").items()
        ] + [(strategy.get(name, "policy").value, 0) for name in ("onSuccess", "onFailure")]
        stops = [policy for policy, _ in rules if policy in ("DeleteCluster", "DeleteWorkers")]
        deletes = [seconds for policy, seconds in rules if policy == "DeleteSelf"]
        path = ("runPolicy",)
        if stops:
            self.put((*path, "cleanPodPolicy"), strategy, "Running")
        if deletes:
            self.put((*path, "ttlSecondsAfterFinished"), strategy, max(deletes))
        if stops or deletes:
            self.warn(
                strategy,
                "KubeRay deletes workers, cluster and RayJob one after another, depending on "
                "the outcome; mlgen stops the cluster at the end, and deletes everything after "
                "the longest time for DeleteSelf",
                "use shutdownAfterJobFinishes and ttlSecondsAfterFinished",
            )


JOBS = {"RayJob": RayJob, "RayCluster": RayCluster}

DIALECT = Dialect({(version, kind): JOBS[kind] for version in VERSIONS for kind in JOBS})
