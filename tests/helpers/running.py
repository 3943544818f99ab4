"""Functions that run agents, for tests: an agent that counts how often it runs, and turns on a file."""

import asyncio
from collections.abc import Callable
from typing import Any

import agentgraph as ag
from helpers import Disk, check_heard, fresh, lines

Function = Callable[[ag.Context], Any]


def echo(name: str, **options: Any) -> ag.Agent:
    """Return an agent that says what it is asked, and counts in `ran` how often it runs."""

    def fn(ctx: ag.Context) -> str:
        RAN.append(ctx.address)
        return f"{name}: {ctx.messages[-1].text}"

    return ag.function_agent(name, fn, **options)


RAN: list[str] = []


def flow(fn: Function, *agents: ag.Agent, **options: Any) -> ag.Agent:
    return ag.function_agent("flow", fn, agents=agents, **options)


def call(disk: Disk, agent: ag.Agent, method: str, *args: Any, **options: Any) -> Any:
    return fresh(disk.drive, disk.path, agent, method, *args, **options)


def pending(disk: Disk, agent: ag.Agent) -> list[ag.Interrupt]:
    with ag.sqlite_saver(disk.path) as saver:
        return ag.Runner(agent, checkpointer=saver).pending("t")


def turn(disk: Disk, agent: ag.Agent, **answers: Any) -> list[str]:
    """Run a turn, answer its questions by address (`__` for `/`), one at a time; return all lines."""
    events = call(disk, agent, "run", "Go.", thread_id="t")
    for answer in answers.values():
        question = pending(disk, agent)[0]
        events += call(disk, agent, "resume", "t", {question.address: answer})
    check_heard(events, call(disk, agent, "events", "t"))
    return lines(events)


def gathering(name: str, *requests: str) -> Callable[[ag.Context], Any]:
    """Return a coroutine function that runs an agent for all requests at once, each with its key."""

    async def fn(ctx: ag.Context) -> str:
        return " ".join(await asyncio.gather(*(ctx.run(name, each, key=each) for each in requests)))

    return fn


def catching(name: str, then: str) -> Callable[[ag.Context], str]:
    """Return a function that runs an agent, and another one after its failure."""

    def fn(ctx: ag.Context) -> str:
        try:
            return str(ctx.run(name, "x"))
        except ValueError as error:
            return f"{error}: {ctx.run(then, 'y')}"

    return fn
