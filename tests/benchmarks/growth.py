"""What grows with the length of a run: bytes on disk, the way back into it, memory of its events."""

import operator
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from loops import HELLO, HELLO_ROUNDS, TEXT, THREAD, flat, says, two
from measure import Contender, Figure, copied, side_by_side
from typing_extensions import TypedDict

import agentgraph as ag

_ROUNDS, _LARGE, _WRITES = 100, 400_000, 2


class Notes(TypedDict, total=False):
    """A list that grows, and a text."""

    notes: Annotated[list[str], operator.add]
    large: str


def figures() -> Iterator[Figure]:
    """Measure each on a long run and on a short one."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        long, short = _bytes_a_step(folder, 500), _bytes_a_step(folder, 100)
        yield _grown("bytes on disk a step, 500 iterations", long, short, "100 iterations", "B", 1.3)
        without, beside = _bytes_of(folder, says("a")), _bytes_of(folder, says("a"), large="x" * _LARGE)
        name, without = "bytes a step beside a value of 400 kB", without / _ROUNDS
        once = _WRITES * _LARGE / _ROUNDS
        yield _grown(name, beside / _ROUNDS - once, without, f"without, and {_WRITES} writes", "B", 1.1)
        long, short = (_bytes_of(folder, _adds(), rounds=n) / n for n in (500, 50))
        yield _grown("bytes a step, a list of 500 that grows", long, short, "a list of 50", "B", 1.3)
        ours, hand = _first_after_resume(folder)
        name = "first event after resume, 500 to 10 rounds"
        yield _grown(name, ours, hand, "the loop by hand", "times", 1.1)
        back = _growth(partial(_paused, folder, at="s/l[{}]/b"))
        name = "first event after a rewind, 500 to 10 rounds"
        yield _grown(name, back, ours, "after a resume", "times", 1.5)
        yield from _chat_turns(folder)
        long, short = _bytes_an_event(10_000), _bytes_an_event(1_000)
        yield _grown("memory an event, 10,000 steps", long, short, "1,000 steps", "B", 1.1)


def _bytes_of(folder: Path, agent: ag.Agent, *, rounds: int = _ROUNDS, **values: Any) -> float:
    """Return the size of a file after so many rounds of an agent, begun with values."""
    path = folder / f"{len(list(folder.iterdir()))}.db"
    tree = ag.loop("l", [agent], max_iterations=rounds)
    with ag.sqlite_saver(path) as saver:
        for _ in ag.Runner(tree, checkpointer=saver, values=Notes).run("hi", values=values):
            pass
    return path.stat().st_size


def _adds() -> ag.Agent:
    return ag.function_agent("a", lambda ctx: ag.SetValues(notes=["x" * 50]))


def _grown(name: str, long: float, short: float, against: str, unit: str, aim: float) -> Figure:
    return Figure(name=name, ours=long, theirs=short, against=against, unit=unit, aim=aim)


def _bytes_a_step(folder: Path, iterations: int) -> float:
    path = folder / f"{iterations}.db"
    with ag.sqlite_saver(path) as saver:
        for _ in ag.Runner(two(iterations), checkpointer=saver).run("hi"):
            pass
    return path.stat().st_size / (2 * iterations)


def _first_after_resume(folder: Path) -> list[float]:
    """Return how many times as long it takes after 500 rounds as after 10; and by hand."""
    return [_growth(partial(made, folder)) for made in (_paused, _by_hand_again)]


def _growth(made: Callable[[int], Contender]) -> float:
    long, short = side_by_side(made(500), made(10), repeats=9)
    return long / short


def _paused(folder: Path, rounds: int, at: str | None = None) -> Contender:
    """Pause a run at a person after its loop; each call goes on with a copy of its file, or back."""
    tree = ag.sequential("s", [two(rounds), ag.human("boss", "Print it?")])
    what = "back" if at else "paused"
    kept, copy = folder / f"{what}-{rounds}.db", folder / f"{what}-again-{rounds}.db"
    with ag.sqlite_saver(kept) as saver:
        for _ in ag.Runner(tree, checkpointer=saver).run("hi", thread_id="t"):
            pass

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        copied(kept, copy)
        with ag.sqlite_saver(copy) as saver:
            runner = ag.Runner(tree, checkpointer=saver)
            back = at and at.format(rounds - 3)
            yield lambda: _first(runner.rewind("t", back) if back else runner.resume("t", "yes"))

    return contender


def _by_hand_again(folder: Path, rounds: int) -> Contender:
    """Run the loop by hand; each call begins it again, on a copy of its file."""
    kept, copy = folder / f"looped-{rounds}.db", folder / f"again-{rounds}.db"
    with ag.sqlite_saver(kept) as saver:
        flat(rounds, saver).invoke(HELLO_ROUNDS, {**THREAD, "recursion_limit": 2 * rounds + 1})

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        copied(kept, copy)
        with ag.sqlite_saver(copy) as saver:
            graph = flat(rounds, saver)
            yield lambda: _first(graph.stream(HELLO_ROUNDS, THREAD, stream_mode="updates"))

    return contender


def _chat_turns(folder: Path) -> Iterator[Figure]:
    """Time a turn of a chat of two messages a turn, the 500th against the 50th, and by hand."""
    made = [[_chat(folder, turns, graph) for turns in (500, 50)] for graph in (_ours, _by_hand)]
    ours, hand = (side_by_side(*contenders, repeats=9) for contenders in made)
    against = "MessagesState by hand"
    name, grown = "chat turn 500 to turn 50", [times[0] / times[1] for times in (ours, hand)]
    yield Figure(name=name, ours=grown[0], theirs=grown[1], against=against, unit="times", aim=0.5)
    name = "chat turn 500"
    yield Figure(name=name, ours=ours[0], theirs=hand[0], against=against, unit="ms", aim=1.2)


def _chat(folder: Path, turns: int, compiled: Callable[[Any], Any]) -> Contender:
    """Make a thread; each call takes one turn more on a copy of its file."""
    kept = folder / f"{compiled.__name__}-{turns}.db"
    with ag.sqlite_saver(kept) as saver:
        graph = compiled(saver)
        for _ in range(turns):
            graph.invoke(HELLO, THREAD)
    copy = kept.with_suffix(".copy.db")

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        copied(kept, copy)
        with ag.sqlite_saver(copy) as saver:
            graph = compiled(saver)
            yield lambda: graph.invoke(HELLO, THREAD)

    return contender


def _ours(saver: Any) -> Any:
    return ag.compile_agent(says("a"), checkpointer=saver)


def _by_hand(saver: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("a", lambda state: {"messages": [AIMessage(TEXT)]})
    return builder.add_edge(START, "a").compile(checkpointer=saver)


def _first(events: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    """Return the first event, with the run it is of, so that leaving the run is not timed."""
    return next(events), events


def _bytes_an_event(steps: int) -> float:
    """Hold all events of a run, with their messages and paths.

    They are made from a copy of the run's stream, made while memory is traced: traced, a run
    itself would take minutes.
    """
    tree = two(steps // 2)
    stream = ag.compile_agent(tree).stream(HELLO, stream_mode="updates", version="v2")
    parts = pickle.dumps(list(stream))
    tracemalloc.start()
    events = list(ag.translate(tree, pickle.loads(parts)))
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(events)
