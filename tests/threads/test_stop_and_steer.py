"""Runs are stopped and steered: from inside, from other threads and from other processes."""

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers import (
    Drive,
    Sync,
    asks,
    chat,
    fails,
    middleware,
    retrying,
    says,
    texts,
    unvoided,
)
from helpers.commands import Commands, wait_until
from langchain.agents.middleware import PIIMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool

import agentgraph as ag
from agentgraph.graph.sync_async import run_calls
from agentgraph.journal.requests import requests
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.threads.live.active_run import ActiveRun

pytestmark = pytest.mark.by_turns("saver", "kept", "mode")

KEPT = pytest.mark.parametrize("kept", ["memory", "file"])


class Acting:
    """Agents and tools that count how often they ran, and call something in the middle once."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.act: Callable[[], Any] = lambda: None

    def agent(self, name: str, *, acts: bool = False, **options: Any) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            return self(name, acts=acts)

        return ag.function_agent(name, fn, **options)

    def tool(self, name: str, *, acts: bool = False) -> StructuredTool:
        def fn() -> str:
            return self(name, acts=acts)

        return StructuredTool.from_function(fn, name=name, description=name)

    def __call__(self, name: str, *, acts: bool = False) -> str:
        self.ran[name] += 1
        if acts and self.ran[name] == 1:
            self.act()
        return name


def _in_tools(act: Acting) -> ag.Agent:
    made = calls(call("x"), call("y"))
    return chat("s", made, "done", tools=[act.tool("x", acts=True), act.tool("y")])


def _in_calls(act: Acting) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return f"{ctx.run('x', '?')} {ctx.run('y', '?')}"

    one = ag.sequential("x", [act.agent("x1", acts=True), act.agent("x2")])
    return ag.function_agent("s", fn, agents=[one, act.agent("y")])


STOPPED: dict[str, Callable[[Acting], ag.Agent]] = {
    "sequence": lambda act: ag.sequential("s", [act.agent("a", acts=True), act.agent("b")]),
    "loop": lambda act: ag.loop("s", [act.agent("a", acts=True), act.agent("b")], max_iterations=2),
    "parallel": lambda act: ag.parallel(
        "s",
        [
            ag.sequential("p", [act.agent("a", acts=True), act.agent("b")]),
            ag.sequential("q", [act.agent("c"), act.agent("d")]),
        ],
    ),
    "each": lambda act: ag.each(
        "s", ag.sequential("w", [act.agent("a", acts=True), act.agent("b")]), lambda ctx: [1, 2, 3]
    ),
    "workflow": lambda act: ag.workflow(
        "s",
        [
            ag.step(act.agent("a", acts=True)),
            ag.step(act.agent("b"), depends_on=["a"]),
            ag.step(ag.sequential("q", [act.agent("c"), act.agent("d")])),
        ],
    ),
    "tools": _in_tools,
    "agent as a tool": lambda act: chat(
        "s",
        calls(call("w", request="?")),
        "done",
        tools=[ag.agent_tool(ag.sequential("w", [act.agent("a", acts=True), act.agent("b")]))],
    ),
    "agents that functions run": _in_calls,
    "swarm": lambda act: ag.swarm(
        "s",
        [
            chat("ann", calls(call("x"), call("transfer_to_bob")), tools=[act.tool("x", acts=True)]),
            chat("bob", "Bob here."),
        ],
    ),
}


def said(events: Iterable[ag.AgentEvent]) -> list[str]:
    return [each.text for each in events if each.text]


def shapes(events: list[ag.AgentEvent]) -> list[tuple[str, str, str]]:
    whole = (each for each in events if not each.partial)
    return sorted((each.address, each.kind, each.text) for each in whole)


@pytest.mark.parametrize("tree", STOPPED)
@pytest.mark.by_turns("drive", "saver")
def test_a_run_that_is_stopped_from_inside_goes_on_where_it_stood(
    tree: str, drive: Drive, saver: Any
) -> None:
    whole = Acting()
    wanted = list(ag.Runner(STOPPED[tree](whole)).run("Go.", thread_id="t"))
    act = Acting()
    with ag.Runner(STOPPED[tree](act), checkpointer=saver) as runner:
        act.act = lambda: runner.stop("t")
        told = list(drive.run(runner, "Go.", thread_id="t"))
        assert runner.thread("t").status == "stopped"
        assert len(told) < len(wanted)
        told += list(drive.resume(runner, "t"))
        assert runner.thread("t").status == "done"
        assert act.ran == whole.ran
        again = list(runner.events("t"))
        assert shapes(again) == shapes(wanted)
        assert [each.id for each in unvoided(told)] == [each.id for each in again]


@pytest.mark.parametrize("tree", STOPPED)
def test_a_result_says_that_its_run_was_stopped(tree: str, saver: Any) -> None:
    act = Acting()
    with ag.Runner(STOPPED[tree](act), checkpointer=saver) as runner:
        act.act = lambda: runner.stop("t")
        assert runner.invoke("Go.", thread_id="t").status == "stopped"
        assert runner.invoke(thread_id="t").status == "done"


def test_a_stop_at_rest_does_nothing_and_stops_no_later_run(drive: Drive, saver: Any) -> None:
    act = Acting()
    tree = ag.sequential("s", [act.agent("a"), asks("boss"), act.agent("b")])
    with ag.Runner(tree, checkpointer=saver) as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
        runner.stop("t")
        list(drive.resume(runner, "t", "yes"))
        runner.stop("t")
        assert runner.thread("t").status == "done"
        list(drive.run(runner, "Go.", thread_id="t"))
        assert act.ran == {"a": 2, "b": 1}
        assert runner.thread("t").status == "paused"


def test_a_stop_or_message_for_an_unknown_thread_is_refused(saver: Any) -> None:
    with ag.Runner(says("a"), checkpointer=saver) as runner:
        for refused in (lambda: runner.stop("t"), lambda: runner.steer("t", "Hm.")):
            with pytest.raises(ag.UnknownThreadError, match="'t' is not known"):
                refused()
        assert runner.threads() == []


def test_a_run_that_is_stopped_before_its_first_step_keeps_its_input(saver: Any) -> None:
    act = Acting()
    with ag.Runner(act.agent("a"), checkpointer=saver) as runner:
        run = runner.run("Go.", thread_id="t")
        runner.stop("t")
        assert list(run) == []
        assert not act.ran
        thread = runner.thread("t")
        assert (thread.status, texts(thread.messages)) == ("stopped", ["human: Go."])
        assert said(runner.resume("t")) == ["a"]


def test_an_async_run_that_is_stopped_before_its_first_step_keeps_its_input(saver: Any) -> None:
    act = Acting()

    async def stopped(runner: ag.Runner) -> None:
        run = await runner.arun("Go.", thread_id="t")
        await runner.astop("t")
        assert [event async for event in run] == []
        assert (await runner.athread("t")).status == "stopped"
        assert said([event async for event in runner.aresume("t")]) == ["a"]

    with ag.Runner(act.agent("a"), checkpointer=saver) as runner:
        asyncio.run(stopped(runner))
    assert act.ran == {"a": 1}


def test_a_run_is_stopped_by_another_thread_and_by_a_signal_handler(drive: Drive, saver: Any) -> None:
    def by_thread(runner: ag.Runner) -> None:
        other = threading.Thread(target=runner.stop, args=("t",))
        other.start()
        other.join()

    stopped, runners = threading.Event(), list[ag.Runner]()

    def handle(*_: object) -> None:
        runners[-1].stop("u")
        stopped.set()

    def by_signal(runner: ag.Runner) -> None:
        main = threading.main_thread().ident or 0
        for _ in range(1000):  # one that comes just before the event loop waits is handled after that
            signal.pthread_kill(main, signal.SIGUSR1)
            if stopped.wait(0.02):
                return
        raise AssertionError("no signal was handled")

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        for thread_id, stop in (("t", by_thread), ("u", by_signal)):
            act = Acting()
            tree = ag.sequential("s", [act.agent("a", acts=True), act.agent("b")])
            with ag.Runner(tree, checkpointer=saver) as runner:
                runners.append(runner)
                act.act = partial(stop, runner)
                assert said(drive.run(runner, "Go.", thread_id=thread_id)) == ["a"]
                assert runner.thread(thread_id).status == "stopped"
                assert said(drive.resume(runner, thread_id)) == ["b"]
                assert act.ran == {"a": 1, "b": 1}
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_run_that_is_nested_in_an_agent_is_stopped_alone(drive: Drive) -> None:
    act = Acting()
    inner = ag.Runner(ag.sequential("i", [act.agent("x", acts=True), act.agent("y")]))
    act.act = lambda: inner.stop("inner")

    def fn(ctx: ag.Context) -> str:
        return inner.invoke("Go.", thread_id="inner").status

    runner = ag.Runner(ag.sequential("s", [ag.function_agent("a", fn), act.agent("b")]))
    assert [event.text for event in drive.run(runner, "Go.", thread_id="t")] == ["stopped", "b"]
    assert inner.invoke(thread_id="inner").status == "done"
    assert act.ran == {"x": 1, "y": 1, "b": 1}


def test_a_run_is_stopped_with_one_that_is_nested_in_it(drive: Drive) -> None:
    """The stop of the outer run does not reach the inner one, which is of its own."""
    act = Acting()
    inner = ag.Runner(ag.sequential("i", [act.agent("x", acts=True), act.agent("y")]))

    def fn(ctx: ag.Context) -> str:
        return inner.invoke("Go.", thread_id="inner").status

    outer = ag.Runner(ag.sequential("s", [ag.function_agent("a", fn), act.agent("b")]))
    act.act = lambda: outer.stop("t")
    assert [event.text for event in drive.run(outer, "Go.", thread_id="t")] == ["done"]
    assert outer.thread("t").status == "stopped"
    assert act.ran == {"x": 1, "y": 1}


# Messages to runs under way


def steered(tree: ag.Agent, act: Acting, saver: Any, drive: Drive, *sent: Any) -> "Steered":
    """Run a tree; messages are sent in the middle of what acts."""
    runner = ag.Runner(tree, checkpointer=saver)
    ids: list[str] = []

    def send() -> None:
        for each in sent or ("Hm.",):
            ids.extend(runner.steer("t", each))

    act.act = send
    told = list(drive.run(runner, "Go.", thread_id="t"))
    return Steered(runner, told, ids)


class Steered(NamedTuple):
    """A run that messages were sent to.

    Attributes:
        runner: The runner.
        told: What its reader was told.
        ids: The ids of the messages.
    """

    runner: ag.Runner
    told: list[ag.AgentEvent]
    ids: list[str]

    def check_read_at(self, *addresses: str) -> None:
        """Check where each message was read: once, as a user's, and so it is told again."""
        assert addresses_of(unvoided(self.told), self.ids) == [*addresses]
        assert addresses_of(self.runner.events("t"), self.ids) == [*addresses]
        messages = self.runner.thread("t").messages
        assert [each.type for each in messages if each.id in self.ids] == ["human"] * len(addresses)
        assert not self.runner.thread("t").queued


