"""Paths of the project's files, and helpers for tests that run for each file."""

import inspect
import os
import re
import socket
from contextlib import ExitStack
from copy import deepcopy
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from itertools import islice
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FIXTURES = sorted((ROOT / "fixtures").glob("*.yaml"))
"""Job files."""

RESOURCES = sorted((ROOT / "fixtures/resources").glob("*.yaml"))
"""Custom resources of the operators: `<dialect>-<kind>-<version>[-<detail>].yaml`."""

FILES = [*FIXTURES, *RESOURCES]

SAMPLE = [ROOT / "fixtures" / name for name in (ROOT / "tests/sample.txt").read_text().split()]
"""The files of the everyday tests, which tests/sample.py chooses. The first ones show most."""

NEWER = sorted((ROOT / "fixtures").glob("kubernetes-*/*.yaml"))
"""Job files that need a newer Kubernetes than the default. The folder's name has its version."""

SLOW = pytest.mark.slow


def missing(reason):
    """Skip a test because this machine lacks something; in CI, where nothing may be missing, fail.

    Only a CI with ../shared, which builds all programs of other projects, has everything.
    """
    if os.environ.get("CI") == "true" and (ROOT.parent / "shared").exists():
        pytest.fail(f"CI has to install what tests need: {reason}")
    pytest.skip(reason)


def script_of_ci(name):
    """Return a program in .ci, which has no suffix, as a module."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / ".ci" / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def stem(value):
    return value if isinstance(value, str) else value.stem


def cases(files):
    """Return a parameter for each file. Files outside of the sample belong to the slow tests."""
    return [
        pytest.param(file, id=file.stem, marks=() if file in SAMPLE else SLOW) for file in files
    ]


def each_file(*patterns, without="(?!)", files=FILES, sample=7):
    """Run a test for each fixture, as one case that reports every fixture which fails.

    The test takes the `file`, its manifests as `text`, or their `objects`. Patterns select the
    fixtures whose manifests match all of them, but not `without`. The everyday tests run the first
    `sample` of the selected fixtures that are in tests/sample.txt, the slow tests all others.
    """
    parts = [pytest.param(True, id="sample"), pytest.param(False, id="others", marks=SLOW)]
    values = {"file": lambda file: file, "text": rendered_once, "objects": manifests}

    def matches(file):
        if not patterns:
            return True
        found = [
            re.search(pattern, rendered_once(file), re.MULTILINE)
            for pattern in (*patterns, without)
        ]
        return all(found[:-1]) and not found[-1]

    def decorate(check):
        names = inspect.signature(check).parameters

        @pytest.mark.parametrize("in_sample", parts)
        def run(in_sample, subtests):
            known = (file for file in SAMPLE if file in files and matches(file))
            everyday = [*islice(known, sample)]
            others = (file for file in files if file not in everyday)
            chosen = everyday if in_sample else [file for file in others if matches(file)]
            assert chosen or not in_sample, "no fixture of tests/sample.txt renders this"
            for file in chosen:
                with subtests.test(file.stem):
                    check(**{name: values[name](file) for name in names})

        run.__name__, run.__doc__ = check.__name__, check.__doc__
        return run

    return decorate


def job_file(name="p", framework="generic", **spec):
    """Return a job file with two workers, unless `spec` has other roles."""
    defaults = {"framework": framework, "image": "i", "roles": {"worker": {"replicas": 2}}}
    return {
        "apiVersion": "mlgen.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": defaults | spec,
    }


def apply(document, path, value):
    """Return a copy of a document with one value set, as `--set` sets it."""
    from mlgen.documents.overrides import Draft

    draft = Draft(document)
    draft.set(path, value)
    return draft.document


@cache
def rendered_once(file):
    """Return the manifests of a fixture, which are rendered only once."""
    return rendered(file)


@cache
def manifests(file):
    """Return the objects in the manifests of a fixture. Tests do not change them."""
    return load_all(rendered_once(file))


@cache
def codes_in_goldens():
    """Return the names of the rules of each code, as `mlgen.reference.rules.computed`.

    The goldens of the wrong examples of all rules contain the codes, and are fast to read.
    """
    from mlgen.reference import rules

    text = (ROOT / "tests/rules/__snapshots__/test_examples.ambr").read_text(encoding="utf-8")
    shown = dict(re.findall(r"(?ms)^# name: \w+\[(.*?)\]$(.*?)^# ---$", text))
    found = {}
    for rule in rules.by_subject():
        for code in dict.fromkeys(re.findall(r"(?m)^  job\.yaml.* \[(.*)\]$", shown[rule.name])):
            found.setdefault(code, []).append(rule.name)
    return found


def rendered(file, form="yaml", **options):
    """Return the output of `mlgen render` for a file, run in the project's folder."""
    from mlgen import Options, validate

    name = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)
    folder = Path.cwd()
    os.chdir(ROOT)
    try:
        return manifests_text(validate(name, Options(**options)).parts, form)
    finally:
        os.chdir(folder)


