"""A `create_agent` that runs a `chat_agent`, put in the place of LangChain's: a plugin of pytest.

It puts the arguments on `chat_agent` and `compile_agent`, and gives the state flat, as LangChain does:
values beside the messages, no marks of ours, no name of an agent that was given none.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

import langchain.agents
import langchain.agents.factory
from langchain.agents._subagent_transformer import SubagentTransformer
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.runnables import Runnable
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.untracked_value import UntrackedValue
from pydantic import ConfigDict, PydanticUserError, TypeAdapter
from typing_extensions import TypedDict

import agentgraph as ag
import agentgraph.graph.chat.wiring  # it takes what `create_agent` is before it is another one
from agentgraph.graph.chat.context_edits import edited
from agentgraph.graph.declared import declared_fields
from agentgraph.graph.stamps import STAMP

ORIGINAL = langchain.agents.create_agent
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*")
MODEL = "model"
"""The name of a chat agent that is given none: what `create_agent` calls the node of the model."""
MODEL_CALLS = 50
"""How often a model is asked: more than any test needs, so that one that repeats itself ends."""


class FlatGraph(Runnable[Any, Any]):
    """A compiled tree of one chat agent, as a graph of `create_agent`."""

    def __init__(self, graph: Any, response_format: Any, builder: Any, name: str | None) -> None:
        self._graph, self._schema, self._name = graph, _type_of(response_format), name
        self._has_text = not response_format
        self._made_of = (response_format, builder, name)
        self._inputs = set(builder.schemas[builder.input_schema])
        self._outputs = set(builder.schemas[builder.output_schema])

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._graph, attribute)

    def with_config(self, config: Any = None, **options: Any) -> "FlatGraph":
        """Return it with a config."""
        return FlatGraph(self._graph.with_config(config, **options), *self._made_of)

    def get_graph(self, config: Any = None, **options: Any) -> Any:
        """Return what is drawn."""
        return self._graph.get_graph(config, **options)

    def get_input_jsonschema(self, config: Any = None, **options: Any) -> Any:
        """Return the schema of the input."""
        return self._graph.get_input_jsonschema(config, **options)

    def get_output_jsonschema(self, config: Any = None, **options: Any) -> Any:
        """Return the schema of the output."""
        return self._graph.get_output_jsonschema(config, **options)

    def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Run it."""
        return self._flat(self._graph.invoke(self._nested(input), config, **self._keyed(options)))

    async def ainvoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Run it."""
        return self._flat(
            await self._graph.ainvoke(self._nested(input), config, **self._keyed(options))
        )

    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        """Stream it, as LangGraph does."""
        yield from self._graph.stream(self._nested(input), config, **options)

    async def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        """Stream it, as LangGraph does."""
        async for part in self._graph.astream(self._nested(input), config, **options):
            yield part

    def stream_events(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Stream it, as LangGraph does."""
        return self._graph.stream_events(self._nested(input), config, **options)

    def astream_events(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Stream it, as LangGraph does."""
        return self._graph.astream_events(self._nested(input), config, **options)

    def get_state(self, config: Any, **options: Any) -> Any:
        """Return the state of a thread."""
        found = self._graph.get_state(config, **options)
        record: Any = next(iter((found.values.get("middleware") or {}).values()), {})
        return found._replace(values={**record.get("state", {}), **self._flat(found.values)})

    def _keyed(self, options: dict[str, Any]) -> dict[str, Any]:
        """Have the record of the middleware given too: what the agent sees is not all that was said."""
        keys = [key for key in ("messages", "values", "middleware") if key in self._graph.channels]
        return {"output_keys": keys, **options}

    def _nested(self, input: Any) -> Any:
        if not isinstance(input, Mapping):
            return input
        values = {key: value for key, value in input.items() if key in self._inputs - {"messages"}}
        return {"messages": input.get("messages", []), **({"values": values} if values else {})}

    def _flat(self, output: Any) -> Any:
        if not isinstance(output, Mapping):
            return (
                output._replace(value=self._flat(output.value)) if hasattr(output, "value") else output
            )
        values = {k: v for k, v in output.get("values", {}).items() if k in self._outputs}
        if self._has_text and isinstance(values.get("structured_response"), str):
            del values["structured_response"]  # not an answer: what the agent said
        if "structured_response" in values and self._schema is not None:
            values["structured_response"] = TypeAdapter(self._schema).validate_python(
                values["structured_response"]
            )
        rest = {k: v for k, v in output.items() if k not in ("values", "messages", "middleware")}
        record = next(iter((output.get("middleware") or {}).values()), {})
        seen = edited(output.get("messages", []), record)
        return {**values, **rest, "messages": [self._plain(message) for message in seen]}

    def _plain(self, message: BaseMessage) -> BaseMessage:
        """Return a message without the mark of who said it, and without a name that nobody gave."""
        metadata = {k: v for k, v in message.response_metadata.items() if k != STAMP}
        name = message.name
        if message.type == "ai" and name == MODEL:
            name = self._name
        return message.model_copy(update={"response_metadata": metadata, "name": name})


def create_agent(
    model: Any,
    tools: Any = None,
    *,
    system_prompt: Any = None,
    middleware: Any = (),
    response_format: Any = None,
    state_schema: Any = None,
    context_schema: Any = None,
    checkpointer: Any = None,
    store: Any = None,
    interrupt_before: Any = None,
    interrupt_after: Any = None,
    debug: bool = False,
    name: str | None = None,
    cache: Any = None,
    transformers: Any = None,
) -> Any:
    """Return a chat agent, compiled, in the place of LangChain's."""
    middleware = [*middleware, *([_carrying(state_schema)] if state_schema else [])]
    # what LangChain would refuse is refused by LangChain, and its schemas are read
    its_own = ORIGINAL(
        model,
        tools,
        system_prompt=system_prompt,
        middleware=middleware,
        response_format=response_format,
    ).builder
    declared = _declared(its_own)
    agent_name = name if name and _NAME.fullmatch(name) else MODEL
    agent = ag.chat_agent(
        agent_name,
        model,
        instruction=SystemMessage("") if system_prompt == "" else system_prompt or "",
        tools=tools or (),
        middleware=middleware,
        max_iterations=MODEL_CALLS,
        on_tool_error="raise",
        output_key="structured_response",
        output_schema=response_format or None,
    )
    graph = ag.compile_agent(
        agent,
        checkpointer=checkpointer,
        store=store,
        values=TypedDict("State", declared, total=False) if declared else None,
        name=name or "LangGraph",
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        cache=cache,
        transformers=[SubagentTransformer, *(transformers or ())],
    )
    if name:
        graph = graph.with_config(metadata={"lc_agent_name": name})
    return FlatGraph(graph, response_format, its_own, name)


def _carrying(schema: Any) -> AgentMiddleware[Any, Any, Any]:
    """Return a middleware that brings nothing but its state."""

    class Carrier(AgentMiddleware[Any, Any, Any]):
        state_schema = schema

    return Carrier()


def _declared(builder: Any) -> dict[str, Any]:
    """Return the values to declare: those in the input and output."""
    inputs = set(builder.schemas[builder.input_schema])
    outputs = set(builder.schemas[builder.output_schema])
    hints = langchain.agents.factory._get_schema_type_hints(builder.state_schema)
    ours = {"messages", "jump_to", "structured_response"}
    return {
        name: _checkable(hints[name])
        for name, channel in builder.channels.items()
        if name in (inputs | outputs) - ours
        and name in hints
        and not isinstance(channel, UntrackedValue | EphemeralValue)
    }


def _checkable(hint: Any) -> Any:
    """Return a type; with `Any` in its place if pydantic has no schema for it."""
    schema: Any = TypedDict("Schema", {"value": hint})  # type: ignore[misc]
    hint = declared_fields(schema)["value"].hint
    try:
        TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        annotated: Any = Annotated
        return annotated[(Any, *get_args(hint)[1:])] if get_origin(hint) is Annotated else Any
    return hint


def _type_of(response_format: Any) -> Any:
    if isinstance(response_format, ToolStrategy | ProviderStrategy | AutoStrategy):
        response_format = response_format.schema
    return None if isinstance(response_format, dict) else response_format


langchain.agents.create_agent = create_agent  # type: ignore[assignment]
langchain.agents.factory.create_agent = create_agent  # type: ignore[assignment]
