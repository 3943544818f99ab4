"""What middleware replaces or takes back is told to be void, then as it is now; what ran never is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, fresh, scripted, standing
from langchain.agents.middleware import (
    AgentMiddleware,
    after_agent,
    after_model,
    before_model,
    hook_config,
)
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}!"


@after_model
def loud(state: Any, runtime: Any) -> Any:
    last = state["messages"][-1]
    return {"messages": [last.model_copy(update={"content": last.text.upper()})]}


@after_model
def fresh_word(state: Any, runtime: Any) -> Any:
    return {"messages": [AIMessage("Censored.", id=state["messages"][-1].id)]}


@before_model
def redact_results(state: Any, runtime: Any) -> Any:
    results = [each for each in state["messages"] if each.type == "tool"]
    return {"messages": [each.model_copy(update={"content": "*"}) for each in results]}


def taking_back(which: Callable[[list[Any]], list[Any]]) -> Any:
    @after_agent
    def take_back(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=each.id) for each in which(state["messages"])]}

    return take_back


LANES: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "root": lambda agent: ag.sequential("s", [agent]),
    "branch": lambda agent: ag.parallel("p", [agent, ag.function_agent("b", lambda c: "b")]),
    "tool": lambda agent: ag.chat_agent(
        "boss",
        scripted(calls(call("writer", request="x")), "Done."),
        tools=[ag.agent_tool(agent)],
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("lane", list(LANES))
@pytest.mark.parametrize(("hook", "now"), [(loud, "DONE."), (fresh_word, "Censored.")])
def test_a_message_that_is_replaced_is_void_and_then_told_as_it_is_now(
    drive: Drive, tmp_path: Path, lane: str, hook: Any, now: str, stream: bool
) -> None:
    path = tmp_path / "threads.db"
    tree = LANES[lane](ag.chat_agent("writer", scripted("Done."), middleware=[hook]))
    told = fresh(drive, path, tree, "run", "Go.", thread_id="t", stream=stream)
    mine = [each for each in told if each.agent_name == "writer" and not each.partial]
    assert [each.text or each.kind for each in mine] == ["Done.", "discarded", now]
    assert [each.action.discarded for each in mine if each.action] == [(mine[0].id,)]
    assert (mine[2].id, mine[2].address) == (mine[0].id, mine[0].address)
    whole = [each for each in told if not each.partial]
    with ag.sqlite_saver(path) as saver:
        again = list(ag.Runner(tree, checkpointer=saver).events("t"))
    assert sorted(again, key=whole.index) == standing(whole)


def test_a_result_that_is_replaced_is_told_again_and_its_call_is_not(drive: Drive) -> None:
    model = scripted(calls(call("look", topic="bees")), lambda sent: sent[-1].text)
    agent = ag.chat_agent("writer", model, tools=[look], middleware=[redact_results])
    runner = ag.Runner(agent)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events) == [
        'writer: [calls] look({"topic": "bees"})',
        "writer: bees!",
        "writer: [discarded]",
        "writer: *",
        "writer: *",
    ]
    assert list(runner.events("t")) == standing(events)


def test_what_an_earlier_activation_said_keeps_its_address(drive: Drive) -> None:
    @before_model
    def shout(state: Any, runtime: Any) -> Any:
        said = [each for each in state["messages"] if each.type == "ai"]
        return {"messages": [each.model_copy(update={"content": each.text.upper()}) for each in said]}

    agent = ag.chat_agent("writer", scripted("one", "two"), middleware=[shout])
    runner = ag.Runner(ag.loop("l", [agent], max_iterations=2))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [(each.address, each.text or each.kind) for each in events] == [
        ("l[0]/writer", "one"),
        ("l[1]/writer", "discarded"),
        ("l[0]/writer", "ONE"),
        ("l[1]/writer", "two"),
    ]
    assert list(runner.events("t")) == standing(events)


@pytest.mark.parametrize("lane", list(LANES))
def test_a_word_that_is_taken_back_is_void_and_leaves_the_history(drive: Drive, lane: str) -> None:
    agent = ag.chat_agent("writer", scripted("Done."), middleware=[taking_back(lambda seen: seen[-1:])])
    runner = ag.Runner(LANES[lane](agent))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    mine = [each for each in events if each.agent_name == "writer"]
    assert [each.text or each.kind for each in mine] == ["Done.", "discarded"]
    assert sorted(runner.events("t"), key=events.index) == standing(events)
    history = runner.graph.get_state(CONFIG).values["messages"]
    assert "Done." not in [each.text for each in history if each.name == "writer"]


def test_what_ran_and_what_was_said_earlier_is_only_forgotten(drive: Drive) -> None:
    model = scripted("One.", calls(call("look", topic="bees")), "Two.", lambda sent: str(len(sent)))
    everything_before = taking_back(lambda seen: seen[:-1])
    agent = ag.chat_agent("writer", model, tools=[look], middleware=[everything_before])
    runner = ag.Runner(agent)
    events: list[ag.AgentEvent] = []
    for text in ("Go.", "On.", "And?"):
        events += drive.run(runner, text, thread_id="t")
    assert not [each for each in events if each.kind == "discarded"]
    assert list(runner.events("t")) == events
    assert events[-1].text == "2"
    history = runner.graph.get_state(CONFIG).values["messages"]
    assert [each.text for each in history] == ["Go.", "One.", "On.", "", "bees!", "Two.", "And?", "2"]


def test_where_all_is_removed_nothing_is_void(drive: Drive) -> None:
    @after_agent
    def forget(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("Nothing was.")]}

    model = scripted("One.", lambda sent: "|".join(each.text for each in sent))
    runner = ag.Runner(ag.chat_agent("writer", model, middleware=[forget]))
    events = [e for text in ("Go.", "On.") for e in drive.run(runner, text, thread_id="t")]
    assert transcript(events) == ["writer: One.", "writer: Nothing was.|On."]
    assert list(runner.events("t")) == events


def test_one_that_is_replaced_again_and_again_is_told_once_from_the_thread(drive: Drive) -> None:
    class Counting(AgentMiddleware[Any, Any, Any]):
        def after_model(self, state: Any, runtime: Any) -> Any:
            last = state["messages"][-1]
            return {"messages": [last.model_copy(update={"content": f"{last.text}!"})]}

        def after_agent(self, state: Any, runtime: Any) -> Any:
            return self.after_model(state, runtime)

    runner = ag.Runner(ag.chat_agent("writer", scripted("Done"), middleware=[Counting()]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [each.text or each.kind for each in events] == [
        *["Done", "discarded", "Done!"],
        *["discarded", "Done!!"],
    ]
    assert list(runner.events("t")) == standing(events) == events[-1:]


def test_a_hook_that_fails_voids_nothing(drive: Drive) -> None:
    begun: list[int] = []

    class Lost(AgentMiddleware[Any, Any, Any]):
        """Replaces both words of the model, and goes where there is no way, the first time."""

        @hook_config(can_jump_to=["end"])
        def after_agent(self, state: Any, runtime: Any) -> Any:
            begun.append(1)
            words = [each for each in state["messages"] if each.type == "ai"]
            louder = [each.model_copy(update={"content": f"{each.text}!"}) for each in words]
            jump = {"jump_to": "model"} if len(begun) == 1 else {}
            return {"messages": louder, **jump}

    model = scripted(calls(call("look", topic="bees"), text="One"), "Two")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[look], middleware=[Lost()]))
    events: list[ag.AgentEvent] = []
    with pytest.raises(ag.InvalidOutputError, match="jump_to='model'"):
        events.extend(drive.run(runner, "Go.", thread_id="t"))
    events += drive.resume(runner, "t")
    assert [each.text or each.kind for each in events] == [
        *["One", "bees!", "Two", "error"],
        *["discarded", "One!", "discarded", "Two!"],
    ]
    told = [each for each in standing(events) if each.kind != "error"]
    assert [each for each in runner.events("t") if each.kind != "error"] == told
