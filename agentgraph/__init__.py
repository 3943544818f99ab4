"""Trees of agents, compiled to LangGraph state graphs whose runs yield agent events."""

from importlib import import_module
from sys import modules as _modules
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
from agentgraph.agents.entries import Entry, Item, Reply
from agentgraph.agents.habits.names import missing_name as _missing_name
from agentgraph.agents.limits import Limits
from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.agents.signals import LOCAL, SKIP, Ask, BreakLoop, Custom, Exit, SetValues, TransferTo
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
    NoneAcceptedError,
    PendingInterruptError,
    QuestionTimeoutError,
    ReducerError,
    RemoteRunError,
    SaverError,
    SeveralWaysError,
    StepFailedError,
    ThreadBusyError,
    ThreadError,
    TreeChangedError,
    TurnFailedError,
    TurnOpenError,
    UnfitSaverError,
    UnknownAddressError,
    UnknownInterruptError,
    UnknownThreadError,
    ValueConflictError,
)
from agentgraph.show import Renderer as _Renderer  # noqa: F401  # renders agents in notebooks

if TYPE_CHECKING:
    from agentgraph.agents.context import Context
    from agentgraph.agents.prebuilt.plan_execute import plan_execute
    from agentgraph.agents.prebuilt.runnable import runnable_agent
    from agentgraph.agents.prebuilt.supervisor import supervisor
    from agentgraph.agents.prebuilt.validated import validated
    from agentgraph.agents.tools import long_running
    from agentgraph.events.events import Action, AgentEvent, DefaultAnswer, Interrupt, Output
    from agentgraph.events.translation import STREAM_MODES, atranslate, translate
    from agentgraph.graph.compiler import compile_agent
    from agentgraph.graph.stamps import EventCall
    from agentgraph.graph.values import DELETE
    from agentgraph.journal.late_calls import LateCall
    from agentgraph.journal.pending import AnsweredQuestion
    from agentgraph.journal.savers.opening import postgres_saver
    from agentgraph.journal.savers.sqlite import async_sqlite_saver, sqlite_saver
    from agentgraph.journal.spent import Spent
    from agentgraph.journal.steps import Visit
    from agentgraph.reports.activation_calls import Asked, ToolRun
    from agentgraph.reports.activation_steps import Attempt
    from agentgraph.reports.activations import ActivationReport
    from agentgraph.reports.comparison import Difference, Side
    from agentgraph.reports.flame import Flame, Frame
    from agentgraph.reports.result import Result, Usage
    from agentgraph.reports.thread import Line, Pending, Thread, Turn
    from agentgraph.reports.thread_list import ThreadSummary
    from agentgraph.reports.timeline import Bar, Timeline
    from agentgraph.show.watching import Watched, awatch, watch
    from agentgraph.skills import load
    from agentgraph.threads.live.following import Follow
    from agentgraph.threads.pruning import Pruned
    from agentgraph.threads.rewinds.forks import Forks
    from agentgraph.threads.runner import Runner
    from agentgraph.threads.runs import AsyncRun, Run
    from agentgraph.tree.lint.findings import Finding
    from agentgraph.tree.lint.linting import lint
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
    "AnsweredQuestion",
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
    "DefaultAnswer",
    "Difference",
    "EachAgent",
    "Entry",
    "EventCall",
    "Exit",
    "Finding",
    "Flame",
    "Follow",
    "Forks",
    "Frame",
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
    "NoneAcceptedError",
    "Output",
    "ParallelAgent",
    "Pending",
    "PendingInterruptError",
    "Pruned",
    "QuestionTimeoutError",
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
    "TurnFailedError",
    "TurnOpenError",
    "UnfitSaverError",
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
    "lint",
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

__version__ = "0.1.0"

_LOADED_WHEN_USED = {
    "Action": "agentgraph.events.events",
    "ActivationReport": "agentgraph.reports.activations",
    "AgentEvent": "agentgraph.events.events",
    "AnsweredQuestion": "agentgraph.journal.pending",
    "Asked": "agentgraph.reports.activation_calls",
    "AsyncRun": "agentgraph.threads.runs",
    "Attempt": "agentgraph.reports.activation_steps",
    "Bar": "agentgraph.reports.timeline",
    "Context": "agentgraph.agents.context",
    "DELETE": "agentgraph.graph.values",
    "DefaultAnswer": "agentgraph.events.events",
    "Difference": "agentgraph.reports.comparison",
    "EventCall": "agentgraph.graph.stamps",
    "Finding": "agentgraph.tree.lint.findings",
    "Flame": "agentgraph.reports.flame",
    "Follow": "agentgraph.threads.live.following",
    "Forks": "agentgraph.threads.rewinds.forks",
    "Frame": "agentgraph.reports.flame",
    "Interrupt": "agentgraph.events.events",
    "LateCall": "agentgraph.journal.late_calls",
    "Line": "agentgraph.reports.thread",
    "Output": "agentgraph.events.events",
    "Pending": "agentgraph.reports.thread",
    "Pruned": "agentgraph.threads.pruning",
    "Result": "agentgraph.reports.result",
    "Run": "agentgraph.threads.runs",
    "Runner": "agentgraph.threads.runner",
    "STREAM_MODES": "agentgraph.events.translation",
    "Side": "agentgraph.reports.comparison",
    "Spent": "agentgraph.journal.spent",
    "Thread": "agentgraph.reports.thread",
    "ThreadSummary": "agentgraph.reports.thread_list",
    "Timeline": "agentgraph.reports.timeline",
    "ToolRun": "agentgraph.reports.activation_calls",
    "Turn": "agentgraph.reports.thread",
    "Usage": "agentgraph.reports.result",
    "Visit": "agentgraph.journal.steps",
    "Watched": "agentgraph.show.watching",
    "async_sqlite_saver": "agentgraph.journal.savers.sqlite",
    "atranslate": "agentgraph.events.translation",
    "awatch": "agentgraph.show.watching",
    "compile_agent": "agentgraph.graph.compiler",
    "lint": "agentgraph.tree.lint.linting",
    "load": "agentgraph.skills",
    "long_running": "agentgraph.agents.tools",
    "plan_execute": "agentgraph.agents.prebuilt.plan_execute",
    "postgres_saver": "agentgraph.journal.savers.opening",
    "runnable_agent": "agentgraph.agents.prebuilt.runnable",
    "sqlite_saver": "agentgraph.journal.savers.sqlite",
    "supervisor": "agentgraph.agents.prebuilt.supervisor",
    "translate": "agentgraph.events.translation",
    "validated": "agentgraph.agents.prebuilt.validated",
    "view": "agentgraph.window.widget",
    "watch": "agentgraph.show.watching",
}
"""Modules of names that a tree needs only when it runs: most of them import LangGraph."""


if not TYPE_CHECKING:  # with it type checkers would accept any name
    from agentgraph.agents.habits.agent_type import Agent  # the union, which answers a call by a hint

    def __getattr__(name: str) -> Any:
        if name not in _LOADED_WHEN_USED:
            raise _missing_name(__name__, name, _modules[__name__])
        value = globals()[name] = getattr(import_module(_LOADED_WHEN_USED[name]), name)
        return value


def __dir__() -> list[str]:
    """List all names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
