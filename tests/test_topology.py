"""Host names of replicas, as environment variables and scripts need them."""

import pytest

from mlgen.topology import INDEX, INDEX_NAME, Hosts


@pytest.mark.parametrize(
    ("count", "first", "names", "short"),
    [
        (1, 0, ["m-ps-0.m"], "m-ps-0.m"),
        (1, 3, ["m-ps-3.m"], "m-ps-3.m"),
        (2, 0, ["m-ps-0.m", "m-ps-1.m"], "m-ps-[0-1].m"),
        (3, 2, ["m-ps-2.m", "m-ps-3.m", "m-ps-4.m"], "m-ps-[2-4].m"),
    ],
)
def test_hosts_are_listed_and_have_a_short_form(count, first, names, short):
    hosts = Hosts("m-ps-", count, ".m", first)

    assert list(hosts) == names
    assert str(hosts) == short


def test_kubernetes_expands_the_index():
    assert INDEX == f"$({INDEX_NAME})"
