"""Skeletons of objects (`templates/objects`) with values put in their places.

A template decides where a value stands, never what it is: every slot is `{{ value | slot }}`. The
filter writes a number in the place of the value, and the value is put back once the skeleton has
been read, so no text of the user ever passes through YAML on its way.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from mlgen.resources import folder

if TYPE_CHECKING:
    from jinja2 import Environment

MARK = "slot:"


@cache
def environment() -> "Environment":
    """Return the one Jinja environment; a name that is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

    env = Environment(
        loader=FileSystemLoader(folder("templates") / "objects"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - what is made is data, and slots are numbers
        trim_blocks=True,
        lstrip_blocks=True,
    )

    @pass_context
    def slot(context: Any, value: Any) -> str:
        context["_values"].append(value)
        return f"{MARK}{len(context['_values']) - 1}"

    env.filters["slot"] = slot
    return env


def filled(name: str, **values: Any) -> dict[str, Any]:
    """Return the object of `templates/objects/<name>.yaml` with these values in its slots."""
    import yaml

    kept: list[Any] = []
    text = environment().get_template(f"{name}.yaml").render(values, _values=kept)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = _put_back(yaml.load(text, loader), kept)  # noqa: S506 - it is a safe one
    return found


def _put_back(node: Any, values: list[Any]) -> Any:
    if isinstance(node, dict):
        return {key: _put_back(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [_put_back(item, values) for item in node]
    if isinstance(node, str) and node.startswith(MARK):
        return values[int(node.removeprefix(MARK))]
    return node
