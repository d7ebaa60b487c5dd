"""Ray: a cluster of a head and workers, and a submitter that submits the training to it.

Each role except the head and the submitter is a group of workers.

The commands of head and workers match Volcano
(pkg/controllers/job/plugins/distributed-framework/ray). The submitter matches KubeRay:
`ray job submit` reads the head's address from RAY_ADDRESS, prints the log of the job, and exits
with its status. Without a submitter, the head's command must start Ray and run the training.
https://docs.ray.io/en/latest/cluster/cli.html
"""

from functools import partial

from mlgen.frameworks._planner import Planner, RoleFields, Viewer
from mlgen.jobfile.model import RoleSpec, TrainingJob
from mlgen.launch.line import Launch, lines_of
from mlgen.topology import ConfigFiles, Mount, PodField, Wait

DASHBOARD, CLIENT = 8265, 10001
"""Default ports of the head: the dashboard with the job API, and Ray clients. The head also has the
port of the cluster's control store."""

SCRIPTS, SUBMIT = "/mlgen/ray", "submit-ray.sh"
"""The folder in which the submitter finds the script that runs its command."""

JOB_UID = PodField("metadata.labels['batch.kubernetes.io/controller-uid']")

OWN_SUBMISSION = {"submission_id", "job_id", "no_wait", "address", "headers", "verify"}
"""Options of `ray job submit` with which mlgen does not set the ID of the submission: options that
set it, and options that the other commands about the submission would also need."""


def lay_out(planner: Planner) -> None:
    """Add a head and groups of workers, which serve, and a submitter, which decides."""
    job, start = planner.job, _start(planner.job)
    groups = [spec for name, spec in job.roles.items() if name not in ("head", "submitter")]
    dashboard = start.number("dashboard_port") or DASHBOARD
    client = start.number("ray_client_server_port") or CLIENT
    planner.ports = {"head": start.number("port") or planner.ports["head"]}
    planner.more_ports = {"head": {"dashboard": dashboard, "client": client}}
    leader = "submitter" if "submitter" in job.roles else "head"
    planner.decider(leader, [leader])
    if not (job.roles[leader].command or job.roles[leader].args):
        message = f"no role runs the training: {leader} has no command"
        hint = "add submitter: {command: [ray, job, submit, --, python, train.py]}"
        planner.report(("roles", leader), message, hint)
    head, serves = job.roles["head"], leader == "submitter"
    name = job.options.get("headService")
    aliases = {name: None} if name else {}
    each = partial(_head, planner)
    planner.add(head, serves=serves, decides=not serves, aliases=aliases, each=each)
    for worker in groups:
        address = planner.addresses(head)[0]
        planner.add(
            worker,
            serves=True,
            command=("ray", "start", "--block", f"--address={address}"),
            waits=(_wait(planner, "port", planner.port(head)),),
        )
    for submitter in planner.specs("submitter"):
        once = _submits_once(submitter)
        nodes = 1 + sum(worker.replicas for worker in groups)
        counts = once and job.options.get("waitForWorkers")
        planner.add(
            submitter,
            decides=True,
            env={"RAY_ADDRESS": f"http://{planner.first_host(head)}:{dashboard}"}
            | ({"MLGEN_SUBMISSION": JOB_UID} if once else {})
            | ({"MLGEN_NODES": str(nodes)} if counts else {}),
            wrapper=("sh", f"{SCRIPTS}/{SUBMIT}") if once else (),
            mounts=(Mount(ConfigFiles("ray-submit", (SUBMIT,)), SCRIPTS),) if once else (),
            waits=(_wait(planner, "dashboard_port", dashboard),),
        )


def _submits_once(submitter: RoleSpec) -> bool:
    """Return True if the command is `ray job submit`, without options about the submission itself.

    A new pod of the Job, for example after a drain, would submit the training a second time. With
    the ID of the first submission, it follows that one. Ray only rejects an ID that exists:
    https://github.com/ray-project/kuberay/issues/2154
    """
    lines = lines_of(submitter)
    patched = any("command" in patch for patch in submitter.container_patches)
    return (
        lines.words[:3] == ("ray", "job", "submit")
        and bool(submitter.command)
        and not patched
        and not OWN_SUBMISSION & set(lines.launches[0].options)
    )


def _start(job: TrainingJob) -> Launch:
    """Return `ray start` in the head's command; without options if the command lacks it."""
    launches = lines_of(job.roles["head"]).launches
    starts = (launch for launch in launches if launch.script[:1] == ("start",))
    return next(starts, Launch("ray", {}))


def _wait(planner: Planner, option: str, port: int) -> Wait:
    """Return a wait for a port of the head if its command is the default or `ray start`.

    `ray start --address` and `ray job submit` stop trying after seconds. Any other command of the
    head may start Ray on other ports, so peers then wait for the head's name.

    Args:
        planner: the planner of a job with a head.
        option: the option of `ray start` that sets the port.
        port: the port, unless the option contains a variable.
    """
    head, start = planner.job.roles["head"], _start(planner.job)
    is_variable = option in start.options and start.number(option) is None
    is_known = bool(start.script or not lines_of(head).words) and not is_variable
    return Wait("head", planner.hosts(head), port if is_known else None)


def _head(planner: Planner, viewer: Viewer) -> RoleFields:
    """Return the command of the head."""
    head = planner.job.roles["head"]
    gcs = planner.port(head, 0, viewer)
    dashboard, client = (planner.port(head, 0, viewer, name) for name in ("dashboard", "client"))
    options = (
        f"--port={gcs}",
        "--dashboard-host=0.0.0.0",
        f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={client}",
    )
    return {"command": ("ray", "start", "--head", "--block", *options)}
