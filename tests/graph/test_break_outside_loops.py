"""`BreakLoop` of a function outside every loop: its agent fails, or ends if it runs alone."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from helpers import Drive, chat, failing, lines, says

import agentgraph as ag
from agentgraph.testing import call, calls


def plain(ctx: ag.Context) -> str | ag.BreakLoop:
    return ag.BreakLoop()


def generator(ctx: ag.Context) -> Iterator[str | ag.BreakLoop]:
    yield "Fine."
    yield ag.BreakLoop()


async def coroutine(ctx: ag.Context) -> list[str | ag.BreakLoop]:
    return ["Fine.", ag.BreakLoop()]


async def async_generator(ctx: ag.Context) -> AsyncIterator[str | ag.BreakLoop]:
    yield ag.BreakLoop()


FUNCTIONS = [plain, generator, coroutine, async_generator]
PLACES: dict[str, tuple[Callable[[ag.Agent], ag.Agent], str]] = {
    "sequential": (lambda agent: ag.sequential("s", [agent, says("z")]), "s/critic"),
    "after a loop": (
        lambda agent: ag.sequential("s", [ag.loop("l", [says("a")], max_iterations=1), agent]),
        "s/critic",
    ),
    "branch": (lambda agent: ag.parallel("p", [agent, says("z")]), "p/critic"),
    "item": (lambda agent: ag.each("e", agent, lambda ctx: [1]), "e/critic(0)"),
    "step": (lambda agent: ag.workflow("w", [agent]), "w/critic"),
    "case": (lambda agent: ag.switch("r", lambda ctx: 1, {1: agent}), "r/critic"),
    "swarm": (lambda agent: ag.swarm("t", [agent, says("z")]), "t[0]/critic"),
    "target": (
        lambda agent: chat("c", calls(call("transfer_to_critic")), sub_agents=[agent]),
        "c[1]/critic",
    ),
}


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("where", PLACES)
def test_the_agent_fails(drive: Drive, where: str, fn: Any) -> None:
    make, address = PLACES[where]
    runner = ag.Runner(make(ag.function_agent("critic", fn)))
    events, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.AgentGraphError)
    assert f"{address}: the function returned BreakLoop(), but no loop is around it" in str(error)
    assert [each.address for each in events if each.kind == "error"] == [address]
    assert "break_loop" not in [each.kind for each in events]


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_alone_it_ends_the_run(drive: Drive, fn: Any) -> None:
    runner = ag.Runner(ag.function_agent("critic", fn))
    said = lines(drive.run(runner, "Go.", thread_id="t"))
    assert [each for each in said if "Fine" not in each] == ["critic: [break_loop]"]
    assert runner.thread("t").status == "done"
    assert lines(drive.run(runner, "Again.", thread_id="t")) == said


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_as_a_tool_it_ends_the_call(drive: Drive, fn: Any) -> None:
    critic = ag.function_agent("critic", fn, description="Judges.")
    boss = chat("boss", calls(call("critic", request="?")), "Done.", tools=[ag.agent_tool(critic)])
    said = lines(drive.run(ag.Runner(ag.sequential("s", [boss, says("z")])), "Go."))
    assert "s/boss/critic(0): [break_loop]" in said
    assert said[-2:] == ["s/boss: Done.", "s/z: z"]


def test_inside_a_tool_it_fails_the_call(drive: Drive) -> None:
    inner = ag.sequential("inner", [ag.function_agent("critic", plain), says("z")])
    boss = chat("boss", calls(call("inner", request="?")), "Done.", tools=[ag.agent_tool(inner)])
    said = lines(drive.run(ag.Runner(ag.sequential("s", [boss])), "Go."))
    assert any("but no loop is around it" in each for each in said)
    assert said[-1] == "s/boss: Done."


def test_inside_a_tool_it_ends_no_loop_around_the_caller(drive: Drive) -> None:
    inner = ag.sequential("inner", [ag.function_agent("critic", plain), says("z")])
    boss = chat("boss", *[calls(call("inner", request="?")), "Done."] * 2, tools=[ag.agent_tool(inner)])
    said = lines(drive.run(ag.Runner(ag.loop("l", [boss], max_iterations=2)), "Go."))
    assert "l[0]/boss/inner(0)/z: z" in said
    assert said[-1] == "l[1]/boss: Done."


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_inside_a_loop_it_ends_the_loop(drive: Drive, fn: Any) -> None:
    critic = ag.function_agent("critic", fn)
    bodies: list[ag.Agent] = [critic, ag.parallel("p", [critic]), ag.each("e", critic, lambda ctx: [1])]
    for body in bodies:
        tree = ag.sequential("s", [ag.loop("l", [body, says("never")], max_iterations=2), says("z")])
        said = lines(drive.run(ag.Runner(tree), "Go."))
        assert said[-1] == "s/z: z"
        assert not any("never" in each for each in said)
