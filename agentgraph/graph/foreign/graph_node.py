"""The node of a graph agent: runs a LangGraph graph and emits its new messages.

Its messages are compared with those so far, as `message_log.py` says. Each change is saved by a
task as a list of messages for LangGraph's reducer. A resume sees only the last list of the graph, so it
replays the saved changes and compares that list with their result.
"""

from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.func import task
from langgraph.graph.message import Messages, add_messages
from langgraph.pregel import Pregel
from langgraph.runtime import get_runtime
from langgraph.types import StateSnapshot

from agentgraph.agents.agents import Graph, GraphAgent
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.copied_values import private
from agentgraph.graph.effects import MessageChange
from agentgraph.graph.foreign.graph_input import graph_input, listed
from agentgraph.graph.foreign.graph_replies import GraphReplies
from agentgraph.graph.foreign.handoffs import Handoff, end_by_command, handoff_of
from agentgraph.graph.foreign.message_log import MessageLog, as_messages, removed_in, written_in
from agentgraph.graph.foreign.remote_graph import RemoteRun, is_remote
from agentgraph.graph.foreign.stateful_graph import KeptState, keeps_state
from agentgraph.graph.foreign.stoppable_graph import AnyGraph, stoppable_graph
from agentgraph.graph.graph_classes import RootGraph
from agentgraph.graph.internals import (
    DEFAULT_RECURSION_LIMIT,
    DURABILITY,
    INTERRUPT,
)
from agentgraph.graph.lane_position import Position
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.caching import Caching
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.concurrency import given_bound
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.emitter import Emitter
from agentgraph.graph.nodes.function_output import take_output
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.stopping import stoppable
from agentgraph.graph.nodes.task_calls import send_next
from agentgraph.graph.result_saver import save_result
from agentgraph.graph.saving import arose_in_saving
from agentgraph.graph.spans import in_node
from agentgraph.graph.stamps import GRAPH_AGENT, address_of
from agentgraph.graph.sync_async import Call, arun_calls, close, get_next, run_calls
from agentgraph.graph.task_results import TaskResult
from agentgraph.safe_repr import reason


def output_of(graph: object, final: object) -> object:
    """Return the part of the last state that the output schema has, as `invoke` does."""
    names = getattr(graph, "output_channels", None)
    if not isinstance(final, Mapping) or not isinstance(names, list | tuple):
        return final
    return {name: final[name] for name in names if name in final}


_Results = Generator[tuple[Emitter, TaskResult], TaskResult, None]
"""A generator of what tasks emit and save; it is sent what each task has saved."""


_BEGINS = MessageChange("nothing", [], [])
"""The first save of a run: no change, only that it starts."""


_MODES = ["updates", "values"]


