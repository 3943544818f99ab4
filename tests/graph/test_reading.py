"""What users' code reads is its own: to change it in place changes nothing for anybody else."""

import asyncio
import copy
import cProfile
import pstats
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Async, Drive, chat, scripted
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolRuntime
from pydantic import BaseModel
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls

f = ag.function_agent


def spoil(value: Any) -> None:
    """Change a value and all that is in it, in place."""
    if isinstance(value, BaseMessage):
        for name in ("content", "additional_kwargs", "tool_calls", "artifact"):
            spoil(getattr(value, name, None))
        value.content = "spoilt"
        value.name = "spoilt"
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            spoil(getattr(value, name))
    elif isinstance(value, list):
        for each in value:
            spoil(each)
        value.append("spoilt")
    elif isinstance(value, dict):
        for each in value.values():
            spoil(each)
        value["spoilt"] = "spoilt"


def spoils(ctx: ag.Context) -> None:
    """Change all that a function gets."""
    for name in ctx.values:
        spoil(ctx.values[name])
        spoil(ctx.values.get(name))
    for each in ctx.values.values():
        spoil(each)
    for message in ctx.messages:
        spoil(message)
    for entry in ctx.entries:
        spoil(entry.message)
    if ctx.item is not None:
        spoil(ctx.item.value)
    spoil(ctx.answer)


def spoiling_key(value: Any) -> str:
    key = repr(value)
    spoil(value)
    return key


