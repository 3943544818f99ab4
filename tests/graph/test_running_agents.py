"""Functions that run agents: `ctx.run`, its replies, and what happens where a call pauses or fails."""

import asyncio
import operator
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, TypedDict

import pytest
from helpers import Disk, Drive, asks, chat, check_heard, fails, lines, says
from helpers.running import RAN, Function, call, echo, flow, pending, turn
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import RetryPolicy
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.show.lines import tree_lines

pytestmark = pytest.mark.usefixtures("nothing_ran")


def test_a_reply_is_a_text_with_data_values_and_messages(drive: Drive) -> None:
    class Found(BaseModel):
        number: int

    found: list[Any] = []

    def fn(ctx: ag.Context) -> Any:
        reply = ctx.run("echo", "bees")
        typed = ctx.run("count", "How many?")
        found.extend([reply, reply.data, dict(reply.values), [m.text for m in reply.messages]])
        found.append(typed.data)
        return [ag.SetValues(saved=reply), reply]

    counter = chat("count", '{"number": 3}', output_schema=Found)
    runner = ag.Runner(flow(fn, echo("echo", output_key="e"), counter))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert found[:4] == ["echo: bees", "echo: bees", {"e": "echo: bees"}, ["echo: bees"]]
    assert found[4] == Found(number=3)
    assert lines(events)[-1] == "flow: echo: bees"
    saved = runner.thread("t").values["saved"]
    assert type(saved) is str
    assert saved == "echo: bees"


def test_the_run_path_of_a_call_is_that_of_the_function_and_the_agent(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        ctx.run("echo", "x", key="bees & co")
        return str(ctx.run("echo", "y"))

    tree = ag.sequential("s", [says("first"), flow(fn, echo("echo"))])
    events = list(drive.run(ag.Runner(tree), "Go."))
    paths = [(event.address, str(event.run_path)) for event in events[1:3]]
    assert paths == [
        ("s/flow/echo(bees%20%26%20co)", "s/first/flow/echo"),
        ("s/flow/echo(0)", "s/first/flow/echo"),
    ]


async def _gathered(ctx: ag.Context) -> str:
    return " | ".join(await asyncio.gather(*(ctx.run("team", x, key=x) for x in "cab")))


def test_questions_inside_are_answered_by_address_in_any_order(disk: Disk) -> None:
    team = ag.sequential("team", [echo("echo"), asks("boss"), says("done")])
    agent = flow(_gathered, team)
    events = call(disk, agent, "run", "Go.", thread_id="t")
    waiting = pending(disk, agent)
    assert [each.address for each in waiting] == [f"flow/team({x})/boss" for x in "abc"]
    events += call(disk, agent, "resume", "t", {"flow/team(b)/boss": "B"})
    events += call(disk, agent, "resume", "t", {waiting[2].id: "C", "flow/team(a)/boss": "A"})
    assert lines(events)[-1] == "flow: done | done | done"
    assert sorted(RAN) == [f"flow/team({x})/echo" for x in "abc"]
    check_heard(events, call(disk, agent, "events", "t"))


def swallowing(ctx: ag.Context) -> str:
    try:
        ctx.run("boss", "x")
    except Exception:
        return "swallowed"
    finally:
        with suppress(BaseException):
            ctx.run("echo", "y")
    return str(ctx.run("echo", "z"))


async def in_group(ctx: ag.Context) -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.run("boss", "x"))
            other = group.create_task(ctx.run("echo", "z"))
    except* Exception:
        RAN.append("swallowed")
    return str(other.result())


async def in_time(ctx: ag.Context) -> str:
    with suppress(BaseException):
        await asyncio.wait_for(ctx.run("boss", "x"), 60)
    return str(await ctx.run("echo", "z"))


async def returned(ctx: ag.Context) -> str:
    results = await asyncio.gather(ctx.run("boss", "x"), ctx.run("echo", "z"), return_exceptions=True)
    return str(results[1])


async def yielded(ctx: ag.Context) -> AsyncIterator[str]:
    yield "Begin."
    with suppress(BaseException):
        await ctx.run("boss", "x")
        yield "Never before the answer."
    yield await ctx.run("echo", "z")


