"""What is read has the type that was written, on both sides of a question and however it is read."""

import asyncio
import enum
import operator
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
from helpers import asks, gives, same, scripted
from langchain.tools import ToolRuntime
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field, PrivateAttr
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls

T = TypeVar("T")


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


@dataclass
class Step:
    at: tuple[int, int]
    seen: set[tuple[int, int]] = field(default_factory=set)


@dataclass(frozen=True)
class Walk:
    steps: tuple[Step, ...]


class Town(BaseModel):
    name: str
    at: tuple[int, int] = (0, 0)
    sides: dict[Side, int] = {}


class Box(BaseModel, Generic[T]):
    inside: T


class Mark(NamedTuple):
    at: tuple[int, int]


class Mode(enum.Enum):
    ON = "on"


class State(TypedDict, total=False):
    place: tuple[int, int]
    seen: set[tuple[int, int]]
    votes: dict[Side, int]
    words: Counter[str]
    frozen: frozenset[str]
    queue: deque[tuple[str, int]]
    walk: Walk
    towns: list[Town]
    box: Box[tuple[int, ...]]
    mark: Mark
    prices: dict[date, Decimal]
    either: int | tuple[str, ...]
    mode: Literal[Mode.ON, "off"]
    raw: bytearray
    path: Annotated[tuple[str, ...], operator.add]
    tally: Annotated[Counter[str], operator.add]
    sides: Annotated[frozenset[Side], operator.or_]


GIVEN: dict[str, Any] = {
    "place": (1, 2),
    "seen": {(1, 2), (3, 4)},
    "votes": {Side.LEFT: 3},
    "words": Counter("aab"),
    "frozen": frozenset(["a"]),
    "queue": deque([("a", 1)]),
    "walk": Walk((Step((1, 2), {(1, 2)}),)),
    "towns": [Town(name="York", at=(1, 2), sides={Side.RIGHT: 1})],
    "box": Box[tuple[int, ...]](inside=(1,)),
    "mark": Mark((1, 2)),
    "prices": {date(2026, 1, 2): Decimal("1.20")},
    "either": ("a",),
    "mode": Mode.ON,
    "raw": bytearray(b"a"),
    "path": ("a",),
    "tally": Counter("a"),
    "sides": frozenset([Side.LEFT]),
}
MERGED: dict[str, Any] = {
    **GIVEN,
    "path": ("a", "a"),
    "tally": Counter("aa"),
}
SAVERS = ("ours in memory", "LangGraph's in memory", "SQLite")


class Threads:
    """Calls a Runner, sync or async; with a file it is opened anew for each call."""

    def __init__(self, saver: str, is_async: bool, folder: Path) -> None:
        self.saver, self.is_async = saver, is_async
        self.path = folder / "threads.db"
        self.memory: Any = InMemorySaver() if saver == SAVERS[1] else None
        self.runners: dict[int, ag.Runner] = {}

    def call(self, tree: ag.Agent, method: str, *args: Any, runner: Any = None, **options: Any) -> Any:
        given = {"values": State, **(runner or {})}
        if self.saver == "SQLite":
            with ag.Runner(tree, checkpointer=self.path, **given) as opened:
                return self._called(opened, method, args, options)
        if id(tree) not in self.runners:
            self.runners[id(tree)] = ag.Runner(tree, checkpointer=self.memory, **given)
            self.memory = self.runners[id(tree)].saver
        return self._called(self.runners[id(tree)], method, args, options)

    def _called(self, runner: Any, method: str, args: Any, options: Any) -> Any:
        if not self.is_async:
            made = getattr(runner, method)(*args, **options)
            return [*made] if hasattr(made, "__next__") else made

        async def called() -> Any:
            made = getattr(runner, "a" + method)(*args, **options)
            return [each async for each in made] if hasattr(made, "__anext__") else await made

        return asyncio.run(called())


@pytest.fixture(params=SAVERS)
def threads(request: Any, is_async: bool, tmp_path: Path) -> Threads:
    return Threads(request.param, is_async, tmp_path)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: Any) -> bool:
    return bool(request.param)


def look(read: list[dict[str, Any]]) -> Callable[[Any], None]:
    return lambda ctx: read.append(dict(ctx.values))


