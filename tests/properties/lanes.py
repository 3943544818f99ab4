"""What is visible where an agent runs: the history as it sees it, and the values."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, takewhile
from typing import Any, NamedTuple

import scripts
import specs

ADDED = "x"
"""The value whose reducer adds; of all others what is written last counts."""


class Here(NamedTuple):
    """An activation: its run path, its address, the nearest iteration, and if there is a loop to end.

    `above` is the chat agent that handed over to it, if it can hand back; `tries` are the addresses
    of its attempts if it was sent back; `number` is that of the item that it runs for; `peers` are
    those beside it that it may hand over to.
    """

    path: specs.Path
    address: str
    iteration: int | None
    in_loop: bool = False
    above: str | None = None
    tries: tuple[str, ...] = ()
    number: int | None = None
    peers: tuple[str, ...] = ()

    @property
    def step(self) -> int | None:
        """The number of its step in its run path: of an item that it runs for, or the iteration."""
        return self.iteration if self.number is None else self.number

    def inside(self, path: specs.Path, address: str) -> "Here":
        """Return the activation of another agent that it runs."""
        return Here(path, address, self.iteration, self.in_loop)

    def at_node(self, name: str, visit: int) -> "Here":
        """Return a visit of a node of the graph that it is."""
        path = (*self.path, (name, visit))
        return self.inside(path, f"{self.address}/{name}" + (f"[{visit}]" if visit else ""))


@dataclass(frozen=True, eq=False)
class Said:
    """A message of the history, who said it and where; the user where there is none.

    The key stays the same where the message is replaced; `event` is the number of the event of it.
    """

    message: specs.Rendered
    agent: str | None = None
    address: str | None = None
    path: specs.Path = ()
    key: Any = field(default_factory=object)
    event: int | None = None

    @property
    def way(self) -> specs.Path:
        """The run path of the agent that said it, whatever node of its graph did."""
        return self.path if agent_at(self.address) == self.address else self.path[:-1]

    def shown_to(self, policy: str, me: str) -> specs.Rendered:
        """Return how it reaches an agent."""
        if policy == "entries":
            line = f"{self.agent} at {self.address} by {self.path}: {self.message[1]}"
            return "human", line, None
        return self.message if self.agent in (None, me) else as_text(self.message, self.agent)


def as_text(message: specs.Rendered, speaker: str) -> specs.Rendered:
    """Return the user message by which others see what was said and called."""
    kind, text, name, *more = message
    said = f"[{speaker}] {name} returned: {text}" if kind == "tool" else f"[{speaker}] said: {text}"
    calls = more[0] if kind == "ai" and more else ()
    lines = [said] if text or not calls else []
    return "human", "\n".join([*lines, *(f"[{speaker}] called {c[0]}({c[1]})" for c in calls)]), speaker


Seen = tuple[Any, specs.Rendered]
"""A message that an agent sees, with what names it."""


@dataclass
class Kept:
    """What the middleware of an agent keeps at a place: its counts, and what it made of what is seen.

    The messages that it added are found by the key of the message before them.
    """

    counts: dict[str, int] = field(default_factory=dict)
    added: dict[Any, list[Seen]] = field(default_factory=dict)
    replaced: dict[Any, specs.Rendered] = field(default_factory=dict)

    def edited(self, seen: Sequence[Seen]) -> list[Seen]:
        """Return what is seen as the middleware left it."""
        result = list(self.added.get(None, ()))
        for key, message in seen:
            result += [(key, self.replaced.get(key, message)), *self.added.get(key, ())]
        return result

    def forget_but(self, seen: Sequence[Seen]) -> None:
        """Forget what was made of messages that are not seen any more."""
        keys = {None, *(key for key, _ in seen)}
        self.added = {key: added for key, added in self.added.items() if key in keys}
        self.replaced = {key: new for key, new in self.replaced.items() if key in keys}


@dataclass
class Lane:
    """What is visible in one thread of control; what it wrote; what the run emitted, saw and ran.

    `visited` has the addresses of the leaves and forks that ran, `steered` counts the calls of tools
    that end, break or hand over, by their address and name. In `lost` are the addresses of items that
    did not win: they may begin where all are stopped, and then do nothing. `item` is the item of the
    nearest each around, and `text` that of the results of an each that ran last. `mail` has what the
    user sends to the run, by the address that reads it and how often its model was asked before.
    """

    history: list[Said] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=lambda: {ADDED: ""})
    input: list[Said] = field(default_factory=list)
    events: list[specs.Event] = field(default_factory=list)
    saw: dict[str, list[specs.Sight]] = field(default_factory=lambda: defaultdict(list))
    ran: Counter[str] = field(default_factory=Counter)
    visited: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    steered: Counter[tuple[str, str]] = field(default_factory=Counter)
    conflicts: list[str] = field(default_factory=list)
    written: list[Mapping[str, Any]] = field(default_factory=list)
    strand: tuple[specs.Strand, ...] = ()
    kept: dict[str, Kept] = field(default_factory=dict)
    noted: Counter[str] = field(default_factory=Counter)
    start: int = 0
    item: tuple[Any, ...] = ()
    text: str | None = None
    mail: Mapping[tuple[str, int], Sequence[str]] = field(default_factory=dict)

    def fork(self, *strand: specs.Strand) -> "Lane":
        """Return a lane that sees the same, a strand of its own."""
        known = {"history": list(self.history), "values": dict(self.values), "written": []}
        known |= {"start": len(self.history), "text": None}
        return replace(self, **known, strand=(*self.strand, *strand))

    def last_text(self, begin: int) -> str:
        """Return the text of what was said last from a message on, or of the results of an each."""
        said = [each.message[1] for each in self.history[begin:]][-1:]
        return "".join(said) if self.text is None else self.text

    def write(self, values: Mapping[str, Any]) -> None:
        """Write values."""
        self.see([values])
        self.written.append(values)

    def join(self, written: Sequence[Mapping[str, Any]]) -> None:
        """Write what another lane wrote, in order, but for what stays there."""
        for values in map(handed_back, written):
            self.write(values)

    def settle(
        self,
        here: Here,
        written: Mapping[int, Sequence[Mapping[str, Any]]],
        beside: Callable[[int, int], bool],
    ) -> None:
        """Note where several conflict that are joined, and write what settles it."""
        last = {i: {k: v for values in each for k, v in values.items()} for i, each in written.items()}
        found = [
            name
            for name in specs.UNDECLARED
            for i, j in combinations([i for i, values in last.items() if name in values], 2)
            if last[i][name] != last[j][name] and beside(i, j)
        ]
        if found:
            self.conflicts.append(here.address)
            self.write(dict.fromkeys(found, specs.SETTLED))

    def see(self, written: Sequence[Mapping[str, Any]]) -> None:
        """Take over what was written, for the agents of this lane."""
        for values in written:
            added = {k: self.values[k] + v for k, v in values.items() if k == ADDED}
            self.values |= {**values, **added}

    def emit(self, here: Here, kind: str, data: Any, *, kept: bool = True) -> None:
        """Emit an event."""
        if kind == "values" and not data:
            return
        self.events.append(specs.Event(here.address, here.path, kind, data, kept, self.strand))

    def say(self, name: str, here: Here, message: specs.Rendered) -> None:
        """Say a message."""
        self.emit(here, "message", message)
        said = Said(message, name, here.address, here.path, event=len(self.events) - 1)
        self.history.append(said)

    def hear(self, here: Here, asked: int) -> None:
        """Read what the user has sent to the run."""
        for text in self.mail.get((here.address, asked), ()):
            message = ("human", text, None)
            self.emit(here, "message", message)
            said = Said(message, None, here.address, here.path, event=len(self.events) - 1)
            self.history.append(said)

    def is_input(self, said: Said, before: Sequence[Said]) -> bool:
        """Return whether a message is the user's last input, or was sent to the run since."""
        if said.agent is None and said.address:
            given = [i for i, each in enumerate(before) if each in self.input]
            return before.index(said) > max(given, default=-1)
        return said in self.input

    def begin(self, here: Here) -> int:
        """Return where begins what an agent said last, in the attempts before, too."""
        tried = takewhile(lambda said: agent_at(said.address) in here.tries, reversed(self.history))
        return len(self.history) - len(list(tried))

    def sight(self, leaf: specs.Leaf, here: Here, answered: tuple[Any, ...], begin: int) -> specs.Sight:
        """Return what a leaf knows; messages from `begin` on are those of its own activation."""
        seen = [message for _, message in self.context(leaf, here, begin)]
        instruction = scripts.filled(getattr(leaf, "instruction", ""), self.values)
        added = scripts.transfers_text(targets(leaf, here)) if isinstance(leaf, specs.Chat) else ""
        system = "\n\n".join(text for text in (instruction, added) if text)
        seen = [("system", system, None), *seen] if system else seen
        return specs.Sight(here.path, here.iteration, seen, dict(self.values), answered, self.item)

    def look(self, here: Here) -> specs.Sight:
        """Return what a function of a composite knows."""
        seen = [said.message for said in self.history]
        return specs.Sight(here.path, here.iteration, seen, dict(self.values), (), self.item)

    def context(self, leaf: specs.Leaf, here: Here, begin: int, *, is_open: bool = False) -> list[Seen]:
        """Return what a leaf sees of the history, as its middleware left it."""
        seen = self.visible(leaf, here, begin, is_open=is_open)
        kept = self.kept.get(place(here.address))
        if kept is None or not (kept.added or kept.replaced):
            return seen
        return kept.edited(seen) if is_open else paired(kept.edited(seen), leaf.name)

    def visible(self, leaf: specs.Leaf, here: Here, begin: int, *, is_open: bool = False) -> list[Seen]:
        """Return what a leaf sees of the history; its own calls may be open."""
        before, own = self.history[:begin], [(said.key, said.message) for said in self.history[begin:]]
        if leaf.history != "entries":
            before = without_transfers(before, leaf.name)
        last = [said for said in before if said.agent][-1:]
        chosen = {
            "path": lambda said: said.agent is None or here.path[: len(said.way)] == said.way,
            "own": lambda said: said.agent in (None, leaf.name),
            "last": lambda said: said in last or self.is_input(said, before),
            "input": lambda said: self.is_input(said, before),
        }.get(leaf.history, lambda said: True)
        seen = [(said.key, said.shown_to(leaf.history, leaf.name)) for said in before if chosen(said)]
        if is_open:
            return [*paired(seen, leaf.name), *own]
        return paired([*seen, *own], leaf.name)


