"""Lets middleware run an agent tool several times for one call, as LangChain's retries do.

The problem: on a resume LangGraph runs the middleware again from its start, but attempts that are over
must not run again. So each attempt runs in its own lane, saved in its own namespace. When the next one
begins, the outcome of the attempt before is saved, and its events are voided. On a resume each saved
attempt returns or raises its saved outcome, and the last attempt continues where it stopped. A failure
of the last attempt is not saved: it is tried again like any failed step.

A saver cannot save exceptions, so a failure is saved as plain data and rebuilt with its class, its
arguments and its attributes, which is what handlers look at. If its class is not loaded in this
process, no handler here can name it, and its nearest loaded base replaces it.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from agentgraph.agents.schemas import plain
from agentgraph.errors import AgentGraphError
from agentgraph.graph.failures import Failure, failures, keep_failures
from agentgraph.graph.internals import RESUMING, TASK_ID
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.lane import CHANNEL, Ended, attempts_in, namespace_of_attempt
from agentgraph.graph.saving import saver_of, step_config
from agentgraph.graph.sync_async import Call, Calls
from agentgraph.safe_repr import said
from agentgraph.tree.addresses import is_in_call, parse_address


class Attempts:
    """The attempts of one call.

    Attributes:
        current: The number of the attempt that runs, or ran last.
        said: The ids of the messages of its lane.
        came: The last text of its lane, once it succeeded.
        lock: Held on the event loop while an attempt runs, so that they run one after the other.
    """

    def __init__(self, activation: Activation, number: int, may_repeat: bool) -> None:
        """Begin before the first attempt.

        Args:
            activation: The activation of the agent that calls.
            number: The number of the call.
            may_repeat: Whether middleware wraps the call and so may run it several times.
        """
        self.current = -1
        self.said: Sequence[str | None] = ()
        self.came = ""
        self.lock = asyncio.Lock()
        self._activation, self._number = activation, number
        self._configurable = activation.config["configurable"]
        self._saver: BaseCheckpointSaver[Any] | None = saver_of(activation.config)
        self._is_loaded = not (may_repeat and self._configurable.get(RESUMING))
        self._kept: list[Ended] = []
        self._has_begun = False
        self._failure: Exception | None = None
        self._paused: GraphBubbleUp | None = None
        self._last: tuple[str, str, str] | None = None

    def next(self) -> Calls[Ended | None]:
        """Begin the next attempt; return its saved outcome if it already succeeded.

        Raises:
            Exception: The saved failure, if it already failed.
            GraphBubbleUp: The attempt before it waits for an answer.
        """
        yield from self._load()
        if self._paused is not None:
            raise self._paused
        self.current += 1
        if self.current < len(self._kept):
            kept = self._kept[self.current]
            if "failed" in kept:
                raise from_data(kept["failed"])
            return kept
        yield from self._keep()
        return None

    def _load(self) -> Calls[None]:
        """Read the saved attempts, once, if the run is resumed."""
        if self._is_loaded or self._saver is None:
            return
        read = self._saver.get_tuple, self._saver.aget_tuple
        saved = yield Call(*read, (step_config(self._activation.config),))
        self._is_loaded = True
        self._kept = [each for each in attempts_in(saved) if each["number"] == self._number]
        if self._kept:
            self._has_begun = (yield Call(*read, (self._at_next(),))) is not None

    def _keep(self) -> Calls[None]:
        """Save the outcome of the attempt before this one, if it ran in this process."""
        if self._last is None or self._saver is None:
            return
        try:
            arguments = (step_config(self._activation.config), *self._record(*self._last))
            yield Call(self._saver.put_writes, self._saver.aput_writes, arguments)
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
        self._void_before()
        self.said, self.came, self._failure = (), "", None
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

    def _void_before(self) -> None:
        """Void the events of the attempt before this one.

        On a resume this was done already, unless the process died before this attempt began.
        """
        before = self._last[0] if self._last else None
        if self._last is None and self._kept and not self._has_begun:
            before = self._kept[-1]["address"]
        found = parse_address(self._activation.node_context.tree, before) if before else None
        if before and found:
            tree, emitter = self._activation.node_context.tree, self._activation.emitter
            ids = emitter.ids_at(lambda at: is_in_call(tree, at, *found))
            emitter.void([*ids, *self.said], before)

    def _at_next(self) -> RunnableConfig:
        """Return the config of the attempt after the saved ones."""
        last = self._kept[-1]
        node = last["namespace"].rpartition(":")[0]
        namespace = namespace_of_attempt(node, last["task"], last["attempt"] + 1)
        thread_id = self._configurable["thread_id"]
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}

    def _record(self, address: str, node: str, task: str) -> tuple[list[tuple[str, Any]], str]:
        """Return the outcome of the attempt before this one as a write, and the id to save it under."""
        attempt = self.current - 1
        namespace = self._namespace(node, task, attempt)
        ended = Ended(
            task=task, number=self._number, attempt=attempt, address=address, namespace=namespace
        )
        if self._failure is None:
            ended["came"] = self.came
        else:
            ended["failed"] = as_data(self._failure)
        return [(CHANNEL, ended)], str(uuid5(NAMESPACE_URL, namespace))


def as_data(error: Exception) -> dict[str, Any]:
    """Return an exception as plain data: its classes, arguments, attributes and where it was raised."""
    classes = [each for each in type(error).__mro__ if issubclass(each, Exception)]
    attributes = {name: value for name, value in _attributes(error) if _is_plain(value)}
    return {
        "classes": [[each.__module__, each.__qualname__] for each in classes],
        "args": list(error.args) if all(map(_is_plain, error.args)) else [said(error)],
        "attributes": attributes,
        "said": said(error),
        "failures": [list(each) for each in failures(error)],
    }


def from_data(data: Mapping[str, Any]) -> Exception:
    """Rebuild an exception from what `as_data` returned.

    >>> error = from_data(as_data(ConnectionError("down")))
    >>> isinstance(error, OSError), error
    (True, ConnectionError('down'))
    """
    error = _made(data)
    for name, value in data["attributes"].items():
        object.__getattribute__(error, "__dict__")[name] = value
    keep_failures(error, [Failure(*each) for each in data["failures"]])
    return error


def _made(data: Mapping[str, Any]) -> Exception:
    kind = _kind(data["classes"])
    try:
        error = kind.__new__(kind, *data["args"])
        error.args = tuple(data["args"])
        str(error)
    except Exception:  # its constructor takes other arguments than `args`
        error = _named(data["classes"][0], Exception)(data["said"])
    return error


def _kind(classes: list[list[str]]) -> type[Exception]:
    """Return the first loaded class of an exception's bases, renamed to the exception's own class."""
    found = next(filter(None, (_loaded(*each) for each in classes)), Exception)
    module, name = classes[0]
    is_first = [found.__module__, found.__qualname__] == [module, name]
    return found if is_first else _named(classes[0], found)


def _named(first: list[str], base: type[Exception]) -> type[Exception]:
    module, name = first
    return type(name.rpartition(".")[2], (base,), {"__module__": module, "__qualname__": name})


def _loaded(module: str, name: str) -> type[Exception] | None:
    try:
        found = reduce(getattr, name.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _attributes(error: Exception) -> list[tuple[str, Any]]:
    kept = object.__getattribute__(error, "__dict__")
    return [(name, value) for name, value in kept.items() if not name.startswith(("_", "agentgraph_"))]


def _is_plain(value: Any) -> bool:
    try:
        return bool(plain(value) == value)
    except (AgentGraphError, RecursionError, UnicodeError):
        return False
