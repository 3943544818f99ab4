"""Trees of agents, compiled to LangGraph state graphs whose runs yield agent events."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentgraph.agents.agents import (
    Agent,
    AgentTool,
    ChatAgent,
    CheckedAgent,
    EachAgent,
    FunctionAgent,
    GraphAgent,
    Handoff,
    HumanAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    Step,
    SwarmAgent,
    SwitchAgent,
    WorkflowAgent,
)
from agentgraph.agents.budgets import Summarized, Trimmed, summarized, trimmed
from agentgraph.agents.builders import (
    agent,
    agent_tool,
    chat_agent,
    each,
    function_agent,
    graph_agent,
    handoff,
    human,
    loop,
    parallel,
    sequential,
    step,
    swarm,
    switch,
    with_helpers,
    workflow,
)
from agentgraph.agents.context import Context, Entry, Item, Reply
from agentgraph.agents.limits import Limits
from agentgraph.agents.prebuilt.plan_execute import plan_execute
from agentgraph.agents.prebuilt.runnable import runnable_agent
from agentgraph.agents.prebuilt.supervisor import supervisor
from agentgraph.agents.prebuilt.validated import validated
from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.agents.signals import LOCAL, SKIP, Ask, BreakLoop, Custom, Exit, SetValues, TransferTo
from agentgraph.agents.tools import long_running
from agentgraph.errors import (
    AgentGraphError,
    CassetteError,
    CheckFailedError,
    InvalidAgentError,
    InvalidAnswerError,
    InvalidOutputError,
    InvalidSkillError,
    LangChainChangedError,
    LangGraphChangedError,
    LimitError,
    MaxIterationsError,
    MissingValueError,
    PendingInterruptError,
    ReducerError,
    RemoteRunError,
    SaverError,
    SeveralWaysError,
    StepFailedError,
    ThreadBusyError,
    ThreadError,
    TreeChangedError,
    UnknownAddressError,
    UnknownInterruptError,
    UnknownThreadError,
    ValueConflictError,
)
from agentgraph.events.events import Action, AgentEvent, Interrupt, Output
from agentgraph.events.translation import STREAM_MODES, atranslate, translate
from agentgraph.graph.compiler import compile_agent
from agentgraph.graph.values import DELETE
from agentgraph.journal.late_calls import LateCall
from agentgraph.journal.savers.opening import postgres_saver
from agentgraph.journal.spent import Spent
from agentgraph.journal.steps import Visit
from agentgraph.reports.activation_calls import Asked, ToolRun
from agentgraph.reports.activation_steps import Attempt
from agentgraph.reports.activations import ActivationReport
from agentgraph.reports.comparison import Difference, Side
from agentgraph.reports.result import Result, Usage
from agentgraph.reports.thread import Line, Pending, Thread, Turn
from agentgraph.reports.thread_list import ThreadSummary
from agentgraph.reports.timeline import Bar, Timeline
from agentgraph.show import Renderer as _Renderer  # noqa: F401  # agents show themselves with it
from agentgraph.threads.live.following import Follow
from agentgraph.threads.rewinds.forks import Forks
from agentgraph.threads.runner import Runner
from agentgraph.threads.runs import AsyncRun, Run

if TYPE_CHECKING:
    from agentgraph.journal.savers.sqlite import async_sqlite_saver, sqlite_saver
    from agentgraph.show.watching import Watched, awatch, watch
    from agentgraph.skills import load
    from agentgraph.window.widget import view

__all__ = [
    "DELETE",
    "LOCAL",
    "SKIP",
    "STREAM_MODES",
    "Action",
    "ActivationReport",
    "Agent",
    "AgentEvent",
    "AgentGraphError",
    "AgentTool",
    "Ask",
    "Asked",
    "AsyncRun",
    "Attempt",
    "Bar",
    "BreakLoop",
    "CassetteError",
    "ChatAgent",
    "CheckFailedError",
    "CheckedAgent",
    "Context",
    "Custom",
    "Difference",
    "EachAgent",
    "Entry",
    "Exit",
    "Follow",
    "Forks",
    "FunctionAgent",
    "GraphAgent",
    "Handoff",
    "HumanAgent",
    "Interrupt",
    "InvalidAgentError",
    "InvalidAnswerError",
    "InvalidOutputError",
    "InvalidSkillError",
    "Item",
    "LangChainChangedError",
    "LangGraphChangedError",
    "LateCall",
    "LimitError",
    "Limits",
    "Line",
    "LoopAgent",
    "MaxIterationsError",
    "MissingValueError",
    "Output",
    "ParallelAgent",
    "Pending",
    "PendingInterruptError",
    "ReducerError",
    "RemoteRunError",
    "Reply",
    "Result",
    "Run",
    "RunPath",
    "RunStep",
    "Runner",
    "SaverError",
    "SequentialAgent",
    "SetValues",
    "SeveralWaysError",
    "Side",
    "Spent",
    "Step",
    "StepFailedError",
    "Summarized",
    "SwarmAgent",
    "SwitchAgent",
    "Thread",
    "ThreadBusyError",
    "ThreadError",
    "ThreadSummary",
    "Timeline",
    "ToolRun",
    "TransferTo",
    "TreeChangedError",
    "Trimmed",
    "Turn",
    "UnknownAddressError",
    "UnknownInterruptError",
    "UnknownThreadError",
    "Usage",
    "ValueConflictError",
    "Visit",
    "Watched",
    "WorkflowAgent",
    "agent",
    "agent_tool",
    "async_sqlite_saver",
    "atranslate",
    "awatch",
    "chat_agent",
    "compile_agent",
    "each",
    "function_agent",
    "graph_agent",
    "handoff",
    "human",
    "load",
    "long_running",
    "loop",
    "parallel",
    "plan_execute",
    "postgres_saver",
    "runnable_agent",
    "sequential",
    "sqlite_saver",
    "step",
    "summarized",
    "supervisor",
    "swarm",
    "switch",
    "translate",
    "trimmed",
    "validated",
    "view",
    "watch",
    "with_helpers",
    "workflow",
]

_LOADED_WHEN_USED = {
    "Watched": "agentgraph.show.watching",
    "async_sqlite_saver": "agentgraph.journal.savers.sqlite",
    "awatch": "agentgraph.show.watching",
    "load": "agentgraph.skills",
    "sqlite_saver": "agentgraph.journal.savers.sqlite",
    "view": "agentgraph.window.widget",
    "watch": "agentgraph.show.watching",
}


def __getattr__(name: str) -> Any:
    """Import the names that no run needs when they are first used."""
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_WHEN_USED[name]), name)
