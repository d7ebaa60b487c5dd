"""The patterns of JSON Schema → those of Python; and patterns that several schemas have."""

TEXT = r"^[^\x00]*$"
"""A text that a process can have as an argument, or in its environment."""

LINE = r"^[^\x00-\x1f\x7f]*$"
"""A text without control characters: a name, a key, an address."""

PATH = r"^/[^\x00-\x1f\x7f]*$"
"""An absolute path without control characters."""

SSH_FOLDER = r"^/[-+.@_/A-Za-z0-9]*$"
"""An absolute path that ssh and sshd take as it is.

In their configurations, spaces, quotes, `#`, `%`, `$` and a backslash have a meaning, and a line
feed begins another directive: ssh_config(5), sshd_config(5).
"""


def python_pattern(pattern: str) -> str:
    r"""Return a pattern for Python's `re.search` that matches the same texts.

    `$` at the end is the end of the text in JSON Schema (ECMA 262, 22.2.2.4). In Python, it also
    matches before a line feed there. No pattern of mlgen has it anywhere else.
    """
    return f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern
