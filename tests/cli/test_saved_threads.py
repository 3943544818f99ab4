"""The commands for saved threads, and `run --stream`."""

import json
import re
import runpy
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import ormsgpack
import pytest
from cli_agents import FAILED, PAUSED, REFUSED, killed
from helpers.commands import Commands
from helpers.fuzzed import rewrite

import agentgraph as ag

pytestmark = pytest.mark.usefixtures("agents")


def test_threads_are_listed_shown_copied_and_deleted(command: Commands) -> None:
    assert command("run", "agents.py:asking", "Go.", "--thread", "one", "--no-input").code == PAUSED
    assert (
        command("copy", "agents.py:asking", "one", "two").out
        == "Copied: thread one to two in agentgraph.db.\n"
    )
    assert command("resume", "agents.py:asking", "one", "--answer", "yes").code == 0
    assert command("run", "agents.py:failing", "Go.", "--thread", "three").code == FAILED

    listed = [line.split()[:2] for line in command("threads", "agents.py:asking").lines]
    assert sorted(listed) == [["one", "done"], ["two", "paused"]]
    paused = command("threads", "agents.py:asking", "--status", "paused", "--json").lines
    assert [json.loads(line)["thread_id"] for line in paused] == ["two"]

    shown = command("show", "agents.py:asking", "one").lines
    assert shown[0] == "Thread one: done"
    assert re.fullmatch(r"Turn 0, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, \d+\.\d s", shown[1])
    assert shown[2:] == [
        "user: Go.",
        "asking/first: one",
        "asking/boss: [asks] Print it?",
        "asking/boss: yes",
        "asking/printer: yes",
        'Values: {"word": "yes"}',
    ]
    assert command("show", "agents.py:asking", "two").lines[-1] == "Waits: asking/boss: Print it?"
    data = json.loads(command("show", "agents.py:asking", "one", "--json").out)
    assert (data["status"], data["values"], data["pending"]) == ("done", {"word": "yes"}, [])
    assert [turn["messages"] for turn in data["turns"]] == [["Go."]]
    assert [event["address"] for event in data["turns"][0]["events"]][-1] == "asking/printer"

    assert command("delete", "agents.py:asking", "two").out == "Deleted: thread two in agentgraph.db.\n"
    for arguments in (["show", "two"], ["delete", "two"], ["copy", "two", "four"]):
        refused = command(arguments[0], "agents.py:asking", *arguments[1:])
        assert refused.code == REFUSED
        assert "thread 'two' is not known to this saver" in refused.err
    assert "thread 'three' exists already" in command("copy", "agents.py:asking", "one", "three").err


def test_threads_are_pruned(command: Commands) -> None:
    agent = "agents.py:asking"
    for name in ("one", "two"):
        for _ in range(3):
            command("run", agent, "Go.", "--thread", name, "--no-input")
            assert command("resume", agent, name, "--answer", "yes").code == 0
    pruned = command("prune", agent, "one", "--keep-turns", "1")
    assert re.fullmatch(
        r"Removed: 0 threads, 2 turns, 0 older lines and \d+ checkpoints; [\d.]+ k?B given back to the "
        r"disk\.\n",
        pruned.out,
    )
    assert next(line for line in command("show", agent, "one").lines if "Turn" in line).startswith(
        "Turn 2, "
    )
    data = json.loads(command("prune", agent, "--keep-turns", "2", "--compact", "--json").out)
    assert (data["threads"], data["turns"], data["skipped"]) == (0, 1, [])
    assert command("prune", agent, "--older-than", "1d").out.startswith("Removed: 0 threads")
    assert command("prune", agent, "one", "--older-than", "0").out.startswith("Removed: 1 thread,")
    listed = [line.split()[:2] for line in command("threads", agent).lines]
    assert listed == [["two", "done"]]
    for options, text in (
        ([], "Pass --keep-turns, --keep-lines, --older-than or --compact."),
        (["--keep-turns", "0"], "0 is not in the range x>=1"),
        (["--older-than", "soon"], "'soon' is not a time such as 30d, 12h, 45m or 90."),
        (["--older-than", "-1"], "older_than=-1.0 is not a time"),
        (["gone", "--keep-turns", "1"], "thread 'gone' is not known to this saver"),
    ):
        refused = command("prune", agent, *options)
        assert refused.code == REFUSED
        assert text in refused.err


