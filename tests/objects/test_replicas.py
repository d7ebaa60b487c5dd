"""Replicas with their own Jobs: copies of one Job, equal to Jobs that are built separately."""

import pytest
from objects.samples import at, role, topology

from mlgen import pipeline
from mlgen.documents.files import Text
from mlgen.objects.workload import workload, workloads
from mlgen.output.yaml import yaml_text
from mlgen.result import Options
from mlgen.topology import INDEX

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: big}
spec: {image: example/big:1, command: [python, train.py], framework: SPEC}
"""

NODES = "network: {host: true, hostPorts: {base: 20000, size: 1000}}"
OVERRIDES = """{replicas: 104, env: {X: $(RANK), A: $(X)}, template: {spec: {
containers: [{name: main, env: [{name: WORLD_SIZE, value: '5'}],
ports: [{name: user, containerPort: 23456}]}]}}}"""

SPECS = {
    "ranks": "pytorch, roles: {master: {workingDir: /}, worker: {replicas: 104}}",
    "overrides": f"pytorch, roles: {{master: {{workingDir: /}}, worker: {OVERRIDES}}}",
    "waits": "xgboost, roles: {master: {workingDir: /},"
    " worker: {replicas: 20, waitFor: [{role: master, until: port}]}}",
    "jax-on-nodes": f"jax, {NODES}, roles: {{worker: {{replicas: 104}}}}",
    "tensorflow-on-nodes": f"tensorflow, {NODES}, roles: {{ps: {{replicas: 12}}, chief: {{}}}}",
}


def built(topology):
    """Return each workload, and the number of workloads that share their volumes with another."""
    manifests = [manifest for _, manifest in workloads(topology)]
    volumes = [id(item["spec"]["template"]["spec"].get("volumes")) for item in manifests]
    return manifests, len(volumes) - len(set(volumes))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_copies_equal_what_is_built_one_by_one(spec):
    (job,) = pipeline.render([Text("job.yaml", JOB.replace("SPEC", spec))], Options()).jobs

    manifests, shared = built(job.topology)

    assert [workload(job.topology, role) for role in job.topology.roles] == manifests
    assert shared > 8


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_what_repeats_is_written_like_what_does_not(spec):
    (job,) = pipeline.render([Text("job.yaml", JOB.replace("SPEC", spec))], Options()).jobs

    one_by_one = "".join(yaml_text([item]) for item in job.objects)

    assert one_by_one == yaml_text(job.objects)


@pytest.mark.parametrize(
    "different",
    [
        {"restart": "OnFailure"},
        {"env": {"RANK": "0"}},
        {"env": {"B": "b", "RANK": "0"}},
        {"host_ports": {"peers": 1024}, "port": 1},
    ],
)
def test_a_replica_that_differs_in_more_is_built_by_itself(different):
    fields = [{"index": i, "env": {"RANK": str(i), "B": "b"}} for i in range(5)]
    fields[0] |= different
    whole = topology(*(role(replicas=1, **each) for each in fields))

    manifests, shared = built(whole)

    assert [workload(whole, each) for each in whole.roles] == manifests
    assert shared == 3


def test_replicas_whose_variables_may_have_another_order_are_built_one_by_one():
    env = [{"A": f"$(B{i})", "B0": "", "B3": "", "B4": ""} for i in range(5)]
    roles = (role(replicas=1, index=i, env=env[i]) for i in range(5))

    assert built(topology(*roles))[1] == 0


def test_a_variable_that_differs_in_one_replica_is_copied_too():
    env = [{"RANK": str(i), "B": "c" if i == 0 else "b"} for i in range(5)]
    whole = topology(*(role(replicas=1, index=i, env=env[i]) for i in range(5)))

    manifests, shared = built(whole)

    assert [workload(whole, each) for each in whole.roles] == manifests
    assert shared == 4


def test_references_to_the_own_index_do_not_matter():
    env = [{"A": f"{INDEX}:{i}"} for i in range(5)]
    whole = topology(*(role(replicas=1, index=i, env=env[i]) for i in range(5)))

    manifests, shared = built(whole)

    assert shared == 4
    assert [
        at(item, "spec", "template", "spec", "containers", 0, "env", 1, "value")
        for item in manifests
    ] == [each["A"] for each in env]
