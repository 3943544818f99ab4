"""Checks: what they may give, and when they are asked.

Where the attempts run, what they see, and how they end, is in `tests/transcripts/checks.txt`.
"""

from typing import Any

import pytest
from helpers import Disk, Drive, is_yes, says, scripted, texts
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.errors import CheckFailedError
from agentgraph.show.lines import tree_lines


class Bees(BaseModel):
    number: int


SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
NO_NUMBER = "number: Input should be a valid integer, unable to parse string as an integer"
FENCED = '```json\n{"number": 3}\n```'


def raises(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    ("text", "check", "fault"),
    [
        ("x", lambda text: None, None),
        ("x", lambda text: True, None),
        ("x", lambda text: "too short", "too short"),
        ("x", lambda text: False, "it was rejected without a reason"),
        ("x", lambda text: "", "it was rejected without a reason"),
        ("x", lambda text: ["a", "b"], "['a', 'b']"),
        ("x", lambda text: raises(ValueError("too short")), "too short"),
        ("x", lambda text: raises(AssertionError("too long")), "too long"),
        ("x", lambda text: raises(AssertionError()), "AssertionError()"),
        (FENCED, Bees, None),
        (FENCED, SCHEMA, None),
        (FENCED, dict[str, int], None),
        ("three", Bees, "it is not valid JSON"),
        ('{"number": "x"}', Bees, NO_NUMBER),
        ('{"number": "x"}', SCHEMA, "number: Input should be a valid integer"),
        ('{"number": "x"}', dict[str, int], NO_NUMBER),
    ],
)
def test_a_check_may_be_a_function_a_type_or_a_schema(text: str, check: Any, fault: str | None) -> None:
    events = ag.Runner(ag.validated(says("w", text), check, max_attempts=1)).run("Go.")
    if fault is None:
        assert [event.text for event in events] == [text]
    else:
        with pytest.raises(CheckFailedError) as raised:
            list(events)
        assert str(raised.value) == (
            "w: the output failed its check in all of 1 attempts; resume the thread for one more; the "
            f"last fault: {fault}"
        )


def test_a_check_is_asked_once_for_each_attempt_and_may_take_a_context(disk: Disk) -> None:
    asked: list[Any] = []

    def check(ctx: ag.Context, text: str) -> bool:
        asked.append((ctx.name, ctx.address, str(ctx.run_path), ctx.values["found"], text))
        return text == "yes"

    steps = ag.sequential("w", [says("a"), ag.human("h", "Well?", output_key="found")])
    tree = ag.sequential("s", [ag.validated(steps, check), ag.human("z", "And?")])
    disk.run(tree)
    for answer in ("no", "yes", "Fine."):
        disk.resume(tree, answer)
    assert asked == [("w", "s/w", "s/w", "no", "no"), ("w", "s/w{1}", "s/w/w", "yes", "yes")]


def test_a_text_that_failed_may_pass_the_check_of_a_resume(disk: Disk) -> None:
    model = scripted("no")
    agent = ag.chat_agent("w", model)
    disk.fail(ag.validated(agent, is_yes, max_attempts=1), "run", CheckFailedError)
    assert disk.resume(ag.validated(agent, lambda text: True)) == []
    assert len(model.inputs) == 1


def test_a_graph_sees_what_was_wrong(drive: Drive) -> None:
    left, seen = ["no", "yes"], []

    def node(state: MessagesState) -> dict[str, Any]:
        seen.append(texts(state["messages"]))
        return {"messages": [("ai", left.pop(0))]}

    builder = StateGraph(MessagesState)
    builder.add_node("n", node)
    builder.add_edge(START, "n")
    builder.add_edge("n", END)
    tree = ag.validated(ag.graph_agent("g", builder.compile()), is_yes)
    events = list(drive.run(ag.Runner(tree), "Go."))
    assert [(event.address, event.text) for event in events][::2] == [("g", "no"), ("g{1}", "yes")]
    assert seen == [["human: Go."], ["human: Go.", "ai: no", f"human: {events[1].text}"]]


def test_a_checked_agent_is_shown_as_checked_and_drawn_with_a_way_back() -> None:
    inner = ag.validated(ag.sequential("q", [says("a"), ag.validated(says("b"), is_yes)]), is_yes)
    tree = ag.sequential("s", [inner, says("z")])
    assert tree_lines(tree)[1:] == [
        "├─ q (sequential, checked)",
        "│  ├─ a (function)",
        "│  └─ b (function, checked)",
        "└─ z (function)",
    ]
    drawn = ag.compile_agent(tree).get_graph().edges
    assert {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in drawn} == {
        "__start__ -> a",
        "a -> b",
        "b .. b",
        "b .. a",
        "b .. z",
        "z -> __end__",
    }
