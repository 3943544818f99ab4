"""Events in pydantic models and FastAPI endpoints: their JSON form, with a schema."""

import json
from typing import Any

import jsonschema
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import BaseModel, TypeAdapter, ValidationError

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


class Page(BaseModel):
    latest: ag.AgentEvent
    events: list[ag.AgentEvent]


def search(q: str) -> str:
    """Search."""
    return f"3 hives for {q}"


def page() -> Page:
    """Return events of each kind that one run can have."""
    model = ScriptedChatModel(responses=[calls(call("search", q="bees")), "They hum."])
    odd = [ag.Custom({1: (2, b"3")}), ag.BreakLoop()]
    chat = ag.chat_agent("chat", model, tools=[search])
    boss = ag.human("boss", "Print it?", response_schema={"enum": ["yes"]})
    once = ag.loop("once", [ag.function_agent("odd", lambda ctx: odd)], max_iterations=1)
    tree = ag.sequential("report", [chat, once, boss])
    events = list(ag.Runner(tree).query("Go.", stream=True))
    assert {event.kind for event in events} == {"message", "custom", "break_loop", "interrupted"}
    return Page(latest=events[-1], events=events)


def test_a_model_with_events_is_dumped_and_read_without_loss() -> None:
    given = page()
    assert Page.model_validate(given.model_dump()) == given
    assert Page.model_validate_json(given.model_dump_json()) == given
    assert given.model_dump()["latest"] == given.latest.to_dict()


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_json_schema_describes_what_is_dumped(mode: Any) -> None:
    schema = TypeAdapter(ag.AgentEvent).json_schema(mode=mode)
    of_tools = {"call"}  # of custom data alone
    assert set(schema["properties"]) == {*page().latest.to_dict(), *of_tools}
    for event in page().events:
        jsonschema.validate(json.loads(json.dumps(event.to_dict())), schema)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"agent_name": 1}, "Input should be a valid string"),
        ({"run_path": [["report"]]}, "the data is not an AgentEvent"),
        ({"output": {"message": {"type": "?", "data": {}}, "custom": 1, "partial": False}}, "type: ?"),
    ],
    ids=["a field of another type", "a step without an iteration", "an unknown message"],
)
def test_what_is_no_event_is_a_validation_error(change: dict[str, Any], fault: str) -> None:
    data = {**page().latest.to_dict(), **change}
    with pytest.raises(ValidationError, match="1 validation error") as refused:
        TypeAdapter(ag.AgentEvent).validate_python(data)
    assert fault in str(refused.value)


def test_a_fastapi_endpoint_takes_and_returns_events() -> None:
    app = FastAPI()

    @app.post("/latest")
    def latest(page: Page) -> ag.AgentEvent:
        return page.events[-1]

    given = page()
    with TestClient(app) as client:
        reply = client.post("/latest", json=given.model_dump(mode="json"))
        schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert ag.AgentEvent.from_dict(reply.json()) == given.latest
    assert {"AgentEventData", "InterruptData"} <= set(schemas)


def test_results_and_threads_have_schemas_too() -> None:
    for kind in (ag.Result, ag.Thread):
        assert "AgentEventData" in json.dumps(TypeAdapter(kind).json_schema())
