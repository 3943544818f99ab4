"""Trees of agents, compiled to LangGraph state graphs and told as agent events."""

from agentgraph.agents import Agent
from agentgraph.budgets import summarized, trimmed
from agentgraph.builders import (
    agent,
    agent_tool,
    chat_agent,
    function_agent,
    graph_agent,
    human,
)
from agentgraph.compiler import compile_agent
from agentgraph.composites import loop, parallel, sequential, step, workflow
from agentgraph.context import Context
from agentgraph.errors import (
    AgentGraphError,
    CheckFailedError,
    InvalidAgentError,
    InvalidAnswerError,
    InvalidOutputError,
    InvalidSkillError,
    LangChainChangedError,
    LimitError,
    MaxIterationsError,
    MissingValueError,
    PendingInterruptError,
    ReducerError,
    RemoteRunError,
    SaverError,
    StepFailedError,
    ThreadBusyError,
    ThreadError,
    TreeChangedError,
    UnknownInterruptError,
    UnknownThreadError,
    ValueConflictError,
)
from agentgraph.events import Action, AgentEvent, Interrupt, Output
from agentgraph.history import Entry
from agentgraph.limits import Limits
from agentgraph.live.watched import Watched
from agentgraph.prebuilt.plan_execute import plan_execute
from agentgraph.prebuilt.supervisor import supervisor
from agentgraph.prebuilt.validated import validated
from agentgraph.prebuilt.with_helpers import with_helpers
from agentgraph.run_path import RunPath, RunStep
from agentgraph.runner import Runner
from agentgraph.savers import async_sqlite_saver, sqlite_saver
from agentgraph.signals import Ask, BreakLoop, Custom, Exit, SetValues, TransferTo
from agentgraph.skills import load
from agentgraph.translation import STREAM_MODES, atranslate, translate

__all__ = [
    "STREAM_MODES",
    "Action",
    "Agent",
    "AgentEvent",
    "AgentGraphError",
    "Ask",
    "BreakLoop",
    "CheckFailedError",
    "Context",
    "Custom",
    "Entry",
    "Exit",
    "Interrupt",
    "InvalidAgentError",
    "InvalidAnswerError",
    "InvalidOutputError",
    "InvalidSkillError",
    "LangChainChangedError",
    "LimitError",
    "Limits",
    "MaxIterationsError",
    "MissingValueError",
    "Output",
    "PendingInterruptError",
    "ReducerError",
    "RemoteRunError",
    "RunPath",
    "RunStep",
    "Runner",
    "SaverError",
    "SetValues",
    "StepFailedError",
    "ThreadBusyError",
    "ThreadError",
    "TransferTo",
    "TreeChangedError",
    "UnknownInterruptError",
    "UnknownThreadError",
    "ValueConflictError",
    "Watched",
    "agent",
    "agent_tool",
    "async_sqlite_saver",
    "atranslate",
    "chat_agent",
    "compile_agent",
    "function_agent",
    "graph_agent",
    "human",
    "load",
    "loop",
    "parallel",
    "plan_execute",
    "sequential",
    "sqlite_saver",
    "step",
    "summarized",
    "supervisor",
    "translate",
    "trimmed",
    "validated",
    "with_helpers",
    "workflow",
]
