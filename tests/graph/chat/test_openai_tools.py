"""Chat agents with tools whose model is the real `ChatOpenAI`, on the loopback address."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive
from langchain_openai import ChatOpenAI
from openai_server import Body, Call, OpenAIServer, Reply

import agentgraph as ag
from agentgraph.testing import transcript

TWO_CALLS = Reply(
    ["I ", "look."],
    calls=(
        Call("call_a", "add", ("", '{"a": 1,', ' "b": 2}')),
        Call("call_b", "mail", ("", '{"to": ', '"ann", "text": "{3}"}')),
    ),
)


def chat_model(server: OpenAIServer) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.base_url, api_key="test", model="test-model", max_retries=0)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text!r} to {to}"


def roles(body: Body) -> list[tuple[str, Any]]:
    return [(m["role"], m.get("tool_call_id") or m["content"]) for m in body["messages"]]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_two_calls_at_once_run_and_their_results_go_back_in_order(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [TWO_CALLS, "Three, and sent."]
    runner = ag.Runner(ag.chat_agent("writer", chat_model(openai_server), tools=[add, mail]))

    events = list(drive.run(runner, "Go.", thread_id="t", stream=stream))

    whole = [event for event in events if not event.partial]
    assert sorted(transcript(whole[1:3])) == ["writer: 3", "writer: sent '{3}' to ann"]
    assert [event.text for event in (whole[0], whole[-1])] == ["I look.", "Three, and sent."]
    first, second = openai_server.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["add", "mail"]
    assert roles(second) == [
        ("user", "Go."),
        ("assistant", "I look."),
        ("tool", "call_a"),
        ("tool", "call_b"),
    ]
    assert next(runner.events("t")) == whole[0]


def test_chunks_of_calls_are_told_with_agent_and_id(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = [TWO_CALLS, "Sent."]
    writer = ag.chat_agent("writer", chat_model(openai_server), tools=[add, mail])
    tree = ag.loop("l", [writer], max_iterations=1)

    events = list(drive.run(ag.Runner(tree), "Go.", stream=True))

    said = next(event for event in events if event.message and not event.partial)
    chunks = [event for event in events if event.partial and event.id == said.id]
    assert {(event.agent_name, event.address) for event in chunks} == {("writer", "l[0]/writer")}
    added: Any = chunks[0].message
    for event in chunks[1:]:
        added += event.message
    assert added.tool_calls == said.message.tool_calls
    assert [call["args"] for call in said.message.tool_calls] == [
        {"a": 1, "b": 2},
        {"to": "ann", "text": "{3}"},
    ]


def test_arguments_that_are_no_json_go_back(openai_server: OpenAIServer, drive: Drive) -> None:
    broken = Reply(calls=(Call("1", "add", ("", '{"a": 1,')),))
    openai_server.script = [broken, "I give up."]
    runner = ag.Runner(ag.chat_agent("writer", chat_model(openai_server), tools=[add]))
    events = list(drive.run(runner, "Go."))
    assert [event.text for event in events][-1] == "I give up."
    assert openai_server.requests[1]["messages"][-1]["content"].startswith(
        "Error: the arguments of add cannot be read: "
    )


TREE = """
import json
import sys
from pathlib import Path

from langchain_openai import ChatOpenAI

import agentgraph as ag

base_url, folder, *answers = sys.argv[1:]
LEDGER = Path(folder, "ledger")


def add(a: int, b: int) -> int:
    "Add two numbers."
    LEDGER.open("a").write(f"add {a} {b}\\n")
    return a + b


def mail(to: str, text: str) -> str:
    "Send a mail."
    LEDGER.open("a").write(f"mail {to} {text}\\n")
    return f"sent {text!r} to {to}"


model = ChatOpenAI(base_url=base_url, api_key="test", model="test-model", max_retries=0)
writer = ag.chat_agent("writer", model, tools=[add, mail], approve=["mail"])
with ag.sqlite_saver(Path(folder, "runs.db")) as saver:
    runner = ag.Runner(ag.sequential("s", [writer]), checkpointer=saver)
    if answers:
        events = runner.resume("t", {runner.pending("t")[0].id: json.loads(answers[0])}, stream=True)
    else:
        events = runner.run("Go.", thread_id="t", stream=True)
    for event in events:
        print(json.dumps(event.to_dict()))
"""


def test_an_approval_between_two_processes_runs_what_was_edited_once(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.script = [TWO_CALLS, "Three, and sent."]
    (tmp_path / "tree.py").write_text(TREE)

    def process(*answers: str) -> list[ag.AgentEvent]:
        command = [sys.executable, "-W", "error::DeprecationWarning", str(tmp_path / "tree.py")]
        command += [openai_server.base_url, str(tmp_path), *answers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return [ag.AgentEvent.from_dict(json.loads(line)) for line in done.stdout.splitlines()]

    paused = [event for event in process() if not event.partial]
    assert [event.kind for event in paused] == ["message", "interrupted"]
    (asked,) = paused[1].action.interrupted.value["action_requests"]
    assert (asked["name"], asked["args"]) == ("mail", {"to": "ann", "text": "{3}"})
    assert not (tmp_path / "ledger").exists()

    action = {"name": "mail", "args": {"to": "bob", "text": "{3}"}}
    decision = {"decisions": [{"type": "edit", "edited_action": action}]}
    resumed = [event for event in process(json.dumps(decision)) if not event.partial]
    assert sorted((tmp_path / "ledger").read_text().splitlines()) == ["add 1 2", "mail bob {3}"]
    assert resumed[-1].text == "Three, and sent."
    assert len(openai_server.requests) == 2
    calls = openai_server.requests[1]["messages"][1]["tool_calls"]
    assert json.loads(calls[1]["function"]["arguments"]) == {"to": "ann", "text": "{3}"}
    ran = openai_server.requests[1]["messages"][3]["content"]
    assert f"Executed instead: mail with arguments {json.dumps(action['args'])}." in ran
