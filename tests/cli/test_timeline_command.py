"""The commands `timeline` and `flame`: charts for a terminal and for a pipe, and their limits."""

import json
import re

import pytest
from cli_agents import FAILED, PAUSED, REFUSED
from helpers.commands import Commands

pytestmark = pytest.mark.usefixtures("agents")
ROW = re.compile(r"(?P<mark>[?✓✗▒▸■]) (?P<label> *\S+) +(?P<bar>[█░▒─▸]+)( +(?P<took>\S+ s))?")


def rows(lines: list[str]) -> list[tuple[str, str]]:
    """Return the marks and the labels of the rows of a chart."""
    found = [ROW.match(line) for line in lines]
    return [(row["mark"], row["label"]) for row in found if row]


def test_a_thread_is_shown_over_time(command: Commands) -> None:
    assert command("run", "agents.py:asking", "Go.", "--thread", "one", "--no-input").code == PAUSED
    shown = command("timeline", "agents.py:asking", "one")
    assert (shown.code, shown.err) == (0, "")
    assert rows(shown.lines) == [("?", "asking"), ("✓", "  first"), ("?", "  boss")]
    assert "░" in shown.lines[2]
    assert shown.lines[3].startswith("█ works  ░ waits for a person")
    assert "\x1b" not in shown.out
    assert max(map(len, shown.lines)) <= 80
    command("resume", "agents.py:asking", "one", "--answer", "yes")
    done = command("timeline", "agents.py:asking", "one").lines
    assert rows(done) == [("✓", name) for name in ("asking", "  first", "  boss", "  printer")]
    assert all((row := ROW.match(line)) and row["took"] for line in done[:4])


def test_a_failure_that_was_retried_is_greyed(command: Commands) -> None:
    assert command("run", "agents.py:failing", "Go.", "--thread", "one").code == FAILED
    assert rows(command("timeline", "agents.py:failing", "one").lines)[-1] == ("✗", "  failer")
    (command.folder / "mended").touch()
    assert command("resume", "agents.py:failing", "one").code == 0
    shown = command("timeline", "agents.py:failing", "one").lines
    assert rows(shown)[2:] == [("▒", "  failer"), ("✓", "  failer"), ("✓", "  last")]
    assert "▒" in shown[2].partition("failer")[2]


def test_what_is_left_out_is_said(command: Commands) -> None:
    command("run", "agents.py:asking", "Go.", "--thread", "one", "--no-input")
    command("resume", "agents.py:asking", "one", "--answer", "yes")
    last = command("timeline", "agents.py:asking", "one", "--last", "1").lines
    assert rows(last) == [("✓", "asking"), ("✓", "  printer")]
    assert last[-1] == "The last 1 steps of the root; --last 0 shows all."
    few = command("timeline", "agents.py:asking", "one", "--rows", "1", "--last", "0").lines
    assert few[1].startswith("    … 2 more")
    assert rows(few) == [("✓", "asking"), ("✓", "  printer")]


def test_bars_are_lines_of_json(command: Commands) -> None:
    command("run", "agents.py:asking", "Go.", "--thread", "one", "--no-input")
    bars = [json.loads(line) for line in command("timeline", "agents.py:asking", "one", "--json").lines]
    assert [(bar["address"], bar["kind"], bar["state"]) for bar in bars] == [
        ("asking", "agent", "asks"),
        ("asking/first", "agent", "done"),
        ("asking/boss", "agent", "asks"),
        ("asking/boss", "question", "asks"),
    ]
    assert bars[3]["label"] == "Print it?"


def test_older_lines_are_shown_by_their_heads(command: Commands) -> None:
    command("run", "agents.py:asking", "Go.", "--thread", "one", "--no-input")
    command("resume", "agents.py:asking", "one", "--answer", "yes")
    command("rewind", "agents.py:asking", "one", "asking/boss", "--no-input")
    lines = json.loads(command("show", "agents.py:asking", "one", "--json").out)["lines"]
    older = command("timeline", "agents.py:asking", "one", "--line", lines[1]["head"])
    assert rows(older.lines)[-1] == ("✓", "  printer")
    assert rows(command("timeline", "agents.py:asking", "one").lines)[-1] == ("?", "  boss")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["two"], "thread 'two' is not known"),
        (["one", "--line", "x"], "has no line with the head 'x'"),
        (["one", "--last", "-1"], "-1 is not in the range"),
    ],
)
def test_wrong_use_is_refused(command: Commands, arguments: list[str], why: str) -> None:
    command("run", "agents.py:asking", "Go.", "--thread", "one", "--no-input")
    refused = command("timeline", "agents.py:asking", *arguments)
    assert (refused.code, refused.out) == (REFUSED, "")
    assert why in refused.err


def test_a_flame_shows_the_agents_of_a_turn_and_those_of_another_thread(command: Commands) -> None:
    for thread in ("one", "two"):
        command("run", "agents.py:asking", "Go.", "--thread", thread, "--no-input")
    shown = command("flame", "agents.py:asking", "one", "--by", "waiting", "--other", "two")
    assert (shown.code, shown.err) == (0, "")
    assert [line.split()[0] for line in shown.lines] == ["turn", "asking", "first", "boss"]
    assert shown.lines[0].split()[-2:] == ["total", "other"]
    assert max(map(len, shown.lines)) <= 80
    frames = [json.loads(line) for line in command("flame", "agents.py:asking", "one", "--json").lines]
    assert [frame["path"] for frame in frames] == ["asking", "asking/first", "asking/boss"]
    missing = command("flame", "agents.py:asking", "one", "--turn", "3")
    assert missing.code == REFUSED
    assert missing.err == "Error: thread 'one' has no turn 3; choose one from 0 to 0\n"
