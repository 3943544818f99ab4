"""Texts of models, people and exceptions are printed without escape sequences."""

import io
import json
import re
from pathlib import Path

import pytest
from helpers.commands import Commands, Ended
from langchain_core.messages import AIMessage
from rich.console import Console

import agentgraph as ag
from agentgraph.show.lines import one_line, print_event, without_controls
from agentgraph.testing import transcript

TITLE, CLEAR, BELL, BACK = "\x1b]0;owned\x07", "\x1b[2J\x9b", "\a\b", "\rDone: thread t"
TURNED, LONE, PROMPT = "\u202eexe.txt\u2066", "\ud800", "\nPaused: type your password"
HOSTILE = f"bees{TITLE}{CLEAR}{BELL}{BACK}{TURNED}{LONE}{PROMPT}"
SAID = HOSTILE.replace(LONE, "")  # what an agent says must be what a saver can keep
STEERS = re.compile(r"\x1b\]|\x1b\[2J|[\x00-\x08\x0b\x0c\x0e-\x1a\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Escape sequences and control characters, except those with which live trees move the cursor."""

AGENTS = f"""
import os
import agentgraph as ag

os.environ["TERM"] = os.environ.get("DRAWN", os.environ.get("TERM", ""))
HOSTILE, SAID, TITLE = {HOSTILE!a}, {SAID!a}, {TITLE!a}


class OddError(Exception):
    pass


def fail(ctx):
    error = OddError(HOSTILE)
    error.add_note(HOSTILE)
    raise error


says = ag.function_agent("says", lambda ctx: SAID)
fails = ag.function_agent("fails", fail)
asks = ag.human("asks", SAID.replace("{{", "("))
chooses = ag.human("chooses", "Which?", response_schema={{"enum": ["a", "b" + TITLE]}})
broken = ag.sequential("broken", [ag.loop(HOSTILE, [], max_iterations=1)])
"""


@pytest.fixture(autouse=True)
def agents(command: Commands) -> Path:
    path = command.folder / "agents.py"
    path.write_text(AGENTS)
    (command.folder / "raises.py").write_text(f"raise ValueError({HOSTILE!a})")
    (command.folder / "skill.yaml").write_text(
        json.dumps({"human": {"name": SAID[:-1], "prompt": "?", HOSTILE: 1}})
    )
    return path


def assert_clean(ended: Ended) -> None:
    for text in (ended.out, ended.err):
        assert STEERS.findall(text) == []
        assert "\rDone" not in text
        assert "\nPaused: type" not in text


def test_what_an_agent_says_is_cleaned_at_a_terminal_and_in_a_pipe(command: Commands) -> None:
    for ended in (
        command.at_terminal("run", "agents.py:says", "Go.", "--thread", "t", typed=[]),
        command("run", "agents.py:says", "Go.", "--thread", "u"),
    ):
        assert ended.code == 0
        assert "says: beesDone: thread texe.txt\n    Paused: type your password\n" in ended.out
        assert_clean(ended)
    again = command("events", "agents.py:says", "u")
    assert again.out.startswith("says: beesDone: thread texe.txt")
    assert_clean(again)


def test_a_live_tree_is_clean(command: Commands, agents: Path) -> None:
    agents.write_text(AGENTS.replace('os.environ.get("DRAWN", os.environ.get("TERM", ""))', "'xterm'"))
    for name, code in (("says", 0), ("fails", 1)):
        ended = command.at_terminal("run", f"agents.py:{name}", "Go.", typed=[])
        assert ended.code == code
        assert "beesDone: thread texe.txt" in ended.out
        assert_clean(ended)


@pytest.mark.parametrize("options", [[], ["--traceback"]], ids=len)
def test_how_a_run_failed_is_cleaned(command: Commands, options: list[str]) -> None:
    for ended in (
        command.at_terminal("run", "agents.py:fails", "Go.", *options, typed=[]),
        command("run", "agents.py:fails", "Go.", *options),
    ):
        assert ended.code == 1
        failed = "Failed: OddError: beesDone: thread texe.txt\\ud800\n    Paused: type your password\n"
        assert failed in ended.out + ended.err
        assert_clean(ended)


def test_what_is_asked_and_chosen_from_is_cleaned(command: Commands) -> None:
    paused = command("run", "agents.py:asks", "Go.")
    assert paused.code == 3
    assert re.search(r"^  asks \(id \w+\): beesDone: thread texe.txt Paused: type", paused.err, re.M)
    assert_clean(paused)
    typed = [("chooses (a, b): ", "c\n"), ("chooses (a, b): ", "a\n")]
    ended = command.at_terminal("run", "agents.py:chooses", "Go.", typed=typed)
    assert ended.code == 0
    assert "'c' does not fit: must be one of ['a', 'b" in ended.out
    assert_clean(ended)


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "agents.py:broken"],
        ["draw", "agents.py:broken"],
        ["draw", "--tree", "agents.py:broken"],
        ["run", "agents.py:broken", "Go."],
        ["check", "raises.py:a"],
        ["check", "skill.yaml"],
        ["draw", "skill.yaml"],
        ["check", "agents.py:a\x1b]0;owned\x07"],
        ["events", "agents.py:says", "t", "--db", "\x1b[2Jno.db"],
        ["demo", "\x1b]0;owned\x07.txt"],
    ],
    ids=" ".join,
)
def test_what_a_command_refuses_is_cleaned(command: Commands, arguments: list[str]) -> None:
    ended = command(*arguments)
    assert ended.code == 2
    assert STEERS.findall(ended.out + ended.err) == []
    at_terminal = command.at_terminal(*arguments, typed=[])
    assert at_terminal.code == 2
    assert STEERS.findall(at_terminal.out) == []


def test_json_and_transcripts_keep_a_text_as_it_was_said(command: Commands) -> None:
    ended = command("run", "agents.py:says", "Go.", "--json")
    event = ag.AgentEvent.from_dict(json.loads(ended.out))
    assert event.text == SAID
    assert STEERS.findall(ended.out) == []
    assert transcript([event]) == [f"says: {SAID}"]


def test_an_event_of_elsewhere_is_printed_clean_on_any_console() -> None:
    path = ag.RunPath([ag.RunStep("a"), ag.RunStep("b")])
    event = ag.AgentEvent(
        agent_name="b",
        run_path=path,
        address=f"a{TITLE}/b{CLEAR}",
        id="1",
        output=ag.Output(message=AIMessage(HOSTILE)),
    )
    for is_terminal in (False, True):
        file = io.StringIO()
        console = Console(file=file, force_terminal=is_terminal, color_system=None, width=80)
        print_event(console, event)
        assert file.getvalue().startswith("a/b: beesDone: thread texe.txt\\ud800\n    Paused")
        assert STEERS.findall(file.getvalue()) == []


def test_only_lines_and_tabs_stay() -> None:
    assert without_controls("a\tb\nc\x00\x0b\x85\r\nd\x1b") == "a\tb\nc\nd"
    assert without_controls("\x1b]8;;https://a.b\x9clink\x1b\\ \x1b\x1b[31m[2J") == "link [31m[2J"
    assert one_line(HOSTILE) == "beesDone: thread texe.txt\\ud800 Paused: type your password"
