"""Random YAML texts: usual ones, and the same with an unusual part at a random place."""

from random import Random


def _words(text: str) -> list[str]:
    """Return the parts between the separators of a text."""
    return text.strip("\n").replace("\n", " ¦ ").split(" ¦ ")


PLAIN = _words(r"""
a ¦ train.py ¦ --lr ¦ -x ¦ -1 ¦ 1e-5 ¦ 1_000 ¦ 0x1F ¦ 0o7 ¦ 0644 ¦ 08 ¦ .5 ¦ +1 ¦ 1e3 ¦ 1.
-.inf ¦ .nan ¦ 0b11 ¦ 12:30:45 ¦ 1:2 ¦ 2024-01-02 ¦ 2001-12-14 21:59:43
2001-12-14t21:59:43.10-05:00 ¦ true ¦ True ¦ TRUE ¦ tRue ¦ yes ¦ on ¦ y ¦ n ¦ null ¦ Null
nULL ¦ ~ ¦ ~/x ¦ = ¦ << ¦ < ¦ 99999999999999999 ¦ 1111111111111111111111111 ¦ 1.34.1
10.0.0.1 ¦ 500m ¦ 4Gi ¦ a b ¦ a  b ¦ a#b ¦ a:b ¦ http://x:80/y?z=1#f ¦ a - b ¦ a, b ¦ a=1
$(X) ¦ $X ¦ größe ¦ 名前 ¦ a'b ¦ a"b ¦ a\nb ¦ it's ¦ [ ¦ ] ¦ { ¦ } ¦ a] ¦ a[0] ¦ x{y} ¦ @a
`a ¦ %a ¦ %YAML 1.2 ¦ !a ¦ !!str 1 ¦ &a ¦ &a b ¦ *a ¦ | ¦ > ¦ |+ ¦ ? a ¦ :a ¦ ?a ¦ - ¦ --
--- ¦ ... ¦ - a ¦ : a ¦ a: ¦ a: b ¦ a # ¦ #a ¦ _ ¦ -_ ¦ 1e ¦ + ¦ 0 ¦ 00 ¦ -0 ¦ +0.0
1e400 ¦ 9007199254740993.0 ¦ 1__2 ¦ ._ ¦ 0x ¦ 0o ¦ 0o8 ¦ 1_ ¦ /usr/bin ¦ ./x ¦ (a) ¦ a|b
a>b ¦ a&b ¦ a* ¦ 100% ¦ a@b ¦ ^a ¦ ; ¦ a;
""")
"""Plain scalars, and texts that look like one."""

QUOTED = _words(r"""
"" ¦ '' ¦ "a" ¦ 'a' ¦ "a b" ¦ 'it''s' ¦ "a\"b" ¦ "a\nb" ¦ "\t" ¦ "\\" ¦ "\/" ¦ "\x41"
"\u00e9" ¦ "\ud83d" ¦ "\U0001F600" ¦ "\q" ¦ "#" ¦ "a # b" ¦ 'a: b' ¦ " a " ¦ ' ' ¦ "---"
'1' ¦ "true" ¦ "[a]" ¦ '{' ¦ 'a\b' ¦ "名前" ¦ 'a"b' ¦ "a'b" ¦ "a ¦ 'a ¦ "a" b ¦ 'a' 'b'
"a"# ¦ "a"  # c ¦ "\  a" ¦ "a \
""")

KEYS = _words(r"""
a ¦ b ¦ c ¦ name ¦ app.kubernetes.io/name ¦ nvidia.com/gpu ¦ a b ¦ 1 ¦ true ¦ null
f:spec ¦ . ¦ k:{"a":"b"} ¦ größe ¦ a-b ¦ A_B ¦ --x ¦ << ¦ = ¦ ~ ¦ ? a ¦ LONG ¦ "a" ¦ 'b'
"a b" ¦ 'it''s' ¦ "a\nb" ¦ "a: b" ¦ '' ¦ a#b ¦ a:b ¦ [a] ¦ {a: b} ¦ &x a ¦ *x ¦ !t a ¦ -a
- a ¦ a  ¦ @a ¦ on ¦ 1e3 ¦ 12:30 ¦ a, b ¦ a? ¦ $a ¦ (a)
""")

