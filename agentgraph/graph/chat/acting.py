"""What `ToolNode` invokes in the place of a tool: it takes the actions out, or runs an agent's lane."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from inspect import unwrap
from typing import Any, NamedTuple, get_args, get_type_hints

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from agentgraph.agents.agents import AgentTool
from agentgraph.agents.context import Context
from agentgraph.agents.tools import Request, function_of, is_async_tool
from agentgraph.graph.chat.attempts import Attempts, came_of
from agentgraph.graph.chat.calls import before_calls
from agentgraph.graph.chat.guarding import is_guarded
from agentgraph.graph.chat.outcome import Outcome
from agentgraph.graph.chat.step import Step
from agentgraph.graph.history import REQUEST, unchanged
from agentgraph.graph.nodes.context import RunState, Site
from agentgraph.graph.nodes.lane import Lane, LaneCall, LaneResult, last_text
from agentgraph.graph.nodes.stopping import Stop, run_coroutine, stoppable, wait_for_lane
from agentgraph.graph.state import with_id
from agentgraph.tree.addresses import Cursor, address, entered, is_in_call, numbered_call


class Scope(NamedTuple):
    """What is known where one call runs.

    Attributes:
        outcome: Collects what the call comes to.
        tool: The name of the tool that is to run; a person may have edited the call.
        control: Stops the lanes that calls run.
        seen: What is visible to it: calls that run in turn see the values that those before wrote.
        step: Returns what the agent sees, and the state of its middleware, for tools that ask for it.
        updates: What calls before this one made of that state, where calls run in turn.
        attempts: The runs of lanes for it.
        is_passed_over: Whether it is a transfer that another one of the same message comes before.
    """

    outcome: Outcome
    tool: str
    control: Stop
    seen: RunState
    step: Callable[[], Step]
    attempts: Attempts
    updates: Sequence[Mapping[str, Any]] = ()
    is_passed_over: bool = False

    def state(self) -> dict[str, Any]:
        """Return the state as tools see it; the messages are a list of the call's own."""
        written = self.outcome.writes
        seen = self.seen.with_new((), written) if written else self.seen
        return self.step().state_after(dict(seen.values), self.outcome.updates)

    def update(self, update: dict[str, Any]) -> None:
        """Take an update of the state of the middleware that the call makes while it runs."""
        self.outcome.add(Command(update=update), self.state)


SCOPE: ContextVar[Scope] = ContextVar("scope")
"""The scope of the call that runs: through `ToolNode` and middleware, which make calls anew."""


@contextmanager
def in_scope(scope: Scope, config: RunnableConfig) -> Iterator[None]:
    """Make the scope of a call, and LangGraph's config, known to what runs for it in a `with` block."""
    tokens = SCOPE.set(scope), var_child_runnable_config.set(config)
    try:
        yield
    finally:
        SCOPE.reset(tokens[0])
        var_child_runnable_config.reset(tokens[1])


class ActingTool:
    """A tool that may return actions; where middleware calls it again, the last time counts."""

    def __init__(self, tool: Any, contexts: Sequence[str], seconds: float | None) -> None:
        """Make the stand-in of a tool.

        Args:
            tool: The tool.
            contexts: The names of its parameters that are given a `Context`.
            seconds: How long a call that is awaited may take.
        """
        self.tool, self._contexts = tool, contexts
        self._seconds = seconds if seconds and is_async_tool(tool) else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tool, name)

    def invoke(self, call: Any, config: RunnableConfig) -> Any:
        """Call the tool."""
        is_async_only = getattr(self.tool, "coroutine", None) and not getattr(self.tool, "func", None)
        if is_async_only:
            return run_coroutine(self.ainvoke(call, config))
        scope = SCOPE.get()
        scope.outcome.restart()
        return scope.outcome.take(self.tool.invoke(self._with_context(call), config), scope.state)

    async def ainvoke(self, call: Any, config: RunnableConfig) -> Any:
        """Call the tool on the event loop."""
        scope = SCOPE.get()
        scope.outcome.restart()
        with stoppable(is_thread=is_guarded(self.tool)):
            returned = await self._in_time(self.tool.ainvoke(self._with_context(call), config))
        return scope.outcome.take(returned, scope.state)

    async def _in_time(self, called: Awaitable[Any]) -> Any:
        if self._seconds is None:
            return await called
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await called
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"the tool took longer than {self._seconds} s") from None

    def _with_context(self, call: Any) -> Any:
        if not self._contexts:
            return call
        scope = SCOPE.get()
        context = scope.outcome.activation.context(unchanged, scope.seen)
        return {**call, "args": {**call["args"], **dict.fromkeys(self._contexts, context)}}


