"""`ctx.run` with agents of every kind, in every place, and what calls write."""

import asyncio
import operator
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from helpers import Disk, Drive, asks, chat, fails, lines, retrying, scripted
from helpers.running import RAN, call, echo, flow, pending, turn
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import CachePolicy, interrupt
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import call as tool_call

pytestmark = pytest.mark.usefixtures("nothing_ran")

PROGRAM = Path(__file__).with_name("killed_call.py")


class Found(BaseModel):
    n: int


def graph() -> Any:
    """Return a graph whose second node asks."""
    builder = StateGraph(MessagesState)
    builder.add_node("a", lambda s: {"messages": [AIMessage(f"a: {s['messages'][-1].text}")]})
    builder.add_node("b", lambda s: {"messages": [AIMessage(f"b: {interrupt('Sure?')}")]})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("b", END)
    return builder.compile()


def runs(name: str) -> Any:
    """Return a function that runs an agent, and says all of its reply."""

    def fn(ctx: ag.Context) -> str:
        reply = ctx.run(name, "x")
        return f"{reply} | {reply.data!r} | {dict(reply.values)}"

    return fn


KINDS: dict[str, tuple[Any, list[str]]] = {
    "a graph": (
        lambda: ag.graph_agent("c", graph()),
        ["flow/c(0): a: x", "flow/c(0): [asks] Sure?", "flow/c(0): b: yes", "flow: b: yes | None | {}"],
    ),
    "a flat graph": (
        lambda: ag.graph_agent("c", graph(), flat=True),
        [
            "flow/c(0)/a: a: x",
            "flow/c(0)/b: [asks] Sure?",
            "flow/c(0)/b: b: yes",
            "flow: b: yes | None | {}",
        ],
    ),
    "each": (
        lambda: ag.each("c", echo("e"), lambda ctx: ["p"], key=str, output_key="found"),
        [
            "flow/c(0)/e(0:p): e: x",
            "flow: {\"p\": \"e: x\"} | {'p': 'e: x'} | {'found': {'p': 'e: x'}}",
        ],
    ),
    "switch": (
        lambda: ag.switch("c", lambda ctx: ctx.messages[-1].text, {"x": echo("e")}),
        ["flow/c(0): [chosen] e", "flow/c(0)/e: e: x", "flow: e: x | None | {}"],
    ),
    "workflow": (
        lambda: ag.workflow("c", [ag.step(echo("e")), ag.step(asks("b"), depends_on=["e"])]),
        [
            "flow/c(0)/e: e: x",
            "flow/c(0)/b: [asks] Well?",
            "flow/c(0)/b: yes",
            "flow: yes | None | {}",
        ],
    ),
    "supervisor": (
        lambda: ag.supervisor(
            "c", scripted(AIMessage("", tool_calls=[tool_call("e", request="y")]), "Done."), [echo("e")]
        ),
        [
            'flow/c(0): [calls] e({"request": "y"})',
            "flow/c(0)/e(0): e: y",
            "flow/c(0): e: y",
            "flow/c(0): Done.",
            "flow: Done. | None | {}",
        ],
    ),
    "loop": (
        lambda: ag.loop("c", [echo("e", output_key="k")], max_iterations=2),
        [
            "flow/c(0)[0]/e: e: x",
            "flow/c(0)[1]/e: e: e: x",
            "flow: e: e: x | 'e: e: x' | {'k': 'e: e: x'}",
        ],
    ),
    "sequential": (
        lambda: ag.sequential("c", [echo("e"), chat("m", '{"n": 3}', output_schema=Found)]),
        ["flow/c(0)/e: e: x", 'flow/c(0)/m: {"n": 3}', 'flow: {"n": 3} | Found(n=3) | {}'],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_agents_of_every_kind_are_run(kind: str, disk: Disk) -> None:
    make, out = KINDS[kind]
    agent = flow(runs("c"), make())
    answers = {"boss": "yes"} if any("[asks]" in line for line in out) else {}
    assert turn(disk, agent, **answers) == out
    assert len(RAN) == len(set(RAN))


def test_a_plan_is_run() -> None:
    plan = ag.plan_execute(
        "c", planner=scripted('["y"]'), executor=echo("e"), replanner=scripted('{"answer": "All."}')
    )
    events = ag.Runner(flow(lambda ctx: str(ctx.run("c", "x")), plan)).run("Go.")
    assert lines(events)[-1] == "flow: All."


PLACES: dict[str, tuple[Any, list[str]]] = {
    "a loop": (lambda f: ag.loop("l", [f], max_iterations=2), ["l[0]/flow", "l[1]/flow"]),
    "a branch": (lambda f: ag.parallel("p", [f, echo("z")]), ["p/flow"]),
    "items": (lambda f: ag.each("i", f, lambda ctx: ["p", "q"]), ["i/flow(0)", "i/flow(1)"]),
    "a step": (lambda f: ag.workflow("w", [ag.step(f)]), ["w/flow"]),
    "a tool": (
        lambda f: ag.chat_agent(
            "c",
            scripted(AIMessage("", tool_calls=[tool_call("flow", request="x")]), "Done."),
            tools=[ag.agent_tool(f)],
        ),
        ["c/flow(0)"],
    ),
    "a function": (
        lambda f: ag.function_agent("o", lambda ctx: str(ctx.run("flow", "x")), agents=[f]),
        ["o/flow(0)"],
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_functions_run_agents_wherever_they_stand(place: str, disk: Disk) -> None:
    make, ways = PLACES[place]

    def fn(ctx: ag.Context) -> str:
        return f"{ctx.run('echo', 'one')} {ctx.run('boss', 'two')} {ctx.run('echo', 'three')}"

    agent = make(flow(fn, echo("echo"), asks("boss")))
    events = call(disk, agent, "run", "Go.", thread_id="t")
    while waiting := pending(disk, agent):
        events += call(disk, agent, "resume", "t", {waiting[-1].address: waiting[-1].address})
    for way in ways:
        assert f"{way}: echo: one {way}/boss(1) echo: three" in lines(events)
        assert RAN.count(f"{way}/echo(0)") == RAN.count(f"{way}/echo(2)") == 1


class Rounds(AgentMiddleware[Any, Any]):
    """Says a word when the agent has ended."""

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("Bye.")]}


def test_the_data_is_the_answer_whatever_hooks_say_after_it(drive: Drive) -> None:
    agent = flow(runs("c"), chat("c", '{"n": 3}', output_schema=Found, middleware=[Rounds()]))
    assert lines(drive.run(ag.Runner(agent), "Go."))[-1] == "flow: Bye. | Found(n=3) | {}"


def test_the_data_is_the_answer_after_an_until_that_had_failed(disk: Disk) -> None:
    answers = iter([ValueError("until"), True])

    def until(ctx: ag.Context) -> bool:
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    loop = ag.loop("c", [chat("m", '{"n": 3}', output_schema=Found)], max_iterations=2, until=until)
    agent = flow(runs("c"), loop)
    disk.fail(agent, "run", ValueError)
    assert lines(disk.resume(agent)) == ['flow: {"n": 3} | Found(n=3) | {}']


def test_a_reply_of_a_megabyte_is_kept(disk: Disk) -> None:
    def fn(ctx: ag.Context) -> str:
        return f"{len(ctx.run('big', 'x'))} {ctx.run('boss', 'y')}"

    agent = flow(fn, ag.function_agent("big", lambda ctx: "x" * 10**6), asks("boss"))
    assert turn(disk, agent, boss="yes")[-1] == "flow: 1000000 yes"


def test_keys_are_texts_and_whole_numbers_of_any_kind(disk: Disk) -> None:
    keys: list[Any] = ["1", 2, -3, "a/b(c)", "é" * 50, "[0]", "{1}", 10**20]

    def fn(ctx: ag.Context) -> str:
        replies = [ctx.run("echo", str(key), key=key) for key in keys]
        return f"{len(replies)} {ctx.run('boss', 'x', key='b')}"

    agent = flow(fn, echo("echo"), asks("boss"))
    assert turn(disk, agent, boss="yes")[-1] == "flow: 8 yes"
    assert len(RAN) == len(set(RAN)) == len(keys)


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        (True, "key=True is neither a text nor a whole number"),
        (b"k", "key=b'k' is neither a text nor a whole number"),
        ((1,), "key=(1,) is neither a text nor a whole number"),
        ("", "key='' is neither a text nor a whole number"),
        ("\ud800", r"key='\ud800' has a lone surrogate, which is not a character"),
    ],
)
def test_other_keys_are_refused(key: Any, fault: str) -> None:
    agent = flow(lambda ctx: str(ctx.run("echo", "x", key=key)), echo("echo"))
    with pytest.raises(ag.AgentGraphError) as caught:
        list(ag.Runner(agent).run("Go."))
    assert str(caught.value) == f"flow: ctx.run('echo'): {fault}"


