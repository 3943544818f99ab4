"""Trees whose branches wait for each other: some end only after others have had an answer."""

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel
from helpers.drives import Drive, Session, Sync

PATIENCE = 30.0


class Work:
    """Makes agents that ask, and agents that end when all that ask have ended."""

    def __init__(self, drive: Drive, askers: int = 1) -> None:
        self.drive, self._left, self._done = drive, askers, threading.Event()

    def end(self) -> None:
        """Note that one that asks has ended."""
        self._left -= 1
        if not self._left:
            self._done.set()

    def wait(self) -> None:
        """Wait until all that ask have ended."""
        assert self._done.wait(PATIENCE), "no answer was taken while it ran"

    def slow(self, name: str = "slow") -> ag.Agent:
        """Return an agent that ends when all that ask have ended."""

        def fn(ctx: ag.Context) -> str:
            self.wait()
            return f"{name} ended"

        async def afn(ctx: ag.Context) -> str:
            async with asyncio.timeout(PATIENCE):
                while not self._done.is_set():
                    await asyncio.sleep(0.001)
            return f"{name} ended"

        return ag.function_agent(name, fn if self.drive is Sync else afn)

    def asker(self, name: str = "a", times: int = 2, *, is_last: bool = True) -> ag.Agent:
        """Return an agent that asks a few times, and says the last answer."""

        def fn(ctx: ag.Context) -> object:
            if ctx.asked < times:
                return ag.Ask(f"{name} {ctx.asked}?")
            if is_last:
                self.end()
            return f"{name}: {ctx.answer}"

        return ag.function_agent(name, fn)

    def interrupting(self) -> ag.Agent:
        """Return an agent that asks by LangGraph's `interrupt`, twice in one step."""

        def fn(ctx: ag.Context) -> str:
            answers = [interrupt("a 0?"), interrupt("a 1?")]
            self.end()
            return f"a: {' '.join(answers)}"

        return ag.function_agent("a", fn)

    def tool(self) -> Callable[[], str]:
        """Return a tool that asks by LangGraph's `interrupt`, twice."""

        def decide() -> str:
            """Ask a person."""
            answers = [interrupt("a 0?"), interrupt("a 1?")]
            self.end()
            return " ".join(answers)

        return decide

    def wrap(self, tool: str) -> AgentMiddleware[Any, Any]:
        """Return middleware that asks before and after each call of a tool."""
        work = self

        class Asking(AgentMiddleware[Any, Any]):
            def wrap_tool_call(self, request: Any, handler: Any) -> Any:
                if request.tool_call["name"] != tool:
                    return handler(request)
                interrupt("before?")
                result = handler(request)
                interrupt("after?")
                work.end()
                return result

            async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
                if request.tool_call["name"] != tool:
                    return await handler(request)
                interrupt("before?")
                result = await handler(request)
                interrupt("after?")
                work.end()
                return result

        return Asking()

    def ends(self, name: str = "then") -> ag.Agent:
        """Return an agent that ends the wait of others."""
        return ag.function_agent(name, lambda ctx: self.end() or f"{name} ended")

    def graph(self) -> ag.Agent:
        """Return a LangGraph graph that asks."""

        def node(state: MessagesState) -> dict[str, object]:
            answer = interrupt("a 0?")
            self.end()
            return {"messages": [AIMessage(f"a: {answer}")]}

        made: Any = StateGraph(MessagesState)
        made.add_node("n", node).add_edge(START, "n").add_edge("n", END)
        return ag.graph_agent("a", made.compile())

    def item(self) -> ag.Agent:
        """Return an agent for items: one named "slow" waits for the others, which ask."""

        def fn(ctx: ag.Context) -> object:
            assert ctx.item is not None
            if ctx.item.value == "slow":
                self.wait()
                return "slow ended"
            if not ctx.asked:
                return ag.Ask(f"{ctx.item.value} 0?")
            self.end()
            return f"{ctx.item.value}: {ctx.answer}"

        return ag.function_agent("it", fn)


