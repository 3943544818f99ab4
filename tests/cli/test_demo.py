"""The demo: offline, with OpenAI's client, and over two processes."""

import pytest
from helpers.commands import CTRL_D, Commands
from helpers.openai_server import Body, OpenAIServer
from langchain_core.messages import HumanMessage, SystemMessage

from agentgraph.cli import demo

TREE = f"{demo.__file__}:report"
ANTS = (
    "Ants are old. A nest of wood ants holds 300,000 workers, which is more than most towns near it "
    "can say of themselves and of all of their visitors. It has 100 queens. Some live for 20 years, "
    "and in all of these years they hardly ever see the light of day. Nobody counts them."
)
SOURCE = " (From 55 words in 5 sentences.)"


def test_the_demo_reports_on_a_file_and_asks_in_a_second_process(command: Commands) -> None:
    (command.folder / "ants.txt").write_text(ANTS)
    arguments = ("demo", "ants.txt", "--db", "demo.db")
    ended = command.at_terminal(*arguments, typed=[("(approve, reject): ", CTRL_D)])
    assert ended.code == 3
    assert ended.lines[0].startswith("Model: scripted, offline")
    assert ended.lines[0].endswith("Text: ants.txt.")
    said = dict(line.split(": ", 1) for line in ended.lines if line.startswith("report/"))
    assert [*said][:4] == [
        f"report/refine[{n}]/{name}" for n in (0, 1) for name in ("write", "critique")
    ]
    assert {*said} >= {"report/review/facts", "report/review/style"}
    assert said["report/refine[0]/write"].endswith("all of their visitors. It has 100 queens.")
    assert said["report/refine[0]/critique"].startswith("REVISE: 33 words; ")
    assert said["report/refine[1]/critique"] == "GOOD: 39 words."
    assert said["report/approve"] == "[asks] Approve this summary?"
    assert "in demo.db waits for answers to" in ended.out
    again = ended.lines[-1].partition(": ")[2]
    assert command.follow(again, "--answer", "reject").lines == ["report/approve: reject"]


def test_the_demo_speaks_with_openai_where_there_is_a_key(
    command: Commands, openai_server: OpenAIServer
) -> None:
    openai_server.script = [_answer] * 6
    env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": openai_server.base_url, "OPENAI_MODEL": "tiny"}
    ended = command("demo", "--no-input", env={**env, "TMPDIR": str(command.folder)})
    assert ended.code == 0
    assert ended.lines[0].startswith("Model: OpenAI's tiny. ")
    assert ended.lines[0].endswith("Text: honeybees.txt, which comes with the demo.")
    assert any(line.startswith("This process ends here.") for line in ended.lines)
    assert "report/refine[1]/critique: **Good**." in ended.lines
    assert ended.lines[-1] == "report/approve: approve"
    assert f"{command.folder}/agentgraph-demo-" in ended.err
    assert len(openai_server.requests) == 6
    assert {request["model"] for request in openai_server.requests} == {"tiny"}


def _answer(body: Body) -> str:
    instruction = body["messages"][0]["content"]
    if "Reply GOOD" in instruction:
        return "**Good**." if "second draft" in instruction else "REVISE: again."
    if "Summarise" in instruction:
        return "A second draft." if "REVISE" in str(body["messages"]) else "A first draft."
    return "Fine."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "text.txt cannot be read: No such file or directory"),
        (b" \n", "text.txt is empty; name a file with some sentences"),
        (b"\xff\xfe", "text.txt is not UTF-8 text: "),
        (b"PK\x00\x01", "text.txt is not text because it has a zero byte"),
    ],
)
def test_a_file_that_cannot_be_reported_on_is_refused(
    command: Commands, content: bytes | None, message: str
) -> None:
    if content is not None:
        (command.folder / "text.txt").write_bytes(content)
    ended = command("demo", "text.txt")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"Error: {message}")


def test_the_scripts_read_what_they_are_sent() -> None:
    text = SystemMessage(f"Summarise.\n\nText:\n{ANTS}")
    first = demo.write([text])
    assert first.endswith("visitors. It has 100 queens.")
    objection = demo.critique([_to_judge(first)])
    assert objection == "REVISE: 33 words; say how long the text is."
    second = demo.write([text, HumanMessage(objection, name="critique")])
    assert second == first + SOURCE
    assert demo.critique([_to_judge(second)]) == "GOOD: 39 words."
    facts = "3 numbers in the text, 2 in the summary; each is in the text."
    assert demo.facts([_to_judge(second)]) == facts
    style = demo.style([_to_judge(second)])
    assert style.startswith("The longest sentence of the text has 26 words: A nest of wood ants ")


def test_a_number_that_is_not_in_the_text_is_named() -> None:
    facts = "3 numbers in the text, 1 in the summary; not in the text: 101."
    assert demo.facts([_to_judge("It has 101 queens. (From 3 words in 9 sentences.)")]) == facts


def _to_judge(summary: str) -> SystemMessage:
    return SystemMessage(f"Judge.\n\nSummary:\n{summary}\n\nText:\n{ANTS}")


def test_a_first_sentence_that_is_too_long_is_cut() -> None:
    text = SystemMessage("Summarise.\n\nText:\n" + "word " * 90)
    objection = HumanMessage("REVISE", name="critique")
    assert demo.write([text, objection]) == "word " * 34 + "... (From 90 words in 1 sentence.)"
