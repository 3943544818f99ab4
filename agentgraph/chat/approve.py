"""The node that asks a person to agree to tool calls: one question for each, in tasks at once.

Questions and answers have the shapes of LangChain's human-in-the-loop middleware, so that inboxes
and chat front ends made for that show them.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from langchain_core.runnables import Runnable, RunnableConfig

from agentgraph.agents import ChatAgent
from agentgraph.chat.calls import OpenCall, edited, last_message, open_calls
from agentgraph.nodes.activation import Activation
from agentgraph.nodes.site import Site
from agentgraph.nodes.stopping import inner_stop
from agentgraph.nodes.tasks import arun_tasks, named_task, run_tasks
from agentgraph.schemas import plain
from agentgraph.state import LaneState, Question, Update
from agentgraph.tools import run_tools

_DECISIONS = ["approve", "edit", "reject", "respond"]


class _Asked(NamedTuple):
    """What a task is given: the activation, and the call to ask for."""

    activation: Activation
    opened: OpenCall


class ApproveNode(Runnable[LaneState, Update]):
    """Asks for each call that needs it; keeps the decisions, and edits the message."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.name = site.place.approve_node
        agent = cast(ChatAgent, site.place.agent)
        names = [tool.name for tool in run_tools(agent, site.target_agents)]
        self.response_schema = _response_schema(names)
        self.task = named_task(site.place.call_task, self._ask)
        self.atask = named_task(site.place.call_task, self._aask)

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Ask, in threads."""
        activation = Activation(self.site, input, config or {})
        asked = _asked(activation, input)
        with activation.reported():
            starts = [_start(self.task, each) for each in asked]
            return self._update(activation, input, asked, run_tasks(starts, inner_stop()))

    async def ainvoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Ask, on the event loop."""
        activation = Activation(self.site, input, config or {})
        asked = _asked(activation, input)
        with activation.reported():
            starts = [_start(self.atask, each) for each in asked]
            return self._update(activation, input, asked, await arun_tasks(starts, inner_stop()))

    def _ask(self, asked: _Asked) -> Any:
        question = Question(value=_request(asked.opened.call), response_schema=self.response_schema)
        return asked.activation.ask(question, asked.opened.number)["decisions"][0]

    async def _aask(self, asked: _Asked) -> Any:
        return self._ask(asked)

    def _update(
        self, activation: Activation, state: LaneState, asked: list[_Asked], decisions: list[Any]
    ) -> Update:
        by_id = {each.opened.call["id"]: d for each, d in zip(asked, decisions, strict=True)}
        edits = {
            str(each): decision["edited_action"]
            for each, decision in by_id.items()
            if decision["type"] == "edit"
        }
        if edits:
            activation.say(edited(last_message(activation, state), edits))
        activation.stay(self.site.place.tools_node, chat={**activation.progress, "decisions": by_id})
        return activation.update()


def _asked(activation: Activation, state: LaneState) -> list[_Asked]:
    named = activation.progress.get("approve", [])
    opened = open_calls(activation, state)
    return [_Asked(activation, each) for each in opened if each.call["id"] in named]


def _start(task: Callable[..., Any], asked: _Asked) -> Callable[[], Any]:
    return lambda: task(asked)


def _request(call: Any) -> dict[str, Any]:
    """Return the question for one call, as LangChain's middleware puts it."""
    shown = json.dumps(call["args"], ensure_ascii=False, default=str)
    description = f"Tool execution requires approval\n\nTool: {call['name']}\nArgs: {shown}"
    action = {"name": call["name"], "args": plain(call["args"]), "description": description}
    review = {"action_name": call["name"], "allowed_decisions": _DECISIONS}
    return {"action_requests": [action], "review_configs": [review]}


def _response_schema(names: list[str]) -> dict[str, Any]:
    """Return what an answer must fit: `{"decisions": [decision]}`."""
    text = {"type": "string"}
    action = _object({"name": {"enum": names}, "args": {"type": "object"}})
    decisions = [
        _object({"type": {"const": "approve"}}),
        _object({"type": {"const": "edit"}, "edited_action": action}),
        _object({"type": {"const": "reject"}, "message": text}, required=["type"]),
        _object({"type": {"const": "respond"}, "message": text}),
    ]
    one = {"type": "array", "items": {"anyOf": decisions}, "minItems": 1, "maxItems": 1}
    return _object({"decisions": one})


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }
