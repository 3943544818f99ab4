"""Budgets: histories that keep within a number of tokens."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately

from agentgraph.agents.budgets import Summarized, Trimmed, fitting, summarized, trimmed
from agentgraph.testing import ScriptedChatModel, pairing_faults

MODEL = ScriptedChatModel(responses=[])


def words(messages: list[BaseMessage]) -> int:
    return sum(len(message.text.split()) for message in messages)


def texts(messages: list[BaseMessage]) -> list[str]:
    return [message.text for message in messages]


def asked(*ids: str, text: str = "") -> AIMessage:
    """Return a message that calls a tool once for each id."""
    calls = [{"name": "search", "args": {}, "id": each, "type": "tool_call"} for each in ids]
    return AIMessage(text, tool_calls=calls)


def found(call_id: str, content: str) -> ToolMessage:
    return ToolMessage(content, name="search", tool_call_id=call_id)


TALK = [HumanMessage("one two"), AIMessage("three"), HumanMessage("four five"), AIMessage("six")]
ROUND = [HumanMessage("Go."), asked("1", "2", text="Looking."), found("1", "a"), found("2", "b")]


def test_what_fits_is_left_as_it_is():
    assert fitting(TALK, 6, words) == TALK
    assert fitting([SystemMessage("kind"), *TALK], 7, words)[0].text == "kind"
    assert fitting([], 0, words) == []


def test_the_result_is_a_list_of_its_own():
    assert fitting(TALK, 6, words) is not TALK


@pytest.mark.parametrize(("max_tokens", "kept"), [(5, 3), (4, 3), (3, 2), (2, 1), (1, 1)])
def test_the_newest_messages_that_fit_are_kept(max_tokens, kept):
    assert fitting(TALK, max_tokens, words) == TALK[-kept:]


def test_the_last_message_stays_whatever_its_size():
    assert fitting([*TALK, HumanMessage("seven eight")], 1, words) == [HumanMessage("seven eight")]
    assert fitting([SystemMessage("one two")], 1, words) == [SystemMessage("one two")]


@pytest.mark.parametrize("max_tokens", [1, 2])
def test_the_results_that_come_last_stay_with_their_call_whatever_its_size(max_tokens):
    assert fitting(ROUND, max_tokens, words) == ROUND[1:]


def test_no_result_is_kept_without_its_call():
    assert fitting([*ROUND, AIMessage("Done.")], 2, words) == [AIMessage("Done.")]
    assert fitting([*ROUND, AIMessage("Done.")], 4, words) == [*ROUND[1:], AIMessage("Done.")]


def test_a_result_alone_stays():
    assert fitting([found("1", "a b"), found("2", "c d")], 1, words) == [
        found("1", "a b"),
        found("2", "c d"),
    ]


def test_tokens_are_counted_approximately_where_nothing_else_is_said():
    messages = [HumanMessage("x" * 400), HumanMessage("y" * 40)]
    policy = trimmed(20)
    assert policy.token_counter is count_tokens_approximately
    assert fitting(messages, policy.max_tokens, policy.token_counter) == messages[1:]


def test_a_policy_is_a_value():
    assert trimmed(9, history="own", token_counter=len) == Trimmed(
        max_tokens=9, history="own", token_counter=len
    )
    assert summarized(MODEL, 9, instruction="Short.") == Summarized(
        model=MODEL, max_tokens=9, instruction="Short."
    )
    assert summarized("openai:gpt-5-mini", 9).instruction is None
    assert (trimmed(9).history, summarized(MODEL, 9).history) == ("shared", "shared")
    with pytest.raises(dataclasses.FrozenInstanceError):
        trimmed(9).max_tokens = 10


TURN = st.one_of(
    st.builds(lambda text: [HumanMessage(text)], st.sampled_from(["", "a", "a b c"])),
    st.builds(lambda text: [AIMessage(text)], st.sampled_from(["", "a", "a b c"])),
    st.builds(
        lambda ids: [asked(*ids), *(found(each, "a b") for each in ids)],
        st.lists(st.sampled_from("123"), min_size=1, max_size=3, unique=True),
    ),
)
TALKS = st.lists(TURN, max_size=6).map(lambda turns: [message for turn in turns for message in turn])


@given(TALKS, st.integers(0, 12))
@settings(max_examples=200, deadline=None)
def test_what_is_kept_of_any_talk_is_its_end_and_can_be_sent(talk, max_tokens):
    numbered = [message.model_copy(update={"id": str(i)}) for i, message in enumerate(talk)]

    kept = fitting(numbered, max_tokens, words)

    assert kept == numbered[len(numbered) - len(kept) :]
    assert bool(kept) == bool(numbered)
    assert pairing_faults(kept) == []
    said_last = [m for m in kept if not isinstance(m, ToolMessage)][1:]
    assert words(kept) <= max_tokens or said_last == []
