"""Reads LangGraph handoffs: to which agent they go, and what of their update is new.

The tools of langgraph-supervisor and langgraph-swarm return `Command(goto=name, graph=Command.PARENT,
update=...)` with the whole state, all messages included. In a tree the next agent sees the history
anyway. So what the state has already is left out: written again, it would double lists with a reducer,
and say other agents' messages a second time.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage, convert_to_messages
from langgraph.graph import END
from langgraph.types import Command, Send

from agentgraph.agents.tools import TRANSFERRED
from agentgraph.graph.values import is_same

State = Callable[[], Mapping[str, Any]]
"""Returns the state as the tool saw it."""

_ACTIVE = "active_agent"
"""langgraph-swarm's key for the active agent, which in a tree is known from the position."""


def sole_target(goto: Any) -> str | None:
    """Return the one agent that a command goes to; None for no agent or several.

    >>> sole_target("bob"), sole_target([Send("bob", {})]), sole_target(["ann", "bob"])
    ('bob', 'bob', None)
    """
    if isinstance(goto, list | tuple):
        return sole_target(goto[0]) if len(goto) == 1 else None
    name = goto.node if isinstance(goto, Send) else goto
    return name if isinstance(name, str) and name not in ("", END) else None


def update_of(command: Command[Any]) -> dict[str, Any]:
    """Return the update of a command as a dict."""
    update = command.update
    if isinstance(update, list | tuple) and all(isinstance(each, tuple) for each in update):
        return dict(update)
    return dict(update) if isinstance(update, Mapping) else {}


def handed_on(command: Command[Any], state: State) -> dict[str, Any]:
    """Return the update of a handoff: all its messages, and of the other keys what is new."""
    update = update_of(command)
    if not update:
        return {}
    known = state()
    messages = convert_to_messages(update.pop("messages", []))
    rest = {
        key: value
        for key, value in update.items()
        if key != _ACTIVE and not (key in known and is_same(value, known[key]))
    }
    return {**rest, "messages": messages}


def new_messages(messages: Iterable[BaseMessage], known: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that are new: no removals, and none under the id of a known message."""
    ids = {message.id for message in known if message.id}
    return [m for m in messages if not isinstance(m, RemoveMessage) and m.id not in ids]


def transferred(message: BaseMessage, target: str) -> BaseMessage:
    """Return a message; a tool result is marked as that of a transfer that was carried out."""
    if not isinstance(message, ToolMessage):
        return message
    marked = {**message.additional_kwargs, TRANSFERRED: target}
    return message.model_copy(update={"additional_kwargs": marked})
