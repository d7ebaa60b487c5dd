"""The security profile of a job as a pod template patch."""

import pytest
from objects.samples import job
from support import job_file

import mlgen
from mlgen.jobfile.model import Security
from mlgen.kubernetes.pod_security import violations
from mlgen.objects.security import RESTRICTED, patch, without_token


@pytest.mark.parametrize("profile", [None, "baseline", "privileged"])
def test_only_the_profile_restricted_sets_anything(profile):
    assert patch(job(security=Security(profile)), "main") == {}


def test_restricted_sets_what_pod_security_requires():
    assert patch(job(security=Security("restricted")), "tensorflow") == {
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "tensorflow",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        }
    }


def test_user_and_groups_apply_to_the_whole_pod():
    rows = [
        (Security(run_as_user=0), {"runAsUser": 0}),
        (Security(run_as_group=0), {"runAsGroup": 0}),
        (Security(fs_group=0), {"fsGroup": 0}),
        (Security(None, 1, 2, 3), {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3}),
    ]

    assert [patch(job(security=security), "main") for security, _ in rows] == [
        {"spec": {"securityContext": context}} for _, context in rows
    ]


def test_helpers_satisfy_the_restricted_standard():
    helper = {"name": "wait", "securityContext": RESTRICTED}

    assert [] == violations({"spec": {"containers": [helper]}})
    assert RESTRICTED["runAsUser"] == RESTRICTED["runAsGroup"] == 65534
    assert RESTRICTED["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    "spec",
    [
        {"serviceAccountName": "training"},
        {"serviceAccount": "training"},
        {"automountServiceAccountToken": True},
        {"automountServiceAccountToken": False},
    ],
)
def test_a_pod_has_a_token_only_if_somebody_asked_for_a_service_account(spec):
    assert without_token({}) == {"automountServiceAccountToken": False}
    assert without_token(spec) == spec


def test_a_security_context_of_a_role_means_the_same_as_in_its_template():
    """Helpers that write files for the training container also run as its user."""

    def rendered(**fields):
        roles = {"launcher": {"command": ["mpirun", "a"]}, "worker": {"replicas": 2}}
        job = job_file("a", "mpi", options={"transport": "ssh"}, roles=roles, **fields)
        return list(mlgen.render(job))

    context = {"runAsUser": 1000, "runAsGroup": 100}
    container = {"name": "main", "securityContext": context}

    assert rendered(securityContext=context) == rendered(
        template={"spec": {"containers": [container]}}
    )
    assert rendered(securityContext=context) != rendered()
