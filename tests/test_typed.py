"""Applications as users write them: they run as they are typed, and checkers reject wrong code."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers import lines
from langchain_core.messages import BaseMessage, ToolMessage
from typed import research

from agentgraph.testing import ScriptedChatModel, call, calls

ROOT = Path(__file__).parent.parent


def readings(name: str) -> ScriptedChatModel:
    """Return a model that plays the reader, the writer and the editor of the office, in turn."""
    wanted = [call("search", topic="bees"), call("note", text="a note"), call("forget")]
    return ScriptedChatModel(
        responses=[
            calls(*wanted),
            calls(call("cite", number=0)),
            "I have read.",
            "Bees hum.",
            f"As said: bees in {name}'s library.",
            calls(call("Verdict", grade=2, words=["hum"])),
        ],
        counts_tokens=True,
    )


def reply(messages: list[BaseMessage]) -> Any:
    """Reply as the agent of the bureau that the messages are for."""
    about, is_first = messages[0].text, not isinstance(messages[-1], ToolMessage)
    replies = {
        "About bees": "They hum.",
        "Make a plan": '["Count them."]',
        "You carry out": "Three.",
        "The question": '{"answer": "Three bees."}',
        "Order": calls(call("order", book="Hum")) if is_first else "It came.",
        "": calls(call("ann", request="Order!")) if is_first else '{"bees": 3}',
    }
    return next(text for start, text in replies.items() if about.startswith(start))


def test_the_office_runs(tmp_path: Path) -> None:
    billing, model = research.Billing(), readings("Ada")
    assert research.day(research.office(model, billing), tmp_path / "runs.db") == [
        "paused",
        "ai",
        "reader",
        "writer",
        "clerk clerk: 2 copies",
        "greeter greeter: For Ada (free), in turn 14.",
        "done",
        "1 turn",
        "bees in Ada's library",
        "a note",
        "hum",
        "tuesday",
    ]
    assert billing.paid == {"Ada": 3}
    model.assert_finished()


def test_the_office_runs_on_an_event_loop(tmp_path: Path) -> None:
    model = readings("Bob")
    office = research.office(model, research.Billing())
    result = asyncio.run(research.aday(office, tmp_path / "runs.db"))
    assert (result.status, result.text) == ("done", "For Bob (free), in turn 14.")
    sources = ["bees in Bob's library", "a note", "hum"]
    assert result.values == {"topic": "bees", "sources": sources, "draft": result.text}
    model.assert_finished()


def test_the_bureau_is_watched() -> None:
    result, printed = research.printed(research.bureau(ScriptedChatModel(responses=reply)))
    assert sorted(printed.splitlines()) == [
        "bureau/leader message",
        "bureau/leader message",
        "bureau/leader/ann(0) message",
        "bureau/leader/ann(0) message",
        "bureau/summary_with_helpers/summary message",
        "bureau/summary_with_helpers/summary_helpers/boss message",
    ]
    assert result.status == "done"
    assert result.values["summary"] == "They hum."
    assert result.output == {"bees": 3}


def test_its_streams_are_translated() -> None:
    said = ["greeter: For Ada (free), in turn 1."]
    assert lines(research.translated(research.greeter)) == said
    assert lines(asyncio.run(research.atranslated(research.greeter))) == said


def test_mypy_accepts_the_applications_and_refuses_wrong_code() -> None:
    command = [sys.executable, "-m", "mypy", "tests/typed"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout == "Success: no issues found in 3 source files\n"
