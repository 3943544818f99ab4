"""What middleware keeps: its state and its edits over steps, lanes, turns and forks."""

import gc
import operator
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NotRequired

import pytest
from beside_langchain import run_graph, run_tree
from helpers import THREAD, Drive, chat, lines, middleware, rounds, says, scripted
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentState,
    ExtendedModelResponse,
    ShellToolMiddleware,
    SummarizationMiddleware,
    before_model,
)
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.graph.agent_records import applied, change_between, collected
from agentgraph.testing import ScriptedChatModel, call, calls

pytestmark = pytest.mark.by_turns("drive")

# changes of records

keys, sections = st.sampled_from("abc"), st.sampled_from(["state", "added"])
records = st.dictionaries(sections, st.dictionaries(keys, st.integers(0, 3), min_size=1))
entries = st.dictionaries(keys, st.lists(st.integers(0, 3), max_size=1), min_size=1)
changes = st.dictionaries(
    st.sampled_from(["writer", "critic"]), st.dictionaries(sections, entries, min_size=1), max_size=2
)
several = st.lists(changes, max_size=4)


@given(records, records)
def test_a_change_makes_one_record_of_another(before: Any, after: Any) -> None:
    made = applied({"writer": before}, [{"writer": change_between(before, after)}])
    assert made == ({"writer": after} if after else {})


@given(st.dictionaries(keys, records), several, several)
def test_changes_fold_alike_however_they_are_cut(kept: Any, first: Any, second: Any) -> None:
    before = repr((kept, first, second))
    assert applied(applied(kept, first), second) == applied(kept, [*first, *second])
    assert collected(collected({}, first), second) == collected({}, [*first, *second])
    assert repr((kept, first, second)) == before


@given(st.dictionaries(st.just("writer"), records), several)
def test_changes_of_a_lane_do_around_it_what_they_do_in_it(kept: Any, lane: Any) -> None:
    assert applied(kept, [collected({}, lane)]) == applied(kept, lane)


# state and edits


def seen_rounds(model: ScriptedChatModel) -> list[list[str]]:
    """Return what the model was sent of what `rounds` added."""
    return [[each.text for each in sent if "Round" in each.text] for sent in model.inputs]


LANES: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "the root": lambda agent: ag.sequential("s", [agent, says("other")]),
    "a branch": lambda agent: ag.parallel("p", [agent, says("other")]),
    "a branch in a branch": lambda a: ag.parallel("p", [says("other"), ag.parallel("q", [a])]),
    "a step": lambda a: ag.workflow("w", [says("other"), ag.step(a, depends_on=("other",))]),
    "a loop": lambda agent: ag.loop("l", [agent, says("other")], max_iterations=1),
}


@pytest.mark.parametrize("lane", list(LANES))
def test_state_and_edits_are_kept_over_turns_in(drive: Drive, lane: str) -> None:
    model = scripted("a", "b", "c")
    agent = ag.chat_agent("writer", model, middleware=[rounds()])
    run_tree(drive, LANES[lane](agent), ["One.", "Two.", "Three."])
    one, two, three = (f"Round {number}." for number in (1, 2, 3))
    assert seen_rounds(model) == [[one], [one, two], [one, two, three]]


def test_a_summary_that_is_made_again_takes_the_place_of_the_last_one(drive: Drive) -> None:
    @before_model
    def shorten(state: Any, runtime: Any) -> Any:
        *old, last = state["messages"]
        return {"messages": [RemoveMessage(id="__remove_all__"), HumanMessage(f"{len(old)}"), last]}

    runner = ag.Runner(chat("writer", *"abcde", middleware=[shorten]))
    for _ in range(5):
        list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state(THREAD).values
    record = state["middleware"]["writer"]
    assert (list(record), len(record["beginning"]["head"])) == (["beginning"], 1)
    assert (state["values"], len(state["messages"])) == ({}, 10)


def test_an_agent_without_middleware_has_no_channel_for_it() -> None:
    plain = ag.compile_agent(ag.sequential("s", [says("a"), chat("c")]))
    mixed = ag.compile_agent(ag.sequential("s", [chat("c"), chat("writer", middleware=[rounds()])]))
    assert "middleware" not in plain.channels
    reads = {name for name, node in mixed.nodes.items() if "middleware" in node.channels}
    assert reads == {"writer", "writer.Rounds.before_model"}


def test_a_client_cannot_write_what_middleware_keeps() -> None:
    model = scripted("a")
    agent = ag.chat_agent("writer", model, middleware=[rounds()])
    graph = ag.compile_agent(agent, checkpointer=InMemorySaver())
    forged = {"writer": {"state": {"rounds": [7]}}}
    graph.invoke({"messages": ["Go."], "middleware": forged}, THREAD)
    assert seen_rounds(model) == [["Round 1."]]
    assert "middleware" not in graph.get_input_jsonschema()["properties"]


