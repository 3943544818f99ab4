"""Each option that takes a function, with a tree that asks it; and the kinds of functions."""

import asyncio
import collections.abc
import functools
import inspect
import typing
from collections.abc import Callable, Generator
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.cache.memory import InMemoryCache
from langgraph.types import CachePolicy, RetryPolicy, TimeoutPolicy

import agentgraph as ag
import agentgraph.testing
from agentgraph.agents.costs import PriceFunction
from agentgraph.testing import ScriptedChatModel, call, calls
from helpers import chat, counted, fails, foreign, in_turn, says, scripted

Fn = Callable[..., Any]


class Slot(NamedTuple):
    """An option that takes a function.

    Attributes:
        tree: Makes a tree in which the option is a function.
        answer: The result of the function.
        named: The name of the option in errors.
        agent: The agent that they name.
        options: Further options of the runner.
        option: The option of the runner that is the function.
    """

    tree: Callable[[Fn], ag.Agent]
    answer: Any
    named: str
    agent: str
    options: typing.Mapping[str, Any] = MappingProxyType({})
    option: str = ""

    def options_for(self, fn: Fn) -> dict[str, Any]:
        """Return all options of the runner."""
        return {**self.options, **({self.option: fn} if self.option else {})}


# -- the kinds of functions


class Awaited:
    """An awaitable that is not a coroutine."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.value
        yield


def plain(fn: Fn) -> Fn:
    return fn


def coroutine(fn: Fn) -> Fn:
    async def asked(*given: Any) -> Any:
        return fn(*given)

    return asked


def decorated(fn: Fn) -> Fn:
    inner = coroutine(fn)

    @functools.wraps(inner)
    def asked(*given: Any) -> Any:
        return inner(*given)

    return asked


def partial(fn: Fn) -> Fn:
    async def asked(_: str, *given: Any) -> Any:
        return fn(*given)

    return functools.partial(asked, "first")


def called_object(fn: Fn) -> Fn:
    class Asked:
        async def __call__(self, *given: Any) -> Any:
            return fn(*given)

    return Asked()


def partial_of_object(fn: Fn) -> Fn:
    return functools.partial(called_object(fn))


def no_coroutine(fn: Fn) -> Fn:
    return lambda *given: Awaited(fn(*given))


def future(fn: Fn) -> Fn:
    """Return a function that returns a task of the event loop; a sync run has no event loop."""
    inner = coroutine(fn)

    def asked(*given: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return inner(*given)
        return asyncio.ensure_future(inner(*given))

    return asked


KNOWN = (coroutine, partial, called_object, partial_of_object)
"""The kinds that are known to be async before they are called."""
UNKNOWN = (decorated, no_coroutine, future)
"""The kinds of which that shows when they have returned."""


# -- the trees


def echo(name: str = "c", **options: Any) -> ag.Agent:
    """Return a chat agent that says what its model is sent."""
    model = ScriptedChatModel(responses=lambda messages: " | ".join(str(m.text) for m in messages))
    return ag.chat_agent(name, model, **options)


def calling(*made: Any, **options: Any) -> ag.Agent:
    """Return a chat agent that makes a call, and then says the result."""

    def reply(messages: list[BaseMessage]) -> Any:
        return str(messages[-1].text) if messages[-1].type == "tool" else calls(*made)

    return ag.chat_agent("c", ScriptedChatModel(responses=reply), **options)


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def broken(amount: int) -> str:
    """Fail."""
    raise ValueError("out of order")


def secret(**options: Any) -> Any:
    return ag.agent_tool(ag.function_agent("secret", lambda ctx: "opened", description="d"), **options)


def item() -> ag.Agent:
    return ag.function_agent("w", lambda ctx: f"{ctx.item and ctx.item.key}: {ctx.messages[-1].text}")


def heard() -> ag.Agent:
    return ag.function_agent("w", lambda ctx: " | ".join(str(each.text) for each in ctx.messages))


def graph() -> Any:
    return foreign(lambda messages: AIMessage(f"received {messages[-1].text}"))


def cached(fn: Fn) -> Any:
    return CachePolicy(key_func=fn)


def lasting(fn: Fn) -> dict[str, Any]:
    return {"approve": {"pay": {"allowed_decisions": ["approve"], **fn}}}


def parrot(**options: Any) -> ag.Agent:
    return ag.runnable_agent("r", RunnableLambda(lambda given: f"got {given}"), **options)


def planned(**roles: Any) -> ag.Agent:
    made = {
        "planner": says("p", '["Count."]'),
        "executor": says("e", "Three."),
        "replanner": says("q", '{"answer": "3"}'),
    }
    return ag.plan_execute("pe", **(made | roles))


def tried(fn: Fn) -> dict[str, Any]:
    """Return the option of agents that asks a function whether a failure is retried."""
    return {"retry": RetryPolicy(retry_on=fn, max_attempts=3, initial_interval=0.001, jitter=False)}


CHOSEN = [HumanMessage("chosen")]
PAYS = call("pay", amount=3)

SLOTS: dict[str, Slot] = {
    "chat_agent.model": Slot(lambda fn: ag.chat_agent("c", fn), scripted(*["A."] * 40), "model", "c"),
    "chat_agent.instruction": Slot(lambda fn: echo(instruction=fn), "Be brief.", "instruction", "c"),
    "chat_agent.history": Slot(lambda fn: echo(history=fn), CHOSEN, "history", "c"),
    "chat_agent.approve": Slot(
        lambda fn: calling(PAYS, tools=[pay], approve=fn), False, "approve", "c"
    ),
    "chat_agent.approve, per call": Slot(
        lambda fn: calling(PAYS, tools=[pay], approve=fn, interrupt_mode="per_call"),
        False,
        "approve",
        "c",
    ),
    "chat_agent.approve: when": Slot(
        lambda fn: calling(PAYS, tools=[pay], **lasting({"when": fn})),
        False,
        "approve['pay']: when",
        "c",
    ),
    "chat_agent.approve: description": Slot(
        lambda fn: calling(PAYS, tools=[pay], **lasting({"description": fn})),
        "Pay three?",
        "approve['pay']: description",
        "c",
    ),
    "chat_agent.on_tool_error": Slot(
        lambda fn: calling(call("broken", amount=1), tools=[broken], on_tool_error=fn),
        "closed",
        "on_tool_error",
        "c",
    ),
    "chat_agent.unknown_tool": Slot(
        lambda fn: calling(call("nothing"), tools=[pay], unknown_tool=fn), "none", "unknown_tool", "c"
    ),
    "chat_agent.model_input": Slot(lambda fn: echo(model_input=fn), CHOSEN, "model_input", "c"),
    "chat_agent.retry": Slot(
        lambda fn: chat("c", ValueError("once"), "A.", **tried(fn)), True, "retry_on", "c"
    ),
    "function_agent.retry": Slot(lambda fn: fails("f", **tried(fn)), True, "retry_on", "f"),
    "graph_agent.retry": Slot(
        lambda fn: ag.graph_agent("g", foreign(in_turn(ValueError("once"), "A.")), **tried(fn)),
        True,
        "retry_on",
        "g",
    ),
    "graph_agent.retry, flat": Slot(
        lambda fn: ag.graph_agent(
            "g", foreign(in_turn(ValueError("once"), "A.")), flat=True, **tried(fn)
        ),
        True,
        "retry_on",
        "g",
    ),
    "runnable_agent.retry": Slot(
        lambda fn: ag.runnable_agent(
            "r", RunnableLambda(in_turn(ValueError("once"), "A.")), **tried(fn)
        ),
        True,
        "retry_on",
        "r",
    ),
    "supervisor.retry": Slot(
        lambda fn: ag.supervisor("c", scripted(ValueError("once"), "A."), [says("w")], **tried(fn)),
        True,
        "retry_on",
        "c",
    ),
    "step.retry": Slot(
        lambda fn: ag.workflow("f", [ag.step(fails("w"), **tried(fn))]), True, "retry_on", "w"
    ),
    "agent_tool.enabled": Slot(
        lambda fn: calling(call("secret", request="q"), tools=[secret(enabled=fn), pay]),
        False,
        "enabled of the agent tool 'secret'",
        "c",
    ),
    "agent_tool.output": Slot(
        lambda fn: calling(call("secret", request="q"), tools=[secret(output=fn)]),
        {"shown": 1},
        "output of the agent tool 'secret'",
        "c",
    ),
    "function_agent.history": Slot(
        lambda fn: ag.function_agent("f", lambda ctx: ctx.messages[0].text, history=fn),
        CHOSEN,
        "history",
        "f",
    ),
    "function_agent.cache_policy": Slot(
        lambda fn: ag.function_agent("f", lambda ctx: "made", cache_policy=cached(fn)),
        "key",
        "key_func",
        "f",
        {"cache": InMemoryCache()},
    ),
    "graph_agent.history": Slot(
        lambda fn: ag.graph_agent("g", graph(), history=fn), CHOSEN, "history", "g"
    ),
    "graph_agent.history, flat": Slot(
        lambda fn: ag.graph_agent("g", graph(), history=fn, flat=True), CHOSEN, "history", "g"
    ),
    "graph_agent.input": Slot(
        lambda fn: ag.graph_agent("g", graph(), input=fn), {"messages": CHOSEN}, "input", "g"
    ),
    "graph_agent.input, flat": Slot(
        lambda fn: ag.graph_agent("g", graph(), input=fn, flat=True),
        {"messages": CHOSEN},
        "input",
        "g",
    ),
    "graph_agent.output": Slot(
        lambda fn: ag.graph_agent("g", graph(), output=fn), "said", "output", "g"
    ),
    "graph_agent.output, flat": Slot(
        lambda fn: ag.graph_agent("g", graph(), output=fn, flat=True), "said", "output", "g"
    ),
    "graph_agent.cache_policy": Slot(
        lambda fn: ag.graph_agent("g", graph(), cache_policy=cached(fn)),
        "key",
        "key_func",
        "g",
        {"cache": InMemoryCache()},
    ),
    "runnable_agent.input": Slot(lambda fn: parrot(input=fn), "this", "input", "r"),
    "runnable_agent.output": Slot(lambda fn: parrot(output=fn), "said", "output", "r"),
    "runnable_agent.history": Slot(
        lambda fn: parrot(history=fn, input=lambda ctx: ctx.messages[0].text), CHOSEN, "history", "r"
    ),
    "runnable_agent.cache_policy": Slot(
        lambda fn: parrot(cache_policy=cached(fn)),
        "key",
        "key_func",
        "r",
        {"cache": InMemoryCache()},
    ),
    "loop.until": Slot(
        lambda fn: ag.loop("l", [says("w", "1", "2")], max_iterations=2, until=fn), False, "until", "l"
    ),
    "parallel.accept": Slot(
        lambda fn: ag.parallel("p", [says("a")], on_error="first", accept=fn),
        True,
        "accept",
        "p",
    ),
    "switch.choose": Slot(lambda fn: ag.switch("s", fn, {"a": says("a")}), "a", "choose", "s"),
    "each.over": Slot(lambda fn: ag.each("e", item(), fn), {"k": 1}, "over", "e"),
    "each.key": Slot(lambda fn: ag.each("e", item(), lambda ctx: [1], key=fn), "k", "key", "e"),
    "each.input": Slot(lambda fn: ag.each("e", item(), lambda ctx: [1], input=fn), "ask", "input", "e"),
    "each.input, of chat agents": Slot(
        lambda fn: ag.each("e", echo("w"), lambda ctx: [1], input=fn), "ask", "input", "e"
    ),
    "step.when": Slot(
        lambda fn: ag.workflow("f", [ag.step(says("w"), when=fn), says("z")]), False, "when", "w"
    ),
    "step.input": Slot(
        lambda fn: ag.workflow("f", [says("a"), ag.step(heard(), depends_on=["a"], input=fn)]),
        "ask",
        "input",
        "w",
    ),
    "validated.check": Slot(
        lambda fn: ag.validated(says("w", "1", "2"), fn, max_attempts=2), True, "check", "w"
    ),
    "trimmed.history": Slot(
        lambda fn: echo(history=ag.trimmed(100, history=fn)), CHOSEN, "history", "c"
    ),
    "summarized.history": Slot(
        lambda fn: echo(history=ag.summarized(scripted(), 1000, history=fn)), CHOSEN, "history", "c"
    ),
    "supervisor.model": Slot(
        lambda fn: ag.supervisor("c", fn, [says("w")]), scripted(*["A."] * 40), "model", "c"
    ),
    "supervisor.instruction": Slot(
        lambda fn: supervised(instruction=fn), "Be brief.", "instruction", "c"
    ),
    "supervisor.history": Slot(lambda fn: supervised(history=fn), CHOSEN, "history", "c"),
    "supervisor.approve": Slot(
        lambda fn: supervised(tools=[pay], approve=fn, made=PAYS), False, "approve", "c"
    ),
    "supervisor.on_tool_error": Slot(
        lambda fn: supervised(tools=[broken], on_tool_error=fn, made=call("broken", amount=1)),
        "closed",
        "on_tool_error",
        "c",
    ),
    "supervisor.model_input": Slot(lambda fn: supervised(model_input=fn), CHOSEN, "model_input", "c"),
    "plan_execute.planner": Slot(
        lambda fn: planned(planner=fn), scripted(*['["Count."]'] * 40), "model", "planner"
    ),
    "plan_execute.executor": Slot(
        lambda fn: planned(executor=fn), scripted(*["Three."] * 40), "model", "executor"
    ),
    "plan_execute.replanner": Slot(
        lambda fn: planned(replanner=fn), scripted(*['{"answer": "3"}'] * 40), "model", "replanner"
    ),
    "Runner.prices": Slot(
        lambda _: counted("c", "A.", "B."), Decimal(1), "prices", "c", option="prices"
    ),
    "Runner.prices, under a limit": Slot(
        lambda _: counted("c", "A.", "B."),
        Decimal(1),
        "prices",
        "c",
        {"limits": ag.Limits(cost=2)},
        "prices",
    ),
    "plan_execute.planner, its instruction": Slot(
        lambda fn: planned(planner=chat("p", *['["Count."]'] * 3, instruction=fn)),
        "Plan.",
        "instruction",
        "p",
    ),
}
"""The options, by builder and name; some in more than one tree."""


def supervised(made: Any = None, **options: Any) -> ag.Agent:
    def reply(messages: list[BaseMessage]) -> Any:
        if made is not None and messages[-1].type != "tool":
            return calls(made)
        return " | ".join(str(each.text) for each in messages)

    return ag.supervisor("c", ScriptedChatModel(responses=reply), [says("w")], **options)


def called(tree: ag.Agent) -> ag.Agent:
    """Return a chat agent with a tree as its tool."""

    def reply(messages: list[BaseMessage]) -> Any:
        return "end" if messages[-1].type == "tool" else calls(call(tree.name, request="Go."))

    model = ScriptedChatModel(responses=reply)
    return ag.chat_agent("caller", model, tools=[ag.agent_tool(tree, description="d")])


def run_by_function(tree: ag.Agent) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return str(await ctx.run(tree.name, "Go."))

    return ag.function_agent("runs", fn, agents=[tree])


INSIDE: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "branch": lambda tree: ag.parallel("around", [tree]),
    "step": lambda tree: ag.workflow("around", [tree]),
    "item": lambda tree: ag.each("around", tree, lambda ctx: ["i"]),
    "loop": lambda tree: ag.loop("around", [tree], max_iterations=1),
    "tool": called,
    "run": run_by_function,
}
"""The wrappers that a tree may have."""


EXEMPT: dict[str, str] = {}
"""The options that take a function and are not asked, with the reason."""


_RUN = "it is run, by sync runs too"
_SYNC = "LangChain counts by it, also in async runs: an async one is a fault"
_HOOKS = "LangChain's, with sync and async twins"
EXEMPT |= dict.fromkeys(["function_agent.fn", "agent.fn", "step.compensate"], _RUN)
EXEMPT |= dict.fromkeys(["chat_agent.tools", "supervisor.tools"], _RUN)
EXEMPT |= dict.fromkeys(["trimmed.token_counter", "summarized.token_counter"], _SYNC)
EXEMPT |= dict.fromkeys(
    [f"{name}.middleware" for name in (*("chat_agent", "supervisor", "compile_agent"), "Runner")],
    _HOOKS,
)
EXEMPT |= dict.fromkeys(["translate.middleware", "atranslate.middleware"], _HOOKS)
EXEMPT["compile_agent.prices"] = "as of Runner"
EXEMPT["check_saver.make_saver"] = "it makes a saver for each try, sync or async"
EXEMPT |= dict.fromkeys(
    ["evaluate.checks", "aevaluate.checks", "at_least.check"], "asked about a result, not in a run"
)
EXEMPT |= dict.fromkeys(["agent.history", "agent.cache_policy", "agent.retry"], "as of function_agent")


# -- the options of the public functions


_NAMES = {
    **vars(collections.abc),
    **{each.__name__: each for each in (AgentMiddleware, CachePolicy, RetryPolicy, TimeoutPolicy)},
    "JsonSchema": dict,
    "Pregel": list,
    "RemoteGraph": object,
    "ResponseFormat": list,
    "TypeForm": list,
    "timedelta": timedelta,
    "BaseTool": BaseTool,
    "Context": ag.Context,
    "LanguageModelLike": Runnable,
    "PriceFunction": PriceFunction,
    "Runnable": Runnable,
    "RunnableConfig": dict,
    "Console": object,
    "Screen": object,
    "Any": Any,
}
_HOLDING_FUNCTIONS = (AgentMiddleware, CachePolicy, RetryPolicy)


def found() -> set[str]:
    """Return the options of public functions whose annotation allows a function, by their names."""
    several = [ag, agentgraph.testing]
    public = {name: getattr(each, name) for each in several for name in each.__all__}
    public = {name: each for name, each in public.items() if inspect.isfunction(each)}
    public["Runner"] = ag.Runner.__init__
    return {
        f"{name}.{option.name}"
        for name, function in public.items()
        for option in inspect.signature(function).parameters.values()
        if _takes_function(_evaluated(option.annotation, function))
    }


def _evaluated(hint: Any, function: Any = None) -> Any:
    names = {**_NAMES, **getattr(function and inspect.unwrap(function), "__globals__", {})}
    return eval(hint, names) if isinstance(hint, str) else hint


def _takes_function(hint: Any) -> bool:
    if isinstance(hint, str | typing.ForwardRef):
        return _takes_function(_evaluated(getattr(hint, "__forward_arg__", hint)))
    origin = typing.get_origin(hint) or hint
    if origin is typing.Literal:
        return False
    if origin is Callable or (isinstance(origin, type) and issubclass(origin, _HOLDING_FUNCTIONS)):
        return True
    return any(_takes_function(each) for each in typing.get_args(hint) if not isinstance(each, list))
