"""Cassettes: what models and tools answered is kept by address, and played without asking."""

import json
import operator
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Drive, Sync, chat, crash, echo, lines, retrying, scripted
from helpers.cassette_runs import DRIVES, answers, heard
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
)
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from langgraph_swarm import create_handoff_tool
from pydantic import BaseModel
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, recorded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "run.json"


CallId = Annotated[str, InjectedToolCallId]


class Found(TypedDict):
    found: Annotated[list[str], operator.add]


def lookup(topic: str) -> list[Any]:
    """Look up a topic."""
    return [ag.SetValues(found=[topic]), f"about {topic}"]


def write(topic: str, tool_call_id: CallId) -> Command[Any]:
    """Write about a topic."""
    done = ToolMessage(f"wrote {topic}", tool_call_id=tool_call_id)
    return Command(update={"found": [topic], "messages": [done]})


def leave(ctx: ag.Context) -> ag.Exit:
    """Leave."""
    return ag.Exit()


def a_tree(*, is_asked: bool) -> ag.Agent:
    """Return a tree with a loop, branches, an agent as a tool, and tools of all kinds."""
    asked = scripted if is_asked else lambda *_: scripted()
    inner = ag.chat_agent("inner", asked("Inner."))
    made = calls(
        call("lookup", topic="bees"),
        call("write", topic="wasps"),
        call("crash", text="no"),
        call("inner", request="Look."),
        call("lookup", topic=3),
    )
    writer = ag.chat_agent(
        "writer",
        asked(made, "One two.", calls(call("lookup", topic="ants")), "Three four."),
        tools=[lookup, write, crash, ag.agent_tool(inner)],
    )
    refine = ag.loop("refine", [writer], max_iterations=2)
    branches = [ag.chat_agent(name, asked(f"I am {name}.")) for name in ("left", "right")]
    return ag.sequential(
        "job",
        [
            refine,
            ag.parallel("both", branches),
            ag.chat_agent("last", asked(calls(call("leave"))), tools=[leave]),
            ag.chat_agent("late", asked("Never.")),
        ],
    )


@DRIVES
def test_a_run_is_played_as_it_was_recorded(drives: tuple[Drive, Drive], path: Path) -> None:
    first = heard(drives[0], a_tree(is_asked=True), path, "auto", values=Found)
    assert heard(drives[1], a_tree(is_asked=False), path, "play", values=Found) == first
    assert {
        "job/refine[0]/writer: [values] found",
        "job/refine[0]/writer: about bees",
        "job/refine[0]/writer: wrote wasps",
        "job/refine[0]/writer: Error: ValueError('no')\n Please fix your mistakes.",
        "job/refine[0]/writer/inner(3): Inner.",
        "job/refine[1]/writer: about ants",
        "job/both/right: I am right.",
        "job/last: [exit]",
    } <= set(first)


def test_an_answer_is_kept_where_it_was_asked(path: Path) -> None:
    heard(Sync, a_tree(is_asked=True), path, "record", values=Found)
    assert sorted(answers(path)) == [
        "0 job/both/left model call 0",
        "0 job/both/right model call 0",
        "0 job/last model call 0",
        "0 job/last tool call 0",
        "0 job/refine[0]/writer model call 0",
        "0 job/refine[0]/writer model call 1",
        "0 job/refine[0]/writer tool call 0",
        "0 job/refine[0]/writer tool call 1",
        "0 job/refine[0]/writer tool call 2",
        "0 job/refine[0]/writer tool call 4",
        "0 job/refine[0]/writer/inner(3) model call 0",
        "0 job/refine[1]/writer model call 0",
        "0 job/refine[1]/writer model call 1",
        "0 job/refine[1]/writer tool call 0",
    ]


def test_what_was_recorded_is_not_asked_again(path: Path) -> None:
    heard(Sync, a_tree(is_asked=True), path, "auto", values=Found)
    before = path.read_text()
    heard(Sync, a_tree(is_asked=False), path, "auto", values=Found)
    assert path.read_text() == before


