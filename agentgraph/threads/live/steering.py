"""Stops and steers the run on a thread, in this process or in another one that has its saver."""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from agentgraph.errors import AgentGraphError
from agentgraph.graph.open_types import Saver
from agentgraph.journal.lines import begun_thread
from agentgraph.journal.locks import has_shared_locks
from agentgraph.journal.requests import Request, put_request
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown
from agentgraph.threads.live.active_run import ActiveRun, active_run_on
from agentgraph.threads.live.watcher import is_shared
from agentgraph.threads.turns import Input, named_messages


def stop_here(saver: Saver, thread_id: str, reason: str) -> bool:
    """Stop the run of this process on a thread; return whether there is one."""
    run = active_run_on(saver, thread_id)
    if run is not None:
        run.stop(reason)
    return run is not None


async def stop(saver: ThreadSaver, reason: str) -> None:
    """Have the run on a thread end before the next step of each lane; at rest there is none.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
    """
    if stop_here(saver.saver, saver.thread_id, reason):
        return
    await begun_thread(saver)
    if not is_shared(saver.saver):
        return
    if not has_shared_locks(saver.saver) or await saver.is_running():
        await put_request(saver, "stop", reason=reason)


async def steer(saver: ThreadSaver, messages: Input) -> Sequence[str]:
    """Send messages as `sent` does, and return their ids."""
    request = await sent(saver, messages)
    return [str(each.id) for each in request.messages]


async def sent(saver: ThreadSaver, messages: Input) -> Request:
    """Send messages to the run on a thread; without one they begin the next turn.

    Returns:
        The request with the messages.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
        AgentGraphError: They are not messages of a user, or cannot be saved.
    """
    several = saver.saved_messages(_from_user(messages))
    if _here(saver) is None:
        await begun_thread(saver)
    request = await put_request(saver, "steer", messages=several)
    if (run := _here(saver)) is not None:
        run.take([request])
    return request


def _here(saver: ThreadSaver) -> ActiveRun | None:
    return active_run_on(saver.saver, saver.thread_id)


def _from_user(messages: Input) -> Sequence[BaseMessage]:
    """Return the messages of a user in an input, with ids.

    Raises:
        AgentGraphError: There are none, or others.
    """
    sent = named_messages(messages)
    other = next((each for each in sent if not isinstance(each, HumanMessage)), None)
    if other is not None or not sent:
        what = f"{shown(other.content)} is of type {other.type!r}" if other else "there are none"
        raise AgentGraphError(
            f"messages for an active run must be a user's, but {what}; pass a text, or HumanMessages"
        )
    return sent
