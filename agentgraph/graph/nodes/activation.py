"""One run of a leaf or a parallel node: what it sees, what it emits, and how it ends.

Its `view` is the state that it sees, its `output` the messages and values that it emits and writes. Its
end is decided here: plainly, with a signal or a transfer, or not yet, at another of its nodes. The
update of the node has the output and the next position of the lane.
"""

from collections.abc import Sequence
from time import time_ns
from typing import Any, NamedTuple, cast

from langchain_core.messages import RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.cache.base import FullKey
from langgraph.errors import ParentCommand
from langgraph.types import Command, Send

from agentgraph.agents.signals import Signal
from agentgraph.graph.internals import RESUMING, RUNTIME
from agentgraph.graph.lane_position import (
    Boundary,
    Leaving,
    Position,
    SignalDetails,
    Task,
    add_details,
    answer_in,
    details_in,
)
from agentgraph.graph.message_changes import folded
from agentgraph.graph.nodes.completion import Completion
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.mailbox import Mailbox
from agentgraph.graph.nodes.metering import Meter
from agentgraph.graph.nodes.model_calls import observed
from agentgraph.graph.nodes.output import Output
from agentgraph.graph.nodes.spending import Ledger
from agentgraph.graph.nodes.stopping import Stop
from agentgraph.graph.nodes.tasks import lasting, new_task
from agentgraph.graph.nodes.view import View
from agentgraph.graph.open_types import Cache
from agentgraph.graph.stamps import STAMP, Entry, Note
from agentgraph.graph.state import LaneState, Update
from agentgraph.graph.values import Write
from agentgraph.tree.places import Place

_PLAIN_END = Boundary(given=[])
"""The end of an activation without a signal or a transfer, of which nothing was asked yet."""


ADDRESS, TURN = "agent_address", "agent_turn"
"""The keys of the metadata of a config by which middleware finds where it is."""


class TreeExit(ParentCommand):
    """Raised where the run leaves the tree for another node of the graph that the tree is in."""


class CacheEntry(NamedTuple):
    """Where the outcome of an activation is cached."""

    cache: Cache
    key: FullKey
    ttl: int | None
    """Number of seconds; None without a limit."""