def calling(*tools: Any, **options: Any) -> ag.Agent:
    """Return a chat agent that calls tools once, in one round."""
    names = [getattr(each, "name", None) or each.__name__ for each in tools]
    wanted = [{"name": name, "args": {}, "id": name} for name in names]
    for each, agent in zip(wanted, tools, strict=True):
        if not callable(agent):
            each["args"] = {"request": "do"}
    model = ScriptedChatModel(responses=[AIMessage("", tool_calls=wanted), AIMessage("c ended")])
    wrapped = [each if callable(each) else ag.agent_tool(each) for each in tools]
    return ag.chat_agent("c", model, tools=wrapped, **options)


def gathering(*agents: ag.Agent, catches: bool = False) -> ag.Agent:
    """Return a function that runs agents in parallel, on an event loop; it may catch failures."""

    async def fn(ctx: ag.Context) -> str:
        calls = (ctx.run(each.name, "do") for each in agents)
        replies = await asyncio.gather(*calls, return_exceptions=catches)
        return " | ".join(map(str, replies))

    return ag.function_agent("g", fn, agents=agents)


def in_threads(*agents: ag.Agent) -> ag.Agent:
    """Return a function that runs agents in parallel, in threads."""

    def fn(ctx: ag.Context) -> str:
        with ThreadPoolExecutor(len(agents)) as threads:
            replies = threads.map(lambda each: ctx.run(each.name, "do", key=each.name), agents)
            return " | ".join(replies)

    return ag.function_agent("f", fn, agents=agents)


Steps = Generator[tuple[Any, ...], Any, None]
"""Calls of the runner, each a method and its arguments after the thread; it is sent the results."""


def question_in(event: ag.AgentEvent) -> ag.Interrupt | None:
    """Return the question that an event asks."""
    return event.action.interrupted if event.action else None


class Running(Session):
    """A thread that is used in the loop which reads the events of its run."""

    def run(
        self, *args: Any, on: Callable[[ag.AgentEvent], Steps], method: str = "run", **options: Any
    ) -> list[ag.AgentEvent]:
        """Return the events of a run; `on` says what is called after each of them."""
        events: list[ag.AgentEvent] = []

        def act(runner: ag.Runner) -> None:
            for event in getattr(runner, method)(*args, **options):
                events.append(event)
                steps = on(event)
                step = partial(next, steps, None)
                while (call := step()) is not None:
                    step = _next(steps, _outcome(runner, *call))

        async def aact(runner: ag.Runner) -> None:
            async for event in getattr(runner, f"a{method}")(*args, **options):
                events.append(event)
                steps = on(event)
                step = partial(next, steps, None)
                while (call := step()) is not None:
                    step = _next(steps, await _aoutcome(runner, *call))

        self.use(act, aact)
        return events

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Return the result of a method; an iterator as a list."""
        if method in ("run", "resume", "rewind", "events"):
            found: list[ag.AgentEvent] = []
            self.follow(method, *args, hear=found.append, **options)
            return found
        return self.use(
            lambda r: getattr(r, method)(*args, **options),
            lambda r: getattr(r, f"a{method}")(*args, **options),
        )


def _next(steps: Steps, outcome: tuple[Any, Exception | None]) -> Callable[[], Any]:
    def step() -> Any:
        result, error = outcome
        try:
            return steps.send(result) if error is None else steps.throw(error)
        except StopIteration:
            return None

    return step


def _outcome(runner: ag.Runner, method: str, *args: Any) -> tuple[Any, Exception | None]:
    try:
        return getattr(runner, method)("t", *args), None
    except Exception as error:
        return None, error


async def _aoutcome(runner: ag.Runner, method: str, *args: Any) -> tuple[Any, Exception | None]:
    try:
        return await getattr(runner, f"a{method}")("t", *args), None
    except Exception as error:
        return None, error


def answering(value: object = "yes") -> Callable[[ag.AgentEvent], Steps]:
    """Return a handler that answers each question at once."""

    def on(event: ag.AgentEvent) -> Steps:
        if asked := question_in(event):
            yield "answer", {asked.id: value}

    return on