def test_a_thread_that_cannot_be_read_is_listed_with_what_to_do(command: Commands) -> None:
    for name in ("one", "two"):
        command("run", "agents.py:asking", "Go.", "--thread", name, "--no-input")
    with closing(sqlite3.connect(command.folder / "agentgraph.db")) as file, file:
        file.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'two'")
    listed = command("threads", "agents.py:asking")
    assert listed.code == 0
    assert listed.lines[0].startswith("two  unreadable  thread 'two': its saver FileSaver, the file ")
    assert "delete the thread" in listed.lines[0]
    assert listed.lines[1].startswith("one  paused  2")
    written = command("cases", "agents.py:asking")
    assert (written.code, [json.loads(each)["id"] for each in written.lines]) == (0, ["one"])
    assert written.err.startswith("Skipped: thread 'two': its saver FileSaver, the file ")
    [found] = command("threads", "agents.py:asking", "--status", "unreadable", "--json").lines
    known = {"thread_id", "status", "updated", "error", "began", "stop_reason", "deadline", "tree"}
    assert json.loads(found).keys() == known
    assert len(command("threads", "agents.py:asking", "--status", "paused").lines) == 1


def test_threads_are_listed_in_pages_and_by_metadata(command: Commands) -> None:
    for name, user in (("one", "ann"), ("two", "bob"), ("a three", "ann")):
        config = json.dumps({"metadata": {"user": user}})
        command("run", "agents.py:asking", "Go.", "--thread", name, "--no-input", "--config", config)
    page = command("threads", "agents.py:asking", "--limit", "2")
    assert [line.split("  ")[0] for line in page.lines] == ["a three", "two"]
    assert page.err == "There are more threads: add --before two\n"
    rest = command("threads", "agents.py:asking", "--limit", "2", "--before", "two")
    assert ([line.split("  ")[0] for line in rest.lines], rest.err) == (["one"], "")
    page = command("threads", "agents.py:asking", "--limit", "1", "--metadata", '{"user": "ann"}')
    assert [line.split("  ")[0] for line in page.lines] == ["a three"]
    assert page.err == "There are more threads: add --before 'a three'\n"
    refused = command("threads", "agents.py:asking", "--before", "none")
    assert refused.code == REFUSED
    assert "before='none' is not a thread of this saver" in refused.err
    assert command("threads", "agents.py:asking", "--limit", "0").code != 0


def test_threads_of_other_trees_are_left_alone(command: Commands) -> None:
    killed(command, "alone", "died")
    (command.folder / "go").touch()
    for thread in ("three", "two"):
        command("run", "agents.py:alone", "Go.", "--thread", thread)
    command("run", "agents.py:longer", "Go.", "--thread", "one")

    def others(name: str, *options: str) -> tuple[list[str], str]:
        did = command(name, "agents.py:longer", *options)
        assert did.code == 0
        return did.lines, did.err

    hint = "There are threads of other trees: add --others\n"
    for options, ids in ([], ["one"]), (["--limit", "1"], ["one"]), (["--before", "one"], []):
        lines, err = others("threads", *options)
        assert ([line.split()[0] for line in lines], err) == (ids, hint)
    every, _ = others("threads", "--others", "--json")
    trees = {each["thread_id"]: each["tree"] for each in map(json.loads, every)}
    assert trees == {"one": "longer", "two": "alone", "three": "alone", "died": "alone"}
    [line], err = others("threads", "--others", "--limit", "1", "--before", "three")
    assert re.fullmatch(r"died  stopped  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  alone", line)
    skipped = "Skipped: thread {} was run by another tree.\n"
    assert others("advance", "--all") == ([], skipped.format("died"))
    [case], err = others("cases")
    assert json.loads(case)["id"] == "one"
    assert err == "".join(map(skipped.format, ("two", "three", "died")))
    [pruned], _ = others("prune", "--older-than", "0")
    assert pruned.startswith("Removed: 1 thread,")
    assert pruned.endswith("; skipped: two, three, died.")

    listed = command("threads", "agents.py:renamed").lines
    assert [line.split()[0] for line in listed] == ["two", "three", "died"]
    assert command("advance", "agents.py:renamed", "--all").lines == ["died  done  went on"]
    assert command("prune", "agents.py:renamed", "--older-than", "0").out.startswith("Removed: 3 th")


