"""A topology from a few roles."""

import pytest

from mlgen import frameworks
from mlgen.jobfile.model import Network, RoleSpec, RunPolicy, TrainingJob


@pytest.fixture
def topology():
    def topology(framework, roles, *, host=None, clean="None", **options):
        """Lay out a job; `roles` maps a name to a number of replicas or a RoleSpec."""
        specs = {
            name: RoleSpec(name, spec) if isinstance(spec, int) else spec
            for name, spec in roles.items()
        }
        policies = {"network": Network(host=host), "run_policy": RunPolicy(clean)}
        job = TrainingJob("ctr", framework, specs, options=options, **policies)
        return frameworks.get(framework).topology(job)

    return topology
