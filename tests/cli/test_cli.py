"""The command line, run as a user runs it."""

import json
import re
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from commands import CTRL_C, CTRL_D, Commands, wait_until

import agentgraph as ag
from agentgraph.events.events import AgentEvent

AGENTS = """
import time
from pathlib import Path
from typing import Literal

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def says(name, text):
    def fn(ctx) -> str:
        with open("ledger", "a") as ledger:
            ledger.write(name + "\\n")
        return text(ctx) if callable(text) else text

    return ag.function_agent(name, fn)


def told(messages):
    return "told: " + messages[0].text


def fails(ctx):
    if not Path("mended").exists():
        raise ValueError("the printer is jammed")
    return "printed"


def hangs(ctx):
    Path("hanging").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return "went on"


first, last = says("first", "one"), says("last", "three")
echo = says("echo", lambda ctx: ctx.messages[-1].text)
chat = ag.chat_agent("chat", ScriptedChatModel(responses=[told]), instruction="About {topic}.")
failing = ag.sequential("failing", [first, says("failer", fails), last])
hanger = says("hanger", hangs)
alone = ag.sequential("alone", [first, hanger])
hanging = ag.sequential("hanging", [first, ag.parallel("pair", [hanger, says("other", "two")]), last])
boss = ag.human("boss", "Print it?", response_schema=Literal["yes", "no"], output_key="word")
asking = ag.sequential("asking", [first, boss, says("printer", lambda ctx: ctx.values["word"])])
size = ag.human("size", "How many?", response_schema=int, output_key="size")
label = ag.human("label", "Which label?", response_schema=str, output_key="label")
glossy = ag.human("glossy", {"ask": "Glossy?"}, response_schema=bool, output_key="glossy")
order = says("order", lambda ctx: repr([ctx.values[key] for key in ("size", "label", "glossy")]))
three = ag.sequential("three", [ag.parallel("form", [size, label, glossy]), order])
broken = ag.sequential("broken", [
    ag.loop("empty", [], max_iterations=2),
    ag.loop("none", [first], max_iterations=0),
    ag.chat_agent("mute", 5),
    ag.function_agent("bad name", print),
    ag.function_agent("keyed", print, output_key="no key"),
])
runner = ag.Runner(first)


def mail(to: str) -> str:
    "Send a mail."
    return f"mailed {to}"


def posts(messages):
    asked = any(message.type == "ai" for message in messages)
    return "Done." if asked else calls(call("mail", to="ann"), call("mail", to="bob"))


post = ScriptedChatModel(responses=[posts] * 9)
clerk = ag.chat_agent("clerk", post, tools=[mail], approve=["mail"])
each = ag.chat_agent("clerk", post, tools=[mail], approve=["mail"], interrupt_mode="per_call")
strict = ag.chat_agent(
    "clerk", post, tools=[mail], approve={"mail": {"allowed_decisions": ["reject", "respond"]}}
)
"""

REFUSED, FAILED, PAUSED, STOPPED = 2, 1, 3, 130


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


def test_without_a_thread_each_run_has_a_new_one(command: Commands) -> None:
    one, two = (command("run", "agents.py:first", "x", "--json") for _ in range(2))
    threads = {json.loads(ended.out)["thread_id"] for ended in (one, two)}
    assert len(threads) == 2
    assert all(thread in one.err + two.err for thread in threads)


def test_a_thread_that_is_named_again_goes_on_with_its_history(command: Commands) -> None:
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
def test_values_that_are_no_json_object_are_refused(command: Commands, values: str) -> None:
    ended = command("run", "agents.py:chat", "go", "--values", values)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert "Invalid value for '--values'" in ended.err
    assert "not JSON" in ended.err


def test_standard_input_is_the_input_where_it_is_a_dash(command: Commands) -> None:
    assert command("run", "agents.py:echo", "-", stdin="bees\nänts").lines == ["echo: bees", "    änts"]


def test_standard_input_that_is_no_text_is_refused(command: Commands) -> None:
    ended = command("run", "agents.py:echo", "-", stdin=b"\xff\x00")
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err.startswith("Error: standard input is not UTF-8 text: ")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.py:report", "there is not a file nowhere.py"),
        ("nowhere.py", "there is not a file nowhere.py"),
        (".:report", ". is not a file"),
        ("agentgraph.txt:report", "agentgraph.txt is not a Python file"),
    ],
)
def test_a_missing_target_file_is_named(command: Commands, target: str, message: str) -> None:
    (command.folder / "agentgraph.txt").touch()
    ended = command("run", target, "bees")
    assert (ended.code, ended.out, ended.err) == (REFUSED, "", f"Error: {message}\n")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("agents.py", "name an agent, as in agents.py:NAME."),
        ("agents.py:", "name an agent, as in agents.py:NAME."),
        ("agents.py:lst", "agents.py has no agent 'lst'."),
        ("agents.py:runner", "agents.py:runner must be an agent, got a Runner."),
    ],
)
def test_a_wrong_name_lists_the_agents_of_the_file(
    command: Commands, target: str, message: str
) -> None:
    ended = command("check", target)
    assert ended.code == REFUSED
    assert ended.err.startswith(f"Error: {message} It defines:\n  agents.py:first (function)\n")
    assert "\n  agents.py:boss (human, writes word)\n" in ended.err


