"""The node of a graph agent: runs a LangGraph graph, and says the messages that are new in it.

A graph is seen from outside: after each step its state has some list of messages, and middleware may
have replaced, removed or summarized any of them. The history is not that list. It has what was said,
and what ran, however little of it the graph still keeps. So each list is compared with what was told
before, by these rules:

- a message under a new id is said, unless it is a user's or a system message: that is context;
- a message that the agent said and that is another one now, under its id, is void, and said as it is;
- a message that was removed by its id (not with all others) is void, if it is a word that the agent
  said: an AI message without calls. All else that is gone is only forgotten by the graph;
- a message of the user's that was replaced under its id is replaced for all, and not told;
- what other agents said, and this one earlier, stays as it is.

Each change is a list of messages as LangGraph's reducer takes them, so that what is kept of changes
one after the other says all: also to a resume, which sees only the last list of the graph.
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
from langchain_core.runnables.config import run_in_executor
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.func import task
from langgraph.graph import START
from langgraph.graph.message import add_messages
from langgraph.pregel import Pregel
from langgraph.runtime import get_runtime
from langgraph.types import Command

from agentgraph.agents.agents import GraphAgent
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.handoffs import handed_on, sole_target, transferred
from agentgraph.graph.history import call_id, calls_of, is_said, is_word
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.emitter import Emitter
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.remote import RemoteRun, is_remote
from agentgraph.graph.nodes.schedule import send_next
from agentgraph.graph.nodes.stopping import stoppable
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
    """One change.

    Attributes:
        messages: Messages that are said, with a stamp; those of the user's that are replaced, without;
            and removals of what was said.
        void: The ids of what was told before and is void.
    """

    messages: list[BaseMessage]
    void: list[str]


class MessageLog:
    """What became of a graph's messages so far.

    Attributes:
        said: What the agent said, by id, in order.
        rewritten: What the user said, as it is now, by id, where the graph replaced it.
    """

    def __init__(
        self,
        address: str,
        given: Sequence[BaseMessage],
        users: Iterable[BaseMessage] = (),
        before: Collection[str | None] = (),
    ) -> None:
        """Begin with nothing told.

        Args:
            address: The address of the agent.
            given: The messages that the graph was given, each with an id.
            users: The messages of the user's that may be replaced.
            before: The ids of all that was in the history before.
        """
        self.said: dict[str, BaseMessage] = {}
        self.rewritten: dict[str, BaseMessage] = {}
        self._address = address
        self._given = {message.id: message for message in given}
        self._users = {each.id for each in users if is_same(self._given.get(each.id), each)}
        self._before = {*before, *self._given}
        self._ever: set[str] = set()
        self._settled: dict[str, BaseMessage] = {}

    def take(self, messages: Iterable[BaseMessage]) -> None:
        """Take the messages of a change."""
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
        """Take back all that was said: the graph begins again with what it was given."""
        self.rewritten.clear()
        if void := list(self.said):
            yield self._taken([RemoveMessage(id=each) for each in void], void)

    def changes(
        self,
        messages: Sequence[BaseMessage],
        removed: Collection[str] = (),
        written: Iterable[BaseMessage] = (),
    ) -> Iterator[Change]:
        """Yield what changed, each change as it is taken.

        Args:
            messages: The messages that the graph has now, each with an id.
            removed: The ids of those that it removed by their ids since the last time.
            written: What its nodes wrote since: a removal of all beside it leaves nothing of it.
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
    """Yield the ids of the messages that an update of a graph's state removes by their ids.

    One that removes all names none: what it leaves out is forgotten.

    >>> list(removed_in({"messages": [RemoveMessage(id="1")]}))
    ['1']
    """
    for several in _given_in(update):
        if not any(map(is_remove_all, several)):
            yield from (_id_of(each) for each in several if _is_removal(each))


def _given_in(update: Any) -> Iterator[Sequence[Any]]:
    """Yield what an update, or each of several, has as messages."""
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


def as_messages(given: Any, made_of: str) -> list[BaseMessage]:
    """Return messages in any form, each with an id; made-up ids are the same each time."""
    return [with_id(each, f"{made_of} {i}") for i, each in enumerate(convert_to_messages(given))]


_Results = Generator[tuple[Emitter, TaskResult], TaskResult, None]
"""What tasks are to tell and to keep: each is answered by what the task has kept."""
_MODES: Any = ["updates", "values"]
_MOST_TRIED = 100
"""Of how many runs that failed it is remembered what they told; most are never tried again."""
_STEPS = 10_007
"""LangGraph's own limit of supersteps, for a graph that has none."""


