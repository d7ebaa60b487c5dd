"""Rules about a whole job: `Topology` → the contradictions in its job file.

Each compares fields of the job file with each other, or with the roles of the finished topology.
Rules about commands and variables are in `mlgen/launch`.
"""

from mlgen.contradictions import lifecycle, pods, restarts
from mlgen.contradictions.lifecycle import of_jobs

__all__ = ["lifecycle", "of_jobs", "pods", "restarts"]
