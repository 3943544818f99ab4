"""Functions of users: each option that takes one may be given any kind, sync or async.

`helpers/asked_functions.py` has the table of the options. A new option needs a row there, or a reason.
"""

import asyncio
import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Drive, asked_functions, driven, failing, lines
from helpers.asked_functions import (
    EXEMPT,
    INSIDE,
    KNOWN,
    SLOTS,
    UNKNOWN,
    Awaited,
    Fn,
    Slot,
    coroutine,
    decorated,
    plain,
)
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.safe_repr import shown


def runner(slot: Slot, fn: Fn) -> ag.Runner:
    return ag.Runner(slot.tree(fn), values=None, **slot.options_for(fn))


def answering(slot: Slot, ran: list[Any]) -> Fn:
    def answer(*given: Any) -> Any:
        ran.append(given)
        return slot.answer

    return answer


async def heard(slot: Slot, fn: Fn) -> list[str]:
    return lines([event async for event in runner(slot, fn).arun("Go.", thread_id="t")])


def test_each_option_that_takes_a_function_has_a_row() -> None:
    named = {name.partition(",")[0].partition(":")[0] for name in SLOTS}
    assert asked_functions.found() == named | EXEMPT.keys()
    assert not named & EXEMPT.keys()


@pytest.mark.parametrize("name", SLOTS)
def test_an_async_run_awaits_what_any_function_returns(name: str) -> None:
    slot, ran = SLOTS[name], list[Any]()
    fn = answering(slot, ran)
    expected = lines(runner(slot, plain(fn)).run("Go.", thread_id="t"))
    count = len(ran)
    assert count

    async def tried() -> None:
        for kind in (plain, *KNOWN, *UNKNOWN):
            ran.clear()
            assert (kind.__name__, await heard(slot, kind(fn))) == (kind.__name__, expected)
            assert (kind.__name__, len(ran)) == (kind.__name__, count)

    asyncio.run(tried())


@pytest.mark.parametrize(("name", "around"), [*zip(SLOTS, cycle(INSIDE), strict=False)])
def test_functions_inside_other_agents_are_awaited(tmp_path: Path, name: str, around: str) -> None:
    slot = SLOTS[name]

    def heard_from(kind: Callable[[Fn], Fn]) -> list[str]:
        fn = kind(answering(slot, []))
        tree = INSIDE[around](slot.tree(fn))
        path = str(tmp_path / f"{kind.__name__}.db")
        with ag.Runner(tree, checkpointer=path, **slot.options_for(fn)) as made:
            said = list(driven(made.arun("Go.", thread_id="t")))
            assert [each.cursor for each in made.events("t")] == [each.cursor for each in said]
        return lines(said)

    expected = heard_from(plain)
    assert heard_from(coroutine) == expected
    assert heard_from(decorated) == expected


@pytest.mark.parametrize("name", [name for name in SLOTS if "retry" in name])
def test_a_failure_is_not_retried_if_a_function_says_no(name: str) -> None:
    slot = SLOTS[name]._replace(answer=False)
    for kind in (plain, *KNOWN, *UNKNOWN):
        ran: list[Any] = []
        events: list[ag.AgentEvent] = []

        made = runner(slot, kind(answering(slot, ran)))
        with pytest.raises((ValueError, ag.StepFailedError)):
            events.extend(driven(made.arun("Go.", thread_id="t")))
        assert (kind.__name__, len(ran)) == (kind.__name__, 1)
        assert [event.kind for event in events] == ["error"]


@pytest.mark.parametrize("name", SLOTS)
def test_a_sync_run_refuses_what_must_be_awaited(name: str) -> None:
    slot, ran = SLOTS[name], list[Any]()
    fn = answering(slot, ran)
    for kind in KNOWN:
        made = runner(slot, kind(fn))
        with pytest.raises(ag.AgentGraphError) as caught:
            made.run("Go.", thread_id="t")
        assert str(caught.value).startswith(f"{slot.agent}: {slot.named}")
        assert "run the async methods: arun()" in str(caught.value)
        assert not ran
        assert made.thread("t").status == "new"
    for kind in UNKNOWN:
        with pytest.raises(ag.AgentGraphError, match=r"run the async methods: arun\(\)") as caught:
            list(runner(slot, kind(fn)).run("Go.", thread_id="t"))
        assert f"{slot.named}=" in str(caught.value).replace(", =", "=")
        assert slot.agent in re.split(r"\W+", "\n".join([str(caught.value), *caught.value.__notes__]))


def test_a_reducer_stays_sync(drive: Drive) -> None:
    async def known(old: Any, new: Any) -> Any:
        return new

    def declaring(reducer: Fn) -> Any:
        return TypedDict("State", {"log": Annotated[Any, reducer]})  # type: ignore[misc]

    agent = ag.function_agent("f", lambda ctx: [ag.SetValues(log=["a"]), ag.SetValues(log=["b"])])
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.Runner(agent, values=declaring(known))
    assert str(refused.value) == (
        f"values: the reducer {shown(known)} of the field 'log' is async; pass a sync function"
    )
    for reducer in (lambda old, new: known(old, new), lambda old, new: Awaited(new)):
        runner = ag.Runner(agent, values=declaring(reducer))
        _, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.ReducerError)
        assert "the reducer of the value 'log' failed on ['b']: it returned <" in str(error)
