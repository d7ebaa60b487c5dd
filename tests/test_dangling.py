"""No pod needs an object with a name that mlgen makes, and that neither it nor the user creates."""

import pytest
from support import ROOT, SLOW, each_file

from mlgen import MlgenError, Options, pipeline
from mlgen.checks.pods import with_jobs
from mlgen.documents.files import texts
from mlgen.kubernetes import references

FORMS = ({}, {"jobset": True}, {"workflow": True}, {"target": "argocd"})
"""The options for each output of mlgen."""

SSH = {"ssh-privatekey", "ssh-publickey"}
"""The keys of the Secrets that users create with `mlgen ssh-secret`, as a message says."""

CORPUS = ROOT.parent / "shared" / "corpus"
FOLDERS = sorted(path for path in CORPUS.rglob("*") if path.is_dir())


def needed(objects):
    """The kind and name of each object that pods refer to, except Secrets with SSH keys."""
    specs = (item.get("spec") or {} for item in with_jobs(objects))
    for template in (spec["template"] for spec in specs if "template" in spec):
        for reference in references.of_pod(template):
            if reference.kind != "Secret" or not {*reference.keys} & SSH:
                yield reference.kind, reference.name
        if "subdomain" in template["spec"]:
            yield "Service", template["spec"]["subdomain"]


def dangling(file, options):
    """The objects with a job's name that are neither in its manifests nor in the input's text."""
    try:
        jobs = pipeline.render(texts((str(file),)), Options(**options)).jobs
    except MlgenError:  # the input is rejected, or impossible in this form
        return
    text = file.read_text()
    for job in jobs:
        name = job.job.name
        present = {(item["kind"], item["metadata"]["name"]) for item in job.objects}
        if ("JobSet", name) in present:
            present.add(("Service", name))  # of JobSet's controller
        for key in {*needed(job.objects)} - present:
            made = key[1].startswith((f"{name}.", f"{name}-")) and key[1] not in text
            if made or key == ("Service", name):
                yield file.name, options, key


@each_file(sample=8)
def test_every_object_with_the_name_of_the_job_exists(file):
    assert [*dangling(file, {})] == []


@SLOW
@each_file()
def test_every_object_exists_in_other_outputs(file):
    assert [each for options in FORMS[1:] for each in dangling(file, options)] == []


@SLOW
@pytest.mark.skipif(not FOLDERS, reason="there is no ../shared/corpus")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_real_resources_need_only_what_exists(folder):
    files = [path for path in folder.iterdir() if path.suffix in (".yaml", ".yml", ".json")]

    assert [each for file in files for form in FORMS for each in dangling(file, form)] == []
