"""Approval: LangChain's human in the loop, as `approve=` makes it of names, a function or a mapping.

LangChain asks, reads the decisions and runs the calls as they were edited. Ours is what it lacks:

- An answer is checked before it is taken. LangChain fails at one that it cannot read, and has saved it
  by then, so that the thread would fail again with every resume. Here the question says what fits, and
  is asked again until something does.
- What decides whether a call needs approval is asked once. LangChain asks it again on the resume, and a
  rejected call runs if it says something else then. So what it said is kept before the question is put.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from agentgraph.agents import ChatAgent
from agentgraph.chat.laid_flat import asking_by
from agentgraph.middleware import APPROVE, DECISIONS
from agentgraph.nodes.activation import ask_until_it_fits
from agentgraph.schemas import plain, schema_fault


class Chosen(TypedDict):
    """Which calls of a message need approval, as the functions said that decide it."""

    message: str | None
    """The id of the message."""
    calls: list[str | None]
    """The ids of the calls."""
    is_next: bool
    """Whether the node of approval is to run again, and ask."""


_CHOSEN = "approval"
_Update = dict[str, Any] | None


_Decisions: Any = HumanInTheLoopMiddleware.state_schema


class _State(_Decisions):  # type: ignore[misc]
    """LangChain's state, and what was chosen."""

    approval: NotRequired[Annotated[Chosen, PrivateStateAttr]]  # type: ignore[valid-type]


class Approval(HumanInTheLoopMiddleware[Any, Any, Any]):
    """LangChain's middleware that asks a person, for a chat agent with `approve=`."""

    state_schema = _State

    def __init__(self, agent: ChatAgent, tools: Sequence[BaseTool]) -> None:
        every = InterruptOnConfig(allowed_decisions=[*DECISIONS])
        rules, needs = agent.approve, None
        if callable(rules):
            needs, rules = rules, {}
        given = rules if isinstance(rules, Mapping) else dict.fromkeys(rules, True)
        super().__init__(dict(given), interrupt_mode=agent.interrupt_mode)
        self._rules = self.interrupt_on
        if needs is not None:
            when = _of_the_call(needs)
            self._rules = _OfEveryTool(InterruptOnConfig(**every, when=when))
            self.interrupt_on = _OfEveryTool(InterruptOnConfig(**every, when=_or_chosen(when)))
        else:
            self.interrupt_on = {name: _once(rule) for name, rule in self._rules.items()}
        self._tools = tools
        self._ask_and_decide = asking_by(HumanInTheLoopMiddleware.after_model, self._ask)

    @property
    def name(self) -> str:
        """The name that no middleware of users has."""
        return APPROVE

    def after_model(self, state: Any, runtime: Any) -> _Update:
        """Choose the calls that need approval, and keep that; in the run after it, ask."""
        message = next((m for m in reversed(state["messages"]) if isinstance(m, AIMessage)), None)
        chosen: Chosen | None = state.get(_CHOSEN)
        if message is not None and (chosen is None or chosen["message"] != message.id):
            calls = [call for call in message.tool_calls if "when" in self._rules.get(call["name"], ())]
            if calls:
                ids = [call["id"] for call in calls if self._is_chosen(call, state, runtime)]
                asks = self.interrupt_mode == "batched" and bool(ids)
                chosen = Chosen(message=message.id, calls=ids, is_next=asks)
                if asks:
                    return {_CHOSEN: chosen}
        return self._decided(state, runtime, chosen)

    def _decided(self, state: Any, runtime: Any, chosen: Chosen | None) -> _Update:
        """Ask, and return what LangChain makes of the decisions."""
        if chosen is None:
            return cast(_Update, self._ask_and_decide(self, state, runtime))
        update: _Update = self._ask_and_decide(self, {**state, _CHOSEN: chosen}, runtime)
        return {**(update or {}), _CHOSEN: Chosen(**{**chosen, "is_next": False})}

    def _is_chosen(self, call: Any, state: Any, runtime: Any) -> bool:
        return self._should_interrupt(call, self._rules[call["name"]], state, runtime)

    def _ask(self, request: Any) -> Any:
        return ask_until_it_fits(plain(request), answer_schema(request, self._tools))


