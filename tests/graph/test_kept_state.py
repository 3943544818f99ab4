"""The state of foreign graphs over turns: kept if they are compiled with `checkpointer=True`."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Async, Drive, Session, asks, chat, check_heard, in_turn, retrying, says, scripted
from langchain.agents import AgentState, create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

pytestmark = pytest.mark.by_turns("drive")

GRADE = ToolStrategy({"title": "Grade", "type": "object", "properties": {"n": {"type": "integer"}}})


class Noted(AgentState[Any]):
    """The state of an agent of LangChain's that notes things."""

    notes: Annotated[list[str], operator.add]


def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Note a text; ask a person first if it is a question."""
    if text.endswith("?"):
        text += interrupt(text)
    done = ToolMessage(f"noted {text}", tool_call_id=call_id)
    return Command(update={"notes": [text], "messages": [done]})


def noting(*texts: str, kept: bool, tool: Any = note) -> Any:
    """Return an agent of LangChain's that notes a text in each run, and grades it by its number."""
    replies = []
    for number, text in enumerate(texts, 1):
        replies += [calls(call("note", text=text)), calls(call("Grade", n=number))]
    options: dict[str, Any] = {"state_schema": Noted, "checkpointer": True if kept else None}
    return create_agent(scripted(*replies), [tool], response_format=GRADE, **options)


def graded(state: Any) -> list[Any]:
    """Say the notes and the grade in a state, and set a value to the grade."""
    grade = state["structured_response"]["n"]
    return [f"{state['notes']} {grade}", ag.SetValues(grade=grade)]


def agent(*texts: str, kept: bool, **options: Any) -> ag.Agent:
    return ag.graph_agent("a", noting(*texts, kept=kept), output=graded, **options)


def said(events: list[ag.AgentEvent], name: str = "a") -> list[str]:
    return [event.text for event in events if event.agent_name == name and event.message]


@pytest.fixture
def path(drive: Drive, tmp_path: Path) -> Path | None:
    """Return where a thread is saved: an async one on disk, a sync one in memory."""
    return tmp_path / "threads.db" if drive is Async else None


@pytest.fixture(params=[True, False], ids=["kept", "anew"])
def kept(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class Turns:
    """Runs turns on a session, and hears what it yields."""

    def __init__(self, tree: ag.Agent, drive: Drive, path: Path | None) -> None:
        self.session = Session(tree, drive, path)
        self.heard: list[ag.AgentEvent] = []

    def run(self, text: str = "Go.", *answers: Any, **options: Any) -> list[ag.AgentEvent]:
        """Run a turn, and answer its questions; return its events."""
        before = len(self.heard)
        self.session.follow("run", text, thread_id="t", hear=self.heard.append, **options)
        for answer in answers:
            self.session.follow("resume", "t", answer, hear=self.heard.append)
        return self.heard[before:]

    def resume(self) -> list[ag.AgentEvent]:
        before = len(self.heard)
        self.session.follow("resume", "t", hear=self.heard.append)
        return self.heard[before:]


def tool_of(inner: ag.Agent) -> ag.Agent:
    replies = [calls(call("a", request="x")), "Thanks."] * 3
    return chat("boss", *replies, tools=[ag.agent_tool(inner)], on_tool_error="raise")


WHERE: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "in the root": lambda inner: ag.sequential("s", [inner, says("z")]),
    "in a branch": lambda inner: ag.parallel("p", [inner, says("z")]),
    "in a step": lambda inner: ag.workflow("w", [asks("b"), ag.step(inner, depends_on=["b"])]),
    "in a loop": lambda inner: ag.loop("l", [ag.parallel("p", [inner])], max_iterations=1),
    "as a tool": tool_of,
}


PLACES = [(where, flat) for where in WHERE for flat in (False, True) if not (flat and "tool" in where)]


@pytest.mark.parametrize(("where", "flat"), PLACES)
@pytest.mark.by_turns("drive")
def test_structured_responses_and_state_over_turns_and_a_resume(
    drive: Drive, path: Path | None, kept: bool, where: str, flat: bool
) -> None:
    turns = Turns(WHERE[where](agent("1", "2?", "3", kept=kept, flat=flat)), drive, path)
    asked = ["Go on."] if where == "in a step" else []
    expected = ["['1'] 1", "['1', '2?yes'] 2", "['1', '2?yes', '3'] 3"]
    if not kept:
        expected = ["['1'] 1", "['2?yes'] 2", "['3'] 3"]
    for number, answers in enumerate([[], ["yes"], []]):
        assert said(turns.run("Go.", *asked, *answers)) == [expected[number]]
        assert turns.session.state()["values"] == {"grade": number + 1}
    check_heard(turns.heard, turns.session.events())


@pytest.mark.parametrize("flat", [False, True], ids=["nested", "flat"])
def test_iterations_of_a_loop_share_the_state(
    drive: Drive, path: Path | None, kept: bool, flat: bool
) -> None:
    loop = ag.loop("l", [agent("1", "2?", "3", "4", kept=kept, flat=flat)], max_iterations=2)
    turns = Turns(loop, drive, path)
    first = said(turns.run("Go.", "yes"))
    assert first == (["['1'] 1", "['1', '2?yes'] 2"] if kept else ["['1'] 1", "['2?yes'] 2"])
    assert said(turns.run())[-1] == ("['1', '2?yes', '3', '4'] 4" if kept else "['4'] 4")


def only_the_last(ctx: ag.Context) -> Any:
    return {"messages": ctx.messages[-1:]}


