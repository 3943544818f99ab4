"""An event as JSON holds what JSON lacks: bytes, half surrogate pairs, numbers that are not finite."""

import json

import pytest
from driving import scripted
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool

import agentgraph as ag

BYTES = b"\x89PNG\xff\x00"
HALF = "bees \ud800 \udfff!"
LOOKALIKES = [
    {"$agentgraph": ["bytes", "eA=="]},
    {"$agentgraph": ["dict", {"$agentgraph": ["bytes", "eA=="]}]},
    {"$agentgraph": 1, "more": BYTES},
]
TEXTS = st.text() | st.text(st.characters(categories=["Cs"]), max_size=1)
"""Two halves side by side are one character, in JSON as in UTF-16; so they stand alone here."""
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS | st.just("$agentgraph"), inner),
)


def event(**what):
    path = ag.RunPath([ag.RunStep("a")])
    return ag.AgentEvent(agent_name="a", run_path=path, address="a", id="1", **what)


def says(message):
    return event(output=ag.Output(message=message))


def sent(told):
    """Return an event that went through JSON and UTF-8."""
    line = json.dumps(told.to_dict(), allow_nan=False).encode("utf-8")
    return ag.AgentEvent.from_dict(json.loads(line))


EVENTS = {
    "content": says(HumanMessage([{"type": "image", "source": {"data": BYTES}}, HALF])),
    "text": says(AIMessage(HALF, id=HALF)),
    "chunk": event(output=ag.Output(message=AIMessageChunk(HALF), partial=True)),
    "additional_kwargs": says(AIMessage("a", additional_kwargs={"audio": {"data": BYTES}})),
    "response_metadata": says(AIMessage("a", response_metadata={"logprob": float("-inf")})),
    "artifact": says(ToolMessage("a", tool_call_id="1", artifact=BYTES)),
    "artifacts": says(ToolMessage("a", tool_call_id="1", artifact={"files": [BYTES, b""]})),
    "custom": event(output=ag.Output(custom={"data": BYTES, HALF: HALF, "inf": float("inf")})),
    "action": event(action=ag.Action(custom=[BYTES, HALF])),
    "question": event(
        action=ag.Action(interrupted=ag.Interrupt(id="1", address="a", agent_name="a", value=BYTES))
    ),
    "error": event(error=HALF),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_goes_through_json_and_is_the_same(name):
    assert sent(EVENTS[name]) == EVENTS[name]


@pytest.mark.parametrize("data", LOOKALIKES)
def test_what_looks_like_our_own_key_stays_what_it_is(data):
    told = event(output=ag.Output(custom=data))
    assert sent(told) == sent(sent(told)) == told


@given(DATA)
def test_any_data_goes_through_json(data):
    told = event(output=ag.Output(custom=data))
    assert sent(told) == told


def test_bytes_have_a_form_that_other_programs_can_read():
    told = event(output=ag.Output(custom=b"bees"))
    assert told.to_dict()["output"]["custom"] == {"$agentgraph": ["bytes", "YmVlcw=="]}


def test_a_server_sent_event_can_be_written_whatever_it_holds():
    for told in EVENTS.values():
        assert told.to_sse().encode("utf-8").endswith(b"\n\n")
    assert EVENTS["text"].to_sse().startswith("event: message\n")
    odd = event(output=ag.Output(custom=1)).__class__(
        agent_name="a", run_path=ag.RunPath([]), address="a", id=f"1\n{HALF}", error="no"
    )
    assert odd.to_sse().split("\n")[1] == "id: 1 bees \\ud800 \\udfff!"


def test_what_has_no_json_form_is_told_as_a_text():
    class Mute:
        def __repr__(self):
            raise RuntimeError

    told = says(ToolMessage("a", tool_call_id="1", artifact=[Mute(), 2.5])).to_dict()
    assert told["output"]["message"]["data"]["artifact"] == ["<Mute, whose repr fails>", 2.5]


def test_a_tool_with_bytes_as_its_artifact_is_told_as_json(drive):
    @tool(response_format="content_and_artifact")
    def draw() -> tuple[str, bytes]:
        """Draws."""
        return "Drawn.", BYTES

    call = {"name": "draw", "args": {}, "id": "1"}
    tree = ag.chat_agent("a", scripted(AIMessage("", tool_calls=[call]), "There."), tools=[draw])
    told = list(drive.run(ag.Runner(tree), "Go."))
    assert told[1].message.artifact == BYTES
    assert [sent(each) for each in told] == told
