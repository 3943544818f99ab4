"""A tree of agents compiled to LangGraph: validate, place, add nodes, wire, compile.

Each lane becomes one flat `StateGraph`: every leaf is a node, every Parallel is a node that runs
the lanes of its branches, and all other composites are only the edges between them.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, assert_never, cast

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolCallTransformer
from langgraph.pregel import Pregel
from langgraph.pregel._read import ChannelRead
from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry
from langgraph.store.base import BaseStore

from agentgraph.agents.agents import (
    FORKS,
    Agent,
    ChatAgent,
    EachAgent,
    FunctionAgent,
    GraphAgent,
    HumanAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    WorkflowAgent,
)
from agentgraph.agents.limits import Limits, check_limits
from agentgraph.agents.schemas import answer_tools
from agentgraph.agents.signals import May
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.hooks import HookNode
from agentgraph.graph.chat.model import ModelNode
from agentgraph.graph.chat.summary import Summarizing
from agentgraph.graph.chat.tools import ToolsNode
from agentgraph.graph.graphs import LaneGraph, RootGraph, show_lanes
from agentgraph.graph.nodes.context import Site
from agentgraph.graph.nodes.fork import EachNode, ParallelNode
from agentgraph.graph.nodes.function import FunctionNode
from agentgraph.graph.nodes.graph import GraphNode
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.leaf import HumanNode, LeafNode, QuestionNode
from agentgraph.graph.nodes.workflow import WorkflowNode
from agentgraph.graph.state import Position, reading, state_types
from agentgraph.graph.values import Reducers, declared
from agentgraph.tree.addresses import RunPaths
from agentgraph.tree.places import Place, Tree, has_tools, targets
from agentgraph.tree.position import asks_functions, ends, may_do, may_do_by_tools, start
from agentgraph.tree.validation import validate

Graph = CompiledStateGraph[Any, Any, Any, Any]
Builder = StateGraph[Any, Any, Any, Any]

_STEPS = 1_000_000_000
"""LangGraph's limit of supersteps: a tree's own limits end it, so this one never does."""
_CALLS = 32
"""How many tool calls run at once, where there are no wider branches."""
_UNSAVED = ("failure", "untracked")
"""The channels that are never saved, and never streamed."""
_SPARE_THREADS = 8
"""Threads of a graph beside its lanes: the node that waits for them, the stream, the saver."""


def compile_agent(
    agent: Agent,
    *,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    store: BaseStore | None = None,
    limits: Limits | None = None,
    values: Any = None,
    middleware: Iterable[Any] = (),
    **options: Any,
) -> Graph:
    """Compile a tree of agents to a plain LangGraph graph.

    The graph takes `{"messages": [...]}`, and `values` if there are any, and gives both back.
    Each new input on a thread is a turn: it starts at the first leaf, with the messages and
    the values of the thread kept. It runs wherever graphs of LangGraph run, on a server too, and
    nests in others; `translate` makes agent events of its stream.

    >>> graph = compile_agent(function_agent("greeter", lambda ctx: f"Hello {ctx.values['name']}."))
    >>> ended = graph.invoke({"messages": ["Hi."], "values": {"name": "Ada"}})
    >>> [message.text for message in ended["messages"]], ended["values"]
    (['Hi.', 'Hello Ada.'], {'name': 'Ada'})

    Args:
        agent: The root of the tree.
        checkpointer: LangGraph's saver; without one nothing can pause, unless the graph runs
            on a LangGraph server, which brings its own.
        store: LangGraph's store, for `ctx.runtime.store`.
        limits: What a turn may use; without them what `Limits()` says.
        values: Declares values as LangGraph users declare state: a `TypedDict` or a pydantic model,
            with `Annotated[list, operator.add]`, or another reducer, for what is merged. Other
            values are written over.
        middleware: LangChain's middleware that every chat agent of the tree has, outside its own:
            redaction belongs here, for on one agent it does not protect the others.
        **options: Passed on to `StateGraph.compile`: `cache`, `name`, `interrupt_before`, ...

    Returns:
        The compiled graph, named as the root unless `name` is passed.

    Raises:
        InvalidAgentError: The tree has faults; the error names all of them.
        AgentGraphError: `limits` are no `Limits`.
    """
    reducers = declared(values)
    tree = validate(agent, reducers.channels, middleware)
    return compile_tree(
        tree, reducers, checkpointer=checkpointer, store=store, limits=limits, **options
    )


def compile_tree(
    tree: Tree,
    reducers: Reducers = Reducers(),  # noqa: B008
    *,
    limits: Limits | None = None,
    **options: Any,
) -> Graph:
    """Compile a tree that was laid out, whose values are merged by `reducers`."""
    options.setdefault("name", tree.root.name)
    if transformers := _transformers(tree, options.get("transformers") or ()):
        options["transformers"] = transformers
    graph = _LaneBuilder(tree, reducers, check_limits(limits)).build(tree.root, **options)
    return graph.with_config(_limits(tree))


def _transformers(tree: Tree, given: Iterable[Any]) -> list[Any]:
    """Return what makes LangGraph's event streams of the tree, each once, in LangChain's order.

    Tool calls are told as `create_agent` has them told; then comes what middleware brings.
    """
    agents = [place.agent for place in tree.places if isinstance(place.agent, ChatAgent)]
    brought = [getattr(one, "transformers", ()) for agent in agents for one in agent.middleware]
    if any(place.sums_up for place in tree.places):
        brought.append(Summarizing.transformers)
    first = [ToolCallTransformer] if agents else []
    return list({id(each): each for each in (*first, *chain(*brought), *given)}.values())


def _limits(tree: Tree) -> RunnableConfig:
    limits = RunnableConfig(recursion_limit=_STEPS)
    if at_once := max(map(partial(_at_once, tree), tree.places)):
        limits["max_concurrency"] = at_once + _SPARE_THREADS
    return limits


def _at_once(tree: Tree, place: Place) -> int:
    """Return how many tasks the node of a place may run at once; 0 where it runs none."""
    if isinstance(place.agent, EachAgent):
        return _CALLS
    if isinstance(place.agent, FORKS):
        return len(tree.children[place])
    return _CALLS if isinstance(place.agent, ChatAgent) and has_tools(place) else 0


class _LaneBuilder:
    """Builds the graphs of a tree's lanes."""

    def __init__(self, tree: Tree, reducers: Reducers, limits: Limits) -> None:
        self.tree, self.paths, self.reducers, self.limits = tree, RunPaths(tree), reducers, limits
        self.types = state_types(reducers)
        self._reading: dict[tuple[str, ...], type] = {}

    def build(self, lane: Place, **options: Any) -> Graph:
        """Build the graph of the lane that starts at `lane`."""
        is_root = lane.parent is None
        state = self.types.root if is_root else self.types.lane
        outer = self.types.conversation if is_root else self.types.lane
        given = self.types.begun if is_root and self._keeps(lane) else outer
        builder: Builder = StateGraph(state, input_schema=given, output_schema=outer)
        first = start(self.tree, lane)
        builder.add_edge(START, cast(Place, first.place).entry_node)
        inner = {place: self._lanes(place) for place in self.tree.stops(lane)}
        for place, lanes in inner.items():
            self._add(builder, place, lanes)
        graph = _compiled(builder, options)
        builder.input_schema = outer
        graph.stream_channels = [name for name in graph.stream_channels_list if name not in _UNSAVED]
        for place, lanes in inner.items():
            _show(graph, place, lanes)
        if is_root:
            self._begin_turns(graph, self._site(lane).position(first))
            graph = RootGraph(agent=self.tree.agent, **vars(graph))
        return graph if is_root else LaneGraph(**vars(graph))

    def _begin_turns(self, graph: Graph, position: Position) -> None:
        """Have each input set the position afresh, whatever the last turn left.

        LangGraph writes input in a step of its own, so that this costs none; drawn, it writes None.
        """
        position["outline"] = list(self.tree.outline)

        def begin(given: Any) -> Position | None:
            return None if given is None else position

        write = ChannelWriteEntry("position", skip_none=True, mapper=begin)
        graph.nodes[START].writers.append(ChannelWrite((write,)))

    def _lanes(self, place: Place) -> list[Lane]:
        return [Lane(lane, self.build(lane)) for lane in self.tree.lanes(place)]

    def _add(self, builder: Builder, place: Place, lanes: list[Lane]) -> None:
        """Add the nodes of a place, and draw the ways on from each; only what can happen is drawn."""
        agent, may = place.agent, may_do(self.tree, place)
        site = self._site(place, self._has_border(place, may))
        match agent:
            case ChatAgent():
                self._add_chat(builder, site, agent, lanes)
            case FunctionAgent():
                asks = [place.question_node] if may.ask else []
                self._add_node(builder, FunctionNode(site), may, asks)
                if may.ask:
                    self._add_node(builder, QuestionNode(site), None, [place.node])
            case GraphAgent():
                self._add_node(builder, GraphNode(site), may)
            case HumanAgent():
                self._add_node(builder, HumanNode(site), may)
            case ParallelAgent():
                self._add_node(builder, ParallelNode(site, lanes), may)
            case WorkflowAgent():
                self._add_node(builder, WorkflowNode(site, lanes), may)
            case EachAgent():
                self._add_node(builder, EachNode(site, lanes), may)
            case SequentialAgent() | LoopAgent():
                raise AssertionError(f"{agent.name} is only the way from node to node")
            case _:
                assert_never(agent)

    def _add_chat(self, builder: Builder, site: Site, agent: ChatAgent, lanes: list[Lane]) -> None:
        place, built = site.place, BuiltAgent(site)
        model = ModelNode(built)
        if place.after_model_node:
            self._add_node(builder, model, None, [place.after_model_node])
        else:
            is_asked_again = (built.wraps_model and has_tools(place)) or answer_tools(
                agent.output_schema
            )
            again = [place.round_node] if is_asked_again else []
            others = [*([place.tools_node] if has_tools(place) else ()), *again]
            self._add_ending(builder, model, May(), others)
        for hook in place.hooks:
            self._add_hook(builder, HookNode(built, hook))
        if not has_tools(place):
            return
        self._add_ending(builder, ToolsNode(built, lanes), may_do_by_tools(place), [place.round_node])

    def _add_ending(self, builder: Builder, node: Any, may: May, others: Sequence[str]) -> None:
        """Add a node of a chat agent that may end it, by way of the hooks that come last."""
        last = node.site.place.after_agent_node
        if last is None:
            self._add_node(builder, node, may, others)
        else:
            self._add_node(builder, node, None, [last, *others], is_free=True)

    def _add_hook(self, builder: Builder, node: HookNode) -> None:
        """Add the node of a hook, with the ways on that LangChain draws."""
        place, ways = node.site.place, node.built.flat.ways(node.hook)
        named = {"model": [place.node], "tools": [place.tools_node], END: []}
        others = [name for way in ways for name in named.get(way, [place.hook_node(way)])]
        is_last = node.hook.endswith(".after_agent")
        ends_by = May() | may_do_by_tools(place) if is_last else May()
        may = ends_by if END in ways else None
        is_free = len(ways) > 1 or END in ways or node.hook.endswith(".after_model")
        self._add_node(builder, node, may, others, is_free=is_free)

    def _add_node(
        self,
        builder: Builder,
        node: Any,
        may: May | None,
        others: Sequence[str] = (),
        *,
        is_free: bool = False,
    ) -> None:
        """Add a node; behind it comes what its agent may do, if it can end there, and the others.

        One that is free may also go where no way is drawn.
        """
        place: Place = node.site.place
        options = dict(node.policies) if isinstance(node, LeafNode) else {}
        may_stay = node.site.has_border and node.name == place.node
        if reads := (("failure",) if may_stay else ()) + self._kept_by(place):
            options["input_schema"] = self._reads(builder, reads)
        builder.add_node(node.name, node, metadata={"agent_name": place.name}, **options)
        after = ends(self.tree, place, may) if may else ()
        ended = [END if end is None else end.entry_node for end in after]
        behind = list(dict.fromkeys([*ended, *others]))
        if len(behind) == 1 and not (may_stay or is_free):
            builder.add_edge(node.name, behind[0])
        else:
            builder.add_conditional_edges(node.name, _WAY_ON, _Drawn({each: each for each in behind}))

    def _reads(self, builder: Builder, channels: tuple[str, ...]) -> type:
        """Return the type of the state as nodes read it that read further channels."""
        state, is_root = builder.state_schema, builder.state_schema is self.types.root
        key = ("root" if is_root else "lane", *channels)
        if key not in self._reading:
            self._reading[key] = reading(state, channels, is_root=is_root)
        return self._reading[key]

    def _kept_by(self, place: Place) -> tuple[str, ...]:
        """Return the channels of what middleware keeps, of that at a place or in its lanes."""
        if isinstance(place.agent, ChatAgent):
            keeps = place.agent.middleware or place.asks_approval or place.sums_up
            return ("middleware", "untracked") if keeps else ()
        lanes = self.tree.lanes(place) if isinstance(place.agent, FORKS) else ()
        return ("middleware",) if any(self._keeps(lane) for lane in lanes if not lane.is_called) else ()

    def _keeps(self, lane: Place) -> bool:
        """Tell whether there is middleware in a lane, or in those inside it that are no calls."""
        return any(map(self._kept_by, self.tree.stops(lane)))

    def _has_border(self, place: Place, may: May) -> bool:
        """Tell whether a function may be asked where a place ends, or a limit that a transfer has."""
        if isinstance(place.agent, ChatAgent):
            may |= may_do_by_tools(place)
        transfers = may.transfer and bool(targets(self.tree, place))
        return transfers or asks_functions(self.tree, place, may)

    def _site(self, place: Place, has_border: bool = False) -> Site:
        return Site(
            self.tree,
            place,
            self.paths,
            self.reducers,
            has_border=has_border,
            limits=self.limits,
        )


