"""What was heard of a thread, compared with what the reference says of it.

Branches run at the same time, so only the order of their events among each other is open: they
are sorted into declared order, event by event, and nothing else is moved.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import specs
from conversations import Case, Heard, Turn
from reference import Lane, turn
from trees import Record, rendered, steps

import agentgraph as ag


def check(case: Case, record: Record, heard: Heard) -> None:
    """Compare what was told, live and again, what was seen, and what is left."""
    lane = Lane()
    replayed = [event for event in heard.replayed if event.kind != "error"]
    for heard_turn in heard.turns:
        lane.write(case.values)
        expected = expected_events(case.tree, lane, heard_turn.text)
        told = settled(whole(heard_turn.events), case.tree, expected)
        assert [plain(event) for event in told] == expected
        kept = [event for event, wanted in zip(told, expected, strict=True) if wanted.kept]
        again, replayed = replayed[: len(kept)], replayed[len(kept) :]
        assert settled(again, case.tree, expected) == kept
        check_chunks(heard_turn.events, case.tree, streamed=case.stream)
        check_pending(heard_turn, expected)
    assert replayed == []
    told = [event for heard_turn in heard.turns for event in heard_turn.events]
    assert {event.thread_id for event in [*told, *heard.replayed]} <= {heard.thread_id}
    assert errors(heard.replayed) <= errors(told)
    check_sights(case.tree, record, lane)
    assert rendered(heard.state["messages"]) == [said.message for said in lane.history]
    assert heard.state["values"] == lane.values


def check_translated(tree: specs.Spec, events: Sequence[ag.AgentEvent]) -> None:
    """Compare what was told by a bare graph that streams all that it can."""
    expected = expected_events(tree, Lane(), "hello")
    assert [plain(event) for event in settled(whole(events), tree, expected)] == expected
    check_chunks(events, tree, streamed=True)


def check_chunks(events: Sequence[ag.AgentEvent], tree: specs.Spec, *, streamed: bool) -> None:
    """Compare the chunks of what models said with the whole messages."""
    chats = {spec.name for spec in specs.walk(tree) if isinstance(spec, specs.Chat) and streamed}
    chunks: dict[Any, str] = defaultdict(str)
    for event in events:
        if event.partial:
            chunks[event.id, event.address, event.run_path] += event.text
    said = [event for event in whole(events) if event.agent_name in chats and event.message]
    assert chunks == {(event.id, event.address, event.run_path): event.text for event in said}


def check_pending(heard: Turn, expected: Sequence[specs.Event]) -> None:
    """Check that questions were always listed in the order of the tree."""
    order = rank(expected)
    for questions in heard.pending:
        assert questions == sorted(questions, key=lambda question: order[question.address])


def check_sights(tree: specs.Spec, record: Record, lane: Lane) -> None:
    """Compare what functions, loops and models saw, and so how often each of them was called."""
    by_name = {spec.name: spec for spec in specs.walk(tree)}
    saw: dict[str, list[specs.Sight]] = {}
    sent: dict[str, list[Any]] = {name: [] for name in record.models}
    for address, sights in lane.saw.items():
        match by_name[name_at(address)]:
            case specs.Chat(name=name):
                sent[name] += [sight.messages for sight in sights]
            case specs.Function() | specs.Loop(until=(_, _)):
                saw[address] = sights
    assert record.saw == saw
    for name, model in record.models.items():
        assert sorted(map(rendered, model.inputs), key=repr) == sorted(sent[name], key=repr)


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
            key = f"error {len(told)}" if event.kind == "error" else event.id
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
    events: Iterable[ag.AgentEvent], tree: specs.Spec, expected: Sequence[specs.Event]
) -> list[ag.AgentEvent]:
    """Return events with those of one branch before those of the next; all other order is kept."""
    parallels = {spec.name for spec in specs.walk(tree) if isinstance(spec, specs.Parallel)}
    order = rank(expected)
    result: list[ag.AgentEvent] = []
    for event in events:
        i = len(result)
        while i and order.get(event.address, -1) < order.get(result[i - 1].address, -1):
            if not concurrent(event.address, result[i - 1].address, parallels):
                break
            i -= 1
        result.insert(i, event)
    return result


def rank(events: Sequence[specs.Event]) -> dict[str, int]:
    """Return the order of the addresses at which something is told."""
    return {event.address: i for i, event in reversed(list(enumerate(events)))}


def concurrent(one: str, other: str, parallels: Collection[str]) -> bool:
    """Tell whether two addresses stand in different branches of one activation of a parallel.

    >>> concurrent("loop[0]/both/left", "loop[0]/both/right", {"both"})
    True
    """
    parent = ""
    for here, there in zip(one.split("/"), other.split("/"), strict=False):
        if here != there:
            return name_at(parent) in parallels and here.partition("[")[0] != there.partition("[")[0]
        parent = here
    return False


def name_at(address: str) -> str:
    """Return the name of the agent at an address.

    >>> name_at("loop[0]/writer#2")
    'writer'
    """
    return re.split(r"[#[]", address.rpartition("/")[2])[0]