class GraphNode(LeafNode):
    """Runs the graph; a task tells each change of its messages, so that none is told twice.

    A task keeps what it told over a resume or a crash. On a resume the graph goes on with the state
    that it had, and the steps before are not seen again. So the first thing is to ask the tasks what
    they told: each of them gives what it kept, up to the first that runs, which keeps where this run
    began. What comes next is compared with that.
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

    def run(self, activation: Activation) -> None:
        """Run the graph step by step."""
        ran = self._begun(activation)
        keep = partial(self._keep_all, activation)
        keep(ran.begin())
        with self._failing(activation, ran):
            with ran.handing_over():
                config = self._config(activation)
                for kind, part in self._graph().stream(ran.input, config, stream_mode=_MODES):
                    keep(ran.read_part(kind, part))
            keep(ran.handed_over())
        self._end(activation, ran)

    async def arun(self, activation: Activation) -> None:
        """Run the graph step by step, on the event loop."""
        ran = self._begun(activation)
        keep = partial(self._akeep_all, activation)
        await keep(ran.begin())
        with self._failing(activation, ran), stoppable(is_thread=_is_sync(self.agent.graph)):
            with ran.handing_over():
                config = self._config(activation)
                async for kind, part in self._graph().astream(ran.input, config, stream_mode=_MODES):
                    await keep(ran.read_part(kind, part))
            await keep(ran.handed_over())
        self._end(activation, ran)

    def _keep_all(self, activation: Activation, results: _Results) -> None:
        """Keep results by a task each; what is kept of them goes back to the one who gives them."""
        kept = None
        while (telling := send_next(results, kept)) is not None:
            kept = self.task(*telling, activation.config).result()

    async def _akeep_all(self, activation: Activation, results: _Results) -> None:
        kept = None
        while (telling := send_next(results, kept)) is not None:
            kept = await self.atask(*telling, activation.config)

    def _graph(self) -> Any:
        """Return what streams the graph."""
        graph: Any = self.agent.graph
        return RemoteRun(graph, self.node_context) if is_remote(graph) else graph

    def _begun(self, activation: Activation) -> "_Run":
        context = activation.context(self.agent.history)
        given = self.agent.input(context) if self.agent.input else {"messages": context.messages}
        saves = getattr(self.agent.graph, "checkpointer", None) is not False
        info = get_runtime().execution_info
        task_id = info.task_id if info else ""
        before = self._tried.pop(task_id, None)
        is_retried = info is not None and info.node_attempt > 1
        return _Run(activation, given, before if is_retried else None, task_id, saves=saves)

    @contextmanager
    def _failing(self, activation: Activation, ran: "_Run") -> Iterator[None]:
        """Keep what a run told that fails, for the next try: LangGraph gives it to a resume alone.

        What the state of the graph has is not looked at before: a graph may keep what is never saved.

        Raises:
            InvalidOutputError: LangGraph cannot save something in it: its own error names no agent.
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
                f"{activation.address}: the graph was given, or wrote, what cannot be saved "
                f"({reason(error)}); let its state be plain data: texts, numbers, lists, dicts. The "
                "step can be tried again"
            ) from error

    def _config(self, activation: Activation) -> RunnableConfig:
        own = getattr(self.agent.graph, "config", None) or {}
        around = activation.config.get("metadata", {})
        metadata = {GRAPH_AGENT: activation.address, **around, **activation.mark}
        limit = own.get("recursion_limit", _STEPS)
        config = {**activation.config, "metadata": metadata, "recursion_limit": limit}
        if getattr(self.agent.graph, "checkpointer", None) is False:
            config["configurable"] = {**config["configurable"], DURABILITY: "exit"}  # "sync" fails
        return cast(RunnableConfig, config)

    def _end(self, activation: Activation, ran: "_Run") -> None:
        said = [*ran.log.said.values()]
        activation.add_emitted([*ran.log.rewritten.values(), *said])
        if ran.target is not None:
            inner = getattr(self.agent.graph, "channels", {})
            values = {key: value for key, value in ran.handed.items() if key not in inner}
            activation.set_values(values)
            activation.transfer(ran.target)
        elif self.agent.output_key and said:
            activation.set_values({self.agent.output_key: str(said[-1].text)})


def _is_sync(graph: Any) -> bool:
    """Return whether LangGraph runs all nodes of a graph in threads, which are waited for."""
    if not isinstance(graph, Pregel):
        return False
    nodes = [node.bound for name, node in graph.nodes.items() if name != START]
    return all(_is_sync(node) or _runs_in_executor(node) for node in nodes)


def _runs_in_executor(node: Any) -> bool:
    return getattr(getattr(node, "afunc", None), "func", None) is run_in_executor


