"""The signals that functions and tools may return in addition to messages, and the allowed ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from langchain_core.messages import BaseMessage
from langchain_core.messages.tool import ToolOutputMixin
from typing_extensions import TypeForm

from agentgraph.agents.habits.options import hints_options
from agentgraph.safe_repr import shown

Signal = Literal["exit", "break_loop"]
"""The signal with which an agent ends the run or the nearest loop."""

Values: TypeAlias = Mapping[str, Any]
"""Values of a run, or other plain data, by name."""

JsonSchema: TypeAlias = dict[str, Any]
"""A JSON schema."""

ResponseSchema: TypeAlias = TypeForm[Any] | JsonSchema | None
"""A type that pydantic knows, such as a model or `Literal["yes", "no"]`; a JSON schema; or None."""


Seconds = float | timedelta
"""A duration: seconds, or a timedelta."""

AnswerTimeout = Seconds | None
"""How long a question waits for its answer; None for as long as it takes."""


@dataclass(frozen=True, slots=True)
class NoDefault:
    """The type of `NO_DEFAULT`."""

    def __repr__(self) -> str:
        return "no default"


NO_DEFAULT = NoDefault()
"""The `default` of a question without one: None is a default."""

Default: TypeAlias = object
"""The answer after the deadline: data that has a JSON form and fits the schema."""


def _shown_call(signal: "Exit | BreakLoop") -> str:
    """Return the call that makes a signal, without the options that it does not set."""
    options = ((each.name, getattr(signal, each.name)) for each in fields(signal))
    given = (f"{name}={shown(value)}" for name, value in options if value)
    return f"{type(signal).__name__}({', '.join(given)})"


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(ToolOutputMixin):
    """Ends the run; in a branch it ends the branch, and the run at the join.

    A function returns or yields it, or a tool returns it. In an agent that runs as a tool it ends
    that agent only. The event's `kind` is "exit".

    >>> guard = function_agent("guard", lambda ctx: Exit(reason="no topic"))
    >>> Runner(sequential("report", [guard, human("boss", "Print it?")])).invoke("Go.").reason
    'no topic'

    Attributes:
        cancel: Whether the other branches, steps or items around it are stopped at once. Those that
            have ended are joined; the messages of the others are discarded. By default they finish.
        reason: A text for the caller, as `Result.reason`; models do not see it.
    """

    cancel: bool = False
    reason: str | None = None

    __repr__ = _shown_call


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class BreakLoop(ToolOutputMixin):
    """Ends the nearest enclosing loop at once; the run continues after the loop.

    A function returns or yields it, or a tool returns it. In a branch the other branches finish
    first. Outside of every loop the function fails, unless its agent is alone: the whole tree, a tool,
    or run by a function; then it ends. A tool that returns it there only emits the event, whose `kind`
    is "break_loop".

    Attributes:
        cancel: As in `Exit`, for the branches, steps and items inside the loop.
    """

    cancel: bool = False

    __repr__ = _shown_call


@dataclass(frozen=True, slots=True)
class Skip:
    """The type of `SKIP`."""

    def __repr__(self) -> str:
        return "ag.SKIP"


SKIP = Skip()
"""As a case of a `switch`: run nothing, and continue after it."""


@dataclass(frozen=True, slots=True)
class Local:
    """The type of `LOCAL`."""

    def __repr__(self) -> str:
        return "ag.LOCAL"


LOCAL = Local()
"""Declares a value local to its branch or call: `notes: Annotated[list, operator.add, LOCAL]`.