_MOST_TRIED = 100
"""How many failed runs are remembered for a retry; most are never retried."""


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
        self.task, self.atask = _saving_tasks(node_context.place.nodes.call)
        self._tried: dict[str, _Run] = {}
        self.caching = Caching(node_context, self.agent.graph) if self.agent.cache_policy else None

    def run(self, activation: Activation) -> None:
        """Run the graph step by step."""
        run_calls(self._calls(activation, self._graph().stream, nullcontext()))

    async def arun(self, activation: Activation) -> None:
        """Run the graph step by step, on the event loop."""
        is_local = isinstance(self.agent.graph, Pregel)
        graph = self._stoppable if is_local else self._graph()
        scope = nullcontext() if is_local else stoppable()
        await arun_calls(self._calls(activation, graph.astream, scope))

    async def _calls(
        self,
        activation: Activation,
        streams: Callable[..., object],
        scope: AbstractContextManager[None],
    ) -> None:
        if self.asks_history:
            await activation.view.ask_history()
        ran, graph = await self._new_run(activation), self.agent.graph
        if keeps_state(graph, activation.config):
            ran.find(await Call(graph.get_state, graph.aget_state, (activation.config,)))
        await self._save_all(activation, ran.begin())
        caching = None if ran.continues else self.caching
        if caching and await caching.replays(activation, ran.input):
            return
        if ran.kept_state and (config := ran.kept_state.beginning(activation.config)):
            ran.kept_state.take(await Call(graph.get_state, graph.aget_state, (config,)))
        with self._failing(activation, ran), scope:
            ran.open()
            with ran.catching_handoff():
                config = self._config(activation, ran)
                stream = streams(ran.input, config, stream_mode=_MODES)
                await self._read(activation, ran, stream)
            await self._save_all(activation, ran.handoff_results())
        await self._end(activation, ran)

    async def _read(self, activation: Activation, ran: "_Run", stream: object) -> None:
        next_part = get_next(stream)
        try:
            while part := await next_part:
                await self._save_all(activation, ran.read_part(*part))
        except Exception:
            await close(stream)
            raise

    async def _save_all(self, activation: Activation, results: _Results) -> None:
        result = None
        while (item := send_next(results, result)) is not None:
            result = await Call(self._save, self._asave, (*item, activation.config))

    def _save(self, *item: object) -> TaskResult:
        with in_node(get_config()):
            return self.task(*item).result()

    def _asave(self, *item: object) -> Awaitable[object]:
        with in_node(get_config()):
            return self.atask(*item)

    def _graph(self) -> "Graph | RemoteRun":
        graph = self.agent.graph
        return RemoteRun(graph, self.node_context) if is_remote(graph) else graph

    @cached_property
    def _stoppable(self) -> AnyGraph:
        return stoppable_graph(cast(AnyGraph, self.agent.graph))

    async def _new_run(self, activation: Activation) -> "_Run":
        state = await graph_input(self.agent, activation)
        saves = getattr(self.agent.graph, "checkpointer", None) is not False
        info = get_runtime().execution_info
        task_id = info.task_id if info else ""
        before = self._tried.pop(task_id, None)
        is_retried = info is not None and info.node_attempt > 1
        last = before if is_retried else None
        reads = self.agent.output is None
        is_far = is_remote(self.agent.graph)
        return _Run(activation, state, last, task_id, saves=saves, reads_messages=reads, is_far=is_far)

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
        replies = GraphReplies(activation.output)
        if self.agent.output is None:
            activation.output.replies = replies
        if self.agent.output is None:  # otherwise what models stream is not what the agent says
            metadata = {GRAPH_AGENT: activation.address, **metadata}
        limit = own.get("recursion_limit", DEFAULT_RECURSION_LIMIT)
        config = {**activation.config, "metadata": metadata, "recursion_limit": limit}
        bound = given_bound(activation.config)
        if bound is not None and not isinstance(self.agent.graph, RootGraph):
            config["max_concurrency"] = bound
        CALLER.set(replies.caller(activation.view, activation.config))
        if ran.kept_state is not None:
            config["configurable"] = ran.kept_state.configurable(config["configurable"])
        if getattr(self.agent.graph, "checkpointer", None) is False:
            config["configurable"] = {**config["configurable"], DURABILITY: "exit"}  # "sync" fails
        return replies.config(cast(RunnableConfig, config))

    async def _end(self, activation: Activation, ran: "_Run") -> None:
        messages = ran.log.in_order()
        activation.output.add_emitted([*ran.log.rewritten.values(), *messages])
        text = str(messages[-1].text) if messages else None
        if ran.handoff is not None:
            inner = getattr(self.agent.graph, "channels", {})
            if end_by_command(activation, ran.handoff, inner):
                return
        elif self.agent.output is not None:
            final = private(output_of(self.agent.graph, ran.final))
            output = await asked(activation.address, "output", self.agent.output, final)
            take_output(activation, output)
            text = activation.output.last_text()
        if self.agent.output_key and text is not None:
            activation.output.set_values({self.agent.output_key: text})