class LaneTool:
    """An agent as a tool: a call runs its lane.

    Where middleware calls it again, that is another attempt, in a lane of its own; the last one
    counts. Those before it are over: they are kept, and a resume runs none of them.
    """

    def __init__(self, site: Site, lane: Lane, tool: AgentTool) -> None:
        self.site, self.lane, self.tool = site, lane, tool

    def invoke(self, call: Any, config: RunnableConfig) -> ToolMessage:
        """Run the lane."""
        scope = SCOPE.get()
        attempts = scope.attempts
        attempts.load()
        if (kept := attempts.next()) is not None:
            return scope.outcome.message(came_of(kept))
        attempts.keep()
        with self._attempt(scope, attempts):
            lane_call = self._lane_call(scope, call, attempts)
            came = self._take(scope, attempts, *self.lane.attempt(lane_call))
        return scope.outcome.message(came)

    async def ainvoke(self, call: Any, config: RunnableConfig) -> ToolMessage:
        """Run the lane on the event loop."""
        scope = SCOPE.get()
        async with scope.attempts.lock:
            return await self._ainvoke(scope, scope.attempts, call)

    async def _ainvoke(self, scope: Scope, attempts: Attempts, call: Any) -> ToolMessage:
        await attempts.aload()
        if (kept := attempts.next()) is not None:
            return scope.outcome.message(came_of(kept))
        await attempts.akeep()
        with self._attempt(scope, attempts):
            lane_call = self._lane_call(scope, call, attempts)
            wait_for_lane()
            ended = await self.lane.aattempt(lane_call)
            came = self._take(scope, attempts, *ended)
        return scope.outcome.message(came)

    @contextmanager
    def _attempt(self, scope: Scope, attempts: Attempts) -> Iterator[None]:
        """Forget what came of the attempt before, and tell of failures in this one."""
        scope.outcome.restart()
        at = self._address(scope, attempts)
        with attempts.running(at, self.lane.place.node), self._told(scope, attempts):
            yield

    @contextmanager
    def _told(self, scope: Scope, attempts: Attempts) -> Iterator[None]:
        """Tell of failures inside the agent, for its caller may go on with them.

        What was asked beside them nobody has to answer, if the call comes to a result then.
        """
        try:
            yield
        except GraphBubbleUp:
            raise
        except Exception as error:
            tree, place, cursor = self.site.tree, self.lane.place, self._cursor(scope, attempts)
            scope.outcome.left = lambda at: is_in_call(tree, at, place, cursor)
            scope.outcome.teller.fail(error)
            raise

    def _address(self, scope: Scope, attempts: Attempts) -> str:
        return address(self.lane.place, entered(self.lane.place, self._cursor(scope, attempts)))

    def _cursor(self, scope: Scope, attempts: Attempts) -> Cursor:
        outcome = scope.outcome
        return (*outcome.activation.cursor, numbered_call(outcome.opened.number, attempts.current))

    def _lane_call(self, scope: Scope, call: Any, attempts: Attempts) -> LaneCall:
        activation, number = scope.outcome.activation, scope.outcome.opened.number
        text = Request.model_validate(call["args"]).request
        said = HumanMessage(text, additional_kwargs={REQUEST: True})
        request = with_id(said, f"{activation.address} {number}")
        around = before_calls(activation, scope.seen.messages) if self.tool.history == "shared" else ()
        state = replace(scope.seen, messages=[*around, request])
        cursor, namespace = self._cursor(scope, attempts), attempts.namespace()
        return LaneCall(self.site, cursor, lambda: state, scope.control, namespace)

    def _take(
        self, scope: Scope, attempts: Attempts, result: LaneResult, error: Exception | None
    ) -> str:
        attempts.said = [message.id for message in result["messages"]]
        if error is not None:
            raise error
        scope.outcome.write(result["values"])
        before = scope.outcome.activation.seen.transfers
        scope.outcome.add_transfers(result.get("transfers", before) - before)
        attempts.came = last_text(result)
        return attempts.came


def context_parameters(given: BaseTool) -> tuple[str, ...]:
    """Return the names of the parameters of a tool that are annotated with `Context`.

    >>> from langchain_core.tools import tool
    >>> def count(word: str, ctx: Context) -> int:
    ...     "Count a word in all messages."
    ...     return sum(message.text.count(word) for message in ctx.messages)
    >>> context_parameters(tool(count))
    ('ctx',)
    """
    hints = get_type_hints(unwrap(function_of(given)), include_extras=True)
    fields = given.get_input_schema().__annotations__
    annotated = {**fields, **hints}
    return tuple(name for name, hint in annotated.items() if name != "return" and _has_context(hint))


def _has_context(hint: Any) -> bool:
    return hint is Context or any(_has_context(each) for each in get_args(hint))
