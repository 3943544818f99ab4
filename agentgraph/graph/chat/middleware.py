"""LangChain's middleware for approval and for summaries, extended.

`approve=` becomes LangChain's `HumanInTheLoopMiddleware`, which asks, reads the decisions and runs the
edited calls. Three things are added:

- An answer is checked before it is saved. LangChain saves it first, so that one which it cannot read
  makes each later resume fail too. Here the question carries the JSON schema of its answer, and is
  asked again until an answer fits.
- A deadline counts: if it has passed, an event says that the default rejects the calls.
- The function that decides whether a call needs approval is called once. LangChain calls it again on
  resume, and runs a rejected call if its result has changed. Here its result is saved before the
  question is asked.

`history=summarized(...)` becomes LangChain's `SummarizationMiddleware`, with four differences:

- A model given by name is made when it is first needed, not at once.
- The summarizing model gets all messages that it sums up. By default LangChain sends only their last
  4,000 tokens, and the rest is lost silently.
- An empty reply is an error. LangChain takes it as the summary, and all that it replaces is lost.
- A token counter of the user decides alone. LangChain also uses the tokens that the provider reports,
  which is right only for its own counter: that one estimates, the user's may count anything.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    HumanInTheLoopMiddleware,
    InterruptOnConfig,
    SummarizationMiddleware,
)
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import RunnableBinding
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import TypeAdapter, WrapValidator
from typing_extensions import TypedDict

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.budgets import Summarized, checked
from agentgraph.agents.functions import is_awaitable, raise_unawaitable
from agentgraph.agents.middleware import APPROVE, DECISIONS, SUMMARY
from agentgraph.agents.schemas import plain, references, schema_fault
from agentgraph.agents.signals import JsonSchema
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.calls import last_reply
from agentgraph.graph.chat.flattened import asking_by
from agentgraph.graph.chat.models import core_of
from agentgraph.graph.deadlines import approval_deadline, substitute_in
from agentgraph.graph.internals import RUNTIME
from agentgraph.graph.named_models import model_named
from agentgraph.graph.nodes.asking import Answers, Unanswered
from agentgraph.graph.nodes.reporter import ask_until_it_fits, take_default
from agentgraph.graph.stamps import addressed
from agentgraph.graph.sync_async import arun_calls
from agentgraph.safe_repr import shown


class Chosen(TypedDict):
    """Which calls of a message need approval, by the functions that decide it."""

    message: str | None
    """The id of the message."""
    calls: list[str | None]
    """The ids of the calls."""
    is_next: bool
    """Whether the approval node must run again, and ask."""


_CHOSEN = "approval"
_Update = dict[str, object] | None
_Decisions: Any = HumanInTheLoopMiddleware.state_schema


class _State(_Decisions):  # type: ignore[misc]
    approval: NotRequired[Annotated[Chosen, PrivateStateAttr]]  # type: ignore[valid-type]


class Approval(HumanInTheLoopMiddleware):
    """LangChain's middleware that asks a person, for a chat agent with `approve=`."""

    state_schema = _State

    def __init__(self, agent: ChatAgent, tools: Sequence[BaseTool]) -> None:
        approve = agent.approve
        rules = {} if callable(approve) else approve
        by_tool: dict[str, bool | InterruptOnConfig] = (
            dict(rules) if isinstance(rules, Mapping) else dict.fromkeys(rules, True)
        )
        super().__init__(by_tool, interrupt_mode=agent.interrupt_mode)
        self._rules = {name: _asking(agent, name, rule) for name, rule in self.interrupt_on.items()}
        self.interrupt_on = {name: _once(rule) for name, rule in self._rules.items()}
        if callable(approve):
            chosen = _Ask(agent.name, "approve", approve, lambda request: (request.tool_call,))
            rule = InterruptOnConfig(allowed_decisions=[*DECISIONS], when=chosen)
            self._rules, self.interrupt_on = _OfEveryTool(rule), _OfEveryTool(_once(rule))
        self._tools, self._timeout = tools, agent.approve_timeout
        self._ask_and_decide = asking_by("after_model", self._ask)
        self._ask_about_call: Callable[..., Any] | None = None
        if self._timeout is not None and agent.interrupt_mode == "per_call":
            self._ask_about_call = asking_by("_resolve_per_call", self._ask_until_deadline)

    @property
    def name(self) -> str:
        """A name that no user's middleware has."""
        return APPROVE

    def after_model(self, state: AgentState, runtime: Runtime) -> _Update:
        """Choose the calls that need approval, and save them; then, or in the next run, ask."""
        chosen = _chosen_in(state)
        if chosen is None:
            chosen = self._chosen(state, runtime)
            if chosen is not None and chosen["is_next"]:
                return {_CHOSEN: chosen}
        if chosen is None:
            return cast(_Update, self._ask_and_decide(self, state, runtime))
        update: _Update = self._ask_and_decide(self, {**state, _CHOSEN: chosen}, runtime)
        return {**(update or {}), _CHOSEN: {**chosen, "is_next": False}}

    async def aafter_model(self, state: AgentState, runtime: Runtime) -> _Update:
        """Choose and ask as `after_model` does; await what the functions of the rules return."""
        with _answering() as answers:
            return await arun_calls(answers.run(partial(self.after_model, state, runtime)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Ask about one call; await what the functions of the rules return."""
        with _answering() as answers:
            while True:
                try:
                    return await super().awrap_tool_call(request, handler)
                except Unanswered as unanswered:
                    if unanswered.answers is not answers:
                        raise
                    open_one = unanswered
                await arun_calls(answers.answer(open_one))

    def _chosen(self, state: AgentState, runtime: Runtime) -> Chosen | None:
        """Return the calls that need approval by a function's decision; None without such rules."""
        message = last_reply(state["messages"])
        calls = message.tool_calls if message else ()
        rules = [(call, self._rules.get(call["name"])) for call in calls]
        open_ones = [(call, rule) for call, rule in rules if rule is not None and "when" in rule]
        if not message or not open_ones:
            return None
        needs = [call for call, rule in open_ones if self._should_interrupt(call, rule, state, runtime)]
        ids = [call["id"] for call in needs]
        is_next = self.interrupt_mode == "batched" and bool(ids)
        return Chosen(message=message.id, calls=ids, is_next=is_next)

    def _ask(self, request: object) -> object:
        schema = self._timed(request, answer_schema(request, self._tools))
        return _taken(ask_until_it_fits(plain(request), schema))

    def _resolve_per_call(self, request: ToolCallRequest) -> Any:
        if self._ask_about_call is None:
            return super()._resolve_per_call(request)
        return self._ask_about_call(self, request)

    def _ask_until_deadline(self, request: object, response_schema: Any) -> object:
        """Ask about one call; LangGraph checks the answer by the schema, but no substitute for it."""
        schema: Any = Annotated[response_schema, _OR_SUBSTITUTE]
        try:
            answer = interrupt(request, response_schema=schema)
        except GraphInterrupt as paused:
            (asked,) = paused.args[0]
            asked.response_schema = self._timed(request, asked.response_schema)
            raise
        return _taken(answer)

    def _timed(self, request: object, schema: JsonSchema | None) -> JsonSchema | None:
        deadline = approval_deadline(self._timeout, request)
        return schema if deadline is None else addressed(schema, None, deadline=deadline)


def _taken(answer: object) -> object:
    """Return an answer, or the default that is its substitute, which is emitted."""
    if (late := substitute_in(answer)) is None:
        return answer
    return take_default(late, get_config()["configurable"][RUNTIME].stream_writer.emitter)


_OR_SUBSTITUTE = WrapValidator(lambda data, fits: data if substitute_in(data) else fits(data))
_ANSWERS: ContextVar[Answers | None] = ContextVar("approval_answers", default=None)
"""The answers of the rules' functions in this run of a hook or a wrap; None in sync runs."""


@contextmanager
def _answering() -> Iterator[Answers]:
    token = _ANSWERS.set(answers := Answers())
    try:
        yield answers
    finally:
        _ANSWERS.reset(token)


class _Ask:
    """A function of a rule, asked so that async runs await what it returns."""

    def __init__(
        self, where: str, slot: str, fn: Any, arguments: Callable[..., tuple[Any, ...]]
    ) -> None:
        """Make it.

        Args:
            where: The agent's name.
            slot: The option that has the function.
            fn: The function.
            arguments: Returns its arguments, of those that LangChain passes.
        """
        self._where, self._slot, self._fn, self._arguments = where, slot, fn, arguments

    def __call__(self, asked: Any, *more: object) -> Any:
        arguments, answers = self._arguments(asked, *more), _ANSWERS.get()
        if answers is None:
            returned = self._fn(*arguments)
            return (
                raise_unawaitable(self._where, self._slot, self._fn, returned)
                if is_awaitable(returned)
                else returned
            )
        call = asked if isinstance(asked, Mapping) else asked.tool_call
        key = (self._slot, call["id"], call["name"])
        return answers.ask(key, self._where, self._slot, self._fn, *arguments)


def _asking(agent: ChatAgent, tool: str, rule: InterruptOnConfig) -> InterruptOnConfig:
    """Return a rule whose functions are asked so that async runs await what they return."""
    asks = {
        part: _Ask(agent.name, f"approve[{tool!r}]: {part}", fn, lambda *arguments: arguments)
        for part in ("when", "description")
        if callable(fn := rule.get(part))
    }
    return cast(InterruptOnConfig, {**rule, **asks})


def is_chosen(own: Mapping[str, Any]) -> bool:
    """Return whether the approval node must ask, by the state of an agent's middleware."""
    return bool(own.get(_CHOSEN, {}).get("is_next"))


def _chosen_in(state: Any) -> Chosen | None:
    """Return which calls of the last message were chosen; None if that was not done yet."""
    chosen: Chosen | None = state.get(_CHOSEN)
    message = last_reply(state["messages"])
    return chosen if chosen and message and chosen["message"] == message.id else None


def _once(rule: InterruptOnConfig) -> InterruptOnConfig:
    """Return a rule that repeats the saved choice, unless hooks jumped past the choice."""
    if "when" not in rule:
        return rule
    when = rule["when"]

    def chosen(request: ToolCallRequest) -> bool:
        choice = _chosen_in(request.state)
        return when(request) if choice is None else request.tool_call["id"] in choice["calls"]

    return cast(InterruptOnConfig, {**rule, "when": chosen})


class _OfEveryTool(dict[str, InterruptOnConfig]):
    def __init__(self, rule: InterruptOnConfig) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, name: str) -> InterruptOnConfig:
        return self._rule

    def get(self, name: str, default: object = None) -> InterruptOnConfig:
        return self._rule


def answer_schema(request: Any, tools: Sequence[BaseTool]) -> dict[str, object] | None:
    """Return the JSON schema of the answer to a question of LangChain's middleware; None for others.

    An answer has one decision for each action, in order, of an allowed kind. An edited call names one
    of the tools, with arguments that fit the tool's schema.
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


def _is_request(value: object) -> bool:
    match value:
        case {"action_requests": [_, *_] as actions, "review_configs": [_, *_] as configs}:
            return len(actions) == len(configs) and all(map(_is_config, configs))
    return False


def _is_config(config: object) -> bool:
    match config:
        case {"allowed_decisions": [_, *_] as allowed}:
            return all(kind in DECISIONS for kind in allowed)
    return False


def _edited_actions(tools: Sequence[BaseTool]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the schema of an edited call, as a reference, and the definitions that it needs."""
    actions, defs = [], {}
    for tool in tools:
        args, own = _args(tool)
        defs.update(own)
        actions.append(_object({"name": {"const": tool.name}, "args": args}))
    defs["edited_action"] = {"anyOf": actions}
    return {"$ref": "#/$defs/edited_action"}, defs


def _args(tool: BaseTool) -> tuple[dict[str, object], dict[str, object]]:
    """Return the schema of a tool's arguments, and its definitions under names with the tool's name.

    A faulty schema, or one with references to anything but its definitions, is left to the tool.
    """
    schema = tool.tool_call_schema
    raw = schema if isinstance(schema, dict) else TypeAdapter(schema).json_schema()
    parameters = {"type": "object", **raw}
    defs = parameters.get("$defs", {})
    new = {f"#/$defs/{name}": f"#/$defs/{tool.name}.{name}" for name in defs}
    if schema_fault(parameters) or not new.keys() >= {*references(parameters)}:
        return {"type": "object"}, {}
    parameters.pop("$defs", None)
    return _referring(parameters, new), {
        f"{tool.name}.{k}": _referring(v, new) for k, v in defs.items()
    }


def _referring(schema: object, new: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_referring(each, new) for each in schema]
    if not isinstance(schema, dict):
        return schema
    fields = {key: _referring(value, new) for key, value in schema.items()}
    return {**fields, "$ref": new[schema["$ref"]]} if schema.get("$ref") in new else fields


def _object(properties: dict[str, object], required: list[str] | None = None) -> dict[str, object]:
    names = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


_MESSAGES = "{messages}"
"""Where LangChain inserts the messages in a prompt."""
_AFTER = f"\n\n<messages>\n{_MESSAGES}\n</messages>"
"""The rest of a prompt without that part."""


class Summarizing(AgentMiddleware):
    """Sums up what a chat agent sees before its model is asked, by its `history=`."""

    transformers = SummarizationMiddleware.transformers

    def __init__(self, agent: str, policy: Summarized) -> None:
        """Make the middleware of an agent.

        Args:
            agent: The agent's name.
            policy: Its `history=`.
        """
        super().__init__()
        self._agent, self._policy = agent, policy
        self._summing: SummarizationMiddleware | None = None

    @property
    def name(self) -> str:
        """The name of LangChain's middleware; no other one of the agent has it."""
        return SUMMARY

    def before_model(self, state: AgentState, runtime: Runtime) -> dict[str, object] | None:
        """Sum up messages if there are too many."""
        if not self._may_be_due(state):
            return None
        return self._summarizer().before_model(state, runtime)

    async def abefore_model(self, state: AgentState, runtime: Runtime) -> dict[str, object] | None:
        """Sum up on the event loop; the model is made in a thread, because that imports packages."""
        if not self._may_be_due(state):
            return None
        made = await asyncio.to_thread(self._summarizer) if self._summing is None else self._summing
        return await made.abefore_model(state, runtime)

    def _may_be_due(self, state: Any) -> bool:
        policy, count = self._policy, checked(self._policy.token_counter)
        return _is_estimate(policy) or count(state["messages"]) >= policy.max_tokens

    def _summarizer(self) -> SummarizationMiddleware:
        """Return LangChain's middleware with the policy's settings.

        Raises:
            AgentGraphError: LangChain cannot make the named model.
        """
        if self._summing is not None:
            return self._summing
        agent, policy = self._agent, self._policy
        model: object = policy.model
        if isinstance(model, str):
            model = model_named(model, f"{agent}, in summarized(...)")
        counter: Any = policy.token_counter
        options = {} if policy.instruction is None else {"summary_prompt": _prompt(policy.instruction)}
        self._summing = SummarizationMiddleware(
            _Checked(bound=model, agent=agent),  # type: ignore[arg-type]
            trigger=("tokens", policy.max_tokens),
            keep=("tokens", max(policy.max_tokens // 2, 1)),
            token_counter=counter if _is_estimate(policy) else cast(Any, checked(counter)),
            trim_tokens_to_summarize=None,
            **options,
        )
        return self._summing


class _Checked(RunnableBinding[Any, Any]):
    """A summarizing model whose replies are checked; has all attributes of the model."""

    agent: str

    def invoke(self, *args: Any, **kwargs: Any) -> AIMessage:
        return self._summary(super().invoke(*args, **kwargs))

    async def ainvoke(self, *args: Any, **kwargs: Any) -> AIMessage:
        return self._summary(await super().ainvoke(*args, **kwargs))

    def with_retry(self, **kwargs: Any) -> "_Checked":
        return _Checked(bound=self.bound.with_retry(**kwargs), agent=self.agent)

    def _summary(self, reply: object) -> AIMessage:
        message = AIMessage(reply) if isinstance(reply, str) else reply
        if not isinstance(message, AIMessage) or not message.text.strip():
            raise InvalidOutputError(
                f"{self.agent}: the model of summarized(...) returned {shown(reply)}, which is not a "
                "summary; nothing was left out for it. Resume to ask it again, or use another model"
            )
        return message


def _is_estimate(policy: Summarized) -> bool:
    is_chat_model = isinstance(policy.model, str) or isinstance(core_of(policy.model), BaseChatModel)
    return policy.token_counter is count_tokens_approximately and is_chat_model


def _prompt(instruction: str) -> str:
    """Return an instruction as a template of LangChain's: all braces but "{messages}" are doubled."""
    text = instruction if _MESSAGES in instruction else instruction + _AFTER
    literal = text.replace("{", "{{").replace("}", "}}")
    return literal.replace(f"{{{_MESSAGES}}}", _MESSAGES)
