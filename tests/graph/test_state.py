"""State: the stamps on messages, and reducers that give the same however writes are cut up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.message import _messages_delta_reducer as reduced

from agentgraph.graph.chat.context_edits import Edits, edited, edits_between
from agentgraph.graph.delta_channels import SNAPSHOT_FREQUENCY, changes_of_lane
from agentgraph.graph.message_changes import with_changes
from agentgraph.graph.stamps import address_of, speaker_at, speaker_of, stamped
from agentgraph.graph.state import state_types
from agentgraph.graph.values import Reducers

# stamps


def test_a_stamp_says_where_and_by_whom_a_message_was_said_and_keeps_all_that_it_has() -> None:
    call = {"name": "search", "args": {"q": "bees"}, "id": "c1", "type": "tool_call"}
    more: Any = {"additional_kwargs": {"refusal": None}, "response_metadata": {"model_name": "m"}}
    message = AIMessage("Looking.", id="1", name="eve", tool_calls=[call], **more)
    said = stamped(stamped(message, "s/other"), "report/refine[1]/critic")
    assert (address_of(said), speaker_of(said)) == ("report/refine[1]/critic", "critic")
    metadata = said.response_metadata
    assert metadata["model_name"] == "m"
    assert said == message.model_copy(update={"response_metadata": metadata})


@pytest.mark.parametrize("kind", [AIMessage, HumanMessage, ToolMessage])
def test_a_stamp_survives_json_and_the_checkpoint(kind: Any) -> None:
    said = stamped(kind("Bees.", **({"tool_call_id": "1"} if kind is ToolMessage else {})), "s/writer")
    assert messages_from_dict(messages_to_dict([said])) == [said]
    serializer = JsonPlusSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(said)) == said


def test_a_message_of_the_user_has_no_address_and_no_speaker() -> None:
    for message in (HumanMessage("Write.", name="eve"), AIMessage("An example.")):
        assert (address_of(message), speaker_of(message)) == (None, None)


SPEAKERS = {
    "writer": "writer",
    "report/writer": "writer",
    "report/refine[1]/critic": "critic",
    "report/refine[10]/step/critic#2": "critic",
    "report/refine#2[1]/critic#12": "critic",
    "a/a#2/a-b_c": "a-b_c",
    "report/refine#2[3]": "refine",
    "boss/worker(1)": "worker",
    "report/writer{1}": "writer",
}


def test_the_speaker_is_the_name_at_the_end_of_an_address() -> None:
    assert {address: speaker_at(address) for address in SPEAKERS} == SPEAKERS


# messages as deltas

ids = st.sampled_from("123") | st.none()
writes = st.lists(
    st.lists(
        st.builds(AIMessage, st.sampled_from("abc"), id=ids)
        | st.sampled_from("123").map(lambda known: RemoveMessage(id=known)),
        max_size=3,
    ),
    max_size=6,
)


@pytest.mark.parametrize("reduce", [reduced, changes_of_lane])
@given(writes, st.integers(0, 6), st.integers(0, 6))
def test_reducers_give_the_same_however_writes_are_cut_into_batches(
    reduce: Any, given_writes: Any, first: int, second: int
) -> None:
    cut, again = sorted((first, second))
    state: list[Any] = []
    for batch in (given_writes[:cut], given_writes[cut:again], given_writes[again:]):
        state = reduce(state, batch)
    assert state == reduce([], given_writes)


@given(writes, writes)
def test_the_messages_of_a_lane_change_the_history_as_each_would(before: Any, inside: Any) -> None:
    history = reduced([], before)
    assert with_changes(history, changes_of_lane([], inside)) == reduced(history, inside)


def test_the_messages_of_all_lanes_are_deltas() -> None:
    root, conversation, lane, _ = state_types(Reducers())
    for state, reduce in ((root, reduced), (conversation, reduced), (lane, changes_of_lane)):
        (channel,) = state.__annotations__["messages"].__metadata__
        assert channel == DeltaChannel(reduce, snapshot_frequency=SNAPSHOT_FREQUENCY)


# what middleware made of the messages, as edits


def said(*ids: str) -> list[Any]:
    return [HumanMessage(each, id=each) for each in ids]


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Draw messages, and what middleware made of them: the order of those that stay is kept."""
    before = said(*map(str, range(draw(st.integers(0, 6)))))
    after: list[Any] = []
    for index in range(len(before) + 1):
        after += said(*(f"new{index}.{n}" for n in range(draw(st.integers(0, 2)))))
        match draw(st.sampled_from(["keep", "drop", "replace"])) if index < len(before) else "end":
            case "keep":
                after.append(before[index])
            case "replace":
                after.append(HumanMessage("other", id=before[index].id))
    return before, after


@given(changes(), st.integers(0, 2))
def test_edits_make_what_middleware_made_and_show_what_is_said_later(
    change: tuple[list[Any], list[Any]], more: int
) -> None:
    before, after = change
    later = said(*(f"later{n}" for n in range(more)))
    assert edited([*before, *later], edits_between(before, after)) == [*after, *later]


def test_edits_are_few() -> None:
    assert edits_between(said("1", "2"), said("1", "2")) == {}
    before, [summary] = said(*map(str, range(100))), said("summary")
    edits = edits_between(before, [summary, *before[-2:]])
    assert edits == {"beginning": {"upto": "97", "head": [summary]}}


def test_where_the_left_out_beginning_is_not_seen_any_more_nothing_is_put_in_its_place() -> None:
    edits: Edits = {"beginning": {"upto": "1", "head": said("summary")}}
    assert edited(said("2", "3"), edits) == said("2", "3")
