"""The agents: frozen values that say what runs; `builders` makes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langchain_core.language_models import LanguageModelLike
from langchain_core.messages import BaseMessage, SystemMessage, ToolCall
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from agentgraph.agents.budgets import ChosenBy, Summarized, Trimmed
from agentgraph.agents.context import Context
from agentgraph.agents.signals import CheckResult

HistoryPolicy = ChosenBy | Trimmed | Summarized
"""Which messages an agent sees: one of five words, a function from `Entry`s to messages, or what
`trimmed` or `summarized` gave."""

if TYPE_CHECKING:
    from langchain.agents.structured_output import ResponseFormat
    from langgraph.pregel import Pregel
    from langgraph.pregel.remote import RemoteGraph
    from langgraph.types import RetryPolicy, TimeoutPolicy

AgentFunction: TypeAlias = Callable[[Context], Any]
"""What a function agent calls: sync or async, plain or a generator."""

ModelInput: TypeAlias = (
    Callable[[list[BaseMessage]], list[BaseMessage]]
    | Callable[[Context, list[BaseMessage]], list[BaseMessage]]
)
"""What has the last word on what a model is sent."""

Retry: TypeAlias = "RetryPolicy | Sequence[RetryPolicy] | None"
"""LangGraph's policy, or several, the first that fits counts; None tries once."""

Timeout: TypeAlias = "float | timedelta | TimeoutPolicy | None"
"""Seconds, a timedelta, or LangGraph's policy; None for no limit."""

Graph: TypeAlias = "Pregel[Any, Any, Any, Any] | RemoteGraph"
"""A compiled LangGraph graph, here or on a server."""

Model = LanguageModelLike | str | Callable[[Context], LanguageModelLike | str]
"""A LangChain chat model, a name such as "openai:gpt-5", or a function of a `Context` that gives it."""

Instruction = str | SystemMessage | Callable[[Context], str | SystemMessage]
"""A template, a message that is sent as it is, or a function of a `Context` that gives one."""

OutputSchema: TypeAlias = "type | UnionType | dict[str, Any] | ResponseFormat[Any]"
"""A type that pydantic knows, a JSON schema, or LangChain's `ToolStrategy` or `ProviderStrategy`."""


