"""Messages from outside under the id of one of the thread: in an input, and by `update_state`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from agentgraph.errors import ThreadError
from agentgraph.graph.internals import overwrite_in
from agentgraph.graph.message_changes import is_remove_all
from agentgraph.graph.stamps import STAMP, renamed
from agentgraph.safe_repr import shown


def new_messages(
    messages: Sequence[Any], there: Iterable[BaseMessage], thread_id: str
) -> list[BaseMessage]:
    """Return the messages of an input that the thread does not have, and its removals.

    Args:
        messages: The messages of the input, in any form that LangChain takes.
        there: The messages of the thread.
        thread_id: The id of the thread.

    Raises:
        ThreadError: One has the id of a message of the thread, and other content.
    """
    known = {each.id: each for each in there}
    new: list[BaseMessage] = []
    for message in convert_to_messages(messages):
        if is_remove_all(message):
            known.clear()
        was = known.pop(message.id, None) if message.id else None
        if was is None or isinstance(message, RemoveMessage):
            new.append(message)
        elif (was.type, was.content) != (message.type, message.content):
            raise ThreadError(
                f"thread {shown(thread_id)}: the input has the message {shown(message.text)} "
                f"under the id {message.id!r}, which the message {shown(was.text)} of the thread has; "
                "leave the id out for a new message, or call rewind(...) to change an earlier one",
                thread_id,
            )
    return new


def has_ids(update: object) -> bool:
    """Return whether an update has messages with an id, which those of the thread may have."""
    return any(_id_of(each) for each in messages_in(update))


def without_overwrite(update: Any) -> Any:
    """Return an update that removes all other messages, as it does by LangGraph's `Overwrite`."""
    messages = update.get("messages") if isinstance(update, Mapping) else None
    overwrites, whole = overwrite_in(messages)
    if not overwrites:
        return update
    return {**update, "messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *whole]}


def owned_update(update: Any, there: Iterable[BaseMessage]) -> Any:
    """Return an update in which each message under the id of another one may have that.

    It is a new version of a message of the same type, by the same agent. One of another type gets a new
    id: it would replace a call that a result answers, or another's words.
    """
    if not has_ids(update):
        return update
    known = {each.id: each for each in there}
    messages = convert_to_messages(messages_in(update))
    last = {each.id: each for each in messages if not isinstance(each, RemoveMessage)}
    owned = [
        _owned(known, each)
        for each in messages
        if not each.id or isinstance(each, RemoveMessage) or last[each.id] is each
    ]
    return {**update, "messages": owned}


def _owned(known: Mapping[str | None, BaseMessage], message: BaseMessage) -> BaseMessage:
    was = known.get(message.id)
    if was is None or isinstance(message, RemoveMessage):
        return message
    if was.type != message.type:
        return renamed(message, str(uuid4()))
    if STAMP not in was.response_metadata or STAMP in message.response_metadata:
        return message
    metadata = {**message.response_metadata, STAMP: was.response_metadata[STAMP]}
    return message.model_copy(update={"response_metadata": metadata, "name": message.name or was.name})


def messages_in(update: object) -> list[Any]:
    """Return the messages in an update or an input, in any form."""
    messages = update.get("messages") if isinstance(update, Mapping) else None
    return messages if isinstance(messages, list) else [] if messages is None else [messages]


def _id_of(message: object) -> object:
    return message.get("id") if isinstance(message, Mapping) else getattr(message, "id", None)
