"""Agents in short, and the models and functions that these are given."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel


def scripted(*responses: Any) -> ScriptedChatModel:
    return ScriptedChatModel(responses=list(responses))


def says(name: str, *texts: str) -> ag.Agent:
    """Return a function agent that says one text after the other, the last one again and again."""
    left = list(texts or (name,))

    def fn(ctx: ag.Context) -> str:
        return left.pop(0) if len(left) > 1 else left[0]

    return ag.function_agent(name, fn)


def gives(name: str, *items: Any) -> ag.Agent:
    """Return a function agent that yields one item after the other, the last one repeatedly."""
    left = list(items)

    def fn(ctx: ag.Context) -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    return ag.function_agent(name, fn)


def asks(name: str, prompt: str = "Well?", **options: Any) -> ag.Agent:
    """Return a human agent."""
    return ag.human(name, prompt, **options)


def fails(name: str, times: int = 1, **options: Any) -> ag.Agent:
    """Return a function agent that raises `ValueError` some times, and then says its name."""
    tries = count(1)

    def fn(ctx: ag.Context) -> str:
        number = next(tries)
        if number <= times:
            raise ValueError(f"{name} failed, time {number}")
        return name

    return ag.function_agent(name, fn, **options)


def chat(name: str, *responses: Any, **options: Any) -> ag.Agent:
    """Return a chat agent whose model follows a script."""
    return ag.chat_agent(name, scripted(*responses), **options)


def invokes(name: str, *responses: str, **options: Any) -> ag.Agent:
    """Return a function agent that calls its own model for each response, and emits them all."""

    def fn(ctx: ag.Context) -> str:
        model = scripted(*responses)
        return " ".join(str(model.invoke("?").text) for _ in responses)

    return ag.function_agent(name, fn, **options)


def catches(name: str, *responses: str) -> ag.Agent:
    """Return an agent as `invokes` does, that continues after any error of its model."""

    def fn(ctx: ag.Context) -> Iterator[str]:
        model = scripted(*responses)
        for _ in responses:
            with suppress(Exception):
                yield str(model.invoke("?").text)
        yield "All the same."

    return ag.function_agent(name, fn)


def asks_between(name: str) -> ag.Agent:
    """Return a function agent that asks a model, then a person, then a model again."""

    def fn(ctx: ag.Context) -> str:
        model = scripted("Before.", "After.")
        before = model.invoke("?").text
        answer = interrupt("Well?")
        return f"{before} {answer} {model.invoke('?').text}"

    return ag.function_agent(name, fn)


def counted(name: str, *responses: str, **options: Any) -> ag.Agent:
    """Return a chat agent whose model reports a token for each word."""
    model = ScriptedChatModel(responses=[*responses], counts_tokens=True)
    return ag.chat_agent(name, model, **options)


def sees(name: str, **options: Any) -> ag.Agent:
    """Return a function agent that says the texts that it sees, but its own."""

    def fn(ctx: ag.Context) -> str:
        return f"saw {' | '.join(each.text for each in ctx.messages if each.type != 'ai')}"

    return ag.function_agent(name, fn, **options)


def yields(name: str, *calls: Sequence[Any], **options: Any) -> ag.Agent:
    """Return a function agent whose calls yield the items of one list after the other.

    An exception among the items is raised. The last list is used again and again.
    """
    left = list(calls)

    def fn(ctx: ag.Context) -> Iterator[Any]:
        for item in left.pop(0) if len(left) > 1 else left[0]:
            if isinstance(item, BaseException):
                raise item
            yield item

    return ag.function_agent(name, fn, **options)


def retrying(times: int = 2, on: type[Exception] = Exception) -> RetryPolicy:
    """Return a policy that tries so many times in all, without a pause."""
    return RetryPolicy(max_attempts=times, initial_interval=0.001, jitter=False, retry_on=on)


def enforcing(*responses: Any) -> ScriptedChatModel:
    """Return a scripted model whose provider enforces output schemas."""
    return ScriptedChatModel(responses=list(responses), profile={"structured_output": True})


def writes(name: str, *values: dict[str, Any], **options: Any) -> ag.Agent:
    """Return a function agent that says the values that it sees, and writes values in turn."""

    def fn(ctx: ag.Context) -> list[Any]:
        return [f"saw {dict(ctx.values)}", *(ag.SetValues(**each) for each in values)]

    return ag.function_agent(name, fn, **options)


def does(name: str) -> ag.Agent:
    """Return a function agent that says which step of a plan it does."""
    return ag.function_agent(name, lambda ctx: f"{ctx.values['step']} done")


def notes(name: str, *keys: str) -> ag.Agent:
    """Return a function agent that emits some values as custom data, and says nothing."""
    return ag.function_agent(name, lambda ctx: ag.Custom([ctx.values.get(key) for key in keys]))


def is_yes(text: str) -> str | None:
    """Check that a text is `yes`."""
    return None if text == "yes" else f"{text!r} is not yes"


def in_turn(*items: Any) -> Callable[..., Any]:
    """Return a function that returns one item after the other, the last one repeatedly.

    An exception among the items is raised, and a function is called with the arguments.
    """
    left = list(items)

    def fn(*given: Any) -> Any:
        item = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(item, BaseException):
            raise item
        return item(*given) if callable(item) else item

    return fn


def foreign(*nodes: Callable[[Any], Any], state: Any = MessagesState, **options: Any) -> Any:
    """Return a LangGraph graph that runs nodes one after the other: `n0`, `n1`, ...

    Args:
        *nodes: Functions of the messages; each returns a text, messages, or a command.
        state: The type of the state.
        **options: How the graph is compiled.
    """
    builder = StateGraph(state)
    for i, node in enumerate(nodes):

        def write(state: Any, node: Any = node) -> Any:
            written = node(state["messages"])
            written = AIMessage(written) if isinstance(written, str) else written
            return written if isinstance(written, Command | dict) else {"messages": written}

        builder.add_node(f"n{i}", write)
        builder.add_edge(f"n{i - 1}" if i else START, f"n{i}")
    return builder.compile(**options)


def command(**options: Any) -> Command[Any]:
    """Return a command of LangGraph."""
    return Command(**options)


def around(graph: Any) -> Any:
    """Return a graph with another one in its node."""
    builder = StateGraph(MessagesState)
    builder.add_node("inner", graph)
    builder.add_edge(START, "inner")
    return builder.compile()


def marked(old: list[str], new: str) -> list[str]:
    """Add a text with an id that no second call would make."""
    return [*old, f"{new} {uuid4()}"]


def last(old: Any, new: Any) -> Any:
    """Keep what was written last."""
    return new
