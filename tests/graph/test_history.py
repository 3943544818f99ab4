"""What an agent sees of a conversation: by its `history=`, with the words of others as quotations."""

import re
from typing import Any

import pytest
from helpers import says as agent
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolMessage,
)

import agentgraph as ag
from agentgraph.agents.budgets import summarized, trimmed
from agentgraph.agents.tools import TRANSFERRED
from agentgraph.graph.history import NO_RESULT, POLICIES, REQUEST, calls_of, paired, unchanged, visible
from agentgraph.graph.state import speaker_at, stamped
from agentgraph.testing import ScriptedChatModel, call, pairing_faults
from agentgraph.tree.addresses import RunPaths
from agentgraph.tree.places import lay_out

legal = ag.sequential("legal", [agent("law"), agent("tax")])
refine = ag.loop("refine", [agent("critic"), agent("editor")], max_iterations=9)
review = ag.parallel("review", [legal, agent("press")])
TREE = ag.sequential("r", [agent("writer"), agent("writer2"), refine, review, agent("boss")])
PATHS = RunPaths(lay_out(TREE))


def says(said: str | list[Any] | BaseMessage, at: str = "r/writer") -> Any:
    return stamped(said if isinstance(said, BaseMessage) else AIMessage(said), at)


def talk(text: str) -> list[BaseMessage]:
    """Return messages of one word; those of agents are led by their places: `Go? writer:Done.`"""
    made = (each.rpartition(":") for each in text.split())
    return [says(word, f"r/{at}") if at else HumanMessage(word) for at, _, word in made]


def seen(messages: list[BaseMessage], at: str = "boss", policy: Any = "shared") -> list[BaseMessage]:
    address = f"r/{at}"
    return visible(messages, policy, speaker_at(address), address, PATHS.of)


def words(messages: list[BaseMessage]) -> str:
    """Return the last words of messages."""
    return " ".join(message.text.rpartition(" ")[2] for message in messages)


TURN = "Bees? writer:Buzz. writer2:Hum. refine[0]/critic:Short. refine[0]/editor:Long."
NEXT = f"{TURN} Wasps? Quick!"
TWO = f"{NEXT} writer:Sting."
LATER = (
    f"{TURN} refine[1]/critic:Good. review/legal/law:Lawful. review/legal/tax:Taxed. "
    "review/press:Nice. gone:Removed."
)
CHOSEN = {
    "shared is everything": (
        "shared", "writer", TWO, "Bees? Buzz. Hum. Short. Long. Wasps? Quick! Sting."
    ),
    "own is the user and the agent": ("own", "writer", TWO, "Bees? Buzz. Wasps? Quick! Sting."),
    "own is by name, in any iteration": ("own", "refine[1]/critic", TURN, "Bees? Short."),
    "input is what the user said last": ("input", "boss", TWO, "Wasps? Quick!"),
    "input is empty without a user": ("input", "boss", "writer:Buzz.", ""),
    "last is the input and the last answer": ("last", "writer", TURN, "Bees? Long."),
    "last may be the agent's own": ("last", "writer", "Bees? writer:Buzz.", "Bees? Buzz."),
    "last is the input alone before any answer": ("last", "writer", "Bees?", "Bees?"),
    "last may be an answer of the turn before": ("last", "writer", NEXT, "Long. Wasps? Quick!"),
    "path is what was said on the way": (
        "path", "refine[1]/editor", LATER, "Bees? Buzz. Hum. Short. Long. Good."
    ),
    "path in a branch has no other branch": (
        "path", "review/legal/tax", LATER, "Bees? Buzz. Hum. Lawful. Taxed."
    ),
    "path after a join has nothing of the branches or of agents that are gone": (
        "path", "boss", LATER, "Bees? Buzz. Hum."
    ),
    "path is also that of earlier turns": (
        "path", "writer2", TWO, "Bees? Buzz. Hum. Wasps? Quick! Sting."
    ),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "at", "said", "expected"), CHOSEN.values(), ids=CHOSEN)