def test_a_thread_goes_back_to_what_it_has_visited(command: Commands) -> None:
    command("run", "agents.py:asking", "Go.", "--thread", "one", "--no-input")
    command("resume", "agents.py:asking", "one", "--answer", "yes")
    visits = command("visits", "agents.py:asking", "one").lines
    assert [line.split("  ", 1)[1].rsplit(" ", 2)[0] for line in visits] == [
        "turn 0  asking/first  first,",
        "turn 0  asking/boss  boss,",
        "turn 0  asking/printer  printer,",
    ]
    data = json.loads(command("visits", "agents.py:asking", "one", "--json").lines[1])
    assert (data["address"], data["turn"], data["agent_name"]) == ("asking/boss", 0, "boss")

    copied = command("copy", "agents.py:asking", "one", "two", "--at", "asking/boss")
    assert copied.out == "Copied: thread one to two in agentgraph.db.\n"
    back = command("rewind", "agents.py:asking", "one", "asking/boss", "--answer", "no")
    assert back.lines[:4] == [
        "asking: [discarded]",
        "asking/boss: [asks] Print it?",
        "asking/boss: no",
        "asking/printer: no",
    ]
    assert back.code == 0
    older = command("show", "agents.py:asking", "one").lines[-2].split(", ")
    assert older[-1] == "parts at asking/boss"
    head = older[0].removeprefix("Older line: ")
    again = command("events", "agents.py:asking", "one", "--line", head).lines
    assert again[-1] == "asking/printer: yes"

    paused = command("rewind", "agents.py:asking", "one", data["step"], "--no-input")
    assert (paused.code, paused.lines[-1]) == (PAUSED, "asking/boss: [asks] Print it?")
    assert command("resume", "agents.py:asking", "two", "--no-input").code == PAUSED
    for arguments, why in (
        (["asking/nowhere"], "has not visited 'asking/nowhere'"),
        (["asking/first", "--answer", "no"], "no pending question"),
        (["asking/first", "--turn", "3"], "in turn 3"),
    ):
        refused = command("rewind", "agents.py:asking", "one", *arguments)
        assert refused.code == REFUSED
        assert why in refused.err


def test_a_file_that_is_not_there_is_refused(command: Commands) -> None:
    refused = command("threads", "agents.py:asking", "--db", "none.db")
    assert (refused.code, refused.out) == (REFUSED, "")
    assert "there is no file none.db" in refused.err
    assert not (command.folder / "none.db").exists()
    (command.folder / "folder").mkdir()
    for db, why in (("folder", "folder is a folder"), ("", "there is no file ''")):
        assert f"{why}; name the file" in command("threads", "agents.py:asking", "--db", db).err


THREAD = ("show one", "events one", "resume one", "run Go. --thread one", "copy one two")


@pytest.mark.parametrize("line", THREAD)
def test_no_command_runs_code_of_a_strangers_file(command: Commands, line: str) -> None:
    assert command("run", "agents.py:asking", "Go.", "--thread", "one", "--no-input").code == PAUSED
    made = ormsgpack.packb(("os", "mkdir", str(command.folder / "made")))
    hostile = ormsgpack.packb({"channel_values": {"values": ormsgpack.Ext(0, made)}})
    rewrite(command.folder / "agentgraph.db", "checkpoints", lambda _: hostile)
    name, *rest = line.split()
    refused = command(name, "agents.py:asking", *rest)
    assert (refused.code, refused.out) == (REFUSED, "")
    assert "objects of os.mkdir are not read from files unless that is allowed" in refused.err
    assert "one  unreadable  thread 'one': " in command("threads", "agents.py:asking").out
    assert not (command.folder / "made").exists()
    assert command("delete", "agents.py:asking", "one").code == 0


