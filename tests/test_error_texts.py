"""The whole text of each public error: `where: what is wrong; what to do`."""

import operator
import re
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from helpers import asks, fails, gives, says, writes
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.graph.chat.flattened import check_shape
from agentgraph.testing import ScriptedChatModel, call, calls, recorded

Cause = Callable[[Path], Any]


class Sums(TypedDict):
    total: Annotated[int, operator.add]


def search(topic: str) -> str:
    """Search."""
    return topic


def run(tree: ag.Agent, **options: Any) -> list[ag.AgentEvent]:
    return list(ag.Runner(tree, **options).run("Go.", thread_id="t"))


def ran(tree: ag.Agent) -> ag.Runner:
    """Return a runner with a thread "t" on which the tree has run."""
    runner = ag.Runner(tree)
    list(runner.run("Go.", thread_id="t"))
    return runner


def parting() -> Any:
    """Return a graph that continues at two nodes in parallel."""
    builder = StateGraph(MessagesState)
    for name in "abc":
        builder.add_node(name, lambda state: {"messages": []})
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: ["b", "c"], ["b", "c"])
    return builder.compile()


class Forgetful(InMemorySaver):
    """A saver that loses what tasks write."""

    def put_writes(self, *args: Any, **options: Any) -> None:
        pass


def busy() -> None:
    runner = ag.Runner(says("writer", "One."))
    run = runner.run("Go.", thread_id="t")
    next(run)
    list(runner.run("Go.", thread_id="t"))


def changed() -> None:
    saver = InMemorySaver()
    first = ag.sequential("report", [asks("boss"), says("writer", "One.")])
    list(ag.Runner(first, checkpointer=saver).run("Go.", thread_id="t"))
    second = ag.sequential("report", [says("writer", "One."), says("critic", "No.")])
    list(ag.Runner(second, checkpointer=saver).resume("t", "Yes."))


def failed_before() -> None:
    runner = ag.Runner(fails("find"))
    with suppress(ValueError):
        runner.invoke("Go.", thread_id="t")
    raise runner.result("t").error


def after_a_failure() -> None:
    runner = ag.Runner(fails("find"))
    with suppress(ValueError):
        runner.invoke("Go.", thread_id="t")
    runner.advance("t", "More.", turn_id="order 17")


def too_late() -> None:
    runner = ag.Runner(ag.human("boss", "Print it?", timeout=0.01))
    deadline = runner.invoke("Go.", thread_id="t").pending[0].deadline or 0
    while time.time() <= deadline:
        time.sleep(0.01)
    runner.invoke(thread_id="t")


def on_a_text(folder: Path) -> None:
    (folder / "runs.db").write_text("not a database" * 100)
    with ag.sqlite_saver(folder / "runs.db") as saver:
        list(ag.Runner(says("writer", "One."), checkpointer=saver).run("Go.", thread_id="t"))


def unchanged_task() -> None:
    raise ag.LangGraphChangedError("1.2.20", "report")


