"""The result of a run, as `invoke` returns it, with the used tokens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from agentgraph.agents.habits.names import hints_names
from agentgraph.errors import TurnFailedError
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.graph.nodes.spending import Counts
from agentgraph.graph.stamps import Note, speaker_at
from agentgraph.journal.entries import answers_of
from agentgraph.journal.pending import pending
from agentgraph.journal.replay import last_answer
from agentgraph.journal.schema import PrunedTurn
from agentgraph.journal.spent import Spent, counts_at, decisions_in, spent_in
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.thread_status import status_at, stop_reason_at
from agentgraph.journal.turn_lines import TurnLine
from agentgraph.reports.message_order import order_in_tree
from agentgraph.tree.places import Tree

_NONE: Counts = {}


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that models reported.

    Attributes:
        total: All tokens, as LangChain's `UsageMetadata`: "input_tokens", "output_tokens",
            "total_tokens", and details if the provider has them. All 0 if no model reported tokens.
        by_agent: The same by agent name; agents without tokens are left out.
    """

    total: UsageMetadata
    by_agent: Mapping[str, UsageMetadata]


def usage_of(events: Iterable[AgentEvent], counts: Counts = _NONE, before: Counts = _NONE) -> Usage:
    """Return the tokens of the messages in events, each once, and of decision models.

    Args:
        events: The events.
        counts: The counted spending of their turn.
        before: The counted spending of the turn before the events.
    """
    used = {each.id: each for each in events if not each.partial and each.usage}
    several = [(each.agent_name, each.usage) for each in used.values()]
    total, by_agent = add_usage(None, None), dict[str, UsageMetadata]()
    for name, usage in (*several, *decisions_in(before, counts).items()):
        total = add_usage(total, usage)
        by_agent[name] = add_usage(by_agent.get(name), usage)
    return Usage(total, by_agent)


@hints_names("Result")
@dataclass(frozen=True)
class Result:
    """The result of a turn, or of the part of the turn that ran.

    >>> runner = Runner(sequential("report", [function_agent("writer", lambda ctx: "A draft."),
    ...     human("boss", "Print it?")]))
    >>> result = runner.invoke("Go.", thread_id="monday")
    >>> result.status, result.text, [question.value for question in result.pending]
    ('paused', 'A draft.', ['Print it?'])
    >>> runner.invoke(thread_id="monday", answers="yes").status
    'done'

    Attributes:
        thread_id: The thread.
        events: The events, without chunks.
        pending: The open questions, in the order of the tree.
        values: The values of the run, as plain data.
        output: The answer of the last agent with an `output_schema` that ended in this turn, as an
            object of its type; None if there is none. It is LangChain's `structured_response`, made by
            the model, by a tool that ended the agent, or by middleware.
        counts: Counted usage of the turn's limits; see `spent`.
        error: The exception of a failed variant of `fork_many`; `invoke` raises it instead.
        is_stopped: Whether the run has ended before the end of the turn, by `Runner.stop` or, of a
            result that is read from the saver, in any other way.
        stop_reason: The reason that was passed to `Runner.stop`; None if no person stopped it.
        reason: The reason of the `Exit(reason=...)` that ended the run; None without one.
        before: Counted usage of the turn before these events; see `usage`.
        order: The indexes of the events that are messages of agents, in the order of the tree.
    """

    thread_id: str
    events: Sequence[AgentEvent] = field(repr=False)
    pending: Sequence[Interrupt] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None
    counts: Counts = field(default_factory=dict, repr=False)
    error: Any = None
    is_stopped: bool = False
    order: Sequence[int] = field(default=(), repr=False)
    stop_reason: str | None = None
    reason: str | None = None
    before: Counts = field(default_factory=dict, repr=False)

    @property
    def status(self) -> Literal["done", "paused", "failed", "stopped"]:
        """The status of the turn: "done", "paused" (questions are open), "failed" or "stopped".

        After "stopped", which `Runner.stop` causes, a resume continues the turn.
        """
        if self.error or self.pending:
            return "failed" if self.error else "paused"
        return "stopped" if self.is_stopped else "done"

    @property
    def message(self) -> BaseMessage | None:
        """The last message of an agent; None without messages.

        After concurrent branches, steps, items or calls, it is the message of the last declared one.
        """
        return next((each.message for each in self._replies()), None)

    @property
    def text(self) -> str:
        """The last text of an agent, in the order of `message`; empty without texts."""
        return next((each.text for each in self._replies() if each.text), "")

    def _replies(self) -> Iterator[AgentEvent]:
        return (self.events[index] for index in reversed(self.order))

    @property
    def usage(self) -> Usage:
        """The tokens of the messages of these events, and of the decision models of middleware."""
        return usage_of(self.events, self.counts, self.before)

    @property
    def spent(self) -> Spent:
        """Usage of the turn so far, in total and by agent, including the part before a resume."""
        return spent_in(self.counts, self.events)


