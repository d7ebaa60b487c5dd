"""Names that people write in a job file and that have another name or place there.

Names are compared in lower case, without dashes and underscores: `num_workers` is `numworkers`.
Fields of the job file, options of frameworks and Kubernetes' own fields are not listed here:
`cures` finds their places in the schemas.
"""

REPLICAS = frozenset(
    [
        *("completions", "instances", "nnodes", "nodecount", "nodes", "numnodes", "numreplicas"),
        *("numworkers", "parallelism", "replicacount", "replicas", "size", "workercount"),
        *("workers", "worldsize"),
    ]
)
"""The number of replicas: in Slurm, torchrun, Ray, Kubernetes' Job and elsewhere."""

RESOURCES = {
    **dict.fromkeys(("cpu", "cpus", "numcpu", "numcpus"), "cpu"),
    **dict.fromkeys(("mem", "memory", "ram"), "memory"),
    **dict.fromkeys(("disk", "ephemeralstorage", "storage"), "ephemeral-storage"),
    **dict.fromkeys(("gpu", "gpucount", "gpus", "gpuspernode", "gpusperworker"), "nvidia.com/gpu"),
    **dict.fromkeys(("nvidia.com/gpu", "nvidiagpu", "numgpu", "numgpus"), "nvidia.com/gpu"),
}
"""Names of a resource, and its name in Kubernetes."""

FIELDS = {
    "arguments": "args",
    "cmd": "command",
    "cwd": "workingDir",
    "entrypoint": "command",
    "envfrom": "template.spec.containers[].envFrom",
    "environment": "env",
    "environmentvariables": "env",
    "envvars": "env",
    "limits": "resources.limits",
    "priority": "template.spec.priorityClassName",
    "priorityclass": "template.spec.priorityClassName",
    "priorityclassname": "template.spec.priorityClassName",
    "pullpolicy": "imagePullPolicy",
    "pullsecrets": "template.spec.imagePullSecrets",
    "requests": "resources.requests",
    "script": "command",
    "variables": "env",
    "volumemounts": "volumes",
    "workdir": "workingDir",
}
"""Fields of a role, and where a role has them."""

SPEC_FIELDS = {
    "deadline": "spec.runPolicy.activeDeadlineSeconds",
    "hostnetwork": "spec.network.host",
    "maxretries": "spec.runPolicy.backoffLimit",
    "mpiimplementation": "spec.options.implementation",
    "retries": "spec.runPolicy.backoffLimit",
    "schedulingpolicy": "spec.scheduling",
    "timeout": "spec.runPolicy.activeDeadlineSeconds",
    "ttl": "spec.runPolicy.ttlSecondsAfterFinished",
}
"""Fields of the whole job, and their paths."""

ROLES = frozenset(["replicaspecs", "replicatedjobs", "tasks", "taskgroups"])
"""What operators call `roles`; so are all fields that end with the first of these."""

VOLUMES = {
    "claim": "pvc",
    "claimname": "pvc",
    "configmapname": "configMap",
    "mount": "mountPath",
    "path": "mountPath",
    "persistentvolumeclaim": "pvc",
    "secretname": "secret",
    "volumeclaimname": "pvc",
}
"""Fields of a volume, and the names that they have in its short form."""

VALUES = {
    "fail": "Never",
    "no": "Never",
    "onerror": "OnFailure",
    "onfail": "OnFailure",
    "rox": "ReadOnlyMany",
    "rwo": "ReadWriteOnce",
    "rwop": "ReadWriteOncePod",
    "rwx": "ReadWriteMany",
}
"""Other words for the values of fields whose values are listed: systemd's, and kubectl's."""
