"""How often the model of a chat agent is asked, and what it is offered and sent each time."""

from typing import Any

import pytest
from helpers import Disk, Drive, ask_person, chat, echo, failing, lines, says, scripted, sent, tool
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult
from pydantic import PrivateAttr

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

LOOKS = calls(call("look"))


class Offered(ScriptedChatModel):
    """A scripted model that also records the names of the tools that each call was given."""

    _offered: list[list[str]] = PrivateAttr(default_factory=list)

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        self._offered.append([tool["function"]["name"] for tool in options.get("tools", ())])
        return super()._generate(*args, **options)


def test_after_its_limit_an_agent_goes_on_with_a_higher_one(disk: Disk) -> None:
    model, look = scripted(*[LOOKS] * 3, "Done."), tool("look", "a", "b", "c", "d")

    def tree(limit: int) -> ag.Agent:
        return ag.chat_agent("w", model, tools=[look], max_iterations=limit)

    disk.fail(tree(2), "run", ag.MaxIterationsError)
    with pytest.raises(ag.MaxIterationsError, match="was asked 3 times"):
        disk.resume(tree(3))
    assert lines(disk.resume(tree(4))) == ["w: Done."]
    assert [event.text for event in disk.events(tree(4)) if event.text] == ["a", "b", "c", "Done."]


@pytest.mark.parametrize(
    ("options", "limit"), [({}, 20), ({"max_iterations": 1}, 1)], ids=["default", "one"]
)
def test_the_limit_is_twenty_unless_another_is_given(drive: Drive, options: Any, limit: int) -> None:
    writer = chat("w", *[LOOKS] * limit, tools=[tool("look", "a")], **options)
    _, raised = failing(drive.run(ag.Runner(writer), "Go."), ag.MaxIterationsError)
    times = "time" if limit == 1 else "times"
    assert str(raised).startswith(f"w: the model was asked {limit} {times} and still calls tools; ")


def test_without_a_limit_a_model_may_be_asked_often(drive: Drive) -> None:
    writer = chat("w", *[LOOKS] * 30, "Done.", tools=[tool("look", "a")], max_iterations=None)
    said = lines(drive.run(ag.Runner(writer), "Go."))
    assert (len(said), said[-1]) == (61, "w: Done.")


# an answer at the limit


def test_at_its_limit_the_model_is_offered_no_tools(drive: Drive) -> None:
    model = Offered(responses=[LOOKS, LOOKS, "So far."])
    writer = ag.chat_agent(
        "w",
        model,
        tools=[tool("look", "a")],
        exit_tool=True,
        max_iterations=2,
        on_max_iterations="answer",
    )
    assert lines(drive.run(ag.Runner(writer), "Go."))[-1] == "w: So far."
    assert model._offered == [["look", "exit"], ["look", "exit"], []]


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("So far.", "So far."),
        (
            [
                {"type": "text", "text": "So far."},
                {"type": "tool_use", "id": "2", "name": "look", "input": {}},
            ],
            [{"type": "text", "text": "So far."}],
        ),
    ],
    ids=["a text", "blocks"],
)
def test_calls_in_the_answer_at_the_limit_are_dropped(drive: Drive, content: Any, kept: Any) -> None:
    raw = {"tool_calls": [{"id": "2", "type": "function", "function": {}}], "other": 1}
    bad = {"name": "look", "args": "{", "id": "3", "error": None, "type": "invalid_tool_call"}
    last = AIMessage(
        content, tool_calls=[call("look", "2")], invalid_tool_calls=[bad], additional_kwargs=raw
    )
    look = tool("look", "a")
    writer = chat("w", LOOKS, last, sent, tools=[look], max_iterations=1, on_max_iterations="answer")
    runner = ag.Runner(writer)
    *_, event = drive.run(runner, "Go.", thread_id="t")
    said = event.message
    assert isinstance(said, AIMessage)
    assert (said.content, said.additional_kwargs) == (kept, {"other": 1})
    assert (said.tool_calls, said.invalid_tool_calls) == ([], [])
    assert lines(drive.run(runner, "And?", thread_id="t")) == [
        "w: human: Go. | ai:  | tool: a | ai: So far. | human: And?"
    ]


# what the model sees of its rounds


ROUNDS = ["ai: ", "tool: a", "ai: ", "tool: yes"]
OTHERS = ["human: [planner] said: A plan.", "human: [editor] said: An idea."]
MINE = [*ROUNDS, "ai: One."]
SEEN: dict[str, Any] = {
    "shared": (["human: Go.", *OTHERS], ["human: Go.", *OTHERS, *MINE, *OTHERS]),
    "path": (["human: Go.", *OTHERS], ["human: Go.", *OTHERS, *MINE, *OTHERS]),
    "own": (["human: Go."], ["human: Go.", *MINE]),
    "last": (["human: Go.", OTHERS[1]], ["human: Go.", OTHERS[1]]),
    "input": (["human: Go."], ["human: Go."]),
    "a function": (["ai: A plan."], ["ai: A plan."]),
}


@pytest.mark.parametrize("history", SEEN)
def test_every_history_shows_the_rounds_of_this_iteration_also_after_a_question(
    disk: Disk, history: Any
) -> None:
    rounds = [calls(call("echo", text="a")), calls(call("ask_person", what="Sure?"))]
    model = scripted(*rounds, "One.", *rounds, "Two.")
    policy = (lambda entries: [entries[1].message]) if history == "a function" else history
    writer = ag.chat_agent("writer", model, tools=[echo, ask_person], history=policy)
    others = [says("planner", "A plan."), says("editor", "An idea.")]
    tree = ag.loop("l", [*others, writer], max_iterations=2)
    disk.run(tree)
    disk.resume(tree, "yes")
    disk.resume(tree, "yes")
    assert [sent(messages).split(" | ") for messages in model.inputs] == [
        [*start, *ROUNDS[:so_far]] for start in SEEN[history] for so_far in (0, 2, 4)
    ]
