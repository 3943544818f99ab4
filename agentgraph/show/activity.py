"""The state of each agent during a run: running, waiting or done, and its last text.

An `Activity` receives events and parts of LangGraph's stream mode "tasks", each with its time; it reads
no clock itself. Another thread may read its rows at the same time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from agentgraph.events.events import AgentEvent
from agentgraph.graph.internals import PUSH
from agentgraph.show.lines import outlined, shown_text
from agentgraph.tree.addresses import Cursor, address, as_cursor, cursor_at, parse_address, places_to
from agentgraph.tree.places import Place, Tree

StreamPart = Mapping[str, Any]
"""A part of LangGraph's stream, or the data of a part."""
Ending = Literal["done", "asks", "failed", "stopped"]
State = Literal["not run", "waiting", "running"] | Ending

_ENDINGS: dict[str, Ending] = {"interrupted": "asks", "error": "failed"}
"""The state of an agent after an event, by its kind; "done" after all other kinds."""
_MOST_ITEMS = 20
"""Maximum number of rows for items of an `each`, or for calls of a function's agent, at a time."""
_KEPT = 2000
"""Maximum number of characters stored of an agent's last text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the live tree: a place and its state.

    Attributes:
        outline: The lines of the outline before the name: `│  ├─ `.
        name: The agent's name.
        kind: The kind of agent, in one word.
        state: "waiting" agents have not started yet, "not run" agents never will; an agent that "asks"
            waits for a person.
        runs: The number of its activations.
        iteration: The iteration of a loop, counted from 1: `2 of 5`; for the agent of an `each`, the
            number of started items that are done: `3 of 8 done`; empty for other agents.
        seconds: The running time of all its runs; for a composite the time by the clock, not the
            sum. None if unknown.
        tokens_in: The input tokens of its messages; for a composite, those of all agents inside.
        tokens_out: The output tokens of its messages.
        text: Its last text or action; for a streamed reply, the end of the text so far.
        is_growing: Whether the text is still being streamed.
    """

    outline: str = ""
    name: str
    kind: str = ""
    state: State = "waiting"
    runs: int = 0
    iteration: str = ""
    seconds: float | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    text: str = ""
    is_growing: bool = False


