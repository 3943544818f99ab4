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
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict

from agentgraph.agents.agents import ChatAgent
from agentgraph.agents.middleware import APPROVE, DECISIONS
from agentgraph.agents.schemas import plain
from agentgraph.graph.chat.calls import last_reply
from agentgraph.graph.chat.decisions import answer_schema
from agentgraph.graph.chat.laid_flat import asking_by
from agentgraph.graph.nodes.activation import ask_until_it_fits


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
        approve = agent.approve
        rules: Any = {} if callable(approve) else approve
        given = dict(rules) if isinstance(rules, Mapping) else dict.fromkeys(rules, True)
        super().__init__(given, interrupt_mode=agent.interrupt_mode)
        self._rules = self.interrupt_on
        self.interrupt_on = {name: _once(rule) for name, rule in self._rules.items()}
        if callable(approve):
            when = _of_the_call(approve)
            rule = InterruptOnConfig(allowed_decisions=[*DECISIONS], when=when)
            self._rules, self.interrupt_on = _OfEveryTool(rule), _OfEveryTool(_once(rule))
        self._tools = tools
        self._ask_and_decide = asking_by(HumanInTheLoopMiddleware.after_model, self._ask)

    @property
    def name(self) -> str:
        """The name that no middleware of users has."""
        return APPROVE

    def after_model(self, state: Any, runtime: Any) -> _Update:
        """Choose the calls that need approval, and keep that; then, or in the next run, ask."""
        chosen = _chosen_in(state)
        if chosen is None:
            chosen = self._chosen(state, runtime)
            if chosen is not None and chosen["is_next"]:
                return {_CHOSEN: chosen}
        if chosen is None:
            return cast(_Update, self._ask_and_decide(self, state, runtime))
        update: _Update = self._ask_and_decide(self, {**state, _CHOSEN: chosen}, runtime)
        return {**(update or {}), _CHOSEN: {**chosen, "is_next": False}}

    def _chosen(self, state: Any, runtime: Any) -> Chosen | None:
        """Return which calls need approval by rules that a function decides on; None without such."""
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

    def _ask(self, request: Any) -> Any:
        return ask_until_it_fits(plain(request), answer_schema(request, self._tools))


def is_chosen(own: Mapping[str, Any]) -> bool:
    """Return whether the state of an agent's middleware says that the node of approval is to ask."""
    return bool(own.get(_CHOSEN, {}).get("is_next"))


def _chosen_in(state: Any) -> Chosen | None:
    """Return what was chosen of the last message, if that was done."""
    chosen: Chosen | None = state.get(_CHOSEN)
    message = last_reply(state["messages"])
    return chosen if chosen and message and chosen["message"] == message.id else None


def _of_the_call(needs: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda request: bool(needs(request.tool_call))


def _once(rule: InterruptOnConfig) -> InterruptOnConfig:
    if "when" not in rule:
        return rule
    return cast(InterruptOnConfig, {**rule, "when": _or_chosen(rule["when"])})


def _or_chosen(when: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return what says of a call what was chosen; `when` itself where hooks jumped past the choice."""

    def chosen(request: Any) -> bool:
        found = _chosen_in(request.state)
        return when(request) if found is None else request.tool_call["id"] in found["calls"]

    return chosen


class _OfEveryTool(dict[str, Any]):
    """One rule for all names of tools, those that there are not included."""

    def __init__(self, rule: InterruptOnConfig) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, name: str) -> InterruptOnConfig:
        return self._rule

    def get(self, name: str, default: Any = None) -> InterruptOnConfig:
        return self._rule
