"""`mlgen verify` with every fixture: rendered manifests pass, and edited ones are reported."""

import random
import re
from copy import deepcopy

from support import each_file, spoilt

from mlgen import Options, pipeline
from mlgen.checks.references import creates_pods
from mlgen.checks.verify import verify_documents
from mlgen.documents.document import Document, marked
from mlgen.documents.files import texts
from mlgen.problems import Collector, Place

KUBE_VERSION = (1, 34)
JOB = "mlgen.dev/job"


def problems_of(objects):
    """The problems of a stream, as the command reports them, but without reading YAML."""
    documents = [Document(item, marked({(): Place("stream", i)})) for i, item in enumerate(objects)]
    collector = Collector()
    verify_documents(documents, KUBE_VERSION, collector)
    return list(collector.problems)


@each_file(sample=4)
def test_every_fixture_is_verified(objects, file):
    options = Options(namespace="team-a", target="argocd")
    result = pipeline.render(texts((str(file),)), options)

    assert [] == problems_of(objects)
    assert [] == problems_of([item for job in result.jobs for item in job.objects])


def strings(value, path=()):
    """Every string in an object with its path, except labels and selectors."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("labels", "matchLabels", "selector"):
                yield from strings(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from strings(inner, (*path, number))
    elif isinstance(value, str):
        yield path, value


def with_text(objects, number, path, text):
    """The problems of a stream with one string replaced. Restores the objects."""
    inner = objects[number]
    for step in path[:-1]:
        inner = inner[step]
    before, inner[path[-1]] = inner[path[-1]], text
    try:
        return problems_of(objects)
    finally:
        inner[path[-1]] = before


def rendered_objects(objects):
    """The objects of a job, each with its position."""
    return [(i, o) for i, o in enumerate(objects) if JOB in str(o["metadata"].get("labels"))]


def named_elsewhere(objects, number):
    """True if a field other than its name refers to an object or to its pods."""
    item = objects[number]
    word = re.compile(rf"(?<![\w.-]){re.escape(item['metadata']['name'])}(?![\w-]|-[a-z])")
    pods = re.compile(rf"(?<![\w.-]){re.escape(item['metadata']['name'])}-(\d|\[|\$)")
    hostname = item["spec"]["template"]["spec"].get("hostname") if item["kind"] == "Job" else None
    for other in objects:
        for path, text in strings(other):
            if path[:1] == ("metadata",) or path[-1] in ("image", "mountPath", "hostname"):
                continue
            if f"job/{item['metadata']['name']}" in text.split():
                return True
            # A Job for one replica sets the host name, so its own name does not matter.
            if not hostname and (
                pods.search(text) or (item["kind"] != "Job" and word.search(text))
            ):
                return True
    return False


@each_file(sample=3)
def test_a_renamed_object_is_reported_if_anything_refers_to_it(objects):
    """RoleBindings, NetworkPolicies, TensorBoards and some Jobs are not referred to.

    The Service of a Ray head is for clients outside the job.
    """
    free = {"RoleBinding", "Deployment", "NetworkPolicy"}
    for number, item in rendered_objects(objects):
        of_head = item["metadata"]["labels"].get("app.kubernetes.io/component") == "head"
        if item["kind"] in free or "tensorboard" in item["metadata"]["name"]:
            continue
        if item["kind"] == "Service" and of_head:
            continue
        renamed = f"dev-{item['metadata']['name']}"
        problems = with_text(objects, number, ("metadata", "name"), renamed)

        assert problems or not named_elsewhere(objects, number), (item["kind"], renamed)
        assert problems or item["kind"] == "Job"


@each_file(sample=3)
def test_a_changed_job_label_of_one_object_is_reported(objects):
    for number, item in rendered_objects(objects):
        if JOB in item["metadata"]["labels"]:
            assert with_text(objects, number, ("metadata", "labels", JOB), "other")


@each_file("^kind: RoleBinding", sample=3)
def test_a_changed_name_in_a_role_or_binding_is_reported(objects):
    for number, item in rendered_objects(objects):
        if item["kind"] in ("Role", "RoleBinding"):
            # ElasticDL's master gives its pods names that are not in the manifests.
            creates = any(map(creates_pods, item.get("rules", [])))
            for path, text in strings(item):
                if ("resourceNames" in path and not creates) or path in (
                    ("roleRef", "name"),
                    ("subjects", 0, "name"),
                ):
                    assert with_text(objects, number, path, f"{text}x"), (path, text)


@each_file("^kind: (ServiceAccount|ConfigMap)", sample=3)
def test_a_changed_service_account_or_config_map_of_a_pod_is_reported(objects):
    names = {o["metadata"]["name"] for o in objects if o["kind"] in ("ServiceAccount", "ConfigMap")}
    references = (("configMap", "name"), ("spec", "serviceAccountName"))
    for number, item in rendered_objects(objects):
        for path, text in strings(item):
            pod = path[:3] == ("spec", "template", "spec")
            if pod and text in names and path[-2:] in references:
                problems = with_text(objects, number, path, f"{text}x")
                shared = sum(
                    text == t for o in objects for p, t in strings(o) if p[-2:] == path[-2:]
                )

                assert problems or shared > 1, (path, text)


def addresses(job, text):
    """The span of each index or end of a range in the addresses of a job's replicas."""
    index = r"(?:(\d+)|\[\d+-(\d+)\])"
    after = rf"(?=\.{re.escape(job)}(?![\w-])|[:,\s\"]|$)"
    pattern = rf"(?<![\w./-]){re.escape(job)}-[a-z0-9-]*-{index}{after}"
    for match in re.finditer(pattern, text):
        yield match.span(1 if match[1] else 2)


