"""The office of `examples/background`: how many work at a time, what fails, and what is closed early.

`crash/test_killed_office.py` kills its process.
"""

from pathlib import Path

import pytest
from helpers import texts
from helpers.commands import wait_until

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel
from examples.background import offline
from examples.background.app import desk, researcher
from examples.background.office import AT_ONCE, DESK, Office

pytestmark = pytest.mark.usefixtures("offline")
TOPICS = ("bees", "ants", "wasps", "moths", "flies", "mites", "lice", "gnats", "fleas", "ticks")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, with quick searches."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(offline, "SECONDS", 0.01)


def ends(office: Office) -> list[str]:
    """Return the ends of workers that were reported to the desk, without their ids."""
    inputs = [turn.messages[0] for turn in office.desk.thread(DESK).turns]
    words = (each.text.partition("-")[::2] for each in inputs if each.type == "tool")
    return sorted(f"{name}{rest[8:]}" for name, rest in words)


def test_ten_researchers_report_and_eight_work_at_a_time() -> None:
    with Office(desk, researcher, "t.db", [].append) as office:
        office.say(f"Research {', '.join(TOPICS)}.", "one")
        office.wait()
        assert ends(office) == sorted(f"{each} has ended; collect its report." for each in TOPICS)
        workers = [each.thread_id for each in office.workers.threads() if each.thread_id != DESK]
        turns = [turn for each in workers for turn in office.workers.thread(each).turns]
    assert len(turns) == len(TOPICS)
    active = [sum(other.began <= each.began < other.ended for other in turns) for each in turns]
    assert max(active) == AT_ONCE


def test_an_office_that_is_closed_early_continues_when_it_opens_again() -> None:
    ran, shown = list[str](), list[str]()

    def first(ctx: ag.Context) -> str:
        ran.append("first")
        wait_until(lambda: ctx.runtime.control.drain_requested)
        return "First."

    def second(ctx: ag.Context) -> str:
        ran.append("second")
        return "Second."

    worker = ag.sequential("worker", [ag.function_agent(fn.__name__, fn) for fn in (first, second)])
    with Office(desk, worker, "t.db", shown.append) as office:
        office.say("Research bees and ants.", "one")
        wait_until(lambda: len(ran) == 2)
    assert office.workers.is_idle
    assert "second" not in ran
    with Office(desk, worker, "t.db", shown.append) as office:
        assert ends(office) == []
        office.resume()
        office.wait()
        assert len(ends(office)) == 2
    assert sorted(ran) == ["first", "first", "second", "second"]
    assert shown.count("desk: Here it is: Second.") == 2


def test_a_question_of_a_worker_is_reported_and_answered() -> None:
    worker = ag.sequential("worker", [ag.human("asks", "Which?"), ag.human("again", "And where?")])
    with Office(desk, worker, "t.db", [].append) as office:
        office.say("Research bees.", "one")
        office.wait()
        assert [each.partition(" (")[0] for each in ends(office)] == [
            "bees asks: And where?",
            "bees asks: Which?",
            "bees has ended; collect its report.",
        ]
        (thread,) = (each.thread_id for each in office.workers.threads() if each.thread_id != DESK)
        assert office.workers.result(thread).text == "The wild ones."


def test_a_failure_is_reported_to_the_desk() -> None:
    def fails(ctx: ag.Context) -> str:
        raise ValueError("no page answers")

    shown = list[str]()
    with Office(desk, ag.function_agent("worker", fails), "t.db", shown.append) as office:
        office.say("Research bees.", "one")
        office.wait()
        assert ends(office) == ["bees has failed: ValueError('no page answers')"]
        office.say("Stop bees.", "two")  # nothing works any more
        assert shown[-1] == "desk: It stops before its next step."


def test_an_end_that_a_failing_desk_missed_is_reported_after_its_next_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fails = {"has ended"}

    def reply(messages: list[object]) -> object:
        if any(each in texts(messages)[-1] for each in fails):
            raise ConnectionError("no model answers")
        return offline.SCRIPTS["desk"](messages)  # type: ignore[arg-type]

    model = ScriptedChatModel(responses=reply)
    broken = ag.chat_agent("desk", model, tools=desk.tools)
    with Office(broken, researcher, "t.db", [].append) as office:
        office.say("Research bees.", "one")
        office.wait()
        assert "was not reported" in caplog.text
        assert office.desk.thread(DESK).status == "failed"
        fails.clear()
        office.say("How is it going?", "two")
        office.wait()
        thread = office.desk.thread(DESK)
        assert (thread.status, len(thread.turns)) == ("done", 3)
        assert ends(office) == ["bees has ended; collect its report."]
