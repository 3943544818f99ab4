"""Random trees, as specs."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import scripts
import specs
from hypothesis import strategies as st

DEPTH = 4
MOST_LEAVES = 12
MOST_ACTIVATIONS = 40

POLICIES = st.sampled_from(("shared", "shared", "path", "own", "last", "input", "entries"))
KINDS = (
    "function",
    "generator",
    "async function",
    "async generator",
    "chat",
    "human",
    "graph",
    "flat graph",
)
TEXTS = ("@", "more from @", "")
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
SIGNALS = (("break_loop", None), ("break_loop", None), ("exit", None))
DOES: dict[Any, tuple[Any, ...]] = {
    **dict.fromkeys(HOOKS, ("nothing", "add", "remind", "rewrite", "end", "ask", "fail")),
    "wrap_model_call": ("nothing", "remind", "rewrite", "answer", "fail"),
    "wrap_tool_call": ("nothing", "rewrite", "answer", "ask", "fail"),
}
"""What a middleware may do at a place."""
UNTILS = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.just("iteration"), st.integers(0, 2)),
    st.tuples(st.just("messages"), st.integers(1, 6)),
    st.tuples(st.just("value"), st.sampled_from("xyz")),
)


def trees(*, calm: bool = False) -> st.SearchStrategy[specs.Spec]:
    """Return the strategy of all trees; the calm ones neither fail nor ask."""
    return _trees(calm).filter(_fits)


@st.composite
def _trees(draw: Callable[..., Any], calm: bool) -> specs.Spec:
    return _Growing(draw, calm).agent(DEPTH)


class _Growing:
    """A tree that is being drawn."""

    def __init__(self, draw: Callable[..., Any], calm: bool) -> None:
        self.draw, self.calm = draw, calm
        self.made: list[specs.Spec] = []
        self.leaves = self.names = self.loops = 0

    def agent(self, depth: int) -> specs.Spec:
        """Draw an agent with at most `depth` composites, one in the other; or take one again."""
        kinds = ["leaf"] if depth < DEPTH else []
        kinds += ["again"] if self.made else []
        if depth and self.leaves < MOST_LEAVES:
            kinds += ["sequential", "parallel", "workflow", "loop", "switch", "swarm", "each", "each"]
            kinds += ["caller", "caller", "flow"]
        kind = self.pick(*kinds)
        if kind == "again":
            return self.pick(*self.made)
        if kind == "leaf":
            agent = self.leaf()
        elif kind == "flow":
            agent = self.flow(depth - 1)
        else:
            made = {"caller": self.caller, "each": self.each, "swarm": self.swarm}.get(kind)
            agent = made(depth - 1) if made else self.composite(kind, depth - 1)
        transfers = isinstance(agent, specs.Chat) and agent.sub_agents
        if not transfers and (refusals := self.pick(*[None] * 8, 0, 1, 2)) is not None:
            agent = specs.Checked(agent, refusals)
        if not any(_is_single(inner) for inner in specs.walk(agent)):
            self.made.append(agent)
        return agent

    def composite(self, kind: str, depth: int) -> specs.Spec:
        """Draw a composite."""
        self.loops += kind == "loop"
        inner = tuple(self.agent(depth) for _ in range(self.pick(1, 2, 2, 3)))
        self.loops -= kind == "loop"
        name = self.name(kind)
        if kind == "sequential":
            return specs.Sequential(name, inner)
        if kind == "parallel":
            return self.parallel(name, inner)
        if kind == "workflow":
            return self.workflow(name, inner)
        if kind == "switch":
            return self.switch(name, inner)
        until = self.draw(UNTILS)
        bounds = [1, 2, 3] if until is None or until[0] != "iteration" else [1, 2, 3, None]
        loops = [specs.Loop(name, inner, bound, until) for bound in bounds]
        return self.pick(loops[0], *(each for each in loops[1:] if _fits(each)))

    def parallel(self, name: str, inner: tuple[specs.Spec, ...]) -> specs.Parallel:
        """Draw a parallel: one collects where each failure ends a branch at once."""
        collects = all(not _may_fail(agent) or _is_plain(agent) for agent in inner)
        on_error = self.pick("fail", "fail", "wait", *["collect"] * 2 * collects)
        name = name.replace("parallel", "collect") if on_error == "collect" else name
        return specs.Parallel(name, inner, self.pick(None, None, 1, 2), on_error)

    def workflow(self, name: str, inner: tuple[specs.Spec, ...]) -> specs.Workflow:
        """Draw what depends on what, so that what may signal leaves nothing open.

        When it signals, each other step is done, has begun for it depends on nothing, or must wait.
        """
        agents = list({agent.name: agent for agent in inner}.values())
        free, before = self.pick(1, 1, 2, 3), []
        for agent in self.draw(st.permutations(agents)):
            stops = _may_stop(agent)
            some = [
                each.agent.name
                for each in before[: None if len(before) >= free else 0]
                if _may_stop(each.agent) or (stops and each.depends_on) or self.pick(True, False)
            ]
            needs = tuple(self.draw(st.permutations(some)))
            asked = self.pick(None, None, "Look at $ with {x?}.") if needs else None
            when = self.pick(*[None] * 5, "value", "messages")
            before.append(specs.Step(agent, needs, asked, when))
        steps = sorted(before, key=lambda step: agents.index(step.agent))
        return specs.Workflow(name, tuple(steps), self.pick("fail", "wait"))

    def switch(self, name: str, inner: tuple[specs.Spec, ...]) -> specs.Switch:
        """Draw a switch: each agent is a case, and some cases run none."""
        agents = tuple({agent.name: agent for agent in inner}.values())
        by = self.pick("messages", "iteration", "value")
        others = ["skip", "skip", "exit", *["break_loop"] * 2 * bool(self.loops)]
        ways = [*range(len(agents)), self.pick(*others)][: 2 if by == "value" else None]
        ways = tuple(self.draw(st.permutations(ways)))
        fails = 0 if self.calm or by == "value" else self.pick(0, 0, 0, 1, 2)
        return specs.Switch(name, agents[: max([*_numbers(ways), -1]) + 1], ways, by, fails)

    def each(self, depth: int) -> specs.Spec:
        """Draw an each: one collects where each failure ends an item at once; of few the first wins.

        The agent before one whose items are in a value writes that.
        """
        worker, name = self.agent(depth), self.name("each")
        may_fail, asks = _may_fail(worker), _may_ask(worker)
        errors = ["fail", "fail", "wait", *["collect"] * 2 * (not may_fail or _is_plain(worker))]
        on_error = self.pick(*errors, *["first"] * (not may_fail and not asks))
        name = name.replace("each", "collect_each") if on_error == "collect" else name
        shape = self.pick("list", "list", "keys", "mapping")
        kind = self.pick("messages", "iteration", "value")
        key, fails = self.key(name), not self.calm and kind != "value" and on_error != "collect"
        made = specs.Each(
            name,
            worker,
            (kind, f"{name}_items" if kind == "value" else self.pick(2, 0, 1, 3)),
            shape,
            self.pick("item", "item", "x", "y"),
            self.pick(None, None, "template", "function"),
            1 if on_error == "first" else self.pick(None, None, 1, 2),
            on_error,
            key,
            self.pick(None, f"{name}_errors") if key else None,
            self.pick(None, None, "full", "last", "none"),
            self.pick(0, 0, 0, 0, 1, 2) if fails else 0,
        )
        if kind != "value":
            return made
        items = scripts.shaped(shape, self.pick(*scripts.LISTS[::-1]))
        writes = ((specs.Call((("values", {made.over[1]: items}),)),),)
        before = specs.Function(self.name("lister"), "function", writes)
        return specs.Sequential(self.name("sequential"), (before, made))

    def swarm(self, depth: int) -> specs.Swarm:
        """Draw a swarm: most of its agents can hand over, and one may be a swarm."""
        self.leaves += 1
        name, members = self.name("swarm"), list[specs.Spec]()
        for _ in range(self.pick(1, 2, 2, 3)):
            kind = self.pick("caller", "caller", "caller", "leaf", *["swarm"] * (depth > 0))
            if kind == "caller":
                members.append(self.caller(depth, below=True))
            elif kind == "swarm":
                members.append(self.swarm(depth - 1))
            elif not isinstance(leaf := self.leaf(), specs.Human):
                members.append(leaf)
        members = members or [self.caller(depth)]
        start = self.pick(*range(len(members)))
        return specs.Swarm(name, tuple(members), start, self.pick(True, True, False))

    def leaf(self) -> specs.Leaf:
        """Draw a leaf; one that has an output key is in one place only."""
        self.leaves += 1
        kind = self.pick(*(kind for kind in KINDS if kind != "human" or not self.calm))
        name = self.name(f"timed {kind}" if kind == "human" and self.pick(False, True) else kind)
        if kind == "chat":
            return self.chat(name)
        key, history = self.key(name), self.draw(POLICIES)
        if kind == "human":
            return specs.Human(name, self.pick("Go on?", "Go on with {x?}?"), key)
        annotated, number = self.pick(False, True), range(self.pick(1, 2, 3))
        if "graph" in kind:
            scripts = tuple(
                self.graph_script(name, early=not annotated, flat=kind != "graph") for _ in number
            )
            return specs.Function(name, kind, scripts, history, key, annotated)
        scripts = tuple(self.script(name, "generator" in kind) for _ in number)
        slow = self.pick(0.0, 0.0, 0.0, 0.002)
        return specs.Function(name, kind, scripts, history, key, annotated, slow)

    def chat(self, name: str) -> specs.Chat:
        """Draw a chat agent without tools."""
        fails = 0 if self.calm else self.pick(0, 0, 0, 1, 2)
        instruction = self.pick("", "Know {x?}.")
        history, key = self.draw(POLICIES), self.key(name)
        stack = tuple(self.middleware() for _ in range(self.pick(0, 0, 0, 0, 1, 2, 3)))
        return specs.Chat(name, instruction, fails, history, key, middleware=stack)

    def middleware(self) -> specs.Middleware:
        """Draw a middleware."""
        place = self.pick(*DOES)
        does = self.pick(
            *(each for each in DOES[place] if each not in ("ask", "fail") or not self.calm)
        )
        counts = self.pick(True, True, False) or (place, does) == ("after_agent", "end")
        nth = 0 if not counts and place.startswith(("before", "after")) else self.pick(0, 0, 1, 2)
        return specs.Middleware(
            self.name("middleware"), place, does, nth, counts, self.pick(1, 2), self.pick(False, True)
        )

    def caller(self, depth: int, *, below: bool = False) -> specs.Chat:
        """Draw a chat agent whose model calls tools; one `below` another can hand back."""
        self.leaves += 1
        name, tools = self.name(self.pick("caller", "caller", "timed caller")), ("say", "act")
        plain = self.chat(name)
        agents, sub_agents = self.agents(depth), self.sub_agents(depth)
        exits, breaks = self.pick(False, False, True), self.loops > 0 and self.pick(False, True)
        names = [*tools, *["exit"] * exits, *["break_loop"] * breaks, *(a.name for a, _ in agents)]
        moves = [f"transfer_to_{agent.name}" for agent in sub_agents]
        moving = [f"transfer {i}" for i in range(3)] * (1 if not sub_agents and not below else 3)
        fragile = any(_may_fail(agent) for agent, _ in agents)
        errors = "raise" if fragile or (not self.calm and self.pick(False, True)) else "return"
        called = [*names, *(agent.name for agent, _ in agents), *moving, "nope"]
        calls = st.tuples(st.sampled_from(called), self.does(errors))
        returns = bool(sub_agents) and self.pick(False, True)
        return replace(
            plain,
            scripts=tuple(self.rounds(calls) for _ in range(self.pick(1, 2))),
            tools=tools,
            agents=agents,
            sub_agents=sub_agents,
            sub_agents_return=returns,
            peers=bool(sub_agents) and self.pick(False, True),
            sticky=bool(sub_agents) and not returns and self.pick(False, True),
            approve=() if self.calm else self.some([*names, *moves]),
            return_directly=self.some(names),
            exit_tool=exits,
            break_tool=breaks,
            on_tool_error=errors,
            parallel_tools=self.pick(True, True, False),
            max_iterations=self.pick(3, 2, 1),
        )

    def flow(self, depth: int) -> specs.Flow:
        """Draw a function that runs agents: none of them knows of the loops around it."""
        self.leaves += 1
        loops, self.loops = self.loops, 0
        drawn = (self.agent(depth) for _ in range(self.pick(1, 1, 2)))
        agents = {agent.name: agent for agent in drawn}
        self.loops = loops
        calls = tuple(
            (self.pick(*range(len(agents))), self.pick(False, True)) for _ in range(self.pick(1, 2, 3))
        )
        name = self.name("flow")
        inner = tuple((agent, "input") for agent in agents.values())
        kind = self.pick("function", "async function", "gathered", "gathered")
        return specs.Flow(name, inner, calls, kind, "shared", self.key(name))

    def rounds(self, calls: st.SearchStrategy[specs.Does]) -> tuple[tuple[specs.Does, ...], ...]:
        """Draw the tool calls of the messages of an activation."""
        sizes = self.pick((1,), (2,), (3,), (1, 2), (2, 1), (2, 2), (1, 1, 2))
        return tuple(tuple(self.draw(calls) for _ in range(size)) for size in sizes)

    def agents(self, depth: int) -> tuple[tuple[specs.Spec, Any], ...]:
        """Draw the agents as tools of a chat agent: none of them knows of the loops around it."""
        loops, self.loops = self.loops, 0
        count = self.pick(0, 1, 2) if self.leaves < MOST_LEAVES else 0
        agents = {agent.name: agent for agent in (self.agent(depth) for _ in range(count))}
        self.loops = loops
        return tuple((agent, self.pick("input", "shared")) for agent in agents.values())

    def sub_agents(self, depth: int) -> tuple[specs.Spec, ...]:
        """Draw those that a chat agent may hand over to."""
        count = self.pick(0, 1, 2) if self.leaves < MOST_LEAVES else 0
        agents = [self.sub_agent(depth) for _ in range(count)]
        made = {agent.name: agent for agent in agents}
        return tuple(made.values())

    def sub_agent(self, depth: int) -> specs.Spec:
        """Draw one that a chat agent may hand over to, often one that can hand back."""
        kind = self.pick("any", "caller", "caller") if depth and self.leaves < MOST_LEAVES else "any"
        if kind == "caller":
            return self.caller(depth - 1, below=True)
        agent = self.agent(depth)
        is_checked_chat = isinstance(agent, specs.Checked) and isinstance(agent.agent, specs.Chat)
        return self.leaf() if is_checked_chat else agent

    def key(self, name: str) -> str | None:
        """Draw an output key, or none."""
        return self.pick(None, None, f"{name}_said")

    def some(self, names: list[str]) -> tuple[str, ...]:
        """Draw none, or some of several names."""
        chosen = self.pick((), (), names)
        return tuple(name for name in chosen if self.pick(True, False))

    def does(self, errors: str) -> st.SearchStrategy[tuple[specs.Item, ...]]:
        """Return the strategy of what a tool does; one that fails the agent asks once at most."""
        asks = [("interrupted", {"ask": part, "of": ["@"]}) for part in range(2)]
        return st.builds(
            lambda asked, given, fails: (
                *asks[:asked],
                *given,
                *([("error", "@ fails")] if fails else []),
            ),
            st.just(0) if self.calm else st.sampled_from((0, 0, 0, 1, 1 if errors == "raise" else 2)),
            st.lists(_actions(), max_size=2),
            st.just(False) if self.calm else st.sampled_from((False, False, False, True)),
        )

    def script(self, name: str, streamed: bool) -> tuple[specs.Call, ...]:
        """Draw the calls of an activation: some fail, and some of those that do not ask."""
        calls = []
        asks = 0 if self.calm else self.pick(0, 0, 0, 1, 2)
        for part in range(asks + 1):
            items = self.draw(st.lists(st.one_of(_items(name)), max_size=3 if streamed else 1))
            for again in range(0 if self.calm else self.pick(0, 0, 0, 0, 0, 0, 1, 2)):
                items_before = items[: self.pick(0, 1, 2, 3)] if streamed else ()
                calls.append(specs.Call((*items_before, ("error", f"@ fails in {part}.{again}"))))
            timed = {"timed": True} if self.pick(False, False, True) else {}
            question = ("interrupted", {"ask": part, "of": ["@"], **timed})
            signals = SIGNALS if self.loops else SIGNALS[-1:]  # a break outside every loop fails
            end = question if part < asks else self.pick(*[None] * 6, *signals)
            if end is not None:
                items = [*items, end] if streamed else [end]
            calls.append(specs.Call(tuple(items)))
        return tuple(calls)

    def graph_script(self, name: str, *, early: bool, flat: bool) -> tuple[specs.Call, ...]:
        """Draw what a graph says, early or only in the end; one that is laid flat may fail."""
        said = st.lists(_items(name)[0], max_size=2)
        calls = []
        for part in range(0 if self.calm else self.pick(0, 0, 1, 2)):
            before = self.draw(said) if early else []
            calls.append(specs.Call((*before, ("interrupted", {"ask": part, "of": ["@"]}))))
        calls.append(specs.Call(tuple(self.draw(said))))
        if flat and not self.calm and self.pick(*[False] * 4, True):
            failing = specs.Call((("error", "@ fails"),))
            calls.insert(self.pick(*range(len(calls))), failing)
        return tuple(calls)

    def name(self, kind: str) -> str:
        """Return a name that no agent has."""
        self.names += 1
        return f"{kind.replace(' ', '_')}_{self.names}"

    def pick(self, *choices: Any) -> Any:
        """Draw one of several, the first ones being the simplest."""
        return self.draw(st.sampled_from(choices))


@cache
def _items(name: str) -> tuple[st.SearchStrategy[specs.Item], ...]:
    text, number = st.sampled_from(TEXTS), st.integers(0, 9)
    says = _item("message", st.tuples(st.just("ai"), text, st.just(name)))
    quotes = _item("message", st.tuples(st.just("human"), text, st.just(name)))
    customs = _item("custom", st.fixed_dictionaries({"at": st.just("@"), "n": number}))
    writes = _item("values", st.dictionaries(st.sampled_from("xyz"), text, min_size=1, max_size=2))
    return says, says, quotes, customs, writes


@cache
def _actions() -> st.SearchStrategy[specs.Item]:
    customs, writes = _items("")[-2:]
    signals = st.sampled_from(SIGNALS)
    return st.one_of(customs, customs, writes, writes, signals)


def _item(kind: specs.Kind, data: st.SearchStrategy[Any]) -> st.SearchStrategy[specs.Item]:
    return st.tuples(st.just(kind), data)


def _is_single(spec: specs.Spec) -> bool:
    """Return whether an agent may be in one place only: where its key is its own, or in a loop."""
    breaks = getattr(spec, "break_tool", False) or "break_loop" in getattr(spec, "ways", ())
    says_so = isinstance(spec, specs.Function) and "'break_loop'" in repr(spec)
    return bool(getattr(spec, "output_key", None) or breaks or says_so)


def _numbers(ways: Iterable[Any]) -> list[int]:
    """Return the numbers of the agents among the ways of a switch."""
    return [way for way in ways if isinstance(way, int)]


def _fits(spec: specs.Spec) -> bool:
    return _activations(spec) <= MOST_ACTIVATIONS


def _may_fail(spec: specs.Spec) -> bool:
    """Return whether an agent fails at first."""
    if isinstance(spec, specs.Parallel | specs.Each) and spec.on_error == "collect":
        return False
    if isinstance(spec, specs.Chat) and (spec.fails or spec.on_tool_error == "raise"):
        return True
    if isinstance(spec, specs.Chat) and any(each.does == "fail" for each in spec.middleware):
        return True
    if isinstance(spec, specs.Switch | specs.Each) and spec.fails:
        return True
    if isinstance(spec, specs.Function) and any(c.fails for script in spec.scripts for c in script):
        return True
    return any(map(_may_fail, specs.inside(spec)))


def _may_ask(spec: specs.Spec) -> bool:
    """Return whether an agent may ask a person."""
    return any(asking in repr(spec) for asking in ("'interrupted'", "Human(", "'ask'", "approve=('"))


def _is_plain(spec: specs.Spec) -> bool:
    """Return whether nothing in an agent runs at the same time as something else."""
    forks = (specs.Parallel, specs.Workflow, specs.Each)
    return not any(
        isinstance(each, forks) or getattr(each, "tools", ()) or getattr(each, "kind", "") == "gathered"
        for each in specs.walk(spec)
    )


def _may_stop(spec: specs.Spec) -> bool:
    """Return whether an agent may end with a signal."""
    return any(signal in repr(spec) for signal in ("'exit'", "'break_loop'"))


def _activations(spec: specs.Spec) -> int:
    """Return how many activations of leaves a tree has at most."""
    if isinstance(spec, specs.Chat):
        called = [[name for calls in script for name, _ in calls] for script in spec.scripts]
        times = [Counter(names) for names in called]
        most = [(agent, max(names[agent.name] for names in times)) for agent, _ in spec.agents]
        once = 1 + sum(often * _activations(agent) for agent, often in most)
        return once + 3 * sum(map(_activations, spec.sub_agents)) + 2 * once * bool(spec.sub_agents)
    if isinstance(spec, specs.Flow):
        return 1 + sum(_activations(spec.agents[i][0]) for i, _ in spec.calls)
    if not hasattr(spec, "sub_agents"):
        return 1
    times = 3 if isinstance(spec, specs.Swarm) else getattr(spec, "refusals", 0) + 1
    if isinstance(spec, specs.Each):
        times = len(scripts.LISTS[-1])
    if isinstance(spec, specs.Loop):
        times = spec.max_iterations or 3
    return times * sum(_activations(child) for child in spec.sub_agents)
