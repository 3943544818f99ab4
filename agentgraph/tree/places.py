"""The places of a tree: each has a lane, nodes and counters."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast, get_args

from agentgraph.agents.agents import (
    Agent,
    ChatAgent,
    CheckedAgent,
    Composite,
    InnerNode,
    Leaf,
    Step,
    WorkflowAgent,
)
from agentgraph.agents.budgets import Summarized
from agentgraph.agents.dependencies import in_order
from agentgraph.agents.functions import is_async, needs_await
from agentgraph.agents.kinds import Kind, active_key, inner_nodes, kind_of, peers_of
from agentgraph.agents.limits import Limits
from agentgraph.agents.middleware import (
    ASKS,
    Mode,
    any_has,
    has_decision_model,
    mode_fault,
    tools_of,
)
from agentgraph.tree.changes import InnerGraph, Outline, fingerprint_of
from agentgraph.tree.kinds import rules_of
from agentgraph.tree.nodes import Nodes
from agentgraph.tree.rules.row import Rules
from agentgraph.tree.user_functions import user_functions

AS_THEY_ARE: Mapping[str, str] = MappingProxyType({})
"""No renamed agents."""


class Count(NamedTuple):
    """The meaning of one counter of a cursor.

    Attributes:
        place: The place of the counter.
        kind: "iteration" of a loop, "transfers" of the transfers that began at a chat agent, the number
            of the "call" that runs an agent, the "attempt" of an agent that a check may send back, or
            the "visit" of a node of a flattened graph.
    """

    place: "Place"
    kind: Literal["iteration", "transfers", "call", "attempt", "visit"]


@dataclass(frozen=True, eq=False)
class Place:
    """One occurrence of an agent in a tree.

    Attributes:
        agent: The agent here, without its checks.
        parent: The place of the enclosing agent; None at the root.
        index: Its number among the sub-agents, or the agents that it calls, of its parent, from 0.
        segment: Its part of an address: the name, with `#2` for a second occurrence in one parent.
        node: The name of its node; for a composite without one, a name for messages.
        is_called: Whether its parent calls it repeatedly: as a tool, in a function, or for items.
        checks: The checks that run when it ends, the innermost first.
    """

    agent: Leaf | Composite | InnerNode
    parent: "Place | None"
    index: int
    segment: str
    node: str
    is_called: bool = False
    checks: tuple[CheckedAgent, ...] = field(default=(), repr=False)

    @cached_property
    def address_template(self) -> str | None:
        """A template of the addresses here, to fill with `%` from a cursor.

        None if an address may omit a counter, as it may omit all but iterations.

        For `critic` in the loop `refine`: "report/refine[%s]/critic".
        """
        if any(count.kind != "iteration" for count in self.counts):
            return None
        own, parent = self.segment.replace("%", "%%"), self.parent
        if parent is None:
            return own
        number = "[%s]" if parent in (count.place for count in self.counts) else ""
        return f"{parent.address_template}{number}/{own}"

    @cached_property
    def path(self) -> str:
        """The addresses here without counters, such as "report/refine/critic"."""
        return f"{self.parent.path}/{self.segment}" if self.parent else self.segment

    @cached_property
    def name(self) -> str:
        """The name of the agent for threads: its own, or its former one."""
        return self.agent.name if self.kind.is_inner else self.segment.partition("#")[0]

    @property
    def given_name(self) -> str:
        """The name of the agent in code."""
        return self.agent.name

    @property
    def names(self) -> tuple[str, ...]:
        """Its names: the one in code, and the one for threads if that differs."""
        return tuple(dict.fromkeys((self.given_name, self.name)))

    @cached_property
    def kind(self) -> Kind:
        """The kind of the agent."""
        return kind_of(self.agent)

    @property
    def rules(self) -> Rules:
        """The rules of this kind of agents."""
        return rules_of(self.kind.name)

    @cached_property
    def chat(self) -> ChatAgent | None:
        """The agent, if it is a chat agent."""
        return cast(ChatAgent, self.agent) if self.kind.calls_model else None

    @cached_property
    def home(self) -> "Place":
        """The place of the agent that runs here: for a node of a flattened graph, the graph's."""
        return self.parent if self.kind.is_inner and self.parent else self

    @cached_property
    def workflow(self) -> WorkflowAgent | None:
        """The workflow of which it is a step, or undoes a step."""
        around = self.parent
        return cast(WorkflowAgent, around.agent) if around and around.kind.has_steps else None

    @cached_property
    def nodes(self) -> Nodes:
        """The names of its nodes and tasks."""
        return Nodes.of(self.node, self.chat, asks_approval=self.asks_approval)

    @cached_property
    def asks_approval(self) -> bool:
        """Whether a person must agree to tool calls here."""
        return self.has_tools and self.chat is not None and bool(self.chat.approve)

    @cached_property
    def has_tools(self) -> bool:
        """Whether it is a chat agent with tools to run; those to exit, break and transfer count."""
        agent = self.chat
        if agent is None:
            return False
        own = any(not isinstance(tool, Mapping) for tool in agent.tools)
        of_middleware = tools_of(agent.middleware) or any_has(agent.middleware, "wrap_tool_call")
        transfers = bool(agent.sub_agents) or self.may_transfer
        return own or bool(of_middleware) or agent.exit_tool or agent.break_tool or transfers

    @property
    def sums_up(self) -> bool:
        """Whether LangChain's summarization shortens the messages for this chat agent."""
        return self.chat is not None and isinstance(self.chat.history, Summarized)

    @cached_property
    def is_in_keeper(self) -> bool:
        """Whether its lane is inside, or is, an agent with stored private data."""
        if any(check.keeps for check in self.checks):
            return True
        return self.parent is not None and not self.starts_lane and self.parent.is_in_keeper

    @cached_property
    def starts_lane(self) -> bool:
        """Whether a lane starts here: at the root, in a parallel agent, and at each agent as a tool."""
        parent = self.parent
        return parent is None or self.is_called or parent.kind.is_parallel

    @property
    def is_tool(self) -> bool:
        """Whether a chat agent runs it as a tool."""
        return self.is_called and self.parent is not None and self.parent.kind.transfers

    @property
    def is_run(self) -> bool:
        """Whether a function runs it."""
        return self.is_called and self.parent is not None and self.parent.kind.runs_agents

    @property
    def is_item(self) -> bool:
        """Whether an `each` runs it for its items."""
        return self.is_called and self.parent is not None and self.parent.kind.is_parallel

    @property
    def is_node(self) -> bool:
        """Whether the place is a node of its lane: a leaf, or the node that runs lanes."""
        return self.kind.is_node

    @cached_property
    def is_target(self) -> bool:
        """Whether a chat agent may transfer here."""
        parent = self.parent
        return parent is not None and parent.kind.transfers and not self.is_called

    @cached_property
    def returns(self) -> bool:
        """Whether it returns to the chat agent above when it ends without a transfer."""
        above = self.parent.chat if self.parent and self.is_target else None
        return above is not None and above.sub_agents_return

    @cached_property
    def may_transfer(self) -> bool:
        """Whether it may transfer to the agent above, or to a sibling."""
        around: Place | None = self.parent
        if around is None or not self.is_target:
            return False
        if around.kind.is_swarm:
            is_above = around.parent is not None and around.parent.kind.is_swarm
        else:
            is_above = not self.returns
        return is_above or bool(peers_of(cast(Composite, around.agent), self.given_name))

    @cached_property
    def repeats(self) -> bool:
        """Whether a check may make it run again."""
        return any(check.repeats for check in self.checks)

    @cached_property
    def counts_transfers(self) -> bool:
        """Whether transfers begin here; the same counter counts those of its targets."""
        if self.kind.is_swarm:
            return True
        is_first = not self.is_target or (self.parent is not None and self.parent.kind.is_swarm)
        return self.chat is not None and bool(self.chat.sub_agents) and is_first

    @cached_property
    def counts(self) -> tuple[Count, ...]:
        """The meanings of the counters of a cursor here, outermost first."""
        counts = list(self.parent.counts_inside) if self.parent else []
        counts += [Count(self, "call")] if self.is_called else []
        counts += [Count(self, "attempt")] if self.repeats else []
        counts += [Count(self, "transfers")] if self.counts_transfers else []
        counts += [Count(self, "visit")] if self.kind.is_inner else []
        return tuple(counts)

    @cached_property
    def counts_inside(self) -> tuple[Count, ...]:
        """The meanings of the counters of a cursor directly inside this place."""
        return (*self.counts, Count(self, "iteration")) if self.kind.loops else self.counts

    @cached_property
    def step(self) -> Step | None:
        """The step of a workflow that runs here; None outside a workflow, or where a step is undone."""
        steps = self.workflow.steps if self.workflow else ()
        return steps[self.index] if self.index < len(steps) else None

    @property
    def undoes(self) -> bool:
        """Whether it undoes a step of a workflow."""
        return self.workflow is not None and self.step is None

    @property
    def rank(self) -> int:
        """Sort key: the order in which siblings are joined, a step after its dependencies."""
        if self.workflow is None or self.step is None:
            return self.index
        needs = {step.name: step.depends_on for step in self.workflow.steps}
        return in_order(needs).index(self.given_name)

    def policy(self, name: Literal["retry", "timeout"]) -> Any:
        """Return a policy of the agent here, or of the innermost step around it that has one."""
        policy = getattr(self.home.agent, name, None)
        place: Place | None = self
        while policy is None and place is not None:
            policy = getattr(place.step, name, None)
            place = place.parent
        return policy

    @property
    def user_functions(self) -> Iterator[tuple[str, object]]:
        """The users' functions that are called here, each with the name of its option."""
        retry = self.policy("retry") if hasattr(self.agent, "retry") else None
        return user_functions(self.rules.asked(self.agent), self.step, self.checks, retry)

    @property
    def limits(self) -> tuple[Limits, ...]:
        """The limits of its agent, and of the checks around it."""
        own = getattr(self.agent, "limits", None)
        given = (own, *(check.limits for check in self.checks))
        return tuple(limits for limits in given if isinstance(limits, Limits))

    @property
    def around(self) -> "Iterator[Place]":
        """The place and those above it, including callers of its agent, innermost first."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.parent

    @property
    def runs_tasks(self) -> bool:
        """Whether its node runs tasks: lanes, tool calls, or those of a LangGraph graph."""
        kind = self.kind
        runs_lanes = self.has_tools or kind.is_parallel or kind.runs_agents
        return runs_lanes or kind.runs_graph or kind.is_inner

    @property
    def in_loop(self) -> bool:
        """Whether it can break out of an enclosing loop; loops around a tool's caller do not count."""
        counts = (count for count in self.counts if not (count.kind == "call" and count.place.is_item))
        kinds = [count.kind for count in counts if count.kind in ("iteration", "call")]
        return kinds[-1:] == ["iteration"]


