"""The types of what users give to builders: functions, policies, graphs."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage

from agentgraph.agents.context import Context

if TYPE_CHECKING:
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