@DRIVES
def test_a_stream_is_played_in_its_chunks(drives: tuple[Drive, Drive], path: Path) -> None:
    def pieces(drive: Drive, tree: ag.Agent, mode: Any, *, stream: bool = True) -> list[Any]:
        runner = ag.Runner(tree, middleware=[recorded(path, mode)])
        events = drive.run(runner, "Go.", thread_id="t", stream=stream)
        return [(each.partial, each.message and each.message.content) for each in events]

    made = calls(call("echo", text="bees"), text="One two three.")
    first = pieces(drives[0], chat("writer", made, "Four.", tools=[echo]), "auto")
    assert [text for is_part, text in first if is_part][:3] == ["One ", "two ", "three."]
    assert pieces(drives[1], chat("writer", tools=[echo]), "play") == first
    whole = pieces(drives[1], chat("writer", tools=[echo]), "play", stream=False)
    assert whole == [each for each in first if not each[0]]


def test_a_reply_recorded_whole_is_one_chunk(path: Path) -> None:
    heard(Sync, chat("writer", "One two."), path, "auto")
    runner = ag.Runner(chat("writer"), middleware=[recorded(path, "play")])
    events = runner.run("Go.", thread_id="t", stream=True)
    assert [(each.partial, each.text) for each in events] == [
        (True, "One two."),
        (False, "One two."),
    ]


@DRIVES
def test_calls_side_by_side_do_not_change_places(drives: tuple[Drive, Drive], path: Path) -> None:
    ended = {"slow": threading.Event(), "fast": threading.Event()}

    def fetch(which: str, after: str) -> str:
        """Fetch something, after another call has ended."""
        if after:
            assert ended[after].wait(10)
        ended[which].set()
        return f"the {which} one"

    def tree(*responses: Any) -> ag.Agent:
        return chat("writer", *responses, tools=[fetch])

    made = calls(call("fetch", which="slow", after="fast"), call("fetch", which="fast", after=""))
    first = heard(drives[0], tree(made, "Done."), path, "auto")
    assert heard(drives[1], tree(), path, "play") == first
    kept = [answers(path)[f"0 writer tool call {number}"][0] for number in (0, 1)]
    assert [each["asked"]["arguments"]["which"] for each in kept] == ["slow", "fast"]
    texts = [each["returned"]["ToolMessage"]["content"] for each in kept]
    assert texts == ["the slow one", "the fast one"]


def test_turns_are_told_apart(drive: Drive, path: Path) -> None:
    def turns(tree: ag.Agent, mode: Any) -> list[str]:
        runner = ag.Runner(tree, middleware=[recorded(path, mode)])
        return [
            *lines(drive.run(runner, "Go.", thread_id="t")),
            *lines(drive.run(runner, "Go.", thread_id="t")),
        ]

    first = turns(chat("writer", "One.", "Two."), "auto")
    assert first == turns(chat("writer"), "play") == ["writer: One.", "writer: Two."]


def test_threads_side_by_side_may_share_a_cassette(path: Path) -> None:
    runner = ag.Runner(chat("writer", "One.", "Two."), middleware=[recorded(path, "record")])
    assert [runner.invoke(text).text for text in ("a", "b")] == ["One.", "Two."]
    runner = ag.Runner(chat("writer"), middleware=[recorded(path, "play")])
    assert [runner.invoke(text).text for text in ("b", "a", "b")] == ["Two.", "One.", "Two."]


def test_exceptions_of_models_are_raised_again_in_their_order(drive: Drive, path: Path) -> None:
    def tree(*responses: Any) -> ag.Agent:
        return chat("writer", *responses, retry=retrying(3, ConnectionError))

    script = ConnectionError("one"), ConnectionError("two"), "Here."
    first = heard(drive, tree(*script), path, "auto")
    assert heard(drive, tree(), path, "play") == first
    assert len(answers(path)["0 writer model call 0"]) == 3


@pytest.mark.parametrize(
    "middleware",
    [
        lambda: ModelRetryMiddleware(retry_on=(ConnectionError,), initial_delay=0.001),
        lambda: ModelFallbackMiddleware(scripted("Here.")),
    ],
)
def test_retries_and_fallbacks_run_as_they_did(drive: Drive, middleware: Any, path: Path) -> None:
    def tree(*responses: Any) -> ag.Agent:
        return chat("writer", *responses, middleware=[middleware()])

    assert heard(drive, tree(ConnectionError("down"), "Here."), path, "auto") == ["writer: Here."]
    assert heard(drive, tree(), path, "play") == ["writer: Here."]


