"""The node of a graph agent: runs a LangGraph graph and emits its new messages.

A foreign graph does not say what its agent said. It only shows, after each step, the list of messages
in its state; middleware may have replaced, removed or summarized any of them. The history of the run
must not follow that list: it has all that was said and all that ran, even if the graph forgets it to
save context. So each list is compared with the messages so far (`MessageLog`), by these rules:

- A message with a new id is said, unless it is a human or system message (context, such as a summary).
- A message of the agent that changed under its id is voided, and emitted as it is now.
- A message that was removed by its id is voided if it is a *word* of the agent: an AI message without
  calls. Calls and results stay, because they ran; so does everything after a removal of all messages.
- A user's message that changed under its id is replaced for all agents, without an event (redaction).
- Messages of other agents, and earlier ones of this agent, never change.

For example, after `Hm.`, a call and its result, a node removes all three by id and adds a summary as a
human message: `Hm.` is voided, the call and its result stay in the history, the summary is context.

Each change is saved by a task as a list of messages for LangGraph's reducer. A resume sees only the
last list of the graph, so it replays the saved changes and compares that list with their result.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, cast
from uuid import uuid4

from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.func import task
from langgraph.graph.message import add_messages
from langgraph.runtime import get_runtime
from langgraph.types import Command, StateSnapshot

from agentgraph.agents.agents import GraphAgent
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.handoffs import handed_on, sole_target, transferred
from agentgraph.graph.history import call_id, calls_of, is_said, is_word
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.caching import Caching
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.emitter import Emitter
from agentgraph.graph.nodes.items import take_output
from agentgraph.graph.nodes.kept import KeptState, keeps_state
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.remote import RemoteRun, is_remote
from agentgraph.graph.nodes.schedule import send_next
from agentgraph.graph.nodes.stopping import runs_in_threads, stoppable
from agentgraph.graph.saving import DURABILITY, arose_in_saving, asave_result, save_result
from agentgraph.graph.state import (
    GRAPH_AGENT,
    Position,
    TaskResult,
    address_of,
    is_remove_all,
    stamped,
    with_id,
)
from agentgraph.graph.values import is_same
from agentgraph.safe_repr import reason


class Change(NamedTuple):
    """One change of the history.

    Attributes:
        messages: Messages that are said, with a stamp; replaced messages of the user, without a stamp;
            and removals of messages that were said.
        void: The ids of the messages that become void.
    """

    messages: list[BaseMessage]
    void: list[str]


class MessageLog:
    """The messages of a graph so far, to compare the next list with.

    Attributes:
        said: The messages of the agent by id, in order.
        rewritten: The user's messages that the graph replaced, by id.
    """

    def __init__(
        self,
        address: str,
        given: Sequence[BaseMessage],
        users: Iterable[BaseMessage] = (),
        before: Collection[str | None] = (),
    ) -> None:
        """Make an empty log.

        Args:
            address: The address of the agent.
            given: The input messages of the graph, each with an id.
            users: The user's messages that may be replaced.
            before: The ids of all messages in the history.
        """
        self.said: dict[str, BaseMessage] = {}
        self.rewritten: dict[str, BaseMessage] = {}
        self._address = address
        self._given = {message.id: message for message in given}
        self._users = {each.id for each in users if is_same(self._given.get(each.id), each)}
        self._before = {*before, *self._given}
        self._ever: set[str] = set()
        self._settled: dict[str, BaseMessage] = {}

    def know(self, messages: Iterable[BaseMessage]) -> None:
        """Take messages that the graph had before."""
        self._before.update(each.id for each in messages)

    def take(self, messages: Iterable[BaseMessage]) -> None:
        """Apply the messages of a change."""
        for message in messages:
            key = str(message.id)
            if isinstance(message, RemoveMessage):
                self.said.pop(key, None)
            elif address_of(message) is None:
                self.rewritten[key] = message
            else:
                self.said[key] = message
                self._ever.add(key)
            self._settled.pop(key, None)

    def begin_anew(self) -> Iterator[Change]:
        """Void all messages of the agent: the graph starts again from its input."""
        self.rewritten.clear()
        if void := list(self.said):
            yield self._taken([RemoveMessage(id=each) for each in void], void)

    def changes(
        self,
        messages: Sequence[BaseMessage],
        removed: Collection[str] = (),
        written: Iterable[BaseMessage] = (),
    ) -> Iterator[Change]:
        """Apply and yield the changes since the last list.

        Args:
            messages: The messages that the graph has now, each with an id.
            removed: The ids of messages that were removed by id since the last list.
            written: The messages written by its nodes since; a removal of all in the same step may have
                dropped them from the list.
        """
        for message in messages:
            key = str(message.id)
            if self._settled.get(key) is not message:
                yield from self._changed(key, message)
                self._settled[key] = message
        left = {message.id for message in messages}
        for message in written:
            key = str(message.id)
            if message.id and not any(key in known for known in (left, removed, self._ever)):
                yield from self._changed(key, message)
        for key in removed:
            if key not in left and is_word(self.said.get(key)):
                yield self._taken([RemoveMessage(id=key)], [key])

    def _changed(self, key: str, message: BaseMessage) -> Iterator[Change]:
        if key in self.said:
            now = stamped(message, self._address)
            if not is_same(stamped(self.said[key], self._address), now):
                yield self._taken([now], [key])
        elif key in self._before:
            if key in self._users and self._is_rewritten(key, message):
                yield self._taken([message], [])
        elif is_said(message):
            yield self._taken([stamped(message, self._address)], [key] if key in self._ever else [])

    def _is_rewritten(self, key: str, message: BaseMessage) -> bool:
        was = self.rewritten.get(key, self._given.get(key))
        is_users = isinstance(message, HumanMessage) and address_of(message) is None
        return is_users and was is not None and not is_same(was, message)

    def _taken(self, messages: list[Any], void: list[str]) -> Change:
        self.take(messages)
        return Change(messages, void)


def written_in(update: Any) -> Iterator[BaseMessage]:
    """Yield the messages of an update of a graph's state."""
    for several in _given_in(update):
        yield from (each for each in several if isinstance(each, BaseMessage))


