"""What becomes of an exception in a tool, by `on_tool_error`: the same as in LangGraph's `ToolNode`."""

from typing import Any

import pytest
from helpers import Drive, failing, scripted
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import agentgraph as ag
from agentgraph.testing import call, calls


class Closed(ConnectionError):
    """A kind of a kind."""


ERRORS: Any = {"value": (ValueError, "no topic"), "key": (KeyError, "k"), "closed": (Closed, "closed")}


def fail(kind: str) -> str:
    """Fail."""
    made, text = ERRORS[kind]
    raise made(text)


def of_connections(error: ConnectionError) -> str:
    return f"No connection: {error}."


def of_two(error: ValueError | KeyError) -> str:
    return f"Wrong: {error}."


def of_any(error: Any) -> str:
    return f"Failed: {error}."


def of_all(error) -> str:  # type: ignore[no-untyped-def]
    return f"Failed: {error}."


class Emitter:
    def told(self, error: ConnectionError) -> str:
        return f"Told: {error}."


GIVEN: dict[str, Any] = {
    "a type": ValueError,
    "the type of a base": ConnectionError,
    "several": (ValueError, KeyError),
    "a function of connections": of_connections,
    "a function of two": of_two,
    "a function of any": of_all,
    "a method": Emitter().told,
    "a sentence": "It failed. Try another.",
}


def by_tool_node(given: Any, kind: str) -> Any:
    """Return what LangGraph's own node gives for a call that fails, or the exception."""
    node = ToolNode([fail], handle_tool_errors=given)
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    called = {**call("fail", kind=kind), "id": "1"}
    try:
        return graph.invoke({"messages": [AIMessage("", tool_calls=[called])]})["messages"][-1].text
    except Exception as error:
        return error


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("given", GIVEN)
def test_an_exception_goes_to_the_model_as_in_langgraph(drive: Drive, given: str, kind: str) -> None:
    expected = by_tool_node(GIVEN[given], kind)
    model = scripted(calls(call("fail", kind=kind)), "Done.")
    tree = ag.sequential("s", [ag.chat_agent("w", model, tools=[fail], on_tool_error=GIVEN[given])])
    if isinstance(expected, Exception):
        told, raised = failing(drive.run(ag.Runner(tree), "Go."), type(expected))
        assert repr(raised) == repr(expected)
        assert told[-1].error == repr(expected)
        return
    told = list(drive.run(ag.Runner(tree), "Go."))
    results = [each.message for each in told if isinstance(each.message, ToolMessage)]
    assert [(each.text, each.status) for each in results] == [(expected, "error")]
    assert told[-1].text == "Done."


def test_a_function_whose_annotation_says_nothing_is_told_of_all(drive: Drive) -> None:
    model = scripted(calls(call("fail", kind="key")), "Done.")
    writer = ag.chat_agent("w", model, tools=[fail], on_tool_error=of_any)
    assert [event.text for event in drive.run(ag.Runner(writer), "Go.")][1] == "Failed: 'k'."


def test_an_exception_in_the_function_itself_fails_the_agent(drive: Drive) -> None:
    def worse(error: Exception) -> str:
        raise RuntimeError("worse")

    model = scripted(calls(call("fail", kind="key")))
    writer = ag.chat_agent("w", model, tools=[fail], on_tool_error=worse)
    failing(drive.run(ag.Runner(writer), "Go."), RuntimeError)


def test_bad_arguments_are_no_exception_of_the_tool(drive: Drive) -> None:
    model = scripted(calls(call("fail", sort="key")), "Done.")
    writer = ag.chat_agent("w", model, tools=[fail], on_tool_error=of_connections)
    told = [event.text for event in drive.run(ag.Runner(writer), "Go.")]
    assert told[1].startswith("Error invoking tool 'fail' with kwargs {'sort': 'key'}")


def test_an_agent_as_a_tool_fails_as_a_tool_does(drive: Drive) -> None:
    def broken(ctx: ag.Context) -> str:
        raise ConnectionError("down")

    tool = ag.agent_tool(ag.function_agent("broken", broken))
    model = scripted(calls(call("broken", request="Go.")), "Done.")
    writer = ag.chat_agent("w", model, tools=[tool], on_tool_error=of_connections)
    told = list(drive.run(ag.Runner(writer), "Go."))
    assert told[-2].text == "No connection: down."
    model = scripted(calls(call("broken", request="Go.")))
    writer = ag.chat_agent("w", model, tools=[tool], on_tool_error=(ValueError,))
    failing(drive.run(ag.Runner(writer), "Go."), ConnectionError)
