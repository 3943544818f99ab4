"""Runs of random trees, held against the reference interpreter: all that they tell, see and keep."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import specs
from building import build, declared
from comparison import check, check_translated
from conversations import Case, aheld, held, talk
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from record import Record
from trees import trees

import agentgraph as ag

EXAMPLES = int(os.environ.get("AGENTGRAPH_EXAMPLES", "50"))
"""How many trees the tests of this file run, in all."""


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


def runner_of(case: Case, record: Record, saver: Any) -> ag.Runner:
    tree = build(case.tree, record)
    return ag.Runner(tree, checkpointer=saver, values=declared(case.tree))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("threads") / "threads.db"


@share(0.25)
@given(cases())
def test_a_run_does_what_the_reference_does(case: Case) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record), values=declared(case.tree))
    check(case, record, held(talk(case), lambda: nullcontext(runner)))


@share(0.25)
@given(cases())
def test_an_async_run_does_what_the_reference_does(case: Case) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record), values=declared(case.tree))
    check(case, record, asyncio.run(aheld(talk(case), lambda: nullcontext(runner))))


@share(0.1)
@given(cases(texts=st.just(("hello", "and again"))))
def test_a_second_turn_starts_afresh_with_the_history_kept(case: Case) -> None:
    record = Record()
    runner = ag.Runner(build(case.tree, record), values=declared(case.tree))
    check(case, record, held(talk(case), lambda: nullcontext(runner)))


@share(0.15)
@given(case=cases())
def test_a_thread_goes_on_with_a_new_runner_and_its_file(file: Path, case: Case) -> None:
    record = Record()

    @contextmanager
    def reopened() -> Iterator[ag.Runner]:
        with ag.sqlite_saver(file) as saver:
            yield runner_of(case, record, saver)

    check(case, record, held(talk(case), reopened))


@share(0.15)
@given(case=cases())
def test_an_async_thread_goes_on_with_a_new_runner_and_its_file(file: Path, case: Case) -> None:
    record = Record()

    @asynccontextmanager
    async def reopened() -> AsyncIterator[ag.Runner]:
        async with ag.async_sqlite_saver(file) as saver:
            yield runner_of(case, record, saver)

    check(case, record, asyncio.run(aheld(talk(case), reopened)))


@share(0.1)
@given(trees(calm=True), st.sampled_from(("v1", "v2")))
def test_a_bare_graph_streams_what_the_reference_tells(tree: specs.Spec, version: str) -> None:
    agent = build(tree, Record())
    graph = ag.compile_agent(agent, values=declared(tree))
    hello = {"messages": [("user", "hello")]}
    options = {"stream_mode": list(ag.STREAM_MODES), "subgraphs": True, "version": version}

    async def streamed() -> list[ag.AgentEvent]:
        return [event async for event in ag.atranslate(agent, graph.astream(hello, **options))]

    check_translated(tree, list(ag.translate(agent, graph.stream(hello, **options))))
    check_translated(tree, asyncio.run(streamed()))
