"""A custom resource that is read, and the problems that its dialect reports.

The texts of the problems are in `schemas/resources/<dialect>.json`: `problems` has a row for each.
Its text is under `refuse`, for an error, or under `differs`, for a warning. A row may also have a
`hint`, and the `code` of an error. In the texts, `{value}` is the value with the problem, `{job}`
the name of the job, and other names in braces are what the dialect adds to them.
"""

import re

from mlgen.dialects._builder import Builder, SourceValue
from mlgen.dialects._schemas import read

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""The name of a role, and therefore of what becomes one."""


class Resource:
    """A custom resource, which a subclass reads.

    Attributes:
        dialect: the name of the dialect.
        builder: of the TrainingJob.
        spec: of the custom resource.
        put: writes into the TrainingJob; see `Builder`.
    """

    dialect = ""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.spec, self.put = builder, builder.spec, builder.put

    @property
    def gang(self) -> str:
        """The gang scheduling of the TrainingJob as far as it is written; "" without one."""
        return str(self.builder.data["spec"].get("scheduling", {}).get("gang", ""))

    def report(self, problem: str, source: SourceValue, **added: object) -> None:
        """Report a problem at a value.

        Args:
            problem: the key of the row with its texts.
            source: the value.
            added: what else the texts contain.
        """
        row = read(f"{self.dialect}.json")["problems"][problem]
        names = {"value": source.value, "job": self.builder.name, **added}
        hint = row.get("hint", "").format(**names)
        if "differs" in row:
            self.builder.differs(source, row["differs"].format(**names), hint)
        else:
            code = row.get("code", "refused")
            self.builder.refuse(source, row["refuse"].format(**names), hint, code)
