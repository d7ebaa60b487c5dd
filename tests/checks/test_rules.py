"""Rules that hold for the manifests of every fixture, whatever its golden says."""

import re

import kubernetes_validate
import pytest
import yaml
from support import RESOURCES

from mlgen.kubernetes.pod_security import violations

INDEX = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")
OURS = ("mlgen.dev/job", "mlgen.dev/role", "mlgen.dev/replica-index")
OTHERS = ("PodGroup",)
"""Kinds of other projects, whose schemas are tested where these are."""


RENDERED = {}
"""The objects of each fixture, which no test changes."""


@pytest.fixture
def objects(any_file, render):
    if any_file not in RENDERED:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        RENDERED[any_file] = list(yaml.load_all(render(any_file), loader))
    return RENDERED[any_file]


def workloads(objects):
    """Each Job and StatefulSet, but for the supervisor, which is no part of the training."""
    for item in objects:
        if item["kind"] in ("Job", "StatefulSet") and not is_supervisor(item):
            yield item


def is_supervisor(item):
    return item["metadata"]["labels"].get("mlgen.dev/role") == "supervisor"


def templates(objects):
    return {
        (item["kind"], item["metadata"]["name"]): item["spec"]["template"]
        for item in workloads(objects)
    }


def helped(objects):
    """The pods of the training, and the supervisor's, which is a helper as a whole."""
    return [item["spec"]["template"] for item in objects if item["kind"] in ("Job", "StatefulSet")]


def containers(template):
    return template["spec"].get("initContainers", []) + template["spec"]["containers"]


def helpers(template):
    return [c for c in containers(template) if "/mlgen/scripts/" in " ".join(c.get("command", []))]


def hosts(objects):
    """The host name of every pod that the Job and StatefulSet controllers would make."""
    for item in workloads(objects):
        spec, name = item["spec"], item["metadata"]["name"]
        own = spec["template"]["spec"].get("hostname")
        count = spec.get("completions", spec.get("replicas"))
        yield from [own] if own else [f"{name}-{i}" for i in range(count)]


@pytest.mark.parametrize("version", ["1.31", "1.34"])
def test_kubernetes_accepts_every_field(any_file, objects, version):
    if version == "1.31" and any_file in RESOURCES:
        pytest.skip("a custom resource is rendered by way of a job file, and those are tested")
    for item in objects:
        if item["kind"] not in OTHERS:
            kubernetes_validate.validate(item, version, strict=True)


def test_objects_are_named_once(objects):
    names = [(o["kind"], o["metadata"]["name"]) for o in objects]

    assert len(set(names)) == len(names)


def test_every_object_carries_the_labels_that_find_it(objects):
    for item in objects:
        labels = item["metadata"]["labels"]
        wanted = {"name", "instance", "component", "part-of", "managed-by"}
        found = {k.rpartition("/")[2] for k in labels if k.startswith("app.kubernetes.io/")}

        assert found == wanted
        status = f"{labels['app.kubernetes.io/instance']}-status" == item["metadata"]["name"]
        assert labels.get("mlgen.dev/job") == (
            None if status else labels["app.kubernetes.io/instance"]
        )


def test_what_pods_need_comes_before_the_pods(objects):
    order = ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Service", "PodGroup"]
    order += ["Deployment", "StatefulSet", "Job"]
    kinds = [order.index(item["kind"]) for item in objects]

    assert kinds == sorted(kinds)


def test_exactly_one_job_decides(objects):
    deciding = [o for o in objects if o["metadata"]["labels"].get("mlgen.dev/decides") == "true"]

    assert [o["kind"] for o in deciding] == ["Job"]


