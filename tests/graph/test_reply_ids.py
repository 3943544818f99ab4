"""The ids of replies: providers reuse them, and still each reply is one message of the thread."""

import itertools
import threading
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from helpers import Drive, chat, fresh, middleware, says, scripted
from helpers.reply_ids import LEAVES, STYLES, Reused, check, held
from langchain.agents import create_agent
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Make = Callable[[str, Reused], ag.Agent]


def several(make: Make, style: str, fails: tuple[int, ...] = ()) -> list[ag.Agent]:
    return [make(name, Reused(name_of=name, style=style, fails=fails)) for name in ("a", "b")]


PLACES: dict[str, tuple[Callable[[list[ag.Agent]], ag.Agent], int]] = {
    "sequence": (lambda agents: ag.sequential("s", agents), 2),
    "loop": (lambda agents: ag.loop("s", agents, max_iterations=2), 4),
    "branches": (lambda agents: ag.parallel("s", agents), 2),
    "branches of branches": (
        lambda agents: ag.parallel("s", [ag.parallel("i", agents), says("c")]),
        3,
    ),
    "items": (
        lambda agents: ag.each("s", ag.sequential("w", agents), lambda _: [1, 2], output_mode="full"),
        4,
    ),
    "steps": (lambda agents: ag.workflow("s", agents), 2),
}


@pytest.mark.by_turns("place")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", LEAVES)
def test_replies_under_one_id_are_all_kept(drive: Drive, kind: str, place: str, tmp_path: Any) -> None:
    around, count = PLACES[place]
    for stream in (False, True):
        tree = around(several(LEAVES[kind], "constant"))
        path = tmp_path / f"{stream}.db"
        events = fresh(drive, path, tree, "run", "Go.", thread_id="t", stream=stream)
        with ag.Runner(tree, checkpointer=path) as runner:
            history = runner.thread("t").messages
            check(events, list(runner.events("t")), history)
        assert len([each for each in history if each.type == "ai"]) == count


@pytest.mark.by_turns("stream")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", LEAVES)
def test_chunks_have_the_id_of_their_message(drive: Drive, kind: str, style: str, stream: bool) -> None:
    tree = ag.sequential("s", several(LEAVES[kind], style))
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=stream))
    history = runner.thread("t").messages
    check(events, list(runner.events("t")), history)
    assert [each.type for each in history] == ["human", "ai", "ai"]
    kinds = {event.kind for event in events}
    loses = stream and kind == "function that classifies"
    assert kinds == ({"message", "discarded"} if loses else {"message"})


@pytest.mark.parametrize("place", ["sequence", "branches"])
@pytest.mark.parametrize("kind", LEAVES)
def test_what_an_attempt_that_failed_streamed_is_discarded(drive: Drive, kind: str, place: str) -> None:
    runner = ag.Runner(PLACES[place][0](several(LEAVES[kind], "constant", fails=(1,))))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    check(events, list(runner.events("t")), runner.thread("t").messages)
    assert [event.kind for event in events].count("discarded") >= 2


