"""An Application as its users see it: its state and their actions."""

import json
import time

import yaml
from parts.gitops.training import SECONDS
from parts.programs import ROOT

EXAMPLE = ROOT / "integrations/argocd/application.yaml"


class Application:
    """The Application of the example, with its own repository and namespace."""

    def __init__(self, argocd, name, repository, namespace, **source):
        self.argocd, self.name, self.repository = argocd, name, repository
        spec = yaml.safe_load(EXAMPLE.read_text())["spec"]
        spec["source"] = {"repoURL": repository.url, "targetRevision": "main", "path": "."} | source
        spec["destination"] = {"name": "training", "namespace": namespace}
        argocd.create("argoproj.io/v1alpha1", "Application", name, spec=spec)

    def state(self, *words):
        """Return the status of the Application."""
        text = self.argocd.cli("app", "get", self.name, "-o", "json", *words)
        return json.loads(text)["status"]

    def until(self, sync="Synced", health="Healthy"):
        """Wait until the Application has synced the last commit and reached a state.

        Returns:
            its status.
        """
        deadline = time.monotonic() + SECONDS
        while True:
            state = self.state("--refresh")
            operation = state.get("operationState", {}).get("phase", "Succeeded")
            found = (
                state["sync"]["status"],
                state["health"]["status"],
                state["sync"].get("revision"),
                operation,
            )
            if found == (sync, health, self.repository.head, "Succeeded"):
                return state
            assert time.monotonic() < deadline, (found, state)

    def out_of_sync(self):
        """Return the names of the objects that differ from Git."""
        resources = self.state("--refresh")["resources"]
        return {item["name"] for item in resources if item["status"] != "Synced"}

    def conditions(self):
        """Return the messages of the Application's conditions after a hard refresh, by type."""
        found = self.state("--hard-refresh").get("conditions", [])
        return {each["type"]: each["message"] for each in found}

    def sync(self, *words):
        """Click Sync, and wait for its end."""
        self.argocd.cli("app", "sync", self.name, *words)

    def automated(self, *, on):
        """Switch automated syncs on or off."""
        flags = ["automated", "--auto-prune", "--self-heal"] if on else ["none"]
        self.argocd.cli("app", "set", self.name, "--sync-policy", *flags)

    def set(self, **fields):
        """Change fields of the Application."""
        self.argocd.patch("application", self.name, {"spec": fields})

    def rollback(self, number):
        """Roll back to an entry of the history, counted from the end."""
        entry = self.state()["history"][number]
        self.argocd.cli("app", "rollback", self.name, str(entry["id"]), "--prune")

    def delete(self):
        self.argocd.cli("app", "delete", self.name, "--yes", "--wait")
