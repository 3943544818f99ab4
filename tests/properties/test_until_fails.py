"""Random trees in which an `until` fails once: a resume asks it alone, and all ends alike."""

import asyncio
import threading
from contextlib import nullcontext
from dataclasses import replace

import specs
from building import build, declared
from comparison import check
from conversations import Case, Heard, aheld, held, talk
from hypothesis import event, given
from record import FailedError, Record
from test_spine import cases, share

import agentgraph as ag

FAILS = "the until fails"


class OnceFailing(Record):
    """A record in which some loops fail when their `until` is asked first in an iteration."""

    def __init__(self, tree: specs.Spec) -> None:
        super().__init__()
        self.fragile = _fragile(tree)
        self.refused: set[tuple[str, int | None]] = set()
        self.guard = threading.Lock()

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
        around: tuple[specs.Spec, ...] = ()
        if isinstance(spec, specs.Parallel) and spec.on_error == "collect":
            around = spec.sub_agents
        if isinstance(spec, specs.Chat) and spec.on_tool_error == "return":
            around = tuple(agent for agent, _ in spec.agents)
        loops -= {inner.name for each in around for inner in specs.walk(each)}
    return loops


def _looped(case: Case) -> Case:
    """Return a case with a loop that may fail: one around its tree if there is none in it."""
    if _fragile(case.tree):
        return case
    return replace(case, tree=specs.Loop("around", (case.tree,), 2, ("iteration", 1)))


def _check(case: Case, record: OnceFailing, heard: Heard) -> None:
    """Compare all but the failures of loops, each of which was told, with a run without them."""
    told = [event for turn in heard.turns for event in turn.events if event.error == FAILS]
    event(f"{min(len(record.refused), 3)} failures")
    assert len(told) == len(record.refused)
    heard.replayed = [each for each in heard.replayed if each.error != FAILS]
    for turn in heard.turns:
        turn.events = [each for each in turn.events if each.error != FAILS]
    check(case, record, heard)


@share(0.03)
@given(cases().map(_looped))
def test_an_until_that_fails_once_is_asked_again_alone(case: Case) -> None:
    record = OnceFailing(case.tree)
    runner = ag.Runner(build(case.tree, record), values=declared(case.tree))
    _check(case, record, held(talk(case), lambda: nullcontext(runner)))


@share(0.03)
@given(cases().map(_looped))
def test_an_until_that_fails_once_is_asked_again_alone_async(case: Case) -> None:
    record = OnceFailing(case.tree)
    runner = ag.Runner(build(case.tree, record), values=declared(case.tree))
    _check(case, record, asyncio.run(aheld(talk(case), lambda: nullcontext(runner))))
