"""Context edits: the changes of middleware, or of a graph, to the history that an agent sees.

The history keeps everything that users and other agents said. So what middleware removes, replaces or
adds is saved as edits, which name messages by their ids and leave messages alone that the history gains
later. A summary costs one id and one message, however long the history before it is. Each edit is a
separate entry, so that little changes from step to step.

Pure: only lists of messages go in and out.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from agentgraph.graph.agent_records import AgentRecord
from agentgraph.graph.message_changes import with_id
from agentgraph.graph.nodes.view import View
from agentgraph.graph.paired_calls import paired
from agentgraph.graph.values import is_same


class Beginning(TypedDict, total=False):
    """The messages that replace the first ones."""

    upto: str
    """The id of the last message that is left out; absent if none is."""
    head: list[BaseMessage]
    """The messages that replace them, or that come before all others."""


class Edits(TypedDict, total=False):
    """The changes of middleware to the history that an agent sees."""

    beginning: Beginning
    """The messages that replace the first ones."""
    replaced: Mapping[str, BaseMessage | None]
    """New versions of messages, by their ids; None for one that is left out."""
    added: Mapping[str, list[BaseMessage]]
    """Messages that come between, by the id of the visible message before them."""


SECTIONS = ("beginning", "replaced", "added")
"""The names of all parts of `Edits`."""


OF_TASK = "task_"
"""How the names of sections begin that hold edits of a task."""


def edited(messages: Sequence[BaseMessage], edits: Edits) -> list[BaseMessage]:
    """Return the visible messages as middleware left them.

    If the last message that was left out is not among them, the beginning stays as it is.

    >>> from langchain_core.messages import HumanMessage
    >>> said = [HumanMessage("one", id="1"), HumanMessage("two", id="2")]
    >>> summary = HumanMessage("It is counted.", id="s")
    >>> [each.text for each in edited(said, {"beginning": {"upto": "1", "head": [summary]}})]
    ['It is counted.', 'two']
    """
    beginning = edits.get("beginning", {})
    upto = beginning.get("upto")
    left_out = [i for i, message in enumerate(messages) if message.id == upto] if upto else []
    has_head = bool(left_out) or not upto
    result = list(beginning.get("head", ())) if has_head else []
    replaced, added = edits.get("replaced", {}), edits.get("added", {})
    for message in messages[left_out[-1] + 1 if left_out else 0 :]:
        seen = replaced.get(message.id, message) if message.id else message
        if seen is not None:
            result.append(seen)
        result += added.get(message.id or "", ())
    return result


def edits_between(
    before: Sequence[BaseMessage], after: Sequence[BaseMessage], new_ids: Collection[str | None] = ()
) -> Edits:
    """Return the edits that turn the messages before into those after.

    >>> from langchain_core.messages import HumanMessage
    >>> one, two = HumanMessage("one", id="1"), HumanMessage("two", id="2")
    >>> edits_between([one, two], [HumanMessage("ONE", id="1")])["replaced"]["2"] is None
    True

    Args:
        before: The visible messages, each with an id.
        after: The same messages after middleware changed them.
        new_ids: The ids of new messages that enter the history, and need no edit.
    """
    by_id = {str(message.id): message for message in before}
    common = {str(message.id) for message in after} & by_id.keys()
    first = next((i for i, message in enumerate(before) if message.id in common), len(before))
    beginning: Beginning = {"upto": str(before[first - 1].id)} if first else {}
    replaced: dict[str, BaseMessage | None] = {
        str(message.id): None for message in before[first:] if message.id not in common
    }
    added: dict[str, list[BaseMessage]] = {}
    after_id: str | None = None
    for message in after:
        was = by_id.get(str(message.id))
        if was is not None:
            after_id = str(message.id)
            if not is_same(message, was):
                replaced[after_id] = message
        elif message.id in new_ids:
            after_id = str(message.id)
        elif after_id is None:
            beginning.setdefault("head", []).append(message)
        else:
            added.setdefault(after_id, []).append(message)
    edits = {"beginning": beginning, "replaced": replaced, "added": added}
    return cast(Edits, {name: entries for name, entries in edits.items() if entries})


def with_ids(view: View, visible: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that an agent sees, all with ids, by which edits name them."""
    at = view.home_address
    return [m if m.id else with_id(m, f"{at} {i}") for i, m in enumerate(visible)]


def edits_in(record: AgentRecord, *, is_of_task: bool = False) -> Edits:
    """Return the edits that a record has: of the history, or of the task in the place of it."""
    if is_of_task:
        record = {name.removeprefix(OF_TASK): record[name] for name in record if OF_TASK in name}
    return cast(Edits, {name: record[name] for name in SECTIONS if name in record})


def as_edited(visible: Sequence[BaseMessage], edits: Edits, *, is_open: bool) -> list[BaseMessage]:
    """Return the history that an agent sees, with its edits.

    Args:
        visible: The messages of the history that it sees, with ids.
        edits: The edits.
        is_open: Whether tool calls may be without results.
    """
    if not edits:
        return [*visible]
    seen = edited(visible, edits)
    return seen if is_open else paired(seen)
