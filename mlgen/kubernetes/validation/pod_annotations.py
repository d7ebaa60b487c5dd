"""Rules for annotations of pods that Kubernetes reads.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (ValidatePodSpecificAnnotations).
"""

from collections.abc import Iterator

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import natural
from mlgen.kubernetes.validation._read import items, text
from mlgen.kubernetes.validation.syntax import invalid, relative
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def pod_annotations(at: ValuePath, pairs: Object, spec: Object) -> Iterator[Violation]:
    """Return the violations of a pod's annotations, given its spec."""
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


def _seccomp(path: ValuePath, value: str) -> Iterator[Violation]:
    """The rules of ValidateSeccompProfile."""
    if value.startswith("localhost/"):
        yield from relative(path, value.removeprefix("localhost/"))
    elif value not in ("runtime/default", "docker/default", "unconfined"):
        yield invalid(path, value, "seccomp profile", "use seccompProfile in a securityContext")


def _apparmor(path: ValuePath, name: str, value: str, spec: Object) -> Iterator[Violation]:
    """The rules of ValidateAppArmorPodAnnotations."""
    fields = ("initContainers", "containers")
    if name not in [text(container, "name") for f in fields for _, container in items(spec, f)]:
        message = f'the pod has no container "{name}"'
        yield Violation(path, message, "use appArmorProfile in a securityContext", "reference")
    if value not in ("", "runtime/default", "unconfined") and not value.startswith("localhost/"):
        yield invalid(path, value, "AppArmor profile", "use appArmorProfile in a securityContext")