PEER = r"^ *(- |[\w-]+: |)[^#\n]*\b([a-z0-9-]+)-[a-z0-9-]*-(\d+|\[\d+-\d+\])\.\2\b"


@each_file(PEER, without="^  replicas: 0", sample=2)
def test_a_changed_index_of_a_peer_is_reported(objects):
    """The number of replicas of a suspended StatefulSet is unknown, so any index may be valid."""
    for number, item in rendered_objects(objects):
        job = item["metadata"]["labels"].get(JOB)
        for path, text in strings(item):
            if path[0] == "metadata" or path[-1] in ("hostname", "name") or not job:
                continue
            spans = list(addresses(job, text))
            for start, end in {*spans[:1], *spans[-1:]}:
                other = f"{text[:start]}4242{text[end:]}"

                assert with_text(objects, number, path, other), (path, other)


def prefixed(objects, prefix):
    """Prefix names and the supported references, like `namePrefix` of kustomize.

    api/internal/konfig/builtinpluginconsts/namereference.go
    """
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}
    for item in objects:
        item["metadata"]["name"] = prefix + item["metadata"]["name"]
        for path, text in strings(item):
            kind = None
            if path[-2:] == ("configMap", "name") or "configMapRef" in path:
                kind = "ConfigMap"
            elif path[-1] == "serviceAccountName" or path[:1] == ("subjects",):
                kind = "ServiceAccount"
            elif path == ("spec", "serviceName"):
                kind = "Service"
            elif path == ("roleRef", "name"):
                kind = "Role"
            if kind and (kind, text) in names:
                inner = item
                for step in path[:-1]:
                    inner = inner[step]
                inner[path[-1]] = prefix + text
    return objects


@each_file(sample=3)
def test_a_name_prefix_is_reported(objects):
    """In every job: kustomize does not prefix the subdomain of pods."""
    assert problems_of(prefixed(deepcopy(objects), "dev-"))


@each_file(sample=3)
def test_malformed_manifests_cause_problems_and_no_traceback(objects, file):
    chance = random.Random(file.stem)
    for _ in range(6):
        broken = deepcopy(objects)
        for _ in range(chance.randint(1, 3)):
            broken = spoilt(broken, chance)
        for problem in problems_of(broken):
            assert problem.message
            assert "\n" not in str(problem)
