"""The examples run offline as their READMEs say."""

import ast
import io
import json
import re
import shlex
import signal
import sys
import time
import tokenize
from collections import Counter
from pathlib import Path

import pytest
from helpers.commands import Commands, wait_until

import agentgraph as ag
from examples.adaptive_rag.app import adaptive_rag
from examples.airline_desk.app import airline_desk
from examples.deep_agent.app import deep_agent
from examples.deep_research.app import deep_research
from examples.expenses import app as expenses
from examples.flights.app import flights
from examples.lead_scoring.app import lead_scoring
from examples.nightly_batch import offline as inbox
from examples.nightly_batch.app import nightly_batch

pytestmark = pytest.mark.usefixtures("offline")

EXAMPLES = Path(__file__).parent.parent / "examples"
FOLDERS = sorted({path.parent for path in EXAMPLES.glob("*/app.py")} - {EXAMPLES / "web"})
"""The applications; the one for the web has its own tests, `test_web_example.py` and `web/`."""
PORTS = [folder for folder in FOLDERS if folder.name != "background"]
PROGRAM = str(Path(sys.prefix) / "bin" / "agentgraph")
COMMAND = re.compile(r"^(?:agentgraph|python) .*", re.MULTILINE)

each_example = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def chosen(result: ag.Result) -> list[str]:
    return [event.action.chosen for event in result.events if event.action and event.action.chosen]


# adaptive RAG

MEMORY = "An agent has Long-term, Sensory, Short-term memory."


@pytest.mark.parametrize(
    ("question", "ways", "answer"),
    [
        (
            "Who did the Bears draft first in 2024?",
            ["web_search", "break_loop", "break_loop"],
            "The Chicago Bears drafted the quarterback Caleb Williams first in 2024.",
        ),
        (
            "What are the types of agent memory?",
            ["find", "break_loop", "skip", "break_loop", "break_loop"],
            MEMORY,
        ),
        (
            "How does an agent recall?",
            ["find", "rewrite", "break_loop", "skip", "break_loop", "break_loop"],
            MEMORY,
        ),
    ],
)
def test_adaptive_rag_takes_the_way_that_the_models_choose(
    question: str, ways: list[str], answer: str
) -> None:
    result = ag.Runner(adaptive_rag).invoke(question)
    assert (chosen(result), result.text) == (ways, answer)


def test_adaptive_rag_gives_up_when_three_attempts_find_nothing() -> None:
    result = ag.Runner(adaptive_rag).invoke("How are prompts attacked?")
    assert result.text == "I do not know."
    assert Counter(chosen(result)) == {"find": 3, "rewrite": 12, "break_loop": 3}


# deep research


def test_deep_research_asks_back_researches_in_parallel_and_reports_what_was_found() -> None:
    runner = ag.Runner(deep_research)
    asked = runner.invoke("Report on bees.", thread_id="t")
    assert [question.value for question in asked.pending] == ["Which bees do you mean?"]
    result = runner.invoke(thread_id="t", answers="I mean honey bees.")
    assert [line[2:20] for line in result.text.splitlines()] == [
        "Honey bees",
        "A colony has one q",
        "Bees visit two mil",
        "In winter the colo",
    ]
    researchers = {
        event.address.rpartition("/")[0] for event in result.events if "/research/" in event.address
    }
    assert researchers == {
        f"deep_research/supervise[{k}]/research/researcher({n})"
        for k, n in [(0, 0), (0, 1), (0, 2), (1, 0)]
    }
    assert "Nothing was found: ValueError('no source answered')" in result.values["notes"]


# lead scoring


def test_lead_scoring_scores_again_with_feedback_and_writes_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = ag.Runner(lead_scoring)
    first = runner.invoke("Go.", thread_id="t").pending[0].value
    assert [line.partition(":")[0] for line in first["top"]] == ["Ada Brook", "Fay Okoro", "Dora Lund"]
    wish = {"choice": "score again", "feedback": "Someone who cares for accessibility."}
    second = runner.invoke(thread_id="t", answers=wish).pending[0].value
    assert [line.partition(":")[0] for line in second["top"]] == ["Dora Lund", "Ada Brook", "Fay Okoro"]
    done = runner.invoke(thread_id="t", answers={"choice": "write"})
    assert done.values["failed"] == {"5": "ValueError('nothing is known about this lead')"}
    mails = {path.stem: path.read_text() for path in (tmp_path / "emails").iterdir()}
    assert sorted(mails) == ["1", "2", "3", "4", "6"]
    assert [key for key, text in sorted(mails.items()) if text.endswith("when can we talk?")] == [
        "1",
        "4",
        "6",
    ]


