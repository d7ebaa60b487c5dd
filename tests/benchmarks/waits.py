"""DNS queries and connections of 10,000 waiting pods and 100 servers, against an operator's loop.

The real wait script runs once, with a simulated clock, and with programs in place of `nc` and
others that count calls. The figures of one pod are then multiplied. The baseline is the init
container of Kubeflow 1.8 (pkg/controller.v1/pytorch/initcontainer.go),
`until nslookup NAME; do sleep 2; done`, for each server in turn.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from measure import ROOT, MissingError, arguments, number, ratio, script, table

SCRIPT = ROOT / "templates/scripts/wait-for-peers.sh"
WAITERS, SERVERS = 10_000, 100

FOUND, NOT_FOUND = 2, 8
"""DNS queries of a lookup: A and AAAA, of the first name of the search list or of all four.

https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-dns-config
"""

LOOKUP = """\
read -r now <"$CLOCK"
comes=$COMES
[ "$HOST" != "${NEVER-}" ] || comes=999999999
if [ "$now" -ge "$comes" ]; then echo found; else echo missing; fi >>"$LOG"
[ "$now" -ge "$comes" ]
"""

PROGRAMS = {
    "nc": f"""\
for word; do last=$host host=${{word}}; done
HOST=$last
{LOOKUP.rstrip()} || {{ echo "nc: bad address '$HOST'" >&2; exit 1; }}
echo connection >>"$LOG"
""",
    "nslookup": f"HOST=$1\n{LOOKUP}",
    "getent": f"HOST=$2\n{LOOKUP}",
    "date": 'read -r now <"$CLOCK"\necho $((now / 1000))\n',
    "sleep": """\
case $1 in
  *.*)
    whole=${1%.*} part=${1#*.}00 rest=${part#???}
    part=${part%"$rest"} part=${part#0} part=${part#0}
    ;;
  *) whole=$1 part=0 ;;
esac
read -r now <"$CLOCK"
now=$((now + ${whole:-0} * 1000 + part))
echo "$now" >"$CLOCK"
[ "$now" -lt "$END" ] || kill -9 "$PPID"
""",
}
"""Shell scripts. The clock is a file with milliseconds."""

YARDSTICK = "for host in $HOSTS; do until nslookup $host; do sleep 2; done; done"


class Count(NamedTuple):
    """The requests of one pod until its wait or the measured time ends."""

    found: int
    missing: int
    connections: int
    seconds: float

    @property
    def queries(self):
        """DNS queries."""
        return FOUND * self.found + NOT_FOUND * self.missing


def counted(command, *, comes=0, never="", seconds=3600, **variables):
    """Return the Count of a shell's command. The servers start after `comes`, except `never`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, text in PROGRAMS.items():
            (folder / program).write_text(f"#!/bin/sh\n{text}")
            (folder / program).chmod(0o755)
        log, clock = folder / "log", folder / "clock"
        log.touch()
        clock.write_text("0\n")
        times = {"COMES": str(round(comes * 1000)), "NEVER": never, "END": str(seconds * 1000)}
        files = {"LOG": str(log), "CLOCK": str(clock)}
        path = f"{folder}:{os.environ['PATH']}"
        subprocess.run(
            [shell(), *command],
            env={"PATH": path, **times, **files, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=not never,
        )
        lines = log.read_text().split()
        counts = (lines.count(word) for word in ("found", "missing", "connection"))
        return Count(*counts, int(clock.read_text()) / 1000)


def shell():
    """Return a POSIX shell without a built-in `nc`."""
    found = shutil.which("dash")
    if not found:
        raise MissingError("there is no dash")
    return found


def main(argv):
    small = arguments(__doc__, argv).small
    servers, minutes = (3, 1) if small else (SERVERS, 10)
    hosts = [f"ps-{index}.job" for index in range(servers)]
    last = hosts[-1]
    scenarios = {
        "all are there": {},
        "all come after 60 s": {"comes": 60},
        f"one does not come for {minutes} min": {"never": last, "seconds": 60 * minutes},
    }
    rows = []
    for name, when in scenarios.items():
        ours = counted([str(SCRIPT)], MLGEN_PEERS=f"ps-[0-{servers - 1}].job", **when)
        theirs = counted(["-c", YARDSTICK], HOSTS=" ".join(hosts), **when)
        rate = number(ours.queries * WAITERS / ours.seconds) if ours.seconds else "at once"
        late = number(max(ours.seconds - when["comes"], 0), 2) if "comes" in when else ""
        totals = (each * WAITERS for each in (ours.queries, theirs.queries, ours.connections))
        quotient = ratio(ours.queries, theirs.queries)
        rows.append([name, quotient, *map(number, totals), rate, late])
    columns = ("ratio", "DNS queries", "of the loop", "connections", "queries/s", "s late")
    table([f"{WAITERS:,} pods, {servers} servers", *columns], *rows)


if __name__ == "__main__":
    script(main)