def test_an_exception_in_the_file_is_shown_with_its_line(command: Commands, agents: Path) -> None:
    agents.write_text("import helper\n\nhelper.divide(1, 0)\n")
    (command.folder / "helper.py").write_text("def divide(a, b):\n    return a / b\n")
    ended = command("run", "agents.py:first", "bees")
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err == (
        "Error: agents.py, line 3 cannot be loaded:\nZeroDivisionError: division by zero\n"
    )


def test_a_syntax_error_in_the_file_is_shown_with_its_line(command: Commands, agents: Path) -> None:
    agents.write_text("first = 1\nsecond = (\n")
    ended = command("run", "agents.py:first", "bees")
    assert ended.code == REFUSED
    assert ended.err.startswith("Error: agents.py, line 2 cannot be loaded:\n")
    assert "SyntaxError: '(' was never closed" in ended.err


def test_a_file_may_be_named_like_a_module_that_is_loaded(command: Commands, agents: Path) -> None:
    (command.folder / "json.py").write_text(AGENTS)
    assert command("run", "json.py:first", "bees", "--json").code == 0


def test_a_failure_tells_how_to_go_on_and_ends_with_1(command: Commands) -> None:
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


def test_the_traceback_is_printed_where_it_is_asked_for(command: Commands) -> None:
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


def test_without_an_answer_the_question_is_told_again(command: Commands) -> None:
    command("run", "agents.py:asking", "bees", "--thread", "t")
    ended = command("resume", "agents.py:asking", "--thread", "t")
    assert (ended.code, ended.lines) == (
        PAUSED,
        ["asking/boss: [discarded]", "asking/boss: [asks] Print it?"],
    )


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


def test_a_tool_call_is_decided_by_a_word_at_the_terminal(command: Commands) -> None:
    prompt = "clerk (approve, reject): "
    typed = [(prompt, "yes\n"), (prompt, "approve\n")]
    ended = command.at_terminal("run", "agents.py:clerk", "go", "--thread", "t", typed=typed)
    assert ended.code == 0
    assert {"clerk: mailed ann", "clerk: mailed bob"} <= set(ended.lines)


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
        (["3"], "the answer '3' does not say which question it is for; write ADDRESS=3; pending are:\n  three/form/size\n"),
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


def test_an_answer_that_nothing_waits_for_is_refused(command: Commands) -> None:
    command("run", "agents.py:first", "bees", "--thread", "t")
    ended = command("resume", "agents.py:first", "--thread", "t", "--answer", "yes")
    assert ended.code == REFUSED
    assert ended.err == (
        "Error: the thread has no pending question, got the answer 'yes'; leave --answer out\n"
    )


def test_new_input_where_a_question_waits_is_refused(command: Commands) -> None:
    run = ("run", "agents.py:asking", "bees", "--thread", "t")
    command(*run)
    ended = command(*run)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert "thread 't' waits for answers to asking/boss" in ended.err
    assert command(*run, "--drop-pending").code == PAUSED


def test_an_unknown_thread_is_refused(command: Commands) -> None:
    command("run", "agents.py:first", "bees", "--thread", "t")
    for name in ("resume", "events"):
        ended = command(name, "agents.py:first", "--thread", "u")
        assert (ended.code, ended.out) == (REFUSED, "")
        assert "thread 'u' is not known" in ended.err


def test_a_tree_that_changed_is_refused_with_the_difference(command: Commands) -> None:
    command("run", "agents.py:asking", "bees", "--thread", "t")
    ended = command("resume", "agents.py:three", "--thread", "t", "--answer", "yes")
    assert ended.code == REFUSED
    assert "\n-sequential asking\n" in ended.err


def test_a_database_that_cannot_be_opened_is_refused(command: Commands, agents: Path) -> None:
    for db, message in (("no/runs.db", "unable to open"), ("agents.py", "file is not a database")):
        ended = command("run", "agents.py:first", "bees", "--db", db)
        assert ended.code == REFUSED
        assert f"{db} cannot be opened as a SQLite file: {message}" in ended.err


