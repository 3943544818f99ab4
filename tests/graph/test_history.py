"""What an agent sees of a conversation: by its `history=`, with the words of others as quotations.

The cases that can be written as text are in `histories.txt`.
"""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from helpers import says as agent
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from test_transcripts import Case, cases

import agentgraph as ag
from agentgraph.agents.budgets import PolicyWord, summarized, trimmed
from agentgraph.agents.tool_results import TRANSFERRED
from agentgraph.graph.history import REQUEST, unchanged, visible
from agentgraph.graph.paired_calls import NO_RESULT, calls_of, in_call_order, paired, unanswered
from agentgraph.graph.quoted_messages import ANSWER
from agentgraph.graph.stamps import speaker_at, stamped
from agentgraph.testing import ScriptedChatModel, call, pairing_faults
from agentgraph.tree.layout import lay_out
from agentgraph.tree.run_paths import RunPaths

legal = ag.sequential("legal", [agent("law"), agent("tax")])
refine = ag.loop("refine", [agent("critic"), agent("editor")], max_iterations=9)
review = ag.parallel("review", [legal, agent("press")])
TREE = ag.sequential("report", [agent("writer"), agent("writer2"), refine, review, agent("boss")])
PATHS = RunPaths(lay_out(TREE))


def asking(*asked: str, text: str | list[Any] = "") -> AIMessage:
    """Return a message with a call for each `tool/id`; `!tool/id` is an invalid one."""
    valid, invalid = [], []
    for each in asked:
        name, _, call_id = each.lstrip("!").partition("/")
        if each.startswith("!"):
            fields = {"name": name, "args": "{", "id": call_id, "error": ""}
            invalid.append({**fields, "type": "invalid_tool_call"})
        else:
            valid.append(call(name, call_id))
    return AIMessage(text, tool_calls=valid, invalid_tool_calls=invalid)


def result(answered: str, content: Any = "", **fields: Any) -> ToolMessage:
    """Return the result of the call `tool/id`."""
    name, _, call_id = answered.partition("/")
    _, is_transfer, target = name.partition("transfer_to_")
    marks = {TRANSFERRED: target} if is_transfer else {}
    return ToolMessage(content, name=name, tool_call_id=call_id, additional_kwargs=marks, **fields)


def says(said: Any, at: str = "writer") -> Any:
    """Return what an agent says at an address in the tree."""
    return stamped(said if isinstance(said, BaseMessage) else AIMessage(said), f"report/{at}")


def message(line: str) -> BaseMessage:
    """Return the message that a line of `histories.txt` describes."""
    who, said = line.split(": ", maxsplit=1)
    if who == "user":
        return HumanMessage(said)
    if found := re.fullmatch(r"\[(result|error|answer)\] (\S+): (.*)", said):
        answer = result(found[2], found[3], status="error" if found[1] == "error" else "success")
        answer.additional_kwargs |= {ANSWER: True} if found[1] == "answer" else {}
        return answer if who == "nobody" else says(answer, who)
    text, _, asked = said.partition("[calls]")
    return says(asking(*asked.split(), text=text.strip()), who)


def line(message: Any) -> str:
    """Return a message as a line of `histories.txt`."""
    if message.type == "tool":
        kind = "result" if message.status == "success" else "error"
        return f"tool: [{kind}] {message.name}/{message.tool_call_id}: {message.text}"
    marked = [
        f"{'!' * (each['type'] == 'invalid_tool_call')}{each['name']}/{each['id']}"
        for each in calls_of(message)
    ]
    said = [message.text] * bool(message.text)
    return f"{message.type}: {' '.join([*said, *['[calls]'] * bool(marked), *marked])}".replace(
        "\n", " // "
    )


def talk(text: str) -> list[BaseMessage]:
    return [message(each) for each in text.strip().splitlines()]


