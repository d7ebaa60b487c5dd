"""What a job consists of, in a few lines for a reviewer."""

from mlgen import checks
from mlgen.kubernetes.pod_security import LEVELS, level
from mlgen.result import Rendered
from mlgen.topology import Role, Topology


def summary(topology: Topology) -> str:
    """Return the roles of a job: how many replicas, in which kind of object, and what they do."""
    job = topology.job
    pods = sum(role.replicas for role in topology.roles)
    lines = [f"{job.name}: {job.framework}, {pods} pod{'s' if pods > 1 else ''}. Made by mlgen."]
    rows: dict[tuple[str, str, str], int] = {}
    for role in topology.roles:
        kind = f"{'StatefulSet' if role.serves else 'Job'}{'' if role.index is None else 's'}"
        key = (role.name, kind, _does(role))
        rows[key] = rows.get(key, 0) + role.replicas
    if job.tensorboard:
        rows["tensorboard", "Deployment", ""] = 1
    if topology.supervised:
        rows["supervisor", "Job", "ends the others when training has ended"] = 1
    width = max(len(name) for name, _, _ in rows)
    for (name, kind, does), replicas in rows.items():
        lines.append(f"  {name:{width}}  {replicas} in {kind:11}  {does}".rstrip())
    return "\n".join(lines)


def _does(role: Role) -> str:
    """Say whether a role decides, and which roles it waits for."""
    words = ["decides when training has ended"] if role.decides else []
    peers = dict.fromkeys(w.role for w in role.waits if w.role != role.name or role.replicas > 1)
    return ", ".join([*words, *([f"waits for {', '.join(peers)}"] if peers else [])])


def pod_security(rendered: Rendered) -> str:
    """Return the strictest PodSecurity level that all pods meet, and what the next one demands."""
    obstacles = checks.obstacles(rendered.objects, rendered.kube_version)
    met = level(obstacles)
    lines = [f"  PodSecurity: {met}"]
    for violation, roles in obstacles.items():
        if LEVELS.index(violation.level) == LEVELS.index(met) + 1:
            what = f"{violation.field} {violation.message}"
            lines.append(f"    {violation.level}: {what} ({', '.join(roles)})")
    return "\n".join(lines)
