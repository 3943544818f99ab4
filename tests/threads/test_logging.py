"""Runs are logged: begin, end, questions and failures at INFO, each activation at DEBUG."""

import asyncio
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, asks, chat, fails, foreign, gives, lines, says
from helpers.failing_savers import Failing
from langchain_core.tools import tool

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

SECRET = "the moon is made of cheese"
NUMBERS = re.compile(r"run [0-9a-f-]{36}|\d+\.\d+")
Logs = pytest.LogCaptureFixture


@pytest.fixture
def info(caplog: Logs) -> Iterator[Logs]:
    with caplog.at_level(logging.INFO, "agentgraph"):
        yield caplog


@pytest.fixture
def debug(caplog: Logs) -> Iterator[Logs]:
    with caplog.at_level(logging.DEBUG, "agentgraph"):
        yield caplog


def logged(caplog: Logs, name: str = "agentgraph.runs") -> list[str]:
    """Return the lines of a logger so far, with the times and the ids of runs replaced."""
    records = [each for each in caplog.records if each.name == name]
    caplog.clear()
    return [NUMBERS.sub("_", record.getMessage()) for record in records]


def run(drive: Drive, runner: ag.Runner, method: str, *args: Any, **options: Any) -> list[str]:
    if drive is Sync:
        return lines(getattr(runner, method)(*args, **options))

    async def arun() -> list[str]:
        return lines([each async for each in getattr(runner, f"a{method}")(*args, **options)])

    return asyncio.run(arun())


def test_a_run_that_pauses_and_its_resume_are_logged(drive: Drive, info: Logs) -> None:
    runner = ag.Runner(ag.sequential("report", [says("writer", SECRET), asks("boss", "Print\nit?")]))
    run(drive, runner, "run", SECRET, thread_id="t")
    assert logged(info) == [
        "thread 't': report begins with new input, _",
        "thread 't': report/boss asks 'Print\\nit?'",
        "thread 't': report ends paused after _ s, _",
    ]
    run(drive, runner, "resume", "t", SECRET)
    assert logged(info) == [
        "thread 't': report begins with answers, _",
        "thread 't': report ends done after _ s, _",
    ]
    run(drive, runner, "rewind", "t", "report/boss")
    assert logged(info)[0] == "thread 't': report begins with a rewind to 'report/boss', _"


def test_one_answer_of_two_leaves_the_run_paused(drive: Drive, info: Logs) -> None:
    runner = ag.Runner(ag.parallel("both", [asks("a"), asks("b")]))
    run(drive, runner, "run", "Go.", thread_id="t")
    run(drive, runner, "resume", "t", {"both/a": "yes"})
    assert logged(info)[-1] == "thread 't': both ends paused after _ s, _"


def test_a_failure_is_a_warning_with_its_first_line(drive: Drive, info: Logs) -> None:
    def jams(ctx: ag.Context) -> str:
        raise OSError(f"the printer is jammed{'!' * 300}")

    runner = ag.Runner(ag.sequential("report", [ag.function_agent("printer", jams)]))
    with pytest.raises(OSError, match="jammed"):
        run(drive, runner, "run", SECRET, thread_id="t")
    records = [*info.records]
    begin, failure, end = logged(info)
    assert begin == "thread 't': report begins with new input, _"
    assert failure.startswith("thread 't': report/printer fails: OSError('the printer is jammed!!!")
    assert len(failure) < 300
    assert end == "thread 't': report ends failed after _ s, _"
    levels = [each.levelno for each in records]
    assert levels == [logging.INFO, logging.WARNING, logging.INFO]
    assert SECRET not in info.text


def test_a_failure_of_no_agent_is_logged_at_the_root(info: Logs) -> None:
    saver = Failing()
    saver.left = 4
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b")]), checkpointer=saver)
    with pytest.raises(ag.SaverError):
        runner.invoke("Go.", thread_id="t")
    _, failure, end = logged(info)
    assert failure.startswith("thread 't': s fails: SaverError: ")
    assert end == "thread 't': s ends failed after _ s, _"


def test_a_stopped_run_is_logged(drive: Drive, info: Logs) -> None:
    def stops(ctx: ag.Context) -> str:
        runner.stop("t")
        return "Stopping."

    runner = ag.Runner(ag.sequential("s", [ag.function_agent("stops", stops), says("never")]))
    run(drive, runner, "run", "Go.", thread_id="t")
    assert logged(info)[-1] == "thread 't': s ends stopped after _ s, _"
    run(drive, runner, "resume", "t")
    assert logged(info) == [
        "thread 't': s begins with a resume, _",
        "thread 't': s ends done after _ s, _",
    ]


def test_a_run_that_its_caller_leaves_is_logged(drive: Drive, info: Logs) -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b"), fails("c")]))

    async def aleave() -> None:
        async with runner.arun("Go.", thread_id="t") as events:
            await anext(events)

    if drive is Sync:
        with runner.run("Go.", thread_id="t") as events:
            next(events)
    else:
        asyncio.run(aleave())
    assert logged(info)[-1] == "thread 't': s ends left after _ s, _"


def test_replayed_events_are_not_logged_again(info: Logs) -> None:
    runner = ag.Runner(ag.sequential("s", [asks("a"), asks("b")]))
    runner.invoke("Go.", thread_id="t")
    with runner.resume("t", "yes") as events:
        next(events)
    logged(info)
    runner.invoke(thread_id="t")
    assert logged(info) == [
        "thread 't': s begins with a resume, _",
        "thread 't': s/b asks 'Well?'",
        "thread 't': s ends paused after _ s, _",
    ]


