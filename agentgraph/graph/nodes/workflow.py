"""The node of a workflow: runs steps as their dependencies end, and undoes them on a failure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import cast

from langchain_core.messages import HumanMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from agentgraph.agents.agents import Step, WorkflowAgent
from agentgraph.agents.context import Context
from agentgraph.agents.dependencies import in_order, upstream
from agentgraph.agents.kinds import output_keys
from agentgraph.agents.middleware import Mode
from agentgraph.agents.templates import StepResult, fill_input
from agentgraph.errors import InvalidOutputError, StepFailedError
from agentgraph.graph.failures import (
    add_concurrent_questions,
    concurrent_questions,
    failures,
    is_fatal,
    join_failures,
    mark_failure,
)
from agentgraph.graph.message_changes import with_id
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked, look_up
from agentgraph.graph.nodes.concurrency import BRANCHES
from agentgraph.graph.nodes.context import ActivationContext, NodeContext, RunState
from agentgraph.graph.nodes.gated_task import Start
from agentgraph.graph.nodes.lane import Lane, LaneResult, last_text, value_of, without_running
from agentgraph.graph.nodes.lanes_node import Job, LanesNode, Results
from agentgraph.graph.nodes.leaf_lane import in_its_task, shows_graphs
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import inner_stop
from agentgraph.graph.nodes.task_calls import arun_tasks, run_tasks
from agentgraph.graph.nodes.view import View
from agentgraph.graph.pictures import Picture, picture_of
from agentgraph.graph.saving import has_begun, last_position
from agentgraph.graph.stamps import speaker_at
from agentgraph.safe_repr import shown, shown_error
from agentgraph.tree.addresses import entered


class WorkflowNode(LanesNode):
    """Runs the steps. If some can be undone, a failure is final and saved as a result.

    So a resume finds which steps had finished, in which order, and that one failed. Steps are undone by
    tasks, one after the other, so it finds what was undone, too.

    A step that was stopped by the failure has a result that says so. One without a result was running
    when the process died, if its lane has saved anything: a resume runs it to its end, and undoes it.
    So such a step has a graph, even if it is one leaf; and one with a `when`, which is asked once.
    """

    def __init__(self, node_context: NodeContext, lanes: Sequence[Lane]) -> None:
        self.agent = cast(WorkflowAgent, node_context.place.agent)
        steps = {step.name: step for step in self.agent.steps}
        self.depends_on = {name: step.depends_on for name, step in steps.items()}
        self.steps = [steps[name] for name in in_order(self.depends_on)]
        self._numbers = {step.name: number for number, step in enumerate(self.steps)}
        undone = [step.name for step in self.agent.steps if step.compensate is not None]
        self.undo = {name: len(steps) + i for i, name in enumerate(undone)}
        self.may_skip = any(step.when is not None for step in self.steps)
        super().__init__(node_context, [self._in_its_task(n, lane) for n, lane in enumerate(lanes)])

    @property
    def picture(self) -> Picture:
        """The drawing inside the node: each step after those it needs, dotted if it may be skipped."""
        steps, lanes = self.agent.steps, self.lanes
        nodes = {step.name: lane.place.node for step, lane in zip(steps, lanes, strict=False)}
        predecessors = {nodes[step.name]: [nodes[name] for name in step.depends_on] for step in steps}
        undo = [lane.place.node for lane in lanes[len(steps) :]]
        undoing = dict(zip([nodes[name] for name in self.undo], undo, strict=True))
        skipped = {nodes[step.name] for step in steps if step.when is not None}
        return picture_of(lanes, predecessors=predecessors, undoing=undoing, skipped=skipped)

    async def jobs(self, activation: Activation) -> list[Job]:
        """Return a job for each step, each after its dependencies."""
        return self._jobs(activation)

    async def not_run(self, activation: Activation, job: Job, results: Results) -> LaneResult | None:
        """Return the result of a step whose `when` is not true; it is not asked of one that has begun.

        After another one has failed permanently, also of one that had not begun, or that nothing undoes
        and that had not ended.
        """
        step = self.agent.steps[job.lane] if job.lane < len(self.agent.steps) else None
        if job.if_begun and step is not None:
            begun = await last_position(get_config())
            is_run = begun is not None and (step.compensate is not None or begun["next"] is None)
            return None if is_run else without_running("stopped")
        if step is None or step.when is None or await has_begun(get_config()):
            return None
        context = self._context(activation.view, job, step, results)
        return None if await look_up("when", step.when, context) else without_running("skipped")

    def _context(self, view: View, job: Job, step: Step, results: Results) -> ActivationContext:
        place, seen = self.lanes[job.lane].place, self._seen(view, step, results)
        return ActivationContext(place, entered(place, job.cursor), self.node_context.paths, seen)

    def schedule(self, jobs: Sequence[Job]) -> Schedule:
        """Return a schedule in which each step begins when its dependencies are done."""
        needs = [job.needs for job in jobs]
        how = self.agent.on_error
        return Schedule(
            needs,
            inner_stop(),
            on_error=how,
            in_steps=True,
            is_final=bool(self.undo),
            at_once=BRANCHES,
        )

    def keeps_failure(self, lane: Lane) -> bool:
        """Return whether a failure is final: that of a step is, if steps can be undone."""
        return bool(self.undo) and lane.place.index < len(self.agent.steps)

    def finish(self, activation: Activation, results: Results) -> None:
        """If a step failed, undo the finished ones and raise the error."""
        results, failed = {**results}, dict[str, Exception]()
        for number, start, schedule in self._in_flight(activation, results, "sync"):
            results[number] = run_tasks(start, schedule, first=number)[0]
        for number, name, start, schedule in self._undoing(activation, results, "sync"):
            with _noted(failed, name):
                run_tasks(start, schedule, first=number)
        self._check(activation, results, failed)

    async def afinish(self, activation: Activation, results: Results) -> None:
        """If a step failed, undo the finished ones on the event loop and raise the error."""
        results, failed = {**results}, dict[str, Exception]()
        for number, start, schedule in self._in_flight(activation, results, "async"):
            results[number] = (await arun_tasks(start, schedule, first=number))[0]
        for number, name, start, schedule in self._undoing(activation, results, "async"):
            with _noted(failed, name):
                await arun_tasks(start, schedule, first=number)
        self._check(activation, results, failed)

    def failure(self, activation: Activation, error: BaseException) -> BaseException:
        """Return the error that names the failed step."""
        is_named = isinstance(error, StepFailedError) and error.workflow == activation.address
        if is_named or is_fatal(error):
            return error
        at, text, _ = failures(error)[0]
        if at == activation.address:  # no step failed, but joining their values did
            return error
        step = speaker_at(at.removeprefix(f"{activation.address}/").partition("/")[0])
        named = StepFailedError(activation.address, step, text)
        join_failures(named, [error])
        add_concurrent_questions(named, concurrent_questions(error))
        return named

    def _in_its_task(self, index: int, lane: Lane) -> Lane:
        """Return the lane of a step, which needs no graph if it is one leaf, and nothing is undone."""
        has_graph = bool(self.undo) or self.agent.steps[index].when is not None
        return lane if has_graph else in_its_task(lane)

    def keeps_graphs(self, activation: Activation) -> bool:
        """Return whether steps run in their graphs, because a consumer sees these."""
        return shows_graphs(activation, self.lanes)

    def _jobs(self, activation: Activation) -> list[Job]:
        numbers, declared = self._numbers, list(self.depends_on)

        def job(step: Step) -> Job:
            needs = tuple(numbers[name] for name in step.depends_on)
            sees = partial(self.sees, activation.view, step)
            made = Job(declared.index(step.name), activation.cursor, sees, needs)
            if not callable(step.input):
                return made
            return made._replace(asks=partial(self._asking, activation.view, made, step))

        return [job(step) for step in self.steps]

    def _seen(self, view: View, step: Step, results: Results) -> RunState:
        """Return the state before the workflow, with what the steps before a step said and wrote."""
        seen = view.seen
        for number in self._before(step):
            values = seen.reducers.shared_writes(results[number]["values"])
            seen = seen.with_new(results[number]["messages"], values)
        return seen

    def _before(self, step: Step) -> list[int]:
        return sorted(self._numbers[name] for name in upstream(self.depends_on, step.name))

    def sees(self, view: View, step: Step, results: Results) -> RunState:
        """Return the state that a step sees, and its input as the only message if it has one."""
        seen = self._seen(view, step, results)
        if not isinstance(step.input, str):
            return seen
        given = {self.steps[n].name: self._result_of(n, results[n]) for n in self._before(step)}
        return _requested(view, step, seen, fill_input(step.input, seen.values, given, step.name))

    async def _asking(self, view: View, job: Job, step: Step, results: Results) -> RunState:
        """Return the state that a step sees for which the function of `input` makes the request.

        Raises:
            InvalidOutputError: It returned no text.
        """
        context = self._context(view, job, step, results)
        fn = cast(Callable[[Context], object], step.input)
        text = await asked(context.address, "input", fn, context)
        if not isinstance(text, str):
            raise InvalidOutputError(
                f"{context.address}: the input function of the step returned {shown(text)}; return a "
                "text"
            )
        return _requested(view, step, self._seen(view, step, results), text)

    def _result_of(self, number: int, result: LaneResult) -> StepResult:
        data = value_of(
            result, self.node_context.reducers, frozenset(output_keys(self.steps[number].agent))
        )
        return StepResult(last_text(result), data, "skipped" in result)

    def _in_flight(
        self, activation: Activation, results: Results, mode: Mode
    ) -> Iterator[tuple[int, Start, Schedule]]:
        """If a step failed in a resumed run, yield number, task, schedule of each without a result."""
        if not (_failed(results) and activation.is_resumed):
            return
        for number, job in enumerate(self._jobs(activation)):
            if number in results or not all(_is_done(results.get(need)) for need in job.needs):
                continue
            schedule = Schedule([()], inner_stop(is_owed=True), is_over=self.agent.on_error == "fail")
            again = _again(job, results)
            task = self.tasks[job.lane][mode]
            yield number, task.start_with(activation, again, schedule, number), schedule

    def _undoing(
        self, activation: Activation, results: Results, mode: Mode
    ) -> Iterator[tuple[int, str, Start, Schedule]]:
        """If a step failed, yield for each step to undo: task number, name, task and schedule."""
        for name, result in self._to_undo(results).items():
            seen = after_step(activation.view, result)
            number = self.undo[name]
            job = Job(number, activation.cursor, _always(seen))
            schedule = Schedule([()], inner_stop(is_owed=True))
            task = self.tasks[number][mode]
            yield number, name, task.start_with(activation, job, schedule, 0), schedule

    def _to_undo(self, results: Results) -> dict[str, LaneResult]:
        """If a step failed, return the results of the finished ones, the last to finish first."""
        if not _failed(results):
            return {}
        done = [n for n, result in results.items() if _is_done(result) and "skipped" not in result]
        done.sort(key=lambda number: results[number]["finished"], reverse=True)
        by_name = {self.steps[number].name: results[number] for number in done}
        return {name: result for name, result in by_name.items() if name in self.undo}

    def _check(self, activation: Activation, results: Results, failed: Mapping[str, Exception]) -> None:
        """If a step failed, raise the error, which lists the steps that were and were not undone."""
        first = next(iter(_failed(results)), None)
        if first is None:
            return
        undone = [name for name in self._to_undo(results) if name not in failed]
        error = StepFailedError(
            activation.address,
            self.steps[first].name,
            results[first]["failed"],
            undone=undone,
            not_undone={name: shown_error(each) for name, each in failed.items()},
        )
        mark_failure(error, activation.address, self.node_context.place.name)
        join_failures(error, [*failed.values(), error])
        raise error


def _requested(view: View, step: Step, seen: RunState, text: str) -> RunState:
    message = with_id(HumanMessage(text), f"{view.address} {step.name} {text}")
    return replace(seen, messages=[message])


@contextmanager
def _noted(failed: dict[str, Exception], name: str) -> Iterator[None]:
    """Collect the failure of an undo, so that the other undos still run."""
    try:
        yield
    except GraphBubbleUp:
        raise
    except Exception as error:
        if is_fatal(error):
            raise
        failed[name] = error


def _failed(results: Results) -> list[int]:
    failed = [number for number, result in results.items() if "failed" in result]
    return sorted(failed, key=lambda number: results[number]["finished"])


def after_step(view: View, result: LaneResult) -> RunState:
    """Return the state that what undoes a step sees: before the workflow, and what the step did."""
    values = view.state.reducers.shared_writes(result["values"])
    return view.seen.with_new(result["messages"], values)


def _is_done(result: LaneResult | None) -> bool:
    return result is not None and not {"failed", "stopped"} & result.keys()


def _again(job: Job, results: Results) -> Job:
    """Return the job of a step that runs again alone, given the results of those that it needs."""
    asks = job.asks
    again = job._replace(sees=lambda _: job.sees(results), needs=(), if_begun=True)
    return again if asks is None else again._replace(asks=lambda _: asks(results))


def _always(seen: RunState) -> Callable[[Results], RunState]:
    return lambda results: seen
