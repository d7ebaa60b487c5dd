"""mlgen and a real API server accept and reject the same objects.

`MLGEN_MUTANTS=50000 MLGEN_SEED=any pytest -m parts -n 0 -s tests/parts/kubernetes -k same_objects`
tries more mutants than the suite, with other random numbers.
"""

import json
import os
import random
import re
from collections import Counter

import pytest
import yaml
from admission import Mutator, objects, refusal, rendered, without_dropped
from fuzz.jobs import job
from rejected import rejected
from support import FILES, FIXTURES, ROOT, missing

from mlgen import frameworks

pytestmark = pytest.mark.usefixtures("pod_groups")

MUTANTS = int(os.environ.get("MLGEN_MUTANTS", "1500"))
JOB_FILES = MUTANTS // 10
SEED = os.environ.get("MLGEN_SEED", "admission")
CORPUS = ROOT.parent / "shared" / "corpus"

KINDS = {
    "Job": 40,
    "StatefulSet": 25,
    "Service": 12,
    "Deployment": 8,
    "NetworkPolicy": 0,
}
"""The number of changes for the kinds with most rules. Other kinds are changed less often. Only a
few fields of a NetworkPolicy are the user's: the tests with job files change them."""

OURS = {
    "a reference to an image that no container runtime can pull": "not a valid image reference",
    "the name of an object that cannot exist, so the pod would wait": (
        r"not a valid name of a (ConfigMap|configMap|PersistentVolumeClaim|Secret|secret)"
    ),
    "a name of which no pod, label or address can be made": r"\[(bad-name|name-too-long)\]",
    "a field that the API's schema requires": r'field "[\w.]+" is missing \[missing-field\]',
}
"""Reasons why mlgen rejects objects that the API server accepts, each with the messages."""


def refused(server, sets):
    """Return the refusals of sets of objects by the API server, with the name of each set."""
    named = [(name, item) for name, items in sets for item in items]
    refusals = server.refusals([item for _, item in named])
    return [
        f"{name}: {item['kind']} {item['metadata']['name']}: {refusal}"
        for (name, item), refusal in zip(named, refusals, strict=True)
        if refusal
    ]


def test_objects_of_published_custom_resources_are_accepted(server, version):
    if not CORPUS.exists():
        missing(f"{CORPUS} does not exist")
    files = sorted(CORPUS.glob("*/*.yaml"))
    sets = [(f"{f.parent.name}/{f.name}", rendered(f.name, f.read_text(), version)) for f in files]
    accepted = [(name, items) for name, items in sets if items]

    print(f"\n{len(files)} files, {len(accepted)} rendered")
    assert accepted
    assert [] == refused(server, accepted)


def test_objects_of_random_job_files_are_accepted(server, version):
    texts = [json.dumps(job(name, seed)) for name in frameworks.names() for seed in range(10)]
    sets = [(text, rendered("job.yaml", text, version)) for text in texts]
    accepted = [(name, items) for name, items in sets if items is not None]

    print(f"\n{len(texts)} job files, {len(accepted)} rendered")
    assert accepted
    assert [] == refused(server, accepted)


def test_values_of_the_everyday_tests_are_rejected(server):
    named = list(rejected())
    refusals = server.refusals([item for _, item in named])

    assert [] == [name for (name, _), text in zip(named, refusals, strict=True) if not text]


def test_mlgen_and_the_api_server_reject_the_same_objects(server, version):
    chance = random.Random(f"{SEED} objects")
    mutator, by_kind = Mutator(chance, version), {}
    for item in objects(FILES):
        by_kind.setdefault(item["kind"], []).append(item)
    kinds = chance.choices([*by_kind], [KINDS.get(kind, 3) for kind in by_kind], k=MUTANTS)
    mutants = [mutator.mutant(chance.choice(by_kind[kind])) for kind in kinds]

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
    """Return the reason why mlgen rejects an object that the API server accepts."""
    if not refusal(without_dropped(item), version):
        return "a field that Kubernetes 1.34 drops without a word"
    for text, pattern in OURS.items():
        if re.search(pattern, message):
            return text
    return f"unexplained: {message}"


def test_what_is_rendered_from_changed_job_files_is_accepted(server, version):
    chance = random.Random(f"{SEED} job files")
    mutator = Mutator(chance, version)
    files = [yaml.safe_load(file.read_text()) for file in FIXTURES]
    texts = [json.dumps(mutator.job_file(chance.choice(files))) for _ in range(JOB_FILES)]
    sets = [(text, rendered("job.yaml", text, version)) for text in texts]
    accepted = [(name, items) for name, items in sets if items is not None]

    missed = refused(server, accepted)

    print(f"\nmutants of job files: {JOB_FILES} tried, {len(accepted)} accepted by mlgen,")
    print(f"{len(missed)} of their objects refused by the API server")
    assert [] == missed
    assert JOB_FILES / 10 < len(accepted) < JOB_FILES * 9 / 10
