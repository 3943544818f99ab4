"""Parts of a stream are read in each form in which LangGraph or a server sends them."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph_sdk.schema import StreamPart

import agentgraph as ag
from agentgraph.events.parts import OpenedPart, PartReader, as_message, as_question

AT = {"agent_address": "writer", "langgraph_checkpoint_ns": "review:1|legal:2|writer:3"}


def opened(*parts: Any) -> list[OpenedPart]:
    opener = PartReader()
    return [each for part in parts for each in opener.open(part)]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "updates", "ns": ["a:1", "b:2"], "data": {"c": None}, "interrupts": []},
        StreamPart("updates|a:1|b:2", {"c": None}),
        (("a:1", "b:2"), "updates", {"c": None}),
    ],
    ids=["version 2", "a server", "version 1"],
)
def test_a_part_has_a_kind_data_and_a_namespace_in_every_form(part: Any) -> None:
    [(kind, data, namespace)] = opened(part)
    assert (kind, data, [*namespace]) == ("updates", {"c": None}, ["a:1", "b:2"])


def test_a_pair_is_a_part_of_the_root() -> None:
    assert opened(("custom", 1)) == [OpenedPart("custom", 1, ())]


def test_a_chunk_is_where_its_metadata_say() -> None:
    chunk = {"type": "AIMessageChunk", "id": "1", "content": "Hum"}
    [part] = opened(StreamPart("messages", [chunk, AT]))  # type: ignore[arg-type]
    assert part == OpenedPart("messages", (AIMessageChunk("Hum", id="1"), AT), ["review:1", "legal:2"])


def test_only_what_is_new_in_a_message_that_grows_becomes_a_chunk() -> None:
    def partial(text: str, *calls: str) -> StreamPart:
        made = [{"name": name, "args": {}, "id": name, "type": "tool_call"} for name in calls]
        message = {"type": "ai", "id": "1", "content": text, "tool_calls": made}
        return StreamPart("messages/partial", [message])  # type: ignore[arg-type]

    metadata = StreamPart("messages/metadata", {"1": {"metadata": AT}})
    grown = [
        partial("They "),
        partial("They hum"),
        partial("They hum", "a"),
        partial("They hum", "a", "b"),
    ]
    found = []
    for part in opened(metadata, *grown):
        chunk, at = part.data
        assert at["agent_address"] == "writer"
        found.append((chunk.text, [(call["name"], call["index"]) for call in chunk.tool_call_chunks]))
    assert found == [("They ", []), ("hum", []), ("", [("a", 0)]), ("", [("b", 1)])]


def test_whole_messages_stay_as_they_are() -> None:
    complete = StreamPart("messages/complete", [{"type": "ai", "content": "Hum."}])  # type: ignore[arg-type]
    assert [part.kind for part in opened(complete)] == ["messages/complete"]


def test_a_failed_run_raises_what_the_server_says() -> None:
    with pytest.raises(ag.RemoteRunError) as caught:
        opened(StreamPart("error", {"error": "ValueError", "message": "no"}))
    assert str(caught.value) == (
        "the run failed on the server with ValueError: no; see the log of the server, then resume the "
        "thread"
    )
    assert caught.value.error == {"error": "ValueError", "message": "no"}


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("Go.", id="1"),
        AIMessage("Hm.", tool_calls=[{"name": "a", "args": {"x": 1}, "id": "1"}], id="2"),
        AIMessage([{"type": "text", "text": "Hm."}], response_metadata={"agentgraph": ["writer"]}),
        ToolMessage("3", name="a", tool_call_id="1", artifact=[1], status="error"),
        RemoveMessage(id="1"),
    ],
    ids=["a person's", "with a call", "with blocks", "a result", "a removal"],
)
def test_a_message_is_the_same_after_json(message: Any) -> None:
    assert as_message(message.model_dump(mode="json")) == message
    assert as_message(message) is message


def test_a_question_is_read_from_json_too() -> None:
    asked = as_question({"id": "1", "value": "Print?"})
    assert (asked.id, asked.value, asked.response_schema) == ("1", "Print?", None)
    assert as_question(asked) is asked


@pytest.mark.parametrize(
    "part", [{"w": {}}, (("a",), {"w": None}), ("a", 1, 2, 3), 3, "text"], ids=repr
)
def test_a_part_that_does_not_say_its_mode_is_refused(part: Any) -> None:
    with pytest.raises(ag.AgentGraphError) as caught:
        opened(part)
    assert str(caught.value) == (
        f"{part!r} is not a part of a LangGraph stream with a mode; pass a list of modes: "
        "stream(..., stream_mode=STREAM_MODES, subgraphs=True)"
    )
