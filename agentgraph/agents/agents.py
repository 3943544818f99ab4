"""The agents: frozen dataclasses that describe a tree; `builders` make and document them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, Union

from langchain_core.messages import BaseMessage, SystemMessage, ToolCall

from agentgraph.agents.budgets import ChosenBy, Summarized, Trimmed
from agentgraph.agents.entries import Reply
from agentgraph.agents.habits.names import hints_names
from agentgraph.agents.habits.options import hints_options
from agentgraph.agents.limits import Limits
from agentgraph.agents.signals import (
    NO_DEFAULT,
    AnswerTimeout,
    BreakLoop,
    CheckResult,
    Default,
    Exit,
    JsonSchema,
    ResponseSchema,
    Seconds,
    Skip,
    Values,
)
from agentgraph.safe_repr import shown

HistoryPolicy = ChosenBy | Trimmed | Summarized
"""The messages that an agent sees: one of five words, a function from `Entry` objects to messages, or
the result of `trimmed` or `summarized`."""

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.structured_output import ResponseFormat
    from langchain_core.language_models import LanguageModelLike
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool
    from langgraph.pregel import Pregel
    from langgraph.pregel.remote import RemoteGraph
    from langgraph.types import CachePolicy, RetryPolicy, TimeoutPolicy
    from typing_extensions import TypeForm

    from agentgraph.agents.context import Context

InputFunction: TypeAlias = Callable[["Context"], Any]
"""Makes the input of a graph or a runnable; it may be async."""

OutputFunction: TypeAlias = Callable[[Any], Any]
"""Converts the result of a graph or a runnable to the agent's output; it may be async."""

Source: TypeAlias = str | Callable[["Context"], Any]
"""The name of a value, or a function of a context, sync or async."""

Check: TypeAlias = Callable[
    ["Context", Sequence[BaseMessage], int], CheckResult | Awaitable[CheckResult]
]
"""The check of an agent that has ended: a function of a `Context`, its messages, and the attempt."""

KeyFunction: TypeAlias = Callable[[Any], str | int | Awaitable[str | int]]
"""The key of an item, by the item; it may be async."""

AgentFunction: TypeAlias = Callable[["Context"], Any]
"""The function of a function agent: sync or async, plain or a generator."""

Messages: TypeAlias = Sequence[BaseMessage] | Awaitable[Sequence[BaseMessage]]
ModelInput: TypeAlias = (
    Callable[[list[BaseMessage]], Messages] | Callable[["Context", list[BaseMessage]], Messages]
)
"""A function, sync or async, that may change the messages just before a model call."""

Retry: TypeAlias = "RetryPolicy | Sequence[RetryPolicy] | None"
"""LangGraph's policy, or several, of which the first that matches applies; None allows no retry."""

Timeout: TypeAlias = "float | timedelta | TimeoutPolicy | None"
"""Seconds, a timedelta, or LangGraph's policy; None for no limit."""

Caching: TypeAlias = "CachePolicy[Any] | None"
"""LangGraph's policy; None runs the agent each time."""

Middleware: TypeAlias = "AgentMiddleware[Any, Any, Any]"
"""A LangChain middleware."""

Graph: TypeAlias = "Pregel[Any, Any, Any, Any] | RemoteGraph"
"""A compiled LangGraph graph, local or on a server."""

NamedModel = Union["LanguageModelLike", str]
Model = NamedModel | Callable[["Context"], NamedModel | Awaitable[NamedModel]]
"""A LangChain chat model, a name such as "openai:gpt-5", or a function from a `Context` to it, sync or
async."""

Text: TypeAlias = str | SystemMessage
Instruction = Text | Callable[["Context"], Text | Awaitable[Text]]
"""A template, a message that is sent unchanged, or a function from a `Context` to either, sync or
async."""

InputText: TypeAlias = str | Callable[["Context"], str | Awaitable[str]]
"""The request to an agent: a template, or a function of a context, sync or async."""

Condition: TypeAlias = Callable[["Context"], bool | Awaitable[bool]]
"""A condition: a function of a context, sync or async."""

