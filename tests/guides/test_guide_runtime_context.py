"""LangGraph's guides to runtime context, restated: a tree reads it wherever a graph by hand does."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from graph_calls import SAID, in_turn, invoke, last, stream
from helpers import Async, Drive, retrying, scripted, sent
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    before_model,
    dynamic_prompt,
)
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Factory = Callable[..., Any]
"""Makes an agent with a model and tools: LangChain's, or a tree."""


class Unit(TypedDict):
    unit: str


@dataclass
class Desk:
    user: str
    model: str = "small"
    rules: str | None = None


def langchain_agent(model: Any, tools: Any = (), **options: Any) -> Any:
    return create_agent(model, list(tools), **options)


def tree(model: Any, tools: Any = (), context_schema: Any = None, **options: Any) -> Any:
    agent = ag.chat_agent("agent", model, tools=tools, **options)
    return ag.compile_agent(agent, context_schema=context_schema)


both = pytest.mark.parametrize("make", [langchain_agent, tree])
"""Runs a test with `create_agent`, and with a chat agent in its place."""


# a node reads the context


def read_by_runtime(ctx: ag.Context[Unit]) -> str:
    return ctx.runtime.context["unit"]


def read_by_context(ctx: ag.Context[Unit]) -> str:
    return ctx.context["unit"]


def read_by_function(ctx: ag.Context[Unit]) -> str:
    return get_runtime(Unit).context["unit"]


READ = [read_by_runtime, read_by_context, read_by_function]


@pytest.mark.parametrize("read", READ, ids=lambda read: read.__name__)
def test_a_context_that_is_a_typed_dict_decides_what_a_node_writes(drive: Drive, read: Any) -> None:
    class State(TypedDict, total=False):
        boils: int

    degrees = {"celsius": 100, "kelvin": 373}

    def measure(state: State, runtime: Runtime[Unit]) -> State:
        return {"boils": degrees[runtime.context["unit"]]}

    by_hand = in_turn(State, measure, context_schema=Unit)
    agent = ag.function_agent("measure", lambda ctx: ag.SetValues(boils=degrees[read(ctx)]))
    graph = ag.compile_agent(agent, values=State, context_schema=Unit)
    for unit, boils in degrees.items():
        context = {"unit": unit}
        assert invoke(drive, by_hand, {}, context=context) == {"boils": boils}
        assert invoke(drive, graph, {}, context=context)["values"] == {"boils": boils}
        runner = ag.Runner(agent, values=State, context_schema=Unit)
        list(drive.run(runner, "Go.", thread_id="t", context=context))
        assert runner.thread("t").values == {"boils": boils}
    with pytest.raises(KeyError, match="furlong"):
        invoke(drive, graph, {}, context={"unit": "furlong"})


def test_a_coroutine_reads_the_context_and_the_config_too() -> None:
    async def fn(ctx: ag.Context[Unit]) -> str:
        return f"{get_runtime(Unit).context['unit']} {get_config()['configurable']['job']}"

    graph = ag.compile_agent(ag.function_agent("a", fn), context_schema=Unit)
    config: Any = {"configurable": {"job": "ironing"}}
    assert last(invoke(Async, graph, SAID, config, context={"unit": "kelvin"})) == "kelvin ironing"


# the model and its instruction come from the context


def models() -> dict[str, ScriptedChatModel]:
    return {name: scripted(*[lambda sent, name=name: name] * 9) for name in ("small", "large")}


def test_the_context_names_the_model_and_a_dataclass_has_defaults(drive: Drive) -> None:
    found = models()

    def call_model(state: MessagesState, runtime: Runtime[Desk]) -> Any:
        return {"messages": [found[runtime.context.model].invoke(state["messages"])]}

    by_hand = in_turn(MessagesState, call_model, context_schema=Desk)
    agent = ag.chat_agent("agent", lambda ctx: found[ctx.context.model])
    graph = ag.compile_agent(agent, context_schema=Desk)
    for context, name in (
        (Desk("ada"), "small"),
        ({"user": "ada"}, "small"),
        ({"user": "ada", "model": "large"}, "large"),
    ):
        for each in (by_hand, graph):
            assert last(invoke(drive, each, SAID, context=context)) == name


