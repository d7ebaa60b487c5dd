"""Objects that repeat an earlier one are written like single objects."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mlgen.output.yaml import MANY, yaml_text

VALUES = st.one_of(
    st.sampled_from(["a", "b", "a:b", "it's", "y", "x" * 40, "a\nb\n", "\x00", "🚀", ""]),
    st.integers(0, 1000),
    st.booleans(),
    st.none(),
)
SHAPE = {
    "kind": None,
    "metadata": {"name": None, "labels": {"a": None, "b": None}},
    "spec": {"mode": None, "env": [{"name": "A", "value": None}, None], "ports": [None, None]},
}


def filled(shape, values):
    """Return the shape with the next value in each gap."""
    if isinstance(shape, dict):
        return {key: filled(inner, values) for key, inner in shape.items()}
    if isinstance(shape, list):
        return [filled(inner, values) for inner in shape]
    return next(values) if shape is None else shape


def written_one_by_one(objects):
    return "".join(yaml_text([item]) for item in objects)


@given(st.lists(st.tuples(*[VALUES] * 9), min_size=1, max_size=4), st.randoms())
@settings(max_examples=2 * settings.default.max_examples)
def test_repeated_objects_are_written_like_single_ones(rows, random):
    objects = [filled(SHAPE, iter(random.choice(rows))) for _ in range(2 * MANY)]

    assert written_one_by_one(objects) == yaml_text(objects)


def test_what_changes_may_be_anything():
    rows = [
        [{"kind": "A", "n": number, "list": [number]} for number in range(50)],
        [{"kind": "A", str(number): 1} for number in range(50)],
        [{"kind": "A", "list": ["a"] * (number % 3)} for number in range(50)],
        [{"kind": "A", "text": "x" * number} for number in range(120)],
        [{"kind": "AB"[number % 2], "a": {"b": {"c": str(number)}}} for number in range(50)],
        [{"kind": "A", "mode": number} for number in range(50)],
        [{"kind": "A", "a": [{}, [], {"b": number % 2 == 0}]} for number in range(50)],
    ]

    assert [written_one_by_one(items) for items in rows] == [yaml_text(items) for items in rows]
