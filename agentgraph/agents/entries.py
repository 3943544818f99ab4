"""Further arguments of users' functions: items, entries of the history, replies."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_core.messages import BaseMessage

from agentgraph.agents.habits.names import hints_names
from agentgraph.agents.run_path import RunPath
from agentgraph.agents.signals import Values

PathOf = Callable[[str, BaseMessage | None], RunPath | None]
"""Returns the run path of the address of a message, or None if the address is not in the tree.

Without a message it is the caller's address.
"""


@dataclass(frozen=True, slots=True)
class Item:
    """One of the items of an `each`, for the agent that runs for it: `ctx.item`.

    Attributes:
        number: Its number, from 0.
        key: Its key; None if the items have no keys.
        value: The item.
        results: For a step of a plan: the texts of the steps on which it depends, by name.
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
        agent_name: The agent that wrote it; None for the user.
        address: The address of that agent, such as `report/refine[1]/critic`; None for the user.
    """

    message: BaseMessage
    agent_name: str | None
    address: str | None
    _path_of: PathOf = field(repr=False, compare=False)
    _left_out: bool = field(default=False, repr=False, compare=False)

    @cached_property
    def run_path(self) -> RunPath:
        """The run path of the agent that wrote it; empty for the user's messages."""
        return (self.address and self._path_of(self.address, self.message)) or RunPath()


@hints_names("Reply")
class Reply(str):
    """The reply of an agent that a function ran: the text of its last message, saved as a plain `str`.

    Attributes:
        data: Its structured answer, typed by its `output_schema`; or else the value of its last
            `output_key`; None without one.
        values: The values that it wrote.
        messages: All messages of the agent and the agents inside it.
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
            text: The text of the agent's last message.
            data: Its structured answer, or the value of its last `output_key`.
            values: The values that it wrote.
            messages: All messages.

        Returns:
            The reply.
        """
        self = super().__new__(cls, text)
        self.data, self.values, self.messages = data, values or {}, list(messages)
        return self

    def __reduce__(self) -> "tuple[type[str], tuple[str]]":
        return str, (str(self),)
