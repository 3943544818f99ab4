"""The code of LangGraph's guides on context, store, streams and state works in a tree as well.

The rest of what they do is in the notebooks, in `tests/transcripts/values.txt`, and in the tests of
values, tools and streams.
"""

import asyncio
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from helpers import Drive, Sync, gives, middleware, scripted, sent, texts
from langchain.agents import create_agent
from langchain.agents.middleware import before_model, dynamic_prompt
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
)
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Overwrite
from pydantic import BaseModel, Field

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

SAID: Any = {"messages": [{"role": "user", "content": "Go."}]}


def invoke(drive: Drive, graph: Any, *args: Any, **options: Any) -> Any:
    """Return the output of a graph, by `invoke` or `ainvoke`."""
    if drive is Sync:
        return graph.invoke(*args, **options)
    return asyncio.run(graph.ainvoke(*args, **options))


def stream(drive: Drive, graph: Any, *args: Any, **options: Any) -> list[Any]:
    """Return the parts of a graph's stream, by `stream` or `astream`."""
    if drive is Sync:
        return list(graph.stream(*args, **options))

    async def astream() -> list[Any]:
        return [part async for part in graph.astream(*args, **options)]

    return asyncio.run(astream())


def by_langchain(model: Any, tools: Any = (), **options: Any) -> Any:
    return create_agent(model, list(tools), **options)


def by_tree(model: Any, tools: Any = (), **options: Any) -> Any:
    compiled = {key: options.pop(key, None) for key in ("store", "context_schema")}
    return ag.compile_agent(ag.chat_agent("agent", model, tools=tools, **options), **compiled)


both = pytest.mark.parametrize("make", [by_langchain, by_tree])
"""Runs a test with `create_agent`, and with a chat agent in its place."""

# context and store


@dataclass
class User:
    id: str
    town: str = "London"


@tool
def by_runtime(runtime: ToolRuntime[User]) -> str:
    """Look up the user."""
    info = runtime.execution_info
    assert info is not None
    assert runtime.store is not None
    assert (info.thread_id, info.node_attempt, runtime.server_info) == ("monday", 1, None)
    return f"{runtime.context.id} {runtime.store.get(('users',), 'ada').value}"  # type: ignore[union-attr]


@tool
def by_functions(config: RunnableConfig) -> str:
    """Look up the user."""
    known = get_store().get(("users",), config["configurable"]["user_id"])
    return f"{get_runtime(User).context.id} {known and known.value} {get_config()['configurable']['n']}"


@tool
async def by_coroutine(runtime: ToolRuntime[User]) -> str:
    """Look up the user."""
    assert runtime.store is not None
    known = await runtime.store.aget(("users",), get_runtime(User).context.id)
    return f"{runtime.context.id} {known and known.value}"


def remembered() -> InMemoryStore:
    store = InMemoryStore()
    store.put(("users",), "ada", {"n": 1})
    return store


@both
def test_tools_find_context_store_and_config(drive: Drive, make: Any) -> None:
    tools = [by_runtime, by_functions, *([] if drive is Sync else [by_coroutine])]
    model = scripted(calls(*(call(each.name) for each in tools)), "Done.")
    agent = make(model, tools, store=remembered(), context_schema=User)
    config: Any = {"configurable": {"thread_id": "monday", "user_id": "ada", "n": 7}}
    said = [each.text for each in invoke(drive, agent, SAID, config, context=User("ada"))["messages"]]
    assert said[2:-1] == ["ada {'n': 1}", "ada {'n': 1} 7", "ada {'n': 1}"][: len(tools)]
    assert [each["function"]["parameters"]["properties"] for each in model.tools] == [{}] * len(tools)


