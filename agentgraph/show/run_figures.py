"""The figures of each node of a drawing from a thread's visits: number of runs, time, tokens."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from agentgraph.journal.steps import Visit
from agentgraph.show.sketch import Sketch, SketchNode
from agentgraph.show.styles import ENDS

_UNITS = (("h", 3600, 7200), ("min", 60, 120), ("s", 1, 0.1))
"""Units with their seconds, and the minimum seconds of a time shown in them."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The totals of the visits of a node.

    Attributes:
        times: The number of runs.
        seconds: The total time; a visit that has not ended does not count.
        tokens: The total tokens that its models reported.
        is_open: Whether a visit has not ended: it runs, waits or has failed.
    """

    times: int = 0
    seconds: float = 0.0
    tokens: int = 0
    is_open: bool = False

    def __str__(self) -> str:
        """Return the figures as a label.

        >>> str(Figures(3, 1.26, 1400)), str(Figures(1, 0.004)), str(Figures(1, is_open=True))
        ('3x, 1.3 s, 1,400 tokens', '1x, 4 ms', '1x, not ended')
        """
        took = _time(self.seconds) if self.seconds or not self.is_open else ""
        open_ = "not ended" if self.is_open else ""
        tokens = f"{self.tokens:,} tokens" if self.tokens else ""
        return ", ".join(filter(None, (f"{self.times}x", took, open_, tokens)))

    def __add__(self, visit: Visit) -> "Figures":
        seconds = self.seconds + (visit.duration or 0.0)
        is_open = self.is_open or visit.duration is None
        return Figures(self.times + 1, seconds, self.tokens + visit.tokens, is_open)


def _time(seconds: float) -> str:
    """Return a time for a label.

    >>> [_time(each) for each in (0.004, 1.26, 1000, 10000)]
    ['4 ms', '1.3 s', '16.7 min', '2.8 h']
    """
    for unit, length, least in _UNITS:
        if seconds >= least:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(1000 * seconds, 0):.0f} ms"


def figures_of(visits: Iterable[Visit]) -> dict[str, Figures]:
    """Return the figures of each node that ran, by its name.

    Args:
        visits: The visits of a thread.
    """
    figures: dict[str, Figures] = {}
    for visit in visits:
        figures[visit.node] = figures.get(visit.node, Figures()) + visit
    return figures


def idle_parts(sketch: Sketch, ran: Collection[str]) -> frozenset[str]:
    """Return the keys of the nodes and boxes in a drawing that never ran.

    A part without its own visits, such as the inside of a graph, follows the part around it; a box
    around one lane follows its inside.

    Args:
        sketch: The drawing.
        ran: The names of the nodes that ran.
    """

    def idle(part: SketchNode, around: bool) -> Iterator[str]:
        if part.drawn.kind == ENDS:
            return
        is_idle = part.drawn.node not in ran if part.drawn.node else around
        inside = {key for each in part.inside for key in idle(each, is_idle)}
        yield from inside
        is_lane = part.inside and not part.drawn.node
        if inside.issuperset(each.key for each in part.inside) if is_lane else is_idle:
            yield part.key

    return frozenset(key for part in sketch.parts for key in idle(part, False))