def test_one_and_its_text_are_one_key() -> None:
    agent = flow(lambda ctx: [ctx.run("echo", "x", key=key) for key in ("1", 1)], echo("echo"))
    with pytest.raises(ag.AgentGraphError, match="the key 1 is used twice, by the request 'x' too"):
        list(ag.Runner(agent).run("Go."))


def test_a_function_that_runs_agents_has_no_cache_of_its_own() -> None:
    agent = flow(runs("echo"), echo("echo"), cache_policy=CachePolicy())
    with pytest.raises(ag.InvalidAgentError, match="cannot have a cache_policy=; give it to those"):
        ag.compile_agent(agent)


class Lists(TypedDict, total=False):
    found: Annotated[list[str], operator.add]


def _finds(ctx: ag.Context) -> ag.SetValues:
    return ag.SetValues(found=[ctx.messages[-1].text])


async def _slowly(ctx: ag.Context) -> ag.SetValues:
    await asyncio.sleep(0.05)
    return _finds(ctx)


def test_values_are_joined_in_the_order_of_the_calls(drive: Drive) -> None:
    """The first call ends last, and the second only after a resume."""

    async def fn(ctx: ag.Context) -> Any:
        yield ag.SetValues(found=["begin"])
        names = {"a": "slow", "b": "asked", "c": "fast"}
        await asyncio.gather(*(ctx.run(name, x) for x, name in names.items()))
        yield ag.SetValues(found=["end"])

    asked = ag.sequential("asked", [asks("boss"), ag.function_agent("then", _finds)])
    agent = flow(fn, ag.function_agent("slow", _slowly), asked, ag.function_agent("fast", _finds))
    runner = ag.Runner(agent, checkpointer=InMemorySaver(), values=Lists)
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", "b"))
    found = runner.thread("t").values["found"]
    assert found == ["begin", "a", "[boss] said: b", "c", "end"]


