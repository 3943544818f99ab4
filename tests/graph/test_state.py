"""State: the stamps on messages, the reducers, and what we rely on in LangGraph's channels."""

import operator
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer as reduced
from typing_extensions import TypedDict

from agentgraph.graph.state import (
    SNAPSHOT_FREQUENCY,
    address_of,
    changes_of_lane,
    speaker_at,
    speaker_of,
    stamped,
    state_types,
    with_changes,
)
from agentgraph.graph.values import Reducers

THREAD = {"configurable": {"thread_id": "t"}}
LaneState, Conversation, InnerState, *_ = state_types(Reducers())


def texts(messages: list[BaseMessage]) -> list[str]:
    return [str(message.text) for message in messages]


def test_a_stamp_says_at_what_address_and_by_whom_a_message_was_said():
    message = stamped(AIMessage("Too short."), "report/refine[1]/critic")
    assert address_of(message) == "report/refine[1]/critic"
    assert speaker_of(message) == "critic"


def test_a_stamp_keeps_all_that_a_message_has():
    call = {"name": "search", "args": {"q": "bees"}, "id": "c1", "type": "tool_call"}
    message = AIMessage(
        "Looking.",
        id="1",
        name="eve",
        tool_calls=[call],
        additional_kwargs={"refusal": None},
        response_metadata={"model_name": "m"},
    )
    metadata = {**message.response_metadata, **stamped(message, "report/writer").response_metadata}
    assert stamped(message, "report/writer") == message.model_copy(
        update={"response_metadata": metadata}
    )
    assert metadata["model_name"] == "m"


def test_a_second_stamp_replaces_the_first():
    assert address_of(stamped(stamped(AIMessage("Bees."), "s/a"), "s/b")) == "s/b"


@pytest.mark.parametrize(
    "message", [AIMessage("Bees."), HumanMessage("Yes."), ToolMessage("3 hits", tool_call_id="c1")]
)
def test_a_stamp_survives_json_and_the_checkpoint(message):
    said = stamped(message, "report/writer")
    assert messages_from_dict(messages_to_dict([said])) == [said]
    serializer = JsonPlusSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(said)) == said


def test_a_message_of_the_user_has_no_address_and_no_speaker():
    assert address_of(HumanMessage("Write.", name="eve")) is None
    assert speaker_of(HumanMessage("Write.", name="eve")) is None
    assert speaker_of(AIMessage("An example.")) is None


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("writer", "writer"),
        ("report/writer", "writer"),
        ("report/refine[1]/critic", "critic"),
        ("report/refine[10]/step/critic#2", "critic"),
        ("report/refine#2[1]/critic#12", "critic"),
        ("a/a#2/a-b_c", "a-b_c"),
        ("report/refine[3]", "refine"),
        ("report/refine#2[3]", "refine"),
    ],
)
def test_the_speaker_is_the_name_at_the_end_of_an_address(address, name):
    assert speaker_at(address) == name


def test_merge_changes_neither_side():
    values, new = {"a": 1}, {"a": 2}
    Reducers().merged(values, new)
    assert (values, new) == ({"a": 1}, {"a": 2})


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
    batches = given_writes[:cut], given_writes[cut:again], given_writes[again:]
    state: list[Any] = []
    for batch in batches:
        state = reduce(state, batch)
    assert state == reduce([], given_writes)


@given(writes, writes)
def test_the_messages_of_a_lane_change_the_history_as_each_would(before: Any, inside: Any) -> None:
    history = reduced([], before)
    assert with_changes(history, changes_of_lane([], inside)) == reduced(history, inside)


def counting(state: type, rounds: int) -> Any:
    """Return a compiled graph that says the numbers from 1 to `rounds`, one a step."""

    def say(state: Any) -> dict[str, Any]:
        n = state.get("values", {}).get("n", 0) + 1
        return {"messages": [AIMessage(str(n))], "values": {"n": n}}

    builder = StateGraph(state)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    builder.add_conditional_edges(
        "say", lambda state: END if state["values"]["n"] == rounds else "say", ["say", END]
    )
    return builder.compile(checkpointer=InMemorySaver())


class OftenSaved(TypedDict):
    """A state that is saved whole with every fourth update."""

    messages: Annotated[list[AnyMessage], DeltaChannel(reduced, snapshot_frequency=4)]
    values: Annotated[dict[str, Any], operator.or_]


@pytest.mark.parametrize(
    ("state", "reduce"),
    [(LaneState, reduced), (Conversation, reduced), (InnerState, changes_of_lane)],
)
def test_the_messages_of_a_lane_are_a_channel_of_deltas(state, reduce):
    (channel,) = state.__annotations__["messages"].__metadata__
    assert channel == DeltaChannel(reduce, snapshot_frequency=SNAPSHOT_FREQUENCY)


def test_each_checkpoint_gives_the_messages_that_there_were():
    graph = counting(LaneState, rounds=5)
    result = graph.invoke({"messages": ["Count."]}, THREAD)
    assert texts(result["messages"]) == ["Count.", "1", "2", "3", "4", "5"]
    history = [texts(state.values["messages"]) for state in graph.get_state_history(THREAD)]
    assert history == [texts(result["messages"])[:n] for n in (6, 5, 4, 3, 2, 1, 0)]


def test_each_message_of_a_run_gets_an_id():
    result = counting(LaneState, rounds=3).invoke({"messages": ["Count."]}, THREAD)
    assert len({message.id for message in result["messages"]} - {None}) == 4


@pytest.mark.parametrize("state", [LaneState, OftenSaved])
def test_a_thread_can_be_edited_and_goes_on_with_what_was_edited(state):
    graph = counting(state, rounds=9)
    first = graph.invoke({"messages": [HumanMessage("Count.", id="1")]}, THREAD)
    graph.update_state(
        THREAD, {"messages": [HumanMessage("Go.", id="1")], "values": {"n": 8}}, as_node="say"
    )
    graph.update_state(
        THREAD, {"messages": [RemoveMessage(id=first["messages"][-1].id)]}, as_node="say"
    )
    assert texts(graph.invoke(None, THREAD)["messages"]) == ["Go.", *"12345678", "9"]


def test_the_values_of_a_lane_are_merged():
    graph = counting(LaneState, rounds=2)
    result = graph.invoke({"messages": ["Count."], "values": {"topic": "bees"}}, THREAD)
    assert result["values"] == {"topic": "bees", "n": 2}
