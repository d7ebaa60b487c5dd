"""Rules about the pods of a job and about their network.

They compare names, volumes, containers, variables, GPUs, the cluster's domain, ports on the nodes
and RDMA.
"""

import re
from collections.abc import Iterator
from typing import Any

from mlgen.contradictions.lifecycle import of_jobs, of_network, of_run_policy
from mlgen.jobfile.model import containers_of, is_below, own_files, written
from mlgen.kubernetes.objects import EPHEMERAL_PORTS, NODE_PORTS, PORT_MAX
from mlgen.kubernetes.values import merged
from mlgen.launch.line import is_sidecar, may_be_sidecar
from mlgen.launch.role import variables_of
from mlgen.problems import Problem, ValuePath, error, warning
from mlgen.resources import table
from mlgen.topology import RESERVED, Topology

WITH_MODE = {"configMap", "secret", "projected", "files"}
"""The kinds of volumes whose files have a mode."""


@of_jobs
def reserved_name(topology: Topology) -> Iterator[Problem]:
    """Report a role with a name that mlgen reserves for its own objects.

    wrong:
        framework: generic
        command: [python, train.py]
        roles: {supervisor: {}}
    right:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}}
    """
    for role in topology.roles:
        name = role.spec.name
        if name in RESERVED:
            message = f"the name {topology.job.name}-{name} is reserved for mlgen's own objects"
            yield error(("roles", name), message, "rename the role")


@of_jobs
def conflicting_volumes(topology: Topology) -> Iterator[Problem]:
    """Report volumes that contradict each other, and modes without files.

    The API server rejects two volumes at one path. Volumes of the same name with files would be
    the same ConfigMap.

    wrong:
        framework: generic
        command: [python, train.py]
        volumes: {data: {mountPath: /data, pvc: data}, cache: {mountPath: /data/, emptyDir: {}}}
        roles: {trainer: {}}
    wrong:
        framework: generic
        command: [python, run.py]
        roles:
          trainer: {volumes: {code: {mountPath: /code, files: {run.py: train()}}}}
          tester: {volumes: {code: {mountPath: /code, files: {run.py: test()}}}}
        successPolicy: {role: trainer}
    wrong:
        framework: generic
        command: [python, train.py]
        volumes: {data: {mountPath: /data, pvc: data, defaultMode: 292}}
        roles: {trainer: {}}
    right:
        framework: generic
        command: [python, train.py]
        volumes:
          data: {mountPath: /data, pvc: data}
          code: {mountPath: /code, files: {run.py: train()}, defaultMode: 292}
        roles: {trainer: {}}
    """
    definitions: dict[str, tuple[str, object]] = {}
    for role in topology.roles:
        path, at = ("roles", role.spec.name, "volumes"), dict[str, str]()
        for name, volume in role.spec.volumes.items():
            folder = volume["mountPath"]
            other = at.setdefault(folder.rstrip("/"), name)
            if other != name:
                message = f"{other} and {name} are both mounted at {folder}"
                yield error((*path, name), message, "change the mountPath of one of them")
            if "defaultMode" in volume and not WITH_MODE & volume.keys():
                message = "only configMap, secret, projected and files have a mode"
                yield error((*path, name, "defaultMode"), message, "remove it")
            own = [files for _, files in own_files(volume)]
            if own:
                other, files = definitions.setdefault(name, (role.spec.name, own))
                if files != own:
                    message = f"the volume {name} has different files in the role {other}"
                    yield error((*path, name), message, "rename one of the two volumes")