def test_a_retry_in_a_new_process_goes_on_where_the_thread_is(path: Path) -> None:
    saver = InMemorySaver()

    def runner(*responses: Any, mode: Any = "auto", saver: Any = saver) -> ag.Runner:
        tree = chat("writer", *responses, tools=[echo])
        return ag.Runner(tree, checkpointer=saver, middleware=[recorded(path, mode)])

    made = calls(call("echo", text="a"))
    with pytest.raises(ConnectionError):
        runner(made, ConnectionError("down")).invoke("Go.", thread_id="t")
    assert runner("Here.").invoke(thread_id="t").text == "Here."
    played = runner(mode="play", saver=InMemorySaver())
    with pytest.raises(ConnectionError, match="down"):
        played.invoke("Go.", thread_id="t")
    assert played.invoke(thread_id="t").text == "Here."


def test_an_exception_of_a_class_that_is_not_loaded_is_of_its_base(path: Path) -> None:
    class Odd(ConnectionError):
        pass

    with pytest.raises(Odd):
        heard(Sync, chat("writer", Odd("odd")), path, "auto")
    with pytest.raises(ConnectionError, match="odd") as caught:
        heard(Sync, chat("writer"), path, "play")
    assert type(caught.value).__name__.endswith("Odd")


@DRIVES
def test_what_a_tool_asks_a_person_is_asked_again(
    drives: tuple[Drive, Drive], path: Path, tmp_path: Path
) -> None:
    asked: list[str] = []

    def ask(what: str) -> str:
        """Ask twice."""
        asked.append(what)
        return f"{interrupt('One?')} and {interrupt({'two': 2})}"

    def run(drive: Drive, mode: Any, *responses: Any) -> list[list[str]]:
        saver, found = InMemorySaver(), []
        for number, answer in enumerate([None, "1", "2"]):
            tree = chat("writer", *(responses if number < 1 else responses[1:]), tools=[ask])
            runner = ag.Runner(tree, checkpointer=saver, middleware=[recorded(path, mode)])
            run = (
                drive.run(runner, "Go.", thread_id="t")
                if not number
                else drive.resume(runner, "t", answer)
            )
            found.append(lines(run))
        return found

    first = run(drives[0], "record", calls(call("ask", what="x")), "Done.")
    assert first[1:] == [["writer: [asks] {'two': 2}"], ["writer: 1 and 2", "writer: Done."]]
    before = list(asked)
    assert run(drives[1], "play") == first
    assert run(drives[1], "auto") == first
    assert asked == before
    assert run(drives[0], "record", calls(call("ask", what="x")), "Done.") == first
    assert run(drives[1], "play") == first


def test_arguments_that_do_not_fit_are_told_as_they_were(drive: Drive, path: Path) -> None:
    made = calls(call("lookup", topic=3))
    first = heard(drive, chat("writer", made, "Sorry.", tools=[lookup]), path, "auto")
    assert heard(drive, chat("writer", tools=[lookup]), path, "play") == first
    assert "topic: Input should be a valid string" in first[0]


def test_ids_that_are_random_make_no_difference(drive: Drive, path: Path) -> None:
    def tree(*responses: Any) -> ag.Agent:
        return chat("writer", *responses, tools=[write])

    made = AIMessage(
        "", tool_calls=[{"name": "write", "args": {"topic": "a"}, "id": None, "type": "tool_call"}]
    )
    first = heard(drive, tree(made, "Done."), path, "auto")
    assert heard(drive, tree(), path, "play") == first
    assert "writer: wrote a" in first


class Report(BaseModel):
    title: str


