"""Translates the parts of a LangGraph stream into agent events, without any input or output.

The translator reads these parts:

- `custom`: a message or note that a node emits at once, under the key "agentgraph". The part before it
  has the custom data, unchanged. Concurrent branches and tool calls emit everything in such parts.
- `updates` of the root's nodes: messages and notes that were not emitted before the node ended. Servers
  leave the position out of updates, so notes are in `custom` parts, too.
- `messages`: chunks of a model's reply, with a stamp in the metadata.

A reply may be dropped after its chunks were streamed. A `discarded` event then names the chunks: when
another reply starts at their address, when another message is emitted there, or when the node fails.
"""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property
from typing import Any, Literal
from uuid import uuid4

from langchain_core.messages import AIMessageChunk, BaseMessage

from agentgraph.agents.agents import (
    Agent,
    ChatAgent,
    FunctionAgent,
    GraphAgent,
    InnerNode,
    Middleware,
)
from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.errors import SaverError
from agentgraph.events.events import Action, AgentEvent, DefaultAnswer, Interrupt, Output
from agentgraph.events.parts import PartReader, as_message, as_question
from agentgraph.graph.deadlines import Substitute
from agentgraph.graph.failures import Failure, add_concurrent_questions, concurrent_questions, failures
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.lane_position import Question, question_data
from agentgraph.graph.stamps import (
    ANSWERED,
    GRAPH_AGENT,
    STAMP,
    Deadline,
    Entry,
    EventOrder,
    Note,
    address_of,
    asker_of,
    cursor_of,
    event_order,
    home_at,
    note_of,
    now,
    speaker_at,
    stamp_in,
    transferred_in,
)
from agentgraph.graph.stored_values import notes_in
from agentgraph.safe_repr import LONGEST_ERROR, cut, shown_error
from agentgraph.tree.addresses import Cursor, parse_address, root_address
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.run_paths import Chains, RunPaths, with_names
from agentgraph.tree.validation import validate

STREAM_MODES: list[Literal["updates", "custom", "messages"]] = ["updates", "custom", "messages"]
"""The stream modes from which `translate` yields all events: `graph.stream(stream_mode=STREAM_MODES)`.
LangGraph accepts several modes only as a list. Without "messages" there are no chunks."""


def translate(
    agent: Agent,
    parts: Iterable[object],
    *,
    thread_id: str | None = None,
    node: str | None = None,
    middleware: "Iterable[Middleware]" = (),
) -> Iterator[AgentEvent]:
    """Translate the stream of a compiled tree.

    ```
    graph = compile_agent(report)
    parts = graph.stream(input, stream_mode=STREAM_MODES, subgraphs=True, version="v2")
    for event in translate(report, parts): ...
    ```

    Args:
        agent: The root of the compiled tree.
        parts: The parts that `graph.stream(..., subgraphs=True)` yields with a list of stream modes,
            in `version="v2"` or as tuples of version "v1". Alternatively the parts of a server's
            stream, from `RemoteGraph` or the SDK's `runs.stream(..., stream_subgraphs=True)`. Pass the
            SDK "messages-tuple" instead of "messages", whose chunks have no arguments of tool calls.
            Alternatively, in beta, the parts of `graph.stream_events(..., version="v3", transformers=[
            UpdatesTransformer, CustomTransformer])`, which are in `langgraph.stream.transformers`.
        thread_id: The `thread_id` of the events.
        node: The name of the tree's node, if the tree is only a node of the streamed graph.
        middleware: The `middleware` that was passed to `compile_agent`.

    Yields:
        Each event when its part arrives. An exception of the stream becomes an event and is then
        raised.

    Raises:
        InvalidAgentError: The tree has faults.
        AgentGraphError: A part does not name its stream mode.
        RemoteRunError: The run failed on a server.
    """
    yield from Translator(validate(agent, None, middleware), thread_id, node).translated(parts)


async def atranslate(
    agent: Agent,
    parts: AsyncIterable[object],
    *,
    thread_id: str | None = None,
    node: str | None = None,
    middleware: "Iterable[Middleware]" = (),
) -> AsyncIterator[AgentEvent]:
    """Translate the async stream of a compiled tree, as `translate` does."""
    async for event in Translator(validate(agent, None, middleware), thread_id, node).atranslated(
        parts
    ):
        yield event


