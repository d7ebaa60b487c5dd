"""Run `mlgen verify` on rendered manifests that the real kustomize has transformed."""

import subprocess
import sys

import pytest
from support import FIXTURES, manifests_text

from mlgen import Options, pipeline
from mlgen.documents.files import texts

HARMLESS = {
    "namespace": "namespace: vision\n",
    "labels": "labels: [{pairs: {team: vision}, includeSelectors: true}]\n",
    "annotations": "commonAnnotations: {team: vision}\n",
    "images": "images: [{name: busybox, newName: registry.example/busybox}]\n",
}
RENAMED = {"prefix": "namePrefix: dev-\n", "suffix": "nameSuffix: -v2\n"}


@pytest.fixture
def verify(tool, tmp_path):
    kustomize = tool("kustomize")

    def verify(options):
        (tmp_path / "kustomization.yaml").write_text(f"resources: [jobs.yaml]\n{options}")
        built = subprocess.run([kustomize, "build", tmp_path], capture_output=True, check=True)
        return subprocess.run(
            [sys.executable, "-m", "mlgen", "verify", "-"],
            input=built.stdout,
            capture_output=True,
            check=False,
        )

    return verify


def jobs():
    """Return one job per name, except jobs that set a namespace or need a cluster domain."""
    by_name = {}
    for path in FIXTURES:
        for job in pipeline.render(texts((str(path),)), Options()).jobs:
            if not job.job.namespace:
                by_name.setdefault(job.job.name, job)
    return list(by_name.values())


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_transformations_pass_verification(name, verify, tmp_path):
    rendered_jobs = jobs()
    (tmp_path / "jobs.yaml").write_text(manifests_text(rendered_jobs, "yaml"))

    result = verify(HARMLESS[name])

    assert (0, b"") == (result.returncode, result.stderr)
    assert len(rendered_jobs) == len(result.stdout.splitlines())


@pytest.mark.parametrize("name", RENAMED)
def test_every_job_renamed_by_kustomize_is_reported(name, verify, tmp_path):
    rendered_jobs = jobs()
    (tmp_path / "jobs.yaml").write_text(manifests_text(rendered_jobs, "yaml"))

    result = verify(RENAMED[name])

    assert result.returncode == 1
    reported = {line.split(b": ")[1].decode() for line in result.stdout.splitlines()}
    assert {job.job.name for job in rendered_jobs} == reported


def test_a_name_reference_for_the_subdomain_alone_is_not_enough(verify, tmp_path):
    """Pods then have DNS names under the renamed Service, but their peers use the old names."""
    (tmp_path / "names.yaml").write_text(
        "nameReference:\n- kind: Service\n  version: v1\n  fieldSpecs:\n"
        "  - {group: batch, kind: Job, path: spec/template/spec/subdomain}\n"
    )
    rendered_jobs = [job for job in jobs() if job.job.name == "mnist"]
    (tmp_path / "jobs.yaml").write_text(manifests_text(rendered_jobs, "yaml"))

    result = verify("namePrefix: dev-\nconfigurations: [names.yaml]\n")

    assert 1 == result.returncode
    assert b"have names under the Service" not in result.stdout
    assert b'refers to the peer "mnist-ps-0"' in result.stdout