def seen(messages: list[BaseMessage], at: str = "boss", policy: Any = "shared") -> list[BaseMessage]:
    address = f"report/{at}"
    return visible(messages, policy, speaker_at(address), address, PATHS.at_message)


CASES = [*cases(Path(__file__).with_name("histories.txt"))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_an_agent_sees(case: Case) -> None:
    for step in case.steps:
        view, _, expected = step.partition("\n")
        at, policy = view.split()
        assert "\n".join(map(line, seen(talk(case.tree), at, policy))) == expected, view


TALK = talk("user: Bees?\nwriter: Buzz.\nrefine[0]/critic: Short.\nuser: Wasps?\nwriter: Sting.")


def test_no_run_path_is_computed_unless_the_policy_is_path() -> None:
    def never(address: str, message: object) -> Any:
        raise AssertionError("not to be asked")

    for policy in ("shared", "own", "last", "input", unchanged):
        visible(TALK, policy, "boss", "report/boss", never)


def test_the_input_has_no_answers_of_people_and_begins_at_a_request() -> None:
    answered = [HumanMessage("Go."), says(HumanMessage("Print it."), "boss")]
    assert seen(answered, "writer", "input") == answered[:1]
    request = HumanMessage("Find bees.", additional_kwargs={REQUEST: True})
    assert seen([HumanMessage("Go."), request], "writer", "input") == [request]


def test_a_function_gets_entries_and_returns_what_is_seen() -> None:
    got: list[ag.Entry] = []

    def last_two(entries: list[ag.Entry]) -> list[BaseMessage]:
        got.extend(entries)
        return [entry.message for entry in entries[-2:]]

    assert seen(TALK, "boss", last_two) == TALK[-2:]
    assert [entry.message for entry in got] == TALK
    assert [(entry.agent_name, entry.address, str(entry.run_path)) for entry in got[:3]] == [
        (None, None, ""),
        ("writer", "report/writer", "report/writer"),
        ("critic", "report/refine[0]/critic", "report/writer/writer2/refine/critic"),
    ]


@pytest.mark.parametrize("returned", [None, "Go.", [1], 5])
def test_a_function_that_returns_anything_else_is_named(returned: Any) -> None:
    tree = ag.function_agent("a", lambda ctx: ctx.messages, history=lambda entries: returned)
    with pytest.raises(
        ag.InvalidOutputError, match=r"^a: history= returned .*; return a list of messages"
    ):
        ag.Runner(tree).invoke("Go.")


def test_a_function_gets_transfers_too() -> None:
    messages = [says(asking("transfer_to_boss/1")), says(result("transfer_to_boss/1"))]
    assert seen(messages, "boss", unchanged) == messages
    assert seen(messages, "boss") == []


def test_a_trimmed_history_is_the_newest_of_what_its_policy_chooses() -> None:
    for policy, expected in (
        (trimmed(2, token_counter=len), ["human: Wasps?", "human: [writer] said: Sting."]),
        (trimmed(2, history="own", token_counter=len), ["human: Bees?", "human: Wasps?"]),
        (trimmed(1, history=unchanged, token_counter=len), ["ai: Sting."]),
    ):
        assert [*map(line, seen(TALK, "boss", policy))] == expected


def test_a_summarized_history_is_all_that_its_policy_chooses() -> None:
    model = ScriptedChatModel(responses=[])
    assert seen(TALK, "boss", summarized(model, 1)) == seen(TALK)
    own = summarized(model, 1, history="own")
    assert seen(TALK, "writer", own) == seen(TALK, "writer", "own")


SEARCH = call("search", "1", q="bees")
PICTURE = {"type": "image", "url": "http://a/b.png"}
LOOKING = {"type": "text", "text": "Looking."}
THOUGHTS = [
    {"type": "thinking", "thinking": "The boss knows.", "signature": "x"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
]
SEARCHED = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "bees"}},
    {"type": "server_tool_use", "id": "2", "name": "web_search", "input": {"query": "bees"}},
    {"type": "web_search_tool_result", "tool_use_id": "2", "content": []},
    {"type": "mcp_call", "id": "3", "output": "x"},
    {"type": "server_tool_result", "tool_call_id": "4", "output": "x", "status": "success"},
]


