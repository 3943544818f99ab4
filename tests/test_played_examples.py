"""The command of each example: a short conversation, by scripts or by the model that it names."""

import io
import json
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Commands
from helpers.openai_server import Body, OpenAIServer

EXAMPLES = Path(__file__).parent.parent / "examples"
APPS = sorted(EXAMPLES.glob("*/app.py"))
SCRIPTED = "no OPENAI_API_KEY: scripted answers"
ENDS = {
    "background": "All researchers have ended.",
    "adaptive_rag": "adaptive_rag/reply: An agent has Long-term, Sensory, Short-term memory.",
    "airline_desk": "airline_desk[1]/seats: ABC123 now has the seat 12A on FLT-",
    "customer_service": "customer_service/clerk: The manager agrees! Now it is ",
    "customer_support": 'customer_support/primary[3]/hotel_desk: [{"number": "H1", "name": "Hilton", ',
    "deep_agent": "deep_agent/planner: The first column is in first_column.csv; its header is kept",
    "deep_research": "- In winter the colony forms a cluster and eats its stores (keepers.example).",
    "expenses": "expenses/cashier: A chair: not paid.",
    "flights": "flights[0]/hotel_assistant: Your hotel is booked.",
    "hierarchical_teams": "hierarchical_teams[14]: The report on bees is in report.txt, with a chart.",
    "lead_scoring": "lead_scoring/save: Saved 5 e-mails in emails.",
    "nightly_batch": "195 files are done, 5 failed.",
    "travel_concierge": "travel_concierge[2]/booking: All is paid.",
}
"""How the last line of each conversation starts."""

each_app = pytest.mark.parametrize(
    "app", [app for app in APPS if app.parent.name != "web"], ids=lambda app: app.parent.name
)
Play = Callable[..., list[str]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Play:
    """Run an application in an empty folder; return the lines that it prints."""

    def run(app: Path, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [str(app), *arguments])
        runpy.run_path(str(app), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer) -> None:
    """Have a key, and a server that answers each request."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)
    openai_server.script = [answer] * 500


def answer(body: Body) -> str:
    """Answer in plain text, or as the schema of the request demands."""
    if "response_format" not in body:
        return "Fine."
    return json.dumps(fitting(body["response_format"]["json_schema"]["schema"]))


def fitting(schema: dict[str, Any]) -> Any:
    """Return a value that fits a schema of an example."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "object":
            return {name: fitting(each) for name, each in schema["properties"].items()}
        case "integer":
            return schema.get("minimum", 0)
        case "boolean":
            return True
        case "array":
            return []
    return ""


@each_app
def test_without_a_key_an_example_plays_its_script_and_says_so_first(
    app: Path, play: Play, offline: None
) -> None:
    first, *_, last = play(app)
    assert first == SCRIPTED
    assert last.startswith(ENDS[app.parent.name])


@each_app
def test_with_a_key_an_example_asks_the_model_that_it_names(
    app: Path, play: Play, key: None, openai_server: OpenAIServer
) -> None:
    first, *lines = play(app)
    assert first == "OPENAI_API_KEY is set: a model answers"
    assert lines
    (name,) = {body["model"] for body in openai_server.requests}
    assert f'"openai:{name}"' in app.read_text()


@each_app
def test_with_offline_an_example_does_not_use_the_key(
    app: Path, play: Play, key: None, openai_server: OpenAIServer
) -> None:
    first, *_, last = play(app, "--offline")
    assert first == "--offline: scripted answers"
    assert last.startswith(ENDS[app.parent.name])
    assert openai_server.requests == []


@pytest.mark.usefixtures("key")
def test_with_a_key_in_a_terminal_the_user_continues_the_conversation(
    play: Play, monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer
) -> None:
    question = {"question": "Which bees?"}
    openai_server.script = [json.dumps(question), json.dumps({"question": ""}), *[answer] * 9]
    monkeypatch.setattr(sys, "stdin", Terminal("Honey bees.\nThank you.\n\nNever read.\n"))
    lines = play(EXAMPLES / "deep_research" / "app.py", "Report on bees.")
    assert "> Report on bees." in lines
    texts = [message["content"] for message in openai_server.requests[1]["messages"]]
    assert texts[-1].endswith("Honey bees.")
    assert not any("Never read." in str(body) for body in openai_server.requests)


@pytest.mark.usefixtures("key")
def test_in_a_terminal_an_answer_that_does_not_fit_is_asked_again(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal('perhaps\n{"choice": "quit"}\n'))
    lines = play(EXAMPLES / "lead_scoring" / "app.py")
    assert [line for line in lines if "does not fit" in line]
    assert [line for line in lines if line.endswith("lead_scoring/agree[0]/review: [exit]")]


@pytest.mark.usefixtures("offline")
def test_texts_on_the_command_line_replace_the_conversation(play: Play) -> None:
    lines = play(EXAMPLES / "flights" / "app.py", "Is there a flight?", "--offline", "Book it.")
    assert [line for line in lines if line.startswith(">")] == ["> Is there a flight?", "> Book it."]
    assert lines[-1] == "flights[0]/flight_assistant: Your flight is booked."


@pytest.mark.usefixtures("offline")
def test_an_option_that_is_unknown_is_an_error_with_the_usage(
    play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        play(EXAMPLES / "flights" / "app.py", "--online")
    assert "usage: app.py [-h] [--offline] [ARGUMENT ...]" in capsys.readouterr().err


@pytest.mark.usefixtures("offline")
def test_the_web_application_says_first_what_answers(program: Commands) -> None:
    running = program.start(str(EXAMPLES / "web" / "app.py"))
    running.said(SCRIPTED)
    running.signal(signal.SIGINT)
    running.wait()
