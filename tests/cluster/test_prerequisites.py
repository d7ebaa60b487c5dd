"""Prerequisites and total resources from `mlgen show`, compared with a real cluster."""

import re
import subprocess

import pytest

pytestmark = pytest.mark.cluster

QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: all}
spec: {hard: {pods: "10", requests.cpu: "10", requests.memory: 10Gi}}
"""


def test_the_printed_commands_create_what_the_pods_wait_for(namespace, jobs, tmp_path):
    (tmp_path / "note").write_text("noted")
    report = namespace.mlgen("show", str(jobs / "prerequisites.yaml"), "-n", namespace.name)
    commands = re.findall(r" {3}(kubectl create .*)", report)

    for command in commands:
        with_file = command.replace("--from-file=…", f"--from-file={tmp_path / 'note'}")
        words = with_file.replace("…", "given").split()
        subprocess.run(words, check=True, capture_output=True, env=namespace.environment)
    namespace.apply(jobs / "prerequisites.yaml")

    assert len(commands) == 4
    assert namespace.completed("needy-main") == [["given given noted"]] * 2


def test_the_totals_are_those_that_a_quota_counts(namespace, jobs):
    """Requests of init containers count in addition to sidecars that started before them."""
    job = jobs / "prerequisites.yaml"
    namespace.kubectl("apply", "-f", "-", stdin=QUOTA)
    namespace.until(
        "the quota is in force", lambda: "used" in namespace.get("quota", "all")["status"]
    )
    namespace.apply(job, "--set", "spec.roles.main.template.spec.serviceAccountName=default")

    used = namespace.until(
        "two pods exist",
        lambda: (
            (status := namespace.get("quota", "all")["status"]["used"])["pods"] == "2" and status
        ),
    )

    row = rf"all roles +2 +{used['requests.cpu']} +{used['requests.memory']}\n"
    assert re.search(row, namespace.mlgen("show", str(job)))
