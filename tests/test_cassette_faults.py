"""Cassettes: what differs, what cannot be kept, damaged files, and secrets."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, chat, crash, echo, retrying, scripted
from helpers.cassette_runs import answers, heard
from helpers.openai_server import Failure, OpenAIServer
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ModelRetryMiddleware,
    ToolRetryMiddleware,
)
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, recorded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "run.json"


pytest_plugins = ["pytester"]

DRIFT = """writer: model call 0 of turn 0 is not what {path} has: message 0 differs:
  recorded: human: Go.
  asked:    human: Went.
record what differs with recorded(path, mode="auto"), or everything with mode="record"; \
for the fixture and evaluations, set AGENTGRAPH_CASSETTES=auto or AGENTGRAPH_CASSETTES=record"""


def test_played_a_difference_ends_the_run_at_its_address(drive: Drive, path: Path) -> None:
    heard(drive, chat("writer", "One."), path, "auto")
    runner = ag.Runner(chat("writer", "Two."), middleware=[recorded(path, "play")])
    events = []
    with pytest.raises(ag.CassetteError) as caught:
        events += drive.run(runner, "Went.", thread_id="t")
    assert str(caught.value).startswith(DRIFT.format(path=path))
    assert (caught.value.path, caught.value.address) == (str(path), "writer")


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (
            {"instruction": "Be brief."},
            "message 0 differs:\n  recorded: human: Go.\n  asked:    system: Be brief.",
        ),
        ({"tools": [echo, crash]}, "the tool 'crash' differs:\n  recorded: nothing\n  asked:    {"),
        ({"tools": []}, "the tool 'echo' differs:\n  recorded: {"),
    ],
)
def test_the_first_difference_is_shown(changed: Any, difference: str, path: Path) -> None:
    heard(Sync, chat("writer", "One.", tools=[echo]), path, "auto")
    with pytest.raises(ag.CassetteError) as caught:
        heard(Sync, chat("writer", **{"tools": [echo], **changed}), path, "play")
    assert difference in str(caught.value)


def test_of_a_long_message_the_part_that_differs_is_shown(path: Path) -> None:
    runner = ag.Runner(chat("writer", "One."), middleware=[recorded(path)])
    runner.invoke("bees " * 200 + "hum")
    runner = ag.Runner(chat("writer"), middleware=[recorded(path, "play")])
    with pytest.raises(ag.CassetteError, match=r"asked: +…(bees )+sting"):
        runner.invoke("bees " * 200 + "sting")


def test_a_difference_of_a_tool_is_shown(path: Path) -> None:
    heard(Sync, chat("writer", calls(call("echo", text="a")), "One.", tools=[echo]), path, "auto")
    path.write_text(path.read_text().replace('"text": "a"', '"text": "b"', 1))
    with pytest.raises(ag.CassetteError, match="writer: tool call 0 of turn 0 is not what"):
        heard(Sync, chat("writer", tools=[echo]), path, "play")


def test_nobody_handles_a_difference(drive: Drive, path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"agentgraph_cassette": 1, "answers": {}, "parts": {}}')
    fallback = ModelRetryMiddleware(max_retries=1, initial_delay=0.001)
    branch = chat(
        "writer", "One.", middleware=[fallback], retry=retrying(), limits=ag.Limits(model_calls=9)
    )
    both = ag.parallel("both", [branch, chat("other", "Two.")], on_error="collect")
    with pytest.raises(ag.CassetteError, match="model call 0 of turn 0 is not in"):
        heard(drive, both, path, "play")
    assert answers(path) == {}


def test_a_missing_answer_of_a_tool_is_not_told_to_the_model(drive: Drive, path: Path) -> None:
    made = calls(call("echo", text="a"))
    heard(drive, chat("writer", made, "One.", tools=[echo]), path, "auto")
    data = json.loads(path.read_text())
    del data["answers"]["0 writer tool call 0"]
    path.write_text(json.dumps(data))
    tree = chat("writer", tools=[echo], middleware=[ToolRetryMiddleware(initial_delay=0.001)])
    with pytest.raises(ag.CassetteError, match="tool call 0 of turn 0 is not in"):
        heard(drive, tree, path, "play")


def test_only_the_agent_that_is_asked_something_else_is_asked_anew(drive: Drive, path: Path) -> None:
    def tree(*models: ScriptedChatModel, instruction: str = "") -> ag.Agent:
        a, b, c = models
        branches = [ag.chat_agent("b", b, instruction=instruction), ag.chat_agent("c", c)]
        return ag.sequential("s", [ag.chat_agent("a", a), ag.parallel("p", branches)])

    heard(drive, tree(scripted("A."), scripted("B."), scripted("C.")), path, "auto")
    models = scripted(), scripted("New."), scripted()
    again = heard(drive, tree(*models, instruction="Be new."), path, "auto")
    assert again == ["s/a: A.", "s/p/b: New.", "s/p/c: C."]
    assert len(models[1].inputs) == 1
    both = [tree(scripted(), scripted(), scripted(), instruction=each) for each in ("", "Be new.")]
    assert [heard(drive, each, path, "play")[1] for each in both] == ["s/p/b: B.", "s/p/b: New."]


def test_record_asks_always_and_replaces_what_is_kept(path: Path) -> None:
    for reply in ("One.", "Two."):
        heard(Sync, chat("writer", reply), path, "record")
    (key,) = answers(path)
    assert [each["reply"]["content"] for each in answers(path)[key]] == ["Two."]


def test_nothing_of_keys_and_headers_is_written(
    drive: Drive, openai_server: OpenAIServer, path: Path
) -> None:
    key, header = "sk-secret-of-bees-0123", "a-header-of-bees-4567"
    openai_server.script = [Failure(401, f"wrong key {key}, {header}"), *["Hum."] * 2]

    def tree(key: str, header: str) -> ag.Agent:
        model = ChatOpenAI(
            model="gpt-4.1-mini",
            base_url=openai_server.base_url,
            api_key=SecretStr(key),
            default_headers={"X-Tenant": header},
            include_response_headers=True,
            max_retries=0,
        )
        bound = model.bind(extra_headers={"X-More": f"more-{header}"})
        return ag.chat_agent("writer", bound, retry=retrying())

    options: Any = {"stream": True}
    first = heard(drive, tree(key, header), path, "auto", **options)
    text = path.read_text()
    assert not any(word in text.lower() for word in (key, header, "x-tenant", "headers", "127.0.0.1"))
    assert "wrong key ***, ***" in text
    openai_server.script = []
    assert heard(drive, tree("sk-another", "another"), path, "play", **options) == first


DAMAGED = [
    "",
    "{",
    "[]",
    '{"answers": {}}',
    '{"agentgraph_cassette": 1, "answers": {"0 a": [1]}, "parts": {}}',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_file_that_is_not_a_cassette_is_refused_and_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ag.CassetteError, match=r"odd\.json"):
        recorded(path, "record")
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("0 writer model call 0", {"reply": {"type": "robot"}}),
        ("0 writer model call 0", {"reply": None}),
        ("0 writer model call 0", {"chunks": 7}),
        ("0 writer model call 0", {"mark": "edited"}),
        ("0 writer tool call 0", {"returned": {"Rocket": {}}}),
        ("0 writer tool call 0", {"returned": []}),
        ("0 writer tool call 0", {"asks": [7]}),
        ("0 writer tool call 0", {"call": 7, "returned": 7}),
    ],
)
def test_a_damaged_entry_is_named(drive: Drive, key: str, change: Any, path: Path) -> None:
    made = calls(call("echo", text="a"))
    heard(drive, chat("writer", made, "One.", tools=[echo]), path, "auto")
    data = json.loads(path.read_text())
    data["answers"][key][0] |= change
    path.write_text(json.dumps(data))
    with pytest.raises(ag.CassetteError, match="writer") as caught:
        heard(drive, chat("writer", tools=[echo]), path, "play")
    assert caught.value.address == "writer"


def test_a_file_that_cannot_be_written_ends_the_run(drive: Drive, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ag.CassetteError, match="cannot be"):
        heard(drive, chat("writer", "One."), tmp_path / "file" / "run.json", "auto")


def test_an_unknown_mode_is_refused(path: Path) -> None:
    with pytest.raises(ag.CassetteError, match="mode='replay' is not a mode"):
        recorded(path, "replay")  # type: ignore[arg-type]


class Report(BaseModel):
    title: str


def test_what_has_no_exact_json_is_refused_when_it_is_recorded(drive: Drive, path: Path) -> None:
    def give(topic: str) -> list[Any]:
        """Give a report."""
        return [ag.SetValues(report=Report(title=topic)), "given"]

    tree = chat("writer", calls(call("give", topic="a")), "Done.", tools=[give])
    with pytest.raises(ag.CassetteError, match="writer: the tool 'give' returned SetValues"):
        heard(drive, tree, path, "auto")


def test_two_processes_keep_what_each_other_wrote(path: Path) -> None:
    one, two = (ag.Runner(chat(name, "Hum."), middleware=[recorded(path)]) for name in ("a", "b"))
    one.invoke("Go.")
    two.invoke("Go.")
    assert sorted(answers(path)) == ["0 a model call 0", "0 b model call 0"]


def test_outside_of_a_tree_it_is_refused(path: Path) -> None:
    agent: Any = create_agent(scripted("Hum."), middleware=[recorded(path)])
    with pytest.raises(ag.CassetteError, match="needs the chat agents of a tree"):
        agent.invoke({"messages": ["Go."]})


def test_each_test_has_a_cassette_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest("from agentgraph.testing import cassette")
    pytester.makepyfile(test_flow=FLOW)

    def failure(*responses: str, **variables: str) -> str:
        monkeypatch.setenv("RESPONSES", json.dumps(responses))
        for name in ("CI", "AGENTGRAPH_CASSETTES"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
        return "" if result.ret == 0 else result.stdout.str()

    assert "model call 0 of turn 0 is not in" in failure(CI="true")
    assert failure("Hum.") == ""
    (file,) = (pytester.path / "cassettes").iterdir()
    assert file.name == "test_flow-TestFlow-test_it-a-b.json"
    assert failure(CI="true") == failure() == ""
    assert "'Other.' == 'Hum.'" in failure("Other.", AGENTGRAPH_CASSETTES="record")
    assert "AGENTGRAPH_CASSETTES='never' is not a mode" in failure(AGENTGRAPH_CASSETTES="never")


FLOW = """
import json, os
import pytest
import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

class TestFlow:
    @pytest.mark.parametrize("word", ["a/b"])
    def test_it(self, cassette, word):
        model = ScriptedChatModel(responses=json.loads(os.environ["RESPONSES"]))
        runner = ag.Runner(ag.chat_agent("writer", model), middleware=[cassette])
        assert runner.invoke(word).text == "Hum."
"""