@both
def test_middleware_finds_context_and_store(drive: Drive, make: Any) -> None:
    seen: list[str] = []

    @dynamic_prompt
    def prompt(request: Any) -> str:
        found = request.runtime.store.get(("users",), request.runtime.context.id)
        return f"Speak to {found.key}."

    @before_model
    def before(state: Any, runtime: Runtime[User]) -> None:
        seen.append(f"{runtime.context.id} {runtime.store and runtime.store.get(('users',), 'eve')}")

    def chosen(request: Any) -> Any:
        return (yield request.override(model=models[request.runtime.context.town]))

    models = {
        town: scripted(lambda said, town=town: f"{town}: {sent(said)}") for town in ("Rome", "Oslo")
    }
    options: Any = {"context_schema": User, "store": remembered()}
    agent = make(scripted(), middleware=[prompt, before, middleware(wrap_model_call=chosen)], **options)
    out = invoke(drive, agent, SAID, context=User("ada", "Oslo"))
    assert out["messages"][-1].text == "Oslo: system: Speak to ada. | human: Go."
    assert seen == ["ada None"]


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

    async def later(*_: Any) -> None:
        note("coroutine")

    def fn(name: str) -> ag.Agent:
        return ag.function_agent(name, notes(name))

    def select(ctx: Any, messages: Any) -> Any:
        note("model input")
        return messages

    boss = ag.chat_agent(
        "boss",
        notes("model", scripted(calls(call("look"), call("inner", request="y")), "Done.")),
        instruction=notes("instruction", ""),
        model_input=select,
        tools=[look, ag.agent_tool(fn("inner"))],
    )
    return ag.sequential(
        "all",
        [
            ag.parallel("both", [fn("left"), ag.function_agent("coroutine", later)]),
            ag.workflow("flow", [ag.step(fn("step"))]),
            ag.loop("twice", [fn("body")], max_iterations=2, until=notes("until")),
            ag.validated(fn("checked"), notes("check", True)),
            boss,
        ],
    )


ALL = {
    "left", "coroutine", "step", "body", "until", "checked", "check", "model", "instruction",
    "model input", "tool", "inner",
}  # fmt: skip


def test_langgraphs_functions_find_the_context_in_every_function_of_a_tree(drive: Drive) -> None:
    seen: list[tuple[Any, ...]] = []

    def note(name: str) -> str:
        config = get_config()
        seen.append((name, get_runtime(User).context.id, config["configurable"]["job"], get_store()))
        get_stream_writer()(name)
        return name

    store = InMemoryStore()
    graph = ag.compile_agent(everywhere(note), context_schema=User, store=store)
    config: Any = {"configurable": {"job": 7}}
    modes = ["custom"]
    parts = stream(drive, graph, SAID, config, context=User("ada"), stream_mode=modes, subgraphs=True)
    assert {name for name, *_ in seen} == ALL
    assert {tuple(found) for _, *found in seen} == {("ada", 7, store)}
    assert {part[-1] for part in parts if isinstance(part[-1], str)} == ALL


def test_a_tree_in_a_graph_by_hand_has_its_context_and_store_and_streams(drive: Drive) -> None:
    def greet(ctx: ag.Context[User]) -> str:
        get_stream_writer()("greeting")
        return f"{ctx.context.id} {ctx.store and ctx.store.get(('users',), 'ada').value}"  # type: ignore[union-attr]

    agents = [ag.chat_agent("a", scripted("One two.")), ag.function_agent("greet", greet)]
    inner = ag.compile_agent(ag.sequential("s", agents), context_schema=User)
    builder = StateGraph(MessagesState, context_schema=User).add_node("tree", inner)
    graph = builder.add_edge(START, "tree").compile(store=remembered())
    modes = ["custom", "messages", "values"]
    parts = stream(drive, graph, SAID, context=User("ada"), stream_mode=modes, subgraphs=True)
    assert parts[-1][-1]["messages"][-1].text == "ada {'n': 1}"
    assert own(part for _, mode, part in parts if mode == "custom") == ["greeting"]
    said = [part for _, mode, part in parts if mode == "messages"]
    assert tokens(part for part in said if isinstance(part[0], AIMessageChunk)) == ["One ", "two."]