def test_a_later_call_sees_what_ended_calls_wrote_in_their_order(drive: Drive) -> None:
    async def fn(ctx: ag.Context) -> str:
        await asyncio.gather(ctx.run("slow", "a"), ctx.run("fast", "b"))
        return str(await ctx.run("see", "x"))

    see = ag.function_agent("see", lambda ctx: " ".join(ctx.values["found"]))
    agent = flow(fn, ag.function_agent("slow", _slowly), ag.function_agent("fast", _finds), see)
    runner = ag.Runner(agent, values=Lists, checkpointer=InMemorySaver())
    assert lines(drive.run(runner, "Go.", thread_id="t"))[-1] == "flow: a b"
    assert runner.thread("t").values["found"] == ["a", "b"]


def test_a_value_that_the_function_sets_is_in_order_with_those_of_its_calls(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> Any:
        yield ag.SetValues(e="first", own="first")
        ctx.run("echo", "x")
        yield ag.SetValues(own="second")
        ctx.run("echo", "y")
        yield ag.SetValues(last=1)

    runner = ag.Runner(flow(fn, echo("echo", output_key="e")), checkpointer=InMemorySaver())
    list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.thread("t").values == {"e": "echo: y", "own": "second", "last": 1}


def test_retries_of_the_function_and_of_what_it_runs_repeat_nothing_that_ended(drive: Drive) -> None:
    tries: list[str] = []

    def fn(ctx: ag.Context) -> str:
        one = ctx.run("echo", "one")
        tries.append(ctx.run("shaky", "x"))
        if len(tries) == 1:
            raise KeyError("own")
        return f"{one} {len(tries)}"

    policy = retrying(2, ValueError)
    agent = flow(fn, echo("echo"), fails("shaky", retry=policy), retry=retrying(2, KeyError))
    assert lines(drive.run(ag.Runner(agent), "Go.")) == [
        "flow/echo(0): echo: one",
        "flow/shaky(1): shaky",
        "flow: echo: one 2",
    ]
    assert RAN == ["flow/echo(0)"]


def test_another_request_for_a_call_that_was_in_flight_at_a_kill_is_an_error(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(PROGRAM), str(tmp_path / "t.db"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("die", "one").returncode == -signal.SIGKILL
    was = "flow: its call 0 was ctx.run('team', 'one') before the resume, and is ctx.run('team', 'two')"
    assert run("live", "two").stdout.splitlines()[-1].startswith(was)
    assert run("live", "one").stdout.splitlines()[-1] == "flow: after [first] said: die: one"
