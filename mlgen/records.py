"""Records: frozen dataclasses whose classes cost next to nothing to create.

`dataclasses` generates and compiles the source of six methods for each class, and imports `inspect`
for that. A job passes through some sixty classes, and creating these took longer than rendering it.
Here, the methods are written once, for all classes. Type checkers see dataclasses (PEP 681).

    @record
    class Wait:
        role: str
        port: int | None = None
        labels: Mapping[str, str] = field(default_factory=dict)

`dataclasses.fields`, `replace` and `asdict` accept records too.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T")

MISSING: Any = object()


class _Default:
    """Stands for the default of a field until `record` has read it."""

    def __init__(self, value: Any, make: Callable[[], Any] | None, *, compare: bool) -> None:
        self.value, self.make, self.compare = value, make, compare


def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | None = None,
    compare: bool = True,
) -> Any:
    """Return the default of a field, with what else is to be known of it.

    Args:
        default: its value.
        default_factory: makes the value anew for each record, in place of `default`.
        compare: whether records with different values in this field are different.
    """
    return _Default(default, default_factory, compare=compare)


class _Shape:
    """The fields of a class of records.

    Attributes:
        names: of all fields, in their order.
        known: the same.
        compared: of those by which records are compared.
        defaults: the defaults of fields, by name.
        makers: what makes the default of a field, by name.
        required: the names of those without a default.
        values: returns the values of all fields of a record.
        comparable: returns those by which it is compared.
    """

    def __init__(self, kind: type) -> None:
        self.names = tuple(kind.__annotations__)
        written = {name: vars(kind)[name] for name in self.names if name in vars(kind)}
        special = {name: item for name, item in written.items() if isinstance(item, _Default)}
        self.compared = tuple(n for n in self.names if n not in special or special[n].compare)
        self.makers = {name: item.make for name, item in special.items() if item.make}
        values = {name: item.value for name, item in special.items()}
        self.defaults = {n: v for n, v in (written | values).items() if n not in self.makers}
        self.known = frozenset(self.names)
        self.required = self.known - written.keys()
        self.values, self.comparable = _getter(self.names), _getter(self.compared)
        for name in written:
            delattr(kind, name)  # as a method, a default that is a function would get the record


if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def record(kind: type[T]) -> type[T]:
        """Return the class as a record: its annotations are its fields, as of a dataclass."""
        return kind
else:

    def record(kind: Any) -> Any:
        """Return the class as a record: its annotations are its fields, as of a dataclass."""
        kind.__record__ = _Shape(kind)
        kind.__match_args__ = kind.__record__.names
        for name, method in METHODS.items():
            if name not in vars(kind):
                setattr(kind, name, method)
        return kind


def replace(item: T, /, **changes: Any) -> T:
    """Return a record with other values in some of its fields."""
    kind: Any = type(item)
    shape = kind.__record__
    values = dict(zip(shape.names, shape.values(item), strict=True))
    new: T = kind(**values | changes)
    return new


def field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a class of records, in their order."""
    names: tuple[str, ...] = kind.__record__.names
    return names


def compared_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields by which records of a class are compared."""
    names: tuple[str, ...] = kind.__record__.compared
    return names


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from a record to the values of these fields."""
    if len(names) > 1:
        return attrgetter(*names)  # the quickest, but it returns a single value bare
    return lambda item: tuple(getattr(item, name) for name in names)


def _init(self: Any, /, *arguments: Any, **values: Any) -> None:
    shape = self.__record__
    if arguments:
        given = dict(zip(shape.names, arguments, strict=False))
        if len(given) < len(arguments) or given.keys() & values.keys():
            raise TypeError(f"{type(self).__qualname__} got too many values")
        values |= given
    for name, make in shape.makers.items():
        if name not in values:
            values[name] = make()
    if not shape.required <= values.keys() <= shape.known:
        missing, unknown = shape.required - values.keys(), values.keys() - shape.known
        problem = f"requires {sorted(missing)}" if missing else f"has no {sorted(unknown)}"
        raise TypeError(f"{type(self).__qualname__} {problem}")
    self.__dict__.update(shape.defaults)
    self.__dict__.update(values)


def _eq(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return self.__record__.comparable(self) == self.__record__.comparable(other)


def _hash(self: Any) -> int:
    return hash(self.__record__.comparable(self))


def _repr(self: Any) -> str:
    pairs = zip(self.__record__.names, self.__record__.values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _frozen(self: Any, name: str, *_: Any) -> NoReturn:
    raise AttributeError(f"a record cannot be changed: {type(self).__qualname__}.{name}")


class _DataclassFields:
    """What `dataclasses` looks for in a class, made when it is looked for."""

    def __get__(self, item: Any, kind: Any) -> Any:
        import dataclasses

        shape, fields = kind.__record__, []
        for name in shape.names:
            options: dict[str, Any] = {"compare": name in shape.compared}
            if name in shape.makers:
                options["default_factory"] = shape.makers[name]
            elif name in shape.defaults:
                options["default"] = shape.defaults[name]
            fields.append((name, kind.__annotations__[name], dataclasses.field(**options)))
        made: Any = dataclasses.make_dataclass(kind.__name__, fields, kw_only=True)
        return made.__dataclass_fields__


METHODS: dict[str, Any] = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _frozen,
    "__delattr__": _frozen,
    "__replace__": replace,
    "__dataclass_fields__": _DataclassFields(),
}
"""The methods of every record, unless its class defines one itself."""
