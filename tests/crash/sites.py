"""Trees in which one call fails once: each site is a place where users' code runs."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired

from campaign import Ledger
from kinds import Fault, is_ordinary, is_verdict, never
from langchain.agents.middleware import AgentMiddleware, AgentState, ToolRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Build = Callable[[Fault, Ledger], ag.Agent]


class _Counting(AgentState[Any]):
    rounds: NotRequired[int]


BAD = "bad"
"""The effect that is done behind the fault."""


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
        yields: Whether it tells something before it fails. That is told again by the resume: it is not
            voided yet, and `events()` has it once.
    """

    build: Build
    absorbs: Callable[[BaseException], bool] = never
    instead: Mapping[str, int] = field(default_factory=dict)
    wraps: type[BaseException] | None = None
    free: frozenset[str] = frozenset()
    garbles: bool = False
    yields: bool = False


def leaf(
    name: str, ledger: Ledger, fault: Any = None, shape: str = "plain", **options: Any
) -> ag.Agent:
    """Return a function agent of a shape that fails, or counts its effect and says its name."""

    def act() -> str:
        if fault is not None:
            fault()
        ledger.add(name)
        return f"{name} is done"

    def plain(ctx: ag.Context) -> str:
        return act()

    async def coroutine(ctx: ag.Context) -> str:
        return act()

    def generator(ctx: ag.Context) -> Iterator[str]:
        yield f"{name} begins"
        yield act()

    async def stream(ctx: ag.Context) -> AsyncIterator[str]:
        yield f"{name} begins"
        yield act()

    shapes = {"plain": plain, "coroutine": coroutine, "generator": generator, "stream": stream}
    return ag.function_agent(name, shapes[shape], **options)


def chain(ledger: Ledger, *agents: ag.Agent) -> ag.Agent:
    """Return a sequence with something done before and behind."""
    return ag.sequential("s", [leaf("first", ledger), *agents, leaf("last", ledger)])


def function(shape: str, **options: Any) -> Build:
    return lambda fault, ledger: chain(ledger, leaf(BAD, ledger, fault, shape, **options))


def alone(shape: str) -> Build:
    return lambda fault, ledger: leaf(BAD, ledger, fault, shape)


def branch(on_error: str, shape: str) -> Build:
    """Return a parallel of a branch that fails, and one that ends behind that."""

    def build(fault: Fault, ledger: Ledger) -> ag.Agent:
        beside = leaf("beside", ledger, lambda: fault.over.wait(10))
        failing = ag.sequential("x", [leaf("before", ledger), leaf(BAD, ledger, fault, shape)])
        return chain(ledger, ag.parallel("fork", [failing, beside], on_error=on_error))

    return build


def nested(fault: Fault, ledger: Ledger) -> ag.Agent:
    inner = ag.parallel("fork_inner", [leaf(BAD, ledger, fault), leaf("near", ledger)])
    return chain(ledger, ag.parallel("fork", [inner, leaf("far", ledger)]))


def step(fault: Fault, ledger: Ledger) -> ag.Agent:
    steps = [
        leaf("find", ledger),
        leaf("beside", ledger),
        ag.step(leaf(BAD, ledger, fault), depends_on=["find"]),
        ag.step(leaf("write", ledger), depends_on=[BAD]),
    ]
    return chain(ledger, ag.workflow("fork", steps))


def _hook(fault: Fault, ledger: Ledger, gives: Any = None) -> Callable[..., Any]:
    """Return a function that fails once, and then counts, and gives something."""

    def hook(*args: Any) -> Any:
        fault()
        ledger.add(BAD)
        return gives(*args) if callable(gives) else gives

    return hook


def until(fault: Fault, ledger: Ledger) -> ag.Agent:
    asked = _hook(fault, ledger, True)
    return chain(ledger, ag.loop("l", [leaf("body", ledger)], max_iterations=3, until=asked))


def until_in_a_branch(fault: Fault, ledger: Ledger) -> ag.Agent:
    asked = _hook(fault, ledger, True)
    loop = ag.loop("l", [leaf("body", ledger)], max_iterations=3, until=asked)
    return chain(ledger, ag.parallel("fork", [loop, leaf("beside", ledger)]))


def check(fault: Fault, ledger: Ledger) -> ag.Agent:
    return chain(ledger, ag.validated(leaf("body", ledger), _hook(fault, ledger)))