ODD = [
    *("\n", "\r", "\r\n", "\x85", "\u2028", "\u2029", "\ufeff", "\x00", "\x1b", "\x7f", "\ud83d"),
    *("\t", "\u3000", "\xa0", "\n\n", "\n ", "\n  x", "\n#c\n", "\n---\n", "\n...\n", " ", "  "),
    *_words(r"""
# ¦  # ¦  # c ¦ : ¦ :  ¦  : ¦ - ¦ -  ¦ ? ¦ ?  ¦ , ¦ [ ¦ ] ¦ { ¦ } ¦ &a  ¦ *a ¦ ! ¦ !!str  ¦ |
> ¦ ' ¦ " ¦ \ ¦ % ¦ @ ¦ ` ¦ ~ ¦ = ¦ --- ¦ ... ¦ <<:  ¦ a:  ¦ '' ¦ "" ¦ 😀
"""),
]
"""Unusual parts that are inserted into a text."""


HEADERS = ("|", "|-", ">", ">-", "|+", ">+", "|2", ">1-", "|-2", "| # c", "|  ", "|a")

ROWS = ("a", "b c", "# c", "- x", "k: v", "---", "...", "", "", " a", "  ", "'", "a ", "[", "\\")
ODD_ROWS = _words(r"# c ¦ k: v ¦ - x ¦ ' ¦ \" ¦ \ ¦ a\ ¦ '' ¦ [ ¦ --- ¦ ... ¦ a #b ¦ \n ¦ ~:")


class Odd(Random):
    """Random numbers, and the probability of unusual parts."""

    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self.odd = self.choice((0, 0, 0.02, 0.02, 0.1, 0.3))


def text(seed: int | str) -> str:
    """Return a YAML document, which may be invalid."""
    random = Odd(seed)
    made = _text(random)
    for _ in range(random.choice((0, 0, 0, 0, 1, 1, 2))):
        made = damaged(random, made)
    return made


def _text(random: "Odd") -> str:
    kind = random.random()
    if kind < 0.05:
        return f"{_flow(random, 0)}{_comment(random)}\n"
    if kind < 0.08:
        return f"{_scalar(random, 0.7)}\n"
    lines = _mapping(random, 0, 0) if kind < 0.9 else _list(random, 0, 0)
    end = random.choice(("\n", "\n", "\n", "", "\n\n", "  \n", "\n  ", "\n# c", "\n  # c\n"))
    joint = random.choice(("\n", "\n", "\n", "\n", "\n", "\r\n"))
    return joint.join(lines) + end