def test_records_have_fields_for_formatters(info: Logs) -> None:
    runner = ag.Runner(asks("boss"))
    own: Any = {"run_id": "5b1c2d3e-0000-4000-8000-000000000001"}
    runner.invoke("Go.", thread_id="t", config=own)
    begin, question, end = map(vars, info.records)
    for each in (begin, question, end):
        assert (each["thread_id"], each["run_id"], each["tree"]) == ("t", own["run_id"], "boss")
    assert question["address"] == "boss"
    assert end["status"] == "paused"
    assert 0 <= end["seconds"] < 60


def test_an_approval_shows_tools_without_their_arguments(info: Logs) -> None:
    @tool
    def send(text: str) -> str:
        """Send a text."""
        return "Sent."

    model = ScriptedChatModel(responses=[calls(call("send", text=SECRET)), "Done."])
    runner = ag.Runner(ag.chat_agent("clerk", model, tools=[send], approve=["send"]))
    runner.invoke("Go.", thread_id="t")
    assert logged(info)[1] == "thread 't': clerk asks for approval of send"
    ag.Runner(ag.human("boss", {"draft": SECRET})).invoke("Go.", thread_id="u")
    assert logged(info)[1] == "thread 'u': boss asks a question of type dict"


def test_a_background_run_is_logged(info: Logs) -> None:
    with ag.Runner(says("a")) as runner:
        runner.start("Go.", thread_id="t")
        [*runner.follow("t")]
    assert logged(info) == [
        "thread 't': a begins with new input, _",
        "thread 't': a ends done after _ s, _",
    ]


KINDS: dict[str, Callable[[], ag.Agent]] = {
    "chat": lambda: chat("a", SECRET),
    "function": lambda: says("a", SECRET),
    "generator": lambda: gives("a", "One.", SECRET),
    "graph": lambda: ag.graph_agent("a", foreign(lambda state: {"messages": [("ai", SECRET)]})),
    "parallel": lambda: ag.parallel("a", [says("b", SECRET), chat("c", SECRET)]),
    "each": lambda: ag.each("a", says("b", SECRET), lambda ctx: [1, 2]),
    "workflow": lambda: ag.workflow("a", [says("b"), ag.step(says("c"), depends_on=["b"])]),
    "loop": lambda: ag.loop("a", [says("b", SECRET)], max_iterations=2),
    "swarm": lambda: ag.swarm("a", [chat("b", SECRET), chat("c", "No.")], start="b"),
    "tool": lambda: chat(
        "a", calls(call("b", request="Go.")), "End.", tools=[ag.agent_tool(says("b"))]
    ),
    "ctx.run": lambda: ag.function_agent("a", lambda ctx: ctx.run("b", "x"), agents=[says("b")]),
}
ACTIVATIONS = {
    "parallel": ["a", "a/b", "a/c"],
    "each": ["a", "a/b(0)", "a/b(1)"],
    "tool": ["a", "a/b(0)"],
    "ctx.run": ["a", "a/b(0)"],
    "workflow": ["a", "a/b", "a/c"],
    "loop": ["a[0]/b", "a[1]/b"],
    "swarm": ["a", "a[0]/b"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_activation_is_logged_at_debug(kind: str, drive: Drive, debug: Logs) -> None:
    run(drive, ag.Runner(KINDS[kind]()), "run", SECRET, thread_id="t")
    each_line = logged(debug, "agentgraph.activations")
    begun = [line.split()[2] for line in each_line if " begins, run path a" in line]
    ended = [line.split()[2] for line in each_line if " ends after _ s" in line]
    assert sorted(begun) == sorted(ended) == ACTIVATIONS.get(kind, ["a"])
    assert SECRET not in debug.text


def test_an_activation_says_how_it_ends(drive: Drive, debug: Logs) -> None:
    runner = ag.Runner(ag.sequential("s", [asks("a"), fails("b")]))
    run(drive, runner, "run", "Go.", thread_id="t")
    with pytest.raises(ValueError, match="b failed"):
        run(drive, runner, "resume", "t", "yes")
    assert logged(debug, "agentgraph.activations") == [
        "thread 't': s/a begins, run path s/a",
        "thread 't': s/a asks after _ s",
        "thread 't': s/a begins, run path s/a",
        "thread 't': s/a ends after _ s",
        "thread 't': s/b begins, run path s/a/b",
        "thread 't': s/b fails (ValueError) after _ s",
    ]


def test_a_compiled_graph_logs_its_activations(debug: Logs) -> None:
    graph = ag.compile_agent(ag.sequential("s", [says("a"), says("b")]))
    graph.invoke({"messages": [("user", SECRET)]})
    assert logged(debug, "agentgraph.activations") == [
        "thread None: s/a begins, run path s/a",
        "thread None: s/a ends after _ s",
        "thread None: s/b begins, run path s/a/b",
        "thread None: s/b ends after _ s",
    ]
    assert SECRET not in debug.text


def test_without_a_level_nothing_is_logged_and_activations_are_not_looked_at(
    drive: Drive, caplog: Logs
) -> None:
    with caplog.at_level(logging.ERROR, "agentgraph"), pytest.raises(ValueError, match="a failed"):
        run(drive, ag.Runner(fails("a")), "run", "Go.")
    assert caplog.records == []


def test_an_unconfigured_program_prints_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import agentgraph as ag\n"
        "def fails(ctx): raise ValueError('no bees')\n"
        "try: ag.Runner(ag.agent(fails)).invoke('Go.')\n"
        "except ValueError: print('failed')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(ag.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=environment, check=True
    )
    assert (done.stdout, done.stderr) == ("failed\n", "")