@of_jobs
def logs_not_shared(topology: Topology) -> Iterator[Problem]:
    """Report a log folder that TensorBoard and the replicas do not share through a volume.

    wrong:
        framework: generic
        command: [python, train.py]
        volumes: {logs: {mountPath: /logs, emptyDir: {}}}
        roles: {trainer: {}}
        tensorboard: {logDir: /logs}
    right:
        framework: generic
        command: [python, train.py]
        volumes: {logs: {mountPath: /logs, pvc: logs}}
        roles: {trainer: {}}
        tensorboard: {logDir: /logs/run}
    """
    tensorboard = topology.job.tensorboard
    if tensorboard is None or "://" in tensorboard.log_dir:
        return
    for volume in topology.job.volumes.values():
        shared = {"pvc", "nfs", "hostPath"} & volume.keys()
        if shared and is_below(f"{tensorboard.log_dir}/", volume["mountPath"]):
            return
    message = f"{tensorboard.log_dir} is not on a volume that all pods share"
    hint = "add a volume with pvc or nfs to spec.volumes, or use the URL of a bucket"
    yield warning(("tensorboard", "logDir"), message, hint)


@of_jobs
def sidecar(topology: Topology) -> Iterator[Problem]:
    """Report a container of a Job that does not end by itself, or may not.

    A pod of a Job completes when all of its containers have ended, except native sidecars:
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/

    wrong:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}}
        template: {spec: {containers: [{name: logs, image: "fluent/fluent-bit:3.1"}]}}
    wrong:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}}
        template: {spec: {containers: [{name: metrics, image: "example/metrics:1"}]}}
    right:
        framework: generic
        command: [python, train.py]
        roles: {trainer: {}}
        template:
          spec:
            initContainers: [{name: logs, image: "fluent/fluent-bit:3.1", restartPolicy: Always}]
            containers: [{name: upload, image: "example/upload:1"}]
    """
    in_jobs: set[str] = set()
    for role in topology.roles:
        if not role.serves:
            in_jobs.update(role.merged or [role.spec.name])
    for spec in topology.job.roles.values():
        whole: Any = {}
        paths: dict[str, ValuePath] = {}
        for template in spec.templates if spec.name in in_jobs else ():
            whole = merged(whole, template)
            is_own = template is spec.templates[-1]
            path: ValuePath = ("roles", spec.name, "template") if is_own else ("template",)
            for index, container in enumerate(containers_of(template)):
                paths[str(container.get("name"))] = (*path, "spec", "containers", index)
        for container in containers_of(whole):
            name = str(container.get("name"))
            if name != spec.main_container and is_sidecar(container):
                yield warning(
                    paths[name],
                    f"the container {name} does not exit by itself, so its pod would never"
                    " complete; it is rendered as a sidecar",
                    "move it to initContainers, with restartPolicy: Always",
                    "never-ends",
                )
            elif name != spec.main_container and may_be_sidecar(container):
                yield warning(
                    paths[name],
                    f"the pod completes only after the container {name} has also exited",
                    "if it does not exit by itself, move it to initContainers, with"
                    " restartPolicy: Always",
                    "never-ends",
                )


CONFIDENTIAL = (
    r"(^|_)(?<!(?:BOS|EOS|PAD|UNK|SEP|CLS)_)(?<!(?:MASK|STOP)_)(TOKEN|SECRET|PASSWORD|PASSWD"
    r"|CREDENTIALS?|(API|ACCESS|PRIVATE|SIGNING)_?KEY)(?!_(\w+_)?"
    r"(NAME|FILE|PATH|DIR|TYPE|URL|ENDPOINT|SOURCE|PROVIDER|BACKEND|STORE|MODE|POLICY|METHOD|STRATEGY"
    r"|FIELD|COLUMN|LIMIT|COUNT)$)(_|$)"
)
"""Names of secrets. A special token of a tokenizer, and the name of a Secret or file, are none."""

HARMLESS = (
    r"|[\d.]+|(?i:true|false|yes|no|none|null|empty|dummy|fake|unused|x{3,})"
    r"|/.*|(?s:.*\$\(.*)|<.*>|\[.*\]"
)
"""Values that are not secrets: a number, a switch, a path, a reference to another variable, a
special token or a placeholder."""


