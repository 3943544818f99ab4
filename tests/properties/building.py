"""Specs built as agents, which record what they see."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, reduce
from operator import add, or_
from typing import Annotated, Any

import scripts
import specs
from foreign import graph_agent
from helpers import last
from lanes import ADDED
from langchain.tools import ToolRuntime
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import interrupt
from middlewares import middleware
from pydantic import BaseModel
from record import FailedError, Record, steps
from typing_extensions import TypedDict

import agentgraph as ag


def build(tree: specs.Spec, record: Record) -> ag.Agent:
    """Return the agents of a tree; what they see goes to `record`."""
    built: dict[Any, ag.Agent] = {}

    def agent(spec: specs.Spec) -> ag.Agent:
        if (key := (type(spec), spec.name)) not in built:
            inner = [agent(child) for child in specs.inside(spec)]
            built[key] = _agent(spec, inner, record)
        return built[key]

    return agent(tree)


def declared(tree: specs.Spec) -> Any:
    """Return how the values of a tree are declared: one is added to, of others the last counts."""
    options = ("output_key", "errors_key")
    keys = {getattr(spec, each, None) for spec in specs.walk(tree) for each in options} - {None}
    names = dict.fromkeys(("y", "z", *sorted(keys)), Annotated[Any, last])
    return TypedDict("Values", {**names, ADDED: Annotated[str, add]})


def _agent(spec: specs.Spec, inner: list[ag.Agent], record: Record) -> ag.Agent:
    match spec:
        case specs.Sequential():
            return ag.sequential(spec.name, inner)
        case specs.Parallel():
            options = {"max_concurrency": spec.max_concurrency, "on_error": spec.on_error}
            return ag.parallel(spec.name, inner, **options)
        case specs.Checked():
            return ag.validated(*inner, _check(spec, record), max_attempts=spec.refusals + 1)
        case specs.Workflow():
            steps = [_step(step, agent) for step, agent in zip(spec.steps, inner, strict=True)]
            return ag.workflow(spec.name, steps, on_error=spec.on_error)
        case specs.Loop():
            until = spec.until and (lambda ctx: record.until(spec, ctx))
            return ag.loop(spec.name, inner, max_iterations=spec.max_iterations, until=until)
        case specs.Switch() | specs.Swarm():
            return _chosen(spec, inner, record)
        case specs.Each():
            return _each(spec, *inner, record)
        case specs.Flow():
            fn, key = _flow(spec), spec.output_key
            return ag.function_agent(spec.name, fn, agents=inner, output_key=key)
        case specs.Human():
            timed = {"timeout": record.patience, "default": scripts.IN_TIME}
            options = timed if scripts.is_timed(spec.name) else {}
            return ag.human(spec.name, spec.prompt, output_key=spec.output_key, **options)
    history = _entries if spec.history == "entries" else spec.history
    known = {"output_key": spec.output_key, "history": history}
    if isinstance(spec, specs.Chat):
        return _chat(spec, inner, record, known)
    if spec.is_graph:
        return graph_agent(spec, record, known)
    return ag.function_agent(spec.name, _fn(spec, record), **known)


def _flow(spec: specs.Flow) -> Callable[[ag.Context], Any]:
    """Return a function that makes the calls."""
    made = [
        (spec.agents[i][0].name, f"Call {n}", f"k{n}" if keyed else None)
        for n, (i, keyed) in enumerate(spec.calls)
    ]

    def flow(ctx: ag.Context) -> str:
        return " | ".join(ctx.run(name, request, key=key) for name, request, key in made)

    async def async_flow(ctx: ag.Context) -> str:
        return " | ".join([await ctx.run(name, request, key=key) for name, request, key in made])

    async def gathered(ctx: ag.Context) -> str:
        calls = (ctx.run(name, request, key=key) for name, request, key in made)
        return " | ".join(await asyncio.gather(*calls))

    return {"function": flow, "async function": async_flow, "gathered": gathered}[spec.kind]


def _chosen(spec: specs.Switch | specs.Swarm, inner: list[ag.Agent], record: Record) -> ag.Agent:
    if isinstance(spec, specs.Swarm):
        start = inner[spec.start].name
        return ag.swarm(spec.name, inner, start=start, sticky=spec.sticky)
    signals = {"skip": ag.SKIP, "break_loop": ag.BreakLoop(), "exit": ag.Exit()}
    ways = [inner[way] if isinstance(way, int) else signals[way] for way in spec.ways]
    if spec.by == "value":
        return ag.switch(spec.name, "y", {"": ways[0]}, otherwise=ways[1])
    return ag.switch(spec.name, lambda ctx: record.chooses(spec, ctx), dict(enumerate(ways)))


def _each(spec: specs.Each, agent: ag.Agent, record: Record) -> ag.Agent:
    kind, what = spec.over
    asked = {"template": scripts.ITEM.format(spec.as_), "function": scripts.asked_for}
    return ag.each(
        spec.name,
        agent,
        what if kind == "value" else lambda ctx: record.lists(spec, ctx),
        as_=spec.as_,
        key=scripts.key_of if spec.shape == "keys" else None,
        input=asked[spec.input] if spec.input else None,
        max_concurrency=spec.max_concurrency,
        on_error=spec.on_error,
        output_key=spec.output_key,
        errors_key=spec.errors_key,
        output_mode=spec.output_mode,
    )


def _check(spec: specs.Checked, record: Record) -> Callable[[ag.Context, str], str | None]:
    def check(ctx: ag.Context, text: str) -> str | None:
        record.passed.look("border", ctx)
        sent_back = sum(map(int, re.findall(r"\{(\d+)\}(?:\[[\d.]+\])?$", ctx.address)))
        return scripts.refusal(ctx.address, text) if sent_back < spec.refusals else None

    return check


def _step(step: specs.Step, agent: ag.Agent) -> Any:
    asked = step.input and step.input.replace("$", f"${{results.{step.depends_on[0]}}}")
    when = step.when and (lambda ctx: scripts.runs(step, ctx.values, ctx.messages))
    return ag.step(agent, depends_on=step.depends_on, input=asked, when=when)


def _chat(spec: specs.Chat, inner: list[ag.Agent], record: Record, known: dict[str, Any]) -> ag.Agent:
    subs = len(spec.sub_agents)
    histories = [history for _, history in spec.agents]
    agents = [ag.agent_tool(a, history=h) for a, h in zip(inner[subs:], histories, strict=True)]
    return ag.chat_agent(
        spec.name,
        record.model(spec),
        instruction=spec.instruction,
        tools=[*(_tool(name, spec, record) for name in spec.tools), *agents],
        sub_agents=inner[:subs],
        sub_agents_return=spec.sub_agents_return,
        peers=spec.peers,
        sticky=spec.sticky,
        max_iterations=spec.max_iterations,
        on_max_iterations="answer",
        return_directly=spec.return_directly,
        exit_tool=spec.exit_tool,
        break_tool=spec.break_tool,
        approve=spec.approve,
        approve_timeout=record.patience if spec.approve and scripts.is_timed(spec.name) else None,
        parallel_tools=spec.parallel_tools,
        on_tool_error=spec.on_tool_error,
        middleware=[middleware(each, record) for each in spec.middleware],
        model_input=lambda ctx, sent: record.asks(spec, ctx, sent),
        **known,
    )


class Arguments(BaseModel):
    """The arguments of each tool: a model of them that is made once, as it takes long."""

    at: str
    n: int
    i: int
    does: list[Any]


def _tool(name: str, spec: specs.Chat, record: Record) -> BaseTool:
    def say(at: str, n: int, i: int, does: list[Any], ctx: ag.Context) -> str:
        return done(ctx, at=at, n=n, i=i, does=does)

    def act(at: str, n: int, i: int, does: list[Any], ctx: ag.Context, runtime: ToolRuntime):
        record.passed.see("wrap", runtime.context, runtime.store, runtime.config)
        return done(ctx, at=at, n=n, i=i, does=does)

    async def acts(at: str, n: int, i: int, does: list[Any], ctx: ag.Context, runtime: ToolRuntime):
        record.passed.see("wrap", runtime.context, runtime.store, runtime.config)
        return done(ctx, at=at, n=n, i=i, does=does)

    def done(ctx: ag.Context, **args: Any) -> Any:
        record.passed.look("tool", ctx)
        given, answers = [], []
        for kind, data in args["does"]:
            if kind == "interrupted":
                answers.append(interrupt(data))
            elif kind != "error":
                given.append(_given((kind, data)))
            elif spec.on_tool_error == "return":
                record.ends(args)
                raise FailedError(data)
            elif record.is_first(args):
                raise FailedError(data)
        record.ends(args)
        return given or scripts.result(name, args, answers)

    sync, with_async = {"say": (say, None), "act": (act, acts)}[name]
    return StructuredTool.from_function(
        sync, with_async, name=name, description="Does it.", args_schema=Arguments
    )


def _fn(leaf: specs.Function, record: Record) -> Callable[[ag.Context], Any]:
    given = partial(_given, patience=record.patience)

    def function(ctx):
        with record.calling(leaf, ctx) as items:
            _block(leaf)
            return next(map(given, items), None)

    async def async_function(ctx):
        with record.calling(leaf, ctx) as items:
            _block(leaf)
            return next(map(given, items), None)

    def generator(ctx):
        with record.calling(leaf, ctx) as items:
            for item in items:
                _block(leaf)
                yield given(item)

    async def async_generator(ctx):
        with record.calling(leaf, ctx) as items:
            for item in items:
                _block(leaf)
                yield given(item)

    kinds = (function, generator, async_function, async_generator)
    fn = next(fn for fn in kinds if fn.__name__ == leaf.kind.replace(" ", "_"))
    if leaf.annotated:
        fn.__annotations__["return"] = _annotation(leaf)
    return fn


def _block(leaf: specs.Function) -> None:
    """Take time, in coroutines too: one that waits is cancelled where a sibling fails."""
    if leaf.seconds:
        time.sleep(leaf.seconds)


def _annotation(leaf: specs.Function) -> Any:
    """Return an annotation that names what the scripts give, and nothing else."""
    calls = [call for script in leaf.scripts for call in script]
    items = [item for call in calls for item in call.items if item[0] != "error"]
    given = [type(_given(item, 1.0)) for item in items] or [str]
    if "generator" in leaf.kind:
        return (AsyncIterator if "async" in leaf.kind else Iterator)[reduce(or_, given)]
    return reduce(or_, given if all(call.items for call in calls) else [*given, None])


def _given(item: specs.Item, patience: float | None = None) -> Any:
    match item:
        case ("message", ("ai", text, _)):
            return text
        case ("message", (_, text, _)):
            return HumanMessage(text)
        case ("custom", data):
            return ag.Custom(data)
        case ("values", values):
            return ag.SetValues(**values)
        case ("interrupted", {"timed": True, "of": [address]} as value):
            return ag.Ask(value, timeout=patience, default=scripts.answer(address, value))
        case ("interrupted", value):
            return ag.Ask(value)
        case ("exit", _):
            return ag.Exit()
        case ("break_loop", _):
            return ag.BreakLoop()
        case (_, text):
            raise FailedError(text)


def _entries(entries: list[ag.Entry]) -> list[BaseMessage]:
    return [
        HumanMessage(f"{e.agent_name} at {e.address} by {steps(e.run_path)}: {e.message.text}")
        for e in entries
    ]
