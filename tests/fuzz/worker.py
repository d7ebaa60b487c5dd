"""Runs one target in its own process, with limits. `__main__` starts it and reads its output.

Each line of its output is JSON: a finding `{"flaw": …, "text": …}`, and at the end the figures.
"""

import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

MEMORY = 1 << 30
"""Bytes that a text may use, in addition to the program before it reads a text."""

SECONDS = 10.0
"""CPU seconds that a text may take."""

PACE = 10_000
"""Characters that a target with linear time reads in a CPU second, after the first second."""

ATTEMPTS, MINUTE = 600, 60.0
"""How often, and for how many CPU seconds, a text is tried with a part left out."""

ENDLESS = ("TooLong", "MemoryError", "RecursionError")
"""Exceptions that any line of a function can raise, so the line does not identify the cause."""


class TooLong(BaseException):
    """A text takes longer than SECONDS."""


def too_long(*_: Any) -> None:
    """Raise TooLong after SECONDS."""
    raise TooLong


class Worker:
    """Tries texts, and reports each new finding.

    Attributes:
        check: the check of the target.
        current: the file with the current text, which remains if the process dies.
        report: called with each finding.
        known: the signatures of the findings so far.
        cases: the number of texts so far.
        is_linear: True if the limit on CPU time grows with the text.
        limit: the number of texts after which to stop.
        end: the time at which to stop.
    """

    def __init__(
        self,
        check: Callable[[str], None],
        current: Path,
        report: Callable[[dict[str, Any]], None],
        cases: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self.check, self.current, self.report = check, current, report
        self.known: set[str] = set()
        self.cases = 0
        self.is_linear = False
        self.limit = cases or float("inf")
        self.end = time.monotonic() + (seconds or float("inf"))

    @property
    def is_done(self) -> bool:
        return self.cases >= self.limit or time.monotonic() >= self.end

    def attempt(self, text: str) -> str:
        """Return the flaw that a text causes, "" if there is none."""
        self.current.write_text(text, encoding="utf-8", errors="surrogatepass")
        signal.signal(signal.SIGVTALRM, too_long)
        limit = 1 + len(text) / PACE if self.is_linear else SECONDS
        signal.setitimer(signal.ITIMER_VIRTUAL, limit)
        try:
            self.check(text)
        except AssertionError as error:
            return str(error) or traceback.format_exc()
        except BaseException:  # noqa: BLE001 - whatever it is, it is a flaw
            return traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return ""

    def case(self, text: str) -> None:
        """Try a text. If it causes a new finding, reduce the text and report it."""
        if self.is_done:
            return
        self.cases += 1
        flaw = self.attempt(text)
        if not flaw or signature(flaw) in self.known:
            return
        self.known.add(signature(flaw))
        small = smaller(text, lambda part: signature(self.attempt(part)) == signature(flaw))
        self.report({"flaw": self.attempt(small) or flaw, "text": small})


def say(value: dict[str, Any]) -> None:
    """Print a line."""
    print(json.dumps(value), file=sys.__stdout__, flush=True)


def signature(flaw: str) -> str:
    """Return a key that is the same for findings with the same cause."""
    frames = re.findall(r'File "[^"]*/mlgen/([^"]+)", line (\d+)', flaw)
    if not frames:
        return re.split(r"[;:\d]", flaw)[0][:40]
    kind = re.split(r"[:.]", flaw.strip().rpartition("\n")[2].replace("worker.", ""))[0]
    return f"{kind} {frames[-1][0] if kind in ENDLESS else ':'.join(frames[-1])}"


def smaller(text: str, fails: Callable[[str], bool]) -> str:
    """Return a part of a text that still fails. Removes lines first, then characters."""
    left, end = ATTEMPTS, time.process_time() + MINUTE
    for parts in (text.splitlines(keepends=True), None):
        pieces = list(text) if parts is None else parts
        size = len(pieces) // 2
        while size and left > 0 and time.process_time() < end:
            start = 0
            while start < len(pieces) and left > 0 and time.process_time() < end:
                rest = pieces[:start] + pieces[start + size :]
                left -= 1
                if fails("".join(rest)):
                    pieces = rest
                else:
                    start += size
            size //= 2
        text = "".join(pieces)
    return text


Source = list[str] | Callable[[Any], str]
"""The texts from which others are generated, or a function that returns a text."""


def texts(chance: Any, source: Source) -> str:
    """Return a random text."""
    from yaml_texts import damaged, text

    if callable(source):
        return source(chance)
    made = text(chance.randrange(1 << 30)) if chance.random() < 0.1 else chance.choice(source)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        made = damaged(chance, made)
    return made


def at_random(worker: Worker, source: Source, seed: int) -> None:
    """Try random texts.

    Hypothesis would choose smaller texts, and only four in ten would be new.
    """
    for number in count():
        if worker.is_done:
            return
        worker.case(texts(Random(f"{seed} {number}"), source))


def by_coverage(worker: Worker, source: Source, seed: int, corpus: Path) -> None:
    """Try texts that atheris chooses, because they reach other lines. Does not return."""
    import atheris
    from hypothesis import given, strategies

    def of_bytes(data: bytes) -> None:
        try:
            worker.case(data.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            worker.case(data.decode("utf-8", "replace"))

    if callable(source):
        chances = strategies.randoms(use_true_random=False)
        search = given(chances.map(lambda chance: texts(chance, source)))(worker.case)
        one = search.hypothesis.fuzz_one_input
    else:
        one = of_bytes
        for number, text in enumerate(source):
            (corpus / str(number)).write_text(text)

    def until_done(data: bytes) -> None:
        one(data)
        if worker.is_done:
            finish(worker)

    words = [f"-seed={seed}", "-timeout=100000", "-rss_limit_mb=0", "-max_len=16384", str(corpus)]
    atheris.Setup([sys.argv[0], *words], until_done)
    atheris.Fuzz()


def finish(worker: Worker) -> None:
    """Print the figures, and exit."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    say({"cases": worker.cases, "cpu": cpu, "peak": usage.ru_maxrss >> 10})
    os._exit(0)


def limited() -> None:
    """Limit the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(order: dict[str, Any]) -> None:
    """Run an order of `__main__`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # `__main__` ends this process
    folder = Path(order["folder"])
    os.chdir(folder)
    instrumented: Any = nullcontext()
    if order["coverage"]:
        import atheris

        instrumented = atheris.instrument_imports(include=["mlgen"])
    with instrumented:
        import mlgen

        mlgen.__path__ = [*mlgen.__path__, order["prepared"]]
        from fuzz.checks import imported
        from fuzz.targets import TARGETS

        imported()
        check, seeds, make, is_linear = TARGETS[order["target"]]
        worker = Worker(check, folder / "current", say, order["cases"], order["seconds"])
        worker.is_linear = is_linear
        source = list(seeds()) if seeds else make
        texts(Random(0), source)
        limited()
        if order["text"] is not None:
            say({"flaw": worker.attempt(order["text"]), "text": order["text"]})
        elif order["coverage"]:
            (folder / "corpus").mkdir(exist_ok=True)
            by_coverage(worker, source, order["seed"], folder / "corpus")
        else:
            at_random(worker, source, order["seed"])
        finish(worker)


if __name__ == "__main__":
    sys.path[:1] = [str(Path(__file__).parent.parent)]
    main(json.load(sys.stdin))
