"""History: what an agent sees of a conversation."""

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentgraph import Entry, RunPath, RunStep, function_agent, loop, parallel, sequential
from agentgraph.history import POLICIES, unchanged, visible
from agentgraph.places import lay_out
from agentgraph.position import RunPaths
from agentgraph.state import speaker_at, stamped


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