def test_what_a_tool_gave_is_played_for_a_call_of_another_id(drive: Drive, path: Path) -> None:
    def count() -> Command[Any]:
        """Count."""
        said = ToolMessage("1", tool_call_id="1")
        return Command(update={"messages": [said], "counted": "1"})

    for number in ("1", "2"):  # the model is asked again, because it has other instructions
        made, last = calls(call("count", number)), lambda messages: messages[-1].text
        tree = chat("c", made, last, instruction=f"Ask {number}.", tools=[count])
        runner = ag.Runner(tree, middleware=[recorded(path)])
        assert lines(drive.run(runner, "Go.", thread_id="t"))[-1] == "c: 1"
        assert runner.thread("t").values == {"counted": "1"}


@pytest.mark.parametrize("profile", [None, {"structured_output": True}])
def test_a_structured_answer_is_played_typed(drive: Drive, profile: Any, path: Path) -> None:
    def result(mode: Any, *responses: Any) -> list[Any]:
        model = ScriptedChatModel(responses=[*responses], profile=profile)
        tree = ag.chat_agent("writer", model, output_schema=Report, output_key="report")
        runner = ag.Runner(tree, middleware=[recorded(path, mode)])
        list(drive.run(runner, "Go.", thread_id="t"))
        return [runner.thread("t").values, len(model.inputs)]

    good, bad = ({"title": "Bees"}, {"name": "Bees"})
    made = [json.dumps(each) if profile else calls(call("Report", **each)) for each in (bad, good)]
    values, asked = result("auto", *made)
    assert (values["report"], asked) == ({"title": "Bees"}, 2)
    assert result("play") == [values, 0]


def test_middleware_inside_runs_as_it_did(drive: Drive, path: Path) -> None:
    class Inside(AgentMiddleware[Any, Any]):
        def __init__(self) -> None:
            self.models: list[str] = []

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            self.models.append(type(request.model).__name__)
            return handler(request.override(model=scripted(*other)))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            self.models.append(type(request.model).__name__)
            return await handler(request.override(model=scripted(*other)))

    other, inside = ["Other."], Inside()
    assert heard(drive, chat("writer", middleware=[inside]), path, "auto") == ["writer: Other."]
    other = []
    assert heard(drive, chat("writer", middleware=[inside]), path, "play") == ["writer: Other."]
    assert inside.models == ["ScriptedChatModel"] * 2


def test_limits_count_what_is_played(drive: Drive, path: Path) -> None:
    def tree(*responses: Any) -> ag.Agent:
        return ag.chat_agent("writer", ScriptedChatModel(responses=[*responses], counts_tokens=True))

    def spent(tree: ag.Agent, mode: Any) -> Any:
        runner = ag.Runner(tree, middleware=[recorded(path, mode)], limits=ag.Limits(tokens=100))
        list(drive.run(runner, "Go.", thread_id="t"))
        return replace(runner.thread("t").spent, seconds=0.0, by_agent={})

    first = spent(tree("One two three."), "auto")
    assert spent(tree(), "play") == first
    assert (first.tokens, first.model_calls) == (4, 1)


def test_a_resume_in_a_new_process_continues_the_numbers(
    drive: Drive, path: Path, tmp_path: Path
) -> None:
    def tree(*responses: Any) -> ag.Agent:
        writer = chat("writer", *responses, tools=[echo], approve=["echo"])
        return ag.sequential("s", [writer, ag.human("boss", "Well?")])

    def run(mode: Any, first: Any, rest: Any, file: str) -> list[str]:
        found: list[str] = []
        for number, responses in enumerate([first, rest, ()]):
            with ag.Runner(
                tree(*responses), checkpointer=tmp_path / file, middleware=[recorded(path, mode)]
            ) as runner:
                if number:
                    found += lines(drive.resume(runner, "t", "approve" if number == 1 else "yes"))
                else:
                    found += lines(drive.run(runner, "Go.", thread_id="t"))
        return found

    made = calls(call("echo", text="a"))
    first = run("record", [made], ["Done."], "a.db")
    assert run("play", (), (), "b.db") == first
    assert "0 s/writer model call 1" in answers(path)


def test_a_graph_that_is_compiled_takes_it_too(path: Path) -> None:
    for responses in (["Hum."], []):
        graph = ag.compile_agent(chat("writer", *responses), middleware=[recorded(path)])
        assert graph.invoke({"messages": ["Go."]})["messages"][-1].text == "Hum."


