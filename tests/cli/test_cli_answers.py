"""Answers given on the command line."""

import json
from pathlib import Path

import pytest
from cli_agents import AGENTS, PAUSED, REFUSED
from commands import Commands


@pytest.fixture(autouse=True)
def agents(tmp_path: Path) -> Path:
    file = tmp_path / "agents.py"
    file.write_text(AGENTS)
    return file


def test_an_invalid_answer_keeps_the_question(command: Commands) -> None:
    command("run", "agents.py:asking", "bees", "--thread", "t")
    ended = command("resume", "agents.py:asking", "--thread", "t", "--answer", "perhaps")
    assert (ended.code, ended.out) == (REFUSED, "")
    assert "'perhaps' to asking/boss does not fit: must be one of ['yes', 'no']" in ended.err
    assert command("resume", "agents.py:asking", "--thread", "t", "--answer", "no").code == 0


def test_answers_are_named_by_address_or_id_and_fit_their_schema(command: Commands) -> None:
    paused = command("run", "agents.py:three", "go", "--thread", "t", "--json")
    ids = {q["agent_name"]: q["id"] for q in map(json.loads, paused.lines)}
    assert paused.err.splitlines()[3].endswith('), one of yes, no: {"ask": "Glossy?"}')
    resume = ("resume", "agents.py:three", "--thread", "t", "--answer")
    subset = command(*resume, "three/form/label=12", "--answer", f"{ids['glossy']}=true")
    assert subset.code == PAUSED
    assert [line for line in subset.lines if "[asks]" in line] == ["three/form/size: [asks] How many?"]
    assert subset.err.splitlines()[1].startswith(f"  three/form/size (id {ids['size']}): How many?")
    assert command(*resume, "3").lines[-1] == "three/order: [3, '12', True]"


def test_questions_of_one_address_are_named_by_their_ids(command: Commands) -> None:
    paused = command("run", "agents.py:each", "go", "--thread", "t", "--json")
    asked = [told["action"]["interrupted"] for told in map(json.loads, paused.lines) if told["action"]]
    ids = [each["id"] for each in sorted(asked, key=lambda each: each["value"]["tool_call_id"])]
    assert "with --answer ID=TEXT for each" in paused.err
    resume = ("resume", "agents.py:each", "--thread", "t", "--answer")
    unclear = command(*resume, "approve")
    assert unclear.code == REFUSED
    assert f"write ID=approve; pending are:\n  {ids[0]}\n  {ids[1]}" in unclear.err
    assert command(*resume, f"{ids[1]}=reject").code == PAUSED
    assert command(*resume, "approve").lines[-2:] == ["clerk: mailed ann", "clerk: Done."]


def test_calls_of_one_question_are_decided_by_a_word_each(command: Commands) -> None:
    assert command("run", "agents.py:clerk", "go", "--thread", "t").code == PAUSED
    resume = ("resume", "agents.py:clerk", "--thread", "t", "--answer")
    assert "must have at most 2 items, and has 3" in command(*resume, "approve, reject, reject").err
    ended = command(*resume, "approve, reject")
    assert "clerk: mailed ann" in ended.lines
    assert "clerk: mailed bob" not in ended.lines
    assert ended.lines[-1] == "clerk: Done."


def test_only_words_that_are_allowed_are_offered(command: Commands) -> None:
    paused = command("run", "agents.py:strict", "go", "--thread", "t")
    assert ", one of reject: " in paused.err
    refused = command("resume", "agents.py:strict", "--thread", "t", "--answer", "approve")
    assert "decisions.0.type: must be one of ['reject', 'respond']" in refused.err
    told = {"decisions": [{"type": "respond", "message": f"mailed {who}"} for who in ("x", "y")]}
    ended = command("resume", "agents.py:strict", "--thread", "t", "--answer", json.dumps(told))
    assert ended.lines[-3:] == ["clerk: mailed x", "clerk: mailed y", "clerk: Done."]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            ["3"],
            "the answer '3' does not say which question it is for; write ADDRESS=3; pending are:\n  "
            "three/form/size\n",
        ),
        (["three/form/siez=3"], "the question 'three/form/siez' is not pending"),
        (["three/form/size=3", "three/form/size=4"], "three/form/size is answered more than once"),
        (["three/form/size=many"], "the answer 'many' to three/form/size does not fit"),
    ],
)
def test_an_answer_to_no_question_is_refused_and_changes_nothing(
    command: Commands, answers: list[str], message: str
) -> None:
    command("run", "agents.py:three", "go", "--thread", "t")
    options = [word for answer in answers for word in ("--answer", answer)]
    ended = command("resume", "agents.py:three", "--thread", "t", *options)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert message in ended.err
    again = command("resume", "agents.py:three", "--thread", "t").lines
    assert len([line for line in again if "[asks]" in line]) == 3


def test_an_answer_without_a_pending_question_is_refused(command: Commands) -> None:
    command("run", "agents.py:first", "bees", "--thread", "t")
    ended = command("resume", "agents.py:first", "--thread", "t", "--answer", "yes")
    assert ended.code == REFUSED
    assert ended.err == (
        "Error: the thread has no pending question, got the answer 'yes'; leave --answer out\n"
    )
