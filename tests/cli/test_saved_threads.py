"""The commands for saved threads (threads, show, delete, copy), and `run --stream`."""

import json
import re

import pytest
from cli_agents import FAILED, PAUSED, REFUSED
from commands import Commands

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
    assert sorted(listed) == [["one", "done"], ["three", "failed"], ["two", "paused"]]
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


def test_a_file_that_is_not_there_is_refused(command: Commands) -> None:
    refused = command("threads", "agents.py:asking", "--db", "none.db")
    assert (refused.code, refused.out) == (REFUSED, "")
    assert "there is no file none.db" in refused.err
    assert not (command.folder / "none.db").exists()
    (command.folder / "folder").mkdir()
    for db, why in (("folder", "folder is a folder"), ("", "there is no file ''")):
        assert f"{why}; name the file" in command("threads", "agents.py:asking", "--db", db).err


def test_replies_are_printed_as_they_grow(command: Commands) -> None:
    ended = command("run", "agents.py:chat", "one two", "--values", '{"topic": "bees"}', "--stream")
    assert ended.lines == ["chat: told: About bees."]
    options = ("--values", '{"topic": "bees"}', "--stream", "--json")
    events = [json.loads(line) for line in command("run", "agents.py:chat", "one two", *options).lines]
    assert [event["output"]["partial"] for event in events] == [True, True, True, False]
