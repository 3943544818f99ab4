"""What cannot be kept is refused by an error that says whose it was and what it was."""

import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Drive, scripted
from langchain_core.messages import AIMessage
from langgraph.channels import UntrackedValue
from langgraph.graph import START, MessagesState, StateGraph
from value_runs import Thread

import agentgraph as ag
from agentgraph.testing import call, calls


class Odd:
    """Has no JSON form."""

    def __repr__(self) -> str:
        return "<odd>"


class State(MessagesState):
    v: Any


class Unsaved(MessagesState):
    v: Annotated[Any, UntrackedValue]


@pytest.fixture(params=["memory", "disk"])
def thread(request: pytest.FixtureRequest, drive: Drive, tmp_path: Path) -> Thread:
    return Thread(drive, tmp_path / "x.db" if request.param == "disk" else None)


def run(thread: Thread, tree: ag.Agent, **options: Any) -> None:
    thread.run(tree, **options)
    if thread.error:
        raise thread.error


def resume(thread: Thread, tree: ag.Agent, *answers: Any, **options: Any) -> None:
    thread.resume(tree, None, *answers, **options)
    if thread.error:
        raise thread.error


def giver(given: Any) -> ag.Agent:
    return ag.sequential("s", [ag.function_agent("bad", lambda ctx: given)])


def odd_tool() -> Any:
    """Work."""
    return ag.Custom(Odd())


def foreign(where: str, bad: list[Any], kept: Any = State) -> ag.Agent:
    """Return a graph that is given, or writes, an item of a list; of an empty one a text."""

    def one(state: Any) -> Any:
        taken = bad.pop() if where == "state" and bad else "plain"
        return {"v": taken, "messages": [AIMessage("one")]}

    def given(ctx: ag.Context) -> dict[str, Any]:
        return {"messages": ctx.messages, "v": bad.pop() if where == "input" and bad else "plain"}

    graph = StateGraph(kept).add_node("one", one).add_node("two", lambda state: {})
    compiled = graph.add_edge(START, "one").add_edge("one", "two").compile()
    return ag.sequential("s", [ag.graph_agent("bad", compiled, input=given)])


AT_AN_AGENT = {
    "custom data": (giver(ag.Custom(Odd())), "s/bad: custom data <odd> has no JSON form"),
    "a question": (giver(ag.Ask(Odd())), "s/bad: the question <odd> has no JSON form"),
    "a prompt": (ag.human("boss", Odd()), "boss: the prompt <odd> has no JSON form"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", AT_AN_AGENT)
def test_what_has_no_json_form_is_refused_at_its_agent(thread: Thread, case: str):
    tree, message = AT_AN_AGENT[case]
    with pytest.raises(ag.InvalidOutputError, match=message):
        run(thread, tree)


def test_custom_data_of_a_tool_without_a_json_form_is_refused_at_its_agent(thread: Thread):
    bad = ag.chat_agent(
        "bad", scripted(calls(call("odd_tool"))), tools=[odd_tool], on_tool_error="raise"
    )
    with pytest.raises(ag.InvalidOutputError, match="custom data of the tool 'odd_tool' <odd> has"):
        run(thread, bad)


@pytest.mark.parametrize("where", ["input", "state"])
def test_a_state_of_a_graph_that_cannot_be_saved_is_refused_at_its_agent(thread: Thread, where: str):
    bad = [threading.Lock()]
    with pytest.raises(ag.InvalidOutputError, match=r"s/bad: .* of the graph cannot be saved .*lock"):
        run(thread, foreign(where, bad))
    resume(thread, foreign(where, bad))
    assert bad == []


def test_a_graph_may_write_what_cannot_be_saved_where_it_is_never_saved(thread: Thread):
    run(thread, foreign("state", [threading.Lock()], Unsaved))


def test_a_type_error_of_a_node_of_a_graph_stays_what_it_is(thread: Thread):
    def one(state: Any) -> Any:
        raise TypeError("it is mine")

    graph = StateGraph(State).add_node("one", one).add_edge(START, "one").compile()
    with pytest.raises(TypeError, match="it is mine"):
        run(thread, ag.graph_agent("bad", graph))


@pytest.mark.parametrize(
    ("name", "why"),
    [(1, "1 .* must be a text"), (Odd(), "<odd> .* must be a text"), ("a\ud800", "surrogate")],
)
def test_a_name_of_a_value_that_is_no_text_is_refused(thread: Thread, name: Any, why: str):
    boss = ag.human("boss", "Go on?")
    with pytest.raises(ag.AgentGraphError, match=why):
        run(thread, boss, values={name: 1})
    run(thread, boss)
    with pytest.raises(ag.AgentGraphError, match=why):
        resume(thread, boss, "yes", values={name: 1})
    resume(thread, boss, "yes")


def test_a_name_with_a_lone_surrogate_is_refused_where_it_is_written(thread: Thread):
    with pytest.raises(ag.InvalidOutputError, match=r"s/bad: the name .* has a lone surrogate"):
        run(thread, giver(ag.SetValues(**{"a\ud800": 1})))


def test_values_of_a_resume_that_are_no_mapping_are_refused(thread: Thread):
    boss = ag.human("boss", "Go on?")
    run(thread, boss)
    with pytest.raises(ag.AgentGraphError, match="values must be a mapping, got 5"):
        resume(thread, boss, "yes", values=5)


@pytest.mark.parametrize("odd", [[1], Odd()], ids=["no hash", "no text"])
def test_a_step_that_depends_on_what_is_no_text_is_a_fault(odd: Any):
    step = ag.step(ag.function_agent("a", lambda ctx: "x"), depends_on=[odd], input="${results.a}")
    with pytest.raises(ag.InvalidAgentError, match=r"the step 'a' depends on .*, which is not a step"):
        ag.Runner(ag.workflow("s", [step]))
