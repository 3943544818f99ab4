"""What the agents of a tree do at a moment: what runs, what waits, and what each has said.

It is told what happens and when: by events, by parts of LangGraph's stream mode "tasks", or by hand;
it reads no clock. Another thread may ask for the rows meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from agentgraph.events.events import AgentEvent
from agentgraph.show.lines import event_text, outlined
from agentgraph.tree.addresses import Cursor, address, as_cursor, cursor_at, parse_address, way_to
from agentgraph.tree.places import Place, Tree

How = Literal["done", "asks", "failed", "stopped"]
State = Literal["not run", "waiting", "running"] | How

_HOW: dict[str, How] = {"interrupted": "asks", "error": "failed"}
"""How an agent stands behind an event that says so."""
_KEPT = 2000
"""How many characters of what an agent said are kept."""
_CALLED = ("__pregel_push",)
"""What triggers a task that a node has called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is to be seen of one place of a tree.

    Attributes:
        outline: The lines of the tree before its name: `│  ├─ `.
        name: The agent's name.
        kind: What kind of agent it is, in a word.
        state: What it does. One that waits has not begun, and one that was not run never will; one
            that asks waits for a person.
        runs: How often it has begun.
        iteration: In which iteration a loop is, as people count: `2 of 5`; else nothing.
        seconds: How long it has run, all its runs together; of a composite by the clock, not as a
            sum. None where that is not known.
        tokens_in: The tokens that its messages were asked with; those of all inside a composite.
        tokens_out: The tokens of its messages.
        text: What it said or did last, or the end of what it is saying.
        is_growing: Whether it is saying it.
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
    """Keeps what is known of each place of a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._records = {
            place: _Record(place, outline)
            for outline, place in outlined(tree.root, partial(_inside, tree))
        }
        self._open: dict[str, tuple[_Record, float]] = {}
        self._asking: dict[str, _Record] = {}
        self._paid: set[str] = set()
        self._tasks: dict[str, str] = {}

    def feed(self, part: Mapping[str, Any], now: float) -> bool:
        """Take a part of LangGraph's stream; return whether it tells of the tree, by the mode "tasks".

        A node that begins is told with its input, of which `position` says where the lane is; one that
        ends with what it wrote, where that says where the lane goes on. The tasks that nodes run
        themselves are passed over, for what matters of them is in the nodes of their lanes; and so are
        the graphs of graph agents.
        """
        if part["type"] != "tasks" or self._tree.is_foreign(part["ns"]):
            return False
        data = part["data"]
        if "input" not in data:
            return self._task_ended(data, now)
        if data["name"] not in self._tree.by_node or tuple(data["triggers"]) == _CALLED:
            return False
        state = data["input"]
        at = self._address(data["name"], state.get("position") if isinstance(state, Mapping) else None)
        self._tasks[data["id"]] = at
        self.began(at, now)
        return True

    def _task_ended(self, data: Mapping[str, Any], now: float) -> bool:
        at = self._tasks.pop(data["id"], None)
        if at is None:
            return False
        how: How = "failed" if data["error"] else "asks" if data["interrupts"] else "done"
        position = data["result"].get("position") if isinstance(data["result"], Mapping) else None
        node = (position or {}).get("next") or ""
        then = self._address(node, position) if node in self._tree.by_node else None
        self.ended(at, now, how, then)
        return True

    def _address(self, node: str, position: Mapping[str, Any] | None) -> str:
        """Return the address of an activation at a node, also where someone jumped there."""
        position = position or {"next": None, "cursor": []}
        place = self._tree.by_node[node]
        left = self._tree.by_node.get(position["next"] or "")
        cursor = as_cursor(position["cursor"])
        return address(place, cursor if left is place else cursor_at(place, left, cursor))

    def began(self, at: str, now: float) -> None:
        """Take that the activation at an address has begun, and what is around it in its lane."""
        for each, place, cursor in self._way(at):
            record = self._records[place]
            record.go_round(cursor)
            if each not in self._open:
                self._open[each] = (record, now)
                self._asking.pop(each, None)
                record.open(each, now)

    def ended(self, at: str, now: float, how: How = "done", then: str | None = None) -> None:
        """Take that the activation at an address has ended, and how.

        What is around it in its lane ends with it, unless it goes on at the address `then`.
        """
        kept = {each for each, _, _ in self._way(then)} if then and how == "done" else set()
        for each, _, _ in reversed(self._way(at)):
            if each not in kept:
                self._close(each, now, how)

    def told(self, event: AgentEvent, now: float) -> None:
        """Take what an event tells."""
        found = parse_address(self._tree, event.address)
        if found is None:
            return
        self._records[found[0]].say(event)
        if not event.partial:
            self._count_tokens(found[0], event)
        if event.kind == "error":
            self.ended(event.address, now, "failed")

    def recall(self, turn: Sequence[str | AgentEvent]) -> None:
        """Take what had come of a turn before it was watched; how long that took is not known.

        Args:
            turn: The events, and the addresses of what ended, in order.
        """
        ended = {each for each in turn if isinstance(each, str)}
        for each in turn:
            if isinstance(each, str):
                self._recall(each, "done")
                self._withdraw_inside(each)
                continue
            if each.address not in ended:
                self._recall(each.address, self._how(each))
            self.told(each, 0.0)
        asked = {each.address for each in turn if not isinstance(each, str)} & self._asking.keys()
        for at in asked:  # and so does what is around it, whatever else ended there
            self._recall(at, "asks")

    def _how(self, event: AgentEvent) -> How:
        """Return how an agent stands behind an event; what is said of a failure does not mend it."""
        if event.kind in _HOW:
            return _HOW[event.kind]
        found = parse_address(self._tree, event.address)
        return "failed" if found and self._records[found[0]].how == "failed" else "done"

    def _recall(self, at: str, how: How) -> None:
        """Take how an activation ended, and what is around it, until more is known of that."""
        found = parse_address(self._tree, at)
        if found is None:
            return
        for place in way_to(found[0]):
            each = address(place, found[1][: len(place.counts)])
            record = self._records[place]
            record.go_round(found[1])
            self._asking.pop(each, None)
            if how == "asks":
                self._asking[each] = record
            record.recall(each, how)

    def finish(self, now: float, *, failed: bool = False) -> None:
        """Take that nothing runs any more: what still did has failed with what is in it, or stopped."""
        broken = [place for place, record in self._records.items() if record.how == "failed"]
        around = {step for place in broken for step in way_to(place)} if failed else set()
        for record, _ in reversed(self._open.values()):
            record.close(now, "failed" if record.place in around else "stopped")
        self._open.clear()
        self._tasks.clear()

    def rows(self, now: float) -> list[Row]:
        """Return a row for each place, in the order of the tree."""
        asking = set(self._asking.copy().values())
        root = self._records[self._tree.root]
        is_over = root.state(root in asking) == "done"
        return [record.row(now, record in asking, is_over) for record in self._records.values()]

    def running(self, now: float) -> list[tuple[str, float]]:
        """Return the addresses that run with nothing that runs inside, and for how many seconds."""
        open_ = list(self._open.items())
        begun = {at: since for at, (record, since) in open_ if record.place.is_stop}
        return [(at, now - since) for at, since in begun.items() if not _inner(at, begun)]

    def _way(self, at: str) -> list[tuple[str, Place, Cursor]]:
        """Return a place and the composites around it in its lane, outermost first, with addresses."""
        found = parse_address(self._tree, at)
        if found is None:
            return []
        place, cursor = found
        way = [(at, place, cursor)]
        while not place.starts_lane and place.parent is not None:
            place = place.parent
            if not place.is_stop:
                way.append((address(place, cursor[: len(place.counts)]), place, cursor))
        return way[::-1]

    def _close(self, at: str, now: float, how: How) -> None:
        if at not in self._open:
            return
        record, _ = self._open.pop(at)
        record.close(now, how)
        if how == "asks":
            self._asking[at] = record
        if not self._tree.lanes(record.place):
            return
        for inner in _inner(at, self._open):
            self._open.pop(inner)[0].close(now, "stopped")
        if how == "done":
            self._withdraw_inside(at)

    def _withdraw_inside(self, at: str) -> None:
        """Take that nobody waits any more for answers to what was asked in the lanes of a node."""
        found = parse_address(self._tree, at)
        for inner in _inner(at, self._asking) if found and self._tree.lanes(found[0]) else ():
            self._asking.pop(inner).how = "stopped"

    def _count_tokens(self, speaker: Place, event: AgentEvent) -> None:
        usage = getattr(event.message, "usage_metadata", None)
        if not usage or event.id in self._paid:
            return
        self._paid.add(event.id)
        for place in way_to(speaker):
            if place is speaker or not place.kind.is_leaf:
                self._records[place].tokens_in += usage.get("input_tokens", 0)
                self._records[place].tokens_out += usage.get("output_tokens", 0)


@dataclass(slots=True, eq=False)
class _Record:
    """What is known of one place."""

    place: Place
    outline: str
    how: How | None = None
    iteration: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    text: str = ""
    _said: str = ""
    _is_growing: bool = False
    _begun: set[str] = field(default_factory=set)
    _running: int = 0
    _since: float | None = None
    _spent: float | None = None

    def go_round(self, cursor: Cursor) -> None:
        """Take in which iteration a loop is, by the counters inside it."""
        if self.place.kind.goes_round:
            self.iteration = cursor[len(self.place.counts)] + 1

    def open(self, at: str, now: float) -> None:
        """Begin a run; time passes while any is open."""
        self._begun.add(at)
        if self._running == 0:
            self._since, self._spent = now, self._spent or 0.0
        self._running += 1

    def close(self, now: float, how: How) -> None:
        """End a run."""
        self.how, self._is_growing = how, False
        self._running -= 1
        if self._running == 0 and self._since is not None:
            self._spent = (self._spent or 0.0) + now - self._since
            self._since = None

    def recall(self, at: str, how: How) -> None:
        """Take how a run ended that was not watched."""
        self.how = how
        self._begun.add(at)

    def say(self, event: AgentEvent) -> None:
        """Keep what was said; a chunk goes behind those before it."""
        if not event.partial:
            self.text, self._said, self._is_growing = event_text(event)[:_KEPT], event.id, False
        elif event.text:
            before = self.text if self._is_growing and self._said == event.id else ""
            self.text, self._said = (before + event.text)[-_KEPT:], event.id
            self._is_growing = True

    def state(self, asks: bool, is_over: bool = False) -> State:
        """Return what it does; `is_over` says that nothing begins any more."""
        if self._running:
            return "running"
        return "asks" if asks else self.how or ("not run" if is_over else "waiting")

    def row(self, now: float, asks: bool, is_over: bool) -> Row:
        """Return what is to be seen."""
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
        most = getattr(self.place.agent, "max_iterations", None)
        return f"{self.iteration} of {most}" if most and self.iteration else str(self.iteration or "")


def _inside(tree: Tree, place: Place) -> tuple[Place, ...]:
    return (*tree.children.get(place, ()), *tree.called.get(place, ()))


def _inner(at: str, addresses: Iterable[str]) -> list[str]:
    return [each for each in addresses if each.startswith(f"{at}/")]
