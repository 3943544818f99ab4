"""Runs the sessions of `sessions.txt`, each in a folder with the same files."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_agents import AGENTS
from helpers.commands import Commands, Ended

REGISTRY = """
from pathlib import Path

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel


def search(topic: str) -> str:
    "Search for a topic."
    return topic


models = {"main": ScriptedChatModel(responses=[lambda messages: "told: " + messages[0].text])}
tools = {"search": search}
agents = {"critic": ag.function_agent("critic", lambda ctx: "Well done.")}
critic = agents["critic"]
"""
SKILL = """\
kind: sequential
name: report
model: main
sub_agents:
  - kind: chat
    name: writer
    instruction: About {topic?}.
    tools: [search]
  - kind: human
    name: boss
    prompt: Print it?
    response_schema: {enum: ["yes", "no"]}
  - agent: critic
"""
USAGE = re.compile(r"Usage: |Try '")
FILES = {
    "agents.py": AGENTS,
    "registry.py": REGISTRY,
    "texts.py": "model = 5",
    "lists.py": "tools = []",
    "fails.py": "1 / 0",
    "skill.yaml": SKILL,
    "boss.yaml": "{kind: human, name: boss, prompt: Print it}",
    "named.yml": "{kind: chat, name: w, model: 'openai:gpt-5'}",
    "bad.yml": "kind: loop\nname: end\nsub_agents: [critic]\nmax: 3\n",
    "skills/critics.py": REGISTRY,
    "skills/skill.json": '{"agent": "critics:critic"}',
}


def sessions() -> list[Any]:
    text = Path(__file__).with_name("sessions.txt").read_text()
    parts = [part.partition("\n") for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]]
    return [pytest.param(title, body.strip(), id=title) for title, _, body in parts]


@pytest.mark.parametrize(("title", "session"), sessions())
def test_session(command: Commands, title: str, session: str) -> None:
    (command.folder / "skills").mkdir()
    for name, text in FILES.items():
        (command.folder / name).write_text(text)
    last = ""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        found, last = done(command, line, last)
        wanted = expected.strip("\n").splitlines()
        if title.endswith("(in any order)"):
            found, wanted = sorted(found), sorted(wanted)
        assert found == wanted, line


def done(command: Commands, line: str, last: str) -> tuple[list[str], str]:
    """Run a line; return its output, and the command to continue that the output names."""
    match shlex.split(line):
        case ["touch", name]:
            (command.folder / name).touch()
            return [], last
        case ["ledger"]:
            return (command.folder / "ledger").read_text().splitlines(), last
        case ["(as", "printed)", *more]:
            ended = command.follow(last, *more)
        case words:
            ended = command(*words)
    return printed(ended), ended.continue_command if "agentgraph resume" in ended.err else last


def printed(ended: Ended) -> list[str]:
    """Return the lines that a command printed, without ids, usage and where it is installed."""
    errors = [line for line in ended.err.splitlines() if line and not USAGE.match(line)]
    status = [f"exit {ended.code}"] if ended.code else []
    text = "\n".join([*ended.lines, *(f"! {line}" for line in errors), *status])
    text = text.replace(f"{sys.executable} -m agentgraph", "agentgraph")
    return re.sub(r"\b[0-9a-f]{32}\b", "ID", text).splitlines()
