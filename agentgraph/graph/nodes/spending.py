"""The spending of a turn under its `Limits`: one count for a run, shared by all its lanes.

The count is in memory, so that concurrent lanes see each other's use at once. It begins with the saved
spending of the turn:

- The position of the root has what the turn had spent before the step that is next.
- The position of any other lane has what was spent in that lane alone, without the lanes inside it;
  for a lane that is one leaf it is in the result of its task.
- The spending of a step that failed or paused is a pending write next to that step, and so is a
  person's leave to use as much again. LangGraph ignores such a write, as its id is not a task's.

So a run that resumes a step adds up all that is saved in it. The outcome of the lanes does not matter:
one that ended, failed or was discarded has spent its part.

A turn that begins with prices has a cost of 0 for the run in its first position. Without it, or where a
reply had no price, the cost of the turn is not known: so no partial cost is reported.
"""

import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from threading import RLock
from typing import TypedDict
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.agents.costs import EXACT, Amount, PriceFunction, total
from agentgraph.agents.limits import Limits, Measure
from agentgraph.graph.internals import RESUMING, RETURN
from agentgraph.graph.open_types import Saver
from agentgraph.graph.saving import list_checkpoints, saver_of, step_config
from agentgraph.graph.sync_async import Call
from agentgraph.graph.task_results import ours
from agentgraph.tree.places import Tree

LEDGER = "__agentgraph_ledger"
"""The key in `config["configurable"]` of the `Ledger` of a run."""

LIMITS = "__agentgraph_limits"
"""The key in `config["configurable"]` of the `Limits` of a run, over those of its graph."""

CHANNEL = "agentgraph_spent"
"""The channel of the pending writes that hold a `Loss`."""

RUN = ""
"""Key for usage that no single agent owns: the run's time, and leave for the run."""

Counts = dict[str, dict[str, Amount]]
"""The spending of agents, by their names and by the names of limits; `LEAVE` that was given; and the
replies that are `UNPRICED`."""

UNPRICED = "unpriced"
"""The number of replies without a price; for the run: of parts of the turn that ran without prices."""

DECIDED = ("decision_input", "decision_output")
"""The tokens of decision models, in a tree whose middleware asks one: no message has them."""

AT = "@"
"""Between a measure and the path of one of several places of an agent: its part of the costs there."""

PRICED_TURN: Counts = {RUN: {"cost": "0"}}
"""The spending with which a turn begins that has prices."""

Bounds = tuple[tuple[str, Limits], ...]
"""The limits around a place: the name of each limited agent, or `RUN`, and its limits."""

LEAVE = "+"
"""Before the name of a limit: number of times that a person allowed as much again."""


class Loss(TypedDict):
    """The spending of a step that wrote no position."""

    spent: Counts
    begun: list[str]
    """The addresses of agents whose visit began in it, which begins but once."""