@dataclass(frozen=True, eq=False)
class Tree:
    """The places of a tree.

    Attributes:
        agent: The given root agent.
        root: Its place.
        children: For each place with sub-agents: their places, in order.
        called: For each place that calls agents (as tools, for items): their places, in order.
        known_as: The former names of renamed agents, which its threads still know.
    """

    agent: Agent = field(repr=False)
    root: Place
    children: Mapping[Place, tuple[Place, ...]] = field(repr=False)
    called: Mapping[Place, tuple[Place, ...]] = field(repr=False)
    known_as: Mapping[str, str] = field(default_factory=lambda: AS_THEY_ARE, repr=False)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """All places, each before those inside it."""
        return tuple(self._walk(self.root))

    @cached_property
    def by_node(self) -> Mapping[str, Place]:
        """The node places of the tree, by the names of all their nodes."""
        return {node: place for place in self.places if place.is_node for node in _nodes(place)}

    @cached_property
    def outline(self) -> Outline:
        """The shape of the tree, on which its threads depend."""
        return self._outline(self.root)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the outline: eight characters."""
        return fingerprint_of(self.outline)

    @cached_property
    def active_keys(self) -> frozenset[str]:
        """The names of the values with the active agent of a swarm or a chat agent."""
        return frozenset(
            str(active_key(place.agent)) for place in self.places if place.kind.keeps_active
        )

    @cached_property
    def terse(self) -> frozenset[Place]:
        """The workers whose last message alone is visible to others."""
        workers = (place for place in self.places if place.is_target and place.parent)
        return frozenset(each for each in workers if _is_terse(each.parent))

    @cached_property
    def has_transfers(self) -> bool:
        """Whether an agent may transfer to another."""
        return any(place.counts_transfers for place in self.places)

    @cached_property
    def limited(self) -> tuple[Place, ...]:
        """The places of agents with their own limits."""
        may_be = (
            place
            for place in self.places
            if place.checks or getattr(place.agent, "limits", None) is not None
        )
        return tuple(place for place in may_be if place.limits)

    @cached_property
    def has_decision_models(self) -> bool:
        """Whether middleware asks decision models, whose tokens no event has."""
        chats = (place.chat for place in self.places if place.chat is not None)
        return any(has_decision_model(each) for chat in chats for each in chat.middleware)

    @cached_property
    def several_times(self) -> frozenset[str]:
        """The names of the agents that are at several places, or are flattened graphs."""
        times = Counter(place.home.name for place in self.places)
        return frozenset(name for name, number in times.items() if number > 1)

    @cached_property
    def limited_composites(self) -> tuple[str, ...]:
        """The names of the agents with limits that are not leaves."""
        return tuple(place.name for place in self.limited if not place.kind.is_leaf)

    def bounds_of(self, place: Place) -> tuple[tuple[str, Limits], ...]:
        """Return the limits of a place and of those above it, each with the agent's name."""
        return tuple((each.name, limits) for each in place.around for limits in each.limits)

    def limited_around(self, agent: str) -> tuple[str, ...]:
        """Return the names of an agent and those above it that have limits; innermost first."""
        return self._limited_around.get(agent, ())

    def names_inside(self, agent: str) -> frozenset[str]:
        """Return the names of an agent with limits, and of all agents below it."""
        return frozenset(name for name, around in self._limited_around.items() if agent in around)

    @cached_property
    def _limited_around(self) -> Mapping[str, tuple[str, ...]]:
        return {
            place.home.name: tuple(dict.fromkeys(each.name for each in place.around if each.limits))
            for place in self.places
            if self.limited
        }

    @cached_property
    def runs_tasks(self) -> bool:
        """Whether a node runs tasks, which emit their own events."""
        return any(place.runs_tasks for place in self.places)

    @cached_property
    def emits_early(self) -> bool:
        """Whether an agent may emit events before its node has ended, other than from tasks."""
        return any(place.kind.emits_early(place.agent) for place in self.places)

    @cached_property
    def may_discard(self) -> bool:
        """Whether events of a lane may be discarded after its end: of losing branches, failed calls."""
        return any(place.kind.first_wins or place.is_tool or place.is_run for place in self.places)

    @cached_property
    def inner_names(self) -> Mapping[str, frozenset[str]]:
        """The names of the nodes of each flattened graph, by its agent."""
        flat = [place for place in self.places if place.kind.is_flattened]
        return {place.name: frozenset(each.name for each in self.children[place]) for place in flat}

    @cached_property
    def timed(self) -> tuple[Place, ...]:
        """The places with a timeout, which need an async run."""
        timed = (place for place in self.places if hasattr(place.agent, "timeout"))
        limited = (place for place in timed if place.policy("timeout"))
        return tuple(place for place in limited if not place.kind.asks)  # a question just waits

    @cached_property
    def mode_faults(self) -> Mapping[Mode, str | None]:
        """The function that sync or async runs cannot call, with the remedy, or None."""
        return {mode: self._mode_fault(mode) for mode in get_args(Mode)}

    def _mode_fault(self, mode: Mode) -> str | None:
        for place in self.places:
            if place.chat and (fault := mode_fault(place.chat.middleware, mode)):
                return f"{place.name}: {fault}"
            for slot, fn in place.user_functions if mode == "sync" else ():
                if is_async(fn):
                    return f"{place.name}: {needs_await(slot, fn)}"
        return None

    def is_foreign(self, namespace: Sequence[str]) -> bool:
        """Return whether a LangGraph namespace belongs to a user's graph, not to a lane of the tree.

        The namespace of a lane alternates a node and a lane that it runs: `review:1|legal:2`.
        """
        names = [part.partition(":")[0] for part in namespace]
        pairs = zip_longest(names[::2], names[1::2])
        return any(lane not in self._lanes_of.get(node, ()) for node, lane in pairs)

    @cached_property
    def _lanes_of(self) -> Mapping[str, frozenset[str]]:
        nodes = ((place, node) for place in self.places for node in (place.node, place.nodes.tools))
        return {node: frozenset(lane.node for lane in self.lanes(place)) for place, node in nodes}

    def lanes(self, place: Place) -> tuple[Place, ...]:
        """Return the places at which the lanes of a place start."""
        branches = self.children.get(place, ()) if place.kind.is_parallel else ()
        return branches or self.called.get(place, ())

    def node_places(self, lane: Place) -> Iterator[Place]:
        """Yield the node places of the lane that starts at `lane`, in the order of the tree."""
        if lane.is_node:
            yield lane
        if not lane.kind.is_parallel:
            for child in self.children.get(lane, ()):
                yield from self.node_places(child)

    def _walk(self, place: Place) -> Iterator[Place]:
        yield place
        for child in (*self.children.get(place, ()), *self.called.get(place, ())):
            yield from self._walk(child)

    def _outline(self, place: Place) -> Outline:
        role = "tool " if place.is_tool else "run " if place.is_run else ""
        again = " (again)" if place.repeats else ""
        children, is_flat = self.children.get(place, ()), place.kind.is_flattened
        inside = (*(() if is_flat else children), *self.called.get(place, ()))
        outline = Outline(
            label=f"{role}{place.kind.name} {place.name}{_further_nodes(place)}{again}",
            kind=place.kind.name,
            repeats=place.repeats,
            nodes=[*names_of(place), *(child.node for child in children if is_flat)],
            inside=[self._outline(each) for each in inside],
        )
        if is_flat or place.kind.runs_graph:
            nodes = children if is_flat else (place,)
            graphs = {each.node: getattr(each.agent, "graph", None) for each in nodes}
            outline["graphs"] = {
                node: _inner_graph(graph) for node, graph in graphs.items() if graph is not None
            }
        return outline