def test_lead_scoring_writes_nothing_if_the_person_quits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = ag.Runner(lead_scoring)
    runner.invoke("Go.", thread_id="t")
    with pytest.raises(ag.InvalidAnswerError):
        runner.invoke(thread_id="t", answers={"choice": "perhaps"})
    assert runner.invoke(thread_id="t", answers={"choice": "quit"}).status == "done"
    assert [*tmp_path.iterdir()] == []


# the nightly batch


def test_a_batch_that_is_killed_in_the_middle_does_no_file_twice(
    program: Commands, tmp_path: Path
) -> None:
    folder, app = tmp_path / "inbox", str(EXAMPLES / "nightly_batch" / "app.py")
    inbox.make_files(folder)
    bill = folder / "bill.log"
    running = program.start(app, str(folder))
    wait_until(lambda: bill.exists() and len(bill.read_text().splitlines()) >= 60)
    running.signal(signal.SIGKILL)
    assert running.wait_for_code() != 0
    with ag.Runner(nightly_batch, checkpointer=folder / "runs.db") as runner:
        (thread,) = runner.threads()
        ended = {
            event.address for event in runner.events(thread.thread_id) if event.text or event.error
        }
    done = {re.sub(r".*:(.*)\)", r"\1", address) for address in ended}
    before = Counter(bill.read_text().split())
    assert 40 <= len(done) < 200
    assert before.total() < 199

    assert program(app, str(folder)).lines[1:] == ["195 files are done, 5 failed."]
    asked = Counter(bill.read_text().split())
    assert {name for name, times in asked.items() if times > 1} <= before.keys() - done
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert [result["file"] for result in results] == [f"f{number:03}" for number in range(200)]
    failed = {result["file"] for result in results if "error" in result}
    assert failed == {"f000", "f001", "f050", "f100", "f150"}

    assert program(app, str(folder)).lines[1:] == ["195 files are done, 5 failed."]
    assert Counter(bill.read_text().split()) == asked


# the deep agent


def test_the_deep_agent_runs_code_once_a_person_agrees_and_keeps_the_files() -> None:
    runner = ag.Runner(deep_agent)
    asked = runner.invoke("Take the first column of questions.csv into a new file.", thread_id="t")
    assert [question.address for question in asked.pending] == ["deep_agent/planner/coder(1)"]
    assert [*asked.values["files"]] == ["questions.csv"]
    result = runner.invoke(thread_id="t", answers={"decisions": [{"type": "approve"}]})
    assert "Done; it printed nothing." in [event.text for event in result.events]
    assert result.text.startswith("The first column is in first_column.csv")
    assert result.values["files"]["first_column.csv"].splitlines() == [
        "question",
        "How many legs has a bee?",
        "Who lays the eggs?",
        "What is a swarm?",
    ]


# flights, and the airline's desk


def turns(tree: ag.Agent, *texts: str) -> tuple[list[str], dict[str, object]]:
    """Return the last message of each turn of a thread with its address, and the values."""
    runner = ag.Runner(tree)
    last = [runner.invoke(text, thread_id="t").events[-1] for text in texts]
    return [f"{event.address}: {event.text}" for event in last], dict(runner.thread("t").values)


def test_flights_hand_over_to_hotels_and_keep_what_is_booked() -> None:
    said, values = turns(flights, "Flights?", "Book it.", "A hotel?", "Book that hotel.")
    assert said == [
        "flights[0]/flight_assistant: There is Jet Blue from BOS to JFK.",
        "flights[0]/flight_assistant: Your flight is booked.",
        "flights[1]/hotel_assistant: There is the McKittrick Hotel.",
        "flights[0]/hotel_assistant: Your hotel is booked.",
    ]
    assert values["flight"] == {"id": "1", "from": "BOS", "to": "JFK", "airline": "Jet Blue"}
    assert values["hotel"] == {"id": "1", "city": "New York", "name": "McKittrick Hotel"}