def test_an_id_that_is_taken_stays_as_the_label_of_the_provider(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", several(LEAVES["chat"], "constant")))
    list(drive.run(runner, "Go.", thread_id="t"))
    first, second = runner.thread("t").messages[1:]
    assert first.id == "chatcmpl-1"
    assert "provider_message_id" not in first.response_metadata
    assert second.id != "chatcmpl-1"
    assert second.response_metadata["provider_message_id"] == "chatcmpl-1"


def test_a_reply_of_a_cache_is_another_message_each_time(drive: Drive) -> None:
    model = ScriptedChatModel(responses=lambda _: "vote", cache=InMemoryCache())
    voters = [ag.chat_agent(name, model, history="input") for name in ("a", "b")]
    again = ag.chat_agent("c", model, history="input")
    tree = ag.sequential("s", [ag.parallel("p", voters, max_concurrency=1), again])
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    check(events, list(runner.events("t")), runner.thread("t").messages)
    assert [each.text for each in runner.thread("t").messages].count("vote") == 3


@tool
def same_id(tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
    """Return a result under the id of the message that called."""
    return ToolMessage("seen", tool_call_id=tool_call_id, id="same")


def asking() -> ScriptedChatModel:
    """Return a model with one id for all its replies."""
    asked = calls(call("same_id")).model_copy(update={"id": "same"})
    return scripted(asked, AIMessage("Done.", id="same"))


def by_hand() -> Any:
    """Return a graph whose nodes give call, result and answer under one id."""
    builder = StateGraph(MessagesState)
    asked = calls(call("same_id")).model_copy(update={"id": "same"})
    builder.add_sequence(
        [
            ("one", lambda state: {"messages": [asked]}),
            ("two", lambda state: {"messages": [ToolMessage("seen", tool_call_id="1", id="same")]}),
            ("three", lambda state: {"messages": [AIMessage("Done.", id="same")]}),
        ]
    )
    return builder.add_edge(START, "one").compile()


CALLING: dict[str, Callable[[str], ag.Agent]] = {
    "chat": lambda name: ag.chat_agent(name, asking(), tools=[same_id]),
    "graph": lambda name: ag.graph_agent(name, create_agent(asking(), [same_id])),
    "flat graph": lambda name: ag.graph_agent(name, create_agent(asking(), [same_id]), flat=True),
    "graph by hand": lambda name: ag.graph_agent(name, by_hand()),
    "flat graph by hand": lambda name: ag.graph_agent(name, by_hand(), flat=True),
}


@pytest.mark.by_turns("stream")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("where", ["root", "branch"])
@pytest.mark.parametrize("kind", CALLING)
def test_a_call_and_its_result_pair_whatever_their_ids(
    drive: Drive, kind: str, where: str, stream: bool
) -> None:
    """A scripted model refuses a conversation in which they do not."""
    make = CALLING[kind]
    tree = ag.parallel("p", [make("a"), make("b")]) if where == "branch" else make("a")
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=stream))
    history = runner.thread("t").messages
    check(events, list(runner.events("t")), history)
    one = ["ai", "tool", "ai"]
    assert [each.type for each in history[1:]] == (one * 2 if where == "branch" else one)