def test_a_database_that_is_not_there_is_not_made_by_looking(command: Commands) -> None:
    for name in ("resume", "events"):
        ended = command(name, "agents.py:first", "--thread", "t")
        assert ended.code == REFUSED
        assert ended.err.startswith("Error: there is not a file agentgraph.db; ")
    assert not (command.folder / "agentgraph.db").exists()


def test_events_as_json_are_agent_events(command: Commands) -> None:
    run = command("run", "agents.py:asking", "bees", "--thread", "t", "--json")
    resumed = command("resume", "agents.py:asking", "--thread", "t", "--answer", "yes", "--json")
    live = [AgentEvent.from_dict(json.loads(line)) for line in run.lines + resumed.lines]
    assert [event.kind for event in live] == ["message", "interrupted", "message", "message"]
    replay = command("events", "agents.py:asking", "--thread", "t", "--json")
    assert [AgentEvent.from_dict(json.loads(line)) for line in replay.lines] == live


def test_events_tell_the_thread_again(command: Commands) -> None:
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
    ended = command.at_terminal("resume", "agents.py:three", "--thread", "t", typed=typed)
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
    assert command("resume", "agents.py:asking", "--thread", "t", "--answer", "yes").code == 0


def test_no_input_pauses_at_a_terminal_too(command: Commands) -> None:
    arguments = ("run", "agents.py:asking", "bees", "--no-input")
    assert command.at_terminal(*arguments, typed=[]).code == PAUSED


def test_ctrl_c_stops_behind_the_running_step_and_the_thread_goes_on(command: Commands) -> None:
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


def test_a_thread_on_which_a_run_is_under_way_is_refused(command: Commands) -> None:
    with ag.sqlite_saver(command.folder / "agentgraph.db") as saver:
        other = ag.Runner(ag.function_agent("first", lambda ctx: "one"), checkpointer=saver)
        with closing(other.run("bees", thread_id="t")) as events:
            next(events)
            ended = command("run", "agents.py:first", "bees", "--thread", "t")
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err.startswith("Error: thread 't' is busy: another run is under way on it")


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


@pytest.fixture
def drawn(command: Commands) -> str:
    """Return a file of trees that are run at a terminal on which a tree can be drawn."""
    lines = ["import os", 'os.environ["TERM"] = "xterm"', AGENTS]
    (command.folder / "drawn.py").write_text("\n".join(lines))
    return "drawn.py"


def states(out: str) -> dict[str, str]:
    """Return the state of each agent in the last tree that was drawn on a terminal."""
    last = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", out).rpartition("agent ")[2]
    rows = re.findall(r"(\w+) +(?:[a-z]+ +)?[✓✗■?·] (done|failed|stopped|asks|waiting)", last)
    return dict(rows)


def test_at_a_terminal_a_live_tree_stands_below_the_lines_and_questions_below_it(
    command: Commands, drawn: str
) -> None:
    typed = [(" (yes, no): ", "yes\n")]
    ended = command.at_terminal("run", f"{drawn}:asking", "bees", "--thread", "t", typed=typed)
    before, _, after = ended.out.partition(" (yes, no): ")
    assert ended.code == 0
    assert states(before) == {"asking": "asks", "first": "done", "boss": "asks", "printer": "waiting"}
    assert states(after) == dict.fromkeys(["asking", "first", "boss", "printer"], "done")
    assert ended.lines[-1].endswith("Done: thread t, saved in agentgraph.db.")
    assert before.count("\x1b[?25h") == before.count("\x1b[?25l") == 1


def test_at_a_terminal_ctrl_c_is_told_below_the_tree_and_twice_shows_the_cursor_again(
    command: Commands, drawn: str
) -> None:
    typed = [(" s", CTRL_C), ("Ctrl-C again stops at once.\x1b[0m", CTRL_C)]
    ended = command.at_terminal("run", f"{drawn}:alone", "bees", "--thread", "t", typed=typed)
    assert ended.code == STOPPED
    assert "Stopping after the running step; Ctrl-C again stops at once." in ended.out
    assert ended.out.rpartition("\x1b[?25h")[2].strip().startswith("Stopped. Resume: ")
    (command.folder / "go").touch()
    assert command("resume", "agents.py:alone", "--thread", "t").lines == [
        "alone: [discarded]",
        "alone/first: one",
        "alone/hanger: went on",
    ]


def test_json_is_printed_without_a_tree_at_a_terminal_too(command: Commands, drawn: str) -> None:
    ended = command.at_terminal("run", f"{drawn}:asking", "bees", "--json", typed=[])
    assert ended.code == PAUSED
    assert [json.loads(line)["agent_name"] for line in ended.lines[:2]] == ["first", "boss"]
    assert "\x1b" not in ended.out
