"""LangGraph stream parts in, agent events out; no input or output of its own.

Of a part it matters only:

- `updates`: what a leaf wrote, told entry by entry, and what a tool call came to (it carries
  `acts`), told when the call ends. Results of lanes (they carry a `signal`) and what they join to,
  and the messages of the node that ran the calls are passed over, for all of it was told before, and
  so is what a resume streams again.
- `custom`: what a leaf tells before it ends, under the key "agentgraph": an entry and its number,
  so that the update tells only what is behind it.
- `messages`: the chunks of a model's reply, which carry name and address in their metadata.

A server's stream leaves the position out of what the root's nodes wrote. So what is no message is
told by `custom`, too, and so is where a node failed; what tasks told is known by the tree.

What was told of a reply or a message and then thrown away, by a retry, a fallback or a correction,
is told to be void as soon as another attempt begins or another message is written.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import AIMessageChunk, BaseMessage, RemoveMessage, ToolMessage

from agentgraph.addresses import RunPaths, is_in_call, parse_address, root_address
from agentgraph.agents import FORKS, Agent, ChatAgent, GraphAgent
from agentgraph.events import Action, AgentEvent, Interrupt, Output
from agentgraph.failures import asked_beside, failures
from agentgraph.parts import Parts, as_message, as_question
from agentgraph.places import Place, Tree
from agentgraph.run_path import RunPath, RunStep
from agentgraph.schemas import asker, unaddressed
from agentgraph.shown import LONGEST_ERROR, cut, shown_error
from agentgraph.state import GRAPH_AGENT, STAMP, address_of, in_order, speaker_at
from agentgraph.validation import validate

STREAM_MODES: list[Literal["updates", "custom", "messages"]] = ["updates", "custom", "messages"]
"""The stream modes that tell all there is to tell, as `graph.stream(stream_mode=STREAM_MODES)` takes
them: LangGraph takes several in a list only. Without "messages" there are no chunks."""


def translate(
    agent: Agent,
    parts: Iterable[Any],
    *,
    thread_id: str | None = None,
    node: str | None = None,
    middleware: Iterable[Any] = (),
) -> Iterator[AgentEvent]:
    """Translate the stream of a compiled tree.

    ```
    graph = compile_agent(report)
    parts = graph.stream(input, stream_mode=STREAM_MODES, subgraphs=True, version="v2")
    for event in translate(report, parts): ...
    ```

    Args:
        agent: The root of the tree that the graph was compiled from.
        parts: What `graph.stream(..., subgraphs=True)` gives, with a list of stream modes: the
            parts of `version="v2"`, or the tuples of the first version. Or what `RemoteGraph`, or
            `runs.stream(..., stream_subgraphs=True)` of LangGraph's SDK, gives of a server: ask the
            latter for "messages-tuple" where "messages" stands in `STREAM_MODES`, for then the
            chunks are the same; from "messages" they lack the arguments of calls.
        thread_id: Written on every event.
        node: The node that the tree is in the graph that is streamed, if it is not all of it.
        middleware: What was passed to `compile_agent` as such.

    Yields:
        The events, each when its part arrives. An exception of the stream is reported as an
        event and then raised.

    Raises:
        InvalidAgentError: The tree has faults.
        AgentGraphError: A part does not say its stream mode.
        RemoteRunError: The run failed on a server.
    """
    yield from Translator(validate(agent, None, middleware), thread_id, node).tell(parts)


async def atranslate(
    agent: Agent,
    parts: AsyncIterable[Any],
    *,
    thread_id: str | None = None,
    node: str | None = None,
    middleware: Iterable[Any] = (),
) -> AsyncIterator[AgentEvent]:
    """Translate the async stream of a compiled tree, as `translate` does."""
    async for event in Translator(validate(agent, None, middleware), thread_id, node).atell(parts):
        yield event


class Translator:
    """Turns parts of one run into events; remembers what it has told."""

    def __init__(
        self,
        tree: Tree,
        thread_id: str | None = None,
        node: str | None = None,
        *,
        before: Iterable[AgentEvent] = (),
    ) -> None:
        """Begin to translate.

        Args:
            tree: The tree that runs.
            thread_id: Written on every event.
            node: The node that the tree is in the graph that is streamed, if it is not all of it.
            before: What this turn told before, where it goes on.
        """
        self._tree, self._thread_id, self._node = tree, thread_id, node
        self._paths, self._parts = RunPaths(tree), Parts()
        self._chats = {place.name for place in tree.places if isinstance(place.agent, ChatAgent)}
        self._graphs = {place.name for place in tree.places if isinstance(place.agent, GraphAgent)}
        self._told: dict[str, list[str]] = {}
        self._by_tasks: dict[str, list[str]] = {}
        self._begun: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._asked: set[str] = set()
        self._ids: dict[str, dict[str, None]] = {}
        for event in before:
            self._note(event)

    def tell(self, parts: Iterable[Any]) -> Iterator[AgentEvent]:
        """Yield what parts tell, and how they fail; then the exception is raised."""
        try:
            for part in parts:
                yield from self.feed(part)
        except BaseException as error:
            if _is_of_an_agent(error):
                yield from self.fail(error)
            raise

    async def atell(self, parts: AsyncIterable[Any]) -> AsyncIterator[AgentEvent]:
        """Yield what async parts tell, as `tell` does."""
        try:
            async for part in parts:
                for event in self.feed(part):
                    yield event
        except BaseException as error:
            for event in self.fail(error) if _is_of_an_agent(error) else ():
                yield event
            raise

    def feed(self, part: Any) -> Iterator[AgentEvent]:
        """Yield what one part tells.

        Raises:
            RemoteRunError: The run failed on a server, as the part says.
        """
        for kind, data, namespace in self._parts.open(part):
            if self._node is not None:
                if not namespace or namespace[0].partition(":")[0] != self._node:
                    continue
                namespace = namespace[1:]
            foreign = self._tree.is_foreign(namespace)
            if kind == "messages":
                chunk, metadata = data
                at = metadata.get(GRAPH_AGENT if foreign else "agent_address")
                yield from self._chunk(at, chunk)
            elif kind == "updates" and not foreign:
                yield from self._updates(data)
            elif kind == "custom" and not foreign and isinstance(data, Mapping) and STAMP in data:
                yield from self._custom(data[STAMP])

    def fail(self, error: BaseException) -> Iterator[AgentEvent]:
        """Yield the events of an exception that ended the run; the root's, if no agent raised it.

        Questions that were asked beside it are told, too: they are pending.
        """
        yield from self._questions(asked_beside(error))
        arose = failures(error) or [*self._failed.items()]
        for at, shown in arose or [(root_address(self._tree), shown_error(error))]:
            yield self.error(at, shown)

    def error(self, at: str, error: str) -> AgentEvent:
        """Return the event of a failure at an address."""
        error = cut(error, LONGEST_ERROR)
        return self._event(at, error=error, id=str(uuid5(NAMESPACE_URL, f"{at} {error}")))

    def question(self, asked: Any) -> AgentEvent:
        """Return the event of a LangGraph interrupt."""
        question = opened_question(self._tree, asked)
        return self._event(question.address, action=Action(interrupted=question), id=asked.id)

    def update(self, node: str, update: Mapping[str, Any]) -> Iterator[AgentEvent]:
        """Yield what a node, or the task of a tool call or a graph's message, wrote.

        Of what a node wrote the messages are left out that its tasks have told.
        """
        at = self._teller(node, update)
        if at is None:
            return
        for entry in _entries(update, self._told_by_tasks(node, update)):
            yield self._entry(at, entry)

    def _updates(self, data: Mapping[str, Any]) -> Iterator[AgentEvent]:
        if (data.get("__metadata__") or {}).get("cached"):
            return
        for node, update in data.items():
            if node == "__interrupt__":
                yield from self._questions(update)
            elif update is None:
                self._forget_failures(node)
            elif isinstance(update, Mapping) and (at := self._teller(node, update)):
                self._failed.pop(at, None)
                yield from self._discard(at, self._void(at, update))
                told = self._told.pop(at, ())
                for event in self.update(node, update):
                    if event.id not in told:
                        yield event

    def _forget_failures(self, node: str) -> None:
        """Forget that an agent failed which then ended, but said nothing that could tell where."""
        if place := self._tree.by_node.get(node):
            kept = {at: how for at, how in self._failed.items() if speaker_at(at) != place.name}
            self._failed = kept

    def _void(self, at: str, update: Mapping[str, Any]) -> list[str]:
        """Return the ids of what was told at an address, and is not among what is written now.

        A graph that is tried again begins with its first message. Where the position was left out,
        only a reply can be compared.
        """
        written = {_id_of(entry) for entry in _entries(update)}
        told = [self._begun.pop(at)] if at in self._begun else []
        told += self._told.get(at, ()) if "position" in update else ()
        if speaker_at(at) in self._graphs:
            if update.get("number", 0) == 0:
                told += self._by_tasks.pop(at, ())
            if "number" in update:  # a task's; when the node has written, all of it is known
                self._by_tasks.setdefault(at, []).extend(written)
        return [each for each in told if each not in written]

    def _teller(self, node: str, update: Mapping[str, Any]) -> str | None:
        """Return the address of who wrote, itself or by a task; None where all of it was told before.

        A fork says where it is, and so does a lane that failed, if anything is left to tell.
        """
        place = self._tree.by_node.get(node)
        if "signal" in update or (place is not None and isinstance(place.agent, FORKS)):
            return (update.get("position") or {}).get("at")
        return _writer(update) if place is not None or "acts" in update else None

    def _told_by_tasks(self, node: str, update: Mapping[str, Any]) -> int:
        """Return how many of the messages that a node wrote, the first ones, its tasks have told."""
        if (position := update.get("position")) is not None:
            return int(position.get("by_tasks", 0))
        place = self._tree.by_node.get(node)
        by_tasks = place is not None and (
            isinstance(place.agent, GraphAgent)
            or (node == place.tools_node and self._ran_tasks(place, update))
        )
        return len(update.get("messages") or ()) if by_tasks else 0

    def _ran_tasks(self, place: Place, update: Mapping[str, Any]) -> bool:
        """Tell whether tool calls ran as tasks: several, or that of an agent."""
        said = map(as_message, update.get("messages") or ())
        called = {
            message.tool_call_id: message.name for message in said if isinstance(message, ToolMessage)
        }
        agents = {inner.name for inner in self._tree.called.get(place, ())}
        return len(called) > 1 or not agents.isdisjoint(called.values())

    def _questions(self, questions: Iterable[Any]) -> Iterator[AgentEvent]:
        for asked in map(as_question, questions):
            if asked.id not in self._asked:
                self._asked.add(asked.id)
                yield self.question(asked)

    def _note(self, event: AgentEvent) -> None:
        """Remember what was told where, in a tree in which it may be void when a call runs again."""
        if self._tree.calls_again:
            self._ids.setdefault(event.address, {})[event.id] = None

    def _again(self, at: str, said: Sequence[str]) -> Iterator[AgentEvent]:
        """Yield that all is void that a lane told, for its call runs again."""
        found = parse_address(self._tree, at)
        known: list[dict[str, Any]] = [self._told, self._by_tasks, self._begun, self._failed]
        ids = dict.fromkeys(said)
        for where in {each for kept in (self._ids, *known) for each in kept}:
            if found and is_in_call(self._tree, where, *found):
                ids.update(self._ids.pop(where, {}))
                for kept in known:
                    kept.pop(where, None)
        yield from self._discard(at, list(ids))

    def _custom(self, told: Mapping[str, Any]) -> Iterator[AgentEvent]:
        at = told["at"]
        if "again" in told:
            yield from self._again(at, told["again"])
            return
        if "failed" in told:
            self._failed[at] = told["failed"]
            return
        if told["n"] == 0 and at in self._told:
            yield from self._discard(at, self._told.pop(at))
        event = self._entry(at, told["entry"])
        self._told.setdefault(at, []).append(event.id)
        yield event

    def _chunk(self, at: str | None, chunk: Any) -> Iterator[AgentEvent]:
        if at and isinstance(chunk, AIMessageChunk) and _says(chunk):
            chunk_id = chunk.id or ""
            if self._asks_once(at) and self._begun.setdefault(at, chunk_id) != chunk_id:
                yield from self._discard(at, [self._begun[at]])
                self._begun[at] = chunk_id
            yield self._event(at, output=Output(message=chunk, partial=True), id=chunk_id)

    def _asks_once(self, at: str) -> bool:
        """Tell whether at most one model is asked at a time at an address: not in graph agents."""
        return speaker_at(at) in self._chats

    def _discard(self, at: str, ids: Sequence[str]) -> Iterator[AgentEvent]:
        if ids:
            void = Action(discarded=tuple(ids))
            yield self._event(at, action=void, id=str(uuid5(NAMESPACE_URL, f"{at} {ids} void")))

    def _entry(self, at: str, entry: Any) -> AgentEvent:
        if isinstance(entry, BaseMessage | Mapping):
            entry = as_message(entry)
            return self._event(address_of(entry) or at, output=Output(message=entry), id=entry.id or "")
        event_id, kind, data, *elsewhere = entry
        at = next(iter(elsewhere), at)
        match kind:
            case "custom":
                return self._event(at, output=Output(custom=data), id=event_id)
            case "error":
                self._failed.pop(data[0], None)
                return self.error(*data)
            case "discarded":
                return self._event(at, action=Action(discarded=tuple(data)), id=event_id)
            case "transfer_to":
                return self._event(at, action=Action(transfer_to=data), id=event_id)
        action = Action(exit=kind == "exit", break_loop=kind == "break_loop")
        return self._event(at, action=action, id=event_id)

    def _event(self, at: str, **what: Any) -> AgentEvent:
        name = speaker_at(at)
        path = self._paths.of(at) or RunPath((RunStep(name),))
        event = AgentEvent(
            agent_name=name, run_path=path, address=at, thread_id=self._thread_id, **what
        )
        self._note(event)
        return event


def opened_question(tree: Tree, asked: Any) -> Interrupt:
    """Return a LangGraph interrupt as ours, the root's if it does not say who asks."""
    at = asker(asked.response_schema) or root_address(tree)
    return Interrupt(
        id=asked.id,
        address=at,
        agent_name=speaker_at(at),
        value=asked.value,
        response_schema=unaddressed(asked.response_schema),
    )


