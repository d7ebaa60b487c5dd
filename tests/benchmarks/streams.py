"""Measure the cost of the Helm post-renderer for manifests without jobs.

Usage: `python tests/benchmarks/streams.py`

Prints the CPU seconds and peak memory of `mlgen helm-post-render` for 10 MB and 100 MB of other
objects, and the ratios: 10 means linear time, and 1 means constant memory.
"""

import os
import resource
import subprocess
import sys
import tempfile

DOCUMENT = (
    b"""\
---
# Source: shop/templates/prices.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: prices}
data:
  table: |
"""
    + b"    a line as it stands in many a chart\n" * 50
)

SIZES = (10_000_000, 100_000_000)


def cost(size):
    """Return the CPU seconds, and the peak memory in MB of all children so far."""
    with tempfile.TemporaryFile() as stream:
        stream.writelines([DOCUMENT] * (size // len(DOCUMENT)))
        stream.seek(0)
        before = os.times()
        command = [sys.executable, "-m", "mlgen", "helm-post-render"]
        subprocess.run(command, stdin=stream, stdout=subprocess.DEVNULL, check=True)
        after = os.times()
    user = after.children_user - before.children_user
    seconds = user + after.children_system - before.children_system
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main():
    small, large = map(cost, SIZES)  # small first, as the peak includes earlier runs
    print(f"{'':8} {'10 MB':>8} {'100 MB':>8} {'ratio':>6}")
    for number, unit in enumerate(("seconds", "MB")):
        ratio = large[number] / small[number]
        print(f"{unit:8} {small[number]:8.2f} {large[number]:8.2f} {ratio:6.1f}")


if __name__ == "__main__":
    main()
