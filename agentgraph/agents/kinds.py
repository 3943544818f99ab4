"""Kinds of agents: the contents, the capabilities and the role in a tree of each kind.

Only this module determines the kind of an agent: `kind_of` is a closed `match`, so mypy reports a kind
without a row. Other folders that treat kinds differently also have a file `kinds.py`, a closed `match`
of `Kind.name`. All other code reads attributes of a `Kind`, such as `place.kind.is_parallel`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal, assert_never, cast
from urllib.parse import quote

from agentgraph.agents.agents import (
    Agent,
    AgentTool,
    ChatAgent,
    Composite,
    EachAgent,
    FunctionAgent,
    GraphAgent,
    HumanAgent,
    InnerNode,
    Leaf,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    Step,
    SwarmAgent,
    SwitchAgent,
    WorkflowAgent,
    agent_tools,
    has_case,
    is_agent,
    sub_agents,
    unchecked,
)
from agentgraph.agents.functions import allowed, names_writer, yields
from agentgraph.agents.middleware import HOOKS, may_exit
from agentgraph.agents.signals import BreakLoop, Capabilities, Exit, Signal, Skip

LeafKind = Literal["chat", "human", "function", "graph"]
CompositeKind = Literal["sequential", "parallel", "loop", "workflow", "switch", "swarm", "each"]
AgentKind = Literal[LeafKind, CompositeKind]
"""The words for the kinds of agents, which outlines show and threads save."""
PlaceKind = Literal[AgentKind, "node"]
"""The words for the kinds of places: a node of a flattened graph is not an agent."""

Lanes = list[set[Signal | None]]
"""The signals with which each lane of a parallel agent may end."""


def _nothing(_: object) -> tuple[()]:
    return ()


def _never(_: object) -> bool:
    return False


def _go_on(_: object) -> Capabilities:
    return Capabilities()


def _as_it_is(_: object, lanes: Lanes) -> Lanes:
    return lanes


def _no_peers(_agent: object, _name: str) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties of a kind of agents. A leaf with all defaults needs only a name.

    Attributes:
        name: The word for it in outlines, which threads save.
        is_node: Whether it is a node of its lane; if not, it only decides the order of nodes.
        is_parallel: Whether its node runs each of its sub-agents in its own lane.
        has_steps: Whether these are steps, which may depend on each other.
        has_items: Whether these are the items of a value, with one agent for all.
        loops: Whether its sub-agents run repeatedly.
        chooses: Whether its node chooses the one sub-agent that runs.
        transfers: Whether its sub-agents run only when it transfers to them.
        is_swarm: Whether its sub-agents transfer to each other.
        keeps_active: Whether a value of the run names its active sub-agent.
        joins_swarms: Whether it may be one of the agents of a swarm.
        calls_model: Whether it is a chat agent.
        asks: Whether it always asks a person.
        runs_graph: Whether it runs a LangGraph graph.
        is_flattened: Whether it is a LangGraph graph whose nodes are nodes of the lane.
        is_inner: Whether it is such a node, which runs any number of times.
        runs_agents: Whether it is a function that runs agents.
        first_wins: Whether the first sub-agent that succeeds ends the others and discards their work.
        further: The suffixes of the names of its other nodes, and of its task ("call").
        called: Returns the agents that it calls any number of times.
        peers: Returns the sub-agents to which the named one may transfer, including itself.
        capabilities: Returns its capabilities when it ends; for a parallel node its lanes decide.
        emits_early: Returns whether it may emit events before its node has ended, other than from
            tasks. A generator yields while it runs; functions, middleware and nodes may write to
            LangGraph's stream.
        side_by_side: Returns the agents that run concurrently and whose values are joined.
        joined: Returns the possible signals of its lanes, by its `on_error`.
    """

    name: PlaceKind
    is_node: bool = True
    is_parallel: bool = False
    has_steps: bool = False
    has_items: bool = False
    loops: bool = False
    chooses: bool = False
    transfers: bool = False
    is_swarm: bool = False
    keeps_active: bool = False
    joins_swarms: bool = False
    calls_model: bool = False
    asks: bool = False
    runs_graph: bool = False
    is_flattened: bool = False
    is_inner: bool = False
    runs_agents: bool = False
    first_wins: bool = False
    further: tuple[str, ...] = ()
    called: Callable[[Any], tuple[Agent, ...]] = _nothing
    peers: Callable[[Any, str], tuple[Agent, ...]] = _no_peers
    capabilities: Callable[[Any], Capabilities] = _go_on
    emits_early: Callable[[Any], bool] = _never
    side_by_side: Callable[[Any], Sequence[Agent]] = _nothing
    joined: Callable[[Any, Lanes], Lanes] = _as_it_is

    @property
    def is_leaf(self) -> bool:
        """Whether it is a node that has no agents inside."""
        return self.is_node and not self.is_parallel and not self.chooses

    @property
    def encloses(self) -> bool:
        """Whether what is inside it runs in its lane, as long as it runs itself."""
        return not self.is_node or self.is_flattened or self.chooses


