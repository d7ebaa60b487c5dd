"""The versions of Kubernetes that manifests can be rendered for."""

import pytest

from mlgen.kubernetes.versions import DEFAULT, SUPPORTED, KubeVersion, nearest, parse


def test_a_version_is_read_up_to_its_minor_version():
    rows = [
        ("1.31", (1, 31)),
        ("v1.34.4", (1, 34)),
        ("v1.37.0+k3s1", (1, 37)),
        ("1.36.0-gke.100", (1, 36)),
        ("1.33-gke.100", (1, 33)),
        ("v1.33.5+k3s1", (1, 33)),
        ("1.33.5-eks-1234", (1, 33)),
        ("1.33+", (1, 33)),
    ]

    assert [KubeVersion(*version) for _, version in rows] == [parse(text) for text, _ in rows]


@pytest.mark.parametrize(
    "text",
    [
        "1.30",
        "1.38",
        "1.3",
        "1",
        "2.34",
        "",
        "latest",
        "1.x",
        "v",
        "vv1.34",
        "1.-34",
        "1.34x",
        "1.34 ",
    ],
)
def test_any_other_version_is_an_error_that_names_the_supported_ones(text):
    with pytest.raises(
        ValueError,
        match=f'^expected a version from 1.31 to 1.37, got "{text}"$'.replace("+", r"\+"),
    ):
        parse(text)


def test_of_a_newer_version_the_nearest_is_the_newest_supported_one():
    message = 'expected a version from 1.31 to 1.37, got "v1.38.1"'

    assert (SUPPORTED[-1], message) == nearest("v1.38.1")
    assert (SUPPORTED[0], "") == nearest("1.31")


def test_versions_compare_by_number():
    assert KubeVersion(1, 9) < KubeVersion(1, 31) < KubeVersion(2, 0)


def test_a_version_is_printed_without_patch_level():
    assert "1.34" == str(DEFAULT)


def test_every_supported_version_can_be_read():
    assert list(SUPPORTED) == [parse(str(version)) for version in SUPPORTED]
    assert DEFAULT in SUPPORTED
