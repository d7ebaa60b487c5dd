"""Run every command on each file in `fixtures/hostile`, within limits, and print their messages.

`test_hostile.py` starts it. Its output is JSON: `{"flaws": […], "messages": "…"}`.
"""

import json
import os
import resource
import sys
import tempfile
from pathlib import Path

SECONDS = 120
"""Processor time for all files. They take about six seconds."""

CHECKS = ("validate", "verify")
"""The commands that print messages on stdout."""

JSON = ("render-json",)
"""The commands that print the messages of `render` in another way."""


def main() -> None:
    from fuzz.checks import imported
    from fuzz.commands import COMMANDS, flaws, run_on
    from fuzz.worker import limited
    from support import without_totals

    imported()
    limited()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    found: list[str] = []
    messages = ""
    for path in sorted((Path(__file__).parents[2] / "fixtures/hostile").iterdir()):
        print(path.name, file=sys.stderr, flush=True)  # the last one is what kills this process
        said: dict[str, list[str]] = {}
        for name, command in COMMANDS.items():
            outcome = run_on(name, path.read_bytes())
            found += (f"{path.name}: {name}: {flaw}" for flaw in flaws(command, outcome))
            if name not in JSON:
                text = (outcome.out if name in CHECKS else "") + outcome.err
                lines = "\n".join(sorted(set(without_totals(text).splitlines())))
                said.setdefault(f"exit status {outcome.status}\n{lines}\n", []).append(name)
        messages += f"=== {path.name}\n"
        messages += "".join(f"{', '.join(names)}: {text}" for text, names in said.items())
    print(json.dumps({"flaws": found, "messages": messages}))


if __name__ == "__main__":
    sys.path[:1] = [str(Path(__file__).parent.parent)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