class Translator:
    """Converts the parts of one run to events.

    Attributes:
        last: The order of the last event.
        failures: The notes of the run's failures, and of questions asked at the same time.
    """

    def __init__(
        self,
        tree: Tree,
        thread_id: str | None = None,
        node: str | None = None,
        *,
        begin: EventOrder = EventOrder(0, 0, ""),  # noqa: B008
        waiting: Mapping[str, AgentEvent] | None = None,
        paths: RunPaths | None = None,
        typed: Callable[[Mapping[str, object]], dict[str, object]] = dict,
        former_paths: Callable[[EventOrder], RunPaths] | None = None,
    ) -> None:
        """Make a translator for one run.

        Args:
            tree: The tree that runs.
            thread_id: The `thread_id` of the events.
            node: The name of the tree's node, if the tree is only a node of the streamed graph.
            begin: The order of the last event before the run.
            waiting: The pending questions of the step that continues, by their ids.
            paths: The run paths of the tree that earlier runs have computed.
            typed: Converts values that an agent wrote to their declared types, if a saver knows them.
            former_paths: Returns the run paths at an order, if other trees have run on the thread.
        """
        self._tree, self._thread_id, self._node, self._typed = tree, thread_id, node, typed
        self._paths = paths or RunPaths(tree)
        self._chains = Chains() if self._paths.has_chains or former_paths is not None else None
        self._former_paths = former_paths
        self._begun: dict[str, dict[str, None]] = {}
        self._failed: dict[str, Failure] = {}
        self._asked = dict(waiting or {})
        self._data: object = None
        self.last = begin
        self._passing = (begin.number, 0)
        self.failures: list[Note] = []

    def translated(self, parts: Iterable[object]) -> Iterator[AgentEvent]:
        """Yield the events of parts, and those of a failure before its exception is raised."""
        try:
            for part in parts:
                yield from self.feed(part)
        except BaseException as error:
            if is_of_an_agent(error):
                yield from self.fail(error)
            raise

    async def atranslated(self, parts: AsyncIterable[object]) -> AsyncIterator[AgentEvent]:
        """Yield the events of async parts, as `translated` does."""
        try:
            async for part in parts:
                for event in self.feed(part):
                    yield event
        except BaseException as error:
            for event in self.fail(error) if is_of_an_agent(error) else ():
                yield event
            raise

    def feed(self, part: object) -> Iterator[AgentEvent]:
        """Yield the events of one part.

        Raises:
            RemoteRunError: The part reports a failed run on a server.
        """
        if type(part) is dict and part.get("type") == "updates" and not (part.get("ns") or self._node):
            return self._updates(part["data"])  # the most frequent parts
        return self._any(part)

    @cached_property
    def _parts(self) -> PartReader:
        return PartReader()

    def _any(self, part: object) -> Iterator[AgentEvent]:
        for kind, data, namespace in self._parts.open(part):
            if self._node is not None:
                if not namespace or namespace[0].partition(":")[0] != self._node:
                    continue
                namespace = namespace[1:]
            foreign = self._tree.is_foreign(namespace)
            if kind == "messages":
                chunk, metadata = data
                stamp = stamp_in(metadata)  # the models of tools have none
                at = metadata.get(GRAPH_AGENT) if foreign else stamp and stamp.address
                inner = metadata.get("lc_agent_name") if foreign else None
                if inner and at and inner != speaker_at(at):
                    chunk = chunk.model_copy(update={"name": inner})
                yield from self._chunk(at, chunk, stamp.order if stamp else EventOrder(0, 0, ""))
            elif kind == "updates" and not namespace:
                yield from self._updates(data)
            elif kind == "custom" and not foreign:
                yield from self._custom(data)

    def fail(self, error: BaseException) -> Iterator[AgentEvent]:
        """Yield the events of an exception that ended the run, at the root if no agent raised it.

        Questions that were asked at the same time are pending, so they are emitted too.
        """
        asked = concurrent_questions(error)
        add_concurrent_questions(error, ())  # another run may raise the same exception again
        for note in map(question_note, asked):
            if note.order is None:
                note = self._last_of(note, "")
            else:
                self.failures.append(note)
            yield from self._events_of(note, note.order)
        yield from self.unfinished()
        arose = failures(error) or [*self._failed.values()]
        for failure in arose or [Failure(root_address(self._tree), shown_error(error))]:
            yield self.event(self._ended(failure))

    def learn(self, turn: int, place: Place, cursor: Cursor) -> None:
        """Record the targets of the transfers before an activation, before its first event."""
        if self._chains is not None:
            self._chains.completed(turn, place, cursor)

    def _learn_names(self, at: str, turn: int, *names: Sequence[str], tree: Tree | None = None) -> None:
        if activation := parse_address(tree or self._tree, at):
            self.learn(turn, activation[0], with_names(*activation, names))

    def event(self, entry: Entry) -> AgentEvent:
        """Return the event of a message or note."""
        return self._event_of(entry, event_order(entry))

    def _event_of(self, entry: Entry, order: EventOrder | None) -> AgentEvent:
        if isinstance(entry, Note):
            if entry.kind == "values":
                entry = entry._replace(data=self._typed(entry.data))
            at, what = entry.address, _note_field(self._tree, entry)
        else:
            at, what = address_of(entry) or "", {"output": Output(message=entry)}
            if self._chains is not None and order and (names := transferred_in(entry)):
                tree = None if self._former_paths is None else self._former_paths(order).tree
                self._learn_names(at, order.turn, names, tree=tree)
        cursor = self._next_cursor() if order is None else cursor_of(order.number)
        return self._event(at or root_address(self._tree), entry.id or "", order, cursor, **what)

    def _ended(self, failure: Failure) -> Note:
        at, text, step = failure
        return self._last_of(Note(str(uuid4()), "error", cut(text, LONGEST_ERROR), at), step)

    def _last_of(self, note: Note, step: str) -> Note:
        number = max(self.last.number + 1, now())
        self.last = EventOrder(self.last.turn, number, step)
        self.failures.append(note._replace(order=self.last))
        return self.failures[-1]

    def _updates(self, data: Mapping[str, Any]) -> Iterator[AgentEvent]:
        if (data.get("__metadata__") or {}).get("cached"):
            return
        for node, update in data.items():
            if node == INTERRUPT:
                yield from self._questions(update)
            elif (place := self._tree.by_node.get(node)) and isinstance(update, Mapping | None):
                if self._failed:  # a node that has ended since then has not failed
                    rest = self._failed.items()
                    self._failed = {at: why for at, why in rest if speaker_at(at) != place.name}
                emitted = emitted_in(update) if update else []
                if len(emitted) > 1:
                    emitted.sort(key=lambda each: each[0].number)
                for order, entry in emitted:
                    if isinstance(entry, Note) and entry.kind == ANSWERED:
                        continue
                    if not order.streamed and order.number > self.last.number:
                        yield from self._events_of(entry, order)

    def _questions(self, asked: Iterable[object]) -> Iterator[AgentEvent]:
        for one in map(as_question, asked):
            if one.id not in self._asked or asker_of(one.response_schema).order is not None:
                note = question_note(one)
                yield from self._events_of(note, note.order)

    def _custom(self, data: object) -> Iterator[AgentEvent]:
        if not isinstance(data, Mapping) or not isinstance(ours := data.get(STAMP), Mapping):
            self._data = data
        elif "failed" in ours:
            failure = Failure(*ours["failed"])
            self._failed[failure.address] = failure
        elif "lost" in ours:
            yield from self._lost(*ours["lost"])
        elif "hops" in ours:
            self._learn_names(*ours["hops"])
        elif isinstance(entry := ours["entry"], list | tuple):
            note = note_of(entry)
            if note.kind == "custom" and note.data is None:
                note = note._replace(data=self._data)
            yield from self._events_of(note, note.order)
        else:
            message = as_message(entry)
            yield from self._events_of(message, event_order(message))

    def _events_of(self, entry: Entry, order: EventOrder | None) -> Iterator[AgentEvent]:
        """Yield the event of an entry, after a `discarded` event for the chunks that it replaces.

        A question that is asked again under its id discards its earlier event.
        """
        event = self._event_of(entry, order)
        if isinstance(entry, Note) and entry.kind == "interrupted":
            before = self._asked.get(entry.id)
            if before is not None and before.time == event.time:
                return
            self._asked[entry.id] = event
            yield from self._unfinished([entry.address])
            yield from self._discarded(entry.address, [entry.id] if before else [])
        if begun := self._begun.get(event.address):
            for each in (
                [event.id] if event.message else (event.action and event.action.discarded) or ()
            ):
                begun.pop(each, None)
            if event.message and self._is_chat(event.address):
                yield from self._unfinished([event.address])
        if order and order.number > self.last.number:
            self.last = order
        yield event

    def unfinished(self) -> Iterator[AgentEvent]:
        """Discard all chunks without a complete message, at the end of the run."""
        yield from self._unfinished(list(self._begun))

    def _unfinished(self, addresses: Iterable[str]) -> Iterator[AgentEvent]:
        for at in addresses:
            yield from self._discarded(at, [*self._begun.pop(at, ())])

    def _chunk(self, at: str | None, chunk: object, before: EventOrder) -> Iterator[AgentEvent]:
        if not (at and isinstance(chunk, AIMessageChunk) and _has_content(chunk)):
            return
        if self._is_chat(at) and (chunk.id or "") not in self._begun.get(at, ()):
            yield from self._unfinished([at])  # an agent calls one model at a time
        cursor = self._next_cursor(before.number)
        order = before._replace(number=now())
        output = Output(message=chunk, partial=True)
        event = self._event(at, chunk.id or "", order, cursor, output=output)
        if event.agent_name in self._discarding:
            self._begun.setdefault(at, {})[event.id] = None
        yield event

    @cached_property
    def _chats(self) -> set[str]:
        return {place.name for place in self._tree.places if place.chat}

    def _is_chat(self, at: str) -> bool:
        """Return whether a chat agent is at an address; a node of a graph may share its name."""
        return speaker_at(home_at(at, self._tree.inner_names)) in self._chats

    @cached_property
    def _discarding(self) -> set[str]:
        """The names of the agents whose chunks are discarded unless a complete message follows."""
        kinds = ChatAgent, FunctionAgent, GraphAgent, InnerNode
        return {place.name for place in self._tree.places if isinstance(place.agent, kinds)}

    def _lost(self, at: str, ids: Sequence[str]) -> Iterator[AgentEvent]:
        begun = self._begun.get(at, {})
        emitted = [each for each in ids if each in begun]
        for each in emitted:
            del begun[each]
        yield from self._discarded(at, emitted)

    def _discarded(self, at: str, ids: Sequence[str]) -> Iterator[AgentEvent]:
        if ids:
            action = Action(discarded=tuple(ids))
            yield self._event(at, str(uuid4()), self.last, self._next_cursor(), action=action)

    def _next_cursor(self, after: int = 0) -> str:
        """Make a cursor for an event that is only streamed, greater than that of the last event.

        Its last part counts microseconds, so that it differs if the run is killed and resumed.

        Args:
            after: The number of an earlier event of the thread, which may be missing in the stream.
        """
        last, part = self._passing
        number = max(self.last.number, last, after)
        part = max(part + 1 if number == last else 0, now() - number)
        self._passing = (number, part)
        return cursor_of(number, part)

    def _event(
        self, at: str, event_id: str, order: EventOrder | None, cursor: str, **what: Any
    ) -> AgentEvent:
        turn, step, time = (order.turn, order.step, order.time) if order else (None, None, None)
        paths = (
            self._paths if self._former_paths is None or order is None else self._former_paths(order)
        )
        name, path = speaker_at(at), paths.of(at, turn, self._chains)
        return AgentEvent(
            agent_name=name,
            run_path=RunPath((RunStep(name),)) if path is None else path,
            address=at,
            id=event_id,
            thread_id=self._thread_id,
            turn=turn,
            step=step,
            cursor=cursor,
            time=time,
            **what,
        )