def test_a_fork_of_a_checkpoint_has_what_was_kept_there(drive: Drive) -> None:
    model = scripted("a", "b", "c")
    runner = ag.Runner(ag.chat_agent("writer", model, middleware=[rounds()]))
    list(drive.run(runner, "One.", thread_id="t"))
    first = runner.graph.get_state(THREAD).config
    list(drive.run(runner, "Two.", thread_id="t"))
    runner.graph.invoke({"messages": [HumanMessage("Other.")]}, first)
    assert seen_rounds(model)[1:] == [["Round 1.", "Round 2."]] * 2


# state that is not saved


class Kinds(AgentState[Any]):
    kept: NotRequired[Annotated[list[str], operator.add]]
    untracked: NotRequired[Annotated[Any, UntrackedValue]]
    passed: NotRequired[Annotated[str, EphemeralValue]]


def lasting(seen: list[Any]) -> Any:
    """Return middleware with state of each kind, which asks in the middle of the second round."""

    def note(where: str, state: Any, update: Any = None) -> Any:
        has_file = state.get("untracked") is not None
        seen.append((where, len(state.get("kept", ())), has_file, state.get("passed")))
        return update

    def after_model(state: Any) -> Any:
        note("after", state)
        if len(state["messages"]) == 4:
            interrupt("Go on?")
        return {"passed": "on"}

    begins = {"kept": ["x"], "untracked": lambda: "cannot be saved", "passed": "from the beginning"}
    return middleware(
        state=Kinds,
        before_agent=lambda state: note("begins", state, begins),
        before_model=lambda state: note(
            "before", state, {"passed": "to the model"} if len(state["messages"]) == 1 else None
        ),
        after_model=after_model,
        after_agent=lambda state: note("ends", state),
    )


def look(topic: str) -> str:
    """Look something up."""
    return topic


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "create_agent"])
def test_untracked_and_ephemeral_state_last_as_in_langgraph(drive: Drive, is_ours: bool) -> None:
    seen: list[Any] = []
    model, saver = scripted(calls(call("look", topic="a")), "x", "y"), InMemorySaver()
    if is_ours:
        agent = ag.chat_agent("writer", model, tools=[look], middleware=[lasting(seen)])
        graph: Any = ag.compile_agent(agent, checkpointer=saver)
    else:
        graph = create_agent(model, [look], middleware=[lasting(seen)], checkpointer=saver)
    run_graph(drive, graph, ["Go.", "On."], lambda question: "yes")
    assert seen == [
        ("begins", 0, False, None),
        ("before", 1, True, "from the beginning"),
        ("after", 1, True, None),
        ("before", 1, True, None),
        ("after", 1, True, None),
        ("after", 1, False, None),
        ("ends", 1, False, "on"),
        ("begins", 1, False, None),
        ("before", 2, True, "from the beginning"),
        ("after", 2, True, None),
        ("ends", 2, True, "on"),
    ]


def test_untracked_state_is_never_saved_or_streamed(tmp_path: Path) -> None:
    with ag.sqlite_saver(tmp_path / "t.db") as saver:
        graph = ag.compile_agent(chat("writer", "x", middleware=[lasting([])]), checkpointer=saver)
        modes: Any = ["updates", "values"]
        parts = list(graph.stream({"messages": ["Go."]}, THREAD, stream_mode=modes))
        shown = str(parts) + str(graph.get_state(THREAD).values)
    assert "kept" in shown
    assert "cannot be saved" not in shown
    assert "untracked" not in shown


def test_untracked_state_begins_anew_with_each_activation(drive: Drive) -> None:
    seen: list[Any] = []
    agent = chat("writer", "x", "y", middleware=[lasting(seen)])
    list(drive.run(ag.Runner(ag.loop("l", [agent], max_iterations=2)), "Go."))
    assert [each[:3] for each in seen if each[0] == "begins"] == [
        ("begins", 0, False),
        ("begins", 1, False),
    ]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # LangChain's own
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_shell_that_cannot_be_saved_lasts_for_an_activation(drive: Drive, tmp_path: Path) -> None:
    asks = [calls(call("shell", command, command=command)) for command in ("X=7", "echo $X")]
    shell = ShellToolMiddleware(workspace_root=str(tmp_path / "work"))
    runner = ag.Runner(chat("writer", *asks, "Done.", middleware=[shell]))
    assert [line.strip() for line in lines(drive.run(runner, "Go."))[3:]] == [
        "writer: 7",
        "writer: Done.",
    ]
    gc.collect()  # so that LangChain's warnings come here, and not in another test


# keys that `values=` declares too


class Values(TypedDict, total=False):
    files: Annotated[dict[str, str], operator.or_]
    topic: str


