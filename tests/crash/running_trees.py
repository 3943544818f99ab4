"""Trees with functions that run agents: in a row, gathered, with keys, questions, failures."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from campaign import World, called, chain, fails, for_call, leaf

import agentgraph as ag

Build = Callable[[World], ag.Agent]
TOLD = "the function is told"
"""The effect of a function that catches what is nobody's failure."""


def flow(fn: Callable[[ag.Context], Any], *agents: ag.Agent) -> ag.Agent:
    return ag.function_agent("flow", fn, agents=agents)


def in_a_row(world: World) -> ag.Agent:
    """Return a function whose calls come one after the other, some with a key."""

    def fn(ctx: ag.Context) -> str:
        try:
            one = ctx.run("x", "One.")
            two = ctx.run("y", f"After {one}.", key="a/b")
            three = ctx.run("x", f"After {two}.")
        except Exception:
            world.add(TOLD)
            raise
        return f"{one}, {two}, {three}: {world.add('flow')}"

    return chain(world, flow(fn, called("x", world), called("y", world)))


def yielding(world: World) -> ag.Agent:
    """Return a function that says something and sets values between its calls."""

    def fn(ctx: ag.Context) -> Iterator[str | ag.SetValues]:
        yield "flow begins"
        one = ctx.run("x", "One.")
        yield ag.SetValues(one=one, data=one.data)
        yield f"{one}, {ctx.run('y', 'Two.', key=2)}"

    inner = ag.sequential("x", [leaf("x1", world, output_key="x1"), leaf("x2", world, output_key="x2")])
    return chain(world, flow(fn, inner, called("y", world)))


async def _gathered(ctx: ag.Context) -> str:
    return " | ".join(await asyncio.gather(*(ctx.run("x", each, key=each) for each in ("a", "b/c"))))


def gathered(world: World) -> ag.Agent:
    return chain(world, flow(_gathered, called("x", world)))


def told_nothing(world: World) -> ag.Agent:
    """Return a function that would catch whatever fails in one of its calls side by side."""

    async def fn(ctx: ag.Context) -> AsyncIterator[str]:
        yield "flow begins"
        calls = (ctx.run(name, "Go.") for name in ("x", "y"))
        for each in await asyncio.gather(*calls, return_exceptions=True):
            yield world.add(TOLD) if isinstance(each, Exception) else str(each)

    return chain(world, flow(fn, called("x", world), called("y", world)))


def caught(world: World) -> ag.Agent:
    """Return a function that catches the failure of a call, and makes another one."""

    async def fn(ctx: ag.Context) -> str:
        one = await ctx.run("x", "One.")
        try:
            await ctx.run("y", "Two.")
        except ValueError as error:
            return f"{one}, {error}, {await ctx.run('x', 'Three.', key=3)}"
        return "never"

    inner = ag.sequential("y", [for_call("y1", world), fails("never")])
    return chain(world, flow(fn, called("x", world), inner))


def nested(world: World) -> ag.Agent:
    """Return a function that runs another one and a fork, beside a branch."""

    def outer(ctx: ag.Context) -> str:
        return f"{ctx.run('flow', 'Look.')} {ctx.run('fork_inner', 'Look.')}"

    inner = ag.parallel("fork_inner", [called("y", world), for_call("z", world)])
    made = ag.function_agent("outer", outer, agents=[flow(_gathered, called("x", world)), inner])
    return chain(world, ag.parallel("fork", [made, leaf("beside", world)]))


def for_items(world: World) -> ag.Agent:
    """Return an each whose worker is a function that runs an agent."""

    def fn(ctx: ag.Context) -> str:
        return f"{ctx.run('x', ctx.item.value)}, {ctx.run('x', 'Again.', key='k')}"

    worker = flow(fn, called("x", world))
    return chain(world, ag.each("files", worker, lambda ctx: ["a", "b"], key=str, output_key="out"))


def asking(world: World) -> ag.Agent:
    """Return a function one of whose calls asks while another goes on, and which asks itself after."""

    def ask(ctx: ag.Context) -> Any:
        return ag.Ask("Go on?") if ctx.messages[-1].text == "b/c" and not ctx.answered else "goes on"

    async def fn(ctx: ag.Context) -> Any:
        said = await _gathered(ctx)
        if not ctx.answered:
            return ag.Ask(f"Print {said}?")
        return f"{said}, {ctx.answer}, {await ctx.run('y', 'Last.')}"

    asks = ag.function_agent("chief", ask, history="input")
    inner = ag.sequential("x", [asks, called("w", world)])
    return chain(world, flow(fn, inner, called("y", world)))


RUNNING: dict[str, Build] = {
    "runs in a row": in_a_row,
    "runs yielding": yielding,
    "runs gathered": gathered,
    "runs told nothing": told_nothing,
    "runs caught": caught,
    "runs nested": nested,
    "runs for items": for_items,
    "runs asking": asking,
}
