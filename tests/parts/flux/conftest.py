"""Flux on its own control plane, which manages a namespace of the real cluster."""

import subprocess

import pytest
from cluster.conftest import environment  # noqa: F401 - a fixture
from namespaces import temporary_namespace
from parts.flux.server import Flux, Kustomization
from parts.gitops.repository import Rendered
from parts.plane import plane
from parts.skips import available


@pytest.fixture(scope="session")
def namespace(environment):  # noqa: F811
    with temporary_namespace(environment) as created:
        yield created


@pytest.fixture(scope="session")
def flux(environment):  # noqa: F811
    """A running kustomize-controller."""
    command = ["kubectl", "config", "view", "--raw", "--flatten"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    with plane() as created:
        server = available(Flux, created, done.stdout)
        files = server.serve()
        try:
            yield server
        finally:
            files.shutdown()


@pytest.fixture
def repository(tmp_path, namespace):
    return Rendered(tmp_path / "repository", namespace, "flux")


@pytest.fixture
def kustomization(flux, repository, namespace):
    """Function that creates a Kustomization of the repository, and deletes it after the test."""
    created = []

    def kustomization(name, **fields):
        fields |= repository.settings()
        created.append(Kustomization(flux, name, repository, namespace.name, **fields))
        return created[-1]

    yield kustomization
    for each in created:
        each.delete()
