"""Reads YAML text as plain data, without tags and aliases; a text cannot execute code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from math import isinf
from typing import Any, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

MAX_DEPTH = 64
"""Maximum depth of nested mappings and lists."""

_HINT = "quote a text that holds ': ' or ' #', or begins with a sign such as { [ * & ! @ %"
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DIGITS = 300

Path = tuple[str | int, ...]
"""The keys and list indices that lead to a part of a file."""


class Fault(NamedTuple):
    """A fault of a file.

    Attributes:
        line: Its line, from 1.
        text: The fault and its remedy.
        path: The path of the faulty part.
    """

    line: int
    text: str
    path: Path = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of a file.

    Attributes:
        data: The content as plain data.
        lines: The line of each part.
        faults: The faults of the text; the data at their paths is not valid.
    """

    data: object
    lines: dict[Path, int]
    faults: tuple[Fault, ...]

    def line_of(self, path: Path) -> int:
        """Return the line of the part at a path, or of the nearest one around it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)


class _UnreadableError(Exception):
    """The text cannot be read completely; the arguments are the line and the reason."""


def read(text: str) -> Document:
    """Parse a YAML text; a document that cannot be read completely has that fault alone."""
    try:
        return _read(text)
    except _UnreadableError as error:
        line, why = error.args
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, why = mark.line + 1 if mark else 1, f"this is not YAML: {error.problem}; {_HINT}"
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        why = f"the character {chr(error.character)!r} is not allowed here; take it out"
    except (ValueError, OverflowError) as error:  # an escape beyond the last Unicode character
        line, why = 1, f"this is not YAML: {error}; {_HINT}"
    return Document(data=None, lines={}, faults=(Fault(line, why),))


def _read(text: str) -> Document:
    events = list(_events(text))
    walk = _Walk(iter(events))
    data = walk.data(next(walk.events), ()) if events else None
    if data is None and not walk.faults:
        raise _UnreadableError(1, "the file is empty; write an agent, as in kind: chat")
    return Document(data=data, lines=walk.lines, faults=tuple(walk.faults))


def _events(text: str) -> Iterator[Event]:
    """Yield the YAML events at the starts of parts and at the ends of mappings and lists."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        documents += isinstance(event, DocumentStartEvent)
        if documents > 1:
            raise _UnreadableError(
                _line(event), "a second document starts here; write one agent per file, without '---'"
            )
        if depth > MAX_DEPTH and isinstance(event, NodeEvent):
            raise _UnreadableError(
                _line(event),
                f"more than {MAX_DEPTH} mappings and lists are nested here; "
                "build the inner agents in Python and name them, as in agent: NAME",
            )
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if isinstance(event, (NodeEvent, CollectionEndEvent)):
            yield event


class _Walk:
    """Converts YAML events to plain data.

    Attributes:
        events: The remaining events.
        lines: The line of each part.
        faults: The faults so far.
    """

    def __init__(self, events: Iterator[Event]) -> None:
        self.events = events
        self.lines: dict[Path, int] = {}
        self.faults: list[Fault] = []

    def data(self, event: Event, path: Path) -> Any:
        """Return the data that starts with an event; anchors and tags are faults."""
        self.lines.setdefault(path, _line(event))
        if isinstance(event, AliasEvent):
            why = f"the alias *{event.anchor} is not allowed; write out its value"
            return self._fault(event, path, why)
        self._bare(event, path)
        if isinstance(event, MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, CollectionStartEvent):
            return [self.data(inner, (*path, i)) for i, inner in enumerate(self._inside())]
        try:
            return plain(event.value) if event.implicit[0] else quoted(event.value)
        except ValueError as error:
            return self._fault(event, path, str(error))

    def _inside(self) -> Iterator[Event]:
        """Yield the events of a mapping or list to its end; `data` consumes those of inner parts."""
        return takewhile(lambda event: not isinstance(event, CollectionEndEvent), self.events)

    def _mapping(self, path: Path) -> dict[str, object]:
        made: dict[str, object] = {}
        for key in self._inside():
            name = _key(key)
            at = (*path, name)
            if name in made:
                before = self.lines[at]
                self._fault(
                    key, at, f"the key {name!r} is already on line {before}; leave one of them out"
                )
            self.lines.setdefault(at, _line(key))
            self._bare(key, at)
            made.setdefault(name, self.data(next(self.events), at))
        return made

    def _bare(self, event: Event, path: Path) -> None:
        if event.anchor:
            self._fault(event, path, f"the anchor &{event.anchor} is not allowed; take it out")
        if event.tag:
            written = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._fault(event, path, f"the tag {written} is not allowed; take it out")

    def _fault(self, event: Event, path: Path, text: str) -> None:
        self.faults.append(Fault(_line(event), text, path))


def _key(event: Event) -> str:
    if not isinstance(event, ScalarEvent):
        raise _UnreadableError(_line(event), f"a key must be a single text; {_HINT}")
    try:
        return quoted(event.value)
    except ValueError as error:
        raise _UnreadableError(_line(event), str(error)) from None


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1


def plain(text: str) -> str | int | float | bool | None:
    """Convert a word without quotes to its value in YAML 1.2: `no` is a text.

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
    r"""Join the surrogate pairs of a quoted text: JSON writes an emoji as two escapes.

    >>> quoted("\ud83d\udc1d")
    '🐝'

    Raises:
        ValueError: One half of a pair is missing.
    """
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError(
            "an escape in the text is half a character; write the character itself"
        ) from None
