"""PaddlePaddle: collective training, or masters with parameter servers and workers.

The variables match Kubeflow's training operator (pkg/controller.v1/paddlepaddle/envvar.go).
`python -m paddle.distributed.launch` reads them as its options. A launcher hosts the rendezvous
if the host in PADDLE_MASTER equals its POD_IP as a string
(paddle/distributed/launch/controllers/master.py). With a host name in both variables, all replicas
have the same template and share one Job.
"""

from functools import partial

from mlgen.frameworks._planner import Planner, RoleFields, Viewer, variables
from mlgen.topology import INDEX, POD_IP, PodField


def lay_out(planner: Planner) -> None:
    """Add masters and workers. The masters decide; without masters, the workers decide."""
    specs = planner.specs("master", "worker")
    leader = specs[0].name
    planner.decider(leader, [leader])
    leader_resolves = planner.wait(specs[0], count=1)
    for spec in specs:
        planner.add(
            spec,
            decides=spec.name == leader,
            restart="OnFailure",
            each=partial(_env, planner, leader, spec.name),
            waits=(leader_resolves,) if planner.job.replicas > 1 else (),
        )


def _env(planner: Planner, leader: str, name: str, viewer: Viewer) -> RoleFields:
    """Return the variables of one role."""
    env = variables("paddle", job=planner.job) | _rendezvous(planner, leader, name, viewer)
    if leader == "worker":
        env["PADDLE_RANK"] = INDEX
    else:
        env["PADDLE_SERVER_NUM" if name == leader else "PADDLE_TRAINER_NUM"] = "1"
    return {"env": env}


def _rendezvous(
    planner: Planner, leader: str, name: str, viewer: Viewer
) -> dict[str, str | PodField]:
    """Return POD_IP and PADDLE_MASTER: host names, or with host networking the pod's IP address.

    With host networking a name resolves to a Service, which forwards only one port, while the
    trainers also connect to other ports.
    """
    roles = planner.job.roles
    port = planner.port(roles[leader], 0, viewer)
    host = planner.first_host(roles[leader])
    if viewer is None:
        own = planner.hosts(roles[name], 1)
        return {"POD_IP": f"{own.before}{INDEX}{own.after}", "PADDLE_MASTER": f"{host}:{port}"}
    host = "$(POD_IP)" if viewer == (leader, 0) else host
    return {"POD_IP": POD_IP, "PADDLE_MASTER": f"{host}:{port}"}
