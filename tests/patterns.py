#!/usr/bin/env python3
"""The regular expressions of mlgen, with the text that costs each one the most steps.

Usage: python tests/patterns.py, after a regular expression is added or changed. It adds rows to
`patterns.json`, and removes those of expressions that no longer exist. `--all` searches all again.

`uses()` finds the expressions in the code and in `schemas/`. `worst()` derives texts from an
expression, and counts the steps of a backtracking matcher that works like the one of `re`. Unlike a
time, a count does not depend on the Python version, the machine and its load.
"""

import ast
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

try:
    from re import _constants as sre
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_constants as sre
    import sre_parse as parser

ROOT = Path(__file__).resolve().parent.parent
MLGEN, SCHEMAS = ROOT / "mlgen", ROOT / "schemas"
TABLE = Path(__file__).with_suffix(".json")

FUNCTIONS = (
    "compile",
    "match",
    "search",
    "fullmatch",
    "sub",
    "subn",
    "split",
    "findall",
    "finditer",
)
ALL = ("sub", "subn", "split", "findall", "finditer")
"""The functions that continue after a match."""


class Use(NamedTuple):
    """An expression, how it is applied, and where."""

    pattern: str
    flags: int
    mode: str
    place: str


# --- the matcher ---------------------------------------------------------------------------------

End = Callable[[int], bool]
Matcher = Callable[[int, End], bool]
MOST = 100_000


class TooManyError(Exception):
    """A text needs more than `MOST` steps."""


FRAMES = 50_000
"""The limit of recursion while steps are counted: a repetition of n characters needs 5n frames."""


