"""The ports of a training container: those on which peers reach it, and the user's own.

A probe or a Service may refer to a port by the name that the user gave it. So where both declare
the same number, the user's port counts.
"""

from collections.abc import Mapping
from typing import Any

from mlgen.jobfile.model import containers_of
from mlgen.topology import PEERS, Role


def container_ports(role: Role) -> list[dict[str, Any]]:
    """Return the ports that peers use. A hostPort keeps two pods with the same port off one node.

    A name of a port of the user, which must be unique in a container, is not used again.
    """
    user_names = {port.get("name") for port in _user_ports(role)}
    ports = []
    for name, port in _constant_ports(role).items():
        number = role.host_ports.get(name, port)
        fields: dict[str, Any] = {} if name in user_names else {"name": name}
        fields["containerPort"] = number
        ports.append(fields | ({"hostPort": number} if name in role.host_ports else {}))
    return ports


def with_host_ports(role: Role, template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a user's template in which a port that peers use has the replica's port on the node.

    With host networking, each replica listens on a port of its own there.
    """
    containers = containers_of(template)
    if not role.host_ports or not containers:
        return template
    on_node = {
        port: role.host_ports[name]
        for name, port in _constant_ports(role).items()
        if name in role.host_ports
    }
    changed = [
        container | {"ports": [_on_node(port, on_node) for port in container["ports"]]}
        if container.get("name") == role.spec.main_container and container.get("ports")
        else container
        for container in containers
    ]
    return {**template, "spec": {**template["spec"], "containers": changed}}


def _on_node(port: dict[str, Any], on_node: Mapping[int, int]) -> dict[str, Any]:
    """Return a port with the number on the node, if there is one for its number."""
    number = on_node.get(port.get("containerPort", 0))
    return port | {"containerPort": number, "hostPort": number} if number else port


def _constant_ports(role: Role) -> dict[str, int]:
    """Return the ports by which peers reach a replica, by name."""
    return ({PEERS: role.port} if role.port else {}) | dict(role.more_ports)


def _user_ports(role: Role) -> list[dict[str, Any]]:
    """Return the ports that templates of the user declare for the training container."""
    return [port for patch in role.spec.container_patches for port in patch.get("ports") or []]
