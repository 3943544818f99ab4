"""Agent events: frozen values that say what happened, and their forms for JSON and browsers."""

import json
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk

from agentgraph import Action, AgentEvent, Interrupt, Output, RunPath, RunStep

QUESTION = Interrupt(
    id="q1",
    address="report/refine[1]/boss",
    agent_name="boss",
    value={"text": "Print\nit?", "draft": ["größe", None]},
    response_schema={"type": "boolean"},
)


def event(**what: Any) -> AgentEvent:
    return AgentEvent(
        agent_name="writer",
        run_path=RunPath([RunStep("report"), RunStep("refine"), RunStep("writer", 1)]),
        address="report/refine[1]/writer",
        id="e1",
        thread_id="t1",
        turn=0,
        step="1ef:writer",
        cursor="1795366000123456",
        time=1795366000.123456,
        **what,
    )


EVENTS = {
    "message": event(output=Output(message=AIMessage("Bees buzz.", id="1"))),
    "partial": event(output=Output(message=AIMessageChunk("Bees ", id="1"), partial=True)),
    "custom": event(output=Output(custom={"done": 3})),
    "exit": event(action=Action(exit=True)),
    "break_loop": event(action=Action(break_loop=True)),
    "transfer_to": event(action=Action(transfer_to="critic")),
    "discarded": event(action=Action(discarded=("1", "2"))),
    "interrupted": event(action=Action(interrupted=QUESTION)),
    "action": event(action=Action(custom={"vote": ["yes", None]})),
    "error": event(error="ValueError('größe\\n')"),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_has_a_kind_and_comes_back_from_json_pickle_and_a_server(name: str) -> None:
    given = EVENTS[name]
    assert given.kind == ("message" if name == "partial" else name)
    assert given.partial == (name == "partial")
    assert AgentEvent.from_dict(json.loads(json.dumps(given.to_dict()))) == given
    assert pickle.loads(pickle.dumps(given)) == given
    data = json.dumps(given.to_dict())
    assert given.to_sse() == f"event: {name}\nid: 1795366000123456\ndata: {data}\n\n"


@pytest.mark.parametrize("error", ["no", ""])
def test_an_error_comes_before_all_else(error: str) -> None:
    assert event(error=error, output=Output(custom=1), action=Action(exit=True)).kind == "error"


def test_custom_data_may_be_falsy() -> None:
    assert {event(output=Output(custom=data)).kind for data in (None, 0, "", [], {})} == {"custom"}


def test_an_event_has_its_message_and_the_text_of_that() -> None:
    message = AIMessage([{"type": "text", "text": "Bees "}, {"type": "text", "text": "buzz."}])
    said = event(output=Output(message=message))
    assert said.message is message
    assert (said.text, type(said.text)) == ("Bees buzz.", str)


@pytest.mark.parametrize("name", ["custom", "exit", "error"])
def test_an_event_without_a_message_has_no_text(name: str) -> None:
    assert (EVENTS[name].message, EVENTS[name].text) == (None, "")


def test_to_dict_returns_readable_data_of_its_own() -> None:
    data = {"done": [1]}
    given = event(output=Output(custom=data))
    as_data = given.to_dict()
    assert as_data == {
        "agent_name": "writer",
        "run_path": [["report", None], ["refine", None], ["writer", 1]],
        "address": "report/refine[1]/writer",
        "output": {"message": None, "custom": {"done": [1]}, "partial": False},
        "action": None,
        "error": None,
        "id": "e1",
        "thread_id": "t1",
        "turn": 0,
        "step": "1ef:writer",
        "cursor": "1795366000123456",
        "time": 1795366000.123456,
    }
    as_data["output"]["custom"]["done"].append(2)
    assert data == {"done": [1]}


def test_a_question_in_json_has_all_that_an_answer_needs() -> None:
    assert EVENTS["interrupted"].to_dict()["action"]["interrupted"] == {
        "id": "q1",
        "address": "report/refine[1]/boss",
        "agent_name": "boss",
        "value": {"text": "Print\nit?", "draft": ["größe", None]},
        "response_schema": {"type": "boolean"},
        "deadline": None,
    }


@pytest.mark.parametrize(
    ("value", "attribute"),
    [(event(), "id"), (Output(custom=1), "custom"), (Action(exit=True), "exit"), (QUESTION, "value")],
    ids=["an event", "an output", "an action", "a question"],
)
def test_events_are_frozen_and_take_their_fields_by_name(value: Any, attribute: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, attribute, "other")
    with pytest.raises(TypeError):
        type(value)("writer")


def test_the_repr_of_an_event_shows_who_did_what() -> None:
    assert repr(EVENTS["exit"]).startswith(
        "AgentEvent(agent_name='writer', run_path=RunPath('report/refine/writer'), "
        "address='report/refine[1]/writer', output=None, action=Action(exit=True"
    )


def test_reasoning_is_the_text_of_the_reasoning_blocks_of_a_message() -> None:
    blocks: list[Any] = [
        {"type": "reasoning", "reasoning": "Bees "},
        {"type": "reasoning", "reasoning": "hum."},
        {"type": "text", "text": "They do."},
    ]
    for message in (AIMessage(blocks), AIMessageChunk(blocks)):
        said = event(output=Output(message=message))
        assert (said.reasoning, said.text) == ("Bees hum.", "They do.")
    of_deepseek = AIMessage("They do.", additional_kwargs={"reasoning_content": "Bees hum."})
    assert event(output=Output(message=of_deepseek)).reasoning == "Bees hum."
    for output in (Output(message=AIMessage("Yes.")), Output(custom=1)):
        assert event(output=output).reasoning == ""