def _compiled(builder: Builder, options: Mapping[str, Any]) -> Graph:
    """Compile a builder whose ways on read what the node before them wrote, and not the state.

    For the state with that in it LangGraph copies every channel, and each leaf has one.
    """
    branches, builder.branches = builder.branches, type(builder.branches)(dict)
    graph = builder.compile(**options)
    builder.branches = branches
    for node, named in branches.items():
        for name, branch in named.items():
            graph.attach_branch(node, name, branch, with_reader=False)
    return graph


class _Drawn(dict[Any, str]):
    """The ways on that are drawn; the position may lead anywhere.

    A node at a border may follow itself, and go where its agent's other nodes would have gone; and an
    edit of the state goes on where the position is, whichever node LangGraph takes it to come from.
    """

    def __missing__(self, node: str) -> str:
        return node

    def copy(self) -> "_Drawn":
        return self


def _show(graph: Graph, place: Place, lanes: list[Lane]) -> None:
    """Show the graphs that a node runs."""
    match place.agent:
        case ChatAgent(tools=tools) if lanes:
            others = [place.call_task] if len(lanes) < len(tools) else []
            show_lanes(graph, place.tools_node, lanes, others)
        case WorkflowAgent(steps=steps):
            nodes = {step.name: lane.place.node for step, lane in zip(steps, lanes, strict=False)}
            behind = {nodes[step.name]: [nodes[name] for name in step.depends_on] for step in steps}
            undone = [nodes[step.name] for step in steps if step.compensate is not None]
            undo = [lane.place.node for lane in lanes[len(steps) :]]
            undoing = dict(zip(undone, undo, strict=True))
            show_lanes(graph, place.node, lanes, behind=behind, undoing=undoing)
        case ParallelAgent() | EachAgent():
            show_lanes(graph, place.node, lanes)
        case GraphAgent(graph=inner) if isinstance(inner, Pregel):
            graph.nodes[place.node].subgraphs = [inner]


def _way_on(written: Any, config: RunnableConfig) -> str:
    """Return where the position leads that was written; after an edit of other state, as it is."""
    position = written.get("position") if isinstance(written, Mapping) else None
    position = position or ChannelRead.do_read(config, select="position")
    return cast(Position, position)["next"] or END


class _WayOn(RunnableLambda[Any, str]):
    """The path behind a node. LangGraph would call a function in a thread, and trace it."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:
        return _way_on(input, config or {})

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:
        return _way_on(input, config or {})


_WAY_ON = _WayOn(_way_on)
