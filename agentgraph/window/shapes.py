"""Converts reports to the JSON data of the page."""

from dataclasses import asdict, fields
from decimal import Decimal

from langchain_core.messages import BaseMessage

from agentgraph.agents.agents import Agent
from agentgraph.agents.limits import Limits
from agentgraph.agents.run_path import RunPath, beginnings
from agentgraph.events.events import Interrupt, event_as_json, step_as_json
from agentgraph.events.json_forms import JsonObject, as_json
from agentgraph.graph.collecting import read_all
from agentgraph.journal.spent import shown_cost
from agentgraph.reports.activation_calls import Asked
from agentgraph.reports.activations import ActivationReport
from agentgraph.reports.comparison import Difference, Side
from agentgraph.reports.conversation import Conversation
from agentgraph.reports.flame import Flame
from agentgraph.reports.overview import Overview, Tally
from agentgraph.reports.timeline import Bar
from agentgraph.safe_repr import cut, reason
from agentgraph.show.kinds import kind_text
from agentgraph.tree.addresses import parse_address
from agentgraph.tree.places import Place, Tree

_IN_A_ROW = 300
"""Maximum number of characters of a text in the list of threads."""
_QUEUED = 2000
"""Maximum number of characters of a queued message."""
_OF_A_BAR = tuple(each.name for each in fields(Bar))
_COMPARED = 5000
"""Maximum number of characters of a text in a comparison."""
_OF_A_DIFFERENCE = ("address", "agent_name", "turn", "where", "same", "differs")
_ROLES = {"human": "user", "ai": "assistant"}
_AS_THEY_ARE = (
    *("address", "agent_name", "kind", "turn", "iteration", "steps", "began", "ended", "status"),
    *("error", "signal", "remarks", "changed"),
)


def tree_data(tree: Tree) -> JsonObject:
    """Return a tree: each place with its id, name, kind and children."""
    return _place_data(tree, tree.root)


def _place_data(tree: Tree, place: Place) -> JsonObject:
    inside = (*tree.children.get(place, ()), *tree.called.get(place, ()))
    agent = place.agent
    return {
        "id": place.node,
        "name": place.name,
        "kind": place.kind.name,
        "about": kind_text(agent) if isinstance(agent, Agent) else "",
        "most": getattr(agent, "max_iterations", None),
        "is_called": place.is_called,
        "item": getattr(agent, "as_", None),
        **_order_data(tree, place),
        "children": [_place_data(tree, each) for each in inside],
    }


def _order_data(tree: Tree, place: Place) -> JsonObject:
    """Return the ids of the workflow steps that a step depends on, and of the step that it undoes."""
    workflow = place.workflow
    if workflow is None or place.parent is None:
        return {"needs": [], "undoes": None}
    places = tree.children[place.parent][: len(workflow.steps)]
    if place.step is not None:
        by_name = {step.name: each.node for step, each in zip(workflow.steps, places, strict=True)}
        return {"needs": [by_name[name] for name in place.step.depends_on], "undoes": None}
    undone = [each.node for each in places if each.step and each.step.compensate is not None]
    return {"needs": [], "undoes": undone[place.index - len(places)]}


def place_id(tree: Tree, address: str) -> str | None:
    """Return the id of the place of an address; None if the tree has no such place."""
    activation = parse_address(tree, address)
    return activation[0].node if activation else None


def question_data(question: Interrupt) -> JsonObject:
    """Return an open question."""
    return {
        "id": question.id,
        "address": question.address,
        "agent_name": question.agent_name,
        "value": as_json(question.value),
        "response_schema": question.response_schema,
        "deadline": question.deadline,
    }


def bar_data(tree: Tree, bar: Bar) -> JsonObject:
    """Return a bar of a timeline, with its place in the tree."""
    data = {name: getattr(bar, name) for name in _OF_A_BAR}
    return data | {"place": place_id(tree, bar.address)}


def activation_data(report: ActivationReport) -> JsonObject:
    """Return an activation in detail."""
    return {
        **{name: getattr(report, name) for name in _AS_THEY_ARE},
        "saw": [message_data(each) for each in report.saw],
        "said": [message_data(each) for each in report.said],
        "tools": [{**asdict(each), "args": as_json(each.args)} for each in report.tools],
        "values_before": as_json(report.values_before),
        "values_after": as_json(report.values_after),
        "usage": {
            "input": report.usage["input_tokens"],
            "output": report.usage["output_tokens"],
        },
        "questions": [asked_data(each) for each in report.questions],
        "attempts": [{**asdict(each), "text": each.error or each.status} for each in report.attempts],
    }


def limits_data(limits: Limits) -> JsonObject:
    """Return the limits that are set; a cost is a text, because it is exact."""
    bounds = limits.bounds.items()
    return {n: shown_cost(each) if isinstance(each, Decimal) else each for n, each in bounds}


def flame_data(flame: Flame) -> JsonObject:
    """Return a flame; costs are texts, because they are exact."""
    costs = ("cost", "own_cost")
    several = [asdict(each) for each in flame.frames]
    texts = [{n: None if each[n] is None else shown_cost(each[n]) for n in costs} for each in several]
    return {"turn": flame.turn, "frames": [{**f, **t} for f, t in zip(several, texts, strict=True)]}