def test_a_policy_chooses(policy: str, at: str, said: str, expected: str) -> None:
    assert words(seen(talk(said), at, policy)) == expected


def test_no_run_path_is_computed_unless_the_policy_is_path() -> None:
    def never(address: str) -> Any:
        raise AssertionError("not to be asked")

    for policy in ("shared", "own", "last", "input", unchanged):
        visible(talk(TURN), policy, "boss", "r/boss", never)


def test_the_input_has_no_answers_of_people_and_begins_at_a_request() -> None:
    answered = [HumanMessage("Go."), says(HumanMessage("Print it."), "r/boss")]
    assert seen(answered, "writer", "input") == answered[:1]
    request = HumanMessage("Find bees.", additional_kwargs={REQUEST: True})
    assert seen([HumanMessage("Go."), request], "writer", "input") == [request]


def test_a_function_gets_entries_and_returns_what_is_seen() -> None:
    messages, got = talk(TURN), []

    def last_two(entries: list[ag.Entry]) -> list[BaseMessage]:
        got.extend(entries)
        return [entry.message for entry in entries[-2:]]

    assert seen(messages, "boss", last_two) == messages[-2:]
    assert [entry.message for entry in got] == messages
    assert [(entry.agent_name, entry.address, str(entry.run_path)) for entry in got] == [
        (None, None, ""),
        ("writer", "r/writer", "r/writer"),
        ("writer2", "r/writer2", "r/writer/writer2"),
        ("critic", "r/refine[0]/critic", "r/writer/writer2/refine/critic"),
        ("editor", "r/refine[0]/editor", "r/writer/writer2/refine/critic/editor"),
    ]


def test_a_trimmed_history_shows_the_newest_of_what_its_policy_chooses() -> None:
    assert words(seen(talk(TURN), "boss", trimmed(2, token_counter=len))) == "Short. Long."
    own = trimmed(2, history="own", token_counter=len)
    assert words(seen(talk(TWO), "writer", own)) == "Quick! Sting."
    native = trimmed(1, history=unchanged, token_counter=len)
    assert seen(talk(TURN), "boss", native)[0].type == "ai"


def test_a_summarized_history_shows_all_that_its_policy_chooses() -> None:
    model = ScriptedChatModel(responses=[])
    assert words(seen(talk("Go? boss:Yes."), "boss", summarized(model, 1))) == "Go? Yes."
    assert words(seen(talk(TURN), "writer", summarized(model, 1, history="own"))) == "Bees? Buzz."


# the words of others