@pytest.mark.parametrize("flat", [False, True])
def test_a_graph_by_hand_in_a_tree_has_its_context_and_store_and_streams(
    drive: Drive, flat: bool
) -> None:
    def greet(
        state: MessagesState, runtime: Runtime[User], config: RunnableConfig, *, store: BaseStore
    ) -> Any:
        runtime.stream_writer({"percent": 50})
        known = store.get(("users",), get_runtime(User).context.id)
        said = f"{runtime.context.id} {known and known.value} {config['configurable']['job']}"
        return {"messages": [scripted(said).invoke("Greet.")]}

    builder = StateGraph(MessagesState, context_schema=User).add_node(greet)
    agent = ag.graph_agent("g", builder.add_edge(START, "greet").compile(), flat=flat)
    for tree in (agent, ag.parallel("p", [agent])):
        graph = ag.compile_agent(tree, context_schema=User, store=remembered())
        options: Any = {"context": {"id": "ada"}, "stream_mode": ["custom", "messages"]}
        config = {"configurable": {"job": 7}}
        parts = stream(drive, graph, SAID, config, subgraphs=True, **options)
        assert own(part for _, mode, part in parts if mode == "custom") == [{"percent": 50}]
        said = [part for _, mode, part in parts if mode == "messages"]
        chunks = tokens(part for part in said if isinstance(part[0], AIMessageChunk))
        assert "".join(chunks) == "ada {'n': 1} 7"


def test_data_of_a_graph_in_a_tree_comes_only_with_subgraphs_under_its_name(drive: Drive) -> None:
    def inner(state: MessagesState) -> Any:
        get_stream_writer()("inner")
        return {"messages": [AIMessage("Inner.")]}

    agent = ag.graph_agent(
        "g", StateGraph(MessagesState).add_node(inner).add_edge(START, "inner").compile()
    )
    for tree in (agent, ag.parallel("p", [agent, gives("a", "A")])):
        graph = ag.compile_agent(tree)
        found = stream(drive, graph, SAID, stream_mode="custom", subgraphs=True)
        assert own(data for _, data in found) == ["inner"]
        assert own(stream(drive, graph, SAID, stream_mode="custom")) == []
        updates = stream(drive, graph, SAID, stream_mode="updates", subgraphs=True)
        (ns,) = {ns for ns, update in updates if "inner" in update}
        assert ns[-1].startswith("g:")


# streams of a compiled tree


def own(parts: Iterable[Any]) -> list[Any]:
    """Return the writes to the `custom` stream, without the metadata of agents."""
    return [part for part in parts if not (isinstance(part, dict) and [*part] == ["agentgraph"])]


def tokens(parts: Iterable[Any], wanted: Callable[[Any], Any] = bool) -> list[str]:
    """Return the texts of chunks whose metadata is wanted."""
    return [chunk.text for chunk, metadata in parts if chunk.text and wanted(metadata)]


def writes(ctx: ag.Context) -> ag.SetValues:
    get_stream_writer()({"status": "thinking"})
    return ag.SetValues(joke="Ha.")


def test_what_a_node_writes_comes_before_its_update_in_each_version(drive: Drive) -> None:
    items = [ag.Custom({"status": "thinking"}), ag.SetValues(joke="Ha.")]
    for agent in (ag.function_agent("n", writes), gives("n", items)):
        graph = ag.compile_agent(agent)
        parts = stream(drive, graph, SAID, stream_mode=["updates", "custom"])
        (_, status), (_, update) = [(m, p) for m, p in parts if m == "updates" or own([p])]
        assert (status, update["n"]["values"]) == ({"status": "thinking"}, {"joke": "Ha."})
        parts = stream(drive, graph, SAID, stream_mode=["updates", "custom"], version="v2")
        assert {(part["type"], part["ns"]) for part in parts} == {("custom", ()), ("updates", ())}


@tool
def look(city: str) -> str:
    """Look at the sky."""
    get_stream_writer()(f"Looking at {city}")
    return f"Sun in {city}."