def addresses_of(events: Iterable[ag.AgentEvent], ids: list[str]) -> list[str]:
    return [each.address for each in events if each.id in ids]


def saw(model: ScriptedChatModel) -> list[str]:
    """Return what the last call of a model was sent, without the system's messages."""
    return texts(model.inputs[-1], system=False)


SEEN: dict[Any, list[str]] = {
    "shared": ["human: Go.", "human: [a] said: a", "human: Hm."],
    "path": ["human: Go.", "human: [a] said: a", "human: Hm."],
    "own": ["human: Go.", "human: Hm."],
    "last": ["human: Go.", "human: [a] said: a", "human: Hm."],
    "input": ["human: Go.", "human: Hm."],
}


@pytest.mark.parametrize("history", SEEN)
@pytest.mark.by_turns("drive", "saver")
def test_a_message_is_seen_by_the_next_call_of_a_model(history: Any, drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=["b", "b"])
    last = ScriptedChatModel(responses=["c"])
    tree = ag.sequential(
        "s",
        [
            act.agent("a", acts=True),
            ag.chat_agent("b", model, history=history),
            ag.chat_agent("c", last),
        ],
    )
    run = steered(tree, act, saver, drive)
    with run.runner:
        run.check_read_at("s/b")
        assert saw(model) == SEEN[history]
        assert saw(last) == ["human: Go.", "human: [a] said: a", "human: Hm.", "human: [b] said: b"]