def test_one_headless_service_leads_to_every_pod(objects):
    (service,) = [o for o in objects if o["kind"] == "Service" and len(o["spec"]["selector"]) == 1]

    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for template in templates(objects).values():
        assert template["spec"]["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()


def test_selectors_use_our_labels_and_the_index_alone(objects):
    for item in objects:
        selector = item.get("spec", {}).get("selector")
        if selector:
            wanted = selector.get("matchLabels", selector)
            if wanted.get("mlgen.dev/role") == "tensorboard":  # which is no pod of the job
                assert set(wanted) == {"mlgen.dev/tensorboard", "mlgen.dev/role"}
            else:
                assert set(wanted) <= {*OURS, *INDEX}


def test_the_index_is_defined_before_it_is_used(objects):
    for template in templates(objects).values():
        for container in containers(template):
            names = [variable["name"] for variable in container.get("env", [])]
            for position, variable in enumerate(container.get("env", [])):
                for used in re.findall(r"\$\((MLGEN_\w+)\)", variable.get("value") or ""):
                    assert used in names[:position]


def test_every_peer_in_a_variable_or_hostfile_is_a_pod(objects):
    job = objects[0]["metadata"]["labels"]["mlgen.dev/job"]
    known = set(hosts(objects))
    suspended = any(o["spec"].get("replicas") == 0 for o in objects if o["kind"] == "StatefulSet")
    text = yaml.safe_dump(
        [c.get("env", []) for t in templates(objects).values() for c in containers(t)]
    )
    configs = [o.get("data", {}) for o in objects if o["kind"] == "ConfigMap"]
    text += "".join(data.get("hostfile", "") for data in configs)

    named = set(re.findall(rf"\b({job}-[a-z0-9-]*\d)\.{job}\b", text))

    assert suspended or named <= known


def test_helper_containers_are_restricted_and_bounded(objects):
    for template in helped(objects):
        for container in helpers(template):
            security = container["securityContext"]

            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["seccompProfile"] == {"type": "RuntimeDefault"}
            assert set(container["resources"]) == {"requests", "limits"}


def test_no_private_key_and_no_cluster_domain_is_written_down(any_file, render):
    text = render(any_file)

    assert "PRIVATE KEY" not in text
    assert "cluster.local" not in text or "clusterDomain" in any_file.read_text()


def test_an_exit_code_is_judged_by_the_job_alone(objects):
    """Kubernetes judges exit codes only of pods that it does not restart itself."""
    for item in objects:
        if "podFailurePolicy" in item["spec"] if item["kind"] == "Job" else False:
            rules = item["spec"]["podFailurePolicy"]["rules"]

            assert item["spec"]["template"]["spec"]["restartPolicy"] == "Never"
            assert rules[0]["action"] == "Ignore"
            assert all(0 not in rule["onExitCodes"]["values"] for rule in rules[1:])


def test_other_versions_render_the_same(any_file, render):
    """So far no field depends on the version; only what may be a name does."""
    assert render(any_file, kube_version=(1, 31)) == render(any_file, kube_version=(1, 36))


def pods(objects):
    """Each template, and how many pods are made of it."""
    for item in workloads(objects):
        spec = item["spec"]
        yield spec["template"], spec.get("completions", spec.get("replicas"))


def main_container(template):
    return next(c for c in template["spec"]["containers"] if c not in helpers(template))


def test_helper_containers_alone_meet_the_strictest_level(objects):
    """But for one that runs as the training image's user, whom only its author knows."""
    for template in helped(objects):
        own = [c for c in helpers(template) if c["name"] != "ssh-setup"]

        assert [] == violations({"spec": {"containers": own}})


def test_a_training_container_has_shared_memory(objects):
    for template, _ in pods(objects):
        mounts = [mount["mountPath"] for mount in main_container(template)["volumeMounts"]]

        assert 1 == mounts.count("/dev/shm")


def test_tensorboard_is_no_pod_of_the_job(objects):
    """Else the job's pods would have to be where it is, and it would count as a peer."""
    for item in objects:
        if item["kind"] == "Deployment":
            assert "mlgen.dev/job" not in item["spec"]["template"]["metadata"]["labels"]


def test_sidecars_of_a_mesh_are_off_or_native(objects, any_file):
    native = "mesh: native" in any_file.read_text()
    for template, _ in pods(objects):
        labels, annotations = (template["metadata"][k] for k in ("labels", "annotations"))

        assert labels["sidecar.istio.io/inject"] == ("true" if native else "false")
        assert annotations["linkerd.io/inject"] == ("enabled" if native else "disabled")
        assert annotations.get("sidecar.istio.io/nativeSidecar") == ("true" if native else None)


def test_on_the_nodes_network_no_two_ports_are_alike(objects):
    found = []
    for template, count in pods(objects):
        spec = template["spec"]
        ports = [p for c in spec["containers"] for p in c.get("ports", [])]
        if spec.get("hostNetwork"):
            assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"
            assert not ports or count == 1
            assert all(port["hostPort"] == port["containerPort"] for port in ports)
            found += [port["hostPort"] for port in ports]
        else:
            assert all("hostPort" not in port for port in ports)

    assert len(set(found)) == len(found)


def test_a_replica_sees_its_own_port_and_its_peers_constant_one(objects):
    """On the nodes' network: every address leads to a Service that has the port."""
    services = {
        o["metadata"]["name"]: {port["port"]: port["targetPort"] for port in o["spec"]["ports"]}
        for o in objects
        if o["kind"] == "Service" and "mlgen.dev/replica-index" in o["spec"]["selector"]
    }
    for item in workloads(objects) if services else ():
        own = item["metadata"]["name"]
        main = main_container(item["spec"]["template"])
        text = " ".join(variable.get("value", "") for variable in main["env"])
        for name, port in re.findall(r"\b([a-z-]+-\d+)(?:[.a-z]*):(\d+)", text):
            target = services[name][int(port)]

            assert (int(port) == target) == (name == own)


def test_a_gang_has_all_pods_in_it_and_no_more(objects):
    groups = [o for o in objects if o["kind"] == "PodGroup"]
    everyone = sum(count for _, count in pods(objects))
    for group in groups:
        assert group["spec"]["minMember"] <= everyone
    for template, _ in pods(objects):
        metadata = template["metadata"]
        labels, annotations = metadata["labels"], metadata["annotations"]
        named = [
            labels.get("scheduling.x-k8s.io/pod-group"),
            annotations.get("scheduling.k8s.io/group-name"),
        ]
        assert [g["metadata"]["name"] for g in groups] == [name for name in named if name]
        if "kueue.x-k8s.io/pod-group-name" in labels:
            assert annotations["kueue.x-k8s.io/pod-group-total-count"] == str(everyone)
            assert labels["kueue.x-k8s.io/queue-name"]


def test_what_kueue_holds_by_itself_is_one_suspended_job(objects):
    queued = [o for o in objects if "kueue.x-k8s.io/queue-name" in o["metadata"]["labels"]]
    for item in queued:
        assert item["spec"]["suspend"] is True
        assert [item] == list(workloads(objects))


def test_a_supervisor_is_where_something_outlives_the_training(objects):
    found = [item["metadata"]["name"] for item in objects if is_supervisor(item)]
    job = objects[0]["metadata"]["labels"]["app.kubernetes.io/instance"]

    assert found in ([], [f"{job}-supervisor"])
    assert not found or len(list(workloads(objects))) > 1


def test_without_a_supervisor_the_rest_is_the_same(objects, any_file, render):
    """But for the scripts in the ConfigMap, and how long Jobs stay."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    bare = list(yaml.load_all(render(any_file, supervisor=False), loader))

    assert not [item for item in bare if "supervisor" in yaml.safe_dump(item)]
    assert list(map(spec_of_pods, workloads(bare))) == list(map(spec_of_pods, workloads(objects)))


def spec_of_pods(item):
    return item["metadata"], item["spec"]["template"]


def test_a_supervisor_may_touch_what_it_cares_for_and_nothing_else(objects):
    for item in filter(is_supervisor, objects):
        job = item["metadata"]["labels"]["mlgen.dev/job"]
        (container,) = item["spec"]["template"]["spec"]["containers"]
        env = {variable["name"]: variable["value"] for variable in container["env"]}
        everything = env["MLGEN_CLEAN_POD_POLICY"] == "All"
        named = [*env["MLGEN_WORKLOADS"].split(), f"job/{env['MLGEN_DECIDES']}"]
        (role,) = [o for o in objects if o["kind"] == "Role" and "supervisor" in str(o["metadata"])]
        allowed = {
            (f"{resource.removesuffix('s')}/{name}", verb)
            for rule in role["rules"]
            for resource in rule["resources"]
            for name in rule["resourceNames"]
            for verb in rule["verbs"]
        }
        wanted = {
            (n, verb) for n in [*named, f"configmap/{job}-status"] for verb in ("get", "patch")
        }
        if everything:
            wanted |= {(n, "delete") for n in [*named, *env["MLGEN_OBJECTS"].split()]}

        assert sorted(named) == sorted(
            f"{o['kind'].lower()}/{o['metadata']['name']}" for o in workloads(objects)
        )
        assert allowed == wanted


def test_the_supervisor_is_no_pod_of_the_job(objects):
    """Else the job's pods would have to be where it is, and it would count as a peer."""
    for item in filter(is_supervisor, objects):
        pod = item["spec"]["template"]

        assert "mlgen.dev/job" not in pod["metadata"]["labels"]
        assert "subdomain" not in pod["spec"]
        assert pod["metadata"]["annotations"]["linkerd.io/inject"] == "disabled"


def test_no_cleaning_by_label_meets_the_status(objects):
    for item in objects:
        labels = item["metadata"]["labels"]
        if labels["app.kubernetes.io/component"] == "status":
            assert "mlgen.dev/job" not in labels
            assert "data" not in item