def conversation_data(part: Conversation) -> JsonObject:
    """Return a part of a conversation.

    Its events have the form of `AgentEvent.to_dict`, but a run path is the number of its row in
    `paths`: [row of the path before its last step, or -1; name; iteration]. In a long loop each path
    is as long as the run, and has one row more than the path before.
    """
    paths = _Paths()
    return {
        "sent": [
            {
                **{name: getattr(each, name) for name in ("at", "turn", "after", "time", "is_input")},
                "messages": [message_data(message) for message in each.messages],
                "values": as_json(each.values),
            }
            for each in part.sent
        ],
        "events": read_all(
            event_as_json(each, paths.row_of(each.run_path)) | {"kind": each.kind}
            for each in part.events
        ),
        "paths": paths.rows,
        "asked": [asked_data(each) for each in part.asked],
        "discarded": [*part.discarded],
        **{name: getattr(part, name) for name in ("begin", "after", "upto", "is_whole", "continues")},
    }


class _Paths:
    """Collects run paths in rows, which share their beginnings."""

    def __init__(self) -> None:
        self.rows: list[list[object]] = []
        self._rows: dict[RunPath, int] = {}

    def row_of(self, path: RunPath) -> int:
        """Return the row of a path; add it and its beginnings if missing. The empty path has -1."""
        at, missing = -1, list[RunPath]()
        for each in beginnings(path):
            if (known := self._rows.get(each)) is not None:
                at = known
                break
            missing.append(each)
        for each in reversed(missing):
            self.rows.append([at, *step_as_json(each[-1])])
            at = self._rows[each] = len(self.rows) - 1
        return at


def asked_data(asked: Asked) -> JsonObject:
    """Return a question that was asked, with its answer."""
    return {
        "question": question_data(asked.question),
        "answer": as_json(asked.answer),
        "is_answered": asked.is_answered,
        "is_late": asked.is_late,
        "step": asked.step,
    }


def difference_data(tree: Tree, row: Difference) -> JsonObject:
    """Return the two sides of an activation in a comparison."""
    return {
        **{name: getattr(row, name) for name in _OF_A_DIFFERENCE},
        "place": place_id(tree, row.address),
        "left": _side_data(row.left),
        "right": _side_data(row.right),
    }


def _side_data(side: Side | None) -> JsonObject | None:
    if side is None:
        return None
    data = {each.name: getattr(side, each.name) for each in fields(side)}
    text, values, answers = cut(side.text, _COMPARED), as_json(side.values), as_json(side.answers)
    return {**data, "text": text, "values": values, "answers": answers}


def message_data(message: BaseMessage) -> JsonObject:
    """Return a message; fields other than its text and its calls are in `extra`."""
    known = {"content", "type", "name", "id", "tool_calls", "invalid_tool_calls"}
    data = {key: value for key, value in dict(message).items() if key not in known and value}
    calls = getattr(message, "tool_calls", ())
    blocks = message.content if isinstance(message.content, list) else ()
    others = [each for each in blocks if isinstance(each, dict) and each.get("type") != "text"]
    return {
        "role": _ROLES.get(message.type, message.type),
        "name": message.name,
        "text": str(message.text),
        "tool_calls": [
            {"name": each["name"], "args": as_json(each["args"]), "id": each["id"]} for each in calls
        ],
        "id": message.id,
        "extra": as_json(data | ({"content": others} if others else {})),
    }


def thread_data(thread_id: str, overview: Overview) -> JsonObject:
    """Return the status of a thread."""
    return {
        "thread_id": thread_id,
        "status": overview.status,
        "pending": [question_data(each) for each in overview.pending],
        "answered": [
            {"question": question_data(each.question), "answer": as_json(each.answer)}
            for each in overview.answered
        ],
        "queued": [cut(str(message.text), _QUEUED) for message in overview.queued],
        "turns": [asdict(each) for each in overview.turns],
        "usage": _usage_data(overview.tally),
        "spent": overview.spent_tokens,
        "cost": overview.cost,
        "last": overview.last,
        "lines": overview.lines,
        "changed": overview.changed,
        "is_whole": overview.is_whole,
        "updated": overview.updated,
    }


def _usage_data(tally: Tally | None) -> JsonObject:
    input_tokens, output_tokens = tally.total if tally else (None, None)
    return {"input": input_tokens, "output": output_tokens}


def row_data(thread_id: str, overview: Overview) -> JsonObject:
    """Return a thread as a row of a list."""
    first = overview.turns[0].texts[0] if overview.turns and overview.turns[0].texts else ""
    began = overview.turns[0].began if overview.turns and overview.turns[0].number == 0 else None
    return {
        "thread_id": thread_id,
        "status": overview.status,
        "began": began,
        "updated": overview.updated,
        "first": cut(first, _IN_A_ROW),
        "last": cut(overview.last, _IN_A_ROW),
        "pending": len(overview.pending),
        "tokens": sum(overview.tally.total) if overview.tally else overview.spent_tokens,
        "error": None,
        "tree": overview.by.root if overview.by else None,
    }


def unreadable_row(thread_id: str, error: Exception) -> JsonObject:
    """Return the row of a thread that cannot be read."""
    empty = {"began": None, "updated": 0.0, "first": "", "last": "", "pending": 0, "tokens": None}
    status = {"status": "unreadable", "error": reason(error), "tree": None}
    return {"thread_id": thread_id, **empty, **status}