@of_jobs
def secret_in_env(topology: Topology) -> Iterator[Problem]:
    """Report secret values in variables, because more people can read manifests than Secrets.

    The message does not repeat the value.

    wrong:
        framework: generic
        command: [python, train.py]
        env: {HF_TOKEN: hf_abc}
        roles: {trainer: {}}
    right:
        framework: generic
        command: [python, train.py]
        env: {HF_TOKEN: {valueFrom: {secretKeyRef: {name: huggingface, key: token}}}}
        roles: {trainer: {}}
    right:
        framework: generic
        command: [python, train.py]
        env: {OPENAI_API_KEY: EMPTY, EOS_TOKEN: </s>, TOKEN_PATH: token}
        roles: {trainer: {}}
    """
    for role in topology.roles:
        path: ValuePath = ("roles", role.spec.name)
        literals: list[tuple[ValuePath, str, object]] = []
        for name, text in role.spec.env.items():
            literals.append(((*path, "env", name), name, text))
        for template in role.spec.templates:
            for container in containers_of(template):
                for variable in container.get("env") or []:
                    value = variable.get("value")
                    literals.append(((*path, "template"), variable["name"], value))
        for place, name, value in literals:
            if not isinstance(value, str) or not re.search(CONFIDENTIAL, name.upper()):
                continue
            if not re.fullmatch(HARMLESS, value):
                yield warning(
                    place,
                    f"{name} looks like a secret, but its value is readable in the manifests",
                    f"write {name}: {{valueFrom: {{secretKeyRef: {{name: …, key: …}}}}}}",
                    "secret-in-env",
                )


@of_jobs
def idle_gpus(topology: Topology) -> Iterator[Problem]:
    """Report GPUs in a role that does not compute, if the roles that compute have none.

    wrong:
        framework: mpi
        roles:
          launcher: {command: [mpirun, python, train.py], resources: {nvidia.com/gpu: 1}}
          worker: {replicas: 2}
    right:
        framework: mpi
        roles:
          launcher: {command: [mpirun, python, train.py]}
          worker: {replicas: 2, resources: {nvidia.com/gpu: 1}}
    """
    idle, computing = [], []
    for spec in topology.job.roles.values():
        if spec.name not in topology.idle:
            computing.append(spec)
            if spec.gpus:
                return
        elif spec.gpus:
            idle.append(spec.name)
    for name in idle if computing else ():
        other = computing[-1].name
        message = f"{name} requests GPUs but does not compute, and {other} has none"
        yield warning(("roles", name), message, f"move the GPUs to roles.{other}.resources")


SERVER_URL, SERVER_TOKEN = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"
"""The variables in which programs look for the server of reports, and for the path of their token.

https://github.com/kubeflow/trainer/tree/master/docs/proposals/2779-trainjob-progress
"""


@of_run_policy
def reports_to_proxy(topology: Topology) -> Iterator[Problem]:
    """Report programs that may send their reports of progress to a proxy, not to the supervisor.

    `requests` and Python's urllib read the variables in both cases, curl only in lower case.

    wrong:
        framework: generic
        command: [python, train.py]
        env: {HTTP_PROXY: "http://proxy:3128", NO_PROXY: localhost}
        roles: {trainer: {}}
        runPolicy: {progress: {}}
    right:
        framework: generic
        command: [python, train.py]
        env: {HTTP_PROXY: "http://proxy:3128", NO_PROXY: "localhost,example-supervisor"}
        roles: {trainer: {}}
        runPolicy: {progress: {}}
    """
    if not topology.job.run_policy.progress or topology.job.run_policy.progress.file:
        return
    for role in topology.roles:
        host = str(role.env.get(SERVER_URL, "")).removeprefix("http://").partition(":")[0]
        variables = variables_of(role.spec)
        texts = [variables[each][1] for each in ("no_proxy", "NO_PROXY") if each in variables]
        # Values from elsewhere, such as ConfigMaps, are unknown.
        is_known = host and not role.spec.may_have_more_env
        if not is_known or not all(isinstance(each, str) for each in texts):
            continue
        names = [name.strip().lstrip(".") for text in texts for name in text.split(",")]
        if any(name == "*" or f".{host}".endswith(f".{name}") for name in names):
            continue
        for name, exceptions in (("http_proxy", "no_proxy"), ("HTTP_PROXY", "NO_PROXY")):
            path, proxy = variables.get(name, ((), ""))
            if proxy:
                yield warning(
                    ("roles", role.spec.name, *path),
                    f"programs may send their reports of progress to the proxy of {name} instead"
                    f" of {host}",
                    f"add {host} to {exceptions}",
                )
                break


