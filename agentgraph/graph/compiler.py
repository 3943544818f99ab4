"""Compiles a tree of agents to a LangGraph graph: validate, place, add nodes, wire, compile.

Each lane becomes one flat `StateGraph`: every leaf is a node, every parallel agent is a node that
runs the lanes of its branches, and all other composites become only edges.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import is_dataclass, replace
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.cache.base import BaseCache
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from pydantic import BaseModel
from typing_extensions import is_typeddict

from agentgraph.agents.agents import Agent, Middleware
from agentgraph.agents.costs import PriceFunction, no_prices
from agentgraph.agents.habits.options import hints_options_for
from agentgraph.agents.limits import DEFAULT_LIMITS, Limits, check_limits
from agentgraph.agents.signals import Capabilities
from agentgraph.errors import AgentGraphError
from agentgraph.graph.graph_classes import LaneGraph, LaneNode, RootGraph, compiled_as
from agentgraph.graph.internals import (
    ChannelRead,
    ChannelWrite,
    ChannelWriteEntry,
)
from agentgraph.graph.kinds import nodes_of
from agentgraph.graph.lane_position import Position
from agentgraph.graph.named_models import NamedModels
from agentgraph.graph.named_types import allow_named
from agentgraph.graph.nodes.concurrency import Room
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.spending import PRICED_TURN, Ledger
from agentgraph.graph.open_types import Builder, Cache, Graph, Saver
from agentgraph.graph.state import TurnInput, reading, state_types
from agentgraph.graph.stored_values import store_values
from agentgraph.graph.traced_nodes import trace
from agentgraph.graph.values import Reducers
from agentgraph.graph.values_schema import declared
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.position import asks_functions, capabilities_at, next_nodes
from agentgraph.tree.prices import checked_prices, unawaited_prices
from agentgraph.tree.run_paths import RunPaths
from agentgraph.tree.targets import targets
from agentgraph.tree.validation import validate

_STEPS = 1_000_000_000
"""LangGraph's limit of supersteps, never reached: the tree's own limits end a run."""


_UNSAVED = ("failure", "untracked")
"""The channels that are never saved, and never streamed."""


@hints_options_for(StateGraph.compile)
def compile_agent(
    agent: Agent,
    *,
    checkpointer: Saver | bool | None = None,
    store: BaseStore | None = None,
    context_schema: type | None = None,
    limits: Limits | None = None,
    prices: "PriceFunction | None" = None,
    values: type | None = None,
    middleware: "Iterable[Middleware]" = (),
    **options: Any,
) -> Graph:
    """Compile a tree of agents to a plain LangGraph graph.

    The graph takes `{"messages": [...]}`, and `values` if there are any, and returns both.
    Each new input on a thread is a turn: it starts at the first leaf, with the messages and
    values of the thread. It runs wherever LangGraph graphs run, servers included, and nests in
    others; `translate` turns its stream into agent events.

    >>> graph = compile_agent(function_agent("greeter", lambda ctx: f"Hello {ctx.values['name']}."))
    >>> ended = graph.invoke({"messages": ["Hi."], "values": {"name": "Ada"}})
    >>> [message.text for message in ended["messages"]], ended["values"]
    (['Hi.', 'Hello Ada.'], {'name': 'Ada'})

    Args:
        agent: The root of the tree.
        checkpointer: LangGraph's saver; without one nothing can pause, unless the graph runs
            on a LangGraph server, which has its own. Or True for a graph inside another graph: it
            uses that graph's saver, and keeps its messages and values over turns.
        store: LangGraph's store, for `ctx.store`.
        context_schema: The type of LangGraph's runtime context, for `ctx.context`: a dataclass, a
            `TypedDict` or a pydantic model. Studio and servers show a form for it.
        limits: The limits of a turn; None in a field means the default of `Limits`.
        prices: Returns the price of a reply of a model, as in `Runner`. A graph inside a run that has
            prices uses those for its own limits by default, and asks them again.
        values: Declares values as LangGraph users declare state: a `TypedDict` or a pydantic model,
            with `Annotated[list, operator.add]`, or another reducer, for values that are merged. These
            begin as in LangGraph, here with an empty list; other values are written over. A field
            `messages`, as of `MessagesState`, is the history.
        middleware: LangChain middleware for every chat agent of the tree, outside the agent's own:
            redaction belongs here, as on one agent it does not protect the others.
        **options: Passed on to `StateGraph.compile`: `cache` (for agents with a `cache_policy`),
            `name`, `interrupt_before`, ...

    Returns:
        The compiled graph, named as the root unless `name` is passed.

    Raises:
        InvalidAgentError: The tree has faults; the error names all of them.
        AgentGraphError: `limits` is not a `Limits`, `cache`, `store` or `checkpointer` not LangGraph's,
            `context_schema` not one of these types, `prices` not a function of two arguments, or a node
            to stop at unknown. A run raises it if a cost is limited without prices.
        TypeError: An option is unknown.
    """
    reducers = declared(values)
    tree = validate(agent, reducers.shared, middleware)
    return compile_tree(
        tree,
        reducers,
        checkpointer=allow_named(checkpointer, tree, reducers),
        store=store,
        context_schema=context_schema,
        limits=limits,
        prices=prices,
        **options,
    )


def compile_tree(
    tree: Tree,
    reducers: Reducers = Reducers(),  # noqa: B008
    *,
    context_schema: type | None = None,
    limits: Limits | None = None,
    prices: PriceFunction | None = None,
    **options: Any,
) -> Graph:
    """Compile a laid-out tree, whose values are merged by `reducers`."""
    options.setdefault("name", tree.root.name)
    _check_store(options.get("store"))
    _check_saver(options.get("checkpointer"))
    if active := tree.active_keys:
        reducers = replace(reducers, local=reducers.local | active)
    if any(place.chat for place in tree.places):
        from agentgraph.graph.chat.wiring import transformers

        options["transformers"] = transformers(tree, options.get("transformers") or ())
    context, cache = _checked(context_schema), _checked_cache(options.get("cache"))
    checked = (
        check_limits(limits).over(DEFAULT_LIMITS),
        checked_prices(None if prices is no_prices else prices),
    )
    builder = _LaneBuilder(tree, reducers, *checked, context, cache)
    graph = builder.build(tree.root, **options)
    config = RunnableConfig(recursion_limit=_STEPS)
    if builder.at_once:
        config["max_concurrency"] = Room(builder.at_once)
    return graph.with_config(config)


def _checked(context_schema: object) -> type | None:
    """Return the type of the runtime context.

    Raises:
        AgentGraphError: LangGraph takes no such type.
    """
    kinds = (is_typeddict, is_dataclass, lambda each: issubclass(each, BaseModel))
    if context_schema is None:
        return None
    if isinstance(context_schema, type) and any(is_kind(context_schema) for is_kind in kinds):
        return context_schema
    raise AgentGraphError(
        f"context_schema={shown(context_schema)} is not the type of a context; pass a dataclass, a "
        "TypedDict or a pydantic model"
    )


def _checked_cache(cache: object) -> Cache | None:
    """Return the cache of the graph.

    Raises:
        AgentGraphError: It is not a cache of LangGraph.
    """
    if cache is None or isinstance(cache, BaseCache):
        return cache
    raise AgentGraphError(
        f"cache={shown(cache)} is not a cache of LangGraph; pass one, such as "
        "langgraph.cache.memory.InMemoryCache(); a cache of LangChain belongs to a model: "
        "ChatOpenAI(cache=...)"
    )


def _check_store(store: object) -> None:
    """Refuse what is not a store.

    Raises:
        AgentGraphError: It is not a store of LangGraph.
    """
    if not isinstance(store, BaseStore | None):
        raise AgentGraphError(
            f"store={shown(store)} is not a store of LangGraph; pass one, such as "
            "langgraph.store.memory.InMemoryStore()"
        )


def _check_saver(checkpointer: object) -> None:
    """Refuse what is not a saver: a graph opens no file.

    Raises:
        AgentGraphError: It is neither a saver of LangGraph nor a boolean.
    """
    if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
        raise AgentGraphError(
            f"checkpointer={shown(checkpointer)} is not a saver of LangGraph; pass one, such as that "
            'of ag.sqlite_saver("runs.db"), or use ag.Runner(tree, checkpointer="runs.db")'
        )


def _check_stops(option: str, stops: object, nodes: Collection[str]) -> None:
    """Refuse nodes to stop at that the graph does not have.

    Raises:
        AgentGraphError: They are not a list of nodes of the graph.
    """
    if stops is None or stops == "*":
        return
    several = isinstance(stops, Iterable) and not isinstance(stops, str)
    if not several or any(each not in nodes for each in cast(Iterable[str], stops)):
        raise AgentGraphError(
            f"{option}={shown(stops)} is not a list of nodes of the graph; choose from "
            f"{shown([*nodes])}, or put ag.human(...) in front of the agent"
        )


def _keeping(node: LaneNode) -> LaneNode:
    return node._replace(reads=tuple(dict.fromkeys([*node.reads, "middleware"])))


class _LaneBuilder:
    """Builds the graphs of a tree's lanes.

    Attributes:
        at_once: The most tasks that one node built so far may run at once.
        named: The models that agents of the tree name.
    """

    def __init__(
        self,
        tree: Tree,
        reducers: Reducers,
        limits: Limits,
        prices: PriceFunction | None,
        context_schema: type | None,
        cache: Cache | None = None,
    ) -> None:
        self.tree, self.paths, self.reducers, self.limits = tree, RunPaths(tree), reducers, limits
        self.prices = prices
        self.context_schema, self.cache = context_schema, cache
        self.types, self.at_once = state_types(reducers), 0
        self.named = NamedModels(tree.places)
        self._keeping: set[Place] = set()
        self._reading: dict[tuple[str, ...], type] = {}

    def build(self, lane: Place, **options: object) -> Graph:
        """Build the graph of the lane that starts at `lane`."""
        is_root = lane.parent is None
        nodes = [
            _keeping(node) if place.is_in_keeper else node
            for place in self.tree.node_places(lane)
            for node in self._nodes(place)
        ]
        state = self.types.root if is_root else self.types.lane
        outer = self.types.conversation if is_root else self.types.lane
        if keeps := any("middleware" in node.reads for node in nodes):
            self._keeping.add(lane)
        input_type = self.types.begun if is_root and keeps else outer
        context = self.context_schema if is_root else None
        builder: Builder = StateGraph(state, context, input_schema=input_type, output_schema=outer)
        begin = NodeContext(self.tree, lane, self.paths).first_position(lane)
        builder.add_edge(START, str(begin["next"]))
        for node in nodes:
            self._add(builder, node)
        for option in ("interrupt_before", "interrupt_after"):
            _check_stops(option, options.get(option), builder.nodes)
        graph = _compiled(builder, {"name": lane.name, **options})
        if is_root:
            self._begin_turns(graph, begin)
            store_values(graph, self.reducers)
        builder.input_schema = outer
        graph.stream_channels = [name for name in graph.stream_channels_list if name not in _UNSAVED]
        for node in nodes:
            trace(graph, node.node.name, node.node.node_context)
            if node.picture is not None:
                graph.nodes[node.node.name].subgraphs = [node.picture]
        if not is_root:
            return compiled_as(LaneGraph, graph)
        may_transfer = any(targets(self.tree, place) for place in self.tree.places)
        return compiled_as(
            RootGraph,
            graph,
            tree=self.tree,
            reducers=self.reducers,
            limits=self.limits,
            is_limited=may_transfer or Ledger(self.tree, self.limits, self.prices).is_full,
            named=self.named,
            prices=self.prices,
            prices_fault=unawaited_prices(self.tree, self.prices),
        )

    def _begin_turns(self, graph: Graph, position: Position) -> None:
        """Make each input set the position to the start, whatever the last turn left, and save it.

        LangGraph has a step for writing the input anyway. When it draws a graph, it writes None.
        """
        position["outline"] = self.tree.outline
        if self.prices is not None:
            position["spent"] = PRICED_TURN

        def begin(turn_input: object) -> Position | None:
            return None if turn_input is None else position

        write = ChannelWriteEntry("position", skip_none=True, mapper=begin)
        graph.nodes[START].writers.append(ChannelWrite((write,)))
        channel: Any = graph.channels[START]
        graph.channels[START] = TurnInput(channel.typ, position=position)

    def _nodes(self, place: Place) -> Iterable[LaneNode]:
        capabilities = capabilities_at(self.tree, place)
        lanes = [Lane(lane, self.build(lane)) for lane in self.tree.lanes(place)]
        node_context = self._node_context(place, capabilities)
        nodes = nodes_of(place.kind.name)(node_context, capabilities, lanes)
        keeps = any(lane.place in self._keeping and not lane.place.is_called for lane in lanes)
        return map(_keeping, nodes) if keeps else nodes

    def _node_context(self, place: Place, capabilities: Capabilities) -> NodeContext:
        """Return the context of a place's nodes.

        It has a boundary if, where the agent ends, a function may be asked or a transfer limit applies.
        """
        transfers = capabilities.transfer and bool(targets(self.tree, place))
        has_boundary = transfers or asks_functions(self.tree, place, capabilities)
        return NodeContext(
            self.tree,
            place,
            self.paths,
            self.reducers,
            has_boundary=has_boundary,
            cache=self.cache,
            named=self.named,
        )

    def _add(self, builder: Builder, each: LaneNode) -> None:
        """Add a node with its edges: to where its agent may lead, and to the `others`."""
        node, place = each.node, each.node.node_context.place
        self.at_once = max(self.at_once, each.at_once)
        options = dict(node.policies) if isinstance(node, LeafNode) else {}
        may_stay = node.node_context.has_boundary and node.name == place.node
        if reads := (("failure",) if may_stay else ()) + each.reads:
            options["input_schema"] = self._reads(builder, reads)
        builder.add_node(node.name, node, metadata={"agent_name": place.name}, **options)
        after = next_nodes(self.tree, place, each.capabilities) if each.capabilities else ()
        ended = [END if end is None else end.nodes.entry for end in after]
        following = list(dict.fromkeys([*ended, *each.others]))
        if len(following) == 1 and not (may_stay or each.is_free or each.may_leave):
            builder.add_edge(node.name, following[0])
        else:
            is_end = each.may_leave and following == [END]  # LangGraph draws it where no edge is
            drawn = _Drawn({} if is_end else {name: name for name in following})
            builder.add_conditional_edges(node.name, _NEXT_NODE, drawn)

    def _reads(self, builder: Builder, channels: tuple[str, ...]) -> type:
        state, is_root = builder.state_schema, builder.state_schema is self.types.root
        key = ("root" if is_root else "lane", *channels)
        if key not in self._reading:
            self._reading[key] = reading(state, channels, is_root=is_root)
        return self._reading[key]


def _compiled(builder: Builder, options: Mapping[str, Any]) -> Graph:
    """Compile a builder so that its conditional edges read only what the node before them wrote.

    To let them read the state LangGraph would copy every channel, and each leaf has one.
    """
    branches, builder.branches = builder.branches, type(builder.branches)(dict)
    graph = builder.compile(**options)
    builder.branches = branches
    for node, named in branches.items():
        for name, branch in named.items():
            graph.attach_branch(node, name, branch, with_reader=False)
    return graph


class _Drawn(dict[object, str]):
    """The targets of conditional edges: only these are drawn, but the position may lead anywhere.

    A node at a boundary may follow itself, or go where its agent's other nodes would have gone. After
    an edit of the state the run continues at the position, whichever node LangGraph says made the edit.
    """

    def __missing__(self, node: str) -> str:
        return node

    def copy(self) -> "_Drawn":
        return self


def _next_node(written: object, config: RunnableConfig) -> str:
    """Return where the written position leads; after an edit of other state, the stored position.

    Raises:
        AgentGraphError: There is none, as nothing has run.
    """
    position = written.get("position") if isinstance(written, Mapping) else None
    position = position or ChannelRead.do_read(config, select="position")
    if position is None:
        raise AgentGraphError(
            "the state is edited as if a node had run (as_node=), but nothing has run on this thread "
            "yet; call update_state without as_node, or run a turn first"
        )
    return cast(Position, position)["next"] or END


class _NextNode(Runnable[object, str]):
    """The function of conditional edges. LangGraph would trace a plain one, and inspect it for each."""

    name = "_next_node"

    def invoke(self, input: object, config: RunnableConfig | None = None, **_: object) -> str:
        return _next_node(input, config or {})

    async def ainvoke(self, input: object, config: RunnableConfig | None = None, **_: object) -> str:
        return _next_node(input, config or {})


_NEXT_NODE = _NextNode()
