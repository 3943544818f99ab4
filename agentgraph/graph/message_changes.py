"""Changes of a history as lists of messages: new ones, replacements and removals. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from agentgraph.graph.internals import delta_reducer

_NO_REMOVALS = frozenset([AIMessage, HumanMessage, ToolMessage])


def is_remove_all(message: object) -> bool:
    """Return whether a message, also as a dict, removes all messages before it.

    >>> is_remove_all({"type": "remove", "id": REMOVE_ALL_MESSAGES})
    True
    """
    message_id = message.get("id") if isinstance(message, Mapping) else getattr(message, "id", None)
    return message_id == REMOVE_ALL_MESSAGES


def plain_messages(writes: Sequence[object]) -> list[BaseMessage] | None:
    """Return the messages written, if all are of the plain types that agents mostly say; else None."""
    messages: list[BaseMessage] = []
    for write in writes:
        for each in write if type(write) is list else [write]:
            if type(each) not in _NO_REMOVALS:
                return None
            messages.append(cast(BaseMessage, each))
    return messages


def after_removal(writes: Sequence[object]) -> list[object] | None:
    """Return the writes after the last removal of all messages; None without such a removal."""
    for i in range(len(writes))[::-1]:
        write = writes[i]
        several = write if isinstance(write, list) else [write]
        for n in range(len(several))[::-1]:
            if is_remove_all(several[n]):
                return [several[n + 1 :], *writes[i + 1 :]]
    return None


M = TypeVar("M", bound=BaseMessage)


def with_changes(messages: Sequence[BaseMessage], changes: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages with changes applied as the history does: new, replaced and removed ones."""
    ids = {each.id for each in changes}
    if len(ids) == len(changes) and not any(each.id in ids for each in messages):
        return [*messages, *(each for each in changes if not isinstance(each, RemoveMessage))]
    before, written = cast(list[AnyMessage], [*messages]), cast(list[AnyMessage], [*changes])
    reduced: object = delta_reducer(before, [written])
    return cast(list[BaseMessage], reduced)


def folded(messages: Iterable[M]) -> list[M]:
    """Return the fewest changes of a history with the same effect; removals stay.

    >>> from langchain_core.messages import AIMessage
    >>> changes = [("1", "One"), ("2", "Two"), ("1", "ONE")]
    >>> [message.text for message in folded(AIMessage(text, id=key) for key, text in changes)]
    ['ONE', 'Two']
    """
    changes: dict[object, M] = {}
    for message in messages:
        if isinstance(message, RemoveMessage):
            changes.pop(message.id, None)
            changes.pop((message.id,), None)
            changes[(message.id,)] = message
        else:
            changes[message.id or id(message)] = message
    return list(changes.values())


def with_id(message: M, made_of: str) -> M:
    """Return a message with an id; one without gets an id derived from `made_of`.

    >>> from langchain_core.messages import HumanMessage
    >>> with_id(HumanMessage("Go."), "boss 0").id == with_id(HumanMessage("Go."), "boss 0").id
    True
    """
    if message.id:
        return message
    return message.model_copy(update={"id": str(uuid5(NAMESPACE_URL, made_of))})
