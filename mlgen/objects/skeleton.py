"""Fill the skeletons of objects (`templates/objects`) with values, and report wrong pod templates.

A template defines only the positions of values. It has two kinds of slots:

- `{{ value | slot }}` requires a value.
- `{{ value | optional }}` is omitted with its key or item if the value is None. A mapping or list
  that becomes empty is also omitted.

A template is parsed before it is filled, so the user's text is never parsed as YAML. The skeletons
in a wheel are parsed when it is built.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from mlgen.resources import folder, prepared

if TYPE_CHECKING:
    from jinja2 import Environment
from mlgen.problems import Code, MlgenError, Problem
from mlgen.topology import Role

SLOTS = ("slot", "optional")
"""The filters of templates. In a skeleton, a slot is a pair: one of these, and the value's name."""


def filled(template: str, /, **values: Any) -> dict[str, Any]:
    """Return the object of `templates/objects/<template>.yaml` with these values in its slots.

    Raises:
        ValueError: a required value is missing or None.
    """
    filled_object: dict[str, Any] = _filled(skeleton(template), values)
    return filled_object


def _filled(node: Any, values: dict[str, Any]) -> Any:
    """Return a part of a skeleton with values in its slots; None if it is omitted."""
    if isinstance(node, tuple):
        kind, name = node
        value = values.get(name)
        if value is None and kind == "slot":
            raise ValueError(f"the template needs a value of {name}")
        return value
    if not isinstance(node, dict | list):
        return node
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    parts = {key: _filled(inner, values) for key, inner in pairs}
    remaining = {key: part for key, part in parts.items() if part is not None}
    if node and not remaining:
        return None
    return remaining if isinstance(node, dict) else list(remaining.values())


@cache
def skeleton(template: str) -> Any:
    """Return the skeleton of a template: its content as data, in which a slot is a pair."""
    part = prepared("skeletons")
    return part.SKELETONS[template] if part else parsed(template)


def parsed(template: str) -> Any:
    """Return the skeleton of a template, read from its file.

    Each slot is rendered as a tagged scalar, `!slot metadata`, which YAML then reads as a pair.
    """
    import yaml
    from jinja2.meta import find_undeclared_variables

    env = environment()
    source = (folder("templates") / "objects" / f"{template}.yaml").read_text(encoding="utf-8")
    names = find_undeclared_variables(env.parse(source))
    text = env.from_string(source).render({name: name for name in names})

    class Loader(yaml.SafeLoader):
        """A YAML loader that reads slots."""

    for kind in SLOTS:
        Loader.add_constructor(f"!{kind}", lambda _, node: (node.tag[1:], node.value))
    return yaml.load(text, Loader)  # noqa: S506 - a safe loader with two more tags


@cache
def environment() -> "Environment":
    """Return the Jinja environment of the templates."""
    from jinja2 import Environment, StrictUndefined

    env = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - renders no HTML
    env.globals.clear()  # the global `namespace` has the name of a value
    env.filters |= {kind: f"!{kind} {{}}".format for kind in SLOTS}
    return env


def template_error(role: Role, message: str, code: Code, hint: str = "") -> MlgenError:
    """Return an error located at a role's pod template."""
    path = ("spec", "roles", role.spec.name, "template")
    return MlgenError([Problem(path, message, code, hint)])
