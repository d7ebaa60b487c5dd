"""Rules for the manifests of every fixture, independent of its golden."""

import json
import re

import pytest
import yaml
from support import FILES, each_file, load_all, rendered

from mlgen import Options, pipeline
from mlgen.checks.verify import rejected_fields
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.kubernetes.pod_security import violations
from mlgen.output.yaml import yaml_text
from mlgen.problems import MlgenError

INDEX = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")
SELECTOR_LABELS = ("mlgen.dev/job", "mlgen.dev/role", "mlgen.dev/replica-index")
SUPERVISOR = "mlgen.dev/role: supervisor"

OWN_ROLES = ("supervisor", "kueue")


def plan_of(objects):
    """The supervisor's plan."""
    (data,) = [o["data"] for o in objects if "plan.json" in o.get("data", {})]
    return json.loads(data["plan.json"])


def ordered(objects):
    """The workloads that the supervisor starts. They are rendered suspended."""
    if not any(map(is_supervisor, objects)):
        return set()
    plan = plan_of(objects)
    roles = {order["role"] for order in plan.get("order", ())}
    return {item["name"] for item in plan["workloads"] if item["role"] in roles}


def workloads(objects):
    """Each Job and StatefulSet of the training.

    The supervisor does not take part in it, and neither does the Job that ends a group in Kueue.
    """
    for item in objects:
        is_workload = item["kind"] in ("Job", "StatefulSet")
        if is_workload and item["metadata"]["labels"].get("mlgen.dev/role") not in OWN_ROLES:
            yield item


def is_supervisor(item):
    return item["metadata"]["labels"].get("mlgen.dev/role") == "supervisor"


def templates(objects):
    return {
        (item["kind"], item["metadata"]["name"]): item["spec"]["template"]
        for item in workloads(objects)
    }


def all_templates(objects):
    """The pod templates of the training and of the supervisor, which is a helper itself."""
    return [item["spec"]["template"] for item in objects if item["kind"] in ("Job", "StatefulSet")]


def containers(template):
    return template["spec"].get("initContainers", []) + template["spec"]["containers"]


def helpers(template):
    return [c for c in containers(template) if "/mlgen/scripts/" in " ".join(c.get("command", []))]


def hosts(objects):
    """The host name of every pod that the Job and StatefulSet controllers create."""
    for item in workloads(objects):
        spec, name = item["spec"], item["metadata"]["name"]
        hostname = spec["template"]["spec"].get("hostname")
        count = spec.get("completions", spec.get("replicas", 1))
        yield from [hostname] if hostname else [f"{name}-{i}" for i in range(count)]


@each_file()
def test_pods_have_a_token_only_with_rights_or_on_demand(file, objects):
    accounts = {item["metadata"]["name"] for item in objects if item["kind"] == "ServiceAccount"}
    for item in objects:
        spec = item.get("spec", {}).get("template", {}).get("spec")
        if spec and spec.get("serviceAccountName") not in accounts:
            asked = "serviceAccount" in file.read_text() or "automount" in file.read_text()
            assert asked or spec["automountServiceAccountToken"] is False


@each_file()
def test_every_field_is_one_of_kubernetes(objects):
    """For the values, see tests/parts/kubernetes/test_admission.py."""
    for version in ((1, 31), (1, 34), (1, 37)):
        assert [] == list(rejected_fields(objects, version))


@each_file()
def test_no_two_objects_have_the_same_name(objects):
    names = [(o["kind"], o["metadata"]["name"]) for o in objects]

    assert len(set(names)) == len(names)


OWN_NAMES = {
    "ConfigMap": r"{job}\.(config|status|supervisor|files\.[^.]+)",
    "ServiceAccount": "{job}-(supervisor|launcher)|elasticdl-{job}-master",
    "Role": "{job}-(supervisor|launcher)|elasticdl-{job}-master",
    "RoleBinding": "{job}-(supervisor|launcher)|elasticdl-{job}-master",
}
"""The names of objects that no other job makes. The controllers of workloads reject changes of
their pods, and supervisors check whose they are."""


