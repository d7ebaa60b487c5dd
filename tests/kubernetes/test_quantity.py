"""Quantities are summed, multiplied and halved in the canonical form of Kubernetes."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgen.kubernetes.quantity import cure, half, natural, parse, readable, times, total


def test_a_quantity_is_a_number_with_an_optional_suffix():
    rows = [
        ("2", "2"),
        ("500m", "0.5"),
        ("250u", "0.00025"),
        ("1n", "1e-9"),
        ("1k", "1000"),
        ("1.5M", "1500000"),
        ("3G", "3e9"),
        ("3T", "3e12"),
        ("3P", "3e15"),
        ("3E", "3e18"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1Mi", str(2**20)),
        ("1Ti", str(2**40)),
        ("1Pi", str(2**50)),
        ("1Ei", str(2**60)),
        ("2e3", "2000"),
        ("2E3", "2000"),
        ("25e-1", "2.5"),
        ("2e+3", "2000"),
        ("+.5", "0.5"),
        ("-1.", "-1"),
        ("007", "7"),
        (8, "8"),
        (0.5, "0.5"),
        (1e-07, "1e-7"),
        (1e16, "1e16"),
    ]

    assert [Decimal(number) for _, number in rows] == [parse(quantity) for quantity, _ in rows]


@pytest.mark.parametrize(
    "quantity",
    [
        *("", "two", "4 GB", "4GB", "4K", "4ki", "4gi", "4KI", "4Gi ", " 4", "4\n", "1,5", "0x10"),
        *(".", "-", "m", "Gi", "1.2.3", "--1", "1e", "1e1.5", "1e3Gi", "1mi", "٣", "1_000"),
        *(True, None, float("inf"), float("nan"), "1e9999999999"),
    ],
)
def test_anything_else_is_an_error(quantity):
    with pytest.raises(ValueError, match="is not a quantity; write "):
        parse(quantity)


def test_a_quantity_with_other_units_has_a_cure():
    rows = [
        ("8GB", "write 8G or 8Gi"),
        ("8gb", "write 8G or 8Gi"),
        ("1.5 TB", "write 1.5T or 1.5Ti"),
        ("64KB", "write 64k or 64Ki"),
        ("16 Gi", "write 16Gi"),
        ("4GiB", "write 4Gi"),
        ("100mi", "write 100Mi"),
        ("500 m", "write 500m"),
        ("512mb", "write 512M or 512Mi"),
        ("1B", "write 1"),
        ("4 gigs", ""),
    ]

    assert [hint for _, hint in rows] == [cure(text) for text, _ in rows]


def test_a_sum_with_an_invalid_quantity_is_an_error():
    with pytest.raises(ValueError, match='"4GB" is not a quantity'):
        total(["1Gi", "4GB"])


def test_a_sum_has_no_fraction_and_the_suffixes_of_its_addends():
    rows = [
        (["500m", "2"], "2500m"),
        (["500m", "500m"], "1"),
        (["100m"] * 10, "1"),
        (["0.1", 0.1, 0.1], "300m"),
        (["1Gi", "512Mi"], "1536Mi"),
        (["1Gi", "1Gi"], "2Gi"),
        (["1.5Gi"], "1536Mi"),
        (["0.5Gi", "0.5Gi"], "1Gi"),
        (["1023Mi", "1025Mi"], "2Gi"),
        (["0.25Ki", "0.25Ki"], "512"),
        (["1Gi", "1G"], "2073741824"),
        (["1Gi", "1073741824"], "2147483648"),
        (["0", "1Gi"], "1Gi"),
        (["1G", "500M"], "1500M"),
        (["1500M", "500M"], "2G"),
        (["1e3", "1E3"], "2k"),
        (["1", "-1"], "0"),
        (["1Gi", "-2Gi"], "-1Gi"),
        (["8", 8], "16"),
        (["1E", "1n"], "1000000000000000000000000001n"),
        ([], "0"),
    ]

    assert [expected for _, expected in rows] == [total(iter(quantities)) for quantities, _ in rows]


def test_a_multiple_of_a_quantity():
    rows = [
        ("8", 2, "16"),
        (8, 2, "16"),
        ("500m", 3, "1500m"),
        ("500m", 4, "2"),
        ("512Mi", 4, "2Gi"),
        ("500M", 2, "1G"),
        ("1Gi", 0, "0"),
    ]

    assert [expected for _, _, expected in rows] == [
        times(quantity, count) for quantity, count, _ in rows
    ]


def test_half_of_a_quantity_is_rounded_down_to_whole_units():
    rows = [
        ("16Gi", "8Gi"),
        ("1Gi", "512Mi"),
        ("3Ki", "1536"),
        ("1Ki", "512"),
        ("3G", "1500M"),
        ("3", "1"),
        (3, "1"),
        ("1", "0"),
        ("1.5Gi", "768Mi"),
        ("2147483649", "1073741824"),
    ]

    assert [expected for _, expected in rows] == [half(quantity) for quantity, _ in rows]


def test_quantities_are_capped_and_rounded_as_by_kubernetes():
    assert 2**63 - 1 == parse("9Ei") == parse("1e999999999")
    assert 1 - 2**63 == parse("-9Ei")
    assert Decimal("1e-9") == parse("0.1n") == parse("1e-999999999") == parse(f"0.{'0' * 200}1")
    assert Decimal("-1e-9") == parse("-0.1n")


SUFFIXES = ["", "Ki", "Mi", "Gi", "n", "u", "m", "k", "M", "G", *(f"e{n}" for n in range(1, 7))]
QUANTITIES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 999_999),
    st.sampled_from(["", ".0", ".5", ".25", ".001", ".999"]),
    st.sampled_from(SUFFIXES),
)


@given(st.lists(QUANTITIES, max_size=20))
def test_a_sum_has_the_value_of_its_addends(quantities):
    assert sum(map(parse, quantities)) == parse(total(quantities))


@given(QUANTITIES, st.integers(0, 1000))
def test_a_multiple_is_a_repeated_sum(quantity, count):
    assert total([quantity] * count) == times(quantity, count)


@given(QUANTITIES)
def test_the_canonical_form_does_not_change_again(quantity):
    assert total([quantity]) == total([total([quantity])])


def test_a_natural_number_has_a_few_ascii_digits():
    rows = [
        ("0", 0),
        ("007", 7),
        ("", None),
        ("-1", None),
        ("²", None),
        ("٣", None),
        ("9" * 5000, None),
    ]

    assert [number for _, number in rows] == [natural(text) for text, _ in rows]


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("106496Mi", "104 Gi"),
        ("107008Mi", "104.5 Gi"),
        ("1024Gi", "1 Ti"),
        ("7000Mi", "~6.8 Gi"),
        ("512Mi", "512 Mi"),
        ("1500G", "1.5 T"),
        ("2073741824", "~2.1 G"),
        ("100", "100"),
        ("0", "0"),
        ("9E", "9 E"),
    ],
)
def test_a_size_has_the_largest_unit(quantity, text):
    assert text == readable(quantity, size=True)


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("26100m", "26.1"),
        ("64k", "64000"),
        ("2664m", "2.664"),
        ("50m", "0.05"),
        ("100u", "0.0001"),
        ("1Ki", "1024"),
        (8, "8"),
    ],
)
def test_a_number_has_no_unit(quantity, text):
    assert text == readable(quantity, size=False)
