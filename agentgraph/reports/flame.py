"""A flame view: where a turn spent time, tokens and money, by the agents of its tree.

All activations of an agent at one place are one frame: its iterations, items, calls and attempts. A
frame contains those of the agents inside. It is made of the bars of the timeline, and of counted costs.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from time import time
from typing import Any, Literal, get_args

from agentgraph.agents.costs import EXACT
from agentgraph.errors import AgentGraphError, ThreadError
from agentgraph.graph.nodes.spending import Counts
from agentgraph.graph.values import Reducers
from agentgraph.journal.spent import costs_at, shown_cost
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.bars import Bar, Span, free_in, length_of
from agentgraph.reports.thread import thread
from agentgraph.reports.timeline import timeline
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import parse_address, without_counters
from agentgraph.tree.places import Tree

Measure = Literal["seconds", "tokens", "cost", "waiting"]
"""A measure of a flame: time of work, tokens, money, or time of waiting for people."""
_MEASURES: tuple[Measure, ...] = get_args(Measure)
_BAR, _LABEL, _AMOUNT = 26, 28, 11
"""Widths in characters of the columns of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The spending of an agent at one place of the tree, in one turn.

    Attributes:
        path: Its address without counters, such as "report/refine/writer".
        agent_name: The agent.
        depth: The number of frames that contain it.
        times: The number of its activations, discarded attempts included.
        seconds: The time that it and the agents inside worked; concurrent work adds up, and waits for
            people and pauses before a resume do not count.
        tokens: The tokens of their models.
        cost: The price of their replies; None if it is not known: without `Runner(prices=)`, or if a
            reply reported no tokens or had no price.
        waiting: The seconds that their questions waited for people, until now if they are open.
        own_seconds: The time of the agent itself, without the agents inside.
        own_tokens: Its tokens.
        own_cost: The price of its replies; None if it is not known.
        own_waiting: The seconds that its questions waited.
    """

    path: str
    agent_name: str
    depth: int = 0
    times: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost: Decimal | None = None
    waiting: float = 0.0
    own_seconds: float = 0.0
    own_tokens: int = 0
    own_cost: Decimal | None = None
    own_waiting: float = 0.0


@dataclass(frozen=True, slots=True)
class Flame:
    """The spending of one turn by the agents of its tree.

    Its text is a chart by seconds; Jupyter shows it too.

    Attributes:
        turn: The number of the turn, from 0.
        frames: The frames, each before those inside, in the order of their start.
    """

    turn: int
    frames: list[Frame]

    def text(self, by: Measure = "seconds", *, other: "Flame | None" = None) -> str:
        """Return a chart: a row for each frame, with its total, and what it spent itself.

        >>> frames = [Frame(path="a", agent_name="a", tokens=30, own_tokens=0),
        ...           Frame(path="a/b", agent_name="b", depth=1, tokens=30, own_tokens=30)]
        >>> [line.split()[-2:] for line in Flame(0, frames).text("tokens").splitlines()]
        [['total', 'own'], ['30', '0'], ['30', '30']]

        Args:
            by: The measure.
            other: Another flame, whose totals are shown in the place of the own amounts, with the
                frames that only it has.

        Raises:
            AgentGraphError: The measure is not known.
        """
        if by not in _MEASURES:
            raise AgentGraphError(f"by={shown(by)} is not a measure; choose one of: {_names()}")
        others = None if other is None else {each.path: each for each in other.frames}
        column = "own" if others is None else "other"
        head = _line(f"turn {self.turn}, {by}", "", "total", column)
        paths = {each.path for each in self.frames}
        rest = [each for path, each in (others or {}).items() if path not in paths]
        missing = (_line(_label(each), "", "", _amount(by, getattr(each, by))) for each in rest)
        return "\n".join([head, *_rows(self.frames, by, others), *missing])

    def __str__(self) -> str:
        """Return the chart by seconds."""
        return self.text()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


async def flame(saver: ThreadSaver, reducers: Reducers, *, turn: int | None = None) -> Flame:
    """Return the flame of a turn, as `Runner.flame` does."""
    read = await timeline(saver)
    whole = await thread(saver, reducers)
    numbers = [each.number for each in whole.turns]
    if not numbers:
        return Flame(0, [])
    if turn is not None and turn not in numbers:
        raise ThreadError(
            f"thread {saver.thread_id!r} has no turn {shown(turn)}; choose one from {numbers[0]} to "
            f"{numbers[-1]}",
            saver.thread_id,
        )
    wanted = next(each for each in reversed(whole.turns) if turn in (None, each.number))
    bars = [each for each in read.bars if each.turn == wanted.number]
    began = min((each.began for each in bars), default=0.0)
    pauses = [each for each in read.pauses if each.ended > began]
    return Flame(wanted.number, frames_of(bars, pauses, saver.tree, wanted.counts))


def frames_of(bars: Sequence[Bar], pauses: Sequence[Span], tree: Tree, counts: Counts) -> list[Frame]:
    """Return the frames of the bars of a turn, with the costs of its counted spending."""
    by_id = {each.id: each for each in bars}
    inside: dict[str, list[Bar]] = defaultdict(list)
    for each in bars:
        if (outer := _agent_around(each, by_id)) is not None:
            inside[outer.id].append(each)
    end, now = max((each.ended or each.began for each in bars), default=0.0), time()

    def span(bar: Bar) -> Span:
        until = now if bar.state in ("running", "asks") else end
        return Span(bar.began, max(bar.began, until if bar.ended is None else bar.ended))

    frames: dict[str, Frame] = {}
    for bar in bars:
        if bar.kind != "agent":
            continue
        path = without_counters(bar.address)
        before = frames.get(path) or Frame(path=path, agent_name=bar.agent_name, depth=path.count("/"))
        own = inside[bar.id]
        parts = [each for each in own if each.kind != "agent"]
        waits = [span(each) for each in own if each.kind == "question"]
        activation = parse_address(tree, bar.address)
        is_lap = activation is None
        works = activation is not None and activation[0].kind.is_leaf
        busy = [*waits, *pauses, *(span(each) for each in own if each.kind == "agent")]
        frames[path] = replace(
            before,
            times=before.times + (not is_lap),
            own_seconds=before.own_seconds + (free_in(span(bar), busy) if works else 0.0),
            own_tokens=before.own_tokens + sum(e.tokens_in + e.tokens_out for e in (bar, *parts)),
            own_waiting=before.own_waiting + length_of(waits),
        )
    costs = costs_at(counts, {path: each.agent_name for path, each in frames.items()})
    return [*_totals({path: replace(each, own_cost=costs[path]) for path, each in frames.items()})]


def _agent_around(bar: Bar, by_id: Mapping[str, Bar]) -> Bar | None:
    at = by_id.get(bar.inside or "")
    while at is not None and at.kind != "agent":
        at = by_id.get(at.inside or "")
    return at


def _totals(frames: Mapping[str, Frame]) -> Iterator[Frame]:
    children: dict[str, list[Frame]] = defaultdict(list)
    for path, frame in frames.items():
        children[path.rpartition("/")[0]].append(frame)

    def whole(frame: Frame, depth: int) -> list[Frame]:
        inside = [whole(each, depth + 1) for each in children[frame.path]]
        parts = [each[0] for each in inside]
        costs = [frame.own_cost, *(each.cost for each in parts)]
        total = replace(
            frame,
            depth=depth,
            seconds=frame.own_seconds + sum(each.seconds for each in parts),
            tokens=frame.own_tokens + sum(each.tokens for each in parts),
            waiting=frame.own_waiting + sum(each.waiting for each in parts),
            cost=None if None in costs else reduce(EXACT.add, costs),  # type: ignore[arg-type]
        )
        return [total, *(each for several in inside for each in several)]

    roots = [frame for path, frame in frames.items() if path.rpartition("/")[0] not in frames]
    for root in roots:
        yield from whole(root, 0)


def _rows(frames: Sequence[Frame], by: Measure, others: Mapping[str, Frame] | None) -> Iterator[str]:
    whole = max((float(getattr(each, by) or 0) for each in frames), default=0.0) or 1.0
    begins: dict[str, float] = {}
    for frame in frames:
        total, own = getattr(frame, by), getattr(frame, f"own_{by}")
        around, length = frame.path.rpartition("/")[0], float(total or 0)
        begin = begins.setdefault(around, 0.0)
        begins[around], begins[frame.path] = begin + length, begin
        left, all_, filled = (round(each / whole * _BAR) for each in (begin, length, float(own or 0)))
        bar = " " * left + "─" * (all_ - filled) + "█" * filled
        column = own if others is None else getattr(others.get(frame.path), by, None)
        yield _line(_label(frame), bar, _amount(by, total), _amount(by, column))


def _label(frame: Frame) -> str:
    times = f" ×{frame.times}" if frame.times > 1 else ""
    label = "  " * frame.depth + frame.path.rpartition("/")[2] + times
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"


def _line(label: str, bar: str, *columns: str) -> str:
    amounts = " ".join(each.rjust(_AMOUNT) for each in columns)
    return f"{label:<{_LABEL}} {bar:<{_BAR}} {amounts}"


def _amount(by: Measure, amount: Any) -> str:
    if amount is None:
        return "-" if by != "cost" else shown_cost(None)
    if by == "tokens":
        return f"{amount:,}"
    return shown_cost(amount) if by == "cost" else f"{amount:.2f} s"


def _names() -> str:
    return ", ".join(map(repr, _MEASURES))