@of_network
def cluster_domain(topology: Topology) -> Iterator[Problem]:
    """Report a domain of the cluster with which the replicas' addresses do not resolve.

    An address with the domain also contains the namespace: `<host>.<namespace>.svc.<domain>`.
    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {clusterDomain: svc.cluster.local}
    right:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: example, namespace: research}
        spec:
          framework: jax
          image: example/train:1
          command: [python, train.py]
          roles: {worker: {replicas: 2}}
          network: {clusterDomain: cluster.local}
    """
    path, domain = ("network", "clusterDomain"), topology.job.network.cluster_domain
    if not domain:
        return
    if not topology.job.namespace:
        hint = "set metadata.namespace, or pass --namespace"
        yield error(path, "clusterDomain requires a namespace", hint)
    _, services, rest = f".{domain}".partition(".svc.")
    if services:
        message = "mlgen adds svc to the addresses, so they would contain it twice"
        yield error(path, message, f"write {rest}")


@of_network
def host_ports(topology: Topology) -> Iterator[Problem]:
    """Report a range of ports on the nodes that is not used, or in which ports are not free.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {hostPorts: {base: 20000, size: 100}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, hostPorts: {base: 65000, size: 1000}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, hostPorts: {base: 30000, size: 10000}}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, hostPorts: {base: 20000, size: 10000}}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, hostPorts: {base: 30000, size: 100, allowReserved: true}}
    """
    path, ports = ("network", "hostPorts"), topology.job.network.host_ports
    if ports is None:
        return
    last = ports.base + ports.size - 1
    if not topology.job.network.on_host:
        message = "hostPorts has no effect without host networking"
        hint = "write network.host: true, or remove hostPorts"
        yield warning(path, message, hint, "no-effect")
    elif last > PORT_MAX:
        message = f"the range {ports.base} to {last} exceeds the highest port, {PORT_MAX}"
        yield error(path, message, "use a lower base or a smaller size")
    elif not ports.allow_reserved:
        for purpose, reserved in (
            ("NodePorts of Services", NODE_PORTS),
            ("outgoing connections of Linux", EPHEMERAL_PORTS),
        ):
            if ports.base < reserved.stop and last >= reserved.start:
                yield warning(
                    path,
                    f"the range {ports.base} to {last} overlaps with {reserved.start} to"
                    f" {reserved.stop - 1}, used for {purpose}",
                    "use another range, or write allowReserved: true if your nodes do not use it",
                )


@of_network
def mesh_on_host(topology: Topology) -> Iterator[Problem]:
    """Report a service mesh for pods with host networking, whose traffic it does not redirect.

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, mesh: native}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {mesh: native}
    """
    network = topology.job.network
    if network.mesh == "native" and network.on_host:
        message = "pods with host networking cannot be part of a service mesh"
        hint = "remove network.mesh or network.host"
        yield warning(("network", "mesh"), message, hint, "no-effect")


