"""Ports that command lines set: where frameworks use them, and where replicas wait for them."""

import pytest

from mlgen.jobfile.model import RoleSpec, WaitFor
from mlgen.launch.line import lines_of, rendezvous_port, ssh_port

TORCHRUN = "sh -c exec&torchrun&--rdzv_endpoint=$MASTER_ADDR:29500&--rdzv_backend=c10d&a.py"
TORCHRUN = tuple(word.replace("&", " ") for word in TORCHRUN.split())


def spec(name, line="", **fields):
    """Return a role with a command line, split at spaces."""
    command = line if isinstance(line, tuple) else tuple(line.split())
    return RoleSpec(name, command=command, **fields)


def test_where_processes_meet():
    rows = [
        (TORCHRUN, 29500),
        ("torchrun --master_port 1 a.py", 1),
        ("torchrun --master_port $MASTER_PORT a.py", None),
        ("torchrun --master_port 1 --standalone a.py", None),
        ("torchrun --master_port 1 --rdzv_backend c10d a.py", None),
        ("torchrun --rdzv_endpoint h:2 --master_port 1 a.py", 2),
        ("torchrun --rdzv_endpoint h:2 --rdzv_backend etcd a.py", None),
        ("torchrun --rdzv_endpoint h:$P --rdzv_backend c10d a.py", None),
        ("torchrun --rdzv_endpoint h --rdzv_backend c10d a.py", 29400),
        ("torchrun --rdzv_endpoint h a.py", None),
        ("python -m torch.distributed.launch --master_port=1 a.py", 1),
        ("accelerate launch --main_process_port 1 a.py", 1),
        ("deepspeed --master_port=1 a.py", 1),
        ("horovodrun -p 22 python a.py", None),
        ("python a.py --master_port 1", None),
    ]

    assert [rendezvous_port(spec("a"), spec("b", line)) for line, _ in rows] == [
        port for _, port in rows
    ]


def test_where_ssh_connects_to():
    rows = [
        ("horovodrun -p 12345 python a.py", {}, 12345),
        ("deepspeed --ssh_port=1 --master_port 2 a.py", {}, 1),
        (("mpirun", "--mca", "plm_rsh_args", "-o A=b -p 2200", "a"), {}, 2200),
        (("mpirun", "-mca", "plm_rsh_args", "-oPort=2200", "a"), {}, 2200),
        (("mpirun", "-mca", "plm_rsh_args", "-p $P", "a"), {}, None),
        ("mpirun a", {"OMPI_MCA_plm_rsh_args": "-p2200"}, 2200),
        ("mpirun a -p 2", {"OMPI_MCA_plm_rsh_args": {"valueFrom": {}}}, None),
    ]

    assert [ssh_port(spec("launcher", line, env=env)) for line, env, _ in rows] == [
        port for _, _, port in rows
    ]


def test_where_sshd_listens():
    rows = [
        ("/usr/sbin/sshd -De -p 2200", 2200),
        ("/usr/sbin/sshd -De -oPort=2200", 2200),
        (("sh", "-c", "mkdir -p 1; /usr/sbin/sshd -De -f a"), None),
        (("sh", "-c", "/usr/sbin/sshd -D; mkdir -p 1"), None),
        ("", None),
    ]

    assert [lines_of(spec("worker", line)).sshd_port for line, _ in rows] == [
        port for _, port in rows
    ]


def test_pytorch_meets_at_the_port_of_the_flags(topology):
    waits = (WaitFor("master"),)
    roles = {"master": spec("master", TORCHRUN), "worker": spec("worker", TORCHRUN)}
    static = topology("pytorch", roles).roles[0]
    elastic = topology("pytorch", {"worker": spec("worker", TORCHRUN)}, elasticPolicy={}).roles[0]

    assert (static.env["MASTER_PORT"], static.port) == ("29500", 29500)
    assert static.env["PET_RDZV_CONF"] == "read_timeout=600"
    assert elastic.env["PET_RDZV_ENDPOINT"] == "ctr-worker-0:29500"
    assert {wait.port for role in (static, elastic) for wait in role.waits} == {None}

    roles = {"master": spec("master", TORCHRUN, port=1), "worker": spec("worker", wait_for=waits)}
    master, worker = topology("pytorch", roles).roles
    assert (master.env["MASTER_PORT"], worker.waits[0].port) == ("1", 29500)


def test_flags_with_a_port_are_reported_with_host_networking(topology):
    roles = {"worker": spec("worker", "torchrun --master_port=7 a.py", replicas=2)}

    (problem,) = topology("pytorch", roles, host=True).problems

    assert (problem.path, problem.code) == (("spec", "roles", "worker", "command", 1), "launch")
    assert not topology("pytorch", roles).problems