def test_what_is_allowed_is_said_where_a_type_is_not_read(command: Commands) -> None:
    page = ("--allow", "agents:Page")
    assert command("run", "agents.py:paging", "Go.", "--thread", "one", *page).code == PAUSED
    for name in ("show", "events", "resume"):
        refused = command(name, "agents.py:paging", "one")
        assert (refused.code, refused.out) == (REFUSED, "")
        assert "--allow agents:Page" in refused.err
    assert command("show", "agents.py:paging", "one", *page).lines[-1].startswith("Values: ")


def test_values_that_are_nested_too_deep_are_refused(command: Commands) -> None:
    refused = command("run", "agents.py:first", "Go.", "--values", "[" * 100_000)
    assert (refused.code, refused.out) == (REFUSED, "")
    assert "… is not JSON (maximum recursion depth exceeded" in refused.err.replace("'", "")


def test_replies_are_printed_as_they_grow(command: Commands) -> None:
    ended = command("run", "agents.py:chat", "one two", "--values", '{"topic": "bees"}', "--stream")
    assert ended.lines == ["chat: told: About bees."]
    options = ("--values", '{"topic": "bees"}', "--stream", "--json")
    events = [json.loads(line) for line in command("run", "agents.py:chat", "one two", *options).lines]
    assert [event["output"]["partial"] for event in events] == [True, True, True, False]


COSTLY = """
import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

model = ScriptedChatModel(responses=lambda messages: "One.", counts_tokens=True)
tree = ag.sequential("s", [ag.chat_agent("a", model), ag.chat_agent("b", model)])
"""


def test_commands_read_threads_of_a_tree_with_a_limit_of_cost(
    command: Commands, tmp_path: Path
) -> None:
    text = COSTLY.replace("[ag.chat_agent", "limits=ag.Limits(cost=9), sub_agents=[ag.chat_agent")
    (tmp_path / "costly.py").write_text(text)
    tree = runpy.run_path(str(tmp_path / "costly.py"))["tree"]
    path = str(tmp_path / "agentgraph.db")
    with ag.Runner(tree, checkpointer=path, prices=lambda *_: Decimal(1)) as runner:
        runner.invoke("Go.", thread_id="t")
    assert command("show", "costly.py:tree", "t").lines[-1] == "Cost: 2 (a 1, b 1)"
    refused = command("run", "costly.py:tree", "Go.", "--thread", "v")
    needs = "Limits(cost=9) of the agent 's' needs prices; pass a function that returns the price of a"
    assert needs in refused.err + refused.out
    assert "v" not in command("threads", "costly.py:tree").out.split()


def test_a_thread_is_shown_with_its_cost(command: Commands, tmp_path: Path) -> None:
    (tmp_path / "costly.py").write_text(COSTLY)
    tree = runpy.run_path(str(tmp_path / "costly.py"))["tree"]
    prices = {"t": lambda model, usage: usage["total_tokens"] * Decimal("0.01"), "u": lambda *_: None}
    for thread, price in prices.items():
        with ag.Runner(tree, checkpointer=str(tmp_path / "agentgraph.db"), prices=price) as runner:
            runner.invoke("Go.", thread_id=thread)
    lines = command("show", "costly.py:tree", "t").lines
    assert lines[-2:] == ["Tokens: 7 (a 2, b 5)", "Cost: 0.07 (a 0.02, b 0.05)"]
    data = json.loads(command("show", "costly.py:tree", "t", "--json").out)
    assert data["cost"] == {"total": "0.07", "a": "0.02", "b": "0.05"}
    assert command("show", "costly.py:tree", "u").lines[-1] == "Cost: unknown (a unknown, b unknown)"
    assert command("run", "costly.py:tree", "Go.", "--thread", "v").code == 0
    assert command("show", "costly.py:tree", "v").lines[-1] == "Tokens: 7 (a 2, b 5)"
    assert json.loads(command("show", "costly.py:tree", "v", "--json").out)["cost"] is None
