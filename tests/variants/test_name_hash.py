"""metadata.nameSuffix: hash gives the whole set a name that follows from what its pods are."""

import re

import pytest
import yaml
from support import ROOT

from mlgen.variants.name_hash import ALPHABET, LENGTH

JOB = ROOT / "fixtures/tensorflow-hash.yaml"

HASH = (("metadata", "nameSuffix"), "hash")
SUFFIX = re.compile(rf"-[{ALPHABET}]{{{LENGTH}}}(?=: )")


def suffix(text):
    """That of the first job, as the summary has it."""
    return SUFFIX.search(text.splitlines()[1])[0]


def test_every_name_and_address_has_the_suffix_and_nothing_else_differs(any_file, render, tmp_path):
    (tmp_path / "job.yaml").write_text(any_file.read_text().replace("  nameSuffix: hash\n", ""))
    plain = render(tmp_path / "job.yaml")
    if "hostPort" in plain:
        pytest.skip("a port of a node follows from the job's name")

    text = render(tmp_path / "job.yaml", settings=(HASH,))

    assert text != plain
    for found in {suffix(f"\n{line}") for line in text.splitlines() if SUFFIX.search(line)}:
        text = text.replace(found, "")
    assert text == plain


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "image"), "example/criteo:8"),
        (("spec", "args"), ["--shards", "2"]),
        (("spec", "env"), {"SEED": "1"}),
        (("spec", "resources"), {"cpu": 2}),
        (("spec", "roles", "worker", "restartPolicy"), "ExitCode"),
        (("spec", "roles", "ps", "replicas"), 3),
        (("spec", "volumes"), {"conf": {"mountPath": "/c", "files": {"a": "b"}}}),
        (("metadata", "name"), "avazu"),
    ],
)
def test_what_pods_see_changes_the_suffix(path, value, render):
    assert suffix(render(JOB)) != suffix(render(JOB, settings=((path, value),)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels"), {"team": "ads"}),
        (("metadata", "annotations"), {"commit": "8a67666"}),
        (("metadata", "namespace"), "ads"),
        (("spec", "runPolicy", "backoffLimit"), 9),
        (("spec", "runPolicy", "suspend"), True),
        (("spec", "runPolicy", "ttlSecondsAfterFinished"), 3600),
        (("spec", "runPolicy", "activeDeadlineSeconds"), 3600),
        (("spec", "runPolicy", "cleanPodPolicy"), "None"),
        (("spec", "tensorboard"), {"logDir": "gs://logs"}),
    ],
)
def test_what_can_change_while_pods_run_does_not(path, value, render):
    assert suffix(render(JOB)) == suffix(render(JOB, settings=((path, value),)))


def test_elastic_workers_come_and_go_under_one_name(render):
    elastic = ROOT / "fixtures/pytorch-elastic.yaml"
    more = ("spec", "roles", "worker", "replicas"), 3

    assert suffix(render(elastic, settings=(HASH,))) == suffix(
        render(elastic, settings=(HASH, more))
    )


def test_all_that_was_ever_made_of_a_job_is_found_by_one_label(render):
    for item in yaml.safe_load_all(render(JOB)):
        assert item["metadata"]["labels"]["app.kubernetes.io/part-of"] == "criteo"