def place(address: str) -> str:
    """Return the place of an address, whatever its iterations, attempts and transfers are.

    >>> place("loop[0]/boss{1}[2]/writer#2")
    'loop/boss/writer#2'
    """
    return re.sub(r"\[[^\]]*\]|\{[^}]*\}", "", address)


def agent_at(address: str | None) -> str:
    """Return the address of an agent: of the graph where it is that of a node.

    >>> agent_at("loop[0]/flat_graph_1{1}/then[1]")
    'loop[0]/flat_graph_1{1}'
    """
    return re.sub(rf"/({'|'.join(specs.NODES)})(\[\d+\])?$", "", address or "")


def paired(messages: Sequence[Seen], me: str) -> list[Seen]:
    """Return messages with each call followed by its result, in the order of the calls."""
    waiting: dict[str, tuple[int, int]] = {}
    results: dict[int, list[Seen]] = {}
    alone: list[int] = []
    for at, (key, message) in enumerate(messages):
        if message[0] == "tool" and message[3] in waiting:
            asked_by, number = waiting.pop(message[3])
            results[asked_by][number] = key, message
        elif message[0] == "tool":
            alone.append(at)
        elif len(message) > 3:
            results[at] = [((key, c[2]), scripts.unfinished(c)) for c in message[3]]
            waiting |= {call[2]: (at, number) for number, call in enumerate(message[3])}
    found: list[Seen] = []
    for at, (key, message) in enumerate(messages):
        if at in alone:
            found.append((key, as_text(message, me)))
        elif message[0] != "tool":
            found += [(key, message), *results.get(at, ())]
    return found


