"""What is taken out of LangChain's agent: it is there, and what is missing is named at once."""

from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode, ToolRuntime

import agentgraph as ag
from agentgraph.graph.chat.laid_flat import (
    asking_by,
    check_shape,
    edited_calls,
    wrap_inside,
)
from agentgraph.testing import ScriptedChatModel


@tool
def look(topic: str) -> str:
    """Look something up."""
    return topic


def agent(tools: list[Any]) -> Any:
    return create_agent(ScriptedChatModel(responses=[]), tools)


@pytest.mark.parametrize("tools", [[], [look]], ids=["without tools", "with tools"])
def test_the_installed_langchain_has_all_that_is_taken_out(tools: list[Any]) -> None:
    check_shape(agent(tools))


def lacking(name: str) -> ToolNode:
    """Return a tool node without one attribute."""

    hidden: list[str] = []

    class Lacking(ToolNode):
        def __getattribute__(self, asked: str) -> Any:
            if asked in hidden:
                raise AttributeError(asked)
            return super().__getattribute__(asked)

    node = Lacking([look])
    hidden.append(name)
    return node


def missing(part: str) -> Any:
    """Return what `create_agent` would give if LangChain had renamed a part."""
    made = agent([look])
    nodes = dict(made.builder.nodes)
    match part:
        case "builder":
            return SimpleNamespace(nodes=made.nodes)
        case "builder.nodes['model'].runnable":
            nodes["llm"] = nodes.pop("model")
        case "builder.nodes['model'].trace_policy":
            nodes["model"] = SimpleNamespace(runnable=nodes["model"].runnable)
        case "model_node: _execute_model_sync" | "model_node: _execute_model_async":
            kind = "func" if part.endswith("_sync") else "afunc"
            setattr(nodes["model"].runnable, kind, lambda state: state)
        case "builder.nodes['tools'].runnable":
            nodes["tools"] = SimpleNamespace(runnable=nodes["tools"].runnable.invoke)
        case "builder.channels" | "builder.edges" | "builder.branches":
            parts = {name: getattr(made.builder, name) for name in ("channels", "edges", "branches")}
            del parts[part.removeprefix("builder.")]
            return SimpleNamespace(builder=SimpleNamespace(nodes=nodes, **parts))
        case _:
            nodes["tools"] = SimpleNamespace(runnable=lacking(part.removeprefix("ToolNode.")))
    return SimpleNamespace(builder=SimpleNamespace(nodes=nodes))


@pytest.mark.parametrize(
    "part",
    [
        "builder",
        "builder.nodes['model'].runnable",
        "builder.nodes['tools'].runnable",
        "builder.nodes['model'].trace_policy",
        "model_node: _execute_model_sync",
        "model_node: _execute_model_async",
        "ToolNode._wrap_tool_call",
        "ToolNode._awrap_tool_call",
        "ToolNode._injected_args",
        "ToolNode._run_one",
        "ToolNode._arun_one",
        "builder.channels",
        "builder.edges",
        "builder.branches",
    ],
)
def test_a_part_that_langchain_renamed_is_named_with_its_version(part: str) -> None:
    with pytest.raises(ag.LangChainChangedError) as refused:
        check_shape(missing(part))
    assert refused.value.part == part
    assert str(refused.value) == (
        f"an agent of langchain {refused.value.version} has no {part}, or another kind of it; install "
        "langchain>=1.4.7,<1.5, or a newer agentgraph"
    )


@pytest.mark.parametrize(
    "name", ["_wrap_tool_call", "_awrap_tool_call", "_injected_args", "_run_one", "_arun_one"]
)
def test_what_is_used_of_a_tool_node_alone_is_named_too(name: str) -> None:
    with pytest.raises(ag.LangChainChangedError, match=f"has no ToolNode.{name},"):
        wrap_inside(lacking(name), lambda request: request)


def test_a_context_is_injected_as_a_tool_runtime_is() -> None:
    """LangChain tells what the model is not to see by a base class of its own."""
    base = next(kind for kind in ToolRuntime.__mro__ if kind.__name__ == "_DirectlyInjectedToolArg")
    assert issubclass(ag.Context, base)


def test_what_approval_takes_of_the_human_in_the_loop_is_there() -> None:
    asking_by(HumanInTheLoopMiddleware.after_model, print)
    state = get_type_hints(HumanInTheLoopMiddleware.state_schema)
    named = [name for name in state if edited_calls({name: {"1": "edited"}})]
    assert named == ["hitl_edited_tool_calls"]


def test_a_hook_that_asks_otherwise_is_named_with_langchains_version() -> None:
    with pytest.raises(ag.LangChainChangedError) as refused:
        asking_by(create_agent, print)
    assert refused.value.part == "HumanInTheLoopMiddleware.after_model"
