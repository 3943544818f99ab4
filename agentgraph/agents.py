"""The agents: frozen values that say what runs; `builders` makes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import LanguageModelLike
from langchain_core.messages import BaseMessage, ToolCall
from langchain_core.tools import BaseTool

from agentgraph.budgets import ChosenBy, Summarized, Trimmed

HistoryPolicy = ChosenBy | Trimmed | Summarized
"""Which messages an agent sees: one of five words, a function from `Entry`s to messages, or what
`trimmed` or `summarized` gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An agent as a tool of a chat agent: it runs in a lane of its own."""

    agent: "Agent"
    """The agent; the tool has its name."""
    description: str = ""
    """What the tool is for, as the model reads it."""
    history: Literal["input", "shared"] = "input"
    """Whether the agent sees the request only, or what the caller sees and then the request."""


Tool = BaseTool | Callable[..., Any] | Mapping[str, Any] | AgentTool
"""A LangChain tool, a function, an agent as a tool, or a tool that the model's provider runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAgent:
    """A leaf that asks a chat model, runs the tools that it calls, and says its replies."""

    name: str
    """The agent's name, and that of its node."""
    model: LanguageModelLike
    """The LangChain chat model, or a runnable around one (`with_retry`, `with_fallbacks`)."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    instruction: str = ""
    """The template of the system message."""
    tools: tuple[Tool, ...] = ()
    """What the model may call."""
    sub_agents: tuple["Agent", ...] = ()
    """The agents that it may transfer to."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    output_schema: type | dict[str, Any] | None = None
    """What its last reply must fit: a type that pydantic knows, or a JSON schema."""
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
    approve: tuple[str, ...] | Callable[[ToolCall], bool] = ()
    """The tools, or the calls, that a person must agree to."""
    parallel_tools: bool = True
    """Whether the calls of one message run at the same time, or one after the other."""
    on_tool_error: Literal["return", "raise"] = "return"
    """Whether the model is told of an exception in a tool, or the agent fails with it."""
    unknown_tool: Literal["return", "raise"] | Callable[[str, dict[str, Any]], Any] = "return"
    """What comes of a call to a tool that there is not; a function is given its name and arguments."""
    retry: Any = None
    """LangGraph's `RetryPolicy`, or several, for its calls of the model."""
    timeout: Any = None
    """LangGraph's timeout for a call of the model: seconds, or a `TimeoutPolicy`."""
    model_input: Callable[..., list[BaseMessage]] | None = None
    """Has the last word on the messages that the model is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAgent:
    """A leaf that calls a function."""

    name: str
    """The agent's name, and that of its node."""
    fn: Callable[[Any], Any]
    """Called with a `Context`; sync or async, plain or generator."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    history: HistoryPolicy = "shared"
    """Which messages it sees."""
    retry: Any = None
    """LangGraph's `RetryPolicy`, or several, for its calls."""
    timeout: Any = None
    """LangGraph's timeout for a call: seconds, or a `TimeoutPolicy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAgent:
    """A leaf that runs a LangGraph graph."""

    name: str
    """The agent's name, and that of its node."""
    graph: Any
    """The compiled graph; its state has `messages`."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    history: HistoryPolicy = "shared"
    """Which messages it is given."""
    input: Callable[[Any], dict[str, Any]] | None = None
    """Called with a `Context` for the input of the graph."""
    retry: Any = None
    """LangGraph's `RetryPolicy`, or several, for a run that fails."""
    timeout: Any = None
    """LangGraph's timeout for a run: seconds, or a `TimeoutPolicy`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAgent:
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
class SequentialAgent:
    """A composite that runs its sub-agents one after the other."""

    name: str
    """The agent's name."""
    sub_agents: tuple["Agent", ...]
    """Its sub-agents, in the order in which they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelAgent:
    """A composite that runs its sub-agents at the same time, each in a lane of its own."""

    name: str
    """The agent's name, and that of the node that runs the lanes."""
    sub_agents: tuple["Agent", ...]
    """Its branches, in the order in which their results are joined."""
    max_concurrency: int | None = None
    """How many branches run at once; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopAgent:
    """A composite that runs its sub-agents in turn, again and again."""

    name: str
    """The agent's name."""
    sub_agents: tuple["Agent", ...]
    """The body of the loop."""
    max_iterations: int | None
    """After how many iterations it ends; None for no bound."""
    until: Callable[[Any], bool] | None = None
    """Asked with a `Context` after each iteration: whether the loop ends."""


Leaf = ChatAgent | FunctionAgent | GraphAgent | HumanAgent
Composite = SequentialAgent | ParallelAgent | LoopAgent
Agent = Leaf | Composite

LEAVES = (ChatAgent, FunctionAgent, GraphAgent, HumanAgent)
COMPOSITES = (SequentialAgent, ParallelAgent, LoopAgent)


def inner_agents(agent: "Agent") -> tuple["Agent", ...]:
    """Return the agents directly inside one: its sub-agents, and its agents as tools."""
    if isinstance(agent, ChatAgent):
        return (*agent.sub_agents, *(tool.agent for tool in agent_tools(agent)))
    return agent.sub_agents if isinstance(agent, COMPOSITES) else ()


def agent_tools(agent: ChatAgent) -> tuple[AgentTool, ...]:
    """Return the tools of a chat agent that are agents."""
    return tuple(tool for tool in agent.tools if isinstance(tool, AgentTool))
