"""Reads YAML text as plain data: no tags, no aliases, nothing that is built or evaluated."""

from typing import Any

import yaml
from yaml.events import AliasEvent, StreamEndEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from agentgraph.skills.documents import Document, Fault, Path
from agentgraph.skills.scalars import plain, quoted

MAX_DEPTH = 64
"""How many mappings and lists may stand in each other."""

_HINT = "quote a text that holds ': ' or ' #', or begins with a sign such as { [ * & ! @ %"


class UnreadableError(Exception):
    """A text that cannot be read to its end; the argument is the fault."""

    def __init__(self, line: int, text: str) -> None:
        self.fault = Fault(line, text)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Composes nodes that know how they are written: `event` is the one that each begins with."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def document(self) -> Node | None:
        """Return the only document; None where there is none."""
        self.get_event()  # the stream begins
        node = None if self.check_event(StreamEndEvent) else self.compose_document()
        if not self.check_event(StreamEndEvent):
            line = self.peek_event().start_mark.line + 1
            raise UnreadableError(
                line, "a second document begins here; write one agent a file, without '---'"
            )
        return node

    def compose_node(self, parent: Node | None, index: Any) -> Node:
        event: Any = self.peek_event()
        anchor, event.anchor = event.anchor, None
        if self._depth > MAX_DEPTH:
            raise UnreadableError(
                event.start_mark.line + 1,
                f"more than {MAX_DEPTH} mappings and lists stand in each other here; "
                "build the inner agents in Python and name them, as in agent: NAME",
            )
        self._depth += 1
        if isinstance(event, AliasEvent):
            node: Any = ScalarNode("", "", self.get_event().start_mark)
        else:
            node = super().compose_node(parent, index)
        self._depth -= 1
        event.anchor, node.event = anchor, event
        return node


class _Walk:
    """Makes plain data of nodes.

    Attributes:
        lines: The line of each part.
        faults: What is wrong.
    """

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.faults: list[Fault] = []

    def data(self, node: Any, path: Path) -> Any:
        """Return the plain data of a node, whose anchor or tag is a fault."""
        self.lines.setdefault(path, _line(node))
        if isinstance(node.event, AliasEvent):
            alias = node.event.anchor
            return self._fault(
                node, path, f"the alias *{alias} is not allowed; write out what it stands for"
            )
        self._bare(node, path)
        match node:
            case MappingNode():
                return self._mapping(node, path)
            case SequenceNode():
                return [self.data(inner, (*path, i)) for i, inner in enumerate(node.value)]
        try:
            return plain(node.value) if node.event.implicit[0] else quoted(node.value)
        except ValueError as error:
            return self._fault(node, path, str(error))

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in node.value:
            name = _key(key)
            at = (*path, name)
            if name in made:
                before = self.lines[at]
                self._fault(
                    key, at, f"{name!r} stands here again, after line {before}; leave one of them out"
                )
            self.lines.setdefault(at, _line(key))
            self._bare(key, at)
            made.setdefault(name, self.data(value, at))
        return made

    def _bare(self, node: Any, path: Path) -> None:
        """Refuse an anchor and a tag."""
        if node.event.anchor:
            self._fault(node, path, f"the anchor &{node.event.anchor} is not allowed; take it out")
        if tag := node.event.tag:
            written = tag.replace("tag:yaml.org,2002:", "!!")
            self._fault(node, path, f"the tag {written} is not allowed; take it out")

    def _fault(self, node: Node, path: Path, text: str) -> None:
        self.faults.append(Fault(_line(node), text, path))


def read(text: str) -> Document:
    """Return what a YAML text says.

    Raises:
        UnreadableError: It is no YAML, or holds more than one document.
    """
    walk = _Walk()
    try:
        node = _Loader(text).document()
        data = None if node is None else walk.data(node, ())
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
    return Document(data=data, lines=walk.lines, faults=tuple(walk.faults))


def _key(node: Any) -> str:
    if not isinstance(node, ScalarNode) or isinstance(node.event, AliasEvent):
        raise UnreadableError(_line(node), f"a key is a single text; {_HINT}")
    try:
        return quoted(node.value)
    except ValueError as error:
        raise UnreadableError(_line(node), str(error)) from None


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