def blocks(*items: Any) -> list[Any]:
    return [{"type": "text", "text": item} if isinstance(item, str) else item for item in items]


CALLED = '[writer] called search({"q": "bees"})'
QUOTED: dict[str, tuple[BaseMessage, Any]] = {
    "no words": (AIMessage(""), "[writer] said: "),
    "a call with arguments of any kind": (
        AIMessage("", tool_calls=[call("count", "2", größe=[1, {"a": None}])]),
        '[writer] called count({"größe": [1, {"a": null}]})',
    ),
    "words of a person": (HumanMessage("Print it."), "[writer] said: Print it."),
    "a note": (SystemMessage("Psst."), "[writer] said: Psst."),
    "blocks": (AIMessage([LOOKING, PICTURE]), blocks("[writer] said:", LOOKING, PICTURE)),
    "a result of blocks": (result("draw/1", [PICTURE]), blocks("[writer] draw returned:", PICTURE)),
    "blocks beside a call, without the block of the call": (
        AIMessage([LOOKING, {"type": "tool_use", "id": "1", "name": "search"}], tool_calls=[SEARCH]),
        blocks("[writer] said:", LOOKING, CALLED),
    ),
    "words without the thoughts": (AIMessage([*THOUGHTS, LOOKING]), blocks("[writer] said:", LOOKING)),
    "words without what the provider's search found, and its citations": (
        AIMessage([*SEARCHED, {**LOOKING, "annotations": [{"type": "url_citation"}], "id": "msg_1"}]),
        blocks("[writer] said:", LOOKING),
    ),
    "a call without the thoughts": (AIMessage([*THOUGHTS], tool_calls=[SEARCH]), blocks(CALLED)),
}


@pytest.mark.parametrize(("message", "expected"), QUOTED.values(), ids=QUOTED)
def test_another_agent_reads_as_a_quotation(message: BaseMessage, expected: Any) -> None:
    quoted, *_ = seen([says(message.model_copy(update={"id": "7"}))])
    assert quoted == HumanMessage(expected, name="writer", id="7")


def test_the_words_of_the_user_and_of_the_agent_itself_stay_as_they_are() -> None:
    user = [SystemMessage("Be kind."), HumanMessage("Hello", name="eve"), AIMessage("An example.")]
    messages = [*user, says([*THOUGHTS, LOOKING])]
    assert seen(messages, "writer") == messages


SILENT = [
    *[" \n", [{"type": "tool_use", "id": "1", "name": "transfer_to_boss", "input": {}}]],
    *[[*blocks(""), THOUGHTS[0]], [{"type": "text", "text": None}, THOUGHTS[2], ""]],
]


def test_a_transfer_is_hidden_beside_blanks_calls_and_thoughts_but_not_beside_words_or_pictures() -> (
    None
):
    done = says(result("transfer_to_boss/1"))
    for content in SILENT:
        assert seen([says(asking("transfer_to_boss/1", text=content)), done], "writer") == []
    for content in (["Hm."], [PICTURE]):
        messages = [says(asking("transfer_to_boss/1", text=content)), done]
        assert seen(messages, "writer") == messages


def test_a_result_that_is_made_up_has_the_same_id_wherever_it_is_seen() -> None:
    asked = AIMessage("", id="m", tool_calls=[SEARCH, call("count", None)])
    assert paired([asked]) == [
        asked,
        ToolMessage(NO_RESULT, id="m 0", name="search", tool_call_id="1", status="error"),
        ToolMessage(NO_RESULT, id="m 1", name="count", tool_call_id="", status="error"),
    ]
    assert paired([HumanMessage("Hm."), asked])[1:] == paired([asked])
    assert [each.id for each in paired([asked.model_copy(update={"id": None})])] == [None] * 3


