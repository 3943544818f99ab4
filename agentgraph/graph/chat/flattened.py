"""Takes the graph that LangChain's `create_agent` builds apart, so that its nodes can run in a lane.

The problem: chat agents must behave as LangChain's do, with its middleware. But `create_agent` returns
a compiled graph. As a node of our graph it would cost a checkpoint namespace and several supersteps.

The rule: take its nodes, channels and branches out of the graph (`graph/foreign/flat_graph.py`), and
let our nodes run them. Their names are not public in LangChain. This is the only file that knows them,
and `_SHAPE` lists them: if LangChain changes one, building raises `LangChainChangedError`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.metadata import version
from types import CellType, CoroutineType, FunctionType
from typing import Any

from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelRequest
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.prebuilt import ToolNode, ToolRuntime

from agentgraph.errors import LangChainChangedError
from agentgraph.graph.foreign.flat_graph import FlatGraph
from agentgraph.graph.nodes.stopping import keep_outcome
from agentgraph.graph.open_types import Builder, Graph
from agentgraph.graph.sync_async import arun_calls, run_calls

_OF_TOOL_NODES = ("_wrap_tool_call", "_awrap_tool_call", "_injected_args", "_run_one", "_arun_one")
"""The parts of a `ToolNode` that are used."""
_SHAPE: Mapping[str, Callable[[Any], bool]] = {
    "builder": lambda builder: builder is not None,
    "builder.nodes['model'].runnable": lambda builder: isinstance(
        builder.nodes["model"].runnable, Runnable
    ),
    "builder.nodes['tools'].runnable": lambda builder: (
        "tools" not in builder.nodes or isinstance(builder.nodes["tools"].runnable, ToolNode)
    ),
    "model_node: _execute_model_sync": lambda builder: bool(_executes(builder, "func")),
    "model_node: _execute_model_async": lambda builder: bool(_executes(builder, "afunc")),
    "builder.nodes['model'].trace_policy": lambda builder: hasattr(
        builder.nodes["model"], "trace_policy"
    ),
    "builder.channels": lambda builder: "messages" in builder.channels,
    "builder.edges": lambda builder: "__start__" in dict(builder.edges),
    "builder.branches": lambda builder: all(
        hasattr(branch, "path") and hasattr(branch, "ends")
        for branches in builder.branches.values()
        for branch in branches.values()
    ),
}
"""The parts that are taken out of an agent of LangChain, each with a check that it exists."""


def flattened(graph: Graph, inside: Callable[[ModelRequest], ModelRequest]) -> FlatGraph:
    """Return the parts of a graph of `create_agent`.

    Its node "model" asks the model, with the middleware around it; called with the state, it returns a
    list of `Command` objects. Its node "tools", where there are tools, is a `ToolNode`. All others are
    hooks of the middleware, such as "Limit.before_model".

    Args:
        graph: The graph.
        inside: Called inside all middleware with the request to the model; returns the request that is
            sent. It is not traced, although one more middleware would be.

    Raises:
        LangChainChangedError: The installed LangChain builds its agents in another way.
    """
    check_shape(graph)
    for kind in ("func", "afunc"):
        [cell] = _executes(graph.builder, kind)
        cell.cell_contents = _changed(cell.cell_contents, inside)
    return FlatGraph(graph)


def check_shape(graph: object) -> None:
    """Reject a compiled agent without the parts that are taken out of it.

    Raises:
        LangChainChangedError: It names the first missing part.
    """
    for part, is_there in _SHAPE.items():
        try:
            has_part = is_there(getattr(graph, "builder", None))
        except (AttributeError, KeyError, TypeError):
            has_part = False
        if not has_part:
            raise LangChainChangedError(version("langchain"), part)


def asking_by(method: str, ask: Callable[..., object]) -> Callable[..., Any]:
    """Return a method of LangChain's approval that asks by `ask`, and not by LangGraph's `interrupt`.

    Args:
        method: Its name: "after_model", which asks about all calls of a message, or
            "_resolve_per_call", which asks about one call.
        ask: Called as `interrupt` is; returns the answer.

    Raises:
        LangChainChangedError: There is no such method, or it asks otherwise.
    """
    asks = getattr(HumanInTheLoopMiddleware, method, None)
    if not isinstance(asks, FunctionType) or "interrupt" not in asks.__code__.co_names:
        raise LangChainChangedError(version("langchain"), f"HumanInTheLoopMiddleware.{method}")
    known = {**asks.__globals__, "interrupt": ask}
    return FunctionType(asks.__code__, known, asks.__name__, asks.__defaults__, asks.__closure__)


def edited_calls(own: Mapping[str, Any]) -> Mapping[str, ToolCall]:
    """Return the calls that a person edited, by id, in the state of LangChain's middleware for that."""
    return own.get("hitl_edited_tool_calls") or {}


