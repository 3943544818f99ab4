"""Trees in which one call fails once: each site is a place where users' code runs."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired

from campaign import World, caller, chain, leaf, model
from kinds import Fault, is_ordinary, is_verdict, never
from langchain.agents.middleware import AgentMiddleware, AgentState, ToolRetryMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

import agentgraph as ag
from agentgraph.testing import call, calls

Build = Callable[[Fault, World], ag.Agent]
SHAPES = ("plain", "coroutine")
BAD = "bad"
"""The effect that is done after the fault."""


@dataclass(frozen=True)
class Site:
    """A tree in which one call fails once.

    Attributes:
        build: Makes the tree.
        absorbs: Whether the run goes on in spite of an exception.
        instead: What is done how often where it does, if not once.
        wraps: The error of ours that an ordinary exception is wrapped in.
        free: Effects that need not be done, though never twice.
        garbles: Whether LangChain makes another error of one that is not an `Exception`.
    """

    build: Build
    absorbs: Callable[[BaseException], bool] = never
    instead: Mapping[str, int] = field(default_factory=dict)
    wraps: type[BaseException] | None = None
    free: frozenset[str] = frozenset()
    garbles: bool = False


def function(shape: str, **options: Any) -> Build:
    return lambda fault, world: chain(world, leaf(BAD, world, fault, shape, **options))


def branch(on_error: str, shape: str) -> Build:
    """Return a parallel of a branch that fails, and one that ends after that."""

    def build(fault: Fault, world: World) -> ag.Agent:
        beside = leaf("beside", world, lambda: fault.over.wait(10))
        failing = ag.sequential("x", [leaf("before", world), leaf(BAD, world, fault, shape)])
        return chain(world, ag.parallel("fork", [failing, beside], on_error=on_error))

    return build


def item(on_error: str, shape: str) -> Build:
    """Return an each whose only item fails."""

    def build(fault: Fault, world: World) -> ag.Agent:
        failing = ag.sequential("x", [leaf("before", world), leaf(BAD, world, fault, shape)])
        return chain(world, ag.each("files", failing, lambda ctx: ["a"], on_error=on_error))

    return build


def running(shape: str) -> Build:
    """Return a function that runs agents, and fails after its first call."""

    def build(fault: Fault, world: World) -> ag.Agent:
        def plain(ctx: ag.Context) -> str:
            one = ctx.run("x", "One.")
            fault()
            return f"{world.add(BAD)}: {one}, {ctx.run('y', 'Two.', key='k')}"

        async def coroutine(ctx: ag.Context) -> str:
            one = await ctx.run("x", "One.")
            fault()
            return f"{world.add(BAD)}: {one}, {await ctx.run('y', 'Two.', key='k')}"

        fn = {"plain": plain, "coroutine": coroutine}[shape]
        return chain(world, ag.function_agent("flow", fn, agents=[leaf("x", world), leaf("y", world)]))

    return build


def called(shape: str, *, catches: bool = False) -> Build:
    """Return a function that runs an agent that fails, between others; it may catch that."""

    def build(fault: Fault, world: World) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            one = ctx.run("x", "One.")
            try:
                two = str(ctx.run("failing", "Two."))
            except Exception as error:
                if not catches:
                    raise
                two = type(error).__name__
            return f"{one}, {two}, {ctx.run('y', 'Three.')}"

        failing = ag.sequential("failing", [leaf("before", world), leaf(BAD, world, fault, shape)])
        agents = [leaf("x", world), failing, leaf("y", world)]
        return chain(world, ag.function_agent("flow", fn, agents=agents))

    return build


def gathered(fault: Fault, world: World) -> ag.Agent:
    """Return a function that runs agents at the same time, one of which fails."""

    async def fn(ctx: ag.Context) -> str:
        calls = (ctx.run(name, "Go.", key=name) for name in ("failing", "beside"))
        return ", ".join(await asyncio.gather(*calls))

    beside = leaf("beside", world, lambda: fault.over.wait(10))
    failing = ag.sequential("failing", [leaf("before", world), leaf(BAD, world, fault)])
    return chain(world, ag.function_agent("flow", fn, agents=[failing, beside]))


def nested(fault: Fault, world: World) -> ag.Agent:
    inner = ag.parallel("fork_inner", [leaf(BAD, world, fault), leaf("near", world)])
    return chain(world, ag.parallel("fork", [inner, leaf("far", world)]))


def step(fault: Fault, world: World) -> ag.Agent:
    steps = [
        leaf("find", world),
        leaf("beside", world),
        ag.step(leaf(BAD, world, fault), depends_on=["find"]),
        ag.step(leaf("write", world), depends_on=[BAD]),
    ]
    return chain(world, ag.workflow("fork", steps))


def hook(make: Callable[[World, Callable[..., Any]], ag.Agent], gives: Any = None) -> Build:
    """Return a tree with a function that fails once, and then counts, and gives something."""

    def build(fault: Fault, world: World) -> ag.Agent:
        def called(*args: Any) -> Any:
            fault()
            world.add(BAD)
            return gives(*args) if callable(gives) else gives

        return chain(world, make(world, called))

    return build


def until(world: World, hook: Callable[..., Any]) -> ag.Agent:
    return ag.loop("l", [leaf("body", world)], max_iterations=3, until=hook)


def switch(world: World, hook: Callable[..., Any]) -> ag.Agent:
    return ag.switch("path", hook, {True: leaf("body", world)})


def each(option: str) -> Callable[[World, Callable[..., Any]], ag.Agent]:
    """Return an each that calls a hook by an option, as its items, a key, an input or its worker."""

    def made(world: World, hook: Callable[..., Any]) -> ag.Agent:
        options = {"over": lambda ctx: ["a"], option: hook}
        return ag.each("files", options.pop("agent", leaf("body", world)), **options)

    return made


def when(world: World, hook: Callable[..., Any]) -> ag.Agent:
    return ag.workflow("fork", [ag.step(leaf("body", world), when=hook)])


def writer(world: World, **options: Any) -> ag.Agent:
    return ag.chat_agent("writer", model(lambda sent: world.add("body")), **options)


def on_tool_error(world: World, hook: Callable[..., Any]) -> ag.Agent:
    def work() -> str:
        """Fail."""
        raise ValueError("It always fails.")

    def response(sent: Any) -> Any:
        return "All is done." if isinstance(sent[-1], ToolMessage) else calls(call("work"))

    return ag.chat_agent("writer", model(response), tools=[work], on_tool_error=hook)


def planner(world: World, hook: Callable[..., Any]) -> ag.Agent:
    return ag.plan_execute(
        "pe",
        planner=ag.function_agent("planner", hook),
        executor=leaf("executor", world),
        replanner=ag.function_agent("replanner", lambda ctx: None),
    )


def messages_of(entries: Any) -> Any:
    return [entry.message for entry in entries]


def idle() -> str:
    """Do nothing."""
    return "idle"


def named(name: str, **methods: Any) -> AgentMiddleware[Any, Any, Any]:
    return type(name, (AgentMiddleware,), methods)()


def hook_of_middleware(name: str) -> Build:
    """Return a chat agent with a tool; a hook of its middleware fails."""

    def build(fault: Fault, world: World) -> ag.Agent:
        def asked(messages: Any) -> Any:
            world.add("asked")
            return messages

        stack = [named("Failing", **{name: lambda self, state, runtime: fault()})]
        return chain(world, caller([idle], "idle", middleware=stack, model_input=asked))

    return build


class Rounds(AgentState[Any]):
    """Counts how often a middleware was called."""

    rounds: NotRequired[int]


def middleware_state(lane: str, name: str) -> Build:
    """Return an agent whose hook fails, between others that keep state and edits, and replace words."""

    def build(fault: Fault, world: World) -> ag.Agent:
        def count(self: Any, state: Any, runtime: Any) -> Any:
            rounds = state.get("rounds", 0) + 1
            return {"rounds": rounds, "messages": [HumanMessage(f"round {rounds}")]}

        def loud(self: Any, state: Any, runtime: Any) -> Any:
            last = state["messages"][-1]
            return {"messages": [last.model_copy(update={"content": f"{last.text}!"})]}

        def sum_up(self: Any, state: Any, runtime: Any) -> None:
            seen = [each.text for each in state["messages"] if each.text.startswith("round")]
            world.add(f"{state['rounds']} rounds: {', '.join(seen)}")

        counting = {"state_schema": Rounds, "before_model": count, "after_agent": sum_up}
        stack = [
            named("Failing", **{name: lambda self, state, runtime: fault()}),
            named("Keeping", **counting, after_model=loud),
            named("Inner", **{name: lambda *_: None}),
        ]
        inner = caller([idle], "idle", name="inner", middleware=stack)
        if lane == "branch":
            return chain(world, ag.parallel("fork", [inner, leaf("beside", world)]))
        return chain(world, caller([ag.agent_tool(inner)], "inner", name="boss", on_tool_error="raise"))

    return build


def wrap_of_middleware(name: str) -> Build:
    """Return a chat agent with a tool; a wrap of its middleware fails, before what it wraps."""

    def build(fault: Fault, world: World) -> ag.Agent:
        def wrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
            fault()
            return handler(request)

        async def awrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
            fault()
            return await handler(request)

        def work() -> str:
            """Work."""
            return world.add("work")

        stack = [named("Failing", **{name: wrap, f"a{name}": awrap})]
        return chain(world, caller([work], "work", middleware=stack, on_tool_error="raise"))

    return build


def tool(
    on_error: str, *, is_async: bool = False, is_retried: bool = False, parallel: bool = True
) -> Build:
    """Return a chat agent that calls two tools at once; one fails, and is called until it works.

    One that is retried LangChain tries twice.
    """

    def build(fault: Fault, world: World) -> ag.Agent:
        def work() -> str:
            """Work."""
            fault()
            return world.add(BAD)

        async def awork() -> str:
            """Work."""
            return work()

        def other() -> str:
            """Do something else."""
            return world.add("other")

        failing: Any = langchain_tool("work")(awork if is_async else work)
        if is_retried:
            failing = failing.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        options = {"on_tool_error": on_error, "parallel_tools": parallel}
        return chain(world, caller([failing, other], "work", "other", **options))

    return build


def agent_tool(on_error: str, **options: Any) -> Build:
    def build(fault: Fault, world: World) -> ag.Agent:
        inner = ag.sequential("inner", [leaf("begins", world), leaf(BAD, world, fault)])
        return chain(world, caller([ag.agent_tool(inner)], "inner", on_tool_error=on_error, **options))

    return build


def foreign(where: str, *, flat: bool = False) -> Build:
    """Return a graph of somebody else's; its second node fails, or what makes its input."""

    def build(fault: Fault, world: World) -> ag.Agent:
        def one(state: Any) -> Any:
            return {"messages": [AIMessage(world.add("one"))]}

        def two(state: Any) -> Any:
            if where == "node":
                fault()
            return {"messages": [AIMessage(world.add(BAD))]}

        def given(ctx: ag.Context) -> dict[str, Any]:
            fault()
            return {"messages": ctx.messages}

        builder = StateGraph(MessagesState).add_node("one", one).add_node("two", two)
        graph = builder.add_edge(START, "one").add_edge("one", "two").compile()
        made = ag.graph_agent("made", graph, input=given if where == "input" else None, flat=flat)
        return chain(world, made)

    return build


