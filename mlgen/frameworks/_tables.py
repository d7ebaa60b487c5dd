"""The tables of this room: `schemas/frameworks/*.json` and `schemas/options/*.json`."""

import json
from functools import cache
from typing import Any

from mlgen.resources import folder


@cache
def table(name: str) -> Any:
    """Return the data of `schemas/<name>.json`."""
    return json.loads((folder("schemas") / f"{name}.json").read_text(encoding="utf-8"))


COMMANDS: Any = table("frameworks/commands")
"""What mlgen knows of the programs and variables of command lines.

The launchers are described by `_launch.Launcher`. Besides them:

    wrappers: words before a program: programs that run another one, and words of the shell.
    installers: words that are followed by names of packages, which may be those of launchers.
    filters: programs that copy their input, and succeed whatever ends it.
    trailing: commands after training, which succeed whatever training did.
    variables: what is known of a variable, by its name:
        same_as: the variable of a framework besides or before which programs read it.
        counts: `replicas`, or `processes`, of which a replica can have several.
        is_address: its value is the address at which all replicas meet.
"""
