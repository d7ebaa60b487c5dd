"""Look for texts that mlgen cannot handle: `python tests/fuzz [TARGET…] [options]`.

Texts are generated at random from the fixtures and the schema. With --coverage, atheris looks for
texts that reach other lines of mlgen. Each finding is reduced and saved in `tests/fuzz/found`. Move
it to `fixtures/hostile` once it is fixed. Exits with 1 if there are findings.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
FOUND = FOLDER / "found"
HEAD = """\
| target | cases | processor time | memory | findings |
| --- | --- | --- | --- | --- |"""

sys.path[:1] = [str(FOLDER.parent)]


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    from fuzz.targets import TARGETS

    summary, _, rest = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        "python tests/fuzz", description=summary, epilog=rest + "\nTargets: " + ", ".join(TARGETS)
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all by default")
    parser.add_argument("--seconds", type=float, help="how long, for all targets together")
    parser.add_argument("--cases", type=int, help="the number of texts for each target")
    parser.add_argument("--seed", type=int, default=1, help="the same texts each time")
    parser.add_argument("--coverage", action="store_true", help="needs: pip install '.[fuzz]'")
    parser.add_argument("--file", type=Path, help="try this text alone")
    asked = parser.parse_args()
    unknown = {*asked.targets} - {*TARGETS}
    if unknown:
        parser.error(f"unknown target {', '.join(unknown)}; use: {', '.join(TARGETS)}")
    asked.targets = asked.targets or list(TARGETS)
    if not (asked.seconds or asked.cases):
        asked.seconds = 600.0
    return asked


def worked(order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run an order in a process; yield its findings and figures, and its crash."""
    command = [sys.executable, str(FOLDER / "worker.py")]
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(json.dumps(order | {"folder": folder}))
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
            if process.wait() != 0:
                errors.seek(0)
                flaw = f"dies with status {process.returncode}: {errors.read()[-2000:]}"
                yield {"flaw": flaw, "text": text_of(Path(folder, "current"))}
        finally:
            process.kill()


def text_of(path: Path) -> str:
    """Return the text of a file, "" if there is none."""
    return path.read_bytes().decode("utf-8", "surrogatepass") if path.exists() else ""


def save(target: str, finding: dict[str, Any]) -> Path:
    """Write a finding to files, and return it with the text."""
    FOUND.mkdir(exist_ok=True)
    data = finding["text"].encode("utf-8", "surrogatepass")
    path = FOUND / f"{target}-{sha256(data).hexdigest()[:8]}.yaml"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(finding["flaw"], errors="backslashreplace")
    return path


def main() -> int:
    """Fuzz the targets one after the other; return the exit status."""
    asked = arguments()
    if asked.coverage and not find_spec("atheris"):
        print("skipped: atheris is not installed: pip install -e '.[fuzz]'")
        return 0
    from mlgen.build import write

    findings = 0
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as prepared:
        write(Path(prepared) / "prepared")
        for target in asked.targets:
            order = {
                "target": target,
                "cases": asked.cases,
                "seconds": asked.seconds and asked.seconds / len(asked.targets),
                "seed": asked.seed,
                "coverage": asked.coverage,
                "text": asked.file and text_of(asked.file),
                "prepared": prepared,
            }
            figures: dict[str, Any] = {}
            found = 0
            for line in worked(order):
                if "flaw" not in line:
                    figures = line
                elif line["flaw"]:
                    found += 1
                    path = save(target, line)
                    last = line["flaw"].strip().rpartition("\n")[2]
                    print(f"{path}: {last[:200]}", file=sys.stderr, flush=True)
            findings += found
            cases, cpu, peak = (figures.get(name, 0) for name in ("cases", "cpu", "peak"))
            print(f"| {target} | {cases} | {cpu:.0f} s | {peak} MiB | {found} |", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