def test_a_message_is_read_whatever_a_callable_history_chooses(drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=["b"])
    seen: list[Any] = []

    def history(entries: Any) -> Any:
        seen.append([(each.agent_name, each.message.text) for each in entries])
        return []

    tree = ag.sequential("s", [act.agent("a", acts=True), ag.chat_agent("b", model, history=history)])
    run = steered(tree, act, saver, drive)
    with run.runner:
        run.check_read_at("s/b")
        assert seen[-1] == [(None, "Go."), ("a", "a")]
        assert saw(model) == ["human: Hm."]


def test_hooks_see_a_message_and_redact_it(drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=["b"])
    hooked: list[list[str]] = []
    sees = middleware("Sees", before_model=lambda state: hooked.append(texts(state["messages"])))
    redacts = PIIMiddleware("email", strategy="redact")
    b = ag.chat_agent("b", model, middleware=[redacts, sees])
    tree = ag.sequential("s", [act.agent("a", acts=True), b])
    run = steered(tree, act, saver, drive, "Write to ann@bees.org.")
    with run.runner:
        assert hooked == [["human: Go.", "human: [a] said: a", "human: Write to [REDACTED_EMAIL]."]]
        assert saw(model)[-1] == "human: Write to [REDACTED_EMAIL]."
        assert addresses_of(run.runner.events("t"), run.ids) in (["s/b"], [])


