"""Runs as server-sent events, for web handlers: each event, then how the run has ended."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from agentgraph.safe_repr import shown_error
from agentgraph.threads.live.following import Follow
from agentgraph.threads.runs import AsyncRun, Run

RETRY = 3.0
"""After how many seconds a browser whose connection was lost connects again."""


def served(events: Run | Follow, status: Callable[[], str], retry: float) -> Iterator[str]:
    """Yield events as server-sent ones: first when to connect again, last an `end` event.

    Args:
        events: The events of a run.
        status: Returns the status of its thread at the end.
        retry: After how many seconds to connect again.
    """
    yield _retry(retry)
    error: Exception | None = None
    with events:
        try:
            for event in events:
                yield event.to_sse()
        except Exception as raised:  # its error event has been yielded
            error = raised
    yield _end(events.thread_id, "failed" if error else status(), error)


async def aserved(
    events: AsyncRun, status: Callable[[], Awaitable[str]], retry: float
) -> AsyncIterator[str]:
    """Yield events as server-sent ones on the event loop, as `served` does."""
    yield _retry(retry)
    error: Exception | None = None
    async with events:
        try:
            async for event in events:
                yield event.to_sse()
        except Exception as raised:
            error = raised
    yield _end(events.thread_id, "failed" if error else await status(), error)


def _retry(seconds: float) -> str:
    return f"retry: {round(seconds * 1000)}\n\n"


def _end(thread_id: str, status: str, error: Exception | None) -> str:
    data = {"thread_id": thread_id, "status": status, "error": error and shown_error(error)}
    return f"event: end\ndata: {json.dumps(data)}\n\n"