class WithFiles(AgentState[Any]):
    files: NotRequired[Annotated[dict[str, str], lambda one, other: {"wrong": "reducer"}]]
    topic: NotRequired[str]
    own: NotRequired[int]


def test_a_key_that_values_declare_is_the_runs(drive: Drive) -> None:
    seen: list[Any] = []

    def writing(name: str) -> ag.Agent:
        def before(state: Any) -> Any:
            seen.append((name, dict(state["files"]), state.get("topic"), state.get("own")))
            return {"files": {name: "before"}, "own": 1}

        def after(state: Any) -> Any:
            return {"files": {f"{name}2": "after"}, "topic": name}

        return chat(
            name,
            "x",
            middleware=[middleware(state=WithFiles, before_model=before, after_model=after)],
        )

    runner = ag.Runner(ag.sequential("s", [writing("a"), writing("b")]), values=Values)
    list(drive.run(runner, "Go.", thread_id="t"))
    after_a = {"a": "before", "a2": "after"}
    assert seen == [("a", {}, None, None), ("b", after_a, "a", None)]
    state = runner.graph.get_state(THREAD).values
    assert state["values"] == {"files": {**after_a, "b": "before", "b2": "after"}, "topic": "b"}
    assert state["middleware"] == {name: {"state": {"own": 1}} for name in ("a", "b")}


def test_what_wraps_write_under_such_a_key_is_the_runs(drive: Drive) -> None:
    def around_model(request: Any) -> Any:
        update = Command(update={"files": {"model": "x"}, "own": 2})
        return ExtendedModelResponse(model_response=(yield request), command=update)

    def around_tool(request: Any) -> Any:
        return Command(update={"messages": [(yield request)], "files": {"tool": "y"}, "own": 3})

    stack = [middleware(state=WithFiles, wrap_model_call=around_model, wrap_tool_call=around_tool)]
    agent = chat("a", calls(call("look", topic="a")), "x", tools=[look], middleware=stack)
    runner = ag.Runner(agent, values=Values)
    list(drive.run(runner, "Go.", thread_id="t", values={"files": {"given": "z"}}))
    state = runner.graph.get_state(THREAD).values
    assert state["values"] == {"files": {"given": "z", "model": "x", "tool": "y"}}
    assert state["middleware"] == {"a": {"state": {"own": 2}}}


# what it costs


@before_model
def remind(state: Any, runtime: Any) -> Any:
    """Add a message in each turn."""
    return {"messages": [HumanMessage("Mind the bees, and the wasps too.")]}


@before_model
def redact(state: Any, runtime: Any) -> Any:
    """Replace what the user and the other agent said, all of it again in each turn."""
    others = [each for each in state["messages"] if each.type == "human"]
    hidden = [each.model_copy(update={"content": each.text.replace("bees", "*")}) for each in others]
    return {"messages": hidden}


@before_model
def remake(state: Any, runtime: Any) -> Any:
    """Replace the reminder by a new one in each turn."""
    old = [RemoveMessage(id=each.id) for each in state["messages"] if "Mind" in each.text]
    return {"messages": [*old, HumanMessage("Mind the bees.")]}


def summing() -> Any:
    model = ScriptedChatModel(responses=lambda sent: "They spoke of bees.")
    return SummarizationMiddleware(model, trigger=("messages", 8), keep=("messages", 4))


GROWING: dict[str, Callable[[], Any]] = {
    "a reminder in each turn": lambda: remind,
    "redaction of all words": lambda: redact,
    "a reminder that is made anew": lambda: remake,
    "a summary": summing,
}


@pytest.mark.parametrize("lane", ["root", "branch"])
@pytest.mark.parametrize("kind", list(GROWING))
def test_a_late_turn_writes_no_more_bytes_than_an_early_one(
    tmp_path: Path, kind: str, lane: str
) -> None:
    model = ScriptedChatModel(responses=lambda sent: "On bees and other insects.")
    writer = ag.chat_agent("writer", model, middleware=[GROWING[kind]()])
    tree = ag.sequential("s", [says("other", "More on bees."), writer])
    with ag.sqlite_saver(tmp_path / "threads.db") as saver:
        in_lane = tree if lane == "root" else ag.parallel("p", [tree])
        graph = ag.compile_agent(in_lane, checkpointer=saver)
        after = [0]
        for _ in range(30):
            graph.invoke({"messages": [HumanMessage("Tell me of bees.")]}, THREAD)
            after.append(bytes_written(saver))
    turns = [late - early for early, late in pairwise(after)]
    # now and then a turn saves the whole history: not the median one
    assert median(turns[-7:]) <= 1.05 * median(turns[5:12])


def bytes_written(saver: Any) -> int:
    found = saver.conn.execute(
        "select (select sum(length(checkpoint) + length(metadata)) from checkpoints) "
        "+ (select sum(length(value)) from writes)"
    )
    return int(found.fetchone()[0])
