"""What the rules report on all inputs of the project: `python tests/rules --fired [FOLDER ...]`.

Without `--rule`, it prints a table: for each rule, its codes, and the number of inputs of each kind
with a problem of the rule. `!` marks a rule that fires on a right input, and `never` a rule that
fires on none. With `--rule NAME`, it lists the inputs and problems of one rule. Run it after you
wrote or changed a rule: each line must be true, and a right input must not occur. It exits with 1
if one does.
"""

import argparse
import logging
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = ROOT.parent / "shared"
sys.path[:1] = [str(ROOT), str(ROOT / "tests")]

RIGHT = "right"

OWN_DIFFERENCES = ("differs", "rights")
"""Codes of messages that are not about a mistake, and that right inputs may have."""

FOLDERS = {
    "wrong": SHARED / "wrong/wrong",
    RIGHT: SHARED / "wrong/right",
    "corpus": SHARED / "corpus",
    "seeds": SHARED / "seed-cases",
    "faults": SHARED / "faults",
    "red-team": SHARED / "red-team",
    "fixtures": ROOT / "fixtures",
}
"""The inputs by kind. A checkout alone has only the fixtures."""

LARGEST = 2_000_000
"""The largest input in bytes. Larger ones test limits."""


def arguments():
    """Return the arguments of the command line."""
    summary, _, rest = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser("python tests/rules", description=summary, epilog=rest)
    parser.add_argument("--fired", nargs="*", metavar="FOLDER", help="instead of all inputs")
    parser.add_argument("--rule", metavar="NAME", help="list the inputs of one rule")
    found = parser.parse_args()
    if found.fired is None and not found.rule:
        parser.error("pass --fired or --rule NAME")
    return found


def findings(path):
    """Return the name of each rule that fires on an input, with the problem as users see it."""
    from rules.recorded import outcome

    found = outcome(path.read_text(errors="replace"), str(path))
    rules = {each.rule for each in found.findings}
    is_right = path.is_relative_to(FOLDERS[RIGHT])
    return [
        (rule.name, str(problem))
        for rule in rules
        for problem in found.by(rule)
        if not (is_right and problem.code in OWN_DIFFERENCES)
    ]


def main():
    """Print the table, or the problems of one rule."""
    from mlgen.reference import rules

    words = arguments()
    folders = {name: Path(name) for name in words.fired or ()} or FOLDERS
    named = rules.by_name()
    if words.rule and words.rule not in named:
        sys.exit(f'there is no rule "{words.rule}"')
    inputs = [
        (kind, path)
        for kind, folder in folders.items()
        for path in sorted(folder.rglob("*.y*ml"))
        if path.stat().st_size < LARGEST
    ]
    with ProcessPoolExecutor(initializer=logging.disable) as pool:
        each = [*pool.map(findings, [path for _, path in inputs], chunksize=8)]
    if words.rule:
        lines = [
            f"{kind}: {text}"
            for (kind, _), found in zip(inputs, each, strict=True)
            for name, text in found
            if name == words.rule
        ]
        print("\n".join(lines) or f"{words.rule} never fires")
        return int(any(line.startswith(f"{RIGHT}: ") for line in lines))
    fired = Counter(
        (name, kind)
        for (kind, _), found in zip(inputs, each, strict=True)
        for name in {name for name, _ in found}
    )
    return table([*folders], Counter(kind for kind, _ in inputs), fired)


def table(kinds, sizes, fired):
    """Print the number of inputs on which each rule fired, and return the exit status."""
    from mlgen.reference import rules

    codes = rules.by_code()
    print(f"Of {len(rules.by_subject())} rules, each with its number of inputs with a problem, of:")
    print(", ".join(f"{sizes[kind]} {kind}" for kind in kinds))
    print("A rule must not fire on a right input (!), and one that fires on none needs a source.\n")
    rows = [["subject", "rule", "codes", *kinds, ""]]
    for rule in rules.by_subject():
        counts = [fired[rule.name, kind] for kind in kinds]
        of_rule = ",".join(code for code, found in codes.items() if rule.name in found)
        mark = "!" if fired[rule.name, RIGHT] else "" if any(counts) else "never"
        numbers = [str(count or "-") for count in counts]
        rows.append([rule.subject, rule.name, of_rule, *numbers, mark])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())
    return int(any(row[-1] == "!" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
