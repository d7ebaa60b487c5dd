"""The table of permissions in docs/guides/security.md, compared with the Roles of every fixture."""

import json
import re

import pytest
from support import FILES, ROOT, load_all, rendered_once

import mlgen
from mlgen.objects.labels import COMPONENT, JOB

WHO = {
    "launcher": "launcher",
    "master": "ElasticDL master",
    "supervisor": "supervisor",
}
"""The table's name for the owner of a Role, by the Role's component."""

MANY = {
    "apiVersion": "mlgen.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "stages"},
    "spec": {
        "framework": "generic",
        "image": "example/stage:1",
        "command": ["stage"],
        "roles": {f"stage-{number}": {} for number in range(11)},
        "successPolicy": {"role": "stage-0"},
    },
}
"""A job with more Jobs than a supervisor watches by name."""

AT_END = ("`cleanPodPolicy: All`", "`ttlSecondsAfterFinished`")
STEP, NOBODY = "Argo step", "others"


def table():
    """Return the table's rows: owner, condition, and (verb, resource, by name or all)."""
    page = (ROOT / "docs/guides/security.md").read_text()
    lines = page.partition("\n## RBAC permissions\n")[2].partition("\n\n- ")[0].splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    return [
        (who, condition, (verb, resource, "by name" if resources.endswith(" by name") else "all"))
        for pod, resources, verbs in cells[2:]
        for who, _, condition in [pod.partition(" with ")]
        for resource in re.findall("`([^`]+)`", resources)
        for verb in verbs.split(", ")
    ]


TABLE = table()


def rights(rules):
    """Return the permissions in the rules of a Role, in the form of the table."""
    return {
        (verb, resource, "by name" if rule.get("resourceNames") else "all")
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def expected(who, objects):
    """Return the rows of a Role that apply to a job."""
    (plan,) = [json.loads(o["data"]["plan.json"]) for o in objects if is_plan(o)] or [{}]
    deletes = plan.get("cleanPodPolicy") == "All"
    jobs = sum(item["kind"] == "Job" for item in plan.get("workloads", ()))
    holds = {
        "": True,
        "at most 10 Jobs": jobs <= 10,
        "more than 10 Jobs": jobs > 10,
        "StatefulSets": any(item["kind"] == "StatefulSet" for item in objects),
        "`keepLastLog`, the default": plan.get("keepLastLog", True),
        "`forceDeleteAfterSeconds`": "forceDeleteSeconds" in plan,
        "`cleanPodPolicy: All`": deletes,
        "`ttlSecondsAfterFinished`": "ttlSeconds" in plan and not deletes,
        "`transport: kubectl-exec`": True,  # otherwise the job has no such Role
    }
    pairs = [*plan.get("objects", ()), *((w["kind"], w["name"]) for w in plan.get("workloads", ()))]
    ended = {f"{kind.lower()}s" for kind, _ in pairs}
    return {
        row
        for row in TABLE
        if row[0] == who and holds[row[1]] and (row[1] not in AT_END or row[2][1] in ended)
    }


def is_plan(item):
    return "plan.json" in (item.get("data") or {})


@pytest.mark.slow
def test_roles_have_the_rights_of_the_table_and_no_row_is_left_over():
    """Checks the Roles in the goldens, and a rendered job with many Jobs."""
    used = set()
    texts = {file: rendered_once(file) for file in FILES}
    every = {file: load_all(text) for file, text in texts.items() if "\nkind: Role\n" in text}
    for file, objects in {**every, "many Jobs": mlgen.render(MANY)}.items():
        for item in (item for item in objects if item["kind"] == "Role"):
            job = item["metadata"]["labels"][JOB]
            mine = [o for o in objects if o["metadata"]["labels"].get(JOB) == job]
            rows = expected(WHO[item["metadata"]["labels"][COMPONENT]], mine)
            assert rights(item["rules"]) == {right for *_, right in rows}, file
            used |= rows

    assert used == {row for row in TABLE if row[0] not in (STEP, NOBODY)}


def test_the_step_of_argo_has_the_rights_of_the_table():
    documents = load_all((ROOT / "argo/rbac.yaml").read_text())
    (role,) = [document for document in documents if document["kind"] == "Role"]

    assert rights(role["rules"]) == {right for who, _, right in TABLE if who == STEP}
