"""Mars 0.10.0 computes in the pods of a job, on Python 3.10."""

import json
from pathlib import Path

import pytest
from namespaces import temporary_namespace
from parts.pythons import installed, settings
from parts.skips import available

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
PACKAGES = ("pymars==0.10.0", "numpy<1.24", "pandas<2")
WORKERS = "import urllib.request as r; print(r.urlopen('http://sales-scheduler-0:7103/api/cluster/nodes?role=1').read().decode())"


@pytest.fixture
def namespace(environment):
    with temporary_namespace(environment) as created:
        yield created


def test_a_session_computes_on_two_workers(namespace):
    python = available(installed, "mars", "3.10", *PACKAGES)
    namespace.apply(HERE / "sales.yaml", *settings(python))

    def workers():
        words = ("exec", "job/sales-scheduler", "-c", "main", "--", "python", "-c", WORKERS)
        answer = namespace.kubectl(*words, check=False)
        return answer and len(json.loads(answer)["nodes"]) == 2

    namespace.until("two workers", workers, 600)
    words = ("exec", "-i", "job/sales-scheduler", "-c", "main", "--", "python", "-")
    printed = namespace.kubectl(*words, stdin=(HERE / "session.py").read_text())

    assert "sum 2000000.0 on sales-worker-0 sales-worker-1" in printed
