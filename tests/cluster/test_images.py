"""The names of images that the container runtime and mlgen accept."""

import json

import pytest

from mlgen.kubernetes.validation.syntax import image

pytestmark = pytest.mark.cluster

IMAGES = {
    "localhost/a": True,
    "Registry/a:1": True,
    "[::1]:5000/a_b__c--d:1": True,
    "a:b@sha256:" + "0" * 64: True,
    "Example/Mnist:1": False,
    "https://example.com/mnist:1": False,
    "example/mnist:${TAG}": False,
    "{{ .Values.image }}": False,
    "a:b:c": False,
    "a..b": False,
    "f" * 64: False,
    "example.com:port/a": False,
}
"""Names, and whether a container runtime accepts them. None of the images exists."""


def test_the_container_runtime_and_mlgen_take_the_same_texts_for_images(namespace):
    names = [f"c{number}" for number in range(len(IMAGES))]
    containers = [
        {"name": name, "image": text, "imagePullPolicy": "IfNotPresent"}
        for name, text in zip(names, IMAGES, strict=True)
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "images"}}
    pod["spec"] = {"terminationGracePeriodSeconds": 0, "containers": containers}
    namespace.kubectl("apply", "-f", "-", stdin=json.dumps(pod))

    def reasons():
        statuses = namespace.get("pod", "images")["status"].get("containerStatuses", [])
        found = {s["name"]: s["state"].get("waiting", {}).get("reason") for s in statuses}
        waiting = {None, "ContainerCreating", "PodInitializing"}
        return None if not found or waiting & set(found.values()) else found

    found = namespace.until("images have been pulled", reasons, 180)

    taken = [found[name] != "InvalidImageName" for name in names]
    assert taken == list(IMAGES.values())
    assert taken == [not list(image((), text)) for text in IMAGES]
