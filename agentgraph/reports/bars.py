"""The bars of a timeline, their order, and the join of an earlier and a later read."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, NamedTuple

from agentgraph.journal.states import BarState

LONGEST = 200
"""Maximum number of characters of a bar's text."""

BarKind = Literal["agent", "model", "tool", "hook", "question"]


@dataclass(frozen=True, slots=True)
class Bar:
    """An activation, a call or a question on a timeline.

    Attributes:
        id: The id of the bar on the thread, the same in later reads.
        turn: The turn of the thread, from 0.
        address: The address of the activation. A loop has a bar at its address, and one for each
            iteration, such as "report/refine[1]".
        agent_name: The agent.
        kind: "agent" is an activation of a leaf or of an enclosing agent. The bar of a chat agent
            contains bars of its "model", of each "tool" call and of each "hook" of its middleware. A
            "question" is the time from a question to its answer.
        label: The name of the agent, tool, model or hook; or the start of the question, such as
            "approve pay?" for tool calls.
        node: The node that ran; empty for agents without a node.
        step: The name of its first step, as in `Visit`, for `Runner.rewind`.
        iteration: The iteration of the nearest loop; None outside all loops.
        began: Start time, in seconds since 1970.
        ended: End time, in seconds since 1970; None if the bar or a bar inside has not ended, for
            example a question next to a failure. The end time in a killed process is unknown.
        state: "done", "running", "asks" (a question is open), "failed", "stopped" (not ended, and no
            run is active), or `"void"` (discarded, for example an attempt before a retry).
        tokens_in: Input tokens of its model calls, without the bars inside.
        tokens_out: Output tokens of the same calls.
        text: The first 200 characters of its last text, of its error, or of its question.
        inside: The id of the enclosing bar; None for the outermost bar.
    """

    id: str
    turn: int
    address: str
    agent_name: str
    kind: BarKind
    label: str
    node: str
    step: str
    iteration: int | None
    began: float
    ended: float | None
    state: BarState
    tokens_in: int = 0
    tokens_out: int = 0
    text: str = ""
    inside: str | None = None


class Span(NamedTuple):
    """A stretch of time, in seconds since 1970.

    Attributes:
        began: Its start.
        ended: Its end.
    """

    began: float
    ended: float


class BarPart(NamedTuple):
    """A step of an activation, or a bar inside the activation.

    Attributes:
        began: Start time.
        ended: End time; None if it has not ended.
        state: Its state.
        text: Its last text or question, or its error.
    """

    began: float
    ended: float | None
    state: BarState
    text: str = ""


def length_of(spans: Iterable[Span]) -> float:
    """Return the length of spans; where they overlap it counts once."""
    length, until = 0.0, float("-inf")
    for began, ended in sorted(spans):
        length += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return length


def free_in(span: Span, busy: Iterable[Span]) -> float:
    """Return the length of a span without the parts of it that are in other spans."""
    began, ended = span
    clipped = (Span(max(began, one), min(ended, other)) for one, other in busy)
    return ended - began - length_of(each for each in clipped if each.ended > each.began)


def depths(bars: Mapping[str, Bar]) -> dict[str, int]:
    """Return the number of enclosing bars of each bar, by id."""
    known: dict[str, int] = {}
    for bar_id, bar in bars.items():
        chain = [bar_id]
        while bar.inside is not None and bar.inside in bars and bar.inside not in known:
            bar = bars[bar.inside]
            chain.append(bar.id)
        first = known[bar.inside] + 1 if bar.inside in known else 0
        known |= {each: first + number for number, each in enumerate(reversed(chain))}
    return known


def in_order(bars: Iterable[Bar]) -> list[Bar]:
    """Sort bars by start; an enclosing bar comes before the bars inside."""
    by_id = {each.id: each for each in bars}
    depth = depths(by_id)
    return sorted(by_id.values(), key=lambda each: (each.began, depth[each.id]))


def gone(before: Iterable[tuple[str, str]], after: Container[str], read_since: str) -> set[str]:
    """Return the ids of bars that a later read covers but no longer has.

    An attempt that was shown is gone if its agent asks after all: then it is part of its bar.

    Args:
        before: The ids of the bars before, each with the name of its step.
        after: The ids of the bars of the later read.
        read_since: The id of the root's checkpoint at which the later read begins.
    """
    return {bar_id for bar_id, step in before if step >= read_since and bar_id not in after}


def joined(before: Iterable[Bar], after: Iterable[Bar], read_since: str) -> list[Bar]:
    """Join bars with those of a later read, which replace the bars with their ids.

    An enclosing bar may have started before the steps of the later read.

    Args:
        before: The bars.
        after: The bars of the later read.
        read_since: The id of the root's checkpoint at which the later read begins.
    """
    known, later = {each.id: each for each in before}, [*after]
    old = gone(
        ((each.id, each.step) for each in known.values()), {each.id for each in later}, read_since
    )
    known = {bar_id: each for bar_id, each in known.items() if bar_id not in old}
    outer = {each.inside for each in known.values()}
    since = min((each.began for each in later), default=inf)
    again = {each.id: _from_before(each, known, since) if each.id in outer else each for each in later}
    merged = known | again
    inside: dict[str | None, list[Bar]] = defaultdict(list)
    for bar_id in sorted(merged, key=depths(merged).__getitem__, reverse=True):
        bar = merged[bar_id]
        if bar_id in again and (within := inside.pop(bar_id, [])):
            parts = [BarPart(each.began, each.ended, each.state, each.text) for each in within]
            text = bar.text or (last_text(parts) if bar.kind == "agent" else "")
            began = min(bar.began, *(each.began for each in within))
            merged[bar_id] = bar = replace(bar, began=began, text=text)
        inside[bar.inside].append(bar)
    return in_order(merged.values())


def _from_before(bar: Bar, known: Mapping[str, Bar], since: float) -> Bar:
    """Return an enclosing bar with its known start if that is in a step that was not read again.

    A lane that asks again after a pause starts again, in a step that was read. A call has one step.
    """
    before = known.get(bar.id, bar)
    if bar.kind != "agent" or before.began >= since:
        return bar
    return replace(bar, began=before.began, step=before.step)


def last_text(parts: Iterable[BarPart]) -> str:
    """Return the text of the part that ended last, or began last if several did; "" without texts."""
    texts = [each for each in parts if each.text]
    return max(texts, key=lambda each: (each.ended or each.began, each.began)).text if texts else ""
