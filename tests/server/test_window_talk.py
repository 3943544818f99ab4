"""The conversation of the window: turns that run again, edits, branches, answers."""

from typing import Any

import pytest
from helpers import asks
from helpers.agents import scripted
from helpers.told import calls
from langchain_core.messages import AIMessage, AIMessageChunk
from pydantic_core import to_json

import agentgraph as ag
from agentgraph.events.events import Output
from agentgraph.testing import ScriptedChatModel
from agentgraph.threads.live.active_run import ActiveRun
from agentgraph.window.calls import Window
from agentgraph.window.run_texts import RunTexts


class Talk:
    """A window on a thread "t" of a tree."""

    def __init__(self, tree: ag.Agent, *texts: str) -> None:
        self.runner = ag.Runner(tree)
        self.window = Window(self.runner, "talk")
        for text in texts:
            self.runner.invoke(text, thread_id="t")

    def call(self, name: str, thread_id: str = "t", **arguments: Any) -> Any:
        """Make a call, and wait until nothing runs."""
        answer = self.window.call(name, {"thread_id": thread_id, **arguments})
        for each in answer.get("threads", {}).values():
            self.runner.wait(each, 60)
        self.runner.wait("t", 60)
        return answer

    def read(self, thread_id: str = "t", **options: Any) -> list[str]:
        """Return what was sent and emitted, in order; input of turns is marked with ">"."""
        talk = self.call("conversation", thread_id, steps=None, **options)
        lines = [
            (each["after"], ">" if each["is_input"] else "+", message["text"])
            for each in talk["sent"]
            for message in each["messages"]
        ]
        lines += [(each["cursor"], "", gist(each)) for each in talk["events"]]
        return [
            mark + text for _, mark, text in sorted(lines, key=lambda each: (each[0], bool(each[1])))
        ]

    def sent(self, turn: int) -> str:
        """Return the id of the message that started a turn."""
        talk = self.call("conversation", steps=None)
        return next(each["messages"][0]["id"] for each in talk["sent"] if each["turn"] == turn)

    def turns(self, thread_id: str = "t") -> list[list[str]]:
        """Return the texts of each turn, as the summary has them."""
        return [each["texts"] for each in self.call("thread", thread_id)["turns"]]


def gist(event: dict[str, Any]) -> str:
    message = event["output"] and event["output"]["message"]
    return message["data"]["content"] if message else event["kind"]


def echo() -> ag.Agent:
    """A switch, whose one agent numbers its replies."""
    numbers = iter(range(100))
    model = ScriptedChatModel(responses=lambda messages: f"{next(numbers)} {messages[-1].text}")
    return ag.switch("desk", lambda ctx: "bot", {"bot": ag.chat_agent("bot", model)})


def test_a_turn_runs_again_from_its_start_with_the_same_or_another_message() -> None:
    talk = Talk(echo(), "one", "two", "three")
    assert talk.read()[-3:] == [">three", "chosen", "2 three"]
    talk.call("restart", turn=1, text="TWO", replaces=talk.sent(1))
    assert talk.read() == [">one", "chosen", "0 one", ">TWO", "chosen", "3 TWO"]
    first, again = talk.call("thread")["turns"]
    assert (first["texts"], again["texts"]) == (["one"], ["TWO"])
    assert talk.call("conversation")["sent"][-1]["time"] == again["began"]
    talk.call("restart", turn=1)
    assert talk.read()[3:] == [">TWO", "chosen", "4 TWO"]
    assert talk.call("thread")["lines"] == 3
    older = talk.call("lines")["lines"][-1]["head"]
    assert talk.read(line=older)[-1] == "2 three"
    first = talk.call("thread", line=older)
    assert ([each["texts"] for each in first["turns"]], first["last"]) == (
        [["one"], ["two"], ["three"]],
        "2 three",
    )
    talk.runner.invoke("more", thread_id="t")
    assert talk.turns() == [["one"], ["TWO"], ["more"]]


