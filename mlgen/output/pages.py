"""A template in `templates/` and values → a text for people: a page, a picture, a manual.

A template contains only the words and their order. The caller computes all values.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from mlgen.output.columns import counted, duration, named
from mlgen.resources import folder

if TYPE_CHECKING:
    from jinja2 import Environment


def page(template: str, /, **values: Any) -> str:
    """Return the text of `templates/<template>` with these values."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    """Return the Jinja environment of the templates. A plain render does not import Jinja."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder("templates")),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - renders no HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"counted": counted, "duration": duration, "named": named}
    return environment
