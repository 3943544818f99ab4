"""One run of a leaf or a fork: what it sees, what it emits, and how it ends.

What it sees is its `view`, what it emits and writes its `output`. How it ends is decided here: plainly,
with a signal or a transfer, or not yet, at another node of its own. The update of the node has the
output and the next position of the lane.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from langchain_core.messages import RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.cache.base import BaseCache, FullKey

from agentgraph.agents.signals import Signal
from agentgraph.errors import LimitError
from agentgraph.graph.failures import mark_of_run
from agentgraph.graph.internals import RUNTIME
from agentgraph.graph.nodes.completion import Completion
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.output import Output
from agentgraph.graph.nodes.spending import Spent
from agentgraph.graph.nodes.stopping import Stop
from agentgraph.graph.nodes.view import View
from agentgraph.graph.stamps import STAMP, Entry, Note
from agentgraph.graph.state import Border, LaneState, Position, Update, folded
from agentgraph.graph.sync_async import Calls
from agentgraph.graph.values import Write
from agentgraph.tree.places import Place

_PLAIN_END = Border(given=[])
"""The end of an activation without a signal or a transfer, of which nothing was asked yet."""


class CacheEntry(NamedTuple):
    """Where the outcome of an activation is cached."""

    cache: BaseCache[Any]
    key: FullKey
    ttl: int | None
    """For how many seconds; None for good."""


class Activation:
    """One activation of a leaf or a fork.

    Attributes:
        view: What it sees.
        output: What it emits and writes.
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
        text: What it says as the result of its lane, if that is not its last message.
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
        if isinstance(self._control, Stop):
            self._control.begin_step(config)
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
        self._transfers = view.state.transfers

    @property
    def mark(self) -> dict[str, Any]:
        """The metadata for the code that runs in it; the stamp has the number of the last event."""
        clock = self.view.state.clock
        return {
            "agent_name": self.name,
            "agent_address": self.address,
            "lc_agent_name": self.name,
            STAMP: [self.address, clock.turn, clock.last, self.output.emitter.step],
        }

    def signal(self, signal: Signal, *, is_emitted: bool = False) -> None:
        """End with a signal, which overrides a transfer; emit it unless a lane has."""
        self._ending = Border(signal=signal, given=[])
        if not is_emitted:
            self.output.emit_note(signal)

    def transfer(self, target: str, *, is_granted: bool = False) -> None:
        """End with a transfer to one of the place's targets; it is emitted once the limits allow it.

        Args:
            target: The name of the target.
            is_granted: Whether it is counted already.
        """
        if "signal" not in self._ending:
            granted = {"granted": True} if is_granted else {}
            self._ending = cast(Border, {"target": target, **granted, "given": []})

    def count_transfer(self) -> None:
        """Count a transfer before it is made.

        Raises:
            LimitError: The turn has reached its limit of transfers.
        """
        bound = self.node_context.limits(self.config).transfers
        if not cast(Spent, self.view.state.spent).take("transfers", bound):
            reached = LimitError(self.name, self.address, "transfers", cast(int, bound))
            mark_of_run(reached)
            raise reached
        self._transfers += 1

    def uncount_transfer(self) -> None:
        """Take back a transfer that was counted, and is not made."""
        cast(Spent, self.view.state.spent).add("transfers", -1)
        self._transfers -= 1

    def read_lanes(self) -> Calls[None]:
        """Count what the lanes of this step used before a resume."""
        if self.view.state.spent is not None and not self.node_context.is_inner:
            yield from self.view.state.spent.read_lanes(self.config, self.node_context.tree)

    def continue_at(self, node: str, **more: Any) -> None:
        """Continue at a node of this activation, with more keys in the position."""
        position = self.node_context.position(node, self.cursor)
        self._next = cast(Position, {**position, **more})

    def carry_calls(self, calls: Sequence[Any]) -> None:
        """Carry the results of calls to the next node, if that is of this activation."""
        if self._next is not None and calls:
            self._next["calls"] = [*calls]

    def enter(self, place: Place) -> None:
        """Continue at the first stop of a place directly inside this one."""
        self._next = self.node_context.first_position(place, self.cursor)

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
        handed_over = [Note("", "transfer_to", target, self.address)] if target else []
        return [*output.emitter.in_order(left), *handed_over], output.writes

    def update(self) -> Update:
        """Return the update of the node, with the next position of the lane.

        Raises:
            BaseException: A function called at the end of this activation failed, in this step or the
                step before.
        """
        if self._failure is not None:
            raise self._failure
        output, seen = self.output, self.view.state
        if output.writes and self.node_context.reducers.fields:
            output.merge_values()
        position, failure = self._next, None
        if position is None and self._ending == _PLAIN_END:
            position = self.node_context.plain_position(self.cursor)
        if position is None:
            position, failure = self._completed()
        position["at"] = self.address
        if notes := output.emitter.end():
            position["told"] = notes
        position["clock"] = [seen.clock.turn, seen.clock.last]
        if seen.spent is not None:
            self._keep_spent(position, seen.spent)
        update = Update(position=position)
        if output.messages or notes:  # LangGraph saves changes of the history before it continues
            update["messages"] = output.messages
        if output.writes or seen.values:
            output.write_values(update)
        if output.changes:
            update["middleware"] = output.changes
        if output.untracked is not None:
            update["untracked"] = [self.view.home_address, output.untracked]
        if failure is not None:
            self._fail_next(update, failure)
        return update

    def _completed(self) -> tuple[Position, BaseException | None]:
        """Return the next position, and the failure of a function that was asked for it."""
        output = self.output
        completion = Completion(
            self.node_context,
            self.cursor,
            self._ending,
            lambda: self.view.state.with_new(output.messages, output.writes, output.changes),
            self.count_transfer,
            is_border=self.has_ended,
        )
        position = completion.position()
        completion.emit(output.emitter)
        output.messages += completion.messages
        if completion.values:
            output.writes = [*output.writes, Write(by="", values=completion.values)]
            output.keep_changes(completion.changes)  # checks keep nothing without values
        return position, completion.failure

    def _keep_spent(self, position: Position, spent: Spent) -> None:
        """Write what the turn has used into the position; in an inner lane: the lane alone."""
        is_inner = self.node_context.is_inner
        if transfers := self._transfers if is_inner else spent.used("transfers"):
            position["transfers"] = transfers

    def _fail_next(self, update: Update, failure: BaseException) -> None:
        """Have the next step raise a failure."""
        update["failure"] = failure
        if isinstance(self._control, Stop):
            self._control.fail_next()
