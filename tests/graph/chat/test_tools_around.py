"""Tools with something around them, and retries and limits of tools by LangChain's middleware."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Disk, Drive, failing, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware, ToolRetryMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

AT_ONCE = {"wait_exponential_jitter": False}


class Flaky:
    """Tools that fail so often, each counting its attempts."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.tries: Counter[str] = Counter()

    def attempt(self, name: str) -> None:
        self.tries[name] += 1
        if self.tries[name] <= self.failures:
            raise ConnectionError("down")

    def tools(self) -> dict[str, Any]:
        def search(topic: str, state: Annotated[dict[str, Any], InjectedState], ctx: ag.Context) -> str:
            """Search the library."""
            self.attempt("search")
            return f"{topic} for {ctx.name}, {len(state['messages'])} messages"

        async def asearch(topic: str, ctx: ag.Context) -> str:
            """Search the library."""
            self.attempt("asearch")
            return f"{topic} for {ctx.name}"

        def acting(topic: str) -> Any:
            """Search the library."""
            self.attempt("acting")
            return [ag.SetValues(topic=topic), "Found."]

        outer = self

        class Searching(BaseTool):
            name: str = "searching"
            description: str = "Search the library."

            def _run(self, topic: str, ctx: ag.Context) -> str:
                outer.attempt("searching")
                return f"{topic} for {ctx.name}"

        given = {"search": search, "asearch": asearch, "acting": acting}
        return {**{name: tool(fn) for name, fn in given.items()}, "searching": Searching()}


@tool
def other(topic: str) -> str:
    """Never be asked."""
    raise AssertionError(topic)


OTHER: Any = other
EXPECTED = {
    "search": "bees for w, 2 messages",
    "asearch": "bees for w",
    "acting": "Found.",
    "searching": "bees for w",
}


def results(told: list[ag.AgentEvent]) -> list[str]:
    return [each.message.text for each in told if isinstance(each.message, ToolMessage)]


def around(given: Any, how: str) -> Any:
    match how:
        case "retry":
            return given.with_retry(stop_after_attempt=3, **AT_ONCE)
        case "retry and config":
            return given.with_config(tags=["t"]).with_retry(**AT_ONCE).with_config(run_name="r")
        case "retry in fallbacks":
            return given.with_retry(**AT_ONCE).with_fallbacks([OTHER])
    raise AssertionError(how)


@pytest.mark.parametrize("how", ["retry", "retry and config"])
@pytest.mark.parametrize("name", EXPECTED)
def test_a_tool_with_retries_is_tried_again(drive: Drive, name: str, how: str) -> None:
    flaky = Flaky(failures=2)
    given = around(flaky.tools()[name], how)
    model = scripted(calls(call(name, topic="bees")), "Done.")
    runner = ag.Runner(ag.chat_agent("w", model, tools=[given], on_tool_error="raise"))
    told = list(drive.run(runner, "Go.", thread_id="t"))
    assert results(told) == [EXPECTED[name]]
    assert flaky.tries[name] == 3
    (bound,) = model.tools
    assert (bound["function"]["name"], bound["function"]["description"]) == (
        name,
        "Search the library.",
    )
    assert list(bound["function"]["parameters"]["properties"]) == ["topic"]
    values = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values.get("values", {})
    assert values == ({"topic": "bees"} if name == "acting" else {})
    assert list(runner.events("t")) == told


def test_a_tool_that_fails_too_often_fails_as_any_other(drive: Drive) -> None:
    flaky = Flaky(failures=5)
    given = around(flaky.tools()["search"], "retry")
    model = scripted(calls(call("search", topic="bees")), "Done.")
    told = list(drive.run(ag.Runner(ag.chat_agent("w", model, tools=[given])), "Go."))
    assert results(told) == ["Error: ConnectionError('down')\n Please fix your mistakes."]
    assert flaky.tries["search"] == 3
    given = around(Flaky(failures=5).tools()["search"], "retry")
    model = scripted(calls(call("search", topic="bees")))
    runner = ag.Runner(ag.chat_agent("w", model, tools=[given], on_tool_error="raise"))
    failing(drive.run(runner, "Go."), ConnectionError)


def test_a_tool_may_have_fallbacks(drive: Drive) -> None:
    @tool
    def library(topic: str) -> str:
        """Search the library."""
        raise ConnectionError("closed")

    @tool
    def catalogue(topic: str) -> list[Any]:
        """Search the catalogue."""
        return ["Found.", ag.SetValues(topic=topic)]

    model = scripted(calls(call("library", topic="bees")), "Done.")
    runner = ag.Runner(ag.chat_agent("w", model, tools=[library.with_fallbacks([catalogue])]))
    told = list(drive.run(runner, "Go.", thread_id="t"))
    assert results(told) == ["Found."]
    assert [each["function"]["name"] for each in model.tools] == ["library"]
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"topic": "bees"}


