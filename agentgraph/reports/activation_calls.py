"""What one activation called and asked: tool calls, agents that a function ran, questions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Interrupt as LangGraphInterrupt

from agentgraph.events.events import Interrupt
from agentgraph.events.translation import question_of
from agentgraph.graph.internals import INTERRUPT, RESUME
from agentgraph.graph.paired_calls import answers_in, call_id, calls_of
from agentgraph.graph.stamps import Entry, Note, event_order, seconds
from agentgraph.graph.task_ids import joined
from agentgraph.graph.task_results import TAG
from agentgraph.journal.saved import Saved
from agentgraph.journal.states import TOOL_STATUS, State, ToolStatus
from agentgraph.journal.steps import AgentStep
from agentgraph.reports.activation_steps import FoundActivation
from agentgraph.tree.places import Tree


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool call of a chat agent, or an agent that a function ran.

    Attributes:
        name: The name of the tool, or of the agent.
        args: The arguments; of an agent that a function ran `{"request": ...}`.
        id: The id of the call; of an agent that a function ran its number or key.
        result: The text of the result; None without one.
        status: "done", "failed" (its result is an error, or it failed the activation), or "waits" (it
            has no result yet).
        began: When the model had asked for it, in seconds since 1970; None if that is not known.
        ended: When its result was emitted, in seconds since 1970; None without one.
    """

    name: str
    args: Mapping[str, object]
    id: str
    result: str | None
    status: ToolStatus
    began: float | None
    ended: float | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that an activation asked.

    Attributes:
        question: The question.
        answer: The answer, as it was saved; None if it has none.
        is_answered: Whether it has an answer that the saver still has.
    """

    question: Interrupt
    answer: object
    is_answered: bool


def tool_runs(found: FoundActivation, said: Sequence[BaseMessage], state: State) -> list[ToolRun]:
    """Return the calls of tools in what a chat agent said, or the agents that a function ran."""
    runs: list[ToolRun] = []
    began: dict[str | None, float] = {}
    for agent_step in found.agent_steps:
        began |= call_begins(agent_step.saved)
    for index, results in answers_in(said).items():
        message = said[index]
        for call, at in zip(calls_of(message), results, strict=True):
            result = None if at is None else cast(ToolMessage, said[at])
            args: object = call["args"]
            runs.append(
                ToolRun(
                    name=str(call["name"]),
                    args=args if isinstance(args, Mapping) else {"": args},
                    id=call_id(call),
                    result=None if result is None else str(result.text),
                    status=TOOL_STATUS[_state_of(result, state)],
                    began=_time(message) if at is None else began.get(said[at].id, _time(message)),
                    ended=None if result is None else _time(result),
                )
            )
    return [*runs, *_function_runs(found)]


def call_begins(saved: Saved) -> dict[str | None, float]:
    """Return when the calls of tools in a step began, by the ids of their messages."""
    results = [each for each in saved.results.values() if each[TAG] == "tool"]
    return {each.id: seconds(result["began"]) for result in results for each in result["messages"]}


def _state_of(result: ToolMessage | None, state: State) -> State:
    if result is None:
        return State.FAILED if state is State.FAILED else State.RUNNING
    return State.FAILED if result.status == "error" else State.DONE


def _time(message: BaseMessage) -> float | None:
    order = event_order(message)
    return order.time if order else None


def _function_runs(found: FoundActivation) -> Iterator[ToolRun]:
    calls: dict[object, Mapping[str, Any]] = {}
    for agent_step in found.agent_steps:
        position = agent_step.saved.position
        carried = (position.get("calls") if position else None) or ()
        every = (*carried, *agent_step.saved.results.values())
        kept = [each for each in every if each[TAG] in ("call", "unended")]
        for each in sorted(kept, key=lambda each: (each[TAG] == "call", each.get("saved", 0))):
            calls[each["call"]] = each
    for call, each in sorted(calls.items(), key=lambda item: item[1].get("began", inf)):
        ended, began = each.get("ended"), each.get("began")
        is_over = "failed" in each and not each.get("again")
        state = State.FAILED if is_over else State.RUNNING
        yield ToolRun(
            name=each["agent"],
            args={"request": each["request"]},
            id=str(call),
            result=each.get("text"),
            status=TOOL_STATUS[State.DONE if "text" in each else state],
            began=seconds(began) if began else None,
            ended=seconds(ended) if ended else None,
        )


def questions_in(tree: Tree, found: FoundActivation, entries: Sequence[Entry]) -> list[Asked]:
    """Return what was asked, with the answers that the saver has."""
    asked = [e for e in entries if isinstance(e, Note) and e.kind == "interrupted"]
    answers = dict[str, object]()
    for agent_step in found.agent_steps if asked else ():
        answers |= _answers_at(tree, agent_step)
    return [Asked(question_of(tree, each), answers.get(each.id), each.id in answers) for each in asked]


def _answers_at(tree: Tree, agent_step: AgentStep) -> dict[str, object]:
    saved, answers = agent_step.saved, dict[str, object]()
    own = saved.task
    within = joined(saved.namespace, f"{agent_step.visit.node}:{own}")
    names = [agent_step.place.nodes.call, *(lane.node for lane in tree.lanes(agent_step.place))]
    for task, writes in saved.writes.items():
        given = writes.get(RESUME, ())
        spaces = [within] if task == own else [joined(within, f"{name}:{task}") for name in names]
        for number, answer in enumerate(given if isinstance(given, Sequence) else ()):
            for space in spaces:
                named = f"{space}|{number}" if number else space
                answers[LangGraphInterrupt.from_ns(None, named).id] = answer
        asked = writes.get(INTERRUPT, ())
        if len(asked) == 1 and len(given) == 1:  # a line that was copied keeps older ids
            answers.setdefault(asked[0].id, given[0])
    return answers
