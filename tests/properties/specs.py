"""The language in which trees are written down: plain values, read by the reference and the builder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Path = tuple[tuple[str, int | None], ...]
Rendered = tuple[Any, ...]
"""A message as its type, its text and its name; then its calls, or whose result it is, and how."""
Asked = tuple[str, str, str]
"""A tool call in a message: the tool, the arguments as JSON, and the id."""
Does = tuple[str, tuple["Item", ...]]
"""A tool call in a script: the tool, and what it does."""
Kind = Literal["message", "custom", "values", "interrupted", "exit", "break_loop", "error"]
Item = tuple[Kind, Any]
"""Something that a leaf gives: its kind, and a rendered message, data, values or a question."""
Policy = Literal["shared", "path", "own", "last", "input", "entries"]
"""A history policy; "entries" is a function that shows each entry as a line."""
Place = Literal[
    "before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call"
]
"""A method of a middleware."""
RESPONSE = "leave it"
"""What a person answers in the place of a tool."""
NODES = ("first", "ask", "then")
"""The nodes of each graph."""
UNDECLARED = ("u", "w")
"""The values that are not declared: those who write one side by side conflict."""
ACTIVE = "_active"
"""The end of the names of values that say who is active in a swarm, or a sticky chat agent."""
SETTLED = "settled"
"""The value that settles each conflict."""


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
    """A function agent; a script holds the calls of an activation, `@` in it is the address.

    A graph says messages, and may ask and say more, again and again; it sees what it sees when it
    begins. Laid flat it has an address for each visit of a node.
    """

    name: str
    kind: Literal["function", "async function", "generator", "async generator", "graph", "flat graph"]
    scripts: tuple[tuple[Call, ...], ...]
    history: Policy = "shared"
    output_key: str | None = None
    annotated: bool = False
    seconds: float = 0.0

    @property
    def is_graph(self) -> bool:
        """Whether it is a graph, which is called once."""
        return "graph" in self.kind

    @property
    def is_flat(self) -> bool:
        """Whether it is a graph that is laid flat."""
        return self.kind == "flat graph"


@dataclass(frozen=True)
class Middleware:
    """A middleware that has one method, and does one thing the `nth` time that it is called.

    A hook counts its calls in its state, if it `counts`; a wrap is due by what it is called with.
    "add" says a message, "remind" shows one to its agent alone; "answer" gives one in the place of the
    model or the tool.
    """

    name: str
    place: Place
    does: Literal["nothing", "add", "remind", "rewrite", "answer", "end", "ask", "fail"] = "nothing"
    nth: int = 0
    counts: bool = True
    fails: int = 1
    is_async: bool = False


@dataclass(frozen=True)
class Chat:
    """A chat agent, whose model says what it read; each call of it fails `fails` times at first.

    A script holds the tool calls of each message. The tool "say" gives a text, "act" actions. "timed"
    is in the name of one whose questions for approval have a deadline.
    """

    name: str
    instruction: str = ""
    fails: int = 0
    history: Policy = "shared"
    output_key: str | None = None
    scripts: tuple[tuple[tuple[Does, ...], ...], ...] = ((),)
    tools: tuple[str, ...] = ()
    agents: tuple[tuple["Spec", Literal["input", "shared"]], ...] = ()
    sub_agents: tuple["Spec", ...] = ()
    sub_agents_return: bool = False
    peers: bool = False
    sticky: bool = False
    approve: tuple[str, ...] = ()
    return_directly: tuple[str, ...] = ()
    exit_tool: bool = False
    break_tool: bool = False
    on_tool_error: Literal["return", "raise"] = "return"
    parallel_tools: bool = True
    max_iterations: int = 3
    middleware: tuple[Middleware, ...] = ()

    @property
    def active_key(self) -> str:
        """The value that says who is active; it stays in its lane."""
        return f"{self.name}{ACTIVE}"

    def stack(self, place: Place) -> list[Middleware]:
        """Return its middleware at a place, in the order in which it is called."""
        stack = [each for each in self.middleware if each.place == place]
        return stack[::-1] if place.startswith("after") else stack


@dataclass(frozen=True)
class Flow:
    """A function that runs agents, and says what they said last.

    It makes one call after the other, or gathers all of them. Some calls have a key, their number.
    """

    name: str
    agents: tuple[tuple["Spec", Literal["input"]], ...]
    calls: tuple[tuple[int, bool], ...]
    kind: Literal["function", "async function", "gathered"] = "function"
    history: Policy = "shared"
    output_key: str | None = None


@dataclass(frozen=True)
class Human:
    """A human; "timed" is in the name of one whose question has a deadline."""

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
    """A parallel; "collect" is in the name of one that collects, and in all addresses in it."""

    name: str
    sub_agents: tuple["Spec", ...]
    max_concurrency: int | None = None
    on_error: Literal["fail", "wait", "collect"] = "fail"


@dataclass(frozen=True)
class Step:
    """A step of a workflow; `$` in its input is the last text of the first it depends on.

    It may run only if the value `y` is true, or where the number of messages before it is odd.
    """

    agent: "Spec"
    depends_on: tuple[str, ...] = ()
    input: str | None = None
    when: Literal["value", "messages"] | None = None


@dataclass(frozen=True)
class Workflow:
    """A workflow."""

    name: str
    steps: tuple[Step, ...]
    on_error: Literal["fail", "wait"] = "fail"

    @property
    def sub_agents(self) -> tuple["Spec", ...]:
        """The agents of the steps."""
        return tuple(step.agent for step in self.steps)


@dataclass(frozen=True)
class Loop:
    """A loop, which may end at an iteration, a number of messages, or a value that is there."""

    name: str
    sub_agents: tuple["Spec", ...]
    max_iterations: int | None
    until: tuple[Literal["iteration", "messages", "value"], Any] | None = None


@dataclass(frozen=True)
class Switch:
    """A switch, which chooses by an iteration, a number of messages, or if the value `y` is empty.

    A way is the number of a sub-agent, or what else a case may be. Its function fails `fails` times at
    first.
    """

    name: str
    sub_agents: tuple["Spec", ...]
    ways: tuple[int | Literal["skip", "break_loop", "exit"], ...]
    by: Literal["iteration", "messages", "value"]
    fails: int = 0


@dataclass(frozen=True)
class Swarm:
    """A swarm, which begins at the agent of a number, or if it is sticky where it ended last."""

    name: str
    sub_agents: tuple["Spec", ...]
    start: int = 0
    sticky: bool = True

    @property
    def active_key(self) -> str:
        """The value that says who is active; it stays in its lane."""
        return f"{self.name}{ACTIVE}"


@dataclass(frozen=True)
class Each:
    """An each, whose items are in a value, or made of an iteration or a number of messages.

    The items of a list have keys if they are of the shape "keys". Its function fails `fails` times at
    first. "collect" is in the name of one that collects; with "first" the first item wins.
    """

    name: str
    agent: "Spec"
    over: tuple[Literal["iteration", "messages", "value"], Any]
    shape: Literal["list", "keys", "mapping"] = "list"
    as_: str = "item"
    input: Literal["template", "function"] | None = None
    max_concurrency: int | None = None
    on_error: Literal["fail", "wait", "collect", "first"] = "fail"
    output_key: str | None = None
    errors_key: str | None = None
    output_mode: Literal["full", "last", "none"] | None = None
    fails: int = 0

    @property
    def sub_agents(self) -> tuple["Spec", ...]:
        """The agent that runs for each item."""
        return (self.agent,)

    @property
    def mode(self) -> str:
        """How much of what the items say others see."""
        return self.output_mode or ("none" if self.output_key else "full")


@dataclass(frozen=True)
class Checked:
    """An agent that is sent back by a check, some times in a row."""

    agent: "Spec"
    refusals: int

    @property
    def name(self) -> str:
        """The name of the agent."""
        return self.agent.name

    @property
    def sub_agents(self) -> tuple["Spec", ...]:
        """The agent."""
        return (self.agent,)


Leaf = Function | Chat | Human
Spec = Leaf | Flow | Sequential | Parallel | Workflow | Loop | Switch | Swarm | Each | Checked


class Strand(NamedTuple):
    """A branch or a tool call of a fork, by its number, and the numbers of those that it is after."""

    fork: str
    number: int
    after: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Event:
    """What is emitted; not kept where a call emitted it that fails.

    The strand names the branch or the tool call of each fork that it was emitted in.
    """

    address: str
    path: Path
    kind: str
    data: Any
    kept: bool = field(default=True, compare=False)
    strand: tuple[Strand, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Sight:
    """What a leaf knows when it is called, or the `until` of a loop when it is asked.

    An item is its number, its key and its value.
    """

    path: Path
    iteration: int | None
    messages: Sequence[Rendered]
    values: Mapping[str, Any]
    answer: tuple[Any, ...] = ()
    item: tuple[Any, ...] = ()


def walk(spec: Spec) -> list[Spec]:
    """Return the agents of a tree, each before those inside it."""
    return [spec, *(inner for child in inside(spec) for inner in walk(child))]


def inside(spec: Spec) -> tuple[Spec, ...]:
    """Return the agents directly inside one: its sub-agents, and its agents as tools."""
    tools = tuple(agent for agent, _ in getattr(spec, "agents", ()))
    return (*getattr(spec, "sub_agents", ()), *tools)
