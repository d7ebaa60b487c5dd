"""Topology → a summary of a job in a few lines, for a reviewer."""

from mlgen import checks
from mlgen.kubernetes.pod_security import LEVELS, level
from mlgen.result import Rendered
from mlgen.topology import Role, Topology


def summary(topology: Topology) -> str:
    """Return one line about the job and one per role: replicas, kind of object, and purpose."""
    job = topology.job
    pods = sum(role.replicas for role in topology.roles)
    lines = [f"{job.name}: {job.framework}, {pods} pod{'s' if pods > 1 else ''}. Made by mlgen."]
    rows: dict[tuple[str, str, str], int] = {}
    for role in topology.roles:
        kind = f"{'StatefulSet' if role.serves else 'Job'}{'' if role.index is None else 's'}"
        key = (role.name, kind, _purpose(role))
        rows[key] = rows.get(key, 0) + role.replicas
    if job.tensorboard:
        rows["tensorboard", "Deployment", ""] = 1
    if topology.supervised:
        rows["supervisor", "Job", "ends the others when training has ended"] = 1
    width = max(len(name) for name, _, _ in rows)
    for (name, kind, purpose), replicas in rows.items():
        lines.append(f"  {name:{width}}  {replicas} in {kind:11}  {purpose}".rstrip())
    return "\n".join(lines)


def _purpose(role: Role) -> str:
    """Return whether a role decides, and which roles it waits for, in words."""
    parts = ["decides when training has ended"] if role.decides else []
    peers = dict.fromkeys(w.role for w in role.waits if w.role != role.name or role.replicas > 1)
    if peers:
        parts.append(f"waits for {', '.join(peers)}")
    return ", ".join(parts)


def pod_security(rendered: Rendered) -> str:
    """Return the strictest PodSecurity level that all pods meet, and what the next one requires."""
    obstacles = checks.obstacles(rendered.objects, rendered.kube_version)
    met = level(obstacles)
    lines = [f"  PodSecurity: {met}"]
    for violation, roles in obstacles.items():
        if LEVELS.index(violation.level) == LEVELS.index(met) + 1:
            requirement = f"{violation.field} {violation.message}"
            lines.append(f"    {violation.level}: {requirement} ({', '.join(roles)})")
    return "\n".join(lines)
