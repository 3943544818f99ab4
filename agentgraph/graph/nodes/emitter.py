"""Emits the messages and notes of nodes: assigns each the next number and writes it to the stream.

`events(thread_id)` must return the events of a run in the order in which they were streamed. LangGraph
does not save this order: it saves the updates of a superstep together, and streams them after they are
saved, while branches, steps and tool calls emit concurrently. A clock is not enough, for two threads
may read it in one order and write to the stream in the other, and clocks go back.

So all lanes in one step of the root share a `Clock`: under its lock a message or note (an *entry*) gets
the next number and is written to LangGraph's `custom` stream. The order of the numbers is the order of
the stream, and replay only has to sort. Two branches that each emit one message stream and save this:

    legal   number 7   {"agentgraph": {"entry": <message "Fine.">}}
    press   number 8   {"agentgraph": {"entry": <message "Good.">}}

A leaf that runs alone in the root's lane needs no such part: the update of its node carries its
messages. Entries are queued first, and get their numbers when they are flushed; a `discarded` note
discards the entries of a node that fails or asks.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import Runtime

from agentgraph.agents.schemas import plain
from agentgraph.graph.effects import MessageChange
from agentgraph.graph.failures import Failure, failures
from agentgraph.graph.internals import RUNTIME
from agentgraph.graph.lane_position import question_data
from agentgraph.graph.saving import as_saved
from agentgraph.graph.stamps import (
    STAMP,
    Deadline,
    Entry,
    EventCall,
    EventOrder,
    Note,
    address_of,
    emitted_stamp,
    number_of,
    step_name,
)
from agentgraph.graph.values import is_same
from agentgraph.safe_repr import LONGEST_DATA, shown

EMITTED_BEFORE = "__agentgraph_emitted_before"
"""The key in `config["configurable"]` of the `Before` of a run that continues a thread."""

TOOL_CALL = "__agentgraph_tool_call"
"""The key in `config["configurable"]` of what returns the tool call that runs an agent."""

Before = tuple[int, Sequence[tuple[str, str, bool]]]
"""The greatest number of a thread; and for each entry that the continued step had emitted, and that may
still be discarded: its address, its id, and whether it is a question."""


class Clock:
    """Numbers the entries of one step of the root, and records the ids emitted at each address.

    Attributes:
        turn: The turn of the thread.
        last: The greatest number so far.
    """

    def __init__(
        self, turn: int = 0, last: int = 0, before: Iterable[tuple[str, str, bool]] = ()
    ) -> None:
        self.turn, self.last, self.lock = turn, last, RLock()
        self._emitted: dict[str, dict[str, bool]] = {}
        for each in before:
            self.record(*each)

    def next(self) -> int:
        """Return the next number; the caller holds the lock."""
        self.last = max(self.last + 1, time.time_ns() // 1000)
        return self.last

    def record(self, address: str, entry_id: str, is_question: bool) -> None:
        """Record an entry; the caller holds the lock."""
        self._emitted.setdefault(address, {})[entry_id] = is_question

    def forget(self, ids: Iterable[str]) -> None:
        """Forget discarded entries; the caller holds the lock."""
        for emitted in self._emitted.values():
            for each in ids:
                emitted.pop(each, None)

    def ids_at(self, is_meant: Callable[[str], bool], *, only_questions: bool = False) -> list[str]:
        """Return the ids of the entries at the addresses for which `is_meant` returns true."""
        with self.lock:
            entries = [
                each for at, ids in self._emitted.items() if is_meant(at) for each in ids.items()
            ]
        return [entry_id for entry_id, is_question in entries if is_question or not only_questions]


class Emitter:
    """Emits the messages and notes of one activation, or of one of its tool calls, in order.

    Attributes:
        notes: The notes emitted so far.
        calls: Returns the tool call of which it emits custom data; None if it is not that of a call.
        step: The name of the step.
        writer: LangGraph's own stream writer.
        parks: Whether it is that of a tool call which waits for answers while others run.
    """

    parks = False

    def __init__(
        self,
        clock: Clock,
        address: str,
        config: RunnableConfig,
        *,
        is_concurrent: bool,
        step: str = "",
        transferred: Sequence[str] = (),
    ) -> None:
        """Make an emitter inside a node.

        Args:
            clock: The clock of the root's step.
            address: The address of the activation.
            config: LangGraph's config of the node.
            is_concurrent: Whether others may emit concurrently: then all entries go to the stream.
            step: The name of the step, if it is not that of the node.
            transferred: The agents that were transferred to since the last message of the history.
        """
        runtime: Runtime[Any] = config.get("configurable", {})[RUNTIME]
        if not step:
            info = runtime.execution_info
            node = info.checkpoint_ns.rpartition("|")[2].partition(":")[0] if info else ""
            step = step_name(info.checkpoint_id if info else "", node)
        self.step = step
        self.notes: list[Note] = []
        self._clock, self._address, self._config = clock, address, config
        self.writer, self._is_concurrent = runtime.stream_writer, is_concurrent
        self._control = runtime.control
        self._transferred = [*transferred]
        self._queued: deque[Entry] = deque()  # always the same: other threads may be adding to it
        self._streamed: list[str] = []
        self._custom_data: dict[str, object] = {}
        self._is_over = False
        self.calls: Callable[[], EventCall] | None = None
        self._call: EventCall | None = None

    def add_message(self, message: BaseMessage) -> None:
        """Queue a message, our own stamped copy; the next flush or the end emits it."""
        self._queued.append(message)

    def add_change(self, change: MessageChange) -> None:
        """Queue the events of a change of the history: what is discarded, and what is said."""
        if change.discarded:
            self.add_note("discarded", change.discarded)
        for message in change.messages:
            if address_of(message) is not None:
                self.add_message(message)

    def add_note(self, kind: str, data: object = None, *, note_id: str = "", address: str = "") -> None:
        """Queue a note; the next flush or the end emits it."""
        call = self._tool_call() if kind == "custom" else None
        at = address or self._address
        self._queued.append(Note(note_id or str(uuid4()), kind, data, at, call=call))

    def _tool_call(self) -> EventCall | None:
        """Return the tool call in which this code runs; the innermost one of several."""
        if self._call is None:
            calls = self.calls or self._config["configurable"].get(TOOL_CALL)
            self._call = calls() if calls else None
        return self._call

    def save_note(self, kind: str, data: object) -> None:
        """Save a note that is not an event: numbered, but not streamed."""
        with self._clock.lock:
            self._emit(Note(str(uuid4()), kind, data, self._address), is_streamed=False)

    def flush(self, *, is_streamed: bool = True) -> None:
        """Emit what is queued, mostly on the stream."""
        if not self._queued:
            return
        with self._clock.lock:
            while self._queued:
                self._emit(self._queued.popleft(), is_streamed)

    def end(self) -> list[list[object]]:
        """Emit the rest as the node ends, and return all notes as plain data.

        If nothing runs concurrently, the update of the node carries the rest. But a server's stream
        leaves notes out of updates, so with a note the rest is streamed.
        """
        has_notes = Note in map(type, self._queued)
        self.flush(is_streamed=self._is_concurrent or has_notes)
        self._streamed.clear()
        self._is_over = True
        return [note.plain() for note in self.notes] if self.notes else []

    def emit_question(
        self,
        question_id: str,
        value: object,
        schema: dict[str, object] | None,
        deadline: Deadline | None,
    ) -> Note:
        """Emit a question at once, and return its note."""
        self.add_note("interrupted", question_data(value, schema, deadline), note_id=question_id)
        self.flush()
        return self.notes[-1]

    def add_error(self, failure: Failure) -> None:
        """Queue a failure that does not end the run."""
        at, text, _ = failure
        self.add_note("error", text, address=at)

    def add_errors(self, error: BaseException) -> None:
        """Queue the failures of an exception that does not end the run."""
        for failure in failures(error):
            self.add_error(failure)

    def stream_failures(self, error: BaseException) -> None:
        """Stream where an exception arose: a server's own stream only says that the run failed."""
        for failure in failures(error):
            self._stream_part({"failed": list(failure)})

    def stream_transfers(self, chain: Sequence[Sequence[str | None]]) -> None:
        """Stream where all transfers led that led here, for readers that have not read the others."""
        self._stream_part({"hops": [self._address, self._clock.turn, *map(list, chain)]})

    def stream_lost(self, reply_ids: Sequence[str]) -> None:
        """Stream which replies become no message, so that the owner of their chunks discards them."""
        self._stream_part({"lost": [self._address, [*reply_ids]]})

    def discard_all(self) -> None:
        """Void everything emitted so far: the activation or call did not end."""
        self._queued.clear()
        if self._streamed:
            discarded, self._streamed = self._streamed, []
            self.discard(discarded)
        self.notes.clear()

    def discard(self, ids: Iterable[str | None], address: str = "") -> None:
        """Void entries at once, if there are any.

        Args:
            ids: Their ids.
            address: Their address, if it is not that of this emitter.
        """
        if discarded := [*dict.fromkeys(each for each in ids if each)]:
            self.add_note("discarded", discarded, address=address)
            self.flush()

    def ids_at(self, is_meant: Callable[[str], bool]) -> list[str]:
        """Return the ids of this step's entries at the addresses for which `is_meant` returns true."""
        return self._clock.ids_at(is_meant)

    def discard_questions(self, is_meant: Callable[[str], bool]) -> None:
        """Void at once the questions without answers at the addresses for which `is_meant` is true."""
        ids = self._clock.ids_at(is_meant, only_questions=True)
        if ids and (desk := getattr(self._control, "desk", None)):
            answered = desk.answered(ids)
            ids = [each for each in ids if each not in answered]
        self.discard(ids)

    def in_order(self, messages: Iterable[BaseMessage]) -> list[Entry]:
        """Return added messages, and the notes so far, in the order in which they are emitted."""
        several = [*messages]
        ids = {id(message) for message in several}
        every: list[Entry] = [*several, *self.notes]
        emitted = [each for each in every if number_of(each)]
        queued = (each for each in self._queued if isinstance(each, Note) or id(each) in ids)
        return [*sorted(emitted, key=number_of), *queued]

    def emit_custom(self, data: object) -> None:
        """Emit data written to LangGraph's stream writer at once, as a `custom` note.

        Raises:
            InvalidOutputError: It cannot be saved.
        """
        if self._is_over:
            self.writer(data)
            return
        saved = as_saved(self._config, self._address, "custom data", as_plain(data))
        self.add_note("custom", saved, note_id=(note_id := str(uuid4())))
        self._custom_data[note_id] = data
        self.flush()

    def _emit(self, entry: Entry, is_streamed: bool) -> None:
        order = (self._clock.turn, self._clock.next(), self.step, self._is_concurrent)
        if isinstance(entry, Note):
            entry = entry._replace(order=EventOrder(*order))
            entry_id, address, kind = entry.id, entry.address, entry.kind
            self.notes.append(entry)
        else:
            [address], entry_id, kind = entry.response_metadata[STAMP], str(entry.id), "message"
            transfers = self._transferred if address == self._address else []
            entry.response_metadata[STAMP] = emitted_stamp(address, order, transfers)
        if kind == "discarded" and isinstance(entry, Note):
            self._clock.forget(entry.data)
            if mailbox := getattr(self._control, "mailbox", None):
                mailbox.restore(entry.data)
            if desk := getattr(self._control, "desk", None):
                desk.discard(entry.data)
        else:
            self._clock.record(address, entry_id, kind == "interrupted")
            if kind == "interrupted" and isinstance(entry, Note):
                self._ask(entry)
            if is_streamed:
                self._streamed.append(entry_id)
        if is_streamed:
            self._stream(entry)

    def _ask(self, question: Note) -> None:
        control: Any = self._control
        if (desk := getattr(control, "desk", None)) is not None:
            desk.ask(question, may_continue=self.parks or control.outer is not None)

    def _stream(self, entry: Entry) -> None:
        """Write an entry to the stream.

        Custom data is written unchanged first, for plain LangGraph readers, and then our entry, which
        leaves the data out if it is the same.
        """
        if isinstance(entry, Note) and entry.kind == "custom":
            data = self._custom_data.pop(entry.id, entry.data)
            if not is_ours(data):
                self._stream_part(data, is_ours=False)
                entry = entry._replace(data=None) if is_same(data, entry.data) else entry
        self._stream_part({"entry": entry.plain() if isinstance(entry, Note) else entry})

    def _stream_part(self, part: object, *, is_ours: bool = True) -> None:
        token = var_child_runnable_config.set(self._config)  # the node's: not that of a task in it
        try:
            self.writer({STAMP: part} if is_ours else part)
        finally:
            var_child_runnable_config.reset(token)


