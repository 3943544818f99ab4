"""Middleware that makes the call of an agent as a tool again: what it is given, and what is saved.

What is emitted is shown in `tests/transcripts/call_attempts.txt`.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from helpers import (
    Async,
    Disk,
    Drive,
    chat,
    check_heard,
    lines,
    middleware,
    read,
    results,
    says,
    tool,
    tries_calls_again,
    unvoided,
    yields,
)
from helpers.commands import Commands
from langchain.agents.middleware import AgentMiddleware

import agentgraph as ag
from agentgraph.testing import call, calls
from agentgraph.tree.addresses import address, parse_address
from agentgraph.tree.layout import lay_out

LOOK = calls(call("helper", request="Look."))


def boss(helper: ag.Agent, *stack: Any) -> ag.Agent:
    """Return a chat agent that calls an agent once."""
    return chat("boss", LOOK, results, tools=[ag.agent_tool(helper)], middleware=[*stack])


class UpstreamError(ConnectionError):
    """What a helper fails with."""


def failing_helper(*more: Any) -> ag.Agent:
    """Return an agent that fails twice."""
    failures = [[UpstreamError(f"down {n}")] for n in (1, 2)]
    return yields("helper", *failures, *more, ["Found."])


def twice(given: list[str]) -> Any:
    """Return middleware that makes each call twice, and keeps what the calls gave."""

    def make(request: Any) -> Any:
        both = [(yield request), (yield request)]
        given.extend(each.text for each in both)
        return both[-1]

    return middleware("Twice", wrap_tool_call=make)


def test_of_two_attempts_that_succeed_the_last_one_counts(disk: Disk) -> None:
    numbers = count(1)

    def note(ctx: ag.Context) -> Iterator[Any]:
        number = next(numbers)
        if number == 2:
            yield ag.Ask("Go on?")
        else:
            yield ag.SetValues(**{f"note{number}": True})
            yield f"note {number}"

    given: list[str] = []
    critic = ag.function_agent("critic", lambda ctx: f"{dict(ctx.values)}")
    tree = ag.sequential("s", [boss(ag.function_agent("helper", note), twice(given)), critic])
    disk.run(tree)
    given.clear()
    assert lines(disk.resume(tree, "yes")) == [
        "s/boss/helper(0.1): [values] note3",
        "s/boss/helper(0.1): note 3",
        "s/boss: note 3",
        "s/boss: 1 helper success: note 3",
        "s/critic: {'note3': True}",
    ]
    assert given == ["note 1", "note 3"]
    check_heard(disk.heard, disk.events(tree))


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "in a parallel"])
def test_a_question_of_an_attempt_that_then_failed_is_void(disk: Disk, beside: bool) -> None:
    ask = ag.Ask("Go on?")
    helper = yields("helper", ["Wait.", ask], [UpstreamError("down")], ["Wait.", ask], ["Found."])
    tree: ag.Agent = boss(helper, tries_calls_again())
    if beside:
        tree = ag.parallel("p", [tree, says("other")])
    disk.run(tree)
    disk.resume(tree, "yes")
    check_heard(disk.heard, disk.events(tree))
    disk.resume(tree, "yes")
    check_heard(disk.heard, disk.events(tree))
    asked = [each.address for each in disk.events(tree) if each.kind == "interrupted"]
    assert asked == [f"{'p/' * beside}boss/helper(0.1)"]


def test_of_two_calls_of_a_tool_the_last_one_counts(drive: Drive) -> None:
    given = [ag.SetValues(a=1), ag.Custom("a"), "first"], [ag.SetValues(b=2), "second"]
    writer = chat(
        "w", calls(call("note")), results, tools=[tool("note", *given)], middleware=[twice([])]
    )
    critic = ag.function_agent("critic", lambda ctx: f"{dict(ctx.values)}")
    assert lines(drive.run(ag.Runner(ag.sequential("s", [writer, critic])), "Go."))[1:] == [
        "s/w: [values] b",
        "s/w: second",
        "s/w: 1 note success: second",
        "s/critic: {'b': 2}",
    ]


def test_middleware_is_given_failures_again_as_they_were(disk: Disk) -> None:
    """With their class and arguments, so that it decides as it did."""
    seen: list[str] = []

    def is_passing(error: Exception) -> bool:
        seen.append(repr(error))
        return isinstance(error, UpstreamError)

    helper = failing_helper([ag.Ask("Go on?")])
    tree = boss(helper, tries_calls_again(retry_on=is_passing))
    disk.run(tree)
    disk.resume(tree, "yes")
    assert seen == ["UpstreamError('down 1')", "UpstreamError('down 2')"] * 2
    assert disk.heard[-1].text == "1 helper success: Found."


def test_a_call_that_succeeds_at_once_saves_nothing_of_its_attempt(drive: Drive) -> None:
    saved = []
    for stack in ([], [tries_calls_again()]):
        runner = ag.Runner(boss(says("helper"), *stack))
        list(drive.run(runner, "Go.", thread_id="t"))
        checkpoints = list(runner.saver.list({"configurable": {"thread_id": "t"}}))
        saved.append(len(checkpoints))
        channels = {name for each in checkpoints for _, name, _ in each.pending_writes or ()}
        assert "agentgraph_attempt" not in channels
    assert saved[0] == saved[1]


def test_a_run_without_a_saver_tries_again_too() -> None:
    graph = ag.compile_agent(boss(failing_helper(), tries_calls_again()))
    assert graph.invoke({"messages": ["Go."]})["messages"][-1].text == "1 helper success: Found."


def test_only_an_agent_as_a_tool_has_addresses_of_further_attempts() -> None:
    tree = lay_out(ag.sequential("s", [boss(ag.sequential("helper", [says("ask")]))]))
    for at in ("s/boss/helper(0)", "s/boss/helper(2.1)/ask"):
        found = parse_address(tree, at)
        assert found is not None
        assert address(*found) == at
    for at in ("s/boss/helper(0.0)", "s/boss/helper(0.1.1)", "s/boss(0.1)", "s(0.1)"):
        assert parse_address(tree, at) is None


def test_chunks_of_an_attempt_are_void_too(drive: Drive) -> None:
    search = tool("search", *[UpstreamError("down")] * 2, "bees")
    rounds = [calls(call("search"), text="I look for bees.")] * 3
    helper = chat("helper", *rounds, "I have found it now.", tools=[search], on_tool_error="raise")
    runner = ag.Runner(boss(helper, tries_calls_again()))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    void = {"boss/helper(0)", "boss/helper(0.1)"}
    assert void <= {each.address for each in events if each.partial}
    assert void.isdisjoint(each.address for each in unvoided(events))
    check_heard([each for each in events if not each.partial], list(runner.events("t")))


def test_an_attempt_that_middleware_cancelled_is_over(tmp_path: Path) -> None:
    deadlines: list[asyncio.Timeout] = []
    tries = count(1)

    class Impatient(AgentMiddleware[Any, Any]):
        """Cancels a call that takes too long, and makes it again."""

        async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            try:
                async with asyncio.timeout(None) as limit:
                    deadlines.append(limit)
                    return await handler(request)
            except TimeoutError:
                return await handler(request)

    async def work(ctx: ag.Context) -> Any:
        if next(tries) == 1:
            deadlines[-1].reschedule(0)
            await asyncio.Event().wait()
        return f"heard {ctx.answer}" if ctx.answered else ag.Ask("Go on?")

    tree = boss(ag.function_agent("helper", work), Impatient())
    disk = Disk(Async, tmp_path / "t.db")
    assert disk.run(tree)[-1].address == "boss/helper(0.1)"
    assert disk.resume(tree, "yes")[-1].text == "1 helper success: heard yes"
    assert next(tries) == 4
    check_heard(disk.heard, disk.events(tree))


# a kill


PROGRAM = """
import asyncio, json, os, signal, sys
from pathlib import Path
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import ToolMessage
import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

