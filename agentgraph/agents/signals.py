"""What functions and tools may give besides messages, and what their annotations allow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.messages.tool import ToolOutputMixin

from agentgraph.safe_repr import shown

Signal = Literal["exit", "break_loop"]
"""How an agent steers what runs next: out of the run, or out of the nearest loop."""


@dataclass(frozen=True, slots=True)
class Exit(ToolOutputMixin):
    """Ends the run; in a branch, the branch, and the run at the join.

    A function returns or yields it, or a tool returns it. In an agent that runs as a tool it ends
    that agent only. The event's `kind` is "exit".
    """


@dataclass(frozen=True, slots=True)
class BreakLoop(ToolOutputMixin):
    """Ends the nearest enclosing loop at once; what follows the loop goes on.

    A function returns or yields it, or a tool returns it. In a branch the others finish first;
    outside every loop it is told and changes nothing. The event's `kind` is "break_loop".
    """


@dataclass(frozen=True, slots=True)
class TransferTo(ToolOutputMixin):
    """Hands over to another agent: a sub-agent of the chat agent, or the one above.

    A function returns or yields it, or a tool returns it: `TransferTo("writer")`. From a function a
    target that there is not is an `InvalidOutputError`; from a tool it goes back to the model.

    Attributes:
        agent_name: The agent to go on with.
    """

    agent_name: str


@dataclass(frozen=True, slots=True)
class Ask(ToolOutputMixin):
    """Asks a person; the function is called again with `ctx.answered` and `ctx.answer` set.

    What came before it is kept, and not said twice. A tool calls LangGraph's `interrupt()` instead.

    >>> from agentgraph.testing import transcript
    >>> def boss(ctx) -> str | Ask:
    ...     return f"So {ctx.answer}." if ctx.answered else Ask("Print it?")
    >>> runner = Runner(function_agent("boss", boss))
    >>> transcript(runner.run("Go.", thread_id="monday")), transcript(runner.resume("monday", "no"))
    (['boss: [asks] Print it?'], ['boss: So no.'])

    Attributes:
        value: What is asked: data that has a JSON form.
        response_schema: What an answer must fit: a type that pydantic knows, or a JSON schema;
            without one any plain data is an answer.
    """

    value: Any
    response_schema: type | dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Ask(value={shown(self.value)}, response_schema={shown(self.response_schema)})"


@dataclass(frozen=True, slots=True)
class Custom(ToolOutputMixin):
    """Tells an event of one's own: its `output.custom` is the data, and its `kind` is "custom".

    Models do not see it. It stands in the thread, and is told again by `events`.

    Attributes:
        data: What is told: data that has a JSON form.
    """

    data: Any

    def __repr__(self) -> str:
        return f"Custom(data={shown(self.data)})"


class SetValues(ToolOutputMixin):
    """Writes values of the run: `SetValues(topic="bees")`.

    The agents behind it find them in `ctx.values` and in templates, those of later turns too; the
    `ctx` at hand stays as it is. A branch sees its own, and the join merges them in declared order.
    No event tells it.

    Attributes:
        values: What is written, plain data by name, over what is there.
    """

    __slots__ = ("values",)

    def __init__(self, /, **values: Any) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"SetValues({', '.join(f'{k}={shown(v)}' for k, v in self.values.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SetValues) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]


class KeptValues(SetValues):
    """Values that the package keeps itself: those of several that run side by side do not conflict."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check makes of an agent that has ended.

    Attributes:
        messages: What is said about it, at its address.
        custom: Plain data, each told as an event.
        values: Values of the run.
        repeats: Whether the agent is to run again.
        failed: Why it is to fail instead, if that was its last attempt; it runs again on a resume.
    """

    messages: tuple[BaseMessage, ...] = ()
    custom: tuple[Any, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    repeats: bool = False
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a leaf may do when it ends.

    Attributes:
        go_on: Whether it may end without a signal.
        exit: Whether it may end the run.
        break_loop: Whether it may end a loop.
        transfer: Whether it may hand over to another agent.
        ask: Whether it may ask.
    """

    go_on: bool = True
    exit: bool = False
    break_loop: bool = False
    transfer: bool = False
    ask: bool = False

    def __or__(self, other: "Capabilities") -> "Capabilities":
        """Return what either may do."""
        return Capabilities(*(getattr(self, name) or getattr(other, name) for name in self.__slots__))


EVERYTHING = Capabilities(exit=True, break_loop=True, transfer=True, ask=True)
