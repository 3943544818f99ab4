"""Exceptions of many kinds, and what becomes of each where an agent raises it."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hostile import NoRepr
from langgraph.errors import GraphBubbleUp, NodeCancelledError

import agentgraph as ag


class PlainBaseError(BaseException):
    """Neither an `Exception` nor one that Python knows."""


class NoReprError(NoRepr, Exception):
    """An exception that cannot be shown."""


class FrozenError(Exception):
    """Takes no attributes but those that Python itself writes."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in {"__traceback__", "__cause__", "__context__", "__suppress_context__"}:
            raise AttributeError(f"{name} cannot be set")
        super().__setattr__(name, value)


class UnsavableError(Exception):
    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __reduce__(self) -> Any:
        raise TypeError("it cannot be pickled")


class BubbleError(GraphBubbleUp):
    """What LangGraph takes for control flow of its own."""


KINDS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("boom"),
    "KeyError": lambda: KeyError("boom"),
    "RuntimeError": lambda: RuntimeError("boom"),
    "StopIteration": lambda: StopIteration("boom"),
    "StopAsyncIteration": lambda: StopAsyncIteration("boom"),
    "RecursionError": lambda: RecursionError("boom"),
    "MemoryError": lambda: MemoryError("boom"),
    "AssertionError": lambda: AssertionError("boom"),
    "TimeoutError": lambda: TimeoutError("boom"),
    "asyncio.CancelledError": lambda: asyncio.CancelledError("boom"),
    "futures.CancelledError": lambda: concurrent.futures.CancelledError("boom"),
    "GeneratorExit": lambda: GeneratorExit("boom"),
    "SystemExit": lambda: SystemExit("boom"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("boom"),
    "pytest.fail": lambda: pytest.fail.Exception("boom"),
    "pytest.skip": lambda: pytest.skip.Exception("boom"),
    "pytest.exit": lambda: pytest.exit.Exception("boom"),
    "BaseException": lambda: PlainBaseError("boom"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("boom", [SystemExit(3), ValueError("x")]),
    "ExceptionGroup": lambda: ExceptionGroup("boom", [ValueError("x")]),
    "no repr": NoReprError,
    "frozen": lambda: FrozenError("boom"),
    "unsavable": UnsavableError,
    "bubble": lambda: BubbleError("boom"),
}


class Fault:
    """Raises an exception when it is called first, and nothing after that.

    Attributes:
        raised: The exception, once it was raised.
        over: Set when it was raised.
    """

    def __init__(self, kind: str) -> None:
        self.make = KINDS[kind]
        self.raised: BaseException | None = None
        self.over = threading.Event()

    def __call__(self) -> None:
        if self.raised is None:
            self.raised = self.make()
            self.over.set()
            raise self.raised


def is_ordinary(error: BaseException) -> bool:
    """Return whether an exception may be collected, retried, or shown to a model."""
    return isinstance(error, Exception) and not isinstance(error, GraphBubbleUp)


def is_verdict(error: BaseException) -> bool:
    """Return whether an exception of a check says what is wrong with a text."""
    return isinstance(error, ValueError | AssertionError)


def never(error: BaseException) -> bool:
    return False


def comes_from(error: BaseException, raised: BaseException, wraps: type[BaseException] | None) -> bool:
    """Return whether what came out of a run is what was raised, as it may be wrapped.

    Python makes another exception of some: of those that end generators and coroutines, and on the
    event loop a new one of a timeout or a cancellation; LangGraph says which node raised the latter.
    """
    if wraps and is_ordinary(raised):
        return isinstance(error, wraps) and any(is_it(one, raised) for one in causes(error))
    return is_it(error, raised)


def is_it(error: BaseException, raised: BaseException) -> bool:
    others = next((others for kind, others in _MADE_OF.items() if isinstance(raised, kind)), ())
    replaces_it = isinstance(error, ag.AgentGraphError) and isinstance(raised, _CANNOT_TRAVEL)
    by_langgraph = isinstance(error, AttributeError) and isinstance(raised, FrozenError)
    derived = (replaces_it or by_langgraph) and raised in causes(error)
    return error is raised or isinstance(error, others) or derived


def may_end_the_loop(error: BaseException) -> bool:
    """Return whether an exception may end the event loop, or the task, before it is reported."""
    ends = (asyncio.CancelledError, GeneratorExit, SystemExit, KeyboardInterrupt, GraphBubbleUp)
    return isinstance(error, ends)


def may_be_garbled(error: BaseException) -> bool:
    """Return whether an exception of a model is, or becomes on the event loop, not an `Exception`."""
    return not isinstance(error, Exception) or isinstance(error, concurrent.futures.CancelledError)


def is_open(kind: str) -> bool:
    """Return whether a kind may be taken for an ordinary failure or for control flow, as it comes."""
    return kind in {"futures.CancelledError", "bubble"}


_CANNOT_TRAVEL = (NoReprError, FrozenError)
"""The exceptions on which LangGraph cannot write its notes: an error of ours is raised from them."""
_CANCELLED = (asyncio.CancelledError, NodeCancelledError)
_MADE_OF: dict[type[BaseException], tuple[type[BaseException], ...]] = {
    StopIteration: (RuntimeError,),
    StopAsyncIteration: (RuntimeError, StopAsyncIteration),
    GeneratorExit: (RuntimeError, GeneratorExit),
    TimeoutError: (TimeoutError,),
    asyncio.CancelledError: _CANCELLED,
    concurrent.futures.CancelledError: (
        concurrent.futures.CancelledError,
        RuntimeError,
        *_CANCELLED,
    ),
}


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, and what it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
