"""The memory of commands that print many jobs hardly depends on their number."""

import gc
import json
import tracemalloc
from functools import partial

import pytest
from support import load, printed

from mlgen.documents.files import Text, documents
from mlgen.integrations import argo, argocd, helm, kustomize
from mlgen.output import files, resource_list
from mlgen.output.manifests import joined
from mlgen.result import Options

pytestmark = pytest.mark.slow

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: job-{}}}
spec: {{framework: tensorflow, image: a, roles: {{ps: {{}}, worker: {{replicas: 2}}}}}}
"""
"""A job with a supervisor. Its manifests have 130 kB, mostly the supervisor's program."""

FEW, MANY = 3, 10

EACH = 30_000
"""The bytes of memory that each further job may use: a part of its problems and identities."""

BLOCK = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n"
FLOW = "{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: ["


def stream(count):
    return "---\n".join(JOB.format(number) for number in range(count))


def gathered(form, count):
    texts = documents(Text("job.yaml", stream(count)))
    result = printed(texts, Options(), form)
    return result.files().values() if form == "folder" else joined(result.texts(), form)


def to_argo(count):
    return argo.argo([Text("job.yaml", stream(count))], Options(workflow=True), argo.Form())[0]


def to_argocd(_count):
    return argocd.generate({})[0]


def to_helm(count):
    lines = stream(count).encode().splitlines(keepends=True)
    return helm.post_render(lines, Options())[0]


def krm(start, end, count):
    """A ResourceList whose items are in the style of JSON."""
    items = ", ".join(json.dumps(load(JOB.format(number))) for number in range(count))
    return kustomize.krm(Text("<stdin>", f"{start}{items}{end}"), Options())[0]


def krm_in_block_style(count):
    jobs = (JOB.format(number).rstrip().replace("\n", "\n  ") for number in range(count))
    return kustomize.krm(Text("<stdin>", BLOCK + "".join(f"- {job}\n" for job in jobs)), Options())[
        0
    ]


PRINTERS = {
    "render": partial(gathered, "yaml"),
    "render --format json": partial(gathered, "json"),
    "render -o": partial(gathered, "folder"),
    "argo": to_argo,
    "argocd generate": to_argocd,
    "helm-post-render": to_helm,
    "krm": krm_in_block_style,
    "krm, list in brackets": partial(krm, FLOW, "]}\n"),
    "krm, list that is written again": partial(krm, BLOCK.replace("items:", "items: ["), "]\n"),
}


def peak(printer, count, tmp_path):
    (tmp_path / "job.yaml").write_text(stream(count))
    rare = gc.get_threshold()
    gc.set_threshold(700)  # json leaves cycles, which must not count
    tracemalloc.start()
    try:
        size = sum(map(len, printer(count)))
        return tracemalloc.get_traced_memory()[1], size
    finally:
        tracemalloc.stop()
        gc.set_threshold(*rare)


EVERYDAY = ("render", "krm")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in EVERYDAY else pytest.mark.slow) for name in PRINTERS],
)
def test_jobs_are_dropped_as_soon_as_their_text_is_written(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "MEMORY", 1)
    monkeypatch.setattr(resource_list, "MEMORY", 1)
    monkeypatch.setattr(resource_list, "CHUNK", 1000)
    peak(PRINTERS[name], 1, tmp_path)  # fills caches

    few, many = (peak(PRINTERS[name], count, tmp_path) for count in (FEW, MANY))

    assert many[1] - few[1] > (MANY - FEW) * 40_000
    assert many[0] - few[0] < (MANY - FEW) * EACH
