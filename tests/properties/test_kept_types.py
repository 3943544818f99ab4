"""Values of random declared types are equal and of the same type at every read, or refused."""

import operator
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Drive, same
from hypothesis import event, given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from test_spine import DRIVES, share
from typed_values import TYPES, Typed
from typing_extensions import TypedDict

import agentgraph as ag

NUMBERS = count()
SAVERS = ("ours in memory", "LangGraph's in memory", "SQLite", "PostgreSQL")


class Stopped(Exception):
    """Raised by a function in the place of a kill."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("types")


class World:
    """What agents read and do in one example."""

    def __init__(self, wanted: Mapping[str, Any], dies: bool) -> None:
        self.wanted, self.dies, self.reads = wanted, dies, 0

    def check(self, values: Mapping[str, Any]) -> None:
        self.reads += 1
        for name, value in self.wanted.items():
            assert same(values[name], value), (name, values[name], value)

    def read(self, ctx: Any) -> None:
        self.check(ctx.values)

    def die(self, ctx: Any) -> None:
        self.check(ctx.values)
        if self.dies:
            self.dies = False
            raise Stopped

    def write(self, ctx: Any) -> ag.SetValues:
        return ag.SetValues(**{name: value for name, value in self.wanted.items() if name != "more"})


def tree_of(world: World, in_lane: str) -> ag.Agent:
    """Return a tree that writes, perhaps in a lane, dies once, asks and reads."""
    inner: ag.Agent = ag.sequential(
        "inner",
        [
            ag.function_agent("write", world.write),
            ag.function_agent("sees", world.read),
            ag.function_agent("dies", world.die),
            ag.human("h", "Well?"),
            ag.function_agent("read", world.read),
        ],
    )
    if in_lane == "parallel":
        inner = ag.parallel("p", [inner, ag.function_agent("other", lambda ctx: "x")])
    elif in_lane == "each":
        inner = ag.each("e", inner, lambda ctx: [1])
    return ag.sequential("s", [inner, ag.function_agent("last", world.read)])


@share(0.15)
@given(
    types=st.lists(TYPES, min_size=1, max_size=3),
    data=st.data(),
    drive=DRIVES,
    saver=st.sampled_from(SAVERS),
    in_lane=st.sampled_from(["", "parallel", "each"]),
    dies=st.booleans(),
)
def test_values_of_declared_types_are_the_same_at_every_read(
    folder: Path,
    database: str,
    types: list[Typed],
    data: Any,
    drive: Drive,
    saver: str,
    in_lane: str,
    dies: bool,
) -> None:
    make: Any = TypedDict
    hints = {f"v{i}": each.hint for i, each in enumerate(types)}
    more = Annotated[tuple[types[0].hint, ...], operator.add]
    schema = make("State", {**hints, "more": more}, total=False)
    wanted = {f"v{i}": data.draw(each.values) for i, each in enumerate(types)}
    item = data.draw(types[0].values)
    world = World({**wanted, "more": (item,)}, dies)
    tree = tree_of(world, in_lane)
    thread = f"t{next(NUMBERS)}"
    place: Any = folder / "types.db" if saver == "SQLite" else database
    if saver in SAVERS[:2]:
        place = InMemorySaver() if saver == SAVERS[1] else ag.Runner(tree).saver

    def opened() -> ag.Runner:
        return ag.Runner(tree, checkpointer=place, values=schema)

    def called(method: str, *args: Any, **options: Any) -> None:
        with opened() as runner:
            list(getattr(drive, method)(runner, *args, **options))

    def check(thread_id: str) -> None:
        with opened() as runner:
            world.check(runner.thread(thread_id).values)
            for each in runner.events(thread_id):
                for name, value in ((each.action and each.action.values) or {}).items():
                    assert same(value, world.wanted[name]), (name, value)

    go = partial(called, "run", "Go.", thread_id=thread, values={"more": (item,)})
    if dies:
        with pytest.raises(Stopped):
            go()
        called("resume", thread)
    else:
        go()
    if not in_lane:
        check(thread)
    with opened() as runner:
        runner.copy(thread, f"{thread} copy")
    for each in (thread, f"{thread} copy"):
        called("resume", each, "yes")
        check(each)
    with opened() as runner:
        back = [each for each in runner.visits(thread) if each.agent_name == "sees"]
        assert list(runner.rewind(thread, back[-1].address))
    called("resume", thread, "yes")
    check(thread)
    event(f"{saver}, {in_lane or 'the root'}")
    assert world.reads > 8 + dies
