"""`agentgraph answer`: answers of a person, stored for the next run."""

import json

import pytest
from cli_agents import PAUSED, REFUSED
from helpers.commands import Commands

pytestmark = pytest.mark.usefixtures("agents")


def paused(command: Commands, tree: str) -> None:
    ended = command("run", f"agents.py:{tree}", "bees", "--thread", "t", "--no-input")
    assert ended.code == PAUSED


def test_answers_are_stored_one_after_the_other(command: Commands) -> None:
    paused(command, "three")
    first = command("answer", "agents.py:three", "t", "three/form/size=8", "three/form/label=8")
    assert (first.code, first.lines) == (
        0,
        ["Answered: thread t in agentgraph.db.", 'Waits: three/form/glossy: {"ask": "Glossy?"}'],
    )
    shown = command("show", "agents.py:three", "t").lines
    assert shown[0] == "Thread t: paused"
    assert "Answered: three/form/size: 8" in shown
    assert 'Answered: three/form/label: "8"' in shown
    last = command("answer", "agents.py:three", "t", "true")
    assert (last.code, last.lines) == (0, ["Answered: thread t in agentgraph.db."])
    data = json.loads(command("show", "agents.py:three", "t", "--json").out)
    assert (data["status"], data["pending"]) == ("stopped", [])
    assert [each["answer"] for each in data["answered"]] == [8, "8", True]
    resumed = command("resume", "agents.py:three", "t")
    assert (resumed.code, resumed.lines[-1]) == (0, "three/order: [8, '8', True]")


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["maybe"], "the answer 'maybe' to asking/boss does not fit"),
        (["asking/first=yes"], "TEXT: the question 'asking/first' is not pending; choose one of:"),
        (["yes", "asking/boss=no"], "TEXT: the question 'asking/boss' has two answers"),
    ],
)
def test_a_wrong_answer_is_not_stored(command: Commands, texts: list[str], error: str) -> None:
    paused(command, "asking")
    refused = command("answer", "agents.py:asking", "t", *texts)
    assert refused.code == REFUSED
    assert error in refused.err
    assert command("show", "agents.py:asking", "t").lines[0] == "Thread t: paused"


def test_the_first_answer_counts(command: Commands) -> None:
    paused(command, "asking")
    command("answer", "agents.py:asking", "t", "yes")
    for name, *answer in (("answer", "no"), ("resume", "--answer", "no")):
        refused = command(name, "agents.py:asking", "t", *answer)
        assert refused.code == REFUSED
        assert "the thread has no pending question for the answer 'no'; leave it out" in refused.err
    swept = command("advance", "agents.py:asking", "--all")
    assert (swept.code, swept.lines) == (0, ["t  done  yes"])


def test_decisions_on_calls_are_stored(command: Commands) -> None:
    paused(command, "clerk")
    answered = command("answer", "agents.py:clerk", "t", "approve, reject: Too late.")
    assert (answered.code, answered.err) == (0, "")
    resumed = command("resume", "agents.py:clerk", "t")
    results = sorted(resumed.lines[:2])
    assert results[1] == "clerk: [result] mail: mailed ann"
    assert "with reason: Too late." in results[0]