def test_a_result_without_a_call_keeps_its_id_and_may_lack_a_name() -> None:
    found = says(result("search/1", "3 hits", id="7"))
    assert paired([found]) == [HumanMessage("[writer] search returned: 3 hits", name="writer", id="7")]
    assert paired([ToolMessage("3 hits", tool_call_id="1")]) == [HumanMessage("tool returned: 3 hits")]


def test_messages_without_calls_come_back_in_a_list_of_their_own() -> None:
    assert paired(TALK) == TALK
    assert paired(TALK) is not TALK


TOOLS = st.sampled_from(["search", "count", "transfer_to_boss"])
CALLS = st.builds("{}{}/{}".format, st.sampled_from(["", "", "!"]), TOOLS, st.sampled_from("123"))
STATUS = st.sampled_from(["success", "success", "error"])
MESSAGES = st.one_of(
    st.just(HumanMessage("")),
    st.just(SystemMessage("")),
    st.lists(CALLS, max_size=3).map(lambda asked: asking(*asked)),
    st.builds(lambda to, status: result(to.lstrip("!"), status=status), CALLS, STATUS),
)


@st.composite
def mixes(draw: Any) -> list[BaseMessage]:
    """Return any messages of anybody in any order, each with a text of its own, or none."""
    messages = []
    for number, each in enumerate(draw(st.lists(MESSAGES, max_size=12))):
        said = each.model_copy(update={"content": f"<{number}>" if draw(st.booleans()) else ""})
        speaker = draw(st.sampled_from([None, "writer", "boss"]))
        messages.append(says(said, speaker) if speaker else said)
    return messages


def marks(messages: list[BaseMessage]) -> list[str]:
    return sorted(found.group() for m in messages if (found := re.search(r"<\d+>", m.text)))


@given(mixes())
@settings(max_examples=200, deadline=None)
def test_any_mix_is_paired_so_that_a_model_takes_it_and_nothing_is_lost(
    messages: list[BaseMessage],
) -> None:
    before = [each.model_copy(deep=True) for each in messages]

    after = paired(messages)

    assert ScriptedChatModel(responses=["Taken."]).invoke(after).text == "Taken."
    assert paired(after) == after
    assert messages == before
    assert marks(after) == marks(messages)
    ids = {id(each) for each in messages}
    kept = [each for each in after if id(each) in ids and each.type != "tool"]
    assert kept == [each for each in messages if each.type != "tool"]
    made_up = [each for each in after if id(each) not in ids]
    assert {each.text for each in made_up if each.type != "human"} <= {NO_RESULT}


@given(
    mixes(),
    st.sampled_from([*get_args(PolicyWord), lambda entries: unchanged(entries)]),
    st.integers(1, 6),
)
@settings(max_examples=200, deadline=None)
def test_whatever_an_agent_sees_of_any_mix_a_model_takes_it(
    messages: list[BaseMessage], policy: Any, budget: int
) -> None:
    before = [each.model_copy(deep=True) for each in messages]
    for at in ("writer", "boss"):
        assert pairing_faults(seen(messages, at, policy)) == []
        cut = trimmed(budget, history=policy, token_counter=len)
        assert pairing_faults(seen(messages, at, cut)) == []
    assert messages == before


def test_results_of_calls_under_one_id_are_in_the_order_of_these() -> None:
    made = AIMessage("", tool_calls=[call("f", each) for each in ("x", "y", "x")])
    late = [ToolMessage(text, tool_call_id=of) for text, of in (("1", "y"), ("2", "x"), ("3", "x"))]
    assert [each.text for each in in_call_order([made, *late])] == ["", "2", "1", "3"]
    assert {n: c["id"] for n, c in unanswered([made, *late[:2], made]).items()} == {
        2: "x",
        3: "x",
        4: "y",
        5: "x",
    }
