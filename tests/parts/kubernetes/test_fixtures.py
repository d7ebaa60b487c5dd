"""An API server accepts the manifests of every fixture, at the displayed PodSecurity level."""

import re

import pytest
from admission import Server, jobs, rendered, unplaced
from namespaces import temporary_namespace
from support import FILES, FIXTURES, stem

from mlgen import show
from mlgen.kubernetes.pod_security import LEVELS
from mlgen.kubernetes.versions import DEFAULT

pytestmark = pytest.mark.usefixtures("pod_groups")


@pytest.fixture(scope="module")
def levels(environment):
    """The API server in a namespace for each PodSecurity level, which warns about violations."""
    with temporary_namespace(environment) as first, temporary_namespace(environment) as second:
        servers = {}
        for level, namespace in zip(LEVELS[1:], (first, second), strict=True):
            label = f"pod-security.kubernetes.io/warn={level}"
            namespace.kubectl("label", "namespace", namespace.name, label)
            servers[level] = Server(environment["KUBECONFIG"], namespace.name)
        yield servers


@pytest.mark.parametrize("file", FILES, ids=stem)
def test_every_object_is_accepted_at_the_pod_security_level_that_show_reports(
    file, levels, version
):
    for job in jobs(file.name, file.read_text(), version):
        met = LEVELS[0]
        for level, server in levels.items():
            answers = [server.create(unplaced(item)) for item in job.objects]
            assert {""} == {refusal for refusal, *_ in answers}
            if not any("would violate PodSecurity" in str(warnings) for *_, warnings in answers):
                met = level
        assert [met] == re.findall(r"^PodSecurity: (\w+)", show.text([job]), re.MULTILINE)


@pytest.mark.parametrize("file", FILES, ids=stem)
def test_what_is_rendered_by_default_is_accepted_by_newer_versions(file, server, version):
    text = file.read_text()
    by_default, newer = (rendered(file.name, text, each) for each in (DEFAULT, version))

    assert not [item for item in by_default if item not in newer and server.refusal(item)]


@pytest.mark.parametrize(
    ("name", "group", "fields"),
    [
        (
            "tensorflow-volcano",
            "scheduling.volcano.sh",
            {"minMember": 7, "queue": "ads", "priorityClassName": "high"},
        ),
        ("pytorch-coscheduling", "scheduling.x-k8s.io", {"scheduleTimeoutSeconds": 300}),
    ],
)
def test_the_pod_groups_of_a_gang_keep_all_fields(name, group, fields, server, version):
    """The API server prunes unknown fields, so the CRD contains each field that it keeps."""
    (file,) = (path for path in FIXTURES if path.stem == name)
    (item,) = (
        item
        for item in rendered(name, file.read_text(), version)
        if item["apiVersion"].startswith(group)
    )

    _, stored, _ = server.create(item)

    assert item["spec"] == stored["spec"]
    assert fields.items() <= stored["spec"].items()