OutputSchema: TypeAlias = "TypeForm[Any] | JsonSchema | ResponseFormat[Any] | None"
"""A type that pydantic knows, a JSON schema, or LangChain's `ToolStrategy` or `ProviderStrategy`.

mypy reads `int | None` as a type only where `TypeForm` is not inside another alias of a union."""


class Renderer(Protocol):
    """Renders an agent for people; it is the only link from the agents to the modules above them."""

    def text(self, agent: "Agent") -> str:
        """Return the outline of a tree."""

    def mime_bundle(self, agent: "Agent") -> dict[str, str]:
        """Return the representations for Jupyter, by MIME type."""


@hints_names("agent")
class Shown:
    """Displays an agent: as its tree when printed, as its compiled graph in Jupyter.

    Attributes:
        renderer: Renders the agent; the import of `agentgraph.show` registers it.
    """

    __slots__ = ()
    renderer: ClassVar[Renderer]

    def __str__(self) -> str:
        return self.renderer.text(self)  # type: ignore[arg-type]

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return self.renderer.mime_bundle(self)  # type: ignore[arg-type]

    def _shown_in_errors(self) -> str:
        kind = type(self).__name__.removesuffix("Agent").lower()
        return f"{kind} agent {shown(getattr(self, 'name', None))}"


class Single(Shown):
    """An agent without sub-agents.

    Attributes:
        sub_agents: None.
    """

    __slots__ = ()
    sub_agents: ClassVar[tuple["Agent", ...]] = ()


ArgsSchema = type[Any] | Values | None
"""The arguments of a tool: a pydantic model, a dataclass, a typed dict, or a JSON schema."""

Enabled = bool | str | Condition | None
"""Whether the model may call a tool: the name of a value, or a function of a context; None is yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An agent as a tool of a chat agent; each call is isolated.

    Its fields are the options of `agent_tool`.
    """

    agent: "Agent"
    description: str = ""
    history: Literal["input", "shared"] = "input"
    args_schema: ArgsSchema = None
    output: Callable[[Reply], Any] | None = None
    enabled: Enabled = None

    def _shown_in_errors(self) -> str:
        return f"agent_tool({shown(self.agent)})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Handoff:
    """The definition of a transfer to an agent.

    Its fields are the options of `handoff`.
    """

    agent: "Agent"
    name: str | None = None
    description: str | None = None
    context: Literal["shared", "last"] | None = None
    args_schema: ArgsSchema = None

    def __repr__(self) -> str:
        return f"handoff({shown(getattr(self.agent, 'name', self.agent))})"

    @property
    def tool_name(self) -> str:
        """The name of the tool for the transfer."""
        return self.name if isinstance(self.name, str) else f"transfer_to_{self.agent.name}"

    @property
    def target(self) -> "Agent":
        """The agent, with the history that it sees after the transfer."""
        return _with_last(self.agent) if self.context == "last" else self.agent

    @property
    def about(self) -> str:
        """The text about the agent for the model."""
        return self.description if isinstance(self.description, str) else self.agent.description


ApproveFunction: TypeAlias = Callable[[ToolCall], bool | Awaitable[bool]]
Approval = Iterable[str] | ApproveFunction | Values
"""The tool calls that a person must approve: tool names, a function of a call, LangChain's rules."""

OnUnknownTool = Literal["return", "raise"] | Callable[[str, dict[str, Any]], Any]
"""The treatment of a call to an unknown tool: a word, or a function of the name and arguments."""

OnToolError = str | type[Exception] | tuple[type[Exception], ...] | Callable[[Any], Any]
"""The treatment of an exception in a tool: "return", "raise", the exception types to return, a text to
return, or a function from the exception to the text to return."""

ToolTimeout = Seconds | Mapping[str, Seconds] | None
"""The maximum time of a call of an async tool: for all tools, or by tool name."""

