"""LangGraph's guides to streaming, restated: custom data, tokens and updates of a tree.

In the `custom` stream of a tree a stamp follows what an agent writes: `own` leaves the stamps out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import pytest
from graph_calls import SAID, in_turn, stream
from helpers import Async, Drive, Sync, lines, says, scripted
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import StreamWriter
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Factory = Callable[..., Any]


class Topic(TypedDict, total=False):
    topic: str
    joke: str
    poem: str


def langchain_agent(model: Any, tools: Any = ()) -> Any:
    return create_agent(model, list(tools))


def tree(model: Any, tools: Any = ()) -> Any:
    return ag.compile_agent(ag.chat_agent("agent", model, tools=tools))


both = pytest.mark.parametrize("make", [langchain_agent, tree])


def own(parts: Iterable[Any]) -> list[Any]:
    """Return what was written to the `custom` stream, without the stamps of agents."""
    return [part for part in parts if not (isinstance(part, dict) and [*part] == ["agentgraph"])]


def without_stamps(parts: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the parts of several modes without stamps."""
    return [(mode, part) for mode, part in parts if mode != "custom" or own([part])]


# a node writes data


def by_function(state: Topic) -> Topic:
    write = get_stream_writer()
    write({"status": "thinking"})
    write("almost")
    return {"joke": f"About {state['topic']}."}


def by_runtime(state: Topic, runtime: Runtime) -> Topic:
    runtime.stream_writer({"status": "thinking"})
    runtime.stream_writer("almost")
    return {"joke": f"About {state['topic']}."}


def by_parameter(state: Topic, writer: StreamWriter) -> Topic:
    writer({"status": "thinking"})
    writer("almost")
    return {"joke": f"About {state['topic']}."}


def says_by_function(ctx: ag.Context) -> ag.SetValues:
    return ag.SetValues(**by_function({"topic": ctx.values["topic"]}))


def says_by_runtime(ctx: ag.Context) -> ag.SetValues:
    return ag.SetValues(**by_runtime({"topic": ctx.values["topic"]}, ctx.runtime))


def says_by_item(ctx: ag.Context) -> list[Any]:
    found = ag.SetValues(joke=f"About {ctx.values['topic']}.")
    return [ag.Custom({"status": "thinking"}), ag.Custom("almost"), found]


async def says_later(ctx: ag.Context) -> ag.SetValues:
    return says_by_function(ctx)


WRITERS = [says_by_function, says_by_runtime, says_by_item, says_later]


@pytest.mark.parametrize("fn", WRITERS, ids=lambda fn: fn.__name__)
def test_what_a_node_writes_comes_before_its_update(drive: Drive, fn: Any) -> None:
    modes: Any = {"stream_mode": ["updates", "custom"]}
    given = {"topic": "bees"}
    hands = [in_turn(Topic, node) for node in (by_function, by_runtime, by_parameter)]
    (expected,) = {str([part for _, part in stream(drive, g, given, **modes)][:2]) for g in hands}
    assert expected == "[{'status': 'thinking'}, 'almost']"
    graph = ag.compile_agent(ag.function_agent("n", fn), values=Topic)
    parts = without_stamps(stream(drive, graph, {**SAID, "values": given}, **modes))
    assert [mode for mode, _ in parts] == ["custom", "custom", "updates"]
    assert str([part for _, part in parts][:2]) == expected
    assert parts[2][1]["n"]["values"] == {"joke": "About bees."}


def test_the_second_version_of_streams_names_the_kind_of_each_part(drive: Drive) -> None:
    graph = ag.compile_agent(ag.function_agent("n", says_by_function), values=Topic)
    given = {**SAID, "values": {"topic": "bees"}}
    parts = stream(drive, graph, given, stream_mode=["updates", "custom"], version="v2")
    found = [(part["type"], part["ns"]) for part in parts]
    assert set(found) == {("custom", ()), ("updates", ())}
    assert own(part["data"] for part in parts if part["type"] == "custom") == [
        {"status": "thinking"},
        "almost",
    ]


def test_updates_and_values_show_each_step(drive: Drive) -> None:
    def refine(state: Topic) -> Topic:
        return {"topic": f"{state['topic']} and ants"}

    def joke(state: Topic) -> Topic:
        return {"joke": f"About {state['topic']}."}

    def agent(node: Any) -> ag.Agent:
        return ag.function_agent(
            node.__name__, lambda ctx: ag.SetValues(**node({"topic": ctx.values["topic"]}))
        )

    hand = in_turn(Topic, refine, joke)
    graph = ag.compile_agent(ag.sequential("s", [agent(refine), agent(joke)]), values=Topic)
    given = {"topic": "bees"}
    expected = stream(drive, hand, given, stream_mode="updates")
    found = stream(drive, graph, {**SAID, "values": given}, stream_mode="updates")
    mine = [{name: update["values"] for name, update in part.items()} for part in found]
    assert [part for part in mine if part] == expected
    wholes = stream(drive, graph, {**SAID, "values": given}, stream_mode="values")
    assert [part["values"] for part in wholes] == stream(drive, hand, given, stream_mode="values")


