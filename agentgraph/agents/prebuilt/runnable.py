"""A LangChain runnable as a leaf: a chain such as `prompt | model | parser`, or a retriever."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage

from agentgraph.agents.agents import (
    Caching,
    FunctionAgent,
    HistoryPolicy,
    InputFunction,
    OutputFunction,
    Retry,
    Timeout,
)
from agentgraph.agents.builders import function_agent
from agentgraph.agents.functions import is_awaitable, raise_unawaitable
from agentgraph.agents.habits.options import hints_options
from agentgraph.agents.langchain_values import is_model, is_runnable
from agentgraph.agents.limits import Limits
from agentgraph.agents.schemas import plain
from agentgraph.agents.signals import Custom, SetValues
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

    from agentgraph.agents.context import Context

AnyRunnable: TypeAlias = "Runnable[Any, Any]"
_OWN = ("runnable", "input", "output")
"""The options of `runnable_agent` that `function_agent` does not have."""


@hints_options
def runnable_agent(
    name: str,
    runnable: AnyRunnable,
    *,
    description: str = "",
    output_key: str | None = None,
    history: HistoryPolicy = "shared",
    input: InputFunction | None = None,
    output: OutputFunction | None = None,
    retry: Retry = None,
    timeout: Timeout = None,
    cache_policy: Caching = None,
    limits: Limits | None = None,
) -> FunctionAgent:
    """Make an agent that calls a LangChain runnable, such as `prompt | model | parser`.

    Sync runs call `invoke`, async runs `ainvoke`. The chunks of models inside it are streamed.

    >>> from langchain_core.prompts import ChatPromptTemplate
    >>> from agentgraph.testing import ScriptedChatModel, transcript
    >>> prompt = ChatPromptTemplate([("system", "Be short."), ("placeholder", "{messages}")])
    >>> writer = runnable_agent("writer", prompt | ScriptedChatModel(responses=["Bees hum."]))
    >>> transcript(Runner(writer).query("Go."))
    ['writer: Bees hum.']

    Args:
        runnable: The runnable. For a compiled graph use `graph_agent`, for a model `chat_agent`.
        input: A function, sync or async, from a `Context` to the input of the runnable; by default the
            values of the run and `messages`, in one dict; for a model the messages.
        output: A function, sync or async, from the result to the output of the agent: a text, a
            message, `SetValues(...)`, `Custom(...)`, or a list of these. By default the agent emits the
            result; data other than a text or a message becomes JSON.

    The other options are those of `function_agent`.

    Returns:
        The agent; `compile_agent` checks it.

    Raises:
        AgentGraphError: `runnable` is not a runnable.
    """
    options = {key: value for key, value in locals().items() if key not in _OWN}
    if not is_runnable(runnable):
        raise AgentGraphError(
            f"{name}: {shown(runnable)} is not a LangChain runnable; pass one, such as prompt | model, "
            "or use function_agent for a function"
        )
    return function_agent(fn=RunsRunnable(runnable, input, output), **options)


@dataclass(frozen=True, slots=True)
class RunsRunnable:
    """The function of a runnable agent.

    Attributes:
        runnable: The runnable.
        input: Makes its input; None for the default.
        output: Makes the agent's output; None for the default.
    """

    runnable: AnyRunnable
    input: InputFunction | None = None
    output: OutputFunction | None = None

    def __call__(self, ctx: "Context") -> str | BaseMessage | SetValues | Custom | None:
        """Call the runnable."""
        given = self._sync(ctx, "input", self.input, self._input_for(ctx))
        came = self._output_of(self.runnable.invoke(given))
        output: str | BaseMessage | None = self._sync(ctx, "output", self.output, came)
        return output

    async def acall(self, ctx: "Context") -> object:
        """Call the runnable on the event loop."""
        given = self._input_for(ctx)
        result = await self.runnable.ainvoke(await given if is_awaitable(given) else given)
        came = self._output_of(result)
        return await came if is_awaitable(came) else came

    def _sync(self, ctx: "Context", slot: str, fn: object, returned: Any) -> Any:
        if is_awaitable(returned):
            raise_unawaitable(ctx.address, slot, fn, returned)
        return returned

    def _input_for(self, ctx: "Context") -> Any:
        if self.input is not None:
            return self.input(ctx)
        if is_model(self.runnable):
            return ctx.messages
        return {**ctx.values, "messages": ctx.messages}

    def _output_of(self, result: object) -> Any:
        if self.output is not None:
            return self.output(result)
        if result is None or isinstance(result, str | BaseMessage):
            return result
        return json.dumps(plain(result), ensure_ascii=False)