def removed_in(update: Any) -> Iterator[str]:
    """Yield the ids of the messages that an update of a graph's state removes by id.

    A removal of all messages yields none: the graph only forgets them.

    >>> list(removed_in({"messages": [RemoveMessage(id="1")]}))
    ['1']
    """
    for several in _given_in(update):
        if not any(map(is_remove_all, several)):
            yield from (_id_of(each) for each in several if _is_removal(each))


def _given_in(update: Any) -> Iterator[Sequence[Any]]:
    """Yield the value of `messages` in an update, or in each of several."""
    if isinstance(update, Mapping) and "messages" in update:
        given = update["messages"]
        yield given if isinstance(given, list | tuple) else [given]
    elif isinstance(update, list | tuple):
        for each in update:
            yield from _given_in(each)


def _is_removal(message: Any) -> bool:
    is_dict = isinstance(message, Mapping)
    return message.get("type") == "remove" if is_dict else isinstance(message, RemoveMessage)


def _id_of(message: Any) -> str:
    return str(message["id"] if isinstance(message, Mapping) else message.id)


def output_of(graph: Any, final: Any) -> Any:
    """Return what `invoke` of a graph returns: of its last state what its output schema has."""
    names = getattr(graph, "output_channels", None)
    if not isinstance(final, Mapping) or not isinstance(names, list | tuple):
        return final
    return {name: final[name] for name in names if name in final}


def as_messages(given: Any, made_of: str) -> list[BaseMessage]:
    """Return messages given in any form, each with an id; generated ids are the same each time."""
    return [with_id(each, f"{made_of} {i}") for i, each in enumerate(convert_to_messages(given))]


_Results = Generator[tuple[Emitter, TaskResult], TaskResult, None]
"""A generator of what tasks emit and save; it is sent what each task has saved."""
_MODES: Any = ["updates", "values"]
_MOST_TRIED = 100
"""How many failed runs are remembered for a retry; most are never retried."""
_STEPS = 10_007
"""LangGraph's default limit of supersteps, for a graph without one."""


