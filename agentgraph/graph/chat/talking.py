"""Talks: generators that yield calls and are sent their results, so that sync and async share all else.

```
def talk() -> Talk[str]:
    reply = yield Call(model, messages, config)
    return reply.text

run_talk(talk())          # calls model.invoke
await arun_talk(talk())   # calls model.ainvoke
```
"""

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig

from agentgraph.graph.nodes.stopping import stoppable

T = TypeVar("T")


class Call(NamedTuple):
    """One call of a runnable."""

    runnable: Runnable[Any, Any]
    input: Any
    config: RunnableConfig


Talk = Generator[Call, Any, T]


def run_talk(talk: Talk[T]) -> T:
    """Carry a talk out, and return what it returns."""
    result = None
    while True:
        try:
            call = talk.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        result = call.runnable.invoke(call.input, call.config)


async def arun_talk(talk: Talk[T]) -> T:
    """Carry a talk out on the event loop; each call is cancelled where the run is stopped."""
    result = None
    while True:
        try:
            call = talk.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        with stoppable(is_thread=_is_sync(call.runnable)):
            result = await call.runnable.ainvoke(call.input, call.config)


def _is_sync(model: Any) -> bool:
    """Return whether LangChain runs a model in a thread, which is waited for where the run stops."""
    while isinstance(model, RunnableBinding):
        model = model.bound
    kind = type(model)
    return isinstance(model, BaseChatModel) and (
        kind._agenerate is BaseChatModel._agenerate and kind._astream is BaseChatModel._astream
    )
