"""Spans: the runs that tracers see, one for each activation and for each composite around it.

LangGraph starts a run of LangChain for each node, each task and each graph. These are not the parts of
a tree: a chat agent takes several nodes, a branch is a task with a graph with a node, and a loop has
none. And a node that waits for a person ends with an exception. So tracers see spans instead:

```
job                      the run of LangGraph's graph
  job/refine             opened before the first node inside, closed after the last one
    job/refine[0]/writer opened before its first node, closed after its last one
      a model, a tool    as LangChain reports them
  job/both               the node of a parallel agent
    job/both/left        opened by the first node of the lane, whose task and graph have no span
```

A run of LangGraph that is not a span is *silent*: tracers do not see it, and the runs inside it report
to the span around it. Handlers that stream, as LangGraph's own do, look for nodes, and see it.

A question closes the spans around it, and the answer opens others. A node that is retried has one span.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import takewhile
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackHandler,
    AsyncCallbackManager,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManager,
)
from langchain_core.callbacks.manager import (
    AsyncCallbackManagerForChainRun,
    CallbackManagerForChainRun,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    var_child_runnable_config,
)
from langchain_core.tracers import LangChainTracer
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import TracePolicy

from agentgraph.agents.middleware import Mode
from agentgraph.graph.internals import StreamingHandler, trace_payload
from agentgraph.graph.lane_position import Position
from agentgraph.graph.nodes.context import NodeContext, trace_metadata
from agentgraph.graph.state import LaneState
from agentgraph.graph.sync_async import Call, arun_calls, run_calls
from agentgraph.tree.addresses import Cursor, address, around, as_cursor, entered
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.run_paths import RunPaths

SPANS = "__agentgraph_spans"
"""The key in `config["configurable"]` of the `Spans` of the lane that runs; none without tracers."""


class SpannedNode(NamedTuple):
    """A node, as spans have it.

    Attributes:
        context: Its place.
        policy: The part of its input and output that tracers see.
        hook: Its name, if it is a hook of middleware, which has a span inside that of its agent.
    """

    context: NodeContext
    policy: TracePolicy | None = None
    hook: str = ""


class _Span(NamedTuple):
    at: str
    """The address, or the name of a hook."""
    name: str
    place: Place
    cursor: Cursor


class Spans:
    """The open spans of one run of a lane, the outermost first.

    Attributes:
        failure: The exception of the last node, which may be retried; None if it ended.
    """

    def __init__(self, around: UUID | None, root: str = "") -> None:
        """Begin without spans.

        Args:
            around: The span of the node that runs the lane; None for the root's, which has a run.
            root: The address of the root, if it is the lane: its span is the run of its graph.
        """
        self.failure: BaseException | None = None
        self._around, self._root = around, root
        self._open: list[tuple[str, Any, TracePolicy | None]] = []

    async def enter(
        self, node: SpannedNode, state: LaneState, config: RunnableConfig
    ) -> RunnableConfig:
        """Open the spans of a node, close those of others, and return the config of its silent run."""
        self.failure = None
        callbacks: Any = config["callbacks"]
        self._around = self._around or callbacks.parent_run_id
        position = node.context.arrived(state.get("position"))
        path = self._path(node, position)
        await self._close(self._shared(path))
        for span in path[len(self._open) :]:
            policy = node.policy if span is path[-1] else None
            shown = trace_payload(state, policy.process_inputs if policy else None)
            manager = self._spanning(callbacks)
            if span in (path[-2:] if node.hook else path[-1:]):
                manager.tags = callbacks.tags
                manager.metadata |= config.get("metadata", {})
            manager.metadata |= trace_metadata(node.context.paths, span.place, span.cursor)
            begin = partial(manager.on_chain_start, None, shown, name=span.name)
            self._open.append((span.at, await Call(begin, begin), policy))
        silent = silenced(callbacks, self._inner)
        silent.handlers.insert(0, _ending(callbacks, self, node))
        own = {**config.get("metadata", {}), **node.context.metadata(position, has_path=True)}
        return {**config, "callbacks": silent, "metadata": own}

    async def leave(self, node: SpannedNode, update: Mapping[str, Any]) -> None:
        """Close the spans that end with a node."""
        position: Position = update["position"]
        to = node.context.tree.by_node.get(position["next"] or "")
        path = [] if to is None else self._path(SpannedNode(node.context), position, to)
        await self._close(self._shared(path), update)

    async def close(self, error: BaseException | None = None) -> None:
        """Close all spans, as the run of the lane ends.

        Args:
            error: How it ended, if that is not the failure of the last node.
        """
        await self._close(0, {}, self.failure or error)

    @property
    def _inner(self) -> UUID | None:
        return self._open[-1][1].run_id if self._open else self._around

    def _path(self, node: SpannedNode, position: Position, place: Place | None = None) -> list[_Span]:
        """Return the spans around a node of the lane, and its own, the outermost first."""
        cursor = as_cursor(position["cursor"])
        steps = around(place or node.context.place, cursor)
        path = [_Span(address(step, at), step.name, step, at) for step, at in steps]
        hook = [path[-1]._replace(at=node.hook, name=node.hook)] if node.hook else []
        return [*path[path[0].at == self._root :], *hook]

    def _shared(self, path: Sequence[_Span]) -> int:
        """Return how many of the open spans are also around another node."""
        same = (at == span.at for (at, *_), span in zip(self._open, path, strict=False))
        return len([*takewhile(bool, same)])

    def _spanning(self, callbacks: Any) -> Any:
        """Return a manager whose next run is a span inside the innermost one, for tracers alone."""
        made = _copied(callbacks)
        made.handlers, made.parent_run_id = [*filter(_is_tracer, callbacks.handlers)], self._inner
        made.tags = [*callbacks.inheritable_tags]
        return made

    async def _close(
        self, count: int, outputs: Mapping[str, Any] | None = None, error: BaseException | None = None
    ) -> None:
        while len(self._open) > count:
            _, run, policy = self._open.pop()
            if error is None or isinstance(error, GraphBubbleUp):
                asked = isinstance(error, GraphInterrupt) and {"__interrupt__": error.args[0]}
                shown = trace_payload(
                    asked or outputs or {}, policy.process_outputs if policy else None
                )
                end = partial(run.on_chain_end, shown)
            else:
                end = partial(run.on_chain_error, error)
            await Call(end, end)


class _Ending(BaseCallbackHandler):
    """Closes spans as the run of a node ends, or that of the graph of a lane, before tracers see it."""

    run_inline = True
    ignore_llm = ignore_retriever = ignore_agent = ignore_custom_event = True

    def __init__(self, spans: Spans, node: SpannedNode | None) -> None:
        super().__init__()
        self.spans, self.node = spans, node

    def on_chain_end(self, outputs: Any, **_: object) -> Any:
        """Close spans."""
        run_calls(self.ended(outputs))

    def on_chain_error(self, error: BaseException, **_: object) -> Any:
        """Close the spans of a lane; a node may be retried."""
        run_calls(self.failed(error))

    async def ended(self, outputs: Any) -> None:
        """Close the spans of the node, or all."""
        await (self.spans.close() if self.node is None else self.spans.leave(self.node, outputs))

    async def failed(self, error: BaseException) -> None:
        """Close all spans, unless a node may be retried."""
        if self.node is None:
            await self.spans.close(error)
        else:
            self.spans.failure = error


class _AsyncEnding(_Ending, AsyncCallbackHandler):
    async def on_chain_end(self, outputs: Any, **_: object) -> None:
        """Close spans."""
        await arun_calls(self.ended(outputs))

    async def on_chain_error(self, error: BaseException, **_: object) -> None:
        """Close the spans of a lane; a node may be retried."""
        await arun_calls(self.failed(error))


class _Silent(CallbackManager):
    def on_chain_start(self, *args: Any, **options: Any) -> CallbackManagerForChainRun:
        """Start a run for handlers that stream."""
        run = super().on_chain_start(*args, **options)
        run.__class__ = _SilentRun
        return run


class _SilentRun(CallbackManagerForChainRun):
    def get_child(self, tag: str | None = None) -> CallbackManager:
        """Return callbacks that report to the span around."""
        child = super().get_child(tag)
        child.parent_run_id = self.parent_run_id
        return child


class _AsyncSilent(AsyncCallbackManager):
    async def on_chain_start(self, *args: Any, **options: Any) -> AsyncCallbackManagerForChainRun:
        """Start a run for handlers that stream."""
        run = await super().on_chain_start(*args, **options)
        run.__class__ = _AsyncSilentRun
        return run


class _AsyncSilentRun(AsyncCallbackManagerForChainRun):
    def get_child(self, tag: str | None = None) -> AsyncCallbackManager:
        """Return callbacks that report to the span around."""
        child = super().get_child(tag)
        child.parent_run_id = self.parent_run_id
        return child


def traced_root(config: RunnableConfig, tree: Tree, mode: Mode) -> Mapping[str, Any]:
    """Return keys for the config of the graph of a tree, whose run is the root's span; none untraced.

    Args:
        config: The config of the graph.
        tree: The tree.
        mode: Whether it runs sync or async.
    """
    made = get_callback_manager_for_config if mode == "sync" else get_async_callback_manager_for_config
    callbacks = made(config)
    if not is_traced(callbacks):
        return {}
    own = trace_metadata(RunPaths(tree), tree.root, entered(tree.root, ()))
    spans = Spans(None, str(own["agent_address"]))
    callbacks.handlers.insert(0, _ending(callbacks, spans))
    callbacks.metadata |= own
    metadata = config.get("metadata", {})
    around = {"metadata": {**metadata, **own}} if "agent_address" in metadata else {}
    configurable = {**config["configurable"], SPANS: spans}
    return {"callbacks": callbacks, "configurable": configurable, **around}


@contextmanager
def in_lane(config: RunnableConfig, spans: Spans | None) -> Iterator[None]:
    """Have the graph of a lane run silently in the span of the task that it is in.

    Args:
        config: The config of the task.
        spans: The spans of the lane, if it was begun without its graph.
    """
    callbacks: Any = config.get("callbacks")
    if not is_traced(callbacks):
        yield
        return
    spans = spans or Spans(callbacks.parent_run_id)
    own = silenced(callbacks, callbacks.parent_run_id)
    own.handlers.insert(0, _ending(callbacks, spans))
    configurable = {**config["configurable"], SPANS: spans}
    with _config({**config, "callbacks": own, "configurable": configurable}):
        yield


@contextmanager
def in_node(config: RunnableConfig) -> Iterator[None]:
    """Have the task that a node calls run silently in the span of the node.

    Args:
        config: The config in the node.
    """
    with _config({**config, "callbacks": of_task(config.get("callbacks"))}):
        yield


def of_task(callbacks: Any) -> Any:
    """Return the callbacks of a task that runs silently in the span of its node."""
    return silenced(callbacks, callbacks.parent_run_id) if is_traced(callbacks) else callbacks


def is_traced(callbacks: object) -> bool:
    """Return whether a tracer sees runs: a handler of chains that does not only stream."""
    if not isinstance(callbacks, BaseCallbackManager):
        return False
    return any(map(_is_tracer, callbacks.handlers))


def silenced(callbacks: Any, span: UUID | None) -> Any:
    """Return a callback manager whose next run tracers do not see; what is inside is in a span."""
    made = _copied(callbacks)
    made.__class__ = _AsyncSilent if isinstance(callbacks, AsyncCallbackManager) else _Silent
    made.handlers = [_deaf(each, span) for each in callbacks.handlers if not _is_other(each)]
    made.parent_run_id = span
    return made


def _copied(callbacks: Any) -> Any:
    made = copy.copy(callbacks)  # not by its class, which OpenInference adds a handler to
    made.tags, made.inheritable_tags = [*made.tags], [*made.inheritable_tags]
    made.metadata, made.inheritable_metadata = {**made.metadata}, {**made.inheritable_metadata}
    return made


def _is_tracer(handler: BaseCallbackHandler) -> bool:
    return not (isinstance(handler, StreamingHandler) or handler.ignore_chain)


def _is_other(handler: BaseCallbackHandler) -> bool:
    return _is_tracer(handler) and not isinstance(handler, LangChainTracer)


def _deaf(handler: Any, span: UUID | None) -> Any:
    """Return a handler; in the place of LangSmith's tracer a copy that ignores chains.

    Without one LangChain would add another. LangGraph asks it for the run of a node, in which
    functions that LangSmith traces are nested: it answers with that of the span.
    """
    if not isinstance(handler, LangChainTracer) or isinstance(handler, StreamingHandler):
        return handler
    kind: Any = _deaf_kind(type(handler))
    made = kind.__new__(kind)  # `copy` returns a tracer itself
    vars(made).update(vars(handler), run_map=_Answer(handler.run_map.get(str(span))))
    return made


@cache
def _deaf_kind(kind: type[Any]) -> type[Any]:
    return type(kind.__name__, (kind,), {"ignore_chain": True})


class _Answer(dict[str, Any]):
    def __init__(self, run: object) -> None:
        super().__init__()
        self.run = run

    def get(self, *_: object) -> Any:
        return self.run

    def __contains__(self, _: object) -> bool:
        return True


def _ending(callbacks: object, spans: Spans, node: SpannedNode | None = None) -> _Ending:
    kind = _AsyncEnding if isinstance(callbacks, AsyncCallbackManager) else _Ending
    return kind(spans, node)


@contextmanager
def _config(config: RunnableConfig) -> Iterator[None]:
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
