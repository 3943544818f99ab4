"""An agent that runs again, with the fault in its history, until its output passes a check."""

import typing
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage
from typing_extensions import TypeForm

from agentgraph.agents.agents import Agent, CheckedAgent
from agentgraph.agents.functions import Asks, Later, is_hook, takes_two, then
from agentgraph.agents.habits.options import hints_options
from agentgraph.agents.limits import Limits, limit_faults
from agentgraph.agents.schemas import output_fault, read_json, typed
from agentgraph.agents.signals import CheckResult, JsonSchema
from agentgraph.safe_repr import error_text, shown

if TYPE_CHECKING:
    from agentgraph.agents.context import Context

_WRONG = (ValueError, AssertionError)
"""The exceptions with which a check reports a fault."""

Verdict: TypeAlias = bool | str | None
Check: TypeAlias = Callable[..., Verdict | Awaitable[Verdict]] | TypeForm[Any] | JsonSchema
"""A type or a JSON schema for the last text; or a function of it, or of a `Context` and it."""


@hints_options
def validated(
    agent: Agent, check: Check, *, max_attempts: int = 3, limits: Limits | None = None
) -> CheckedAgent:
    """Make an agent that runs again until its last message passes a check.

    The fault is added to the history as a message of the agent, which it sees in its next
    attempt. The attempts have the addresses `writer`, `writer{1}`, `writer{2}`, and each adds a step
    to the run path: `report/writer`, `report/writer/writer`. The wrapper itself adds no step.

    >>> from agentgraph.testing import ScriptedChatModel, transcript
    >>> model = ScriptedChatModel(responses=["Bees.", "Bees hum."])
    >>> def check(text: str) -> str | None:
    ...     return None if "hum" in text else "What do they do?"
    >>> writer = validated(chat_agent("writer", model), check)
    >>> for line in transcript(Runner(writer).query("Go.")):
    ...     print(line)
    writer: Bees.
    writer: This did not pass a check: What do they do?
    Do it again, with that put right.
    writer/writer: Bees hum.

    Args:
        agent: The agent, which may be a composite.
        check: A type that pydantic knows, or a JSON schema, which the text must fit as JSON; or a
            function `check(text)` or `check(ctx, text)` of its last message, sync or async. It returns
            True or None if the text passes, or else a text with the fault, or False; or it raises a
            `ValueError` (such as pydantic's) or an `AssertionError`, as pydantic's validators do. Any
            other exception fails the run: the agent's messages are saved, and a resume calls the check
            again. The check may ask a person with LangGraph's `interrupt()`.
        max_attempts: The maximum number of attempts, at least 1.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it. If the last attempt fails, the run raises
        `CheckFailedError`; each resume then allows one more attempt.
    """
    faults = tuple(_faults(check, max_attempts))
    return CheckedAgent(
        agent=agent,
        check=TextCheck(check, max_attempts),
        repeats=True,
        limits=limits,
        faults=faults,
    )


@dataclass(frozen=True, slots=True)
class TextCheck(Asks):
    """Checks the last message of an agent.

    Attributes:
        check: A type, a JSON schema or a function.
        max_attempts: The maximum number of attempts.
    """

    check: Any
    max_attempts: int

    @property
    def function(self) -> object:
        """The check."""
        return self.check

    def __call__(
        self, ctx: "Context", messages: Sequence[BaseMessage], attempt: int
    ) -> CheckResult | Later[CheckResult]:
        """Run the agent again with the fault; after its last attempt, fail."""
        text = str(messages[-1].text) if messages else ""
        return then(self._asked(ctx, text), lambda come: self._result(ctx, attempt, _fault(come)))

    def _result(self, ctx: "Context", attempt: int, wrong: str | None) -> CheckResult:
        if wrong is None:
            return CheckResult()
        failed = (
            f"{ctx.address}: the output failed its check in all of {attempt + 1} attempts; resume the "
            f"thread for one more; the last fault: {wrong}"
        )
        text = f"This did not pass a check: {wrong}\nDo it again, with that put right."
        is_last = attempt + 1 >= self.max_attempts
        return CheckResult(
            messages=(HumanMessage(text),), repeats=True, failed=failed if is_last else None
        )

    def _asked(self, ctx: "Context", text: str) -> object:
        try:
            if _is_schema(self.check):
                typed(self.check, read_json(text))
                return None
            return self.check(ctx, text) if takes_two(self.check) else self.check(text)
        except _WRONG as error:
            return error


def _fault(come: Callable[[], object]) -> str | None:
    try:
        verdict = come()
    except _WRONG as error:
        return error_text(error)
    if isinstance(verdict, _WRONG):
        return error_text(verdict)
    if verdict is None or verdict is True:
        return None
    return str(verdict) if verdict else "it was rejected without a reason"


def _faults(check: object, max_attempts: object) -> Iterator[str]:
    yield from limit_faults("max_attempts", max_attempts, needed=True)
    if _is_schema(check):
        if fault := output_fault(check):
            yield fault.replace("output schema", "check", 1)
    elif not is_hook(check):
        yield (
            f"the check {shown(check)} cannot be used; pass a type, a JSON schema, or a function "
            "of a text, or of a context and a text"
        )


def _is_schema(check: object) -> bool:
    return isinstance(check, type | dict) or typing.get_origin(check) is not None
