"""Bars of what ran on a thread: what they are, their order, and how a later reading joins them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from agentgraph.journal.states import BarState

LONGEST = 200
"""How many characters of a text a bar has."""

BarKind = Literal["agent", "model", "tool", "hook", "question"]


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that took time on a thread.

    Attributes:
        id: Names it on the thread; the same in later reads.
        turn: The turn of the thread, from 0.
        address: The address of the activation. A loop has a bar at its address, and each of its
            iterations one at "report/refine[1]".
        agent_name: The agent.
        kind: "agent" is an activation: of a leaf, or of what encloses others. Inside that of a chat
            agent are those of its "model", of each "tool" call and of the "hook"s of its middleware; a
            "question" is the time for which a person is waited for.
        label: The name of the agent, the tool, the model or the hook; or how the question begins,
            "approve pay?" for one about calls of tools.
        node: The node that ran; empty if it has none.
        step: The name of its first step, as in `Visit`: `Runner.rewind` takes it.
        iteration: The iteration of the nearest loop; None outside all loops.
        began: When it began, in seconds since 1970.
        ended: When it ended; None if it has not, or something inside has not, as a question that waits
            beside a failure. Of a process that died it is not known.
        state: "done", "running", "asks" (a person), "failed"; "stopped": it has not ended, and nothing
            runs it; "void": it was thrown away, as an attempt that another one followed.
        tokens_in: The tokens that its own model calls read, without those of the bars inside it.
        tokens_out: The tokens that they wrote.
        text: The first 200 characters of what it said last; or of its error, or its question.
        inside: The id of the bar that encloses it; None at the outermost.
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


class BarPart(NamedTuple):
    """A step of an activation, as it is known, or what is inside it.

    Attributes:
        began: When it began.
        ended: When it ended; None if it has not.
        state: Its state.
        text: What was said or asked last in it, or the error.
    """

    began: float
    ended: float | None
    state: BarState
    text: str = ""


def depths(bars: Mapping[str, Bar]) -> dict[str, int]:
    """Return how many bars are around each, by their ids."""
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
    """Return bars in order of beginning; what encloses others before these."""
    by_id = {each.id: each for each in bars}
    depth = depths(by_id)
    return sorted(by_id.values(), key=lambda each: (each.began, depth[each.id]))


def joined(before: Iterable[Bar], after: Iterable[Bar]) -> list[Bar]:
    """Return bars with those of a later reading, which take the place of those with their ids.

    Those that enclose others may have begun before what was read.
    """
    known = {each.id: each for each in before}
    outer = {each.inside for each in known.values()}
    again = {each.id: _from_before(each, known) if each.id in outer else each for each in after}
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


def _from_before(bar: Bar, known: Mapping[str, Bar]) -> Bar:
    """Return a bar that encloses others with where it was known to begin.

    An activation may have begun in a step that was not read again; a call has one step, which was.
    """
    before = known.get(bar.id, bar)
    if bar.kind != "agent":
        return bar
    return replace(bar, began=min(before.began, bar.began), step=before.step)


def last_text(parts: Iterable[BarPart]) -> str:
    """Return the text of what ended last; empty if nothing has one."""
    texts = [each for each in parts if each.text]
    return max(texts, key=lambda each: each.ended or each.began).text if texts else ""
