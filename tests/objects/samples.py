"""Small jobs, roles and topologies. Tests set only the fields that matter to them."""

from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.topology import Order, Role, Topology


def job(**fields):
    return TrainingJob(**{"name": "mnist", "framework": "tensorflow", "roles": {}} | fields)


def role(name="worker", spec=(), **fields):
    return Role(**{"name": name, "replicas": 2, "spec": RoleSpec(name, **dict(spec))} | fields)


LATER = role("later", orders=(Order("worker", "Complete"),))
"""A role that starts after another has succeeded."""


def topology(*roles, supervised=False, decides="one", files=(), **fields):
    return Topology(job(**fields), roles, supervised, decides, dict(files))


def one(iterator):
    """The only item of an iterator."""
    (item,) = iterator
    return item


def at(manifest, *path):
    """The value at a path in a manifest."""
    for key in path:
        manifest = manifest[key]
    return manifest
