"""What was heard of a thread, compared with what the reference says of it.

Branches and the tool calls of one message run at the same time, so only the order of their events
among each other is open: they are sorted into declared order, and nothing else is moved.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import acts
import reference
import specs
from conversations import Thread, Turn
from helpers import unvoided
from lanes import Lane
from passing import Passed
from record import Record, rendered, steps

import agentgraph as ag

UNKEPT = ("discarded", "error")
"""What of the reference's events is not compared one by one."""


def check(thread: Thread, ignored: Callable[[ag.AgentEvent], bool] = lambda event: False) -> Lane:
    """Compare what was reported, live and again, what was seen, and what is left.

    Args:
        thread: A thread, after `hold`.
        ignored: Which events the reference does not know.

    Returns:
        The lane of the reference at the end.
    """
    lane, case, state, ends = Lane(), thread.case, thread.state(), [0]
    replayed = [event for event in thread.events() if not ignored(event)]
    turns = [replace(t, events=[e for e in t.events if not ignored(e)]) for t in thread.turns]
    for turn in turns:
        lane.write(case.values)
        expected = expected_events(case.tree, lane, turn.text)
        ends.append(len(lane.events))
        check_errors(turn.events, expected, case.tree)
        check_chunks(turn.events, case.tree, streamed=case.stream)
        check_pending(turn, expected)
    heard = [event for turn in turns for event in turn.events]
    assert unvoided(event for event in heard if not event.partial) == replayed
    for number, (begin, end) in enumerate(pairwise(ends)):
        check_events([event for event in heard if event.turn == number], lane.events[begin:end])
    assert {event.thread_id for event in [*heard, *replayed]} <= {thread.id}
    check_traces(thread.passed, lane)
    check_sights(case.tree, thread.record, lane)
    assert rendered(state["messages"]) == [said.message for said in lane.history]
    assert state["values"] == lane.values
    return lane


def check_events(heard: Sequence[ag.AgentEvent], expected: Sequence[specs.Event]) -> None:
    """Compare the events of a turn that were not discarded with the events of the reference."""
    left = [event for event in unvoided(whole(heard)) if event.kind not in ("error", "default")]
    wanted = [each for each in expected if each.kept and each.kind not in UNKEPT]
    assert [plain(event) for event in settled(left, wanted)] == wanted


def check_errors(
    heard: Sequence[ag.AgentEvent], expected: Sequence[specs.Event], tree: specs.Spec
) -> None:
    """Compare the errors of a turn.

    That of a wrap of tool calls may be lost if another lane fails while LangChain tells tracers of it,
    in a thread; the call runs again on a resume in any case.
    """
    said, wanted = errors(heard), errors_in(expected)
    unsaid = {error for _, error in wanted - said}
    chats = [spec for spec in specs.walk(tree) if isinstance(spec, specs.Chat)]
    wraps = [each for chat in chats for each in chat.middleware if each.place == "wrap_tool_call"]
    assert said <= wanted
    assert unsaid <= {acts.fails(wrap) for wrap in wraps}


def check_translated(tree: specs.Spec, events: Sequence[ag.AgentEvent], passed: Passed) -> None:
    """Compare what was reported by a bare graph that streams all that it can, and its trace."""
    lane = Lane()
    check_events(events, expected_events(tree, lane, "hello"))
    check_chunks(events, tree, streamed=True)
    passed.check(tree)
    check_traces([passed], lane)


def check_chunks(events: Sequence[ag.AgentEvent], tree: specs.Spec, *, streamed: bool) -> None:
    """Compare the chunks of what models said with the whole messages.

    Those of a message that a wrap rewrites are discarded, and the other message has none.
    """
    chats = {spec.name for spec in specs.walk(tree) if isinstance(spec, specs.Chat) and streamed}
    chunks: dict[Any, str] = defaultdict(str)
    for event in events:
        if event.partial:
            chunks[event.id, event.address, event.run_path] += event.text
    messages = [event for event in whole(events) if event.agent_name in chats and event.message]
    said = {}
    for event in messages:
        if event.message.type == "ai" and not acts.is_said(event.text):
            said.setdefault((event.id, event.address, event.run_path), event.text)
    void = {each for event in events if event.action for each in event.action.discarded}
    whole_ones = {name: text for name, text in chunks.items() if name in said or name[0] not in void}
    assert whole_ones == {name: text for name, text in said.items() if not acts.is_rewritten(text)}


