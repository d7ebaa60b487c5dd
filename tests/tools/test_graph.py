"""The graphs of `mlgen graph`, drawn by Graphviz, one of each framework."""

import subprocess

import pytest
from support import FIXTURES

from mlgen import frameworks, validate
from mlgen.graph import drawing

EXAMPLES = [
    next(path for path in FIXTURES if path.stem.startswith(name)) for name in frameworks.names()
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_graphviz_draws_the_graph(tool, path):
    (job, *_) = validate(str(path)).jobs
    graph = drawing(job, "dot")

    done = subprocess.run(
        [tool("dot"), "-Tplain"], input=graph, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
