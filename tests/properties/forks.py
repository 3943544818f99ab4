"""What comes of branches and steps: their order, their signals, and failures that become messages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import quote

import scripts
import specs
from lanes import Here, Lane, Said


class CollectedError(Exception):
    """The failure of a leaf in a branch where it becomes a message."""

    def __init__(self, leaf: specs.Leaf | specs.Switch | specs.Each, here: Here, text: str) -> None:
        super().__init__(text)
        self.leaf, self.here = leaf, here


def in_order(steps: Sequence[specs.Step]) -> dict[str, specs.Step]:
    """Return steps by name: each after those that it depends on, and else in declared order."""
    declared, order = {step.agent.name: step for step in steps}, {}

    def add(name: str) -> None:
        for before in declared[name].depends_on:
            add(before)
        order.setdefault(name, declared[name])

    for name in declared:
        add(name)
    return order


def joined(signals: Sequence[str | None]) -> str | None:
    """Return the signal that a fork ends with."""
    return "exit" if "exit" in signals else "break_loop" if "break_loop" in signals else None


def collect(
    spec: specs.Leaf | specs.Switch | specs.Each,
    here: Here,
    lane: Lane,
    error: str,
    emitted: Sequence[str] = (),
) -> NoReturn:
    """Fail in a branch that ends with that; what the call emitted is void."""
    if {"message", "custom", "values"} & set(emitted):
        lane.emit(here, "discarded", None, kept=False)
    lane.emit(here, "error", error, kept=False)
    raise CollectedError(spec, here, error)


@dataclass
class Item:
    """An item of an each, and how its lane ended."""

    number: int
    key: str | int | None
    value: Any
    lane: Lane
    failed: str | None = None

    @property
    def name(self) -> Any:
        """What names it in results: its key, or its number."""
        return self.number if self.key is None else self.key

    @property
    def counter(self) -> str:
        """What stands in brackets in its addresses."""
        if self.key is None:
            return str(self.number)
        return f"{self.number}:{quote(str(self.key), safe='._-').replace('~', '%7E')[:40]}"

    def said(self, mode: str, begin: int) -> list[Said]:
        """Return what of its messages others see."""
        said = self.lane.history[begin:]
        if mode == "full" or not said:
            return said
        first = len(said) - (mode == "last")
        while 0 < first < len(said) and said[first].message[0] == "tool":
            first -= 1
        return said[first:]

    def gave(self, agent: specs.Spec, begin: int) -> Any:
        """Return its result: the value of an output key that was written last, or the last text."""
        if self.failed:
            return None
        keys = set(output_keys(agent))
        for written in reversed(self.lane.written):
            for name in reversed(written):
                if name in keys:
                    return written[name]
        return self.lane.last_text(begin)


def items_of(each: specs.Each, found: Any, lane: Lane) -> Iterator[Item]:
    """Yield the items of an each, with a lane for each."""
    if isinstance(found, Mapping):
        pairs = list(found.items())
    else:
        key_of = scripts.key_of if each.shape == "keys" else lambda value: None
        pairs = [(key_of(value), value) for value in found]
    for number, (key, value) in enumerate(pairs):
        own = lane.fork()
        own.values[each.as_], own.item, own.kept = value, (number, key, value), {}
        if each.input:
            filled = scripts.filled(scripts.ITEM.format(each.as_), own.values)
            by_template = filled.replace(f"${{{each.as_}}}", value)
            text = by_template if each.input == "template" else f"Look at {own.item}."
            own.input = [Said(("human", text, None))]
            own.history = list(own.input)
            own.start = len(own.history)
        yield Item(number, key, value, own)


def results(each: specs.Each, items: Sequence[Item], begins: Sequence[int]) -> Any:
    """Return what the items gave: a list, a mapping by keys, or the result of the first alone."""
    gave = [item.gave(each.agent, begin) for item, begin in zip(items, begins, strict=True)]
    if each.on_error == "first":
        return next(iter(gave), None)
    if each.shape != "list":
        return dict(zip([item.key for item in items], gave, strict=True))
    return gave


def staying(each: specs.Each) -> set[str]:
    """Return the values that stay in the lanes of the items."""
    return {each.as_, *(written_keys(each.agent) if each.output_key else ())}


def output_keys(agent: specs.Spec) -> Iterator[str]:
    """Yield the keys of the results of an agent and its sub-agents, as far as they leave them."""
    if key := getattr(agent, "output_key", None):
        yield key
    if not (isinstance(agent, specs.Each) and agent.output_key):
        for child in getattr(agent, "sub_agents", ()):
            yield from output_keys(child)


def written_keys(agent: specs.Spec) -> Iterator[str]:
    """Yield the keys that an agent and all inside it write, as far as they leave it."""
    yield from filter(None, (getattr(agent, "output_key", None), getattr(agent, "errors_key", None)))
    if not (isinstance(agent, specs.Each) and agent.output_key):
        for child in specs.inside(agent):
            yield from written_keys(child)


def as_text(results: Any) -> str:
    """Return results as the text that they are for a model or a step."""
    return json.dumps(results, ensure_ascii=False)