class Shown:
    """How an agent shows itself: printed as its tree, in Jupyter as the graph that it becomes."""

    __slots__ = ()

    def __str__(self) -> str:
        from agentgraph.show.lines import tree_lines

        return "\n".join(tree_lines(self))  # type: ignore[arg-type]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from agentgraph.show.drawing import mime_bundle

        return mime_bundle(self)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An agent as a tool of a chat agent: it runs in a lane of its own."""

    agent: "Agent"
    """The agent; the tool has its name."""
    description: str = ""
    """What the tool is for, as the model reads it."""
    history: Literal["input", "shared"] = "input"
    """Whether the agent sees the request only, or what the caller sees and then the request."""


OnToolError = str | type[Exception] | tuple[type[Exception], ...] | Callable[[Any], Any]
"""What becomes of an exception in a tool: "return", "raise", the types that are returned, a sentence
that is returned, or a function of the exception that gives what is returned."""

Seconds = float | timedelta
"""A time: seconds, or a timedelta."""

Tool = BaseTool | Runnable[Any, Any] | Callable[..., Any] | Mapping[str, Any] | AgentTool
"""A LangChain tool, or what its `with_retry()`, `with_fallbacks()` or `with_config()` gave; a function,
an agent as a tool, or a tool that the model's provider runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgent(Shown):
    """A leaf that asks a chat model, runs the tools that it calls, and says its replies."""

    name: str
    """The agent's name, and that of its node."""
    model: Model
    """The LangChain chat model, or a runnable around one; its name; or a function that chooses it."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    instruction: Instruction = ""
    """The system message: its template, the message itself, or a function that gives either."""
    tools: tuple[Tool, ...] = ()
    """What the model may call."""
    sub_agents: tuple["Agent", ...] = ()
    """The agents that it may transfer to."""
    sub_agents_return: bool = False
    """Whether a sub-agent that ends hands back by itself, instead of ending this agent too."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    output_schema: "OutputSchema | None" = None
    """What its answer must fit: a type, a JSON schema, or a strategy of LangChain's with either."""
    history: HistoryPolicy = "shared"
    """Which messages it sees."""
    max_iterations: int | None = 20
    """How often it may ask the model in one activation; None for no bound."""
    on_max_iterations: Literal["raise", "answer"] = "raise"
    """Whether it fails when it may not ask again, or asks once more without tools."""
    return_directly: tuple[str, ...] = ()
    """The tools whose result ends the agent."""
    exit_tool: bool = False
    """Whether the model has the tool `exit`."""
    break_tool: bool = False
    """Whether the model has the tool `break_loop`."""
    approve: tuple[str, ...] | Callable[[ToolCall], bool] | Mapping[str, Any] = ()
    """The tools, or the calls, that a person must agree to; or LangChain's `interrupt_on`."""
    interrupt_mode: Literal["batched", "per_call"] = "batched"
    """Whether one question is asked for all calls of a message that need one, or one for each."""
    parallel_tools: bool = True
    """Whether the calls of one message run at the same time, or one after the other."""
    on_tool_error: OnToolError = "return"
    """Whether the model is told of an exception in a tool, and what, or the agent fails with it."""
    tool_timeout: Seconds | Mapping[str, Seconds] | None = None
    """How long a call of an async tool may take: of each, or of those named."""
    unknown_tool: Literal["return", "raise"] | Callable[[str, dict[str, Any]], Any] = "return"
    """What comes of a call to a tool that there is not; a function is given its name and arguments."""
    retry: Retry = None
    """LangGraph's `RetryPolicy`, or several, for its calls of the model."""
    timeout: Timeout = None
    """LangGraph's timeout for a call of the model: seconds, a timedelta, or a `TimeoutPolicy`."""
    model_input: ModelInput | None = None
    """Has the last word on the messages that the model is sent."""
    middleware: tuple[Any, ...] = ()
    """LangChain's middleware around its calls of the model and its tools, the outermost first."""
    faults: tuple[str, ...] = ()
    """What is wrong with what a derived agent was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAgent(Shown):
    """A leaf that calls a function."""

    name: str
    """The agent's name, and that of its node."""
    fn: AgentFunction
    """Called with a `Context`; sync or async, plain or generator."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    history: HistoryPolicy = "shared"
    """Which messages it sees."""
    retry: Retry = None
    """LangGraph's `RetryPolicy`, or several, for its calls."""
    timeout: Timeout = None
    """LangGraph's timeout for a call: seconds, a timedelta, or a `TimeoutPolicy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAgent(Shown):
    """A leaf that runs a LangGraph graph."""

    name: str
    """The agent's name, and that of its node."""
    graph: Graph
    """The compiled graph; its state has `messages`."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    history: HistoryPolicy = "shared"
    """Which messages it is given."""
    input: Callable[[Context], dict[str, Any]] | None = None
    """Called with a `Context` for the input of the graph."""
    retry: Retry = None
    """LangGraph's `RetryPolicy`, or several, for a run that fails."""
    timeout: Timeout = None
    """LangGraph's timeout for a run: seconds, a timedelta, or a `TimeoutPolicy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAgent(Shown):
    """A leaf that asks a person and says the answer."""

    name: str
    """The agent's name, and that of its node."""
    prompt: Any
    """What is asked: a template, or plain data that is asked as it is."""
    response_schema: type | dict[str, Any] | None = None
    """What an answer must fit: a type that pydantic knows, or a JSON schema."""
    output_key: str | None = None
    """The value that the answer becomes."""
    description: str = ""
    """What the person is asked for, in a sentence that other agents read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialAgent(Shown):
    """A composite that runs its sub-agents one after the other."""

    name: str
    """The agent's name."""
    sub_agents: tuple["Agent", ...]
    """Its sub-agents, in the order in which they run."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelAgent(Shown):
    """A composite that runs its sub-agents at the same time, each in a lane of its own."""

    name: str
    """The agent's name, and that of the node that runs the lanes."""
    sub_agents: tuple["Agent", ...]
    """Its branches, in the order in which their results are joined."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    on_error: Literal["fail", "wait", "collect", "first"] = "fail"
    """What becomes of the others when a branch fails; "first" ends with the first success."""
    max_concurrency: int | None = None
    """How many branches run at once; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a workflow."""

    agent: "Agent"
    """What runs; the step has its name."""
    depends_on: tuple[str, ...] = ()
    """The names of the steps that must be done before."""
    input: str | None = None
    """The template of what the agent is asked; without one it sees what was said before it."""
    retry: Retry = None
    """LangGraph's `RetryPolicy`, or several, for the leaves of the step."""
    timeout: Timeout = None
    """LangGraph's timeout for each try of its leaves: seconds, a timedelta, or a `TimeoutPolicy`."""
    compensate: "Agent | None" = None
    """What undoes the step when another one fails."""

    @property
    def name(self) -> str:
        """The name of the step: that of its agent."""
        return self.agent.name


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowAgent(Shown):
    """A composite that runs steps, each in a lane of its own as soon as those before it are done."""

    name: str
    """The agent's name, and that of the node that runs the lanes."""
    steps: tuple[Step, ...]
    """The steps, in any order."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    on_error: Literal["fail", "wait"] = "fail"
    """Whether running steps are stopped or awaited when another one fails."""

    @property
    def sub_agents(self) -> tuple["Agent", ...]:
        """The agents of the steps, then those that undo steps."""
        undo = (step.compensate for step in self.steps if step.compensate is not None)
        return (*(step.agent for step in self.steps), *undo)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of the work of an `ForEachAgent`."""

    name: str
    """Its name, by which others depend on it."""
    request: str
    """What the agent is asked to do."""
    depends_on: tuple[str, ...] = ()
    """The names of the items that must be done before."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values that the agent finds besides those of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForEachAgent(Shown):
    """A composite that runs one agent for each of several items, each in a lane of its own."""

    name: str
    """The agent's name, and that of the node that runs the lanes."""
    agent: "Agent"
    """What runs for each item."""
    items: Callable[[Mapping[str, Any]], Sequence[Item]]
    """Called with the values of the run for the items, when they are about to run."""
    output_key: str
    """The value that the texts of the last messages become, by the names of the items."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopAgent(Shown):
    """A composite that runs its sub-agents in turn, again and again."""

    name: str
    """The agent's name."""
    sub_agents: tuple["Agent", ...]
    """The body of the loop."""
    max_iterations: int | None
    """After how many iterations it ends; None for no bound."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    until: Callable[[Context], bool] | None = None
    """Asked with a `Context` after each iteration: whether the loop ends."""
    is_part: bool = False
    """Whether it is part of a derived agent: its name may stand for others, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAgent(Shown):
    """An agent that is looked at when it ends; it leaves no node and no step of a run path behind."""

    agent: "Agent"
    """What runs."""
    check: Callable[[Context, Sequence[BaseMessage], int], CheckResult]
    """Called with a `Context`, what the agent said, and the number of the attempt, from 0."""
    repeats: bool = False
    """Whether a check may make the agent run again."""
    faults: tuple[str, ...] = ()
    """What is wrong with what the check was made from."""

    @property
    def name(self) -> str:
        """The name of the agent that runs."""
        return self.agent.name

    @property
    def description(self) -> str:
        """What the agent that runs is for."""
        return self.agent.description


