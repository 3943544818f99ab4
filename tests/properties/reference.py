"""A reference interpreter: what a run tells, sees and keeps, branches one after the other."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import specs


class Here(NamedTuple):
    """An activation: its run path, its address, and the iteration of the nearest loop."""

    path: specs.Path
    address: str
    iteration: int | None


@dataclass(frozen=True, eq=False)
class Said:
    """A message of the history, who said it and where; the user where there is no agent."""

    message: specs.Rendered
    agent: str | None = None
    address: str | None = None
    path: specs.Path = ()

    def told(self, policy: str, me: str) -> specs.Rendered:
        text = self.message[1]
        if policy == "entries":
            return "human", f"{self.agent} at {self.address} by {self.path}: {text}", None
        others = ("human", f"[{self.agent}] said: {text}", self.agent)
        return self.message if self.agent in (None, me) else others


@dataclass
class Lane:
    """What is visible in one thread of control; what it wrote; what the run has told and seen."""

    history: list[Said] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    input: list[Said] = field(default_factory=list)
    events: list[specs.Event] = field(default_factory=list)
    saw: dict[str, list[specs.Sight]] = field(default_factory=lambda: defaultdict(list))
    written: dict[str, Any] = field(default_factory=dict)

    def fork(self) -> "Lane":
        return Lane(list(self.history), dict(self.values), self.input, self.events, self.saw)

    def write(self, values: dict[str, Any]) -> None:
        self.values |= values
        self.written |= values

    def sight(self, leaf: specs.Leaf, here: Here, answered: tuple[Any, ...]) -> specs.Sight:
        last = [said for said in self.history if said.agent][-1:]
        chosen = {
            "path": lambda said: here.path[: len(said.path)] == said.path,
            "own": lambda said: said.agent in (None, leaf.name),
            "last": lambda said: said in self.input + last,
            "input": lambda said: said in self.input,
        }.get(leaf.history, lambda said: True)
        told = [said.told(leaf.history, leaf.name) for said in self.history if chosen(said)]
        instruction = specs.filled(getattr(leaf, "instruction", ""), self.values)
        seen = [("system", instruction, None), *told] if instruction else told
        return specs.Sight(here.path, here.iteration, seen, dict(self.values), answered)


def turn(tree: specs.Spec, lane: Lane, text: str) -> None:
    before = lane.input if lane.history[-1:] == lane.input[-1:] else []
    lane.input = [*before, Said(("human", text, None))]
    lane.history.append(lane.input[-1])
    run(tree, Here(((tree.name, None),), tree.name, None), lane)


def run(spec: specs.Spec, here: Here, lane: Lane) -> str | None:
    """Run an activation, and return the signal that it ends with."""
    match spec:
        case specs.Sequential():
            _, signal = in_turn(spec, here, lane)
        case specs.Loop():
            signal = loop(spec, here, lane)
        case specs.Parallel():
            signal = parallel(spec, here, lane)
        case _:
            signal = leaf(spec, here, lane)
    return None if signal == "break_loop" and here.iteration is None else signal


def children(spec: Any, here: Here) -> Iterator[tuple[specs.Spec, str]]:
    names = [child.name for child in spec.sub_agents]
    for i, child in enumerate(spec.sub_agents):
        nth = names[: i + 1].count(child.name)
        yield child, f"{here.address}/{child.name}" + (f"#{nth}" if nth > 1 else "")


def in_turn(spec: Any, here: Here, lane: Lane) -> tuple[specs.Path, str | None]:
    path, signal = here.path, None
    for child, address in children(spec, here):
        path = (*path, (child.name, here.iteration))
        if signal := run(child, Here(path, address, here.iteration), lane):
            break
    return path, signal


def loop(spec: specs.Loop, here: Here, lane: Lane) -> str | None:
    path = here.path
    for k in count():
        path, signal = in_turn(spec, Here(path, f"{here.address}[{k}]", k), lane)
        if signal or k + 1 == spec.max_iterations:
            break
        sight = specs.Sight(here.path, k, [said.message for said in lane.history], dict(lane.values))
        lane.saw[here.address].append(sight)
        if specs.stops(spec.until, sight):
            break
    return None if signal == "break_loop" else signal


def parallel(spec: specs.Parallel, here: Here, lane: Lane) -> str | None:
    branches, signals, before = [], [], len(lane.history)
    for child, address in children(spec, here):
        branches.append(lane.fork())
        path = (*here.path, (child.name, here.iteration))
        signals.append(run(child, Here(path, address, here.iteration), branches[-1]))
    for branch in branches:
        lane.history += branch.history[before:]
        lane.write(branch.written)
    return "exit" if "exit" in signals else "break_loop" if "break_loop" in signals else None


def leaf(spec: specs.Leaf, here: Here, lane: Lane) -> str | None:
    signal, answered = None, ()
    for call in specs.calls(spec, here.address, lane.sight(spec, here, ())):
        lane.saw[here.address].append(lane.sight(spec, here, answered))
        for kind, data in call.items:
            lane.events.append(specs.Event(here.address, here.path, kind, data, kept=not call.fails))
        for kind, data in () if call.fails else call.items:
            if kind == "message":
                lane.history.append(Said(data, spec.name, here.address, here.path))
                value = answered[0] if isinstance(spec, specs.Human) else data[1]
                lane.write({spec.output_key: value} if spec.output_key else {})
            elif kind == "values":
                lane.write(data)
            elif kind == "interrupted":
                answered = (specs.answer(here.address, data),)
            elif kind != "custom":
                signal = kind
    return signal
