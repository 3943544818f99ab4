"""A reminder to a supervisor's model that a worker is called repeatedly without a new result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from agentgraph.agents.agents import ModelInput
from agentgraph.agents.context import Context, Entry
from agentgraph.agents.functions import is_async, takes_two
from agentgraph.agents.tools import TRANSFER_PREFIX

PATIENCE = 3
"""How many equal results of a worker in a row trigger the reminder."""


def with_reminder(model_input: ModelInput | None, workers: Sequence[str]) -> ModelInput:
    """Return a `model_input` that adds the reminder, and then calls the given one."""
    if model_input is not None and (not callable(model_input) or is_async(model_input)):
        return model_input  # a fault, reported when the tree is compiled
    return Reminder(tuple(workers), model_input)


@dataclass(frozen=True, slots=True)
class Reminder:
    """Adds a message if the last turns of a worker had the same result.

    Attributes:
        workers: The names of the workers.
        inner: The user's `model_input`, called last.
    """

    workers: tuple[str, ...]
    inner: Callable[..., Sequence[BaseMessage]] | None = None

    def __call__(self, ctx: Context, messages: list[BaseMessage]) -> Sequence[BaseMessage]:
        """Return the messages to send to the model."""
        turns = worker_turns(ctx.entries, ctx.name, self.workers)
        if len(turns) >= PATIENCE and len(set(turns[-PATIENCE:])) == 1:
            messages = [*messages, HumanMessage(_reminder(turns))]
        if self.inner is None:
            return messages
        return self.inner(ctx, messages) if takes_two(self.inner) else self.inner(messages)


class WorkerTurn(NamedTuple):
    """The result of a worker that the supervisor called or handed over to.

    Attributes:
        worker: The name of the worker.
        result: The text of its last message.
    """

    worker: str
    result: str


def worker_turns(entries: Sequence[Entry], me: str, workers: Sequence[str]) -> list[WorkerTurn]:
    """Return the turns of the workers that `me` has called since the user's last input.

    A worker that is a tool answers in the result of its call; the messages of a worker that was
    handed over to follow the result of the transfer, until `me` speaks again.
    """
    turns: list[WorkerTurn] = []
    handed_over = False
    for entry in entries:
        message = entry.message
        if entry.agent_name is None:
            turns.clear()
        elif entry.agent_name == me:
            name = (message.name or "").removeprefix(TRANSFER_PREFIX)
            named = isinstance(message, ToolMessage) and name in workers
            handed_over = named and name != message.name
            if named:
                turns.append(WorkerTurn(name, "" if handed_over else str(message.text)))
        elif handed_over:
            turns[-1] = turns[-1]._replace(result=str(message.text))
        handed_over = handed_over and bool(turns)
    return turns


def _reminder(turns: Sequence[WorkerTurn]) -> str:
    last = turns[-1]
    count = next((i for i, turn in enumerate(reversed(turns)) if turn != last), len(turns))
    return (
        f"{last.worker} was named {count} times in a row and said the same each time. Ask for "
        "something else, name another one, or answer yourself."
    )
