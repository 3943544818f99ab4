"""Runs of random trees, held against the reference interpreter: all that they report, see and keep."""

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import specs
from building import build, declared
from comparison import check, check_translated
from conversations import Case, Thread, hold
from helpers import Async, Drive, Sync
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from passing import Passed, Tenant
from record import FailedError, Record
from trees import trees

import agentgraph as ag

EXAMPLES = int(os.environ.get("AGENTGRAPH_EXAMPLES", "5"))
"""How many trees the tests of runs in this file run, in all; those of other files run a share."""
DRIVES = st.sampled_from((Sync, Async))


def share(part: float) -> Callable[[Any], Any]:
    """Run a test on a part of all trees."""
    return settings(
        max_examples=ceil(EXAMPLES * part),
        deadline=None,
        print_blob=True,
        phases=set(Phase) - {Phase.explain},
        suppress_health_check=list(HealthCheck),
    )


def cases(**more: Any) -> st.SearchStrategy[Case]:
    values, seeds = st.sampled_from(({}, {"x": "given"})), st.integers(0, 2**16)
    return st.builds(Case, trees(), values, seeds, st.booleans(), **more)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("threads") / "threads.db"


TEXTS = st.sampled_from((("hello",), ("hello",), ("hello",), ("hello", "and again")))


@share(0.6)
@given(case=cases(texts=TEXTS), drive=DRIVES)
def test_a_run_does_what_the_reference_does(case: Case, drive: Drive) -> None:
    thread = Thread(case, drive)
    hold(thread)
    check(thread)


@share(0.3)
@given(case=cases(texts=TEXTS), drive=DRIVES)
def test_a_thread_on_a_file_goes_on_with_a_new_runner(file: Path, case: Case, drive: Drive) -> None:
    thread = Thread(case, drive, file)
    hold(thread)
    check(thread)


@share(0.1)
@given(case=cases(texts=TEXTS), drive=DRIVES)
def test_a_thread_in_a_database_goes_on_with_a_new_runner(
    database: str, case: Case, drive: Drive
) -> None:
    thread = Thread(case, drive, database)
    hold(thread)
    check(thread)


@share(0.1)
@given(trees(calm=True), st.sampled_from(("v1", "v2")))
def test_a_bare_graph_streams_what_the_reference_gives(tree: specs.Spec, version: str) -> None:
    agent = build(tree, record := Record())
    graph = ag.compile_agent(agent, values=declared(tree), context_schema=Tenant)
    hello = {"messages": [("user", "hello")]}
    modes = {"stream_mode": list(ag.STREAM_MODES), "subgraphs": True, "version": version}

    async def streamed(**options: Any) -> list[ag.AgentEvent]:
        stream = graph.astream(hello, **modes, **options)
        return [event async for event in ag.atranslate(agent, stream)]

    passed = record.passed = Passed(0)
    events = list(ag.translate(agent, graph.stream(hello, **modes, **passed.options)))
    check_translated(tree, events, passed)
    passed = record.passed = Passed(1)
    check_translated(tree, asyncio.run(streamed(**passed.options)), passed)


FAILS = "the until fails"


class OnceFailing(Record):
    """A record in which some loops fail when their `until` is called first in an iteration."""

    def __init__(self, tree: specs.Spec) -> None:
        super().__init__()
        self.fragile, self.guard = _fragile(tree), threading.Lock()
        self.refused: set[tuple[str, int | None]] = set()

    def until(self, loop: specs.Loop, ctx: ag.Context) -> bool:
        """Fail the first time, which is not recorded; then say what the loop is to say."""
        key = (ctx.address, ctx.iteration)
        with self.guard:
            if loop.name in self.fragile and key not in self.refused:
                self.refused.add(key)
                raise FailedError(FAILS)
        return super().until(loop, ctx)


def _fragile(tree: specs.Spec) -> set[str]:
    """Return the loops whose failure fails the run: it becomes no message, and no result of a call."""
    loops = {spec.name for spec in specs.walk(tree) if isinstance(spec, specs.Loop) and spec.until}
    for spec in specs.walk(tree):
        outer: tuple[specs.Spec, ...] = ()
        if isinstance(spec, specs.Parallel | specs.Each) and spec.on_error == "collect":
            outer = spec.sub_agents
        if isinstance(spec, specs.Chat) and spec.on_tool_error == "return":
            outer = tuple(agent for agent, _ in spec.agents)
        loops -= {inner.name for each in outer for inner in specs.walk(each)}
    return loops


@share(0.08)
@given(cases(), DRIVES)
def test_an_until_that_fails_once_is_called_again_alone(case: Case, drive: Drive) -> None:
    if not _fragile(case.tree):
        case = replace(case, tree=specs.Loop("outer", (case.tree,), 2, ("iteration", 1)))
    thread = Thread(case, drive)
    thread.record = record = OnceFailing(case.tree)
    hold(thread)
    check(thread, ignored=lambda event: event.error == FAILS)
    event(f"{min(len(record.refused), 3)} failures")
    assert sum(event.error == FAILS for event in thread.heard) == len(record.refused)
