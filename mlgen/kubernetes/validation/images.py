"""The grammar of image references.

The API server accepts any text; the container runtime refuses to pull what is not a reference
(InvalidImageName). Source: github.com/distribution/reference v0.6.0, regexp.go and normalize.go.
"""

import re
from collections.abc import Iterator

from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

NAME_MAX = 255

_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])"
_DOMAIN = rf"{_HOST}(?::[0-9]+)?\Z"
_NAME = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*\Z")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}\Z"
_HEXADECIMAL = r"[a-f0-9]{64}\Z"
_PLACEHOLDER = r"\$\{|\$\(|\$[A-Za-z_]|\{\{|<[^>]*>"


def image(at: ValuePath, reference: str) -> Iterator[Violation]:
    """Return a violation if a text is not a reference to an image."""
    hint = _hint(reference)
    if hint:
        message = f'"{reference}" is not a valid image reference'
        yield Violation(at, message, hint, "bad-value")


def _hint(reference: str) -> str:
    """Return what to change in a reference; "" if it is valid."""
    domain, rest = _split(reference)
    named, _, digest = rest.partition("@")
    name, colon, tag = named.partition(":")
    if domain is None and re.match(_HEXADECIMAL, reference):
        return "write NAME@sha256:DIGEST"
    if (
        (domain is None or re.match(_DOMAIN, domain))
        and _NAME.match(name)
        and (not colon or _TAG.match(tag))
        and ("@" not in rest or re.match(_DIGEST, digest))
        and len(f"{domain or ''}/{name}") <= NAME_MAX
    ):
        return ""
    return _reason(reference, name)


def _reason(reference: str, name: str) -> str:
    """Return the hint for the most likely mistake in an invalid reference."""
    if re.search(_PLACEHOLDER, reference):
        return "mlgen does not fill in placeholders; write the name and the tag of the image"
    if "://" in reference:
        return f"remove {reference.partition('://')[0]}://"
    if reference != reference.strip() or " " in reference:
        return "remove the spaces"
    if name != name.lower():
        return "use lower-case letters in the name"
    return "write it as in registry.example.com/team/train:1.2"


def _split(reference: str) -> tuple[str | None, str]:
    """Return the domain, None if it is omitted, and the rest: splitDockerDomain."""
    first, slash, rest = reference.partition("/")
    if slash and (first == "localhost" or set(first) & {".", ":"} or first != first.lower()):
        return first, rest
    return None, reference
