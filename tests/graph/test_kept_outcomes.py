"""What an async function returned is kept, also if the run stops while handlers are told of it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

Work = Callable[[], Any]


class Wraps(AgentMiddleware[Any, Any]):
    """Calls the tool."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class Own(BaseTool):
    """A tool whose class has the function, and which counts its calls."""

    name: str = "work"
    description: str = "Work."
    work: Any = None
    calls: tuple[str, ...] = ()

    def _run(self) -> str:
        self.calls += ("sync",)
        return "done"

    async def _arun(self) -> str:
        self.calls += ("async",)
        return str(await self.work())


def _flat(work: Work) -> ag.Agent:
    return ag.graph_agent("does", _graph(work), flat=True)


def _nested(work: Work) -> ag.Agent:
    return ag.graph_agent("does", _graph(work))


def _graph(work: Work) -> Any:
    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(await work())]}

    return StateGraph(MessagesState).add_node(node).add_edge(START, "node").compile()


def _tool(work: Work) -> ag.Agent:
    return _chat(StructuredTool.from_function(None, work, name="work", description="Work."))


def _wrapped(work: Work) -> ag.Agent:
    tool = StructuredTool.from_function(None, work, name="work", description="Work.")
    return _chat(tool, Wraps())


def _own(work: Work) -> ag.Agent:
    return _chat(Own(work=work))


def _chat(tool: BaseTool, *middleware: Any) -> ag.Agent:
    call = AIMessage("", tool_calls=[{"name": "work", "args": {}, "id": "1"}])
    model = ScriptedChatModel(responses=[call, AIMessage("Done.")])
    return ag.chat_agent("does", model, tools=[tool], middleware=middleware)


@pytest.mark.parametrize("made", [_flat, _nested, _tool, _wrapped, _own])
def test_a_function_that_has_returned_does_not_run_again_while_handlers_are_told(
    made: Callable[[Work], ag.Agent],
) -> None:
    assert asyncio.run(_works(made)) == 1


async def _works(made: Callable[[Work], ag.Agent]) -> int:
    """Return how often the function runs, if the run fails just after it and is resumed."""
    told, loop, works = asyncio.Event(), asyncio.get_running_loop(), 0

    class Slow(BaseCallbackHandler):
        def on_chain_end(self, *_: object, **__: object) -> None:
            if works and not told.is_set():
                loop.call_soon_threadsafe(told.set)
                time.sleep(0.1)  # in a thread; meanwhile the other branch fails

        on_tool_end = on_chain_end

    async def work() -> str:
        nonlocal works
        works += 1
        return "done"

    async def fail(ctx: ag.Context) -> str:
        if not told.is_set():
            await told.wait()
            raise ValueError("no")
        return "yes"

    tree = ag.parallel("both", [made(work), ag.function_agent("fails", fail)])
    runner = ag.Runner(tree, checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="no"):
        async for _ in runner.arun("go", thread_id="t", config={"callbacks": [Slow()]}):
            pass
    async for _ in runner.aresume("t"):
        pass
    return works


def test_a_tool_of_a_class_keeps_what_its_functions_keep_on_it() -> None:
    async def work() -> str:
        return "done"

    tool = Own(work=work)
    runner = ag.Runner(_chat(tool))
    list(runner.run("go", thread_id="sync"))
    asyncio.run(_run(_chat(tool)))
    assert tool.calls == ("sync", "async")


async def _run(agent: ag.Agent) -> None:
    async for _ in ag.Runner(agent).arun("go", thread_id="async"):
        pass
