"""The ports of a training container: the user's names, and ports on the node."""

from objects.samples import role, topology

from mlgen.objects.pod import pod_template


def container(*ports, **fields):
    """A training container that a template gives these ports."""
    template = {"spec": {"containers": [{"name": "main", "ports": list(ports)}]}}
    worker = role(spec={"templates": (template,), "image": "i"}, **fields)
    (main,) = pod_template(topology(worker), worker)["spec"]["containers"]
    return main["ports"]


def test_a_port_of_the_user_keeps_its_name():
    rows = [
        ([{"name": "tf", "containerPort": 80}], [{"name": "tf", "containerPort": 80}]),
        ([{"containerPort": 80}], [{"name": "peers", "containerPort": 80}]),
        (
            [{"name": "peers", "containerPort": 81}],
            [{"containerPort": 80}, {"name": "peers", "containerPort": 81}],
        ),
        (
            [{"name": "metrics", "containerPort": 81}],
            [{"name": "peers", "containerPort": 80}, {"name": "metrics", "containerPort": 81}],
        ),
    ]

    assert [container(*ports, port=80) for ports, _ in rows] == [expected for _, expected in rows]


def test_on_the_node_a_port_of_the_user_has_the_number_of_the_replica():
    ports = container(
        {"name": "tf", "containerPort": 80},
        {"name": "metrics", "containerPort": 81},
        port=80,
        index=0,
        replicas=1,
        host_ports={"peers": 20001},
    )

    assert ports == [
        {"name": "tf", "containerPort": 20001, "hostPort": 20001},
        {"name": "metrics", "containerPort": 81},
    ]
