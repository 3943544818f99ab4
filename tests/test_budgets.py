"""Budgets: histories that keep within a number of tokens."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately

from agentgraph.budgets import (
    SUMMARY_INSTRUCTION,
    Summarized,
    Trimmed,
    fitting,
    record_of,
    since,
    split,
    summarized,
    summary_request,
    trimmed,
)
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


def test_a_split_keeps_the_newest_that_fill_half_the_budget():
    assert split(TALK, summarized(MODEL, 6, token_counter=words)) == (TALK[:2], TALK[2:])
    assert split(TALK, summarized(MODEL, 7, token_counter=words)) == (TALK[:2], TALK[2:])
    assert split(TALK, summarized(MODEL, 5, token_counter=words)) == (TALK[:3], TALK[3:])


def test_a_split_of_what_fits_half_the_budget_has_nothing_older():
    assert split(TALK, summarized(MODEL, 12, token_counter=words)) == ([], TALK)
    assert split([], summarized(MODEL, 12, token_counter=words)) == ([], [])


def test_a_split_cuts_no_call_from_its_results():
    assert split(ROUND, summarized(MODEL, 4, token_counter=words)) == (ROUND[:1], ROUND[1:])


def test_a_split_of_one_message_has_nothing_older_whatever_its_size():
    assert split(TALK[:1], summarized(MODEL, 1, token_counter=words)) == ([], TALK[:1])


NUMBERED = [message.model_copy(update={"id": str(i)}) for i, message in enumerate(TALK)]


def test_the_summary_stands_for_the_messages_that_it_covers():
    assert since(NUMBERED, {"upto": "1", "text": "They counted."}) == [
        HumanMessage("Summary of the conversation so far:\nThey counted."),
        *NUMBERED[2:],
    ]


def test_the_summary_of_everything_stands_alone():
    assert texts(since(NUMBERED, {"upto": "3", "text": "Six."})) == [
        "Summary of the conversation so far:\nSix."
    ]


@pytest.mark.parametrize("record", [None, {"upto": "9", "text": "They counted."}])
def test_all_messages_are_there_where_no_summary_covers_any(record):
    assert since(NUMBERED, record) == NUMBERED


def test_the_summary_covers_the_results_of_a_call_that_it_covers():
    call = asked("1").model_copy(update={"id": "call"})
    messages = [call, found("1", "No result of this call was kept."), HumanMessage("Well?")]
    assert texts(since(messages, {"upto": "call", "text": "It looked."}))[1:] == ["Well?"]


def test_a_record_names_the_last_message_that_has_an_id():
    assert record_of(NUMBERED[:2], "They counted.") == {"upto": "1", "text": "They counted."}
    assert record_of([*NUMBERED[:2], found("1", "a")], "More.") == {"upto": "1", "text": "More."}


def test_there_is_no_record_of_messages_without_ids():
    assert record_of(TALK, "They counted.") is None
    assert record_of([], "Nothing.") is None


def test_the_summarising_model_is_sent_its_instruction_and_the_conversation_as_text():
    policy = summarized(MODEL, 100, instruction="Be {brief}.")
    earlier = since(NUMBERED[:1], {"upto": "0", "text": "They met."})
    system, human = summary_request([*earlier, asked("1", text="Look <here>"), found("1", "a")], policy)
    assert system == SystemMessage("Be {brief}.")
    assert human == HumanMessage(
        '<message type="human">Summary of the conversation so far:\nThey met.</message>\n'
        '<message type="ai">\n'
        "  <content>Look &lt;here&gt;</content>\n"
        '  <tool_call id="1" name="search">{}</tool_call>\n'
        "</message>\n"
        '<message type="tool">a</message>'
    )


def test_what_the_summarising_model_is_sent_can_be_sent():
    request = summary_request(ROUND, summarized(MODEL, 100))
    assert pairing_faults(request) == []
    assert request[0].text == SUMMARY_INSTRUCTION


def test_a_policy_is_a_value():
    assert trimmed(9, history="own", token_counter=len) == Trimmed(
        max_tokens=9, history="own", token_counter=len
    )
    assert summarized(MODEL, 9, instruction="Short.") == Summarized(
        model=MODEL, max_tokens=9, instruction="Short."
    )
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


@given(TALKS, st.integers(0, 12))
@settings(max_examples=200, deadline=None)
def test_a_summary_and_what_is_newer_hold_the_whole_of_any_talk(talk, max_tokens):
    numbered = [message.model_copy(update={"id": str(i)}) for i, message in enumerate(talk)]

    older, newest = split(numbered, summarized(MODEL, max_tokens, token_counter=words))

    assert older + newest == numbered
    assert pairing_faults(older) == []
    record = record_of(older, "Before.")
    assert since(numbered, record)[1 if record else 0 :] == newest
