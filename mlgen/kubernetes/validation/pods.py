"""Rules for pods that compare several values, or read the text of one.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go, in the functions that are named.
"""

import re
from collections.abc import Iterator
from typing import Any

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import natural, total
from mlgen.kubernetes.validation.resources import HUGE_PAGES, amount_of, quantity
from mlgen.kubernetes.validation.rows import (
    Row,
    Rule,
    Spot,
    items,
    mapping,
    missing,
    number,
    text,
    values,
)
from mlgen.kubernetes.validation.syntax import (
    between,
    conflict,
    image,
    invalid,
    is_subdomain,
    label,
    one_of,
    qualified,
    relative,
    subdomain,
    valid,
)
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import Problem, ValuePath

RELAXED_ENV_NAMES = KubeVersion(1, 32)
"""Since then, the name of a variable is any printable ASCII text without = (feature gate
RelaxedEnvironmentVariableValidation)."""

SLEEP_ZERO = KubeVersion(1, 33)
"""Since then, a hook may sleep for 0 s (PodLifecycleSleepActionAllowZero)."""

RELAXED_SEARCHES = KubeVersion(1, 33)
"""Since then, a search domain may be a dot or have underscores (RelaxedDNSSearchValidation)."""

GRACE = 30
"""The default of terminationGracePeriodSeconds."""

LISTS = ("containers", "initContainers")
MODE_MAX = 0o777
SYSCTL_MAX = 253
HOST_NAME_MAX = 64
SEARCHES_MAX, SEARCHES_CHARACTERS = 32, 2048

_RELAXED = re.compile(r"[ -<>-~]+\Z")
_STRICT = r"(?!\.\.|\.\Z)[-._a-zA-Z][-._a-zA-Z0-9]*\Z"
_EXPONENT = r"[eE][+-]?[0-9]"
_SUBSCRIPT = r"(?s:(.+?)\['(.*)'\])\Z"
_HEADER = r"[-A-Za-z0-9]+\Z"
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?\Z"


def _claim_templates(spot: Spot) -> list[str]:
    """Return the names of the volumes that a StatefulSet makes of its claim templates."""
    templates = items(spot.around("StatefulSetSpec"), "volumeClaimTemplates")
    return [text(mapping(claim, "metadata"), "name") for _, claim in templates]


def is_skipped(spot: Spot) -> bool:
    """Return whether the API server does not look into a mapping."""
    if spot.kind == "Volume":  # one of that name is made of a claim template
        return text(spot.value, "name") in _claim_templates(spot)
    around = spot.outer.value if spot.outer else {}
    if spot.kind in ("Probe", "Lifecycle"):  # only sidecars have them among init containers
        return "initContainers" in spot.path and text(around, "restartPolicy") != "Always"
    if spot.outer and spot.outer.kind == "Volume":  # it has only one source
        return spot.path[-1] != next(iter(_sources(around)), "")
    return False


def _sources(volume: Object) -> list[str]:
    return [name for name, value in volume.items() if name != "name" and value is not None]


def _volumes(spot: Spot) -> dict[str, Object]:
    """Return the volumes of a pod, by name."""
    listed = items(spot.around("PodSpec"), "volumes")
    made: Object = {name: {"persistentVolumeClaim": {}} for name in _claim_templates(spot)}
    return {text(volume, "name"): volume for _, volume in listed} | made