def kind_of(agent: Leaf | Composite | InnerNode) -> Kind:  # noqa: C901 (a row for each kind)
    """Return the kind of an agent."""
    match agent:
        case ChatAgent():
            return _STICKY if agent.sticky is True else _CHAT
        case FunctionAgent():
            return _RUNNING if agent.agents else _FUNCTION
        case GraphAgent():
            return _FLAT if agent.flat else _GRAPH
        case HumanAgent():
            return _HUMAN
        case SequentialAgent():
            return _SEQUENTIAL
        case LoopAgent():
            return _LOOP
        case ParallelAgent():
            return _FIRST_PARALLEL if _is_first(agent) else _PARALLEL
        case WorkflowAgent():
            return _WORKFLOW
        case EachAgent():
            return _FIRST_EACH if _is_first(agent) else _EACH
        case SwitchAgent():
            return _SWITCH
        case SwarmAgent():
            return _SWARM
        case InnerNode():
            return _GRAPH_NODE if agent.graph is not None else _NODE
        case _:
            assert_never(agent)


def _is_first(agent: ParallelAgent | EachAgent) -> bool:
    return isinstance(agent.on_error, str) and agent.on_error == "first"


def _of_chat(agent: ChatAgent) -> Capabilities:
    from agentgraph.agents.tools import tool_capabilities  # imports LangChain's tools, which is costly

    capabilities = Capabilities() | tool_capabilities(agent)
    if agent.middleware and any(may_exit(agent.middleware, hook) for hook in HOOKS):
        capabilities |= Capabilities(exit=True)
    return capabilities


def _of_switch(agent: SwitchAgent) -> Capabilities:
    skips, exits, breaks = (has_case(agent, kind) for kind in (Skip, Exit, BreakLoop))
    return Capabilities(skips, exit=exits, break_loop=breaks)


def _swarm_peers(agent: SwarmAgent, name: str) -> tuple[Agent, ...]:
    if agent.handoffs is None:
        return agent.sub_agents
    peers = agent.handoffs.get(name, ())
    return tuple(each for each in agent.sub_agents if each.name in peers)


def _branches(agent: ParallelAgent) -> Sequence[Agent]:
    return agent.sub_agents if isinstance(agent.on_error, str) and not _is_first(agent) else ()


def _of_branches(agent: ParallelAgent, lanes: Lanes) -> Lanes:
    match agent.on_error:
        case "collect":  # a branch that fails ends without a signal
            return [{*lane, None} for lane in lanes]
        case "first":  # only the winner's signal counts
            return [set().union(*lanes)]
    return lanes


_CHAT = Kind(
    "chat",
    transfers=True,
    joins_swarms=True,
    calls_model=True,
    further=("tools", "approve", "call"),
    called=lambda agent: tuple(tool.agent for tool in agent_tools(agent)),
    peers=lambda agent, _: agent.sub_agents if agent.peers is True else (),
    capabilities=_of_chat,
    emits_early=lambda agent: bool(agent.middleware),
)
_STICKY = replace(_CHAT, keeps_active=True)
_FUNCTION = Kind(
    "function",
    joins_swarms=True,
    further=("ask", "call"),
    called=lambda agent: cast(tuple[Agent, ...], agent.agents),
    capabilities=lambda agent: allowed(agent.fn),
    emits_early=lambda agent: yields(agent.fn) or names_writer(agent.fn),
)
_RUNNING = replace(_FUNCTION, runs_agents=True)
_GRAPH = Kind(
    "graph",
    joins_swarms=True,
    runs_graph=True,
    capabilities=lambda _: Capabilities(transfer=True),
)
_FLAT = replace(_GRAPH, runs_graph=False, is_flattened=True)
_NODE = Kind(
    "node",
    is_inner=True,
    capabilities=lambda _: Capabilities(transfer=True),
    emits_early=lambda _: True,
)
_GRAPH_NODE = replace(_NODE, runs_graph=True)
_HUMAN = Kind("human", asks=True)
_SEQUENTIAL = Kind("sequential", is_node=False)
_LOOP = Kind("loop", is_node=False, loops=True)
_PARALLEL = Kind("parallel", is_parallel=True, side_by_side=_branches, joined=_of_branches)
_FIRST_PARALLEL = replace(_PARALLEL, first_wins=True)
_WORKFLOW = Kind(
    "workflow",
    is_parallel=True,
    has_steps=True,
    side_by_side=lambda agent: [step.agent for step in agent.steps],
)
_EACH = Kind(
    "each",
    is_parallel=True,
    has_items=True,
    called=lambda agent: (agent.agent,),
    joined=lambda _, lanes: [{*lane, None} for lane in lanes],  # because there may be zero items
)
_FIRST_EACH = replace(_EACH, first_wins=True)
_SWITCH = Kind("switch", chooses=True, capabilities=_of_switch)
_SWARM = Kind(
    "swarm",
    chooses=True,
    transfers=True,
    is_swarm=True,
    keeps_active=True,
    joins_swarms=True,
    peers=_swarm_peers,
    capabilities=lambda _: Capabilities(proceed=False),
)
KINDS: Mapping[AgentKind, Kind] = MappingProxyType(
    {
        "chat": _CHAT,
        "human": _HUMAN,
        "function": _FUNCTION,
        "graph": _GRAPH,
        "sequential": _SEQUENTIAL,
        "parallel": _PARALLEL,
        "loop": _LOOP,
        "workflow": _WORKFLOW,
        "switch": _SWITCH,
        "swarm": _SWARM,
        "each": _EACH,
    }
)
"""The kinds by name, without the effects of options: the information in an outline of a tree."""


