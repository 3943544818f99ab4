"""What a reader has heard who drops what is void: told live and told again must be the same."""

import json
from collections.abc import Iterable, Sequence

from driving import standing

import agentgraph as ag


def read(lines: Iterable[str]) -> list[ag.AgentEvent]:
    """Return the events that lines of JSON tell, chunks aside."""
    events = [ag.AgentEvent.from_dict(json.loads(line)) for line in lines]
    return [event for event in events if not event.partial]


def check_heard(heard: Sequence[ag.AgentEvent], again: Sequence[ag.AgentEvent]) -> None:
    """Check that what stands of all that was heard is what is told again, and was never there twice.

    Args:
        heard: All that was read of all runs of a thread, in order.
        again: What `events()` tells afterwards.
    """
    assert standing(heard) == again
    times = [event.time for event in again]
    assert times == sorted(set(times))
    for number, event in enumerate(heard):
        assert event.id not in {each.id for each in standing(heard[:number])}


def went_on(heard: Sequence[ag.AgentEvent], rest: Sequence[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return what a run told that is new, which goes on behind one that was killed.

    First it makes void what the step in flight had told, and tells the same again, which was kept.
    """
    left = standing([*heard, rest[0]])
    void = [event for event in standing(heard) if event not in left]
    assert rest[0].kind == "discarded"
    assert list(rest[1 : 1 + len(void)]) == void
    return list(rest[1 + len(void) :])