OWN = "/usr/sbin/sshd -De"


@pytest.mark.parametrize(
    ("launcher", "worker", "fields", "port"),
    [
        ("mpirun a", "", {}, 2222),
        ("mpirun a", "sshd -De -f /root/.ssh/sshd_config", {}, 2222),
        ("mpirun a", OWN, {}, None),
        ("mpirun a", f"{OWN} -p 2200", {}, 2200),
        ("mpirun a", OWN, {"port": 22}, 22),
        ("horovodrun -p 2200 a", OWN, {}, 2200),
        ("horovodrun -p 2200 a", "", {}, 2200),
    ],
)
def test_ssh_has_a_port_only_if_it_is_known(topology, launcher, worker, fields, port):
    roles = {"launcher": spec("launcher", launcher), "worker": spec("worker", worker, **fields)}
    first, second = topology("mpi", roles, transport="ssh").roles

    env = second.helpers[0].env
    assert (first.waits[0].port, second.port) == (port, port)
    assert env.get("MLGEN_SSH_PORT") == env.get("MLGEN_SSHD_PORT") == (port and str(port))
    assert env["MLGEN_SSH_ATTEMPTS"] == ("10" if port else "300")
    assert first.env["OMPI_MCA_plm_rsh_args"].endswith("10" if port else "300")


MADE = "sh -c 'grep -v HostKey /root/.ssh/sshd_config >/tmp/own; /usr/sbin/sshd -De -f /tmp/own'"


@pytest.mark.parametrize(
    ("worker", "hosts"),
    [
        ("", "ctr-worker-*"),
        ("sshd -De -f /root/.ssh/sshd_config", "ctr-worker-*"),
        (OWN, None),
        (MADE, None),
    ],
)
def test_host_keys_are_checked_only_if_they_are_known(topology, worker, hosts):
    roles = {"launcher": spec("launcher", "mpirun a"), "worker": spec("worker", worker)}

    first, second = topology("mpi", roles, transport="ssh").roles

    for role in (first, second):
        assert role.helpers[0].env.get("MLGEN_SSH_HOSTS") == hosts


@pytest.mark.parametrize(
    ("launcher", "worker", "message"),
    [
        ("mpirun a", f"{OWN} -p 22", "in the command, sshd listens on port 22, not 2222"),
        (
            "horovodrun -p 22 a",
            OWN,
            "in the command, the launcher connects to port 22, not 2222",
        ),
        ("horovodrun -p 2222 a", f"{OWN} -p 2222", None),
    ],
)
def test_a_port_that_a_command_contradicts_is_reported(topology, launcher, worker, message):
    roles = {
        "launcher": spec("launcher", launcher),
        "worker": spec("worker", worker, port=2222),
    }

    problems = topology("mpi", roles, transport="ssh").problems

    assert [problem.message for problem in problems if problem.code == "launch"] == (
        [message] if message else []
    )


@pytest.mark.parametrize("transport", ["ssh", "kubectl-exec"])
@pytest.mark.parametrize("waits", [None, (WaitFor("worker", "name"),)])
def test_an_elastic_job_waits_for_its_minimum(topology, transport, waits):
    policy = {"minReplicas": 2, "maxReplicas": 4}
    roles = {"launcher": spec("launcher", wait_for=waits), "worker": 3}
    launcher = topology("horovod", roles, elasticPolicy=policy, transport=transport).roles[0]

    awaited = [str(wait.hosts) for wait in launcher.waits]
    if waits is None and transport == "kubectl-exec":
        assert launcher.helpers[0].env["MLGEN_PODS"] == "ctr-worker-[0-1]"
    else:
        assert awaited == ["ctr-worker-[0-1].ctr"]


@pytest.mark.parametrize(
    ("line", "ports", "env"),
    [
        ("", [6379, 8265], "8265"),
        ("ray start --head --block", [6379, 8265], "8265"),
        ("ray start --head --block --port=1 --dashboard-port 2", [1, 2], "2"),
        ("ray start --head --block --port=$P --dashboard-port=2", [None, 2], "2"),
        ("python a.py", [None, None], "8265"),
    ],
)
def test_ray_waits_for_ports_that_are_known(topology, line, ports, env):
    submitter = spec("submitter", "ray job submit -- python a.py")
    roles = {"head": spec("head", line), "worker": 1, "submitter": submitter}

    _, worker, last = topology("ray", roles).roles

    assert [role.waits[0].port for role in (worker, last)] == ports
    assert last.env["RAY_ADDRESS"] == f"http://ctr-head-0.ctr:{env}"
