"""The summary of a job at the head of its manifests."""

from dataclasses import replace

import pytest
from support import ROOT

from mlgen import Options, validate
from mlgen.output.manifests import heading, replaced_alone, summary
from mlgen.show.job import page
from mlgen.version import VERSION


def rendered(name, **options):
    (job,) = validate(str(ROOT / "fixtures" / f"{name}.yaml"), Options(**options)).jobs
    return job


def test_a_job_of_one_pod():
    assert [
        f"tune: tensorflow, 1 pod. Made by mlgen {VERSION}.",
        "  worker  1 in Job          determines the outcome",
    ] == summary(rendered("tensorflow-single")).splitlines()


def test_roles_with_their_replicas_objects_and_peers():
    assert [
        f"mnist: tensorflow, 7 pods. Made by mlgen {VERSION}.",
        "  chief       1 in Job          determines the outcome, waits for ps",
        "  ps          2 in StatefulSet",
        "  worker      4 in Job          waits for ps",
        "  supervisor  1 in Job",
        "  the supervisor ends the job if a role fails, stops the other roles after training",
        (
            "  supervisor permissions: change these objects, read the namespace's pods for their"
            " exit codes"
        ),
        (
            "  apply with kubectl apply --server-side: otherwise, applying again restarts ps after"
            " training"
        ),
    ] == summary(rendered("tensorflow-ps")).splitlines()


def test_a_job_without_supervisor_has_no_line_for_it():
    with_supervisor, without = (
        summary(rendered("tensorflow-ps", supervisor=flag)) for flag in (True, False)
    )

    line = "ends the job if a role fails, stops the other roles after training"
    assert line in with_supervisor
    assert line not in without


ALONE = "is preempted, drained or lost: only that replica restarts"
HANG = "only that replica restarts, and its peers may hang"
OTHERS = "if a replica of worker fails: the others continue"
TO_RESTART_ALL = ". To restart all: runPolicy.restartScope: All"
REPLACED = f" If one is preempted, drained or lost: {HANG}"
BY_CODE = "only that replica restarts, or the job fails, by its exit code."


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("jax", {}, f"if a replica fails: the job fails.{REPLACED}{TO_RESTART_ALL}"),
        ("jax", {"supervisor": False}, f"if a replica fails: the job fails.{REPLACED}"),
        (
            "jax",
            {"settings": {"spec.restartPolicy": "OnFailure"}},
            f"if a replica fails, or is preempted, drained or lost: {HANG}{TO_RESTART_ALL}",
        ),
        ("pytorch-ranks", {}, f"if a replica fails: {BY_CODE}{REPLACED}{TO_RESTART_ALL}"),
        (
            "mpi-ssh",
            {},
            f"if a replica of worker fails, or {ALONE}, and launcher may fail{TO_RESTART_ALL}",
        ),
        (
            "pytorch-volumes",
            {"supervisor": False},
            f"if a replica of master fails: the job fails, {OTHERS}.{REPLACED}",
        ),
    ],
)
def test_the_effect_of_a_failure_on_ranks_that_wait_for_each_other(name, options, text):
    assert text == ". ".join(replaced_alone(rendered(name, **options).topology))


@pytest.mark.parametrize(
    "name",
    ["pytorch-restart-all", "pytorch-elastic", "horovod-elastic", "paddle", "ray", "tensorflow-ps"],
)
def test_ranks_that_restart_together_or_continue_have_no_such_line(name):
    assert [] == replaced_alone(rendered(name).topology)


def test_replicas_of_a_role_add_up_over_its_jobs():
    job = rendered("tensorflow-single")
    (role,) = job.topology.roles
    roles = (replace(role, index=0), replace(role, index=1))
    several = replace(job, topology=job.topology._replace(roles=roles))

    assert [
        f"tune: tensorflow, 2 pods. Made by mlgen {VERSION}.",
        "  worker  2 in Jobs         determines the outcome",
    ] == summary(several).splitlines()[:2]


def test_the_first_line_has_what_the_pods_request_together():
    """Devices come first. Disk, and requests that only init containers make, are omitted."""
    options = {"settings": ((("spec", "resources"), {"ephemeral-storage": "1Gi"}),)}
    with_disk = rendered("tensorflow-single", **options)

    assert "dino: pytorch, 4 pods, 32 GPUs, 32 CPU, 256 Gi memory. Made" in summary(
        rendered("pytorch-coscheduling")
    )
    assert "pax: jax, 2 pods, 2 rdma/hca_shared_devices_a. Made" in summary(
        rendered("jax-rdma-shared")
    )
    assert summary(with_disk).startswith(f"tune: tensorflow, 1 pod. Made by mlgen {VERSION}.")


def test_a_heading_names_what_the_job_needs_in_lines_of_100_columns():
    job = rendered("generic-actors")
    (secret, *_) = job.prerequisites
    many = [secret._replace(kind="PersistentVolumeClaim", name=f"shard-{n}") for n in range(300)]

    (line,) = heading(job).removeprefix(summary(job) + "\n").splitlines()
    long = heading(replace(job, prerequisites=tuple(many)))
    lines = long.removeprefix(summary(job) + "\n").splitlines()

    assert "  prerequisites: Secret hub, PersistentVolumeClaim replay, PriorityClass high" == line
    assert lines[1].startswith("    PersistentVolumeClaim shard-")
    assert lines[-1].endswith("and 288 more: see mlgen show")
    assert max(map(len, lines)) <= 98
    assert heading(rendered("tensorflow-single")) == summary(rendered("tensorflow-single"))


def test_amounts_are_in_the_units_that_people_use():
    job = {
        "apiVersion": "mlgen.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "tune"},
        "spec": {
            "framework": "jax",
            "image": "a:1",
            "command": ["train"],
            "resources": {"cpu": "8700m", "memory": "35500Mi", "example.com/part": 500},
            "roles": {"worker": {"replicas": 3}},
        },
    }
    (rendered,) = validate(job).jobs

    amounts = "1500 example.com/part, 26.1 CPU, ~104 Gi memory"
    assert summary(rendered).startswith(f"tune: jax, 3 pods, {amounts}. Made by mlgen {VERSION}.")
    assert "26.1   ~104 Gi" in page(rendered)