# tools write data


@tool
def look(city: str) -> str:
    """Look at the sky."""
    write = get_stream_writer()
    write(f"Looking at {city}")
    write({"percent": 100})
    return f"Sun in {city}."


@tool
def look_by_runtime(city: str, runtime: ToolRuntime) -> str:
    """Look at the sky."""
    runtime.stream_writer(f"Looking at {city}")
    runtime.stream_writer({"percent": 100})
    return f"Sun in {city}."


@tool
async def look_later(city: str) -> str:
    """Look at the sky."""
    write = get_stream_writer()
    write(f"Looking at {city}")
    await asyncio.sleep(0)
    write({"percent": 100})
    return f"Sun in {city}."


def weather(looks: Any) -> ScriptedChatModel:
    return scripted(calls(call(looks.name, city="Rome")), "It is sunny.")


@both
@pytest.mark.parametrize("looks", [look, look_by_runtime, look_later], ids=lambda each: each.name)
def test_a_tool_reports_while_it_runs(drive: Drive, make: Factory, looks: Any) -> None:
    if drive is Sync and looks is look_later and make is langchain_agent:
        with pytest.raises(NotImplementedError):  # a tree runs it
            stream(drive, make(weather(looks), [looks]), SAID)
        return
    parts = stream(drive, make(weather(looks), [looks]), SAID, stream_mode="custom")
    assert own(parts) == ["Looking at Rome", {"percent": 100}]
    modes = ["updates", "custom"]
    parts = without_stamps(stream(drive, make(weather(looks), [looks]), SAID, stream_mode=modes))
    kinds = [mode for mode, _ in parts]
    assert kinds == ["updates", "custom", "custom", "updates", "updates"]
    said = [
        update["messages"][-1].text
        for mode, part in parts
        if mode == "updates"
        for update in part.values()
    ]
    assert said == ["", "Sun in Rome.", "It is sunny."]


def test_all_modes_at_once_come_in_the_order_of_langchains_agent(drive: Drive) -> None:
    modes = ["updates", "messages", "custom"]
    expected, found = (
        [mode for mode, _ in without_stamps(stream(drive, graph, SAID, stream_mode=modes))]
        for graph in (langchain_agent(weather(look), [look]), tree(weather(look), [look]))
    )
    assert found == expected


def test_calls_of_one_message_report_each_for_itself(drive: Drive) -> None:
    def model() -> ScriptedChatModel:
        return scripted(calls(*[call("look", city=city) for city in ("Rome", "Oslo")]), "Done.")

    for make in (langchain_agent, tree):
        parts = own(stream(drive, make(model(), [look]), SAID, stream_mode="custom"))
        assert {str(part) for part in parts} == {
            "Looking at Rome",
            "Looking at Oslo",
            "{'percent': 100}",
        }
        assert len(parts) == 4


# tokens


def tokens(parts: Iterable[Any], wanted: Callable[[Any], bool] = bool) -> list[str]:
    """Return the texts of chunks whose metadata is wanted."""
    return [chunk.text for chunk, metadata in parts if chunk.text and wanted(metadata)]


@both
def test_a_models_reply_streams_token_by_token(drive: Drive, make: Factory) -> None:
    parts = stream(drive, make(scripted("One two three.")), SAID, stream_mode="messages")
    assert tokens(parts) == ["One ", "two ", "three."]
    assert all(isinstance(chunk, AIMessageChunk) for chunk, _ in parts)


def test_a_model_called_by_invoke_in_a_function_streams_too(drive: Drive) -> None:
    def node(state: Topic) -> Topic:
        return {"joke": scripted("One two.").invoke("Joke.").text}

    async def anode(ctx: ag.Context) -> ag.SetValues:
        return ag.SetValues(joke=(await scripted("One two.").ainvoke("Joke.")).text)

    def fn(ctx: ag.Context) -> ag.SetValues:
        return ag.SetValues(**node({}))

    hand = in_turn(Topic, node)
    assert tokens(stream(drive, hand, {"topic": "x"}, stream_mode="messages")) == ["One ", "two."]
    for agent in (ag.function_agent("n", fn), ag.function_agent("n", anode)):
        graph = ag.compile_agent(agent)
        assert tokens(stream(drive, graph, SAID, stream_mode="messages")) == ["One ", "two."]


