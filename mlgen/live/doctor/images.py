"""The registries from which a job's images come."""

from collections.abc import Iterator

from mlgen.live.doctor.findings import Finding, Patient, pod_templates

DOCKER_HUB = "docker.io"


def registry(image: str) -> str:
    """Return the host of an image's registry.

    Without a dot, a colon or `localhost` before the first slash, it is Docker Hub
    (https://pkg.go.dev/github.com/distribution/reference#ParseNormalizedNamed).
    """
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host else DOCKER_HUB


def registries(patient: Patient) -> Iterator[Finding]:
    """Yield each registry with its images, and the Secrets with which they are pulled."""
    images: dict[str, dict[str, None]] = {}
    secrets: dict[str, dict[str, None]] = {}
    for _, template in pod_templates(patient.rendered):
        spec = template["spec"]
        names = [each["name"] for each in spec.get("imagePullSecrets") or ()]
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
            host = registry(container["image"])
            images.setdefault(host, {})[container["image"]] = None
            secrets.setdefault(host, {}).update(dict.fromkeys(names))
    for host, used in images.items():
        with_secrets = f"with {', '.join(secrets[host])}" if secrets[host] else "without a Secret"
        text = f"{', '.join(used)}; pulled {with_secrets}, which only a node can try"
        yield Finding("note", f"registry {host}", text)
