"""KubeRay's controller creates the pods that mlgen renders: their number, commands and variables.

There is no kubelet, so the pods stay pending, and the controller creates no submitter.
"""

import json
import re
from itertools import groupby

import pytest
import support
import yaml
from parts.plane import plane
from parts.programs import kubernetes, module, part
from parts.skips import available
from support import RESOURCES, free_ports

pytestmark = pytest.mark.long

MODULE = "github.com/ray-project/kuberay/ray-operator@v1.5.1"
FIXTURES = {
    path.stem.removeprefix("kuberay-"): path
    for path in RESOURCES
    if path.stem.startswith("kuberay-") and "suspend: true" not in path.read_text()
}
GROUP, CLUSTER = "ray.io/group", "ray.io/cluster"

OWN = {
    "RAY_CLOUD_INSTANCE_ID",
    "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE",
    "RAY_USAGE_STATS_EXTRA_TAGS",
    "RAY_USAGE_STATS_KUBERAY_IN_USE",
}
"""Variables for KubeRay's autoscaler, its usage statistics and the disk of a node."""


@pytest.fixture(scope="module")
def created():
    """Pods by name of the fixture, from KubeRay's controller."""
    available(kubernetes, "1.34")
    program, folder = available(part, "kuberay"), available(module, MODULE)
    with plane("1.34") as control:
        control.define(str(folder / "config/crd/bases"))
        ports = [f"127.0.0.1:{port}" for port in free_ports(2)]
        flags = (f"--metrics-addr={ports[0]}", f"--health-probe-bind-address={ports[1]}")
        control.run("kuberay", [program, "--enable-leader-election=false", *flags])
        for number, path in enumerate(FIXTURES.values()):
            item = yaml.safe_load(path.read_text())
            item["metadata"] |= {"name": f"job{number}", "namespace": "default"}
            control.kubectl("apply", "-f", "-", stdin=json.dumps(item))
        expected = sum(count for path in FIXTURES.values() for count, _ in rendered(path).values())
        control.until(lambda: len(pods(control)) == expected, seconds=120)
        yield {name: pods(control, f"job{n}") for n, name in enumerate(FIXTURES)}


def pods(control, name=""):
    """The pods of a cluster, whose name has a suffix if it belongs to a RayJob."""
    items = json.loads(control.kubectl("get", "pods", "-o", "json"))["items"]
    return [item for item in items if item["metadata"]["labels"][CLUSTER].startswith(name)]


def rendered(path):
    """The number of pods and the template of each group, as mlgen renders them."""
    objects = [item for item in yaml.safe_load_all(support.rendered(path)) if item]
    templates = {}
    for item in objects:
        template = item["spec"].get("template", {}) if "spec" in item else {}
        labels = template.get("metadata", {}).get("labels", {})
        if GROUP in labels:
            count = item["spec"].get("replicas", item["spec"].get("completions", 1))
            templates[labels[GROUP]] = (count, template["spec"])
    return templates


def options(container):
    """The options of `ray start`, without the host of the head."""
    generated = next(
        (each["value"] for each in container["env"] if each["name"].startswith("KUBERAY_GEN")), ""
    )
    text = " ".join([*container.get("command", []), *container.get("args", []), generated])
    found = re.findall(r"--[\w-]+(?:='[^']*'|=\S+)?", text.partition("ray start")[2])
    return {re.sub(r"--address=.*:", "--address=HEAD:", option) for option in found}


@pytest.mark.parametrize("name", FIXTURES)
def test_the_pods_of_each_group_are_those_of_the_controller(name, created):
    def group(item):
        return item["metadata"]["labels"][GROUP]

    theirs = {key: list(items) for key, items in groupby(sorted(created[name], key=group), group)}
    ours = rendered(FIXTURES[name])

    assert {key: count for key, (count, _) in ours.items()} == {
        key: len(items) for key, items in theirs.items()
    }
    for key, (_, spec) in ours.items():
        container, other = spec["containers"][0], theirs[key][0]["spec"]["containers"][0]
        assert options(container) == options(other)
        assert {each["name"] for each in other["env"]} - OWN <= {
            each["name"] for each in container["env"]
        } | {"KUBERAY_GEN_RAY_START_CMD"}
