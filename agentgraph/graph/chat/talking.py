"""Talks: generators that yield calls and receive the results, so sync and async share all other code.

```
def talk() -> Talk[str]:
    reply = yield invoked(model, messages, config)
    return reply.text

run_talk(talk())          # calls model.invoke
await arun_talk(talk())   # calls model.ainvoke
```

An exception of a call is raised in the talk, at the `yield`.
"""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableBinding

from agentgraph.graph.nodes.stopping import Contained, stoppable

T = TypeVar("T")


class Call(NamedTuple):
    """One call.

    Attributes:
        sync: The function that sync runs call.
        awaited: The function that async runs await.
        arguments: The arguments of both.
    """

    sync: Callable[..., Any]
    awaited: Callable[..., Awaitable[Any]]
    arguments: tuple[Any, ...] = ()


Talk = Generator[Call, Any, T]


def run_talk(talk: Talk[T]) -> T:
    """Run a talk, and return what it returns."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = talk.send(result) if error is None else talk.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            error = None
        try:
            result = call.sync(*call.arguments)
        except BaseException as raised:
            error = raised


async def arun_talk(talk: Talk[T]) -> T:
    """Run a talk on the event loop."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            call = talk.send(result) if error is None else talk.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            error = None
        try:
            result = await call.awaited(*call.arguments)
        except BaseException as raised:
            error = raised


def invoked(runnable: Any, *arguments: Any) -> Call:
    """Return the call that invokes a runnable; async it is cancelled when the run stops."""
    return Call(partial(_invoke, runnable), partial(_ainvoke, runnable), arguments)


def _invoke(runnable: Any, *arguments: Any) -> Any:
    with Contained():  # a `StopIteration` would end the talk
        return runnable.invoke(*arguments)


async def _ainvoke(runnable: Any, *arguments: Any) -> Any:
    with stoppable(is_thread=_is_sync(runnable)):
        return await runnable.ainvoke(*arguments)


def _is_sync(model: Any) -> bool:
    """Return whether LangChain runs a model in a thread, which a stopping run must wait for."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    kind = type(model)
    return isinstance(model, BaseChatModel) and (
        kind._agenerate is BaseChatModel._agenerate and kind._astream is BaseChatModel._astream
    )