def test_the_airline_desk_begins_at_who_spoke_last_and_goes_back() -> None:
    said, values = turns(
        airline_desk, "Hi.", "A bag?", "And wifi?", "My seat.", "12A, ABC123.", "Seats?"
    )
    assert [each.partition(":")[0] for each in said] == [
        "airline_desk",
        "airline_desk[1]/faq",
        "airline_desk[1]/faq",
        "airline_desk[3]/seats",
        "airline_desk[1]/seats",
        "airline_desk[3]/faq",
    ]
    assert re.fullmatch(r".*: ABC123 now has the seat 12A on FLT-\d{3}\.", said[4])
    assert (values["confirmation_number"], values["seat"]) == ("ABC123", "12A")


# expenses


@pytest.mark.parametrize(
    ("answers", "paid"), [(["approve"], True), (["ask the director", "reject"], False)]
)
def test_an_expense_is_paid_once_if_it_is_approved(answers: list[str], paid: bool) -> None:
    runner = ag.Runner(expenses.expenses)
    result = runner.invoke("A dinner for 180 euros.", thread_id="t")
    for answer in answers:
        days = (result.pending[0].deadline - time.time()) / 24 / 3600
        assert 1.9 < days <= 5
        result = runner.invoke(thread_id="t", answers=answer)
    assert result.text == ("A dinner: 180 euros are paid." if paid else "A dinner: not paid.")


def test_an_expense_that_is_not_answered_goes_to_the_director_and_is_rejected() -> None:
    result = expenses.no_answers(ag.Runner(expenses.expenses), "t")
    defaults = [event.action.default for event in result.events if event.kind == "default"]
    assert [each.answer for each in defaults] == ["ask the director", "reject"]
    assert result.text == "A chair: not paid."


# the tree of the cluster, which `make test-cluster` runs on servers


def test_the_tree_of_the_cluster_runs_in_one_process_too(program: Commands, tmp_path: Path) -> None:
    ran = program(str(EXAMPLES / "cluster" / "tree.py"))
    assert ran.lines[-3:] == [
        "magazine/boss: interrupted",
        "magazine/boss: yes",
        "magazine/printer: Printed.",
    ]
    steps = Counter(line.split()[0] for line in (tmp_path / "magazine.log").read_text().splitlines())
    assert (len(steps), steps.total()) == (9, 9)


# the turn that is durable, which `make durable` kills on engines


def test_a_durable_turn_runs_once_without_an_engine_too(program: Commands, tmp_path: Path) -> None:
    def run(file: str, *args: str) -> list[str]:
        return program(str(EXAMPLES / "durable" / file), *args, env={"SECONDS": "0"}).lines

    assert run("tree.py")[-3:] == [
        "magazine/boss: interrupted",
        "magazine/boss: yes",
        "magazine/printer: Printed.",
    ]
    assert "'Print it?'" in run("without_engine.py", "ask", "order-17")[0]
    assert run("without_engine.py", "ask", "order-17") == run("without_engine.py", "ask", "order-17")
    for _ in range(2):
        assert run("without_engine.py", "answer", "order-17", "yes") == ["Printed."]
    steps = Counter(line.split()[3] for line in (tmp_path / "durable.log").read_text().splitlines())
    assert (len(steps), steps.total()) == (22, 22)


# all of them


@each_example
def test_each_command_of_a_readme_runs(folder: Path, program: Commands, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    commands = COMMAND.findall((folder / "README.md").read_text())
    assert commands
    for name, *args in map(shlex.split, commands):
        ended = program(*([PROGRAM] if name == "agentgraph" else []), *args)
        assert ended.code in (0, 3), ended.err


def test_a_readme_is_a_screen() -> None:
    lengths = {folder.name: len((folder / "README.md").read_text().splitlines()) for folder in FOLDERS}
    assert {name: length for name, length in lengths.items() if length > 45} == {}


@pytest.mark.parametrize("folder", PORTS, ids=lambda folder: folder.name)
def test_a_readme_names_the_original_and_counts_the_lines_right(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert "https://github.com/" in text
    (counted,) = re.finditer(r"Lines\s+of\s+code:\s+(\d+)\s→\s(\d+)\b", text)
    original, port = map(int, counted.groups())
    assert port == lines_of_code((folder / "app.py").read_text())
    assert port <= original / 2


def lines_of_code(source: str) -> int:
    """Count the lines that hold code: no blank lines, comments or docstrings."""
    ignored = {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in ignored:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return len(lines)
