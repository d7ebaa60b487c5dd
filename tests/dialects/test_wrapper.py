"""AppWrappers: the objects in them are rendered as documents of their own."""

import json

import pytest
import yaml
from click.testing import CliRunner
from support import load, load_all

from mlgen import validate
from mlgen.cli import main

JOBSET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "train"},
    "spec": {
        "replicatedJobs": [
            {
                "name": "node",
                "template": {
                    "spec": {
                        "template": {
                            "spec": {"containers": [{"name": "main", "image": "example/train:1"}]}
                        }
                    }
                },
            }
        ]
    },
}
CODE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "plain"}, "spec": {}}
QUEUE = {"kueue.x-k8s.io/queue-name": "research"}
PREFIX = "workload.codeflare.dev.appwrapper"


def wrapped(*objects, spec=None, component=None, **metadata):
    components = [{"template": item, **(component or {})} for item in objects]
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "wrapper", **metadata},
        "spec": {"components": components, **(spec or {})},
    }
    return yaml.safe_dump(wrapper, sort_keys=False)


def objects_of(text):
    result = CliRunner().invoke(main, ["render", "-"], text, catch_exceptions=False)
    return [item for item in load_all(result.stdout) if item]


def test_the_objects_render_as_without_the_wrapper():
    alone = "\n---\n".join(map(json.dumps, (CODE, JOBSET)))

    assert objects_of(wrapped(CODE, JOBSET)) == objects_of(alone)


def test_a_list_of_wrappers_is_split():
    items = [load(wrapped(JOBSET)), CODE]
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}, sort_keys=False)

    assert objects_of(text) == objects_of(wrapped(JOBSET, CODE))


def test_jobs_get_the_queue_and_all_objects_the_namespace():
    objects = objects_of(wrapped(JOBSET, JOB, CODE, labels=QUEUE, namespace="vision"))

    names = {item["metadata"]["name"]: item["metadata"] for item in objects}
    assert {"vision"} == {metadata["namespace"] for metadata in names.values()}
    assert QUEUE.items() <= names["plain"]["labels"].items()
    assert QUEUE.items() <= names["train-node-0"]["labels"].items()
    assert "labels" not in names["code"]


def test_a_queue_and_a_namespace_of_a_job_take_precedence():
    metadata = {"name": "plain", "namespace": "own", "labels": {next(iter(QUEUE)): "own"}}
    (job,) = objects_of(wrapped(JOB | {"metadata": metadata}, labels=QUEUE, namespace="own"))

    assert job["metadata"] == metadata


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (wrapped(JOB, CODE, labels=QUEUE), "metadata.labels", "Kueue admits them one by one"),
        (wrapped(JOB, spec={"suspend": True}), "spec.suspend", "are not suspended"),
        (wrapped(JOB, spec={"suspend": True}, labels=QUEUE), "", ""),
        (wrapped(JOB, annotations={f"{PREFIX}/retryLimit": "3"}), "metadata.annotations", "restar"),
        (wrapped(JOB, annotations={f"{PREFIX}/new": "3"}), "metadata.annotations", "remove it"),
        (wrapped(JOB, annotations={"a": "b"}), "", ""),
        (wrapped(JOB, component={"podSetInfos": [{"labels": {"a": "b"}}]}), "spec.comp", "added"),
        (wrapped(JOB, component={"podSets": [{"path": "template.spec"}]}), "", ""),
        (wrapped(JOB, spec={"managedBy": "workload.codeflare.dev/appwrapper-controller"}), "", ""),
    ],
)
def test_parts_of_the_wrapper_without_effect_are_reported(text, place, message):
    warnings = [str(warning) for warning in validate(text).warnings]

    assert len(warnings) == bool(message), warnings
    assert all(place in line and message in line and "[differs]" in line for line in warnings)


def test_they_are_errors_if_strict(tmp_path):
    (tmp_path / "a.yaml").write_text(wrapped(JOB, spec={"suspend": True}))

    result = CliRunner().invoke(main, ["render", "--strict", str(tmp_path / "a.yaml")])

    assert 1 == result.exit_code
    assert "warning" not in result.stderr


def test_a_problem_in_an_object_has_its_line():
    text = wrapped(CODE, JOBSET).replace("main", "Main")
    result = CliRunner().invoke(main, ["render", "-"], text)

    line = next(n for n, line in enumerate(text.splitlines(), 1) if "Main" in line)
    assert 1 == result.exit_code
    assert f":{line}:" in result.stderr
