"""Turns users' values and exceptions into bounded text for messages, without ever failing.

A message about a value must not fail because its `repr` does, nor take as long as the `repr` of a huge
value. So every value and exception of users that a message shows is passed through this module.
"""

import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any

LONGEST = 500
"""How many characters of a value are shown."""
LONGEST_ERROR = 10_000
"""How many characters of an exception are shown: often it is the only clue to the fault."""

_NEAR = 0.75
"""How alike two names are if one is a typo of the other, as a ratio of `difflib`."""

_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", dict: "{}", set: "{}"}


def shown(value: object, longest: int = LONGEST) -> str:
    """Return the `repr` of a value, cut if it is long; its type if the `repr` fails.

    >>> shown(["bees", 1]), shown("x" * 1000, longest=5), shown(type("Odd", (), {"__repr__": 0})())
    ("['bees', 1]", "'xxxx…", '<Odd, whose repr fails>')

    Args:
        value: Anything.
        longest: How many characters are shown.
    """
    parts: list[str] = []
    left = longest + 1
    try:
        for part in _parts(value, left, ()):
            parts.append(part)
            left -= len(part)
            if left <= 0:
                break
    except Exception:
        return f"<{type(value).__name__}, whose repr fails>"
    return cut("".join(parts), longest)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a name is probably a typo of, or None.

    Names that differ in a number alone are not.

    >>> nearest("tpoic", ["tone", "topic"]), nearest("page2", ["page1"]), nearest("mood", ["topic"])
    ('topic', None, None)
    """
    words = [each for each in known if _letters(each) != _letters(name) or each == name]
    return next(iter(get_close_matches(name, words, 1, cutoff=_NEAR)), None)


def _letters(name: str) -> str:
    return "".join(character for character in name if not character.isdigit())


def shown_error(error: BaseException) -> str:
    """Return the `repr` of an exception, as in events."""
    return shown(error, LONGEST_ERROR)


def as_json(value: object, *, in_ascii: bool = False) -> str:
    """Return a value as JSON, with texts for objects that JSON does not know; else its `repr`.

    >>> as_json({"pages": range(2)}), as_json([type("Odd", (), {"__str__": 0, "__repr__": 0})()])
    ('{"pages": "range(0, 2)"}', '["<Odd, whose repr fails>"]')
    """
    try:
        return json.dumps(value, ensure_ascii=in_ascii, default=_as_text)
    except (RecursionError, ValueError, TypeError):
        return shown(value)


def error_text(error: BaseException) -> str:
    """Return the text of an exception; its `repr` if the text is empty or fails."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return cut(text, LONGEST_ERROR) if text else shown_error(error)


def reason(error: BaseException) -> str:
    """Return the first line of the text of an exception, to put in brackets."""
    return cut(error_text(error).partition("\n")[0], LONGEST)


def cut(text: str, longest: int) -> str:
    r"""Return a text that can be written as UTF-8, cut if it is long.

    >>> cut("\ud800", 10), cut("bees", 2)
    ('\\ud800', 'be…')

    Args:
        text: A text, perhaps with lone surrogates.
        longest: How many characters to keep.
    """
    kept = text[:longest].encode("utf-8", "backslashreplace").decode()
    return kept if len(text) <= longest else f"{kept}…"


def printable(text: str) -> str:
    r"""Return a text in which all that is not printable is escaped as in its `repr`.

    >>> printable("a\x1bb"), printable("é")
    ('a\\x1bb', 'é')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _as_text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return shown(value)


def _parts(value: Any, most: int, around: tuple[int, ...]) -> Iterator[str]:
    """Yield the `repr` of a value in parts, so that a caller can stop early."""
    kind = type(value)
    if kind in (str, bytes):
        yield repr(value[:most])
    elif kind not in _BRACKETS or not value:
        yield repr(value)
    elif id(value) in around:
        yield "...".join(_BRACKETS[kind])
    else:
        yield _BRACKETS[kind][0]
        for number, item in enumerate(islice(value, most)):
            yield ", " if number else ""
            yield from _parts(item, most, (*around, id(value)))
            if kind is dict:
                yield ": "
                yield from _parts(value[item], most, (*around, id(value)))
        yield "," if kind is tuple and len(value) == 1 else ""
        yield _BRACKETS[kind][1]
