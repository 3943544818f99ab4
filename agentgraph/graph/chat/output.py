"""The `output_schema` of a chat agent: how an answer that fits it is asked for, read and saved.

The schema of an object becomes LangChain's `response_format`: the model's provider keeps to it, or the
answer is a call of a tool that LangChain makes of it. Neither works for a schema of a list or a number,
nor for models that take no tools. Then the instruction contains the schema, and the text is parsed.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from langchain.agents.structured_output import (
    AutoStrategy,
    ProviderStrategy,
    ResponseFormat,
    ToolStrategy,
)
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolCall, ToolMessage

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.entries import Reply
from agentgraph.agents.kinds import output_keys
from agentgraph.agents.schemas import (
    answer_fault,
    answer_name,
    answer_tools,
    json_schema,
    read_json,
    schema_fault,
    schema_in,
    typed,
)
from agentgraph.agents.signals import ResponseSchema
from agentgraph.graph.lane_position import SavedAnswer
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.lane import LaneResult, last_text, value_of
from agentgraph.graph.quoted_messages import ANSWER
from agentgraph.graph.stamps import ANSWERED
from agentgraph.tree.addresses import parse_address
from agentgraph.tree.places import Place, Tree

Strategy = ResponseFormat[Any]
"""A strategy of LangChain for answers that fit a schema."""


@dataclass(frozen=True)
class AnswerFormat:
    """The format that an answer must fit.

    Attributes:
        schemas: The types and JSON schemas by name; the answer must fit one of them.
        schema: All of them as one.
        response_format: LangChain's strategy; None if it has none for such a schema.
        how: How the answer is given: "provider" (the provider keeps to the schema), "tool" (a tool
            call), or "text" (JSON that the instruction asks for).
    """

    schemas: Mapping[str, object]
    schema: ResponseSchema
    response_format: Strategy | None = None
    how: Literal["provider", "tool", "text"] = "text"

    def instruction(self) -> str | None:
        """Return the schema as a part of the instruction; None where it needs none."""
        if self.how != "text":
            return None
        schema = json.dumps(json_schema(self.schema), ensure_ascii=False)
        return f"Your last reply must be JSON that fits this JSON schema, and nothing else:\n{schema}"

    def retry_request(self) -> str:
        """Return a sentence that asks for another reply."""
        if self.how == "tool":
            return f"Reply again, by calling {' or '.join(self.schemas)}."
        return "Reply again, with the JSON alone."

    def read(self, text: str) -> object:
        """Return the answer that a text contains.

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

    def typed(self, data: object, name: str = "") -> object:
        """Return plain data as an instance of the first schema that it fits; `name` is tried first.

        Raises:
            ValueError: It fits none of them; the message says why.
        """
        faults = []
        for schema in sorted(self.schemas, key=lambda each: each != name):
            try:
                return typed(self.schemas[schema], data)
            except ValueError as error:
                faults.append(str(error))
        raise ValueError("; or ".join(faults))

    def calls(self, reply: AIMessage) -> list[ToolCall]:
        """Return the tool calls of a reply that are answers."""
        return [each for each in reply.tool_calls if each["name"] in self.schemas]

    def call_fault(self, reply: AIMessage) -> str | None:
        """Return the faults of a call that is an answer, where LangChain does not check it."""
        for broken in reply.invalid_tool_calls:
            if broken["name"] in self.schemas:
                return f"the arguments of {broken['name']} are not valid JSON"
        for call in self.calls(reply):
            schema = self.schemas[call["name"]]
            if isinstance(schema, dict) and not schema_fault(schema):
                return answer_fault(schema, call["args"])
        return None


def answer_format_of(output_schema: object) -> AnswerFormat | None:
    """Return the answer format for an `output_schema` or a `response_format` of LangChain."""
    if output_schema is None:
        return None
    strategy = _strategy(output_schema)
    if strategy is None:
        return AnswerFormat({"": schema_in(output_schema)}, schema_in(output_schema))
    schemas = {spec.name: spec.schema for spec in _specs(strategy)}
    return AnswerFormat(schemas, schema_in(output_schema), strategy)


