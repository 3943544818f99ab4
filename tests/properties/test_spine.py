"""Runs of random trees, held against the reference interpreter: all that they tell, see and keep."""

import asyncio
import os
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import specs
from conversations import Case, Heard, aheld, held, talk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import Lane, turn
from trees import Record, build, rendered, steps, trees

import agentgraph as ag

EXAMPLES = int(os.environ.get("AGENTGRAPH_EXAMPLES", "500"))
"""How many trees the tests of this file run, in all."""

some_values = st.sampled_from(({}, {"x": "given"}))
cases = st.builds(Case, trees(), some_values, st.integers(0, 2**16), st.booleans())
two_turns = st.builds(
    Case, trees(), some_values, st.integers(0, 2**16), texts=st.just(("hello", "and again"))
)


def share(part: float) -> Callable[[Any], Any]:
    """Run a test on a part of all trees."""
    return settings(
        max_examples=ceil(EXAMPLES * part),
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("threads") / "threads.db"


@share(0.25)
@given(cases)
def test_a_run_does_what_the_reference_does(case: Case) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record))
    check(case, record, held(talk(case), lambda: nullcontext(runner)))


@share(0.25)
@given(cases)
def test_an_async_run_does_what_the_reference_does(case: Case) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record))
    check(case, record, asyncio.run(aheld(talk(case), lambda: nullcontext(runner))))


@share(0.1)
@given(two_turns)
def test_a_second_turn_starts_afresh_with_the_history_kept(case: Case) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record))
    check(case, record, held(talk(case), lambda: nullcontext(runner)))


@share(0.15)
@given(case=cases)
def test_a_thread_goes_on_from_its_file_and_a_new_runner(file: Path, case: Case) -> None:
    record = Record()

    @contextmanager
    def reopened() -> Iterator[ag.Runner]:
        with ag.sqlite_saver(file) as saver:
            yield ag.Runner(build(case.tree, record), checkpointer=saver)

    check(case, record, held(talk(case), reopened))


@share(0.15)
@given(case=cases)
def test_an_async_thread_goes_on_from_its_file_and_a_new_runner(file: Path, case: Case) -> None:
    record = Record()

    @asynccontextmanager
    async def reopened() -> AsyncIterator[ag.Runner]:
        async with ag.async_sqlite_saver(file) as saver:
            yield ag.Runner(build(case.tree, record), checkpointer=saver)

    check(case, record, asyncio.run(aheld(talk(case), reopened)))


@share(0.1)
@given(trees(calm=True), st.sampled_from(("v1", "v2")))
def test_a_bare_graph_streams_what_the_reference_tells(tree: specs.Spec, version: str) -> None:
    agent = build(tree, Record())
    graph = ag.compile_agent(agent)
    options = {"stream_mode": list(ag.STREAM_MODES), "subgraphs": True, **version}
    given = {"messages": [("user", "hello")]}

    async def streamed() -> list[ag.AgentEvent]:
        return [event async for event in ag.atranslate(agent, graph.astream(given, **options))]

    expected = expected_events(tree, Lane(), "hello")
    for events in (list(ag.translate(agent, graph.stream(given, **options))), asyncio.run(streamed())):
        assert [plain(event) for event in settled(whole(events), tree, expected)] == expected
        check_chunks(events)


def check(case: Case, record: Record, heard: Heard) -> None:
    """Compare a thread with what the reference says of it."""
    lane = Lane()
    replayed = [event for event in heard.replayed if event.kind != "error"]
    for text, events in zip(case.texts, heard.turns, strict=True):
        lane.write(case.values)
        expected = expected_events(case.tree, lane, text)
        told = settled(whole(events), case.tree, expected)
        assert [plain(event) for event in told] == expected
        kept = [event for event, wanted in zip(told, expected, strict=True) if wanted.kept]
        again, replayed = replayed[: len(kept)], replayed[len(kept) :]
        assert settled(again, case.tree, expected) == kept
        check_chunks(events)
    assert replayed == []
    check_sights(case.tree, record, lane)
    assert rendered(heard.state["messages"]) == [said.message for said in lane.history]
    assert heard.state.get("values", {}) == lane.values
    told = [event for events in heard.turns for event in events]
    assert {event.thread_id for event in told} <= {heard.thread_id}
    assert {e.id for e in heard.replayed if e.kind == "error"} <= {
        e.id for e in told if e.kind == "error"
    }
    for questions in heard.pending:
        assert questions == sorted(questions, key=lambda asked: rank(lane.events)[asked.address])


def check_sights(tree: specs.Spec, record: Record, lane: Lane) -> None:
    """Compare what functions, loops and models saw, and so how often each of them was called."""
    saw = dict(lane.saw)
    by_name = {spec.name: spec for spec in specs.walk(tree)}
    models: dict[str, list[Any]] = {name: [] for name in record.models}
    for address in lane.saw:
        spec = by_name[name_at(address)]
        if isinstance(spec, specs.Chat):
            models[spec.name] += [sight.messages for sight in saw.pop(address)]
        elif isinstance(spec, specs.Human) or (isinstance(spec, specs.Loop) and spec.until is None):
            del saw[address]
    assert record.saw == saw
    for name, model in record.models.items():
        assert sorted(map(rendered, model.inputs), key=repr) == sorted(models[name], key=repr)


def check_chunks(events: Sequence[ag.AgentEvent]) -> None:
    """Compare the chunks of each message with the whole."""
    chunks: dict[str, str] = defaultdict(str)
    for event in events:
        if event.partial:
            chunks[event.id] += event.text
    texts = {event.id: event.text for event in whole(events)}
    assert chunks == {message: texts[message] for message in chunks}


def expected_events(tree: specs.Spec, lane: Lane, text: str) -> list[specs.Event]:
    begin = len(lane.events)
    turn(tree, lane, text)
    return [event for event in lane.events[begin:] if event.kind != "values"]


def whole(events: Iterable[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return events without chunks, and each question where it was told first."""
    asked: set[str] = set()
    kept = [event for event in events if not event.partial]
    ids = [event.id for event in kept if event.kind not in ("interrupted", "error")]
    assert len(ids) == len(set(ids))
    return [e for e in kept if e.kind != "interrupted" or not (e.id in asked or asked.add(e.id))]


def plain(event: ag.AgentEvent) -> specs.Event:
    """Return an event as a value that the reference gives too."""
    path = steps(event.run_path)
    assert event.agent_name == path[-1][0] == name_at(event.address)
    if event.kind == "interrupted":
        asked = event.action.interrupted
        assert (asked.id, asked.address, asked.agent_name) == (
            event.id,
            event.address,
            event.agent_name,
        )
        return specs.Event(event.address, path, event.kind, asked.value)
    told = {
        "message": event.message and rendered([event.message])[0],
        "custom": event.output and event.output.custom,
        "error": event.error,
    }
    return specs.Event(event.address, path, event.kind, told.get(event.kind))


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
    """Return the order of the addresses at which something was told."""
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
    """Return the name of the agent at an address."""
    return re.split(r"[#[]", address.rpartition("/")[2])[0]