class _Run:
    """One run of a graph: what it was given, and what became of its messages.

    Attributes:
        input: The input of the graph.
        task_id: LangGraph's id of the node's task.
        told: What became of its messages, in this run and in those before it.
        target: The agent that the graph hands over to, if it does.
        handed: What it writes with that, but messages.
    """

    def __init__(
        self,
        activation: Activation,
        given: dict[str, Any],
        before: "_Run | None",
        task_id: str,
        *,
        saves: bool,
    ) -> None:
        """Make a run.

        Args:
            activation: The activation of the agent.
            given: The input of the graph.
            before: The run that failed in this process, if this is another try.
            task_id: LangGraph's id of the node's task.
            saves: Whether the graph goes on with the state that it had, when it is resumed.
        """
        self._activation, self.task_id, self._saves = activation, task_id, saves
        self.target: str | None = None
        self.handed: dict[str, Any] = {}
        known = as_messages(given.get("messages", []), activation.address)
        self.input = {**given, "messages": known}
        self._last: list[BaseMessage] = known
        self._removed: set[str] = set()
        self._written: list[BaseMessage] = []
        self._number: int = before._number if before else 0
        self._last_try: int | None = before._try if before else None
        self._try: int = before._try + 1 if before else 1
        self._run = str(uuid4())
        seen = activation.seen.messages
        users = [m for m in activation.written_here if m.type == "human" and address_of(m) is None]
        ids = {message.id for message in seen}
        self.log: MessageLog = before.log if before else MessageLog(activation.address, known, users, ids)
        self._unnamed = f"{activation.address} {seen[-1].id if seen else None}"

    def begin(self) -> _Results:
        """Take what tasks told in the runs before this one, and keep where this one begins.

        Each try of a node has a state of the graph of its own. So what another one told is void.
        """
        yield from self._kept([], [])
        if self._last_try is not None and (self._last_try != self._try or not self._saves):
            yield from self._results(self.log.begin_anew())

    def read_part(self, kind: str, part: Any) -> _Results:
        """Tell what changed in a state of the graph; updates say what was removed by its id."""
        if kind == "updates":
            for update in part.values():
                self._removed.update(removed_in(update))
                self._written += written_in(update)
        elif "messages" in part:
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
        """Have a change kept, and take what tasks of other runs kept where this one would be."""
        while (kept := (yield self._result(messages, void)))["acts"].get("run") != self._run:
            self._number = kept["number"] + 1
            self._last_try = kept["acts"].get("try", self._last_try)
            self.log.take(kept["messages"])
        self._passed()

    def _result(self, messages: list[BaseMessage], void: list[str]) -> tuple[Emitter, TaskResult]:
        emitter, at = self._activation.new_emitter(is_beside=True), self._activation.address
        if void:
            emitter.add_note("discarded", void)
        for message in messages:
            if address_of(message) is not None:
                emitter.add_message(message)
        position = Position(next=None, cursor=[], tree="", at=at)
        acts = {"run": self._run, "try": self._try}
        return emitter, TaskResult(
            messages=messages, values=[], position=position, acts=acts, number=self._number
        )

    def _passed(self) -> None:
        self._number = self._activation.asked_after = self._number + 1

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """Take a command to the graph around this one: to hand over, as LangGraph's handoff tools do.

        Raises:
            InvalidOutputError: It goes to several, or to an agent that there is not.
        """
        try:
            yield
        except ParentCommand as left:
            command = left.args[0]
            self.target = _known_handoff(self._activation, command)
            self.handed = handed_on(command, lambda: {"messages": self._last})

    def handed_over(self) -> _Results:
        """Tell the messages with which the graph hands over, if it does."""
        if self.target is not None:
            new = self.handed.pop("messages", []) or self._open_call()
            marked: Any = [transferred(each, self.target) for each in new]
            yield from self._compare(add_messages(cast(Any, self._last), marked))  # type: ignore[arg-type]

    def _open_call(self) -> list[BaseMessage]:
        """Return the result of the only call that is open: that of the handoff."""
        calls = calls_of(self._last[-1]) if self._last else ()
        if len(calls) != 1:
            return []
        text, call = f"Transferred to {self.target}.", calls[0]
        return [ToolMessage(text, name=call["name"], tool_call_id=call_id(call))]


def _known_handoff(activation: Activation, command: Command[Any]) -> str:
    """Return the agent that a command to the graph around a graph hands over to.

    Raises:
        InvalidOutputError: It goes to several, or to an agent that there is not.
    """
    target, there = sole_target(command.goto), activation.node_context.targets
    if target in there:
        return str(target)
    names = ", ".join(map(repr, there)) or "none: only what stands in a chat agent's sub_agents may"
    raise InvalidOutputError(
        f"{activation.address}: a LangGraph graph in the agent {activation.name!r} ended by "
        f"Command(goto={command.goto!r}, graph=Command.PARENT), and nothing of the command was "
        f"written; it may hand over to one agent, by its name; possible: {names}"
    )


def _save_change(emitter: Emitter, result: TaskResult, around: RunnableConfig) -> TaskResult:
    """Tell a change, and return what the task keeps, once that is saved."""
    with _emitted(emitter, result):
        save_result(result, around)
    return result


async def _asave_change(emitter: Emitter, result: TaskResult, around: RunnableConfig) -> TaskResult:
    with _emitted(emitter, result):
        await asave_result(result, around)
    return result


@contextmanager
def _emitted(emitter: Emitter, result: TaskResult) -> Iterator[None]:
    """Tell a change, and void it if it is not saved in a `with` block."""
    result["position"]["told"] = emitter.end()
    try:
        yield
    except BaseException:
        emitter.void(each.id for each in result["messages"] if address_of(each) is not None)
        raise