def _is_terse(supervisor: Place | None) -> bool:
    chat = supervisor.chat if supervisor else None
    return chat is not None and chat.output_mode == "last"


def _inner_graph(graph: object) -> InnerGraph:
    """Return the shape of a LangGraph graph; a graph of another class is remote."""
    nodes = getattr(graph, "nodes", None)
    if not isinstance(nodes, Mapping):
        return InnerGraph(nodes=[], saves="remotely")
    saver = getattr(graph, "checkpointer", None)
    saves = str(saver if isinstance(saver, bool) else None)
    return InnerGraph(
        nodes=[str(each) for each in nodes if not str(each).startswith("__")], saves=saves
    )


def _further_nodes(place: Place) -> str:
    """Return the further nodes of a place, for its label in an outline: ` (tools, approval)`."""
    if place.kind.is_flattened:
        return f" (nodes {', '.join(node.name for node in inner_nodes(place.agent))})"
    hooks = [hook for hook in place.nodes.hooks if hook != ASKS]
    of_hooks = f" (hooks {', '.join(hooks)})" if hooks else ""
    if not place.has_tools:
        return of_hooks
    return (" (tools, approval)" if place.asks_approval else " (tools)") + of_hooks


def names_of(place: Place) -> tuple[str, ...]:
    """Return the names of a place's nodes and tasks, which must be unique in a tree."""
    return (*_nodes(place), *([place.nodes.call] if "call" in place.kind.further else ()))


def _nodes(place: Place) -> tuple[str, ...]:
    further = (f"{place.node}.{work}" for work in place.kind.further if work != "call")
    return place.node, *further, *(place.nodes.hook(hook) for hook in place.nodes.hooks if hook != ASKS)
