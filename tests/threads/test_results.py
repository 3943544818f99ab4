"""Results of runs, and the threads of a saver: `invoke`, `thread`, `threads`, `delete`, `copy`."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, chat, echo, enforcing, fails, lines, middleware, says
from langchain.agents.middleware import ModelResponse
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import call, calls

Call = Callable[..., Any]


class Report(BaseModel):
    title: str


@pytest.fixture(params=["sync", "async"])
def method(request: pytest.FixtureRequest) -> Call:
    """Calls a method of a runner by its sync or its async name, in an event loop of its own."""

    def called(runner: ag.Runner, name: str, *args: Any, **options: Any) -> Any:
        if request.param == "sync":
            return getattr(runner, name)(*args, **options)
        return asyncio.run(getattr(runner, f"a{name}")(*args, **options))

    return called


@pytest.fixture(params=["memory", "file"])
def runner_of(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[ag.Agent], ag.Runner]]:
    """Makes runners, in memory or on one file that the runner opens itself."""
    made: list[ag.Runner] = []

    def make(tree: ag.Agent) -> ag.Runner:
        made.append(
            ag.Runner(tree, checkpointer=tmp_path / "runs.db" if request.param == "file" else None)
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def report() -> ag.Agent:
    reply = AIMessage(
        '{"title": "Bees"}', usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    )
    writer = chat("writer", reply, reply, reply, output_schema=Report, output_key="report")
    return ag.sequential("job", [writer, asks("boss", "Print it?"), says("printer", "Printed.")])


Make = Callable[[ag.Agent], ag.Runner]


def test_a_turn_and_its_resume_have_results(runner_of: Make, method: Call) -> None:
    runner = runner_of(report())
    paused = method(runner, "invoke", "Go.", thread_id="t")
    assert (paused.thread_id, paused.status, paused.text) == ("t", "paused", '{"title": "Bees"}')
    assert [question.address for question in paused.pending] == ["job/boss"]
    assert paused.values == {"report": {"title": "Bees"}}
    assert paused.output == Report(title="Bees")
    assert paused.usage.total["total_tokens"] == 7
    assert {name: used["output_tokens"] for name, used in paused.usage.by_agent.items()} == {
        "writer": 4
    }

    done = method(runner, "invoke", thread_id="t", answers="yes")
    assert (done.status, done.text, done.pending) == ("done", "Printed.", ())
    assert lines(done.events) == ["job/boss: yes", "job/printer: Printed."]
    assert done.message is not None
    assert done.message.text == "Printed."
    assert done.output == Report(title="Bees")  # of the whole turn
    assert done.usage.total["total_tokens"] == 0


class Excuse(BaseModel):
    why: str


def answers(name: str = "w", *, title: str = "Rome", **options: Any) -> ag.Agent:
    """Return a chat agent whose middleware gives the structured answer: its text is another one."""
    given = ModelResponse(result=[AIMessage("Done.")], structured_response=Report(title=title))
    gives = middleware("Gives", wrap_model_call=lambda request: given)
    return chat(name, "Never.", output_schema=Report, middleware=[gives], **options)


def changes(title: str) -> Any:
    return middleware("Changes", after_agent=lambda state: {"structured_response": Report(title=title)})


ASKED = calls(call("Report", title="Rome"))
OUTPUTS: dict[str, tuple[Callable[[], ag.Agent], Any]] = {
    "of middleware": (answers, Report(title="Rome")),
    "of middleware, with a key": (lambda: answers(output_key="report"), Report(title="Rome")),
    "of the last agent": (
        lambda: ag.sequential("s", [chat("v", ASKED, output_schema=Report), answers(title="Pisa")]),
        Report(title="Pisa"),
    ),
    "of a branch": (lambda: ag.parallel("p", [answers(), says("z")]), Report(title="Rome")),
    "of a loop": (
        lambda: ag.loop(
            "l", [chat("w", ASKED, '{"title": "Pisa"}', output_schema=Report)], max_iterations=2
        ),
        Report(title="Pisa"),
    ),
    "changed by a hook": (
        lambda: chat("w", ASKED, output_schema=Report, middleware=[changes("Pisa")]),
        Report(title="Pisa"),
    ),
    "of the provider": (
        lambda: ag.chat_agent(
            "w", enforcing('{"title": "Rome"}'), output_schema=ProviderStrategy(Report)
        ),
        Report(title="Rome"),
    ),
    "of one of two types": (
        lambda: chat("w", calls(call("Excuse", why="No.")), output_schema=Report | Excuse),
        Excuse(why="No."),
    ),
    "of a tool that ends the agent": (
        lambda: chat(
            "w",
            calls(call("echo", text='{"title": "Rome"}')),
            output_schema=Report,
            tools=[echo],
            return_directly=["echo"],
        ),
        Report(title="Rome"),
    ),
    "of an agent as a tool": (
        lambda: chat("w", calls(call("f", request="x")), "Ok.", tools=[ag.agent_tool(answers("f"))]),
        Report(title="Rome"),
    ),
    "of a list": (lambda: chat("w", "[1, 2]", output_schema=list[int]), [1, 2]),
    "that does not fit": (
        lambda: chat(
            "w",
            calls(call("echo", text="x")),
            output_schema=Report,
            tools=[echo],
            return_directly=["echo"],
        ),
        None,
    ),
}


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.by_turns("runner_of")
def test_the_output_is_the_structured_answer_whoever_gave_it(
    runner_of: Make, method: Call, kind: str
) -> None:
    """Also of an agent that ended before the turn paused; the answer itself is no event."""
    make, output = OUTPUTS[kind]
    runner = runner_of(ag.sequential("job", [make(), asks("boss"), says("last")]))
    paused = method(runner, "invoke", "Go.", thread_id="t")
    done = method(runner, "invoke", thread_id="t", answers="yes")
    assert [paused.output, done.output] == [output, output]
    events = [*paused.events, *done.events]
    assert [(e.id, e.kind) for e in runner.events("t")] == [(e.id, e.kind) for e in events]
    assert method(ag.Runner(make()), "invoke", "Go.").output == output
    assert method(runner_of(says("other")), "invoke", "Go.").output is None


def test_the_output_of_an_exit_is_its_final_result(runner_of: Make, method: Call) -> None:
    leaving = calls(call("exit", final_result='{"title": "Rome"}'))
    runner = runner_of(chat("w", leaving, output_schema=Report, exit_tool=True))
    assert method(runner, "invoke", "Go.").output == Report(title="Rome")


def test_the_output_is_of_this_turn_and_not_of_a_branch_that_lost(method: Call) -> None:
    tree = ag.parallel(
        "p", [says("fast"), ag.sequential("slow", [answers(), asks("boss")])], on_error="first"
    )
    runner = ag.Runner(tree)
    assert method(runner, "invoke", "Go.", thread_id="t").output is None
    once = ag.function_agent("once", lambda ctx: ag.Exit() if len(ctx.messages) > 1 else "Go on.")
    runner = ag.Runner(ag.sequential("s", [once, answers()]))
    assert method(runner, "invoke", "Go.", thread_id="t").output == Report(title="Rome")
    assert method(runner, "invoke", "Go.", thread_id="t").output is None


def test_what_invoke_refuses(method: Call) -> None:
    runner = ag.Runner(says("a"))
    with pytest.raises(
        ag.AgentGraphError, match="there is nothing to run; pass messages, or a thread_id"
    ):
        method(runner, "invoke")
    with pytest.raises(ag.AgentGraphError, match="answers='x' can only be given to resume a thread"):
        method(runner, "invoke", "Go.", answers="x")
    with pytest.raises(ag.UnknownThreadError):
        method(runner, "invoke", thread_id="t")


def test_a_failure_is_raised_and_can_be_resumed(runner_of: Make, method: Call) -> None:
    runner = runner_of(ag.sequential("job", [says("a"), fails("b")]))
    with pytest.raises(ValueError, match="b failed, time 1"):
        method(runner, "invoke", "Go.", thread_id="t")
    assert method(runner, "thread", "t").status == "failed"
    assert method(runner, "invoke", thread_id="t").text == "b"
    assert method(runner, "thread", "t").status == "done"


def test_a_thread_has_turns_with_what_the_user_said(runner_of: Make, method: Call) -> None:
    runner = runner_of(report())
    assert method(runner, "thread", "t") == ag.Thread("t", "new")
    method(runner, "invoke", "Go.", thread_id="t", values={"topic": "bees"})
    method(runner, "invoke", thread_id="t", answers="yes")
    method(runner, "invoke", [HumanMessage("Again."), HumanMessage("Please.")], thread_id="t")
    thread = method(runner, "thread", "t")
    assert thread.status == "paused"
    assert thread.values == {"topic": "bees", "report": {"title": "Bees"}}
    assert [[message.text for message in turn.messages] for turn in thread.turns] == [
        ["Go."],
        ["Again.", "Please."],
    ]
    assert [lines(turn.events) for turn in thread.turns] == [
        [
            'job/writer: {"title": "Bees"}',
            "job/boss: [asks] Print it?",
            "job/boss: yes",
            "job/printer: Printed.",
        ],
        ['job/writer: {"title": "Bees"}', "job/boss: [asks] Print it?"],
    ]
    assert thread.usage.by_agent["writer"]["total_tokens"] == 14
    assert [question.address for question in thread.pending] == ["job/boss"]
    assert all(turn.began <= turn.events[0].time <= turn.ended for turn in thread.turns)
    assert len(thread.messages) == 7


def test_a_redacted_message_is_shown_as_it_is_now(runner_of: Make) -> None:
    def redact(ctx: ag.Context) -> Any:
        return HumanMessage("[redacted]", id=ctx.messages[-1].id)

    runner = runner_of(ag.function_agent("redact", redact))
    runner.invoke("My card is 1234.", thread_id="t")
    assert [message.text for message in runner.thread("t").turns[0].messages] == ["[redacted]"]


def test_threads_are_listed_by_status(runner_of: Make, method: Call) -> None:
    runner = runner_of(ag.sequential("job", [fails("a"), asks("boss")]))
    with pytest.raises(ValueError, match="a failed"):
        method(runner, "invoke", "Go.", thread_id="first")
    method(runner, "invoke", "Go.", thread_id="second")
    method(runner, "invoke", "Go.", thread_id="third")
    method(runner, "invoke", thread_id="third", answers="yes")
    found = {each.thread_id: each.status for each in method(runner, "threads")}
    assert found == {"first": "failed", "second": "paused", "third": "done"}
    assert [each.thread_id for each in method(runner, "threads", "paused")] == ["second"]


def test_a_running_thread_is_running_and_a_left_one_stopped(runner_of: Make) -> None:
    runner = runner_of(ag.sequential("job", [says("a"), says("b")]))
    run = runner.run("Go.", thread_id="t")
    next(run)
    assert runner.thread("t").status == "running"
    assert [each.status for each in runner.threads()] == ["running"]
    with pytest.raises(ag.ThreadBusyError):
        runner.delete("t")
    run.close()
    assert runner.thread("t").status == "stopped"


def test_threads_of_other_trees_are_listed(runner_of: Make) -> None:
    runner_of(ag.sequential("job", [says("a"), asks("boss")])).invoke("Go.", thread_id="theirs")
    other = runner_of(says("b"))
    statuses = {each.thread_id: each.status for each in other.threads()}
    assert statuses in ({"theirs": "paused"}, {})  # memory is not shared


def test_a_copy_is_a_thread_of_its_own(runner_of: Make, method: Call) -> None:
    tree = ag.parallel("both", [ag.sequential("s", [says("a"), asks("b", "One?")]), asks("c", "Two?")])
    runner = runner_of(ag.sequential("job", [tree, says("last")]))
    method(runner, "invoke", "Go.", thread_id="t")
    method(runner, "copy", "t", "u")
    before = [(event.id, event.time) for event in runner.events("t")]
    assert [(event.id, event.time) for event in runner.events("u")] == before
    done = method(runner, "invoke", thread_id="u", answers={"job/both/s/b": "1", "job/both/c": "2"})
    assert (done.status, done.text) == ("done", "last")
    assert [(event.id, event.time) for event in runner.events("t")] == before
    assert len(method(runner, "thread", "t").pending) == 2
    with pytest.raises(ag.ThreadError, match="thread 'u' exists already"):
        method(runner, "copy", "t", "u")


def test_a_copy_waits_for_no_run_on_either_thread(runner_of: Make, method: Call) -> None:
    runner = runner_of(ag.sequential("job", [says("a"), asks("b")]))
    runner.invoke("Go.", thread_id="t")
    with runner.run("Go.", thread_id="u") as run:  # nothing of it is saved yet
        with pytest.raises(ag.ThreadBusyError, match="thread 'u' is busy"):
            method(runner, "copy", "t", "u")
        assert lines(run) == ["job/a: a", "job/b: [asks] Well?"]
    assert lines(runner.events("u")) == ["job/a: a", "job/b: [asks] Well?"]
    with pytest.raises(ag.ThreadError, match="thread 't' exists already"):
        method(runner, "copy", "t", "t")


class FailsInWrites(InMemorySaver):
    """Fails to save the second writes of a copy."""

    left = 1

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        if config["configurable"]["thread_id"] == "copy":
            self.left -= 1
            if self.left < 0:
                raise OSError("the disk is full")
        super().put_writes(config, writes, task_id, task_path)


def test_a_copy_that_fails_leaves_nothing(method: Call) -> None:
    tree = ag.sequential("job", [says("a"), says("b"), asks("c")])
    runner = ag.Runner(tree, checkpointer=FailsInWrites())
    runner.invoke("Go.", thread_id="t")
    with pytest.raises(ag.SaverError, match="the disk is full"):
        method(runner, "copy", "t", "copy")
    assert [each.thread_id for each in runner.threads()] == ["t"]


def test_an_unknown_status_is_refused(runner_of: Make, method: Call) -> None:
    with pytest.raises(
        ag.AgentGraphError, match="status='finished' is not a status of threads; choose one"
    ):
        method(runner_of(says("a")), "threads", "finished")


def test_a_deleted_thread_is_gone(runner_of: Make, method: Call) -> None:
    runner = runner_of(asks("boss"))
    method(runner, "invoke", "Go.", thread_id="t")
    method(runner, "delete", "t")
    assert method(runner, "thread", "t").status == "new"
    for name, args in (("delete", ["t"]), ("copy", ["t", "u"])):
        with pytest.raises(ag.UnknownThreadError, match="thread 't' is not known to this saver"):
            method(runner, name, *args)


def test_a_runner_on_a_path_serves_both_kinds_of_calls_and_closes_its_file(tmp_path: Path) -> None:
    with ag.Runner(report(), checkpointer=str(tmp_path / "runs.db")) as runner:
        assert runner.invoke("Go.", thread_id="t").status == "paused"
        assert asyncio.run(runner.ainvoke(thread_id="t", answers="yes")).status == "done"
        assert asyncio.run(runner.ainvoke("Again.", thread_id="t")).status == "paused"  # a new loop
    with pytest.raises(ag.SaverError, match=r"thread 't': .* use the runner while its saver is open"):
        runner.thread("t")
    with pytest.raises(ag.SaverError, match=r"^the saver FileSaver, the file .*runs.db, failed with"):
        runner.threads()
    with ag.Runner(report(), checkpointer=tmp_path / "runs.db") as runner:
        assert runner.thread("t").status == "paused"


def test_a_runner_that_is_refused_leaves_no_open_file(tmp_path: Path) -> None:
    for tree, options in ((ag.sequential("s", []), {}), (says("a"), {"config": 5})):
        with pytest.raises(ag.AgentGraphError) as caught:
            ag.Runner(tree, checkpointer=tmp_path / "runs.db", **options)
        assert not list(tmp_path.glob("runs.db-*")), caught.value  # SQLite's own, while it is open