class _Run:
    """One run of a graph: its input and its messages.

    Attributes:
        input: The input of the graph.
        task_id: LangGraph's id of the node's task.
        log: Its messages in this run and the ones before.
        final: The last state of the graph.
        handoff: The graph's transfer to another agent, if there is one.
        continues: Whether a run before a resume has saved changes.
        kept_state: The state that the graph keeps; None if it starts from scratch in each activation.
    """

    def __init__(
        self,
        activation: Activation,
        state: Any,
        before: "_Run | None",
        task_id: str,
        *,
        saves: bool,
        reads_messages: bool,
        is_far: bool,
    ) -> None:
        """Make a run.

        Args:
            activation: The activation of the agent.
            state: The input of the graph.
            before: The failed run in this process, if this is a retry.
            task_id: LangGraph's id of the node's task.
            saves: Whether the graph saves its state, and continues from it on a resume.
            reads_messages: Whether the agent says the messages in the state.
            is_far: Whether a server runs the graph, which keeps the ids of its messages.
        """
        self.final: object = None
        self._reads_messages = reads_messages
        self._activation, self.task_id, self._saves = activation, task_id, saves
        self.handoff: Handoff | None = None
        has_messages = isinstance(state, Mapping) and "messages" in state
        known = as_messages(listed(state["messages"]), activation.address) if has_messages else []
        self.input = {**state, "messages": known} if has_messages or reads_messages else state
        self._last: list[BaseMessage] = known
        self._removed: dict[str, None] = {}
        self._written: list[BaseMessage] = []
        self._number: int = before._number if before else 0
        self.continues: bool = before.continues if before else False
        self._last_try: int | None = before._try if before else None
        self._try: int = before._try + 1 if before else 1
        self._kept_before = before.kept_state if before else None
        self.kept_state: KeptState | None = None
        self._run = str(uuid4())
        seen = activation.view.state.messages
        users = [
            m for m in activation.view.lane_messages if m.type == "human" and address_of(m) is None
        ]
        last = before.log if before else None
        self.log: MessageLog = last or MessageLog(activation.address, known, users, seen)
        self.log.is_taken = activation.output.is_known if is_far else activation.output.is_taken
        self._unnamed = f"{activation.address} {seen[-1].id if seen else None}"

    def find(self, state: StateSnapshot) -> None:
        """Take the state that the graph keeps; it is the same in all tries."""
        self.kept_state = KeptState(state, self._activation.config, self._kept_before)
        self._try = 1

    def begin(self) -> _Results:
        """Apply the changes saved by earlier runs, and save where this one begins.

        Each attempt of a node has a separate state of the graph, so messages of another attempt are
        discarded.
        """
        yield from self._save_change(_BEGINS)
        is_anew = not self._saves or (self.kept_state is not None and not self.kept_state.continues)
        if self._last_try is not None and (self._last_try != self._try or is_anew):
            yield from self._results(self.log.restart())

    def open(self) -> None:
        """Prepare the input and the log for the state that the graph keeps."""
        if self.kept_state is not None:
            results = self.kept_state.open_results(self._last)
            self.log.add_known([*self.kept_state.messages, *results])
            if results and isinstance(self.input, Mapping) and "messages" in self.input:
                self.input = {**self.input, "messages": [*results, *self._last]}

    def read_part(self, kind: str, part: Any) -> _Results:
        """Read a part of the graph's stream, and yield its changes; updates show removals by id.

        When a node asks, LangGraph streams the values without what other nodes of the step wrote.
        """
        if kind == "values":
            self.final = part
        if not self._reads_messages:
            return
        if kind == "updates":
            for update in part.values():
                self._removed |= dict.fromkeys(removed_in(update))
                written = [*written_in(update)]
                self._written += written
                yield from self._results(self.log.results(written, self._removed))
        elif isinstance(part, Mapping) and "messages" in part and INTERRUPT not in part:
            yield from self._compare(as_messages(part["messages"], self._unnamed))

    def _compare(self, messages: list[BaseMessage]) -> _Results:
        self._last = messages
        yield from self._results(self.log.changes(messages, self._removed, self._written))
        self._removed.clear()
        self._written.clear()

    def _results(self, changes: Iterator[MessageChange]) -> _Results:
        for change in changes:
            saved = [self._activation.output.saved("the message", each) for each in change.messages]
            change = change._replace(messages=saved)
            yield from self._save_change(change)
            self.log.take(change.messages)

    def _save_change(self, change: MessageChange) -> _Results:
        """Have a change saved by a task; first apply the changes that tasks of earlier runs saved."""
        while (result := (yield self._result(change)))["acts"].get("run") != self._run:
            self.continues, self._number = True, result["number"] + 1
            self._last_try = result["acts"].get("try", self._last_try)
            if self.kept_state is not None:
                self.kept_state.began_at = result["acts"].get("at")
            self.log.take(result["messages"], result["acts"].get("ids"))
        self._passed()

    def _result(self, change: MessageChange) -> tuple[Emitter, TaskResult]:
        emitter, at = self._activation.output.new_emitter(is_concurrent=True), self._activation.address
        emitter.add_change(change)
        position = Position(next=None, cursor=[], tree="", at=at)
        acts = {"run": self._run, "try": self._try, "at": self.kept_state and self.kept_state.began_at}
        if self.log.ids:
            acts["ids"] = dict(self.log.ids)
        return emitter, TaskResult(
            agentgraph="message",
            messages=change.messages,
            values=[],
            position=position,
            acts=acts,
            number=self._number,
        )

    def _passed(self) -> None:
        self._number = self._activation.asked_after = self._number + 1

    @contextmanager
    def catching_handoff(self) -> Iterator[None]:
        """Catch a command to the parent graph: a handoff, as made by LangGraph's handoff tools.

        Raises:
            InvalidOutputError: It names several agents, or an unknown one.
        """
        try:
            yield
        except ParentCommand as parent:
            known = self.final if isinstance(self.final, Mapping) else {}
            said = self.log.in_order()
            self.handoff = handoff_of(self._activation, parent.args[0], self._last, known, said)

    def handoff_results(self) -> _Results:
        """Yield the messages of the handoff, if there is one."""
        if self.handoff is not None:
            new: object = self.handoff.messages
            yield from self._compare(add_messages(cast(Messages, self._last), new))  # type: ignore[arg-type]


def _saving_tasks(
    name: str,
) -> tuple[Callable[..., Future[TaskResult]], Callable[..., Awaitable[object]]]:
    """Return tasks, sync and async, that emit a change, save it, and return it as their result.

    Their functions are made for each name again: LangGraph writes the name on the function, and caches
    the tasks of a module's functions. A task of another name would not find what was saved.
    """

    def save(emitter: Emitter, result: TaskResult, outer: RunnableConfig) -> TaskResult:
        return run_calls(_saved(emitter, result, outer))

    async def asave(emitter: Emitter, result: TaskResult, outer: RunnableConfig) -> TaskResult:
        return await arun_calls(_saved(emitter, result, outer))

    as_task: Any = task(name=name)
    return as_task(save), as_task(asave)


async def _saved(emitter: Emitter, result: TaskResult, outer: RunnableConfig) -> TaskResult:
    """Emit a change and save it; discard it if that fails."""
    result["position"]["told"] = emitter.end()
    try:
        await save_result(result, outer)
        return result
    except BaseException:
        emitter.discard(each.id for each in result["messages"] if address_of(each) is not None)
        raise
