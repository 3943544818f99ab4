"""Points out to a supervisor's model that a worker is named again and again, and says nothing new."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from agentgraph.agents.agents import ModelInput
from agentgraph.agents.context import Context, Entry
from agentgraph.agents.functions import is_async, takes_two
from agentgraph.agents.tools import TRANSFER_PREFIX

PATIENCE = 3
"""How often in a row a worker may say the same, before the model is told."""


def with_reminder(model_input: ModelInput | None, workers: Sequence[str]) -> ModelInput:
    """Return a `model_input` that adds the reminder, and then does what the given one does."""
    if model_input is not None and (not callable(model_input) or is_async(model_input)):
        return model_input  # a fault, told when the tree is compiled
    return Reminder(tuple(workers), model_input)


@dataclass(frozen=True, slots=True)
class Reminder:
    """Adds a message where the last turns of a worker came to nothing new.

    Attributes:
        workers: The names of the workers.
        inner: What has the last word.
    """

    workers: tuple[str, ...]
    inner: Callable[..., list[BaseMessage]] | None = None

    def __call__(self, ctx: Context, messages: list[BaseMessage]) -> list[BaseMessage]:
        """Return what the model is to be sent."""
        turns = worker_turns(ctx.entries, ctx.name, self.workers)
        if len(turns) >= PATIENCE and len(set(turns[-PATIENCE:])) == 1:
            messages = [*messages, HumanMessage(_reminder(turns))]
        if self.inner is None:
            return messages
        return self.inner(ctx, messages) if takes_two(self.inner) else self.inner(messages)


class WorkerTurn(NamedTuple):
    """What a worker came to when it was named.

    Attributes:
        worker: Its name.
        result: What it said last.
    """

    worker: str
    result: str


def worker_turns(entries: Sequence[Entry], me: str, workers: Sequence[str]) -> list[WorkerTurn]:
    """Return what came of the workers that `me` named since the user's last input.

    A worker that is a tool answers in the result of a call; what one says that was handed over to
    stands behind the result of the transfer, until `me` speaks again.
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
