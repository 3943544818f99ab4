"""How nodes tell: what is told gets the next number and is written to the stream in one step.

One lock of a step of the root does both, for all lanes that run in it. So the numbers are the order of
the stream, branches included, and a thread that is told again needs no other.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph._internal._constants import CONFIG_KEY_RUNTIME
from langgraph.runtime import Runtime

from agentgraph.agents.schemas import plain
from agentgraph.graph.failures import Failure, failures
from agentgraph.graph.moments import MOMENT, Entry, Moment, Note, step_name
from agentgraph.graph.state import STAMP, address_of
from agentgraph.graph.values import is_same
from agentgraph.safe_repr import shown

EMITTED_BEFORE = "__agentgraph_told_before"
"""Where a run that goes on finds in `config["configurable"]` what its thread knows: a `Before`."""

Before = tuple[int, Sequence[tuple[str, str, bool]]]
"""The greatest number of a thread; and of what the step had told that goes on, and what may still turn
out to be void, the addresses, the ids, and whether it is a question."""


class Clock:
    """Numbers what is told in one step of the root, and knows what was told in it where.

    Attributes:
        turn: The turn of the thread.
        last: The greatest number so far.
    """

    def __init__(
        self, turn: int = 0, last: int = 0, before: Iterable[tuple[str, str, bool]] = ()
    ) -> None:
        self.turn, self.last, self.lock = turn, last, RLock()
        self._told: dict[str, dict[str, bool]] = {}
        for told in before:
            self.record(*told)

    def next(self) -> int:
        """Return the next number; called with the lock held."""
        self.last = max(self.last + 1, time.time_ns() // 1000)
        return self.last

    def record(self, address: str, told_id: str, is_question: bool) -> None:
        """Note what was told; called with the lock held."""
        self._told.setdefault(address, {})[told_id] = is_question

    def forget(self, ids: Iterable[str]) -> None:
        """Forget what is void now; called with the lock held."""
        for told in self._told.values():
            for each in ids:
                told.pop(each, None)

    def ids_at(self, is_meant: Callable[[str], bool], *, only_questions: bool = False) -> list[str]:
        """Return the ids of what was told at the addresses that are meant."""
        with self.lock:
            told = [each for at, ids in self._told.items() if is_meant(at) for each in ids.items()]
        return [told_id for told_id, is_question in told if is_question or not only_questions]


class Emitter:
    """Tells what one activation, or one tool call of it, tells, in its order.

    Attributes:
        notes: What it told that is no message.
        step: The name of the step.
        writer: LangGraph's own stream writer.
    """

    def __init__(self, clock: Clock, address: str, config: RunnableConfig, *, is_beside: bool) -> None:
        """Make a teller inside a node.

        Args:
            clock: That of the step of the root.
            address: Who tells.
            config: LangGraph's config of the node.
            is_beside: Whether others may tell at the same time: then all is told by the stream.
        """
        runtime: Runtime[Any] = config.get("configurable", {})[CONFIG_KEY_RUNTIME]
        info = runtime.execution_info
        node = info.checkpoint_ns.rpartition("|")[2].partition(":")[0] if info else ""
        self.step = step_name(info.checkpoint_id if info else "", node)
        self.notes: list[Note] = []
        self._clock, self._address, self._config = clock, address, config
        self.writer, self._is_beside = runtime.stream_writer, is_beside
        self._queued: list[Entry] = []
        self._streamed: list[str] = []
        self._given: dict[str, Any] = {}
        self._is_over = False

    def add_message(self, message: BaseMessage) -> None:
        """Tell a message, a copy of ours, with what is told next, or at the end."""
        self._queued.append(message)

    def add_note(self, kind: str, data: Any = None, *, note_id: str = "", address: str = "") -> None:
        """Tell what is no message, likewise."""
        self._queued.append(Note(note_id or str(uuid4()), kind, data, address or self._address))

    def flush(self) -> None:
        """Tell at once what is to be told."""
        self._flush(is_streamed=True)

    def end(self) -> list[list[Any]]:
        """Tell the rest, as the node ends, and return all that is no message, as plain data.

        What is alone in the root is told by the update of its node. A server's stream leaves out of
        that what is no message, so then all of it is written to the stream.
        """
        has_notes = Note in map(type, self._queued)
        self._flush(is_streamed=self._is_beside or has_notes)
        self._streamed.clear()
        self._is_over = True
        return [note.plain() for note in self.notes]

    def emit_question(self, question_id: str, value: Any, schema: dict[str, Any] | None) -> Note:
        """Tell at once a question that LangGraph asks, and return what told it."""
        self.add_note("interrupted", [value, schema], note_id=question_id)
        self.flush()
        return self.notes[-1]

    def add_error(self, failure: Failure) -> None:
        """Tell of a failure that does not end the run."""
        at, shown, _ = failure
        self.add_note("error", shown, address=at)

    def add_errors(self, error: BaseException) -> None:
        """Tell where a failure arose that does not end the run."""
        for failure in failures(error):
            self.add_error(failure)

    def stream_failures(self, error: BaseException) -> None:
        """Say at once where a failure arose, for a server's stream tells only that the run failed."""
        for failure in failures(error):
            self._stream_part({"failed": list(failure)})

    def void_all(self) -> None:
        """Void what was told so far: the activation, or the call, does not end."""
        self._queued.clear()
        void, self._streamed = self._streamed, []
        self.void(void)
        self.notes.clear()

    def void(self, ids: Iterable[str | None], address: str = "") -> None:
        """Tell at once that what was told under some ids is void, if there are any.

        Args:
            ids: The ids.
            address: What is void there, where that is not the teller's own.
        """
        if void := [*dict.fromkeys(each for each in ids if each)]:
            self.add_note("discarded", void, address=address)
            self.flush()

    def ids_at(self, is_meant: Callable[[str], bool]) -> list[str]:
        """Return the ids of what was told in this step of the root at the addresses that are meant."""
        return self._clock.ids_at(is_meant)

    def void_questions(self, is_meant: Callable[[str], bool]) -> None:
        """Void at once the questions that nobody has to answer any more, at the addresses meant."""
        self.void(self._clock.ids_at(is_meant, only_questions=True))

    def emit_custom(self, data: Any) -> None:
        """Tell at once what something writes to LangGraph's own stream, as plain data."""
        if self._is_over:
            self.writer(data)
            return
        self.add_note("custom", as_plain(data), note_id=(note_id := str(uuid4())))
        self._given[note_id] = data
        self.flush()

    def _flush(self, *, is_streamed: bool) -> None:
        queued, self._queued = self._queued, []
        if not queued:
            return
        with self._clock.lock:
            for entry in queued:
                self._emit(entry, is_streamed)

    def _emit(self, entry: Entry, is_streamed: bool) -> None:
        moment = Moment(self._clock.turn, self._clock.next(), self.step, self._is_beside)
        if isinstance(entry, Note):
            entry = entry._replace(moment=moment)
            told_id, address, kind = entry.id, entry.address, entry.kind
            self.notes.append(entry)
        else:
            entry.response_metadata[MOMENT] = list(moment)
            told_id, address, kind = str(entry.id), address_of(entry) or self._address, "message"
        if kind == "discarded" and isinstance(entry, Note):
            self._clock.forget(entry.data)
        else:
            self._clock.record(address, told_id, kind == "interrupted")
            self._streamed += [told_id] if is_streamed else []
        if is_streamed:
            self._stream(entry)

    def _stream(self, entry: Entry) -> None:
        """Write an entry to the stream, as the node does it: what tasks write is not the tree's.

        Custom data goes as it was given, and then what it belongs to: without it, if it is the same.
        """
        if isinstance(entry, Note) and entry.kind == "custom":
            given = self._given.pop(entry.id, entry.data)
            if not is_ours(given):
                self._stream_part(given, is_ours=False)
                entry = entry._replace(data=None) if is_same(given, entry.data) else entry
        self._stream_part({"entry": entry.plain() if isinstance(entry, Note) else entry})

    def _stream_part(self, part: Any, *, is_ours: bool = True) -> None:
        token = var_child_runnable_config.set(self._config)
        try:
            self.writer({STAMP: part} if is_ours else part)
        finally:
            var_child_runnable_config.reset(token)


