"""One implementation for sync and async: generators that yield calls and receive their results.

```
def text() -> Calls[str]:
    reply = yield Call(model.invoke, model.ainvoke, (messages, config))
    return reply.text

run_calls(text())          # calls model.invoke
await arun_calls(text())   # awaits model.ainvoke
```

An exception of a call is raised in the generator, at the `yield`.
"""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Call(NamedTuple):
    """One call.

    Attributes:
        sync: The function that sync runs call.
        awaited: The function that async runs await.
        arguments: The arguments of both.
    """

    sync: Callable[..., object]
    awaited: Callable[..., Awaitable[object]]
    arguments: tuple[object, ...] = ()


Calls = Generator[Call, Any, T]
"""A generator that yields calls, receives their results, and returns a `T`."""
Advance = Callable[[], Call | T]
"""Advances a generator: sends a result into it, or throws an error."""


def run_calls(calls: Generator[Call | T, object, T], step: Advance[T] | None = None) -> T:
    """Make the calls of a generator, and return its result, or the first thing but a call it yields.

    Args:
        calls: The generator.
        step: Advances the generator; by default it is sent None.
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
            return call
        try:
            step = partial(calls.send, call.sync(*call.arguments))
        except BaseException as error:
            step = partial(calls.throw, error)


async def arun_calls(calls: Generator[Call | T, object, T], step: Advance[T] | None = None) -> T:
    """Await the calls of a generator, as `run_calls` makes them."""
    step = step or partial(calls.send, None)
    while True:
        try:
            call = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            del step
        if not isinstance(call, Call):
            return call
        try:
            step = partial(calls.send, await call.awaited(*call.arguments))
        except BaseException as error:
            step = partial(calls.throw, error)


def get_next(stream: object) -> Call:
    """Return the call that gets the next part of a stream; None at its end."""
    return Call(next, anext, (stream, None))


def close(stream: object) -> Call:
    """Return the call that closes a stream."""
    return Call(methodcaller("close"), methodcaller("aclose"), (stream,))
