"""The master of ElasticDL 0.2.0rc3 trains with its ps and workers, on Python 3.6."""

import re
from pathlib import Path

import pytest
from namespaces import temporary_namespace
from parts.pythons import installed, settings
from parts.skips import available

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
VERSION = "0.2.0rc3"
PARTS = ("elasticdl", "elasticdl_client", "elasticdl_preprocessing")
PACKAGES = (*(f"{name}=={VERSION}" for name in PARTS), "protobuf<3.20", "MarkupSafe<2.1")


@pytest.fixture
def namespace(environment):
    with temporary_namespace(environment) as created:
        yield created


@pytest.mark.parametrize("go", ["true", "false"])
def test_the_master_trains_with_what_it_creates(go, namespace):
    """Takes over 30 seconds, after which parameter servers stop unless they find their master."""
    python = available(installed, "elasticdl", "3.6", *PACKAGES)
    folders = {"/zoo": HERE / "zoo", "/root/.bashrc_elasticdl": HERE / "bashrc"}
    words = (*settings(python, folders), "--set", f"spec.options.arguments.use_go_ps={go}")
    namespace.apply(HERE / "line.yaml", *words)

    namespace.completed("elasticdl-line-master", 900)

    created = [f"elasticdl-line-{role}-{index}" for role in ("ps", "worker") for index in (0, 1)]

    def ended():
        phases = {name: namespace.get("pod", name)["status"]["phase"] for name in created}
        return set(phases.values()) == {"Succeeded"}

    namespace.until("ps and workers ended", ended)
    logs = namespace.kubectl("logs", "elasticdl-line-worker-0")
    losses = [float(loss) for loss in re.findall(r"Loss = (\S+),", logs)]
    assert losses[-1] < losses[0] / 10

    # The objects that the master created are deleted with it.
    namespace.kubectl("delete", "job", "elasticdl-line-master")
    own = ("pods,services", "-l", "elasticdl-job-name=line", "-o", "name")
    namespace.until("all has gone", lambda: not namespace.kubectl("get", *own))
