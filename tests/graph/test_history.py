"""History: what an agent sees of a conversation."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentgraph import Entry, RunPath, RunStep, function_agent, loop, parallel, sequential
from agentgraph.agents.budgets import summarized, trimmed
from agentgraph.agents.tools import TRANSFERRED
from agentgraph.graph.history import POLICIES, REQUEST, paired, unchanged, visible
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


USER = "human: Write about bees."
WRITER = "human: [writer] said: Bees buzz."
WRITER2 = "human: [writer2] said: Bees hum."
CRITIC = "human: [critic] said: Too short."
EDITOR = "human: [editor] said: Bees buzz and hum."
WASPS = ["human: Now wasps.", "human: Be brief."]
LATER = [
    *ONE_TURN,
    says("report/refine[1]/critic", "Good."),
    says("report/review/legal/law", "Lawful."),
    says("report/review/legal/tax", "Taxed."),
    says("report/review/press", "Nice."),
    says("report/gone", "Not in the tree any more."),
]
SHOWN: dict[str, tuple[list[BaseMessage], str, str, list[str]]] = {
    "shared shows both turns, and compares no names by prefix": (
        TWO_TURNS,
        "shared",
        "report/writer",
        [USER, "ai: Bees buzz.", WRITER2, CRITIC, EDITOR, *WASPS, "ai: Wasps sting."],
    ),
    "own shows the user and oneself": (
        TWO_TURNS,
        "own",
        "report/refine[1]/critic",
        [USER, "ai: Too short.", *WASPS],
    ),
    "input shows the input of the user alone": (ONE_TURN, "input", "report/writer", [USER]),
    "input of a second turn is that of the turn": (TWO_TURNS, "input", "report/boss", WASPS),
    "input is empty where the user said nothing": (ONE_TURN[1:], "input", "report/boss", []),
    "input does not hold the answer of a person": (
        [*ONE_TURN, says("report/boss", HumanMessage("Print it."))],
        "input",
        "report/writer",
        [USER],
    ),
    "last shows the input and the last answer": (ONE_TURN, "last", "report/writer", [USER, EDITOR]),
    "last leaves the agent's own answer native": (
        ONE_TURN[:2],
        "last",
        "report/writer",
        [USER, "ai: Bees buzz."],
    ),
    "last shows the input alone where nothing was answered": (
        ONE_TURN[:1],
        "last",
        "report/writer",
        [USER],
    ),
    "last at the start of a turn is the last answer of the turn before": (
        TWO_TURNS[:-1],
        "last",
        "report/writer",
        [EDITOR, *WASPS],
    ),
    "path shows what was said on the way": (
        LATER,
        "path",
        "report/refine[1]/editor",
        [USER, WRITER, WRITER2, CRITIC, "ai: Bees buzz and hum.", "human: [critic] said: Good."],
    ),
    "path in a branch shows no other branch, and not the inside of what ended before": (
        LATER,
        "path",
        "report/review/legal/tax",
        [USER, WRITER, WRITER2, "human: [law] said: Lawful.", "ai: Taxed."],
    ),
    "path after a join shows what was said on the way, and not what the tree no longer has": (
        LATER,
        "path",
        "report/boss",
        [USER, WRITER, WRITER2],
    ),
    "path shows the way of an earlier turn too": (
        TWO_TURNS,
        "path",
        "report/writer2",
        [USER, WRITER, "ai: Bees hum.", *WASPS, "human: [writer] said: Wasps sting."],
    ),
}


@pytest.mark.parametrize("case", SHOWN)
def test_a_policy_shows(case):
    messages, policy, at, expected = SHOWN[case]
    assert lines(seen(messages, at, policy)) == expected


def test_words_of_others_become_a_user_message_that_names_the_speaker():
    message = says("report/writer", AIMessage("Bees buzz.", id="7"))
    expected = HumanMessage("[writer] said: Bees buzz.", name="writer", id="7")
    assert seen([message], "report/boss") == [expected]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AIMessage(""), "[writer] said: "),
        (AIMessage("", tool_calls=[SEARCH]), '[writer] called search({"q": "bees"})'),
    ],
    ids=["an empty answer", "a message that only calls tools"],
)
def test_without_text_others_see(message, expected):
    assert lines(seen([says("report/writer", message)], "report/boss")) == [f"human: {expected}"]


def test_the_messages_of_the_user_stay_as_they_are():
    messages = [SystemMessage("Be kind."), asks("Hello", name="eve", id="1"), AIMessage("An example.")]
    assert seen(messages, "report/writer") == messages


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


@pytest.mark.parametrize(
    ("messages", "policy", "expected"),
    [
        ([*HANDED_OVER, *HANDED_OVER], "shared", ["human: Write about bees."] * 2),
        (
            [asks("Go."), says("report/writer", "Bees buzz."), *HANDED_OVER[1:]],
            "last",
            ["human: Go.", "human: [writer] said: Bees buzz."],
        ),
        ([*HANDED_OVER, asks("Well?")], "input", ["human: Well?"]),
        (
            [says("report/writer", calls("transfer_to_boss/1", text="He knows.")), HANDED_OVER[-1]],
            "shared",
            ["human: [writer] said: He knows."],
        ),
        (
            [HANDED_OVER[1], says("report/writer", gives("transfer_to_boss/1", "No.", status="error"))],
            "shared",
            [
                "human: [writer] called transfer_to_boss({})",
                "human: [writer] transfer_to_boss returned: No.",
            ],
        ),
    ],
    ids=[
        "every round is left out though ids repeat",
        "last is the last answer before the transfer",
        "a turn of transfers only has an input of its own",
        "words next to a transfer are shown without it",
        "a failed transfer is shown like any call",
    ],
)
def test_of_transfers_others_see(messages, policy, expected):
    assert lines(seen(messages, "report/boss", policy)) == expected


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

    def test_messages_without_calls_come_back_as_they_are_in_a_list_of_their_own(self):
        assert paired(tuple(TWO_TURNS)) == TWO_TURNS
        assert paired(TWO_TURNS) is not TWO_TURNS


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


def test_the_request_to_an_agent_as_a_tool_is_its_whole_input():
    request = HumanMessage("Find bees.", additional_kwargs={REQUEST: True})
    assert seen([asks("Go."), request], "report/writer", "input") == [request]