def _volume_names(path: ValuePath, _: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateVolumes, for the names."""
    made = _claim_templates(spot)
    listed = list(items(spot.value, "volumes"))
    own = [(index, text(each, "name")) for index, each in listed if text(each, "name") not in made]
    seen: set[str] = set()
    for index, name in [*own, *enumerate(made, start=len(listed))]:
        place = (*path, "volumes", index)
        if name and name in seen:
            yield conflict((*place, "name"), f"duplicate volume {name}", "rename one of the two")
        if index >= len(listed):
            yield from (
                label("volume name")((*place, "name"), name) if name else [missing(place, "name")]
            )
        seen.add(name)


def _volume(path: ValuePath, volume: Object, _: Spot) -> Iterator[Problem]:
    """Check that a volume has one source; without one, it is an emptyDir (SetDefaults_Volume)."""
    kinds = _sources(volume)
    if len(kinds) > 1:
        message = f"the volume {text(volume, 'name')} has several sources: {', '.join(kinds)}"
        yield Problem(path, message, "volume", "keep one of them, or rename your volume")


def _mode(path: ValuePath, value: Any, _: Spot) -> Iterator[Problem]:
    """Check a file mode; YAML and JSON have decimal numbers, so 0644 must be an octal literal."""
    if isinstance(value, int) and not 0 <= value <= MODE_MAX:
        message = f"expected a file mode from 0 to {MODE_MAX} (0777), got {value}"
        yield Problem(path, message, "bad-value", "write it with a leading 0: 0644")


def _driver(path: ValuePath, driver: Any, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateCSIDriverName."""
    if not is_subdomain(driver.lower()) or len(driver) > 63:  # noqa: PLR2004
        yield from label("name of a CSI driver")(path, driver)


def _claim_meta(path: ValuePath, meta: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidatePersistentVolumeClaimTemplate."""
    for field in meta:
        if field not in ("labels", "annotations"):
            message = f"the template of a claim has no {field}"
            yield conflict((*path, field), message, "remove it")


def _projected(path: ValuePath, source: Object, _: Spot) -> Iterator[Problem]:
    """The rules of validateProjectionSources."""
    used: set[str] = set()
    for index, part in items(source, "sources"):
        place = (*path, "sources", index)
        kinds = [kind for kind in part if part[kind] is not None]
        if len(kinds) > 1:
            message = f"several sources in one item: {', '.join(kinds)}"
            yield conflict(place, message, "make an item of each")
        for kind in kinds:
            for file in _files(kind, mapping(part, kind)):
                if file in used:
                    message = f"two sources have a file of the path {file}"
                    yield conflict(place, message, "change one of the two paths")
                used.add(file)


def _files(kind: str, source: Object) -> Iterator[str]:
    """Return the paths of the files in a projection that must differ from those of others."""
    if kind in ("secret", "configMap", "downwardAPI"):
        yield from filter(None, (text(item, "path") for _, item in items(source, "items")))
    elif kind == "clusterTrustBundle":
        yield text(source, "path")


def _azure_disk(path: ValuePath, source: Object, _: Spot) -> Iterator[Problem]:
    kind, uri = source.get("kind", "Shared"), text(source, "diskURI")
    prefix = "/subscriptions/" if kind == "Managed" else "https://"
    if isinstance(kind, str) and not uri.startswith(prefix):
        yield invalid((*path, "diskURI"), uri, "URI of a disk", f"start it with {prefix}")


def _flex(path: ValuePath, options: Object, _: Spot) -> Iterator[Problem]:
    for key in options:
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            yield invalid((*path, key), key, "option", "use another prefix")


def _is_initiator(name: str) -> bool:
    """Return whether a text is the name of an iSCSI node."""
    if name.startswith("iqn"):
        return bool(re.search(r"iqn\.\d{4}-\d{2}\.([0-9A-Za-z.-]+)(:[^,;*&$|\s]+)\Z", name))
    return bool(re.match(r"eui.[0-9A-Za-z]{16}\Z|naa.[0-9A-Za-z]{32}\Z", name))


def _quobyte(path: ValuePath, source: Object, _: Spot) -> Iterator[Problem]:
    registry, tenant = text(source, "registry"), text(source, "tenant")
    if registry and len(tenant) > 64:  # noqa: PLR2004
        yield invalid((*path, "tenant"), tenant, "tenant", "use at most 64 characters")
    elif registry and not all(pair.count(":") == 1 for pair in registry.split(",")):
        yield invalid((*path, "registry"), registry, "registry", "write HOST:PORT")


_initiator = valid(_is_initiator, "name", "start it with iqn., eui. or naa.")

VOLUMES = (
    Row("PodSpec", _volume_names),
    Row("Volume", _volume),
    Row("ConfigMapVolumeSource.defaultMode SecretVolumeSource.defaultMode", _mode),
    Row("DownwardAPIVolumeSource.defaultMode ProjectedVolumeSource.defaultMode", _mode),
    Row("KeyToPath.mode DownwardAPIVolumeFile.mode", _mode),
    Row("EmptyDirVolumeSource.sizeLimit", quantity, empty=True),
    Row("CSIVolumeSource.driver", _driver, of=str),
    Row("EphemeralVolumeSource.volumeClaimTemplate.metadata", _claim_meta, of=dict),
    Row("ProjectedVolumeSource", _projected),
    Row("AzureDiskVolumeSource", _azure_disk),
    Row("FlexVolumeSource.options", _flex, of=dict),
    Row(
        "FlockerVolumeSource.datasetName",
        valid(lambda name: "/" not in name, "dataset", "write it without /"),
    ),
    Row("ISCSIVolumeSource.iqn", _initiator),
    Row("ISCSIVolumeSource.initiatorName", _initiator, empty=True),
    Row("QuobyteVolumeSource", _quobyte),
)


def _mounts(path: ValuePath, _: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateVolumeMounts."""
    container, known, used = spot.value, _volumes(spot), dict[str, str]()
    devices = [device for _, device in items(container, "volumeDevices")]
    taken = {text(device, "name") for device in devices}
    paths = {text(device, "devicePath") for device in devices}
    for index, mount in items(container, "volumeMounts"):
        place = (*path, index)
        name, folder = text(mount, "name"), text(mount, "mountPath")
        if name and name not in known:
            message = (
                f"container {text(container, 'name')} mounts the volume {name}, "
                "which does not exist"
            )
            yield Problem(place, message, "volume", "add it to the volumes of the template")
        if folder and folder in used:
            message = f"{used[folder]} and {name} are both mounted at {folder}"
            yield conflict((*place, "mountPath"), message, "change the mountPath of one of them")
        if name in taken or folder in paths:
            message = f"{name} is a device and a mount"
            yield conflict(place, message, "remove it from volumeDevices or volumeMounts")
        used.setdefault(folder, name)


def _devices(path: ValuePath, _: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidateVolumeDevices."""
    known, seen = _volumes(spot), set[str]()
    for index, device in items(spot.value, "volumeDevices"):
        place = (*path, index)
        for field in ("name", "devicePath"):
            value = text(device, field)
            if value and value in seen:
                hint = "remove one of the two"
                yield conflict((*place, field), f"duplicate device {value}", hint)
            seen.add(value)
        volume = known.get(text(device, "name"))
        if volume is None:
            message = f'the pod has no volume "{text(device, "name")}"'
            yield Problem((*place, "name"), message, "volume", "add it to volumes")
        elif not {"persistentVolumeClaim", "ephemeral"} & set(volume):
            message = "only a persistentVolumeClaim or an ephemeral volume can be a device"
            yield conflict((*place, "name"), message, "mount it in volumeMounts")


def _image(path: ValuePath, container: Object, _: Spot) -> Iterator[Problem]:
    if text(container, "image"):
        yield from image((*path, "image"), text(container, "image"))
    else:
        message = f"container {text(container, 'name')} has no image"
        yield Problem(path, message, "missing-image", "set image here or in spec")


def _names_and_host_ports(path: ValuePath, spec: Object, _: Spot) -> Iterator[Problem]:
    """The rules of validateContainers, AccumulateUniqueHostPorts and validatePodHostNetworkDeps."""
    names, shared = set[str](), set[tuple[str, str, int]]()
    for field in LISTS:
        for index, container in items(spec, field):
            place, name = (*path, field, index), text(container, "name")
            if name and name in names:
                hint = "rename one of the two"
                yield conflict((*place, "name"), f"duplicate container {name}", hint)
            names.add(name)
            # Init containers run one after the other.
            used = shared if field == "containers" else set()
            for number_, item in items(container, "ports"):
                host = number(item, "hostPort")
                key = (text(item, "protocol") or "TCP", text(item, "hostIP"), host or 0)
                inner = (*place, "ports", number_, "hostPort")
                if host and key in used:
                    message = f"hostPort {host} is used twice"
                    yield conflict(inner, message, "change one of the two")
                used.add(key)
                own = field == "containers" and spec.get("hostNetwork") is True
                if host and own and host != number(item, "containerPort"):
                    message = "with hostNetwork: true, hostPort and containerPort must be equal"
                    yield conflict(inner, message, "remove hostPort")


def _sleep(path: ValuePath, action: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of validateSleepAction."""
    grace = number(spot.around("PodSpec"), "terminationGracePeriodSeconds")
    low = 0 if spot.version >= SLEEP_ZERO else 1
    seconds = number(action, "seconds") or 0
    yield from between(low, GRACE if grace is None else grace)((*path, "seconds"), seconds)


def _file_key(path: ValuePath, name: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of validateFileKeyRefVolumes in Kubernetes 1.37.0."""
    known = _volumes(spot)
    if name not in known:
        yield conflict(path, f"there is no volume {name}", "add it, an emptyDir")
    elif known[name].keys() - {"name", "emptyDir"}:
        yield conflict(path, f"the volume {name} is not an emptyDir", "name an emptyDir")


FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName"),
    *("spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP"),
    "status.podIPs",
)
DOWNWARD_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.labels"),
    *("metadata.annotations", "metadata.uid"),
)


def _field(*allowed: str) -> Rule:
    """The rules of validateObjectFieldSelector: some fields, and single labels and annotations.

    Their names are those of ConvertDownwardAPIFieldLabel in pkg/apis/core/pods/helpers.go.
    """

    def rule(path: ValuePath, field: Any, _: Spot) -> Iterator[Problem]:
        subscript = re.match(_SUBSCRIPT, field)
        if subscript and subscript[1] in ("metadata.labels", "metadata.annotations"):
            key = subscript[2] if subscript[1] == "metadata.labels" else subscript[2].lower()
            yield from qualified("label key")(path, key)
        elif field != "spec.host" or "spec.nodeName" not in allowed:
            yield from one_of(*allowed)(path, field)

    return rule


RESOURCES = tuple(
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
CPU_DIVISORS = ("1m", "1")
DIVISORS = (
    *("1", "1k", "1M", "1G", "1T", "1P", "1E"),
    *("1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"),
)


def _resource_field(at: ValuePath, reference: Object, _: Spot) -> Iterator[Problem]:
    """The rules of validateContainerResourceFieldSelector."""
    name, divisor, place = text(reference, "resource"), reference.get("divisor"), (*at, "divisor")
    if not name:
        return
    if not name.startswith((f"requests.{HUGE_PAGES}", f"limits.{HUGE_PAGES}")):
        yield from one_of(*RESOURCES)((*at, "resource"), name)
    amount = amount_of(divisor)
    if divisor is None or amount == 0:
        return
    yield from quantity(place, divisor)
    allowed = CPU_DIVISORS if name.endswith(".cpu") else DIVISORS
    # An amount with an exponent keeps it.
    has_exponent = bool(re.search(_EXPONENT, str(divisor))) and amount != 1
    if amount is not None and (has_exponent or total([divisor]) not in allowed):
        yield invalid(place, divisor, f"divisor of {name}", f"use one of: {', '.join(allowed)}")


_relaxed_name = valid(
    lambda name: bool(_RELAXED.match(name)),
    "variable name",
    "use printable ASCII characters other than =",
)
_strict_name = valid(
    lambda name: bool(re.match(_STRICT, name)),
    "variable name",
    "use letters, digits, dashes, underscores and dots, not starting with a digit",
)
"""The rules of IsRelaxedEnvVarName and IsEnvVarName."""

CONTAINERS = (
    Row("Container", _image),
    Row("Container.volumeMounts", _mounts),
    Row("Container.volumeDevices", _devices),
    Row("PodSpec", _names_and_host_ports),
    Row("EnvVar.name EnvFromSource.prefix", _relaxed_name, since=RELAXED_ENV_NAMES),
    Row("EnvVar.name EnvFromSource.prefix", _strict_name, until=KubeVersion(1, 31)),
    Row("EnvVarSource.fieldRef.fieldPath", _field(*FIELDS), of=str),
    Row("DownwardAPIVolumeFile.fieldRef.fieldPath", _field(*DOWNWARD_FIELDS), of=str),
    Row("ResourceFieldSelector", _resource_field),
    Row("FileKeySelector.volumeName", _file_key, of=str),
    Row("SleepAction", _sleep),
    Row(
        "HTTPHeader.name",
        valid(
            lambda name: bool(re.match(_HEADER, name)),
            "header name",
            "use letters, digits and dashes",
        ),
        empty=True,
    ),
)


def _searches(path: ValuePath, searches: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of validatePodDNSConfig, for search domains."""
    named = [str(search or "") for search in searches]
    characters = len(" ".join(named))
    if len(named) > SEARCHES_MAX or characters > SEARCHES_CHARACTERS:
        message = (
            f"expected at most {SEARCHES_MAX} search domains of {SEARCHES_CHARACTERS} characters,"
            f" got {len(named)} of {characters}"
        )
        yield Problem(path, message, "bad-value")
    for index, search in enumerate(named):
        name = search.removesuffix(".")
        if spot.version >= RELAXED_SEARCHES:
            if search == ".":
                continue
            name = ".".join(_without_underscores(part) for part in name.split("."))
        yield from subdomain("search domain")((*path, index), name)


def _without_underscores(part: str) -> str:
    """Return a DNS label with its allowed underscores replaced by dashes."""
    first = part.removeprefix("_")
    return first[:1] + first[1:-1].replace("_", "-") + first[1:][-1:]


def _host_name(path: ValuePath, name: Any, _: Spot) -> Iterator[Problem]:
    """The rules of validatePodHostName in Kubernetes 1.37.0."""
    if len(name) > HOST_NAME_MAX:
        message = f"expected at most {HOST_NAME_MAX} characters, got {len(name)}"
        yield Problem(path, message, "bad-value")


def _profile_name(path: ValuePath, local: Any, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateAppArmorProfileField."""
    if not local.strip() or local != local.strip():
        yield invalid(path, local, "profile name", "write the name without spaces around it")


def _sysctls(path: ValuePath, sysctls: Any, spot: Spot) -> Iterator[Problem]:
    """The rules of validateSysctls, ValidateHostSysctl."""
    seen: set[str] = set()
    spec = spot.around("PodSpec")
    for index, sysctl in items({"sysctls": sysctls}, "sysctls"):
        place, name = (*path, index, "name"), text(sysctl, "name")
        if name and (len(name) > SYSCTL_MAX or not re.match(_SYSCTL, name)):
            yield invalid(place, name, "sysctl", "write it as in net.core.somaxconn")
        elif name and name in seen:
            yield conflict(place, f"duplicate sysctl {name}", "remove one of the two")
        for field, prefixes in SYSCTLS.items():
            if spec.get(field) is True and name.replace("/", ".").startswith(prefixes):
                yield conflict(place, f"{name} cannot be set with {field}: true", "remove one")
        seen.add(name)


SYSCTLS = {
    "hostNetwork": ("net.",),
    "hostIPC": ("kernel.shm", "kernel.msg", "fs.mqueue.", "kernel.sem"),
}
"""The sysctls of the node that a pod must not set in a namespace of the node."""


def _match_field(path: ValuePath, rule: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateNodeFieldSelectorRequirement."""
    names = values(rule, "values")
    if text(rule, "operator") in ("In", "NotIn") and len(names) != 1:
        message = f"a field has exactly one value, got {len(names)}"
        yield conflict((*path, "values"), message, "write one value")
    if text(rule, "key") != "metadata.name":
        yield invalid((*path, "key"), text(rule, "key"), "field", "use metadata.name")
    elif not all(isinstance(name, str) and is_subdomain(name) for name in names):
        yield invalid((*path, "values"), names, "node name", "use the name of a node")


def _expression(path: ValuePath, rule: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateNodeSelectorRequirement."""
    operator, count = text(rule, "operator"), len(values(rule, "values"))
    if operator in ("Gt", "Lt") and count != 1:
        message = f"operator {operator} needs exactly one value, got {count}"
        yield conflict((*path, "values"), message, "write one value")


def _label_keys(at: ValuePath, term: Object, _: Spot) -> Iterator[Problem]:
    """The rules of ValidateMatchLabelKeysAndMismatchLabelKeys."""
    wanted = [key for key in values(term, "matchLabelKeys") if isinstance(key, str)]
    unwanted = [key for key in values(term, "mismatchLabelKeys") if isinstance(key, str)]
    for key in sorted(set(wanted) & set(unwanted)):
        message = f"{key} is in matchLabelKeys and in mismatchLabelKeys"
        yield conflict((*at, "matchLabelKeys"), message, "keep one of the two")
    rules = mapping(term, "labelSelector")
    seen = set(mapping(rules, "matchLabels"))
    for _number, rule in items(rules, "matchExpressions"):
        key = text(rule, "key")
        if key in wanted and key in seen:
            message = f"{key} is in matchLabelKeys and in labelSelector"
            yield conflict((*at, "matchLabelKeys"), message, "keep one of the two")
        seen.add(key)


def _spread(path: ValuePath, constraints: Any, _: Spot) -> Iterator[Problem]:
    """The rules of validateTopologySpreadConstraints, for duplicates."""
    seen: set[tuple[str, str]] = set()
    for index, item in items({"all": constraints}, "all"):
        key, action = text(item, "topologyKey"), text(item, "whenUnsatisfiable")
        if (key, action) in seen:
            message = f"two constraints have the key {key} and {action}"
            yield conflict((*path, index), message, "remove one of the two")
        seen.add((key, action))


DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _annotations(at: ValuePath, pairs: Object, spot: Spot) -> Iterator[Problem]:
    """The rules of ValidatePodSpecificAnnotations."""
    spec = mapping(spot.around("PodTemplateSpec"), "spec")
    for key, value in pairs.items():
        path, shown = (*at, key), str(value)
        if key == DELETION_COST and not _is_cost(shown):
            yield invalid(path, shown, "deletion cost", "write an integer in quotes")
        elif key == MIRROR and not text(spec, "nodeName"):
            yield invalid(path, shown, "annotation of a pod template", "remove it")
        elif key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            yield from _seccomp(path, shown)
        elif key.startswith(APPARMOR):
            yield from _apparmor(path, key.removeprefix(APPARMOR), shown, spec)


def _is_cost(value: str) -> bool:
    """Return whether a text is a 32-bit integer: GetDeletionCostFromPodAnnotations."""
    digits = value.removeprefix("-")
    if natural(digits) is None or digits[0] == "0" < digits[1:]:
        return False
    return -(2**31) <= int(value) < 2**31 and value != "-0"


def _seccomp(path: ValuePath, value: str) -> Iterator[Problem]:
    """The rules of ValidateSeccompProfile."""
    if value.startswith("localhost/"):
        yield from relative(path, value.removeprefix("localhost/"))
    elif value not in ("runtime/default", "docker/default", "unconfined"):
        yield invalid(path, value, "seccomp profile", "use seccompProfile in a securityContext")


def _apparmor(path: ValuePath, name: str, value: str, spec: Object) -> Iterator[Problem]:
    """The rules of ValidateAppArmorPodAnnotations."""
    if name not in container_names(spec):
        message = f'the pod has no container "{name}"'
        yield Problem(path, message, "reference", "use appArmorProfile in a securityContext")
    if value not in ("", "runtime/default", "unconfined") and not value.startswith("localhost/"):
        yield invalid(path, value, "AppArmor profile", "use appArmorProfile in a securityContext")


def container_names(spec: Object) -> set[str]:
    """Return the names of all containers of a pod."""
    return {text(container, "name") for field in LISTS for _, container in items(spec, field)}


ROWS = (
    *VOLUMES,
    *CONTAINERS,
    Row("PodDNSConfig.searches", _searches, of=list),
    Row("PodSpec.hostnameOverride", _host_name, of=str, since=KubeVersion(1, 35)),
    Row(
        "AppArmorProfile.localhostProfile",
        _profile_name,
        of=str,
        when={"type": ["Localhost"]},
        empty=True,
    ),
    Row("PodSecurityContext.sysctls", _sysctls, of=list),
    Row("NodeSelectorTerm.matchFields[]", _match_field, of=dict),
    Row("NodeSelectorTerm.matchExpressions[]", _expression, of=dict),
    Row("PodAffinityTerm TopologySpreadConstraint", _label_keys),
    Row("PodSpec.topologySpreadConstraints", _spread, of=list),
    Row("PodTemplateSpec.metadata.annotations", _annotations, of=dict),
)
