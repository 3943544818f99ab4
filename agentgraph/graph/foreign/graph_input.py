"""The input of a graph agent's graph: what the agent sees, or what its `input` returns, checked."""

from collections.abc import Mapping
from typing import Any

from agentgraph.agents.agents import GraphAgent
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.copied_values import private
from agentgraph.graph.foreign.message_log import as_messages
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked
from agentgraph.safe_repr import reason, shown


async def graph_input(agent: GraphAgent, activation: Activation) -> Any:
    """Return the input of an agent's graph.

    If the agent says the messages of its graph, they are a list of messages with ids.

    Raises:
        InvalidOutputError: `input` returned something else than a state with messages.
    """
    context = activation.view.context(activation.view.history)
    if agent.input is None:
        return {"messages": private(context.seen)}
    state = private(await asked(activation.address, "input", agent.input, context))
    if agent.output is not None:
        return state
    if not isinstance(state, Mapping):
        raise InvalidOutputError(
            f"{activation.address}: input= returned {shown(state)}; return a dict, such as "
            "{'messages': ctx.messages}"
        )
    if "messages" not in state:
        return state
    try:
        return {**state, "messages": as_messages(listed(state["messages"]), activation.address)}
    except (NotImplementedError, TypeError, ValueError) as error:
        raise InvalidOutputError(
            f"{activation.address}: input= returned messages that cannot be read ({reason(error)}); "
            "return a text, a LangChain message, or a list of messages"
        ) from error


def listed(messages: object) -> list[object]:
    """Return messages as a list, if they are a single one, as LangGraph does."""
    return messages if isinstance(messages, list) else [messages]
