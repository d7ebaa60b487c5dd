"""What a shell completes: commands, options, choices and files, from a prepared table.

The rules are those of `click.shell_completion`. Words that need the job files or the schema are
left to click.
"""

from mlgen.resources import prepared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Item = tuple[str, str, str]
    """The type of a word (`plain`, `file` or `dir`), the word, and its help, "" if it has none."""

    Parameter = tuple[tuple[str, ...], int, bool, str, str | tuple[str, ...] | None]
    """A parameter of a command in the prepared table.

    Its options as they are written, () for an argument; the number of its values, -1 for any; if it
    can be repeated; its help; and its values: choices, `file`, `dir`, or None if click knows them.
    """

    Found = Sequence[Item] | None
    """What completes a word; None if that is not known here."""

PLAIN = "plain"

SHELLS = ("bash", "fish", "zsh")
"""The shells whose completion scripts, which are click's, read the same from every click."""


def answer(instruction: str, environment: "Mapping[str, str]") -> str | None:
    """Return the lines that the completion script of a shell reads; None if click is to answer.

    Args:
        instruction: the shell and what it asks for: `bash_complete`.
        environment: has the command line: COMP_WORDS and COMP_CWORD.
    """
    shell, _, asked = instruction.partition("_")
    if shell not in SHELLS or asked != "complete":
        return None
    table, line = prepared("completion"), _command_line(shell, environment)
    if table is None or line is None:
        return None
    found = _found(table.COMMANDS, table.PARAMETERS, *line)
    return None if found is None else "\n".join(_line(shell, *item) for item in found) + "\n"


def _line(shell: str, kind: str, word: str, text: str) -> str:
    """Return an item as a shell reads it."""
    if shell == "zsh":
        return f"{kind}\n{word}\n{text or '_'}"
    return f"{kind},{word}" + (f"\t{text}" if shell == "fish" and text else "")


def _command_line(shell: str, environment: "Mapping[str, str]") -> tuple[list[str], str] | None:
    """Return the words before the one that is completed, and what is written of that.

    Return None if there are words that only a parser of shell text can tell apart.
    """
    text, place = environment.get("COMP_WORDS", ""), environment.get("COMP_CWORD", "")
    if not _is_plain(text) or not _is_plain(place):
        return None
    words = text.split()
    if shell == "fish":  # its place is the word itself, which is the last one as well
        last = "".join(place.split()[:1])
        words = words[1:]
        return words[:-1] if last and words[-1:] == [last] else words, last
    if not place.isdecimal():
        return None
    index = int(place)
    return words[1:index], words[index] if index < len(words) else ""


def _is_plain(text: str) -> bool:
    """Return whether words are separated by spaces and line breaks, and nothing is quoted."""
    line = text.replace("\n", " ")
    return line.isascii() and line.isprintable() and not set(line) & set("\"'\\")


def _found(
    commands: "Sequence[tuple[str, str]]",
    parameters: "Mapping[str, Sequence[Parameter]]",
    words: list[str],
    last: str,
) -> "Found":
    """Return what completes the last word of a command line.

    Args:
        commands: each with its help.
        parameters: those of each command, and those of mlgen itself under "".
        words: those before the last.
        last: what is written of it.
    """
    if "=" in last or (words and words[0] not in parameters):
        return None
    if not words:
        items = [(PLAIN, name, text) for name, text in commands if name.startswith(last)]
        return [*items, *_options(parameters[""], set(), last)]
    return _of_command(parameters[words[0]], words[1:], last)


def _of_command(parameters: "Sequence[Parameter]", words: list[str], last: str) -> "Found":
    """Return what completes the last word after a command and further words."""
    read = _read(parameters, words)
    if read is None:
        return None
    used, arguments, unfinished = read
    if last.startswith("-"):
        return None if unfinished else _options(parameters, used, last)
    if unfinished:
        return _values(unfinished, last)
    for parameter in parameters:
        options, count, *_ = parameter
        if not options:
            if arguments < count or count < 0:
                return _values(parameter, last)
            arguments -= count
    return _options(parameters, used, last)


def _read(
    parameters: "Sequence[Parameter]", words: list[str]
) -> "tuple[set[str], int, Parameter | None] | None":
    """Return what words after a command say; None if click reads them in a way of its own.

    Returns:
        The names of the options among them, the number of arguments, and the option whose value
        is to follow.
    """
    by_option = {option: parameter for parameter in parameters for option in parameter[0]}
    used: set[str] = set()
    arguments = 0
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            arguments += 1
            continue
        option, equals, _ = word.partition("=")
        parameter = by_option.get(option)
        if parameter is None or (equals and not (option.startswith("--") and parameter[1])):
            return None
        used.update(parameter[0])
        if parameter[1] and not equals:
            value = next(rest, None)
            if value is None:
                return used, arguments, parameter
            if value.startswith("-") and value != "-":
                return None
    return used, arguments, None


def _values(parameter: "Parameter", last: str) -> "Found":
    """Return the values of an option or argument that complete a word."""
    values = parameter[4]
    if values is None:
        return None
    if isinstance(values, str):
        return [(values, last, "")]
    return [(PLAIN, value, "") for value in values if value.startswith(last)]


def _options(parameters: "Sequence[Parameter]", used: set[str], last: str) -> "list[Item]":
    """Return the options that complete a word, without those that cannot be repeated."""
    if not last or last[0].isalnum():
        return []
    return [
        (PLAIN, option, text)
        for options, _, multiple, text, _ in parameters
        if multiple or not used.intersection(options)
        for option in options
        if option.startswith(last)
    ]