@pytest.mark.parametrize("how", ["retry", "retry in fallbacks"])
def test_a_question_is_no_failure_that_is_tried_again(drive: Drive, tmp_path: Path, how: str) -> None:
    ran: list[str] = []

    @tool
    def ask(topic: str) -> str:
        """Ask a person."""
        ran.append("ask")
        return f"{topic}: {interrupt('Sure?')}"

    model = scripted(calls(call("ask", topic="bees")), "Done.")
    tree = ag.chat_agent("w", model, tools=[around(ask, how)])
    disk = Disk(drive, tmp_path / "db")
    assert transcript(disk.run(tree))[1:] == ["w: [asks] Sure?"]
    assert ran == ["ask"]
    assert transcript(disk.resume(tree, "yes")) == ["w: bees: yes", "w: Done."]
    assert ran == ["ask", "ask"]


def test_bad_arguments_of_a_tool_with_retries_go_back_to_the_model(drive: Drive) -> None:
    flaky = Flaky(failures=0)
    given = around(flaky.tools()["search"], "retry")
    model = scripted(calls(call("search", subject="bees")), "Done.")
    runner = ag.Runner(ag.chat_agent("w", model, tools=[given], on_tool_error="raise"))
    (told,) = results(list(drive.run(runner, "Go.")))
    assert told.startswith("Error invoking tool 'search' with kwargs {'subject': 'bees'} with error:")


def test_a_tool_with_retries_may_return_directly_and_is_known_by_its_name(drive: Drive) -> None:
    def search(topic: str) -> str:
        """Search."""
        return topic

    direct = StructuredTool.from_function(search, return_direct=True).with_retry(**AT_ONCE)
    model = scripted(calls(call("search", topic="bees")))
    told = list(drive.run(ag.Runner(ag.chat_agent("w", model, tools=[direct])), "Go."))
    assert transcript(told)[1:] == ["w: bees"]
    named = tool(search).with_retry(**AT_ONCE)
    model = scripted(calls(call("search", topic="bees")))
    writer = ag.chat_agent("w", model, tools=[named], return_directly=["search"])
    assert transcript(drive.run(ag.Runner(writer), "Go."))[1:] == ["w: bees"]


def test_a_runnable_without_a_tool_in_it_is_no_tool() -> None:
    model = scripted()
    with pytest.raises(ag.InvalidAgentError, match="cannot be used as a tool"):
        ag.compile_agent(ag.chat_agent("w", model, tools=[model.with_retry()]))


# LangChain's own means


def middleware_for(*names: str) -> list[Any]:
    return [
        ToolRetryMiddleware(max_retries=2, tools=list(names), initial_delay=0.0, jitter=False),
        ToolCallLimitMiddleware(tool_name=names[0], run_limit=2),
    ]


def test_retries_and_limits_for_one_tool_are_those_of_langchain(drive: Drive) -> None:
    """The same as `create_agent` gives with the same middleware."""

    def given() -> tuple[Any, Flaky, list[Any]]:
        flaky = Flaky(failures=1)

        @tool
        def search(topic: str) -> str:
            """Search."""
            flaky.attempt("search")
            return topic

        @tool
        def elsewhere(topic: str) -> str:
            """Search elsewhere."""
            flaky.tries["elsewhere"] += 1
            return topic

        replies = [
            calls(call("search", topic="one"), call("elsewhere", topic="one")),
            calls(call("search", topic="two")),
            calls(call("search", topic="three"), call("elsewhere", topic="three")),
            "Done.",
        ]
        return scripted(*replies), flaky, [search, elsewhere]

    model, flaky, tools = given()
    writer = ag.chat_agent(
        "w", model, tools=tools, middleware=middleware_for("search"), on_tool_error="return"
    )
    told = sorted(results(list(drive.run(ag.Runner(writer), "Go."))))
    assert flaky.tries == {"search": 3, "elsewhere": 2}
    model, theirs, tools = given()
    graph = create_agent(model, tools, middleware=middleware_for("search"))
    messages = graph.invoke({"messages": ["Go."]})["messages"]
    assert theirs.tries == flaky.tries
    assert told == sorted(each.text for each in messages if isinstance(each, ToolMessage))
