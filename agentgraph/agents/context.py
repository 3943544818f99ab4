"""The arguments of users' functions: the `Context` of a run, and the `Entry`s of its history."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol

from langchain_core.messages import BaseMessage
from langchain_core.tools.base import _DirectlyInjectedToolArg
from typing_extensions import TypeVar

from agentgraph.agents.run_path import RunPath
from agentgraph.agents.signals import Values

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.runtime import Runtime
    from langgraph.store.base import BaseStore

RunContext = TypeVar("RunContext", default=Any)
"""The type of LangGraph's runtime context."""

PathOf = Callable[[str, BaseMessage | None], RunPath | None]
"""Returns the run path of an address at which a message was said; None if it is not in the tree.

Without a message it is the address of who asks.
"""


@dataclass(frozen=True, slots=True)
class Item:
    """One of the items of an `each`, in the lane that runs for it: `ctx.item`.

    Attributes:
        number: Its number, from 0.
        key: Its key; None if the items have no keys.
        value: The item.
        results: For a step of a plan: what the steps said that it depends on, by name.
    """

    number: int
    key: str | int | None
    value: Any
    results: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A message of the history, for `history` functions.

    ```
    def of_the_critic(entries: Sequence[Entry]) -> list[BaseMessage]:
        return [entry.message for entry in entries if entry.agent_name in (None, "critic")]

    chat_agent("writer", model, history=of_the_critic)
    ```

    Attributes:
        message: The message.
        agent_name: The agent that said it; None for the user.
        address: Where it was said, such as `report/refine[1]/critic`; None for the user.
    """

    message: BaseMessage
    agent_name: str | None
    address: str | None
    _path_of: PathOf = field(repr=False, compare=False)
    _left_out: bool = field(default=False, repr=False, compare=False)

    @cached_property
    def run_path(self) -> RunPath:
        """The run path of the agent that said it; empty for the user's messages."""
        return (self.address and self._path_of(self.address, self.message)) or RunPath()


class Reply(str):
    """What an agent said that a function ran: the text of its last message. Saved, it is a bare `str`.

    Attributes:
        data: Its structured answer, typed where it has an `output_schema`; else the value of its last
            `output_key`; None without one.
        values: The values that it wrote.
        messages: All that it and the agents inside it said.
    """

    data: Any
    values: Values
    messages: "list[BaseMessage]"

    def __new__(
        cls,
        text: str = "",
        *,
        data: object = None,
        values: Values | None = None,
        messages: Iterable[BaseMessage] = (),
    ) -> "Reply":
        """Make a reply.

        Args:
            text: What the agent said last.
            data: Its structured answer, or the value of its last `output_key`.
            values: The values that it wrote.
            messages: All that was said.

        Returns:
            The reply.
        """
        self = super().__new__(cls, text)
        self.data, self.values, self.messages = data, values or {}, list(messages)
        return self

    def __reduce__(self) -> "tuple[type[str], tuple[str]]":
        return str, (str(self),)


class KeepingContext(Protocol):
    """A context that also shows the package's own agents what is kept for them."""

    def kept(self, name: str) -> Values:
        """Return what the nearest enclosing agent with this name keeps; for "" what all share."""


class Context(_DirectlyInjectedToolArg, ABC, Generic[RunContext]):
    """The view of the run for a function agent, the `until` of a loop, a check, or a tool.

    ```
    def writer(ctx: Context) -> str:
        return f"Draft {ctx.iteration + 1} about {ctx.values['topic']}."
    ```

    A tool gets it as the parameter annotated with `Context`, whatever its name; the model does not see
    that parameter, as with LangGraph's `ToolRuntime`, which has the same base class. For a tool,
    `messages` are all messages of the run.

    `ctx: Context[Tenant]` says to type checkers that `ctx.context` is a `Tenant`.

    Attributes:
        values: The values of the run, as a read-only mapping; write them with `SetValues`.
        answered: Whether this call follows the answer to an `Ask`.
        answer: That answer, as plain data; None before.
        asked: How many of its questions, put by `Ask`, this activation has had answered.
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
        """The whole history, regardless of `history`, with who said what and where."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address of this activation, such as `report/refine[1]/critic`."""

    @property
    @abstractmethod
    def idempotency_key(self) -> str:
        """A text that names what is done here, so that a service does it once: a payment, a mail.

        It is made of the thread, the turn and the address of the activation; for a tool also of the
        place of the call in it, its id, the name of the tool and the arguments with which it runs. So
        it is the same when a step or a call is tried again, also after a crash, a resume or a rewind,
        and another one for another call, also one with the same id, and on a copy of the thread. In a
        run without a thread each run has its own.
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
        Each call runs the agent in a lane of its own: it sees the request, and the values. On a resume
        the function begins anew, and calls that have ended give what they gave before. They are known
        by their keys, else by their order, so the function must make the same calls each time.

        Args:
            name: The name of the agent.
            request: What it is asked to do.
            key: A text or whole number that names the call in addresses: `flow/research(bees)`.

        Returns:
            The `Reply`; in a coroutine what gives it when it is awaited.

        Raises:
            AgentGraphError: The agent is not declared, the key is used twice, or on a resume another
                request has the place of this one.
            Exception: What the agent raised. If the function catches it, it is an `error` event.
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
