"""Budgets: histories that keep within a number of tokens."""

import dataclasses

import pytest
from helpers import scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately

from agentgraph.agents.budgets import Summarized, Trimmed, fitting, summarized, trimmed
from agentgraph.testing import call, calls, pairing_faults


def words(messages: list[BaseMessage]) -> int:
    return sum(len(message.text.split()) for message in messages)


def asked(*ids: str, text: str = "") -> AIMessage:
    """Return a message that calls a tool once for each id."""
    return calls(*(call("search", each) for each in ids), text=text)


def found(call_id: str, content: str) -> ToolMessage:
    return ToolMessage(content, name="search", tool_call_id=call_id)


TALK = [HumanMessage("one two"), AIMessage("three"), HumanMessage("four five"), AIMessage("six")]
KIND = [SystemMessage("kind"), *TALK]
LONG = [*TALK, HumanMessage("seven eight")]
ROUND = [HumanMessage("Go."), asked("1", "2", text="Looking."), found("1", "a"), found("2", "b")]
DONE = [*ROUND, AIMessage("Done.")]


@pytest.mark.parametrize(
    ("messages", "max_tokens", "kept"),
    [
        *((TALK, most, kept) for most, kept in ((6, 4), (5, 3), (4, 3), (3, 2), (2, 1), (1, 1))),
        (KIND, 7, 5),
        ([], 0, 0),
        # the last message is kept whatever its size, and results with their call
        (LONG, 1, 1),
        ([SystemMessage("one two")], 1, 1),
        (ROUND, 1, 3),
        (ROUND, 2, 3),
        ([found("1", "a b"), found("2", "c d")], 1, 2),
        # no result is kept without its call
        (DONE, 2, 1),
        (DONE, 4, 4),
    ],
)
def test_the_newest_messages_that_fit_are_kept(
    messages: list[BaseMessage], max_tokens: int, kept: int
) -> None:
    fits = fitting(messages, max_tokens, words)
    assert fits == messages[len(messages) - kept :]
    assert fits is not messages


def test_a_policy_is_a_value_with_defaults() -> None:
    model = scripted()
    assert trimmed(9, history="own", token_counter=len) == Trimmed(
        max_tokens=9, history="own", token_counter=len
    )
    assert trimmed(9) == Trimmed(
        max_tokens=9, history="shared", token_counter=count_tokens_approximately
    )
    assert summarized(model, 9, instruction="Short.") == Summarized(
        model=model,
        max_tokens=9,
        history="shared",
        token_counter=count_tokens_approximately,
        instruction="Short.",
    )
    assert summarized("openai:gpt-5-mini", 9).instruction is None
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
@settings(max_examples=100, deadline=None)
def test_what_is_kept_of_any_talk_is_its_end_and_can_be_sent(
    talk: list[BaseMessage], max_tokens: int
) -> None:
    numbered = [message.model_copy(update={"id": str(i)}) for i, message in enumerate(talk)]
    kept = fitting(numbered, max_tokens, words)
    assert kept == numbered[len(numbered) - len(kept) :]
    assert bool(kept) == bool(numbered)
    assert pairing_faults(kept) == []
    said_last = [m for m in kept if not isinstance(m, ToolMessage)][1:]
    assert words(kept) <= max_tokens or said_last == []
