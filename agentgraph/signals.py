"""What functions and tools may give besides messages, and what their annotations allow."""

import functools
import inspect
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.messages.tool import ToolOutputMixin

from agentgraph.shown import shown

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
class Verdict:
    """What a check makes of an agent that has ended.

    Attributes:
        messages: What is said about it, at its address.
        custom: Plain data, each told as an event.
        values: Values of the run.
        again: Whether the agent is to run again.
        failed: Why it is to fail instead, if that was its last attempt; it runs again on a resume.
    """

    messages: tuple[BaseMessage, ...] = ()
    custom: tuple[Any, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class May:
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

    def __or__(self, other: "May") -> "May":
        """Return what either may do."""
        return May(*(getattr(self, name) or getattr(other, name) for name in self.__slots__))


EVERYTHING = May(exit=True, break_loop=True, transfer=True, ask=True)
_AWAITED = (Awaitable, Coroutine)
_SEVERAL = (list, tuple)
"""What a function or a tool may return several items in."""
_STREAMS = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether `fn` is a coroutine function or an async generator."""
    return _is_any(fn, inspect.iscoroutinefunction, inspect.isasyncgenfunction)


def takes_two(fn: Callable[..., Any]) -> bool:
    """Tell whether `fn` must be given two arguments: a context besides what it is about."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(fn).parameters.values()
    return len([p for p in parameters if p.kind in kinds and p.default is p.empty]) > 1


def yields(fn: Callable[..., Any]) -> bool:
    """Tell whether `fn` is a generator, sync or async, or says that it hands one on."""
    inner = inspect.unwrap(fn)
    if _is_any(inner, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        return True
    return any(typing.get_origin(hint) in _STREAMS for hint in _members(_return_hint(fn)))


def names_writer(fn: Callable[..., Any]) -> bool:
    """Tell whether the code of `fn` names LangGraph's stream writer.

    >>> from langgraph.config import get_stream_writer
    >>> names_writer(lambda ctx: get_stream_writer()("half done")), names_writer(lambda ctx: "done")
    (True, False)
    """
    inner = inspect.unwrap(fn)
    inner = getattr(inner, "func", inner)
    found = [getattr(each, "__code__", None) for each in (inner, type(inner).__call__)]
    return any(code is not None and _names_writer(code) for code in found)


def _names_writer(code: Any) -> bool:
    names = (*code.co_names, *code.co_freevars)
    inner = (const for const in code.co_consts if inspect.iscode(const))
    return any("stream_writer" in name for name in names) or any(map(_names_writer, inner))


def gives_command(fn: Callable[..., Any]) -> bool:
    """Tell whether the return annotation of `fn` names a LangGraph `Command`."""
    hints = (typing.get_origin(hint) or hint for hint in _members(_return_hint(fn)))
    return any(getattr(hint, "__name__", "") == "Command" for hint in hints)


def allowed(fn: Callable[..., Any]) -> May:
    """Return what `fn` may do by its return annotation.

    >>> def stop_or_speak(ctx) -> str | Exit: ...
    >>> allowed(stop_or_speak)
    May(go_on=True, exit=True, break_loop=False, transfer=False, ask=False)
    """
    hints = _members(_return_hint(fn))
    kinds = {kind for hint in hints for kind in _given(hint)}
    if not kinds or kinds & {Any, object, *_STREAMS, *_AWAITED}:
        return EVERYTHING
    may_be_empty = any(typing.get_origin(hint) in (*_STREAMS, list) for hint in hints)
    return May(
        go_on=may_be_empty or bool(kinds - {Exit, BreakLoop, TransferTo, Ask}),
        exit=Exit in kinds,
        break_loop=BreakLoop in kinds,
        transfer=TransferTo in kinds,
        ask=Ask in kinds,
    )


def _return_hint(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    target = fn if inspect.isroutine(fn) else type(fn).__call__
    try:
        return typing.get_type_hints(target).get("return", Any)
    except Exception:  # an annotation that cannot be resolved says nothing
        return Any


def _given(hint: Any) -> tuple[Any, ...]:
    """Return the kinds of items that a member of an annotation gives."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _STREAMS:
        ends = arguments[2:]  # what a generator returns
        return tuple(kind for part in (*arguments[:1], *ends) for kind in _members(part)) or (Any,)
    if origin in _AWAITED:
        awaited = _members(arguments[-1]) if arguments else (Any,)
        return tuple(kind for hint in awaited for kind in _given(hint))
    if hint in _SEVERAL or origin in _SEVERAL:
        return tuple(kind for part in arguments for kind in _members(part)) or (Any,)
    return (hint,)


def _members(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(hint) for member in _members(part))
    return (hint,)


def _is_any(fn: Callable[..., Any], *checks: Callable[[Any], bool]) -> bool:
    called = (fn, type(fn).__call__)  # the second for objects that can be called
    return any(check(each) for check in checks for each in called)
