"""What the last answer of a chat agent must fit: its `output_schema`, and how it is asked for.

A schema of an object is LangChain's `response_format`: the model's provider keeps to it, or the answer
is a call of a tool that LangChain makes of it. Neither takes the schema of a list or a number, and
some models take no tools. There the instruction tells the schema, and the text is read.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from typing_extensions import TypedDict

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.schemas import (
    answer_fault,
    answer_name,
    answer_tools,
    json_schema,
    plain,
    read_json,
    schema_fault,
    schema_in,
    typed,
)
from agentgraph.graph.history import ANSWER
from agentgraph.graph.nodes.activation import Activation


class Kept(TypedDict):
    """An answer, as it is kept while the activation is under way."""

    of: str
    """The name of its type."""
    data: Any
    """The answer as plain data."""


@dataclass(frozen=True)
class Wanted:
    """What an answer must fit.

    Attributes:
        schemas: The types and JSON schemas of which it must fit one, by their names.
        schema: All of them as one.
        response_format: LangChain's strategy; None where it has none for such a schema.
        how: Whether the model's provider keeps to the schema, the answer is a call of a tool, or a
            text that the instruction asks for.
    """

    schemas: Mapping[str, Any]
    schema: Any
    response_format: Any = None
    how: Literal["provider", "tool", "text"] = "text"

    def instruction(self) -> str | None:
        """Return what the instruction tells of the schema, if it must."""
        if self.how != "text":
            return None
        schema = json.dumps(json_schema(self.schema), ensure_ascii=False)
        return f"Your last reply must be JSON that fits this JSON schema, and nothing else:\n{schema}"

    def again(self) -> str:
        """Return how to reply to this time, in a sentence."""
        if self.how == "tool":
            return f"Reply again, by calling {' or '.join(self.schemas)}."
        return "Reply again, with the JSON alone."

    def read(self, text: str) -> Any:
        """Return the answer that a text gives.

        Raises:
            ValueError: The text is not JSON, or does not fit; the message says why.
        """
        if self.how != "provider":
            return self.typed(read_json(text))
        try:
            data = json.loads(text)
        except ValueError:
            raise ValueError("it is not valid JSON") from None
        return self.typed(data)

    def typed(self, data: Any, name: str = "") -> Any:
        """Return plain data as the answer that it is, of the type of that name if it fits.

        Raises:
            ValueError: It fits none; the message says why.
        """
        faults = []
        for schema in sorted(self.schemas, key=lambda each: each != name):
            try:
                return typed(self.schemas[schema], data)
            except ValueError as error:
                faults.append(str(error))
        raise ValueError("; or ".join(faults))

    def calls(self, reply: AIMessage) -> list[ToolCall]:
        """Return the calls of a reply that give an answer."""
        return [each for each in reply.tool_calls if each["name"] in self.schemas]

    def call_fault(self, reply: AIMessage) -> str | None:
        """Return what is wrong with a call that gives an answer, of what LangChain does not look at."""
        for broken in reply.invalid_tool_calls:
            if broken["name"] in self.schemas:
                return f"the arguments of {broken['name']} are not valid JSON"
        for call in self.calls(reply):
            schema = self.schemas[call["name"]]
            if isinstance(schema, dict) and not schema_fault(schema):
                return answer_fault(schema, call["args"])
        return None


def wanted_by(given: Any) -> Wanted | None:
    """Return what an answer must fit by an `output_schema`, or a `response_format` of LangChain's."""
    if given is None:
        return None
    strategy = _strategy(given)
    if strategy is None:
        return Wanted({"": schema_in(given)}, schema_in(given))
    schemas = {spec.name: spec.schema for spec in _specs(strategy)}
    return Wanted(schemas, schema_in(given), strategy)


def _strategy(given: Any) -> Any:
    """Return LangChain's strategy for an output schema; None where it has none.

    Which one suits the model, LangChain decides at each call; no provider takes several schemas.
    """
    if isinstance(given, ToolStrategy | ProviderStrategy):
        return given
    schema, names = schema_in(given), answer_tools(given)
    if isinstance(schema, dict):
        schema = _titled(schema)
    if len(names) > 1:
        return ToolStrategy(schema)
    return AutoStrategy(schema) if names else None


def _titled(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema with a title: LangChain would give it another one in each process."""
    several = enumerate(schema.get("oneOf", ()), 1)
    titled = [{"title": answer_name(each, number), **each} for number, each in several]
    return {"title": answer_name(schema), **schema, **({"oneOf": titled} if titled else {})}


def _specs(strategy: Any) -> list[Any]:
    if isinstance(strategy, ProviderStrategy):
        return [strategy.schema_spec]
    found = ToolStrategy(strategy.schema) if isinstance(strategy, AutoStrategy) else strategy
    return list(found.schema_specs)


def kept(activation: Activation, answer: Any) -> Kept | None:
    """Return an answer as plain data, if there is one."""
    if answer is None:
        return None
    return Kept(of=type(answer).__name__, data=activation.plain("the structured response", answer))


def restored(wanted: Wanted | None, kept: Kept | None) -> Any:
    """Return an answer that was kept, of its type again; as plain data where that is not known."""
    if kept is None:
        return None
    if wanted is not None:
        with suppress(ValueError):
            return wanted.typed(kept["data"], kept["of"])
    return kept["data"]


def told(message: BaseMessage, answer: Any, kept: Kept | None) -> BaseMessage:
    """Return a message as it is said: the result of a call that gave the answer says it as JSON.

    LangChain has "Returning structured response: ..." there, with the `repr`.
    """
    if kept is None or not isinstance(message, ToolMessage):
        return message
    if message.content != f"Returning structured response: {answer}":
        return message
    text = json.dumps(kept["data"], ensure_ascii=False)
    marked = {**message.additional_kwargs, ANSWER: True}
    return message.model_copy(update={"content": text, "additional_kwargs": marked})


def keep(
    activation: Activation, agent: ChatAgent, answer: Kept | None, wanted: Wanted | None, text: str
) -> None:
    """Write what an agent came to as its value: its answer, else its last text, if that fits."""
    value: Any = text
    if not agent.output_key:
        return
    if answer is not None:
        value = answer["data"]
    elif wanted is not None:
        try:
            value = plain(wanted.read(text))
        except ValueError:
            return
    activation.set_values({agent.output_key: value})
