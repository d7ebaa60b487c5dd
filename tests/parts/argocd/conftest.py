"""Argo CD on its own control plane, which manages a namespace of the real cluster."""

import json
import subprocess

import pytest
from cluster.conftest import environment  # noqa: F401 - a fixture
from namespaces import temporary_namespace
from parts.argocd.application import Application
from parts.argocd.server import ArgoCD
from parts.gitops.repository import Repository
from parts.plane import plane
from parts.skips import available


@pytest.fixture(scope="session")
def namespace(environment):  # noqa: F811
    with temporary_namespace(environment) as created:
        yield created


@pytest.fixture(scope="session")
def argocd(environment, namespace):  # noqa: F811
    """A running Argo CD, with mlgen's plugin as in integrations/argocd."""
    command = ["kubectl", "config", "view", "--raw", "--flatten", "-o", "json"]
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    with plane() as created:
        server = available(ArgoCD, created)
        server.add_cluster(json.loads(done.stdout), namespace.name)
        yield server


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "repository")


@pytest.fixture
def application(argocd, repository, namespace):
    """Function that creates an Application of the repository, and deletes it after the test."""
    created = []

    def application(name, repository=repository, **source):
        created.append(Application(argocd, name, repository, namespace.name, **source))
        return created[-1]

    yield application
    for each in created:
        each.delete()