class GraphNode(LeafNode):
    """Runs the graph; a task emits and saves each change of its messages, each once.

    On a resume the graph continues from its saved state, and its earlier steps are not seen again. So
    the tasks are called first: each returns the change that it saved, up to the first one without a
    saved result. That one runs, and saves where this run began; the next list is compared with the log.
    """

    runs_trees = True

    def __init__(self, node_context: NodeContext) -> None:
        self.agent = cast(GraphAgent, node_context.place.agent)
        super().__init__(
            node_context,
            retry=node_context.place.policy("retry"),
            timeout=node_context.place.policy("timeout"),
        )
        as_task: Any = task(name=node_context.place.call_task)
        self.task, self.atask = as_task(_save_change), as_task(_asave_change)
        self._tried: dict[str, _Run] = {}
        self.caching = Caching(node_context, self.agent.graph) if self.agent.cache_policy else None

    def run(self, activation: Activation) -> None:
        """Run the graph step by step."""
        ran = self._begun(activation)
        keep = partial(self._keep_all, activation)
        if keeps_state(self.agent.graph, activation.config):
            ran.find(self.agent.graph.get_state(activation.config))
        keep(ran.begin())
        caching = None if ran.continues else self.caching
        if caching and caching.replays(activation, ran.input):
            return
        if ran.kept and (config := ran.kept.beginning(activation.config)):
            ran.kept.take(self.agent.graph.get_state(config))
        with self._failing(activation, ran):
            ran.open()
            with ran.handing_over():
                config = self._config(activation, ran)
                for kind, part in self._graph().stream(ran.input, config, stream_mode=_MODES):
                    keep(ran.read_part(kind, part))
            keep(ran.handed_over())
        self._end(activation, ran)

    async def arun(self, activation: Activation) -> None:
        """Run the graph step by step, on the event loop."""
        ran = self._begun(activation)
        keep = partial(self._akeep_all, activation)
        if keeps_state(self.agent.graph, activation.config):
            ran.find(await self.agent.graph.aget_state(activation.config))
        await keep(ran.begin())
        caching = None if ran.continues else self.caching
        if caching and await caching.areplays(activation, ran.input):
            return
        if ran.kept and (config := ran.kept.beginning(activation.config)):
            ran.kept.take(await self.agent.graph.aget_state(config))
        with self._failing(activation, ran), stoppable(is_thread=runs_in_threads(self.agent.graph)):
            ran.open()
            with ran.handing_over():
                config = self._config(activation, ran)
                async for kind, part in self._graph().astream(ran.input, config, stream_mode=_MODES):
                    await keep(ran.read_part(kind, part))
            await keep(ran.handed_over())
        self._end(activation, ran)

    def _keep_all(self, activation: Activation, results: _Results) -> None:
        """Save each result by a task, and send the saved one back to the generator."""
        kept = None
        while (item := send_next(results, kept)) is not None:
            kept = self.task(*item, activation.config).result()

    async def _akeep_all(self, activation: Activation, results: _Results) -> None:
        kept = None
        while (item := send_next(results, kept)) is not None:
            kept = await self.atask(*item, activation.config)

    def _graph(self) -> Any:
        """Return the graph, or what runs it if it is remote."""
        graph: Any = self.agent.graph
        return RemoteRun(graph, self.node_context) if is_remote(graph) else graph

    def _begun(self, activation: Activation) -> "_Run":
        context = activation.context(self.agent.history)
        given: Any = {"messages": context.messages}
        if self.agent.input:
            given = self.agent.input(context)
        saves = getattr(self.agent.graph, "checkpointer", None) is not False
        info = get_runtime().execution_info
        task_id = info.task_id if info else ""
        before = self._tried.pop(task_id, None)
        is_retried = info is not None and info.node_attempt > 1
        last = before if is_retried else None
        reads = self.agent.output is None
        return _Run(activation, given, last, task_id, saves=saves, reads_messages=reads)

    @contextmanager
    def _failing(self, activation: Activation, ran: "_Run") -> Iterator[None]:
        """Remember a failed run for its retry: LangGraph returns saved results only to a resume.

        The state is not checked beforehand: a graph may hold values that are never saved.

        Raises:
            InvalidOutputError: LangGraph cannot save its state; LangGraph's own error names no agent.
        """
        try:
            yield
        except Exception as error:
            if "retry_policy" in self.policies and not isinstance(error, GraphBubbleUp):
                while len(self._tried) >= _MOST_TRIED:
                    self._tried.pop(next(iter(self._tried)), None)
                self._tried[ran.task_id] = ran
            if not arose_in_saving(error):
                raise
            raise InvalidOutputError(
                f"{activation.address}: the input or the state of the graph cannot be saved "
                f"({reason(error)}); use plain data: texts, numbers, lists, dicts. The step can be "
                "tried again"
            ) from error

    def _config(self, activation: Activation, ran: "_Run") -> RunnableConfig:
        own = getattr(self.agent.graph, "config", None) or {}
        outer = activation.config.get("metadata", {})
        metadata = {**outer, **activation.mark}
        if self.agent.output is None:  # otherwise what models stream is not what the agent says
            metadata = {GRAPH_AGENT: activation.address, **metadata}
        limit = own.get("recursion_limit", _STEPS)
        config = {**activation.config, "metadata": metadata, "recursion_limit": limit}
        if ran.kept is not None:
            config["configurable"] = ran.kept.configurable(config["configurable"])
        if getattr(self.agent.graph, "checkpointer", None) is False:
            config["configurable"] = {**config["configurable"], DURABILITY: "exit"}  # "sync" fails
        return cast(RunnableConfig, config)

    def _end(self, activation: Activation, ran: "_Run") -> None:
        said = [*ran.log.said.values()]
        activation.add_emitted([*ran.log.rewritten.values(), *said])
        text = str(said[-1].text) if said else None
        if ran.target is not None:
            inner = getattr(self.agent.graph, "channels", {})
            values = {key: value for key, value in ran.handed.items() if key not in inner}
            activation.set_values(values)
            activation.transfer(ran.target)
            return
        if self.agent.output is not None:
            take_output(activation, self.agent.output(output_of(self.agent.graph, ran.final)))
            text = activation.last_text()
        if self.agent.output_key and text is not None:
            activation.set_values({self.agent.output_key: text})