def test_a_branch_begins_at_a_step_or_with_another_message() -> None:
    talk = Talk(echo(), "one", "two")
    changes = {"text": "TWO", "replaces": talk.sent(1)}
    talk.call("fork", at="desk", turn=1, variants={"a": changes})
    assert talk.read("t-a") == [">one", "chosen", "0 one", ">two", "+TWO", "chosen", "2 TWO"]
    assert talk.turns("t-a") == [["one"], ["TWO"]]
    edited, *_ = talk.call("conversation", "t-a")["sent"][::-1]
    assert talk.call("thread", "t-a")["turns"][1]["began"] == edited["time"]
    step = talk.call("conversation")["events"][-1]["step"]
    talk.call("fork", at=step, variants={"b": {}})
    assert talk.read("t-b")[3:] == [">two", "chosen", "3 two"]
    talk.call("rewind", at="desk/bot", turn=1, changes={"text": "and more"})
    assert talk.read()[3:] == [">two", "chosen", "+and more", "4 and more"]


def refine(rounds: int) -> Talk:
    agents = [ag.function_agent(name, lambda ctx: "said") for name in ("writer", "critic")]
    return Talk(ag.loop("refine", agents, max_iterations=rounds), "Go.")


def test_a_conversation_of_a_loop_grows_with_its_events_and_has_their_whole_run_paths() -> None:
    few, many = (refine(rounds).call("conversation", steps=None) for rounds in (50, 100))
    assert len(to_json(many)) < 2.2 * len(to_json(few))
    talk = refine(20)
    read = talk.call("conversation", steps=None)

    def steps_to(row: int) -> list[list[Any]]:
        if row < 0:
            return []
        before, *step = read["paths"][row]
        return [*steps_to(before), step]

    for each in read["events"]:
        each["run_path"] = steps_to(each["run_path"])
        del each["kind"]
    assert read["events"] == [each.to_dict() for each in talk.runner.events("t")]


def test_the_input_of_a_long_thread_that_was_rewound_is_the_edited_one() -> None:
    tick = ag.function_agent("tick", lambda ctx: ag.BreakLoop() if ctx.iteration == 105 else None)
    say = ag.function_agent("say", lambda ctx: "So.")
    talk = Talk(
        ag.sequential("long", [say, ag.loop("ticks", [tick], max_iterations=999)]), "one", "two"
    )
    talk.call("restart", turn=0, text="ONE", replaces=talk.sent(0))
    talk.runner.invoke("two", thread_id="t")
    changes = {"text": "TWO", "replaces": talk.sent(1)}
    talk.call("rewind", at="long/say", turn=1, changes=changes)
    talk.call("fork", at="long/say", turn=1, variants={"a": {**changes, "text": "Two."}})
    for thread_id, first, second in (("t", "ONE", "TWO"), ("t-a", "ONE", "Two.")):
        for text in ("three", "four"):
            talk.runner.invoke(text, thread_id=thread_id)
        fresh = Window(talk.runner, "talk").call("thread", {"thread_id": thread_id})
        assert fresh["usage"]["input"] is None  # it is too long to be read as a whole
        assert [each["texts"][0] for each in fresh["turns"]] == [first, second, "three", "four"]


def test_values_that_runs_set_are_in_the_conversation_and_proposed() -> None:
    def fail(ctx: ag.Context) -> str:
        if ctx.values["size"] > 1:
            raise ValueError("too large")
        return "Well."

    writer = ag.chat_agent("writer", scripted(*["Bees."] * 3), instruction="On {topic?}.")
    runner = ag.Runner(
        ag.sequential("s", [writer, ag.function_agent("fail", fail), asks("boss")]),
        limits=ag.Limits(steps=9),
    )
    window = Window(runner, "values")
    assert window.call("about", {})["limits"] == {"steps": 9, "transfers": 50}
    assert window.call("values", {}) == {"names": ["size", "topic"], "values": {}}
    with pytest.raises(ValueError, match="too large"):
        runner.invoke("Go.", thread_id="t", values={"size": 2})
    runner.invoke(thread_id="t", values={"size": 1, "other": "x" * 2000})
    runner.invoke(thread_id="t", answers="yes")
    known = window.call("values", {"thread_id": "t"})  # long ones are not proposed
    assert known == {"names": ["other", "size", "topic"], "values": {"size": 1}}
    bees = "蜂" * 1000  # short, although six times as long in ASCII
    list(runner.rewind("t", "s/writer", values={"topic": bees, "size": 0}))
    runner.invoke(thread_id="t", answers="no")
    known = window.call("values", {"thread_id": "t"})
    assert known == {"names": ["size", "topic"], "values": {"size": 0, "topic": bees}}
    (present, older) = window.call("lines", {"thread_id": "t"})["lines"]
    of_line = {line["head"]: {"thread_id": "t", "line": line["head"]} for line in (present, older)}
    sets = [
        [(each["is_input"], each["values"]) for each in window.call("conversation", of)["sent"]]
        for of in of_line.values()
    ]
    assert sets[0] == [(True, {"size": 2}), (False, {"topic": bees, "size": 0})]
    assert sets[1] == [(True, {"size": 2}), (False, {"size": 1, "other": "x" * 2000})]
    rows = window.call("compare", {"thread_id": "t", "other_line": older["head"]})["rows"]
    answers = [(each["left"]["answers"], each["right"]["answers"]) for each in rows]
    assert answers == [([], []), ([], []), (["no"], ["yes"])]


