"""The registry of the rules about a whole job."""

from mlgen.problems import Problem
from mlgen.rules import Rules
from mlgen.topology import Topology

of_jobs: Rules[Topology, Problem] = Rules("topology")