@pytest.mark.parametrize("times", [1, 2])
def test_an_attempt_that_fails_gives_a_message_back(times: int, drive: Drive, saver: Any) -> None:
    act = Acting()
    model = ScriptedChatModel(responses=[*[ValueError("no")] * times, "b", "b again"])
    b = ag.chat_agent("b", model, retry=retrying(3))
    tree = ag.sequential("s", [act.agent("a", acts=True), b, ag.chat_agent("c", model)])
    run = steered(tree, act, saver, drive)
    with run.runner:
        run.check_read_at("s/b")
        assert [texts(each).count("human: Hm.") for each in model.inputs] == [1] * (times + 2)


def test_an_agent_that_fails_for_good_leaves_a_message_to_the_resume(drive: Drive, saver: Any) -> None:
    act = Acting()
    model = ScriptedChatModel(responses=[ValueError("no"), "b"])
    tree = ag.sequential("s", [act.agent("a", acts=True), ag.chat_agent("b", model)])
    with ag.Runner(tree, checkpointer=saver) as runner:
        ids: list[str] = []
        act.act = lambda: ids.extend(runner.steer("t", "Hm."))
        told: list[ag.AgentEvent] = []
        with pytest.raises(ValueError, match="no"):
            told.extend(drive.run(runner, "Go.", thread_id="t"))
        assert texts(runner.thread("t").queued) == ["human: Hm."]
        told += drive.resume(runner, "t")
        Steered(runner, told, ids).check_read_at("s/b")
        assert saw(model)[-1] == "human: Hm."


def test_an_attempt_of_a_step_that_fails_gives_a_message_back(drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=[ValueError("no"), "b"])
    flow = ag.workflow("w", [ag.step(ag.chat_agent("b", model), retry=retrying())])
    run = steered(ag.sequential("s", [act.agent("a", acts=True), flow]), act, saver, drive)
    with run.runner:
        assert [texts(each).count("human: Hm.") for each in model.inputs] == [1, 1]
        run.check_read_at("s/w/b")


def test_a_branch_that_loses_gives_a_message_back(drive: Drive, saver: Any) -> None:
    """The branch that read it fails, so that the next model reads it."""
    act, model = Acting(), ScriptedChatModel(responses=["b", "c"])
    lost = ag.sequential("lost", [ag.chat_agent("b", model), fails("f", 9)])
    fork = ag.parallel("p", [lost], on_error="collect")
    tree = ag.sequential("s", [act.agent("a", acts=True), fork, ag.chat_agent("c", model)])
    run = steered(tree, act, saver, drive)
    with run.runner:
        assert len(addresses_of(unvoided(run.told), run.ids)) == 1
        assert addresses_of(run.runner.events("t"), run.ids) == addresses_of(
            unvoided(run.told), run.ids
        )
        assert "human: Hm." in texts(model.inputs[-1])


def test_the_branch_that_asks_its_model_first_reads_a_message(drive: Drive, saver: Any) -> None:
    act = Acting()
    models = [ScriptedChatModel(responses=[name]) for name in "bcd"]
    branches = [ag.chat_agent(name, model) for name, model in zip("bcd", models, strict=True)]
    tree = ag.sequential("s", [act.agent("a", acts=True), ag.parallel("p", branches)])
    run = steered(tree, act, saver, drive)
    with run.runner:
        [at] = addresses_of(run.told, run.ids)
        run.check_read_at(at)
        read = [texts(model.inputs[0]).count("human: Hm.") for model in models]
        assert sum(read) == read["bcd".index(at[-1])] == 1


