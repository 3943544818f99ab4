"""The node of a workflow: steps as soon as those before are done, and what undoes them on a failure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from langchain_core.messages import HumanMessage
from langgraph.errors import GraphBubbleUp

from agentgraph.agents.agents import Step, WorkflowAgent
from agentgraph.agents.dependencies import in_order, upstream
from agentgraph.agents.templates import fill_input
from agentgraph.errors import StepFailedError
from agentgraph.graph.failures import asked_beside, failures, join_failures, keep_asked, mark_failure
from agentgraph.graph.nodes.context import Site, Surroundings
from agentgraph.graph.nodes.fork import Fork, ForkNode, Job, Results
from agentgraph.graph.nodes.lane import Lane, LaneResult, last_text
from agentgraph.graph.nodes.schedule import Schedule, arun_tasks, run_tasks
from agentgraph.graph.nodes.stopping import inner_stop
from agentgraph.graph.state import speaker_at, with_id
from agentgraph.safe_repr import shown_error


class WorkflowNode(ForkNode):
    """Runs the steps. Where some can be undone, a failure is kept as a result, and final.

    So a resume finds what had finished, in which order, and that it failed; what was undone, too,
    for that runs in tasks, one after the other.
    """

    def __init__(self, site: Site, lanes: Sequence[Lane]) -> None:
        self.agent = cast(WorkflowAgent, site.place.agent)
        steps = {step.name: step for step in self.agent.steps}
        self.depends_on = {name: step.depends_on for name, step in steps.items()}
        self.steps = [steps[name] for name in in_order(self.depends_on)]
        undone = [step.name for step in self.agent.steps if step.compensate is not None]
        self.undo = {name: len(steps) + i for i, name in enumerate(undone)}
        super().__init__(site, lanes)

    def jobs(self, fork: Fork) -> list[Job]:
        """Return a job for each step, in an order in which they can run."""
        numbers = {step.name: number for number, step in enumerate(self.steps)}
        declared = list(self.depends_on)

        def job(step: Step) -> Job:
            needs = tuple(numbers[name] for name in step.depends_on)
            before = sorted(numbers[name] for name in upstream(self.depends_on, step.name))
            sees = partial(self._sees, fork, step, before)
            return Job(declared.index(step.name), fork.cursor, sees, needs)

        return [job(step) for step in self.steps]

    def schedule(self, fork: Fork, jobs: Sequence[Job]) -> Schedule:
        """Return that each begins when those that it needs are done."""
        needs = [job.needs for job in jobs]
        how = self.agent.on_error
        return Schedule(needs, fork.control, on_error=how, in_steps=True, is_final=bool(self.undo))

    def keeps_failure(self, lane: Lane) -> bool:
        """Tell whether a failure is final: that of a step is, where steps can be undone."""
        return bool(self.undo) and lane.place.index < len(self.agent.steps)

    def finish(self, fork: Fork, results: Results) -> None:
        """Undo what was done if a step failed, and say so."""
        failed: dict[str, Exception] = {}
        undoing = self._undoing(fork, results, self.tasks)
        for number, (name, start, schedule) in enumerate(undoing, len(self.steps)):
            try:
                run_tasks([start], schedule, first=number)
            except GraphBubbleUp:
                raise
            except Exception as error:
                failed[name] = error
        self._check(fork, results, failed)

    async def afinish(self, fork: Fork, results: Results) -> None:
        """Undo what was done if a step failed, on the event loop."""
        failed: dict[str, Exception] = {}
        undoing = self._undoing(fork, results, self.atasks)
        for number, (name, start, schedule) in enumerate(undoing, len(self.steps)):
            try:
                await arun_tasks([start], schedule, first=number)
            except GraphBubbleUp:
                raise
            except Exception as error:
                failed[name] = error
        self._check(fork, results, failed)

    def failure(self, fork: Fork, error: Exception) -> Exception:
        """Return the error that names the step which failed."""
        if isinstance(error, StepFailedError) and error.workflow == fork.address:
            return error
        at, shown, _ = failures(error)[0]
        if at == fork.address:  # no step failed, but the join of what they wrote
            return error
        step = speaker_at(at.removeprefix(f"{fork.address}/").partition("/")[0])
        named = StepFailedError(fork.address, step, shown)
        join_failures(named, [error])
        keep_asked(named, asked_beside(error))
        return named

    def _sees(self, fork: Fork, step: Step, before: Sequence[int], results: Results) -> Surroundings:
        """Return what a step sees: its input, or what was said before it."""
        done = [results[number] for number in before]
        seen = fork.around
        for result in done:
            seen = seen.with_new(result["messages"], result["values"])
        if step.input is None:
            return seen
        said = {self.steps[n].name: last_text(results[n]) for n in before}
        text = fill_input(step.input, seen.values, said, step.name)
        given = with_id(HumanMessage(text), f"{fork.address} {step.name} {text}")
        return replace(seen, messages=[given])

    def _undoing(
        self, fork: Fork, results: Results, tasks: Sequence[Callable[..., Any]]
    ) -> Iterator[tuple[str, Callable[[], Any], Schedule]]:
        """Yield what undoes the finished steps if one failed, each with the name of its step."""
        for name, result in self._to_undo(results).items():
            fresh = fork._replace(control=inner_stop())
            seen = fork.around.with_new(result["messages"], result["values"])
            job = Job(self.undo[name], fork.cursor, _always(seen))
            schedule = Schedule([()], fresh.control)
            arrive = partial(schedule.arrive, 0)
            yield name, partial(tasks[job.lane], arrive, fresh, job, schedule, 0), schedule

    def _to_undo(self, results: Results) -> dict[str, LaneResult]:
        """Return what finished steps came to if one failed, by name: the last to finish first."""
        if not _failed(results):
            return {}
        done = [number for number, result in results.items() if "failed" not in result]
        done.sort(key=lambda number: results[number]["finished"], reverse=True)
        by_name = {self.steps[number].name: results[number] for number in done}
        return {name: result for name, result in by_name.items() if name in self.undo}

    def _check(self, fork: Fork, results: Results, failed: Mapping[str, Exception]) -> None:
        """Raise that a step failed, if one did, with what was undone and what could not be."""
        first = next(iter(_failed(results)), None)
        if first is None:
            return
        undone = [name for name in self._to_undo(results) if name not in failed]
        error = StepFailedError(
            fork.address,
            self.steps[first].name,
            results[first]["failed"],
            undone=undone,
            not_undone={name: shown_error(each) for name, each in failed.items()},
        )
        mark_failure(error, fork.address, self.site.place.name)
        join_failures(error, [*failed.values(), error])
        raise error


def _failed(results: Results) -> list[int]:
    """Return the numbers of the steps that failed, the first to fail first."""
    failed = [number for number, result in results.items() if "failed" in result]
    return sorted(failed, key=lambda number: results[number]["finished"])


def _always(seen: Surroundings) -> Callable[[Results], Surroundings]:
    return lambda results: seen
