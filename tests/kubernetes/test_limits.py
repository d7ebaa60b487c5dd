"""The limits of Kubernetes and Linux on sizes and ports."""

import pytest

from mlgen.kubernetes.objects import EPHEMERAL_PORTS, NODE_PORTS, PORT_MAX, overlong
from mlgen.problems import Problem

PATH = ("spec", "roles", "worker")
ROOM = 131072 - len("ENV=") - len("\0")


def test_a_variable_within_the_limit_of_linux_is_accepted():
    rows = ["", "x" * ROOM, "é" * (ROOM // 2), "🚀" * (131072 // 4 - 2)]

    assert [[] for text in rows] == [list(overlong(PATH, "ENV", text)) for text in rows]


@pytest.mark.parametrize(
    "text", ["x" * (ROOM + 1), "é" * (ROOM // 2 + 1), "🚀" * (131072 // 4 + 1)]
)
def test_a_longer_variable_is_an_error(text):
    size = len(text.encode())
    message = f"ENV has {size} bytes; Linux allows 131072"

    assert [Problem(PATH, message, "too-large", "use fewer replicas")] == list(
        overlong(PATH, "ENV", text)
    )


def test_node_ports_and_ephemeral_ports_are_adjacent():
    assert (30000, 32767, 32768, 60999) == (
        *(NODE_PORTS[0], NODE_PORTS[-1]),
        *(EPHEMERAL_PORTS[0], EPHEMERAL_PORTS[-1]),
    )
    assert 2**16 - 1 == PORT_MAX
