"""What mlgen accepts, a real API server accepts, and what the one refuses, the other does too.

`MLGEN_MUTANTS=50000 MLGEN_SEED=any pytest -m cluster -n 0 -s tests/cluster/test_admission.py` tries
more mutants than the suite does, with other random numbers.
"""

import json
import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from admission import Mutator, Server, objects, refusal, standard, version_of, without_dropped
from fuzz.jobs import job
from rejected import rejected
from support import FILES, FIXTURES, ROOT

from mlgen import Options, frameworks, pipeline
from mlgen.documents.files import Text
from mlgen.kubernetes.validation.images import image
from mlgen.problems import MlgenError
from mlgen.result import Rendered

pytestmark = pytest.mark.cluster

MUTANTS = int(os.environ.get("MLGEN_MUTANTS", "3000"))
JOB_FILES = MUTANTS // 10
SEED = os.environ.get("MLGEN_SEED", "admission")
CORPUS = ROOT.parent / "shared" / "corpus"

KINDS = {
    "Job": 40,
    "StatefulSet": 25,
    "Service": 12,
    "Deployment": 8,
}
"""How often the kinds are changed that have most rules; all others, less often."""

OURS = {
    "a reference to an image that no container runtime can pull": "not a valid image reference",
    "the name of an object that cannot exist, so the pod would wait": (
        r"not a valid name of a (ConfigMap|configMap|PersistentVolumeClaim|Secret|secret)"
    ),
    "a name of which no pod, label or address can be made": r"\[(bad-name|name-too-long)\]",
    "a field that the API's schema requires": r'field "[\w.]+" is missing \[missing-field\]',
}
"""Why mlgen rejects what the API server accepts, each with the messages."""


@pytest.fixture(scope="module")
def server(environment, shared_namespace):
    return Server(Path(environment["KUBECONFIG"]), shared_namespace.name)


def rendered(name, text):
    """Return the objects of the jobs in a text; None if mlgen rejects it."""
    try:
        result = pipeline.render([Text(name, text)], Options())
    except MlgenError:
        return None
    parts = [part for part in result.parts if isinstance(part, Rendered)]
    return [standard(item) for part in parts for item in part.objects if standard(item)]


def refused(server, sets):
    """Return the refusals of sets of objects by the API server, with the name of each set."""
    named = [(name, item) for name, items in sets for item in items]
    refusals = server.refusals([item for _, item in named])
    return [
        f"{name}: {item['kind']} {item['metadata']['name']}: {refusal}"
        for (name, item), refusal in zip(named, refusals, strict=True)
        if refusal
    ]


def test_objects_of_fixtures_and_custom_resources_are_accepted(server):
    sets = [(file.name, rendered(file.name, file.read_text())) for file in FILES]

    assert not [name for name, items in sets if items is None]
    assert [] == refused(server, sets)


def test_objects_of_published_custom_resources_are_accepted(server):
    if not CORPUS.exists():
        pytest.skip(f"{CORPUS} does not exist")
    files = sorted(CORPUS.glob("*/*.yaml"))
    sets = [(f"{f.parent.name}/{f.name}", rendered(f.name, f.read_text())) for f in files]
    accepted = [(name, items) for name, items in sets if items]

    print(f"\n{len(files)} files, {len(accepted)} rendered")
    assert accepted
    assert [] == refused(server, accepted)


def test_objects_of_random_job_files_are_accepted(server):
    texts = [json.dumps(job(name, seed)) for name in frameworks.names() for seed in range(20)]
    sets = [(text, rendered("job.yaml", text)) for text in texts]
    accepted = [(name, items) for name, items in sets if items is not None]

    print(f"\n{len(texts)} job files, {len(accepted)} rendered")
    assert accepted
    assert [] == refused(server, accepted)


def test_values_of_the_everyday_tests_are_rejected(server):
    named = list(rejected())
    refusals = server.refusals([item for _, item in named])

    assert [] == [name for (name, _), text in zip(named, refusals, strict=True) if not text]


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
"""Whether a container runtime takes them for images; none of them exists."""


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


def test_mlgen_and_the_api_server_reject_the_same_objects(server):
    chance = random.Random(f"{SEED} objects")
    mutator, by_kind = Mutator(chance), {}
    for item in objects(FILES):
        by_kind.setdefault(item["kind"], []).append(item)
    kinds = chance.choices([*by_kind], [KINDS.get(kind, 3) for kind in by_kind], k=MUTANTS)
    mutants = [mutator.mutant(chance.choice(by_kind[kind])) for kind in kinds]

    version = version_of(server)
    verdicts = [
        (refusal(item, version), theirs, item)
        for item, theirs in zip(mutants, server.refusals(mutants), strict=True)
    ]

    both = [ours for ours, theirs, _ in verdicts if ours and theirs]
    alone = [(ours, item) for ours, theirs, item in verdicts if ours and not theirs]
    missed = [(theirs, json.dumps(item)) for ours, theirs, item in verdicts if theirs and not ours]
    reasons = Counter(reason(ours, item, version) for ours, item in alone)
    print(f"\nmutants of objects: {MUTANTS} tried, {len(both)} refused by both,")
    print(f"{len(alone)} by mlgen alone, {len(missed)} by the API server alone")
    for text, count in reasons.most_common():
        print(f"{count:6} by mlgen alone: {text}")
    assert [] == missed
    assert not [text for text in reasons if text.startswith("unexplained")]
    assert len(both) > MUTANTS / 3
    assert len(verdicts) - len(both) > MUTANTS / 5


def reason(message, item, version):
    """Return why mlgen rejects what the API server accepts."""
    if not refusal(without_dropped(item), version):
        return "a field that Kubernetes 1.34 drops without a word"
    for text, pattern in OURS.items():
        if re.search(pattern, message):
            return text
    return f"unexplained: {message}"


def test_what_is_rendered_from_changed_job_files_is_accepted(server):
    chance = random.Random(f"{SEED} job files")
    mutator = Mutator(chance)
    files = [yaml.safe_load(file.read_text()) for file in FIXTURES]
    texts = [json.dumps(mutator.job_file(chance.choice(files))) for _ in range(JOB_FILES)]
    sets = [(text, rendered("job.yaml", text)) for text in texts]
    accepted = [(name, items) for name, items in sets if items is not None]

    missed = refused(server, accepted)

    print(f"\nmutants of job files: {JOB_FILES} tried, {len(accepted)} accepted by mlgen,")
    print(f"{len(missed)} of their objects refused by the API server")
    assert [] == missed
    assert JOB_FILES / 10 < len(accepted) < JOB_FILES * 9 / 10
