"""Records behave like frozen dataclasses."""

import copy
import dataclasses
import pickle
from collections.abc import Callable, Sequence

import pytest

from mlgen.records import compared_names, field, field_names, record, replace


@record
class Wait:
    role: str
    ports: Sequence[int] = ()
    labels: dict[str, str] = field(default_factory=dict)
    seen: bool = field(default=False, compare=False)


@record
class Rule:
    applies: Callable[[str], bool] = lambda name: name.isupper()


@record
class Empty:
    pass


@record
class Loud:
    name: str

    def __repr__(self):
        return self.name.upper()


def test_values_are_given_by_position_or_by_name():
    assert Wait("ps", (1, 2)) == Wait(role="ps", ports=(1, 2))


def test_defaults_are_made_anew_for_each_record():
    one, other = Wait("ps"), Wait("ps")

    assert one.labels == {}
    assert one.labels is not other.labels


def test_a_default_can_be_a_function():
    assert Rule().applies("A")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Wait, r"Wait requires \['role'\]"),
        (lambda: Wait("ps", port=1), r"Wait has no \['port'\]"),
        (lambda: Wait("ps", role="ps"), "Wait got too many values"),
        (lambda: Wait("ps", (), {}, 1, 5), "Wait got too many values"),
    ],
)
def test_wrong_values_are_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("change", [setattr, lambda item, name, _: delattr(item, name)])
def test_a_record_cannot_be_changed(change):
    with pytest.raises(AttributeError, match=r"a record cannot be changed: Wait\.role"):
        change(Wait("ps"), "role", "worker")


def test_records_are_equal_if_class_and_compared_values_are():
    assert Wait("ps", seen=True) == Wait("ps")
    assert Wait("ps") != Wait("worker")
    assert Loud("ps") != Wait("ps")
    assert Empty() == Empty()


def test_a_record_of_hashable_values_is_hashable():
    assert len({Loud("a"), Loud("a"), Loud("b")}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Wait("ps"))


def test_a_record_prints_its_values():
    assert repr(Wait("ps", (1,))) == "Wait(role='ps', ports=(1,), labels={}, seen=False)"


def test_a_method_of_the_class_itself_remains():
    assert repr(Loud("a")) == "A"


@pytest.mark.parametrize("change", [replace, dataclasses.replace, Wait.__replace__])
def test_a_record_is_replaced_by_one_with_other_values(change):
    assert change(Wait("ps", (1,)), role="worker") == Wait("worker", (1,))


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_a_record_can_be_copied_and_pickled(travel):
    assert travel(Wait("ps", (1,), {"a": "b"})) == Wait("ps", (1,), {"a": "b"})


def test_a_record_matches_by_position():
    match Wait("ps", (1,)):
        case Wait(role, ports):
            assert (role, ports) == ("ps", (1,))


def test_fields_can_be_listed():
    assert field_names(Wait) == ("role", "ports", "labels", "seen")
    assert compared_names(Wait) == ("role", "ports", "labels")


def test_dataclasses_takes_a_record_for_a_dataclass():
    fields = {item.name: item for item in dataclasses.fields(Wait)}

    assert list(fields) == list(field_names(Wait))
    assert fields["ports"].default == ()
    assert fields["labels"].default_factory is dict
    assert fields["role"].default is dataclasses.MISSING
    assert not fields["seen"].compare
    assert dataclasses.asdict(Wait("ps")) == {
        "role": "ps",
        "ports": (),
        "labels": {},
        "seen": False,
    }