class Ledger:
    """The spending of a turn, in memory.

    Attributes:
        limits: The limits of the run.
        prices: Returns the price of a reply; None if no cost is counted.
        is_async: Whether the run is async, so that it awaits prices.
        is_full: Whether more than transfers is counted: if more is limited, a person may be asked, the
            run has prices, or no event has the tokens of some models.
        denied: The limits, each with its owner, for which a person denied leave.
        unbounded: Why a limit of cost does not bound a model, by the model's name; None if it does.
    """

    def __init__(
        self,
        tree: Tree,
        limits: Limits,
        prices: PriceFunction | None = None,
        *,
        is_async: bool = False,
    ) -> None:
        self.limits, self.prices, self.is_async, self._tree = limits, prices, is_async, tree
        is_more = limits.bounds.keys() - {"transfers"} or limits.on_limit == "ask" or prices
        self.is_full = bool(tree.limited or is_more or tree.has_decision_models)
        self.denied: set[tuple[str, Measure]] = set()
        self.unbounded: dict[str, str | None] = {}
        self._lock = RLock()
        self._spent: Counts = {}
        self._sums: defaultdict[str, defaultdict[str, Amount]] = defaultdict(lambda: defaultdict(int))
        self._begun: set[str] = set()
        self._asking: dict[tuple[str, Measure], str] = {}
        self._working: dict[str, list[float]] = {}
        self._has_warned = False
        self._steps, self._is_unread = 0, False

    def begin_step(self, spent: Counts) -> None:
        """Note that a step of the root begins; the first one begins with what is saved."""
        self._steps += 1
        self._is_unread = self._steps == 1
        if self._is_unread:
            self._add(spent)
            was_priced = "cost" in spent.get(RUN, ())
            if self.prices is not None and not was_priced:
                self._add({RUN: {"cost": "0", UNPRICED: 1}})
            elif self.prices is None and was_priced and not self.is_full:
                self._add({RUN: {UNPRICED: 1}})

    def has_begun(self, address: str) -> bool:
        """Return whether the visit of an agent at an address has begun: it begins but once."""
        return address in self._begun

    def begin(self, address: str) -> None:
        """Note that the visit of an agent begins."""
        self._begun.add(address)

    def take(self, agent: str, measure: Measure, bounds: Bounds) -> tuple[str, Limits] | None:
        """Spend one more, unless a limit is reached: then return that, and whose it is."""
        with self._lock:
            if (met := self.met(measure, bounds)) is None:
                self.add(agent, measure, 1)
            return met

    def met(self, measure: Measure, bounds: Bounds) -> tuple[str, Limits] | None:
        """Return the limits that are reached, and whose they are; the innermost first."""
        with self._lock:
            for name, limits in bounds:
                if self._remaining(measure, name, limits) <= 0:
                    return name, limits
        return None

    def seconds_left(self, bounds: Bounds) -> float | None:
        """Return for how many seconds agents may still work; None for any time."""
        with self._lock:
            return min(
                (self._remaining("seconds", *each) for each in bounds if each[1].seconds), default=None
            )

    @property
    def lacks_prices(self) -> bool:
        """Whether the turn began with prices, and this run has none."""
        return self.prices is None and "cost" in self._spent.get(RUN, ())

    def add(self, agent: str, measure: str, amount: Amount) -> None:
        """Add what an agent spent, or take back what it did not need."""
        self._add({agent: {measure: amount}})

    def asks(self, asker: str, name: str, measure: Measure) -> bool:
        """Return whether it is this one who asks for leave: the first that reaches a limit does."""
        with self._lock:
            return self._asking.setdefault((name, measure), asker) == asker

    def warn_once(self, text: str) -> None:
        """Warn, unless it has in this run."""
        with self._lock:
            is_first, self._has_warned = not self._has_warned, True
        if is_first:
            warnings.warn(text, stacklevel=2)

    def seconds(self) -> dict[str, float]:
        """Return for how long the run, and each composite with limits, has worked."""
        with self._lock:
            names = (RUN, *self._tree.limited_composites)
            return {name: float(self._sums[name]["seconds"]) for name in names}

    def extensions(self, name: str, measure: Measure) -> int:
        """Return how often leave was given to use as much again."""
        return int(self._sums[name][LEAVE + measure])

    def work(self, names: Iterable[str]) -> None:
        """Start the clock of an agent and those around it, where it does not run."""
        with self._lock:
            for name in names:
                self._working.setdefault(name, []).append(time.monotonic())

    def rest(self, names: Iterable[str]) -> None:
        """Stop the clock of an agent and those around it, where nothing of it works any more."""
        with self._lock:
            for name in names:
                began = self._working[name]
                if len(began) == 1:
                    self._add({name: {"seconds": time.monotonic() - began[0]}})
                    del self._working[name]
                else:
                    began.pop()

    def saved(self) -> Counts:
        """Return the spending of the turn, as plain data."""
        with self._lock:
            return {name: dict(each) for name, each in self._spent.items()}

    async def read_step(self, config: RunnableConfig) -> None:
        """Add what a resumed step of the root has spent so far.

        Args:
            config: LangGraph's config of its node.
        """
        may_have_run = self._is_unread and config["configurable"].get(RESUMING)
        self._is_unread = False
        if (saver := saver_of(config) if may_have_run else None) is not None:
            began = step_config(config)["configurable"]
            losses = await losses_in_step(
                saver, self._tree, began["thread_id"], began["checkpoint_ns"], began["checkpoint_id"]
            )
            with self._lock:
                for loss in losses:
                    self._add(loss["spent"])
                    self._begun.update(loss["begun"])

    def bound(self, measure: Measure, name: str, limits: Limits) -> float | Decimal:
        """Return a limit with the amounts by which a person extended it."""
        bound, times = limits.bounds[measure], 1 + self.extensions(name, measure)
        return EXACT.multiply(bound, times) if isinstance(bound, Decimal) else bound * times

    def _remaining(self, measure: Measure, name: str, limits: Limits) -> float:
        if getattr(limits, measure) is None:
            return float("inf")
        bound, used = self.bound(measure, name, limits), self._sums[name][measure]
        if isinstance(bound, Decimal):
            return float(EXACT.compare(bound, Decimal(used)))
        if measure == "seconds" and (began := self._working.get(name)):
            used = float(used) + time.monotonic() - began[0]
        return bound - float(used)

    def _add(self, counts: Counts) -> None:
        with self._lock:
            for agent, each in counts.items():
                own = self._spent.setdefault(agent, {})
                for measure, amount in each.items():
                    own[measure] = total(own.get(measure, 0), amount)
                    for name in self._sums_of(agent, measure):
                        self._sums[name][measure] = total(self._sums[name][measure], amount)

    def _sums_of(self, agent: str, measure: str) -> Iterator[str]:
        """Yield whose sums an agent's count is part of; time and leave are not added up."""
        if measure == "seconds" or measure.startswith(LEAVE) or AT in measure:
            yield agent
        else:
            yield from (RUN, *self._tree.limited_around(agent))