def test_the_context_has_the_instruction_of_a_model(drive: Drive) -> None:
    model = scripted(*[sent] * 4)

    def call_model(state: MessagesState, runtime: Runtime[Desk]) -> Any:
        rules = runtime.context.rules
        first = [SystemMessage(rules)] if rules else []
        return {"messages": [model.invoke([*first, *state["messages"]])]}

    def instruct(ctx: ag.Context[Desk]) -> SystemMessage | str:
        """Return the rules as they are: a text would be a template, and its braces be filled."""
        return SystemMessage(ctx.context.rules) if ctx.context.rules else ""

    by_hand = in_turn(MessagesState, call_model, context_schema=Desk)
    graph = ag.compile_agent(ag.chat_agent("agent", model, instruction=instruct), context_schema=Desk)
    for rules, text in (("Be {brief}.", "system: Be {brief}. | human: Go."), (None, "human: Go.")):
        for each in (by_hand, graph):
            assert last(invoke(drive, each, SAID, context=Desk("ada", rules=rules))) == text


def test_an_instruction_reads_the_runtime_by_langgraphs_function(drive: Drive) -> None:
    def instruct(ctx: ag.Context[Desk]) -> str:
        return f"Speak to {get_runtime(Desk).context.user}."

    graph = tree(scripted(sent), context_schema=Desk, instruction=instruct)
    assert last(invoke(drive, graph, SAID, context={"user": "ada"})) == (
        "system: Speak to ada. | human: Go."
    )


# tools read the context


@tool
def by_tool_runtime(runtime: ToolRuntime[Desk]) -> str:
    """Look up the user."""
    return runtime.context.user


@tool
def by_get_runtime() -> str:
    """Look up the user."""
    return get_runtime(Desk).context.user


@tool
async def by_coroutine(number: int, runtime: ToolRuntime[Desk]) -> str:
    """Look up the user."""
    return f"{runtime.context.user} {number} {get_runtime(Desk).context.user} {runtime.tool_call_id}"


@tool
def by_config(config: RunnableConfig) -> str:
    """Look up the user."""
    return str(config["configurable"]["user"])


@tool
def by_get_config() -> str:
    """Look up the user."""
    return str(get_config()["configurable"]["user"])


@both
@pytest.mark.parametrize(
    "looks", [by_tool_runtime, by_get_runtime, by_config, by_get_config], ids=lambda each: each.name
)
def test_a_tool_reads_the_user_from_context_or_config(drive: Drive, make: Factory, looks: Any) -> None:
    model = scripted(calls(call(looks.name)), lambda sent: f"You are {sent[-1].text}.")
    agent = make(model, [looks], context_schema=Desk)
    config: Any = {"configurable": {"user": "ada"}}
    assert last(invoke(drive, agent, SAID, config, context=Desk("ada"))) == "You are ada."
    shown = model.tools[0]["function"]["parameters"]["properties"]
    assert shown == {}


@both
def test_a_coroutine_is_a_tool_that_reads_the_context(make: Factory) -> None:
    model = scripted(calls(call("by_coroutine", number=3)), lambda sent: sent[-1].text)
    agent = make(model, [by_coroutine], context_schema=Desk)
    assert last(invoke(Async, agent, SAID, context=Desk("ada"))) == "ada 3 ada 1"
    assert list(model.tools[0]["function"]["parameters"]["properties"]) == ["number"]


@both
def test_tools_know_the_thread_and_the_try_of_their_run(drive: Drive, make: Factory) -> None:
    seen: list[Any] = []

    @tool
    def look(runtime: ToolRuntime) -> str:
        """Look."""
        info = runtime.execution_info
        assert info is not None
        seen.append((info.thread_id, info.node_attempt, runtime.server_info))
        return "seen"

    agent = make(scripted(calls(call("look")), "Done."), [look])
    invoke(drive, agent, SAID, {"configurable": {"thread_id": "monday"}})
    assert seen == [("monday", 1, None)]


