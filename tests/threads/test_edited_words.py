"""`rewind(messages=)` with a message under the id of one on the thread: it takes that one's place."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Session, Sync, chat, foreign, lines, unvoided
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, pairing_faults
from agentgraph.window.changes import Changes

pytestmark = pytest.mark.by_turns("drive")


def says(name: str) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: name.upper())


def saw(name: str, **options: Any) -> ag.Agent:
    """Return an agent that says what it sees."""

    def fn(ctx: ag.Context) -> str:
        return "saw " + " | ".join(f"{each.type}: {each.text}" for each in ctx.messages)

    return ag.function_agent(name, fn, **options)


class Thread(Session):
    """A thread, and all that was received of it."""

    def __init__(self, tree: ag.Agent, drive: Drive, path: Path | None) -> None:
        super().__init__(tree, drive, path)
        self.heard: list[ag.AgentEvent] = []
        self.go("run", "Go.", thread_id=self.id)

    def go(self, method: str, *args: Any, **options: Any) -> list[str]:
        """Return what a call yields, as lines; what was received is what is replayed."""
        began = len(self.heard)
        self.follow(method, *args, hear=self.heard.append, **options)
        self.check()
        return lines(self.heard[began:])

    def check(self) -> None:
        assert unvoided(self.heard) == self.events()
        messages = self.thread().messages
        assert pairing_faults(messages) == []
        assert len({each.id for each in messages}) == len(messages)
        said = {event.id: event.message for event in self.events() if event.message}
        assert all(said[each.id] == each for each in messages if each.id in said)

    def at(self, address: str, kind: str = "message") -> ag.AgentEvent:
        return next(e for e in self.events() if e.address == address and e.kind == kind)

    def edited(self, address: str, text: str) -> BaseMessage:
        """Return the message of an address with other content."""
        message = self.at(address).message
        assert message is not None
        return message.model_copy(update={"content": text})

    def edit(self, address: str, at: str, text: str = "B!", **options: Any) -> list[str]:
        """Rewind with other words of an address, and return what is yielded."""
        return self.go("rewind", self.id, at, messages=[self.edited(address, text)], **options)

    def texts(self) -> list[str]:
        return [each.text for each in self.thread().messages]


Start = Callable[[ag.Agent], Thread]


@pytest.fixture
def started(drive: Drive, tmp_path: Path) -> Start:
    return lambda tree: Thread(tree, drive, None if drive is Sync else tmp_path / "t.db")


def test_the_next_agent_reads_the_new_words_as_those_of_their_agent(started: Start) -> None:
    thread = started(ag.sequential("s", [says("a"), says("b"), saw("c")]))
    old = thread.at("s/a")
    new = thread.edit("s/a", "s/c", "A!")
    assert new[1:] == ["s/a: A!", "s/c: saw human: Go. | human: [a] said: A! | human: [b] said: B"]
    gone = thread.heard[-3]
    assert gone.action is not None
    assert old.id in gone.action.discarded
    now = thread.at("s/a")
    assert (now.id, now.agent_name, now.turn, now.run_path) == (old.id, "a", 0, old.run_path)
    assert thread.texts()[:3] == ["Go.", "A!", "B"]  # in its place
    assert [each.text for each in thread.thread().messages if each.name == "a"] == ["A!"]


INNER = ag.sequential("x", [says("b"), says("n"), saw("c")])
FORMS: dict[str, tuple[Callable[[], ag.Agent], str, str]] = {
    "alone": (lambda: ag.sequential("s", [says("b"), saw("c")]), "s/b", "s/c"),
    "in a loop": (
        lambda: ag.loop("l", [says("b"), saw("c")], max_iterations=2),
        "l[0]/b",
        "l[1]/c",
    ),
    "in a branch": (lambda: ag.parallel("p", [says("a"), INNER]), "p/x/b", "p/x/c"),
    "in a nested branch": (
        lambda: ag.parallel("p", [says("a"), ag.parallel("q", [says("z"), INNER])]),
        "p/q/x/b",
        "p/q/x/c",
    ),
    "around a branch": (
        lambda: ag.sequential("s", [says("b"), ag.parallel("p", [says("a"), INNER2])]),
        "s/b",
        "s/p/y/c",
    ),
    "around a branch of one": (
        lambda: ag.sequential("s", [says("b"), ag.parallel("p", [says("a"), saw("c")])]),
        "s/b",
        "s/p/c",
    ),
    "around two branches": (
        lambda: ag.sequential(
            "s",
            [
                says("b"),
                ag.parallel(
                    "p", [says("a"), ag.sequential("q", [ag.parallel("r", [INNER2, says("z")])])]
                ),
            ],
        ),
        "s/b",
        "s/p/q/r/y/c",
    ),
    "of a branch that has ended": (
        lambda: ag.sequential("s", [ag.parallel("p", [says("a"), says("b")]), saw("c")]),
        "s/p/b",
        "s/c",
    ),
    "of an item": (
        lambda: ag.sequential(
            "s", [ag.each("e", says("b"), lambda ctx: [1, 2], output_mode="full"), saw("c")]
        ),
        "s/e/b(0)",
        "s/c",
    ),
    "in an item": (
        lambda: ag.each("e", INNER, lambda ctx: [1, 2], output_mode="full"),
        "e/x(1)/b",
        "e/x(1)/c",
    ),
    "in a step": (
        lambda: ag.workflow("w", [says("b"), ag.step(saw("c"), depends_on=["b"])]),
        "w/b",
        "w/c",
    ),
    "of a chat agent": (lambda: ag.sequential("s", [chat("b", "B"), saw("c")]), "s/b", "s/c"),
    "of a generator": (
        lambda: ag.sequential(
            "s", [ag.function_agent("b", lambda ctx: (each for each in "B")), saw("c")]
        ),
        "s/b",
        "s/c",
    ),
    "of a graph": (
        lambda: ag.sequential("s", [ag.graph_agent("b", foreign(lambda messages: "B")), saw("c")]),
        "s/b",
        "s/c",
    ),
    "of a flattened graph": (
        lambda: ag.sequential(
            "s", [ag.graph_agent("b", foreign(lambda messages: "B"), flat=True), saw("c")]
        ),
        "s/b/n0",
        "s/c",
    ),
    "in an agent as a tool": (
        lambda: chat("o", calls(call("x", request="?")), *["End."] * 9, tools=[ag.agent_tool(INNER)]),
        "o/x(0)/b",
        "o/x(0)/c",
    ),
}
INNER2 = ag.sequential("y", [says("n"), saw("c")])


@pytest.mark.parametrize("form", FORMS)
def test_words_are_edited_wherever_they_were_said(started: Start, form: str) -> None:
    make, said_at, at = FORMS[form]
    thread = started(make())
    before = thread.at(said_at)
    assert f"{said_at}: B!" in thread.edit(said_at, at)
    for _ in range(2):
        after = thread.at(at)
        assert "[b] said: B!" in after.text
        assert after.text.count("[b] said: B!") == 1
        changed = thread.at(said_at)
        assert (changed.id, changed.text, changed.agent_name) == (before.id, "B!", before.agent_name)
        thread.go("rewind", thread.id, at)  # once more, without an edit: what came before stays
    assert thread.edit(said_at, at, "B?")[1] == f"{said_at}: B?"
    assert "[b] said: B?" in thread.at(at).text


@pytest.mark.parametrize("form", FORMS)
def test_a_step_of_the_old_line_brings_the_old_words_back(started: Start, form: str) -> None:
    make, said_at, at = FORMS[form]
    thread = started(make())
    step, before = thread.at(at).step, thread.events()
    assert step is not None
    thread.edit(said_at, at)
    thread.go("rewind", thread.id, step)
    assert thread.at(said_at) == next(each for each in before if each.address == said_at)
    assert "B!" not in " ".join(event.text for event in thread.events())
    assert "[b] said: B" in thread.at(at).text


@pytest.mark.parametrize("form", ["alone", "in a nested branch", "around two branches", "in a step"])
def test_a_run_that_is_left_at_any_event_goes_on_with_the_new_words(started: Start, form: str) -> None:
    make, said_at, at = FORMS[form]
    thread = started(make())
    for left in range(1, 4):
        text = f"B{left}"
        new, hear = [thread.edited(said_at, text)], thread.heard.append
        thread.follow("rewind", thread.id, at, messages=new, left=left, hear=hear)
        if thread.thread().status != "done":
            thread.follow("resume", thread.id, hear=hear)
        thread.check()
        assert thread.at(said_at).text == text
        assert f"[b] said: {text}" in thread.at(at).text


def test_a_follower_reads_the_new_words(started: Start) -> None:
    thread = started(FORMS["around a branch"][0]())
    cursor = thread.events()[-1].cursor
    before = thread.events()
    thread.edit("s/b", "s/p/y/c")
    told: list[ag.AgentEvent] = []
    thread.follow("follow", thread.id, after=cursor, hear=told.append)
    left = [(each.id, each.text) for each in unvoided([*before, *told])]
    assert left == [(each.id, each.text) for each in thread.events()]


def test_going_back_before_the_edit_brings_the_old_words_back(started: Start) -> None:
    thread = started(ag.sequential("s", [says("a"), saw("b"), saw("c")]))
    thread.edit("s/a", "s/c", "A!")
    assert "[a] said: A!" in thread.at("s/c").text
    thread.go("rewind", thread.id, "s/b")
    assert [thread.at(at).text for at in ("s/a", "s/b")] == ["A", "saw human: Go. | human: [a] said: A"]
    thread.edit("s/a", "s/b", "A?")
    thread.go("rewind", thread.id, "s/a")
    assert thread.texts()[:2] == ["Go.", "A"]


def asking(*more: Any) -> tuple[ScriptedChatModel, ag.Agent]:
    def look(to: str) -> str:
        """Look."""
        return f"saw {to}"

    def reply(messages: Sequence[BaseMessage]) -> Any:
        assert pairing_faults(messages) == []
        return messages[-1].text if messages[-1].type == "tool" else calls(call("look", "1", to="bees"))

    model = ScriptedChatModel(responses=reply)
    return model, ag.sequential("s", [ag.chat_agent("c", model, tools=[look]), saw("z"), *more])


def test_a_result_of_a_tool_is_edited_before_the_model_reads_it(started: Start) -> None:
    model, tree = asking()
    thread = started(tree)
    events = [each for each in thread.events() if each.address == "s/c"]
    result, answer = events[1], events[2]
    assert isinstance(result.message, ToolMessage)
    new = result.message.model_copy(update={"content": "saw wasps"})
    thread.go("rewind", thread.id, answer.step, messages=[new])
    assert model.inputs[-1][-1].text == "saw wasps"
    assert [each.text for each in thread.events() if each.address == "s/c"][1:] == ["saw wasps"] * 2


def test_a_call_is_edited_before_it_runs(started: Start) -> None:
    _, tree = asking()
    thread = started(tree)
    asked, result = (each for each in thread.events()[:2])
    assert isinstance(asked.message, AIMessage)
    edited = asked.message.model_copy(update={"tool_calls": [call("look", "1", to="wasps")]})
    thread.go("rewind", thread.id, result.step, messages=[edited])
    assert "saw wasps" in thread.texts()
    assert "saw bees" not in thread.texts()


def test_a_call_whose_result_is_there_stays(started: Start) -> None:
    _, tree = asking()
    thread = started(tree)
    asked, result, answer = thread.events()[:3]
    bare = AIMessage("No call.", id=asked.id)
    with pytest.raises(ag.AgentGraphError, match=r"is without the call '1', whose result is there"):
        thread.go("rewind", thread.id, answer.step, messages=[bare])
    assert isinstance(asked.message, AIMessage)
    said = asked.message.model_copy(update={"content": "I look."})
    thread.go("rewind", thread.id, answer.step, messages=[said])
    assert thread.texts()[1:3] == ["I look.", result.text]


def test_an_answer_of_a_person_and_a_message_of_the_user_are_edited(started: Start) -> None:
    thread = started(ag.sequential("s", [ag.human("h", "Well?"), saw("z")]))
    thread.go("resume", thread.id, "Yes.")
    thread.edit("s/h", "s/z", "No.")
    assert thread.texts()[1:3] == ["No.", "saw human: Go. | human: [h] said: No."]
    (users, *_) = thread.thread().messages
    thread.go("rewind", thread.id, "s/z", messages=[HumanMessage("Stop.", id=users.id)])
    assert thread.texts()[2] == "saw human: Stop. | human: [h] said: No."
    assert [each.text for each in thread.thread().turns[0].messages] == ["Stop."]


def test_several_messages_are_edited_and_one_is_added(started: Start) -> None:
    thread = started(ag.sequential("s", [says("a"), says("b"), saw("c")]))
    several = [HumanMessage("More."), thread.edited("s/b", "B!"), thread.edited("s/a", "A!")]
    assert thread.go("rewind", thread.id, "s/c", messages=several)[1:3] == ["s/b: B!", "s/a: A!"]
    assert thread.at("s/c").text == (
        "saw human: Go. | human: [a] said: A! | human: [b] said: B! | human: More."
    )
    same = thread.go("rewind", thread.id, "s/c", messages=[thread.edited("s/b", "B!")])
    assert same[1:] == ["s/c: saw human: Go. | human: [a] said: A! | human: [b] said: B!"]


def test_words_of_an_earlier_turn_are_edited(started: Start) -> None:
    thread = started(ag.sequential("s", [says("a"), saw("c")]))
    thread.go("run", "And?", thread_id=thread.id)
    first = thread.events()[0]
    assert first.message is not None
    new = first.message.model_copy(update={"content": "A!"})
    thread.go("rewind", thread.id, "s/c", messages=[new])
    assert thread.texts()[1] == "A!"
    assert [[e.text for e in turn.events if e.address == "s/a"] for turn in thread.thread().turns] == [
        ["A!"],
        ["A"],
    ]


def test_siblings_that_run_again_read_the_new_words(started: Start) -> None:
    branches = ag.parallel("p", [saw("x"), saw("c")])
    thread = started(ag.sequential("s", [says("b"), branches, saw("z")]))
    thread.edit("s/b", "s/p/c", siblings="rerun")
    said = [thread.at(at).text for at in ("s/p/x", "s/p/c")]
    assert said == ["saw human: Go. | human: [b] said: B!"] * 2
    thread.edit("s/b", "s/p/c", "B?")
    assert "B!" in thread.at("s/p/x").text  # it is kept as it ran
    assert "B?" in thread.at("s/z").text


def test_variants_of_an_edit_run_on_threads_of_their_own(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [says("b"), ag.parallel("p", [says("a"), INNER2])]))
    runner.invoke("Go.", thread_id="t")
    message = next(e.message for e in runner.events("t") if e.address == "s/b")
    assert message is not None
    texts = ("one", "two")
    variants = {t: {"messages": [message.model_copy(update={"content": t})]} for t in texts}
    if drive is Sync:
        forks = runner.fork_many("t", "s/p/y/c", variants)
    else:
        forks = asyncio.run(runner.afork_many("t", "s/p/y/c", variants))
    for text in texts:
        assert f"[b] said: {text}" in next(e.text for e in forks[text].events if e.address == "s/p/y/c")
        assert [e.text for e in runner.events(f"t-{text}") if e.address == "s/b"] == [text]
        assert [e.text for e in forks[text].events if e.address == "s/b"] == [text]
    assert next(e.text for e in runner.events("t") if e.address == "s/b") == "B"
    step = next(e.step for e in runner.events("t-one") if e.address == "s/p/y/c")
    assert step is not None
    list(runner.rewind("t-one", step))
    assert [e.text for e in runner.events("t-one") if e.address == "s/b"] == ["one"]


def test_the_window_edits_what_an_agent_said() -> None:
    runner = ag.Runner(ag.sequential("s", [says("b"), ag.parallel("p", [says("a"), INNER2])]))
    runner.invoke("Go.", thread_id="t")
    own_id = next(runner.events("t")).id
    changes = Changes(text="B!", replaces=own_id)
    list(runner.rewind("t", "s/p/y/c", **changes.arguments(runner, "t", "s/p/y/c")))
    assert "[b] said: B!" in next(e.text for e in runner.events("t") if e.address == "s/p/y/c")
    seen = runner.activation("t", "s/p/y/c").saw
    assert [each.text for each in seen] == ["Go.", "[b] said: B!", "[n] said: N"]
    with pytest.raises(ag.AgentGraphError, match="saw no such message"):
        Changes(text="B!", replaces="x").arguments(runner, "t", "s/p/y/c")


def test_what_can_neither_be_added_nor_take_a_place_is_refused(started: Start) -> None:
    tree = ag.sequential("s", [says("a"), ag.parallel("p", [says("d"), INNER]), saw("c2")])
    thread = started(tree)
    before, messages = thread.events(), thread.thread().messages
    a, beside, last = (thread.at(at).message for at in ("s/a", "s/p/d", "s/c2"))
    assert a is not None
    assert beside is not None
    assert last is not None
    cases: list[tuple[str, BaseMessage, str]] = [
        ("s/p/x/c", last, "is not before s/p/x/c"),
        ("s/p/x/c", beside, "is not before s/p/x/c"),
        ("s/a", a, "is not before s/a"),
        ("s/c2", HumanMessage("x", id=a.id), "under the id of a message of type 'ai'"),
        ("s/c2", AIMessage("x", id=messages[0].id), "under the id of a message of type 'human'"),
        ("s/c2", AIMessage("x"), "not a message of the user"),
        ("s/c2", AIMessage("x", id="nobody's"), "not a message of the user"),
        ("s/c2", ToolMessage("x", tool_call_id="1"), "not a message of the user"),
    ]
    for at, message, fault in cases:
        new = message.model_copy(update={"content": "other"})
        with pytest.raises(ag.AgentGraphError, match=fault):
            thread.go("rewind", thread.id, at, messages=[new])
        assert (thread.events(), thread.thread().messages) == (before, messages)