Leaf = ChatAgent | FunctionAgent | GraphAgent | HumanAgent
Composite = SequentialAgent | LoopAgent | ParallelAgent | WorkflowAgent | ForEachAgent
Agent = Leaf | Composite | CheckedAgent
"""What a tree is made of: a frozen value that says what runs; no behaviour of its own."""


def sub_agents(agent: "Agent") -> tuple["Agent", ...]:
    """Return the sub-agents of an agent."""
    inner = unchecked(agent)
    return getattr(inner, "sub_agents", ()) if isinstance(inner, Leaf | Composite) else ()


def called_agents(agent: "Agent") -> tuple["Agent", ...]:
    """Return the agents that one runs any number of times: its tools, or what runs for each item."""
    match agent:
        case ChatAgent():
            return tuple(tool.agent for tool in agent_tools(agent))
        case ForEachAgent():
            return (agent.agent,)
        case CheckedAgent():
            return called_agents(agent.agent)
    return ()


def unchecked(agent: Any) -> Any:
    """Return what runs, without the checks around it."""
    while isinstance(agent, CheckedAgent):
        agent = agent.agent
    return agent


def checks_of(agent: "Agent") -> tuple[CheckedAgent, ...]:
    """Return the checks around an agent, the innermost first."""
    found: tuple[CheckedAgent, ...] = ()
    while isinstance(agent, CheckedAgent):
        found, agent = (agent, *found), agent.agent
    return found


_HOLDING_AGENTS = ("agent", "sub_agents", "steps", "tools", "compensate")
"""The fields of agents, steps and agent tools that hold agents."""


def changed(given: Any, change: Callable[[ChatAgent], ChatAgent]) -> Any:
    """Return a tree with each chat agent in it changed; what is no agent stays as it is."""
    if isinstance(given, tuple):
        return tuple(changed(each, change) for each in given)
    if not isinstance(given, Agent | Step | AgentTool):
        return given
    held = [each.name for each in fields(given) if each.name in _HOLDING_AGENTS]
    made = replace(given, **{name: changed(getattr(given, name), change) for name in held})
    return change(made) if isinstance(made, ChatAgent) else made


def agent_tools(agent: ChatAgent) -> tuple[AgentTool, ...]:
    """Return the tools of a chat agent that are agents."""
    return tuple(tool for tool in agent.tools if isinstance(tool, AgentTool))
