"""What traces keep of middleware: what its `trace_policy` says, and the names of LangChain's agents."""

import asyncio
from typing import Any

import pytest
from helpers import scripted
from langchain.agents.middleware import (
    AgentMiddleware,
    TracePolicy,
    configure_trace_policy,
    omit_payload,
)
from langchain_core.tracers import BaseTracer
from langchain_core.tracers.schemas import Run

import agentgraph as ag


class Kept(BaseTracer):
    """Keeps the inputs and outputs of runs by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}

    def _persist_run(self, run: Run) -> None:
        pass

    def _on_run_update(self, run: Run) -> None:
        self.inputs[run.name] = run.inputs
        self.outputs[run.name] = run.outputs


class Hooked(AgentMiddleware[Any, Any, Any]):
    def __init__(self, policy: TracePolicy | None = None) -> None:
        if policy is not None:
            self.trace_policy = policy

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"messages": []}


def traced(middleware: Any, *, is_async: bool = False) -> Kept:
    kept, graph = (
        Kept(),
        ag.compile_agent(ag.chat_agent("writer", scripted("ok"), middleware=[middleware])),
    )
    given: Any = {"messages": ["The number is 4111."]}
    if is_async:
        asyncio.run(graph.ainvoke(given, {"callbacks": [kept]}))
    else:
        graph.invoke(given, {"callbacks": [kept]})
    return kept


@pytest.mark.parametrize("is_async", [False, True])
def test_a_hook_is_traced_as_its_middleware_says(is_async: bool) -> None:
    policy = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)
    kept = traced(Hooked(policy), is_async=is_async)
    node = "writer.Hooked.before_model"
    assert (kept.inputs[node], kept.outputs[node]) == ({}, {})
    assert "4111" in str(kept.inputs["writer"])


def test_a_hook_is_traced_whole_where_nothing_is_said() -> None:
    kept = traced(Hooked())
    assert "4111" in str(kept.inputs["writer.Hooked.before_model"])


def test_the_policy_for_all_middleware_counts_here_too() -> None:
    middleware = Hooked()
    configure_trace_policy(TracePolicy(process_inputs=omit_payload))
    try:
        kept = traced(middleware)
    finally:
        configure_trace_policy(None)
    assert kept.inputs["writer.Hooked.before_model"] == {}


def test_calls_of_the_model_carry_the_name_that_langchain_gives_them() -> None:
    graph = ag.compile_agent(ag.chat_agent("writer", scripted("ok")))
    [(_, metadata), *_] = graph.stream({"messages": ["Hi."]}, stream_mode="messages")
    assert metadata["lc_agent_name"] == "writer"
