"""Rules about a whole job: `Topology` → the contradictions in its job file.

Each compares fields of the job file with each other, or with the roles of the finished topology.
Rules about commands and variables are in `mlgen/launch`.
"""

from mlgen.contradictions import lifecycle, network, pods, restarts, scheduling
from mlgen.contradictions._registry import of_jobs

__all__ = ["lifecycle", "network", "of_jobs", "pods", "restarts", "scheduling"]