It is scratch data of a branch, an item, a step or an agent that runs as a tool: branches inside it read
the value, the join does not return it, and it never conflicts. In the root it is an ordinary value.
"""


@hints_options
@dataclass(frozen=True, slots=True)
class TransferTo(ToolOutputMixin):
    """Transfers to another agent: a sub-agent of the chat agent, or the agent above it.

    A function returns or yields it, or a tool returns it: `TransferTo("writer")`. An unknown target
    raises `InvalidOutputError` in a function; in a tool the model receives the error.

    Attributes:
        agent_name: The target of the transfer.
    """

    agent_name: str


@hints_options
@dataclass(frozen=True, slots=True)
class Ask(ToolOutputMixin):
    """Asks a person; the function is called again with `ctx.answered` and `ctx.answer` set.

    The earlier output of the function is saved, and not emitted twice. A tool calls LangGraph's
    `interrupt()` instead.

    >>> from agentgraph.testing import transcript
    >>> def boss(ctx) -> str | Ask:
    ...     return f"So {ctx.answer}." if ctx.answered else Ask("Print it?")
    >>> runner = Runner(function_agent("boss", boss))
    >>> transcript(runner.run("Go.", thread_id="monday")), transcript(runner.resume("monday", "no"))
    (['boss: [asks] Print it?'], ['boss: So no.'])

    Attributes:
        value: The question: data that has a JSON form.
        response_schema: The schema of an answer: a type that pydantic knows, or a JSON schema;
            by default any plain data is an answer.
        timeout: The time to wait for an answer, as in `human`, in seconds or as a timedelta.
        default: The answer after that time; without one the agent fails with `QuestionTimeoutError`.
    """

    value: object
    response_schema: ResponseSchema = None
    timeout: AnswerTimeout = None
    default: Default = NO_DEFAULT

    def __repr__(self) -> str:
        timeout = "" if self.timeout is None else f", timeout={shown(self.timeout)}"
        default = "" if isinstance(self.default, NoDefault) else f", default={shown(self.default)}"
        schema = shown(self.response_schema)
        return f"Ask(value={shown(self.value)}, response_schema={schema}{timeout}{default})"


@hints_options
@dataclass(frozen=True, slots=True)
class Custom(ToolOutputMixin):
    """Emits a custom event: its `output.custom` is the data, and its `kind` is "custom".

    Models do not see it. It is saved in the thread, and replayed by `events`.

    Attributes:
        data: The data of the event, which must have a JSON form.
    """

    data: object

    def __repr__(self) -> str:
        return f"Custom(data={shown(self.data)})"


@hints_options
class SetValues(ToolOutputMixin):
    """Writes values of the run: `SetValues(topic="bees")`.

    Later agents, also of later turns, find them in `ctx.values` and in templates; the current `ctx`
    does not change. A branch sees its own values, and the join merges them in declared order. The
    event's `kind` is "values"; names that begin with "_" and those declared `LOCAL` are left out.

    Attributes:
        values: The values to write or overwrite, plain data by name.
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
    """Values that the package itself writes: concurrent writes of them do not conflict.

    Attributes:
        kept: Data of an enclosing derived agent that is not a value of the run, by the agent's name.
    """

    __slots__ = ("kept",)

    def __init__(self, values: Values, kept: "Kept") -> None:
        self.values, self.kept = dict(values), kept


Kept = Mapping[str, Values]
"""The private data of derived agents, by their names: entries of plain data by key. The name "" has
the data that all of them share."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of the check of an agent that has ended.

    Attributes:
        messages: Messages to add at the agent's address.
        custom: Plain data, each emitted as a custom event.
        values: Values of the run to write.
        kept: Data of an enclosing derived agent that is not a value of the run, by the agent's name.
        repeats: Whether the agent runs again.
        failed: The error, if the last attempt failed: the run fails, and a resume runs the agent again.
    """

    messages: tuple[BaseMessage, ...] = ()
    custom: tuple[object, ...] = ()
    values: Values = field(default_factory=dict)
    kept: "Kept" = field(default_factory=dict)
    repeats: bool = False
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The possible ends of a leaf.

    Attributes:
        proceed: Whether it may end without a signal, so that the next agent runs.
        exit: Whether it may end the run.
        break_loop: Whether it may end a loop.
        transfer: Whether it may transfer to another agent.
        ask: Whether it may ask a person.
    """

    proceed: bool = True
    exit: bool = False
    break_loop: bool = False
    transfer: bool = False
    ask: bool = False

    def __or__(self, other: "Capabilities") -> "Capabilities":
        """Return the union of both capabilities."""
        return Capabilities(*(getattr(self, name) or getattr(other, name) for name in self.__slots__))


EVERYTHING = Capabilities(exit=True, break_loop=True, transfer=True, ask=True)