def _is_of_an_agent(error: BaseException) -> bool:
    """Return whether an exception is told: not one by which the caller leaves the stream."""
    return isinstance(error, Exception) or bool(failures(error))


def _says(chunk: AIMessageChunk) -> bool:
    """Tell whether a chunk adds anything: text, a piece of a call, or reasoning."""
    reasons = "reasoning_content" in chunk.additional_kwargs
    return bool(chunk.content or chunk.tool_call_chunks or reasons)


def _id_of(entry: Any) -> str:
    return (entry.id or "") if isinstance(entry, BaseMessage) else str(entry[0])


def _writer(update: Mapping[str, Any]) -> str | None:
    """Return the address of the leaf that wrote; by its messages where the position was left out."""
    said = map(as_message, update.get("messages") or ())
    at: str | None = (update.get("position") or {}).get("at")
    return at or next(filter(None, map(address_of, said)), None)


def _is_told(message: BaseMessage) -> bool:
    return not isinstance(message, RemoveMessage) and address_of(message) is not None


def _entries(update: Mapping[str, Any], first: int = 0) -> list[Any]:
    """Return what a leaf told, in order: messages, and `[id, kind, data]` of all else.

    The messages before the `first` one are left out, and the user's that were replaced.
    """
    written = map(as_message, update.get("messages") or ())
    messages = [
        None if i < first or not _is_told(message) else message for i, message in enumerate(written)
    ]
    return in_order(messages, (update.get("position") or {}).get("told", ()))
