"""Seconds without training after a rank is killed, compared with the Job controller alone.

Runs on the only node of the cluster of KUBECONFIG, with the images of tests/cluster.

The first figure is the time from the death of a rank until all ranks train again. It includes a
back-off of 10 seconds, or 20 for the second restart. The second figure is the time in which the Job
controller alone replaces a pod that only imports PyTorch, with a back-off of 10 seconds.
"""

import json
import os
import secrets
import subprocess
import tempfile
import time
from pathlib import Path

from measure import MLGEN, MissingError, arguments, number, ratio, script, table

JOBS = Path(__file__).parent.parent / "cluster/jobs/restarts.yaml"
KILLS = {"3": 10, "6": 20}
"""Steps at which a rank is killed, and the following back-off."""

REPLACED = """\
[ $MLGEN_REPLICA_INDEX = 0 ] || exec sleep 120
[ -e /data/killed-0 ] || { date +%s.%N > /data/killed-0; exit 137; }
python3 -c 'import torch, time; print(0, 0, time.time())' >> /data/starts
"""

BARE = {
    "apiVersion": "mlgen.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "bare"},
    "spec": {
        "framework": "generic",
        "image": "mlgen.test/ml:1",
        "command": ["sh", "-c", REPLACED],
        "roles": {"worker": {"replicas": 3, "restartPolicy": "ExitCode"}},
    },
}


def run(job, namespace, done):
    """Run a job until a file shows that it is done; return when ranks died and started."""
    with tempfile.TemporaryDirectory() as folder:
        volume = f"spec.volumes.data={{mountPath: /data, hostPath: {folder}}}"
        image = "spec.helpers.pythonImage=mlgen.test/python:3"
        render = [*MLGEN, "render", "-", "--set", volume, "--set", image]
        manifests = subprocess.run(render, input=job, check=True, stdout=subprocess.PIPE, text=True)
        apply = ["kubectl", "-n", namespace, "apply", "-f", "-"]
        subprocess.run(
            apply, input=manifests.stdout, check=True, stdout=subprocess.DEVNULL, text=True
        )
        (Path(folder) / "go").touch()
        starts = Path(folder) / "starts"
        while not starts.exists() or len(starts.read_text().splitlines()) < done:
            time.sleep(1)
        deaths = {file.name[7:]: file.read_text() for file in Path(folder).glob("killed-*")}
        return deaths, [line.split() for line in starts.read_text().splitlines()]


def main(argv):
    if arguments(__doc__, argv).small or "KUBECONFIG" not in os.environ:
        raise MissingError("needs the cluster of KUBECONFIG")
    namespace = f"mlgen-{secrets.token_hex(4)}"
    subprocess.run(["kubectl", "create", "namespace", namespace], check=True)
    try:
        deaths, ((_, _, at),) = run(json.dumps(BARE), namespace, 1)
        bare = float(at) - float(deaths["0"])
        rows = [["one bare pod", ratio(bare, bare), number(bare), 10]]
        ddp = next(text for text in JOBS.read_text().split("\n---\n") if "{name: ddp}" in text)
        deaths, starts = run(ddp, namespace, 9)
        for step, backoff in KILLS.items():
            last = max(float(at) for _, first, at in starts if first == step)
            seconds = last - float(deaths[step])
            rows.append(["all ranks", ratio(seconds, bare), number(seconds), backoff])
        table(["", "ratio", "seconds", "of which the back-off"], *rows)
    finally:
        delete = ["kubectl", "-n", namespace, "delete", "jobs", "--all", "--wait=false"]
        subprocess.run(delete, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["kubectl", "delete", "namespace", namespace, "--wait=false"], check=True)


if __name__ == "__main__":
    script(main)