def test_middleware_learns_where_it_is(drive: Drive) -> None:
    found: list[Any] = []

    class Here(AgentMiddleware[Any, Any]):
        def note(self, kind: str) -> None:
            metadata = get_config()["metadata"]
            found.append(
                (kind, metadata["agent_name"], metadata["agent_address"], metadata["agent_turn"])
            )

        def before_model(self, state: Any, runtime: Any) -> None:
            self.note("hook")

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            self.note("model")
            return handler(request)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            self.note("model")
            return await handler(request)

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            self.note("tool")
            return handler(request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            self.note("tool")
            return await handler(request)

    writer = chat("writer", calls(call("echo", text="a")), "Done.", "Again.", tools=[echo])
    runner = ag.Runner(ag.loop("l", [writer], max_iterations=1), middleware=[Here()])
    for _ in range(2):
        list(drive.run(runner, "Go.", thread_id="t"))
    at = ("writer", "l[0]/writer")
    kinds = ["hook", "model", "tool", "hook", "model"]
    assert found == [*((kind, *at, 0) for kind in kinds), ("hook", *at, 1), ("model", *at, 1)]


def test_tools_that_change_messages_of_the_run_are_called(drive: Drive, path: Path) -> None:
    def forget(state: Annotated[Any, InjectedState], tool_call_id: CallId) -> Command[Any]:
        """Forget how it began."""
        first = RemoveMessage(id=state["messages"][0].id)
        return Command(update={"messages": [first, ToolMessage("Forgot.", tool_call_id=tool_call_id)]})

    def tree(*responses: Any) -> ag.Agent:
        return chat("writer", *responses, tools=[forget])

    first = heard(drive, tree(calls(call("forget")), "Done."), path, "auto")
    assert heard(drive, tree(), path, "play") == first
    assert "writer: Forgot." in first
    assert answers(path)["0 writer tool call 0"][0]["called"] is True


def test_handoffs_of_all_kinds_are_played(drive: Drive, path: Path) -> None:
    def tree(alice: Any, bob: Any) -> ag.Agent:
        to_bob = create_handoff_tool(agent_name="bob")
        members = [chat("alice", *alice, tools=[to_bob]), chat("bob", *bob), chat("carol", "Carol.")]
        return ag.swarm("team", members)

    alice = [calls(call("transfer_to_bob")), "Bye."]
    first = heard(drive, tree(alice, [calls(call("transfer_to_alice"))]), path, "auto")
    assert heard(drive, tree([], []), path, "play") == first
    assert "team[2]/alice: Bye." in first


def test_a_rewound_thread_plays_what_did_not_change(drive: Drive, path: Path) -> None:
    writer, critic = scripted("One.", "Two."), scripted("Good.", "Bad.", "Fine.")
    agents = [ag.chat_agent("writer", writer), ag.chat_agent("critic", critic)]
    tree = ag.sequential("s", [ag.loop("l", agents, max_iterations=2), chat("last", "Done.", "End.")])
    runner = ag.Runner(tree, middleware=[recorded(path)])
    first = lines(drive.run(runner, "Go.", thread_id="t"))
    assert lines(runner.rewind("t", "s/l[0]/critic"))[-4:] == first[1:]
    changed = lines(runner.rewind("t", "s/l[1]/critic", messages=["Be kind."]))
    assert changed[-2:] == ["s/l[1]/critic: Fine.", "s/last: End."]
    assert (len(writer.inputs), len(critic.inputs)) == (2, 3)


def test_variants_of_a_thread_share_a_cassette(path: Path) -> None:
    def texts(mode: Any, *responses: str) -> set[str]:
        tree = ag.sequential("s", [chat("a", *responses[:1]), chat("b", *responses[1:])])
        runner = ag.Runner(tree, middleware=[recorded(path, mode)])
        runner.invoke("Go.", thread_id="t")
        variants: Any = {name: {"messages": [f"Be {name}."]} for name in ("kind", "short")}
        return {result.text for result in runner.fork_many("t", "s/b", variants).values()}

    assert texts("record", "A.", "B.", "C.", "D.") == texts("play") == {"C.", "D."}