def check(values: Any, wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        assert same(values[name], value), (name, values[name], value)


def test_declared_types_hold_over_a_question_a_turn_a_rewind_and_a_copy(threads: Threads) -> None:
    read: list[dict[str, Any]] = []
    write = gives("write", *[ag.SetValues(**GIVEN)] * 9)
    before, after = ag.function_agent("before", look(read)), ag.function_agent("after", look(read))
    tree = ag.sequential("s", [write, before, asks("h"), after])
    paused = threads.call(tree, "invoke", "Go.", thread_id="t")
    check(paused.values, GIVEN)
    check(threads.call(tree, "thread", "t").values, GIVEN)
    threads.call(tree, "copy", "t", "u")
    for thread in ("t", "u"):
        done = threads.call(tree, "invoke", thread_id=thread, answers="yes")
        check(done.values, GIVEN)
    threads.call(tree, "rewind", "t", "s/after")
    check(threads.call(tree, "thread", "t").values, GIVEN)
    again = threads.call(tree, "invoke", "Again.", thread_id="t")
    check(again.values, MERGED)
    (live,) = (each.action.values for each in paused.events if each.action and each.action.values)
    told = threads.call(tree, "events", "t")
    replayed = [each.action.values for each in told if each.action and each.action.values]
    for values in (live, *replayed):
        check(values, GIVEN)
    assert len(read) >= 5
    for values in read:
        check(values, MERGED if values["path"] == MERGED["path"] else GIVEN)


def inside(kind: str, agents: list[ag.Agent]) -> ag.Agent:
    """Return a tree that runs agents one after the other in a lane of some kind."""
    line = ag.sequential("line", agents)
    match kind:
        case "parallel":
            return ag.parallel("p", [line, gives("other", "x", "x", "x")])
        case "workflow":
            return ag.workflow("w", [ag.step(line)])
        case "each":
            return ag.each("e", line, lambda ctx: [1])
        case "tool":
            model = scripted(calls(call("line", request="Go.")), "Done.")
            return ag.chat_agent("boss", model, tools=[ag.agent_tool(line)])
        case "ctx.run":
            return ag.function_agent("f", lambda ctx: ctx.run("line", "Go.") and None, agents=[line])
    return line


@pytest.mark.parametrize("kind", ["parallel", "workflow", "each", "tool", "ctx.run", "loop"])
def test_declared_types_hold_in_a_lane_and_when_it_has_ended(threads: Threads, kind: str) -> None:
    read: list[dict[str, Any]] = []
    looks = [ag.function_agent(name, look(read)) for name in ("before", "after")]
    agents = [gives("write", ag.SetValues(**GIVEN)), looks[0], asks("h"), looks[1]]
    last = ag.function_agent("last", look(read))
    tree = ag.sequential("s", [inside(kind, agents), asks("i"), last])
    threads.call(tree, "invoke", "Go.", thread_id="t")
    threads.call(tree, "invoke", thread_id="t", answers="yes")
    done = threads.call(tree, "invoke", thread_id="t", answers="yes")
    assert done.status == "done"
    check(done.values, GIVEN)
    assert len(read) == 3
    for values in read:
        check(values, GIVEN)


def test_a_tool_sees_declared_types_in_its_state(threads: Threads) -> None:
    read: list[Any] = []

    def see(runtime: ToolRuntime) -> str:
        """See the state."""
        read.append({name: runtime.state[name] for name in GIVEN})
        return "Seen."

    script = [calls(call("see", "1")), calls(call("see", "2")), "Done."]
    clerk = ag.chat_agent("clerk", scripted(*script), tools=[see], approve=["see"])
    tree = ag.sequential("s", [gives("write", ag.SetValues(**GIVEN)), clerk])
    threads.call(tree, "invoke", "Go.", thread_id="t")
    for _ in range(2):
        threads.call(tree, "invoke", thread_id="t", answers={"decisions": [{"type": "approve"}]})
    assert len(read) == 2
    for values in read:
        check(values, GIVEN)


def test_reducers_get_and_give_the_declared_types(threads: Threads) -> None:
    taken: list[tuple[Any, Any]] = []

    def longest(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
        taken.append((type(old), type(new)))
        return max(old, new, key=len)

    class Own(TypedDict):
        path: Annotated[tuple[str, ...], longest]

    branches = [gives(n, ag.SetValues(path=(n,) * i), "ok") for i, n in enumerate("abc", 1)]
    tree = ag.sequential("s", [ag.parallel("p", [*branches, asks("h")]), asks("i")])
    runner = ag.Runner(tree, values=Own)
    runner.invoke("Go.", thread_id="t")
    for _ in range(2):
        runner.invoke(thread_id="t", answers="yes")
    assert runner.thread("t").values == {"path": ("c", "c", "c")}
    assert set(taken) == {(tuple, tuple)}


class Excluding(BaseModel):
    number: int
    note: str = Field(default="none", exclude=True)


class Private(BaseModel):
    number: int
    _seen: int = PrivateAttr(default=0)


class Counted(BaseModel):
    number: int

    def model_post_init(self, context: Any) -> None:
        self.number += 1


@dataclass
class Later:
    name: str
    done: bool = field(init=False, default=False)


def private() -> Private:
    made = Private(number=1)
    made._seen = 7
    return made


LOSING: dict[str, Callable[[], Any]] = {
    "an excluded field": lambda: Excluding(number=1, note="fragile"),
    "a private field": private,
    "validation that is not idempotent": lambda: Counted(number=1),
    "init=False": lambda: Later("x"),
}


class Held(TypedDict, total=False):
    it: Excluding | Private | Counted | Later | list[Any]


@pytest.mark.parametrize("make", LOSING.values(), ids=LOSING)
@pytest.mark.parametrize("is_declared", [True, False])
def test_what_does_not_come_back_equal_is_refused_where_it_is_written(
    is_async: bool, tmp_path: Path, make: Any, is_declared: bool
) -> None:
    kinds = [Excluding, Private, Counted, Later]
    options: Any = {"values": Held} if is_declared else {"allow": kinds}
    for saver in (None, tmp_path / "x.db"):
        refused = pytest.raises(ag.InvalidOutputError, match=r"^w: the value 'it' cannot be saved \(")
        tree = gives("w", ag.SetValues(it=make()))
        with ag.Runner(tree, checkpointer=saver, **options) as runner, refused:
            if is_async:
                asyncio.run(runner.ainvoke("Go."))
            else:
                runner.invoke("Go.")


UNDECLARED: dict[str, tuple[Any, Any]] = {
    "a tuple": ((1, (2,)), [1, [2]]),
    "a Counter": (Counter("a"), {"a": 1}),
    "keys": ({Side.LEFT: 1}, {"left": 1}),
    "a set": ({1}, {1}),
    "an exception": ([ValueError("x")], ["ValueError('x')"]),
}


@pytest.mark.parametrize(("given", "plain"), UNDECLARED.values(), ids=UNDECLARED)
def test_undeclared_containers_are_plain_at_once(threads: Threads, given: Any, plain: Any) -> None:
    read: list[Any] = []
    looks = [ag.function_agent(n, lambda ctx: read.append(dict(ctx.values))) for n in "ab"]
    tree = ag.sequential("s", [gives("w", ag.SetValues(it=given)), looks[0], asks("h"), looks[1]])
    paused = threads.call(tree, "invoke", "Go.", thread_id="t", values={"put": given})
    done = threads.call(tree, "invoke", thread_id="t", answers="yes")
    for values in (*read, paused.values, done.values):
        check(values, {"it": plain, "put": plain})
    told = [*paused.events, *threads.call(tree, "events", "t")]
    for values in (each.action.values for each in told if each.action and each.action.values):
        check(values, {"it": plain})


def test_a_graph_without_a_saver_changes_and_refuses_nothing() -> None:
    graph = ag.compile_agent(gives("w", ag.SetValues(it=(1, {Later("x").name: {(1,)}}))))
    assert graph.invoke({"messages": ["Go."]})["values"] == {"it": (1, {"x": {(1,)}})}


def test_an_item_of_an_each_keeps_its_containers(threads: Threads) -> None:
    items = [("tea", 1), Counter("aab"), {"at": (1, 2)}, frozenset([(1, 2)]), deque([(1,)])]
    read: list[Any] = []

    def work(ctx: Any) -> Any:
        read.append((ctx.item.number, ctx.item.value))
        return "Done." if ctx.answered else ag.Ask("Well?")

    tree = ag.each("e", ag.function_agent("work", work), lambda ctx: items, output_key="out")
    paused = threads.call(tree, "invoke", "Go.", thread_id="t")
    answers = {each.address: "yes" for each in paused.pending}
    done = threads.call(tree, "invoke", thread_id="t", answers=answers)
    assert done.values["out"] == ["Done."] * 5
    assert len(read) == 10
    for number, value in read:
        assert same(value, items[number])
