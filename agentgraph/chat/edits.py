"""What middleware made of what an agent sees: edits of the visible history, and how to find them.

The history loses nothing of what users and other agents said. So what middleware removes, replaces or
adds is kept beside it, as edits that name messages by their ids; what the history gains later is seen
as it is. A summary costs one id and one message, however long the history before it is.
"""

from collections.abc import Collection, Sequence

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict


class Added(TypedDict):
    """A message that middleware added."""

    behind: str
    """The id of the visible message before it."""
    message: BaseMessage


class Edits(TypedDict, total=False):
    """What middleware changed of what an agent sees."""

    upto: str
    """The id of the last message of those at the beginning that are left out."""
    head: list[BaseMessage]
    """What comes in their place, or first of all."""
    replaced: dict[str, BaseMessage]
    """Messages that are seen otherwise, by their ids."""
    removed: list[str]
    """The ids of other messages that are left out."""
    added: list[Added]
    """What comes between."""


def edited(messages: Sequence[BaseMessage], edits: Edits) -> list[BaseMessage]:
    """Return the visible messages as middleware left them.

    Where the last one that was left out is not among them, the beginning is seen as it is.

    >>> from langchain_core.messages import HumanMessage
    >>> said = [HumanMessage("one", id="1"), HumanMessage("two", id="2")]
    >>> summary = HumanMessage("It is counted.", id="s")
    >>> [each.text for each in edited(said, {"upto": "1", "head": [summary]})]
    ['It is counted.', 'two']
    """
    upto = edits.get("upto")
    left_out = [i for i, message in enumerate(messages) if message.id == upto] if upto else []
    has_head = bool(left_out) or not upto
    result = list(edits.get("head", ())) if has_head else []
    replaced, removed = edits.get("replaced", {}), edits.get("removed", ())
    added: dict[str, list[BaseMessage]] = {}
    for each in edits.get("added", ()):
        added.setdefault(each["behind"], []).append(each["message"])
    for message in messages[left_out[-1] + 1 if left_out else 0 :]:
        if message.id is None or message.id not in removed:
            result.append(replaced.get(message.id or "", message))
        result += added.get(message.id or "", ())
    return result


def edits_between(
    before: Sequence[BaseMessage], after: Sequence[BaseMessage], said: Collection[str | None] = ()
) -> Edits:
    """Return the edits that make of the visible messages what is seen after them.

    >>> from langchain_core.messages import HumanMessage
    >>> one, two = HumanMessage("one", id="1"), HumanMessage("two", id="2")
    >>> edits_between([one, two], [HumanMessage("ONE", id="1")])["removed"]
    ['2']

    Args:
        before: The visible messages, each with an id.
        after: What middleware made of them.
        said: The ids of new messages that enter the history, and need no edit.
    """
    by_id = {message.id: message for message in before}
    kept = {message.id for message in after} & by_id.keys()
    first = next((i for i, message in enumerate(before) if message.id in kept), len(before))
    edits = Edits()
    if first:
        edits["upto"] = str(before[first - 1].id)
    behind: str | None = None
    for message in after:
        if message.id in by_id:
            behind = str(message.id)
            if message is not by_id[message.id] and message != by_id[message.id]:
                edits.setdefault("replaced", {})[behind] = message
        elif message.id not in said:
            if behind is None:
                edits.setdefault("head", []).append(message)
            else:
                edits.setdefault("added", []).append(Added(behind=behind, message=message))
    if removed := [str(message.id) for message in before[first:] if message.id not in kept]:
        edits["removed"] = removed
    return edits
