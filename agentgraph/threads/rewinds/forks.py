"""Runs variants from one visit on, each on a separate thread, and compares them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple, cast

from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.graph.graph_classes import RootGraph
from agentgraph.graph.nodes.spending import Counts
from agentgraph.journal.saved import Saved
from agentgraph.journal.spent import cost_since, shown_cost
from agentgraph.journal.story import Story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.result import Result, result
from agentgraph.reports.tables import html_table, text_table
from agentgraph.safe_repr import as_json, shown, shown_error
from agentgraph.threads.begin import Resume
from agentgraph.threads.engine import Engine, RunOptions
from agentgraph.threads.rewinds.copies import check_new
from agentgraph.threads.rewinds.rewinding import RewindArguments, line_to_copy

AT_ONCE = 4
"""How many variants run at a time."""
_CHANGES = ("turn", "siblings", "values", "messages", "answers")
_OPTIONS = ("context", "config", "limits")
_GO_ON = Resume()

Variant = Mapping[str, Any]
"""The keyword arguments of `Runner.rewind` for a variant, and `runner`."""


@dataclass(frozen=True, repr=False)
class Forks(Mapping[str, Result]):
    """The results of the variants of one prefix, by their names; shows itself as a table.

    Attributes:
        results: The results.
        kept: How many visits of the prefix each variant has kept, instead of running them again.
        costs: The cost of what each variant ran, without the prefix, by the names of the variants whose
            runner has prices; None if it is not known.
    """

    results: Mapping[str, Result]
    kept: int
    costs: Mapping[str, Decimal | None] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def rows(self) -> list[dict[str, str]]:
        """The table: a row for each variant, with its values that are not the same in all."""
        several = [*self.results.values()]
        names = dict.fromkeys(name for each in several for name in each.values)
        differing = [
            name
            for name in names
            if any(each.values.get(name) != several[0].values.get(name) for each in several)
        ]
        return [
            {
                "variant": name,
                "status": each.status,
                "text": shown_error(each.error) if each.error else each.text,
                **{key: _cell(each.values.get(key, "")) for key in differing},
                "tokens": str(each.usage.total["total_tokens"]),
                **({"cost": shown_cost(self.costs.get(name))} if self.costs else {}),
                "steps run": str(len({event.step for event in each.events if event.step})),
                "steps kept": str(self.kept),
            }
            for name, each in self.results.items()
        ]

    def __repr__(self) -> str:
        return text_table(self.rows)

    def _repr_html_(self) -> str:
        return html_table(self.rows)


def _cell(value: object) -> str:
    return value if isinstance(value, str) else as_json(value)


class Plan(NamedTuple):
    """How a variant begins.

    Attributes:
        name: Its name.
        engine: Runs it.
        thread_id: Its thread.
        copies: The checkpoints that are put there first.
        options: The options of its run.
        kept: How many visits it keeps.
    """

    name: str
    engine: Engine
    thread_id: str
    copies: Sequence[Saved]
    options: RunOptions
    kept: int

    @property
    def has_prices(self) -> bool:
        """Whether its runner has prices."""
        return cast(RootGraph, self.engine.graph).prices is not None

    @property
    def streamed(self) -> RunOptions:
        """The options of its run, with replies in chunks for those who follow it."""
        return self.options._replace(stream=True)


def engines_of(engine: Engine, variants: Mapping[str, Variant], at_once: int) -> dict[str, Engine]:
    """Return the engine of each variant, by its name.

    Args:
        engine: Runs the variants without their own runner.
        variants: Their arguments, by their names.
        at_once: How many run at a time.

    Raises:
        AgentGraphError: The arguments of a variant are invalid, or there is no such number.
    """
    if not isinstance(variants, Mapping):
        raise AgentGraphError(
            f"variants={shown(variants)} is not a mapping of names to arguments; pass one, such "
            "as {'short': {'values': {'length': 3}}}"
        )
    if not isinstance(at_once, int) or at_once < 1:
        raise AgentGraphError(
            f"max_concurrency={shown(at_once)} is out of range; pass an integer of at least 1"
        )
    return {name: _engine_of(name, given) or engine for name, given in variants.items()}


async def plans(
    saver: ThreadSaver, at: str, variants: Mapping[str, Variant], engines: Mapping[str, Engine]
) -> list[Plan]:
    """Return how variants begin; nothing is written.

    Args:
        saver: The thread that they begin with.
        at: Where they begin.
        variants: Their arguments, by their names.
        engines: The engines that run them, by their names.

    Raises:
        AgentGraphError: As in `Runner.fork_many`.
    """
    several: list[Plan] = []
    for name, given in variants.items():
        runs = engines[name]
        to = f"{saver.thread_id}-{name}"
        back = RewindArguments(at, **{key: given[key] for key in _CHANGES if key in given})
        runs, thread = await runs.for_thread(runs.thread(saver.thread_id, saver.saver))
        copies, later, _ = await line_to_copy(thread, back)
        await check_new(runs.thread(to), copies)
        given_options = {key: given[key] for key in _OPTIONS if key in given}
        options = RunOptions(False, **given_options, later=later)
        agent_steps = Story(runs.tree, copies).steps
        kept = sum(agent_step.visit.duration is not None for agent_step in agent_steps)
        several.append(Plan(name, runs, to, copies, options, kept))
    return several


def _engine_of(name: str, given: Variant) -> Engine | None:
    """Return the engine of a variant with its own runner.

    Raises:
        AgentGraphError: The arguments of the variant are invalid.
    """
    known = (*_CHANGES, *_OPTIONS, "runner")
    if not isinstance(given, Mapping) or (wrong := [key for key in given if key not in known]):
        what = shown(wrong[0]) if isinstance(given, Mapping) else shown(given)
        raise AgentGraphError(
            f"variant {shown(name)}: {what} is not an argument of a variant; use a mapping with any of "
            f"{', '.join(known)}"
        )
    runner = given.get("runner")
    engine = getattr(runner, "engine", None)
    if runner is not None and not isinstance(engine, Engine):
        raise AgentGraphError(f"variant {shown(name)}: runner={shown(runner)} is not a Runner")
    return engine


def run_all(several: Sequence[Plan], at_once: int) -> Forks:
    """Run variants, a few at a time."""
    with ThreadPoolExecutor(at_once, "agentgraph-fork") as pool:
        futures = [pool.submit(copy_context().run, _run, plan) for plan in several]
        results = [future.result() for future in futures]
    return _forks(several, results)


async def arun_all(several: Sequence[Plan], at_once: int) -> Forks:
    """Run variants on the event loop, as `run_all` does in threads."""
    slots = asyncio.Semaphore(at_once)

    async def run(plan: Plan) -> Result:
        async with slots:
            return await _arun(plan)

    return _forks(several, await asyncio.gather(*map(run, several)))


def _run(plan: Plan) -> Result:
    events: list[AgentEvent] = []
    error: Exception | None = None
    before: list[Counts] = []
    try:
        with plan.engine.run(_GO_ON, plan.thread_id, plan.options._replace(before=before)) as run:
            events += run
    except Exception as raised:
        error = raised
    ended = plan.engine.read(result, plan.thread_id, events, before)
    return replace(ended, error=error)


async def _arun(plan: Plan) -> Result:
    events: list[AgentEvent] = []
    error: Exception | None = None
    before: list[Counts] = []
    try:
        async with plan.engine.arun(
            _GO_ON, plan.thread_id, plan.options._replace(before=before)
        ) as run:
            async for event in run:
                events += [event]
    except Exception as raised:
        error = raised
    ended = await plan.engine.aread(result, plan.thread_id, events, before)
    return replace(ended, error=error)


def _forks(several: Sequence[Plan], results: Sequence[Result]) -> Forks:
    ran = [*zip(several, results, strict=True)]
    costs = {plan.name: cost_since(each.before, each.counts) for plan, each in ran if plan.has_prices}
    kept = several[0].kept if several else 0
    return Forks({plan.name: each for plan, each in ran}, kept, costs)
