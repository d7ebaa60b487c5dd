"""The problems that a dialect reports: texts in `schemas/resources/<dialect>.json`.

There, `problems` has a row for each. Its text is under `refuse`, for an error, or under `differs`,
for a warning. A row may also have a `hint`, and the `code` of an error. In the texts, `{value}` is
the value with the problem, `{job}` the name of the job, and other names in braces are what the
dialect adds to them.
"""

from mlgen.dialects._builder import Builder, SourceValue
from mlgen.dialects._schemas import read


def report(
    builder: Builder, dialect: str, problem: str, source: SourceValue, **added: object
) -> None:
    """Report a problem at a value.

    Args:
        builder: gets the problem.
        dialect: its name.
        problem: the key of the row.
        source: the value.
        added: what the texts contain.
    """
    row = read(f"{dialect}.json")["problems"][problem]
    names = {"value": source.value, "job": builder.name, **added}
    hint = row.get("hint", "").format(**names)
    if "differs" in row:
        builder.differs(source, row["differs"].format(**names), hint)
    else:
        builder.refuse(source, row["refuse"].format(**names), hint, row.get("code", "refused"))
