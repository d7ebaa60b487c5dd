"""`mlgen verify` on what the real kustomize makes of rendered manifests."""

import subprocess
import sys

import pytest
from support import FIXTURES

from mlgen import Options, pipeline
from mlgen.documents.files import texts
from mlgen.output.manifests import text as manifests_text

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
    """Every job that names no namespace and needs no cluster domain, each name once."""
    found = {}
    for path in FIXTURES:
        for job in pipeline.render(texts((str(path),)), Options()).jobs:
            if not job.job.namespace:
                found.setdefault(job.job.name, job)
    return list(found.values())


@pytest.mark.parametrize("name", HARMLESS)
def test_what_breaks_nothing_is_verified(name, verify, tmp_path):
    few = jobs()
    (tmp_path / "jobs.yaml").write_text(manifests_text(few, "yaml"))

    done = verify(HARMLESS[name])

    assert (0, b"") == (done.returncode, done.stderr)
    assert len(few) == len(done.stdout.splitlines())


@pytest.mark.parametrize("name", RENAMED)
def test_every_job_that_kustomize_renames_is_found(name, verify, tmp_path):
    few = jobs()
    (tmp_path / "jobs.yaml").write_text(manifests_text(few, "yaml"))

    done = verify(RENAMED[name])

    assert (1, b"") == (done.returncode, done.stdout)
    told = {line.split(b": ")[1].decode() for line in done.stderr.splitlines()}
    assert {job.job.name for job in few} == told


def test_name_references_of_the_subdomain_alone_do_not_help(verify, tmp_path):
    """The pods of a Job then have names under the Service again, and are dialled by the old."""
    (tmp_path / "names.yaml").write_text(
        "nameReference:\n- kind: Service\n  version: v1\n  fieldSpecs:\n"
        "  - {group: batch, kind: Job, path: spec/template/spec/subdomain}\n"
    )
    few = [job for job in jobs() if job.job.name == "mnist"]
    (tmp_path / "jobs.yaml").write_text(manifests_text(few, "yaml"))

    done = verify("namePrefix: dev-\nconfigurations: [names.yaml]\n")

    assert 1 == done.returncode
    assert b"have names under the Service" not in done.stderr
    assert b'names the peer "mnist-ps-0"' in done.stderr
