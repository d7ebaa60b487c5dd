"""Problems → SARIF 2.1.0, which code scanning tools read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html; the properties that GitHub
needs are in "SARIF support for code scanning" of its documentation. Numbers in docstrings are those
of sections of the standard.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from mlgen.output.terminal import safe_json
from mlgen.problems import Problem, dotted

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Explain = Callable[[str], tuple[str, str]]
"""Returns what a problem code means, and what to do."""


def sarif(problems: Sequence[Problem], explain: Explain, files: Sequence[str], version: str) -> str:
    """Return problems as a log with one run.

    Args:
        problems: in the order of reporting.
        explain: describes a code.
        files: those that were read. A problem with a value of the command line gets the first one
            as its location, because GitHub refuses a result without any.
        version: of mlgen.
    """
    codes = sorted({problem.code for problem in problems})
    driver = {
        "name": "mlgen",
        "version": version,
        "semanticVersion": version,
        "rules": [_rule(code, *explain(code)) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, codes.index(problem.code), files) for problem in problems],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return safe_json(json.dumps(log, indent=2, ensure_ascii=False)) + "\n"


def _rule(code: str, meaning: str, remedy: str) -> dict[str, Any]:
    meaning, remedy = " ".join(meaning.split()), " ".join(remedy.split())
    sentence = meaning.partition(". ")[0].rstrip(".") + "."
    return {
        "id": code,
        "shortDescription": {"text": sentence},
        "fullDescription": {"text": meaning},
        "help": {"text": f"{remedy} For an example, run: mlgen explain {code}"},
    }


def _result(problem: Problem, index: int, files: Sequence[str]) -> dict[str, Any]:
    hint = f"; {problem.hint}" if problem.hint else ""
    path = f"{dotted(problem.path)}: " if problem.path else ""
    return {
        "ruleId": problem.code,
        "ruleIndex": index,
        "level": "warning" if problem.warning else "error",
        "message": {"text": f"{path}{problem.message}{hint}"},
        "locations": list(_locations(problem, files)),
    }


def _locations(problem: Problem, files: Sequence[str]) -> Iterable[dict[str, Any]]:
    """Return the place of a problem, if there is any."""
    place = problem.place
    if place and place.line:
        file, region = place.file, {"startLine": place.line, "startColumn": place.column}
    elif files:
        file, region = files[0], {"startLine": 1, "startColumn": 1}
    else:
        return
    logical = [{"fullyQualifiedName": dotted(problem.path)}] if problem.path else []
    yield {
        "physicalLocation": {"artifactLocation": {"uri": _uri(file)}, "region": region},
        **({"logicalLocations": logical} if logical else {}),
    }


def _uri(file: str) -> str:
    """Return the URI of a file (3.4.3); relative unless the file is named from the root."""
    return Path(file).as_uri() if Path(file).is_absolute() else quote(PurePath(file).as_posix())
