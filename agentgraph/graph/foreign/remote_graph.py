"""Runs a `RemoteGraph` for one activation: on a thread of the server, to its end or its questions.

`RemoteGraph` itself cannot be a node that pauses. It sends our thread id, but LangGraph's server
accepts only UUIDs. It raises the first question and closes the stream, so that others are lost. On a
resume it sends its input again.

So this reads the stream to its end and raises all questions, under the server's ids. Before each run it
reads the state of the server's thread: the metadata of the last run say whether this activation began
it. If so, that run is resumed with the answers so far.

The runtime context is not sent as it is: it may hold connections and keys, and the server saves what it
is sent. The remote graph gets the fields that its own context schema has. They are sent as
`configurable`, of which the server makes the context: it takes no call with both.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, cast
from uuid import NAMESPACE_URL, UUID, uuid5
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.pregel.protocol import StreamChunk, StreamProtocol
from langgraph.runtime import Runtime
from langgraph.types import Command, Interrupt
from pydantic_core import to_jsonable_python

from agentgraph.graph.internals import INTERRUPT, RESUME_MAP, RUNTIME, SCRATCHPAD, STREAM
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.emitter import is_ours
from agentgraph.graph.sync_async import Call, arun_calls, run_calls
from agentgraph.tree.addresses import places_to
from agentgraph.tree.places import Place, Tree

_BEGUN_BY = "agentgraph_activation"
"""The key in the metadata of a server's run for the activation that began it."""
_BEGUN_AFTER = "agentgraph_after"
"""The key in the metadata of a server's run for the last message of its thread before the run."""
_STREAMED = {"stream_mode": ["values", "updates", "custom"], "subgraphs": True}
_SCHEMAS: WeakKeyDictionary[object, Mapping[str, Any]] = WeakKeyDictionary()
"""The schemas of remote graphs of which a context was asked for."""
State = tuple[str, Mapping[str, object]]
"""A state of a graph, as streamed: after the word "values"."""


def is_remote(graph: object) -> bool:
    """Return whether a graph is a `RemoteGraph`, without importing its module."""
    module = sys.modules.get("langgraph.pregel.remote")
    return module is not None and isinstance(graph, module.RemoteGraph)


def remote_thread(thread_id: str, tree: Tree, place: Place, namespace: str) -> str:
    """Return the id of an agent's thread on a server, which must be a UUID.

    It is the same in all turns of our thread, and another one for each place. Each call of an agent as
    a tool, and each item of a plan, has a new one.

    Args:
        thread_id: The id of our thread; the first remote agent in the root's lane uses it if it is a
            UUID.
        tree: The tree.
        place: The place of the agent.
        namespace: LangGraph's checkpoint namespace of the activation, a new one each time.
    """
    if _is_uuid(thread_id) and place == _first(tree):
        return thread_id
    places = places_to(place)
    is_called = any(each.is_called for each in places)
    at = namespace if is_called else "/".join(each.segment for each in places)
    return str(uuid5(NAMESPACE_URL, f"{thread_id}\n{at}"))


def _first(tree: Tree) -> Place | None:
    stops = tree.node_places(tree.root)
    return next((each for each in stops if is_remote(getattr(each.agent, "graph", None))), None)