class Writer:
    """LangGraph's stream writer as what runs in a node finds it: what it writes is told."""

    def __init__(self, emitter: Emitter, *, passes_ours: bool = False) -> None:
        """Make a writer.

        Args:
            emitter: What tells it.
            passes_ours: Whether what an inner tree tells goes on as it is: it is not this tree's.
        """
        self._emitter, self._passes_ours = emitter, passes_ours
        self.around = emitter.writer

    def __call__(self, data: Any) -> None:
        """Write something."""
        if self._passes_ours and is_ours(data):
            self.around(data)
        else:
            self._emitter.emit_custom(data)


def without_writer(config: RunnableConfig) -> RunnableConfig:
    """Return a config with LangGraph's own stream writer."""
    writer = config["configurable"][CONFIG_KEY_RUNTIME].stream_writer
    while isinstance(writer, Writer):
        writer = writer.around
    return with_writer(config, writer)


def with_writer(config: RunnableConfig, writer: Callable[[Any], None]) -> RunnableConfig:
    """Return a config in which something is LangGraph's stream writer."""
    configurable = config["configurable"]
    runtime = configurable[CONFIG_KEY_RUNTIME].override(stream_writer=writer)
    return {**config, "configurable": {**configurable, CONFIG_KEY_RUNTIME: runtime}}


def is_ours(part: Any) -> bool:
    """Tell whether a part of a custom stream is one of ours."""
    return isinstance(part, Mapping) and STAMP in part


def as_plain(data: Any) -> Any:
    """Return data as plain JSON data; as text where it has no such form."""
    try:
        return plain(data)
    except Exception:
        return shown(data)
