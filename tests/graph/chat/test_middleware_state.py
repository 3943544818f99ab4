"""What middleware keeps: its state and its edits over steps, lanes, turns, resumes and forks."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest
from helpers import Async, Drive, fresh, scripted
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ShellToolMiddleware,
    before_model,
)
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.graph.middleware_state import applied, change_between, collected
from agentgraph.testing import ScriptedChatModel, call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}

keys = st.sampled_from("abc")
entries = st.dictionaries(keys, st.integers(0, 3), min_size=1)
records = st.dictionaries(st.sampled_from(["state", "added"]), entries)
changes = st.dictionaries(
    st.sampled_from(["writer", "critic"]),
    st.dictionaries(
        st.sampled_from(["state", "added"]),
        st.dictionaries(keys, st.lists(st.integers(0, 3), max_size=1), min_size=1),
    ),
    max_size=2,
)
several = st.lists(changes, max_size=4)


class TestChanges:
    @given(records, records)
    def test_make_of_a_record_the_one_after_it(self, before: Any, after: Any) -> None:
        made = applied({"writer": before}, [{"writer": change_between(before, after)}])
        assert made == ({"writer": after} if after else {})

    @given(st.dictionaries(keys, records), several, several)
    def test_are_folded_alike_however_they_are_cut(self, kept: Any, first: Any, second: Any) -> None:
        assert applied(applied(kept, first), second) == applied(kept, [*first, *second])
        assert collected(collected({}, first), second) == collected({}, [*first, *second])

    @given(st.dictionaries(st.sampled_from(["writer"]), records), several)
    def test_of_a_lane_do_around_it_what_they_do_in_it(self, kept: Any, lane: Any) -> None:
        assert applied(kept, [collected({}, lane)]) == applied(kept, lane)

    @given(st.dictionaries(keys, records), several)
    def test_leave_what_they_are_folded_with_as_it_was(self, kept: Any, new: Any) -> None:
        before = repr((kept, new))
        applied(kept, new)
        collected({}, new)
        assert repr((kept, new)) == before


class Rounds(AgentMiddleware[Any, Any, Any]):
    """Counts the rounds of all turns in a state of its own, and tells the model."""

    class Counting(AgentState[Any]):
        rounds: NotRequired[int]

    state_schema = Counting

    def before_model(self, state: Any, runtime: Any) -> Any:
        count = state.get("rounds", 0) + 1
        return {"rounds": count, "messages": [HumanMessage(f"Round {count}.")]}


def told(model: ScriptedChatModel) -> list[list[str]]:
    """Return what the model was sent of all that middleware added."""
    return [[each.text for each in sent if "Round" in each.text] for sent in model.inputs]


def rounds(*responses: Any) -> tuple[ag.Agent, ScriptedChatModel]:
    model = scripted(*responses)
    return ag.chat_agent("writer", model, middleware=[Rounds()]), model


SAYS = ag.function_agent("other", lambda ctx: "other")
LANES: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "the root": lambda agent: ag.sequential("s", [agent, SAYS]),
    "a branch": lambda agent: ag.parallel("p", [agent, SAYS]),
    "a branch in a branch": lambda agent: ag.parallel("p", [SAYS, ag.parallel("q", [agent])]),
    "a step": lambda agent: ag.workflow("w", [ag.step(SAYS), ag.step(agent, depends_on=("other",))]),
    "a loop": lambda agent: ag.loop("l", [agent, SAYS], max_iterations=1),
}


@pytest.mark.parametrize("lane", list(LANES))
def test_state_and_edits_are_kept_over_turns_in(drive: Drive, lane: str) -> None:
    agent, model = rounds("a", "b", "c")
    runner = ag.Runner(LANES[lane](agent))
    events: list[ag.AgentEvent] = []
    for text in ("One.", "Two.", "Three."):
        events += drive.run(runner, text, thread_id="t")
    assert told(model) == [
        ["Round 1."],
        ["Round 1.", "Round 2."],
        ["Round 1.", "Round 2.", "Round 3."],
    ]
    assert sorted(runner.events("t"), key=events.index) == events
    assert runner.graph.get_state(CONFIG).values["values"] == {}


@pytest.mark.parametrize("in_turn", [True, False])
def test_each_call_begins_anew_and_keeps_its_state_over_iterations(drive: Drive, in_turn: bool) -> None:
    agent, model = rounds("a", "b", "c", "d")
    worker = ag.loop("twice", [agent], max_iterations=2)
    asks = [call("twice", str(n), request="x") for n in range(2)]
    replies = [calls(*asks)] if in_turn else [calls(each) for each in asks]
    tools, parallel = [ag.agent_tool(worker)], not in_turn
    tree = ag.chat_agent("boss", scripted(*replies, "Done."), tools=tools, parallel_tools=parallel)
    list(drive.run(ag.Runner(tree), "Go.", thread_id="t"))
    assert told(model) == [["Round 1."], ["Round 1.", "Round 2."]] * 2


def test_an_agent_without_middleware_has_no_channel_for_it() -> None:
    agent, _ = rounds()
    plain = ag.compile_agent(ag.sequential("s", [SAYS, ag.chat_agent("c", scripted())]))
    mixed = ag.compile_agent(ag.sequential("s", [SAYS, ag.chat_agent("c", scripted()), agent]))
    assert "middleware" not in plain.channels
    reads = {name: "middleware" in node.channels for name, node in mixed.nodes.items()}
    assert {name for name in reads if reads[name]} == {"writer", "writer.Rounds.before_model"}


def test_a_client_cannot_write_what_middleware_keeps() -> None:
    agent, model = rounds("a")
    graph = ag.compile_agent(agent, checkpointer=InMemorySaver())
    forged = {"writer": {"state": {"rounds": [7]}}}
    graph.invoke({"messages": ["Go."], "middleware": forged}, CONFIG)
    assert told(model) == [["Round 1."]]
    assert "middleware" not in graph.get_input_jsonschema()["properties"]


def test_a_fork_of_a_checkpoint_has_what_was_kept_there(drive: Drive) -> None:
    agent, model = rounds("a", "b", "c")
    saver = InMemorySaver()
    runner = ag.Runner(agent, checkpointer=saver)
    list(drive.run(runner, "One.", thread_id="t"))
    first = runner.graph.get_state(CONFIG).config
    list(drive.run(runner, "Two.", thread_id="t"))
    runner.graph.invoke({"messages": [HumanMessage("Other.")]}, first)
    assert told(model)[1:] == [["Round 1.", "Round 2."]] * 2


@pytest.mark.parametrize("place", ["the root", "a branch"])
def test_a_turn_that_is_given_up_keeps_what_was_done(drive: Drive, place: str) -> None:
    asks = calls(call("mail", to="b"))

    def mail(to: str) -> str:
        """Send a mail."""
        return str(interrupt(to))

    model = scripted(asks, "b")
    agent = ag.chat_agent("writer", model, tools=[mail], middleware=[Rounds()])
    runner = ag.Runner(LANES[place](agent))
    list(drive.run(runner, "One.", thread_id="t"))
    list(drive.run(runner, "Two.", thread_id="t", drop_pending=True))
    assert told(model) == [["Round 1."], ["Round 1.", "Round 2."]]


def test_a_summary_that_is_made_again_costs_the_same_each_turn(drive: Drive) -> None:
    @before_model
    def shorten(state: Any, runtime: Any) -> Any:
        messages = state["messages"]
        keep = [RemoveMessage(id="__remove_all__"), HumanMessage(f"{len(messages)}"), messages[-1]]
        return {"messages": keep}

    runner = ag.Runner(
        ag.chat_agent("writer", ScriptedChatModel(responses=lambda _: "x"), middleware=[shorten])
    )
    for _ in range(5):
        list(drive.run(runner, "Go.", thread_id="t"))
    record = runner.graph.get_state(CONFIG).values["middleware"]["writer"]
    assert (list(record), len(record["beginning"]["head"])) == (["beginning"], 1)
    assert len(runner.graph.get_state(CONFIG).values["messages"]) == 10


class Lasting(AgentMiddleware[Any, Any, Any]):
    """Has state of each kind; asks in the middle of the second round."""

    class Kinds(AgentState[Any]):
        kept: NotRequired[Annotated[list[str], operator.add]]
        untracked: NotRequired[Annotated[Any, UntrackedValue]]
        passed: NotRequired[Annotated[str, EphemeralValue]]

    state_schema = Kinds

    def __init__(self, seen: list[Any]) -> None:
        super().__init__()
        self.seen = seen

    def note(self, where: str, state: Any) -> None:
        open_file = state.get("untracked")
        self.seen.append(
            (where, len(state.get("kept", ())), open_file is not None, state.get("passed"))
        )

    def before_agent(self, state: Any, runtime: Any) -> Any:
        self.note("begins", state)
        return {"kept": ["x"], "untracked": lambda: "cannot be saved", "passed": "from the beginning"}

    def before_model(self, state: Any, runtime: Any) -> Any:
        self.note("before", state)
        return {"passed": "to the model"} if len(state["messages"]) == 1 else None

    def after_model(self, state: Any, runtime: Any) -> Any:
        self.note("after", state)
        if len(state["messages"]) == 4:
            interrupt("Go on?")
        return {"passed": "on"}

    def after_agent(self, state: Any, runtime: Any) -> Any:
        self.note("ends", state)


def look(topic: str) -> str:
    """Look something up."""
    return topic


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "create_agent"])
def test_untracked_and_ephemeral_state_last_as_in_langgraph(drive: Drive, is_ours: bool) -> None:
    seen: list[Any] = []
    model = scripted(calls(call("look", topic="a")), "x", "y")
    if is_ours:
        agent = ag.chat_agent("writer", model, tools=[look], middleware=[Lasting(seen)])
        graph: Any = ag.compile_agent(agent, checkpointer=InMemorySaver())
    else:
        graph = create_agent(model, [look], middleware=[Lasting(seen)], checkpointer=InMemorySaver())
    for value in ({"messages": [HumanMessage("Go.")]}, Command(resume="yes")):
        run(drive, graph, value)
    run(drive, graph, {"messages": [HumanMessage("On.")]})
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


def run(drive: Drive, graph: Any, value: Any) -> None:
    import asyncio

    if drive is Async:
        asyncio.run(graph.ainvoke(value, CONFIG))
    else:
        graph.invoke(value, CONFIG)


def test_untracked_state_is_never_saved_or_streamed(tmp_path: Path) -> None:
    with ag.sqlite_saver(tmp_path / "t.db") as saver:
        agent = ag.chat_agent("writer", scripted("x"), middleware=[Lasting([])])
        graph = ag.compile_agent(agent, checkpointer=saver)
        modes: Any = ["updates", "values"]
        parts = list(graph.stream({"messages": ["Go."]}, CONFIG, stream_mode=modes))
        assert "cannot be saved" not in str(parts)
        assert "untracked" not in str(parts) + str(graph.get_state(CONFIG).values)


def test_untracked_state_begins_anew_with_each_activation(drive: Drive) -> None:
    seen: list[Any] = []
    agent = ag.chat_agent("writer", scripted("x", "y"), middleware=[Lasting(seen)])
    list(drive.run(ag.Runner(ag.loop("l", [agent], max_iterations=2)), "Go."))
    assert [each for each in seen if each[0] == "begins"] == [
        ("begins", 0, False, None),
        ("begins", 1, False, None),
    ]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # LangChain's own
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_shell_that_cannot_be_saved_lasts_for_an_activation(drive: Drive, tmp_path: Path) -> None:
    commands = ["X=7", "echo $X"]
    asks = [calls(call("shell", str(n), command=command)) for n, command in enumerate(commands)]
    shell = ShellToolMiddleware(workspace_root=str(tmp_path / "work"))
    tree = ag.chat_agent("writer", scripted(*asks, "Done."), middleware=[shell])
    told = fresh(drive, tmp_path / "threads.db", tree, "run", "Go.", thread_id="t")
    assert [each.text.strip() for each in told if each.kind == "message"][3:] == ["7", "Done."]


class Values(TypedDict, total=False):
    files: Annotated[dict[str, str], operator.or_]
    topic: str


class Files(AgentMiddleware[Any, Any, Any]):
    """Writes files, one in each hook, and notes what there was."""

    class WithFiles(AgentState[Any]):
        files: NotRequired[Annotated[dict[str, str], lambda one, other: {"wrong": "reducer"}]]
        topic: NotRequired[str]
        own: NotRequired[int]

    state_schema = WithFiles

    def __init__(self, name: str, seen: list[Any]) -> None:
        super().__init__()
        self._name, self.seen = name, seen

    @property
    def name(self) -> str:
        return self._name

    def before_model(self, state: Any, runtime: Any) -> Any:
        self.seen.append((self.name, dict(state["files"]), state.get("topic"), state.get("own")))
        return {"files": {self.name: "before"}, "own": 1}

    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"files": {f"{self.name}2": "after"}, "topic": self.name}


def test_what_wraps_write_under_a_key_that_values_declare_is_the_runs(drive: Drive) -> None:
    class Wrapping(AgentMiddleware[Any, Any, Any]):
        state_schema = Files.WithFiles

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return self.written(handler(request))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return self.written(await handler(request))

        def written(self, response: Any) -> Any:
            update = Command(update={"files": {"model": "x"}, "own": 2})
            return ExtendedModelResponse(model_response=response, command=update)

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return self.noted(handler(request))

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return self.noted(await handler(request))

        def noted(self, result: Any) -> Any:
            return Command(update={"messages": [result], "files": {"tool": "y"}, "own": 3})

    model = scripted(calls(call("look", topic="a")), "x")
    agent = ag.chat_agent("a", model, tools=[look], middleware=[Wrapping()])
    runner = ag.Runner(agent, values=Values)
    list(drive.run(runner, "Go.", thread_id="t", values={"files": {"given": "z"}}))
    state = runner.graph.get_state(CONFIG).values
    assert state["values"] == {"files": {"given": "z", "model": "x", "tool": "y"}}
    assert state["middleware"] == {"a": {"state": {"own": 2}}}


def test_a_key_that_values_declare_is_the_runs(drive: Drive) -> None:
    seen: list[Any] = []
    agents = [
        ag.chat_agent(name, scripted("x"), middleware=[Files(f"of_{name}", seen)])
        for name in ("a", "b")
    ]
    runner = ag.Runner(ag.sequential("s", agents), values=Values)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert seen == [
        ("of_a", {}, None, None),
        ("of_b", {"of_a": "before", "of_a2": "after"}, "of_a", None),
    ]
    state = runner.graph.get_state(CONFIG).values
    files = {"of_a": "before", "of_a2": "after", "of_b": "before", "of_b2": "after"}
    assert state["values"] == {"files": files, "topic": "of_b"}
    assert state["middleware"] == {name: {"state": {"own": 1}} for name in ("a", "b")}