def restored_at(tree: Tree, at: str, answer: SavedAnswer) -> object:
    """Return the saved answer of the agent at an address, typed where its schema is a type."""
    activation = parse_address(tree, at)
    chat = activation[0].chat if activation else None
    return restored(None if chat is None else answer_format_of(chat.output_schema), answer)


def reply_of(result: LaneResult, node_context: NodeContext, place: Place) -> Reply:
    """Return the messages of the agent at the place of a lane in that lane."""
    values = node_context.reducers.shared_writes(result["values"])
    data = value_of(result, node_context.reducers, frozenset(output_keys(place.agent)))
    if "answered" in result:
        data = restored_at(node_context.tree, **result["answered"])
    said = [each for each in result["messages"] if not isinstance(each, RemoveMessage)]
    written = node_context.reducers.applied({}, values)
    return Reply(last_text(result), data=data, values=written, messages=said)


def _strategy(output_schema: object) -> Strategy | None:
    """Return LangChain's strategy for an output schema; None if it has none.

    `AutoStrategy` lets LangChain choose at each call. Several schemas always need `ToolStrategy`.
    """
    if isinstance(output_schema, ToolStrategy | ProviderStrategy):
        return output_schema
    schema, names = schema_in(output_schema), answer_tools(output_schema)
    if isinstance(schema, dict):
        schema = _titled(schema)
    if len(names) > 1:
        return ToolStrategy(schema)
    return AutoStrategy(schema) if names else None


def _titled(schema: dict[str, Any]) -> dict[str, object]:
    """Return a JSON schema with a title; without one LangChain makes up another in each process."""
    several = enumerate(schema.get("oneOf", ()), 1)
    titled = [{"title": answer_name(each, number), **each} for number, each in several]
    return {"title": answer_name(schema), **schema, **({"oneOf": titled} if titled else {})}


def _specs(strategy: Strategy) -> list[Any]:
    if isinstance(strategy, ProviderStrategy):
        return [strategy.schema_spec]
    tool_strategy = ToolStrategy(strategy.schema) if isinstance(strategy, AutoStrategy) else strategy
    return list(tool_strategy.schema_specs)


def saved_answer(activation: Activation, answer: object) -> SavedAnswer | None:
    """Return an answer as plain data; None for None."""
    if answer is None:
        return None
    data = activation.output.plain("the structured response", answer)
    return SavedAnswer(of=type(answer).__name__, data=data)


def restored(answer_format: AnswerFormat | None, saved: SavedAnswer | None) -> object:
    """Return a saved answer as an instance of its type; as plain data if the type is unknown."""
    if saved is None:
        return None
    if answer_format is not None:
        with suppress(ValueError):
            return answer_format.typed(saved["data"], saved["of"])
    return saved["data"]


def with_json_answer(message: BaseMessage, answer: object, saved: SavedAnswer | None) -> BaseMessage:
    """Return a message; as JSON if it is the result of the call that was the answer.

    LangChain writes "Returning structured response: ..." there, with the `repr`.
    """
    if saved is None or not isinstance(message, ToolMessage):
        return message
    if message.content != f"Returning structured response: {answer}":
        return message
    text = json.dumps(saved["data"], ensure_ascii=False)
    marked = {**message.additional_kwargs, ANSWER: True}
    return message.model_copy(update={"content": text, "additional_kwargs": marked})


def write_value(
    activation: Activation,
    agent: ChatAgent,
    answer: SavedAnswer | None,
    answer_format: AnswerFormat | None,
    text: str,
) -> None:
    """Save the agent's answer, also as its `output_key`; without one its last text, if that fits.

    `Result.output` reads the saved answer.
    """
    if answer_format is not None and answer is None:
        with suppress(ValueError):
            answer = saved_answer(activation, answer_format.read(text))
    if answer_format is not None and answer is not None:
        activation.output.emitter.save_note(ANSWERED, dict(answer))
    if agent.output_key and (answer is not None or answer_format is None):
        activation.output.set_values({agent.output_key: answer["data"] if answer is not None else text})
