"""A topology from a few roles."""

import pytest

from mlgen import frameworks
from mlgen.jobfile.model import Network, RoleSpec, TrainingJob


@pytest.fixture
def topology():
    def topology(framework, roles, *, host=None, **options):
        """Lay out a job; `roles` maps a name to a number of replicas or a RoleSpec."""
        specs = {
            name: RoleSpec(name, spec) if isinstance(spec, int) else spec
            for name, spec in roles.items()
        }
        job = TrainingJob("ctr", framework, specs, options=options, network=Network(host=host))
        return frameworks.get(framework).topology(job)

    return topology