@of_network
def rdma_fields(topology: Topology) -> Iterator[Problem]:
    """Report fields that the RDMA mode lacks or ignores, and networks on which it cannot work.

    `schemas/frameworks/fields.json` lists the fields of each mode.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {rdma: {mode: shared}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {rdma: {mode: host, networks: [ib]}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true, rdma: {mode: shared, resource: rdma/ib}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: false, rdma: {mode: host, resource: rdma/ib}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        roles: {worker: {replicas: 2}}
        network: {rdma: {mode: sriov, resource: nvidia.com/hca, networks: [ib]}}
    """
    job, network = topology.job, topology.job.network
    rdma, path = network.rdma, ("network", "rdma")
    values, fields = written(rdma), table("frameworks/fields")["rdma"][rdma.mode]
    for name in fields["required"]:
        if not values.get(name):
            hint = f"set {name}; ask your cluster administrator for the value"
            yield error(path, f"mode: {rdma.mode} requires {name}", hint)
    for name in fields["unused"]:
        if values.get(name):
            message = f"{name} has no effect with mode: {rdma.mode}"
            yield warning((*path, name), message, "remove it, or use another mode", "no-effect")
    if rdma.mode == "host" and network.host is False:
        hint = "write host: true, or rdma.mode: sriov"
        yield error(("network", "host"), "rdma.mode: host requires host networking", hint)
    if rdma.mode in ("sriov", "shared") and network.host:
        message = f"host networking and rdma.mode: {rdma.mode} are mutually exclusive"
        yield error(("network", "host"), message, "remove host: true, or write rdma.mode: host")
    if rdma.mode == "host" and not rdma.resource and job.security.profile != "privileged":
        message = "mode: host requires privileged pods or the resource of a device plugin"
        yield warning(path, message, "set resource, or write security.profile: privileged")


@of_run_policy
def clients_of_supervisor(topology: Topology) -> Iterator[Problem]:
    """Report a NetworkPolicy of the supervisor's port that is not rendered, or blocks its clients.

    A policy selects pods by their addresses, so it does not select pods on the network of a node.
    https://kubernetes.io/docs/concepts/services-networking/network-policies/

    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {metricsPort: 9090, networkPolicy: {}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy: {restartScope: All, networkPolicy: {}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true}
        runPolicy: {progress: {}, networkPolicy: {}}
    wrong:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy:
          progress: {}
          networkPolicy: {alsoFrom: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/16}}]}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        runPolicy:
          metricsPort: 9090
          networkPolicy: {alsoFrom: [{podSelector: {}}]}
    right:
        framework: jax
        command: [python, train.py]
        roles: {worker: {replicas: 2}}
        network: {host: true}
        runPolicy:
          progress: {}
          networkPolicy: {alsoFrom: [{ipBlock: {cidr: 10.0.0.0/16}}]}
    """
    policy, path = topology.job.run_policy, ("runPolicy", "networkPolicy")
    if policy.network_policy is None or not topology.supervised:
        return
    peers = policy.network_policy.also_from
    blocks = [peer for peer in peers if "ipBlock" in peer]
    if any(len(peer) > 1 for peer in blocks):
        hint = "write two peers: alsoFrom: [{ipBlock: {cidr: …}}, {podSelector: {}}]"
        yield error((*path, "alsoFrom"), "ipBlock is not allowed next to a selector", hint)
    if policy.port is None:
        yield warning(
            path,
            "networkPolicy has no effect: the supervisor receives no requests without progress,"
            " metricsPort or restartMode: InPlace",
            "remove it",
            "no-effect",
        )
    elif policy.metrics_port and not peers:
        yield warning(
            path,
            "networkPolicy lets only the pods of this job connect to metricsPort:"
            f" {policy.metrics_port}, so Prometheus cannot read the metrics",
            "add the namespace of Prometheus: alsoFrom: [{namespaceSelector:"
            " {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]",
        )
    if topology.job.network.on_host and policy.has_requests and not blocks:
        names = ", ".join(dict.fromkeys(role.name for role in topology.roles))
        yield warning(
            path,
            f"the pods of {names} use the network of their node, so a NetworkPolicy cannot select"
            " them, and networkPolicy may block their reports",
            "add the addresses of the nodes: alsoFrom: [{ipBlock: {cidr: 10.0.0.0/16}}]",
        )