CAUSES: dict[str, Cause] = {
    "AgentGraphError": lambda _: ag.Limits(steps=0),
    "CassetteError": lambda folder: recorded(folder / "a.json", mode="sing"),  # type: ignore[arg-type]
    "CheckFailedError": lambda _: run(
        ag.validated(says("writer", "No."), lambda text: "it is short", max_attempts=1)
    ),
    "InvalidAgentError": lambda _: ag.Runner(ag.swarm("team", [says("ann", "Hi.")], start="bob")),
    "InvalidAnswerError": lambda _: list(
        ran(asks("boss", response_schema={"enum": ["yes", "no"]})).resume("t", "maybe")
    ),
    "InvalidOutputError": lambda _: run(gives("writer", 5)),
    "InvalidSkillError": lambda folder: ag.load(folder / "skill.yaml"),
    "LangChainChangedError": lambda _: check_shape(SimpleNamespace()),
    "LangGraphChangedError": lambda _: unchanged_task(),
    "LimitError": lambda _: run(
        ag.sequential("report", [says("writer", "One."), says("critic", "No.")]),
        limits=ag.Limits(steps=1),
    ),
    "MaxIterationsError": lambda _: run(
        ag.chat_agent(
            "writer",
            ScriptedChatModel(responses=[calls(call("search", topic="bees"))]),
            tools=[search],
            max_iterations=1,
        )
    ),
    "MissingValueError": lambda _: run(asks("boss", "Print {title}?")),
    "PendingInterruptError": lambda _: list(ran(asks("boss")).run("Go.", thread_id="t")),
    "ReducerError": lambda _: run(writes("writer", {"total": "two"}), values=Sums),
    "RemoteRunError": lambda _: list(
        ag.translate(
            says("writer", "One."),
            [SimpleNamespace(event="error", data={"error": "OSError", "message": "no"})],
        )
    ),
    "SaverError": on_a_text,
    "SeveralWaysError": lambda _: run(ag.graph_agent("job", parting(), flat=True)),
    "NoneAcceptedError": lambda _: run(
        ag.parallel(
            "both", [says("a", "One."), fails("b")], on_error="first", accept=lambda reply: False
        )
    ),
    "QuestionTimeoutError": lambda _: too_late(),
    "StepFailedError": lambda _: run(ag.workflow("report", [fails("find")])),
    "ThreadBusyError": lambda _: busy(),
    "ThreadError": lambda _: list(ran(says("writer", "One.")).events("t", line="older")),
    "TreeChangedError": lambda _: changed(),
    "TurnFailedError": lambda _: failed_before(),
    "TurnOpenError": lambda _: after_a_failure(),
    "UnfitSaverError": lambda _: run(asks("boss"), checkpointer=Forgetful()),
    "UnknownAddressError": lambda _: list(ran(says("writer", "One.")).rewind("t", "critic")),
    "UnknownInterruptError": lambda _: list(ran(asks("boss")).resume("t", {"boss/critic": "Yes."})),
    "UnknownThreadError": lambda _: list(ag.Runner(says("writer", "One.")).resume("t")),
    "ValueConflictError": lambda _: run(
        ag.parallel("review", [writes("legal", {"fit": 1}), writes("press", {"fit": 2})])
    ),
}