def question_note(asked: Any) -> Note:
    """Make the note of a LangGraph interrupt, without an address if the interrupt names no agent."""
    asker = asker_of(asked.response_schema)
    data = question_data(asked.value, asker.schema, asker.deadline)
    return Note(asked.id, "interrupted", data, asker.address or "", asker.order)


def emitted_in(written: Mapping[str, Any]) -> list[tuple[EventOrder, Entry]]:
    """List the messages and notes in a node's update or a task's result, with their orders."""
    emitted: list[tuple[EventOrder, Entry]] = []
    messages = written.get("messages")
    for each in messages if isinstance(messages, list) else ():
        is_message = isinstance(each, BaseMessage)
        if is_message or (isinstance(each, Mapping) and "type" in each):
            message = each if is_message else as_message(each)
            if (order := event_order(message)) is not None:
                emitted.append((order, message))
    if (written.get("position") or {}).get("told"):
        emitted += [(note.order, note) for note in notes_in(written) if note.order is not None]
    return emitted


def is_of_an_agent(error: BaseException) -> bool:
    """Return whether an exception becomes an event: not the saver's, and not a closed stream."""
    is_of_saver = isinstance(error, SaverError)
    return bool(failures(error)) or (isinstance(error, Exception) and not is_of_saver)


def _note_field(tree: Tree, note: Note) -> dict[str, object]:
    match note.kind:
        case "custom":
            return {"output": Output(custom=note.data), "call": note.call}
        case "error":
            return {"error": note.data}
        case "interrupted":
            return {"action": Action(interrupted=question_of(tree, note))}
        case "discarded":
            return {"action": Action(discarded=tuple(note.data))}
        case "transfer_to":
            return {"action": Action(transfer_to=note.data)}
        case "chosen":
            return {"action": Action(chosen=note.data)}
        case "default":
            late: Substitute = note.data
            default = DefaultAnswer(late["id"], late["answer"], late["deadline"])
            return {"action": Action(default=default)}
        case "values":
            return {"action": Action(values=note.data)}
    return {"action": Action(exit=note.kind == "exit", break_loop=note.kind == "break_loop")}


def question_of(tree: Tree, note: Note) -> Interrupt:
    """Make the question of a note, asked by the root if the note names no agent."""
    asked: Question = note.data
    at = note.address or root_address(tree)
    deadline = asked.get("deadline")
    return Interrupt(
        id=note.id,
        address=at,
        agent_name=speaker_at(at),
        value=asked["value"],
        response_schema=asked["response_schema"],
        deadline=None if deadline is None else Deadline(*deadline).at,
    )


def _has_content(chunk: AIMessageChunk) -> bool:
    reasons = "reasoning_content" in chunk.additional_kwargs
    return bool(chunk.content or chunk.tool_call_chunks or reasons)
