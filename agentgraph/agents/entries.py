"""What users' functions are given beside the context: items, entries of the history, replies."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_core.messages import BaseMessage

from agentgraph.agents.habits.names import hints_names
from agentgraph.agents.run_path import RunPath
from agentgraph.agents.signals import Values

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


@hints_names("Reply")
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
