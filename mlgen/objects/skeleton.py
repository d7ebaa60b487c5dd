"""Fill the skeletons of objects (`templates/objects`) with values.

A template decides where a value is placed, never what it is: every slot is `{{ value | slot }}`.
The filter writes a number in place of the value, and the value replaces the number after the
skeleton has been parsed. Text of the user therefore never passes through YAML.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from mlgen.resources import folder

if TYPE_CHECKING:
    from jinja2 import Environment

MARK = "slot:"


@cache
def environment() -> "Environment":
    """Return the Jinja environment of the skeletons, in which an undefined name is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

    env = Environment(
        loader=FileSystemLoader(folder("templates") / "objects"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - renders no HTML, and slots are numbers
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
    """Return the object of `templates/objects/<name>.yaml` with these values in its slots.

    Raises:
        jinja2.UndefinedError: a value that the skeleton uses is missing.
    """
    import yaml

    slots: list[Any] = []
    text = environment().get_template(f"{name}.yaml").render(values, _values=slots)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    skeleton = yaml.load(text, loader)  # noqa: S506 - both loaders are safe
    filled_object: dict[str, Any] = _replace_slots(skeleton, slots)
    return filled_object


def _replace_slots(node: Any, slots: list[Any]) -> Any:
    """Return a parsed skeleton with each slot's number replaced by its value."""
    if isinstance(node, dict):
        return {key: _replace_slots(value, slots) for key, value in node.items()}
    if isinstance(node, list):
        return [_replace_slots(item, slots) for item in node]
    if isinstance(node, str) and node.startswith(MARK):
        return slots[int(node.removeprefix(MARK))]
    return node