class Activity:
    """Tracks the state of each place of a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._states = {
            place: _PlaceState(place, outline)
            for outline, place in outlined(tree.root, partial(_inside, tree))
        }
        self._open: dict[str, tuple[_PlaceState, float]] = {}
        self._asking: dict[str, _PlaceState] = {}
        self._counted: set[str] = set()
        self._tasks: dict[str, str] = {}

    def feed(self, part: StreamPart, now: float) -> bool:
        """Process a part of LangGraph's stream; return whether it changed the state of a place.

        In the mode "tasks", the part for the start of a node has the node's input, whose `position`
        determines the address; the part for the end of a node has its writes, whose `position`
        determines the next address. Two kinds of tasks are skipped: those that run lanes (the nodes of
        the lanes are streamed, too), and those of users' LangGraph graphs.
        """
        if part["type"] != "tasks" or self._tree.is_foreign(part["ns"]):
            return False
        data = part["data"]
        if "input" not in data:
            return self._task_ended(data, now)
        if data["name"] not in self._tree.by_node or tuple(data["triggers"]) == (PUSH,):
            return False
        state = data["input"]
        at = self._address(data["name"], state.get("position") if isinstance(state, Mapping) else None)
        self._tasks[data["id"]] = at
        self.began(at, now)
        return True

    def _task_ended(self, data: StreamPart, now: float) -> bool:
        at = self._tasks.pop(data["id"], None)
        if at is None:
            return False
        ending: Ending = "failed" if data["error"] else "asks" if data["interrupts"] else "done"
        position = data["result"].get("position") if isinstance(data["result"], Mapping) else None
        node = (position or {}).get("next") or ""
        then = self._address(node, position) if node in self._tree.by_node else None
        self.ended(at, now, ending, then)
        return True

    def _address(self, node: str, position: StreamPart | None) -> str:
        position = position or {"next": None, "cursor": []}
        place = self._tree.by_node[node]
        before = self._tree.by_node.get(position["next"] or "")
        cursor = as_cursor(position["cursor"])
        return address(place, cursor if before is place else cursor_at(place, before, cursor))

    def began(self, at: str, now: float) -> None:
        """Mark the activation at an address as running, and the composites of its lane around it."""
        for each, place, cursor in self._enclosing(at):
            record = self._states[place]
            record.count_iteration(cursor)
            if each not in self._open:
                self._open[each] = (record, now)
                self._asking.pop(each, None)
                record.open(each, now)

    def ended(self, at: str, now: float, ending: Ending = "done", then: str | None = None) -> None:
        """Mark the activation at an address as ended.

        The composites of its lane end with it, except those that also enclose `then`, the address
        at which the lane continues.
        """
        kept = {each for each, _, _ in self._enclosing(then)} if then and ending == "done" else set()
        for each, _, _ in reversed(self._enclosing(at)):
            if each not in kept:
                self._close(each, now, ending)

    def add(self, event: AgentEvent, now: float) -> None:
        """Process an event: its text, its tokens, and the failure if it is an error."""
        activation = parse_address(self._tree, event.address)
        if activation is None:
            return
        self._states[activation[0]].add(event)
        for item, record in self._items_around(*activation):
            record.add_to_item(item, event)
        if not event.partial:
            self._count_tokens(activation[0], event)
        if event.kind == "error":
            self.ended(event.address, now, "failed")

    def recall(self, turn: Sequence[str | AgentEvent]) -> None:
        """Process the earlier part of a turn, before it was watched; its times are unknown.

        Args:
            turn: Its events, and the addresses of activations that ended, in order.
        """
        ended = {each for each in turn if isinstance(each, str)}
        for each in turn:
            if isinstance(each, str):
                self._recall(each, "done")
                self._withdraw_inside(each)
                continue
            if each.address not in ended:
                self._recall(each.address, self._ending(each))
            self.add(each, 0.0)
        asked = {each.address for each in turn if not isinstance(each, str)} & self._asking.keys()
        for at in asked:  # all enclosing composites ask, too, whatever else ended inside them
            self._recall(at, "asks")

    def _ending(self, event: AgentEvent) -> Ending:
        """Return the state of an agent after an event; a message does not end a failure."""
        if event.kind in _ENDINGS:
            return _ENDINGS[event.kind]
        activation = parse_address(self._tree, event.address)
        return "failed" if activation and self._states[activation[0]].ending == "failed" else "done"

    def _recall(self, at: str, ending: Ending) -> None:
        activation = parse_address(self._tree, at)
        if activation is None:
            return
        for place in places_to(activation[0]):
            each = _run_at(place, activation[1])
            record = self._states[place]
            record.count_iteration(activation[1])
            self._asking.pop(each, None)
            if ending == "asks":
                self._asking[each] = record
            record.recall(each, ending)

    def finish(self, now: float, *, failed: bool = False) -> None:
        """End the run: running agents have stopped, or failed if an agent inside failed."""
        broken = [place for place, record in self._states.items() if record.ending == "failed"]
        enclosing = {step for place in broken for step in places_to(place)} if failed else set()
        for record, _ in reversed(self._open.values()):
            record.close(now, "failed" if record.place in enclosing else "stopped")
        self._open.clear()
        self._tasks.clear()

    def _items_around(self, place: Place, cursor: Cursor) -> Iterator[tuple[str, "_PlaceState"]]:
        for each in places_to(place):
            if _has_rows(each):
                yield address(each, cursor[: len(each.counts)]), self._states[each]

    def rows(self, now: float) -> list[Row]:
        """Return a row for each place, in the order of the tree.

        Below the agent of an `each` there is a row for each item that runs, asks or has failed; below
        an agent that a function runs there is a row for each call.
        """
        asking = set(self._asking.copy().values())
        root = self._states[self._tree.root]
        is_over = root.state(root in asking) == "done"
        rows: list[Row] = []
        for record in self._states.values():
            rows += [record.row(now, record in asking, is_over), *record.item_rows(now)]
        return rows

    def running(self, now: float) -> list[tuple[str, float]]:
        """Return the innermost running addresses, each with its seconds so far."""
        open_ = list(self._open.items())
        begun = {at: since for at, (record, since) in open_ if record.place.is_node}
        return [(at, now - since) for at, since in begun.items() if not _inner(at, begun)]

    def _enclosing(self, at: str) -> list[tuple[str, Place, Cursor]]:
        activation = parse_address(self._tree, at)
        if activation is None:
            return []
        place, cursor = activation
        places = [(at, place, cursor)]
        while not place.starts_lane and place.parent is not None:
            place = place.parent
            if place.kind.encloses:
                places.append((_run_at(place, cursor), place, cursor))
        return places[::-1]

    def _close(self, at: str, now: float, ending: Ending) -> None:
        if at not in self._open:
            return
        record, _ = self._open.pop(at)
        record.close(now, ending)
        record.end_item(at, ending)
        if ending == "asks":
            self._asking[at] = record
        if not self._tree.lanes(record.place):
            return
        for inner in _inner(at, self._open):
            record, _ = self._open.pop(inner)
            record.close(now, "stopped")
            record.end_item(inner, "stopped")
        if ending == "done":
            self._withdraw_inside(at)

    def _withdraw_inside(self, at: str) -> None:
        activation = parse_address(self._tree, at)
        for inner in _inner(at, self._asking) if activation and self._tree.lanes(activation[0]) else ():
            self._asking.pop(inner).ending = "stopped"

    def _count_tokens(self, speaker: Place, event: AgentEvent) -> None:
        usage = getattr(event.message, "usage_metadata", None)
        if not usage or event.id in self._counted:
            return
        self._counted.add(event.id)
        for place in places_to(speaker):
            if place is speaker or not place.kind.is_leaf or place.kind.is_flattened:
                self._states[place].tokens_in += usage.get("input_tokens", 0)
                self._states[place].tokens_out += usage.get("output_tokens", 0)


@dataclass(slots=True)
class _ItemState:
    since: float | None
    ending: Ending | None = None
    text: str = ""


@dataclass(slots=True, eq=False)
class _PlaceState:
    place: Place
    outline: str
    ending: Ending | None = None
    iteration: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    text: str = ""
    _text_id: str = ""
    _is_growing: bool = False
    _begun: set[str] = field(default_factory=set)
    _running: int = 0
    _since: float | None = None
    _spent: float | None = None
    _items: dict[str, _ItemState] = field(default_factory=dict)

    def count_iteration(self, cursor: Cursor) -> None:
        """Set the iteration of a loop from the cursor of a place inside it."""
        if self.place.kind.loops:
            self.iteration = cursor[len(self.place.counts)] + 1

    def open(self, at: str, now: float) -> None:
        """Start a run; the clock runs while at least one run is open."""
        self._begun.add(at)
        if _has_rows(self.place):
            self._items[at] = _ItemState(now)
        if self._running == 0:
            self._since, self._spent = now, self._spent or 0.0
        self._running += 1

    def close(self, now: float, ending: Ending) -> None:
        self.ending, self._is_growing = ending, False
        self._running -= 1
        if self._running == 0 and self._since is not None:
            self._spent = (self._spent or 0.0) + now - self._since
            self._since = None

    def recall(self, at: str, ending: Ending) -> None:
        """Add a run that was not watched."""
        self.ending = ending
        self._begun.add(at)
        if _has_rows(self.place):
            self._items.setdefault(at, _ItemState(None)).ending = ending

    def end_item(self, at: str, ending: Ending) -> None:
        """Set the state of an item that has ended."""
        if at in self._items:
            self._items[at].ending = ending

    def add_to_item(self, at: str, event: AgentEvent) -> None:
        """Store the text of an event for the row of an item."""
        if at in self._items and not event.partial:
            self._items[at].text = shown_text(event)[:_KEPT]

    def item_rows(self, now: float) -> list[Row]:
        """Return the rows of the items that run, ask or have failed, or of the calls."""
        below = self.outline.replace("├─ ", "│  ").replace("└─ ", "   ")
        rows: list[Row] = []
        items, is_over = [*self._items.copy().items()], ("done", "stopped")
        if self.place.is_item:
            items = sorted(((at, it) for at, it in items if it.ending not in is_over), key=_item_number)
        elif len(items) > _MOST_ITEMS:
            items = [(at, it) for at, it in items if it.ending not in is_over]
        for at, item in items[:_MOST_ITEMS]:
            seconds = None if item.ending or item.since is None else now - item.since
            name = at.rpartition("/")[2]
            state: State = item.ending or "running"
            rows.append(
                Row(outline=f"{below}· ", name=name, state=state, seconds=seconds, text=item.text)
            )
        return rows

    def add(self, event: AgentEvent) -> None:
        """Store the text of an event; a chunk is appended to the chunks before it."""
        if not event.partial:
            self.text, self._text_id, self._is_growing = shown_text(event)[:_KEPT], event.id, False
        elif event.text:
            before = self.text if self._is_growing and self._text_id == event.id else ""
            self.text, self._text_id = (before + event.text)[-_KEPT:], event.id
            self._is_growing = True

    def state(self, asks: bool, is_over: bool = False) -> State:
        """Return the state; after the run, waiting agents have not run."""
        if self._running:
            return "running"
        return "asks" if asks else self.ending or ("not run" if is_over else "waiting")

    def row(self, now: float, asks: bool, is_over: bool) -> Row:
        since, spent = self._since, self._spent
        return Row(
            outline=self.outline,
            name=self.place.name,
            kind=self.place.kind.name,
            state=self.state(asks, is_over),
            runs=len(self._begun),
            iteration=self._iteration(),
            seconds=spent if since is None else (spent or 0.0) + now - since,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            text=self.text,
            is_growing=self._is_growing,
        )

    def _iteration(self) -> str:
        if self._items and self.place.is_item:
            done = sum(item.ending == "done" for item in self._items.copy().values())
            return f"{done} of {len(self._items)} done"
        most = getattr(self.place.agent, "max_iterations", None)
        return f"{self.iteration} of {most}" if most and self.iteration else str(self.iteration or "")


def _run_at(place: Place, cursor: Cursor) -> str:
    """Return the address of the run at a place; a swarm is one run over all its transfers."""
    own = cursor[: len(place.counts)]
    return address(place, (*own[:-1], ()) if place.kind.is_swarm else own)


def _has_rows(place: Place) -> bool:
    return place.is_item or place.is_run


def _item_number(item: tuple[str, object]) -> int:
    """Sort key: the number of an item, from its address."""
    return int(item[0].rpartition("(")[2].partition(":")[0].rstrip(")"))


def _inside(tree: Tree, place: Place) -> tuple[Place, ...]:
    return (*tree.children.get(place, ()), *tree.called.get(place, ()))


def _inner(at: str, addresses: Iterable[str]) -> list[str]:
    return [each for each in addresses if each.startswith(f"{at}/")]