@pytest.mark.parametrize("fn", [swallowing, in_group, in_time, returned, yielded])
def test_a_pause_leaves_the_function_whatever_that_catches(fn: Function, disk: Disk) -> None:
    agent = flow(fn, asks("boss"), echo("echo"))
    events = call(disk, agent, "run", "Go.", thread_id="t")
    assert [each.address for each in pending(disk, agent)] == ["flow/boss(0)"]
    events += call(disk, agent, "resume", "t", "yes")
    assert lines(events)[-1] == "flow: echo: z"
    assert "swallowed" not in [*lines(events), *RAN]
    check_heard(events, call(disk, agent, "events", "t"))


def test_after_a_question_of_its_own_the_calls_before_it_are_not_made_again(disk: Disk) -> None:
    def fn(ctx: ag.Context) -> Any:
        one = ctx.run("echo", "one")
        with pytest.raises(ValueError, match="broken"):
            ctx.run("broken", "x", key="b")
        if not ctx.answered:
            return ag.Ask(f"{one}?")
        two = ctx.run("echo", "two")
        return f"{one} {one.data} {ctx.answer} {two}"

    def broken(ctx: ag.Context) -> str:
        RAN.append(ctx.address)
        raise ValueError("broken")

    agent = flow(fn, echo("echo", output_key="e"), ag.function_agent("broken", broken))
    assert turn(disk, agent, boss="yes") == [
        "flow/echo(0): echo: one",
        "flow/broken(b): [error] ValueError('broken')",
        "flow: [asks] echo: one?",
        "flow/echo(1): echo: two",
        "flow: echo: one echo: one yes echo: two",
    ]
    assert RAN == ["flow/echo(0)", "flow/broken(b)", "flow/echo(1)"]


def test_a_failure_that_was_caught_is_raised_again_without_running(disk: Disk) -> None:
    def broken(ctx: ag.Context) -> str:
        RAN.append(ctx.address)
        raise ValueError("broken")

    def fn(ctx: ag.Context) -> str:
        try:
            ctx.run("broken", "x")
        except ValueError as error:
            return f"{error} {ctx.run('boss', 'y')}"
        return "never"

    agent = flow(fn, ag.function_agent("broken", broken), asks("boss"))
    assert turn(disk, agent, boss="yes") == [
        "flow/boss(1): [asks] Well?",
        "flow/broken(0): [error] ValueError('broken')",
        "flow/boss(1): yes",
        "flow: broken yes",
    ]
    assert RAN == ["flow/broken(0)"]


def test_a_failure_that_ends_the_function_is_tried_again_from_the_failed_step(disk: Disk) -> None:
    async def fn(ctx: ag.Context) -> str:
        one = await ctx.run("echo", "one")
        return f"{one} {await ctx.run('team', 'x')}"

    team = ag.sequential("team", [echo("work"), fails("shaky")])
    agent = flow(fn, echo("echo"), team)
    with pytest.raises(ValueError, match="shaky failed, time 1"):
        call(disk, agent, "run", "Go.", thread_id="t")
    assert lines(call(disk, agent, "resume", "t"))[-1] == "flow: echo: one shaky"
    assert RAN == ["flow/echo(0)", "flow/team(1)/work"]


BEGUN = threading.Event()


async def in_little_time(ctx: ag.Context) -> str:
    BEGUN.clear()
    call = asyncio.ensure_future(ctx.run("team", "x"))
    await asyncio.to_thread(BEGUN.wait, 20)
    try:
        return str(await asyncio.wait_for(call, 0.01))
    except TimeoutError:
        return f"It took too long, {await ctx.run('echo', 'y')}"


def test_a_call_that_nobody_awaits_any_more_is_stopped_and_the_function_goes_on(disk: Disk) -> None:
    agent = flow(in_little_time, ag.sequential("team", [slow("one"), slow("two")]), echo("echo"))
    assert sorted(turn(disk, agent)) == [
        "flow/echo(1): echo: y",
        "flow/team(0)/one: one",
        "flow/team(0): [error] TimeoutError('the function does not await it any more')",
        "flow: It took too long, echo: y",
    ]
    assert RAN == ["flow/echo(1)"]