Tool = Union["BaseTool", "Runnable[Any, Any]", Callable[..., Any], Values, AgentTool]
"""A LangChain tool, or the result of its `with_retry()`, `with_fallbacks()` or `with_config()`; a
function, an agent as a tool, or a tool that the model's provider runs."""


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgent(Shown):
    """A leaf that calls a chat model, runs the tools that the model calls, and emits its replies.

    Its fields are the options of `chat_agent`.
    """

    name: str
    model: Model
    description: str = ""
    limits: Limits | None = None
    instruction: Instruction = ""
    tools: tuple[Tool, ...] = ()
    sub_agents: tuple["Agent", ...] = ()
    sub_agents_return: bool = False
    peers: bool = False
    sticky: bool = False
    by_handoff: tuple[Handoff, ...] = ()
    """The sub-agents that were passed as a `handoff`."""
    output_key: str | None = None
    output_schema: OutputSchema = None
    history: HistoryPolicy = "shared"
    max_iterations: int | None = 20
    on_max_iterations: Literal["raise", "answer"] = "raise"
    return_directly: tuple[str, ...] = ()
    exit_tool: bool = False
    break_tool: bool = False
    approve: tuple[str, ...] | ApproveFunction | Values = ()
    interrupt_mode: Literal["batched", "per_call"] = "batched"
    approve_timeout: AnswerTimeout = None
    parallel_tools: bool = True
    on_tool_error: OnToolError = "return"
    tool_timeout: ToolTimeout = None
    unknown_tool: OnUnknownTool = "return"
    retry: Retry = None
    timeout: Timeout = None
    model_input: ModelInput | None = None
    middleware: "tuple[Middleware, ...]" = ()
    output_mode: Literal["full", "last"] = "full"
    """The messages of a sub-agent that others see, an option of `supervisor`."""
    faults: tuple[str, ...] = ()
    """Faults in the arguments of a derived agent's builder, reported when it is compiled."""


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAgent(Single):
    """A leaf that calls a function.

    Its fields are the options of `function_agent`.
    """

    name: str
    fn: AgentFunction
    agents: tuple["Agent", ...] = ()
    description: str = ""
    limits: Limits | None = None
    output_key: str | None = None
    history: HistoryPolicy = "shared"
    retry: Retry = None
    timeout: Timeout = None
    cache_policy: Caching = None


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAgent(Single):
    """A leaf that runs a LangGraph graph.

    Its fields are the options of `graph_agent`.
    """

    name: str
    graph: Graph
    description: str = ""
    limits: Limits | None = None
    output_key: str | None = None
    history: HistoryPolicy = "shared"
    input: InputFunction | None = None
    output: OutputFunction | None = None
    flat: bool = False
    retry: Retry = None
    timeout: Timeout = None
    cache_policy: Caching = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerNode:
    """A node of a flattened graph. Users do not build it."""

    name: str
    """The node's name in addresses, with `%` escapes as in URLs."""
    node: str
    """The name of the node in its graph."""
    graph: object = None
    """The compiled graph that the node runs, if it runs one."""


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAgent(Single):
    """A leaf that asks a person and emits the answer.

    Its fields are the options of `human`.
    """

    name: str
    prompt: Any
    response_schema: ResponseSchema = None
    timeout: AnswerTimeout = None
    default: Default = NO_DEFAULT
    output_key: str | None = None
    description: str = ""
    limits: Limits | None = None


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialAgent(Shown):
    """A composite that runs its sub-agents one after the other.

    Its fields are the options of `sequential`.
    """

    name: str
    sub_agents: tuple["Agent", ...]
    description: str = ""
    limits: Limits | None = None


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelAgent(Shown):
    """A composite that runs its sub-agents at the same time, each in its own branch.

    Its fields are the options of `parallel`.
    """

    name: str
    sub_agents: tuple["Agent", ...]
    description: str = ""
    limits: Limits | None = None
    on_error: Literal["fail", "wait", "collect", "first"] = "fail"
    max_concurrency: int | None = None
    accept: Callable[[Reply], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a workflow.

    Its fields are the options of `step`.
    """

    agent: "Agent"
    depends_on: tuple[str, ...] = ()
    when: Source | None = None
    input: InputText | None = None
    retry: Retry = None
    timeout: Timeout = None
    compensate: "Agent | None" = None

    @property
    def name(self) -> str:
        """The name of the step's agent."""
        return self.agent.name

    def _shown_in_errors(self) -> str:
        return f"step({shown(self.agent)})"


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowAgent(Shown):
    """A composite that runs steps, each as soon as its dependencies are done.

    Its fields are the options of `workflow`.
    """

    name: str
    steps: tuple[Step, ...]
    description: str = ""
    limits: Limits | None = None
    on_error: Literal["fail", "wait"] = "fail"

    @property
    def sub_agents(self) -> tuple["Agent", ...]:
        """The agents of the steps, then the agents that undo steps."""
        undo = (step.compensate for step in self.steps if step.compensate is not None)
        return (*(step.agent for step in self.steps), *undo)


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class EachAgent(Single):
    """A composite that runs one agent for each of several items.

    Its fields are the options of `each`; the last two are for `plan_execute`.
    """

    name: str
    agent: "Agent"
    over: Source
    description: str = ""
    limits: Limits | None = None
    as_: str = "item"
    key: KeyFunction | None = None
    input: InputText | None = None
    max_concurrency: int | None = None
    on_error: Literal["fail", "wait", "collect", "first"] = "fail"
    output_key: str | None = None
    errors_key: str | None = None
    output_mode: Literal["full", "last", "none"] | None = None
    depends_on: Callable[["Context"], Sequence[str]] | None = None
    """Returns the keys of the items that an item, `ctx.item`, needs."""
    stored_by: str | None = None
    """The enclosing agent that stores the text of each result, as `results` by the key of the item."""

    @property
    def collects(self) -> bool:
        """Whether the results of the items are collected, so that their values stay local."""
        return self.output_key is not None or self.stored_by is not None

    @property
    def mode(self) -> Literal["full", "last", "none"]:
        """The messages of the items that join the history."""
        return self.output_mode or ("none" if self.output_key else "full")


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class LoopAgent(Shown):
    """A composite that runs its sub-agents one after the other, repeatedly.

    Its fields are the options of `loop`.
    """

    name: str
    sub_agents: tuple["Agent", ...]
    max_iterations: int | None
    description: str = ""
    limits: Limits | None = None
    until: Condition | None = None
    is_part: bool = False
    """Whether it is part of a derived agent: several such parts may have the same name."""


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchAgent(Shown):
    """A composite that runs one of its sub-agents, chosen by a value or a function.

    Its fields are the options of `switch`, the cases as pairs.
    """

    name: str
    choose: Source
    cases: tuple[tuple[Any, "Case"], ...]
    otherwise: "Case | None" = None
    description: str = ""
    limits: Limits | None = None
    faults: tuple[str, ...] = ()
    """Faults in the arguments of its builder, reported when it is compiled."""

    @property
    def targets(self) -> tuple["Case", ...]:
        """The targets of the cases and of `otherwise`."""
        rest = () if self.otherwise is None else (self.otherwise,)
        return (*(target for _, target in self.cases), *rest)

    @property
    def sub_agents(self) -> tuple["Agent", ...]:
        """The agents of the cases; an agent of several cases appears once."""
        agents: list[Agent] = []
        for target in self.targets:
            is_agent = not isinstance(target, Skip | BreakLoop | Exit)
            if is_agent and not any(is_same(target, each) for each in agents):
                agents.append(target)  # type: ignore[arg-type]
        return tuple(agents)


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmAgent(Shown):
    """A composite whose sub-agents transfer to each other.

    Its fields are the options of `swarm`.
    """

    name: str
    sub_agents: tuple["Agent", ...]
    """Its agents."""
    start: str | None = None
    sticky: bool = True
    handoffs: Mapping[str, tuple[str, ...]] | None = None
    by_handoff: tuple[Handoff, ...] = ()
    """The agents that were passed as a `handoff`."""
    description: str = ""
    limits: Limits | None = None
    faults: tuple[str, ...] = ()
    """Faults in the arguments of its builder, reported when it is compiled."""

    @property
    def first(self) -> int:
        """The number of the sub-agent at which it starts."""
        return 0 if self.start is None else [each.name for each in self.sub_agents].index(self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAgent(Shown):
    """An agent with a check that runs when it ends; the wrapper adds no step to run paths."""

    agent: "Agent"
    """The agent that runs."""
    check: Check
    """Called with a `Context`, the agent's messages, and the number of the attempt, from 0."""
    repeats: bool = False
    """Whether a check may make the agent run again."""
    keeps: bool = False
    """Whether the check stores data for the agent that is not a value of the run."""
    limits: Limits | None = None
    """The limits of the agent and all agents below it, an option of `validated`."""
    faults: tuple[str, ...] = ()
    """Faults in the arguments of the check's builder, reported when it is compiled."""

    @property
    def name(self) -> str:
        """The name of the agent that runs."""
        return self.agent.name

    @property
    def description(self) -> str:
        """The description of the agent that runs."""
        return self.agent.description

    def _shown_in_errors(self) -> str:
        return shown(self.agent)


Leaf = ChatAgent | FunctionAgent | GraphAgent | HumanAgent
Composite = (
    SequentialAgent | LoopAgent | ParallelAgent | WorkflowAgent | EachAgent | SwitchAgent | SwarmAgent
)
Agent = Leaf | Composite | CheckedAgent
"""An agent of a tree: a frozen value that describes a run and has no behaviour."""

Case = Agent | Skip | BreakLoop | Exit
"""The target of a `switch` case: an agent, `SKIP`, or the end of the loop or the run."""


def has_case(agent: SwitchAgent, kind: type[Skip | BreakLoop | Exit]) -> bool:
    """Return whether a case of a switch is of a kind."""
    return any(isinstance(target, kind) for target in agent.targets)


def is_same(one: object, other: object) -> bool:
    """Return whether two agents are identical or equal, because a copy counts as its original."""
    if isinstance(one, Agent) and isinstance(other, Agent):
        return one is other or (one.name == other.name and one == other)
    return one is other


def sub_agents(agent: "Agent") -> tuple["Agent", ...]:
    """Return the sub-agents of an agent."""
    inner = unchecked(agent)
    return getattr(inner, "sub_agents", ()) if isinstance(inner, Leaf | Composite) else ()


def _with_last(agent: "Agent") -> "Agent":
    if isinstance(agent, CheckedAgent):
        return replace(agent, agent=_with_last(agent.agent))
    leaf: Any = agent
    return replace(leaf, history="last") if hasattr(agent, "history") else agent


def handoff_to(parent: object, agent: "Agent") -> Handoff:
    """Return the handoff to a sub-agent of an agent."""
    given: tuple[Handoff, ...] = getattr(parent, "by_handoff", ())
    named = (each for each in given if getattr(each.agent, "name", None) == agent.name)
    return next(named, Handoff(agent=agent))


def is_agent(thing: object) -> bool:
    """Return whether an object is an agent."""
    return isinstance(thing, Leaf | Composite) or (
        isinstance(thing, CheckedAgent) and is_agent(thing.agent)
    )


def unchecked(agent: "Agent") -> "Leaf | Composite":
    """Return an agent without the checks that wrap it."""
    while isinstance(agent, CheckedAgent):
        agent = agent.agent
    return agent


def checks_of(agent: "Agent") -> tuple[CheckedAgent, ...]:
    """Return the checks that wrap an agent, the innermost first."""
    checks: tuple[CheckedAgent, ...] = ()
    while isinstance(agent, CheckedAgent):
        checks, agent = (agent, *checks), agent.agent
    return checks


def agent_tools(agent: ChatAgent) -> tuple[AgentTool, ...]:
    """Return the tools of a chat agent that are agents."""
    return tuple(tool for tool in agent.tools if isinstance(tool, AgentTool))
