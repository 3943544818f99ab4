"""Runs at a terminal: questions are asked, and a live tree is drawn."""

import json
import re

import pytest
from cli_agents import PAUSED, STOPPED
from helpers.commands import CTRL_C, CTRL_D, Commands

pytestmark = pytest.mark.usefixtures("agents")


def test_a_tool_call_is_decided_by_a_word_at_the_terminal(command: Commands) -> None:
    prompt = "clerk (approve, edit, reject, respond): "
    typed = [(prompt, "yes\n"), (prompt, 'edit: {"to": 5}, approve\n'), (prompt, "approve\n")]
    ended = command.at_terminal("run", "agents.py:clerk", "go", "--thread", "t", typed=typed)
    assert ended.code == 0
    assert {"clerk: [result] mail: mailed ann", "clerk: [result] mail: mailed bob"} <= set(ended.lines)
    assert any(line.startswith("'yes' is not a decision; type approve, ") for line in ended.lines)
    assert any("args.to: Input should be a valid string" in line for line in ended.lines)


def test_a_question_is_asked_at_the_terminal_until_the_answer_fits(command: Commands) -> None:
    prompt = "asking/boss (yes, no): "
    typed = [(prompt, "perhaps\n"), (prompt, "yes\n")]
    ended = command.at_terminal("run", "agents.py:asking", "bees", "--thread", "t", typed=typed)
    assert ended.code == 0
    assert ended.lines == [
        "asking/first: one",
        "asking/boss: [asks] Print it?",
        f"{prompt}perhaps",
        "'perhaps' does not fit: must be one of ['yes', 'no']",
        f"{prompt}yes",
        "asking/boss: yes",
        "asking/printer: yes",
        "Done: thread t, saved in agentgraph.db.",
    ]


def test_several_questions_are_asked_one_after_the_other(command: Commands) -> None:
    command("run", "agents.py:three", "go", "--thread", "t")
    typed = [("/size: ", "many\n"), ("/size: ", "3\n"), ("/label: ", "12\n"), ("(yes, no): ", "yes\n")]
    ended = command.at_terminal("resume", "agents.py:three", "t", typed=typed)
    assert ended.code == 0
    assert "'many' does not fit: Input should be a valid integer" in ended.lines
    assert ended.lines[-2] == "three/order: [3, '12', True]"


def test_the_end_of_input_at_a_question_is_a_pause(command: Commands) -> None:
    typed = [("(yes, no): ", CTRL_D)]
    ended = command.at_terminal("run", "agents.py:asking", "bees", "--thread", "t", typed=typed)
    assert ended.code == PAUSED
    assert "Paused: thread t in agentgraph.db waits for answers to" in ended.lines


def test_ctrl_c_at_a_question_stops(command: Commands) -> None:
    typed = [("(yes, no): ", CTRL_C)]
    ended = command.at_terminal("run", "agents.py:asking", "bees", "--thread", "t", typed=typed)
    assert ended.code == STOPPED
    assert "Stopped. Resume: " in ended.out
    assert command("resume", "agents.py:asking", "t", "--answer", "yes").code == 0


def test_no_input_pauses_at_a_terminal_too(command: Commands) -> None:
    arguments = ("run", "agents.py:asking", "bees", "--no-input")
    assert command.at_terminal(*arguments, typed=[]).code == PAUSED


LIVE = "xterm"
"""A terminal on which a live tree can be drawn."""


def states(out: str) -> dict[str, str]:
    """Return the state of each agent in the last tree that was drawn on a terminal."""
    last = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", out).rpartition("agent ")[2]
    rows = re.findall(r"(\w+) +(?:[a-z]+ +)?[✓✗■?·] (done|failed|stopped|asks|waiting)", last)
    return dict(rows)


def test_at_a_terminal_a_live_tree_is_below_the_lines_and_questions_below_it(command: Commands) -> None:
    typed = [(" (yes, no): ", "yes\n")]
    ended = command.at_terminal(
        "run", "agents.py:asking", "bees", "--thread", "t", typed=typed, term=LIVE
    )
    before, _, after = ended.out.partition(" (yes, no): ")
    assert ended.code == 0
    assert states(before) == {"asking": "asks", "first": "done", "boss": "asks", "printer": "waiting"}
    assert states(after) == dict.fromkeys(["asking", "first", "boss", "printer"], "done")
    assert ended.lines[-1].endswith("Done: thread t, saved in agentgraph.db.")
    assert before.count("\x1b[?25h") == before.count("\x1b[?25l") == 1


def test_at_a_terminal_ctrl_c_is_noted_below_the_tree_and_twice_shows_the_cursor_again(
    command: Commands,
) -> None:
    typed = [(" s", CTRL_C), ("Ctrl-C again stops at once.\x1b[0m", CTRL_C)]
    ended = command.at_terminal(
        "run", "agents.py:alone", "bees", "--thread", "t", typed=typed, term=LIVE
    )
    assert ended.code == STOPPED
    assert "Stopping after the running step; Ctrl-C again stops at once." in ended.out
    assert ended.out.rpartition("\x1b[?25h")[2].strip().startswith("Stopped. Resume: ")
    (command.folder / "go").touch()
    assert command("resume", "agents.py:alone", "t").lines == [
        "alone: [discarded]",
        "alone/first: one",
        "alone/hanger: went on",
    ]


def test_json_is_printed_without_a_tree_at_a_terminal_too(command: Commands) -> None:
    ended = command.at_terminal("run", "agents.py:asking", "bees", "--json", typed=[], term=LIVE)
    assert ended.code == PAUSED
    assert [json.loads(line)["agent_name"] for line in ended.lines[:2]] == ["first", "boss"]
    assert "\x1b" not in ended.out
