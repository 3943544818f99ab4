"""The node of an each: runs one lane for each of the items, which are known when it begins.

The items are looked up in a separate task, so that they are saved before the first of them runs: a run
that is resumed continues with the same items, whatever the value or the function would return then.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from typing_extensions import TypedDict

from agentgraph.agents.agents import EachAgent
from agentgraph.agents.context import Context
from agentgraph.agents.entries import Item
from agentgraph.agents.kinds import output_keys, staying_keys
from agentgraph.agents.prebuilt.plans import RESULTS
from agentgraph.agents.templates import fill_input
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.copied_values import detached
from agentgraph.graph.history import unchanged
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked, look_up
from agentgraph.graph.nodes.concurrency import AT_ONCE
from agentgraph.graph.nodes.context import NodeContext, RunState
from agentgraph.graph.nodes.gated_task import talk_tasks
from agentgraph.graph.nodes.lane import Lane, LaneResult, last_text, value_of
from agentgraph.graph.nodes.lanes_node import Job, LanesNode, Results, are_concurrent
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import inner_stop
from agentgraph.graph.nodes.task_calls import tasks_call
from agentgraph.graph.nodes.view import View
from agentgraph.graph.pictures import Picture, picture_of
from agentgraph.graph.sync_async import Calls, run_calls
from agentgraph.graph.tagged_containers import marked, unmarked
from agentgraph.graph.values import Write
from agentgraph.safe_repr import as_json, shown
from agentgraph.tree.addresses import item_counter


class Items(TypedDict):
    """The saved items of an each: the keys, if they have any, and the values."""

    agentgraph: Literal["items"]
    keys: list[str | int] | None
    values: list[Any]


def joining(
    agent: EachAgent, messages: Sequence[BaseMessage], known: Container[str | None]
) -> list[BaseMessage]:
    """Return the messages of an item that join the history, by the `output_mode`.

    Its changes of messages that were `known` before always do: those are not its own. The last message
    is that whose text is the result; if it is the result of a call, the call goes with it.
    """
    if agent.mode == "full" or not messages:
        return [*messages]
    said = [m for m in messages if m.id not in known and not isinstance(m, RemoveMessage)]
    begin = len(said) if agent.mode == "none" else max(len(said) - 1, 0)
    while 0 < begin < len(said) and isinstance(said[begin], ToolMessage):
        begin -= 1
    last = {message.id for message in said[begin:]}
    return [message for message in messages if message.id in known or message.id in last]


class ItemJobs(Sequence[Job]):
    """The jobs of items. Each is made when its item runs: of thousands the node holds only the items.

    Attributes:
        keys: The keys of the items; None if they have none.
        needs: For each item the numbers of those that it needs.
    """

    def __init__(
        self,
        items: Items,
        job: Callable[[Item, tuple[int, ...]], Job],
        needs: Callable[[Item], tuple[int, ...]] | None,
    ) -> None:
        """Take the items.

        Args:
            items: The saved items.
            job: Makes the job of an item that needs others.
            needs: Finds the numbers of the items that one needs; None if none needs another.
        """
        self.keys, self._values, self._job = items["keys"], items["values"], job
        numbers = range(len(self._values))
        self.needs = [needs(self._item(number)) if needs else () for number in numbers]

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, number: Any) -> Any:
        return self._job(self._item(number), self.needs[number])

    def _item(self, number: int) -> Item:
        key = None if self.keys is None else self.keys[number]
        return Item(number, key, unmarked(self._values[number]))


class EachNode(LanesNode):
    """Runs the lane of the worker for each item, and collects the results of the items."""

    first = 1  # the task that looks up the items is the first of the node

    def __init__(self, node_context: NodeContext, lanes: Sequence[Lane]) -> None:
        self.agent = cast(EachAgent, node_context.place.agent)
        super().__init__(node_context, lanes)
        self._looking = talk_tasks(f"{self.name}.over", self._items)
        self._keys = frozenset(output_keys(self.agent.agent))
        self._staying = staying_keys(self.agent)

    @property
    def picture(self) -> Picture:
        """The drawing inside the node: its one lane, with what it runs for."""
        over = self.agent.over
        what = f"of {over}" if isinstance(over, str) else "item"
        return picture_of(self.lanes, title=f"for each {what}")

    async def jobs(self, activation: Activation) -> ItemJobs:
        """Return a job for each item."""
        looked_up = await tasks_call(
            Schedule([()], inner_stop()), lambda mode, _, call: call(self._looking[mode], activation)
        )
        items = cast(Mapping[int, Items], looked_up)[0]
        names = [*map(str, items["keys"] or ())]
        needs = None
        if self.agent.depends_on is not None:
            needs = partial(self._needs, activation.view, {name: n for n, name in enumerate(names)})
        jobs = ItemJobs(items, partial(self._job, activation, names), needs)
        if needs is not None:
            self._check_order(activation, jobs)
        return jobs

    def schedule(self, jobs: Sequence[Job]) -> Schedule:
        """Return a schedule in which all may begin that need no other, up to `max_concurrency`."""
        agent = self.agent
        return Schedule(
            cast(ItemJobs, jobs).needs,
            inner_stop(),
            on_error=agent.on_error,
            in_steps=agent.depends_on is not None and agent.on_error == "fail",
            at_once=agent.max_concurrency or AT_ONCE,
        )

    def keeps_failure(self, lane: Lane) -> bool:
        """Return whether failures become messages."""
        return self.agent.on_error == "collect"

    def instead(self, error: str) -> list[BaseMessage]:
        """Return the message that replaces a failed item's."""
        return [AIMessage(f"Failed: {error}")]

    def joining(self, activation: Activation, results: Iterable[LaneResult]) -> list[BaseMessage]:
        """Return the messages of the items that join the history, by the `output_mode`."""
        known = {message.id for message in activation.view.state.messages}
        return [each for result in results for each in joining(self.agent, result["messages"], known)]

    def keep(self, activation: Activation, jobs: Sequence[Job], results: Results) -> None:
        """Keep the texts of the results by key for the enclosing agent, and the text of all."""
        if self.agent.stored_by is not None:
            keys = cast(ItemJobs, jobs).keys or ()
            texts = {str(key): last_text(results[n]) for n, key in enumerate(keys) if n in results}
            activation.output.keep({self.agent.stored_by: {RESULTS: texts}})
        if self.node_context.is_inner:
            activation.text = as_json(self._collected(jobs, results))

    def _writes(self, activation: Activation, jobs: Sequence[Job], results: Results) -> list[Write]:
        shared_writes = {n: self._leaving(result["values"]) for n, result in results.items()}
        writes = activation.view.state.joined(
            activation.address, shared_writes, are_concurrent(cast(ItemJobs, jobs).needs)
        )
        own: dict[str, object] = {}
        if self.agent.output_key is not None:
            own[self.agent.output_key] = self._collected(jobs, results)
        if self.agent.errors_key is not None:
            own[self.agent.errors_key] = self._errors(jobs, results)
        if own:
            writes.append(Write(by=activation.address, values=own))
            activation.view.state.check(activation.address, writes)
        return writes

    def _leaving(self, writes: Sequence[Write]) -> list[Write]:
        left = [
            {**write, "values": {n: v for n, v in write["values"].items() if n not in self._staying}}
            for write in writes
        ]
        return [cast(Write, write) for write in left if write["values"]]

    def _collected(self, jobs: Sequence[Job], results: Results) -> object:
        """Return the results of the items: a list, a mapping by key, or the winner's result."""
        if self.agent.on_error == "first":
            return next((self._gave(result) for result in results.values()), None)
        each = [
            self._gave(results[number]) if number in results else None for number in range(len(jobs))
        ]
        if (keys := cast(ItemJobs, jobs).keys) is not None:
            return dict(zip(keys, each, strict=True))
        return each

    def _gave(self, result: LaneResult) -> object:
        """Return the result of an item: the value of its last output key, its answer, or its text."""
        if "failed" in result:
            return None
        answer = result["answered"]["answer"]["data"] if "answered" in result else last_text(result)
        return value_of(result, self.node_context.reducers, self._keys, answer)

    def _errors(self, jobs: Sequence[Job], results: Results) -> dict[str | int, str]:
        keys = cast(ItemJobs, jobs).keys or range(len(jobs))
        return {
            keys[number]: result["failed"] for number, result in results.items() if "failed" in result
        }

    def _job(
        self, activation: Activation, names: Sequence[str], item: Item, needs: tuple[int, ...]
    ) -> Job:
        """Return the job of an item.

        Args:
            activation: The activation of the node.
            names: The keys of all items, as texts.
            item: The item.
            needs: The numbers of the items that it needs.
        """
        counter = item_counter(item.number, item.key)
        sees = partial(self._seen_by, activation.view, item)
        job = Job(0, (*activation.cursor, counter), sees, needs)
        if not callable(self.agent.input):
            return job

        def asks(results: Results) -> Calls[RunState]:
            texts = {names[number]: last_text(results[number]) for number in sorted({*needs})}
            return self._asking(activation.view, replace(item, results=texts))

        return job._replace(asks=asks)

    def _needs(self, view: View, numbers: Mapping[str, int], item: Item) -> tuple[int, ...]:
        """Return the numbers of the items that an item needs.

        Args:
            view: The view of the node.
            numbers: The number of each item, by its key as a text.
            item: The item.

        Raises:
            InvalidOutputError: The function of `depends_on` returned no keys of items.
        """
        keys, where = self.needed(view, item), f"{view.address}: depends_on of item {item.number}"
        if isinstance(keys, str) or not isinstance(keys, Sequence):
            raise InvalidOutputError(f"{where} returned {shown(keys)}; return a list of keys of items")
        for key in keys:
            if str(key) not in numbers:
                there = f"choose one of: {', '.join(map(shown, numbers))}"
                advice = there if numbers else "the items have none: pass key=, or a mapping as over="
                raise InvalidOutputError(
                    f"{where} names {shown(key)}, which is not the key of an item; {advice}"
                )
        return tuple(numbers[str(key)] for key in keys)

    def _check_order(self, activation: Activation, jobs: ItemJobs) -> None:
        """Check that no items wait for each other: none of them could begin.

        Raises:
            InvalidOutputError: Some do.
        """
        try:
            TopologicalSorter(dict(enumerate(jobs.needs))).prepare()
        except CycleError as error:
            keys = cast(Sequence[object], jobs.keys)
            circle = " -> ".join(shown(keys[number]) for number in reversed(error.args[1]))
            raise InvalidOutputError(
                f"{activation.address}: the items {circle} wait for each other; have depends_on "
                "leave one of these out"
            ) from None

    def needed(self, view: View, item: Item) -> Sequence[str]:
        """Return the keys of the items whose results an item needs."""
        depends_on = self.agent.depends_on
        return () if depends_on is None else depends_on(self._context(view, item))

    def _seen_by(self, view: View, item: Item, _: Results) -> RunState:
        return self.sees(view, item)

    def sees(self, view: View, item: Item) -> RunState:
        """Return the state that an item sees: the value of the item, and its input if it has one."""
        state = self.with_item(view, item)
        if not isinstance(self.agent.input, str):
            return state
        text = fill_input(self.agent.input, state.values, {}, self.agent.name)
        return self._with_request(view, item, text)

    async def _asking(self, view: View, item: Item) -> RunState:
        """Return the state that an item sees for which the function of `input` makes the request.

        Raises:
            InvalidOutputError: It returned no text.
        """
        fn = cast(Callable[[Context], object], self.agent.input)
        text = await asked(view.address, "input", fn, self._context(view, item))
        if not isinstance(text, str):
            raise InvalidOutputError(
                f"{view.address}: the input function of item {item.number} returned {shown(text)}; "
                "return a text"
            )
        return self._with_request(view, item, text)

    def _with_request(self, view: View, item: Item, text: str) -> RunState:
        message = HumanMessage(text, id=f"{view.address} {item.number}")
        return replace(self.with_item(view, item), messages=[message])

    def sees_request(self, view: View, item: Item) -> RunState:
        """Return the state that a step of a plan sees; a function of the package makes its request."""
        return run_calls(self._asking(view, item))

    def _context(self, view: View, item: Item) -> Context:
        return view.context(unchanged, self.with_item(view, item))

    def with_item(self, view: View, item: Item) -> RunState:
        """Return the state that an item sees without an input."""
        seen = view.seen
        value = seen.reducers.typed(self.agent.as_, item.value)
        return replace(seen, values={**seen.values, self.agent.as_: value}, item=item)

    async def _items(self, activation: Activation) -> Items:
        over = detached(await look_up("over", self.agent.over, activation.view.context(unchanged)))
        if isinstance(over, Mapping):
            items = Items(agentgraph="items", keys=list(over), values=list(over.values()))
        elif isinstance(over, list | tuple):
            items = Items(agentgraph="items", keys=None, values=list(over))
        else:
            is_text = isinstance(over, str | bytes | bytearray)
            hint = "; make a list of it" if isinstance(over, Iterable) and not is_text else ""
            raise InvalidOutputError(
                f"{activation.address}: over={shown(self.agent.over)} returned {shown(over)}; it must "
                f"be a list, a tuple or a mapping{hint}"
            )
        if self.agent.key is not None:
            items["keys"] = await self._keys_of(activation, self.agent.key, items["values"])
        self._check_keys(activation, items["keys"] or [])
        activation.output.saved("the keys of the items", items["keys"] or [])
        items["values"] = activation.output.saved(
            "the items", [marked(each) for each in items["values"]]
        )
        return items

    async def _keys_of(
        self, activation: Activation, key: Callable[..., object], values: Iterable[object]
    ) -> list[Any]:
        keys: list[object] = []
        for value in values:
            keys += [await asked(activation.address, "key", key, value)]
        return keys

    def _check_keys(self, activation: Activation, keys: Sequence[object]) -> None:
        """Check that each key is a text or a whole number, and that none is there twice.

        Raises:
            InvalidOutputError: One is not, or is.
        """
        numbers: dict[str, int] = {}
        for number, key in enumerate(keys):
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise InvalidOutputError(
                    f"{activation.address}: the key of item {number} is {shown(key)}; use a text or a "
                    "whole number"
                )
            if (other := numbers.setdefault(str(key), number)) != number:
                raise InvalidOutputError(
                    f"{activation.address}: the items {other} and {number} have the same key "
                    f"{shown(key)}; give each its own"
                )