@each_file()
def test_no_other_job_makes_an_object_of_this_name(objects):
    """A ConfigMap's name contains the job up to the first dot. Others end with different words."""
    for item in objects:
        name, labels = item["metadata"]["name"], item["metadata"]["labels"]
        job = labels["app.kubernetes.io/instance"]
        if pattern := OWN_NAMES.get(item["kind"]):
            assert "." not in job
            assert re.fullmatch(pattern.format(job=job), name)


@each_file()
def test_the_name_of_a_job_contains_no_dot(file):
    documents = [document.data for document in read_documents(Text(file.name, file.read_text()))]
    for name in ("a.files", "a.supervisor"):
        for document in documents:
            if not document["kind"].endswith("Runtime"):
                document["metadata"]["name"] = name

        with pytest.raises(MlgenError, match=r"metadata\.name(:.* is not a valid|, a\.)"):
            pipeline.render([Text("job.yaml", yaml_text(documents))], Options())


@each_file()
def test_every_object_has_the_recommended_labels_and_that_of_its_job(objects):
    for item in objects:
        labels = item["metadata"]["labels"]
        recommended = {k.rpartition("/")[2] for k in labels if k.startswith("app.kubernetes.io/")}

        assert recommended - {"part-of"} == {"name", "instance", "component", "managed-by"}
        status = f"{labels['app.kubernetes.io/instance']}.status" == item["metadata"]["name"]
        is_kept = status or item["kind"] == "PersistentVolumeClaim"
        assert labels.get("mlgen.dev/job") == (
            None if is_kept else labels["app.kubernetes.io/instance"]
        )


@each_file()
def test_what_pods_need_comes_before_the_pods_and_files_come_last(objects):
    order = ["ServiceAccount", "Role", "RoleBinding", "Service", "NetworkPolicy"]
    order += ["PersistentVolumeClaim", "PodGroup", "Deployment", "StatefulSet", "Job"]
    parts = [item["metadata"]["labels"]["app.kubernetes.io/component"] for item in objects]
    places = [
        (2, 0) if item["kind"] == "ConfigMap" else (part in OWN_ROLES, order.index(item["kind"]))
        for part, item in zip(parts, objects, strict=True)
    ]

    assert places == sorted(places)


@each_file()
def test_there_is_exactly_one_deciding_job(objects):
    deciding = [o for o in objects if o["metadata"]["labels"].get("mlgen.dev/decides") == "true"]

    assert [o["kind"] for o in deciding] == ["Job"]


