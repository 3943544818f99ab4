"""Not in the sessions of `sessions.txt`: JSON, ids, standard input, signals, tracebacks."""

import json
import signal

import pytest
from cli_agents import FAILED, PAUSED, REFUSED, STOPPED
from helpers.commands import Commands, Running, wait_until

from agentgraph.events.events import AgentEvent
from agentgraph.skills import json_schema

pytestmark = pytest.mark.usefixtures("agents")


def test_further_lines_of_a_text_are_indented(command: Commands) -> None:
    ended = command(
        "run", "agents.py:echo", "one\n\n  two\n[bold]three[/bold] " + 30 * "long " + ":bee:"
    )
    assert ended.out.split("\n") == [
        "echo: one",
        "    ",
        "      two",
        "    [bold]three[/bold] " + 30 * "long " + ":bee:",
        "",
    ]


def test_events_are_shown_as_they_happen(command: Commands) -> None:
    running = command.start("run", "agents.py:hanging", "bees")
    wait_until((command.folder / "hanging").exists)
    running.said("hanging/first: one\n")
    running.said("pair/other: two\n")
    (command.folder / "go").touch()
    assert running.wait().lines[-2:] == ["hanging/pair/hanger: went on", "hanging/last: three"]


def test_a_dash_reads_the_input_from_standard_input(command: Commands) -> None:
    assert command("run", "agents.py:echo", "-", stdin="bees\nänts").lines == ["echo: bees", "    änts"]
    refused = command("run", "agents.py:echo", "-", stdin=b"\xff\x00")
    assert (refused.code, refused.out) == (REFUSED, "")
    assert refused.err.startswith("Error: standard input is not UTF-8 text: ")


def test_traceback_prints_the_traceback(command: Commands) -> None:
    assert "Traceback" not in command("run", "agents.py:failing", "bees", "--thread", "t").err
    ended = command("resume", "agents.py:failing", "t", "--traceback")
    assert ended.code == FAILED
    assert "Traceback" in ended.err
    assert 'raise ValueError("the printer is jammed")' in ended.err


def test_the_value_that_is_missing_is_named_in_the_command_to_go_on(command: Commands) -> None:
    ended = command("run", "agents.py:chat", "go", "--thread", "t")
    given = command.follow(ended.continue_command.replace("...", "ants"))
    assert (given.code, given.lines) == (0, ["chat: told: About ants."])


def test_events_as_json_are_agent_events(command: Commands) -> None:
    run = command("run", "agents.py:asking", "bees", "--thread", "t", "--json")
    resumed = command("resume", "agents.py:asking", "t", "--answer", "yes", "--json")
    live = [AgentEvent.from_dict(json.loads(line)) for line in run.lines + resumed.lines]
    assert [event.kind for event in live] == ["message", "interrupted", "message", "message"]
    replay = command("events", "agents.py:asking", "t", "--json")
    assert [AgentEvent.from_dict(json.loads(line)) for line in replay.lines] == live


def test_a_question_is_answered_by_its_address_or_its_id(command: Commands) -> None:
    paused = command("run", "agents.py:three", "go", "--thread", "t", "--json")
    ids = {each["agent_name"]: each["id"] for each in map(json.loads, paused.lines)}
    answers = ("--answer", "three/form/label=12", "--answer", f"{ids['glossy']}=true")
    ended = command("resume", "agents.py:three", "t", *answers)
    assert ended.code == PAUSED
    assert ended.err.splitlines()[1] == f"  three/form/size (id {ids['size']}): How many?"


def test_questions_of_one_address_are_answered_by_their_ids(command: Commands) -> None:
    paused = command("run", "agents.py:each", "go", "--thread", "t", "--json")
    events = [event["action"] for event in map(json.loads, paused.lines) if event["action"]]
    asked = {each["interrupted"]["value"]["tool_call_id"]: each["interrupted"]["id"] for each in events}
    assert "with --answer ID=TEXT for each" in paused.err
    resume = ("resume", "agents.py:each", "t", "--answer")
    unclear = command(*resume, "approve")
    assert unclear.code == REFUSED
    assert f"write ID=approve with one of:\n  {asked['1']}\n  {asked['2']}" in unclear.err
    assert command(*resume, f"{asked['2']}=reject").code == PAUSED
    assert command(*resume, "approve").lines[-2:] == [
        "clerk: [result] mail: mailed ann",
        "clerk: Done.",
    ]


def interrupted(command: Commands) -> Running:
    """Return a run that is stopping after Ctrl-C: its step runs on until the file `go` exists."""
    running = command.start("run", "agents.py:hanging", "bees", "--thread", "t")
    wait_until((command.folder / "hanging").exists)
    running.said("pair/other: two\n")
    running.signal(signal.SIGINT)
    running.said("Ctrl-C again stops at once")
    return running


def test_ctrl_c_stops_after_the_running_step_and_the_thread_can_be_resumed(command: Commands) -> None:
    running = interrupted(command)
    (command.folder / "go").touch()
    stopped = running.wait()
    assert stopped.code == STOPPED
    assert stopped.err.splitlines()[-1].startswith("Stopped. Resume: ")
    resumed = command.follow(stopped.continue_command)
    assert resumed.code == 0
    assert stopped.lines[-1] == "hanging/pair/hanger: went on"
    assert resumed.lines == ["hanging/last: three"]
    ledger = (command.folder / "ledger").read_text().split()
    assert sorted(ledger) == ["first", "hanger", "last", "other"]


def test_ctrl_c_twice_stops_at_once(command: Commands) -> None:
    running = interrupted(command)
    assert running.out.splitlines() == ["hanging/first: one", "hanging/pair/other: two"]
    running.signal(signal.SIGINT)
    stopped = running.wait()
    assert stopped.code == STOPPED
    (command.folder / "go").touch()
    assert command.follow(stopped.continue_command).lines == [
        "hanging: [discarded]",
        "hanging/first: one",
        "hanging/pair/other: two",
        "hanging/pair/hanger: went on",
        "hanging/last: three",
    ]


@pytest.mark.parametrize("package", ["click", "dotenv", "rich"])
def test_a_missing_package_is_named(command: Commands, package: str) -> None:
    ended = command("check", "agents.py:first", without=package)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err == (
        "agentgraph's command line needs more packages: pip install 'langgraph-agentgraph[cli]'\n"
    )


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["resume", "agents.py:first"]])
def test_a_wrong_call_ends_with_2(command: Commands, arguments: list[str]) -> None:
    assert command(*arguments).code == REFUSED


def test_the_help_names_skill_files_whose_schema_is_printed(command: Commands) -> None:
    assert "or a skill file" in command("--help").out
    assert "--registry FILE.py" in command("run", "--help").out
    ended = command("schema")
    assert (ended.code, json.loads(ended.out)) == (0, json_schema())


def test_verbose_logs_runs_on_standard_error(command: Commands) -> None:
    assert "agentgraph.runs" not in command("run", "agents.py:echo", "bees").err
    for option, begins in (("-v", 0), ("-vv", 1), ("--verbose", 0)):
        ended = command("run", "agents.py:echo", "bees", "--thread", "t", option)
        assert ended.lines == ["echo: bees"]
        assert "INFO agentgraph.runs: thread 't': echo begins with new input, run " in ended.err
        assert "INFO agentgraph.runs: thread 't': echo ends done after " in ended.err
        assert ended.err.count("DEBUG agentgraph.activations: thread 't': echo begins, run ") == begins