def test_results_of_tools_are_no_output_of_a_paused_turn() -> None:
    def look(word: str) -> str:
        """Look."""
        return "Found."

    def pay(word: str) -> str:
        """Pay."""
        return "Paid."

    replies = ["Hi.", calls(("look", {"word": "a"})), calls(("pay", {"word": "b"}), first="2"), "Paid."]
    tools = [look, pay]
    talk = Talk(
        ag.chat_agent("shop", scripted(*replies), tools=tools, approve=["pay"]), "Hello.", "Go."
    )
    thread = talk.call("thread")
    assert (thread["status"], thread["last"]) == ("paused", "")
    talk.runner.invoke(thread_id="t", answers="approve")
    assert talk.call("thread")["last"] == "Paid."


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"turn": 9}, "thread 't' has no turn 9"),
        ({"turn": 0, "text": " "}, "the text is empty; pass the text of the message"),
        (
            {"turn": 0, "text": "x"},
            "replaces=None: the input of turn 0 has no such message; reload the page",
        ),
    ],
)
def test_a_turn_that_cannot_run_again_stays(arguments: dict[str, Any], error: str) -> None:
    talk = Talk(echo(), "one")
    with pytest.raises(ag.AgentGraphError) as refused:
        talk.call("restart", **arguments)
    assert str(refused.value) == error
    assert talk.read() == [">one", "chosen", "0 one"]
    with pytest.raises(
        ag.ThreadError, match="has no checkpoint 'b'; read the conversation from its end"
    ):
        talk.call("conversation", before="b")


def test_answers_are_with_their_questions_stored_or_taken() -> None:
    talk = Talk(ag.parallel("both", [asks("ann"), asks("bob")]), "Go.")
    ann, bob = talk.runner.pending("t")
    talk.runner.answer("t", {ann.id: "yes"})
    thread = talk.call("thread")
    assert [(each["question"]["id"], each["answer"]) for each in thread["answered"]] == [
        (ann.id, "yes")
    ]
    assert [each["id"] for each in thread["pending"]] == [bob.id]
    talk.call("answer", answers={bob.id: "no"})
    asked = talk.call("conversation")["asked"]
    answers = {each["question"]["id"]: (each["is_answered"], each["answer"]) for each in asked}
    assert answers == {ann.id: (True, "yes"), bob.id: (True, "no")}


def test_a_page_that_comes_late_hears_no_words_of_an_attempt_that_failed() -> None:
    run = ActiveRun()
    texts = RunTexts(run)

    def emit(**what: Any) -> None:
        event = ag.AgentEvent(agent_name="bot", run_path=ag.RunPath(), address="bot", **what)
        for each in [*run.feed.subscribers]:
            each(event)

    def chunk(message: str, text: str) -> None:
        emit(id=message, output=Output(message=AIMessageChunk(text), partial=True))

    def heard() -> list[tuple[str, str, str, bool]]:
        found: list[tuple[str, str, str, bool]] = []
        texts.listen(lambda *words: found.append(words))
        return found

    chunk("first", "Wro")
    early = heard()
    chunk("second", "Ri")
    chunk("second", "ght")
    assert early == [
        ("bot", "first", "Wro", True),
        ("bot", "second", "Ri", True),
        ("bot", "second", "ght", False),
    ]
    assert heard() == [("bot", "second", "Right", True)]
    emit(id="second", output=Output(message=AIMessage("Right")))
    assert heard() == []
    chunk("third", "Wro")
    emit(id="error", error="ValueError()")
    assert heard() == []
