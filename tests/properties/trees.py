"""Random trees, as specs; and specs built as agents that record what they see."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import or_
from typing import Any

import specs
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

DEPTH = 4
MOST_LEAVES = 12
MOST_ACTIVATIONS = 40

POLICIES = st.sampled_from(("shared", "shared", "path", "own", "last", "input", "entries"))
KINDS = ("function", "generator", "async function", "async generator", "chat", "human")
TEXTS = ("@", "more from @", "")
SIGNALS = (("break_loop", None), ("break_loop", None), ("exit", None))
UNTILS = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.just("iteration"), st.integers(0, 2)),
    st.tuples(st.just("messages"), st.integers(1, 6)),
    st.tuples(st.just("value"), st.sampled_from("xyz")),
)


class FailedError(Exception):
    """What a leaf fails with; its `repr` is its text."""

    __repr__ = Exception.__str__


@dataclass
class Record:
    """What the leaves of a tree see: in `saw` by address, in `models` by the name of the agent."""

    saw: dict[str, list[specs.Sight]] = field(default_factory=lambda: defaultdict(list))
    models: dict[str, ScriptedChatModel] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def call(self, leaf: specs.Function, ctx: ag.Context) -> specs.Call:
        """Record a call of a function, and return what it is to give."""
        sight = _sight(ctx)
        script = specs.calls(leaf, ctx.address, sight)
        with self.lock:
            self.saw[ctx.address].append(sight)
            return script[(len(self.saw[ctx.address]) - 1) % len(script)]

    def until(self, loop: specs.Loop, ctx: ag.Context) -> bool:
        """Record that the `until` of a loop is asked, and return what it is to say."""
        sight = _sight(ctx)
        with self.lock:
            self.saw[ctx.address].append(sight)
        return specs.stops(loop.until, sight)

    def model(self, leaf: specs.Chat) -> ScriptedChatModel:
        """Return the model of a chat agent: the same one, however often the tree is built."""
        fails = [lambda _: FailedError(leaf.name)] * leaf.fails
        responses = [*fails, lambda sent: specs.reply(leaf.name, rendered(sent))] * 100
        return self.models.setdefault(leaf.name, ScriptedChatModel(responses=responses))


def rendered(messages: Sequence[BaseMessage]) -> list[specs.Rendered]:
    """Return messages as plain values."""
    return [(message.type, str(message.text), message.name) for message in messages]


def steps(path: ag.RunPath) -> specs.Path:
    """Return a run path as plain values."""
    return tuple((step.agent_name, step.iteration) for step in path)


def build(tree: specs.Spec, record: Record) -> ag.Agent:
    """Return the agents of a tree; what they see goes to `record`."""
    built: dict[str, ag.Agent] = {}

    def agent(spec: specs.Spec) -> ag.Agent:
        if spec.name not in built:
            inner = [agent(child) for child in getattr(spec, "sub_agents", ())]
            built[spec.name] = _agent(spec, inner, record)
        return built[spec.name]

    return agent(tree)


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
        self.leaves = self.names = 0

    def agent(self, depth: int) -> specs.Spec:
        """Draw an agent with at most `depth` composites, one in the other; or take one again."""
        kinds = ["leaf"] if depth < DEPTH else []
        kinds += ["again"] if self.made else []
        kinds += ["sequential", "parallel", "loop"] if depth and self.leaves < MOST_LEAVES else []
        kind = self.pick(*kinds)
        if kind == "again":
            return self.pick(*self.made)
        agent = self.leaf() if kind == "leaf" else self.composite(kind, depth - 1)
        if not any(_is_single(inner) for inner in specs.walk(agent)):
            self.made.append(agent)
        return agent

    def composite(self, kind: str, depth: int) -> specs.Spec:
        """Draw a composite."""
        inner = tuple(self.agent(depth) for _ in range(self.pick(1, 2, 2, 3)))
        name = self.name(kind)
        if kind == "sequential":
            return specs.Sequential(name, inner)
        if kind == "parallel":
            return specs.Parallel(name, inner, self.pick(None, None, 1, 2))
        until = self.draw(UNTILS)
        bounds = [1, 2, 3] if until is None or until[0] != "iteration" else [1, 2, 3, None]
        loops = [specs.Loop(name, inner, bound, until) for bound in bounds]
        return self.pick(loops[0], *(each for each in loops[1:] if _fits(each)))

    def leaf(self) -> specs.Leaf:
        """Draw a leaf; one that has an output key, or a model that fails, stands in one place only."""
        self.leaves += 1
        kind = self.pick(*(kind for kind in KINDS if kind != "human" or not self.calm))
        name = self.name(kind)
        key = self.pick(None, None, f"{name}_said")
        history = self.draw(POLICIES)
        if kind == "human":
            return specs.Human(name, self.pick("Go on?", "Go on with {x?}?"), key)
        if kind == "chat":
            fails = 0 if self.calm else self.pick(0, 0, 0, 1, 2)
            return specs.Chat(name, self.pick("", "Know {x?}."), fails, history, key)
        scripts = tuple(self.script(name, "generator" in kind) for _ in range(self.pick(1, 2, 3)))
        slow = self.pick(0.0, 0.0, 0.0, 0.002)
        return specs.Function(name, kind, scripts, history, key, self.pick(False, True), slow)

    def script(self, name: str, streamed: bool) -> tuple[specs.Call, ...]:
        """Draw the calls of an activation: some fail, and some of those that do not ask."""
        calls = []
        asks = 0 if self.calm else self.pick(0, 0, 0, 1, 2)
        for part in range(asks + 1):
            items = self.draw(st.lists(_items(name), max_size=3 if streamed else 1))
            for again in range(0 if self.calm else self.pick(0, 0, 0, 0, 0, 0, 1, 2)):
                told = items[: self.pick(0, 1, 2, 3)] if streamed else ()
                calls.append(specs.Call((*told, ("error", f"@ fails in {part}.{again}"))))
            question = ("interrupted", {"ask": part, "of": ["@"]})
            end = question if part < asks else self.pick(*[None] * 6, *SIGNALS)
            if end is not None:
                items = [*items, end] if streamed else [end]
            calls.append(specs.Call(tuple(items)))
        return tuple(calls)

    def name(self, kind: str) -> str:
        """Return a name that no agent has."""
        self.names += 1
        return f"{kind.replace(' ', '_')}_{self.names}"

    def pick(self, *choices: Any) -> Any:
        """Draw one of several, the first ones being the simplest."""
        return self.draw(st.sampled_from(choices))


@cache
def _items(name: str) -> st.SearchStrategy[specs.Item]:
    text, number = st.sampled_from(TEXTS), st.integers(0, 9)
    says = _item("message", st.tuples(st.just("ai"), text, st.just(name)))
    quotes = _item("message", st.tuples(st.just("human"), text, st.just(name)))
    tells = _item("custom", st.fixed_dictionaries({"at": st.just("@"), "n": number}))
    writes = _item("values", st.dictionaries(st.sampled_from("xyz"), text, min_size=1, max_size=2))
    return st.one_of(says, says, quotes, tells, writes)


def _item(kind: specs.Kind, data: st.SearchStrategy[Any]) -> st.SearchStrategy[specs.Item]:
    return st.tuples(st.just(kind), data)


def _is_single(spec: specs.Spec) -> bool:
    return bool(getattr(spec, "output_key", None) or getattr(spec, "fails", 0))


def _fits(spec: specs.Spec) -> bool:
    return _activations(spec) <= MOST_ACTIVATIONS


def _activations(spec: specs.Spec) -> int:
    """Return how many activations of leaves a tree has at most."""
    if not hasattr(spec, "sub_agents"):
        return 1
    times = (spec.max_iterations or 3) if isinstance(spec, specs.Loop) else 1
    return times * sum(_activations(child) for child in spec.sub_agents)


def _agent(spec: specs.Spec, inner: list[ag.Agent], record: Record) -> ag.Agent:
    match spec:
        case specs.Sequential():
            return ag.sequential(spec.name, inner)
        case specs.Parallel():
            return ag.parallel(spec.name, inner, max_concurrency=spec.max_concurrency)
        case specs.Loop():
            until = spec.until and (lambda ctx: record.until(spec, ctx))
            return ag.loop(spec.name, inner, max_iterations=spec.max_iterations, until=until)
        case specs.Human():
            return ag.human(spec.name, spec.prompt, output_key=spec.output_key)
    history = _entries if spec.history == "entries" else spec.history
    known = {"output_key": spec.output_key, "history": history}
    if isinstance(spec, specs.Chat):
        return ag.chat_agent(spec.name, record.model(spec), instruction=spec.instruction, **known)
    return ag.function_agent(spec.name, _fn(spec, record), **known)


def _fn(leaf: specs.Function, record: Record) -> Callable[[ag.Context], Any]:
    def function(ctx):
        items = record.call(leaf, ctx).items
        time.sleep(leaf.seconds)
        return _given(items[0]) if items else None

    async def async_function(ctx):
        items = record.call(leaf, ctx).items
        await asyncio.sleep(leaf.seconds)
        return _given(items[0]) if items else None

    def generator(ctx):
        for item in record.call(leaf, ctx).items:
            time.sleep(leaf.seconds)
            yield _given(item)

    async def async_generator(ctx):
        for item in record.call(leaf, ctx).items:
            await asyncio.sleep(leaf.seconds)
            yield _given(item)

    kinds = (function, generator, async_function, async_generator)
    fn = next(fn for fn in kinds if fn.__name__ == leaf.kind.replace(" ", "_"))
    if leaf.annotated:
        fn.__annotations__["return"] = _annotation(leaf)
    return fn


def _annotation(leaf: specs.Function) -> Any:
    """Return an annotation that names what the scripts give, and nothing else."""
    calls = [call for script in leaf.scripts for call in script]
    items = [item for call in calls for item in call.items if item[0] != "error"]
    given = [type(_given(item)) for item in items] or [str]
    if "generator" in leaf.kind:
        return (AsyncIterator if "async" in leaf.kind else Iterator)[reduce(or_, given)]
    return reduce(or_, given if all(call.items for call in calls) else [*given, None])


def _given(item: specs.Item) -> Any:
    match item:
        case ("message", ("ai", text, _)):
            return text
        case ("message", (_, text, _)):
            return HumanMessage(text)
        case ("custom", data):
            return ag.Custom(data)
        case ("values", values):
            return ag.SetValues(**values)
        case ("interrupted", value):
            return ag.Ask(value)
        case ("exit", _):
            return ag.Exit()
        case ("break_loop", _):
            return ag.BreakLoop()
        case (_, text):
            raise FailedError(text)


def _sight(ctx: ag.Context) -> specs.Sight:
    answer = (ctx.answer,) if ctx.answered else ()
    path, messages = steps(ctx.run_path), rendered(ctx.messages)
    return specs.Sight(path, ctx.iteration, messages, dict(ctx.values), answer)


def _entries(entries: list[ag.Entry]) -> list[BaseMessage]:
    return [
        HumanMessage(f"{e.agent_name} at {e.address} by {steps(e.run_path)}: {e.message.text}")
        for e in entries
    ]
