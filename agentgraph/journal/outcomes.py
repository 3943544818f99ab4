"""The outcomes of the steps of agents in a story: one judgement for all reports."""

from typing import NamedTuple

from agentgraph.graph.stamps import event_order, seconds, time_in
from agentgraph.journal.saved import COPIED, Saved
from agentgraph.journal.states import State
from agentgraph.journal.step_runs import StepRuns, errors_at
from agentgraph.journal.steps import AgentStep
from agentgraph.journal.story import Story


class Outcome(NamedTuple):
    """The outcome of a step.

    Attributes:
        began: When it began, in seconds since 1970.
        ended: When it ended; None if it has not.
        state: Its state.
        error: How it failed; empty if it did not.
    """

    began: float
    ended: float | None
    state: State
    error: str = ""


def outcome_of(story: Story, agent_step: AgentStep, began: float = 0.0) -> Outcome:
    """Return the outcome of a step.

    Args:
        story: The story.
        agent_step: The step.
        began: When it began at the earliest, if more is known than when what runs it began.
    """
    return _Judge(story, agent_step).outcome(max(began, agent_step.visit.time))


class _Judge:
    def __init__(self, story: Story, agent_step: AgentStep) -> None:
        self._story, self._agent_step, self._runs = story, agent_step, story.runs_of(agent_step.root)

    def outcome(self, began: float) -> Outcome:
        """Return the outcome of the step, given when it began."""
        if self._agent_step.task is not None:
            return self._leaf(began)
        agent_step, runs = self._agent_step, self._runs
        is_past = self._story.is_past(agent_step.saved.namespace)
        if agent_step.after is not None and _has_ended(agent_step.after):
            state = State.VOID if is_past else State.DONE
            return Outcome(began, max(agent_step.after.first_time, began), state)
        over, error = self._abandoned_at(), self._error()
        if over is not None or is_past:
            ended = error[1] if error else (over if over is not None else runs.last_sign)
            state = State.FAILED if error else State.VOID
            return Outcome(began, max(ended, began), state, error[0] if error else "")
        is_parallel = agent_step.place.kind.is_parallel or agent_step.place.kind.runs_agents
        if runs.waits(agent_step.visit.address) and not is_parallel:
            return Outcome(began, None, State.ASKS)
        if error is not None:
            return Outcome(began, max(error[1], began), State.FAILED, error[0])
        return Outcome(began, None, _open(runs))

    def _leaf(self, began: float) -> Outcome:
        agent_step, runs = self._agent_step, self._runs
        result = agent_step.saved.results.get(agent_step.task or "")
        if result is not None:
            orders = [event_order(each) for each in result.get("messages") or ()]
            finished = result.get("finished")
            times = [each.time for each in orders if each is not None]
            ended = max([began, *(times if finished is None else [seconds(finished)])])
            failed = result.get("failed")
            return Outcome(began, ended, State.FAILED if failed else State.DONE, str(failed or ""))
        note = runs.failure(agent_step.visit.address, agent_step.visit.time)
        over = self._abandoned_at() if agent_step.after is None else agent_step.after.time
        resumed = max((each.time for each in runs.resumptions), default=0.0)
        if note is not None and (over is not None or time_in(note) > resumed):
            return Outcome(began, max(time_in(note), began), State.FAILED, str(note.data))
        if over is not None:
            return Outcome(began, max(over, began), State.VOID)
        return Outcome(began, None, _open(runs))

    def _abandoned_at(self) -> float | None:
        """Return when the agent around an unfinished step continued without it; None if it has not."""
        parents = self._agent_step.saved.metadata.get("parents", {})
        later = [self._agent_step.after, *(self._story.after.get(key) for key in parents.items())]
        times = [self._end_before(each) for each in later if each is not None]
        return min(times, default=None)

    def _end_before(self, after: Saved) -> float:
        """Return when the step ended that a checkpoint followed; as far as is known if it did not."""
        if _has_ended(after):
            return after.time
        return min(self._runs.last_sign, after.time)  # a new turn dropped it

    def _error(self) -> tuple[str, float] | None:
        """Return the error of the last run of a step that has not ended, and when; None without one."""
        runs, visit = self._runs, self._agent_step.visit
        last = runs.resumptions[-1].time if runs.resumptions else 0.0
        note = runs.failure(visit.address, visit.time)
        if note is not None and (time_in(note) > last or not runs.is_running):
            return str(note.data), time_in(note)
        errors = errors_at(self._agent_step.saved)
        if errors and not (runs.is_running and runs.resumptions):
            return errors[-1], runs.last_sign
        return None


def _open(runs: StepRuns) -> State:
    return State.RUNNING if runs.is_running else State.STOPPED


def _has_ended(after: Saved) -> bool:
    """Return whether the step before a checkpoint ended with it, or with the one that it copies."""
    return after.metadata.get("source") == "loop" or COPIED in after.metadata
