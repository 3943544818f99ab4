"""Reads LangGraph handoffs: to which agent they go, and what of their update is new.

The tools of langgraph-supervisor and langgraph-swarm return `Command(goto=name, graph=Command.PARENT,
update=...)` with the whole state, all messages included. In a tree the next agent sees the history
anyway. So what the state has already is left out: written again, it would double lists with a reducer,
and say other agents' messages a second time.

Handoffs of LangGraph graphs that agents run: to whom, with which messages and values.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage, convert_to_messages
from langgraph.graph import END
from langgraph.types import Command, Send

from agentgraph.agents.tools import TRANSFERRED
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.history import call_id, calls_of
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.values import is_same

State = Callable[[], Mapping[str, object]]
"""Returns the state as the tool saw it."""

_ACTIVE = "active_agent"
"""langgraph-swarm's key for the active agent, which in a tree is known from the position."""


def sole_target(goto: object) -> str | None:
    """Return the one agent that a command goes to; None for no agent or several.

    >>> sole_target("bob"), sole_target([Send("bob", {})]), sole_target(["ann", "bob"])
    ('bob', 'bob', None)
    """
    if isinstance(goto, list | tuple):
        return sole_target(goto[0]) if len(goto) == 1 else None
    name = goto.node if isinstance(goto, Send) else goto
    return name if isinstance(name, str) and name not in ("", END) else None


def update_of(command: Command[str]) -> dict[str, Any]:
    """Return the update of a command as a dict."""
    update = command.update
    if isinstance(update, list | tuple) and all(isinstance(each, tuple) for each in update):
        return dict(update)
    return dict(update) if isinstance(update, Mapping) else {}


def handed_on(command: Command[str], state: State) -> dict[str, Any]:
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


class Handoff(NamedTuple):
    """How a graph hands over to another agent.

    Attributes:
        target: The name of the agent.
        messages: The new messages: those of the command, or the result of the call that made it.
        values: All else that the command writes, by name.
    """

    target: str
    messages: list[BaseMessage]
    values: Mapping[str, object]


def handoff_of(
    activation: Activation, command: Command[str], messages: Sequence[BaseMessage]
) -> Handoff:
    """Return the handoff that a command to the parent graph makes, as LangGraph's handoff tools do.

    Args:
        activation: The activation of the agent that runs the graph.
        command: The command.
        messages: The messages in the state of the graph.

    Raises:
        InvalidOutputError: It names several agents, or an unknown one.
    """
    target, there = sole_target(command.goto), activation.node_context.targets
    if target not in there:
        names = ", ".join(map(repr, there)) or "none: only agents in a chat agent's sub_agents can"
        raise InvalidOutputError(
            f"{activation.address}: a LangGraph graph in the agent "
            f"{activation.node_context.place.home.name!r} ended by Command(goto={command.goto!r}, "
            "graph=Command.PARENT), and nothing of the command was written; it may hand over to one "
            f"agent, by its name; possible: {names}"
        )
    handed = handed_on(command, lambda: {"messages": messages})
    new = new_messages(handed.pop("messages", []), messages) or _result_of_open_call(
        messages, str(target)
    )
    return Handoff(str(target), [transferred(each, str(target)) for each in new], handed)


def _result_of_open_call(messages: Sequence[BaseMessage], target: str) -> list[BaseMessage]:
    """Return the result of the only call of the last message: that of the handoff."""
    calls = calls_of(messages[-1]) if messages else ()
    if len(calls) != 1:
        return []
    text, call = f"Transferred to {target}.", calls[0]
    return [ToolMessage(text, name=call["name"], tool_call_id=call_id(call))]