class Activation:
    """One activation of a leaf or a parallel node.

    Attributes:
        view: The state that it sees.
        output: The messages and values that it emits and writes.
        node_context: Its place.
        name: The agent's name.
        cursor: The counters at the place.
        address: Its address.
        node_config: LangGraph's config of the node.
        config: LangGraph's config for the code that runs in it.
        asked: The question that this step asks.
        has_ended: Whether it ended in an earlier step, and only has to find the next position.
        asked_after: How many changes of an inner graph's messages were saved before its questions.
        cache_entry: Where its outcome will be cached, if it is not there yet.
        text: The result of its lane, if that is not its last message.
        mailbox: Has the messages that are sent to the run meanwhile; None if it takes none.
        meter: Counts what it spends; None if only transfers are counted, and it made none.
    """

    def __init__(
        self,
        node_context: NodeContext,
        state: LaneState,
        config: RunnableConfig,
        *,
        runs_lanes: bool = False,
        runs_trees: bool = False,
    ) -> None:
        """Enter a node.

        Args:
            node_context: The place.
            state: The state of the lane.
            config: LangGraph's config of the node.
            runs_lanes: Whether the node runs lanes, which may emit concurrently.
            runs_trees: Whether the node runs a graph that may itself be a compiled tree.
        """
        self._control = config["configurable"][RUNTIME].control
        self._began = time_ns() // 1000 if config["configurable"].get(RESUMING) else None
        self.mailbox: Mailbox | None = None
        if isinstance(self._control, Stop):
            self._control.begin_step(config)
            self.mailbox = self._control.mailbox
        self.view = view = View(node_context, state, config)
        self.output = Output(view, config, runs_lanes=runs_lanes, runs_trees=runs_trees)
        self.node_context, self.name = node_context, node_context.place.name
        self.cursor, self.address = view.cursor, view.address
        self.node_config, self.config = config, self.output.config
        self.asked = view.position.get("ask")
        self.asked_after: int | None = None
        self.cache_entry: CacheEntry | None = None
        self.has_ended = "border" in view.position
        self.text = view.position.get("text") if self.has_ended else None
        self._ending = view.position.get("border", _PLAIN_END)
        self._failure = state.get("failure") if self.has_ended else None
        self._next: Position | None = None
        self._failing: BaseException | None = None
        self._written: Sequence[Write] | None = None
        self.meter: Meter | None = None
        if view.state.ledger is not None and view.state.ledger.is_full:
            self._count_all()

    @property
    def is_resumed(self) -> bool:
        """Whether the run is resumed, so that the node may have run before."""
        return bool(self.node_config["configurable"].get(RESUMING))

    @property
    def mark(self) -> dict[str, object]:
        """The metadata for the code that runs in it; the stamp has the number of the last event."""
        clock = self.view.state.clock
        return {
            "agent_name": self.name,
            "agent_address": self.address,
            "lc_agent_name": self.name,
            STAMP: [self.address, clock.turn, clock.last, self.output.emitter.step],
        }

    def with_place(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config in which middleware finds the agent's name, its address and the turn."""
        own = {"agent_name": self.name, ADDRESS: self.address, TURN: self.view.state.clock.turn}
        metadata = {**config.get("metadata", {}), **own}
        return {**config, "metadata": metadata}

    def read_mail(self) -> None:
        """Take the messages that are sent to the run: they are as if they had been there before it."""
        if self.mailbox is not None:
            received = [self.output.receive(message) for message in self.mailbox.take()]
            self.view.receive(received)

    def signal(
        self, signal: Signal, details: SignalDetails | None = None, *, is_emitted: bool = False
    ) -> None:
        """End with a signal, which overrides a transfer; emit it unless a lane has."""
        self._ending = Boundary(signal=signal, given=[])
        if details:
            add_details(self._ending, details)
        if not is_emitted:
            self.output.emit_note(signal)

    def transfer(self, target: str, *, task: Task | None = None, is_granted: bool = False) -> None:
        """End with a transfer to one of the place's targets; it is emitted once the limits allow it.

        Args:
            target: The name of the target.
            task: The task of the target; None if that sees the history.
            is_granted: Whether it is counted already.
        """
        if "signal" not in self._ending:
            self._ending = Boundary(target=target, given=[])
            if task is not None:
                self._ending["task"] = task
            if is_granted:
                self._ending["granted"] = True

    @property
    def may_leave(self) -> bool:
        """Whether the run may leave the tree here, for another node of the graph around it."""
        namespace = self.node_config["configurable"].get("checkpoint_ns", "")
        return not self.node_context.is_inner and "|" in namespace

    def leave_tree(self, leaving: Leaving) -> None:
        """End the tree, for another node of the graph that it is in, once this step is saved."""
        self.output.emit_note("transfer_to", leaving["goto"])
        self.continue_at(self.node_context.place.node, border=Boundary(leaving=leaving, given=[]))

    def _exit_of(self, leaving: Leaving) -> TreeExit:
        seen = self.view.state
        said = {"messages": list(seen.messages), "values": dict(seen.values)}
        update = {**said, **leaving["update"]}
        goto: Any = leaving["goto"]
        if "sent" in leaving:
            goto = Send(goto, leaving["sent"][0])
        return TreeExit(Command(graph=Command.PARENT, goto=goto, update=update))

    @property
    def begins_visit(self) -> bool:
        """Whether the visit of its agent begins here: nothing of it was saved before."""
        position = self.view.position
        return not self.view.progress and position.keys().isdisjoint(("answer", "ask", "border"))

    @property
    def is_unfinished(self) -> bool:
        """Whether the agent continues in the next step, at a node of the same activation."""
        if self._next is None or [*self._next["cursor"]] != [*self.cursor]:
            return False
        return self.node_context.tree.by_node.get(self._next["next"] or "") is self.node_context.place

    def count_transfer(self) -> None:
        """Count a transfer before it is made.

        Raises:
            LimitError: A limit of transfers is reached.
        """
        self._metered().take("transfers")

    def uncount_transfer(self) -> None:
        """Take back a transfer that was counted, and is not made."""
        self._metered().untake("transfers")

    async def read_lanes(self) -> None:
        """Count what the lanes of this step spent before a resume."""
        ledger = self.view.state.ledger
        if ledger is not None and not self.node_context.is_inner:
            await ledger.read_step(self.node_config)

    def _metered(self) -> Meter:
        if self.meter is None:
            ledger, before = self.view.state.ledger, self.view.position.get("spent", {})
            assert ledger is not None
            self.meter = Meter(ledger, self.node_context, self.address, before, self.node_config)
        return self.meter

    def _count_all(self) -> None:
        """Count more than transfers: also what the code that runs in it calls."""
        self.config = self.output.config = observed(self.config, self._metered())

    def continue_at(self, node: str, **more: object) -> None:
        """Continue at a node of this activation, with more keys in the position."""
        tree = self.node_context.tree.fingerprint
        self._next = cast(Position, {"next": node, "cursor": [*self.cursor], "tree": tree, **more})

    def carry_calls(self, calls: Sequence[object]) -> None:
        """Carry the results of calls to the next node, if that is of this activation."""
        if self._next is not None and calls:
            self._next["calls"] = [*calls]

    def enter(self, place: Place) -> None:
        """Continue at the first stop of a place directly inside this one."""
        self._next = self.node_context.entering(place, self.cursor)

    @property
    def signal_details(self) -> SignalDetails:
        """The details of the signal with which it ends; empty without one."""
        return details_in(self._ending)

    def outcome(self) -> tuple[list[Entry], list[Write]] | None:
        """Return the messages and notes of this step in order, and its writes.

        None if the step asks, or changes messages of the history: then it has an effect only here.
        """
        output = self.output
        known = {message.id for message in self.view.state.messages}
        if self._next is not None or any(message.id in known for message in output.messages):
            return None
        left = [each for each in folded(output.messages) if not isinstance(each, RemoveMessage)]
        target = self._ending.get("target")
        to = self.node_context.targets[target].name if target else ""
        handed_over = [Note("", "transfer_to", to, self.address)] if target else []
        return [*output.emitter.in_order(left), *handed_over], output.writes

    async def awaited_update(self) -> Update:
        """Return the update of the node, as `update` does; async runs await functions at the end."""
        if self._next is None and self.node_context.has_boundary:
            self._raise_refusal()
            self._written = self.output.writes
            if self._written and self.node_context.reducers.fields:
                self.output.merge_values()
            completion = self._completion()
            position = await completion.awaited()
            self._next, self._failing = self._complete(completion, position)
        return self.update()

    def update(self) -> Update:
        """Return the update of the node, with the next position of the lane.

        Raises:
            BaseException: A function called at the end of this activation failed, in this step or the
                step before.
            TreeExit: The run leaves the tree.
        """
        output, seen = self.output, self.view.state
        is_awaited = self._written is not None  # then a rejected message is saved with its words
        if not is_awaited and (self.has_ended or self.meter is not None):
            self._raise_refusal()
        written = output.writes if self._written is None else self._written
        if written and self.node_context.reducers.fields:
            output.merge_values()
        position, failure = self._next, self._failing
        if position is None and self._ending == _PLAIN_END:
            position = self.node_context.plain_position(self.cursor)
        if position is None:
            position, failure = self._end()
        position["at"] = self.address
        if notes := output.emitter.end():
            position["told"] = notes
        position["clock"] = [seen.clock.turn, seen.clock.last]
        if seen.ledger is not None:
            self._save_spent(position, seen.ledger)
        update = Update(position=position)
        if output.messages or notes:  # LangGraph saves changes of the history before it continues
            update["messages"] = output.messages
        if output.writes or seen.values:
            output.write_values(update)
        if output.changes:
            update["middleware"] = output.changes
        if output.untracked is not None:
            update["untracked"] = [self.view.home_address, output.untracked]
        is_passing = failure is not None or self._began is not None
        if is_passing or self.view.tasks or "task" in self._ending:
            self._pass_on(update, written, failure)
        return update

    def _pass_on(self, update: Update, written: Sequence[Write], failure: BaseException | None) -> None:
        """Write what is rare: the tasks of the next step, a failure to raise there, a late begin."""
        if failure is not None:
            self._fail_next(update, failure)
        position = update["position"]
        if self._began is not None:
            self._save_start(position, self._began)
        context, view = self.node_context, self.view
        tasks = lasting(context.tree, view.tasks, self.cursor, position, written, context.reducers)
        if "task" in self._ending and "border" not in position:
            target = context.targets[self._ending["target"]]
            seen = view.state.with_new(self.output.messages, [])
            tasks.append(new_task(self._ending["task"], context.place.home, target, seen))
        if tasks:
            position["tasks"] = tasks

    def _raise_refusal(self) -> None:
        """Raise the limit that rejected spending, if the code in the activation continued.

        And what the step before left to this one, after it was saved: a failure, or a leave.
        """
        if self.meter is not None and self.meter.raised is not None:
            raise self.meter.raised
        if self._failure is not None:
            raise self._failure
        if leaving := self._ending.get("leaving"):
            raise self._exit_of(leaving)

    def _end(self) -> tuple[Position, BaseException | None]:
        completion = self._completion()
        return self._complete(completion, completion.position())

    def _completion(self) -> Completion:
        output = self.output
        return Completion(
            self.node_context,
            self.cursor,
            self._ending,
            lambda: self.view.state.with_new(output.messages, output.writes, output.changes),
            self.count_transfer,
            is_boundary=self.has_ended,
        )

    def _complete(
        self, completion: Completion, position: Position
    ) -> tuple[Position, BaseException | None]:
        output = self.output
        completion.emit(output.emitter)
        output.messages += completion.messages
        if completion.values:
            output.writes = [*output.writes, Write(by="", values=completion.values)]
            output.keep_changes(completion.changes)  # checks keep nothing without values
        if self.has_ended and "answered" in self.view.position:
            position["answered"] = self.view.position["answered"]
        return position, completion.failure

    def _save_start(self, position: Position, began: int) -> None:
        """Save when a resumed step started, unless the step continued its own unfinished work."""
        kind = self.node_context.place.kind
        if not (kind.is_parallel or kind.runs_agents or kind.asks):
            position["began"] = began

    def _save_spent(self, position: Position, ledger: Ledger) -> None:
        """Write what the turn has spent into the position; in an inner lane: the lane alone."""
        if self.meter is not None:
            spent = self.meter.saved()
        else:
            is_inner = self.node_context.is_inner
            spent = self.view.position.get("spent", {}) if is_inner else ledger.saved()
        if spent:
            position["spent"] = spent

    def _fail_next(self, update: Update, failure: BaseException) -> None:
        update["failure"] = failure
        if answered := answer_in(update["position"]):
            update["position"]["answered"] = answered  # its lane may end only after a resume
        if isinstance(self._control, Stop):
            self._control.fail_next()


def without_place(config: RunnableConfig) -> RunnableConfig:
    """Return a config without what `Activation.with_place` adds that no node replaces."""
    metadata = config.get("metadata", {}).items()
    return {**config, "metadata": {key: each for key, each in metadata if key not in (ADDRESS, TURN)}}