@contextmanager
def recursion(limit: int) -> Iterator[None]:
    """Set the limit of recursion in a block. Other tests rely on the usual limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


def accepts(item: Any, flags: int) -> Callable[[str], bool] | None:
    """Return the test of an item that matches one character; None for another item."""
    op, value = item
    if op is sre.LITERAL or op is sre.NOT_LITERAL:
        text = chr(value)
        same = {text.lower(), text.upper()} if flags & re.IGNORECASE else {text}
        return lambda c: (c in same) == (op is sre.LITERAL)
    if op is sre.ANY:
        return lambda c: c != "\n" or bool(flags & re.DOTALL)
    if op is not sre.IN:
        return None
    negated = value[0][0] is sre.NEGATE
    tests = []
    for kind, inner in value[1:] if negated else value:
        if kind is sre.LITERAL:
            tests.append(chr(inner).__eq__)
        elif kind is sre.RANGE:
            tests.append(lambda c, r=inner: r[0] <= ord(c) <= r[1])
        else:
            whole = re.compile(CATEGORIES[inner], flags & re.ASCII)
            tests.append(lambda c, w=whole: bool(w.match(c)))
    variants = (lambda c: {c.lower(), c.upper()}) if flags & re.IGNORECASE else (lambda c: {c})
    return lambda c: any(test(v) for v in variants(c) for test in tests) != negated


class Counter:
    """Matches a text and counts the steps: characters tested, and alternatives tried."""

    def __init__(self, pattern: str, flags: int) -> None:
        tree = parser.parse(pattern, flags)
        self.flags = tree.state.flags
        self.run = self.sequence(tree, self.flags)
        self.text, self.steps, self.groups = "", 0, {}

    def count(self, text: str, mode: str) -> int:
        """Return the steps for a text."""
        self.text, self.steps, at = text, 0, 0
        ends: list[int] = []

        def last(end: int) -> bool:
            if mode == "fullmatch" and end != len(text):
                return False
            ends.append(end)
            return True

        while at <= len(text):
            self.groups = {}
            self.step()
            if self.run(at, last):
                if mode != "all":
                    break
                at = max(ends[-1], at + 1)
            elif mode in ("match", "fullmatch"):
                break
            else:
                at += 1
        return self.steps

    def step(self) -> None:
        self.steps += 1
        if self.steps > MOST:
            raise TooManyError

    def sequence(self, items: Any, flags: int) -> Matcher:
        matchers = [self.matcher(item, flags) for item in items]

        def run(at: int, end: End, index: int = 0) -> bool:
            if index == len(matchers):
                return end(at)
            return matchers[index](at, lambda next_: run(next_, end, index + 1))

        return run

    def matcher(self, item: Any, flags: int) -> Matcher:
        op, value = item
        test = accepts(item, flags)
        if test:

            def one(at: int, end: End) -> bool:
                self.step()
                return at < len(self.text) and test(self.text[at]) and end(at + 1)

            return one
        name = str(op).lower()
        return getattr(self, f"_{name}")(value, flags)

    def _at(self, value: Any, flags: int) -> Matcher:
        lines = flags & re.MULTILINE
        whole = re.compile(
            {
                sre.AT_BEGINNING: "^",
                sre.AT_BEGINNING_STRING: r"\A",
                sre.AT_BOUNDARY: r"\b",
                sre.AT_NON_BOUNDARY: r"\B",
                sre.AT_END: "$",
                sre.AT_END_STRING: r"\Z",
            }[value],
            lines | (flags & re.ASCII),
        )

        def at_place(at: int, end: End) -> bool:
            self.step()
            return bool(whole.match(self.text, at)) and end(at)

        return at_place

    def _subpattern(self, value: Any, flags: int) -> Matcher:
        group, added, removed, items = value
        inner = self.sequence(items, (flags | added) & ~removed)

        def run(at: int, end: End) -> bool:
            def closed(stop: int) -> bool:
                before = self.groups.get(group)
                self.groups[group] = (at, stop)
                if end(stop):
                    return True
                self.groups[group] = before
                return False

            return inner(at, closed)

        return run

    def _groupref(self, value: int, _: int) -> Matcher:
        def run(at: int, end: End) -> bool:
            span = self.groups.get(value)
            self.step()
            if not span:
                return False
            same = self.text[span[0] : span[1]]
            self.steps += len(same)
            return self.text.startswith(same, at) and end(at + len(same))

        return run

    def _groupref_exists(self, value: Any, flags: int) -> Matcher:
        group, *branches = value
        yes, no = (self.sequence(items or (), flags) for items in branches)

        def run(at: int, end: End) -> bool:
            return yes(at, end) if self.groups.get(group) else no(at, end)

        return run

    def _branch(self, value: Any, flags: int) -> Matcher:
        branches = [self.sequence(items, flags) for items in value[1]]

        def run(at: int, end: End) -> bool:
            # `any` would nest calls of C functions, whose depth Python limits.
            for branch in branches:  # noqa: SIM110
                if branch(at, end):
                    return True
            return False

        return run

    def _assert(self, value: Any, flags: int, *, wanted: bool = True) -> Matcher:
        direction, items = value
        inner = self.sequence(items, flags)
        width = items.getwidth()[0] if direction < 0 else 0

        def run(at: int, end: End) -> bool:
            start = at - width
            return (start >= 0 and inner(start, lambda _: True)) == wanted and end(at)

        return run

    def _assert_not(self, value: Any, flags: int) -> Matcher:
        return self._assert(value, flags, wanted=False)

    def _max_repeat(self, value: Any, flags: int, *, greedy: bool = True) -> Matcher:
        least, most, items = value
        most = float("inf") if most is sre.MAXREPEAT else most
        test = accepts(items[0], flags) if len(items) == 1 else None
        if test:
            return self.of_characters(test, least, most, greedy=greedy)
        inner = self.sequence(items, flags)

        def run(at: int, end: End, count: int = 0) -> bool:
            self.step()

            def again(next_: int) -> bool:
                return (next_ != at or count < least) and run(next_, end, count + 1)

            if count < least:
                return inner(at, again)
            if greedy:
                return (count < most and inner(at, again)) or end(at)
            return end(at) or (count < most and inner(at, again))

        return run

    def _min_repeat(self, value: Any, flags: int) -> Matcher:
        return self._max_repeat(value, flags, greedy=False)

    def of_characters(self, test: Any, least: int, most: float, *, greedy: bool) -> Matcher:
        def ends(at: int) -> Iterator[int]:
            stop = at
            while True:
                if stop - at >= least:
                    yield stop
                self.step()
                if stop - at >= most or stop >= len(self.text) or not test(self.text[stop]):
                    return
                stop += 1

        def run(at: int, end: End) -> bool:
            for each in reversed([*ends(at)]) if greedy else ends(at):
                self.step()
                if end(each):
                    return True
            return False

        return run


# --- the texts -----------------------------------------------------------------------------------

CHARACTERS = "a0A" + "".join(map(chr, range(32, 127))) + "\n\t\r\0\u00e9\u20ac\U0001f600"

Parts = tuple[str, str, str]
"""A text: a prefix, a part that is repeated, and a suffix."""

LONG = 1000
"""The number of repetitions in an expression from which it counts as unlimited."""


class Texts:
    """Texts for which an expression may be slow, made of its parts."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.tests: list[Callable[[str], bool]] = []
        self.repeats: list[tuple[str, str]] = []
        self.wholes: list[str] = []
        self.words = re.findall(r"[a-z]{2,}", pattern)
        tree = parser.parse(pattern, flags)
        for times in (0, 1):
            self.visit(tree, tree.state.flags, "", times)
        kinds: dict[tuple[bool, ...], str] = {}
        for character in CHARACTERS:
            kinds.setdefault(tuple(test(character) for test in self.tests), character)
        self.kinds = list(kinds.values())

    def visit(self, items: Any, flags: int, prefix: str, times: int) -> str:
        """Return a text that a sequence matches, in which optional parts occur 0 or 1 times."""
        text = ""
        for op, value in items:
            if test := accepts((op, value), flags):
                self.tests.append(test)
                text += next((c for c in CHARACTERS if test(c)), "")
            elif op is sre.SUBPATTERN:
                text += self.visit(value[3], (flags | value[1]) & ~value[2], prefix + text, times)
            elif op is sre.BRANCH:
                text += max(
                    (self.visit(each, flags, prefix + text, times) for each in value[1]), key=len
                )
            elif op in (sre.ASSERT, sre.ASSERT_NOT):
                self.visit(value[1], flags, prefix + text, times)
            elif op is sre.GROUPREF_EXISTS:
                text += self.visit(value[1], flags, prefix + text, times)
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
                least, most, body = value
                unit = self.visit(body, flags, prefix + text, times)
                if most is sre.MAXREPEAT or most > LONG:
                    self.repeats.append((prefix + text, unit))
                text += unit * min(max(least, times), most)
            self.wholes.append(prefix + text)
        return text

    def candidates(self) -> list[Parts]:
        """Return all texts."""
        pairs = (f"{a}{b}" for a, b in product(self.kinds[:5], repeat=2) if a != b)
        words = (f"{word}{kind}" for word in self.words[:6] for kind in self.kinds)
        joined = (f"{whole}{kind}" for whole in {*self.wholes} for kind in self.kinds)
        rows = {
            (prefix, unit)
            for prefix in ("", *(prefix for prefix, _ in self.repeats))
            for unit in (*self.kinds, *pairs, *(u for start, u in self.repeats if start == prefix))
        }
        wholes = (*self.wholes, *(p + u for p, u in self.repeats), *words, *joined)
        rows |= {(prefix, whole) for prefix in ("", *self.wholes[:1]) for whole in wholes}
        return sorted((*row, suffix) for row in rows for suffix in ("", "\0", "\n!") if row[1])


