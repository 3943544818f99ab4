"""Properties of every timeline, and timelines as text."""

from collections.abc import Iterable, Sequence

import agentgraph as ag

SLACK = 1e-6
"""Times are whole microseconds."""


def check_sound(timeline: ag.Timeline, events: Iterable[ag.AgentEvent] = ()) -> None:
    """Check that bars are in order and within what encloses them, and that each event has one."""
    bars = {bar.id: bar for bar in timeline.bars}
    assert len(bars) == len(timeline.bars), "an id is there twice"
    assert [bar.began for bar in timeline.bars] == sorted(bar.began for bar in timeline.bars)
    waiting = {bar.inside for bar in timeline.bars if bar.ended is None}
    for bar in timeline.bars:
        assert bar.ended is None or bar.began <= bar.ended, bar
        is_open = bar.state in ("running", "asks", "stopped") or bar.id in waiting
        assert (bar.ended is None) == is_open, bar
        if bar.inside is not None:
            check_within(bar, bars[bar.inside])
    agents = {(bar.turn, bar.address) for bar in timeline.bars if bar.kind == "agent"}
    for event in events:
        if event.kind != "discarded" and not event.partial:
            assert (event.turn, event.address) in agents, event
    for event in events:
        if event.kind == "interrupted":
            assert any(bar.kind == "question" and bar.address == event.address for bar in bars.values())


def check_within(bar: ag.Bar, outer: ag.Bar) -> None:
    assert outer.turn == bar.turn
    assert outer.began <= bar.began + SLACK, (bar, outer)
    if outer.ended is not None:
        assert bar.ended is not None, (bar, outer)
        assert bar.ended <= outer.ended + SLACK, (bar, outer)


def check_same(one: ag.Timeline, other: ag.Timeline) -> None:
    """Check that two timelines have the same bars."""
    mine, theirs = ({bar.id: bar for bar in each.bars} for each in (one, other))
    assert mine.keys() == theirs.keys()
    for bar_id, bar in mine.items():
        assert bar == theirs[bar_id]


def lines(bars: Sequence[ag.Bar]) -> list[str]:
    """Return bars as lines: `report/writer model done`; agents without their kind."""
    return [
        " ".join(filter(None, (bar.address, "" if bar.kind == "agent" else bar.kind, _said(bar))))
        for bar in bars
    ]


def _said(bar: ag.Bar) -> str:
    label = f" {bar.label}" if bar.kind in ("tool", "hook") else ""
    return f"{label} {bar.state}".strip()
