"""Messages that middleware replaces or removes are discarded; their steps stay."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from helpers import Disk, Drive, chat, echo, failing, middleware, says, unvoided
from helpers.forked import CONFIG, Thread
from langchain.agents.middleware import (
    ExtendedModelResponse,
    after_agent,
    after_model,
    before_model,
)
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import call, calls


@after_model
def loud(state: Any, runtime: Any) -> Any:
    last = state["messages"][-1]
    return {"messages": [last.model_copy(update={"content": last.text.upper()})]}


@after_model
def new_message(state: Any, runtime: Any) -> Any:
    return {"messages": [AIMessage("Censored.", id=state["messages"][-1].id)]}


def removing(which: slice) -> Any:
    @after_agent
    def remove(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=each.id) for each in state["messages"][which]]}

    return remove


def changing(kind: str, text: Callable[[str], str]) -> Any:
    """Return middleware that changes the texts of the messages of a kind before the model is asked."""

    @before_model
    def change(state: Any, runtime: Any) -> Any:
        found = [each for each in state["messages"] if each.type == kind]
        return {"messages": [each.model_copy(update={"content": text(each.text)}) for each in found]}

    return change


LANES: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "the root": lambda agent: ag.sequential("s", [agent]),
    "a branch": lambda agent: ag.parallel("p", [agent, says("b")]),
    "an agent as a tool": lambda agent: chat(
        "boss", calls(call("writer", request="x")), "Done.", tools=[ag.agent_tool(agent)]
    ),
}
lanes = pytest.mark.parametrize("lane", LANES.values(), ids=LANES)


def short(events: Iterable[ag.AgentEvent]) -> list[str]:
    return [event.text or event.kind for event in events if not event.partial]


def check_again(runner: ag.Runner, events: list[ag.AgentEvent]) -> None:
    assert list(runner.events("t")) == unvoided(events)


@lanes
@pytest.mark.parametrize(("hook", "now"), [(loud, "DONE."), (new_message, "Censored.")])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "in chunks"])
def test_a_message_that_is_replaced_is_void_and_emitted_as_it_is_now(
    disk: Disk, lane: Any, hook: Any, now: str, stream: bool
) -> None:
    tree = lane(chat("writer", "Done.", middleware=[hook]))
    thread = Thread(disk.drive, tree, disk.path)
    thread.run(stream=stream)
    events = thread.heard
    mine = [event for event in events if event.agent_name == "writer"]
    assert short(mine) == ["Done.", "discarded", now]
    assert [event.action.discarded for event in mine if event.action] == [(mine[0].id,)]
    assert (mine[2].id, mine[2].address) == (mine[0].id, mine[0].address)
    assert sorted(disk.events(tree), key=events.index) == unvoided(events)


@lanes
def test_a_message_that_is_removed_is_void_and_leaves_the_history(drive: Drive, lane: Any) -> None:
    runner = ag.Runner(lane(chat("writer", "Done.", middleware=[removing(slice(-1, None))])))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    mine = [event for event in events if event.agent_name == "writer"]
    assert short(mine) == ["Done.", "discarded"]
    assert sorted(runner.events("t"), key=events.index) == unvoided(events)
    history = runner.graph.get_state(CONFIG).values["messages"]
    assert "Done." not in [each.text for each in history if each.name == "writer"]


def test_a_result_that_is_replaced_is_emitted_again_and_its_call_is_not(drive: Drive) -> None:
    made = calls(call("echo", text="bees"))
    hide = changing("tool", lambda text: "*")
    agent = chat("writer", made, lambda sent: sent[-1].text, tools=[echo], middleware=[hide])
    runner = ag.Runner(agent)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert short(events) == ["message", "bees", "discarded", "*", "*"]
    check_again(runner, events)


def test_a_message_of_an_earlier_activation_keeps_its_address(drive: Drive) -> None:
    agent = chat("writer", "one", "two", middleware=[changing("ai", str.upper)])
    runner = ag.Runner(ag.loop("l", [agent], max_iterations=2))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [(event.address, event.text or event.kind) for event in events] == [
        ("l[0]/writer", "one"),
        ("l[1]/writer", "discarded"),
        ("l[0]/writer", "ONE"),
        ("l[1]/writer", "two"),
    ]
    check_again(runner, events)


def test_tool_calls_and_messages_of_earlier_turns_are_only_removed_from_the_history(
    drive: Drive,
) -> None:
    script = "One.", calls(call("echo", text="bees")), "Two.", lambda sent: str(len(sent))
    runner = ag.Runner(chat("writer", *script, tools=[echo], middleware=[removing(slice(0, -1))]))
    events = [e for text in ("Go.", "On.", "And?") for e in drive.run(runner, text, thread_id="t")]
    assert short(events) == ["One.", "message", "bees", "Two.", "2"]
    check_again(runner, events)
    history = runner.graph.get_state(CONFIG).values["messages"]
    assert [each.text for each in history] == ["Go.", "One.", "On.", "", "bees", "Two.", "And?", "2"]


def test_nothing_is_void_when_all_messages_are_removed(drive: Drive) -> None:
    @after_agent
    def forget(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("Nothing was.")]}

    script = "One.", lambda sent: "|".join(each.text for each in sent)
    runner = ag.Runner(chat("writer", *script, middleware=[forget]))
    events = [e for text in ("Go.", "On.") for e in drive.run(runner, text, thread_id="t")]
    assert short(events) == ["One.", "Nothing was.|On."]
    check_again(runner, events)


def test_a_message_that_is_replaced_twice_is_read_once_from_the_thread(drive: Drive) -> None:
    def louder(state: Any) -> Any:
        last = state["messages"][-1]
        return {"messages": [last.model_copy(update={"content": f"{last.text}!"})]}

    stack = [middleware(after_model=louder, after_agent=louder)]
    runner = ag.Runner(chat("writer", "Done", middleware=stack))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert short(events) == ["Done", "discarded", "Done!", "discarded", "Done!!"]
    assert list(runner.events("t")) == unvoided(events) == events[-1:]


def test_a_reply_that_a_wrap_takes_back_with_its_own_update_is_void(drive: Drive) -> None:
    def retract(request: Any) -> Any:
        command: Any = Command(update={"messages": [RemoveMessage(id="no")]})
        return ExtendedModelResponse(model_response=(yield request), command=command)

    agent = chat("writer", AIMessage("No.", id="no"), middleware=[middleware(wrap_model_call=retract)])
    runner = ag.Runner(agent)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert short(events) == ["No.", "discarded"]
    check_again(runner, events)
    assert [each.text for each in runner.graph.get_state(CONFIG).values["messages"]] == ["Go."]


def test_a_hook_that_fails_voids_nothing(drive: Drive) -> None:
    jumps: list[dict[str, str]] = [{"jump_to": "model"}, {}]

    def lost(state: Any) -> Any:
        """Replace both messages of the model, and the first time jump where it must not."""
        said = [each for each in state["messages"] if each.type == "ai"]
        louder = [each.model_copy(update={"content": f"{each.text}!"}) for each in said]
        return {"messages": louder, **jumps.pop(0)}

    made = calls(call("echo", text="bees"), text="One")
    runner = ag.Runner(
        chat(
            "writer",
            made,
            "Two",
            tools=[echo],
            middleware=[middleware(jumps=["end"], after_agent=lost)],
        )
    )
    events, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert "jump_to='model'" in str(error)
    events += drive.resume(runner, "t")
    assert short(events) == [
        *("One", "bees", "Two", "error"),
        *("discarded", "One!", "discarded", "Two!"),
    ]
    assert short(runner.events("t")) == short(unvoided(events))
