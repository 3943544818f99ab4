"""The calls and questions of one activation: tool calls, agents that a function ran, questions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Interrupt as LangGraphInterrupt

from agentgraph.events.events import Interrupt
from agentgraph.events.translation import question_of
from agentgraph.graph.deadlines import substitute_in
from agentgraph.graph.internals import INTERRUPT, RESUME
from agentgraph.graph.paired_calls import answers_in, call_id, calls_of, decision_in
from agentgraph.graph.stamps import Entry, Note, event_order, seconds
from agentgraph.graph.task_ids import joined
from agentgraph.graph.task_results import TAG
from agentgraph.journal.saved import Saved
from agentgraph.journal.states import TOOL_STATUS, State, ToolStatus
from agentgraph.journal.steps import AgentStep, last_start
from agentgraph.reports.activation_steps import FoundActivation
from agentgraph.tree.places import Tree


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A tool call of a chat agent, or an agent that a function ran.

    Attributes:
        name: The name of the tool, or of the agent.
        args: The arguments; for an agent that a function ran, `{"request": ...}`.
        id: The id of the call; for an agent that a function ran, its number or key.
        result: The text of the result; None without a result.
        status: "done", "failed" (the result is an error, or the call failed the activation),
            "rejected" (by a person), or "waits" (there is no result yet).
        began: Start time of the call, in seconds since 1970; None if unknown, or if the tool did not
            run, because a person rejected the call or answered it.
        ended: Time of the result, in seconds since 1970; None without a result.
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
    """A question of an activation.

    Attributes:
        question: The question.
        answer: The saved answer, or the default of the question; None without an answer.
        is_answered: Whether the saver has an answer.
        is_late: Whether the deadline of the question passed without an answer of a person.
        step: The step that asked it, from which a rewind can change the answer.
    """

    question: Interrupt
    answer: object
    is_answered: bool
    is_late: bool = False
    step: str = ""


def tool_runs(found: FoundActivation, said: Sequence[BaseMessage], state: State) -> list[ToolRun]:
    """Return the tool calls in a chat agent's messages, or the agents that a function ran."""
    runs: list[ToolRun] = []
    began: dict[str | None, float] = {}
    starts: dict[str, float] = {}
    for agent_step in found.agent_steps:
        began |= call_begins(agent_step.saved)
        starts[agent_step.visit.step] = calls_start(agent_step)
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
                    status=_status(result, state),
                    began=_time(message) if result is None else _start(result, began, starts),
                    ended=None if result is None else _time(result),
                )
            )
    return [*runs, *_function_runs(found)]


def call_begins(saved: Saved) -> dict[str | None, float]:
    """Return the start times of a step's tool calls, by the ids of their messages."""
    results = [each for each in saved.results.values() if each[TAG] == "tool"]
    return {each.id: seconds(result["began"]) for result in results for each in result["messages"]}


def calls_start(agent_step: AgentStep) -> float:
    """Return the start time of the calls of a step that `call_begins` does not have.

    A step that asks for approval of a call starts the call after the answer.
    """
    chat = agent_step.place.chat
    if chat is None or not chat.approve or agent_step.after is None:
        return agent_step.visit.time
    return last_start(agent_step.saved, agent_step.after)


def _status(result: ToolMessage | None, state: State) -> ToolStatus:
    if result is None:
        return TOOL_STATUS[State.FAILED if state is State.FAILED else State.RUNNING]
    if decision_in(result) == "reject":
        return "rejected"
    return TOOL_STATUS[State.FAILED if result.status == "error" else State.DONE]


def _start(
    result: ToolMessage, began: Mapping[str | None, float], starts: Mapping[str, float]
) -> float | None:
    """Return the start time of a call with a result: its own, or else that of its step."""
    order = event_order(result)
    if decision_in(result) or order is None:
        return None
    return began.get(result.id, starts.get(order.step))


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


def questions_in(
    tree: Tree, entries: Sequence[Entry], steps: Callable[[], Iterable[AgentStep]]
) -> list[Asked]:
    """Return the questions among entries, with the saved answers.

    Args:
        tree: The tree.
        entries: The entries.
        steps: Returns the steps of the agents that asked; called only if there are questions.
    """
    asked = [e for e in entries if isinstance(e, Note) and e.kind == "interrupted"]
    answers = dict[str, object]()
    for agent_step in steps() if asked else ():
        answers |= _answers_at(tree, agent_step)
    return [_asked(tree, each, answers) for each in asked]


def _asked(tree: Tree, note: Note, answers: Mapping[str, object]) -> Asked:
    question, given = question_of(tree, note), answers.get(note.id)
    step = note.order.step if note.order else ""
    if late := substitute_in(given):
        return Asked(question, late.get("answer"), late["kind"] == "default", is_late=True, step=step)
    return Asked(question, given, note.id in answers, step=step)


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
        if len(asked) == 1 and len(given) == 1:  # a copied line keeps older ids
            answers.setdefault(asked[0].id, given[0])
    return answers
