"""The language in which trees are written down: plain values, read by the reference and the builder.

What a leaf does in an activation is a script, a pure function of the leaf, its address, and what
it sees; and so is what a person answers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from zlib import crc32

Path = tuple[tuple[str, int | None], ...]
Rendered = tuple[str, str, str | None]
"""A message as its type, its text and its name."""
Kind = Literal["message", "custom", "values", "interrupted", "exit", "break_loop", "error"]
Item = tuple[Kind, Any]
"""Something that a leaf gives: its kind, and a rendered message, data, values or a question."""
Policy = Literal["shared", "path", "own", "last", "input", "entries"]
"""A history policy; "entries" stands for a function that tells each entry as a line."""

ANSWERS = ("yes, @", "", None, 0, False, ["a", 1], {"sure": True})


@dataclass(frozen=True)
class Call:
    """What a leaf gives when it is called once; a call that fails gives an error last."""

    items: tuple[Item, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the call fails."""
        return any(kind == "error" for kind, _ in self.items)


@dataclass(frozen=True)
class Function:
    """A function agent; a script holds the calls of an activation, `@` in it stands for the address."""

    name: str
    kind: Literal["function", "async function", "generator", "async generator"]
    scripts: tuple[tuple[Call, ...], ...]
    history: Policy = "shared"
    output_key: str | None = None
    annotated: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class Chat:
    """A chat agent, whose model tells what it read; the first `fails` calls of an activation fail."""

    name: str
    instruction: str = ""
    fails: int = 0
    history: Policy = "shared"
    output_key: str | None = None


@dataclass(frozen=True)
class Human:
    """A human."""

    name: str
    prompt: str
    output_key: str | None = None
    history: Policy = "shared"


@dataclass(frozen=True)
class Sequential:
    """A sequential."""

    name: str
    sub_agents: tuple["Spec", ...]


@dataclass(frozen=True)
class Parallel:
    """A parallel."""

    name: str
    sub_agents: tuple["Spec", ...]
    max_concurrency: int | None = None


@dataclass(frozen=True)
class Loop:
    """A loop, which may end at an iteration, a number of messages, or a value that is there."""

    name: str
    sub_agents: tuple["Spec", ...]
    max_iterations: int | None
    until: tuple[Literal["iteration", "messages", "value"], Any] | None = None


Leaf = Function | Chat | Human
Spec = Leaf | Sequential | Parallel | Loop


@dataclass(frozen=True)
class Event:
    """What is told; not kept where it was told by a call that fails."""

    address: str
    path: Path
    kind: str
    data: Any
    kept: bool = field(default=True, compare=False)


@dataclass(frozen=True)
class Sight:
    """What a leaf knows when it is called, or the `until` of a loop when it is asked."""

    path: Path
    iteration: int | None
    messages: Sequence[Rendered]
    values: Mapping[str, Any]
    answer: tuple[Any, ...] = ()


def calls(leaf: Leaf, address: str, sight: Sight) -> tuple[Call, ...]:
    """Return the calls of the activation at `address`, from what it sees at first."""
    match leaf:
        case Function():
            script = leaf.scripts[crc32(address.encode()) % len(leaf.scripts)]
            return tuple(Call(_at(address, call.items)) for call in script)
        case Chat():
            said = ("ai", reply(leaf.name, sight.messages), leaf.name)
            return (Call((("error", leaf.name),)),) * leaf.fails + (Call((("message", said),)),)
        case Human():
            asked = filled(leaf.prompt, sight.values)
            given = answer(address, asked)
            text = given if isinstance(given, str) else json.dumps(given)
            said = ("human", text, leaf.name)
            return Call((("interrupted", asked),)), Call((("message", said),))


def answer(address: str, asked: Any) -> Any:
    """Return what the person answers."""
    given = ANSWERS[crc32(f"{address} {asked}".encode()) % len(ANSWERS)]
    return given.replace("@", address) if isinstance(given, str) else given


def reply(name: str, sent: Sequence[Rendered]) -> str:
    """Return what a chat agent's model says to what it was sent."""
    return f"{name} read {len(sent)}: {crc32(repr(list(sent)).encode()):08x}"


def filled(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with its only placeholder filled."""
    return template.replace("{x?}", str(values.get("x", "")))


def stops(until: tuple[str, Any] | None, sight: Sight) -> bool:
    """Return what the `until` of a loop says."""
    kind, limit = until or ("iteration", 1000)
    reached = {"iteration": sight.iteration, "messages": len(sight.messages)}
    return limit in sight.values if kind == "value" else reached[kind] >= limit


def walk(spec: Spec) -> list[Spec]:
    """Return the agents of a tree, each before those inside it."""
    return [spec, *(inner for child in getattr(spec, "sub_agents", ()) for inner in walk(child))]


def _at(address: str, data: Any) -> Any:
    match data:
        case str():
            return data.replace("@", address)
        case tuple() | list():
            return type(data)(_at(address, item) for item in data)
        case dict():
            return {key: _at(address, item) for key, item in data.items()}
    return data
