"""How a call begins that may be a turn or a resume: `invoke` and `watch`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig

from agentgraph.errors import AgentGraphError
from agentgraph.graph.sync_async import Calls
from agentgraph.safe_repr import shown
from agentgraph.threads.config import thread_for, thread_in
from agentgraph.threads.pending import UNANSWERED, resumption
from agentgraph.threads.thread_saver import ThreadSaver
from agentgraph.threads.turns import Input, new_turn

Begin = Callable[[ThreadSaver], Calls[Any]]
"""Checks a thread, and returns LangGraph's input; called while the thread is locked."""


def beginning(
    messages: Input | None,
    thread_id: str | None,
    answers: Any,
    values: Mapping[str, Any] | None,
    config: RunnableConfig | None,
    drop_pending: bool,
) -> tuple[Begin, str]:
    """Return how a call begins, and its thread: with messages a turn, otherwise a resume.

    Raises:
        AgentGraphError: There are neither messages nor a thread, or answers besides messages.
    """
    thread = thread_for(thread_id, config)
    if messages is not None:
        if answers is not UNANSWERED:
            raise AgentGraphError(
                f"answers={shown(answers)} can only be given to resume a thread; leave the messages out"
            )
        return partial(new_turn, messages=messages, values=values, drop_pending=drop_pending), thread
    if thread_id is None and thread_in(config) is None:
        raise AgentGraphError("there is nothing to run; pass messages, or a thread_id to resume")
    return partial(resumption, answers=answers, values=values), thread
