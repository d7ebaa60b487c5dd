"""`kubectl apply` in a loop while a gang restarts ten times: nothing is lost, or happens twice."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

pytestmark = pytest.mark.cluster

RESTARTS, PERIOD = 10, 2

FAILED = [f"worker-{2 if each % 2 else each // 2 % 3}" for each in range(1, RESTARTS + 1)]
"""The replica that fails in each attempt, which the Job controller may replace before it ends."""

SERVER_SIDE = ("--server-side",)
FLAGS = {"plain": (), "forced": (*SERVER_SIDE, "--force-conflicts"), "order": SERVER_SIDE}
"""The flags of `kubectl apply` by job."""

ORDER = {
    "roles": {
        "prepare": {"command": ["true"], "args": []},
        "server": {"restartPolicy": "Always"},
        "worker": {"replicas": 3, "waitFor": [{"role": "prepare", "until": "Complete"}]},
    },
    "successPolicy": {"role": "worker"},
}
"""Fields of the job whose workers are rendered suspended, and whose server is a StatefulSet."""


@pytest.fixture(scope="module")
def outputs(shared_namespace, claim, jobs):  # noqa: ARG001 - the jobs write into a folder
    """Apply the jobs again and again until they have ended, and return what kubectl wrote."""
    manifests = {job: render(shared_namespace, jobs / "apply-loop.yaml", job) for job in FLAGS}
    over = Event()

    def applied(job):
        """Apply a job until all have ended, and once more; return each stdout and stderr."""
        words, found = ("apply", *FLAGS[job], "-f", "-"), []
        while True:
            ends = over.is_set()
            found.append(shared_namespace.stdout_and_stderr(*words, stdin=manifests[job]))
            if ends:
                return found
            over.wait(PERIOD)

    with ThreadPoolExecutor(len(FLAGS)) as threads:
        loops = {job: threads.submit(applied, job) for job in FLAGS}
        try:
            for job in FLAGS:
                shared_namespace.recorded(job, bool)
                shared_namespace.ended(f"{job}-supervisor")
        finally:
            over.set()
    return {job: loop.result() for job, loop in loops.items()}


def render(namespace, file, job):
    """Render the job under another name, without the first delays of ten seconds and more."""
    fields = ORDER if job == "order" else {}
    values = {f"spec.{key}": json.dumps(value) for key, value in fields.items()}
    values |= {"metadata.name": job, "spec.volumes.data.subPath": job}
    settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    text, scope = namespace.render(file, *namespace.images, *settings), '"restartScope": "All"'
    assert text.count(scope) == 1
    return text.replace(scope, f'{scope}, "firstDelay": 0.05')


@pytest.mark.parametrize("job", FLAGS)
def test_each_restart_happens_and_counts_once(shared_namespace, outputs, claim, job):
    record = shared_namespace.record(job)
    starts = {path.name: Counter(path.read_text().split()) for path in (claim / job).glob("*-?")}
    (supervisor,) = shared_namespace.pods(f"{job}-supervisor")

    assert len(outputs[job]) > RESTARTS
    assert record["Succeeded"].startswith("True ")
    assert (record["restarts"], record["disruptions"]) == (str(RESTARTS), "0")
    names = ["worker-0", "worker-1", "worker-2", *(["server-0"] if job == "order" else [])]
    assert {*starts} == {*names}
    once = Counter(map(str, range(1, RESTARTS + 2)))
    for name, attempts in starts.items():
        again = Counter(str(after) for after, failed in enumerate(FAILED, 2) if failed == name)
        assert once <= attempts <= once + again, starts
    assert not (claim / job / "double").exists()
    assert supervisor["status"]["containerStatuses"][0]["restartCount"] == 0


def test_only_an_apply_that_would_stop_replicas_is_refused(outputs):
    problems = {job: {stderr for _, stderr in found if stderr} for job, found in outputs.items()}

    assert problems["plain"] == problems["forced"] == set()
    assert problems["order"]
    assert all('with "mlgen-supervisor"' in stderr for stderr in problems["order"])