async def result(
    saver: ThreadSaver, events: Sequence[AgentEvent], before: Sequence[Counts] = ()
) -> Result:
    """Return the result of a run that has ended, from its events and the thread's state.

    Args:
        saver: The thread.
        events: The events.
        before: The counted spending of the turn before the run, as the only item, if it is known.
    """
    asked = any(event.kind == "interrupted" for event in events)
    questions = await pending(saver) if asked else []
    snapshot = await saver.state()
    state, is_stopped = snapshot.values, bool(snapshot.next)
    counts, reason = state.get("position", {}).get("spent", {}), None
    if questions:
        counts = await counts_at(saver, await saver.checkpoint())
    elif is_stopped and (head := await saver.checkpoint()) is not None:
        counts, reason = await counts_at(saver, head), stop_reason_at(head)
    answer = await last_answer(saver) if _output_schemas(saver.tree) else None
    return replace(
        _result(saver, events, state, answer),
        pending=tuple(questions),
        counts=counts,
        before=before[0] if before else {},
        is_stopped=is_stopped,
        stop_reason=reason,
    )


async def result_of(saver: ThreadSaver, turn: TurnLine) -> Result:
    """Return the result of a turn from what is saved alone: with all of its events.

    That of the last turn has an error if it failed; an older one that did not end is "stopped".
    """
    events, end = turn.events(saver), turn.roots[0]
    if turn.is_last:
        last = await result(saver, events)
        has_failed = status_at(end, asks=bool(last.pending), is_running=False) == "failed"
        return replace(last, error=_failure(saver, events)) if has_failed else last
    state = (await saver.state("", end.id)).values
    answers = [each for each in answers_of(turn.story.lanes) if each.order]
    own = [each for each in answers if each.order and each.order.turn == turn.number]
    return replace(
        _result(saver, events, state, own[-1] if own else None),
        counts=await counts_at(saver, end),
        is_stopped=end.next_node is not None,
    )


def pruned_turn(tree: Tree, events: Sequence[AgentEvent], *, is_done: bool) -> PrunedTurn:
    """Return the rest of a turn that is pruned: whether it was done, and its last text."""
    texts = (events[index] for index in reversed(order_in_tree(tree, events)))
    reply = next((each for each in texts if each.text), None)
    return PrunedTurn(is_done=is_done, reply=None if reply is None else reply.to_dict())


def pruned_result(saver: ThreadSaver, pruned: PrunedTurn) -> Result:
    """Return the rest of the result of a turn that was pruned: its status and its text."""
    reply = pruned["reply"]
    events = () if reply is None else (AgentEvent.from_dict(reply),)
    order = range(len(events))
    return Result(saver.thread_id, events, order=order, is_stopped=not pruned["is_done"])


def _result(
    saver: ThreadSaver, events: Sequence[AgentEvent], state: Mapping[str, Any], answer: Note | None
) -> Result:
    """Return a result without the status of its turn.

    Args:
        saver: The thread.
        events: The events.
        state: LangGraph's state.
        answer: The note of the last structured answer; None if there is none.
    """
    output = None
    if answer is not None:
        from agentgraph.graph.chat.output import answer_format_of, restored

        schema = _output_schemas(saver.tree).get(speaker_at(answer.address))
        output = restored(answer_format_of(schema), answer.data)
    return Result(
        saver.thread_id,
        tuple(events),
        values=state.get("values", {}),
        reason=state.get("position", {}).get("reason"),
        output=output,
        order=order_in_tree(saver.tree, events),
    )


def _failure(saver: ThreadSaver, events: Sequence[AgentEvent]) -> TurnFailedError:
    failed = next((each for each in reversed(events) if each.kind == "error"), None)
    if failed is None:
        return TurnFailedError(saver.thread_id, saver.tree.root.name, "its last run failed")
    return TurnFailedError(saver.thread_id, failed.address, failed.error or "")


def _output_schemas(tree: Tree) -> dict[str, object]:
    chats = {place.name: place.chat for place in tree.places if place.chat is not None}
    return {
        name: agent.output_schema for name, agent in chats.items() if agent.output_schema is not None
    }