def test_all_modes_come_in_the_order_of_langchains_agent(drive: Drive) -> None:
    def modes(make: Any) -> list[Any]:
        graph = make(scripted(calls(call("look", city="Rome")), "It is sunny."), [look])
        parts = stream(drive, graph, SAID, stream_mode=["updates", "messages", "custom"])
        return [mode for mode, part in parts if mode != "custom" or own([part])]

    assert modes(by_tree) == modes(by_langchain)


TOKENS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "of a node": (lambda at: at["langgraph_node"] == "poem", ["Roses ", "red."]),
    "of a tag": (lambda at: at.get("tags") == ["funny"], ["Ha ", "ha."]),
    "of all but one that does not stream": (bool, ["Ha ", "Roses ", "ha.", "red."]),
}


@pytest.mark.parametrize("compose", [ag.sequential, ag.parallel])
@pytest.mark.parametrize(("wanted", "found"), TOKENS.values(), ids=TOKENS)
def test_tokens_are_filtered_by_node_and_tag(
    drive: Drive, compose: Any, wanted: Any, found: list[str]
) -> None:
    models = {
        "joke": ScriptedChatModel(responses=["Ha ha."], tags=["funny"]),
        "poem": scripted("Roses red."),
        "mute": ScriptedChatModel(responses=["Not shown."], tags=["nostream"]),
    }
    tree = compose("s", [ag.chat_agent(name, model) for name, model in models.items()])
    parts = stream(drive, ag.compile_agent(tree), SAID, stream_mode="messages", subgraphs=True)
    chunks = [part for _, part in parts if isinstance(part[0], AIMessageChunk)]
    assert sorted(tokens(chunks, wanted)) == found


@both
def test_a_model_whose_streaming_is_disabled_comes_whole(drive: Drive, make: Any) -> None:
    model = ScriptedChatModel(responses=["One two."], disable_streaming=True)
    assert tokens(stream(drive, make(model), SAID, stream_mode="messages")) == ["One two."]


def test_tokens_of_a_model_in_a_tool_are_known_by_their_node(drive: Drive) -> None:
    @tool
    def ask(question: str) -> str:
        """Ask another model."""
        return scripted("Inner words.").invoke(question).text

    for make, node in ((by_langchain, "tools"), (by_tree, "agent.tools")):
        graph = make(scripted(calls(call("ask", question="Why?")), "Outer words."), [ask])
        parts = stream(drive, graph, SAID, stream_mode="messages")
        chunks = [part for part in parts if isinstance(part[0], AIMessageChunk)]
        assert tokens(chunks, lambda m, node=node: m["langgraph_node"] == node) == ["Inner ", "words."]
        assert tokens(chunks) == ["Inner ", "words.", "Outer ", "words."]


# a state that is declared as LangGraph's users declare it


class Extra(MessagesState):
    page: int