def growth(
    use: "Use", parts: Parts, size: int, counter: Counter | None = None
) -> tuple[float, int]:
    """Return the factor by which more steps are needed for twice the text, and the steps for most.

    The factor compares the steps from n to 2n characters with those from 2n to 4n, so that constant
    parts cancel out. It is 2 if they are linear, and 4 if they are quadratic.
    """
    counter = counter or Counter(use.pattern, use.flags)
    prefix, unit, suffix = parts
    times = max(size // max(len(unit), 1), 4)
    try:
        with recursion(FRAMES):
            first, second, third = (
                counter.count(prefix + unit * times * factor + suffix, use.mode)
                for factor in (1, 2, 4)
            )
    except TooManyError:
        return float("inf"), MOST
    return min((third - second) / max(second - first, 1), 1.4 * third / second), third


def worst(use: "Use") -> Parts:
    """Return the text with which the steps of an expression grow the most."""
    texts = Texts(use.pattern, use.flags)
    if not texts.repeats:
        return ("", "", "")
    counter = Counter(use.pattern, use.flags)
    candidates = texts.candidates()
    if len(candidates) > MOST_TEXTS:
        candidates = Random(0).sample(candidates, MOST_TEXTS)
    rows = []
    for prefix, unit, suffix in candidates:
        try:
            size = len(unit) * max(24 // len(unit), 3)
            first, second = (
                counter.count(prefix + unit * (size * n // len(unit)) + suffix, use.mode)
                for n in (1, 2)
            )
        except TooManyError:
            return (prefix, unit, suffix)
        rows.append((second / size, second / first, (prefix, unit, suffix)))
    by_steps = sorted(rows, reverse=True)[:4]
    by_growth = sorted(rows, key=lambda row: row[1], reverse=True)[:4]
    found = [(growth(use, row[-1], SIZE, counter), row[-1]) for row in (*by_steps, *by_growth)]
    return max(found, key=lambda row: (round(row[0][0], 1), row[0][1]))[1]


MOST_TEXTS = 500
"""The number of texts to try, which are chosen at random if there are more."""


SIZE = 100
"""The number of characters in the smallest text."""


# --- the code ------------------------------------------------------------------------------------


@cache
def modules() -> list[tuple[str, str, list[bytes], list[ast.AST]]]:
    """Return the name, the path, the lines and all nodes of each module."""
    found = []
    for path in sorted(MLGEN.rglob("*.py")):
        file = path.relative_to(ROOT)
        name = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        if path.name != "__main__.py":
            code = path.read_bytes()
            found.append((name, str(file), code.splitlines(), [*ast.walk(ast.parse(code))]))
    return found


def methods() -> dict[str, set[str]]:
    """Return the methods that are called on each name, such as `search` on `SECRET`."""
    found: dict[str, set[str]] = {}
    for *_, nodes in modules():
        for node in nodes:
            if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
                base = ast.unparse(node.value).rpartition(".")[2]
                found.setdefault(base, set()).add(node.attr)
    return found


def mode(names: set[str]) -> str:
    """Return how an expression is applied, at worst."""
    for found in ("all", "search", "match", "fullmatch"):
        if found in names or (found == "all" and names & {*ALL}):
            return found
    return "search"


def calls() -> Iterator[tuple[ast.Call, str, str, str, dict[str, Any]]]:
    """Yield the calls of functions of `re`.

    Each with its function, its place, the methods of its result, and the names of its module.
    """
    called = methods()
    for name, file, lines, nodes in modules():
        targets = {
            id(node.value): ast.unparse(node.targets[0])
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        }
        for node in nodes:
            match node:
                case ast.Call(func=ast.Attribute(ast.Name("re"), kind), args=[pattern, *_]):
                    if kind not in FUNCTIONS:
                        continue
                    place = f"{file}: {written(lines, pattern)}"
                    names = called.get(targets.get(id(node), ""), set())
                    scope = vars(importlib.import_module(name))
                    yield node, kind, place, mode(names if kind == "compile" else {kind}), scope


def written(lines: list[bytes], node: ast.expr) -> str:
    """Return the code of a node in one line. `ast.get_source_segment` splits the whole file."""
    of_node = lines[node.lineno - 1 : node.end_lineno]
    of_node[-1] = of_node[-1][: node.end_col_offset]
    of_node[0] = of_node[0][node.col_offset :]
    return " ".join(b"\n".join(of_node).decode().split())


def uses(local: dict[str, list[str]]) -> tuple[list[Use], list[str]]:
    """Return all expressions, and the places of those that neither the module nor `local` has."""
    found: dict[tuple[str, str], Use] = {}
    unknown: list[str] = []
    for node, kind, place, how, scope in calls():
        number = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(kind, 2)
        more = [each.value for each in node.keywords if each.arg == "flags"]
        flags = 0
        for each in (*more, *node.args[number:]):
            flags = eval(ast.unparse(each), scope)
        try:
            patterns = local.get(place) or [eval(ast.unparse(node.args[0]), scope)]
        except (NameError, KeyError):
            unknown.append(place)
            continue
        for pattern in patterns:
            text = pattern
            if isinstance(pattern, re.Pattern):
                flags, text = pattern.flags & ~re.UNICODE, pattern.pattern
            text = text.decode("latin-1") if isinstance(text, bytes) else text
            found.setdefault((text, how), Use(text, int(flags), how, place))
    return list(found.values()), unknown


# --- the expressions that are built at run time --------------------------------------------------


def found_in(*files: str, keys: str) -> list[str]:
    """Return the texts at some keys of JSON files, at any depth; keys of mappings at `when`."""
    wanted, texts = keys.split(), []

    def visit(value: Any, key: str) -> None:
        for name, inner in value.items() if isinstance(value, dict) else ():
            visit(inner, name if key not in ("when", "unless") else key)
        for inner in value if isinstance(value, list) else ():
            visit(inner, "")
        if key in wanted and isinstance(value, str):
            texts.append(value)

    for file in files or map(str, SCHEMAS.rglob("*.json")):
        visit(json.loads((SCHEMAS / file).read_text()), "")
    return list(dict.fromkeys(texts))


def data(file: str, *keys: str) -> Any:
    """Return a value of a JSON file."""
    value = json.loads((SCHEMAS / file).read_text())
    for key in keys:
        value = value[key]
    return value


NODES, WRITES, COMMANDS = "checks/nodes.json", "checks/writes.json", "launch/launchers.json"


def local() -> dict[str, list[str]]:
    """Return the expressions that are not constants of a module, by file and source text.

    Those that contain names of the input are given with examples.
    """
    from mlgen.checks import commands, operators, placement
    from mlgen.dialects import _wrapper
    from mlgen.integrations import helm
    from mlgen.jobfile.hints import OPERATORS
    from mlgen.jobfile.model import DEVICES, WHOLE_GPU
    from mlgen.jobfile.validation import python_pattern
    from mlgen.kubernetes.names import host_pattern
    from mlgen.launch import variables
    from mlgen.live import watch
    from mlgen.objects.labels import INDEX_FORMS

    schemas = list(map(python_pattern, found_in(keys="pattern")))
    rules = found_in("kubernetes/rules.json", keys="like when unless")
    launchers = data(COMMANDS, "launchers").values()
    values = [value[0] for row in launchers for value in row.get("values", {}).values()]
    roles = "|".join((*variables.ROLE_NAMES, "a"))
    rows = {
        "checks/commands.py: is_syntax": [
            rf"^({commands.OPERATOR_WORD}|~/\S*)$|{commands.VARIABLE_IN_WORD}"
        ],
        "checks/amounts.py: pattern": [*data(NODES, "misplaced")],
        "checks/files.py: pattern": [data(WRITES, "checkpoints"), data(WRITES, "model")],
        r'checks/operators.py: rf"\b{name}="': [r"\bA="],
        "checks/operators.py: pattern": [
            pattern for _, pattern, _ in (*operators.FILES, *operators.VARIABLES)
        ],
        "checks/operators.py: form": [pattern for _, pattern, _ in operators.USES],
        "checks/placement.py: label": [*data(NODES, "vendors")],
        "checks/placement.py: pattern": [placement.GPU_NAME, placement.TPU_NAME],
        'checks/placement.py: row["type"]': found_in(NODES, keys="type"),
        r'checks/references.py: rf"{re.escape(job.name)}-.+-\d+"': [r"a-.+-\d+"],
        r'dialects/jobset/__init__.py: ADDRESS + re.escape(subdomain) + r"(?![\w-])"': [
            r"(?<![\w-])[\w-]+(?<=\d)\.a(?![\w-])"
        ],
        "dialects/_wrapper.py: TYPE % name": [_wrapper.TYPE % "kind"],
        "integrations/helm.py: text.encode()": [each.pattern.decode() for each in helm._patterns()],  # noqa: SLF001
        'jobfile/hints.py: row["labels"]': [row["labels"] for row in OPERATORS.values()],
        'jobfile/hints.py: table("resources/operator_pods")["own"]': [
            data("resources/operator_pods.json", "own")
        ],
        "jobfile/model.py: pattern": [WHOLE_GPU, DEVICES],
        "jobfile/hints.py: pattern": [*data("hints.json", "mappings")],
        "jobfile/schema.py: rf\"(?:^|(?<=[.] ))({'|'.join(map(re.escape, values))}): \"": [
            "(?:^|(?<=[.] ))(a|b): "
        ],
        'jobfile/validation.py: python_pattern(schema["pattern"])': schemas,
        "jobfile/validation.py: python_pattern(pattern)": schemas,
        "kubernetes/schema.py: pattern": [*data("hints.json", "strings")],
        r'kubernetes/names.py: rf"(?:(?P<url>(?<=//))|(?<![\w./)}}-]))(?P<name>{any_name})-" '
        r'rf"(?P<index>{NUMBER}|{RANGE}|{PLACEHOLDER})(?P<domain>(?:\.{LABEL})*)\.?" '
        r'r"(?::(?P<port>\d{1,9}))?(?!\.?[\w-])(?(url)|(?!/))"': [
            host_pattern(["a", "a-b"]).pattern
        ],
        "kubernetes/validation/rows.py: allowed": rules,
        "kubernetes/validation/rows.py: pattern": rules,
        r'launch/variables.py: rf"(?:{names})-(.+-\d+)"': [r"(?:a|b)-(.+-\d+)"],
        r'launch/variables.py: rf"\b{own}\b"': [r"\ba\b"],
        "launch/variables.py: like_a_role": [rf"(.*-)?({roles})(-\d+)?(-svc|-service|-headless)?"],
        'launch/options.py: rf"[^a-zA-Z0-9{row.separators}]"': ["[^a-zA-Z0-9_-]"],
        "launch/options.py: pattern": values,
        "launch/ranks.py: row.alone": [row["alone"] for row in launchers if row.get("alone")],
        r'launch/role.py: rf"\$[({{]?{name}\b"': [r"\$[({]?A\b"],
        'launch/variables.py: row["pattern"]': [row["pattern"] for row in data(COMMANDS, "calls")],
        "live/doctor.py: starts": [r"(?m)^(?=Error from server|error: |The \w+ \")"],
        'live/doctor.py: each["pattern"]': found_in("kubernetes/doctor.json", keys="pattern"),
        "live/watch.py: pattern": [*watch.COLORS],
        "variants/name_hash.py: "
        r'rf"(?<![\w.-]){re.escape(plain)}-(?P<role>{roles})(?P<job>-\d+)?-(?P<index>'
        r'{INDEX_FORMS})\." '
        r'rf"{re.escape(job.network.subdomain or plain)}(?![\w-])"': [
            rf"(?<![\w.-])a-(?P<role>a|b)(?P<job>-\d+)?-(?P<index>{INDEX_FORMS})\.a(?![\w-])"
        ],
    }
    return {f"mlgen/{place}": patterns for place, patterns in rows.items()}


def main() -> None:
    rows = [] if "--all" in sys.argv else json.loads(TABLE.read_text())
    known = {(row["pattern"], row["mode"]): row for row in rows}
    found, unknown = uses(local())
    for place in unknown:
        print(f"add a row to local(): {place}")
    for use in found:
        if (use.pattern, use.mode) not in known:
            text = worst(use)
            print(f"{growth(use, text, SIZE)[0]:3.1f} {use.place} {text}", flush=True)
            known[use.pattern, use.mode] = {"text": text}
    rows = [
        {"pattern": pattern, "mode": mode, "text": known[pattern, mode]["text"]}
        for pattern, mode in sorted((use.pattern, use.mode) for use in found)
    ]
    TABLE.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