# middleware reads the context


@both
def test_middleware_reads_the_context(drive: Drive, make: Factory) -> None:
    seen: list[str] = []

    @dynamic_prompt
    def prompt(request: ModelRequest[Desk]) -> str:
        return f"Speak to {request.runtime.context.user}."

    @before_model
    def before(state: AgentState[Any], runtime: Runtime[Desk]) -> None:
        seen.append(f"before {runtime.context.user}")

    class Choose(AgentMiddleware[Any, Any]):
        """Chooses the model by the context."""

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(model=found[request.runtime.context.model]))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request.override(model=found[request.runtime.context.model]))

    found = {name: scripted(lambda said, name=name: f"{name}: {sent(said)}") for name in ("s", "l")}
    middleware = [prompt, before, Choose()]
    agent = make(scripted(), context_schema=Desk, middleware=middleware)
    said = last(invoke(drive, agent, SAID, context=Desk("ada", model="l")))
    assert said == "l: system: Speak to ada. | human: Go."
    assert seen == ["before ada"]


# other settings of a run


def test_two_agents_are_tried_again_by_policies_of_their_own(drive: Drive) -> None:
    tries: list[str] = []

    def query(state: Any) -> Any:
        tries.append("query")
        if len(tries) == 1:
            raise sqlite3.OperationalError("locked")
        return {"messages": [AIMessage("3 rows")]}

    def answer() -> ScriptedChatModel:
        return scripted(ConnectionError("once"), ConnectionError("twice"), "Three.")

    agents = [
        ag.function_agent(
            "query",
            lambda ctx: query(None)["messages"],
            retry=retrying(2, sqlite3.OperationalError),
        ),
        ag.chat_agent("answer", answer(), retry=retrying(5)),
    ]
    events = list(drive.run(ag.Runner(ag.sequential("both", agents)), "Go."))
    assert [event.text for event in events if event.kind == "message"] == ["3 rows", "Three."]
    assert tries == ["query", "query"]
    tries.clear()
    wrong = ag.function_agent("query", lambda ctx: query(None), retry=retrying(2, ConnectionError))
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        list(drive.run(ag.Runner(wrong), "Go."))


def test_a_recursion_limit_of_the_config_ends_a_loop(drive: Drive) -> None:
    agent = ag.loop("round", [ag.function_agent("a", lambda ctx: "A")], max_iterations=99)
    graph = ag.compile_agent(agent)
    with pytest.raises(GraphRecursionError, match="Recursion limit of 5"):
        invoke(drive, graph, SAID, {"recursion_limit": 5})


def test_a_node_reads_its_step_and_its_name_from_the_config(drive: Drive) -> None:
    seen: list[Any] = []

    def note(metadata: Any) -> None:
        seen.append((metadata["langgraph_node"], metadata["langgraph_step"]))

    def a(state: MessagesState, config: RunnableConfig) -> None:
        note(config["metadata"])

    def b(state: MessagesState, config: RunnableConfig) -> None:
        note(get_config()["metadata"])

    invoke(drive, in_turn(MessagesState, a, b), SAID)
    by_hand, seen = seen, []
    agents = [ag.function_agent(name, lambda ctx: note(ctx.config["metadata"])) for name in "ab"]
    invoke(drive, ag.compile_agent(ag.sequential("s", agents)), SAID)
    assert [name for name, _ in seen] == [name for name, _ in by_hand] == ["a", "b"]
    assert seen[1][1] == seen[0][1] + 1


# every function of a tree, and every graph around it or in it


