"""One implementation for sync and async: coroutines that await calls, which are made either way.

```
async def text() -> str:
    reply = await Call(model.invoke, model.ainvoke, (messages, config))
    return reply.text

run_calls(text())          # calls model.invoke
await arun_calls(text())   # awaits model.ainvoke
```

An awaited `Call` hands itself out of the coroutine, to `run_calls` or `arun_calls`, which makes it and
sends the result back in. An exception of a call is raised in the coroutine, at the `await`. Such a
coroutine awaits nothing but calls and coroutines like itself; no event loop ever runs it.

A generator that produces events and makes calls in between yields the calls too, and
`yield from awaiting(text())` where it waits for a coroutine.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from operator import methodcaller
from types import CoroutineType
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Call(NamedTuple):
    """One call, made when it is awaited.

    Attributes:
        sync: The function that sync runs call.
        awaited: The function that async runs await.
        arguments: The arguments of both.
    """

    sync: Callable[..., object]
    awaited: Callable[..., Awaitable[object]]
    arguments: tuple[object, ...] = ()

    def __await__(self) -> Generator["Call", Any, Any]:
        return (yield self)


Calls = Coroutine[Any, Any, T]
"""A coroutine that awaits calls, and returns a `T`."""
Advance = Callable[[], Call | T]
"""Advances a coroutine or generator: sends a result into it, or throws an error."""


def awaiting(calls: Calls[T]) -> Generator[Call, Any, T]:
    """Return the calls of a coroutine, for a generator that waits for it; its value is the result."""
    return calls.__await__()


def run_calls(calls: Calls[T] | Generator[Call | T, object, T], step: Advance[T] | None = None) -> T:
    """Make the calls of a coroutine and return its result; of a generator also what else it yields.

    Args:
        calls: The coroutine or generator.
        step: Advances it; by default it is sent None.
    """
    step = step or partial(calls.send, None)
    while True:
        try:
            call = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            del step  # an error in it would hold itself
        if not isinstance(call, Call):
            if type(calls) is CoroutineType:
                raise _not_a_call(calls, call)
            return call
        try:
            step = partial(calls.send, call.sync(*call.arguments))
        except BaseException as error:
            step = partial(calls.throw, error)


async def arun_calls(
    calls: Calls[T] | Generator[Call | T, object, T], step: Advance[T] | None = None
) -> T:
    """Await the calls of a coroutine or generator, as `run_calls` makes them."""
    step = step or partial(calls.send, None)
    while True:
        try:
            call = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            del step
        if not isinstance(call, Call):
            if type(calls) is CoroutineType:
                raise _not_a_call(calls, call)
            return call
        try:
            step = partial(calls.send, await call.awaited(*call.arguments))
        except BaseException as error:
            step = partial(calls.throw, error)


def _not_a_call(calls: "CoroutineType[Any, Any, Any]", awaited: object) -> TypeError:
    return TypeError(f"{calls.__qualname__}: {awaited!r} was awaited; await a Call in its place")


def get_next(stream: object) -> Call:
    """Return the call that gets the next part of a stream; None at its end."""
    return Call(next, anext, (stream, None))


def close(stream: object) -> Call:
    """Return the call that closes a stream."""
    return Call(methodcaller("close"), methodcaller("aclose"), (stream,))


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread; None without one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
