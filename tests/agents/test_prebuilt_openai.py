"""Derived agents whose model is the real `ChatOpenAI`, on the loopback address."""

from typing import Any

import pytest
from helpers import Drive
from langchain_openai import ChatOpenAI
from openai_server import Call, Failure, OpenAIServer, Reply

import agentgraph as ag
from agentgraph.testing import transcript


def chat_model(server: OpenAIServer) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.base_url, api_key="test", model="test-model", max_retries=0)


def calling(name: str, arguments: str = "{}") -> Reply:
    return Reply(calls=(Call("call_a", name, ("", arguments)),))


def contents(body: Any) -> list[tuple[str, str | None]]:
    return [(m["role"], m["content"]) for m in body["messages"] if m["role"] != "system"]


def test_a_supervisor_with_a_worker_as_a_tool(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = [calling("W", '{"request": "bees"}'), "Three.", "Done."]
    model = chat_model(openai_server)
    tree = ag.supervisor("S", model, [ag.chat_agent("W", model)])
    assert transcript(drive.run(ag.Runner(tree), "Go."))[1:] == ["S/W: Three.", "S: Three.", "S: Done."]
    assert contents(openai_server.requests[1]) == [("user", "bees")]
    assert contents(openai_server.requests[2])[-1] == ("tool", "Three.")


def test_a_supervisor_that_hands_over(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = [calling("transfer_to_W"), "Three.", "Done."]
    model = chat_model(openai_server)
    tree = ag.supervisor("S", model, [ag.chat_agent("W", model)], mode="handoff")
    assert transcript(drive.run(ag.Runner(tree), "Go."))[-2:] == ["S/W: Three.", "S/W/S: Done."]
    first, worker, second = openai_server.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["transfer_to_W"]
    assert "tools" not in worker
    assert contents(worker) == [("user", "Go.")]
    assert contents(second) == [("user", "Go."), ("user", "[W] said: Three.")]


def test_a_plan_execute_whose_first_plan_is_none(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = ["I cannot.", '["x"]', "X.", '{"answer": "All."}']
    model = chat_model(openai_server)
    tree = ag.plan_execute("pe", planner=model, executor=model, replanner=model)
    told = [event.text for event in drive.run(ag.Runner(tree), "Go.")]
    assert told[0] == "I cannot."
    assert told[1].startswith("This plan cannot be used: it is not a plan;")
    assert told[2:] == ['["x"]', "X.", '{"answer": "All."}', "All."]
    assert contents(openai_server.requests[1]) == [
        ("user", "Go."),
        ("assistant", "I cannot."),
        ("user", told[1]),
    ]


def test_a_plan_execute_with_steps_side_by_side(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = ['["x", "y"]', "One.", "Another.", "All."]
    model = chat_model(openai_server)
    tree = ag.plan_execute("pe", planner=model, executor=model, replanner=model, parallel=True)
    told = [event.text for event in drive.run(ag.Runner(tree), "Go.")]
    assert sorted(told[1:3]) == ["Another.", "One."]
    assert told[-1] == "All."
    asked = sorted(contents(body)[-1] for body in openai_server.requests[1:3])
    assert asked == [("user", "x"), ("user", "y")]


def test_a_writer_whose_work_is_checked(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = ["three", "3"]
    tree = ag.validated(ag.chat_agent("w", chat_model(openai_server)), int)
    assert [event.text for event in drive.run(ag.Runner(tree), "Go.")][0::2] == ["three", "3"]
    assert [role for role, _ in contents(openai_server.requests[1])] == ["user", "assistant", "user"]


def test_a_writer_with_helpers(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = ["Facts.", "Text."]
    model = chat_model(openai_server)
    tree = ag.with_helpers(ag.chat_agent("w", model), [ag.chat_agent("h", model)])
    assert [event.text for event in drive.run(ag.Runner(tree), "Go.")] == ["Facts.", "Text."]
    assert contents(openai_server.requests[1]) == [("user", "Go."), ("user", "[h] said: Facts.")]


def test_a_workflow(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = ["Facts.", "Text."]
    model = chat_model(openai_server)
    writing = ag.step(ag.chat_agent("w", model), depends_on=["h"], input="Use ${results.h}")
    tree = ag.workflow("f", [ag.chat_agent("h", model), writing])
    assert [event.text for event in drive.run(ag.Runner(tree), "Go.")] == ["Facts.", "Text."]
    assert contents(openai_server.requests[1]) == [("user", "Use Facts.")]


def test_a_workflow_that_undoes_what_it_did(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = ["Room 7.", Failure(500, "fully booked"), "Cancelled."]
    model = chat_model(openai_server)
    hotel = ag.step(ag.chat_agent("hotel", model), compensate=ag.chat_agent("cancel", model))
    flight = ag.step(ag.chat_agent("flight", model), depends_on=["hotel"])
    runner = ag.Runner(ag.workflow("trip", [hotel, flight]))
    with pytest.raises(ag.StepFailedError) as raised:
        list(drive.run(runner, "Go."))
    assert (raised.value.step, raised.value.undone) == ("flight", ("hotel",))
    assert contents(openai_server.requests[2])[-1] == ("user", "[hotel] said: Room 7.")


def test_branches_of_which_one_fails(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = [Failure(500, "no"), "There."]
    model = chat_model(openai_server)
    first, second = ag.chat_agent("a", model), ag.chat_agent("b", model)
    collected = ag.parallel("p", [first, second], on_error="collect", max_concurrency=1)
    told = [event.text for event in drive.run(ag.Runner(collected), "Go.")]
    assert str(told[1]).startswith("Failed: ")
    assert "Error code: 500" in str(told[1])
    assert told[2:] == ["There."]


def test_the_first_branch_that_answers(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = [Failure(500, "no"), "There."]
    model = chat_model(openai_server)
    first, second = ag.chat_agent("a", model), ag.chat_agent("b", model)
    tree = ag.parallel("p", [first, second], on_error="first", max_concurrency=1)
    told = [(event.agent_name, event.kind) for event in drive.run(ag.Runner(tree), "Go.")]
    assert told == [("b", "message"), ("a", "error")]
