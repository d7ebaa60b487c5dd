"""The schemas → `prepared/checkers`: functions that return whether a document is valid.

`jobs.py` has one for the job files of each framework, by its name, and one for `spec.matrix`. The
module of a dialect has one for each kind, by its apiVersion and name.
"""

from collections.abc import Iterable

from mlgen import dialects, frameworks
from mlgen.build._compiler import Compiler
from mlgen.jobfile.schema import base, of_matrix


def files() -> dict[str, str]:
    """Return the modules."""
    texts = {"checkers/__init__.py": "", "checkers/jobs.py": _jobs()}
    for name in dialects.names():
        texts[f"checkers/{name}.py"] = _dialect(name)
    return texts


def _jobs() -> str:
    """Return the module for job files: what is valid for all frameworks, and more for each."""
    compiler = Compiler(base()["definitions"])
    every = frameworks.schema([])
    functions = {"spec.matrix": compiler.function(of_matrix())}
    for name in frameworks.names():
        own = frameworks.schema([name])["allOf"]
        functions[name] = compiler.function({"allOf": [every, *own]})
    return _module(compiler, functions.items())


def _dialect(name: str) -> str:
    """Return the module for the custom resources of an operator."""
    compiler = Compiler(base()["definitions"])
    kinds = dialects.get(name).kinds
    return _module(compiler, [(k, compiler.function(dialects.schema(*k))) for k in kinds])


def _module(compiler: Compiler, functions: Iterable[tuple[object, str]]) -> str:
    table = "".join(f"    {key!r}: {function},\n" for key, function in functions)
    return f"{compiler.text()}\n\nCHECKERS = {{\n{table}}}\n"