class RemoteRun:
    """The run of a remote graph for one activation; it streams states like a local graph.

    Args:
        graph: The `RemoteGraph`.
        node_context: The place of its agent.
    """

    def __init__(self, graph: Any, node_context: NodeContext) -> None:
        self._graph, self._node_context = graph, node_context
        self._before: set[str] = set()
        self._asked: dict[str, Interrupt] = {}
        self._is_stopped = False

    def stream(self, graph_input: object, config: RunnableConfig, **_: object) -> Iterator[State]:
        """Yield the graph's states, without the messages that its thread had before the run.

        Raises:
            GraphInterrupt: All questions of the run.
        """
        ended, graph_input = run_calls(self._start(self._graph.sync_client, graph_input, config))
        yield from ended
        for part in () if ended else self._graph.stream(graph_input, self._config, **_STREAMED):
            yield from self._states_in(*part)
        self._pause()

    async def astream(
        self, graph_input: object, config: RunnableConfig, **_: object
    ) -> AsyncIterator[State]:
        """Yield the graph's states, as `stream` does."""
        ended, graph_input = await arun_calls(self._start(self._graph.client, graph_input, config))
        for state in ended:
            yield state
        if ended:
            return
        async for part in self._graph.astream(graph_input, self._config, **_STREAMED):
            for state in self._states_in(*part):
                yield state
        self._pause()

    async def _start(
        self, client: Any, graph_input: object, config: RunnableConfig
    ) -> tuple[list[State], object]:
        """Return the final state of a run that has ended, and else the input, as a client says."""
        self._enter(graph_input, config)
        if self._has_no_schemas() and client is not None:
            name = self._graph.assistant_id
            if not _is_uuid(name):
                search = partial(client.assistants.search, graph_id=name, limit=1)
                name = _first_id(await Call(search, search), name)
            schemas = client.assistants.get_schemas
            _SCHEMAS[self._graph] = await Call(schemas, schemas, (name,))
        self._pass_context_on()
        saved: Mapping[str, object] = {}
        if self._thread and client is not None:
            with _unless_new():
                state = client.threads.get_state
                saved = await Call(state, state, (self._thread,))
        return self._next(saved)

    def _enter(self, graph_input: object, config: RunnableConfig) -> None:
        outer = config.get("configurable", {})
        self._runtime: Runtime[Any] = outer[RUNTIME]
        self._input, self._namespace = graph_input, str(outer.get("checkpoint_ns", ""))
        self._answers: Mapping[str, object] = outer.get(RESUME_MAP) or {}
        self._scratchpad = outer.get(SCRATCHPAD)
        sent = {k: v for k, v in outer.items() if not k.startswith(("__", "checkpoint_"))}
        if STREAM in outer:
            sent[STREAM] = _relayed(outer[STREAM], self._namespace)
        self._thread = ""
        if "thread_id" in outer:
            own, node_context = str(outer["thread_id"]), self._node_context
            self._thread = remote_thread(own, node_context.tree, node_context.place, self._namespace)
            sent["thread_id"] = self._thread
        self._metadata = {**config.get("metadata", {}), _BEGUN_BY: self._namespace}
        self._config: RunnableConfig = {**config, "metadata": self._metadata, "configurable": sent}

    def _has_no_schemas(self) -> bool:
        return self._runtime.context is not None and self._graph not in _SCHEMAS

    def _pass_context_on(self) -> None:
        schema = (_SCHEMAS.get(self._graph) or {}).get("context_schema") or {}
        context = to_jsonable_python(self._runtime.context, fallback=lambda _: None)
        for name in schema.get("properties", ()) if isinstance(context, dict) else ():
            if name in context and name != "thread_id":
                self._config["configurable"][name] = context[name]

    def _next(self, saved: Mapping[str, Any]) -> tuple[list[State], object]:
        """Return the final state if the run has ended, and what to run the graph with."""
        values = saved.get("values") or {}
        metadata = saved.get("metadata") or {}
        ids = [_id_of(each) for each in _messages(values)]
        if metadata.get(_BEGUN_BY) != self._namespace:
            self._metadata[_BEGUN_AFTER] = ids[-1] if ids else ""
            self._forget(ids)
            return [], self._input
        after = self._metadata[_BEGUN_AFTER] = metadata.get(_BEGUN_AFTER, "")
        if after in ids:
            self._forget(ids[: ids.index(after) + 1])
        if not saved["next"]:
            return [self._state(values)], None
        return [], Command(resume=self._answered(saved["tasks"]))

    def _forget(self, ids: list[str]) -> None:
        self._before = {*ids} - {"", *map(_id_of, _messages(self._input))}

    def _answered(self, tasks: Sequence[Mapping[str, Any]]) -> dict[str, object]:
        """Return the answers to the run's questions; without any the run asks again, or is retried."""
        asked = {one["id"] for task in tasks for one in task["interrupts"]}
        answers = {key: self._answers[key] for key in asked if key in self._answers}
        if answers or len(asked) != 1 or self._scratchpad is None:
            return answers
        bare = self._scratchpad.get_null_resume(True)  # of `Command(resume=answer)`
        return {} if bare is None else dict.fromkeys(asked, bare)

    def _states_in(self, inside: Sequence[str], kind: str, data: Any) -> Iterator[State]:
        """Yield the state in a part of the stream, if it was saved; pass on what the graph writes.

        The reports of a compiled tree about its agents stay on the server, because their places are not
        ours. After a question the server also streams unsaved states with the writes of concurrent
        steps, in which the same messages have other ids each time.
        """
        if kind == "custom" and not is_ours(data):
            self._runtime.stream_writer(data)
        if kind == "values" and not inside and not self._asked:
            yield self._state(data)
        if kind != "updates" or inside:
            return
        stops = isinstance(data, dict) and INTERRUPT in data
        self._is_stopped = self._is_stopped or stops
        for one in data[INTERRUPT] if stops else ():
            schema = one.get("response_schema")
            asked = Interrupt(one["value"], one["id"], response_schema=schema)
            self._asked.setdefault(asked.id, asked)  # an inner graph's questions come twice

    def _state(self, values: Mapping[str, object]) -> State:
        messages = [each for each in _messages(values) if _id_of(each) not in self._before]
        return "values", {**values, "messages": messages} if self._before else values

    def _pause(self) -> None:
        if self._is_stopped:
            raise GraphInterrupt([*self._asked.values()])


def _unless_new() -> AbstractContextManager[None]:
    """Suppress the error of a `with` block if the server does not know the thread yet."""
    from langgraph_sdk.errors import NotFoundError

    return suppress(NotFoundError)


def _first_id(assistants: Sequence[Mapping[str, object]], name: str) -> str:
    """Return the id of the first of a graph's assistants, whose schemas are the same; or the name."""
    return str(assistants[0]["assistant_id"]) if assistants else name


def _messages(values: object) -> Sequence[object]:
    return values.get("messages") or () if isinstance(values, Mapping) else ()


def _id_of(message: object) -> str:
    key = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
    return str(key or "")


def _relayed(outer: StreamProtocol, namespace: str) -> StreamProtocol:
    """Return a stream that passes parts to the enclosing graph's stream, inside a namespace.

    But not what the graph writes: that comes by the stream writer, as of every graph.
    """
    prefix = tuple(namespace.split("|")) if namespace else ()

    send = cast(Callable[[StreamChunk], None], outer)

    def relay(part: StreamChunk) -> None:
        inside, *what = part
        send(((*prefix, *inside), *what))

    return StreamProtocol(relay, {*outer.modes} - {"custom"})


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
