"""The loop of a chat agent: how often its model is asked, with what, and what ends it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, failing, fresh
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langgraph.types import interrupt
from pydantic import PrivateAttr

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, transcript


class Model(ScriptedChatModel):
    """A scripted model that also records the names of the tools that each call was given."""

    _offered: list[list[str]] = PrivateAttr(default_factory=list)

    @property
    def offered(self) -> list[list[str]]:
        return self._offered

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self._offered.append([tool["function"]["name"] for tool in options.get("tools", ())])
        return super()._generate(messages, *args, **options)


def scripted(*responses: Any) -> Model:
    return Model(responses=list(responses))


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


def values(runner: ag.Runner) -> Any:
    return runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["values"]


def echo(text: str) -> str:
    """Give the text back."""
    return text


def ask(what: str) -> str:
    """Ask a person."""
    return f"{what}: {interrupt(what)}"


def stop() -> str | ag.BreakLoop:
    """Stop."""
    return ag.BreakLoop()


# how often the model is asked


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_loop_ends_when_no_tool_is_called(drive: Drive, rounds: int) -> None:
    model = scripted(*(calls(call("echo", text=f"{n}")) for n in range(rounds)), "Done.")
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=rounds + 1)
    events = list(drive.run(ag.Runner(writer), "Go."))
    assert [event.text for event in events if event.text] == [*map(str, range(rounds)), "Done."]
    assert len(model.inputs) == rounds + 1
    assert model.offered == [["echo"]] * (rounds + 1)


MESSAGE = (
    "s/writer: the model was asked 2 times and still calls tools; raise max_iterations, then resume, "
    "or use on_max_iterations='answer' for an answer without tools"
)


def test_the_loop_fails_at_its_limit_and_a_higher_one_goes_on(drive: Drive, tmp_path: Path) -> None:
    ran: list[str] = []

    def count(n: str) -> str:
        """Count."""
        ran.append(n)
        return n

    model = scripted(*(calls(call("count", n=n)) for n in "abc"), "Done.")

    def tree(limit: int) -> Any:
        return ag.sequential("s", [ag.chat_agent("writer", model, tools=[count], max_iterations=limit)])

    path = tmp_path / "db"
    with pytest.raises(ag.MaxIterationsError) as caught:
        fresh(drive, path, tree(2), "run", "Go.", thread_id="t")
    assert str(caught.value) == MESSAGE
    with pytest.raises(ag.MaxIterationsError) as caught:
        fresh(drive, path, tree(2), "resume", "t")
    assert str(caught.value) == MESSAGE
    assert (ran, len(model.inputs)) == (["a", "b"], 2)
    with pytest.raises(ag.MaxIterationsError, match="was asked 3 times"):
        fresh(drive, path, tree(3), "resume", "t")
    assert transcript(fresh(drive, path, tree(4), "resume", "t")) == ["s/writer: Done."]
    assert ran == ["a", "b", "c"]


def test_the_limit_is_told_under_its_agent(drive: Drive) -> None:
    model = scripted(calls(call("echo", text="a")), calls(call("echo", text="b")))
    tree = ag.sequential("s", [ag.chat_agent("writer", model, tools=[echo], max_iterations=2)])
    runner = ag.Runner(tree)
    events, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.MaxIterationsError)
    assert str(raised) == MESSAGE
    assert [(e.address, e.error) for e in events[-1:]] == [("s/writer", repr(raised))]
    assert len(events) == 5
    assert list(runner.events("t")) == events


def test_the_count_survives_a_question(drive: Drive, tmp_path: Path) -> None:
    model = scripted(*(calls(call("ask", what=what)) for what in "ab"))
    writer = ag.chat_agent("writer", model, tools=[ask], max_iterations=2)
    path = tmp_path / "db"
    fresh(drive, path, writer, "run", "Go.", thread_id="t")
    assert transcript(fresh(drive, path, writer, "resume", "t", "A"))[-1] == "writer: [asks] b"
    with pytest.raises(ag.MaxIterationsError, match="was asked 2 times"):
        fresh(drive, path, writer, "resume", "t", "B")
    model.assert_finished()


def test_the_count_survives_a_crash_of_the_model(drive: Drive, tmp_path: Path) -> None:
    model = scripted(
        calls(call("echo", text="a")), ConnectionError("down"), calls(call("echo", text="b"))
    )
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=2)
    path = tmp_path / "db"
    with pytest.raises(ConnectionError):
        fresh(drive, path, writer, "run", "Go.", thread_id="t")
    with pytest.raises(ag.MaxIterationsError, match="was asked 2 times"):
        fresh(drive, path, writer, "resume", "t")
    model.assert_finished()


def test_a_limit_of_one_allows_one_question_to_the_model(drive: Drive) -> None:
    model = scripted(calls(call("echo", text="a")))
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=1)
    failing(drive.run(ag.Runner(writer), "Go."), ag.MaxIterationsError)
    model.assert_finished()


def test_without_bound_a_model_may_be_asked_often(drive: Drive) -> None:
    model = scripted(*(calls(call("echo", text=f"{n}")) for n in range(100)), "Done.")
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=None)
    events = list(drive.run(ag.Runner(writer), "Go."))
    assert len(events) == 201
    assert events[-1].text == "Done."


def test_the_default_bound_is_twenty(drive: Drive) -> None:
    model = scripted(*(calls(call("echo", text=f"{n}")) for n in range(20)))
    _, raised = failing(
        drive.run(ag.Runner(ag.chat_agent("writer", model, tools=[echo])), "Go."), ag.MaxIterationsError
    )
    assert str(raised).startswith("writer: the model was asked 20 times and still calls tools; ")


def test_each_iteration_of_a_loop_counts_afresh(drive: Drive) -> None:
    model = scripted(*(reply for n in "abc" for reply in (calls(call("echo", text=n)), f"{n}.")))
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=2)
    events = list(drive.run(ag.Runner(ag.loop("l", [writer], max_iterations=3)), "Go."))
    assert [event.text for event in events] == ["", "a", "a.", "", "b", "b.", "", "c", "c."]
    assert [e.address for e in events] == [f"l[{i}]/writer" for i in range(3) for _ in range(3)]


def test_each_turn_counts_afresh(drive: Drive) -> None:
    model = scripted(calls(call("echo", text="a")), "One.", calls(call("echo", text="b")), "Two.")
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=2)
    runner = ag.Runner(writer)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(drive.run(runner, "Again.", thread_id="t"))[1:] == ["writer: b", "writer: Two."]


# an answer at the limit


def test_at_its_limit_the_model_may_be_asked_for_an_answer_without_tools(drive: Drive) -> None:
    model, critic = (
        scripted(*(calls(call("echo", text=n)) for n in "ab"), "So far: ab."),
        scripted("Ok."),
    )
    writer = ag.chat_agent(
        "writer",
        model,
        tools=[echo],
        exit_tool=True,
        max_iterations=2,
        on_max_iterations="answer",
        output_key="draft",
    )
    tree = ag.sequential("s", [writer, ag.chat_agent("critic", critic, instruction="{draft}")])
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events)[-2:] == ["s/writer: So far: ab.", "s/writer/critic: Ok."]
    assert model.offered == [["echo", "exit"], ["echo", "exit"], []]
    assert sent(model.inputs[2]) == ["human: Go.", "ai: ", "tool: a", "ai: ", "tool: b"]
    assert values(runner) == {"draft": "So far: ab."}
    assert list(runner.events("t")) == events


def test_calls_in_the_answer_at_the_limit_are_dropped(drive: Drive) -> None:
    bad = {"name": "echo", "args": "{", "id": "3", "error": None, "type": "invalid_tool_call"}
    last = AIMessage("So far.", tool_calls=[call("echo", "2", text="b")], invalid_tool_calls=[bad])
    model = scripted(calls(call("echo", text="a")), last, "Again.")
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=1, on_max_iterations="answer")
    runner = ag.Runner(writer)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [event.text for event in events] == ["", "a", "So far."]
    said = events[-1].message
    assert isinstance(said, AIMessage)
    assert (said.tool_calls, said.invalid_tool_calls) == ([], [])
    list(drive.run(runner, "And?", thread_id="t"))
    assert sent(model.inputs[2]) == ["human: Go.", "ai: ", "tool: a", "ai: So far.", "human: And?"]


def test_calls_in_the_content_of_the_answer_at_the_limit_are_dropped_too(drive: Drive) -> None:
    last = AIMessage(
        [
            {"type": "text", "text": "So far."},
            {"type": "tool_use", "id": "2", "name": "echo", "input": {"text": "b"}},
        ],
        tool_calls=[call("echo", "2", text="b")],
        additional_kwargs={"tool_calls": [{"id": "2", "type": "function", "function": {}}]},
    )
    model = scripted(calls(call("echo", text="a")), last)
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=1, on_max_iterations="answer")
    *_, event = drive.run(ag.Runner(writer), "Go.")
    assert event.message is not None
    assert event.message.content == [{"type": "text", "text": "So far."}]
    assert event.message.additional_kwargs == {}


def test_the_answer_at_the_limit_may_come_after_a_question(drive: Drive, tmp_path: Path) -> None:
    model = scripted(calls(call("ask", what="Sure?")), "So far.")
    writer = ag.chat_agent("writer", model, tools=[ask], max_iterations=1, on_max_iterations="answer")
    fresh(drive, tmp_path / "db", writer, "run", "Go.", thread_id="t")
    events = fresh(drive, tmp_path / "db", writer, "resume", "t", "yes")
    assert transcript(events) == ["writer: Sure?: yes", "writer: So far."]
    assert model.offered == [["ask"], []]


# what the model sees of its rounds


@pytest.mark.parametrize(
    ("history", "before"),
    [
        ("shared", ["human: [planner] said: A plan.", "human: [editor] said: An idea."]),
        ("path", ["human: [planner] said: A plan.", "human: [editor] said: An idea."]),
        ("own", []),
        ("last", ["human: [editor] said: An idea."]),
        ("input", []),
        (lambda entries: [entries[1].message], None),
    ],
    ids=["shared", "path", "own", "last", "input", "function"],
)
def test_every_history_shows_the_rounds_under_way(
    drive: Drive, history: Any, before: list[str] | None
) -> None:
    model = scripted(calls(call("echo", text="a")), calls(call("echo", text="b")), "Done.")
    tree = ag.sequential(
        "s",
        [
            ag.chat_agent("planner", scripted("A plan.")),
            ag.chat_agent("editor", scripted("An idea.")),
            ag.chat_agent("writer", model, tools=[echo], history=history),
        ],
    )
    list(drive.run(ag.Runner(tree), "Go."))
    start = ["ai: A plan."] if before is None else ["human: Go.", *before]
    rounds = ["ai: ", "tool: a", "ai: ", "tool: b"]
    assert [sent(messages) for messages in model.inputs] == [
        start,
        [*start, *rounds[:2]],
        [*start, *rounds],
    ]


@pytest.mark.parametrize(
    ("history", "seen"),
    [
        ("own", ["human: Go.", "ai: ", "tool: a", "ai: One.", "ai: ", "tool: b"]),
        ("last", ["human: Go.", "ai: One.", "ai: ", "tool: b"]),
        ("input", ["human: Go.", "ai: ", "tool: b"]),
    ],
)
def test_the_rounds_of_an_earlier_iteration_are_history(
    drive: Drive, history: Any, seen: list[str]
) -> None:
    model = scripted(
        *(reply for n in ("a One.", "b Two.") for reply in (calls(call("echo", text=n[0])), n[2:]))
    )
    writer = ag.chat_agent("writer", model, tools=[echo], history=history)
    list(drive.run(ag.Runner(ag.loop("l", [writer], max_iterations=2)), "Go."))
    assert sent(model.inputs[3]) == seen


@pytest.mark.parametrize("history", ["own", "last", "input"])
def test_the_rounds_under_way_are_seen_after_a_question(
    drive: Drive, tmp_path: Path, history: Any
) -> None:
    model = scripted(calls(call("echo", text="a")), calls(call("ask", what="Sure?")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[echo, ask], history=history)
    tree = ag.sequential("s", [ag.chat_agent("planner", scripted("A plan.")), writer])
    fresh(drive, tmp_path / "db", tree, "run", "Go.", thread_id="t")
    fresh(drive, tmp_path / "db", tree, "resume", "t", "yes")
    plan = ["human: [planner] said: A plan."] if history == "last" else []
    rounds = ["ai: ", "tool: a", "ai: ", "tool: Sure?: yes"]
    assert sent(model.inputs[2]) == ["human: Go.", *plan, *rounds]


# tools that end


def test_the_model_may_end_the_run_with_a_final_result(drive: Drive) -> None:
    model = scripted(
        calls(call("echo", "1", text="a")), calls(call("exit", "2", final_result="Bees dance."))
    )
    writer = ag.chat_agent("writer", model, tools=[echo], exit_tool=True, output_key="draft")
    tree = ag.sequential(
        "s", [ag.loop("l", [writer], max_iterations=3), ag.chat_agent("critic", scripted("Never."))]
    )
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events)[2:] == [
        's/l/writer: [calls] exit({"final_result": "Bees dance."})',
        "s/l/writer: Bees dance.",
        "s/l/writer: [exit]",
    ]
    assert values(runner) == {"draft": "Bees dance."}
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["messages"][-1].text == "Bees dance."
    assert model.offered[0] == ["echo", "exit"]
    assert list(runner.events("t")) == events


def test_the_model_may_end_the_loop_with_a_final_result(drive: Drive) -> None:
    model = scripted(
        "Round one.",
        calls(call("break_loop", "1", final_result="Bees dance."), call("echo", "2", text="late")),
    )
    critic = scripted("Good.", "Good.")
    writer = ag.chat_agent("writer", model, tools=[echo], break_tool=True, output_key="draft")
    tree = ag.loop(
        "outer",
        [
            ag.loop("l", [writer, ag.function_agent("between", lambda ctx: "On.")], max_iterations=5),
            ag.chat_agent("critic", critic, instruction="{draft}", history="last"),
        ],
        max_iterations=1,
    )
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events)[-2:] == [
        "outer/l/writer/between/writer: [break_loop]",
        "outer/l/critic: Good.",
    ]
    assert critic.inputs[0][0].text == "Bees dance."
    assert critic.inputs[0][-1].text == "[writer] break_loop returned: Bees dance."
    assert sorted(runner.events("t"), key=events.index) == events


@pytest.mark.parametrize("kind", ["exit", "break_loop"])
def test_a_final_result_may_be_left_out(drive: Drive, kind: str) -> None:
    model = scripted(calls(call(kind)))
    writer = ag.chat_agent("writer", model, exit_tool=True, break_tool=True)
    tree = ag.loop("l", [writer], max_iterations=3)
    assert transcript(drive.run(ag.Runner(tree), "Go.")) == [
        f"l/writer: [calls] {kind}({{}})",
        "l/writer: ",
        f"l/writer: [{kind}]",
    ]


def test_a_thread_goes_on_after_an_exit(drive: Drive) -> None:
    model = scripted(calls(call("exit", final_result="Bye.")), "Hello again.")
    runner = ag.Runner(ag.chat_agent("writer", model, exit_tool=True))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(drive.run(runner, "Hi.", thread_id="t")) == ["writer: Hello again."]
    assert sent(model.inputs[1]) == ["human: Go.", "ai: ", "tool: Bye.", "human: Hi."]


def test_a_break_in_a_branch_ends_the_loop_around_the_branches(drive: Drive) -> None:
    legal = ag.chat_agent("legal", scripted(calls(call("break_loop"))), break_tool=True)
    press = ag.chat_agent("press", scripted(calls(call("echo", text="x")), "Fine."), tools=[echo])
    tree = ag.sequential(
        "s",
        [
            ag.loop("l", [ag.parallel("p", [legal, press])], max_iterations=3),
            ag.chat_agent("critic", scripted("Good.")),
        ],
    )
    lines = transcript(drive.run(ag.Runner(tree), "Go."))
    assert "s/l/p/legal: [break_loop]" in lines
    assert "s/l/p/press: Fine." in lines
    assert lines[-1] == "s/l/critic: Good."


@pytest.mark.parametrize("others", [0, 1])
def test_a_break_by_a_tool_outside_every_loop_is_told_and_changes_nothing(
    drive: Drive, others: int
) -> None:
    made = [call("stop", "1"), *(call("echo", f"e{i}", text="x") for i in range(others))]
    model = scripted(calls(*made), "Went on.")
    tree = ag.sequential(
        "s",
        [
            ag.chat_agent("writer", model, tools=[stop, echo]),
            ag.chat_agent("critic", scripted("Good.")),
        ],
    )
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    lines = transcript(events)
    assert sorted(lines[1:-3]) == sorted(["s/writer: Done.", *["s/writer: x"] * others])
    assert lines[-3:] == ["s/writer: [break_loop]", "s/writer: Went on.", "s/writer/critic: Good."]
    assert sorted(runner.events("t"), key=events.index) == events


def test_a_break_outside_every_loop_does_not_keep_a_result_from_returning_directly(
    drive: Drive,
) -> None:
    model = scripted(calls(call("stop", "1"), call("echo", "2", text="The answer.")))
    writer = ag.chat_agent(
        "writer", model, tools=[stop, echo], return_directly=["echo"], output_key="x"
    )
    runner = ag.Runner(writer)
    lines = transcript(drive.run(runner, "Go.", thread_id="t"))
    assert sorted(lines[1:]) == ["writer: Done.", "writer: The answer.", "writer: [break_loop]"]
    assert values(runner) == {"x": "The answer."}