RETRY = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Exception)
RUN_AGAIN = ToolRetryMiddleware(
    max_retries=1, retry_on=(Exception,), on_failure="error", initial_delay=0.0
)
LOST = {BAD: 0}
TWICE = {"begins": 2}
FREE = frozenset({BAD, "before", "beside"})

SITES: dict[str, Site] = {
    **{f"{shape} function": Site(function(shape)) for shape in (*SHAPES, "generator", "stream")},
    **{
        f"{shape} alone": Site(lambda fault, world, shape=shape: leaf(BAD, world, fault, shape))
        for shape in SHAPES
    },
    **{f"retried {each}": Site(function(each, retry=RETRY), is_ordinary) for each in SHAPES},
    **{
        f"branch {on_error} {shape}": Site(branch(on_error, shape))
        for on_error in ("fail", "wait")
        for shape in SHAPES
    },
    **{f"branch collect {each}": Site(branch("collect", each), is_ordinary, LOST) for each in SHAPES},
    **{
        f"branch first {each}": Site(branch("first", each), is_ordinary, LOST, free=FREE)
        for each in SHAPES
    },
    "nested branch": Site(nested),
    **{f"runs {each}": Site(running(each)) for each in SHAPES},
    **{f"is run {each}": Site(called(each)) for each in SHAPES},
    **{
        f"is run and caught {each}": Site(called(each, catches=True), is_ordinary, LOST)
        for each in SHAPES
    },
    "is run beside another": Site(gathered),
    "step": Site(step, wraps=ag.StepFailedError),
    "until": Site(hook(until, gives=True)),
    "choose": Site(hook(switch, gives=True)),
    "over": Site(hook(each("over"), gives=lambda ctx: ["a"])),
    "key of an item": Site(hook(each("key"), gives="k")),
    "input of an item": Site(hook(each("input"), gives="Go.")),
    **{
        f"item {on_error} {shape}": Site(item(on_error, shape))
        for on_error in ("fail", "wait")
        for shape in SHAPES
    },
    **{f"item collect {shape}": Site(item("collect", shape), is_ordinary, LOST) for shape in SHAPES},
    "when": Site(hook(when, gives=True), wraps=ag.StepFailedError),
    "until in a branch": Site(
        hook(lambda w, f: ag.parallel("fork", [until(w, f), leaf("beside", w)]), gives=True)
    ),
    "check": Site(hook(lambda w, f: ag.validated(leaf("body", w), f)), is_verdict, {"body": 2}),
    "check of a model": Site(hook(lambda w, f: ag.validated(writer(w), f)), is_verdict, {"body": 2}),
    "history": Site(hook(lambda w, f: writer(w, history=f), messages_of)),
    "history of a function": Site(
        hook(
            lambda w, f: ag.function_agent("reads", lambda ctx: str(ctx.messages), history=f),
            messages_of,
        )
    ),
    "model_input": Site(
        hook(lambda w, f: writer(w, model_input=lambda sent: f(sent)), lambda sent: sent)
    ),
    "model": Site(hook(lambda w, f: ag.chat_agent("writer", model(f)), "ok"), garbles=True),
    **{
        name: Site(hook_of_middleware(name))
        for name in ("before_agent", "before_model", "after_model", "after_agent")
    },
    **{
        f"middleware state, {lane} {name}": Site(middleware_state(lane, name))
        for lane in ("branch", "tool")
        for name in ("after_model", "after_agent")
    },
    **{wrap: Site(wrap_of_middleware(wrap)) for wrap in ("wrap_model_call", "wrap_tool_call")},
    "tool return": Site(tool("return"), is_ordinary),
    "tool raise": Site(tool("raise")),
    "async tool return": Site(tool("return", is_async=True), is_ordinary),
    "async tool raise": Site(tool("raise", is_async=True)),
    "tool in order": Site(tool("raise", parallel=False)),
    "agent tool return": Site(agent_tool("return"), is_ordinary, TWICE),
    "agent tool raise": Site(agent_tool("raise")),
    "retried agent tool": Site(agent_tool("raise", middleware=[RUN_AGAIN]), is_ordinary, TWICE),
    "retried tool": Site(tool("raise", is_retried=True), is_ordinary),
    "retried async tool": Site(tool("raise", is_async=True, is_retried=True), is_ordinary),
    "on_tool_error": Site(hook(on_tool_error, "It failed.")),
    "unknown_tool": Site(hook(lambda w, f: caller([idle], "nope", unknown_tool=f), "It is known now.")),
    "approve": Site(
        hook(lambda w, f: caller([idle], "idle", approve=lambda made: f(made)), gives=False)
    ),
    "foreign node": Site(foreign("node")),
    "foreign input": Site(foreign("input")),
    "flattened node": Site(foreign("node", flat=True)),
    "input of a flattened graph": Site(foreign("input", flat=True)),
    "planner": Site(hook(planner, '["only"]')),
}