INVALID: Any = "invalid_tool_call"
SEARCH = call("search", "1", q="bees")
PICTURE = {"type": "image", "url": "http://a/b.png"}
LOOKING = {"type": "text", "text": "Looking."}
THOUGHTS = [
    {"type": "thinking", "thinking": "The boss knows.", "signature": "x"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
]


def blocks(*items: Any) -> list[Any]:
    return [{"type": "text", "text": item} if isinstance(item, str) else item for item in items]


CALLED = '[writer] called search({"q": "bees"})'
QUOTED: dict[str, tuple[BaseMessage, Any]] = {
    "words": (AIMessage("Hi."), "[writer] said: Hi."),
    "no words": (AIMessage(""), "[writer] said: "),
    "a call": (AIMessage("", tool_calls=[SEARCH]), CALLED),
    "words and calls": (
        AIMessage("Hm.", tool_calls=[SEARCH, call("count", "2", größe=[1, {"a": None}])]),
        f'[writer] said: Hm.\n{CALLED}\n[writer] called count({{"größe": [1, {{"a": null}}]}})',
    ),
    "words of a person": (HumanMessage("Print it."), "[writer] said: Print it."),
    "a note": (SystemMessage("Psst."), "[writer] said: Psst."),
    "a result": (ToolMessage("3", tool_call_id="1", name="search"), "[writer] search returned: 3"),
    "blocks": (AIMessage([LOOKING, PICTURE]), blocks("[writer] said:", LOOKING, PICTURE)),
    "a result of blocks": (
        ToolMessage([PICTURE], tool_call_id="1", name="draw"),
        blocks("[writer] draw returned:", PICTURE),
    ),
    "blocks beside a call, without the block of the call": (
        AIMessage([LOOKING, {"type": "tool_use", "id": "1", "name": "search"}], tool_calls=[SEARCH]),
        blocks("[writer] said:", LOOKING, CALLED),
    ),
    "words without the thoughts": (AIMessage([*THOUGHTS, LOOKING]), blocks("[writer] said:", LOOKING)),
    "a call without the thoughts": (AIMessage([*THOUGHTS], tool_calls=[SEARCH]), blocks(CALLED)),
}  # fmt: skip


@pytest.mark.parametrize(("message", "expected"), QUOTED.values(), ids=QUOTED)
def test_another_agent_reads_as_a_quotation(message: BaseMessage, expected: Any) -> None:
    quoted, *_ = seen([says(message.model_copy(update={"id": "7"}))])
    assert quoted == HumanMessage(expected, name="writer", id="7")


def test_the_words_of_the_user_and_of_the_agent_itself_stay_as_they_are() -> None:
    user = [SystemMessage("Be kind."), HumanMessage("Hello", name="eve"), AIMessage("An example.")]
    messages = [*user, says([*THOUGHTS, LOOKING])]
    assert seen(messages, "writer") == messages


# transfers


def made(*asked: str, text: str | list[Any] = "") -> AIMessage:
    """Return a message with a call for each `tool/id`; `!tool/id` is an invalid one."""
    valid, invalid = [], []
    for each in asked:
        name, _, call_id = each.lstrip("!").partition("/")
        if each.startswith("!"):
            invalid.append(InvalidToolCall(name=name, args="{", id=call_id, error="", type=INVALID))
        else:
            valid.append(call(name, call_id))
    return AIMessage(text, tool_calls=valid, invalid_tool_calls=invalid)


def result(answered: str, content: str = "", **fields: Any) -> ToolMessage:
    """Return the result of the call `tool/id`."""
    name, _, call_id = answered.partition("/")
    _, is_transfer, target = name.partition("transfer_to_")
    marks = {TRANSFERRED: target} if is_transfer else {}
    return ToolMessage(content, name=name, tool_call_id=call_id, additional_kwargs=marks, **fields)


TO_BOSS, DONE = says(made("transfer_to_boss/1")), says(result("transfer_to_boss/1", "Done."))
TRANSFERS: dict[str, tuple[list[Any], str, str]] = {
    "no transfer, though ids repeat": ([TO_BOSS, DONE, TO_BOSS, DONE], "shared", ""),
    "by last the answer before it": (
        [*talk("Go? writer:Buzz."), TO_BOSS, DONE],
        "last",
        "Go? + [writer] said: Buzz.",
    ),
    "by input the words of the user after it": (
        [*talk("Go?"), TO_BOSS, DONE, *talk("Well?")],
        "input",
        "Well?",
    ),
    "words without the call": (
        [says(made("transfer_to_boss/1", text="He knows.")), DONE],
        "shared",
        "[writer] said: He knows.",
    ),
    "the failed one of two": (
        [
            says(made("transfer_to_boss/1", "transfer_to_press/2")),
            *[DONE, says(result("transfer_to_press/2", "No.", status="error"))],
        ],
        "shared",
        "[writer] called transfer_to_press({}) + [writer] transfer_to_press returned: No.",
    ),
    "one without a result": (
        [says(made("transfer_to_boss/2"))],
        "shared",
        "[writer] called transfer_to_boss({})",
    ),
    "the other calls and results": (
        [
            says(made("transfer_to_boss/1", "search/2", "!draw/3")),
            *[DONE, says(result("search/2", "3 hits")), says(result("draw/3", "No JSON."))],
        ],
        "shared",
        "[writer] called search({}) + [writer] search returned: 3 hits"
        " + [writer] draw returned: No JSON.",
    ),
}


@pytest.mark.parametrize(("messages", "policy", "expected"), TRANSFERS.values(), ids=TRANSFERS)
def test_of_transfers_others_see(messages: list[Any], policy: str, expected: str) -> None:
    assert " + ".join(each.text for each in seen(messages, "boss", policy)) == expected


@pytest.mark.parametrize("at", ["boss", "writer"])
@pytest.mark.parametrize("policy", [*POLICIES, unchanged])
def test_only_functions_get_messages_that_only_carry_out_a_transfer(at: str, policy: Any) -> None:
    messages = [*talk("Go?"), TO_BOSS, DONE]
    assert seen(messages, at, policy) == (messages if policy is unchanged else messages[:1])


@pytest.mark.parametrize(
    "text",
    [
        " \n",
        [{"type": "tool_use", "id": "1", "name": "transfer_to_boss", "input": {}}],
        [*blocks(""), THOUGHTS[0]],
        [{"type": "text", "text": None}, THOUGHTS[2], ""],
    ],
    ids=["blank", "call", "thinking", "reasoning"],
)
def test_a_transfer_beside_nothing_but_blanks_calls_and_thoughts_is_hidden(text: Any) -> None:
    assert seen([says(made("transfer_to_boss/1", text=text)), DONE], "writer") == []


@pytest.mark.parametrize(
    "text", ["He knows.", [PICTURE], ["He knows."]], ids=["text", "picture", "list"]
)
def test_an_agent_sees_its_own_transfer_beside_words_and_calls(text: Any) -> None:
    for message in (made("transfer_to_boss/1", text=text), made("transfer_to_boss/1", "search/2")):
        results = [result(f"{each['name']}/{each['id']}") for each in calls_of(message)]
        messages = [says(each) for each in (message, *results)]
        assert seen(messages, "writer") == messages


# calls and their results


def script(text: str) -> list[BaseMessage]:
    """Return messages: `say Go.`, `ask 1 !2` (calls, one of them invalid), `give 1` (a result)."""
    made_by: dict[str, Any] = {
        "say": lambda word: HumanMessage(word),
        "ask": lambda *ids: made(
            *(f"{'!' * (each[0] == '!')}search/{each.lstrip('!')}" for each in ids)
        ),
        "give": lambda each: result(f"search/{each}", f"result {each}"),
    }
    return [made_by[act](*given) for act, *given in map(str.split, text.split(", "))]


def told(message: BaseMessage) -> str:
    if isinstance(message, AIMessage):
        return " ".join(["ask", *(str(each["id"]) for each in calls_of(message))])
    if isinstance(message, ToolMessage):
        return f"{'none' if message.text == NO_RESULT else 'give'} {message.tool_call_id}"
    quoted = message.text.removeprefix("search returned: result")
    return f"say {message.text}" if quoted == message.text else f"quote{quoted}"


PAIRED = {
    "in the order of calls": ("ask 1 2, give 2, give 1", "ask 1 2, give 1, give 2"),
    "before what a person said meanwhile": (
        "say Go., ask 1, say Stop!, give 1, say Now.", "say Go., ask 1, give 1, say Stop!, say Now."
    ),
    "with one that says so where there is none": (
        "ask 1 2 !3, give 2, say Well?", "ask 1 2 3, none 1, give 2, none 3, say Well?"
    ),
    "as a text if there was no call": ("say Go., give 1", "say Go., quote 1"),
    "as a text if the call came later": ("give 1, ask 1", "quote 1, ask 1, none 1"),
    "as a text if it is the second": ("ask 1, give 1, give 1", "ask 1, give 1, quote 1"),
    "with the last call of an id": (
        "ask 1, give 1, ask 1, ask 1, give 1", "ask 1, give 1, ask 1, none 1, ask 1, give 1"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), PAIRED.values(), ids=PAIRED)
def test_results_come_after_their_calls(given: str, expected: str) -> None:
    assert ", ".join(map(told, paired(script(given)))) == expected


def test_a_result_that_is_made_up_is_an_error_with_the_same_id_wherever_it_is_seen() -> None:
    asked = AIMessage("", id="m", tool_calls=[SEARCH, call("count", None)])
    assert paired([asked]) == [
        asked,
        ToolMessage(NO_RESULT, id="m 0", name="search", tool_call_id="1", status="error"),
        ToolMessage(NO_RESULT, id="m 1", name="count", tool_call_id="", status="error"),
    ]
    assert paired([HumanMessage("Hm."), asked])[1:] == paired([asked])
    assert [each.id for each in paired([asked.model_copy(update={"id": None})])] == [None] * 3


def test_a_result_without_a_call_is_quoted_with_what_is_known_of_it() -> None:
    known = says(result("search/1", "3 hits", id="7"))
    quoted = HumanMessage("[writer] search returned: 3 hits", name="writer", id="7")
    assert paired([known]) == [quoted]
    assert paired([ToolMessage("3 hits", tool_call_id="1")]) == [HumanMessage("tool returned: 3 hits")]


def test_messages_without_calls_come_back_in_a_list_of_their_own() -> None:
    messages = talk(TWO)
    assert paired(messages) == messages
    assert paired(messages) is not messages


TOOLS = st.sampled_from(["search", "count", "transfer_to_boss"])
CALLS = st.builds("{}{}/{}".format, st.sampled_from(["", "", "!"]), TOOLS, st.sampled_from("123"))
MESSAGES = st.one_of(
    st.just(HumanMessage("")),
    st.just(SystemMessage("")),
    st.lists(CALLS, max_size=3).map(lambda asked: made(*asked)),
    st.builds(
        lambda to, status: result(to.lstrip("!"), status=status),
        CALLS,
        st.sampled_from(["success", "success", "error"]),
    ),
)


@st.composite
def mixes(draw: Any) -> list[BaseMessage]:
    """Return any messages of anybody in any order, each with a text of its own, or none."""
    messages = []
    for number, message in enumerate(draw(st.lists(MESSAGES, max_size=12))):
        content = f"<{number}>" if draw(st.booleans()) else ""
        message = message.model_copy(update={"content": content})
        speaker = draw(st.sampled_from([None, "r/writer", "r/boss"]))
        messages.append(says(message, speaker) if speaker else message)
    return messages


def marks(messages: list[BaseMessage]) -> list[str]:
    return sorted(found.group() for m in messages if (found := re.search(r"<\d+>", m.text)))


@given(mixes())
@settings(max_examples=300, deadline=None)
def test_any_mix_is_paired_so_that_a_model_takes_it_and_nothing_is_lost(
    messages: list[BaseMessage],
) -> None:
    before = [message.model_copy(deep=True) for message in messages]

    paired_ones = paired(messages)

    assert ScriptedChatModel(responses=["Taken."]).invoke(paired_ones).text == "Taken."
    assert paired(paired_ones) == paired_ones
    assert messages == before
    assert marks(paired_ones) == marks(messages)
    given_ones = {id(m) for m in messages}
    kept = [m for m in paired_ones if id(m) in given_ones and m.type != "tool"]
    assert kept == [m for m in messages if m.type != "tool"]
    made_up = [m for m in paired_ones if id(m) not in given_ones]
    assert {m.text for m in made_up if m.type != "human"} <= {NO_RESULT}


@given(mixes(), st.sampled_from([*POLICIES, lambda entries: unchanged(entries)]), st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_whatever_an_agent_sees_of_any_mix_a_model_takes_it(
    messages: list[BaseMessage], policy: Any, budget: int
) -> None:
    before = [message.model_copy(deep=True) for message in messages]
    for at in ("writer", "boss"):
        assert pairing_faults(seen(messages, at, policy)) == []
        cut = trimmed(budget, history=policy, token_counter=len)
        assert pairing_faults(seen(messages, at, cut)) == []
    assert messages == before
