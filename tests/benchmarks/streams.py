"""The Helm post-renderer compared with `cat`, for streams without jobs.

Prints the CPU seconds and the peak memory of `mlgen helm-post-render` for growing streams of
ConfigMaps. The ratios are to the first row: linear time is 10x, and constant memory 1x.
"""

import tempfile

from measure import MLGEN, arguments, cost, number, ratio, script, table

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


def costs(size):
    """Return the Costs of the post-renderer and of cat for a stream of this many MB."""
    with tempfile.NamedTemporaryFile() as stream:
        stream.writelines([DOCUMENT] * (size * 1_000_000 // len(DOCUMENT) + 1))
        stream.flush()
        commands = ([*MLGEN, "helm-post-render"], ["cat"])
        return [cost(command, stdin=stream.name) for command in commands]


def main(argv):
    sizes = (1, 2) if arguments(__doc__, argv).small else (10, 100)
    found = [costs(size) for size in sizes]
    start = found[0][0].cpu
    rows = [
        [
            f"{size} MB",
            ratio(ours.cpu, start),
            ratio(ours.peak, found[0][0].peak),
            number(ours.cpu),
            number(theirs.cpu),
            number(ours.peak),
        ]
        for size, (ours, theirs) in zip(sizes, found, strict=True)
    ]
    table(["", "CPU", "memory", "CPU seconds", "of cat", "MB"], *rows)


if __name__ == "__main__":
    script(main)
