"""Runs of their own inside trees: each place is one where users' code runs."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from campaign import World, caller, leaf, model
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send
from sites import idle, named

import agentgraph as ag
from agentgraph.show.lines import event_text
from agentgraph.testing import ScriptedChatModel, call, calls

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
"""A variable of a user, which is known inside the inner run."""
INNER_THREAD = "inner"
KINDS = ("a new thread", "a named thread", "a shared saver")
"""On which thread an inner run is, and on whose saver."""


def inner_tree() -> ag.Agent:
    """Return a tree that streams, runs branches, calls a tool and asks a person."""

    def tenant() -> str:
        """Say for whom this is done."""
        return f"It is for {TENANT.get()}."

    writer = caller([tenant], "tenant", name="sub_writer")
    custom = ag.function_agent("sub_custom", lambda ctx: [ag.Custom({"inner": 1}), "Custom."])
    both = ag.parallel("sub_both", [writer, custom])
    return ag.sequential("sub", [both, ag.human("sub_ok", "Print it?"), leaf("sub_last", World())])


class InnerRun:
    """A whole conversation with a runner, to be had anywhere: called, or awaited by `wait`.

    Attributes:
        told: What each conversation came to.

    Options are passed on to the runs.
    """

    def __init__(self, kind: str, memory: InMemorySaver, path: Path | None) -> None:
        self.kind, self.memory, self.path = kind, memory, path
        self.told: list[Any] = []
        self._number, self._lock = 0, threading.Lock()

    def __call__(self, *_: Any, **options: Any) -> str:
        with self._runner() as runner:
            thread = self._thread()
            first = self._begin(runner, thread, options)
            asked = [(each.address, each.value) for each in runner.pending(first.thread_id)]
            with runner.resume(first.thread_id, {"sub/sub_ok": "yes"}, stream=True, **options) as run:
                rest = list(run)
            events, listed = list(runner.events(first.thread_id)), runner.threads()
            status = runner.thread(first.thread_id).status
        return self._note(first, asked, rest, events, listed, status)

    async def wait(self, *_: Any, **options: Any) -> str:
        with self._runner() as runner:
            thread = self._thread()
            first = await runner.ainvoke("Go.", thread_id=thread, **options)
            asked = [(each.address, each.value) for each in await runner.apending(first.thread_id)]
            resumed = runner.aresume(first.thread_id, {"sub/sub_ok": "yes"}, stream=True, **options)
            rest = [event async for event in resumed]
            events = [event async for event in runner.aevents(first.thread_id)]
            status, listed = (await runner.athread(first.thread_id)).status, await runner.athreads()
        return self._note(first, asked, rest, events, listed, status)

    def _begin(self, runner: ag.Runner, thread: str | None, options: Mapping[str, Any]) -> ag.Result:
        if self.kind == "a named thread":
            return ag.watch(runner, "Go.", thread_id=thread, **options)
        return runner.invoke("Go.", thread_id=thread, **options)

    def _runner(self) -> Any:
        saver: Any = None
        if self.kind == "a shared saver":
            saver = self.memory if self.path is None else self.path
        made = ag.Runner(inner_tree(), checkpointer=saver)
        return made if isinstance(saver, Path) else nullcontext(made)

    def _thread(self) -> str | None:
        with self._lock:
            self._number += 1
        return None if self.kind == "a new thread" else f"{INNER_THREAD}{self._number}"

    def _note(self, first: Any, asked: Any, rest: Any, events: Any, listed: Any, status: str) -> str:
        every = [*first.events, *rest]
        self.told.append(
            {
                "events": sorted((e.address, event_text(e)) for e in every if not e.partial),
                "again": sorted((e.address, event_text(e)) for e in events),
                "asked": asked,
                "status": [first.status, status],
                "is listed": first.thread_id in {each.thread_id for each in listed},
            }
        )
        return str(rest[-1].text)


Build = Callable[[InnerRun], ag.Agent]


def function(inner: InnerRun) -> ag.Agent:
    return ag.function_agent("outer", inner)


def generator(inner: InnerRun) -> ag.Agent:
    def fn(ctx: ag.Context) -> Iterator[str]:
        yield "It begins."
        yield inner()
        yield "It ends."

    return ag.function_agent("outer", fn)


def left_open(inner: InnerRun) -> ag.Agent:
    """Return a generator that yields between the events of an inner run."""

    def fn(ctx: ag.Context) -> Iterator[str]:
        for event in ag.Runner(leaf("sub_one", World())).run("Go."):
            yield f"{event.text}, it heard"
        yield inner()

    return ag.function_agent("outer", fn)


def coroutine(inner: InnerRun) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return await inner.wait()

    return ag.function_agent("outer", fn)


def blocking(inner: InnerRun) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return inner()

    return ag.function_agent("outer", fn)


def research(inner: InnerRun) -> Callable[[str], str]:
    def research(request: str = "") -> str:
        """Do research."""
        return inner()

    return research


def aresearch(inner: InnerRun) -> Callable[..., Any]:
    async def research(request: str = "") -> str:
        """Do research."""
        return await inner.wait()

    return research


def tool(inner: InnerRun) -> ag.Agent:
    return caller([research(inner)], "research", name="outer")


def async_tool(inner: InnerRun) -> ag.Agent:
    return caller([aresearch(inner)], "research", name="outer")


def two_tools(inner: InnerRun) -> ag.Agent:
    def again(request: str = "") -> str:
        """Do it again."""
        return inner()

    return caller([research(inner), again], "research", "again", name="outer")


def loop_in_tool(inner: InnerRun) -> ag.Agent:
    def research(request: str = "") -> str:
        """Do research."""
        return asyncio.run(inner.wait())

    return caller([research], "research", name="outer")


def in_thread(*, copies: bool) -> Build:
    """Return a function that runs the inner run in a thread of its own."""

    def build(inner: InnerRun) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            run = contextvars.copy_context().run if copies else for_ada
            thread = threading.Thread(target=run, args=(inner,))
            thread.start()
            thread.join()
            return "It is done."

        return ag.function_agent("outer", fn)

    return build


def for_ada(fn: Callable[[], Any]) -> None:
    TENANT.set("Ada")
    fn()


def created(*, flat: bool) -> Build:
    def build(inner: InnerRun) -> ag.Agent:
        def response(sent: Any) -> Any:
            return "Done." if isinstance(sent[-1], ToolMessage) else calls(call("research"))

        return ag.graph_agent("outer", create_agent(model(response), [research(inner)]), flat=flat)

    return build


def node(*, flat: bool) -> Build:
    def build(inner: InnerRun) -> ag.Agent:
        def one(state: Any) -> Any:
            return {"messages": [AIMessage(inner())]}

        graph = StateGraph(MessagesState).add_node("one", one).add_edge(START, "one").compile()
        return ag.graph_agent("outer", graph, flat=flat)

    return build


def around_graph(**where: Any) -> Build:
    def build(inner: InnerRun) -> ag.Agent:
        graph = StateGraph(MessagesState).add_node("one", lambda state: {}).add_edge(START, "one")
        made = {name: (lambda given, to=to: to(inner(), given)) for name, to in where.items()}
        return ag.graph_agent("outer", graph.compile(), **made)

    return build


def functional(inner: InnerRun) -> ag.Agent:
    @task
    def step(text: str) -> str:
        return inner()

    @entrypoint()
    def flow(state: Any) -> Any:
        inner()
        return {"messages": [AIMessage(step("Go.").result())]}

    return ag.graph_agent("outer", flow, output=lambda state: state["messages"][-1].text)


def middleware(name: str) -> Build:
    def build(inner: InnerRun) -> ag.Agent:
        def hook(self: Any, state: Any, runtime: Any) -> None:
            inner()

        def wrap(self: Any, request: Any, handler: Any) -> Any:
            inner()
            return handler(request)

        async def awrap(self: Any, request: Any, handler: Any) -> Any:
            await inner.wait()
            return await handler(request)

        methods = {name: wrap, f"a{name}": awrap} if name.startswith("wrap") else {name: hook}
        return caller([idle], "idle", name="outer", middleware=[named("Inner", **methods)])

    return build


def chat(inner: InnerRun, **options: Any) -> ag.Agent:
    return ag.chat_agent("outer", model(lambda sent: "Said."), **options)


def switch(inner: InnerRun) -> ag.Agent:
    return ag.switch("outer", lambda ctx: bool(inner()), {True: says(), False: ag.SKIP})


def each(option: str) -> Build:
    def build(inner: InnerRun) -> ag.Agent:
        given = {
            "over": lambda ctx: [inner()],
            "key": lambda item: inner() and "k",
            "input": lambda ctx: inner(),
        }
        options = {"over": lambda ctx: ["a"], option: given[option]}
        return ag.each("outer", says(), **options)

    return build


def item(inner: InnerRun) -> ag.Agent:
    return ag.each("outer", ag.function_agent("a", inner), lambda ctx: ["a", "b"], max_concurrency=1)


def until(inner: InnerRun) -> ag.Agent:
    return ag.loop("outer", [says()], max_iterations=3, until=lambda ctx: bool(inner()))


def says() -> ag.Agent:
    return ag.function_agent("says", lambda ctx: "Said.")


def check(inner: InnerRun) -> ag.Agent:
    return ag.validated(says(), lambda text: None if inner() else "no")


def branches(inner: InnerRun) -> ag.Agent:
    return ag.parallel("outer", [ag.function_agent("a", inner), ag.function_agent("b", inner)])


def workflow(inner: InnerRun) -> ag.Agent:
    steps = [ag.step(ag.function_agent("a", inner)), ag.step(says(), depends_on=["a"])]
    return ag.workflow("outer", steps)


def inner_twice(inner: InnerRun) -> ag.Agent:
    def middle(ctx: ag.Context) -> str:
        return ag.Runner(ag.function_agent("middle", inner)).invoke("Go.").text

    return ag.function_agent("outer", middle)


def agent_tool(inner: InnerRun) -> ag.Agent:
    return caller([ag.agent_tool(ag.function_agent("inner", inner))], "inner", name="outer")


def runs(inner: InnerRun) -> ag.Agent:
    """Return a function that runs an agent, and then has the inner run itself."""

    def fn(ctx: ag.Context) -> str:
        return f"{ctx.run('a', 'Go.')} {inner()} {ctx.run('says', 'Go.')}"

    return ag.function_agent("outer", fn, agents=[ag.function_agent("a", inner), says()])


def runs_gathered(inner: InnerRun) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        calls = (ctx.run("a", "Go.", key=each) for each in "xy")
        return " ".join(await asyncio.gather(*calls, inner.wait()))

    return ag.function_agent("outer", fn, agents=[ag.function_agent("a", inner)])


def in_pool(inner: InnerRun) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(contextvars.copy_context().run, inner).result()

    return ag.function_agent("outer", fn)


def to_thread(inner: InnerRun) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return await asyncio.to_thread(inner)

    return ag.function_agent("outer", fn)


def gathered(inner: InnerRun) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return "".join(await asyncio.gather(inner.wait(), inner.wait()))

    return ag.function_agent("outer", fn)


def undo(inner: InnerRun) -> ag.Agent:
    def fail(ctx: ag.Context) -> str:
        raise ValueError("It never works.")

    steps = [
        ag.step(says(), compensate=inner),
        ag.step(ag.function_agent("fails", fail), depends_on=["says"]),
    ]
    return ag.parallel("outer", [ag.workflow("w", steps)], on_error="collect")


def approve(inner: InnerRun) -> ag.Agent:
    return caller([idle], "idle", name="outer", approve=lambda made: not inner())


def edge(*, flat: bool) -> Build:
    """Return a graph whose conditional edge runs the inner run, and sends to a node that does, too."""

    def build(inner: InnerRun) -> ag.Agent:
        def routed(state: Any) -> Any:
            return [Send("two", {"messages": [HumanMessage(inner())]})]

        def two(state: Any) -> Any:
            return {"messages": [AIMessage(inner())]}

        builder = StateGraph(MessagesState).add_node("one", lambda state: {}).add_node("two", two)
        builder.add_edge(START, "one").add_conditional_edges("one", routed, ["two"])
        return ag.graph_agent("outer", builder.add_edge("two", END).compile(), flat=flat)

    return build


def callback(inner: InnerRun) -> ag.Agent:
    class Hears(BaseCallbackHandler):
        raise_error = True

        def on_chat_model_start(self, *args: Any, **options: Any) -> None:
            inner()

    said = ScriptedChatModel(responses=lambda sent: "Said.", callbacks=[Hears()])
    return ag.chat_agent("outer", said)


def supervised(mode: Any) -> Build:
    def build(inner: InnerRun) -> ag.Agent:
        def response(sent: Any) -> Any:
            made = call("worker", request="Look.") if mode == "tools" else call("transfer_to_worker")
            return "Done." if isinstance(sent[-1], ToolMessage) or len(sent) > 2 else calls(made)

        worker = ag.function_agent("worker", inner, description="It works.")
        return ag.supervisor("outer", model(response), [worker], mode=mode)

    return build


def planned(inner: InnerRun) -> ag.Agent:
    return ag.plan_execute(
        "outer",
        planner=ag.function_agent("planner", lambda ctx: '["only"]'),
        executor=ag.function_agent("executor", inner),
        replanner=ag.function_agent("replanner", lambda ctx: None),
    )


def config_of_tool(inner: InnerRun) -> ag.Agent:
    def research(config: RunnableConfig) -> str:
        """Do research."""
        return inner(config=config)

    return caller([research], "research", name="outer")


def config_of_node(*, flat: bool) -> Build:
    def build(inner: InnerRun) -> ag.Agent:
        def one(state: Any, config: RunnableConfig) -> Any:
            return {"messages": [AIMessage(inner(config=config))]}

        graph = StateGraph(MessagesState).add_node("one", one).add_edge(START, "one").compile()
        return ag.graph_agent("outer", graph, flat=flat)

    return build


def config_of_runnable(inner: InnerRun) -> ag.Agent:
    def fn(given: Any, config: RunnableConfig) -> str:
        return inner(config=config)

    return ag.runnable_agent("outer", RunnableLambda(fn))


PLACES: dict[str, Build] = {
    "function": function,
    "generator": generator,
    "left open": left_open,
    "coroutine": coroutine,
    "blocking coroutine": blocking,
    "tool": tool,
    "async tool": async_tool,
    "two tools": two_tools,
    "event loop in a tool": loop_in_tool,
    "thread": in_thread(copies=False),
    "thread with the context": in_thread(copies=True),
    "tool of create_agent": created(flat=False),
    "tool of create_agent, flat": created(flat=True),
    "node": node(flat=False),
    "node, flat": node(flat=True),
    "input of a graph": around_graph(input=lambda text, ctx: {"messages": [HumanMessage(text)]}),
    "output of a graph": around_graph(output=lambda text, state: text),
    "entrypoint and task": functional,
    **{
        each: middleware(each)
        for each in ("before_agent", "before_model", "after_model", "after_agent")
    },
    **{each: middleware(each) for each in ("wrap_model_call", "wrap_tool_call")},
    "instruction": lambda inner: chat(inner, instruction=lambda ctx: inner()),
    "model": lambda inner: ag.chat_agent("outer", model(inner)),
    "model_input": lambda inner: chat(inner, model_input=lambda sent: [sent[0], HumanMessage(inner())]),
    "history": lambda inner: chat(inner, history=lambda seen: [HumanMessage(inner())]),
    "until": until,
    "choose": switch,
    **{f"each, {option}": each(option) for option in ("over", "key", "input")},
    "item": item,
    "when": lambda inner: ag.workflow("outer", [ag.step(says(), when=lambda ctx: bool(inner()))]),
    "check": check,
    "branches": branches,
    "workflow": workflow,
    "run in a run": inner_twice,
    "agent tool": agent_tool,
    "runs agents": runs,
    "runs agents, gathered": runs_gathered,
    "thread pool": in_pool,
    "to_thread": to_thread,
    "gather": gathered,
    "compensate": undo,
    "approve": approve,
    "conditional edge and Send": edge(flat=False),
    "conditional edge and Send, flat": edge(flat=True),
    "runnable": lambda inner: ag.runnable_agent("outer", RunnableLambda(inner)),
    "callback": callback,
    **{f"worker, {mode}": supervised(mode) for mode in ("tools", "handoff")},
    "executor": planned,
    "config of a tool": config_of_tool,
    "config of a node": config_of_node(flat=False),
    "config of a node, flat": config_of_node(flat=True),
    "config of a runnable": config_of_runnable,
}