class ExtraModel(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []
    page: int = 0


@dataclass
class ExtraPlain:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    page: int = 0


FORMS: list[Any] = [
    HumanMessage("Hi."),
    {"role": "user", "content": "Hi."},
    {"type": "human", "content": "Hi."},
    ("user", "Hi."),
    "Hi.",
]


@pytest.mark.parametrize("state", [Extra, ExtraModel, ExtraPlain])
def test_a_state_with_messages_declares_the_history_and_the_other_keys(
    drive: Drive, state: Any
) -> None:
    graph = ag.compile_agent(gives("n", [AIMessage("Hello."), ag.SetValues(page=10)]), values=state)
    for form in FORMS:
        out = invoke(drive, graph, {"messages": [form]})
        assert texts(out["messages"]) == ["human: Hi.", "ai: Hello."]
        assert out["values"] == {"page": 10}
    assert "messages" not in graph.get_output_jsonschema()["$defs"]["Values"]["properties"]


def test_another_key_holds_messages_of_its_own(drive: Drive) -> None:
    class Notes(TypedDict, total=False):
        notes: Annotated[list[AnyMessage], add_messages]

    written = [
        [AIMessage("One.", id="1"), {"role": "user", "content": "Two."}],
        [AIMessage("ONE.", id="1")],
        [RemoveMessage(id="1"), ("ai", "Three.")],
    ]
    found = (["ai: One.", "human: Two."], ["ai: ONE.", "human: Two."], ["human: Two.", "ai: Three."])
    for count, expected in enumerate(found, 1):
        tree = gives("n", [ag.SetValues(notes=each) for each in written[:count]])
        out = invoke(drive, ag.compile_agent(tree, values=Notes), SAID)
        assert texts(out["values"]["notes"]) == expected


def without_doubles(left: list[str], right: Any) -> list[str]:
    """Add what is new; the names in `{"drop": [...]}` are removed."""
    if isinstance(right, dict):
        return [each for each in left if each not in right["drop"]]
    return [*left, *(each for each in right if each not in left)]


def test_a_reducer_may_take_another_type_than_that_of_the_value(drive: Drive) -> None:
    class Own(TypedDict, total=False):
        words: Annotated[list[str], without_doubles]

    written: list[Any] = [["wax", "pollen"], ["wax"], {"drop": ["wax"]}]
    tree = gives("n", [ag.SetValues(words=each) for each in written])
    out = invoke(drive, ag.compile_agent(tree, values=Own), SAID)
    assert out["values"] == {"words": ["pollen"]}


class Author(BaseModel):
    name: str


class Book(BaseModel):
    title: str
    pages: int = 0
    author: Author = Field(default_factory=lambda: Author(name="Ada"))
    notes: Annotated[list[str], operator.add] = ["new"]


@dataclass
class Plain:
    page: int = 0
    words: Annotated[list[str], operator.add] = field(default_factory=list)


def test_input_may_be_a_model_whose_nested_models_stay_objects(drive: Drive) -> None:
    graph = ag.compile_agent(gives("n", ag.SetValues(notes=["node"])), values=Book)
    for given, pages in ((Book(title="bees"), 0), (Book(title="bees", pages=3), 3)):
        values = invoke(drive, graph, {**SAID, "values": given})["values"]
        assert values == {
            **{"title": "bees", "pages": pages, "author": Author(name="Ada")},
            "notes": ["new", "node"],
        }


def test_input_and_edits_may_be_a_dataclass(drive: Drive) -> None:
    tree = gives("n", ag.SetValues(words=["wax"]))
    graph = ag.compile_agent(tree, values=Plain, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    out = invoke(drive, graph, {**SAID, "values": Plain(page=4, words=["hive"])}, thread)
    assert out["values"] == {"page": 4, "words": ["hive", "wax"]}
    graph.update_state(thread, {"values": Plain(page=7, words=["more"])})
    assert graph.get_state(thread).values["values"] == {"page": 7, "words": ["hive", "wax", "more"]}
    graph.update_state(thread, {"values": {"words": Overwrite([])}})
    assert graph.get_state(thread).values["values"]["words"] == []
    with pytest.raises(ag.AgentGraphError, match="values must be a mapping, got 3"):
        graph.update_state(thread, {"values": 3})


class Public(TypedDict, total=False):
    a: str


class Private(TypedDict):
    secret: str


def first(state: Public) -> Private:
    return {"secret": f"{state['a']}, then first"}


def second(state: Private) -> Public:
    return {"a": f"{state['secret']}, then second"}


@pytest.mark.parametrize("flat", [False, True])
def test_a_graph_in_a_tree_keeps_its_private_keys(drive: Drive, flat: bool) -> None:
    graph = StateGraph(Public).add_sequence([first, second]).add_edge(START, "first").compile()
    values: Any = {"input": lambda ctx: dict(ctx.values), "output": lambda s: ag.SetValues(**s)}
    agent = ag.graph_agent("g", graph, flat=flat, **values)
    out = invoke(drive, ag.compile_agent(agent, values=Public), {**SAID, "values": {"a": "start"}})
    assert out["values"] == {"a": "start, then first, then second"}