def counts(ctx: ag.Context) -> list[Any]:
    number = ctx.values.get("number", 0) + 1
    return [f"{number} of {len(ctx.messages)}", ag.SetValues(number=number)]


def test_values_and_messages_of_a_compiled_tree(drive: Drive, path: Path | None, kept: bool) -> None:
    tree = ag.sequential("inner", [ag.function_agent("counts", counts), asks("b")])
    graph = ag.compile_agent(tree, checkpointer=True if kept else None)
    turns = Turns(ag.graph_agent("a", graph, input=only_the_last), drive, path)
    found = [said(turns.run("Go.", "Yes.")) for _ in range(2)]
    assert found == [["1 of 1", "Yes."], ["2 of 4" if kept else "1 of 1", "Yes."]]


# What goes wrong in a turn


def failing_note(*texts: str) -> Any:
    """Return the tool `note`, which fails at its second call."""
    outcomes = in_turn(note, ConnectionError("once"), note)

    @tool("note")
    def failing(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Note a text."""
        return outcomes(text, call_id)

    return failing


def failing_inputs() -> Callable[[ag.Context], Any]:
    """Return an `input` that fails in the second turn."""
    given = lambda ctx: {"messages": ctx.messages[-1:]}  # noqa: E731
    return in_turn(given, ConnectionError("once"), given)


KEPT = ["['1', '2'] 2", "['1', '2', '3'] 3"]


@pytest.mark.parametrize("retries", [False, True], ids=["resumed", "retried"])
@pytest.mark.parametrize("fault", ["the input", "a tool"])
@pytest.mark.parametrize("where", ["in a branch", "as a tool"])
def test_a_failure_leaves_the_state_as_it_was(
    drive: Drive, path: Path | None, where: str, fault: str, retries: bool
) -> None:
    tool = failing_note() if fault == "a tool" else note
    options = {"input": failing_inputs()} if fault == "the input" else {}
    retry = {"retry": retrying(on=ConnectionError)} if retries else {}
    graph = noting("1", "2", "3", kept=True, tool=tool)
    inner = ag.graph_agent("a", graph, output=graded, **options, **retry)
    turns = Turns(WHERE[where](inner), drive, path)
    turns.run()
    if retries:
        second = turns.run()
    else:
        with pytest.raises(ConnectionError):
            turns.run()
        second = turns.resume()
    assert [*said(second), *said(turns.run())] == KEPT


@pytest.mark.parametrize("flat", [False, True], ids=["nested", "flat"])
def test_a_turn_after_a_dropped_question_continues_the_conversation(
    drive: Drive, path: Path | None, kept: bool, flat: bool
) -> None:
    turns = Turns(agent("1", "2?", "3", kept=kept, flat=flat), drive, path)
    turns.run()
    turns.run()
    assert said(turns.run(drop_pending=True)) == ["['1'] 2" if kept else "[] 2"]


def test_an_answer_after_an_edit_of_the_run_reaches_the_graph(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [says("z"), agent("1", "2?", kept=True)]))
    for _ in range(2):
        list(drive.run(runner, "Go.", thread_id="t"))
    runner.graph.update_state({"configurable": {"thread_id": "t"}}, {"values": {"edited": True}})
    assert said(list(drive.resume(runner, "t", "yes"))) == ["['1', '2?yes'] 2"]


class Crashing(InMemorySaver):
    """A saver that fails at one checkpoint of the graph `a`, as if the process had ended there."""

    left: int

    def put(self, config: Any, *args: Any) -> Any:
        if config["configurable"]["checkpoint_ns"] == "a":
            self.left -= 1
            if self.left == 0:
                raise ConnectionError("The saver is gone.")
        return super().put(config, *args)


@pytest.mark.parametrize("number", range(1, 6))
def test_a_turn_whose_saver_fails_at_any_checkpoint_ends_as_without(number: int) -> None:
    saver = Crashing()
    saver.left = 0
    runner = ag.Runner(agent("1", "2", "2", "2", kept=True), checkpointer=saver)
    list(runner.run("Go.", thread_id="t"))
    saver.left = number
    with pytest.raises(ag.SaverError):
        list(runner.run("Go.", thread_id="t"))
    (answer,) = said(list(runner.resume("t")))
    assert answer.startswith("['1', '2'] ")


# What is said


def talking(*texts: str, **options: Any) -> ag.Agent:
    return ag.graph_agent("a", create_agent(scripted(*texts), checkpointer=True), **options)


@pytest.mark.parametrize("where", WHERE)
def test_messages_of_earlier_turns_are_not_said_again(
    drive: Drive, path: Path | None, where: str
) -> None:
    turns = Turns(WHERE[where](talking("One.", "Two.", input=only_the_last)), drive, path)
    asked = ["Go on."] if where == "in a step" else []
    assert [said(turns.run("Go.", *asked)) for _ in range(2)] == [["One."], ["Two."]]
    check_heard(turns.heard, turns.session.events())


def test_a_copy_of_a_thread_has_its_own_state(drive: Drive) -> None:
    runner = ag.Runner(agent("1", "2", "3", "4", kept=True))
    list(drive.run(runner, "Go.", thread_id="t"))
    runner.copy("t", "u")
    texts = [said(list(drive.run(runner, "Go.", thread_id=each))) for each in "tut"]
    assert texts == [["['1', '2'] 2"], ["['1', '3'] 3"], ["['1', '2', '4'] 4"]]