def check_of_a_model(fault: Fault, ledger: Ledger) -> ag.Agent:
    model = ScriptedChatModel(responses=lambda sent: _does(ledger, "body"))
    return chain(ledger, ag.validated(ag.chat_agent("writer", model), _hook(fault, ledger)))


def history(fault: Fault, ledger: Ledger) -> ag.Agent:
    model = ScriptedChatModel(responses=lambda sent: _does(ledger, "body"))
    shows = _hook(fault, ledger, lambda entries: [entry.message for entry in entries])
    return chain(ledger, ag.chat_agent("writer", model, history=shows))


def history_of_a_function(fault: Fault, ledger: Ledger) -> ag.Agent:
    shows = _hook(fault, ledger, lambda entries: [entry.message for entry in entries])
    reads = ag.function_agent("reads", lambda ctx: str(len(ctx.messages)), history=shows)
    return chain(ledger, reads)


def model_input(fault: Fault, ledger: Ledger) -> ag.Agent:
    model = ScriptedChatModel(responses=lambda sent: _does(ledger, "body"))
    edits = _hook(fault, ledger, lambda messages: messages)
    return chain(ledger, ag.chat_agent("writer", model, model_input=lambda messages: edits(messages)))


def model(fault: Fault, ledger: Ledger) -> ag.Agent:
    return chain(
        ledger, ag.chat_agent("writer", ScriptedChatModel(responses=_hook(fault, ledger, "ok")))
    )


def hook_of_middleware(name: str) -> Build:
    """Return a chat agent with a tool; a hook of its middleware fails."""

    def build(fault: Fault, ledger: Ledger) -> ag.Agent:
        def hook(self: Any, state: Any, runtime: Any) -> None:
            fault()

        def response(sent: list[BaseMessage]) -> AIMessage | str:
            ledger.add("asked")
            return _calls("_idle")(sent)

        middleware = [type("Failing", (AgentMiddleware,), {name: hook})()]
        model = ScriptedChatModel(responses=response)
        return chain(ledger, ag.chat_agent("writer", model, tools=[_idle], middleware=middleware))

    return build


def middleware_state(lane: str, name: str) -> Build:
    """Return an agent whose hook fails, between others that keep state and edits, and replace words."""

    def build(fault: Fault, ledger: Ledger) -> ag.Agent:
        def count(self: Any, state: Any, runtime: Any) -> Any:
            rounds = state.get("rounds", 0) + 1
            return {"rounds": rounds, "messages": [HumanMessage(f"round {rounds}")]}

        def loud(self: Any, state: Any, runtime: Any) -> Any:
            last = state["messages"][-1]
            return {"messages": [last.model_copy(update={"content": f"{last.text}!"})]}

        def sum_up(self: Any, state: Any, runtime: Any) -> None:
            seen = [each.text for each in state["messages"] if each.text.startswith("round")]
            ledger.add(f"{state['rounds']} rounds: {', '.join(seen)}")

        def fail(self: Any, state: Any, runtime: Any) -> None:
            fault()

        counting = {"state_schema": _Counting, "before_model": count, "after_agent": sum_up}
        keeping = type("Keeping", (AgentMiddleware,), {**counting, "after_model": loud})()
        failing = type("Failing", (AgentMiddleware,), {name: fail})()
        model = ScriptedChatModel(responses=_calls("_idle"))
        both = [failing, keeping, type("Inner", (AgentMiddleware,), {name: lambda *_: None})()]
        inner = ag.chat_agent("inner", model, tools=[_idle], middleware=both)
        if lane == "branch":
            return chain(ledger, ag.parallel("fork", [inner, leaf("beside", ledger)]))
        asks, tools = ScriptedChatModel(responses=_calls("inner")), [ag.agent_tool(inner)]
        return chain(ledger, ag.chat_agent("boss", asks, tools=tools, on_tool_error="raise"))

    return build


def wrap_of_middleware(name: str) -> Build:
    """Return a chat agent with a tool; a wrap of its middleware fails, before what it wraps."""

    def build(fault: Fault, ledger: Ledger) -> ag.Agent:
        def wrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
            fault()
            return handler(request)

        async def awrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
            fault()
            return await handler(request)

        def work() -> str:
            """Work."""
            return _does(ledger, "work")

        middleware = [type("Failing", (AgentMiddleware,), {name: wrap, f"a{name}": awrap})()]
        model = ScriptedChatModel(responses=_calls("work"))
        writer = ag.chat_agent(
            "writer", model, tools=[work], middleware=middleware, on_tool_error="raise"
        )
        return chain(ledger, writer)

    return build