def without_transfers(history: Sequence[Said], me: str) -> list[Said]:
    """Return the history without what only carries out a transfer; others do not see the calls."""
    result: list[Said] = []
    for i, said in enumerate(history):
        kind, text, name, *more = said.message
        if kind != "ai" or not more:
            result += [said] if kind != "tool" else []
            continue
        results = list(takewhile(lambda each: each.message[0] == "tool", history[i + 1 :]))
        moves = {each.message[3] for each in results if is_transfer(each.message)}
        if len(moves) == len(more[0]) and not text:
            continue
        if said.agent != me:
            calls = tuple(call for call in more[0] if call[2] not in moves)
            said = replace(said, message=("ai", text, name, calls))
            results = [each for each in results if each.message[3] not in moves]
        result += [said, *results]
    return result


def is_transfer(message: specs.Rendered) -> bool:
    """Return whether a result is that of a transfer, not an answer in its place."""
    carried_out = message[4] == "success" and message[1].startswith(scripts.TRANSFERRED)
    return message[2].startswith("transfer_to_") and carried_out


def targets(spec: specs.Chat, here: Here) -> list[str]:
    """Return the names of those that a chat agent may hand over to."""
    above = [here.above] if here.above else []
    return [*(child.name for child in spec.sub_agents), *above, *here.peers]


def handed_back(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what leaves a lane of the values that were written there."""
    return {name: value for name, value in values.items() if not name.endswith(specs.ACTIVE)}