def test_of_calls_side_by_side_one_that_fails_stops_the_others_and_is_what_comes_out(
    disk: Disk,
) -> None:
    async def fn(ctx: ag.Context) -> str:
        return " ".join(await asyncio.gather(ctx.run("team", "x"), ctx.run("shaky", "y")))

    team = ag.sequential("team", [slow("one"), echo("two")])
    agent = flow(fn, team, fails("shaky"))
    with pytest.raises(ValueError, match="shaky failed, time 1"):
        call(disk, agent, "run", "Go.", thread_id="t")
    assert RAN == []
    assert lines(call(disk, agent, "resume", "t"))[-1] == "flow: two: [one] said: one shaky"


def slow(name: str) -> ag.Agent:
    """Return an agent that takes its time, in a thread that nobody can cancel."""

    def fn(ctx: ag.Context) -> str:
        BEGUN.set()
        time.sleep(0.2)
        return name

    return ag.function_agent(name, fn)


def test_a_retry_runs_again_only_what_failed(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        return f"{ctx.run('echo', 'one')} {ctx.run('shaky', 'x')}"

    policy = RetryPolicy(initial_interval=0, retry_on=ValueError)
    agent = flow(fn, echo("echo"), fails("shaky"), retry=policy)
    events = list(drive.run(ag.Runner(agent), "Go."))
    assert lines(events)[-1] == "flow: echo: one shaky"
    assert RAN == ["flow/echo(0)"]


def test_another_request_on_a_resume_is_an_error_that_shows_both(disk: Disk) -> None:
    requests = iter(["one", "two"])

    def fn(ctx: ag.Context) -> str:
        return f"{ctx.run('echo', next(requests))} {ctx.run('boss', 'x')}"

    agent = flow(fn, echo("echo"), asks("boss"))
    call(disk, agent, "run", "Go.", thread_id="t")
    with pytest.raises(ag.AgentGraphError) as caught:
        call(disk, agent, "resume", "t", "yes")
    assert str(caught.value) == (
        "flow: its call 0 was ctx.run('echo', 'one') before the resume, and is ctx.run('echo', 'two') "
        "now; a function must make the same calls in the same order each time: take time and chance "
        "out of it, or give each call a key="
    )


def test_another_agent_in_the_place_of_one_that_waits_is_an_error(disk: Disk) -> None:
    names = iter(["boss", "echo"])
    agent = flow(lambda ctx: str(ctx.run(next(names), "x")), echo("echo"), asks("boss"))
    call(disk, agent, "run", "Go.", thread_id="t")
    with pytest.raises(ag.AgentGraphError, match=r"was ctx\.run\('boss', 'x'\) before the resume"):
        call(disk, agent, "resume", "t", "yes")


REFUSED: dict[str, tuple[Function, str]] = {
    "unknown": (
        lambda ctx: ctx.run("x", "r"),
        "flow: ctx.run('x'): agents= declares only 'echo'; pass a name of these",
    ),
    "no text": (
        lambda ctx: ctx.run("echo", 1),
        "flow: ctx.run('echo'): the request 1 is not a text; pass one, as in ctx.run('echo', 'Find "
        "bees.')",
    ),
    "no key": (
        lambda ctx: ctx.run("echo", "r", key=1.5),
        "flow: ctx.run('echo'): key=1.5 is neither a text nor a whole number",
    ),
    "a key that cannot be saved": (
        lambda ctx: ctx.run("echo", "r", key="\udcff"),
        "flow: ctx.run('echo'): key='\\udcff' has a lone surrogate, which is not a character",
    ),
    "a key twice": (
        lambda ctx: [str(ctx.run("echo", x, key="k")) for x in "ab"],
        "flow: ctx.run('echo'): the key 'k' is used twice, by the request 'a' too; give each call its "
        "own key (addresses show the first 40 characters)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_cannot_be_made_says_why(name: str, drive: Drive) -> None:
    fn, message = REFUSED[name]
    with pytest.raises(ag.AgentGraphError) as caught:
        list(drive.run(ag.Runner(flow(fn, echo("echo"))), "Go."))
    assert str(caught.value) == message


def test_agents_run_only_where_they_are_declared() -> None:
    def until(ctx: ag.Context) -> bool:
        ctx.run("echo", "x")
        return True

    where = (
        "only a function agent runs agents, those that it declares: function_agent(name, fn, agents="
    )
    for tree in (
        ag.function_agent("flow", lambda ctx: ctx.run("echo", "x")),
        ag.loop("l", [says("a")], max_iterations=2, until=until),
        ag.switch("s", until, {True: says("a")}),
    ):
        with pytest.raises(ag.AgentGraphError) as caught:
            list(ag.Runner(tree).run("Go."))
        assert where in str(caught.value)


def test_a_call_that_is_not_awaited_is_an_error(drive: Drive) -> None:
    async def fn(ctx: ag.Context) -> str:
        ctx.run("echo", "x")
        return "Done."

    with pytest.raises(ag.InvalidOutputError) as caught:
        list(drive.run(ag.Runner(flow(fn, echo("echo"))), "Go."))
    assert str(caught.value) == (
        "flow: the function ended before its call ctx.run('echo', 'x') was awaited; await each "
        "ctx.run(...)"
    )


def test_calls_from_several_threads_run_at_the_same_time(drive: Drive) -> None:
    both = threading.Barrier(2, timeout=20)

    def meet(ctx: ag.Context) -> str:
        both.wait()
        return ctx.messages[-1].text

    def fn(ctx: ag.Context) -> str:
        replies: dict[str, str] = {}
        threads = [
            threading.Thread(target=lambda x=x: replies.update({x: ctx.run("meet", x, key=x)}))
            for x in "ab"
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return f"{replies['a']} {replies['b']}"

    events = list(drive.run(ag.Runner(flow(fn, ag.function_agent("meet", meet))), "Go."))
    assert lines(events)[-1] == "flow: a b"


def test_values_are_handed_back_and_seen_by_later_calls(drive: Drive) -> None:
    def see(ctx: ag.Context) -> str:
        return f"sees {ctx.values.get('e')}"

    def fn(ctx: ag.Context) -> str:
        ctx.run("echo", "bees")
        return str(ctx.run("see", "x"))

    tree = ag.sequential("s", [flow(fn, echo("echo", output_key="e"), ag.function_agent("see", see))])
    runner = ag.Runner(tree)
    assert lines(drive.run(runner, "Go.", thread_id="t"))[-1] == "s/flow: sees echo: bees"
    assert runner.thread("t").values == {"e": "echo: bees"}


async def _both(ctx: ag.Context) -> None:
    await asyncio.gather(*(ctx.run("echo", x) for x in "ab"))


def test_two_calls_side_by_side_must_not_write_different_values(drive: Drive) -> None:
    agent = flow(_both, echo("echo", output_key="e"))
    runner = ag.Runner(agent, checkpointer=InMemorySaver())
    with pytest.raises(ag.ValueConflictError, match="while they ran concurrently"):
        list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", values={"e": "both"}))
    assert runner.thread("t").values == {"e": "both"}
    assert sorted(RAN) == ["flow/echo(0)", "flow/echo(1)"]


class Collected(TypedDict):
    e: Annotated[str, lambda a, b: f"{a}{b};"]


def test_values_with_a_reducer_are_merged(drive: Drive) -> None:
    runner = ag.Runner(flow(_both, echo("echo", output_key="e")), values=Collected)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert sorted(runner.thread("t").values["e"].split(";")) == ["", "echo: a", "echo: b"]


class Ordered(TypedDict):
    all: Annotated[list[str], operator.add]
    last: Annotated[str, lambda old, new: new]


def test_values_of_calls_side_by_side_are_merged_in_the_order_of_the_calls(drive: Drive) -> None:
    def write(ctx: ag.Context) -> ag.SetValues:
        text = ctx.messages[-1].text
        time.sleep({"a": 0.2, "b": 0.1}.get(text, 0))
        return ag.SetValues(all=[text], last=text)

    async def fn(ctx: ag.Context) -> ag.SetValues:
        await asyncio.gather(*(ctx.run("write", x, key=x) for x in "abc"))
        return ag.SetValues(all=["own"])

    agent = flow(fn, ag.function_agent("write", write))
    runner = ag.Runner(agent, values=Ordered)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.thread("t").values == {"all": ["a", "b", "c", "own"], "last": "c"}


def test_what_the_agents_said_is_no_part_of_the_history(drive: Drive) -> None:
    seen: list[list[str]] = []

    def last(ctx: ag.Context) -> None:
        seen.append([message.text for message in ctx.messages])

    tree = ag.sequential(
        "s",
        [
            flow(lambda ctx: "Done." if ctx.run("echo", "x") else None, echo("echo")),
            ag.function_agent("last", last),
        ],
    )
    list(drive.run(ag.Runner(tree), "Go."))
    assert seen == [["Go.", "[flow] said: Done."]]


def test_questions_can_be_dropped_and_what_was_written_is_kept(disk: Disk) -> None:
    def fn(ctx: ag.Context) -> str:
        return f"{ctx.run('echo', 'one')} {ctx.run('boss', 'x')}"

    agent = ag.sequential("s", [flow(fn, echo("echo", output_key="e"), asks("boss")), says("z")])
    events = call(disk, agent, "run", "Go.", thread_id="t")
    events += call(disk, agent, "run", "Stop.", thread_id="t", drop_pending=True)
    assert pending(disk, agent)[0].address == "s/flow/boss(1)"
    events += call(disk, agent, "resume", "t", "yes")
    assert lines(events)[-1] == "s/z: z"
    assert RAN == ["s/flow/echo(0)"] * 2
    check_heard(events, call(disk, agent, "events", "t"))


def test_it_is_outlined_and_checked_with_its_agents() -> None:
    tree = ag.loop(
        "l", [flow(_both, echo("echo"), ag.sequential("team", [says("x")]))], max_iterations=2
    )
    assert tree_lines(tree) == [
        "l (loop, at most 2)",
        "└─ flow (function)",
        "   ├─ echo (function)",
        "   └─ team (sequential)",
        "      └─ x (function)",
    ]
    graph = ag.compile_agent(tree).get_graph(xray=True)
    assert any(node.endswith("echo") for node in graph.nodes)
    wrong = ag.loop(
        "l",
        [flow(_both, ag.chat_agent("c", "m", break_tool=True), echo("echo"), echo("echo"))],
        max_iterations=2,
    )
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(wrong)
    assert "l/flow: agents= has 'echo' twice; once is enough for any number of calls" in str(
        caught.value
    )
    assert "l/flow/c: break_tool=True needs an enclosing loop; leave it out" in str(caught.value)


def test_functions_and_composites_inside_run_agents_too(disk: Disk) -> None:
    def inner(ctx: ag.Context) -> str:
        return f"<{ctx.run('echo', 'deep')} {ctx.run('boss', 'x')}>"

    nested = ag.function_agent("inner", inner, agents=[echo("echo"), asks("boss")])
    both = ag.parallel("both", [ag.sequential("one", [nested]), says("other")])

    def fn(ctx: ag.Context) -> str:
        return str(ctx.run("both", "go"))

    agent = flow(fn, both)
    out = turn(disk, agent, boss="yes")
    assert "flow/both(0)/one/inner/boss(1): [asks] Well?" in out
    assert "flow/both(0)/one/inner: <echo: deep yes>" in out
    assert RAN == ["flow/both(0)/one/inner/echo(0)"]


def test_a_copy_of_a_thread_that_waits_goes_on_by_itself(drive: Drive) -> None:
    agent = flow(
        lambda ctx: f"{ctx.run('echo', 'one')} {ctx.run('boss', 'x')}", echo("echo"), asks("boss")
    )
    runner = ag.Runner(agent, checkpointer=InMemorySaver())
    list(drive.run(runner, "Go.", thread_id="t"))
    runner.copy("t", "u")
    for thread in "ut":
        assert lines(drive.resume(runner, thread, thread))[-1] == f"flow: echo: one {thread}"
    assert RAN == ["flow/echo(0)"]