def _model_input(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    sent = [HumanMessage("Go.")]
    spoil(messages)
    return sent


def _history(entries: Any) -> list[BaseMessage]:
    for each in entries:
        spoil(each.message)
    return []


def spoiling(returned: Any = None) -> Callable[..., Any]:
    """Return a function for an option, which changes all that it gets."""

    def fn(*arguments: Any) -> Any:
        for each in arguments:
            if isinstance(each, ag.Context):
                spoils(each)
            else:
                spoil(each)
        return returned

    return fn


@tool
def of_context(ctx: ag.Context) -> str:
    """Change what the context has."""
    spoils(ctx)
    return "done"


@tool
def of_field(
    seen: Annotated[list, InjectedState("seen")], big: Annotated[list, InjectedState("big")]
) -> str:  # type: ignore[type-arg]
    """Change what is injected."""
    spoil([seen, big])
    return "done"


@tool
def of_messages(messages: Annotated[list, InjectedState("messages")]) -> str:  # type: ignore[type-arg]
    """Change the messages."""
    spoil(messages)
    return "done"


class Typed(TypedDict):
    messages: list[Any]
    seen: list[list[Any]]
    big: list[dict[str, Any]]


@tool
def of_state(state: Annotated[dict, InjectedState]) -> str:  # type: ignore[type-arg]
    """Change the state."""
    spoil(state)
    return "done"


@tool
def of_typed_state(state: Annotated[Typed, InjectedState]) -> str:
    """Change the state, whose type is declared."""
    spoil(state)
    return "done"


@tool
def of_runtime(runtime: ToolRuntime) -> str:
    """Change the state of the runtime."""
    spoil(runtime.state)
    return "done"


@tool
def of_arguments(rows: list, options: dict) -> str:  # type: ignore[type-arg]
    """Change the arguments."""
    spoil([rows, options])
    return "done"


class Changing(AgentMiddleware):
    """Changes what each hook gets."""

    def before_agent(self, state: Any, runtime: Any) -> None:
        spoil(state)

    def before_model(self, state: Any, runtime: Any) -> None:
        spoil(state)

    def after_model(self, state: Any, runtime: Any) -> None:
        spoil(state)

    def after_agent(self, state: Any, runtime: Any) -> None:
        spoil(state)


class Around(AgentMiddleware):
    """Changes what is passed to the wrappers of models and tools, after these were called."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        result = handler(request)
        spoil([request.messages, request.state])
        return result

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        result = await handler(request)
        spoil([request.messages, request.state])
        return result

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        result = handler(request)
        spoil([request.tool_call, request.state])
        return result

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        result = await handler(request)
        spoil([request.tool_call, request.state])
        return result


class Counting(AgentMiddleware):
    """Has a state of its own, changes it in place, and says what it finds there."""

    class state_schema(AgentState):  # noqa: N801
        rounds: list[Any]

    def before_agent(self, state: Any, runtime: Any) -> dict[str, object]:
        return {"rounds": [[0]]}

    def before_model(self, state: Any, runtime: Any) -> None:
        spoil(state["rounds"])

    def after_model(self, state: Any, runtime: Any) -> dict[str, object]:
        return {"values": {"rounds_seen": repr(state["rounds"])}}


def using(*tools: Any, **options: Any) -> ag.Agent:
    """Return a chat agent that calls a tool once."""
    args = {"of_arguments": {"rows": [[1]], "options": {"a": [1]}}}
    name = getattr(tools[0], "name", "") or getattr(tools[0], "agent", tools[0]).name
    asked = calls(call(name, **args.get(name, {})))
    return chat("a", asked, "Done.", tools=tools, **options)


def _node(state: Any) -> dict[str, Any]:
    """Change the state of a graph, in a node of it."""
    spoil(state)
    return {"messages": [AIMessage("Done.")]}


class Inner(MessagesState):
    seen: list[Any]


def _graph(**options: Any) -> ag.Agent:
    builder = StateGraph(Inner)
    builder.add_node("n", _node)
    builder.add_edge(START, "n")
    return ag.graph_agent("a", builder.compile(), **options)


def _edge(**options: Any) -> ag.Agent:
    """Return a graph that changes its state where it decides which node is next."""
    builder = StateGraph(Inner).add_node("n", lambda _: {"messages": [AIMessage("Done.")]})
    builder.add_edge(START, "n").add_conditional_edges("n", spoiling(END), [END])
    return ag.graph_agent("a", builder.compile(), **options)


def _state(ctx: ag.Context) -> dict[str, Any]:
    return {"messages": ctx.messages, "seen": ctx.values["seen"]}


def _runs(ctx: ag.Context) -> list[Any]:
    reply = ctx.run("inner", "Go.")
    spoil([reply.values, reply.messages, reply.data])
    again = ctx.run("inner", "Go.")
    return [again, ag.SetValues(reply=repr([again.values, again.messages[0].text]))]


def _asks(ctx: ag.Context) -> Any:
    spoils(ctx)
    return "Answered." if ctx.answered else ag.Ask("Well?")


says_input = f("b", lambda ctx: ctx.messages[-1].text)
inner = f("inner", lambda ctx: [ag.SetValues(mine=[[1]]), "Inner."], output_key="said")
worker = f("a", lambda ctx: (spoils(ctx), "Done.")[1])
WORKS: dict[str, Callable[[], ag.Agent]] = {
    "a function": lambda: worker,
    "branches": lambda: ag.parallel("p", [worker, f("b", lambda ctx: (spoils(ctx), "Done.")[1])]),
    "items": lambda: ag.each("e", worker, "seen", output_mode="full"),
    "items of a function": lambda: ag.each("e", worker, spoiling([[[1]], [[2]]]), key=spoiling_key),
    "the input of items": lambda: ag.each("e", says_input, "seen", input=spoiling("Ask.")),
    "a loop": lambda: ag.loop("l", [worker], max_iterations=2, until=spoiling(False)),
    "a switch": lambda: ag.switch("w", spoiling("x"), {"x": worker}),
    "steps": lambda: ag.workflow(
        "f", [ag.step(worker, when=spoiling(True)), ag.step(says_input, depends_on=["a"])]
    ),
    "a question": lambda: f("a", _asks),
    "calls": lambda: f("a", _runs, agents=[inner]),
    "an instruction": lambda: chat("a", "Done.", instruction=spoiling("Be kind.")),
    "a model": lambda: ag.chat_agent("a", spoiling(scripted("Done."))),
    "the input of a model": lambda: chat("a", "Done.", model_input=_model_input),
    "a history": lambda: f("a", lambda ctx: "Done.", history=_history),
    "a switched tool": lambda: using(ag.agent_tool(inner, enabled=spoiling(True))),
    "approval": lambda: using(of_arguments, approve=spoiling(False)),
    "a context in a tool": lambda: using(of_context),
    "fields in a tool": lambda: using(of_field),
    "messages in a tool": lambda: using(of_messages),
    "the state in a tool": lambda: using(of_state),
    "a typed state in a tool": lambda: using(of_typed_state),
    "the runtime in a tool": lambda: using(of_runtime),
    "the arguments of a tool": lambda: using(of_arguments),
    "hooks": lambda: using(of_arguments, middleware=[Changing()]),
    "wrappers": lambda: using(of_arguments, middleware=[Around()]),
    "the state of middleware": lambda: using(of_arguments, middleware=[Counting()]),
    "a graph": lambda: _graph(),
    "the input of a graph": lambda: _graph(input=_state),
    "a flat graph": lambda: _graph(flat=True),
    "an edge of a flat graph": lambda: _edge(flat=True),
    "an edge of a flat graph with an input": lambda: _edge(flat=True, input=_state),
    "the input of a flat graph": lambda: _graph(flat=True, input=_state),
}


BIG = [{"id": n, "tags": [["a"]], "more": {"deep": [n]}} for n in range(200)]


def looks(ctx: ag.Context) -> str:
    """Return what an agent sees after others."""
    values = [ctx.values["seen"], ctx.values["big"] == BIG, ctx.values.get("rounds_seen")]
    call_args = [each.tool_calls[0]["args"] for each in ctx.messages if getattr(each, "tool_calls", 0)]
    return repr([*values, ctx.values.get("reply"), [each.content for each in ctx.messages], call_args])


def tree_of(work: str) -> ag.Agent:
    return ag.sequential("s", [WORKS[work](), f("z", looks)])


def _message() -> HumanMessage:
    return HumanMessage([{"type": "text", "text": "Go.", "more": {"a": [1]}}], id="h")


def _heard(runner: ag.Runner, drive: Drive, values: Any, messages: Any) -> str:
    events = [*drive.run(runner, messages, thread_id="t", values=values)]
    if events[-1].kind == "interrupted":
        events = [*drive.resume(runner, "t", {"why": [[1]]})]
    return events[-1].text


@pytest.mark.parametrize("is_on_disk", [False, True], ids=["memory", "SQLite"])
@pytest.mark.parametrize("work", WORKS)
def test_a_change_in_place_is_seen_by_nobody(
    work: str, is_on_disk: bool, drive: Drive, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"seen": [[0]], "big": copy.deepcopy(BIG)}
    message = _message()
    with ag.Runner(tree_of(work), checkpointer=tmp_path / "t.db" if is_on_disk else None) as runner:
        straight = _heard(runner, drive, values, message)
        assert "spoilt" not in straight
        assert "[[0]], True" in straight
        assert [event.text for event in runner.rewind("t", "s/z")][-1] == straight
        assert "spoilt" not in repr(runner.thread("t"))
    assert values == {"seen": [[0]], "big": BIG}
    assert message == _message()


@pytest.mark.parametrize("work", WORKS)
def test_a_change_in_place_is_seen_by_nobody_without_a_saver(work: str, drive: Drive) -> None:
    if work == "a question":  # nobody could answer it
        return
    values: dict[str, Any] = {"seen": [[0]], "big": copy.deepcopy(BIG)}
    message, graph = _message(), ag.compile_agent(tree_of(work))
    given = {"messages": [message], "values": values}
    result = asyncio.run(graph.ainvoke(given)) if drive is Async else graph.invoke(given)
    assert "spoilt" not in repr(result)
    assert "[[0]], True" in result["messages"][-1].text
    assert values == {"seen": [[0]], "big": BIG}
    assert message == _message()


def _functions_called(rows: list[Any], count: int) -> int:
    """Return how many functions run for steps that read one element of a value, and of its length."""
    reads = f("a", lambda ctx: str(ctx.values["rows"][0]["id"]))
    graph = ag.compile_agent(ag.loop("l", [reads], max_iterations=count))
    given = {"messages": ["Go."], "values": {"rows": rows}}
    with cProfile.Profile() as profile:
        graph.invoke(given)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_a_step_that_reads_one_element_costs_what_the_element_costs() -> None:
    _functions_called(BIG[:1], 2)
    large, small = (
        _functions_called(rows, 30) - _functions_called(rows, 10) for rows in (BIG * 20, BIG[:1])
    )
    assert large < 1.2 * small
