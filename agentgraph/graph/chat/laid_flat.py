"""Builds agents with LangChain's `create_agent`, and takes their graph apart.

The problem: chat agents must behave as LangChain's do, with its middleware. But `create_agent` returns
a compiled graph, which would cost a checkpoint namespace and several supersteps as a node of ours.

The rule: take its nodes, channels and branches out of the graph (`graph/flat/graph.py`), and let our
nodes run them. Their names are not public in LangChain. This is the only file that knows them, and
`_SHAPE` lists them: if LangChain changes one, building raises `LangChainChangedError`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from types import FunctionType
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import SystemMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.prebuilt import ToolNode, ToolRuntime

from agentgraph.errors import LangChainChangedError
from agentgraph.graph.flat.graph import FlatGraph


def _tools_have(name: str, graph: Any) -> bool:
    node = graph.builder.nodes.get("tools")
    return node is None or hasattr(node.runnable, name)


_OF_TOOL_NODES = ("_wrap_tool_call", "_awrap_tool_call", "_injected_args", "_run_one", "_arun_one")
"""What is used of a `ToolNode`."""
_SHAPE: Mapping[str, Callable[[Any], bool]] = {
    "builder": lambda graph: hasattr(graph, "builder"),
    "builder.nodes['model'].runnable": lambda graph: isinstance(
        graph.builder.nodes["model"].runnable, Runnable
    ),
    "builder.nodes['tools'].runnable": lambda graph: (
        "tools" not in graph.builder.nodes
        or isinstance(graph.builder.nodes["tools"].runnable, ToolNode)
    ),
    "model_node: _execute_model_sync": lambda graph: bool(_executes(graph, "func")),
    "model_node: _execute_model_async": lambda graph: bool(_executes(graph, "afunc")),
    **{f"ToolNode.{name}": partial(_tools_have, name) for name in _OF_TOOL_NODES},
    "builder.nodes['model'].trace_policy": lambda graph: hasattr(
        graph.builder.nodes["model"], "trace_policy"
    ),
    "builder.channels": lambda graph: "messages" in graph.builder.channels,
    "builder.edges": lambda graph: "__start__" in dict(graph.builder.edges),
    "builder.branches": lambda graph: all(
        hasattr(branch, "path") and hasattr(branch, "ends")
        for found in graph.builder.branches.values()
        for branch in found.values()
    ),
}
"""The parts that are taken out of an agent of LangChain, each with a check that it exists."""


def laid_flat(
    model: Any,
    tools: Sequence[Any],
    *,
    system_message: SystemMessage | None = None,
    response_format: Any = None,
    middleware: Sequence[Any] = (),
    inside: Callable[[Any], Any] | None = None,
) -> FlatGraph:
    """Return the parts of `create_agent(model, tools, ...)`.

    Its node "model" asks the model, with the middleware around it; called with the state, it gives a
    list of `Command`s. Its node "tools", where there are tools, is a `ToolNode`. All others are hooks
    of the middleware, such as "Limit.before_model".

    Args:
        model: The model.
        tools: The tools.
        system_message: The system message; None for none.
        response_format: LangChain's strategy for a structured answer; None for none.
        middleware: The middleware.
        inside: Called inside all middleware with the request to the model; gives the one that is made.
            It is not traced, as one more middleware would be.

    Raises:
        LangChainChangedError: The installed LangChain builds its agents in another way.
    """
    graph = create_agent(
        model,
        list(tools),
        system_prompt=system_message,
        response_format=response_format,
        middleware=list(middleware),
    )
    check_shape(graph)
    if inside is not None:
        _change_requests(graph, inside)
    return FlatGraph(graph)


def check_shape(graph: Any) -> None:
    """Refuse a compiled agent that lacks what is taken out of it.

    Raises:
        LangChainChangedError: It names the first missing part.
    """
    for part, is_there in _SHAPE.items():
        try:
            found = is_there(graph)
        except (AttributeError, KeyError, TypeError):
            found = False
        if not found:
            raise LangChainChangedError(version("langchain"), part)


def asking_by(hook: Any, ask: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a hook of LangChain's that puts its question by `ask`, and not by LangGraph's `interrupt`.

    Raises:
        LangChainChangedError: The hook asks otherwise.
    """
    if not isinstance(hook, FunctionType) or "interrupt" not in hook.__code__.co_names:
        raise LangChainChangedError(version("langchain"), "HumanInTheLoopMiddleware.after_model")
    known = {**hook.__globals__, "interrupt": ask}
    return FunctionType(hook.__code__, known, hook.__name__, hook.__defaults__, hook.__closure__)


def edited_calls(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the calls that a person edited, by id, in the state of LangChain's middleware for that."""
    return own.get("hitl_edited_tool_calls") or {}


def wrap_inside(node: Any, ready: Callable[[Any], Any]) -> None:
    """Let all calls of a tool node be changed inside its wraps; not traced, as a middleware's wrap is.

    Args:
        node: The tool node.
        ready: Called with the request of a call; gives the one that is made, or the result.

    Raises:
        LangChainChangedError: It lacks what is used of it.
    """
    for name in _OF_TOOL_NODES:
        if not hasattr(node, name):
            raise LangChainChangedError(version("langchain"), f"ToolNode.{name}")
    outer, aouter = node._wrap_tool_call, node._awrap_tool_call

    def inner(request: Any, execute: Callable[[Any], Any]) -> Any:
        given = ready(request)
        return given if isinstance(given, ToolMessage) else execute(given)

    async def ainner(request: Any, execute: Callable[[Any], Any]) -> Any:
        given = ready(request)
        return given if isinstance(given, ToolMessage) else await execute(given)

    def wrap(request: Any, execute: Callable[[Any], Any]) -> Any:
        return outer(request, partial(inner, execute=execute))

    async def awrap(request: Any, execute: Callable[[Any], Any]) -> Any:
        return await aouter(request, partial(ainner, execute=execute))

    node._wrap_tool_call = inner if outer is None else wrap
    node._awrap_tool_call = ainner if aouter is None else awrap


def run_call(node: ToolNode, call: ToolCall, runtime: ToolRuntime) -> Any:
    """Run one call by a tool node, with its wraps; `invoke` would start a thread for it.

    Returns:
        A `ToolMessage`, a `Command`, or a list of these.
    """
    return node._run_one(call, "tool_calls", runtime)


def arun_call(node: ToolNode, call: ToolCall, runtime: ToolRuntime) -> Awaitable[Any]:
    """Run one call by a tool node, as `run_call` does; `ainvoke` would start a task for it."""
    return node._arun_one(call, "tool_calls", runtime)


def injects_state(node: ToolNode, tool: str) -> bool:
    """Return whether a tool of a tool node asks for the state: by `InjectedState` or `ToolRuntime`."""
    injected = node._injected_args.get(tool)
    return injected is not None and bool(injected.state or injected.runtime)


def _change_requests(graph: Any, change: Callable[[Any], Any]) -> None:
    """Let all requests to the model be changed, inside all middleware."""
    for kind in ("func", "afunc"):
        [cell] = _executes(graph, kind)
        cell.cell_contents = _changed(cell.cell_contents, change)


def _changed(execute: Callable[[Any], Any], change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda request: execute(change(request))


def _executes(graph: Any, kind: str) -> list[Any]:
    """Return the cell in which the model's node, sync or async, has what asks the model."""
    node = getattr(graph.builder.nodes["model"].runnable, kind)
    cells = zip(node.__code__.co_freevars, node.__closure__, strict=True)
    wanted = "_execute_model_sync" if kind == "func" else "_execute_model_async"
    return [cell for name, cell in cells if name == wanted]