def is_chosen(own: Mapping[str, Any]) -> bool:
    """Return whether the state of an agent's middleware says that the node of approval is to ask."""
    return bool(own.get(_CHOSEN, {}).get("is_next"))


def _of_the_call(needs: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda request: bool(needs(request.tool_call))


def _once(rule: InterruptOnConfig) -> InterruptOnConfig:
    if "when" not in rule:
        return rule
    return cast(InterruptOnConfig, {**rule, "when": _or_chosen(rule["when"])})


def _or_chosen(when: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return what says of a call what was chosen; `when` itself where hooks jumped past the choice."""

    def chosen(request: Any) -> bool:
        found: Chosen | None = request.state.get(_CHOSEN)
        return when(request) if found is None else request.tool_call["id"] in found["calls"]

    return chosen


class _OfEveryTool(dict[str, Any]):
    """The rule for all names of tools, those that there are not included."""

    def __init__(self, rule: InterruptOnConfig) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, name: str) -> InterruptOnConfig:
        return self._rule

    def get(self, name: str, default: Any = None) -> InterruptOnConfig:
        return self._rule


def answer_schema(request: Any, tools: Sequence[BaseTool]) -> dict[str, Any] | None:
    """Return the JSON schema of the answer to a question of LangChain's middleware; None for others.

    It wants a decision for each action, in order, of a kind that is allowed for it; an edited call must
    be one of a tool that there is, with arguments as that tool wants them.
    """
    if not _is_request(request):
        return None
    edits, defs = _edited_actions(tools)
    text = {"type": "string"}
    kinds = {
        "approve": _object({"type": {"const": "approve"}}),
        "edit": _object({"type": {"const": "edit"}, "edited_action": edits}),
        "reject": _object({"type": {"const": "reject"}, "message": text}, required=["type"]),
        "respond": _object({"type": {"const": "respond"}, "message": text}),
    }
    each = [
        {"anyOf": [kinds[kind] for kind in dict.fromkeys(config["allowed_decisions"])]}
        for config in request["review_configs"]
    ]
    in_order = {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
    return {**_object({"decisions": in_order}), "$defs": defs}


def _is_request(value: Any) -> bool:
    match value:
        case {"action_requests": [_, *_] as actions, "review_configs": [_, *_] as configs}:
            return len(actions) == len(configs) and all(map(_is_config, configs))
    return False


def _is_config(config: Any) -> bool:
    match config:
        case {"allowed_decisions": [_, *_] as allowed}:
            return all(kind in DECISIONS for kind in allowed)
    return False


def _edited_actions(tools: Sequence[BaseTool]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of an edited call, by reference, and the definitions that it needs."""
    actions, defs = [], {}
    for tool in tools:
        args, own = _args(tool)
        defs.update(own)
        actions.append(_object({"name": {"const": tool.name}, "args": args}))
    defs["edited_action"] = {"anyOf": actions}
    return {"$ref": "#/$defs/edited_action"}, defs


def _args(tool: BaseTool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a tool's arguments, and its definitions, named so that no other has them.

    One with a keyword that answers cannot be checked against is left to the tool.
    """
    schema: Any = tool.tool_call_schema
    given = schema if isinstance(schema, dict) else TypeAdapter(schema).json_schema()
    found = {"type": "object", **given}
    if schema_fault(found):
        return {"type": "object"}, {}
    defs = found.pop("$defs", {})
    new = {f"#/$defs/{name}": f"#/$defs/{tool.name}.{name}" for name in defs}
    return _referring(found, new), {f"{tool.name}.{k}": _referring(v, new) for k, v in defs.items()}


def _referring(schema: Any, new: Mapping[str, str]) -> Any:
    """Return a schema with new references in the place of others."""
    if isinstance(schema, list):
        return [_referring(each, new) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _referring(value, new) for key, value in schema.items()}
    return {**found, "$ref": new[schema["$ref"]]} if schema.get("$ref") in new else found


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }
