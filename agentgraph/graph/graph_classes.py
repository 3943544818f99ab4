"""The classes of compiled graphs: of the root, and of lanes."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph as Drawing
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START
from langgraph.types import Command, StateSnapshot, StateUpdate

from agentgraph.agents.agents import Agent, is_agent
from agentgraph.agents.costs import PriceFunction
from agentgraph.agents.habits.names import hints_names
from agentgraph.agents.limits import Limits
from agentgraph.agents.middleware import Mode
from agentgraph.agents.signals import Capabilities
from agentgraph.errors import AgentGraphError
from agentgraph.graph.guarded_saver import GuardedSaver, Order
from agentgraph.graph.internals import (
    READ,
    SAVER,
    STRICT_MSGPACK_ENABLED,
    ensure_config,
    overwrite_in,
)
from agentgraph.graph.known_messages import (
    has_ids,
    messages_in,
    new_messages,
    owned_update,
    without_overwrite,
)
from agentgraph.graph.limit_answers import take_limit_answers
from agentgraph.graph.named_models import NamedModels
from agentgraph.graph.named_types import allow_named
from agentgraph.graph.nodes.activation_log import ACTIVATIONS
from agentgraph.graph.nodes.caching import namespace
from agentgraph.graph.nodes.callers import called
from agentgraph.graph.nodes.concurrency import Room
from agentgraph.graph.nodes.spending import LEDGER, LIMITS, Ledger
from agentgraph.graph.open_types import Cache, Graph
from agentgraph.graph.saving import saved_input
from agentgraph.graph.spans import traced_root
from agentgraph.graph.stored_values import LATER, checked
from agentgraph.graph.sync_async import Call, arun_calls, run_calls
from agentgraph.graph.unstamped import StampedInput, from_outside
from agentgraph.graph.values import Reducers, check_mapping, in_order, unlike_message
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Tree
from agentgraph.tree.prices import cost_fault


class LaneNode(NamedTuple):
    """A node of a lane, and what may come after it.

    Attributes:
        node: The runnable.
        capabilities: The actions that its agent may take if it ends there; None if it cannot end there.
        others: The other nodes that may be next.
        is_free: Whether it may also go where no edge is drawn.
        may_leave: Whether the run may leave the tree there, which no edge shows.
        reads: The channels that it reads in addition to those that all nodes read.
        picture: The graph that is drawn in it.
        at_once: The number of tasks that it may run at once.
    """

    node: Any
    capabilities: Capabilities | None
    others: Sequence[str] = ()
    is_free: bool = False
    may_leave: bool = False
    reads: tuple[str, ...] = ()
    picture: Any = None
    at_once: int = 0


def solid(drawn: Drawing, names: Collection[str]) -> Drawing:
    """Draw an edge of the named nodes, or out of their boxes, solid, if it is their only one."""
    out_degrees = Counter(edge.source for edge in drawn.edges)
    for i, edge in enumerate(drawn.edges):
        node = edge.source.partition(":")[0]
        if out_degrees[edge.source] == 1 and node in names and not edge.target.startswith(f"{node}:"):
            drawn.edges[i] = edge._replace(conditional=False)
    return drawn


Made = TypeVar("Made", bound=Graph)


def compiled_as(kind: type[Made], graph: Graph, **attributes: object) -> Made:
    """Change the class of a compiled graph: LangGraph always compiles to its own class."""
    graph.__class__ = kind
    vars(graph).update(attributes)
    return cast(Made, graph)


class OwnedGraph(Graph):
    """A graph whose messages stay those of their agents where its state is edited."""

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state as LangGraph does; a message that is edited stays its agent's.

        Args:
            config: LangGraph's config.
            supersteps: The updates of each step.

        Returns:
            The config of the new checkpoint.
        """
        owned = run_calls(self._owned_updates(config, supersteps))
        return super().bulk_update_state(config, owned)

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state, as `bulk_update_state` does."""
        owned = await arun_calls(self._owned_updates(config, supersteps))
        return await super().abulk_update_state(config, owned)

    async def _owned_updates(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> Sequence[Sequence[StateUpdate]]:
        configurable = config["configurable"]
        if configurable.get("checkpoint_ns") and SAVER not in configurable:
            return supersteps  # LangGraph passes them on to the graph whose state it is
        supersteps = [
            [each._replace(values=without_overwrite(each.values)) for each in step]
            for step in supersteps
        ]
        if not any(has_ids(each.values) for step in supersteps for each in step):
            return supersteps
        state = await Call(self.get_state, self.aget_state, (config,))
        there = state.values.get("messages", ())
        return [
            [each._replace(values=owned_update(each.values, there)) for each in step]
            for step in supersteps
        ]


@hints_names("graph")
class RootGraph(OwnedGraph):
    """The graph of a tree: a LangGraph `CompiledStateGraph` whose input cannot impersonate an agent.

    All ways to run it lead through `stream` or `astream`. In Jupyter it is shown like its tree, and
    not sent to a web service to be drawn.

    Attributes:
        tree: The tree.
        reducers: How values are merged, and their types: input that does not fit is not saved.
        limits: The limits of a turn.
        is_limited: Whether a run counts what it spends: transfers, or what else is limited.
        named: The models that agents of the tree name; the first run makes them.
        prices: Returns the price of a reply; None if no cost is counted.
        prices_fault: Why a sync run cannot ask for prices; None if it may.
    """

    def __init__(
        self,
        *,
        tree: Tree,
        reducers: Reducers,
        limits: Limits,
        is_limited: bool,
        named: NamedModels,
        prices: PriceFunction | None,
        prices_fault: str | None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.tree, self.reducers, self.limits, self.is_limited = tree, reducers, limits, is_limited
        self.named, self.prices, self.prices_fault = named, prices, prices_fault

    @property
    def agent(self) -> Agent:
        """The root of the tree."""
        return self.tree.agent

    def stream(self, input: object, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run as LangGraph does, on input without our stamps.

        Args:
            input: The input, a command, or None to continue.
            config: LangGraph's config.
            **options: LangGraph's other options.

        Returns:
            The result of LangGraph's own method.
        """
        if fault := self.tree.mode_faults["sync"] or self.prices_fault:
            raise AgentGraphError(fault)
        graph_input, config, saver, read_first = self._started(input, config, "sync")
        if read_first or self.named.unmade:
            stream = self._prepared_stream(graph_input, config, read_first, **options)
        else:
            stream = super().stream(graph_input, config, **options)
        return stream if saver is None else _raising(stream, saver)

    def astream(self, input: object, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run as LangGraph does, on input without our stamps.

        Args:
            input: The input, a command, or None to continue.
            config: LangGraph's config.
            **options: LangGraph's other options.

        Returns:
            The result of LangGraph's own method.
        """
        graph_input, config, saver, read_first = self._started(input, config, "async")
        stream: Any
        if read_first or self.named.unmade:
            stream = self._prepared_astream(graph_input, config, read_first, **options)
        else:
            stream = super().astream(graph_input, config, **options)
        return stream if saver is None else _araising(stream, saver)

    def _started(
        self, input: object, config: RunnableConfig | None, mode: Mode
    ) -> tuple[object, RunnableConfig | None, GuardedSaver | None, bool]:
        """Return the input and the config of a run, its guard, and whether its thread is read first.

        It is if a reducer of a user merges values of the input: LangGraph saves input before a node
        reads it, and a thread may be read meanwhile. And if messages have ids, which may be those of
        the thread, or if there are answers, where limits may be asked about.
        """
        if not isinstance(input, Command | None):
            _check_state(input, config)
        ACTIVATIONS.look()
        config, saver = self._guarded(self._with_room(called(config, self.config)))
        config = self._observed(self._counting(config, mode), mode)
        graph_input = from_outside(input)
        values = _values_in(graph_input)
        if values is not None:
            if not isinstance(graph_input, StampedInput):
                check_mapping(values)
            values = self._saved(values, saver)
            graph_input = self._checked(_with(graph_input, "values", values), values)
        is_read = (
            _may_repeat(graph_input)
            or self._is_unsettled(graph_input)
            or self._is_about_limits(graph_input, config)
        )
        return graph_input, config, saver, is_read and self._is_outermost(config)

    def _prepared_stream(
        self, graph_input: object, config: RunnableConfig | None, read_first: bool, **options: Any
    ) -> Iterator[object]:
        prepared = run_calls(self._prepared(graph_input, config, read_first))
        yield from super().stream(prepared, config, **options)

    async def _prepared_astream(
        self, graph_input: object, config: RunnableConfig | None, read_first: bool, **options: Any
    ) -> AsyncIterator[object]:
        graph_input = await arun_calls(self._prepared(graph_input, config, read_first))
        async with aclosing(
            cast(AsyncGenerator[object, None], super().astream(graph_input, config, **options))
        ) as stream:
            async for part in stream:
                yield part

    async def _prepared(
        self, graph_input: Any, config: RunnableConfig | None, read_first: bool
    ) -> object:
        """Make the named models; return input without answers about limits, and with saved values.

        Raises:
            InvalidAgentError: A named model cannot be made.
            ThreadError: A message has the id of one of the thread, and other content.
        """
        if self.named.unmade:
            await self.named.make()
        if not read_first:
            return graph_input
        if self._is_about_limits(graph_input, config):
            whole = ensure_config(self.config, config)
            saver: Any = whole["configurable"].get(SAVER, self.checkpointer)
            ledger = whole["configurable"][LEDGER]
            graph_input = await take_limit_answers(saver, whole, graph_input, ledger)
        may_repeat, is_unsettled = _may_repeat(graph_input), self._is_unsettled(graph_input)
        if may_repeat or is_unsettled:
            state = await Call(self.get_state, self.aget_state, (config,))
            if may_repeat:
                thread_id = str(ensure_config(self.config, config)["configurable"]["thread_id"])
                there = state.values.get("messages", ())
                messages = new_messages(messages_in(_update_in(graph_input)), there, thread_id)
                graph_input = _with(graph_input, "messages", messages)
            if is_unsettled:
                graph_input = self._as_saved(graph_input, state)
        return graph_input

    def _is_unsettled(self, graph_input: object) -> bool:
        values = _values_in(graph_input)
        return bool(values) and self.reducers.is_unsettled(values)

    def _is_about_limits(self, graph_input: object, config: RunnableConfig | None) -> bool:
        if not isinstance(graph_input, Command) or graph_input.resume is None:
            return False
        return LEDGER in ((config or {}).get("configurable") or {})

    def _is_outermost(self, config: RunnableConfig | None) -> bool:
        configurable = ensure_config(self.config, config)["configurable"]
        saver = None if self.checkpointer is False else configurable.get(SAVER, self.checkpointer)
        return (
            isinstance(saver, BaseCheckpointSaver)
            and "thread_id" in configurable
            and READ not in configurable
        )

    def _as_saved(self, graph_input: Any, state: StateSnapshot) -> object:
        present = state.values.get("values") or self.reducers.defaults()
        values = checked(self.reducers, present, _values_in(graph_input))
        if not isinstance(graph_input, Command):
            return _with(graph_input, "values", values)
        if len(state.next) < len(state.tasks):  # a task has ended, and its writes are in the state
            values = (*in_order(values), LATER)
        return replace(
            graph_input, update={**cast(Mapping[str, object], graph_input.update), "values": values}
        )

    def _observed(self, config: RunnableConfig | None, mode: Mode) -> RunnableConfig | None:
        """Return a config whose tracers see the spans of the tree."""
        keys = traced_root(ensure_config(self.config, config), self.tree, mode)
        return cast(RunnableConfig, {**(config or {}), **keys}) if keys else config

    def _with_room(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config of a run; a user's `max_concurrency` counts lanes and calls alone."""
        given = (config or {}).get("max_concurrency") or (self.config or {}).get("max_concurrency")
        if isinstance(given, Room) or not isinstance(given, int) or given < 1:
            return config  # it has room, or LangGraph rejects it
        room = Room(given, is_given=True)
        return {**(config or {}), "max_concurrency": room}

    def _guarded(
        self, config: RunnableConfig | None
    ) -> tuple[RunnableConfig | None, GuardedSaver | None]:
        """Return the config of a run with a guarded saver, and that; None if there is nothing to guard.

        There is nothing without a saver, or if the graph is part of a run that has a guard already.
        """
        configurable = ensure_config(self.config, config)["configurable"]
        saver = None if self.checkpointer is False else configurable.get(SAVER, self.checkpointer)
        if (
            not isinstance(saver, BaseCheckpointSaver)
            or isinstance(saver, GuardedSaver)
            or not configurable
        ):
            return config, None
        if STRICT_MSGPACK_ENABLED:  # the saver may be that of a graph around
            saver = allow_named(saver, self.tree, self.reducers)
        order = Order() if self.tree.runs_tasks else None
        own = configurable.get("checkpoint_ns", "")
        guarded = GuardedSaver(saver, configurable.get("thread_id"), order=order, namespace=own)
        config = config or {}
        configurable = {**(config.get("configurable") or {}), SAVER: guarded}
        return {**config, "configurable": configurable}, guarded

    def _counting(self, config: RunnableConfig | None, mode: Mode) -> RunnableConfig | None:
        """Return a config with a new ledger of what the run spends, if anything is counted.

        A tree inside another one has its own, by default with the limits and prices of that: its
        spending counts for the agent that runs it too, which receives the calls of models.

        Raises:
            AgentGraphError: A cost is limited, and there are no prices.
        """
        configurable = (config or {}).get("configurable") or {}
        given: Limits | None = configurable.get(LIMITS)
        around: Ledger | None = configurable.get(LEDGER)
        if given is None and not self.is_limited:
            if around is None:
                return config
            given = around.limits
        is_saved = isinstance(self.checkpointer, BaseCheckpointSaver)
        if is_saved and not ensure_config(self.config, config)["configurable"]:
            return config  # it names no thread, which LangGraph rejects
        limits = given.over(self.limits) if given else self.limits
        prices = self.prices if around is None else self.prices or around.prices
        if prices is None and (fault := cost_fault(self.tree, limits)) is not None:
            raise AgentGraphError(fault)
        ledger = Ledger(self.tree, limits, prices, is_async=mode == "async")
        return {**(config or {}), "configurable": {**configurable, LEDGER: ledger}}

    def _saved(self, values: object, saver: GuardedSaver | None) -> object:
        """Return values of the input with their declared types, as the saver will give them back.

        Raises:
            AgentGraphError: They are not a mapping, or one cannot be saved.
        """
        if overwrite_in(values)[0]:
            return values
        serializer = None if saver is None else saver.serde
        several = [saved_input(serializer, self.reducers, each) for each in in_order(values)]
        return type(values)(several) if isinstance(values, list | tuple) else several[0]

    def _checked(self, graph_input: object, values: object) -> object:
        """Return input, or reject its values before LangGraph saves it.

        Raises:
            AgentGraphError: The values are not a mapping, or one does not fit its declared type.
            ReducerError: A reducer failed.
        """
        if values and self.reducers.fields:
            self.reducers.merged(self.reducers.defaults(), values)
        if values and isinstance(graph_input, Command):
            update = {
                **cast(Mapping[str, object], graph_input.update),
                "values": unlike_message(values),
            }
            return replace(graph_input, update=update)
        return graph_input

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Drawing:
        """Return LangGraph's drawing of the graph; where there is one way on, the edge is solid.

        Args:
            config: LangGraph's config.
            xray: Whether inner graphs are drawn inside their nodes, or how deep.
        """
        return solid(super().get_graph(config, xray=xray), self.nodes)

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Clear what is cached of agents, in all lanes.

        Args:
            nodes: The nodes; None for all.

        Raises:
            ValueError: The graph has no cache.
        """
        super().clear_cache(nodes)
        cast(Cache, self.cache).clear(self._namespaces(nodes))

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Clear what is cached of agents, as `clear_cache` does."""
        await super().aclear_cache(nodes)
        await cast(Cache, self.cache).aclear(self._namespaces(nodes))

    def _namespaces(self, nodes: Sequence[str] | None) -> list[tuple[str, ...]]:
        graphs: list[Any] = [self, *(graph for _, graph in self.get_subgraphs(recurse=True))]
        return [*map(namespace, nodes or {name for graph in graphs for name in graph.nodes})]

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {**self.agent._repr_mimebundle_(), "text/plain": repr(self)}


_KEYS = frozenset(("messages", "values"))
"""The keys of the input of a graph."""


def _check_state(graph_input: object, config: RunnableConfig | None) -> None:
    """Refuse input of which LangGraph would take nothing; it takes commands, and objects of a state.

    A graph around this one may pass a state without any of its keys.

    Raises:
        AgentGraphError: The input is a text, a message, an agent, or a list of these.
    """
    if isinstance(graph_input, Mapping):
        is_inside = READ in ((config or {}).get("configurable") or {})
        if graph_input and not is_inside and _KEYS.isdisjoint(graph_input):
            raise AgentGraphError(
                f"the input of a graph has messages and values, not {shown([*graph_input])}; pass "
                '{"messages": [("user", ...)], "values": {...}}'
            )
        return
    if isinstance(graph_input, list | tuple):
        has_state = any(isinstance(each, Command) for each in graph_input)
        messages = "[...]"
    else:
        is_other = isinstance(graph_input, str | BaseMessage) or is_agent(graph_input)
        has_state = not is_other and hasattr(graph_input, "__annotations__")
        messages = f'[("user", {shown(graph_input)})]' if isinstance(graph_input, str) else "[...]"
    if not has_state:
        raise AgentGraphError(
            f"the input of a graph is a mapping, not {shown(graph_input)}; pass "
            f'{{"messages": {messages}}}'
        )


def _update_in(graph_input: object) -> Mapping[str, object]:
    """Return the input of a graph, or the update of a command; nothing if it is of another form."""
    update = graph_input.update if isinstance(graph_input, Command) else graph_input
    return update if isinstance(update, Mapping) else {}


def _values_in(graph_input: object) -> object:
    """Return the values in input of a graph, or in the update of a command; None if there are none."""
    return _update_in(graph_input).get("values")


def _may_repeat(graph_input: object) -> bool:
    return not isinstance(graph_input, StampedInput) and has_ids(_update_in(graph_input))


def _with(graph_input: Any, name: str, value: object) -> Any:
    changed = {**_update_in(graph_input), name: value}
    if isinstance(graph_input, Command):
        return replace(graph_input, update=changed)
    return type(graph_input)(changed)


def _raising(stream: Iterator[object], saver: GuardedSaver) -> Iterator[object]:
    """Yield the parts of a run, and raise the error of its saver where that fails."""
    with saver.raising():
        yield from stream


async def _araising(stream: AsyncGenerator[object, None], saver: GuardedSaver) -> AsyncIterator[object]:
    with saver.raising():
        async with aclosing(stream):
            async for part in stream:
                yield part


class LaneGraph(OwnedGraph):
    """The graph of a lane inside the tree; a single node that runs once is drawn without a box."""

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Drawing:
        """Return the drawing of the lane."""
        inside = [name for name in self.nodes if name != START]
        if len(inside) > 1:
            return solid(super().get_graph(config, xray=xray), inside)
        for _, picture in self.get_subgraphs():
            return picture.get_graph(config, xray=xray)
        drawn = super().get_graph(config)
        if any(edge.source == edge.target for edge in drawn.edges):
            return drawn
        return Drawing(nodes={name: drawn.nodes[name] for name in inside})
