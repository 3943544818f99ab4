"""What is taken out of LangChain's agent is in the installed version; a missing part is named."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from helpers import echo, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.prebuilt import ToolNode, ToolRuntime

import agentgraph as ag
from agentgraph.graph.chat.flattened import asking_by, check_shape, edited_calls, wrap_inside


def agent(tools: list[Any]) -> Any:
    return create_agent(scripted(), tools)


@pytest.mark.parametrize("tools", [[], [echo]], ids=["without tools", "with tools"])
def test_the_installed_langchain_has_all_parts(tools: list[Any]) -> None:
    check_shape(agent(tools))


def lacking(name: str) -> ToolNode:
    """Return a tool node without one attribute."""
    hidden: list[str] = []

    class Lacking(ToolNode):
        def __getattribute__(self, asked: str) -> Any:
            if asked in hidden:
                raise AttributeError(asked)
            return super().__getattribute__(asked)

    node = Lacking([echo])
    hidden.append(name)
    return node


def rename_model(nodes: dict[str, Any]) -> None:
    nodes["llm"] = nodes.pop("model")


def drop_trace_policy(nodes: dict[str, Any]) -> None:
    nodes["model"] = SimpleNamespace(runnable=nodes["model"].runnable)


def replace_tools(nodes: dict[str, Any]) -> None:
    nodes["tools"] = SimpleNamespace(runnable=nodes["tools"].runnable.invoke)


def replace_function(kind: str) -> Callable[[dict[str, Any]], None]:
    return lambda nodes: setattr(nodes["model"].runnable, kind, lambda state: state)


OF_TOOLS = ["_wrap_tool_call", "_awrap_tool_call", "_injected_args", "_run_one", "_arun_one"]
PARTS = ("nodes", "channels", "edges", "branches")
CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "builder.nodes['model'].runnable": rename_model,
    "builder.nodes['tools'].runnable": replace_tools,
    "builder.nodes['model'].trace_policy": drop_trace_policy,
    "model_node: _execute_model_sync": replace_function("func"),
    "model_node: _execute_model_async": replace_function("afunc"),
    **{f"builder.{name}": lambda nodes: None for name in PARTS[1:]},
}
"""What is done to the nodes of an agent so that it lacks a part; a part of the builder is dropped."""


@pytest.mark.parametrize("part", ["builder", *CHANGES])
def test_a_missing_part_is_named_with_langchains_version(part: str) -> None:
    builder = agent([echo]).builder
    parts = {name: getattr(builder, name) for name in PARTS if part != f"builder.{name}"}
    parts["nodes"] = dict(parts["nodes"])
    CHANGES.get(part, lambda nodes: None)(parts["nodes"])
    graph = SimpleNamespace(**({} if part == "builder" else {"builder": SimpleNamespace(**parts)}))
    with pytest.raises(ag.LangChainChangedError) as refused:
        check_shape(graph)
    assert refused.value.part == part
    assert str(refused.value) == (
        f"langchain {refused.value.version}: its agents have no {part}, or another kind of it; install "
        "langchain>=1.4.7,<1.5, or a newer agentgraph"
    )


@pytest.mark.parametrize("name", OF_TOOLS)
def test_a_missing_part_of_a_tool_node_is_named(name: str) -> None:
    with pytest.raises(ag.LangChainChangedError, match=f"have no ToolNode.{name},"):
        wrap_inside(lacking(name), lambda request: request)


def test_a_hook_that_does_not_ask_by_interrupt_is_named() -> None:
    with pytest.raises(ag.LangChainChangedError) as refused:
        asking_by("name", print)
    assert refused.value.part == "HumanInTheLoopMiddleware.name"


def test_approval_asks_by_interrupt_and_its_state_has_the_key_of_edited_calls() -> None:
    asking_by("after_model", print)
    asking_by("_resolve_per_call", print)
    state = get_type_hints(HumanInTheLoopMiddleware.state_schema)
    named = [name for name in state if edited_calls({name: {"1": "edited"}})]
    assert named == ["hitl_edited_tool_calls"]


def test_a_context_is_injected_as_a_tool_runtime_is() -> None:
    base = next(kind for kind in ToolRuntime.__mro__ if kind.__name__ == "_DirectlyInjectedToolArg")
    assert issubclass(ag.Context, base)