mode, method, point = sys.argv[1:]
folder = Path(__file__).parent


def die_at(here):
    if here == point:
        os.kill(os.getpid(), signal.SIGKILL)


def step(name):
    def fn(ctx):
        with (folder / "ledger").open("a") as file:
            file.write(f"{ctx.address}\\n")
        die_at(ctx.address)
        if name == "work" and "(0.2)" not in ctx.address:
            raise ConnectionError("down")
        return name

    return ag.function_agent(name, fn)


def reply(messages):
    is_done = isinstance(messages[-1], ToolMessage)
    return "Done." if is_done else calls(call("helper", request="Look."))


tree = ag.chat_agent(
    "boss",
    ScriptedChatModel(responses=reply),
    tools=[ag.agent_tool(ag.sequential("helper", [step("begin"), step("work")]))],
    middleware=[ToolRetryMiddleware(max_retries=2, retry_on=(ConnectionError,), initial_delay=0.0)],
)
arguments, options = {"run": (["Go."], {"thread_id": "t"}), "resume": (["t"], {})}[method]


def dying(put):
    def done(writes):
        if any(name == "agentgraph_attempt" for name, _ in writes):
            die_at("an attempt is saved")

    async def aputting(config, writes, *rest):
        await put(config, writes, *rest)
        done(writes)

    def putting(config, writes, *rest):
        put(config, writes, *rest)
        done(writes)

    return aputting if asyncio.iscoroutinefunction(put) else putting


def emit(event):
    print(json.dumps(event.to_dict()), flush=True)


async def main():
    async with ag.async_sqlite_saver(folder / "runs.db") as saver:
        saver.aput_writes = dying(saver.aput_writes)
        run = getattr(ag.Runner(tree, checkpointer=saver), f"a{method}")
        async for event in run(*arguments, **options):
            emit(event)


with ag.sqlite_saver(folder / "runs.db") as saver:
    if mode == "async":
        asyncio.run(main())
    else:
        saver.put_writes = dying(saver.put_writes)
        run = getattr(ag.Runner(tree, checkpointer=saver), method)
        for event in run(*arguments, **options):
            emit(event)
    again = [json.dumps(each.to_dict()) for each in ag.Runner(tree, checkpointer=saver).events("t")]
    (folder / "again").write_text("\\n".join(again))
"""


@pytest.mark.parametrize(
    ("mode", "point"),
    [
        ("sync", "an attempt is saved"),
        ("async", "an attempt is saved"),
        ("sync", "boss/helper(0.1)/work"),
        ("async", "boss/helper(0)/work"),
    ],
)
def test_after_a_kill_only_the_step_in_flight_runs_again(
    program: Commands, mode: str, point: str
) -> None:
    script = program.folder / "tree.py"
    script.write_text(PROGRAM)
    killed = program(str(script), mode, "run", point)
    assert killed.code == -signal.SIGKILL, killed.err
    ended = program(str(script), mode, "resume", "nowhere")
    assert ended.code == 0, ended.err
    ran = Counter((program.folder / "ledger").read_text().splitlines())
    each_step = [f"boss/helper({n})/{step}" for n in ("0", "0.1", "0.2") for step in ("begin", "work")]
    assert ran == {at: 2 if at == point else 1 for at in each_step}
    again = read((program.folder / "again").read_text().splitlines())
    check_heard([*read(killed.lines), *read(ended.lines)], again)
    assert lines(again) == [
        'boss: [calls] helper({"request": "Look."})',
        "boss/helper(0.2)/begin: begin",
        "boss/helper(0.2)/work: work",
        "boss: work",
        "boss: Done.",
    ]