def tool(
    on_error: str, *, is_async: bool = False, in_order: bool = False, is_retried: bool = False
) -> Build:
    """Return a chat agent that calls two tools at once; one fails, and is called until it works.

    One that is retried LangChain tries twice.
    """

    def build(fault: Fault, ledger: Ledger) -> ag.Agent:
        def work() -> str:
            """Work."""
            fault()
            return _does(ledger, BAD)

        async def awork() -> str:
            """Work."""
            return work()

        def other() -> str:
            """Do something else."""
            return _does(ledger, "other")

        failing: Any = langchain_tool("work")(awork if is_async else work)
        if is_retried:
            failing = failing.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
        writer = ag.chat_agent(
            "writer",
            ScriptedChatModel(responses=_calls("work", "other")),
            tools=[failing, other],
            on_tool_error=on_error,
            parallel_tools=not in_order,
        )
        return chain(ledger, writer)

    return build


def agent_tool(on_error: str) -> Build:
    def build(fault: Fault, ledger: Ledger) -> ag.Agent:
        inner = ag.sequential("inner", [leaf("begins", ledger), leaf(BAD, ledger, fault)])
        model = ScriptedChatModel(responses=_calls("inner"))
        tools = [ag.agent_tool(inner)]
        return chain(ledger, ag.chat_agent("writer", model, tools=tools, on_tool_error=on_error))

    return build


def retried_agent_tool() -> Build:
    """Return a chat agent with an agent as a tool that middleware runs again."""

    def build(fault: Fault, ledger: Ledger) -> ag.Agent:
        inner = ag.sequential("inner", [leaf("begins", ledger), leaf(BAD, ledger, fault)])
        retry = ToolRetryMiddleware(
            max_retries=1, retry_on=(Exception,), on_failure="error", initial_delay=0.0
        )
        model = ScriptedChatModel(responses=_calls("inner"))
        options: Any = {"tools": [ag.agent_tool(inner)], "on_tool_error": "raise"}
        return chain(ledger, ag.chat_agent("writer", model, middleware=[retry], **options))

    return build


def on_tool_error(fault: Fault, ledger: Ledger) -> ag.Agent:
    def work() -> str:
        """Fail."""
        raise ValueError("It always fails.")

    def response(sent: list[BaseMessage]) -> AIMessage | str:
        return "All is done." if isinstance(sent[-1], ToolMessage) else _calls("work")(sent)

    model, hook = ScriptedChatModel(responses=response), _hook(fault, ledger, "It failed.")
    return chain(ledger, ag.chat_agent("writer", model, tools=[work], on_tool_error=hook))


def unknown_tool(fault: Fault, ledger: Ledger) -> ag.Agent:
    model = ScriptedChatModel(responses=_calls("nope"))
    hook = _hook(fault, ledger, "It is known now.")
    return chain(ledger, ag.chat_agent("writer", model, tools=[_idle], unknown_tool=hook))


def approve(fault: Fault, ledger: Ledger) -> ag.Agent:
    model, asks = ScriptedChatModel(responses=_calls("_idle")), _hook(fault, ledger, False)
    return chain(ledger, ag.chat_agent("writer", model, tools=[_idle], approve=lambda made: asks(made)))


def foreign(where: str) -> Build:
    """Return a graph of somebody else's; its second node fails, or what makes its input."""

    def build(fault: Fault, ledger: Ledger) -> ag.Agent:
        def one(state: Any) -> Any:
            return {"messages": [AIMessage(_does(ledger, "one"))]}

        def two(state: Any) -> Any:
            if where == "node":
                fault()
            return {"messages": [AIMessage(_does(ledger, BAD))]}

        def given(ctx: ag.Context) -> dict[str, Any]:
            fault()
            return {"messages": ctx.messages}

        builder = StateGraph(MessagesState).add_node("one", one).add_node("two", two)
        graph = builder.add_edge(START, "one").add_edge("one", "two").compile()
        return chain(ledger, ag.graph_agent("made", graph, input=given if where == "input" else None))

    return build