def wrap_inside(node: Any, ready: Callable[[object], object]) -> None:
    """Let all calls of a tool node be changed inside its wraps; not traced, as a middleware's wrap is.

    Args:
        node: The tool node.
        ready: Called with the request of a call; returns the request that is sent, or the calls that
            return it or the result.

    Raises:
        LangChainChangedError: A part that is used is missing.
    """
    for name in _OF_TOOL_NODES:
        if not hasattr(node, name):
            raise LangChainChangedError(version("langchain"), f"ToolNode.{name}")

    def inner(request: object, execute: Callable[[object], object]) -> object:
        made = ready(request)
        made = run_calls(made) if isinstance(made, CoroutineType) else made
        return made if isinstance(made, ToolMessage) else execute(made)

    async def ainner(request: object, execute: Callable[[object], Awaitable[object]]) -> object:
        made = ready(request)
        made = await arun_calls(made) if isinstance(made, CoroutineType) else made
        result = made if isinstance(made, ToolMessage) else await execute(made)
        keep_outcome()
        return result

    node._wrap_tool_call = _wrapped(node._wrap_tool_call, inner)
    node._awrap_tool_call = _wrapped(node._awrap_tool_call, ainner)


def _wrapped(
    outer: Callable[..., object] | None, inner: Callable[..., object]
) -> Callable[..., object]:
    if outer is None:
        return inner
    return lambda request, execute: outer(request, partial(inner, execute=execute))


def run_call(node: ToolNode, call: ToolCall, runtime: ToolRuntime) -> object:
    """Run one call by a tool node, with its wraps; `invoke` would start a thread for it.

    Returns:
        A `ToolMessage`, a `Command`, or a list of these.
    """
    return node._run_one(call, "tool_calls", runtime)


def arun_call(node: ToolNode, call: ToolCall, runtime: ToolRuntime) -> Awaitable[object]:
    """Run one call by a tool node, as `run_call` does; `ainvoke` would start a task for it."""
    return node._arun_one(call, "tool_calls", runtime)


def injects_state(node: ToolNode, tool: str) -> bool:
    """Return whether a tool of a tool node asks for the state: by `InjectedState` or `ToolRuntime`."""
    injected = node._injected_args.get(tool)
    return injected is not None and bool(injected.state or injected.runtime)


def injected_fields(node: ToolNode, tool: str) -> Mapping[str, str | None]:
    """Return the keys of the state that a tool gets by `InjectedState`, by parameter; None for all."""
    injected = node._injected_args.get(tool)
    return injected.state if injected is not None else {}


def _changed(
    execute: Callable[[ModelRequest], object], change: Callable[[ModelRequest], ModelRequest]
) -> Callable[[ModelRequest], object]:
    return lambda request: execute(change(request))


def _executes(builder: Builder, kind: str) -> list[CellType]:
    """Return the cell in which the model's node, sync or async, has what asks the model."""
    node = getattr(builder.nodes["model"].runnable, kind)
    cells = zip(node.__code__.co_freevars, node.__closure__, strict=True)
    wanted = "_execute_model_sync" if kind == "func" else "_execute_model_async"
    return [cell for name, cell in cells if name == wanted]
