"""The API server's rules for pods, and for labels, as rows.

Source, unless noted otherwise: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go. Rules of
later versions are those of 1.37.0. Fields that must be there are in the API's schema, and here only
if it lacks them, or for a hint. Options of Windows are not checked. The rows of other objects are
in `workloads.py`.
"""

from mlgen.kubernetes.validation.rows import EMPTY, Condition, Row, needs, required
from mlgen.kubernetes.validation.syntax import (
    absolute,
    between,
    data_key,
    either,
    exactly_one,
    few,
    file_path,
    forbidden,
    ip_address,
    label,
    label_value,
    labels,
    one_of,
    port,
    port_name,
    port_or_name,
    port_or_zero,
    qualified,
    relative,
    subdomain,
    unique,
    without_steps_up,
)
from mlgen.kubernetes.versions import KubeVersion

RESTART_RULES = KubeVersion(1, 35)
"""Since then, containers may have a restartPolicy of their own (ContainerRestartRules). Before 1.34
it is rejected, and 1.34 drops it."""

RESTART_ALL = KubeVersion(1, 36)
"""Since then, sidecars may have rules, and a rule may restart all containers
(RestartAllContainersOnContainerExits)."""

HOST_NAMES = KubeVersion(1, 35)
"""Since then, a pod may replace its host name (HostnameOverride)."""

INT32_MAX = 2**31 - 1
BYTE_MAX = 255
RULES_MAX, CODES_MAX = 20, 255
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("TCP", "UDP", "SCTP")
PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
IN_STATEFUL_SET: Condition = {"StatefulSet.kind": ["StatefulSet"]}
SIDECAR: Condition = {"restartPolicy": ["Always"]}
NO_SOURCE = "the source of the value is missing"


def each(fields: str, definition: str) -> str:
    """Return several fields of one definition as the place of a row."""
    return " ".join(f"{definition}.{field}" for field in fields.split())


def _expressions(at: str, operators: tuple[str, ...]) -> tuple[Row, ...]:
    """The rules of ValidateLabelSelectorRequirement, and of that of node affinity."""
    no_values = "operator {operator} has no values"
    some = "add the values; operator {operator} needs at least one"
    return (
        Row(f"{at}.operator", one_of(*operators)),
        Row(f"{at}.key", qualified("label key"), empty=True),
        Row(at, needs("values", some), when={"operator": ["In", "NotIn"], "values": EMPTY}),
        Row(
            f"{at}.values",
            forbidden(no_values, "remove them, or use operator In"),
            when={"operator": ["Exists", "DoesNotExist"]},
            unless={".": EMPTY},
        ),
    )


METADATA = (
    Row("ObjectMeta.labels", labels),
    Row("ServiceSpec.selector PodSpec.nodeSelector LabelSelector.matchLabels", labels),
    *_expressions("LabelSelectorRequirement", OPERATORS),
    Row("LabelSelectorRequirement.values[]", label_value),
)

