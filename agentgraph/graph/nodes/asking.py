"""Asks users' functions: async runs await the result, sync runs reject an awaitable.

A function may be async, or wrapped, or an object that is called: whether it must be awaited is known
only when it has returned. So each option that takes a function is asked here, and no awaitable is ever
taken for a value.

Most are asked by coroutines (`asked`). Sync code between us and the function, such as the
walk to the next position or LangChain's middleware, asks by `Answers`: it is left where an awaitable
came, and runs again from its top once that was awaited.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

from agentgraph.agents.agents import Source
from agentgraph.agents.context import Context
from agentgraph.agents.functions import is_async, is_awaitable, names_loop, raise_unawaitable
from agentgraph.errors import AgentGraphError, MissingValueError
from agentgraph.graph.failures import mark_of_run
from agentgraph.graph.nodes.calling import run_in_thread
from agentgraph.graph.nodes.stopping import stoppable
from agentgraph.graph.sync_async import Call

MISSING = object()
"""The value that is read where the run has none of the name."""
T = TypeVar("T")


async def asked(where: str, slot: str, fn: Callable[..., object], *arguments: object) -> Any:
    """Return the result of a user's function; async runs await it if need be.

    Args:
        where: The address of the agent.
        slot: The option that has the function, for errors.
        fn: The function.
        arguments: Its arguments.

    Raises:
        AgentGraphError: A sync run cannot await what it returned.
    """
    return await awaited(where, slot, fn, fn(*arguments))


async def asked_in_thread(where: str, slot: str, fn: Callable[..., object], *arguments: object) -> Any:
    """Return the result of a user's function, as `asked`; on the event loop it runs in a thread."""
    returned = await Call(fn, partial(_off_loop, fn), arguments)
    return await awaited(where, slot, fn, returned)


async def awaited(where: str, slot: str, fn: object, returned: object) -> Any:
    """Return the result of a function that was called; async runs await it if need be.

    Raises:
        AgentGraphError: A sync run cannot await it.
    """
    if not is_awaitable(returned):
        return returned
    return await Call(_raise_unawaitable, _awaited, (where, slot, fn, returned))


def _raise_unawaitable(where: str, slot: str, fn: object, awaitable: object) -> NoReturn:
    """Refuse an awaitable in a sync run; no model and no `on_error` handles that."""
    try:
        raise_unawaitable(where, slot, fn, awaitable)
    except AgentGraphError as error:
        mark_of_run(error)
        raise


async def _awaited(where: str, slot: str, fn: object, awaitable: Any) -> object:
    with stoppable():
        return await awaitable


class Unanswered(BaseException):
    """Leaves sync code that cannot continue before an awaitable was awaited."""

    def __init__(self, answers: "Answers", key: object, *asked: object) -> None:
        super().__init__(key)
        self.answers, self.key, self.asked = answers, key, asked


class Answers:
    """The answers of functions that sync code asks, by keys that the code chooses.

    `run` runs the code, again each time an answer had to be awaited. So the code must ask the same
    each time, and do nothing before it asks that must not be done twice.
    """

    def __init__(self) -> None:
        self._known: dict[object, Callable[[], Any]] = {}

    def ask(
        self, key: object, where: str, slot: str, fn: Callable[..., object], *arguments: object
    ) -> Any:
        """Return the result of a function, or raise its error; each key is asked once.

        Raises:
            Unanswered: It returned an awaitable.
        """
        if (known := self._known.get(key)) is not None:
            return known()
        returned = fn(*arguments)
        if is_awaitable(returned):
            raise Unanswered(self, key, where, slot, fn, returned)
        self._known[key] = lambda: returned
        return returned

    async def run(self, code: Callable[[], T]) -> T:
        """Run code that asks, until all that it asks is answered, and return what it returns."""
        while True:
            try:
                return code()
            except Unanswered as unanswered:
                if unanswered.answers is not self:
                    raise
                open_one = unanswered
            await self.answer(open_one)

    async def answer(self, unanswered: Unanswered) -> None:
        """Await what a function returned."""
        try:
            answer = await awaited(*unanswered.asked)  # type: ignore[arg-type]
        except BaseException as error:
            self._known[unanswered.key] = partial(_raise, error)
        else:
            self._known[unanswered.key] = lambda: answer


def _raise(error: BaseException) -> NoReturn:
    raise error


async def look_up(
    option: str, source: Source, context: Context, *, may_be_missing: bool = False
) -> object:
    """Return the value that an option names, or what its function returns.

    On the event loop a sync function is called in a thread.

    Args:
        option: The name of the option, for errors.
        source: The option.
        context: The argument of the function; its values are looked at.
        may_be_missing: Whether a missing value is `MISSING`, and no error.

    Raises:
        MissingValueError: The run has no value of the name.
        AgentGraphError: A sync run cannot await what the function returned.
    """
    if callable(source):
        return await asked_in_thread(context.address, option, source, context)
    value = context.values.get(source, MISSING)
    if value is MISSING and not may_be_missing:
        there = [each for each in context.values if each.isidentifier()]
        raise MissingValueError(context.name, source, there, context.address, option)
    return value


async def _off_loop(fn: Callable[..., object], *arguments: object) -> object:
    """Call a function in a thread; on the event loop if it makes a coroutine or a future there."""
    if is_async(fn) or names_loop(fn):
        return fn(*arguments)
    return await run_in_thread(fn, *arguments)
