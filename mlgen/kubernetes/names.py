"""The names that Kubernetes accepts.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

import re

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")

LABEL_MAX = 63
"""Characters of a DNS label, and so of a pod's host name and of a Service."""

STATEFUL_SET_MAX = 52
"""The controller appends `-` and ten characters for a label: kubernetes/kubernetes#64023."""


def namespace(text: str) -> str:
    """Return the text if it can name a namespace.

    Raises:
        ValueError: it cannot.
    """
    if DNS_1123.match(text) and len(text) <= LABEL_MAX:
        return text
    raise ValueError(f"{text!r} cannot name a namespace")
