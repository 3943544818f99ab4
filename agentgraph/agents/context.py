"""The `Context`: the view of the run for users' functions and tools."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol

from langchain_core.messages import BaseMessage
from langchain_core.tools.base import _DirectlyInjectedToolArg
from typing_extensions import TypeVar

from agentgraph.agents.entries import Entry, Item
from agentgraph.agents.habits.names import hints_names
from agentgraph.agents.run_path import RunPath
from agentgraph.agents.signals import Values

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import Runtime
    from langgraph.store.base import BaseStore

RunContext = TypeVar("RunContext", default=Any)
"""The type of LangGraph's runtime context."""


class KeepingContext(Protocol):
    """A context that also shows the package's own agents their stored data."""

    def kept(self, name: str) -> Values:
        """Return the data of the nearest enclosing agent with this name; for "" the shared data."""


@hints_names("Context")
class Context(_DirectlyInjectedToolArg, ABC, Generic[RunContext]):
    """The view of the run for a function agent, the `until` of a loop, a check, or a tool.

    ```
    def writer(ctx: Context) -> str:
        return f"Draft {ctx.iteration + 1} about {ctx.values['topic']}."
    ```

    A tool gets it as the parameter annotated with `Context`, under any name; the model does not see
    that parameter, as with LangGraph's `ToolRuntime`, which has the same base class. For a tool,
    `messages` are all messages of the run.

    `ctx: Context[Tenant]` declares to type checkers that `ctx.context` is a `Tenant`.

    Attributes:
        values: The values of the run, as a read-only mapping; write them with `SetValues`.
        answered: Whether this call follows the answer to an `Ask`.
        answer: That answer, as plain data; None before.
        asked: The number of answered `Ask` questions of this activation.
        item: The item of the nearest `each` around this activation; None outside.
    """

    values: Values
    answered: bool
    answer: Any
    asked: int
    item: Item | None

    @property
    @abstractmethod
    def messages(self) -> list[BaseMessage]:
        """The messages that this agent's `history` selects; for `until` and checks, all, unchanged.

        A message of another agent becomes a user message that names the speaker, as in google-adk:
        `[critic] said: Too short.`
        """

    @property
    @abstractmethod
    def name(self) -> str:
        """The agent's name."""

    @property
    @abstractmethod
    def entries(self) -> list[Entry]:
        """The whole history, regardless of `history`, with the agent and address of each message."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address of this activation, such as `report/refine[1]/critic`."""

    @property
    @abstractmethod
    def idempotency_key(self) -> str:
        """A key with which a service performs an action only once, such as a payment or a mail.

        It is made of the thread, the turn and the address of the activation; for a tool also of the
        number of the call, its id, the name of the tool and the arguments with which it runs. So
        it is the same when a step or a call is retried, also after a crash, a resume or a rewind. It
        differs for another call, even one with the same id, and on a copy of the thread. Without a
        thread, each run has its own keys.
        """

    @property
    @abstractmethod
    def run_path(self) -> RunPath:
        """The run path of this activation."""

    @property
    @abstractmethod
    def iteration(self) -> int | None:
        """The iteration of the nearest loop, counted from 0; None outside a loop."""

    @property
    @abstractmethod
    def context(self) -> RunContext:
        """LangGraph's runtime context, passed with `context=` to the run; None without one."""

    @abstractmethod
    def run(self, name: str, request: str, *, key: "str | int | None" = None) -> Any:
        """Run one of the `agents` of this function agent, and return its `Reply`.

        In a coroutine or an async generator it is awaited: `await ctx.run("research", "Bees?")`.
        Each call is isolated: the agent sees the request, and the values. On a resume the function
        starts from scratch, and calls that have ended return their saved results. Calls are identified
        by their keys, or else by their order, so the function must make the same calls each time.

        A call that asks a person waits for the answer while other calls of the function run, and a
        tenth of a second longer, in which the function may make the next call. Then the function
        pauses, whatever else it does: the call raises an exception that `except Exception` does not
        catch. A timeout around such a call pauses the function too.

        Args:
            name: The name of the agent.
            request: The task for the agent.
            key: A text or whole number that names the call in addresses: `flow/research(bees)`.

        Returns:
            The `Reply`; in a coroutine an awaitable of it.

        Raises:
            AgentGraphError: The agent is not declared, the key is used twice, or on a resume the
                request differs from the earlier one of this call.
            Exception: The exception of the agent. If the function catches it, it is an `error` event.
        """

    @property
    @abstractmethod
    def config(self) -> "RunnableConfig":
        """LangGraph's config of this node: callbacks, tags, metadata, and the `configurable` keys."""

    @property
    @abstractmethod
    def store(self) -> "BaseStore | None":
        """LangGraph's store, passed with `store=` to the runner or the graph; None without one."""

    @property
    @abstractmethod
    def runtime(self) -> "Runtime[RunContext]":  # type: ignore[type-var]
        """LangGraph's runtime, with its store, context and stream writer."""
