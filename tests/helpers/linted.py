"""Agents of trees that are searched for likely mistakes."""

from typing import Any

import agentgraph as ag
from helpers.agents import scripted

MODEL = scripted("So.")


def chat(name: str, instruction: Any = "", **options: Any) -> Any:
    return ag.chat_agent(name, MODEL, instruction=instruction, **options)


def function(name: str, fn: Any, **options: Any) -> Any:
    return ag.function_agent(name, fn, **options)


def seq(*agents: ag.Agent) -> ag.Agent:
    return ag.sequential("s", agents)
