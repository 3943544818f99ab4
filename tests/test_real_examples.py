"""The examples with `OPENAI_API_KEY`: OpenAI's client, and a server that answers as the scripts do."""

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from helpers.openai_server import Answer, Body, Call, Failure, OpenAIServer, Reply
from langchain_core.messages import AIMessage, convert_to_messages

import agentgraph as ag
from examples.nightly_batch.offline import make_files

EXAMPLES = Path(__file__).parent.parent / "examples"


@contextmanager
def imported(name: str) -> Iterator[ModuleType]:
    """Import the application of an example again, because its tools depend on the key."""
    spec = importlib.util.spec_from_file_location(f"real_{name}", EXAMPLES / name / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


def answering(app: ModuleType) -> Callable[[Body], Answer]:
    """Return a function that answers as the scripts of an example; instructions identify the agents."""
    agents = [each for each in vars(app).values() if isinstance(each, ag.ChatAgent)]
    begins = {each.name: str(each.instruction).partition("{")[0] for each in agents}

    def answer(body: Body) -> Answer:
        messages = convert_to_messages([dict(each) for each in body.get("messages") or body["input"]])
        text, is_system = messages[0].text, messages[0].type == "system"
        is_of = {name: text.startswith(begin) for name, begin in begins.items() if begin}
        name = next(name for name in begins if is_of.get(name, not is_system))
        try:
            reply = app.SCRIPTS[name](messages)
        except ValueError as error:
            return Failure(400, str(error))
        if isinstance(reply, AIMessage):
            return searched(app, reply) if "input" in body else as_answer(body, reply)
        return str(reply)

    return answer


def searched(app: ModuleType, reply: AIMessage) -> str:
    """Return the server's search result in place of a script's tool call."""
    (call,) = reply.tool_calls
    try:
        return str(getattr(app, call["name"])(**call["args"]))
    except ConnectionError as error:
        return str(error)


def as_answer(body: Body, reply: AIMessage) -> Answer:
    if "response_format" in body:
        return json.dumps(reply.tool_calls[0]["args"])
    calls = enumerate(reply.tool_calls)
    return Reply(
        calls=tuple(Call(f"call_{n}", each["name"], (json.dumps(each["args"]),)) for n, each in calls)
    )


@pytest.fixture
def app(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    openai_server: OpenAIServer,
) -> Iterator[ModuleType]:
    """Give the application of the example that a test is for, as it is with a key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)
    with imported(request.param) as module:
        openai_server.script = [answering(module)] * 300
        yield module


def example(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("app", [name], indirect=True)


@example("adaptive_rag")
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who did the Bears draft first in 2024?", "The Chicago Bears drafted the quarterback Caleb"),
        ("How does an agent recall?", "An agent has Long-term, Sensory, Short-term memory."),
    ],
)
def test_adaptive_rag(app: ModuleType, question: str, answer: str) -> None:
    assert ag.Runner(app.adaptive_rag).invoke(question).text.startswith(answer)


@example("deep_research")
def test_deep_research(app: ModuleType, openai_server: OpenAIServer) -> None:
    runner = ag.Runner(app.deep_research)
    list(runner.run("Report on bees.", thread_id="t", stream=True))
    assert [question.value for question in runner.pending("t")] == ["Which bees do you mean?"]
    list(runner.resume("t", "I mean honey bees.", stream=True))
    report = runner.thread("t").messages[-1].text
    assert [line[:20] for line in report.splitlines()] == [
        "# Honey bees",
        "- A colony has one q",
        "- Bees visit two mil",
        "- In winter the colo",
    ]
    searches = [body for body in openai_server.requests if "input" in body]
    assert [body["tools"] for body in searches] == [[{"type": "web_search"}]] * 4


@example("deep_research")
def test_deep_research_of_what_needs_none(app: ModuleType, openai_server: OpenAIServer) -> None:
    clear, no_topics = json.dumps({"question": ""}), json.dumps({"topics": []})
    openai_server.script = [clear, "Greet the user.", no_topics, "# Hello"]
    assert ag.Runner(app.deep_research).invoke("Say hello.").text == "# Hello"


@example("lead_scoring")
def test_lead_scoring(app: ModuleType, tmp_path: Path) -> None:
    runner = ag.Runner(app.lead_scoring)
    asked = runner.invoke("Go.", thread_id="t").pending[0].value
    assert [line.partition(":")[0] for line in asked["top"]] == ["Ada Brook", "Fay Okoro", "Dora Lund"]
    done = runner.invoke(thread_id="t", answers={"choice": "write"})
    assert [*done.values["failed"]] == ["5"]
    assert (tmp_path / "emails" / "1.txt").read_text() == "Dear Ada Brook, when can we talk?"


@example("nightly_batch")
def test_nightly_batch(
    app: ModuleType, tmp_path: Path, openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    make_files(tmp_path, 12)
    app.main(str(tmp_path), "today")
    assert capsys.readouterr().out == "10 files are done, 2 failed.\n"
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert results[2] == {"file": "f002", "title": "Note 2", "topic": "wasps"}
    assert {body["model"] for body in openai_server.requests} == {"gpt-5-mini"}


@example("deep_agent")
def test_deep_agent(app: ModuleType) -> None:
    runner = ag.Runner(app.deep_agent)
    asked = runner.invoke("Take the first column of questions.csv into a new file.", thread_id="t")
    assert [question.address for question in asked.pending] == ["deep_agent/planner/coder(1)"]
    result = runner.invoke(thread_id="t", answers="approve")
    assert result.text.startswith("The first column is in first_column.csv")
    assert sorted(result.values["files"]) == ["first_column.csv", "questions.csv"]


@example("background")
def test_background(app: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    app.main("background.db", ["Research bees and ants."])
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "All researchers have ended."
    ends = [line for line in lines if "has ended; collect its report." in line]
    assert len(ends) == len([line for line in lines if line.startswith("desk: Here it is")]) == 2
