"""What a chat agent comes to: the value that its last message becomes, by its output schema."""

import json
from contextlib import suppress
from typing import Any

from langchain_core.messages import BaseMessage

from agentgraph.agents import ChatAgent
from agentgraph.nodes.activation import Activation
from agentgraph.schemas import fitted, json_schema, read_json


def schema_text(agent: ChatAgent) -> str:
    """Return what the instruction says of the output schema; nothing where there is none."""
    if agent.output_schema is None:
        return ""
    schema = json.dumps(json_schema(agent.output_schema), ensure_ascii=False)
    return f"Your last reply must be JSON that fits this JSON schema, and nothing else:\n{schema}"


def unfit(agent: ChatAgent, reply: BaseMessage) -> str | None:
    """Return why a last reply does not fit the agent's output schema, in a sentence, or None."""
    if agent.output_schema is None:
        return None
    try:
        _value(agent, str(reply.text))
    except ValueError as error:
        return f"The reply does not fit the schema: {error}."
    return None


def keep_reply(activation: Activation, agent: ChatAgent, text: str) -> None:
    """Write the text of a last reply as the agent's value, or what it says by the schema."""
    if agent.output_key:
        value = text if agent.output_schema is None else _value(agent, text)
        activation.set_values({agent.output_key: value})


def keep_result(activation: Activation, agent: ChatAgent, text: str) -> None:
    """Write the result of a tool that ends the agent as its value, unless it does not fit."""
    with suppress(ValueError):
        keep_reply(activation, agent, text)


def _value(agent: ChatAgent, text: str) -> Any:
    """Return what a text says, as plain data.

    Raises:
        ValueError: The text is no JSON, or does not fit.
    """
    return fitted(agent.output_schema, read_json(text))
