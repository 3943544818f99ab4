"""Reads YAML text as plain data: no tags, no aliases, nothing that is built or evaluated."""

from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import Event

from agentgraph.skills.documents import Document, Fault, Path
from agentgraph.skills.scalars import plain, quoted

MAX_DEPTH = 64
"""How many mappings and lists may stand in each other."""

_HINT = "quote a text that holds ': ' or ' #', or begins with a sign such as { [ * & ! @ %"


class UnreadableError(Exception):
    """A text that cannot be read to its end; the argument is the fault."""

    def __init__(self, line: int, text: str) -> None:
        self.fault = Fault(line, text)


@dataclass(slots=True)
class _Open:
    """A mapping or a list that is being read."""

    made: Any
    path: Path
    key: str | None = None

    @property
    def wants_key(self) -> bool:
        return isinstance(self.made, dict) and self.key is None

    def next_path(self) -> Path:
        """Return the path of the value that comes next."""
        return (*self.path, len(self.made) if isinstance(self.made, list) else str(self.key))

    def put(self, value: Any) -> None:
        """Add a value; the first one stays where a key stands twice."""
        if isinstance(self.made, list):
            self.made.append(value)
        else:
            self.made.setdefault(self.key, value)
            self.key = None


@dataclass(slots=True)
class _Reading:
    """What was read so far."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)

    def path(self) -> Path:
        return self.stack[-1].next_path() if self.stack else ()

    def put(self, value: Any) -> None:
        if self.stack:
            self.stack[-1].put(value)
        else:
            self.data = value

    def fault(self, line: int, text: str) -> None:
        self.faults.append(Fault(line, text, self.path()))

    def key(self, name: str, line: int) -> None:
        """Take the key of the next value."""
        around = self.stack[-1]
        around.key = name
        if name in around.made:
            before = self.lines[self.path()]
            self.fault(line, f"{name!r} stands here again, after line {before}; leave one of them out")
        self.lines.setdefault(self.path(), line)

    def open(self, made: Any, line: int) -> None:
        """Begin a mapping or a list."""
        if len(self.stack) == MAX_DEPTH:
            raise UnreadableError(
                line,
                f"more than {MAX_DEPTH} mappings and lists stand in each other here; "
                "build the inner agents in Python and name them, as in agent: NAME",
            )
        path = self.path()
        self.lines.setdefault(path, line)
        self.stack.append(_Open(made, path))

    def close(self) -> None:
        """End the innermost mapping or list."""
        self.put(self.stack.pop().made)


def read(text: str) -> Document:
    """Return what a YAML text says.

    Raises:
        UnreadableError: It is no YAML, or holds more than one document.
        AgentGraphError: PyYAML is not there.
    """
    reading = _Reading()
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            _take(reading, event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise UnreadableError(line, f"this is no YAML: {error.problem}; {_HINT}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UnreadableError(
            line, f"the character {chr(error.character)!r} is not allowed here; take it out"
        ) from None
    except (ValueError, OverflowError) as error:  # an escape beyond the last character there is
        raise UnreadableError(1, f"this is no YAML: {error}; {_HINT}") from None
    return Document(data=reading.data, lines=reading.lines, faults=tuple(reading.faults))


def _take(reading: _Reading, event: Event) -> None:
    line = event.start_mark.line + 1
    kind = type(event).__name__.removesuffix("Event")
    if kind == "DocumentStart" and () in reading.lines:
        raise UnreadableError(
            line, "a second document begins here; write one agent a file, without '---'"
        )
    if kind in ("MappingEnd", "SequenceEnd"):
        reading.close()
    elif kind in ("Alias", "Scalar", "MappingStart", "SequenceStart"):
        _take_node(reading, event, kind, line)


def _take_node(reading: _Reading, event: Any, kind: str, line: int) -> None:
    is_key = bool(reading.stack) and reading.stack[-1].wants_key
    if is_key:
        reading.key(_key(event, kind, line), line)
    tag = getattr(event, "tag", None)
    if event.anchor and kind != "Alias":
        reading.fault(line, f"the anchor &{event.anchor} is not allowed; take it out")
    if tag:
        written = tag.replace("tag:yaml.org,2002:", "!!")
        reading.fault(line, f"the tag {written} is not allowed; take it out")
    if not is_key:
        _take_value(reading, event, kind, line)


def _key(event: Any, kind: str, line: int) -> str:
    if kind != "Scalar":
        raise UnreadableError(line, f"a key is a single text; {_HINT}")
    try:
        return quoted(event.value)
    except ValueError as error:
        raise UnreadableError(line, str(error)) from None


def _take_value(reading: _Reading, event: Any, kind: str, line: int) -> None:
    if kind == "MappingStart":
        reading.open({}, line)
    elif kind == "SequenceStart":
        reading.open([], line)
    elif kind == "Alias":
        reading.fault(line, f"the alias *{event.anchor} is not allowed; write out what it stands for")
        reading.put(None)
    else:
        _take_scalar(reading, event, line)


def _take_scalar(reading: _Reading, event: Any, line: int) -> None:
    reading.lines.setdefault(reading.path(), line)
    try:
        value = plain(event.value) if event.implicit[0] else quoted(event.value)
    except ValueError as error:
        reading.fault(line, str(error))
        value = None
    reading.put(value)
