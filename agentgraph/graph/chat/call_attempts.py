"""Lets middleware run an agent tool several times for one call, as LangChain's retries do.

The problem: on a resume LangGraph runs the middleware again from its start, but attempts that are over
must not run again. So each attempt runs in its own lane, saved in its own namespace. When the next one
begins, the outcome of the attempt before is saved, and its events are discarded. On a resume each saved
attempt returns or raises its saved outcome, and the last attempt continues where it stopped. A failure
of the last attempt is not saved: it is tried again like any failed step.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from agentgraph.graph.failures import as_data, from_data
from agentgraph.graph.internals import RESUMING, TASK_ID
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.lane import ATTEMPTS, FormerAttempt, attempts_in, namespace_of_attempt
from agentgraph.graph.open_types import Saver
from agentgraph.graph.saving import saver_of, step_config
from agentgraph.graph.sync_async import Call
from agentgraph.tree.addresses import is_in_call, parse_address


class Attempts:
    """The attempts of one call.

    Attributes:
        current: The number of the attempt that runs, or ran last.
        message_ids: The ids of the messages of its lane.
        came: The content of its lane that the model reads, once it succeeded.
        lock: Held on the event loop while an attempt runs, so that they run one after the other.
    """

    def __init__(
        self, activation: Activation, number: int, may_repeat: bool, *, is_resumed: bool = False
    ) -> None:
        """Begin before the first attempt.

        Args:
            activation: The activation of the agent that calls.
            number: The number of the call.
            may_repeat: Whether middleware wraps the call and so may run it several times.
            is_resumed: Whether the call continues after an answer in the same run.
        """
        self.current = -1
        self.message_ids: Sequence[str | None] = ()
        self.came: str | list[Any] = ""
        self.lock = asyncio.Lock()
        self._activation, self._number = activation, number
        self._configurable = activation.config["configurable"]
        self._saver: Saver | None = saver_of(activation.config)
        self._is_loaded = not (may_repeat and (is_resumed or self._configurable.get(RESUMING)))
        self._outcomes: list[FormerAttempt] = []
        self._has_begun = False
        self._failure: Exception | None = None
        self._paused: GraphBubbleUp | None = None
        self._last: tuple[str, str, str] | None = None

    async def next(self) -> FormerAttempt | None:
        """Begin the next attempt; return its saved outcome if it already succeeded.

        Raises:
            Exception: The saved failure, if it already failed.
            GraphBubbleUp: The attempt before it waits for an answer.
        """
        await self._load()
        if self._paused is not None:
            raise self._paused
        self.current += 1
        if self.current < len(self._outcomes):
            outcome = self._outcomes[self.current]
            if "failed" in outcome:
                raise from_data(outcome["failed"])
            return outcome
        await self._save()
        return None

    async def _load(self) -> None:
        if self._is_loaded or self._saver is None:
            return
        read = self._saver.get_tuple, self._saver.aget_tuple
        saved = await Call(*read, (step_config(self._activation.config),))
        self._is_loaded = True
        self._outcomes = [each for each in attempts_in(saved) if each["number"] == self._number]
        if self._outcomes:
            self._has_begun = await Call(*read, (self._at_next(),)) is not None

    async def _save(self) -> None:
        if self._last is None or self._saver is None:
            return
        try:
            arguments = (step_config(self._activation.config), *self._outcome_write(*self._last))
            await Call(self._saver.put_writes, self._saver.aput_writes, arguments)
        except BaseException:
            self.current -= 1  # this one has not begun
            raise

    @contextmanager
    def running(self, address: str, node: str) -> Iterator[None]:
        """Void the attempt before, and record how the `with` block, which runs this one, ends.

        Args:
            address: The address of its lane.
            node: The first node of its lane.
        """
        self._discard_before()
        self.message_ids, self.came, self._failure = (), "", None
        self._last = address, node, str(get_config()["configurable"][TASK_ID])
        try:
            yield
        except GraphBubbleUp as paused:
            self._paused = paused
            raise
        except Exception as error:
            self._failure = error
            raise
        except BaseException:  # cancelled by middleware, for which it is a `TimeoutError`
            self._failure = TimeoutError("the attempt was cancelled")
            raise

    def namespace(self) -> str | None:
        """Return the checkpoint namespace of this attempt; None for the first: LangGraph's own."""
        if self.current == 0 or self._last is None:
            return None
        _, node, task = self._last
        return self._namespace(node, task, self.current)

    def _namespace(self, node: str, task: str, attempt: int) -> str:
        around = self._configurable["checkpoint_ns"]
        return namespace_of_attempt(f"{around}|{node}", task, attempt)

    def _discard_before(self) -> None:
        """Void the events of the attempt before this one.

        On a resume this was done already, unless the process died before this attempt began.
        """
        before = self._last[0] if self._last else None
        if self._last is None and self._outcomes and not self._has_begun:
            before = self._outcomes[-1]["address"]
        lane = parse_address(self._activation.node_context.tree, before) if before else None
        if before and lane:
            tree, emitter = self._activation.node_context.tree, self._activation.output.emitter
            ids = emitter.ids_at(lambda at: is_in_call(tree, at, *lane))
            emitter.discard([*ids, *self.message_ids], before)

    def _at_next(self) -> RunnableConfig:
        last = self._outcomes[-1]
        node = last["namespace"].rpartition(":")[0]
        namespace = namespace_of_attempt(node, last["task"], last["attempt"] + 1)
        thread_id = self._configurable["thread_id"]
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}

    def _outcome_write(
        self, address: str, node: str, task: str
    ) -> tuple[list[tuple[str, object]], str]:
        """Return the outcome of the attempt before this one as a write, and the id to save it under."""
        attempt = self.current - 1
        namespace = self._namespace(node, task, attempt)
        ended = FormerAttempt(
            task=task, number=self._number, attempt=attempt, address=address, namespace=namespace
        )
        if self._failure is None:
            ended["came"] = self.came
        else:
            ended["failed"] = as_data(self._failure)
        return [(ATTEMPTS, ended)], str(uuid5(NAMESPACE_URL, namespace))