class _Run:
    """One run of a graph: its input and its messages.

    Attributes:
        input: The input of the graph.
        task_id: LangGraph's id of the node's task.
        log: Its messages in this run and the ones before.
        final: The last state of the graph.
        target: The agent that the graph hands over to, if any.
        handed: The values that it writes with the handoff.
        continues: Whether a run before a resume has saved changes.
        kept: The state that the graph keeps; None if it begins anew in each activation.
    """

    def __init__(
        self,
        activation: Activation,
        given: Any,
        before: "_Run | None",
        task_id: str,
        *,
        saves: bool,
        reads_messages: bool,
    ) -> None:
        """Make a run.

        Args:
            activation: The activation of the agent.
            given: The input of the graph.
            before: The failed run in this process, if this is a retry.
            task_id: LangGraph's id of the node's task.
            saves: Whether the graph saves its state, and continues from it on a resume.
            reads_messages: Whether the agent says the messages in the state.
        """
        self.final: Any = None
        self._reads_messages = reads_messages
        self._activation, self.task_id, self._saves = activation, task_id, saves
        self.target: str | None = None
        self.handed: dict[str, Any] = {}
        has_messages = isinstance(given, Mapping) and "messages" in given
        known = as_messages(given["messages"], activation.address) if has_messages else []
        self.input = {**given, "messages": known} if has_messages or reads_messages else given
        self._last: list[BaseMessage] = known
        self._removed: set[str] = set()
        self._written: list[BaseMessage] = []
        self._number: int = before._number if before else 0
        self.continues: bool = before.continues if before else False
        self._last_try: int | None = before._try if before else None
        self._try: int = before._try + 1 if before else 1
        self._kept_before = before.kept if before else None
        self.kept: KeptState | None = None
        self._run = str(uuid4())
        seen = activation.seen.messages
        users = [m for m in activation.written_here if m.type == "human" and address_of(m) is None]
        ids = {message.id for message in seen}
        last = before.log if before else None
        self.log: MessageLog = last or MessageLog(activation.address, known, users, ids)
        self._unnamed = f"{activation.address} {seen[-1].id if seen else None}"

    def find(self, state: StateSnapshot) -> None:
        """Take the state that the graph keeps; it is the same in all tries."""
        self.kept = KeptState(state, self._activation.config, self._kept_before)
        self._try = 1

    def begin(self) -> _Results:
        """Apply the changes saved by earlier runs, and save where this one begins.

        Each try of a node has a separate state of the graph, so the messages of another try are void.
        """
        yield from self._kept([], [])
        is_anew = not self._saves or (self.kept is not None and not self.kept.continues)
        if self._last_try is not None and (self._last_try != self._try or is_anew):
            yield from self._results(self.log.begin_anew())

    def open(self) -> None:
        """Prepare the input and the log for the state that the graph keeps."""
        if self.kept is not None:
            results = self.kept.open_results(self._last)
            self.log.know([*self.kept.messages, *results])
            if results and isinstance(self.input, Mapping) and "messages" in self.input:
                self.input = {**self.input, "messages": [*results, *self._last]}

    def read_part(self, kind: str, part: Any) -> _Results:
        """Read a part of the graph's stream, and yield its changes; updates show removals by id."""
        if kind == "values":
            self.final = part
        if not self._reads_messages:
            return
        if kind == "updates":
            for update in part.values():
                self._removed.update(removed_in(update))
                self._written += written_in(update)
        elif isinstance(part, Mapping) and "messages" in part:
            yield from self._compare(as_messages(part["messages"], self._unnamed))

    def _compare(self, messages: list[BaseMessage]) -> _Results:
        self._last = messages
        yield from self._results(self.log.changes(messages, self._removed, self._written))
        self._removed.clear()
        self._written.clear()

    def _results(self, changes: Iterator[Change]) -> _Results:
        for messages, void in changes:
            for message in messages:
                self._activation.check("the message", message)
            yield from self._kept(messages, void)
            self.log.take(messages)

    def _kept(self, messages: list[BaseMessage], void: list[str]) -> _Results:
        """Have a change saved by a task; first apply the changes that tasks of earlier runs saved."""
        while (kept := (yield self._result(messages, void)))["acts"].get("run") != self._run:
            self.continues, self._number = True, kept["number"] + 1
            self._last_try = kept["acts"].get("try", self._last_try)
            if self.kept is not None:
                self.kept.began_at = kept["acts"].get("at")
            self.log.take(kept["messages"])
        self._passed()

    def _result(self, messages: list[BaseMessage], void: list[str]) -> tuple[Emitter, TaskResult]:
        emitter, at = self._activation.new_emitter(is_concurrent=True), self._activation.address
        if void:
            emitter.add_note("discarded", void)
        for message in messages:
            if address_of(message) is not None:
                emitter.add_message(message)
        position = Position(next=None, cursor=[], tree="", at=at)
        acts = {"run": self._run, "try": self._try, "at": self.kept and self.kept.began_at}
        return emitter, TaskResult(
            messages=messages, values=[], position=position, acts=acts, number=self._number
        )

    def _passed(self) -> None:
        self._number = self._activation.asked_after = self._number + 1

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """Catch a command to the parent graph: a handoff, as made by LangGraph's handoff tools.

        Raises:
            InvalidOutputError: It names several agents, or an unknown one.
        """
        try:
            yield
        except ParentCommand as left:
            command = left.args[0]
            self.target = known_handoff(self._activation, command)
            self.handed = handed_on(command, lambda: {"messages": self._last})

    def handed_over(self) -> _Results:
        """Yield the messages of the handoff, if there is one."""
        if self.target is not None:
            new = self.handed.pop("messages", []) or open_call(self._last, self.target)
            marked: Any = [transferred(each, self.target) for each in new]
            yield from self._compare(add_messages(cast(Any, self._last), marked))  # type: ignore[arg-type]


