"""The commands run, resume, events, draw and check, run as a user runs them."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from cli_agents import AGENTS, FAILED, PAUSED, REFUSED, STOPPED
from commands import Commands, wait_until

from agentgraph.events.events import AgentEvent


@pytest.fixture(autouse=True)
def agents(tmp_path: Path) -> Path:
    file = tmp_path / "agents.py"
    file.write_text(AGENTS)
    return file


def ledger(folder: Path) -> list[str]:
    return (folder / "ledger").read_text().split()


def test_a_run_is_shown_line_by_line_and_ends_with_0(command: Commands) -> None:
    (command.folder / "mended").touch()
    ended = command("run", "agents.py:failing", "bees", "--thread", "t")
    assert ended.lines == [
        "failing/first: one",
        "failing/failer: printed",
        "failing/last: three",
    ]
    assert (ended.code, ended.err) == (0, "Done: thread t, saved in agentgraph.db.\n")


def test_a_second_run_on_a_thread_sees_its_history(command: Commands) -> None:
    for text in ("bees", "ants"):
        command("run", "agents.py:echo", text, "--thread", "t")
    assert command("events", "agents.py:echo", "--thread", "t").lines == ["echo: bees", "echo: ants"]


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
    assert running.wait().lines[-2:] == [
        "hanging/pair/hanger: went on",
        "hanging/last: three",
    ]


def test_values_reach_a_template(command: Commands) -> None:
    ended = command("run", "agents.py:chat", "go", "--values", '{"topic": "bees"}')
    assert ended.lines == ["chat: told: About bees."]


def test_a_missing_value_is_named_and_can_be_given(command: Commands) -> None:
    ended = command("run", "agents.py:chat", "go", "--thread", "t")
    assert ended.code == REFUSED
    assert "the template names {topic}, but the run has no value of that name" in ended.err
    given = command.follow(ended.go_on.replace("...", "ants"))
    assert (given.code, given.lines) == (0, ["chat: told: About ants."])


@pytest.mark.parametrize("values", ['{"topic": ', '["topic"]', "topic=bees"])
def test_values_that_are_not_a_json_object_are_refused(command: Commands, values: str) -> None:
    ended = command("run", "agents.py:chat", "go", "--values", values)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert "Invalid value for '--values'" in ended.err
    assert "is not" in ended.err


def test_a_dash_reads_the_input_from_standard_input(command: Commands) -> None:
    assert command("run", "agents.py:echo", "-", stdin="bees\nänts").lines == ["echo: bees", "    änts"]


def test_standard_input_that_is_not_text_is_refused(command: Commands) -> None:
    ended = command("run", "agents.py:echo", "-", stdin=b"\xff\x00")
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err.startswith("Error: standard input is not UTF-8 text: ")


def test_a_failure_says_how_to_resume_and_ends_with_1(command: Commands) -> None:
    ended = command("run", "agents.py:failing", "bees", "--thread", "a thread", "--db", "my runs.db")
    assert ended.code == FAILED
    assert ended.lines == [
        "failing/first: one",
        "failing/failer: [error] ValueError('the printer is jammed')",
    ]
    assert ended.err.startswith(
        "Failed: ValueError: the printer is jammed\n"
        "  This happened in the agent 'failer', at failing/failer.\n"
        "  --traceback shows where in the code.\n"
        "Try the failed step again: "
    )
    assert ended.go_on.endswith("resume agents.py:failing --thread 'a thread' --db 'my runs.db'")
    (command.folder / "mended").touch()
    again = command.follow(ended.go_on)
    assert again.lines == ["failing/failer: printed", "failing/last: three"]
    assert again.code == 0
    assert ledger(command.folder) == ["first", "failer", "failer", "last"]


def test_traceback_prints_the_traceback(command: Commands) -> None:
    assert "Traceback" not in command("run", "agents.py:failing", "bees", "--thread", "t").err
    ended = command("resume", "agents.py:failing", "--thread", "t", "--traceback")
    assert ended.code == FAILED
    assert "Traceback" in ended.err
    assert 'raise ValueError("the printer is jammed")' in ended.err


def test_a_pause_in_one_process_is_resumed_in_another(command: Commands) -> None:
    paused = command("run", "agents.py:asking", "bees", "--thread", "t")
    assert paused.code == PAUSED
    assert paused.lines == ["asking/first: one", "asking/boss: [asks] Print it?"]
    told = paused.err.splitlines()
    assert told[0] == "Paused: thread t in agentgraph.db waits for answers to"
    assert told[1].startswith("  asking/boss (id ")
    assert told[1].endswith("), one of yes, no: Print it?")
    assert told[2].startswith("Resume, at a terminal or with --answer TEXT: ")
    resumed = subprocess.run(
        f"{paused.go_on} --answer yes",
        shell=True,
        cwd=command.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert resumed.stdout.splitlines() == ["asking/boss: yes", "asking/printer: yes"]
    assert (resumed.returncode, resumed.stderr) == (0, "Done: thread t, saved in agentgraph.db.\n")
    assert ledger(command.folder) == ["first", "printer"]


def test_a_thread_that_ended_has_nothing_to_resume(command: Commands) -> None:
    command("run", "agents.py:first", "bees", "--thread", "t")
    ended = command("resume", "agents.py:first", "--thread", "t")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "Done: thread t, saved in agentgraph.db.\n"


def test_without_an_answer_the_question_is_asked_again(command: Commands) -> None:
    command("run", "agents.py:asking", "bees", "--thread", "t")
    ended = command("resume", "agents.py:asking", "--thread", "t")
    assert (ended.code, ended.lines) == (
        PAUSED,
        ["asking/boss: [discarded]", "asking/boss: [asks] Print it?"],
    )


def test_new_input_while_a_question_waits_is_refused(command: Commands) -> None:
    run = ("run", "agents.py:asking", "bees", "--thread", "t")
    command(*run)
    ended = command(*run)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert "thread 't' waits for answers to asking/boss" in ended.err
    assert command(*run, "--drop-pending").code == PAUSED


def test_a_database_that_cannot_be_opened_is_refused(command: Commands, agents: Path) -> None:
    for db, message in (("no/runs.db", "unable to open"), ("agents.py", "file is not a database")):
        ended = command("run", "agents.py:first", "bees", "--db", db)
        assert ended.code == REFUSED
        assert f"{db} cannot be opened as a SQLite file: {message}" in ended.err


def test_a_database_that_is_not_there_is_not_made_by_looking(command: Commands) -> None:
    for name in ("resume", "events"):
        ended = command(name, "agents.py:first", "--thread", "t")
        assert ended.code == REFUSED
        assert ended.err.startswith(
            "Error: there is no file agentgraph.db; name the file of the thread by --db"
        )
    assert not (command.folder / "agentgraph.db").exists()


def test_events_as_json_are_agent_events(command: Commands) -> None:
    run = command("run", "agents.py:asking", "bees", "--thread", "t", "--json")
    resumed = command("resume", "agents.py:asking", "--thread", "t", "--answer", "yes", "--json")
    live = [AgentEvent.from_dict(json.loads(line)) for line in run.lines + resumed.lines]
    assert [event.kind for event in live] == ["message", "interrupted", "message", "message"]
    replay = command("events", "agents.py:asking", "--thread", "t", "--json")
    assert [AgentEvent.from_dict(json.loads(line)) for line in replay.lines] == live


def test_events_prints_the_thread_again(command: Commands) -> None:
    run = command("run", "agents.py:failing", "bees", "--thread", "t")
    events = command("events", "agents.py:failing", "--thread", "t")
    assert (events.code, events.out, events.err) == (0, run.out, "")


def test_draw_prints_mermaid_text_and_an_outline(command: Commands) -> None:
    drawn = command("draw", "agents.py:asking")
    assert drawn.code == 0
    assert "    first --> boss" in drawn.lines
    assert command("draw", "agents.py:asking", "--tree").lines == [
        "asking (sequential)",
        "├─ first (function)",
        "├─ boss (human, writes word)",
        "└─ printer (function)",
    ]


def test_check_finds_no_faults(command: Commands) -> None:
    ended = command("check", "agents.py:asking")
    assert (ended.code, ended.out, ended.err) == (0, "asking: no faults\n", "")


def test_check_prints_each_fault_on_a_line(command: Commands) -> None:
    ended = command("check", "agents.py:broken")
    assert (ended.code, ended.out) == (REFUSED, "")
    places = [line.partition(": ")[0] for line in ended.err.splitlines()]
    assert places == [f"broken/{name}" for name in ("empty", "none", "mute", "bad name", "keyed")]


@pytest.mark.parametrize(
    "arguments", [["run", "agents.py:broken", "bees"], ["draw", "agents.py:broken"]]
)
def test_a_tree_with_faults_is_not_run(command: Commands, arguments: list[str]) -> None:
    ended = command(*arguments)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err.startswith("Error: 5 faults:\n- broken/empty: ")


def test_ctrl_c_stops_after_the_running_step_and_the_thread_can_be_resumed(command: Commands) -> None:
    running = command.start("run", "agents.py:hanging", "bees", "--thread", "t")
    wait_until((command.folder / "hanging").exists)
    running.said("pair/other: two\n")
    running.signal(signal.SIGINT)
    running.said("Ctrl-C again stops at once")
    (command.folder / "go").touch()
    stopped = running.wait()
    assert stopped.code == STOPPED
    assert stopped.err.splitlines()[-1].startswith("Stopped. Resume: ")
    resumed = command.follow(stopped.go_on)
    assert resumed.code == 0
    assert resumed.lines == [
        "hanging: [discarded]",
        "hanging/pair/hanger: went on",
        "hanging/last: three",
    ]
    assert sorted(ledger(command.folder)) == ["first", "hanger", "last", "other"]


def test_ctrl_c_twice_stops_at_once(command: Commands) -> None:
    running = command.start("run", "agents.py:hanging", "bees", "--thread", "t")
    wait_until((command.folder / "hanging").exists)
    running.said("pair/other: two\n")
    running.signal(signal.SIGINT)
    running.said("Ctrl-C again stops at once")
    assert running.out.splitlines() == ["hanging/first: one", "hanging/pair/other: two"]
    running.signal(signal.SIGINT)
    stopped = running.wait()
    assert stopped.code == STOPPED
    (command.folder / "go").touch()
    assert command.follow(stopped.go_on).lines == [
        "hanging: [discarded]",
        "hanging/first: one",
        "hanging/pair/other: two",
        "hanging/pair/hanger: went on",
        "hanging/last: three",
    ]


@pytest.mark.parametrize("package", ["click", "rich"])
def test_a_missing_package_is_named(command: Commands, package: str) -> None:
    ended = command("check", "agents.py:first", without=package)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err == (
        "agentgraph's command line needs two more packages: pip install 'agentgraph[cli]'\n"
    )


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["resume", "agents.py:first"]])
def test_a_wrong_call_ends_with_2(command: Commands, arguments: list[str]) -> None:
    assert command(*arguments).code == REFUSED
