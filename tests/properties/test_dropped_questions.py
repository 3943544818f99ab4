"""Random trees whose questions are dropped by a new turn: what had finished is kept, and said once."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import takewhile
from typing import Any
from uuid import uuid4

import scripts
from building import build, declared
from comparison import check_told, errors, errors_in, expected_events, name_at, whole
from conversations import MOST_RESUMES, Case, as_argument, some_of
from helpers import standing
from hypothesis import event, given
from lanes import Kept, Lane, Said
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from record import FailedError, Record, rendered, steps
from test_spine import cases, share

import agentgraph as ag
from agentgraph.tree.places import lay_out

LEAVE_IT = "leave it"
"""What the user says instead of an answer."""
NOT_FINISHED = "The call was not finished."


class Thread:
    """A thread in memory, of which each call has a new runner, sync or async."""

    def __init__(self, case: Case, *, is_async: bool) -> None:
        self.case, self.is_async = case, is_async
        self.saver, self.id = InMemorySaver(), str(uuid4())
        self.told: list[ag.AgentEvent] = []

    def runner(self, record: Record) -> ag.Runner:
        """Return a runner whose agents record what they see."""
        values = declared(self.case.tree)
        return ag.Runner(build(self.case.tree, record), checkpointer=self.saver, values=values)

    def call(self, record: Record, method: str, *args: Any, **options: Any) -> bool:
        """Add what a call tells, and return whether it failed."""
        runner = self.runner(record)
        try:
            if self.is_async:
                asyncio.run(self._follow(getattr(runner, f"a{method}")(*args, **options)))
            else:
                self.told.extend(getattr(runner, method)(*args, **options))
        except (FailedError, ag.StepFailedError):
            return True
        return False

    def events(self) -> list[ag.AgentEvent]:
        """Return what the thread tells again."""
        told = self.told
        self.told = again = []
        assert not self.call(Record(), "events", self.id)
        self.told = told
        return again

    async def _follow(self, events: AsyncIterator[ag.AgentEvent]) -> None:
        async for each in events:
            self.told.append(each)

    def states(self) -> Iterator[dict[str, Any]]:
        """Yield the states of the thread, the last one first."""
        graph = self.runner(Record()).graph
        config: Any = {"configurable": {"thread_id": self.id}}
        yield from (state.values for state in graph.get_state_history(config))


def _up_to_questions(thread: Thread, record: Record, choices: random.Random) -> bool:
    """Run a turn, answer some questions, and return whether others are left then."""
    failed = thread.call(record, "run", "hello", thread_id=thread.id, values=thread.case.values)
    for _ in range(MOST_RESUMES):
        questions = thread.runner(record).pending(thread.id)
        if not questions and not failed:
            return False
        if questions and choices.random() < 0.6:
            return True
        answers = as_argument(some_of(questions, choices), questions, choices)
        failed = thread.call(record, "resume", thread.id, *answers)
    raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def _begun(thread: Thread) -> dict[str, Any]:
    """Return the state with which the second turn begins."""
    with_it = takewhile(lambda state: _is_there(state.get("messages", [])), thread.states())
    return list(with_it)[-1]


def _is_there(messages: Sequence[BaseMessage]) -> bool:
    return any(each.text == LEAVE_IT and not each.name for each in messages if each.type == "human")


def _check_kept(
    record: Record, told: Sequence[ag.AgentEvent], kept: Sequence[BaseMessage], *, jumps: bool
) -> None:
    """Check that what was told and is not void is kept, once, and of calls the real results.

    Only a hook that jumps to the end leaves calls open.

    What an agent says that runs as a tool is for itself: its address has the number of the call.
    """
    words = [each for each in standing(told) if each.message and "(" not in each.address]
    said = {each.id: each.message for each in words}
    ids = [message.id for message in kept]
    assert len(set(ids)) == len(ids)
    lost = Counter(map(repr, rendered(list(said.values())))) - Counter(map(repr, rendered(kept)))
    assert not lost
    calls = {}
    for message in kept:
        if isinstance(message, ToolMessage):
            call = calls.pop(message.tool_call_id)
            if call["name"] in ("say", "act") and record.ran[scripts.key(call["args"])]:
                assert message.text != NOT_FINISHED
        else:
            assert jumps or not calls
            calls = {each["id"]: each for each in getattr(message, "tool_calls", ())}
    assert jumps or not calls


def _lane(
    told: Sequence[ag.AgentEvent],
    messages: Sequence[BaseMessage],
    begun: dict[str, Any],
    tree: ag.Agent,
) -> Lane:
    """Return the lane in which a turn begins behind what is kept."""
    paths = {each.address: steps(each.run_path) for each in told}
    history = []
    for message, plainly in zip(messages, rendered(messages), strict=True):
        at = message.response_metadata.get("agentgraph")
        known = (name_at(at), at, paths[at]) if at else ()
        history.append(Said(plainly, *known))
    first = [said for said in history if said.agent is None][:1]
    keys = {message.id: said.key for message, said in zip(messages, history, strict=True)}
    kept = _of_middleware(begun.get("middleware", {}), keys, tree)
    return Lane(history=history, values=dict(begun["values"]), input=first, kept=kept)


def _of_middleware(records: Any, keys: dict[Any, Any], tree: ag.Agent) -> dict[str, Kept]:
    """Return what the middleware of agents keeps, by their places."""
    places, found = lay_out(tree).by_node, {}
    for node, record in records.items():
        at: Any = places[node]
        segments = [at.segment]
        while at := at.parent:
            segments.insert(0, at.segment)
        added = {None: record.get("beginning", {}).get("head", ()), **record.get("added", {})}
        found["/".join(segments)] = Kept(
            dict(record.get("state", {}).get("counts", {})),
            {
                keys.get(behind): [(object(), said) for said in rendered(several)]
                for behind, several in added.items()
                if behind in {None, *keys}
            },
            {keys[name]: rendered([m])[0] for name, m in record.get("replaced", {}).items()},
        )
    return found


def _try(case: Case, *, is_async: bool) -> None:
    thread, record, choices = Thread(case, is_async=is_async), Record(), random.Random(case.seed)
    if not _up_to_questions(thread, record, choices):
        event("no question is left")
        return
    before, after = [*thread.told], Record()
    failed = thread.call(after, "run", LEAVE_IT, thread_id=thread.id, drop_pending=True)
    begun = _begun(thread)
    *kept, text = begun["messages"]
    assert text.text == LEAVE_IT
    event(f"{min(len(kept), 4)} messages kept")
    _check_kept(record, before, kept, jumps="does='end'" in repr(case.tree))
    if failed or thread.runner(after).pending(thread.id):
        _finish(thread, after, choices)
    lane = _lane(before, kept, begun, build(case.tree, Record()))
    expected = expected_events(case.tree, lane, LEAVE_IT)
    assert standing(whole(thread.told)) == thread.events()
    second = [each for each in thread.told if each.turn == 1]
    check_told(second, expected)
    assert errors(second) == errors_in(expected)
    last = next(thread.states())
    assert rendered(last["messages"]) == [said.message for said in lane.history]
    assert last["values"] == lane.values
    assert after.ran == lane.ran


def _finish(thread: Thread, record: Record, choices: random.Random) -> None:
    """Answer and resume until the turn has ended."""
    for _ in range(MOST_RESUMES):
        questions = thread.runner(record).pending(thread.id)
        answers = as_argument(some_of(questions, choices), questions, choices)
        failed = thread.call(record, "resume", thread.id, *answers)
        if not failed and not thread.runner(record).pending(thread.id):
            return
    raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


@share(0.03)
@given(cases().filter(lambda case: "interrupted" in repr(case.tree) or "Human(" in repr(case.tree)))
def test_a_turn_that_drops_questions_keeps_what_had_finished(case: Case) -> None:
    _try(case, is_async=False)


@share(0.03)
@given(cases().filter(lambda case: "interrupted" in repr(case.tree) or "Human(" in repr(case.tree)))
def test_an_async_turn_that_drops_questions_keeps_what_had_finished(case: Case) -> None:
    _try(case, is_async=True)
