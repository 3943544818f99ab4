"""Deadlines of questions: who comes after one takes the default, or fails the agent, exactly once."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Session, Sync, says, scripted
from langgraph.types import RetryPolicy

import agentgraph as ag
from agentgraph.testing import call, calls

WAIT = 0.2
"""Seconds that the questions here wait."""
LONG = 3600
"""Seconds that no test takes."""
NO: dict[str, Any] = {"default": "no"}


def boss(name: str = "boss", **options: Any) -> ag.Agent:
    return ag.human(name, "Print it?", **{"timeout": WAIT, **options})


def press(name: str = "press", retry: Any = None, **options: Any) -> ag.Agent:
    def fn(ctx: ag.Context) -> str | ag.Ask:
        return f"So {ctx.answer}." if ctx.answered else ag.Ask("Day?", **{"timeout": WAIT, **options})

    return ag.function_agent(name, fn, retry=retry)


def runs(**options: Any) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return f"It is {await ctx.run('boss', 'Ask.')}."

    return ag.function_agent("f", fn, agents=[boss(**options)])


def clerk(**options: Any) -> ag.Agent:
    def reply(messages: Any) -> Any:
        return "Done." if messages[-1].type == "tool" else calls(call("boss", "1", request="?"))

    model = scripted(*[reply] * 3)
    return ag.chat_agent("c", model, tools=[ag.agent_tool(boss(**options))], on_tool_error="raise")


Tree = Callable[..., ag.Agent]
TREES: dict[str, Tree] = {
    "root": boss,
    "function": press,
    "branch": lambda **o: ag.parallel("p", [boss(**o), says("w", "Here.")]),
    "lane": lambda **o: ag.parallel("p", [ag.sequential("q", [boss(**o), says("w")]), says("v")]),
    "nested": lambda **o: ag.parallel("p", [ag.parallel("q", [press(**o), says("w")]), says("v")]),
    "items": lambda **o: ag.each("e", boss(**o), lambda ctx: [1, 2]),
    "step": lambda **o: ag.workflow("w", [boss(**o), ag.step(says("z"), depends_on=["boss"])]),
    "tool": clerk,
    "call": runs,
    "graph": lambda **o: ag.graph_agent("g", ag.compile_agent(ag.sequential("s", [boss(**o)]))),
}


@pytest.fixture(params=["sync in memory", "async in a file", "sync in a database"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    kind = request.param.split()[-1]
    at = request.getfixturevalue("url") if kind == "database" else {"file": tmp_path / "t.db"}.get(kind)
    return Session(says("none"), Sync if request.param[:4] == "sync" else Async, at)


def drives(session: Session, method: str, *args: Any, **options: Any) -> list[ag.AgentEvent]:
    events: list[ag.AgentEvent] = []
    session.follow(method, *args, hear=events.append, **options)
    return events


def kinds(events: list[ag.AgentEvent]) -> list[str]:
    return [f"{each.agent_name} {each.kind} {each.text}".strip() for each in events]


def until_passed(questions: list[ag.Interrupt]) -> None:
    """Wait until the deadlines of some questions have passed."""
    last = max(each.deadline or 0 for each in questions)
    while time.time() <= last:
        time.sleep(0.01)


def asked(session: Session, tree: ag.Agent) -> list[ag.Interrupt]:
    """Run a tree to its questions, and wait until their deadlines have passed."""
    session.tree, began = tree, time.time()
    events = drives(session, "run", "Go.", thread_id="t")
    questions = session.pending()
    live = [each.action.interrupted for each in events if each.action and each.action.interrupted]
    assert {each.id: each.deadline for each in live} == {each.id: each.deadline for each in questions}
    assert all(began + WAIT <= (each.deadline or 0) <= time.time() + WAIT for each in questions)
    assert session.thread().pending == questions
    until_passed(questions)
    return questions


def ids(questions: list[ag.Interrupt]) -> list[str]:
    return sorted(each.id for each in questions)


@pytest.mark.by_turns("session")
@pytest.mark.parametrize("name", TREES)
def test_a_default_is_the_answer_once_the_deadline_has_passed(session: Session, name: str) -> None:
    questions = asked(session, TREES[name](**NO))
    heard = drives(session, "resume", "t")
    assert session.thread().status == "done"
    assert session.pending() == []
    defaults = [each.action.default for each in heard if each.action and each.action.default]
    found = sorted((each.id, each.answer, each.deadline) for each in defaults)
    if name != "graph":  # the events of a graph in an agent are its messages
        assert found == sorted((each.id, "no", each.deadline) for each in questions)
        assert [each for each in session.events() if each.kind == "default"] == [
            each for each in heard if each.kind == "default"
        ]
    with pytest.raises(ag.UnknownInterruptError, match="'no' is the answer; leave it out"):
        drives(session, "resume", "t", {questions[0].id: "yes"})


@pytest.mark.by_turns("session")
@pytest.mark.parametrize("name", TREES)
def test_without_a_default_the_agent_fails_and_a_resume_asks_again(session: Session, name: str) -> None:
    questions = asked(session, TREES[name]())
    with pytest.raises((ag.QuestionTimeoutError, ag.StepFailedError), match="not answered within"):
        drives(session, "resume", "t")
    assert session.thread().status == "failed"
    session.tree = TREES[name](timeout=LONG)
    drives(session, "resume", "t")
    again = session.pending()
    assert len(again) == len(questions)
    assert not {*ids(again)} & {*ids(questions)}
    assert all((new.deadline or 0) > (each.deadline or 0) for new in again for each in questions)
    if name not in ("function", "nested"):  # the short timeout of an `Ask` is saved with it
        drives(session, "resume", "t", {each.id: "yes" for each in again})
        assert session.thread().status == "done"
    assert [each.kind for each in session.events()].count("error") >= len(questions)


@pytest.mark.by_turns("session")
@pytest.mark.parametrize("name", ["root", "function", "branch", "items"])
def test_a_late_answer_is_rejected_and_nothing_is_saved(session: Session, name: str) -> None:
    questions = asked(session, TREES[name](**NO))
    for answers in [{questions[0].id: "yes"}, {questions[0].address: "yes"}]:
        with pytest.raises(
            ag.UnknownInterruptError, match=r"is too late: .* 'no' is the answer; leave"
        ):
            drives(session, "resume", "t", answers)
    assert session.pending() == questions
    assert drives(session, "resume", "t")


@pytest.mark.by_turns("session")
def test_a_question_that_is_asked_again_keeps_its_deadline(session: Session) -> None:
    slow = ag.human("slow", "Well?", timeout=60, default=None)
    session.tree = ag.parallel("p", [slow, ag.human("other", "And?"), press(**NO)])
    drives(session, "run", "Go.", thread_id="t")
    first = {each.address: each.deadline for each in session.pending()}
    until_passed([each for each in session.pending() if each.agent_name == "press"])
    heard = drives(session, "resume", "t", {"p/other": "x"})
    assert "press default" in kinds(heard)
    (question,) = session.pending()
    assert question.deadline == first["p/slow"]
    again = [each.action.interrupted for each in heard if each.action and each.action.interrupted]
    assert [each.deadline for each in again] == [question.deadline]
    assert drives(session, "resume", "t", "now")[-1].text == "now"


@pytest.mark.by_turns("session")
def test_a_rewind_and_a_copy_from_there_count_from_when_they_ask(session: Session) -> None:
    (question,) = asked(session, ag.sequential("s", [says("w"), boss(**NO)]))
    session.tree = ag.sequential("s", [says("w"), boss(timeout=LONG)])
    drives(session, "rewind", "t", "s/boss")
    (again,) = session.pending()
    assert (again.deadline or 0) > (question.deadline or 0) + LONG / 2
    assert drives(session, "resume", "t", "yes")[-1].text == "yes"


def test_none_is_a_default(session: Session) -> None:
    asked(session, boss(default=None, output_key="printed"))
    heard = drives(session, "resume", "t")
    assert kinds(heard) == ["boss default", "boss message null"]
    assert session.thread().values == {"printed": None}


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.by_turns("session")
def test_an_approval_that_comes_too_late_is_a_rejection(session: Session, mode: Any) -> None:
    paid = list[int]()

    def pay(usd: int) -> str:
        """Pay."""
        paid.append(usd)
        return "Paid."

    model = scripted(calls(call("pay", "1", usd=3), call("pay", "2", usd=4)), "Well.", "Well.")
    options: Any = {"approve": ["pay"], "approve_timeout": WAIT, "interrupt_mode": mode}
    questions = asked(session, ag.chat_agent("clerk", model, tools=[pay], **options))
    yes: Any = {"type": "approve"} if mode == "per_call" else {"decisions": [{"type": "approve"}] * 2}
    with pytest.raises(ag.UnknownInterruptError, match="its default rejects the calls"):
        drives(session, "resume", "t", {questions[0].id: yes})
    heard = drives(session, "resume", "t")
    defaults = [each for each in heard if each.action and each.action.default]
    assert [each for each in session.events() if each.kind == "default"] == defaults
    found = {each.action.default.id: each.action.default for each in defaults if each.action}
    assert {each.id: each.deadline for each in found.values()} == {q.id: q.deadline for q in questions}
    rejected = [each.answer.get("decisions", [each.answer]) for each in found.values()]
    assert [one["type"] for each in rejected for one in each] == ["reject", "reject"]
    results = [each.text for each in heard if each.message and each.message.type == "tool"]
    why = "No decision was made before the deadline, so the call did not run."
    assert [each.endswith(why) for each in results] == [True, True]
    assert (paid, session.thread().status) == ([], "done")
    with pytest.raises(ag.UnknownInterruptError, match="its default rejects the calls"):
        drives(session, "resume", "t", {questions[0].id: yes})


@pytest.mark.by_turns("session")
@pytest.mark.parametrize("options", [NO, {}], ids=["default", "no default"])
def test_reports_tell_a_default_from_an_answer(session: Session, options: dict[str, Any]) -> None:
    (question,) = asked(session, ag.sequential("s", [boss(**options)]))
    with suppress(ag.QuestionTimeoutError):
        drives(session, "resume", "t")
    timeline = session.use(lambda r: r.timeline("t"), lambda r: r.atimeline("t"))
    (bar,) = [each for each in timeline.bars if each.kind == "question"]
    assert (bar.label, bar.state) == ("Print it? (not answered in time)", "done")
    report = session.use(lambda r: r.activation("t", "s/boss"), lambda r: r.aactivation("t", "s/boss"))
    (found,) = report.questions
    is_answered, answer = bool(options), options.get("default")
    assert (found.question, found.answer) == (question, answer)
    assert (found.is_answered, found.is_late) == (is_answered, True)


def test_advance_looks_at_the_clock(session: Session) -> None:
    session.tree = ag.sequential("s", [boss(**NO), says("w", "Printed.")])

    def advance(*args: Any, **options: Any) -> ag.Result:
        found: ag.Result = session.use(
            lambda runner: runner.advance("t", *args, **options),
            lambda runner: runner.aadvance("t", *args, **options),
        )
        return found

    assert advance("Go.", turn_id="one").status == "paused"
    until_passed(session.pending())
    with pytest.raises(ag.UnknownInterruptError, match="'no' is the answer"):
        advance(turn_id="one", answers={"s/boss": "yes"})
    done = advance("Go.", turn_id="one")
    assert (done.status, done.text) == ("done", "Printed.")
    for late in ("yes", "no"):
        with pytest.raises(ag.UnknownInterruptError, match="'no' is the answer"):
            advance(turn_id="one", answers={"s/boss": late})


def failing_trees() -> Iterator[tuple[str, ag.Agent, list[str]]]:
    both: Any = [boss(), says("w", "Here.")]
    yield "collect", ag.parallel("p", both, on_error="collect"), ["boss error"]
    yield "first", ag.parallel("p", [boss(), press(**NO)], on_error="first"), ["press message So no."]


@pytest.mark.parametrize(("tree", "line"), [(tree, line) for _, tree, line in failing_trees()])
@pytest.mark.by_turns("session")
def test_a_timeout_is_a_failure_of_the_agent_that_asked(
    session: Session, tree: ag.Agent, line: list[str]
) -> None:
    asked(session, tree)
    assert {*line} <= {*kinds(drives(session, "resume", "t"))}
    assert session.thread().status == "done"


def test_a_retry_asks_again_in_the_same_run_and_fails_once() -> None:
    policy = RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=2)
    runner = ag.Runner(ag.sequential("s", [press(retry=policy, timeout=1)]))
    (question,) = runner.invoke("Go.", thread_id="t").pending
    until_passed([question])
    (again,) = runner.invoke(thread_id="t").pending
    assert again.id != question.id
    assert [each.id for each in runner.invoke(thread_id="t").pending] == [again.id]
    assert runner.invoke(thread_id="t", answers="Monday").text == "So Monday."


def test_an_answer_with_the_form_of_a_default_is_rejected() -> None:
    runner = ag.Runner(boss(**NO))
    runner.invoke("Go.", thread_id="t")
    forged = {"$agentgraph": {"kind": "default", "id": "", "deadline": 0, "answer": "yes"}}
    with pytest.raises(ag.InvalidAnswerError, match="its form is reserved"):
        runner.invoke(thread_id="t", answers={"boss": forged})