@tool
def commands(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Return a result and words under ids that other calls use too."""
    result = ToolMessage("seen", tool_call_id=tool_call_id, id="same")
    return Command(update={"messages": [result, AIMessage("Words.", id="words")]})


@tool
def updates(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Return an update with a result under an id that other calls use too."""
    return Command(update={"messages": [ToolMessage("seen", tool_call_id=tool_call_id, id="same")]})


@tool
def of_caller(
    tool_call_id: Annotated[str, InjectedToolCallId], state: Annotated[Any, InjectedState]
) -> ToolMessage:
    """Return a result under the id of the message that called."""
    return ToolMessage("seen", tool_call_id=tool_call_id, id=state["messages"][-1].id)


def calling(kind: str, name: str, used: Any, ids: str = "12") -> ag.Agent:
    """Return an agent that calls a tool twice in one message and once in the next."""
    rounds = [calls(*(call(used.name, each) for each in ids)), calls(call(used.name, "1")), "Done."]
    if kind in ("graph", "flat graph"):
        graph = create_agent(scripted(*rounds), [used])
        return ag.graph_agent(name, graph, flat=kind == "flat graph")
    return chat(name, *rounds, tools=[used], parallel_tools=kind == "chat")


@pytest.mark.by_turns("where")
@pytest.mark.parametrize("where", ["root", "branch"])
@pytest.mark.parametrize(
    ("kind", "used"),
    [
        *itertools.product(["chat", "chat in sequence"], [same_id, commands]),
        *itertools.product(["graph", "flat graph"], [same_id, updates, of_caller]),
    ],
    ids=lambda each: getattr(each, "name", each),
)
@pytest.mark.parametrize("ids", ["12", "11"], ids=["two calls", "one id"])
def test_results_of_several_calls_under_one_id_are_all_kept(
    drive: Drive, kind: str, used: Any, ids: str, where: str
) -> None:
    """A scripted model refuses a conversation in which a call has no result."""
    agents = [calling(kind, name, used, ids) for name in ("a", "b")]
    tree = ag.parallel("p", agents) if where == "branch" else agents[0]
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    history = runner.thread("t").messages
    check(events, list(runner.events("t")), history)
    count = 2 if where == "branch" else 1
    assert [each.text for each in history].count("seen") == 3 * count
    words = 2 * count if used is commands else 0  # the third time they are there already
    assert [each.text for each in history].count("Words.") == words


def test_a_message_of_another_author_is_never_replaced(drive: Drive) -> None:
    words = [AIMessage("Draft.", id="x"), AIMessage("Better.", id="x")]
    a, b = (ag.function_agent(name, lambda ctx, n=n: words[n]) for n, name in enumerate("ab"))
    runner = ag.Runner(ag.sequential("s", [a, b]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [event.text for event in events] == ["Draft.", "Better."]
    check(events, list(runner.events("t")), runner.thread("t").messages)


@pytest.mark.parametrize("where", ["root", "branch"])
def test_an_own_message_is_replaced_by_the_id_that_its_agent_gave_it(drive: Drive, where: str) -> None:
    """In a branch the message has another id in the history, for others may use that one."""
    again = ag.function_agent("a", lambda ctx: AIMessage(f"Draft {ctx.iteration}.", id="draft"))
    loop = ag.loop("l", [again], max_iterations=2)
    tree = loop if where == "root" else ag.parallel("p", [loop, ag.function_agent("b", lambda _: "B.")])
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    check(events, list(runner.events("t")), runner.thread("t").messages)
    assert [each.text for each in runner.thread("t").messages if each.name == "a"] == ["Draft 1."]


def test_the_chunks_of_a_branch_that_lost_are_discarded(drive: Drive) -> None:
    won, spoke = threading.Event(), threading.Event()

    def slow(ctx: ag.Context) -> Any:
        yield AIMessageChunk("never ")
        spoke.set()
        won.wait(20)
        yield AIMessageChunk("heard")

    def quick(ctx: ag.Context) -> Any:
        assert spoke.wait(20)
        yield "Won."
        won.set()

    race = [ag.function_agent("slow", slow), ag.function_agent("quick", quick)]
    runner = ag.Runner(
        ag.sequential("s", [ag.parallel("p", race, on_error="first"), chat("z", "End.")])
    )
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    texts = held(events)
    assert {*texts.values()} == {event.text for event in runner.events("t") if event.message}


def test_a_reply_that_middleware_replaces_is_discarded_and_the_message_is_another(drive: Drive) -> None:
    def louder(request: Any) -> Any:
        response = yield request
        said = response.result[0]
        return type(response)(result=[said.model_copy(update={"content": said.text.upper()})])

    runner = ag.Runner(chat("a", "quiet", middleware=[middleware(wrap_model_call=louder)]))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    check(events, list(runner.events("t")), runner.thread("t").messages)
    assert [event.kind for event in events] == ["message", "discarded", "message"]


def test_an_input_under_a_known_id_is_that_message_or_is_refused(drive: Drive) -> None:
    runner = ag.Runner(ag.function_agent("count", lambda ctx: str(len(ctx.messages))))
    list(drive.run(runner, HumanMessage("Go.", id="u"), thread_id="t"))
    first = runner.thread("t").messages
    again = [*first, HumanMessage("On.", id="v")]
    list(drive.run(runner, again, thread_id="t"))
    assert [each.text for each in runner.thread("t").messages] == ["Go.", "1", "On.", "3"]
    for other in (HumanMessage("No.", id="u"), AIMessage("Go.", id="u")):
        with pytest.raises(ag.ThreadError, match=r"leave the id out for a new message, or call rewind"):
            list(drive.run(runner, other, thread_id="t"))
    assert len(runner.thread("t").messages) == 4


def test_a_server_reads_which_replies_are_lost() -> None:
    """`translate` needs no more than the stream of the graph."""
    tree = ag.sequential("s", several(LEAVES["function that classifies"], "constant"))
    graph: Any = ag.compile_agent(tree)
    parts = graph.stream({"messages": ["Go."]}, stream_mode=ag.STREAM_MODES, subgraphs=True)
    assert sorted(held(ag.translate(tree, parts)).values()) == ["class 3", "class 3"]