def is_chat(agent: object) -> bool:
    """Return whether an agent, without a check around it, is a chat agent."""
    return isinstance(agent, Leaf) and kind_of(agent).calls_model


def called_agents(agent: Agent) -> tuple[Agent, ...]:
    """Return the agents that an agent calls any number of times: as tools, for items, in a function."""
    inner = unchecked(agent)
    return kind_of(inner).called(inner) if isinstance(inner, Leaf | Composite) else ()


def agents_inside(agent: Agent) -> tuple[Agent, ...]:
    """Return the sub-agents of an agent, and the agents that it calls."""
    inner = unchecked(agent)
    if not isinstance(inner, Leaf | Composite):
        return ()
    return (*getattr(inner, "sub_agents", ()), *kind_of(inner).called(inner))


def peers_of(parent: Leaf | Composite, name: str) -> list[Agent]:
    """Return the other sub-agents of an agent to which the named one may transfer."""
    peers = kind_of(parent).peers(parent, name)
    return [each for each in peers if isinstance(each, Agent) and each.name != name]


def active_key(agent: Leaf | Composite | InnerNode, name: str | None = None) -> str | None:
    """Return the name of the value with the active agent; None for an agent without such a value.

    Args:
        agent: The agent.
        name: Its name; by default its own.
    """
    is_kept = kind_of(agent).keeps_active
    return f"{(name or agent.name).replace('-', '_')}_active" if is_kept else None


def inner_nodes(agent: Leaf | Composite | InnerNode) -> tuple[InnerNode, ...]:
    """Return the nodes of an agent's graph; empty if the graph is not flattened."""
    if not kind_of(agent).is_flattened:
        return ()
    nodes = getattr(cast(GraphAgent, agent).graph, "nodes", {})
    return tuple(
        InnerNode(
            name=quote(name, safe="._-"),
            node=name,
            graph=next(iter(getattr(node, "subgraphs", ())), None),
        )
        for name, node in nodes.items()
        if name != "__start__"
    )


def output_keys(agent: Any) -> Iterator[str]:
    """Yield the output keys of an agent and its sub-agents."""
    inner = unchecked(agent)
    if isinstance(key := getattr(inner, "output_key", None), str):
        yield key
    is_parallel = is_agent(inner) and kind_of(inner).is_parallel
    workers = _called_with_values(inner) if is_parallel else ()
    for child in (*sub_agents(inner), *workers):
        yield from output_keys(child)


def written_keys(agent: Agent) -> Iterator[str]:
    """Yield all keys that an agent and those inside it may write, as far as they leave it."""
    inner = unchecked(agent)
    yield from (
        key
        for option in ("output_key", "errors_key")
        if isinstance(key := getattr(inner, option, None), str)
    )
    for child in (*sub_agents(inner), *_called_with_values(inner)):
        yield from written_keys(child)


def _called_with_values(agent: Leaf | Composite) -> tuple[Agent, ...]:
    return () if getattr(agent, "collects", False) else called_agents(agent)


def staying_keys(agent: EachAgent) -> frozenset[str]:
    """Return the values that are local to an item."""
    return frozenset([agent.as_, *(written_keys(agent.agent) if agent.collects else ())])


def changed(tree: object, change: Callable[[ChatAgent], ChatAgent]) -> Any:
    """Return a tree with each chat agent changed; values other than agents are unchanged."""
    if type(tree) is tuple:
        return tuple(changed(each, change) for each in tree)
    if not isinstance(tree, Agent | Step | AgentTool):
        return tree
    copy: Any = replace(
        tree, **{each.name: changed(getattr(tree, each.name), change) for each in fields(tree)}
    )
    return change(copy) if is_chat(copy) else copy
