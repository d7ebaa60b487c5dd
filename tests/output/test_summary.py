"""The summary of a job at the head of its manifests."""

from dataclasses import replace

import pytest
from support import ROOT

from mlgen import Options, validate
from mlgen.output.summary import pod_security, summary


def rendered(name, **options):
    (job,) = validate(str(ROOT / "fixtures" / f"{name}.yaml"), Options(**options)).jobs
    return job


def test_a_job_of_one_pod():
    assert [
        "tune: tensorflow, 1 pod. Made by mlgen.",
        "  worker  1 in Job          decides when training has ended",
    ] == summary(rendered("tensorflow-single").topology).splitlines()


def test_roles_with_their_replicas_objects_and_peers():
    assert [
        "mnist: tensorflow, 7 pods. Made by mlgen.",
        "  chief       1 in Job          decides when training has ended, waits for ps, worker",
        "  ps          2 in StatefulSet",
        "  worker      4 in Job          waits for ps",
        "  supervisor  1 in Job          ends the others when training has ended",
    ] == summary(rendered("tensorflow-ps").topology).splitlines()


def test_a_job_without_supervisor_has_no_line_for_it():
    with_supervisor, without = (
        summary(rendered("tensorflow-ps", supervisor=flag).topology) for flag in (True, False)
    )

    line = "ends the others when training has ended"
    assert line in with_supervisor
    assert line not in without


def test_replicas_of_a_role_add_up_over_its_jobs():
    topology = rendered("tensorflow-single").topology
    (role,) = topology.roles
    several = replace(topology, roles=(replace(role, index=0), replace(role, index=1)))

    assert [
        "tune: tensorflow, 2 pods. Made by mlgen.",
        "  worker  2 in Jobs         decides when training has ended",
    ] == summary(several).splitlines()


@pytest.mark.parametrize(
    ("name", "level", "next_level"),
    [
        ("tensorflow-single", "baseline", "restricted"),
        ("pytorch-restricted", "restricted", None),
        ("pytorch-host-network", "privileged", "baseline"),
    ],
)
def test_pod_security_is_the_level_met_and_what_the_next_one_requires(name, level, next_level):
    first, *rest = pod_security(rendered(name)).splitlines()

    assert f"  PodSecurity: {level}" == first
    assert bool(rest) == bool(next_level)
    assert all(line.startswith(f"    {next_level}: spec.") for line in rest)