def writers_of(**models: Any) -> dict[str, Any]:
    """Return a graph by hand and trees, in which two models write, in turn or side by side."""

    def by(name: str) -> Any:
        return lambda state: {"messages": [models[name].invoke("Write.")]}

    hand = StateGraph(MessagesState)
    for name in models:
        hand.add_node(f"write_{name}", by(name)).add_edge(START, f"write_{name}")
    agents = [ag.chat_agent(f"write_{name}", model) for name, model in models.items()]
    return {
        "hand": hand.compile(),
        "sequential": ag.compile_agent(ag.sequential("s", agents)),
        "parallel": ag.compile_agent(ag.parallel("p", agents)),
    }


KINDS = ["hand", "sequential", "parallel"]


def tokens_of(drive: Drive, graph: Any, wanted: Callable[[Any], bool] = bool) -> list[str]:
    """Return the texts of the chunks of all models, also of those in branches, which are subgraphs."""
    parts = stream(drive, graph, SAID, stream_mode="messages", subgraphs=True)
    return tokens([part for _, part in parts if isinstance(part[0], AIMessageChunk)], wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_filtered_by_their_node(drive: Drive, kind: str) -> None:
    def graph() -> Any:
        return writers_of(joke=scripted("Ha ha."), poem=scripted("Roses red."))[kind]

    def of_poem(metadata: Any) -> bool:
        return bool(metadata["langgraph_node"] == "write_poem")

    assert tokens_of(drive, graph(), of_poem) == ["Roses ", "red."]
    assert sorted(tokens_of(drive, graph())) == ["Ha ", "Roses ", "ha.", "red."]


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_filtered_by_the_tags_of_their_model(drive: Drive, kind: str) -> None:
    joke = ScriptedChatModel(responses=["Ha ha."], tags=["joke"])
    poem = ScriptedChatModel(responses=["Roses red."], tags=["poem"])
    graph = writers_of(joke=joke, poem=poem)[kind]
    assert tokens_of(drive, graph, lambda metadata: metadata["tags"] == ["joke"]) == ["Ha ", "ha."]


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_the_tag_nostream_streams_no_tokens(drive: Drive, kind: str) -> None:
    joke = ScriptedChatModel(responses=["Ha ha."], tags=["nostream"])
    graph = writers_of(joke=joke, poem=scripted("Roses red."))[kind]
    assert tokens_of(drive, graph) == ["Roses ", "red."]


@both
def test_a_model_whose_streaming_is_disabled_comes_whole(drive: Drive, make: Factory) -> None:
    model = ScriptedChatModel(responses=["One two."], disable_streaming=True)
    assert tokens(stream(drive, make(model), SAID, stream_mode="messages")) == ["One two."]


def test_tokens_of_a_tool_that_calls_a_model_are_known_by_their_node(drive: Drive) -> None:
    @tool
    def ask(question: str) -> str:
        """Ask another model."""
        return scripted("Inner words.").invoke(question).text

    nodes = {langchain_agent: "tools", tree: "agent.tools"}
    for make, node in nodes.items():
        model = scripted(calls(call("ask", question="Why?")), "Outer words.")
        parts = stream(drive, make(model, [ask]), SAID, stream_mode="messages")
        chunks = [part for part in parts if isinstance(part[0], AIMessageChunk)]
        assert tokens(chunks, lambda m, node=node: m["langgraph_node"] == node) == ["Inner ", "words."]
        assert tokens(chunks) == ["Inner ", "words.", "Outer ", "words."]


# models that LangChain does not know


def client(text: str) -> Iterator[str]:
    """Stream a reply, as the client of any provider."""
    for word in text.split():
        yield f"{word} "


async def aclient(text: str) -> AsyncIterator[dict[str, str]]:
    for word in text.split():
        await asyncio.sleep(0)
        yield {"role": "assistant", "content": f"{word} "}


def test_chunks_of_any_client_are_written_as_data(drive: Drive) -> None:
    def node(state: Topic) -> Topic:
        write = get_stream_writer()
        for chunk in client("Bees dance."):
            write({"chunk": chunk})
        return {"joke": "done"}

    def fn(ctx: ag.Context) -> ag.SetValues:
        return ag.SetValues(**node({}))

    expected = [{"chunk": "Bees "}, {"chunk": "dance. "}]
    assert stream(drive, in_turn(Topic, node), {"topic": "x"}, stream_mode="custom") == expected
    graph = ag.compile_agent(ag.function_agent("n", fn))
    assert own(stream(drive, graph, SAID, stream_mode="custom")) == expected


def test_chunks_of_any_client_become_the_message_of_an_agent(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> Iterator[AIMessageChunk]:
        for chunk in client("Bees dance."):
            yield AIMessageChunk(chunk)

    runner = ag.Runner(ag.function_agent("n", fn))
    events = list(drive.run(runner, "Go.", stream=True))
    assert [(event.partial, event.text) for event in events] == [
        (True, "Bees "),
        (True, "dance. "),
        (False, "Bees dance. "),
    ]


@both
def test_a_tool_writes_the_chunks_of_any_client(make: Factory) -> None:
    @tool
    async def list_items(place: str) -> str:
        """List the items of a place."""
        write, response = get_stream_writer(), ""
        async for chunk in aclient(f"A {place} has beds."):
            response += chunk["content"]
            write(chunk)
        return response

    model = scripted(calls(call("list_items", place="room")), "Done.")
    parts = stream(Async, make(model, [list_items]), SAID, stream_mode=["custom", "updates"])
    written = own(part for mode, part in parts if mode == "custom")
    assert [chunk["content"] for chunk in written] == ["A ", "room ", "has ", "beds. "]
    assert {chunk["role"] for chunk in written} == {"assistant"}


# graphs in graphs


def test_data_of_inner_graphs_comes_with_subgraphs(drive: Drive) -> None:
    """It comes under the namespace of the agent that runs the graph, beside its stamp."""

    def inner(state: MessagesState) -> Any:
        get_stream_writer()("inner")
        return {"messages": [AIMessage("Inner.")]}

    graph = in_turn(MessagesState, inner)
    hand = StateGraph(MessagesState).add_node("g", graph).add_edge(START, "g").compile()
    alone = ag.compile_agent(ag.graph_agent("g", graph))
    branch = ag.compile_agent(ag.parallel("p", [ag.graph_agent("g", graph), says("a")]))
    for each in (hand, alone, branch):
        found = stream(drive, each, SAID, stream_mode="custom", subgraphs=True)
        assert own(data for _, data in found) == ["inner"]
        assert own(stream(drive, each, SAID, stream_mode="custom")) == []
        updates = stream(drive, each, SAID, stream_mode="updates", subgraphs=True)
        (ns,) = {ns for ns, update in updates if "inner" in update}
        assert ns[-1].startswith("g:")


def test_a_graph_laid_flat_streams_as_it_does_by_itself(drive: Drive) -> None:
    def joke(state: MessagesState, writer: StreamWriter) -> Any:
        writer({"percent": 50})
        return {"messages": [scripted("One two.").invoke("Joke.")]}

    def end(state: MessagesState, runtime: Runtime) -> None:
        runtime.stream_writer({"percent": 100})

    hand = in_turn(MessagesState, joke, end)
    flat = ag.compile_agent(ag.graph_agent("g", hand, flat=True))
    for graph in (hand, flat):
        assert own(stream(drive, graph, SAID, stream_mode="custom")) == [
            {"percent": 50},
            {"percent": 100},
        ]
        assert tokens(stream(drive, graph, SAID, stream_mode="messages")) == ["One ", "two."]


def test_a_tree_in_a_graph_by_hand_streams_as_an_inner_graph(drive: Drive) -> None:
    inner = ag.compile_agent(
        ag.sequential("s", [ag.chat_agent("a", scripted("One two.")), ag.function_agent("n", writes)])
    )
    graph = StateGraph(MessagesState).add_node("tree", inner).add_edge(START, "tree").compile()
    parts = stream(drive, graph, SAID, stream_mode=["custom", "messages"], subgraphs=True)
    assert {ns[0].partition(":")[0] for ns, *_ in parts} == {"tree"}
    assert own(part for _, mode, part in parts if mode == "custom") == [{"percent": 50}]
    said = [part for _, mode, part in parts if mode == "messages"]
    assert tokens(part for part in said if isinstance(part[0], AIMessageChunk)) == ["One ", "two."]


def writes(ctx: ag.Context) -> str:
    get_stream_writer()({"percent": 50})
    return "Half."


# the same as events of a runner


def test_a_runner_gives_data_tokens_and_messages_with_who_gave_them(drive: Drive) -> None:
    agents = [ag.function_agent("n", writes), ag.chat_agent("agent", weather(look), tools=[look])]
    runner = ag.Runner(ag.sequential("s", agents))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    assert lines(events) == [
        's/n: [custom] {"percent": 50}',
        "s/n: Half.",
        's/agent: [calls] look({"city": "Rome"})',
        's/agent: [custom] "Looking at Rome"',
        's/agent: [custom] {"percent": 100}',
        "s/agent: Sun in Rome.",
        "s/agent: It is sunny.",
    ]
    said: list[BaseMessage | None] = [event.message for event in events if event.partial]
    assert "".join(each.text for each in said if each) == "It is sunny."
    assert lines(runner.events("t")) == lines(events)