POD = (
    Row("PodSpec.dnsPolicy", one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")),
    Row(
        "PodSpec.dnsPolicy",
        forbidden(
            "dnsPolicy: None requires dnsConfig with nameservers", "add dnsConfig.nameservers"
        ),
        when={".": ["None"], "dnsConfig.nameservers": EMPTY},
    ),
    Row("PodSpec.restartPolicy", one_of("Always", "OnFailure", "Never")),
    Row("PodSpec.preemptionPolicy", one_of("PreemptLowerPriority", "Never"), empty=True),
    Row("PodSpec.nodeName", subdomain("node name")),
    Row("PodSpec.priorityClassName", subdomain("name of a PriorityClass")),
    Row("PodSpec.runtimeClassName", subdomain("name of a RuntimeClass"), empty=True),
    Row("PodSpec.serviceAccountName", subdomain("name of a ServiceAccount")),
    Row(
        "PodSpec.serviceAccount",
        subdomain("name of a ServiceAccount"),
        when={"serviceAccountName": EMPTY},
    ),
    Row("PodSpec.hostname", label("host name"), unless=IN_STATEFUL_SET),
    Row("PodSpec.subdomain", label("name of a Service"), unless=IN_STATEFUL_SET),
    *(
        Row(
            "PodSpec.hostnameOverride",
            forbidden(f"a pod with {field}: true has no hostnameOverride", "remove one of the two"),
            when={field: [True]},
            since=HOST_NAMES,
            empty=True,
        )
        for field in ("hostNetwork", "setHostnameAsFQDN")
    ),
    Row("PodSpec.hostnameOverride", subdomain("host name"), since=HOST_NAMES, empty=True),
    # The API server does not check these names, and the kubelet ignores Secrets it cannot find.
    Row("PodSpec.imagePullSecrets[].name", subdomain("name of a Secret")),
    Row("PodSpec.activeDeadlineSeconds", between(1, INT32_MAX)),
    Row("PodOS.name", one_of("linux", "windows")),
    Row("HostAlias.ip", ip_address, empty=True),
    Row("HostAlias.hostnames[]", subdomain("host name"), empty=True),
    Row("PodDNSConfig.nameservers", few(3, "nameservers")),
    Row("PodDNSConfig.nameservers[]", ip_address, empty=True),
    required("PodDNSConfigOption.name"),
    Row("PodReadinessGate.conditionType", qualified("type of a condition"), empty=True),
    Row("PodSchedulingGate.name", qualified("name of a scheduling gate"), empty=True),
    Row("PodSpec.schedulingGates", unique("name", "scheduling gate")),
    Row("PodSpec.resourceClaims", unique("name", "claim", "rename one of the two")),
    Row("PodResourceClaim.name", label("name")),
    Row("PodResourceClaim", either("resourceClaimName", "resourceClaimTemplateName")),
    Row(
        each("resourceClaimName resourceClaimTemplateName", "PodResourceClaim"),
        subdomain("name of a claim"),
        empty=True,
    ),
    Row(
        "PodSpec.ephemeralContainers",
        forbidden("a pod template has no ephemeral containers", "use kubectl debug"),
        unless={".": EMPTY},
    ),
)

SECURITY = (
    Row(each("fsGroup runAsUser runAsGroup", "PodSecurityContext"), between(0, INT32_MAX)),
    Row(each("runAsUser runAsGroup", "SecurityContext"), between(0, INT32_MAX)),
    Row("PodSecurityContext.supplementalGroups[]", between(0, INT32_MAX)),
    Row("PodSecurityContext.fsGroupChangePolicy", one_of("OnRootMismatch", "Always"), empty=True),
    Row("PodSecurityContext.supplementalGroupsPolicy", one_of("Merge", "Strict"), empty=True),
    Row("PodSecurityContext.seLinuxChangePolicy", one_of("Recursive", "MountOption"), empty=True),
    Row("SecurityContext.procMount", one_of("Default", "Unmasked"), empty=True),
    Row(
        "SecurityContext.procMount",
        forbidden(
            "procMount: Unmasked requires hostUsers: false", "add hostUsers: false to the pod"
        ),
        when={".": ["Unmasked"]},
        unless={"PodSpec.hostUsers": [False]},
    ),
    *(
        Row(
            "SecurityContext.allowPrivilegeEscalation",
            forbidden(
                f"{what} and allowPrivilegeEscalation: false contradict each other",
                "remove one of the two",
            ),
            when={".": [False], field: [value]},
        )
        for what, field, value in (
            ("privileged: true", "privileged", True),
            ("CAP_SYS_ADMIN", "capabilities.add[]", "CAP_SYS_ADMIN"),
        )
    ),
    required("SeccompProfile.type AppArmorProfile.type", f"add one of: {', '.join(PROFILES)}"),
    Row("SeccompProfile.type AppArmorProfile.type", one_of(*PROFILES)),
    Row(
        "SeccompProfile AppArmorProfile",
        needs("localhostProfile"),
        when={"type": ["Localhost"], "localhostProfile": [None]},
    ),
    Row("SeccompProfile.localhostProfile", relative, when={"type": ["Localhost"]}),
    Row(
        "SeccompProfile.localhostProfile AppArmorProfile.localhostProfile",
        forbidden(
            "localhostProfile has no place in a profile of type {type}",
            "remove it, or write type: Localhost",
        ),
        unless={"type": ["Localhost"]},
        empty=True,
    ),
    Row(
        "PodSpec.shareProcessNamespace",
        forbidden(
            "shareProcessNamespace and hostPID are mutually exclusive", "keep one of the two"
        ),
        when={".": [True], "hostPID": [True]},
    ),
    Row(
        each("hostNetwork hostPID hostIPC", "PodSpec"),
        forbidden(
            "hostUsers: false and {field}: true contradict each other", "remove one of the two"
        ),
        when={".": [True], "hostUsers": [False]},
    ),
)

SCHEDULING = (
    required("NodeSelector.nodeSelectorTerms", "add at least one term"),
    *_expressions("NodeSelectorTerm.matchExpressions[]", (*OPERATORS, "Gt", "Lt")),
    # The values of preferred terms are not checked.
    Row("NodeSelector.nodeSelectorTerms[].matchExpressions[].values[]", label_value),
    Row("NodeSelectorTerm.matchFields[].operator", one_of("In", "NotIn")),
    Row(each("weight", "PreferredSchedulingTerm"), between(1, 100)),
    Row(each("weight", "WeightedPodAffinityTerm"), between(1, 100)),
    Row("PodAffinityTerm.namespaces[]", label("namespace"), empty=True),
    required("PodAffinityTerm.topologyKey", "for example topologyKey: kubernetes.io/hostname"),
    Row("PodAffinityTerm.topologyKey", qualified("label key")),
    Row("Toleration.key", qualified("key of a taint")),
    Row(
        "Toleration",
        forbidden(
            "a toleration without key requires operator: Exists",
            "add key, or write operator: Exists",
        ),
        when={"key": EMPTY},
        unless={"operator": ["Exists"]},
    ),
    Row("Toleration.operator", one_of("Equal", "Exists")),
    Row("Toleration.effect", one_of("NoSchedule", "PreferNoSchedule", "NoExecute")),
    Row(
        "Toleration.value",
        forbidden("operator: Exists has no value", "remove value, or write operator: Equal"),
        when={"operator": ["Exists"]},
    ),
    Row("Toleration.value", label_value, unless={"operator": ["Exists"]}),
    Row(
        "Toleration.tolerationSeconds",
        forbidden("tolerationSeconds requires effect: NoExecute", "remove it, or change effect"),
        unless={"effect": ["NoExecute"]},
    ),
    Row("TopologySpreadConstraint.maxSkew TopologySpreadConstraint.minDomains", between(1)),
    Row("TopologySpreadConstraint.whenUnsatisfiable", one_of("DoNotSchedule", "ScheduleAnyway")),
    Row(
        "TopologySpreadConstraint.minDomains",
        forbidden("minDomains requires whenUnsatisfiable: DoNotSchedule"),
        unless={"whenUnsatisfiable": ["DoNotSchedule"]},
    ),
    Row(
        each("nodeAffinityPolicy nodeTaintsPolicy", "TopologySpreadConstraint"),
        one_of("Honor", "Ignore"),
        empty=True,
    ),
    *(
        Row(
            f"{definition}.{field}",
            forbidden("{field} requires a labelSelector", "add labelSelector"),
            when={"labelSelector": [None]},
            unless={".": EMPTY},
        )
        for definition in ("PodAffinityTerm", "TopologySpreadConstraint")
        for field in ("matchLabelKeys", "mismatchLabelKeys")
    ),
    Row(
        "PodAffinityTerm.matchLabelKeys[] PodAffinityTerm.mismatchLabelKeys[]"
        " TopologySpreadConstraint.matchLabelKeys[]",
        qualified("label key"),
        unless={"labelSelector": [None]},
        empty=True,
    ),
)

CONTAINERS = (
    Row("Container.name", label("container name")),
    Row("Container.imagePullPolicy ImageVolumeSource.pullPolicy", one_of(*PULL_POLICIES)),
    Row("Container.terminationMessagePolicy", one_of("File", "FallbackToLogsOnError")),
    Row("Container.ports", unique("name", "port", "rename one of the two")),
    Row("ContainerPort.name", port_name),
    required("ContainerPort.containerPort"),
    Row("ContainerPort.containerPort ContainerPort.hostPort", port_or_zero),
    Row("ContainerPort.protocol", one_of(*PROTOCOLS)),
    Row("Container.resizePolicy", unique("resourceName", "resizePolicy of", item=True)),
    Row("ContainerResizePolicy.resourceName", one_of("cpu", "memory")),
    Row("ContainerResizePolicy.restartPolicy", one_of("NotRequired", "RestartContainer")),
    Row(
        "ContainerResizePolicy.restartPolicy",
        forbidden(
            "in a pod with restartPolicy: Never, no container can be restarted", "write NotRequired"
        ),
        when={".": ["RestartContainer"], "PodSpec.restartPolicy": ["Never"]},
    ),
    Row(
        "PodSpec.containers[].restartPolicy",
        forbidden(
            f"before Kubernetes {RESTART_RULES}, only sidecars have a restartPolicy",
            f"remove it, or set --kube-version {RESTART_RULES}",
        ),
        until=KubeVersion(1, RESTART_RULES.minor - 1),
        empty=True,
    ),
    Row(
        "Container.restartPolicy",
        one_of("Always", "Never", "OnFailure"),
        since=RESTART_RULES,
        empty=True,
    ),
    Row("Container.restartPolicyRules", few(RULES_MAX)),
    Row(
        "Container",
        needs("restartPolicy", "add it, for containers to which no rule applies"),
        when={"restartPolicy": [None]},
        unless={"restartPolicyRules": EMPTY},
        since=RESTART_RULES,
    ),
    Row(
        "PodSpec.initContainers[].restartPolicyRules",
        forbidden("an init container with restartPolicy: Always has no restartPolicyRules"),
        when=SIDECAR,
        unless={".": EMPTY},
        since=RESTART_RULES,
        until=RESTART_RULES,
    ),
    Row("ContainerRestartRule.action", one_of("Restart"), until=RESTART_RULES, empty=True),
    Row(
        "ContainerRestartRule.action",
        one_of("Restart", "RestartAllContainers"),
        since=RESTART_ALL,
        empty=True,
    ),
    Row("ContainerRestartRule", needs("exitCodes"), when={"exitCodes": [None]}),
    Row("ContainerRestartRule.exitCodes.operator", one_of("In", "NotIn")),
    Row("ContainerRestartRule.exitCodes.values", few(CODES_MAX)),
    Row(
        " ".join(f"PodSpec.initContainers[].{field}" for field in ("lifecycle", *PROBES)),
        forbidden(
            "an init container without restartPolicy: Always has no {field}",
            "remove it, or write restartPolicy: Always to make it a sidecar",
        ),
        unless=SIDECAR,
    ),
)

PROBE = (
    Row("Probe", exactly_one(("exec", "httpGet", "tcpSocket", "grpc"), "{field} does nothing")),
    Row(
        each(
            "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold",
            "Probe",
        ),
        between(0),
    ),
    *(
        Row(
            f"Container.{probe}.successThreshold",
            forbidden(f"the successThreshold of a {probe} is 1, got {{value}}"),
            when={".": range(2, 2**63)},
        )
        for probe in ("livenessProbe", "startupProbe")
    ),
    Row("Probe.terminationGracePeriodSeconds", between(1)),
    Row(
        "Container.readinessProbe.terminationGracePeriodSeconds",
        forbidden("a readinessProbe has no terminationGracePeriodSeconds"),
    ),
    Row(
        "LifecycleHandler",
        exactly_one(("exec", "httpGet", "tcpSocket", "sleep"), "{field} does nothing"),
    ),
    required("ExecAction.command"),
    Row("HTTPGetAction.port TCPSocketAction.port", port_or_name, empty=True),
    Row("HTTPGetAction.scheme", one_of("HTTP", "HTTPS")),
    Row("GRPCAction.port", port),
)

ENV = (
    Row(
        "EnvVarSource",
        exactly_one(
            ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"),
            NO_SOURCE,
        ),
    ),
    Row(
        "EnvVar.valueFrom",
        forbidden("value and valueFrom are mutually exclusive", "keep one of the two"),
        unless={"value": EMPTY},
    ),
    Row("EnvFromSource", exactly_one(("configMapRef", "secretRef"), NO_SOURCE)),
    required(
        "ConfigMapKeySelector.name SecretKeySelector.name ConfigMapEnvSource.name"
        " SecretEnvSource.name"
    ),
    Row("ConfigMapKeySelector.name ConfigMapEnvSource.name", subdomain("name of a ConfigMap")),
    Row("SecretKeySelector.name SecretEnvSource.name", subdomain("name of a Secret")),
    Row("ConfigMapKeySelector.key SecretKeySelector.key", data_key),
    Row("ObjectFieldSelector.apiVersion", one_of("v1")),
)

MOUNTS = (
    Row("VolumeMount.subPath VolumeMount.subPathExpr", relative),
    Row(
        "VolumeMount.subPathExpr",
        forbidden("subPath and subPathExpr are mutually exclusive", "keep one of the two"),
        unless={"subPath": EMPTY},
    ),
    Row(
        "VolumeMount.mountPropagation",
        one_of("Bidirectional", "HostToContainer", "None"),
        empty=True,
    ),
    Row(
        "VolumeMount.mountPropagation",
        forbidden(
            "only privileged containers can have mountPropagation: Bidirectional",
            "write HostToContainer or None",
        ),
        when={".": ["Bidirectional"]},
        unless={"Container.securityContext.privileged": [True]},
    ),
    Row("VolumeMount.recursiveReadOnly", one_of("Disabled", "IfPossible", "Enabled"), empty=True),
    Row(
        "VolumeMount.recursiveReadOnly",
        forbidden("recursiveReadOnly requires readOnly: true", "add readOnly: true"),
        when={".": ["IfPossible", "Enabled"]},
        unless={"readOnly": [True]},
    ),
    Row(
        "VolumeMount.recursiveReadOnly",
        forbidden(
            "recursiveReadOnly and mountPropagation are mutually exclusive", "keep one of the two"
        ),
        when={".": ["IfPossible", "Enabled"]},
        unless={"mountPropagation": [*EMPTY, "None"]},
    ),
    Row("VolumeDevice.devicePath", without_steps_up),
)

VOLUMES = (
    Row("Volume.name", label("volume name")),
    # The API server does not check these names; the pod would wait for the object for ever.
    Row("ConfigMapVolumeSource.name", subdomain("name of a ConfigMap")),
    Row(
        "PersistentVolumeClaimVolumeSource.claimName", subdomain("name of a PersistentVolumeClaim")
    ),
    Row("SecretVolumeSource.secretName", subdomain("name of a Secret")),
    Row("ConfigMapProjection.name", subdomain("name of a configMap")),
    Row("SecretProjection.name", subdomain("name of a secret")),
    # The reference of an image is required of a pod, and since Kubernetes 1.37 of a template.
    required(
        "ConfigMapVolumeSource.name EphemeralVolumeSource.volumeClaimTemplate"
        " ImageVolumeSource.reference ScaleIOVolumeSource.volumeName SecretVolumeSource.secretName"
        " StorageOSVolumeSource.volumeName ConfigMapProjection.name SecretProjection.name"
    ),
    Row("KeyToPath.path DownwardAPIVolumeFile.path", file_path),
    Row("ServiceAccountTokenProjection.path ClusterTrustBundleProjection.path", file_path),
    Row("ServiceAccountTokenProjection.expirationSeconds", between(600, 1 << 32)),
    Row("ClusterTrustBundleProjection", either("name", "signerName")),
    Row("HostPathVolumeSource.path", without_steps_up),
    Row(
        "HostPathVolumeSource.type",
        one_of(
            *("DirectoryOrCreate", "Directory", "FileOrCreate", "File"),
            *("Socket", "CharDevice", "BlockDevice"),
        ),
    ),
    Row("NFSVolumeSource.path", absolute),
    Row("CSIVolumeSource.nodePublishSecretRef.name", subdomain("name of a Secret"), empty=True),
    required(
        "CSIVolumeSource.nodePublishSecretRef.name CinderVolumeSource.secretRef.name"
        " StorageOSVolumeSource.secretRef.name"
    ),
    required("DownwardAPIVolumeFile.resourceFieldRef.containerName"),
    Row(
        "DownwardAPIVolumeFile",
        needs("fieldRef", "add fieldRef or resourceFieldRef"),
        when={"fieldRef": [None], "resourceFieldRef": [None]},
    ),
    Row(
        "DownwardAPIVolumeFile",
        forbidden("fieldRef and resourceFieldRef are mutually exclusive", "keep one of the two"),
        unless={"fieldRef": [None], "resourceFieldRef": [None]},
    ),
)

VENDORS = (
    Row("AWSElasticBlockStoreVolumeSource.partition", between(0, BYTE_MAX)),
    Row("GCEPersistentDiskVolumeSource.partition", between(0, BYTE_MAX)),
    Row("AzureDiskVolumeSource.cachingMode", one_of("None", "ReadOnly", "ReadWrite"), empty=True),
    Row("AzureDiskVolumeSource.kind", one_of("Shared", "Dedicated", "Managed"), empty=True),
    Row("FCVolumeSource", either("targetWWNs", "wwids")),
    Row("FCVolumeSource", needs("lun"), when={"lun": [None]}, unless={"targetWWNs": EMPTY}),
    Row("FCVolumeSource.lun", between(0, BYTE_MAX), unless={"targetWWNs": EMPTY}),
    Row(
        "FlockerVolumeSource",
        either("datasetName", "datasetUUID", "keep or add one", omitted=EMPTY),
    ),
    Row("GitRepoVolumeSource.directory", relative),
    Row("ISCSIVolumeSource.lun", between(0, BYTE_MAX)),
    *(
        Row("ISCSIVolumeSource", needs("secretRef"), when={field: [True], "secretRef": [None]})
        for field in ("chapAuthDiscovery", "chapAuthSession")
    ),
    Row(each("volumeName volumeNamespace", "StorageOSVolumeSource"), label("name")),
)

ROWS = (
    *(*METADATA, *POD, *SECURITY, *SCHEDULING, *CONTAINERS, *PROBE, *ENV, *MOUNTS, *VOLUMES),
    *VENDORS,
)
