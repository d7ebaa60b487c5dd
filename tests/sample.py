"""Choose the fixtures of the everyday tests, and write their names to tests/sample.txt.

    python tests/sample.py [--files 24]

The features of a fixture are the branches that it takes in mlgen/, and the paths of the fields in
its job and its manifests. The paths also cover the rows of tables. The script repeatedly adds the
fixture with the most features that the sample lacks, so the first ones show most. The result
depends only on the checkout.
"""

import argparse

import coverage
from support import FILES, ROOT, load_all, rendered

NAMES = ROOT / "tests/sample.txt"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=24)
    count = parser.parse_args().files
    shown = features()
    sample = chosen(shown, count)
    NAMES.write_text("".join(f"{file.relative_to(ROOT / 'fixtures')}\n" for file in sample))
    total, covered = (len(set().union(*(shown[file] for file in part))) for part in (shown, sample))
    print(f"{len(sample)} of {len(shown)} fixtures show {covered / total:.1%} of {total} features")


def features():
    """Return the branches and field paths of each fixture."""
    for file in FILES:  # fills mlgen's caches, so that no fixture is the first
        rendered(file)
    measured = coverage.Coverage(data_file=None, branch=True, source=["mlgen"])
    texts = {}
    with measured.collect():
        for file in FILES:
            measured.switch_context(str(file))
            texts[file] = rendered(file)
    data = measured.get_data()
    shown = {}
    for file in FILES:
        data.set_query_contexts([f"^{file}$"])
        arcs = {(name, arc) for name in data.measured_files() for arc in data.arcs(name) or ()}
        documents = [*load_all(texts[file]), *load_all(file.read_text())]
        shown[file] = arcs | {path for item in documents for path in fields(item, item["kind"])}
    return shown


def fields(value, path):
    """Yield the path of each field in a value. Items of a list have the path of the list."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from fields(inner, f"{path}.{key}")
    for inner in value if isinstance(value, list) else ():
        yield from fields(inner, path)


def chosen(shown, count):
    """Return at most `count` fixtures that together have the most features."""
    sample, left = [], set().union(*shown.values())
    while left and len(sample) < count:
        best = max(shown, key=lambda file: (len(shown[file] & left), -FILES.index(file)))
        sample.append(best)
        left -= shown[best]
    return sample


if __name__ == "__main__":
    main()
