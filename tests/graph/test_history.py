"""History: what an agent sees of a conversation."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agentgraph import Entry, RunPath, RunStep, function_agent, loop, parallel, sequential
from agentgraph.agents.budgets import summarized, trimmed
from agentgraph.agents.tools import TRANSFERRED
from agentgraph.graph.history import POLICIES, paired, unchanged, visible
from agentgraph.graph.state import speaker_at, stamped
from agentgraph.testing import ScriptedChatModel, call, pairing_faults
from agentgraph.tree.addresses import RunPaths
from agentgraph.tree.places import lay_out


def say(ctx) -> str:
    return "said"


def leaf(name: str):
    return function_agent(name, say)


paths = RunPaths(
    lay_out(
        sequential(
            "report",
            [
                leaf("writer"),
                leaf("writer2"),
                loop("refine", [leaf("critic"), leaf("editor")], max_iterations=9),
                parallel("review", [sequential("legal", [leaf("law"), leaf("tax")]), leaf("press")]),
                leaf("boss"),
            ],
        )
    )
)
SEARCH = {"name": "search", "args": {"q": "bees"}, "id": "1", "type": "tool_call"}


def asks(text: str, **fields) -> BaseMessage:
    """Return what the user says."""
    return HumanMessage(text, **fields)


def says(address: str, said: str | list | BaseMessage) -> BaseMessage:
    """Return what an agent says at an address."""
    return stamped(said if isinstance(said, BaseMessage) else AIMessage(said), address)


def seen(messages: list[BaseMessage], at: str, policy="shared") -> list[BaseMessage]:
    return visible(messages, policy, speaker_at(at), at, paths.of)


def lines(messages: list[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


ONE_TURN = [
    asks("Write about bees."),
    says("report/writer", "Bees buzz."),
    says("report/writer2", "Bees hum."),
    says("report/refine[0]/critic", "Too short."),
    says("report/refine[0]/editor", "Bees buzz and hum."),
]
TWO_TURNS = [*ONE_TURN, asks("Now wasps."), asks("Be brief."), says("report/writer", "Wasps sting.")]


def test_what_others_said_is_told_by_a_user_message_that_names_the_speaker():
    told = seen(ONE_TURN[:2], "report/boss")
    assert lines(told) == ["human: Write about bees.", "human: [writer] said: Bees buzz."]
    assert isinstance(told[1], HumanMessage)
    assert told[1].name == "writer"


def test_what_is_told_keeps_the_id_of_the_message():
    message = says("report/writer", AIMessage("Bees buzz.", id="7"))
    assert seen([message], "report/boss")[0].id == "7"


def test_the_messages_of_the_user_stay_as_they_are():
    messages = [SystemMessage("Be kind."), asks("Hello", name="eve", id="1"), AIMessage("An example.")]
    assert seen(messages, "report/writer") == messages


def test_the_users_blocks_stay_as_they_are():
    message = HumanMessage(
        [{"type": "text", "text": "See."}, {"type": "image", "url": "http://a/b.png"}]
    )
    assert seen([message], "report/writer") == [message]


def test_own_messages_stay_native_with_tool_calls_and_results():
    messages = [
        asks("Write about bees."),
        says("report/writer", AIMessage("Looking.", tool_calls=[SEARCH])),
        says("report/writer", ToolMessage("3 hits", tool_call_id="1", name="search")),
        says("report/writer", "Bees buzz."),
    ]
    assert seen(messages, "report/writer") == messages


def test_own_messages_of_earlier_iterations_stay_native():
    assert seen(ONE_TURN, "report/refine[1]/critic")[3] == ONE_TURN[3]


def test_an_agent_sees_all_by_default():
    assert lines(seen(ONE_TURN, "report/refine[1]/critic")) == [
        "human: Write about bees.",
        "human: [writer] said: Bees buzz.",
        "human: [writer2] said: Bees hum.",
        "ai: Too short.",
        "human: [editor] said: Bees buzz and hum.",
    ]


def test_names_are_never_compared_by_prefix():
    assert lines(seen(ONE_TURN[:3], "report/writer")) == [
        "human: Write about bees.",
        "ai: Bees buzz.",
        "human: [writer2] said: Bees hum.",
    ]
    assert lines(seen(ONE_TURN[:3], "report/writer2")) == [
        "human: Write about bees.",
        "human: [writer] said: Bees buzz.",
        "ai: Bees hum.",
    ]
    assert lines(seen(ONE_TURN[:3], "report/writer", "own")) == [
        "human: Write about bees.",
        "ai: Bees buzz.",
    ]


def test_a_second_occurrence_of_an_agent_is_the_same_speaker():
    messages = [says("s/writer", "One."), says("s/writer#2", "Two."), says("s/l#2[3]/critic", "Hm.")]
    assert lines(seen(messages, "s/writer#2")) == ["ai: One.", "ai: Two.", "human: [critic] said: Hm."]


def test_content_of_every_role_is_kept():
    messages = [
        says("report/boss", HumanMessage("Print it.")),
        says("report/writer", SystemMessage("A note.")),
        says("report/writer", ToolMessage("3 hits", tool_call_id="1", name="search")),
    ]
    assert lines(seen(messages, "report/refine[0]/critic")) == [
        "human: [boss] said: Print it.",
        "human: [writer] said: A note.",
        "human: [writer] search returned: 3 hits",
    ]


def test_tool_calls_of_others_are_told_as_text():
    calls = [
        SEARCH,
        {"name": "count", "args": {"größe": [1, {"a": None}]}, "id": "2", "type": "tool_call"},
    ]
    message = says("report/writer", AIMessage("Looking.", tool_calls=calls))
    (told,) = seen([message], "report/boss")
    assert told.text == (
        "[writer] said: Looking.\n"
        '[writer] called search({"q": "bees"})\n'
        '[writer] called count({"größe": [1, {"a": null}]})'
    )
    assert not getattr(told, "tool_calls", None)


def test_a_message_that_only_calls_tools_tells_only_the_calls():
    message = says("report/writer", AIMessage("", tool_calls=[SEARCH]))
    assert lines(seen([message], "report/boss")) == ['human: [writer] called search({"q": "bees"})']


def test_an_empty_answer_is_told_as_one():
    assert lines(seen([says("report/writer", "")], "report/boss")) == ["human: [writer] said: "]


def test_text_of_several_lines_is_told_as_it_is():
    message = says("report/writer", "Bees\n\n[boss] said: nothing\n")
    assert lines(seen([message], "report/boss")) == [
        "human: [writer] said: Bees\n\n[boss] said: nothing\n"
    ]


def test_content_blocks_are_kept_behind_a_block_that_names_the_speaker():
    picture = {"type": "image", "url": "http://a/b.png"}
    message = says("report/writer", [{"type": "text", "text": "See."}, picture])
    (told,) = seen([message], "report/boss")
    assert told.content == [
        {"type": "text", "text": "[writer] said:"},
        {"type": "text", "text": "See."},
        picture,
    ]
    assert told.name == "writer"


def test_the_blocks_of_a_tool_result_are_kept_behind_the_name_of_the_tool():
    picture = {"type": "image", "url": "http://a/b.png"}
    message = says("report/writer", ToolMessage([picture], tool_call_id="1", name="draw"))
    (told,) = seen([message], "report/boss")
    assert told.content == [{"type": "text", "text": "[writer] draw returned:"}, picture]


def test_tool_calls_beside_content_blocks_are_told_as_text_and_not_as_blocks():
    content = [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "1", "name": "search", "input": {"q": "bees"}},
    ]
    (told,) = seen([says("report/writer", AIMessage(content, tool_calls=[SEARCH]))], "report/boss")
    assert told.content == [
        {"type": "text", "text": "[writer] said:"},
        {"type": "text", "text": "Looking."},
        {"type": "text", "text": '[writer] called search({"q": "bees"})'},
    ]


THOUGHTS = [
    {"type": "thinking", "thinking": "The boss knows.", "signature": "x"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
]


def test_thoughts_of_an_agent_are_shown_to_it_alone():
    message = says("report/writer", AIMessage([*THOUGHTS, {"type": "text", "text": "Bees hum."}]))
    (told,) = seen([message], "report/boss")
    assert told.content == [
        {"type": "text", "text": "[writer] said:"},
        {"type": "text", "text": "Bees hum."},
    ]
    assert seen([message], "report/writer") == [message]


def test_of_thoughts_that_led_to_calls_the_calls_are_told():
    message = says("report/writer", AIMessage(THOUGHTS, tool_calls=[SEARCH]))
    (told, *_) = seen([message], "report/boss")
    assert told.content == [{"type": "text", "text": '[writer] called search({"q": "bees"})'}]


def test_telling_changes_no_message_of_the_history():
    message = says("report/writer", [{"type": "text", "text": "See."}])
    before = message.model_copy(deep=True)
    seen([message], "report/boss")
    assert message == before


def test_own_shows_the_user_and_oneself():
    assert lines(seen(TWO_TURNS, "report/refine[1]/critic", "own")) == [
        "human: Write about bees.",
        "ai: Too short.",
        "human: Now wasps.",
        "human: Be brief.",
    ]


def test_input_shows_the_input_of_the_user_alone():
    assert lines(seen(ONE_TURN, "report/boss", "input")) == ["human: Write about bees."]
    assert lines(seen(ONE_TURN, "report/writer", "input")) == ["human: Write about bees."]


def test_input_of_a_second_turn_is_what_that_turn_was_given():
    assert lines(seen(TWO_TURNS, "report/boss", "input")) == ["human: Now wasps.", "human: Be brief."]


def test_input_is_empty_where_the_user_said_nothing():
    assert seen([], "report/writer", "input") == []
    assert seen([says("report/writer", "Bees.")], "report/boss", "input") == []


def test_what_a_person_answered_is_no_input():
    messages = [*ONE_TURN, says("report/boss", HumanMessage("Print it."))]
    assert lines(seen(messages, "report/writer", "input")) == ["human: Write about bees."]


def test_last_shows_the_input_and_the_last_answer():
    assert lines(seen(ONE_TURN, "report/refine[1]/critic", "last")) == [
        "human: Write about bees.",
        "human: [editor] said: Bees buzz and hum.",
    ]


def test_last_leaves_ones_own_answer_native():
    assert lines(seen(ONE_TURN[:2], "report/writer", "last")) == [
        "human: Write about bees.",
        "ai: Bees buzz.",
    ]


def test_last_shows_the_input_alone_where_nothing_was_answered():
    assert lines(seen(ONE_TURN[:1], "report/writer", "last")) == ["human: Write about bees."]


def test_last_at_the_start_of_a_second_turn_is_the_answer_of_the_first_and_the_new_input():
    assert lines(seen(TWO_TURNS[:-1], "report/writer", "last")) == [
        "human: [editor] said: Bees buzz and hum.",
        "human: Now wasps.",
        "human: Be brief.",
    ]
    assert lines(seen(TWO_TURNS, "report/boss", "last")) == [
        "human: Now wasps.",
        "human: Be brief.",
        "human: [writer] said: Wasps sting.",
    ]


def test_path_shows_what_was_said_on_the_way():
    messages = [
        *ONE_TURN,
        says("report/refine[1]/critic", "Good."),
        says("report/review/legal/law", "Lawful."),
        says("report/review/legal/tax", "Taxed."),
        says("report/review/press", "Nice."),
    ]
    assert lines(seen(messages, "report/refine[1]/editor", "path")) == [
        "human: Write about bees.",
        "human: [writer] said: Bees buzz.",
        "human: [writer2] said: Bees hum.",
        "human: [critic] said: Too short.",
        "ai: Bees buzz and hum.",
        "human: [critic] said: Good.",
    ]
    assert lines(seen(messages, "report/review/legal/tax", "path")) == [
        "human: Write about bees.",
        "human: [writer] said: Bees buzz.",
        "human: [writer2] said: Bees hum.",
        "human: [law] said: Lawful.",
        "ai: Taxed.",
    ]
    assert lines(seen(messages, "report/boss", "path")) == [
        "human: Write about bees.",
        "human: [writer] said: Bees buzz.",
        "human: [writer2] said: Bees hum.",
    ]


def test_path_shows_what_the_same_agents_said_on_the_way_in_an_earlier_turn():
    assert lines(seen(TWO_TURNS, "report/writer2", "path")) == [
        "human: Write about bees.",
        "human: [writer] said: Bees buzz.",
        "ai: Bees hum.",
        "human: Now wasps.",
        "human: Be brief.",
        "human: [writer] said: Wasps sting.",
    ]


def test_path_leaves_out_what_an_agent_said_that_the_tree_no_longer_has():
    messages = [asks("Write."), says("report/gone", "Hello.")]
    assert lines(seen(messages, "report/boss", "path")) == ["human: Write."]
    assert lines(seen(messages, "report/boss")) == ["human: Write.", "human: [gone] said: Hello."]


def test_shared_shows_both_turns():
    assert lines(seen(TWO_TURNS, "report/writer")) == [
        "human: Write about bees.",
        "ai: Bees buzz.",
        "human: [writer2] said: Bees hum.",
        "human: [critic] said: Too short.",
        "human: [editor] said: Bees buzz and hum.",
        "human: Now wasps.",
        "human: Be brief.",
        "ai: Wasps sting.",
    ]


@pytest.mark.parametrize("policy", [*POLICIES, unchanged])
def test_every_policy_shows_nothing_of_nothing(policy):
    assert seen([], "report/writer", policy) == []


def test_there_are_five_policies_with_names():
    assert list(POLICIES) == ["shared", "path", "own", "last", "input"]


def test_a_function_is_given_entries_and_what_it_returns_is_seen():
    given: list[Entry] = []

    def last_two(entries: list[Entry]) -> list[BaseMessage]:
        given.extend(entries)
        return [entry.message for entry in entries[-2:]]

    assert seen(ONE_TURN, "report/boss", last_two) == ONE_TURN[-2:]
    assert [(entry.agent_name, entry.address) for entry in given] == [
        (None, None),
        ("writer", "report/writer"),
        ("writer2", "report/writer2"),
        ("critic", "report/refine[0]/critic"),
        ("editor", "report/refine[0]/editor"),
    ]
    assert [entry.message for entry in given] == ONE_TURN
    assert given[0].run_path == RunPath()
    assert given[3].run_path == RunPath(
        [*map(RunStep, ("report", "writer", "writer2", "refine")), RunStep("critic", 0)]
    )


def test_a_function_may_return_messages_of_its_own():
    def summary(entries: list[Entry]):
        return (HumanMessage(f"{len(entries)} messages") for _ in range(1))

    assert lines(seen(ONE_TURN, "report/boss", summary)) == ["human: 5 messages"]


def test_unchanged_is_a_function_that_shows_the_history_as_it_is():
    assert seen(TWO_TURNS, "report/boss", unchanged) == TWO_TURNS


def test_no_run_path_is_computed_unless_a_policy_needs_it():
    def never(address: str) -> RunPath:
        raise AssertionError("not to be asked")

    for policy in ("shared", "own", "last", "input", unchanged):
        visible(ONE_TURN, policy, "boss", "report/boss", never)


def calls(*asked: str, text: str | list = "") -> AIMessage:
    """Return a message with a call for each `tool/id`; `!tool/id` is an invalid one."""
    made: dict[str, list[Any]] = {"tool_calls": [], "invalid_tool_calls": []}
    for each in asked:
        name, _, call_id = each.lstrip("!").partition("/")
        if each.startswith("!"):
            call = {"name": name, "args": "{", "id": call_id, "type": "invalid_tool_call", "error": ""}
            made["invalid_tool_calls"].append(call)
        else:
            call = {"name": name, "args": {}, "id": call_id, "type": "tool_call"}
            made["tool_calls"].append(call)
    return AIMessage(text, **made)


def gives(answered: str, content: str, **fields) -> ToolMessage:
    """Return what a tool gives to the call `tool/id`."""
    name, _, call_id = answered.partition("/")
    _, found, target = name.partition("transfer_to_")
    marks = {TRANSFERRED: target} if found else {}
    return ToolMessage(content, name=name, tool_call_id=call_id, additional_kwargs=marks, **fields)


HANDED_OVER = [
    asks("Write about bees."),
    says("report/writer", calls("transfer_to_boss/1")),
    says("report/writer", gives("transfer_to_boss/1", "Handed over.")),
]


@pytest.mark.parametrize("at", ["report/boss", "report/writer"])
@pytest.mark.parametrize("policy", POLICIES)
def test_messages_that_only_carry_out_a_transfer_are_left_out_for_everybody(at, policy):
    assert lines(seen(HANDED_OVER, at, policy)) == ["human: Write about bees."]


@pytest.mark.parametrize(
    "content",
    [
        " \n",
        [{"type": "tool_use", "id": "1", "name": "transfer_to_boss", "input": {}}],
        [{"type": "text", "text": ""}, {"type": "thinking", "thinking": "The boss knows."}],
        [{"type": "text", "text": None}, {"type": "reasoning", "summary": []}, ""],
    ],
    ids=["blank", "call", "thinking", "reasoning"],
)
def test_blanks_blocks_of_calls_and_thoughts_say_nothing_beside_a_transfer(content):
    message = says("report/writer", calls("transfer_to_boss/1", text=content))
    assert seen([message, HANDED_OVER[-1]], "report/writer") == []


@pytest.mark.parametrize(
    "content",
    ["The boss knows.", [{"type": "image", "url": "http://a/b.png"}], ["The boss knows."]],
    ids=["text", "image", "text in a list"],
)
def test_an_agent_that_also_says_something_keeps_its_own_transfer(content):
    messages = [says("report/writer", calls("transfer_to_boss/1", text=content)), HANDED_OVER[-1]]
    assert seen(messages, "report/writer") == messages


def test_others_are_told_what_is_said_beside_a_transfer_and_not_the_transfer():
    messages = [
        says("report/writer", calls("transfer_to_boss/1", text="The boss knows.")),
        HANDED_OVER[-1],
    ]
    assert lines(seen(messages, "report/boss")) == ["human: [writer] said: The boss knows."]


def test_others_are_told_the_other_calls_beside_a_transfer_and_what_they_returned():
    messages = [
        says("report/writer", calls("transfer_to_boss/1", "search/2", "!draw/3")),
        says("report/writer", gives("transfer_to_boss/1", "Handed over.")),
        says("report/writer", gives("search/2", "3 hits")),
        says("report/writer", gives("draw/3", "No JSON.", status="error")),
    ]
    assert seen(messages, "report/writer") == messages
    assert lines(seen(messages, "report/boss")) == [
        "human: [writer] called search({})",
        "human: [writer] search returned: 3 hits",
        "human: [writer] draw returned: No JSON.",
    ]


def test_a_transfer_that_failed_is_told_as_any_other_call():
    messages = [
        HANDED_OVER[1],
        says("report/writer", gives("transfer_to_boss/1", "There is no boss.", status="error")),
    ]
    assert seen(messages, "report/writer") == messages
    assert lines(seen(messages, "report/boss")) == [
        "human: [writer] called transfer_to_boss({})",
        "human: [writer] transfer_to_boss returned: There is no boss.",
    ]


def test_of_two_transfers_the_one_that_failed_is_told():
    messages = [
        says("report/writer", calls("transfer_to_boss/1", "transfer_to_press/2")),
        says("report/writer", gives("transfer_to_boss/1", "Handed over.")),
        says("report/writer", gives("transfer_to_press/2", "Only one.", status="error")),
    ]
    assert lines(seen(messages, "report/boss")) == [
        "human: [writer] called transfer_to_press({})",
        "human: [writer] transfer_to_press returned: Only one.",
    ]


def test_a_transfer_without_an_answer_is_not_left_out():
    messages = [HANDED_OVER[1]]
    assert lines(seen(messages, "report/boss")) == ["human: [writer] called transfer_to_boss({})"]
    assert lines(seen(messages, "report/writer")) == ["ai: ", "tool: No result of this call was kept."]


def test_what_answers_a_call_without_a_result_has_the_same_id_wherever_it_is_seen():
    asked = AIMessage("", id="m", tool_calls=[call("search", "1"), call("search", "1")])
    alone, later = paired([asked]), paired([HumanMessage("Hm.", id="0"), asked])
    assert [message.id for message in alone] == ["m", "m 0", "m 1"]
    assert later[1:] == alone
    assert [each.id for each in paired([asked.model_copy(update={"id": None})])] == [None] * 3


def test_transfers_of_every_round_are_left_out_though_their_ids_repeat():
    assert lines(seen([*HANDED_OVER, *HANDED_OVER], "report/boss")) == [
        "human: Write about bees.",
        "human: Write about bees.",
    ]


def test_a_transfer_among_the_messages_of_the_user_is_left_out_too():
    messages = [
        asks("Hello"),
        calls("transfer_to_boss/1"),
        gives("transfer_to_boss/1", "Handed over."),
        calls("transfer_to_boss/1", text="Over."),
        gives("transfer_to_boss/1", "Handed over."),
    ]
    assert seen(messages, "report/writer") == [messages[0], *messages[3:]]


def test_last_is_the_last_answer_before_a_transfer():
    messages = [asks("Go."), says("report/writer", "Bees buzz."), *HANDED_OVER[1:]]
    assert lines(seen(messages, "report/boss", "last")) == [
        "human: Go.",
        "human: [writer] said: Bees buzz.",
    ]


def test_the_input_of_a_turn_is_not_that_of_a_turn_in_which_there_were_only_transfers():
    assert lines(seen([*HANDED_OVER, asks("Well?")], "report/boss", "input")) == ["human: Well?"]


def test_a_function_is_given_the_transfers():
    assert seen(HANDED_OVER, "report/boss", unchanged) == HANDED_OVER


def test_leaving_transfers_out_changes_no_message_of_the_history():
    messages = [says("report/writer", calls("transfer_to_boss/1", text="Over.")), *HANDED_OVER]
    before = [message.model_copy(deep=True) for message in messages]
    seen(messages, "report/boss")
    assert messages == before


class TestPairing:
    def test_results_stand_behind_their_calls_in_the_order_of_the_calls(self):
        asked, one, two = calls("search/1", "count/2"), gives("search/1", "3"), gives("count/2", "4")
        assert paired([asked, two, one]) == [asked, one, two]

    def test_results_of_two_messages_come_each_to_their_own(self):
        first, second = calls("search/1"), calls("search/2", text="And")
        one, two = gives("search/1", "3"), gives("search/2", "4")
        assert paired([first, second, two, one]) == [first, one, second, two]

    def test_what_a_person_says_between_a_call_and_its_result_moves_behind_the_result(self):
        asked, result = calls("search/1"), gives("search/1", "3 hits")
        assert paired([asks("Go."), asked, asks("Stop!"), result, asks("Now.")]) == [
            asks("Go."),
            asked,
            result,
            asks("Stop!"),
            asks("Now."),
        ]

    def test_a_call_without_an_answer_gets_one_that_says_so(self):
        asked = calls("search/1", "count/2", "!draw/3")
        assert paired([asked, gives("count/2", "4"), asks("Well?")]) == [
            asked,
            gives("search/1", "No result of this call was kept.", status="error"),
            gives("count/2", "4"),
            gives("draw/3", "No result of this call was kept.", status="error"),
            asks("Well?"),
        ]

    def test_a_call_without_an_id_is_answered_too(self):
        asked = AIMessage("", tool_calls=[{**SEARCH, "id": None}])
        assert pairing_faults(paired([asked])) == []

    def test_a_result_without_its_call_is_told_as_text(self):
        message = says("report/writer", gives("search/1", "3 hits"))
        assert lines(paired([message])) == ["human: [writer] search returned: 3 hits"]
        assert paired([message])[0].id == message.id

    def test_a_result_of_which_nobody_knows_the_speaker_is_told_by_the_name_of_the_tool(self):
        assert paired([gives("search/1", "3 hits")]) == [HumanMessage("search returned: 3 hits")]
        assert lines(paired([ToolMessage("3 hits", tool_call_id="1")])) == [
            "human: tool returned: 3 hits"
        ]

    def test_the_blocks_of_a_result_without_its_call_are_kept(self):
        picture = {"type": "image", "url": "http://a/b.png"}
        (told,) = paired([ToolMessage([picture], name="draw", tool_call_id="1")])
        assert told.content == [{"type": "text", "text": "draw returned:"}, picture]

    def test_a_second_answer_to_a_call_is_told_behind_the_first(self):
        asked = calls("search/1")
        messages = paired([asked, gives("search/1", "3 hits"), gives("search/1", "4 hits")])
        assert lines(messages) == ["ai: ", "tool: 3 hits", "human: search returned: 4 hits"]

    def test_a_result_before_its_call_does_not_answer_it(self):
        assert lines(paired([gives("search/1", "3 hits"), calls("search/1")])) == [
            "human: search returned: 3 hits",
            "ai: ",
            "tool: No result of this call was kept.",
        ]

    def test_ids_of_calls_may_repeat_from_round_to_round(self):
        rounds = [
            calls("search/1"),
            gives("search/1", "1 hit"),
            calls("search/1"),
            calls("search/1"),
            gives("search/1", "3 hits"),
        ]
        assert lines(paired(rounds)) == [
            "ai: ",
            "tool: 1 hit",
            "ai: ",
            "tool: No result of this call was kept.",
            "ai: ",
            "tool: 3 hits",
        ]

    def test_two_calls_of_one_id_take_two_results_in_order(self):
        messages = [calls("search/1", "search/1"), gives("search/1", "3"), gives("search/1", "4")]
        assert paired(messages) == messages

    def test_one_message_twice_in_a_history_is_paired_twice(self):
        round_ = [calls("search/1"), gives("search/1", "3 hits")]
        assert paired([*round_, *round_]) == [*round_, *round_]

    def test_messages_without_calls_come_back_as_they_are_in_a_list_of_their_own(self):
        assert paired(tuple(TWO_TURNS)) == TWO_TURNS
        assert paired(TWO_TURNS) is not TWO_TURNS

    def test_a_policy_that_cuts_a_call_off_shows_its_result_as_text(self):
        messages = [
            asks("Go."),
            says("report/writer", calls("search/1")),
            says("report/writer", gives("search/1", "3 hits")),
        ]
        cut = ["human: [writer] search returned: 3 hits"]
        assert lines(seen(messages, "report/writer", lambda entries: [entries[-1].message])) == cut
        assert lines(seen(messages, "report/writer", "last")) == ["human: Go.", *cut]

    def test_a_function_that_drops_a_result_shows_its_call_as_not_finished(self):
        messages = [calls("search/1"), gives("search/1", "3 hits")]
        assert lines(seen(messages, "report/writer", lambda entries: [entries[0].message])) == [
            "ai: ",
            "tool: No result of this call was kept.",
        ]

    def test_calls_of_others_leave_ones_own_calls_of_the_same_id_alone(self):
        messages = [
            says("report/writer", calls("search/1")),
            says("report/boss", calls("count/1")),
            says("report/boss", gives("count/1", "4")),
        ]
        assert lines(seen(messages, "report/writer")) == [
            "ai: ",
            "tool: No result of this call was kept.",
            "human: [boss] called count({})",
            "human: [boss] count returned: 4",
        ]


TOOLS = st.sampled_from(["search", "count", "transfer_to_boss"])
CALLED = st.builds("{}{}/{}".format, st.sampled_from(["", "", "!"]), TOOLS, st.sampled_from("123"))
STATUS = st.sampled_from(["success", "success", "error"])
MESSAGE = st.one_of(
    st.just(HumanMessage("")),
    st.just(SystemMessage("")),
    st.builds(lambda asked: calls(*asked), st.lists(CALLED, max_size=3)),
    st.builds(lambda to, status: gives(to.lstrip("!"), "", status=status), CALLED, STATUS),
)
SPEAKER = st.sampled_from([None, "report/writer", "report/boss"])


@st.composite
def mixes(draw, said_by=SPEAKER) -> list[BaseMessage]:
    """Return any messages in any order, each with a text of its own, or none."""
    messages = []
    for number, message in enumerate(draw(st.lists(MESSAGE, max_size=12))):
        told = message.model_copy(update={"content": f"<{number}>"}) if draw(st.booleans()) else message
        speaker = draw(said_by)
        messages.append(told if speaker is None else stamped(told, speaker))
    return messages


def marks(messages: list[BaseMessage]) -> list[str]:
    """Return the texts of their own that messages have, however they are told."""
    return [found.group() for m in messages if (found := re.search(r"<\d+>", m.text))]


@given(mixes())
@settings(max_examples=300, deadline=None)
def test_any_mix_of_messages_is_paired_so_that_a_model_takes_it_and_nothing_is_lost(messages):
    before = [message.model_copy(deep=True) for message in messages]

    result = paired(messages)

    assert ScriptedChatModel(responses=["Taken."]).invoke(result).text == "Taken."
    assert paired(result) == result
    assert messages == before
    assert sorted(marks(result)) == sorted(marks(messages))
    spoken = [m for m in messages if not isinstance(m, ToolMessage)]
    kept = {id(m) for m in messages}
    assert [m for m in result if id(m) in kept and not isinstance(m, ToolMessage)] == spoken
    made_up = [m for m in result if id(m) not in kept]
    assert {m.type for m in made_up} <= {"human", "tool"}
    assert {m.text for m in made_up if m.type == "tool"} <= {"No result of this call was kept."}


def as_it_is(entries: list[Entry]) -> list[BaseMessage]:
    return [entry.message for entry in entries]


@given(mixes(), st.sampled_from([*POLICIES, as_it_is]), st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_whatever_an_agent_sees_of_any_mix_of_messages_a_model_takes_it(messages, policy, budget):
    for at in ("report/writer", "report/boss"):
        assert pairing_faults(seen(messages, at, policy)) == []
        cut = seen(messages, at, trimmed(budget, history=policy, token_counter=len))
        assert pairing_faults(cut) == []


def test_a_trimmed_history_shows_the_newest_of_what_its_policy_chooses():
    policy = trimmed(2, token_counter=len)
    assert lines(seen(ONE_TURN, "report/boss", policy)) == [
        "human: [critic] said: Too short.",
        "human: [editor] said: Bees buzz and hum.",
    ]
    own = trimmed(2, history="own", token_counter=len)
    assert lines(seen(TWO_TURNS, "report/writer", own)) == ["human: Be brief.", "ai: Wasps sting."]
    told = trimmed(1, history=unchanged, token_counter=len)
    assert seen(ONE_TURN, "report/boss", told) == ONE_TURN[-1:]


def test_a_summarized_history_shows_all_that_its_policy_chooses():
    model = ScriptedChatModel(responses=[])
    assert seen(ONE_TURN, "report/boss", summarized(model, 1)) == seen(ONE_TURN, "report/boss")
    own = summarized(model, 1, history="own")
    assert seen(ONE_TURN, "report/writer", own) == seen(ONE_TURN, "report/writer", "own")