def check_pending(heard: Turn, expected: Sequence[specs.Event]) -> None:
    """Check that questions were always listed in the order of the tree."""
    asked = [(event.address, event.data) for event in expected if event.kind == "interrupted"]
    for questions in heard.pending:
        rest = iter(asked)
        assert all((question.address, question.value) in rest for question in questions)


def check_sights(tree: specs.Spec, record: Record, lane: Lane) -> None:
    """Compare what functions, loops and models saw, how often they were called, and tools ran."""
    by_name = {spec.name: spec for spec in specs.walk(tree)}
    recorded = (specs.Chat, specs.Function, specs.Loop, specs.Switch, specs.Each)
    saw = {at: sights for at, sights in lane.saw.items() if isinstance(by_name[name_at(at)], recorded)}
    unasked = {at for at in saw if getattr(by_name[name_at(at)], "until", True) is None}
    assert record.saw == {at: sights for at, sights in saw.items() if at not in unasked}
    assert record.ran == lane.ran
    assert record.noted == lane.noted
    asked = Counter({name: len(model.inputs) for name, model in record.models.items()})
    assert +asked == Counter(
        name_at(at) for at, sights in saw.items() for _ in sights if name_at(at) in record.models
    )


def check_traces(passed: Sequence[Passed], lane: Lane) -> None:
    """Compare which agents ran by the traces of calls, and which tools that steer."""
    runs = [run for each in passed for run in each.runs.values()]
    assert addresses(passed, lane) == lane.visited
    tools = Counter((run.address, run.name) for run in runs if run.kind == "tool")
    assert {key: n for key, n in tools.items() if key[1] not in ("say", "act")} == lane.steered


def addresses(passed: Sequence[Passed], lane: Lane) -> set[str]:
    """Return where nodes ran, by the traces of calls; items aside that are lost."""
    runs = [run for each in passed for run in each.runs.values()]
    ran = {run.address for run in runs if run.is_node}
    ran |= {run.address for run in runs if run.parent is None} & lane.visited
    return {at for at in ran if not at.startswith(tuple(lane.lost))}


def expected_events(tree: specs.Spec, lane: Lane, text: str) -> list[specs.Event]:
    """Run a turn in the reference, and return its events."""
    begin = len(lane.events)
    reference.turn(tree, lane, text)
    return lane.events[begin:]


def whole(events: Iterable[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return events without chunks."""
    return [event for event in events if not event.partial]


def plain(event: ag.AgentEvent) -> specs.Event:
    """Return an event as a value that the reference gives too."""
    path = steps(event.run_path)
    assert event.agent_name == path[-1][0] == name_at(event.address)
    data = {
        "message": event.message and rendered([event.message])[0],
        "custom": event.output and event.output.custom,
        "error": event.error,
        "transfer_to": event.action and event.action.transfer_to,
        "chosen": event.action and event.action.chosen,
        "values": event.action and event.action.values,
    }.get(event.kind)
    if event.action and (asked := event.action.interrupted):
        assert (asked.id, asked.address, asked.agent_name) == (
            event.id,
            event.address,
            event.agent_name,
        )
        data = asked.value
    return specs.Event(event.address, path, event.kind, data)


def errors(events: Iterable[ag.AgentEvent]) -> Counter[Any]:
    """Return where something failed, and how, and how often."""
    return Counter((event.address, event.error) for event in events if event.kind == "error")


def errors_in(expected: Iterable[specs.Event]) -> Counter[Any]:
    """Return the same of what the reference says."""
    return Counter((event.address, event.data) for event in expected if event.kind == "error")


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
    for nth, i in enumerate(order):
        for j in order[:nth]:
            assert j < i or concurrent(expected[i], expected[j]), (expected[i], expected[j])
    return [event for _, event in sorted(zip(order, events, strict=True), key=lambda each: each[0])]


def concurrent(one: specs.Event, other: specs.Event) -> bool:
    """Return whether two events were emitted in different branches or tool calls of one fork."""
    strands = zip(one.strand, other.strand, strict=False)
    here, there = next((pair for pair in strands if pair[0] != pair[1]), (None, None))
    if here is None or here.fork != there.fork:
        return False
    return here.number not in there.after and there.number not in here.after


def name_at(address: str) -> str:
    """Return the name of the agent at an address.

    >>> name_at("loop[0]/writer#2")
    'writer'
    """
    return re.split(r"[#[({]", address.rpartition("/")[2])[0]