class Writer:
    """LangGraph's stream writer for the code inside a node: it emits `custom` notes.

    Attributes:
        emitter: The emitter of the node, or of its tool call.
        outer: LangGraph's own stream writer, or another one that writes to it.
    """

    def __init__(self, emitter: Emitter, *, passes_ours: bool = False) -> None:
        """Make a writer.

        Args:
            emitter: The emitter of the node.
            passes_ours: Whether to pass on the stream parts of an inner compiled tree unchanged.
        """
        self.emitter, self._passes_ours = emitter, passes_ours
        self.outer = emitter.writer

    def __call__(self, data: object) -> None:
        """Write something."""
        if self._passes_ours and is_ours(data):
            self.outer(data)
        else:
            self.emitter.emit_custom(data)


def without_writer(config: RunnableConfig) -> RunnableConfig:
    """Return a config with LangGraph's own stream writer."""
    return with_writer(config, own_writer(config["configurable"][RUNTIME].stream_writer))


def own_writer(writer: Callable[[object], None]) -> Callable[[object], None]:
    """Return LangGraph's own stream writer, given one that may write to it."""
    while isinstance(writer, Writer):
        writer = writer.outer
    return writer


def with_writer(config: RunnableConfig, writer: Callable[[object], None]) -> RunnableConfig:
    """Return a config with another stream writer."""
    configurable = config["configurable"]
    runtime = configurable[RUNTIME].override(stream_writer=writer)
    return {**config, "configurable": {**configurable, RUNTIME: runtime}}


def is_ours(part: object) -> bool:
    """Return whether a part of a custom stream is ours."""
    return isinstance(part, Mapping) and STAMP in part


def as_plain(data: object) -> object:
    """Return data as plain JSON data, or its `repr` if it has no JSON form."""
    try:
        return plain(data)
    except Exception:
        return shown(data, LONGEST_DATA)
