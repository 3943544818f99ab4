"""What `ToolNode` invokes in the place of a tool: it takes the actions out, or runs an agent's lane."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from inspect import unwrap
from typing import Any, get_args, get_type_hints

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from agentgraph.agents.agents import AgentTool
from agentgraph.agents.context import Context
from agentgraph.agents.tools import Request, function_of, is_async_tool
from agentgraph.graph.chat.calls import before_calls
from agentgraph.graph.chat.guarding import is_guarded
from agentgraph.graph.chat.running_call import RUNNING, RunningCall
from agentgraph.graph.chat.talking import Call, Talk, arun_talk, run_talk
from agentgraph.graph.history import REQUEST, unchanged
from agentgraph.graph.nodes.lane import Lane, LaneCall, LaneResult, last_text
from agentgraph.graph.nodes.site import Site
from agentgraph.graph.nodes.stopping import stoppable, wait_for_lane
from agentgraph.graph.nodes.threads import run_coroutine
from agentgraph.graph.state import with_id
from agentgraph.tree.addresses import Cursor, address, entered, is_in_call, numbered_call


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
        running = RUNNING.get()
        running.restart()
        return running.take(self.tool.invoke(self._with_context(call, running), config))

    async def ainvoke(self, call: Any, config: RunnableConfig) -> Any:
        """Call the tool on the event loop."""
        running = RUNNING.get()
        running.restart()
        with stoppable(is_thread=is_guarded(self.tool)):
            called = self.tool.ainvoke(self._with_context(call, running), config)
            returned = await self._in_time(called)
        return running.take(returned)

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

    def _with_context(self, call: Any, running: RunningCall) -> Any:
        if not self._contexts:
            return call
        context = running.activation.context(unchanged, running.seen)
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
        return run_talk(self._talk(RUNNING.get(), call))

    async def ainvoke(self, call: Any, config: RunnableConfig) -> ToolMessage:
        """Run the lane on the event loop."""
        running = RUNNING.get()
        async with running.attempts.lock:
            return await arun_talk(self._talk(running, call))

    def _talk(self, running: RunningCall, call: Any) -> Talk[ToolMessage]:
        attempts, place = running.attempts, self.lane.place
        if (kept := (yield from attempts.next())) is not None:
            return running.message(kept["came"])
        running.restart()
        cursor = (
            *running.activation.cursor,
            numbered_call(running.opened.number, attempts.current),
        )
        with attempts.running(address(place, entered(place, cursor)), place.node):
            try:
                lane_call = self._lane_call(running, call, cursor)
                self._take(running, *(yield Call(self.lane.attempt, self._aattempt, (lane_call,))))
            except GraphBubbleUp:
                raise
            except Exception as error:
                # The caller may go on with it; then nobody has to answer what was asked beside it.
                running.left = lambda at: is_in_call(self.site.tree, at, place, cursor)
                running.teller.fail(error)
                raise
        return running.message(attempts.came)

    async def _aattempt(self, lane_call: LaneCall) -> tuple[LaneResult, Exception | None]:
        wait_for_lane()
        return await self.lane.aattempt(lane_call)

    def _lane_call(self, running: RunningCall, call: Any, cursor: Cursor) -> LaneCall:
        activation, seen = running.activation, running.seen
        text = Request.model_validate(call["args"]).request
        said = HumanMessage(text, additional_kwargs={REQUEST: True})
        request = with_id(said, f"{activation.address} {running.opened.number}")
        around = before_calls(activation, seen.messages) if self.tool.history == "shared" else ()
        surroundings = replace(seen, messages=[*around, request])
        namespace = running.attempts.namespace()
        return LaneCall(self.site, cursor, lambda: surroundings, running.control, namespace)

    def _take(self, running: RunningCall, result: LaneResult, error: Exception | None) -> None:
        running.attempts.said = [message.id for message in result["messages"]]
        if error is not None:
            raise error
        running.write(result["values"])
        before = running.activation.seen.transfers
        running.add_transfers(result.get("transfers", before) - before)
        running.attempts.came = last_text(result)


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
