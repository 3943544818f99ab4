"""The channel of messages appends what is new by its index, and leaves all else to its reducer."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from agentgraph.graph.delta_channels import History, SnapshotList, changes_of_lane
from agentgraph.graph.internals import delta_reducer

REDUCERS = {"root": delta_reducer, "lane": changes_of_lane}


def channel(reducer: Any, kind: type[SnapshotList] = History) -> Any:
    return kind(reducer, list, snapshot_frequency=100).from_checkpoint(None)


IDS = st.sampled_from(["a", "b", "c", "d", "e", None])
MESSAGES = st.builds(
    lambda kind, key: kind("Hi.", id=key), st.sampled_from([AIMessage, HumanMessage]), IDS
)
CHUNKS = st.builds(lambda key: AIMessageChunk("Hi.", id=key), IDS)
DICTS = st.builds(lambda key: {"role": "user", "content": "Hi.", "id": key}, IDS)
WRITES = st.lists(
    st.one_of(MESSAGES, MESSAGES, st.lists(st.one_of(MESSAGES, CHUNKS, DICTS))), max_size=3
)


@pytest.mark.parametrize("lane", REDUCERS)
@given(steps=st.lists(st.one_of(WRITES, WRITES, st.just("overwrite")), max_size=8))
def test_it_holds_what_the_reducer_alone_makes(lane: str, steps: list[Any]) -> None:
    ours, plain = channel(REDUCERS[lane]), channel(REDUCERS[lane], SnapshotList)
    for step in steps:
        write = [Overwrite([HumanMessage("Anew.", id="a")])] if step == "overwrite" else step
        assert ours.update(write) == plain.update(write)
        assert told(ours.get()) == told(plain.get())


def told(messages: Sequence[BaseMessage]) -> list[Any]:
    known = {"a", "b", "c", "d", "e"}
    return [(type(each), each.text, each.id if each.id in known else "made up") for each in messages]


@pytest.mark.parametrize("lane", REDUCERS)
def test_messages_that_are_new_are_appended_without_the_reducer(lane: str) -> None:
    calls: list[int] = []

    def counting(before: list[Any], writes: Sequence[Any]) -> Any:
        calls.append(len(before))
        return REDUCERS[lane](before, writes)

    history = channel(counting)
    for number in range(1000):
        history.update([[HumanMessage("Hi.", id=f"{number}")]])
    assert (len(history.get()), calls) == (1000, [])
    history.update([[AIMessage("Again.", id="7")]])
    assert (len(history.get()), calls) == (1000, [1000])
    history.update([RemoveMessage(id=REMOVE_ALL_MESSAGES)])
    history.update([AIMessage("Anew.", id="7")])
    assert [each.id for each in history.get()] == ["7"]


def test_a_list_that_a_node_holds_stays_as_it_was() -> None:
    history = channel(delta_reducer)
    history.update([HumanMessage("One.", id="1")])
    held = history.get()
    other = history.copy()
    history.update([AIMessage("Two.", id="2")])
    other.update([AIMessage("Three.", id="2")])
    assert [each.text for each in held] == ["One."]
    assert [each.text for each in history.get()] == ["One.", "Two."]
    assert [each.text for each in other.get()] == ["One.", "Three."]
