"""Host networking, service mesh and RDMA as a pod template patch."""

import pytest
from objects.samples import role, topology

from mlgen.jobfile.model import Network, Rdma, RoleSpec
from mlgen.objects.network import patch

LOCKED = {"capabilities": {"add": ["IPC_LOCK"]}}
PLUGIN = Rdma("shared", resource="rdma/hca")


def rdma_patch(rdma, *others, of=None, host=False):
    of = of or role()
    return patch(topology(of, *others, network=Network(host=host, rdma=rdma)), of)


def test_by_default_no_mesh_injects_a_proxy():
    assert patch(topology(role()), role()) == {
        "metadata": {
            "labels": {"sidecar.istio.io/inject": "false"},
            "annotations": {"linkerd.io/inject": "disabled"},
        },
        "spec": {},
    }


def test_a_native_mesh_injects_proxies_that_end_with_the_pod():
    metadata = patch(topology(role(), network=Network(mesh="native")), role())["metadata"]

    assert metadata == {
        "labels": {"sidecar.istio.io/inject": "true"},
        "annotations": {
            "sidecar.istio.io/nativeSidecar": "true",
            "linkerd.io/inject": "enabled",
            "config.alpha.linkerd.io/proxy-enable-native-sidecar": "true",
            "config.beta.linkerd.io/proxy-enable-native-sidecar": "true",
            "config.linkerd.io/proxy-enable-native-sidecar": "true",
        },
    }


def test_a_pod_on_the_host_network_still_resolves_names_of_the_cluster():
    assert patch(topology(role(), network=Network(host=True)), role())["spec"] == {
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
    }


@pytest.mark.parametrize(("replicas", "expected"), [(1000, None), (1001, False)])
def test_the_variables_of_thousands_of_services_do_not_keep_pods_from_starting(replicas, expected):
    roles = {"worker": RoleSpec("worker", replicas=replicas)}

    spec = patch(topology(role(), network=Network(host=True), roles=roles), role())["spec"]

    assert spec.get("enableServiceLinks") is expected


def test_rdma_of_the_host_mounts_its_devices_in_a_privileged_container():
    spec = rdma_patch(Rdma("host"), of=role(spec={"main_container": "train"}), host=None)["spec"]

    assert spec == {
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "volumes": [{"name": "infiniband", "hostPath": {"path": "/dev/infiniband"}}],
        "containers": [
            {
                "name": "train",
                "securityContext": LOCKED | {"privileged": True},
                "volumeMounts": [{"name": "infiniband", "mountPath": "/dev/infiniband"}],
                "env": [{"name": "NCCL_IB_DISABLE", "value": "0"}],
            }
        ],
    }


@pytest.mark.parametrize("mode", ["host", "sriov", "shared"])
def test_a_device_plugin_needs_neither_privileges_nor_a_volume(mode):
    devices = {"rdma/hca": "1"}

    assert rdma_patch(Rdma(mode, resource="rdma/hca"))["spec"] == {
        "containers": [
            {
                "name": "main",
                "securityContext": LOCKED,
                "resources": {"limits": devices},
                "env": [{"name": "NCCL_IB_DISABLE", "value": "0"}],
            }
        ]
    }


@pytest.mark.parametrize("networks", [("roce-a",), ("roce-a", "ml/roce-b", "roce-c")])
def test_each_attached_network_has_a_device(networks):
    result = rdma_patch(Rdma("sriov", "nvidia.com/rdma", networks))

    annotations = result["metadata"]["annotations"]
    assert annotations["k8s.v1.cni.cncf.io/networks"] == ",".join(networks)
    assert result["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/rdma": str(len(networks))
    }


def test_without_networks_there_is_no_attachment():
    assert "k8s.v1.cni.cncf.io/networks" not in rdma_patch(PLUGIN)["metadata"]["annotations"]


def test_attachments_of_one_role_do_not_leak_into_the_next():
    rdma_patch(Rdma("sriov", "nvidia.com/rdma", ("roce",)))

    assert "k8s.v1.cni.cncf.io/networks" not in rdma_patch(PLUGIN)["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("rdma", "env", "expected"),
    [
        (
            Rdma("shared", "rdma/hca", interface="eth1", hca="mlx5_0"),
            {},
            {
                "NCCL_IB_DISABLE": "0",
                "NCCL_IB_HCA": "mlx5_0",
                "NCCL_SOCKET_IFNAME": "eth1",
            },
        ),
        (
            Rdma("shared", "rdma/hca", hca="mlx5_0"),
            {"NCCL_IB_HCA": "mlx5_1"},
            {"NCCL_IB_DISABLE": "0"},
        ),
        (
            Rdma("shared", "rdma/hca", interface="eth1"),
            {"NCCL_IB_DISABLE": "1"},
            {"NCCL_SOCKET_IFNAME": "eth1"},
        ),
    ],
)
def test_nccl_variables_yield_to_those_of_the_user(rdma, env, expected):
    container = rdma_patch(rdma, of=role(spec={"env": env}))["spec"]["containers"][0]

    assert expected == {item["name"]: item["value"] for item in container["env"]}


@pytest.mark.parametrize(
    ("gpus", "other_gpus", "has_rdma"),
    [(True, False, True), (True, True, True), (False, True, False), (False, False, True)],
)
def test_if_any_role_has_gpus_only_those_with_gpus_get_rdma(gpus, other_gpus, has_rdma):
    of = role(spec={"gpus": gpus})

    spec = rdma_patch(PLUGIN, role("ps", {"gpus": other_gpus}), of=of)["spec"]

    assert has_rdma == ("containers" in spec)