def added(counts: Counts, more: Counts) -> Counts:
    """Return the sum of two counts."""
    both = {name: dict(each) for name, each in counts.items()}
    for name, each in more.items():
        own = both.setdefault(name, {})
        for measure, amount in each.items():
            own[measure] = total(own.get(measure, 0), amount)
    return both


async def losses_in_step(
    saver: Saver, tree: Tree, thread_id: str, around: str, began: str
) -> list[Loss]:
    """Return the spending in a step of the root that has not ended.

    Args:
        saver: The saver of the thread.
        tree: The tree.
        thread_id: The thread.
        around: The namespace of the root.
        began: The id of the root's checkpoint from which the step runs.
    """
    newest_first = await list_checkpoints(saver, {"configurable": {"thread_id": thread_id}})
    return losses_among(newest_first, tree, around, began)


def losses_among(
    newest_first: Iterable[CheckpointTuple], tree: Tree, around: str, began: str
) -> list[Loss]:
    """Return the spending in a step of the root that has not ended, from the thread's checkpoints."""
    losses: list[Loss] = []
    lanes: set[str] = set()
    for saved in newest_first:
        namespace = str(saved.config["configurable"]["checkpoint_ns"])
        inside = namespace.removeprefix(around).removeprefix("|").split("|")
        is_root = namespace == around and saved.checkpoint["id"] == began
        is_inside = saved.metadata.get("parents", {}).get(around) == began
        if not is_root and not (is_inside and not tree.is_foreign(inside)):
            continue
        losses += _pending_losses(saved)
        if is_inside and namespace not in lanes:
            lanes.add(namespace)
            losses.append(Loss(spent=spent_until(saved), begun=[]))
    return losses


def spent_until(saved: CheckpointTuple) -> Counts:
    """Return the spending in the last position of a lane, also where its end was cut."""
    ended = (value for _, channel, value in saved.pending_writes or () if channel == "position")
    position = next(ended, None) or saved.checkpoint["channel_values"].get("position") or {}
    spent: Counts = position.get("spent", {})
    return spent


def _pending_losses(saved: CheckpointTuple) -> Iterator[Loss]:
    for _, channel, value in saved.pending_writes or ():
        if channel == CHANNEL:
            yield value
        elif channel == RETURN:
            position = ours(value).get("position") or {}
            yield Loss(spent=position.get("spent", {}), begun=[])


def save_loss(saver: Saver, at: RunnableConfig, loss: Loss) -> Call:
    """Return the call that saves what a step spent, or that leave was given.

    Args:
        saver: The saver.
        at: The config of the checkpoint from which the step runs.
        loss: The spending.
    """
    return Call(saver.put_writes, saver.aput_writes, (at, [(CHANNEL, loss)], str(uuid4())))
