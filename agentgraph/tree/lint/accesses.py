"""The values that each place of a tree reads and writes: by its options, templates and functions."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

from agentgraph.agents.functions import takes_two
from agentgraph.agents.kinds import active_key
from agentgraph.agents.prebuilt.plan_execute import plan_execute
from agentgraph.agents.prebuilt.plans import PLAN_VALUES, Planned
from agentgraph.agents.schemas import json_schema
from agentgraph.agents.signals import Capabilities
from agentgraph.agents.templates import names_in, optional_in
from agentgraph.tree.lint.code import Certainty, Code, code_of
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.position import capabilities_at

Phase = Literal["start", "tool", "end"]
"""The point of an activation at which it reads a value."""

_WITH_CONTEXT = ("choose", "over", "when", "until", "input", "instruction", "model", "key_func")
_WITH_TWO = ("check", "model_input")
_WITH_REPLY = ("output", "accept")
_AT_THE_END = ("until", "check", "output", "accept")
_SOMETIMES = ("model_input", "key_func", "enabled")
_PLANNING = (Planned.__module__, plan_execute.__module__)
"""The modules of functions that read the values of a plan."""


class Read(NamedTuple):
    """A read of a value.

    Attributes:
        name: The name of the value.
        option: The option, template or tool that reads it, for messages.
        certainty: Whether it always reads it.
        phase: When it reads it.
    """

    name: str
    option: str
    certainty: Certainty
    phase: Phase


class Accesses:
    """The reads and writes of the places of a tree, without those of the lanes that a place runs.

    Attributes:
        tree: The tree.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._own: dict[Place, tuple[tuple[str | None, Code], ...]] = {}
        self._asked: dict[Place, tuple[tuple[str, Code], ...]] = {}
        self._reads: dict[Place, list[Read]] = {}
        self._writes: dict[Place, frozenset[str]] = {}
        self._ends: dict[Place, Capabilities] = {}

    def own(self, place: Place) -> tuple[tuple[str | None, Code], ...]:
        """Return the effects of the functions that do the work of a place, each with its tool."""
        if place not in self._own:
            own = place.rules.own(place.agent)
            self._own[place] = tuple(
                (each.tool, _code(each.fn, takes_context=each.tool is None)) for each in own
            )
        return self._own[place]

    def asked(self, place: Place) -> tuple[tuple[str, Code], ...]:
        """Return the effects of the functions that the options of a place ask."""
        if place not in self._asked:
            self._asked[place] = tuple(self._asked_of(place))
        return self._asked[place]

    def _asked_of(self, place: Place) -> Iterator[tuple[str, Code]]:
        around = place.parent.user_functions if place.is_item and place.parent else ()
        inputs = [(slot, fn) for slot, fn in around if slot == "input"]
        own = [
            (slot, fn) for slot, fn in place.user_functions if slot != "input" or not _is_each(place)
        ]
        for slot, fn in (*own, *inputs):
            option = slot.partition(" ")[0]
            is_two = option in _WITH_TWO and _takes_two(fn)
            if is_two or option in (*_WITH_CONTEXT, "enabled"):
                yield option, _code(fn, takes_context=True)
            elif option in _WITH_REPLY:
                yield option, _code(fn, takes_context=False, takes_reply=True)

    def reads(self, place: Place) -> list[Read]:
        """Return the reads of a place."""
        if place not in self._reads:
            self._reads[place] = self._reads_of(place)
        return self._reads[place]

    def _reads_of(self, place: Place) -> list[Read]:
        reads = [*self._named(place), *self._in_templates(place)]
        for option, code in self.asked(place):
            phase: Phase = "end" if option in _AT_THE_END else "start"
            is_rare = option in _SOMETIMES or place.kind.loops
            for name, certainty in code.reads.items():
                rare = "sometimes" if is_rare and certainty == "always" else certainty
                reads.append(Read(name, option, rare, phase))
        for tool, code in self.own(place):
            option = "its function" if tool is None else f"its tool {tool!r}"
            phase = "start" if tool is None else "tool"
            reads += [Read(name, option, certainty, phase) for name, certainty in code.reads.items()]
        return reads

    def _named(self, place: Place) -> Iterator[Read]:
        if place.kind.has_steps:  # read by its steps
            return
        named = [*place.rules.reads(place.agent)]
        if place.step is not None and isinstance(place.step.when, str):
            yield Read(place.step.when, "when", "always", "start")
        for each in named:
            yield Read(each.name, each.option, "optional" if each.may_be_missing else "always", "start")

    def _in_templates(self, place: Place) -> Iterator[Read]:
        texts = (
            [] if place.kind.has_steps or place.kind.has_items else [*place.rules.texts(place.agent)]
        )
        if place.step is not None:
            texts.append(("its input", place.step.input))
        if place.is_item and place.parent is not None:
            texts.append(("its input", getattr(place.parent.agent, "input", None)))
        texts += [("its instruction", each) for each in _forms(place)]
        for option, template in texts:
            if isinstance(template, str):
                optional = {*optional_in(template)}
                for name in dict.fromkeys(names_in(template)):
                    yield Read(name, option, "optional" if name in optional else "always", "start")

    def writes(self, place: Place) -> frozenset[str]:
        """Return the values that a place may write itself."""
        if place not in self._writes:
            self._writes[place] = self._writes_of(place)
        return self._writes[place]

    def _writes_of(self, place: Place) -> frozenset[str]:
        agent = place.agent
        names = {getattr(agent, "output_key", None), active_key(agent), *place.rules.writes(agent)}
        names.discard(None)
        if any(isinstance(each.check, Planned) for each in place.checks):
            names.update(PLAN_VALUES)
        for _, code in (*self.own(place), *self.asked(place)):
            names |= code.writes
        return cast(frozenset[str], frozenset(names))

    def writes_all(self, place: Place) -> bool:
        """Return whether a place may write values of any name."""
        may_write = place.rules.hidden(place.agent)[1]
        return may_write or any(code.writes_all for _, code in (*self.own(place), *self.outputs(place)))

    def outputs(self, place: Place) -> list[tuple[str, Code]]:
        """Return the effects of the functions that make the output of a graph or a runnable."""
        return [(option, code) for option, code in self.asked(place) if option == "output"]

    def reads_all(self, place: Place) -> bool:
        """Return whether a place may read values of any name."""
        may_read = place.rules.hidden(place.agent)[0]
        return may_read or any(code.reads_all for _, code in (*self.own(place), *self.asked(place)))

    @cached_property
    def read_anywhere(self) -> frozenset[str]:
        """The names of the values that any place reads."""
        return frozenset(each.name for place in self.tree.places for each in self.reads(place))

    @cached_property
    def written_anywhere(self) -> frozenset[str]:
        """The names of the values that any place may write."""
        return frozenset(name for place in self.tree.places for name in self.writes(place))

    def ends(self, place: Place) -> Capabilities:
        """Return the ways in which an activation may end, as far as functions can be read."""
        if place not in self._ends:
            self._ends[place] = self._ends_of(place)
        return self._ends[place]

    def _ends_of(self, place: Place) -> Capabilities:
        may = capabilities_at(self.tree, place)
        if place.kind.is_parallel:
            inside = [self.ends(each) for each in self._in_lanes(place)]
            breaks = may.break_loop and any(each.break_loop for each in inside)
            return Capabilities(may.proceed, any(each.exit for each in inside), breaks)
        codes = [code for _, code in self.own(place)]
        if not codes or not all(code.is_known for code in codes):
            return may
        named = {word for code in codes for word in code.signals}
        proceeds = all(code.proceeds for tool, code in self.own(place) if tool is None)
        return Capabilities(
            proceed=may.proceed and proceeds,
            exit=may.exit and ("exit" in named or _has(place, "exit_tool", "middleware")),
            break_loop=may.break_loop and ("break_loop" in named or _has(place, "break_tool")),
            transfer=may.transfer and ("transfer" in named or place.kind.transfers or place.is_target),
            ask=may.ask,
        )

    def _in_lanes(self, place: Place) -> Iterator[Place]:
        for lane in self.tree.lanes(place):
            yield from self.tree.node_places(lane)


def _takes_two(fn: Any) -> bool:
    try:
        return takes_two(fn)
    except (TypeError, ValueError):  # a type, such as dict[str, int]
        return False


def _is_each(place: Place) -> bool:
    return place.kind.has_items  # the input is read by the items


def _has(place: Place, *options: str) -> bool:
    return any(bool(getattr(place.agent, option, False)) for option in options)


def _code(fn: Any, *, takes_context: bool, takes_reply: bool = False) -> Code:
    module = getattr(fn, "__module__", None) or type(fn).__module__
    if module in _PLANNING:
        return Code(reads=dict.fromkeys(PLAN_VALUES, "optional"))
    return code_of(fn, takes_context=takes_context, takes_reply=takes_reply)


def _forms(place: Place) -> Iterator[object]:
    """Yield the templates that `plan_execute` adds to instructions that are not templates."""
    yield getattr(getattr(place.agent, "instruction", None), "form", None)


def arguments(schema: object) -> Iterable[str]:
    """Return the names of the values that the arguments of a tool or of a handoff are."""
    if schema is None:
        return ()
    found: Mapping[str, Any] = json_schema(cast(Any, schema)) or {}
    return tuple(found.get("properties", ()))
