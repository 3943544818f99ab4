"""Handoffs of LangGraph graphs that agents run: to whom, with which messages and values."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from agentgraph.errors import InvalidOutputError
from agentgraph.graph.handoffs import handed_on, new_messages, sole_target, transferred
from agentgraph.graph.history import call_id, calls_of
from agentgraph.graph.nodes.activation import Activation


class Handoff(NamedTuple):
    """How a graph hands over to another agent.

    Attributes:
        target: The name of the agent.
        messages: The new messages: those of the command, or the result of the call that made it.
        values: All else that the command writes, by name.
    """

    target: str
    messages: list[BaseMessage]
    values: Mapping[str, Any]


def handoff_of(
    activation: Activation, command: Command[Any], messages: Sequence[BaseMessage]
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
