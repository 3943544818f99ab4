"""A `Runner` in every place where users' code runs: a run of its own, as it would be outside.

`AGENTGRAPH_EXAMPLES=100000` drives each place in all ways.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from campaign import WAYS, Watched, ended, in_turn, shown
from inner_runs import KINDS, PLACES, TENANT, InnerRun, for_ada
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag

ON_THE_LOOP = {
    *("blocking coroutine", "input of a graph", "output of a graph", "instruction", "model_input"),
    *("history", "until", "each, key", "each, input", "check", "approve"),
    *("before_agent", "before_model", "after_model", "after_agent"),
}
"""Places whose sync code an async run calls on its event loop."""


@cache
def told_outside() -> Any:
    """Return what a conversation comes to outside of everything."""
    outside = InnerRun("a named thread", InMemorySaver(), None)
    copy_context().run(for_ada, outside)
    return outside.told[0]


def check_told(inner: InnerRun) -> None:
    """Check that each inner conversation went as outside."""
    assert inner.told, "the place is not reached"
    assert inner.told == [told_outside()] * len(inner.told)


class ForAda(Watched):
    """A thread whose calls are for a tenant, who is known by a context variable alone."""

    def use(self, act: Callable[[ag.Runner], Any], aact: Callable[[ag.Runner], Any]) -> Any:
        def for_ada(runner: ag.Runner) -> Any:
            TENANT.set("Ada")
            return act(runner)

        async def afor_ada(runner: ag.Runner) -> Any:
            TENANT.set("Ada")
            return await aact(runner)

        return super().use(for_ada, afor_ada)


@pytest.mark.parametrize(("place", "kind", "way"), in_turn(PLACES, KINDS, WAYS, every=7))
def test_a_run_inside_a_run_is_one_of_its_own(place: str, kind: str, way: str, tmp_path: Path) -> None:
    driven = ForAda(PLACES[place](inner := InnerRun(kind, InMemorySaver(), None)), way, tmp_path)
    inner.memory, inner.path = driven.memory, driven.path
    heard = driven.run(stream=True)
    if place in ON_THE_LOOP and kind == "a shared saver" and way == "async-sqlite":
        assert "a sync run on the event loop would block the async run" in str(heard.error)
        return
    assert heard.error is None, shown(heard.error)
    check_told(inner)
    assert not [each for each in heard.events if "sub" in each.address or each.kind == "interrupted"]
    assert not [each for each in heard.events if each.output and each.output.custom is not None]
    assert driven.pending() == []
    assert driven.resume() == ([], None)
    live = [(each.address, each.text) for each in heard.events if not each.partial]
    assert [(each.address, each.text) for each in driven.events()] == live


@pytest.mark.parametrize(
    ("place", "saver", "drive"), in_turn(PLACES, ("no saver", "a saver"), ("sync", "async"), every=2)
)
def test_a_run_inside_a_compiled_tree_is_one_of_its_own(place: str, saver: str, drive: str) -> None:
    inner = InnerRun("a named thread", InMemorySaver(), None)
    graph: Any = ag.compile_agent(
        PLACES[place](inner), checkpointer=None if saver == "no saver" else inner.memory
    )
    config = {"configurable": {"thread_id": "t"}}
    options: Any = {"stream_mode": ["updates", "custom", "messages"], "subgraphs": True}
    parts: list[Any] = []

    async def stream() -> None:
        parts.extend([part async for part in graph.astream({"messages": ["Go."]}, config, **options)])

    def run() -> None:
        TENANT.set("Ada")
        if drive == "sync":
            parts.extend(graph.stream({"messages": ["Go."]}, config, **options))
        else:
            asyncio.run(stream())

    error = ended(run)
    assert error is None, shown(error)
    check_told(inner)
    chunks = [data for _, mode, data in parts if mode == "messages"]
    assert not [seen for _, seen in chunks if str(seen.get("agent_name", "")).startswith("sub")]
    rest = str([data for _, mode, data in parts if mode != "messages"])
    assert "'sub/" not in rest
    assert "'inner': 1" not in rest
