"""Single words of YAML as values, as version 1.2 of YAML has them: `no` and `on` are text."""

import re
from math import isinf
from typing import Any

_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DIGITS = 300


def plain(text: str) -> Any:
    """Return what a word without quotes means.

    >>> [plain(text) for text in ("true", "no", "12", "1e3", "12:30", "null")]
    [True, 'no', 12, 1000.0, '12:30', None]

    Raises:
        ValueError: The number is too large.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if not _NUMBER.fullmatch(text):
        return text
    if len(text) > _DIGITS or isinf(float(text)):
        raise ValueError("a number is too large; put it in quotes if it is text")
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def quoted(text: str) -> str:
    r"""Return a text in quotes as it is meant: JSON writes an emoji as two escapes.

    >>> quoted("\ud83d\udc1d")
    '🐝'

    Raises:
        ValueError: Half of such a character stands alone.
    """
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError(
            "an escape in the text is half a character; write the character itself"
        ) from None
