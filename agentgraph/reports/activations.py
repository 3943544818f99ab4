"""One activation of a thread in detail, from the checkpoints.

Only the steps since the start of the activation are read, and of other lines only their own steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import UsageMetadata

from agentgraph.errors import AgentGraphError
from agentgraph.graph.stamps import Entry, Note, is_steered, time_in
from agentgraph.journal.activations import address_in
from agentgraph.journal.changed_trees import read_thread
from agentgraph.journal.schema import RESUMED
from agentgraph.journal.states import ACTIVATION_STATUS, ActivationStatus, State
from agentgraph.journal.steps import AgentStep, last_start, used_in
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.activation_calls import Asked, ToolRun, questions_in, tool_runs
from agentgraph.reports.activation_steps import (
    Attempt,
    FoundActivation,
    attempts_of,
    became,
    find_activation,
)
from agentgraph.reports.seen_messages import seen_messages
from agentgraph.reports.views import Views
from agentgraph.reports.visits import VisitQuery, is_step
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import iteration

_SIGNALS = ("exit", "break_loop", "transfer_to", "chosen")


@dataclass(frozen=True, slots=True)
class ActivationReport:
    """One activation of an agent in detail, as its thread has stored it.

    Attributes:
        address: Its address.
        agent_name: The agent.
        kind: The kind of the agent: "chat", "function", "human", "graph", "node" (of a flattened
            graph), "sequential", "loop", "parallel", "workflow", "each", "switch" or "swarm".
        turn: The turn of the thread, from 0.
        iteration: The iteration of the nearest loop; None outside all loops.
        steps: Its steps, in order; a composite has the steps of all agents inside. A rerun starts at
            the first step.
        began: Start time, in seconds since 1970; after a resume, that of the last attempt.
        ended: End time, in seconds since 1970; None if it has not ended.
        status: "running", "asks" (a question is open), "failed", "done", or "stopped" (not ended, and
            no run is active).
        saw: The input of its model, its function or its graph at its first step, with the instruction
            as a system message; if a later step of a chat agent was requested, at that step. Empty for
            composites and people.
        said: Its messages, with the results of its tools; a composite has the last message inside.
        tools: Its tool calls, or the agents that it ran, in order.
        values_before: The values of the run at its start.
        values_after: The values of the run at its end; if it has not ended, at the start of its last
            step.
        usage: The tokens that its models reported; a composite has those of all agents inside.
        questions: Its questions.
        error: The text of its error; None without an error.
        attempts: Earlier attempts, and the same address on other history lines, oldest first.
        signal: Its signal at the end: "exit", "break_loop", "transfer_to NAME" or "chosen NAME".
        remarks: Parts of the report that are unknown, with the reason.
    """

    address: str
    agent_name: str
    kind: str
    turn: int
    iteration: int | None
    steps: list[str]
    began: float | None
    ended: float | None
    status: ActivationStatus
    saw: list[BaseMessage]
    said: list[BaseMessage]
    tools: list[ToolRun]
    values_before: Mapping[str, object]
    values_after: Mapping[str, object]
    usage: UsageMetadata
    questions: list[Asked]
    error: str | None
    attempts: list[Attempt]
    signal: str | None
    remarks: list[str]

    @property
    def changed(self) -> list[str]:
        """The names of the values that differ before and after the activation."""
        before, after = self.values_before, self.values_after
        names = dict.fromkeys([*before, *after])
        return [n for n in names if (n in before, before.get(n)) != (n in after, after.get(n))]


async def activation(
    saver: ThreadSaver, address_or_step: str, turn: int | None = None, line: str | None = None
) -> ActivationReport:
    """Return one activation of a thread in detail.

    Args:
        saver: The thread.
        address_or_step: As in `Runner.activation`.
        turn: The turn of an address; None for the last turn that reached the address.
        line: The latest checkpoint of a history line; None for the current line.

    Raises:
        UnknownThreadError: The saver has no such thread.
        UnknownAddressError: The thread has not reached the address.
        ThreadError: The thread has no such line; or as `read_thread` does.
        AgentGraphError: An argument is wrong.
    """
    if not isinstance(address_or_step, str) or not address_or_step:
        raise AgentGraphError(
            f"at={shown(address_or_step)} is neither an address nor a step; visits() lists both"
        )
    if turn is not None and is_step(address_or_step):
        raise AgentGraphError(f"a step is in one turn: leave turn={shown(turn)} out")
    await read_thread(saver)
    query = VisitQuery(saver.tree, address_or_step, turn)
    found, chosen = await find_activation(saver, query, line)
    entries = found.entries
    found.story.is_running = await saver.is_running() and await _has_head(saver, found)
    state, error = became(found)
    views = Views(saver, found.story)
    first, last = found.ends
    before = (await views.at(first)).state.values
    after = await views.after(found.own_steps, found.after(last))
    saw, remarks = await _saw(views, found, chosen)
    report = _report(found, entries, state, error)
    attempts = await attempts_of(saver, found, state)
    return replace(
        report,
        saw=saw,
        values_before=before,
        values_after=after,
        questions=questions_in(saver.tree, entries, lambda: found.agent_steps),
        attempts=attempts,
        remarks=[*views.remarks, *remarks],
    )


async def _has_head(saver: ThreadSaver, found: FoundActivation) -> bool:
    head = await saver.checkpoint()
    return head is not None and head.id in found.story.roots


async def _saw(
    views: Views, found: FoundActivation, chosen: AgentStep
) -> tuple[list[BaseMessage], list[str]]:
    if found.is_composite and not found.place.kind.is_flattened:
        return [], []
    asked = [e for e in found.agent_steps if e.visit.node == found.place.node]
    in_step = [e for e in asked if e.visit.step == chosen.visit.step]
    agent_step = next(iter([*in_step, *asked, *found.agent_steps]))
    seen = seen_messages(await views.at(agent_step), agent_step)
    return seen.messages, seen.remarks


def _began(agent_step: AgentStep) -> float:
    """Return the last start time of a step; for an unfinished step, the time of the last resume."""
    if agent_step.task is not None:
        return agent_step.visit.time
    if agent_step.after is not None:
        return last_start(agent_step.saved, agent_step.after)
    resumed = (time_in(note) for note in agent_step.root.notes if note.kind == RESUMED)
    kind = agent_step.place.kind
    begins_once = kind.is_parallel or kind.runs_agents or kind.asks
    began: float = agent_step.visit.time
    return began if begins_once else max([began, *resumed])


def _report(
    found: FoundActivation, entries: Sequence[Entry], state: State, error: str | None
) -> ActivationReport:
    first, last = found.agent_steps[0], found.ends[1]
    said = [e for e in entries if isinstance(e, BaseMessage) and not is_steered(e)]
    inside = [e for e in said if address_in(e) != found.at]  # a check writes at a composite's own
    kept = (inside or said)[-1:] if found.is_composite else said
    began = first.visit.time if found.is_composite else _began(first)
    return ActivationReport(
        address=found.at,
        agent_name=found.place.home.name,
        kind=found.place.kind.name,
        turn=found.turn,
        iteration=_iteration(found),
        steps=[*dict.fromkeys(agent_step.visit.step for agent_step in found.agent_steps)],
        began=began,
        ended=_ended(found, last, entries, state),
        status=ACTIVATION_STATUS[state],
        saw=[],
        said=kept,
        tools=tool_runs(found, said, state) if not found.is_composite else [],
        values_before={},
        values_after={},
        usage=used_in(said),
        questions=[],
        error=error,
        attempts=[],
        signal=signal_in(each for each in entries if address_in(each) == found.at),
        remarks=[],
    )


def _iteration(found: FoundActivation) -> int | None:
    place, agent_step = found.place, found.agent_steps[0]
    if not found.is_composite:
        return agent_step.visit.iteration
    names_one = place.kind.loops and found.at.endswith("]")
    counts = place.counts_inside if names_one else place.counts
    return iteration(place, agent_step.cursor[: len(counts)])


def _ended(
    found: FoundActivation, last: AgentStep, entries: Sequence[Entry], state: State
) -> float | None:
    if state is State.DONE and last.task is None and last.after is not None:
        return last.after.first_time
    if state is State.DONE and last.visit.duration is not None:
        return last.visit.time + last.visit.duration
    failed = [e.order.time for e in entries if isinstance(e, Note) and e.kind == "error" and e.order]
    return failed[-1] if state is State.FAILED and failed else None


def signal_in(entries: Iterable[Entry]) -> str | None:
    """Return the signal of an activation at its end, from its own entries."""
    notes = [each for each in entries if isinstance(each, Note) and each.kind in _SIGNALS]
    signals = [f"{each.kind} {each.data or ''}".strip() for each in notes]
    return signals[-1] if signals else None