def test_an_agent_as_a_tool_reads_a_message(drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=["w"])
    worker = ag.sequential("w", [act.agent("a", acts=True), ag.chat_agent("b", model)])
    tree = chat("s", calls(call("w", request="?")), "done", tools=[ag.agent_tool(worker)])
    run = steered(tree, act, saver, drive)
    with run.runner:
        assert addresses_of(run.told, run.ids) == ["s/w(0)/b"]
        assert addresses_of(run.runner.events("t"), run.ids) == ["s/w(0)/b"]
        assert not run.runner.thread("t").queued
        assert saw(model)[-1] == "human: Hm."


def test_an_agent_that_a_function_runs_reads_a_message(drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=["w"])
    worker = ag.sequential("w", [act.agent("a", acts=True), ag.chat_agent("b", model)])
    tree = ag.function_agent("s", lambda ctx: str(ctx.run("w", "?")), agents=[worker])
    run = steered(tree, act, saver, drive)
    with run.runner:
        assert addresses_of(run.runner.events("t"), run.ids) == ["s/w(0)/b"]
        assert not run.runner.thread("t").queued


def test_a_message_comes_between_the_results_of_calls_and_the_next_reply(
    drive: Drive, saver: Any
) -> None:
    act = Acting()
    model = ScriptedChatModel(responses=[calls(call("x"), call("y")), "done"])
    tree = ag.chat_agent("s", model, tools=[act.tool("x", acts=True), act.tool("y")])
    run = steered(tree, act, saver, drive)
    with run.runner:
        run.check_read_at("s")
        assert saw(model) == ["human: Go.", "ai: ", "tool: x", "tool: y", "human: Hm."]


def test_a_message_that_nobody_reads_begins_the_next_turn(drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=["b", "b", "b"])
    tree = ag.sequential("s", [ag.chat_agent("b", model), act.agent("a", acts=True)])
    run = steered(tree, act, saver, drive)
    with run.runner as runner:
        assert runner.thread("t").status == "done"
        assert [each.id for each in runner.thread("t").queued] == run.ids
        list(drive.run(runner, "Now.", thread_id="t"))
        assert saw(model)[-2:] == ["human: Hm.", "human: Now."]
        assert not runner.thread("t").queued
        assert texts(runner.thread("t").turns[1].messages) == ["human: Hm.", "human: Now."]
        list(drive.run(runner, "And?", thread_id="t"))
        assert texts(runner.thread("t").messages).count("human: Hm.") == 1


REST: dict[str, Callable[[], ag.Agent]] = {
    "paused": lambda: asks("x"),
    "failed": lambda: fails("x"),
}


@pytest.mark.parametrize("status", REST)
def test_on_a_thread_at_rest_a_message_waits_for_the_resume(
    status: str, drive: Drive, saver: Any
) -> None:
    model = ScriptedChatModel(responses=["b", "b"])
    tree = ag.sequential("s", [REST[status](), ag.chat_agent("b", model)])
    with ag.Runner(tree, checkpointer=saver) as runner:
        told: list[ag.AgentEvent] = []
        with suppress(ValueError):
            told.extend(drive.run(runner, "Go.", thread_id="t"))
        assert runner.thread("t").status == status
        ids = runner.steer("t", "Hm.") + runner.steer("t", "Well.")
        assert [each.id for each in runner.thread("t").queued] == ids
        assert runner.thread("t").status == status
        told += drive.resume(runner, "t", *(["yes"] if status == "paused" else []))
        Steered(runner, told, ids).check_read_at("s/b", "s/b")
        assert saw(model)[-2:] == ["human: Hm.", "human: Well."]


def test_on_a_stopped_thread_a_message_waits_for_the_resume(drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=["b"])
    tree = ag.sequential("s", [act.agent("a", acts=True), ag.chat_agent("b", model)])
    with ag.Runner(tree, checkpointer=saver) as runner:
        act.act = lambda: runner.stop("t")
        told = list(drive.run(runner, "Go.", thread_id="t"))
        ids = runner.steer("t", "Hm.")
        told += drive.resume(runner, "t")
        Steered(runner, told, ids).check_read_at("s/b")


