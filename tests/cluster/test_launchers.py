"""Killed jobs end as documented: some of the jobs of `python tests/launchers`.

All run at once in one namespace, and do not affect each other.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from cluster.conftest import bound, skip_without
from launchers.commands import BY_NAME as LAUNCHERS
from launchers.deaths import BY_NAME as DEATHS
from launchers.play import Play
from ruamel.yaml import YAML
from support import ROOT

pytestmark = pytest.mark.cluster

CELLS = (
    ("torchrun", "exception"),
    ("torchrun", "SIGKILL"),
    ("python", "exit 42, ExitCode"),
    ("python", "pod deleted"),
    ("python", "kubelet rejects"),
    ("python", "sidecar ends with 143"),
)


@pytest.fixture(scope="module")
def results(shared_namespace, here, tmp_path_factory):  # noqa: ARG001 - pods mount folders
    """The results of the jobs, which run at the same time. `index` is the job of the home page."""
    skip_without("mlgen.test/torch:2", "torch2", shared_namespace.environment)
    folders = {name: tmp_path_factory.mktemp(name) for name in ("wikipedia", "checkpoints")}
    plays = {
        (launcher, death): Play(
            shared_namespace, tmp_path_factory.mktemp("job"), LAUNCHERS[launcher], DEATHS[death]
        )
        for launcher, death in CELLS
    }
    plays["index"] = home_page(shared_namespace, folders["checkpoints"])
    with ExitStack() as claims, ThreadPoolExecutor(len(plays)) as pool:
        for name, folder in folders.items():
            claims.enter_context(bound(shared_namespace, name, folder))
        return dict(zip(plays, pool.map(Play.run, plays.values()), strict=True))


def home_page(namespace, folder):
    """Return the home page's job without GPUs, with an existing image and a rank that is killed."""
    play = Play(namespace, folder, LAUNCHERS["torchrun"], DEATHS["SIGKILL"])
    text = re.search(
        r"```yaml title=\"job.yaml\"\n(.*?)```", (ROOT / "docs/index.md").read_text(), re.DOTALL
    )
    document = YAML(typ="safe").load(text[1])
    play.job, code = document["metadata"]["name"], play.spec["volumes"]["code"]
    play.spec = document["spec"] | {
        "image": play.spec["image"],
        "workingDir": code["mountPath"],
        "options": {"nprocPerNode": 1},  # one rank per GPU, or per CPU without GPUs
    }
    play.spec["volumes"]["code"] = code
    del play.spec["roles"]["worker"]["resources"]
    return play


@pytest.mark.parametrize("cell", [*CELLS, "index"], ids=str)
def test_a_job_ends_as_documented(results, cell):
    assert not results[cell].problems, "\n".join(results[cell].problems)
