"""Ports that command lines decide: the flags of launchers, and of sshd.

A port that contains a variable, such as `$MASTER_PORT`, is the one that mlgen decides.
"""

import re

from mlgen.frameworks._launch import Launch, launches_of, words_of
from mlgen.jobfile.model import RoleSpec
from mlgen.kubernetes.quantity import natural

C10D_PORT = 29400
"""Of `--rdzv_endpoint HOST` without a port: torch/distributed/elastic/rendezvous/
c10d_rendezvous_backend.py, DEFAULT_PORT."""

MEETING_BACKENDS = (None, "static", "c10d")
"""Rendezvous backends whose endpoint is one of the replicas; others have a server of their own."""

PORT_FLAGS = {"accelerate": "main_process_port", "deepspeed": "master_port"}
SSH_FLAGS = {"horovodrun": "ssh_port", "deepspeed": "ssh_port"}

SSH_ARGUMENTS = "OMPI_MCA_plm_rsh_args"
"""Arguments that Open MPI gives to ssh; on mpirun's command line `--mca plm_rsh_args`."""

SSH_PORT = r"""(?:^|\s)(?:-p\s*|-o\s*["']?Port[\s=]\s*)(\d{1,9}\b)"""
SSHD_PORT = rf"\bsshd\b[^;&|\n]*?{SSH_PORT}"


def rendezvous_port(*specs: RoleSpec) -> int | None:
    """Return the port at which the processes of these roles meet, from the first launcher's flags.

    None if there is no such flag, or its value is known only at run time.
    """
    ports = (_rendezvous_port(launch) for spec in specs for launch in launches_of(spec))
    return next(filter(None, ports), None)


def _rendezvous_port(launch: Launch) -> int | None:
    if launch.program in PORT_FLAGS:
        return launch.number(PORT_FLAGS[launch.program])
    if launch.program != "torchrun" or "standalone" in launch.options:
        return None
    backend = launch.literal("rdzv_backend")
    endpoint = launch.options.get("rdzv_endpoint")
    if not endpoint:
        return launch.number("master_port") if backend in (None, "static") else None
    host, _, port = endpoint.rpartition(":")
    if backend not in MEETING_BACKENDS:
        return None
    if (number := natural(port)) is not None:
        return number
    return C10D_PORT if backend == "c10d" and not host else None


def ssh_port(launcher: RoleSpec) -> int | None:
    """Return the port that a launcher's flags tell ssh to connect to; None if there are none."""
    arguments = launcher.env.get(SSH_ARGUMENTS)
    texts = [arguments] if isinstance(arguments, str) else []
    for launch in launches_of(launcher):
        port = launch.number(SSH_FLAGS.get(launch.program, ""))
        if port:
            return port
        texts.append(launch.literal("mca_plm_rsh_args") or "")
    matches = (re.search(SSH_PORT, text) for text in texts)
    return next((int(match[1]) for match in matches if match), None)


def sshd_port(worker: RoleSpec) -> int | None:
    """Return the port of sshd in a role's command, `sshd -p 2200`; None if it is not there."""
    match = re.search(SSHD_PORT, " ".join(words_of(worker)))
    return int(match[1]) if match else None