def test_large_and_several_messages_are_read_in_their_order(drive: Drive, saver: Any) -> None:
    act, model = Acting(), ScriptedChatModel(responses=["b"])
    large = "bees " * 1_000_000
    tree = ag.sequential("s", [act.agent("a", acts=True), ag.chat_agent("b", model)])
    several = [HumanMessage("One."), HumanMessage([{"type": "text", "text": "Two."}], id="two")]
    run = steered(tree, act, saver, drive, large, several, "Three.")
    with run.runner:
        run.check_read_at(*["s/b"] * 4)
        assert "two" in run.ids
        assert saw(model)[-4:] == [f"human: {large}", "human: One.", "human: Two.", "human: Three."]


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([AIMessage("Hm.")], "'Hm.' is of type 'ai'"),
        ([HumanMessage("Hm."), SystemMessage("So.")], "'So.' is of type 'system'"),
        ([], "there are none"),
        (7, "cannot be read as messages"),
        (HumanMessage("Hm.", additional_kwargs={"x": object()}), "cannot be saved"),
    ],
)
def test_messages_that_are_no_users_are_refused(messages: Any, fault: str, tmp_path: Path) -> None:
    with ag.Runner(says("a"), checkpointer=tmp_path / "threads.db") as runner:
        list(runner.run("Go.", thread_id="t"))
        with pytest.raises(ag.AgentGraphError, match=fault):
            runner.steer("t", messages)
        assert not runner.thread("t").queued


def test_a_message_that_is_sent_while_a_turn_begins_is_read_once(saver: Any) -> None:
    """It is saved before the turn reads what was sent, and reaches the run by its lock after that."""
    with ag.Runner(says("a"), checkpointer=saver) as runner:
        list(runner.run("Go.", thread_id="t"))
        [sent] = runner.steer("t", "Hm.")
        thread, run = runner.engine.thread("t"), ActiveRun()
        [request] = run_calls(requests(thread))

        def begin() -> Any:
            reads = run.read_requests(thread, begins_turn=True)
            listed = yield reads.send(None)
            run.take([request])  # by the one who has sent it
            with suppress(StopIteration):
                call = reads.send(listed)
                while True:
                    call = reads.send((yield call))

        run_calls(begin())
        waiting = [each.id for each in run.waiting]
        assert [*waiting, *(each.id for each in run.mailbox.take())] == [sent]


PROGRAM = """
import asyncio, sys, time
from pathlib import Path

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel
from agentgraph.threads.live.active_run import active_run_on

mode, what = sys.argv[1:]

def is_reached():
    run = active_run_on(runner.saver, "t")
    return run.is_stopped if what == "stop" else not run.mailbox.is_empty

def fn(ctx):
    Path("ready").touch()
    end = time.monotonic() + 30
    while not is_reached():
        assert time.monotonic() < end
        time.sleep(0.01)
    return "a"

async def afn(ctx):
    return await asyncio.to_thread(fn, ctx)

a = ag.function_agent("a", afn if mode == "async" else fn)
tree = ag.sequential("s", [a, ag.chat_agent("b", ScriptedChatModel(responses=["b"]))])

async def arun():
    async with ag.async_sqlite_saver("threads.db") as saver:
        global runner
        runner = ag.Runner(tree, checkpointer=saver)
        return [event.text async for event in runner.arun("Go.", thread_id="t")]

if mode == "async":
    print(asyncio.run(arun()))
else:
    with ag.sqlite_saver("threads.db") as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        print([event.text for event in runner.run("Go.", thread_id="t")])
"""


@pytest.mark.parametrize("what", ["stop", "steer"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_of_another_process_is_stopped_and_steered(
    mode: str, what: str, drive: Drive, program: Commands
) -> None:
    async def request(path: Path) -> None:
        async with ag.async_sqlite_saver(path) as saver:
            await arequest(ag.Runner(tree, checkpointer=saver))

    async def arequest(runner: ag.Runner) -> None:
        await (runner.astop("t") if what == "stop" else runner.asteer("t", "Hm."))

    model = ScriptedChatModel(responses=["b"])
    tree = ag.sequential("s", [says("a"), ag.chat_agent("b", model)])
    (program.folder / "runs.py").write_text(PROGRAM)
    running = program.start("runs.py", mode, what)
    wait_until((program.folder / "ready").exists)
    path = program.folder / "threads.db"
    if drive is Sync:
        with ag.Runner(tree, checkpointer=path) as runner:
            if what == "stop":
                runner.stop("t")
            else:
                runner.steer("t", "Hm.")
    else:
        asyncio.run(request(path))
    ended = running.wait()
    assert ended.err == ""
    with ag.Runner(tree, checkpointer=path) as runner:
        if what == "steer":
            assert ended.lines == ["['a', 'Hm.', 'b']"]
            assert texts(runner.thread("t").messages) == ["human: Go.", "ai: a", "human: Hm.", "ai: b"]
            assert not runner.thread("t").queued
        else:
            assert ended.lines == ["['a']"]
            assert runner.thread("t").status == "stopped"
            assert said(runner.resume("t")) == ["b"]
