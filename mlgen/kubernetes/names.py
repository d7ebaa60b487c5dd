"""The syntax and length of names in Kubernetes.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

import re

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
DNS_1035_WORDS = (
    "lowercase letters, digits and dashes; start with a letter, and do not end with a dash"
)
DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")

LABEL_MAX = 63
"""The maximum length of a DNS label, and so of the name of a Service and of a pod's host name."""

STATEFUL_SET_MAX = 52
"""The maximum length of a StatefulSet's name.

The controller adds `-` and ten characters for the label controller-revision-hash:
https://github.com/kubernetes/kubernetes/issues/64023.
"""


def namespace(text: str) -> str:
    """Return a namespace's name unchanged.

    Raises:
        ValueError: Kubernetes does not accept it as the name of a namespace.
    """
    if DNS_1123.match(text) and len(text) <= LABEL_MAX:
        return text
    raise ValueError(
        f'"{text}" is not a valid namespace; use at most {LABEL_MAX} lowercase letters, digits and'
        " dashes, with a letter or digit at both ends"
    )
