"""`Violation`: one rule of Kubernetes' API that a value breaks."""

from dataclasses import dataclass

from mlgen.problems import Code, Problem, ValuePath


@dataclass(frozen=True)
class Violation:
    """A value that the API server rejects.

    Attributes:
        path: of the value, from the value that was checked.
        message: what is wrong, in one line, as in `Problem`.
        hint: what to write instead, in one line; "" if there is nothing to add.
        code: the kind of problem.
    """

    path: ValuePath
    message: str
    hint: str
    code: Code

    def problem(self, at: ValuePath = ()) -> Problem:
        """Return the problem, for a value that was checked at a path of a document."""
        return Problem((*at, *self.path), self.message, self.code, self.hint)