@each_file()
def test_one_headless_service_selects_every_pod(objects):
    (service,) = [o for o in objects if o["kind"] == "Service" and len(o["spec"]["selector"]) == 1]

    # The launcher of an elastic job finds started workers through DNS.
    discovers = any("discover_hosts.sh" in item.get("data", {}) for item in objects)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"].get("publishNotReadyAddresses", False) is not discovers
    for template in templates(objects).values():
        assert template["spec"]["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()


@each_file()
def test_selectors_use_only_labels_of_mlgen_and_the_index(objects):
    for item in objects:
        selector = item.get("spec", {}).get("selector")
        if selector:
            labels = selector.get("matchLabels", selector)
            other = {"tensorboard": "tensorboard", "supervisor": "supervises"}
            if own := other.get(labels.get("mlgen.dev/role")):  # not a replica of the job
                assert set(labels) == {f"mlgen.dev/{own}", "mlgen.dev/role"}
            else:
                assert set(labels) <= {*SELECTOR_LABELS, *INDEX}


@each_file(r"value: .*\$\(MLGEN_")
def test_the_index_is_defined_before_it_is_used(objects):
    for template in templates(objects).values():
        for container in containers(template):
            names = [variable["name"] for variable in container.get("env", [])]
            for position, variable in enumerate(container.get("env", [])):
                for used in re.findall(r"\$\((MLGEN_\w+)\)", variable.get("value") or ""):
                    assert used in names[:position]


@each_file(r"value: .*\b([a-z0-9-]+)-[a-z0-9-]*\d\.\1\b", without="^  replicas: 0")
def test_every_peer_in_a_variable_or_hostfile_is_a_pod(objects):
    job = objects[0]["metadata"]["labels"]["mlgen.dev/job"]
    text = yaml.safe_dump(
        [c.get("env", []) for t in templates(objects).values() for c in containers(t)]
    )
    configs = [o.get("data", {}) for o in objects if o["kind"] == "ConfigMap"]
    text += "".join(data.get("hostfile", "") for data in configs)

    peers = set(re.findall(rf"\b({job}-[a-z0-9-]*\d)\.{job}\b", text))

    assert peers
    assert peers <= set(hosts(objects))


@each_file(r"name: MASTER_ADDR\b", without="^  replicas: 0")
def test_rank_0_has_the_address_that_others_know(objects):
    """Either its host name alone, with a Service of this name, or its address in the job."""
    job = objects[0]["metadata"]["labels"]["mlgen.dev/job"]
    services = {o["metadata"]["name"] for o in objects if o["kind"] == "Service"}
    known = {*services, *(f"{host}.{job}" for host in hosts(objects))}
    env = [v for t in templates(objects).values() for c in containers(t) for v in c.get("env", [])]

    assert {v["value"] for v in env if v["name"] == "MASTER_ADDR"} <= known


@each_file("/mlgen/scripts/")
def test_helper_containers_are_restricted(objects):
    for template in all_templates(objects):
        for container in helpers(template):
            security = container["securityContext"]

            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["seccompProfile"] == {"type": "RuntimeDefault"}


@each_file("/mlgen/scripts/", without="kueue.x-k8s.io/queue-name")
def test_helper_containers_are_bounded(objects):
    """In Kueue's jobs, they request only the resources of the training container."""
    for template in all_templates(objects):
        for container in helpers(template):
            assert set(container["resources"]) == {"requests", "limits"}


@each_file()
def test_no_private_key_and_no_cluster_domain_is_rendered(file):
    text = rendered(file)

    assert "PRIVATE KEY" not in text
    assert "cluster.local" not in text or "clusterDomain" in file.read_text()


@each_file("podFailurePolicy:")
def test_exit_codes_are_handled_by_the_job_and_not_by_the_kubelet(objects):
    """Kubernetes requires restartPolicy Never for a podFailurePolicy."""
    for item in objects:
        if item["kind"] == "Job" and "podFailurePolicy" in item["spec"]:
            rules = item["spec"]["podFailurePolicy"]["rules"]

            assert item["spec"]["template"]["spec"]["restartPolicy"] == "Never"
            assert rules[0]["action"] == "Ignore"
            assert all(0 not in rule["onExitCodes"]["values"] for rule in rules[1:])


@each_file()
def test_the_oldest_and_the_newest_version_render_the_same_manifests(file, text):
    """The version only affects which values are valid, and whether a gang avoids nodes."""
    version = (1, 31) if FILES.index(file) % 2 else (1, 37)

    other = rendered(file, kube_version=version)
    assert text == re.sub(r',\n +"avoidNodes": "Preferred"(?=,?\n)', "", other)


def pods(objects):
    """Each pod template of the training, with the number of its pods."""
    for item in workloads(objects):
        spec = item["spec"]
        yield spec["template"], spec.get("completions", spec.get("replicas", 1))


def main_container(template):
    return next(c for c in template["spec"]["containers"] if c not in helpers(template))


@each_file("/mlgen/scripts/")
def test_helper_containers_meet_pod_security_restricted(objects):
    """Except ssh-setup, which runs as the user of the training image."""
    for template in all_templates(objects):
        restricted = [c for c in helpers(template) if c["name"] != "ssh-setup"]

        assert [] == violations({"spec": {"containers": restricted}})


@each_file()
def test_a_training_container_has_shared_memory(objects):
    for template, _ in pods(objects):
        mounts = [mount["mountPath"] for mount in main_container(template)["volumeMounts"]]

        assert 1 == mounts.count("/dev/shm")


@each_file("^kind: Deployment")
def test_tensorboard_does_not_have_the_label_of_the_job(objects):
    """With that label it would count as a peer, and affinity rules would apply to it."""
    for item in objects:
        if item["kind"] == "Deployment":
            assert "mlgen.dev/job" not in item["spec"]["template"]["metadata"]["labels"]


@each_file()
def test_mesh_sidecars_are_disabled_or_native(objects, file):
    native = "mesh: native" in file.read_text()
    for template, _ in pods(objects):
        labels, annotations = (template["metadata"][k] for k in ("labels", "annotations"))

        assert labels["sidecar.istio.io/inject"] == ("true" if native else "false")
        assert annotations["linkerd.io/inject"] == ("enabled" if native else "disabled")
        assert annotations.get("sidecar.istio.io/nativeSidecar") == ("true" if native else None)


@each_file()
def test_host_ports_are_unique(objects):
    host_ports = []
    for template, count in pods(objects):
        spec = template["spec"]
        ports = [p for c in spec["containers"] for p in c.get("ports", [])]
        if spec.get("hostNetwork"):
            assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"
            assert not ports or count == 1
            assert all(port["hostPort"] == port["containerPort"] for port in ports)
            host_ports += [port["hostPort"] for port in ports]
        else:
            assert all("hostPort" not in port for port in ports)

    assert len(set(host_ports)) == len(host_ports)


@each_file("hostPort:", r"value: .*-\d+[.a-z]*:\d", without=r"name: MASTER_ADDR\b")
def test_a_replica_on_the_host_network_sees_its_own_host_port_and_the_common_port_of_its_peers(
    objects,
):
    """Every address belongs to a Service with this port."""
    services = {
        o["metadata"]["name"]: {port["port"]: port["targetPort"] for port in o["spec"]["ports"]}
        for o in objects
        if o["kind"] == "Service" and "mlgen.dev/replica-index" in o["spec"]["selector"]
    }
    for item in workloads(objects):
        replica = item["metadata"]["name"]
        main = main_container(item["spec"]["template"])
        text = " ".join(variable.get("value", "") for variable in main["env"])
        for name, port in re.findall(r"\b([a-z-]+-\d+)(?:[.a-z]*):(\d+)", text):
            target = services[name][int(port)]

            assert (int(port) == target) == (name == replica)


@each_file()
def test_every_pod_belongs_to_the_gang(objects):
    groups = [o for o in objects if o["kind"] == "PodGroup"]
    total = sum(count for _, count in pods(objects))
    for group in groups:
        assert group["spec"]["minMember"] <= total
    later = ordered(objects)  # their pods do not exist when the gang starts
    for (_, name), template in templates(objects).items():
        metadata = template["metadata"]
        if name in later:
            continue
        labels, annotations = metadata["labels"], metadata["annotations"]
        group_names = [
            labels.get("scheduling.x-k8s.io/pod-group"),
            annotations.get("scheduling.k8s.io/group-name"),
            annotations.get("pod-group-name"),
        ]
        assert [g["metadata"]["name"] for g in groups] == [name for name in group_names if name]
        if "kueue.x-k8s.io/pod-group-name" in labels:
            assert annotations["kueue.x-k8s.io/pod-group-total-count"] == str(total)
            assert labels["kueue.x-k8s.io/queue-name"]


@each_file("^    kueue.x-k8s.io/queue-name:")
def test_a_job_that_kueue_admits_itself_is_the_only_workload_and_suspended_by_kueue(objects):
    queued = [o for o in objects if "kueue.x-k8s.io/queue-name" in o["metadata"]["labels"]]
    for item in queued:
        assert "suspend" not in item["spec"]
        assert [item] == list(workloads(objects))


@each_file(SUPERVISOR)
def test_there_is_one_supervisor_which_knows_every_workload(objects):
    (supervisor,) = [item["metadata"]["name"] for item in objects if is_supervisor(item)]
    job = objects[0]["metadata"]["labels"]["app.kubernetes.io/instance"]

    assert supervisor == f"{job}-supervisor"
    assert sorted((item["kind"], item["name"]) for item in plan_of(objects)["workloads"]) == sorted(
        (item["kind"], item["metadata"]["name"]) for item in workloads(objects)
    )


# Without a supervisor, a role that waits until another is complete is an error, a gang is not, one
# Job alone determines the outcome, and a group in Kueue ends by itself.
@each_file(SUPERVISOR, without='"order"|"restartScope"|"decides"|"release"')
def test_no_supervisor_renders_the_same_pods_without_one(objects, file):
    bare = load_all(rendered(file, supervisor=False))

    assert not [item for item in bare if "supervisor" in yaml.safe_dump(item)]
    assert list(map(identity_and_template, workloads(bare))) == list(
        map(identity_and_template, workloads(objects))
    )


def identity_and_template(item):
    return item["metadata"], item["spec"]["template"]


@each_file(SUPERVISOR)
def test_the_role_of_the_supervisor_allows_exactly_what_it_does(objects):
    plan, job = plan_of(objects), objects[0]["metadata"]["labels"]["mlgen.dev/job"]
    (role,) = [o for o in objects if o["kind"] == "Role" and "supervisor" in str(o["metadata"])]
    allowed = {
        (f"{resource}/{name}", verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ["*"])
        for verb in rule["verbs"]
    }
    deletes = plan.get("cleanPodPolicy") == "All"
    ends = ["delete"] if deletes else ["patch", "delete"] if "ttlSeconds" in plan else []
    verbs = {
        "Job": {"jobs": ["get", "list", "watch", "patch", *ends]},
        "StatefulSet": {"statefulsets": ["get", *ends], "statefulsets/scale": ["patch"]},
        "Service": {"services": ["get", *ends]},
        "ConfigMap": {"configmaps": ["get", *ends]},
    }
    objects_of_job = [(item["kind"], item["name"]) for item in plan["workloads"]]
    objects_of_job += map(tuple, plan.get("objects", ()))
    objects_of_job += [("Job", plan["release"])] if "release" in plan else []
    needed = {
        (f"{resource}/{name}", verb)
        for kind, name in objects_of_job
        for resource, its_verbs in verbs[kind].items()
        for verb in its_verbs
    }
    needed |= {(f"configmaps/{job}.status", verb) for verb in ("get", "patch")}
    needed |= {("pods/*", "list"), ("pods/*", "watch"), ("events/*", "create")}
    needed |= {("pods/log/*", "get")} if plan.get("keepLastLog", True) else set()
    sets = [item for item in plan["workloads"] if item["kind"] == "StatefulSet"]
    for item in sets if "forceDeleteSeconds" in plan else ():
        numbers = range(item.get("replicas", 1))
        needed |= {(f"pods/{item['name']}-{number}", "delete") for number in numbers}

    assert allowed == needed


@each_file(SUPERVISOR)
def test_what_starts_in_order_is_rendered_suspended_and_nothing_else(objects):
    suspended = {
        item["metadata"]["name"]
        for item in workloads(objects)
        if item["spec"].get("suspend") or item["spec"].get("replicas") == 0
    }

    whole_job = any(item["spec"].get("suspend") for item in objects if is_supervisor(item))
    assert whole_job or suspended == ordered(objects)


@each_file(SUPERVISOR)
def test_the_supervisor_does_not_have_the_label_of_the_job(objects):
    """With that label it would count as a peer, and affinity rules would apply to it."""
    for item in filter(is_supervisor, objects):
        pod = item["spec"]["template"]

        assert "mlgen.dev/job" not in pod["metadata"]["labels"]
        assert "subdomain" not in pod["spec"]
        assert pod["metadata"]["annotations"]["linkerd.io/inject"] == "disabled"


@each_file("app.kubernetes.io/component: status")
def test_a_deletion_by_the_label_of_the_job_keeps_the_status(objects):
    for item in objects:
        labels = item["metadata"]["labels"]
        if labels["app.kubernetes.io/component"] == "status":
            assert "mlgen.dev/job" not in labels
            assert "data" not in item
