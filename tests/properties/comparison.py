"""What was heard of a thread, compared with what the reference says of it.

Branches and the tool calls of one message run at the same time, so only the order of their events
among each other is open: they are sorted into declared order, and nothing else is moved.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import acts
import specs
from conversations import Case, Heard, Turn
from lanes import Lane
from record import Record, rendered, steps
from reference import turn

import agentgraph as ag


def check(case: Case, record: Record, heard: Heard) -> Lane:
    """Compare what was told, live and again, what was seen, and what is left.

    Returns:
        The lane of the reference at the end.
    """
    lane = Lane()
    turns: list[tuple[int, int, Sequence[ag.AgentEvent]]] = []
    for heard_turn in heard.turns:
        lane.write(case.values)
        begin, expected = len(lane.events), expected_events(case.tree, lane, heard_turn.text)
        told = settled(whole(heard_turn.events), expected)
        assert [plain(event) for event in told] == expected
        turns.append((begin, len(lane.events), told))
        check_chunks(heard_turn.events, case.tree, streamed=case.stream)
        check_pending(heard_turn, expected)
    check_replayed(heard.replayed, lane, turns)
    told = [event for heard_turn in heard.turns for event in heard_turn.events]
    assert {event.thread_id for event in [*told, *heard.replayed]} <= {heard.thread_id}
    assert errors(heard.replayed) <= errors(told)
    check_sights(case.tree, record, lane)
    assert rendered(heard.state["messages"]) == [said.message for said in lane.history]
    assert heard.state["values"] == lane.values
    return lane


def check_replayed(
    replayed: Sequence[ag.AgentEvent],
    lane: Lane,
    turns: Sequence[tuple[int, int, Sequence[ag.AgentEvent]]],
) -> None:
    """Compare what is told again with what was told: a later turn may have replaced a message."""
    left = [event for event in replayed if event.kind != "error"]
    for begin, end, told in turns:
        expected = [event for event in lane.events[begin:end] if event.kind != "values"]
        kept = [event for event, wanted in zip(told, expected, strict=True) if wanted.kept]
        again, left = left[: len(kept)], left[len(kept) :]
        assert settled(again, [wanted for wanted in expected if wanted.kept]) == kept
    assert left == []


def check_translated(tree: specs.Spec, events: Sequence[ag.AgentEvent]) -> None:
    """Compare what was told by a bare graph that streams all that it can."""
    expected = expected_events(tree, Lane(), "hello")
    assert [plain(event) for event in settled(whole(events), expected)] == expected
    check_chunks(events, tree, streamed=True)


def check_chunks(events: Sequence[ag.AgentEvent], tree: specs.Spec, *, streamed: bool) -> None:
    """Compare the chunks of what models said with the whole messages."""
    chats = {spec.name for spec in specs.walk(tree) if isinstance(spec, specs.Chat) and streamed}
    chunks: dict[Any, str] = defaultdict(str)
    for event in events:
        if event.partial:
            chunks[event.id, event.address, event.run_path] += event.text
    told = [event for event in whole(events) if event.agent_name in chats and event.message]
    said = {}
    for event in told:
        if event.message.type == "ai" and not acts.is_said(event.text):
            said.setdefault((event.id, event.address, event.run_path), event.text)
    assert chunks == {name: acts.as_streamed(text) for name, text in said.items()}


def check_pending(heard: Turn, expected: Sequence[specs.Event]) -> None:
    """Check that questions were always listed in the order of the tree."""
    asked = [(event.address, event.data) for event in expected if event.kind == "interrupted"]
    for questions in heard.pending:
        rest = iter(asked)
        assert all((question.address, question.value) in rest for question in questions)


def check_sights(tree: specs.Spec, record: Record, lane: Lane) -> None:
    """Compare what functions, loops and models saw, how often they were called, and tools ran."""
    by_name = {spec.name: spec for spec in specs.walk(tree)}
    recorded = (specs.Chat, specs.Function, specs.Loop)
    saw = {at: sights for at, sights in lane.saw.items() if isinstance(by_name[name_at(at)], recorded)}
    unasked = {at for at in saw if getattr(by_name[name_at(at)], "until", True) is None}
    assert record.saw == {at: sights for at, sights in saw.items() if at not in unasked}
    assert record.ran == lane.ran
    assert record.noted == lane.noted
    asked = Counter({name: len(model.inputs) for name, model in record.models.items()})
    assert +asked == Counter(
        name_at(at) for at, sights in saw.items() for _ in sights if name_at(at) in record.models
    )


def expected_events(tree: specs.Spec, lane: Lane, text: str) -> list[specs.Event]:
    """Run a turn in the reference, and return what it tells."""
    begin = len(lane.events)
    turn(tree, lane, text)
    return [event for event in lane.events[begin:] if event.kind != "values"]


def whole(events: Iterable[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return events without chunks, and each question only where it was told first."""
    told: dict[str, ag.AgentEvent] = {}
    for event in events:
        if not event.partial:
            key = f"error {len(told)}" if event.kind == "error" else f"{event.id} {plain(event)}"
            assert event.kind == "interrupted" or key not in told
            assert told.setdefault(key, event) == event
    return list(told.values())


def plain(event: ag.AgentEvent) -> specs.Event:
    """Return an event as a value that the reference gives too."""
    path = steps(event.run_path)
    assert event.agent_name == path[-1][0] == name_at(event.address)
    data = {
        "message": event.message and rendered([event.message])[0],
        "custom": event.output and event.output.custom,
        "error": event.error,
        "transfer_to": event.action and event.action.transfer_to,
    }.get(event.kind)
    if event.action and (asked := event.action.interrupted):
        assert (asked.id, asked.address, asked.agent_name) == (
            event.id,
            event.address,
            event.agent_name,
        )
        data = asked.value
    return specs.Event(event.address, path, event.kind, data)


def errors(events: Iterable[ag.AgentEvent]) -> set[tuple[str, str | None]]:
    """Return where something failed, and how."""
    return {(event.address, event.error) for event in events if event.kind == "error"}


def settled(
    events: Sequence[ag.AgentEvent], expected: Sequence[specs.Event]
) -> Sequence[ag.AgentEvent]:
    """Return events in the order that is expected, if they are these, in an order that may be."""
    left = dict(enumerate(expected))
    order: list[int] = []
    for event in map(plain, events):
        if (found := next((i for i, wanted in left.items() if wanted == event), None)) is None:
            return events
        order.append(found)
        del left[found]
    for told, i in enumerate(order):
        for j in order[:told]:
            assert j < i or concurrent(expected[i], expected[j]), (expected[i], expected[j])
    return [event for _, event in sorted(zip(order, events, strict=True), key=lambda each: each[0])]


def concurrent(one: specs.Event, other: specs.Event) -> bool:
    """Tell whether two events were told in different branches or tool calls of one fork."""
    strands = zip(one.strand, other.strand, strict=False)
    here, there = next((pair for pair in strands if pair[0] != pair[1]), (None, None))
    if here is None or here.fork != there.fork:
        return False
    return here.number not in there.behind and there.number not in here.behind


def name_at(address: str) -> str:
    """Return the name of the agent at an address.

    >>> name_at("loop[0]/writer#2")
    'writer'
    """
    return re.split(r"[#[({]", address.rpartition("/")[2])[0]
