"""Renders users' values and exceptions as bounded text for messages, and never fails.

A message about a value must not fail because the `repr` of the value fails, and must not take as long
as the `repr` of a huge value. Every user value or exception in a message passes through this module.

A message names an agent, a graph, a model or a tool by its kind and name: its `repr` fills a screen.
"""

import json
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any

LONGEST = 100
"""Maximum number of characters shown of a value in an error."""
LONGEST_DATA = 500
"""Maximum number of characters shown of a value that is not an error's subject but data."""
LONGEST_REASON = 300
"""Maximum number of characters shown of the exception that an error is about."""
LONGEST_ERROR = 10_000
"""Maximum number of characters shown of an exception: often it is the only clue to the fault."""

_NEAR = 0.75
"""Minimum `difflib` ratio of two names for one to count as a typo of the other."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""The part of a `repr` that differs in each run of a program."""

_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", dict: "{}", set: "{}"}


def shown(value: object, longest: int = LONGEST) -> str:
    """Return the `repr` of a value, cut if it is long; its type if the `repr` fails.

    Agents, and LangChain's runnables and messages, are shown by kind and name, also in a list.

    >>> shown(["bees", 1]), shown("x" * 1000, longest=5), shown(type("Odd", (), {"__repr__": 0})())
    ("['bees', 1]", "'xxxx…", '<Odd, whose repr fails>')
    >>> from agentgraph import human
    >>> shown([human("boss", "Print it?")])
    "[human agent 'boss']"

    Args:
        value: Anything.
        longest: Maximum number of characters shown.
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
    """Find the known name of which a name is probably a typo, or None.

    Names that differ only in a number are not typos of each other.

    >>> nearest("tpoic", ["tone", "topic"]), nearest("page2", ["page1"]), nearest("mood", ["topic"])
    ('topic', None, None)
    """
    words = [each for each in known if _letters(each) != _letters(name) or each == name]
    return next(iter(get_close_matches(name, words, 1, cutoff=_NEAR)), None)


def _letters(name: str) -> str:
    return "".join(character for character in name if not character.isdigit())


def shown_error(error: BaseException) -> str:
    """Return the `repr` of an exception, as events show it."""
    return shown(error, LONGEST_ERROR)


def as_json(value: object, *, in_ascii: bool = False) -> str:
    """Render a value as JSON, with texts for unknown objects; if that fails, as its `repr`.

    >>> as_json({"pages": range(2)}), as_json([type("Odd", (), {"__str__": 0, "__repr__": 0})()])
    ('{"pages": "range(0, 2)"}', '["<Odd, whose repr fails>"]')
    """
    try:
        return json.dumps(value, ensure_ascii=in_ascii, default=_as_text)
    except (RecursionError, ValueError, TypeError):
        return shown(value, LONGEST_DATA)


def error_text(error: BaseException) -> str:
    """Return the text of an exception, or its `repr` if the text is empty or fails."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return cut(text, LONGEST_ERROR) if text else shown_error(error)


def reason(error: BaseException) -> str:
    """Return the first line of an exception's text, for use in brackets."""
    return cut(error_text(error).partition("\n")[0], LONGEST_REASON)


def cut(text: str, longest: int) -> str:
    r"""Escape lone surrogates in a text for UTF-8, and cut the text if it is long.

    >>> cut("\ud800", 10), cut("bees", 2)
    ('\\ud800', 'be…')

    Args:
        text: A text, perhaps with lone surrogates.
        longest: Maximum number of characters kept.
    """
    kept = text[:longest].encode("utf-8", "backslashreplace").decode()
    return kept if len(text) <= longest else f"{kept}…"


def printable(text: str) -> str:
    r"""Escape all characters of a text that are not printable, as its `repr` does.

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
        return shown(value, LONGEST_DATA)


def _one(value: Any) -> str:
    """Return the text of a value that is not a collection."""
    named = getattr(type(value), "_shown_in_errors", None)
    if named is not None:
        return str(named(value))
    kind, bases = type(value).__name__, {each.__name__ for each in type(value).__mro__}
    if "BaseMessage" in bases:
        return f"{kind}({shown(value.content)})"
    if "Runnable" in bases:
        return f"{kind} {shown(value.name)}" if isinstance(value.name, str) else kind
    return _ADDRESS.sub("", repr(value))


def _parts(value: Any, most: int, around: tuple[int, ...]) -> Iterator[str]:
    """Yield the `repr` of a value in parts, so that a caller can stop early."""
    kind = type(value)
    if kind in (str, bytes):
        yield repr(value[:most])
    elif kind not in _BRACKETS or not value:
        yield _one(value)
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