def planner(fault: Fault, ledger: Ledger) -> ag.Agent:
    roles = {
        "planner": ag.function_agent("planner", _hook(fault, ledger, '["only"]')),
        "executor": leaf("executor", ledger),
        "replanner": ag.function_agent("replanner", lambda ctx: None),
    }
    return chain(ledger, ag.plan_execute("pe", **roles))


def _idle() -> str:
    """Do nothing."""
    return "idle"


def _does(ledger: Ledger, name: str) -> str:
    ledger.add(name)
    return f"{name} is done"


def _calls(*names: str) -> Callable[[list[BaseMessage]], AIMessage | str]:
    """Return a script: each tool is called until it has worked; those that have are not again."""

    def response(sent: list[BaseMessage]) -> AIMessage | str:
        worked = {m.name for m in sent if isinstance(m, ToolMessage) and m.status == "success"}
        left = [name for name in names if name not in worked]
        if not left:
            return "All is done."
        made = [call(name, f"{name}{len(sent)}", **_arguments(name)) for name in left]
        return calls(*made)

    return response


def _arguments(name: str) -> dict[str, str]:
    return {"request": "Look."} if name == "inner" else {}


_RETRY = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Exception)
_LOST = {BAD: 0}

SITES: dict[str, Site] = {
    **{f"{shape} function": Site(function(shape)) for shape in ("plain", "coroutine")},
    **{f"{shape} function": Site(function(shape), yields=True) for shape in ("generator", "stream")},
    **{f"{shape} alone": Site(alone(shape)) for shape in ("plain", "coroutine")},
    **{f"{shape} alone": Site(alone(shape), yields=True) for shape in ("generator", "stream")},
    "retried function": Site(function("plain", retry=_RETRY), absorbs=is_ordinary),
    "retried coroutine": Site(function("coroutine", retry=_RETRY), absorbs=is_ordinary),
    **{
        f"branch {on_error} {shape}": Site(branch(on_error, shape))
        for on_error in ("fail", "wait")
        for shape in ("plain", "coroutine")
    },
    **{
        f"branch collect {shape}": Site(branch("collect", shape), is_ordinary, _LOST)
        for shape in ("plain", "coroutine")
    },
    **{
        f"branch first {shape}": Site(
            branch("first", shape), is_ordinary, _LOST, free=frozenset({BAD, "before", "beside"})
        )
        for shape in ("plain", "coroutine")
    },
    "nested branch": Site(nested),
    "step": Site(step, wraps=ag.StepFailedError),
    "until": Site(until),
    "until in a branch": Site(until_in_a_branch),
    "check": Site(check, is_verdict, {"body": 2}),
    "check of a model": Site(check_of_a_model, is_verdict, {"body": 2}),
    "history": Site(history),
    "history of a function": Site(history_of_a_function),
    "model_input": Site(model_input),
    "model": Site(model, garbles=True),
    **{
        hook: Site(hook_of_middleware(hook))
        for hook in ("before_agent", "before_model", "after_model", "after_agent")
    },
    **{
        f"middleware state, {lane} {hook}": Site(middleware_state(lane, hook))
        for lane in ("branch", "tool")
        for hook in ("after_model", "after_agent")
    },
    **{wrap: Site(wrap_of_middleware(wrap)) for wrap in ("wrap_model_call", "wrap_tool_call")},
    "tool return": Site(tool("return"), is_ordinary),
    "tool raise": Site(tool("raise")),
    "async tool return": Site(tool("return", is_async=True), is_ordinary),
    "async tool raise": Site(tool("raise", is_async=True)),
    "tool in order": Site(tool("raise", in_order=True)),
    "agent tool return": Site(agent_tool("return"), is_ordinary, {"begins": 2}),
    "agent tool raise": Site(agent_tool("raise")),
    "retried agent tool": Site(retried_agent_tool(), is_ordinary, {"begins": 2}),
    "retried tool": Site(tool("raise", is_retried=True), absorbs=is_ordinary),
    "retried async tool": Site(tool("raise", is_async=True, is_retried=True), absorbs=is_ordinary),
    "on_tool_error": Site(on_tool_error),
    "unknown_tool": Site(unknown_tool),
    "approve": Site(approve),
    "foreign node": Site(foreign("node")),
    "foreign input": Site(foreign("input")),
    "planner": Site(planner),
}