def everywhere(note: Callable[[str], Any]) -> ag.Agent:
    """Return a tree all of whose functions call `note` with their name, and read no `ctx`."""

    def look() -> str:
        """Look."""
        return str(note("tool"))

    def notes(name: str, given: Any = None) -> Any:
        def fn(*_: Any) -> Any:
            note(name)
            return given

        return fn

    def fn(name: str) -> ag.Agent:
        return ag.function_agent(name, notes(name))

    model = scripted(calls(call("look"), call("inner", request="y")), "Done.")

    def select(ctx: Any, messages: Any) -> Any:
        note("model input")
        return messages

    boss = ag.chat_agent(
        "boss",
        notes("model", model),
        instruction=notes("instruction", ""),
        model_input=select,
        tools=[look, ag.agent_tool(fn("inner"))],
    )
    return ag.sequential(
        "all",
        [
            ag.parallel("both", [fn("left"), fn("right")]),
            ag.workflow("flow", [ag.step(fn("step"))]),
            ag.loop("twice", [fn("body")], max_iterations=2, until=notes("until")),
            ag.validated(fn("checked"), notes("check", True)),
            boss,
        ],
    )


ALL = {
    "left", "right", "step", "body", "until", "checked", "check", "model", "instruction",
    "model input", "tool", "inner",
}  # fmt: skip


def test_langgraphs_functions_find_the_context_in_every_function_of_a_tree(drive: Drive) -> None:
    seen: list[tuple[Any, ...]] = []

    def note(name: str) -> str:
        found = get_runtime(Desk), get_config()
        seen.append((name, found[0].context.user, found[1]["configurable"]["job"], get_store()))
        get_stream_writer()(name)
        return name

    store = InMemoryStore()
    graph = ag.compile_agent(everywhere(note), context_schema=Desk, store=store)
    config: Any = {"configurable": {"job": 7}}
    modes = ["custom"]
    parts = stream(drive, graph, SAID, config, context=Desk("ada"), stream_mode=modes, subgraphs=True)
    assert {name for name, *_ in seen} == ALL
    assert {tuple(found) for _, *found in seen} == {("ada", 7, store)}
    assert {part[-1] for part in parts if isinstance(part[-1], str)} == ALL


def test_a_tree_in_a_graph_by_hand_has_its_context_and_store(drive: Drive) -> None:
    def greet(ctx: ag.Context[Desk]) -> str:
        assert ctx.store is not None
        get_stream_writer()("greeting")
        return f"{ctx.context.user} {ctx.store.get(('users',), 'ada').value['town']}"

    inner = ag.compile_agent(ag.function_agent("greet", greet), context_schema=Desk)
    store = InMemoryStore()
    store.put(("users",), "ada", {"town": "London"})
    builder = StateGraph(MessagesState, context_schema=Desk).add_node("tree", inner)
    graph = builder.add_edge(START, "tree").compile(store=store)
    options: Any = {"context": Desk("ada"), "stream_mode": ["custom", "values"], "subgraphs": True}
    parts = stream(drive, graph, SAID, **options)
    assert last(parts[-1][-1]) == "ada London"
    assert "greeting" in [data for _, mode, data in parts if mode == "custom"]


@pytest.mark.parametrize("flat", [False, True])
def test_a_graph_by_hand_in_a_tree_reads_the_context_of_the_tree(drive: Drive, flat: bool) -> None:
    def greet(
        state: MessagesState, runtime: Runtime[Desk], config: RunnableConfig, *, store: BaseStore
    ) -> Any:
        found = store.get(("users",), get_runtime(Desk).context.user)
        assert found is not None
        job = config["configurable"]["job"]
        return {"messages": [AIMessage(f"{runtime.context.user} {found.value['town']} {job}")]}

    store = InMemoryStore()
    store.put(("users",), "ada", {"town": "London"})
    graph = in_turn(MessagesState, greet, context_schema=Desk, store=store)
    agents = [ag.graph_agent(name, graph, flat=flat) for name in "ab"]
    tree = ag.sequential("s", [agents[0], ag.parallel("p", [agents[1]])])
    given: Any = {"context": {"user": "ada"}, "config": {"configurable": {"job": 7}}}
    events = drive.run(ag.Runner(tree, context_schema=Desk, store=store), "Go.", **given)
    assert [event.text for event in events] == ["ada London 7"] * 2
    alone = invoke(drive, graph, SAID, given["config"], context=given["context"])
    assert last(alone) == "ada London 7"
