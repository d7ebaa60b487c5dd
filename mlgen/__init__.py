"""mlgen renders a distributed training job to plain Kubernetes manifests.

One way, six rooms, and data only moves to the right:

    job file ─► job ─► frameworks ─► topology ─► objects ─► checks ─► emit ─► YAML

`mlgen.render` walks it; nothing in it reads a clock, the network or the environment.
"""

__version__ = "0.1.0"
