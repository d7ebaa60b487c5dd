"""Measure how rendering scales with the number of workers.

Usage: `python tests/benchmarks/replicas.py`

Prints the CPU seconds of the whole process for 1,000 and 10,000 workers of several kinds of jobs,
and the ratio: 10 is linear, less is better. Both include Python startup and imports.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 3
SIZES = (1_000, 10_000)

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: big}
spec: {image: example/big:1, SPEC}
"""

KINDS = {
    "pytorch, ranks folded": "framework: pytorch, roles: {master: {}, worker: {replicas: N}}",
    "pytorch, elastic": "framework: pytorch, options: {elasticPolicy: {minReplicas: 1}},"
    " roles: {worker: {replicas: N}}",
    "tensorflow, sparse": "framework: tensorflow, options: {enableDynamicWorker: true},"
    " roles: {chief: {}, ps: {replicas: 4}, worker: {replicas: N}}",
    "mpi, kubectl-exec": "framework: mpi, roles: {launcher: {}, worker: {replicas: N}}",
    "mpi, ssh": "framework: mpi, options: {transport: ssh},"
    " roles: {launcher: {}, worker: {replicas: N}}",
    "jax, volcano": "framework: jax, resources: {memory: 1Gi}, scheduling: {gang: volcano},"
    " roles: {worker: {replicas: N}}",
    "pytorch, a Job each": "framework: pytorch,"
    " roles: {master: {workingDir: /}, worker: {replicas: N}}",
    "jax, on the nodes": "framework: jax,"
    " network: {host: true, hostPorts: {base: 1024, size: 20000}}, roles: {worker: {replicas: N}}",
}


def cpu_seconds(file):
    """Return the CPU seconds of an `mlgen render` process, the minimum of several runs."""
    seconds = []
    for _ in range(RUNS):
        before = os.times()
        command = [sys.executable, "-m", "mlgen", "render", "-o", os.devnull, str(file)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        after = os.times()
        user = after.children_user - before.children_user
        seconds.append(user + after.children_system - before.children_system)
    return min(seconds)


def main():
    print(f"{'':24} {'1,000':>8} {'10,000':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, spec in KINDS.items():
            costs = []
            for size in SIZES:
                file = Path(folder) / "job.yaml"
                file.write_text(JOB.replace("SPEC", spec.replace("N", str(size))))
                costs.append(cpu_seconds(file))
            print(f"{name:24} {costs[0]:8.2f} {costs[1]:8.2f} {costs[1] / costs[0]:6.1f}")


if __name__ == "__main__":
    main()
