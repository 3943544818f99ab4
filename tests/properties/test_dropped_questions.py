"""Random trees whose questions are dropped by a new turn: what had finished is kept, and said once."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Any

import scripts
import specs
from building import build
from comparison import check_events, check_traces, errors, errors_in, expected_events, name_at, whole
from conversations import MOST_RESUMES, Case, Thread
from forks import written_keys
from helpers import Drive, Sync, unvoided
from hypothesis import event, given
from lanes import Kept, Lane, Said, agent_at
from langchain_core.messages import BaseMessage, ToolMessage
from record import Record, rendered, steps
from test_spine import DRIVES, cases, share

import agentgraph as ag
from agentgraph.threads.turns import UNFINISHED
from agentgraph.tree.layout import lay_out

LEAVE_IT = "leave it"
"""What the user says instead of an answer."""


def _up_to_questions(thread: Thread) -> bool:
    """Run a turn, answer some questions, and return whether others are left then."""
    thread.run("hello")
    for _ in range(MOST_RESUMES):
        questions = thread.pending()
        if not questions and thread.error is None:
            return False
        if questions and thread.choices.random() < 0.6:
            return True
        thread.answer_some(questions)
    raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def _second_turn(thread: Thread) -> dict[str, Any]:
    """Return the state with which the second turn begins."""
    config: Any = {"configurable": {"thread_id": thread.id}}
    reader = Thread(thread.case, Sync)
    reader.memory = thread.memory
    states = [each.values for each in reader.runner(thread.memory).graph.get_state_history(config)]
    return list(takewhile(lambda state: _has_begun(state.get("messages", [])), states))[-1]


def _has_begun(messages: Sequence[BaseMessage]) -> bool:
    return any(each.text == LEAVE_IT and not each.name for each in messages if each.type == "human")


def _modes(address: str, tree: specs.Spec) -> set[str]:
    """Return how much others see of what is said at an address, by the items and calls around it."""
    by_name = {spec.name: spec for spec in specs.walk(tree) if not isinstance(spec, specs.Checked)}
    parts = pairwise(address.split("/"))
    around = [by_name[name_at(before)] for before, part in parts if "(" in part]
    return {each.mode if isinstance(each, specs.Each) else "none" for each in around}


def _check_kept(
    record: Record, heard: Sequence[ag.AgentEvent], kept: Sequence[BaseMessage], tree: specs.Spec
) -> None:
    """Check that what was reported and is not void is kept, once, and of calls the real results.

    Only a hook that jumps to the end leaves calls open.

    What an agent says that runs as a tool is for itself, as is that of items of the mode "none".
    """
    jumps = "does='end'" in repr(tree)
    words = [each for each in unvoided(heard) if each.message]
    said = {each.id: each.message for each in words if _modes(each.address, tree) <= {"full"}}
    ids = [message.id for message in kept]
    assert {each.id for each in words if "none" in _modes(each.address, tree)}.isdisjoint(ids)
    assert len(set(ids)) == len(ids)
    assert not Counter(map(repr, rendered(list(said.values())))) - Counter(map(repr, rendered(kept)))
    calls = {}
    for message in kept:
        if isinstance(message, ToolMessage):
            call = calls.pop(message.tool_call_id)
            if call["name"] in ("say", "act") and record.ran[scripts.key(call["args"])]:
                assert message.text != UNFINISHED
        else:
            assert jumps or not calls
            calls = {each["id"]: each for each in getattr(message, "tool_calls", ())}
    assert jumps or not calls


def _staying(tree: specs.Spec) -> set[str]:
    """Return the values that only items see."""
    eaches = [spec for spec in specs.walk(tree) if isinstance(spec, specs.Each)]
    return {"item"}.union(*(written_keys(each.agent) for each in eaches if each.output_key))


def _lane(
    heard: Sequence[ag.AgentEvent],
    messages: Sequence[BaseMessage],
    begun: dict[str, Any],
    tree: ag.Agent,
) -> Lane:
    """Return the lane in which a turn begins after what is kept."""
    paths = {each.address: steps(each.run_path) for each in heard}
    history = []
    for message, plainly in zip(messages, rendered(messages), strict=True):
        at, *_ = message.response_metadata.get("agentgraph", (None,))
        known = (name_at(agent_at(at)), at, paths[at]) if at else ()
        history.append(Said(plainly, *known))
    first = [said for said in history if said.agent is None][:1]
    keys = {message.id: said.key for message, said in zip(messages, history, strict=True)}
    kept = _of_middleware(begun.get("middleware", {}), keys, tree)
    values = dict(begun["values"])
    active = {name: value for name, value in values.items() if name.endswith(specs.ACTIVE)}
    return Lane(history=history, values=values, input=first, kept=kept, written=[active])


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
                keys.get(before): [(object(), said) for said in rendered(several)]
                for before, several in added.items()
                if before in {None, *keys}
            },
            {keys[name]: rendered([m])[0] for name, m in record.get("replaced", {}).items()},
        )
    return found


ASKING = cases().filter(lambda case: "interrupted" in repr(case.tree) or "Human(" in repr(case.tree))


@share(0.2)
@given(ASKING, DRIVES)
def test_a_turn_that_drops_questions_keeps_what_had_finished(case: Case, drive: Drive) -> None:
    thread = Thread(case, drive)
    if not _up_to_questions(thread):
        event("no question is left")
        return
    heard, record, passed = [*thread.heard], thread.record_anew(), len(thread.passed)
    thread.run(LEAVE_IT, drop_pending=True)
    begun = _second_turn(thread)
    *kept, text = begun["messages"]
    assert text.text == LEAVE_IT
    event(f"{min(len(kept), 4)} messages kept")
    _check_kept(record, heard, kept, case.tree)
    assert _staying(case.tree).isdisjoint(begun.get("values", {}))
    lane = _lane(heard, kept, begun, build(case.tree, Record()))
    thread.finish()
    expected = expected_events(case.tree, lane, LEAVE_IT)
    assert unvoided(whole(thread.heard)) == thread.events()
    second = [each for each in thread.heard if each.turn == 1]
    check_events(second, expected)
    assert errors(second) == errors_in(expected)
    state = thread.state()
    assert rendered(state["messages"]) == [said.message for said in lane.history]
    assert state["values"] == lane.values
    assert thread.record.ran == lane.ran
    check_traces(thread.passed[passed:], lane)
