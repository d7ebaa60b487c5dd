"""A fixture for all tests of the supervisor's program."""

import builtins
import inspect

import archives
import pytest

from mlgen.objects.supervisor import FEATURES, archive

PACKAGE = "mlgen.runtime"


@pytest.fixture(autouse=True)
def only_modules_of_the_archive(monkeypatch):
    """Let an import in a function fail if the archive for its plan does not have the module."""
    original, found = builtins.__import__, {}

    def modules(plan):
        used = tuple(name for name in FEATURES if getattr(plan, name))
        if used not in found:
            found[used] = archives.modules(archive(archives.plan(used)))
        return found[used]

    def imported(name, names=None, local=None, fromlist=(), level=0):
        caller = inspect.currentframe().f_back
        is_own = name.startswith(PACKAGE) and caller.f_globals["__name__"].startswith(PACKAGE)
        if is_own and caller.f_code.co_name != "<module>":
            values = caller.f_locals
            plan = values.get("plan") or values.get("job") or values["self"]._plan  # noqa: SLF001
            wanted = fromlist if name == PACKAGE else [name.rpartition(".")[2]]
            for each in wanted:
                if each not in modules(plan):
                    raise ModuleNotFoundError(f"{each} is not in the archive for {plan}")
        return original(name, names, local, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", imported)