def open_call(messages: Sequence[BaseMessage], target: str) -> list[BaseMessage]:
    """Return the result of the only open call of the last message, which is that of a handoff."""
    calls = calls_of(messages[-1]) if messages else ()
    if len(calls) != 1:
        return []
    text, call = f"Transferred to {target}.", calls[0]
    return [ToolMessage(text, name=call["name"], tool_call_id=call_id(call))]


def known_handoff(activation: Activation, command: Command[Any]) -> str:
    """Return the name of the agent that a command to the parent graph hands over to.

    Raises:
        InvalidOutputError: It names several agents, or an unknown one.
    """
    target, there = sole_target(command.goto), activation.node_context.targets
    home = activation.node_context.place.home
    if target in there:
        return str(target)
    names = ", ".join(map(repr, there)) or "none: only agents in a chat agent's sub_agents can"
    raise InvalidOutputError(
        f"{activation.address}: a LangGraph graph in the agent {home.name!r} ended by "
        f"Command(goto={command.goto!r}, graph=Command.PARENT), and nothing of the command was "
        f"written; it may hand over to one agent, by its name; possible: {names}"
    )


def _save_change(emitter: Emitter, result: TaskResult, outer: RunnableConfig) -> TaskResult:
    """Emit a change, save it, and return it as the result of the task."""
    with _emitted(emitter, result):
        save_result(result, outer)
    return result


async def _asave_change(emitter: Emitter, result: TaskResult, outer: RunnableConfig) -> TaskResult:
    with _emitted(emitter, result):
        await asave_result(result, outer)
    return result


@contextmanager
def _emitted(emitter: Emitter, result: TaskResult) -> Iterator[None]:
    """Emit a change, and void it if saving it in a `with` block fails."""
    result["position"]["told"] = emitter.end()
    try:
        yield
    except BaseException:
        emitter.void(each.id for each in result["messages"] if address_of(each) is not None)
        raise
