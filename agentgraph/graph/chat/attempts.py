"""The attempts of one tool call whose agent middleware runs again, as LangChain's retries do.

Each is a lane of its own, kept in a namespace of its own. An attempt is over when the next one begins:
then how it ended is kept, and what it said is told to be void. On a resume the middleware runs from
its start: to each attempt that is over it is given again how that ended, and the last attempt goes on
where it stopped. So one that ended the call's last, even by a failure, is tried again like any step.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from agentgraph.graph.chat.kept_errors import as_data, from_data
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.lane import CHANNEL, Ended, attempts_in, namespace_of_attempt
from agentgraph.graph.saving import saver_of
from agentgraph.tree.addresses import is_in_call, parse_address

_RESUMING = "__pregel_resuming"
"""Where LangGraph's config says whether a run goes on."""


class Attempts:
    """The attempts of one call.

    Attributes:
        current: The number of the attempt that runs, or ran last.
        said: The ids of the messages of its lane.
        came: What its lane said last, once it ended well.
        lock: Held on the event loop while one runs: they run one after the other.
    """

    def __init__(self, activation: Activation, number: int, may_repeat: bool) -> None:
        """Begin before the first attempt.

        Args:
            activation: The activation of the agent that calls.
            number: The number of the call.
            may_repeat: Whether middleware wraps the call, and so may run it again.
        """
        self.current = -1
        self.said: Sequence[str | None] = ()
        self.came: str | None = None
        self._activation, self._number = activation, number
        self.lock = asyncio.Lock()
        self._is_loaded = not may_repeat
        self._kept: list[Ended] = []
        self._has_begun = False
        self._failure: Exception | None = None
        self._paused: GraphBubbleUp | None = None
        self._last: tuple[str, str, str] | None = None

    def load(self) -> None:
        """Read the attempts that are over, once, where a run goes on."""
        if (saver := self._saver_to_read()) is not None:
            self._take(saver.get_tuple(self._at()))
            if self._kept:
                self._has_begun = saver.get_tuple(self._at_next()) is not None

    async def aload(self) -> None:
        """Read them on the event loop."""
        if (saver := self._saver_to_read()) is not None:
            self._take(await saver.aget_tuple(self._at()))
            if self._kept:
                self._has_begun = await saver.aget_tuple(self._at_next()) is not None

    def next(self) -> Ended | None:
        """Begin the next attempt; return how it ended well, if it is over.

        Raises:
            Exception: It is over, and failed like this.
            GraphBubbleUp: The attempt before it waits for an answer.
        """
        if self._paused is not None:
            raise self._paused
        self.current += 1
        kept = self._kept[self.current] if self.current < len(self._kept) else None
        if kept is not None and "failed" in kept:
            raise from_data(kept["failed"])
        return kept

    def keep(self) -> None:
        """Keep how the attempt before this one ended, if it ran here."""
        if self._last is not None and self._saver is not None:
            with self._not_begun():
                self._saver.put_writes(self._at(), *self._record())

    async def akeep(self) -> None:
        """Keep it on the event loop."""
        if self._last is not None and self._saver is not None:
            with self._not_begun():
                await self._saver.aput_writes(self._at(), *self._record())

    @contextmanager
    def running(self, address: str, node: str) -> Iterator[None]:
        """Void the attempt before, and note how this one ends that runs in a `with` block.

        Args:
            address: Where its lane is.
            node: The node at which its lane begins.
        """
        self._void_before()
        self.said, self.came, self._failure = (), None, None
        self._last = address, node, str(get_config()["configurable"]["__pregel_task_id"])
        try:
            yield
        except GraphBubbleUp as paused:
            self._paused = paused
            raise
        except Exception as error:
            self._failure = error
            raise
        except BaseException:  # middleware cancelled it, which takes it for a `TimeoutError`
            self._failure = TimeoutError("the attempt was cancelled")
            raise

    def namespace(self) -> str | None:
        """Return where the lane of this attempt is kept; None for where LangGraph keeps the first."""
        if self.current == 0 or self._last is None:
            return None
        _, node, task = self._last
        return namespace_of_attempt(f"{self._node_namespace}|{node}", task, self.current)

    def _void_before(self) -> None:
        """Tell that the attempt before this one is void.

        Where a run goes on that was told before, unless the process ended first: then this attempt
        never began.
        """
        before = self._last[0] if self._last else None
        if self._last is None and self._kept and not self._has_begun:
            before = self._kept[-1]["address"]
        found = parse_address(self._activation.site.tree, before) if before else None
        if before and found:
            tree, teller = self._activation.site.tree, self._activation.teller
            told = teller.told_where(lambda at: is_in_call(tree, at, *found))
            teller.void([*told, *self.said], before)

    @property
    def _saver(self) -> BaseCheckpointSaver[Any] | None:
        return saver_of(self._activation.config)

    @property
    def _node_namespace(self) -> str:
        return str(self._activation.config["configurable"]["checkpoint_ns"])

    def _saver_to_read(self) -> BaseCheckpointSaver[Any] | None:
        goes_on = self._activation.config["configurable"].get(_RESUMING)
        return self._saver if goes_on and not self._is_loaded else None

    @contextmanager
    def _not_begun(self) -> Iterator[None]:
        """Count this attempt as not begun where the saver fails in a `with` block."""
        try:
            yield
        except BaseException:
            self.current -= 1
            raise

    def _take(self, saved: Any) -> None:
        self._is_loaded = True
        self._kept = [each for each in attempts_in(saved) if each["number"] == self._number]

    def _at(self) -> RunnableConfig:
        """Return the checkpoint behind which the call runs."""
        configurable = self._activation.config["configurable"]
        around = self._node_namespace.rpartition("|")[0]
        return {
            "configurable": {
                "thread_id": configurable["thread_id"],
                "checkpoint_ns": around,
                "checkpoint_id": configurable["checkpoint_map"][around],
            }
        }

    def _at_next(self) -> RunnableConfig:
        """Return where the lane is kept of the attempt after those that are over."""
        last = self._kept[-1]
        node = last["namespace"].rpartition(":")[0]
        namespace = namespace_of_attempt(node, last["task"], last["attempt"] + 1)
        thread_id = self._activation.config["configurable"]["thread_id"]
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}

    def _record(self) -> tuple[list[tuple[str, Any]], str]:
        """Return how the attempt before this one ended, and the id under which that is kept."""
        assert self._last is not None
        address, node, task = self._last
        attempt = self.current - 1
        namespace = namespace_of_attempt(f"{self._node_namespace}|{node}", task, attempt)
        ended = Ended(
            task=task, number=self._number, attempt=attempt, address=address, namespace=namespace
        )
        if self._failure is None:
            ended["came"] = self.came or ""
        else:
            ended["failed"] = as_data(self._failure)
        return [(CHANNEL, ended)], str(uuid5(NAMESPACE_URL, namespace))


def came_of(ended: Ended) -> str:
    """Return what the lane of an attempt said last that ended well."""
    return ended["came"]