def damaged(random: Random, made: str) -> str:
    """Return a text with one change."""
    at = random.randrange(len(made) + 1)
    kind = random.random()
    if kind < 0.4:
        return made[:at] + random.choice(ODD) + made[at:]
    if kind < 0.6:
        return made[:at] + made[at + random.randint(1, 3) :]
    lines = made.split("\n")
    number = random.randrange(len(lines))
    line = lines[number]
    if kind < 0.75:
        lines[number] = " " * random.randint(1, 3) + line
    elif kind < 0.9:
        lines[number] = line[min(random.randint(1, 3), len(line) - len(line.lstrip(" "))) :]
    else:
        lines.insert(random.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def _mapping(random: "Odd", indent: int, depth: int) -> list[str]:
    """Return the lines of a mapping in block style."""
    lines: list[str] = []
    for number in range(random.randint(1, 4)):
        key = (
            random.choice(KEYS) if random.random() < random.odd else f"{'abcdefgh'[depth]}{number}"
        )
        lines += _entry(random, " " * indent + key + ":", indent, depth, in_mapping=True)
        lines += _between(random, indent)
    return lines


def _list(random: "Odd", indent: int, depth: int) -> list[str]:
    """Return the lines of a list in block style."""
    lines: list[str] = []
    for _ in range(random.randint(1, 3)):
        dash = " " * indent + "-"
        gap = random.choice((1, 1, 1, 1, 2, 3))
        if depth < 4 and random.random() < 0.5:
            inner = indent + 1 + gap
            make = _mapping if random.random() < 0.8 else _list
            first, *rest = make(random, inner, depth + 1)
            lines += [dash + " " * gap + first.lstrip(" "), *rest]
        else:
            lines += _entry(random, dash, indent, depth, in_mapping=False)
        lines += _between(random, indent)
    return lines


def _entry(random: "Odd", start: str, indent: int, depth: int, *, in_mapping: bool) -> list[str]:
    """Return the lines of a value after its key or dash."""
    if random.random() > 0.35 or depth > 3:
        return _value(random, start, indent)
    inner = indent + random.choice((1, 2, 2, 2, 4))
    if random.random() < 0.5:
        return [start + _comment(random), *_mapping(random, inner, depth + 1)]
    inner = indent if in_mapping and random.random() < 0.4 else inner
    return [start + _comment(random), *_list(random, inner, depth + 1)]


def _value(random: "Odd", start: str, indent: int) -> list[str]:
    """Return the lines of a value other than a collection in block style."""
    gap = " " * random.choice((1, 1, 1, 1, 1, 2, 4))
    match random.choices(
        ("scalar", "flow", "text", "folded", "below", "omitted"), (12, 4, 3, 2, 1, 1)
    ):
        case ["flow"]:
            return [start + gap + _flow(random, 0) + _comment(random)]
        case ["text"]:
            header = random.choice(HEADERS if random.random() < random.odd else HEADERS[:4])
            return [start + gap + header, *_rows(random, indent + random.choice((1, 2, 2, 4)))]
        case ["folded"]:
            return _folded(random, start, gap, indent)
        case ["below"]:
            return [start + _comment(random), " " * (indent + 2) + _scalar(random, random.odd)]
        case ["omitted"]:
            return [start + random.choice(("", " ", "  ", " # c", " ~"))]
    return [start + gap + _scalar(random, random.odd) + _comment(random)]


def _rows(random: "Odd", indent: int) -> list[str]:
    """Return the lines of a literal or folded text."""
    return [" " * indent + random.choice(ROWS) for _ in range(random.randint(0, 5))]


def _folded(random: "Odd", start: str, gap: str, indent: int) -> list[str]:
    """Return a plain or quoted scalar on several lines."""
    quote = random.choice(("", "", "'", '"'))
    words = ("a", "b c", "", "", " ", "d", "x#", "--f", "e ", "/g", "1", "true", "é")
    rows = [
        random.choice(ODD_ROWS if random.random() < random.odd else words)
        for _ in range(random.randint(1, 4))
    ]
    inner = " " * (indent + random.choice((0, 1, 2, 2, 2, 4)))
    first, *rest = [quote + random.choice(("a", "1", "", "a b", "--x")), *rows]
    rest[-1] += quote
    return [start + gap + first, *(inner + row if row else row for row in rest)]


def _flow(random: "Odd", depth: int) -> str:
    """Return a collection in flow style."""
    gap = random.choice(("", "", " "))
    values = [
        _flow(random, depth + 1)
        if depth < 3 and random.random() < 0.2
        else _scalar(random, random.odd)
        for _ in range(random.randint(0, 3))
    ]
    joint = random.choice((", ", ", ", ", ", ", ", ", ", ",", " , ", ",  "))
    if random.random() < 0.5:
        return f"[{gap}{joint.join(values)}{gap}]"
    colon = random.choice((*[": "] * 9, ":", " : ", ":  "))
    keys = [
        random.choice(KEYS) if random.random() < random.odd else f"k{number}"
        for number in range(len(values))
    ]
    pairs = [key + colon + value for key, value in zip(keys, values, strict=True)]
    return f"{{{gap}{joint.join(pairs)}{gap}}}"


def _scalar(random: "Odd", odd: float) -> str:
    """Return a scalar, which is unusual with this probability."""
    if random.random() >= odd:
        return random.choice(("a", "b", "1", "0.5", "true", "train.py", '"a"', "'b'", "--lr"))
    return random.choice(PLAIN if random.random() < 0.7 else QUOTED)


def _comment(random: "Odd") -> str:
    """Return the end of a line."""
    if random.random() >= random.odd:
        return random.choice(("", "", "", "  # c"))
    return random.choice(("  # c", " #", " ", "#", "   ", " # a: b", " # 'x"))


def _between(random: "Odd", indent: int) -> list[str]:
    """Return lines between two values."""
    if random.random() < 0.85:
        return []
    return [random.choice(("", "  ", "# c", " " * indent + "# c", " " * (indent + 3) + "# c", "#"))]
