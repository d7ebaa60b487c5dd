"""`mlgen explain` prints the page of a field, a framework, a problem code or a rule."""

import subprocess
import sys

import pytest
from click.testing import CliRunner
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from mlgen import frameworks
from mlgen.cli import main
from mlgen.reference import fields, rules

pytestmark = pytest.mark.usefixtures("codes_of_rules")


class Page(SingleFileSnapshotExtension):
    """One text file for each page."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT


@pytest.fixture
def page(snapshot):
    return snapshot.use_extension(Page)


def explain(*arguments):
    return CliRunner().invoke(main, ["explain", *arguments], catch_exceptions=False)


TOPICS = {
    "nothing": [],
    "role-field": ["spec.roles.worker.restartPolicy"],
    "shared-field": ["image"],
    "object": ["spec.runPolicy"],
    "default": ["network.hostPorts.base"],
    "list": ["spec.roles.worker.waitFor.until"],
    "two-types": ["runPolicy.restartScope"],
    "two-fields": ["backoffLimit"],
    "two-frameworks": ["spec.options.elasticPolicy.minReplicas"],
    "option": ["options.transport"],
    "kubernetes": ["spec.template.spec.tolerations"],
    "kubernetes-scalar": ["template.spec.containers.securityContext.runAsUser"],
    "kubernetes-affinity": ["affinity.podAffinity"],
    "kubernetes-affinity-term": [
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    ],
    "kubernetes-claim": ["spec.claims.data.volumeMode"],
    "kubernetes-mapping": ["template.spec.nodeSelector"],
    "tree": ["spec.volumes", "--recursive"],
    "tree-of-kubernetes": ["affinity.nodeAffinity", "--recursive"],
    "long-example": ["volumes"],
    "code": ["no-such-peer"],
    "code-with-commands": ["[not-rendered]"],
    "rule": ["same-rank"],
}


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic(name, page):
    result = explain(*TOPICS[name])

    assert (0, "") == (result.exit_code, result.stderr)
    assert result.stdout == page


@pytest.mark.parametrize("name", frameworks.names())
def test_a_framework(name, page):
    result = explain(name)

    assert (0, "") == (result.exit_code, result.stderr)
    assert result.stdout == page


NONE = "there is no field, framework, problem code or rule"

UNKNOWN = {
    "pytroch": f'{NONE} "pytroch"; did you mean "pytorch"?',
    "no-such-per": f'{NONE} "no-such-per"; did you mean "no-such-peer"?',
    "same-rnak": f'{NONE} "same-rnak"; did you mean "same-rank"?',
    "imgae": 'there is no field "imgae"; did you mean "image"?',
    "spec.roles.ps.replica": 'spec.roles.ps has no field "replica"; did you mean "replicas"?',
    "spec.image.tag": 'spec.image has no field "tag"; it has no fields',
    "wait.zzz": 'spec.wait has no field "zzz"; its fields are timeoutSeconds',
    "zzz": 'there is no field "zzz"',
}


@pytest.mark.parametrize("topic", UNKNOWN)
def test_an_unknown_topic(topic):
    result = explain(topic)

    assert (2, "") == (result.exit_code, result.stdout)
    assert result.stderr.rstrip().endswith(f"Error: {UNKNOWN[topic]}")


def test_a_code_lists_its_rules():
    listed = explain("launch").stdout.partition("\nRULES:\n")[2].splitlines()

    names = [line.strip() for line in listed if line.startswith("    ") and line[4] != " "]
    assert names == [names[0], *rules.by_code()["launch"]]
    assert "RULES:" not in explain("not-yaml").stdout


def test_a_topic_may_be_a_code_and_a_rule(monkeypatch):
    named = rules.by_name()
    named["launch"] = named["same-rank"]
    monkeypatch.setattr(rules, "by_name", lambda: named)

    assert explain("launch").stdout.endswith("\n\n" + explain("same-rank").stdout)


@pytest.mark.slow
def test_python_omits_the_texts_of_rules():
    command = [sys.executable, "-OO", "-m", "mlgen", "explain"]
    done = [
        subprocess.run([*command, topic], capture_output=True, text=True, check=True).stdout
        for topic in ("same-rank", "launch")
    ]

    assert done[0].startswith("RULE: same-rank\n\n    Python omits the texts of rules")
    assert done[1].endswith("\nRULES:\n    " + done[0].partition("    ")[2])


def test_a_path_may_have_indices_and_escaped_dots():
    (item,) = fields.find("spec.roles.worker.volumes.data[0].git")
    (label,) = fields.find(r"spec.volumes.a\.b.pvc")

    assert item.path[-2:] == ("data", "git")
    assert label.path == ("spec", "volumes", "a.b", "pvc")


def test_a_path_may_begin_with_the_kind_as_for_kubectl():
    assert explain("trainingjob.spec.wait").stdout == explain("wait").stdout
    assert explain("TrainingJob").stdout.startswith("FIELD: a job file <Object>\n")


def test_the_tree_of_the_job_file_has_every_field():
    lines = [line.strip() for line in explain("--recursive").stdout.splitlines()]

    for field in fields.every():
        if not field.name.startswith("<"):
            assert any(line.startswith(f"{field.name} <") for line in lines)


def test_every_field_has_a_page():
    """Each page is found by its path and contains a description."""
    for field in fields.every():
        found = fields.find(".".join(field.path))

        assert field.schema in [other.schema for other in found]
        assert field.description.endswith(".")