def manifests_text(parts, form):
    """Return the manifests of rendered jobs and other objects as text."""
    from mlgen.output.manifests import joined, pieces

    texts = [
        piece.filled(getattr(part, "prerequisites", ()))
        for part in parts
        for piece in pieces(part, form)
    ]
    return "".join(joined(texts, form))


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text):
    """Return the document of a YAML text. libyaml reads it ten times as fast as PyYAML."""
    return yaml.load(text, LOADER)


def load_all(text):
    """Return the documents of a YAML text."""
    return list(yaml.load_all(text, LOADER))


TOTALS = re.compile(r"^(?:[\d,]+|no jobs)\b.*(?:problem|warning|job|\))s?\)?\n\Z", re.MULTILINE)
"""The last line of stderr: `2 files, 3 jobs, 1 other object (Secret), 2 problems (1 warning)`."""


def without_totals(text):
    """Return the stderr of a command without the numbers of files, jobs and problems."""
    return TOTALS.sub("", text)


def free_ports(count):
    """Return the numbers of `count` free ports."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in servers]


VALUES = [None, {}, [], [None], "", "a\nb", 0, -1, True, 1.5, {"a": 1}, [[]], ["x"], {"": {}}]


def spoilt(objects, chance):
    """Remove or replace one value at a random place, and return the objects."""
    inner, steps = objects, []
    while isinstance(inner, (dict, list)) and inner and (len(steps) < 1 or chance.random() < 0.9):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        steps.append((inner, chance.choice(keys)))
        inner = inner[steps[-1][1]]
    holder, key = steps[-1]
    if chance.random() < 0.3:
        del holder[key]
    else:
        holder[key] = deepcopy(chance.choice(VALUES))  # without a copy, it may contain itself
    return objects


BERT = """
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert}
spec:
  framework: pytorch
  image: example/bert:1
  command: [torchrun, train.py]
  roles: {worker: {replicas: 2}}
"""

ONE_OF_MANY = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: bert-NUMBER}
spec:
  framework: pytorch
  image: mlgen.test/ml:1
  command: [torchrun, train.py, --data=/data, --checkpoints=/checkpoints]
  volumes:
    data: {mountPath: /data, pvc: wikipedia, readOnly: true}
    checkpoints: {mountPath: /checkpoints, pvc: checkpoints}
  roles:
    worker: {replicas: 2, resources: {nvidia.com/gpu: 8, cpu: 64, memory: 512Gi}}
  runPolicy: {suspend: true, restartScope: All, backoffLimit: 10}
"""
"""A job with a supervisor, in a release of Helm with many of them. It has a NUMBER."""


def printed(texts, options, form, **limit):
    """Return the text of the jobs in texts, as the command line prints them."""
    from mlgen.pipeline import Walk
    from mlgen.printing import Printed

    result = Printed(Walk(options, **limit), form)
    for outcome in result.walk.outcomes(texts):
        result.add(outcome)
    result.walk.finish()
    return result


def live_jobs(source):
    """The jobs of a file, as the commands that read the cluster see them."""
    from mlgen import validate
    from mlgen.live.job import of_file

    return [of_file(job) for job in validate(source).jobs]
