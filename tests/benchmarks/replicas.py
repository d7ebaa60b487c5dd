"""What rendering costs with the number of workers: `python tests/benchmarks/replicas.py`.

Prints seconds of CPU of the whole process for 1,000 and 10,000 workers of several kinds, and the
ratio: 10 is linear, less is cheaper. The start of Python and the imports are in both.
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
metadata: {{name: big}}
spec:
  framework: {framework}
  image: example/big:1
  options: {options}
  roles: {roles}
"""

KINDS = {
    "pytorch, ranks folded": ("pytorch", "{}", "{master: {}, worker: {replicas: N}}"),
    "pytorch, elastic": ("pytorch", "{elasticPolicy: {minReplicas: 1}}", "{worker: {replicas: N}}"),
    "tensorflow, sparse": (
        "tensorflow",
        "{enableDynamicWorker: true}",
        "{chief: {}, ps: {replicas: 4}, worker: {replicas: N}}",
    ),
    "mpi, kubectl-exec": ("mpi", "{}", "{launcher: {}, worker: {replicas: N}}"),
    "mpi, ssh": ("mpi", "{transport: ssh}", "{launcher: {}, worker: {replicas: N}}"),
    "pytorch, a Job each": ("pytorch", "{}", "{master: {workingDir: /}, worker: {replicas: N}}"),
}


def cpu_seconds(file):
    """CPU of one `mlgen render` as a whole process: the least of a few runs."""
    found = []
    for _ in range(RUNS):
        before = os.times()
        command = [sys.executable, "-m", "mlgen", "render", "-o", os.devnull, str(file)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        after = os.times()
        user = after.children_user - before.children_user
        found.append(user + after.children_system - before.children_system)
    return min(found)


def main():
    print(f"{'':24} {'1,000':>8} {'10,000':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (framework, options, roles) in KINDS.items():
            costs = []
            for size in SIZES:
                file = Path(folder) / "job.yaml"
                text = JOB.format(framework=framework, options=options, roles=roles)
                file.write_text(text.replace("N", str(size)))
                costs.append(cpu_seconds(file))
            print(f"{name:24} {costs[0]:8.2f} {costs[1]:8.2f} {costs[1] / costs[0]:6.1f}")


if __name__ == "__main__":
    main()