TEXTS = {
    "AgentGraphError": ("Limits(steps=0): pass a whole number above 0, or None to inherit the limit"),
    "CassetteError": (
        "mode='sing' is not a mode of a cassette; choose one of: 'auto', 'play', 'record'"
    ),
    "CheckFailedError": (
        "writer: the output failed its check in all of 1 attempts; resume the thread for one "
        "more; the last fault: it is short"
    ),
    "InvalidAgentError": ("team: start='bob' is not one of its agents; choose one of: 'ann'"),
    "InvalidAnswerError": (
        "the answer 'maybe' to boss does not fit: must be one of ['yes', 'no']; the question "
        "is still pending, answer it again to fit {'enum': ['yes', 'no']}"
    ),
    "InvalidOutputError": (
        "writer: the function returned 5; return or yield a string, a LangChain message, "
        "Exit(), BreakLoop(), TransferTo(...), Ask(...), Custom(...), SetValues(...) or None,"
        " or a list of these"
    ),
    "InvalidSkillError": (
        "FOLDER/skill.yaml: the file cannot be read (No such file or directory); correct the path"
    ),
    "LangChainChangedError": (
        "langchain VERSION: its agents have no builder, or another kind of it; install "
        "langchain>=1.4.7,<1.5, or a newer agentgraph"
    ),
    "LangGraphChangedError": (
        "langgraph 1.2.20: the tasks of report have ids that this agentgraph cannot compute; "
        "go back to an address outside of it, or install langgraph>=1.2.20,<1.3"
    ),
    "LimitError": (
        "report/critic: the agent 'critic' reached Limits.steps, which is 1 for a turn; if "
        "that is not enough, resume with higher limits, such as Limits(steps=2)"
    ),
    "MaxIterationsError": (
        "writer: the model was asked 1 time and still calls tools; raise max_iterations, then"
        " resume, or use on_max_iterations='answer' for an answer without tools"
    ),
    "MissingValueError": (
        "boss: the template names {title}, but the run has no value of that name (available: "
        "none); pass it with values=, or write {title?} if it may be missing"
    ),
    "PendingInterruptError": (
        "thread 't' waits for answers to boss (ID); answer them with resume(), or run with "
        "drop_pending=True to drop them"
    ),
    "ReducerError": (
        "writer: the reducer of the value 'total' failed on 'two': TypeError(\"unsupported "
        "operand type(s) for +: 'int' and 'str'\"); write a value that it accepts, or declare "
        "another reducer"
    ),
    "RemoteRunError": (
        "the run failed on the server with OSError: no; see the log of the server, then "
        "resume the thread"
    ),
    "SaverError": (
        "FOLDER/runs.db cannot be opened as a SQLite file: file is not a database; it is not "
        "a SQLite database: name another file, or put a copy in its place"
    ),
    "SeveralWaysError": (
        "job/a: the graph continues at 'b' and 'c' in parallel, which a flattened graph "
        "cannot do; pass flat=False to graph_agent('job', ...)"
    ),
    "NoneAcceptedError": (
        "both: accept= accepted no reply (a replied 'One.', b failed: ValueError('b failed, time 1')); "
        "change accept= or the branches, then resume to run what failed again, or rewind to 'both'"
    ),
    "QuestionTimeoutError": (
        "boss: the question was not answered within 0.01 seconds, by DATE; resume the thread to ask "
        "again, or give the question a default="
    ),
    "StepFailedError": (
        "report: the step 'find' failed: ValueError('find failed, time 1'); resume the thread"
        " to retry it; finished steps do not run again"
    ),
    "ThreadBusyError": (
        "thread 't' is busy: another run is active on it; wait for its end (an iterator "
        "that was left early ends when it is closed), or use another thread_id"
    ),
    "ThreadError": ("thread 't' has no line with the head 'older'; thread(thread_id).lines lists them"),
    "TreeChangedError": (
        "thread 't' was left by a tree of another shape, so that its place cannot be found in"
        " this one (human boss is gone from report); use the tree that ran, go back to before"
        " the change, or start a new thread\n"
        "--- the tree that ran\n"
        "+++ this tree\n"
        "@@ -1,3 +1,3 @@\n"
        " sequential report\n"
        "-  human boss\n"
        "   function writer\n"
        "+  function critic"
    ),
    "TurnFailedError": (
        "thread 't': find failed: ValueError('find failed, time 1'); call advance() once more to "
        "run it again, or resume()"
    ),
    "TurnOpenError": (
        "thread 't': its last turn has failed, so the turn 'order 17' cannot begin; "
        "advance(thread_id) continues it, and run(...) drops it"
    ),
    "UnfitSaverError": (
        "checkpointer=Forgetful: the saver lost a question; what works: turns without "
        "parallel branches, items and calls of agents; use another saver, such as "
        "ag.sqlite_saver(path), or pass unfit='warn' to the Runner"
    ),
    "UnknownAddressError": (
        "thread 't' has not visited 'critic'; the nearest address is 'writer'; visits() lists all"
    ),
    "UnknownInterruptError": (
        "thread 't': the question 'boss/critic' is not pending (was it answered already?); "
        "pending: boss (ID); to change an earlier answer, use rewind(thread_id, its address, "
        "answers=...)"
    ),
    "UnknownThreadError": (
        "thread 't' is not known to this saver; start it with run(..., thread_id='t'), or "
        "look whether the saver is the one that ran it"
    ),
    "ValueConflictError": (
        "review: review/legal wrote 1 and review/press wrote 2 as the value 'fit' while they "
        "ran concurrently; declare a reducer for it and pass values=Values, as in class "
        "Values(TypedDict): fit: Annotated[int, operator.add]; or choose a value with "
        "resume(thread_id, values={'fit': ...})"
    ),
}
"""The text of each error; FOLDER, ID and VERSION replace parts that differ from run to run."""


def test_every_public_error_has_a_row() -> None:
    public = [name for name in ag.__all__ if name.endswith("Error")]
    assert sorted(CAUSES) == sorted(TEXTS) == sorted(public)


@pytest.mark.parametrize("name", CAUSES)
def test_the_text_of_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ag.AgentGraphError) as caught:
        CAUSES[name](tmp_path)
    text = re.sub(r"\b[0-9a-f]{32}\b", "ID", str(caught.value).replace(str(tmp_path), "FOLDER"))
    text = re.sub(r"[0-9-]{10} [0-9:]{8} UTC", "DATE", text)
    text = text.replace(f"langchain {version('langchain')}", "langchain VERSION")
    assert (type(caught.value).__name__, text) == (name, TEXTS[name])
