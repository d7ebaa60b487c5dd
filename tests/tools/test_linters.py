"""Linters of other projects, on the manifests of all fixtures.

docs/guides/security.md explains each finding in one of two tables: findings about objects that
mlgen adds, and findings that a job file can avoid. A finding that is missing there, or obsolete,
fails the test.
"""

import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from pages import DOCS, blocks
from support import FILES, load_all, rendered_once
from support import manifests_text as text

from mlgen import validate
from mlgen.kubernetes.pod_security import LEVELS, level, violations
from mlgen.kubernetes.versions import DEFAULT, SUPPORTED

PAGE = DOCS / "guides/security.md"
ADDED, FIELDS = "What mlgen adds", "What a job file can set"
RULES = {
    "kube-score": "(?:container|deployment|pod|service|statefulset)-.+",
    "checkov": "CKV.+",
    "conftest": "(?:cpu|memory|no|required)-.+",
}
"""The linters, each with a pattern of its rules."""

POLICIES = Path(__file__).parent / "policies"


def explained(heading, linter):
    """Return the rules of a linter in the table below a heading."""
    (table,) = re.findall(rf"^### {heading}\n\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    rules = {name for cell in cells for name in re.findall(r"`(.+?)`", cell)}
    return {name for name in rules if re.fullmatch(RULES[linter], name)}


def kube_score(program, folder):
    command = [program, "score", "--output-format", "json", *folder.glob("*.yaml")]
    run = subprocess.run(command, capture_output=True, check=False)
    return {
        check["check"]["id"]
        for result in json.loads(run.stdout)
        for check in result["checks"]
        if not check["skipped"] and check["grade"] < 10
    }


def checkov(program, folder):
    options = ["--framework", "kubernetes", "--output", "json", "--compact", "--skip-download"]
    command = [program, "--directory", folder, *options]
    run = subprocess.run(command, capture_output=True, check=False)
    report = json.loads(run.stdout)
    assert 0 == report["summary"]["parsing_errors"]
    return {check["check_id"] for check in report["results"]["failed_checks"]}


def conftest(program, folder):
    command = [program, "test", "--policy", POLICIES, "--output", "json", folder]
    run = subprocess.run(command, capture_output=True, check=False)
    failures = [each for file in json.loads(run.stdout) for each in file.get("failures", [])]
    return {failure["msg"].partition(":")[0] for failure in failures}


@pytest.fixture(params=[kube_score, checkov, conftest], ids=[*RULES])
def linter(request, tool):
    """The name of a linter, and a function that returns its findings in a folder."""
    name = request.param.__name__.replace("_", "-")
    program = tool(name)
    return name, lambda folder: request.param(program, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the manifests of all fixtures."""
    folder = tmp_path_factory.mktemp("manifests")
    for file in FILES:
        (folder / f"{file.stem}.yaml").write_text(rendered_once(file))
    return folder


def test_every_finding_is_explained(linter, folder):
    name, findings = linter

    assert findings(folder) == explained(ADDED, name) | explained(FIELDS, name)


def test_a_job_file_can_avoid_all_but_the_findings_about_what_mlgen_adds(linter, tmp_path):
    name, findings = linter
    (job,) = [block for block in blocks(PAGE) if block.title == "linted.yaml"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/job.yaml").write_text(job.text)
    (tmp_path / "out").mkdir()
    rendered = validate(tmp_path / "in/job.yaml")
    (tmp_path / "out/manifests.yaml").write_text(text(rendered.parts, "yaml"))

    assert findings(tmp_path / "out") <= explained(ADDED, name)


def test_kubeconform_accepts_all_objects_in_the_schemas_of_newer_versions(tool, folder, tmp_path):
    """PodGroups have no schema there, but CRDs."""
    program = tool("kubeconform")
    for version in SUPPORTED[SUPPORTED.index(DEFAULT) :]:
        schemas = files("kubernetes_validate") / f"kubernetes-json-schema/v{version}.0-local-strict"
        definitions = json.loads((schemas / "_definitions.json").read_text())["$defs"]
        for name in SCHEMAS:
            schema = (schemas / f"{name}.json").read_text().replace("/api/_definitions.json#", "#")
            (tmp_path / f"{name}.json").write_text(
                json.dumps(json.loads(schema) | {"$defs": definitions})
            )
        location = f"{tmp_path}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        command = [program, "-strict", "-schema-location", location, "-skip", "PodGroup"]
        command += ["-summary", "-output", "json", folder]
        report = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)

        assert [] == [found for found in report["resources"] if found["status"] != "statusSkipped"]
        assert report["summary"]["valid"] > len(FILES)


SCHEMAS = (
    *("configmap-v1", "deployment-apps-v1", "job-batch-v1", "persistentvolumeclaim-v1"),
    *("role-rbac-v1", "rolebinding-rbac-v1", "service-v1", "serviceaccount-v1"),
    *("statefulset-apps-v1", "networkpolicy-networking-v1"),
)

POLICY = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: {level}}}
spec:
  validationFailureAction: Enforce
  rules:
  - name: {level}
    match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}
    validate: {{podSecurity: {{level: {level}, version: latest}}}}
"""


@pytest.mark.long
def test_kyverno_finds_the_same_pod_security_level(tool, tmp_path):
    """Kyverno checks with the library of Kubernetes' own admission plugin."""
    program = tool("kyverno")
    policies = [tmp_path / f"{name}.yaml" for name in LEVELS[1:]]
    for policy in policies:
        policy.write_text(POLICY.format(level=policy.stem))
    expected, objects = {}, []
    for number, file in enumerate(FILES):
        for manifest in load_all(rendered_once(file)):
            template = (manifest.get("spec") or {}).get("template")
            if template:  # a namespace for each file, because files have jobs of the same name
                manifest["metadata"]["namespace"] = f"file-{number}"
                key = f"file-{number}/{manifest['kind']}/{manifest['metadata']['name']}"
                expected[key] = level(violations(template, SUPPORTED[-1]))
                objects.append(manifest)
    resources = tmp_path / "objects.yaml"
    resources.write_text("\n---\n".join(json.dumps(item, ensure_ascii=False) for item in objects))

    command = [program, "apply", *policies, "--resource", resources, "--remove-color"]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout

    assert f" to {len(objects)} resource(s)" in printed
    failed = re.findall(r"^policy (\w+) -> resource (\S+) failed", printed, re.MULTILINE)
    found = dict.fromkeys(expected, "restricted")
    for name in reversed(LEVELS[1:]):
        stricter = LEVELS[LEVELS.index(name) - 1]
        found |= {resource: stricter for policy, resource in failed if policy == name}
    assert len(set(expected.values())) == len(LEVELS)
    assert expected == found
