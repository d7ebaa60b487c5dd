"""A value → whether it is valid, by the function into which the build compiles its schema.

`violations.py` says what is wrong with a value that is not, and checks all values in a checkout.
"""

from typing import Any

from mlgen.resources import prepared


def accepts(module: str, schema: object, data: Any) -> bool:
    """Return True if a value is valid; False if it is not, or if no function is prepared for it.

    Args:
        module: of `mlgen.prepared.checkers`; see mlgen/build.
        schema: the key of the function there.
        data: the value.
    """
    part = prepared(f"checkers.{module}")
    is_valid = part.CHECKERS.get(schema) if part else None
    return is_valid is not None and is_valid(data)
