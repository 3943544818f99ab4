"""Calls that fail or take too long, and tools that LangChain tries again or replaces."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any

import pytest
from helpers import Disk, Drive, chat, echo, failing, lines, results, scripted
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

LONG = 60


# what becomes of an exception


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


class Handler:
    def handle(self, error: ConnectionError) -> str:
        return f"Handled: {error}."


GIVEN: dict[str, Any] = {
    "a type": ValueError,
    "the type of a base": ConnectionError,
    "several": (ValueError, KeyError),
    "a function of connections": of_connections,
    "a function of two": of_two,
    "a function of all": of_all,
    "a method": Handler().handle,
    "a sentence": "It failed. Try another.",
}


def by_tool_node(given: Any, kind: str) -> Any:
    """Return what LangGraph's own node gives for a call that fails, or the exception."""
    node = ToolNode([fail], handle_tool_errors=given)
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    message = calls(call("fail", kind=kind))
    try:
        return graph.invoke({"messages": [message]})["messages"][-1].text
    except Exception as error:
        return error


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("given", GIVEN)
def test_an_exception_goes_to_the_model_as_in_langgraph(given: str, kind: str) -> None:
    expected = by_tool_node(GIVEN[given], kind)
    writer = chat(
        "w", calls(call("fail", kind=kind)), results, tools=[fail], on_tool_error=GIVEN[given]
    )
    if isinstance(expected, Exception):
        events, raised = failing(ag.Runner(writer).run("Go."), type(expected))
        assert events[-1].error == repr(raised) == repr(expected)
    else:
        assert [*ag.Runner(writer).run("Go.")][-1].text == f"1 fail error: {expected}"


def test_a_function_whose_annotation_says_nothing_is_given_all(drive: Drive) -> None:
    writer = chat("w", calls(call("fail", kind="key")), results, tools=[fail], on_tool_error=of_any)
    assert lines(drive.run(ag.Runner(writer), "Go."))[-1] == "w: 1 fail error: Failed: 'k'."


@pytest.mark.parametrize("on_tool_error", ["return", "raise"])
def test_a_tool_that_handles_its_own_errors_does_so_and_does_not_return_directly(
    drive: Drive, on_tool_error: Any
) -> None:
    def refuse(text: str) -> str:
        """Refuse."""
        raise ToolException(text)

    writer = chat(
        "w",
        calls(call("refuse", text="Not today.")),
        results,
        tools=[StructuredTool.from_function(refuse, handle_tool_error=True)],
        on_tool_error=on_tool_error,
        return_directly="refuse",
    )
    assert lines(drive.run(ag.Runner(writer), "Go."))[-1] == "w: 1 refuse error: Not today."


# timeouts


class Slow:
    """Tools that take long or short, and which calls were cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    async def slow(self, name: str) -> str:
        """Take long."""
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        return name

    async def fast(self, name: str) -> str:
        """Take no time."""
        return name


@pytest.mark.parametrize("timeout", [0.2, timedelta(milliseconds=200), {"slow": 0.2}], ids=str)
@pytest.mark.parametrize("others", [0, 1])
def test_a_call_that_takes_too_long_is_cancelled_and_the_model_reads_it(
    drive: Drive, timeout: Any, others: int
) -> None:
    tools = Slow()
    made = calls(call("slow", name="a"), *[call("fast", name="b")] * others)
    writer = chat("w", made, results, tools=[tools.slow, tools.fast], tool_timeout=timeout)
    *_, last = drive.run(ag.Runner(writer), "Go.")
    error = "TimeoutError('the tool took longer than 0.2 s')\n Please fix your mistakes."
    assert last.text == " | ".join([f"1 slow error: Error: {error}", *["2 fast success: b"] * others])
    assert tools.cancelled == ["a"]


def test_a_call_that_takes_too_long_may_fail_the_agent_and_is_tried_again(drive: Drive) -> None:
    tools = Slow()
    made = calls(call("slow", name="a"))
    writer = chat("w", made, tools=[tools.slow], tool_timeout=0.1, on_tool_error="raise")
    runner = ag.Runner(writer)
    failing(drive.run(runner, "Go.", thread_id="t"), TimeoutError)
    failing(drive.resume(runner, "t"), TimeoutError)
    assert tools.cancelled == ["a", "a"]


def test_a_timeout_error_of_the_tools_own_remains_what_it_is(drive: Drive) -> None:
    async def slow() -> str:
        """Time out."""
        raise TimeoutError("the library is slow")

    writer = chat("w", calls(call("slow")), results, tools=[slow], tool_timeout=LONG)
    assert lines(drive.run(ag.Runner(writer), "Go."))[-1].startswith(
        "w: 1 slow error: Error: TimeoutError('the library is slow')"
    )


def test_a_tool_with_retries_has_the_time_for_all_of_them(drive: Drive) -> None:
    tools = Slow()
    given = tool(tools.slow).with_retry(wait_exponential_jitter=False)
    writer = chat(
        "w", calls(call("slow", name="a")), results, tools=[given], tool_timeout={"slow": 0.1}
    )
    assert "took longer" in lines(drive.run(ag.Runner(writer), "Go."))[-1]
    assert tools.cancelled == ["a"]


NOT_A_TIMEOUT = "tool_timeout={!r} is not a timeout; pass seconds above 0, or a timedelta"
NOT_ASYNC = (
    "tool_timeout names {!r}, which is not one of its async tools "
    "(only an async call can be stopped): fast"
)


@pytest.mark.parametrize(
    ("timeout", "fault"),
    [
        (0, NOT_A_TIMEOUT.format(0)),
        (-1, NOT_A_TIMEOUT.format(-1)),
        ("5", NOT_A_TIMEOUT.format("5")),
        (True, NOT_A_TIMEOUT.format(True)),
        (timedelta(0), NOT_A_TIMEOUT.format(timedelta(0))),
        ({"fast": 0}, NOT_A_TIMEOUT.format(0)),
        ({"sync": 5}, NOT_ASYNC.format("sync")),
        ({"nobody": 5}, NOT_ASYNC.format("nobody")),
    ],
    ids=str,
)
def test_a_timeout_is_above_zero_and_of_an_async_tool(timeout: Any, fault: str) -> None:
    def sync(name: str) -> str:
        """Give the name."""
        return name

    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(chat("w", tools=[sync, Slow().fast], tool_timeout=timeout))
    assert refused.value.faults == (f"w: {fault}",)


# event loops


@pytest.mark.parametrize("topics", [["bees"], ["bees", "wasps"]], ids=" ".join)
def test_a_sync_tool_may_run_an_event_loop_wherever_the_run_is_started(topics: list[str]) -> None:
    def look(topic: str) -> str:
        """Look something up."""
        return asyncio.run(asyncio.sleep(0, f"{topic}!"))

    def run() -> list[str]:
        made = calls(*(call("look", topic=topic) for topic in topics))
        graph = ag.compile_agent(chat("w", made, "Done.", tools=[look]))
        return [message.text for message in graph.invoke({"messages": ["Go."]})["messages"]][2:]

    async def run_in_a_loop() -> list[str]:
        return run()

    assert run() == asyncio.run(run_in_a_loop()) == [*(f"{topic}!" for topic in topics), "Done."]


# with_retry, with_fallbacks and with_config of LangChain


AT_ONCE: Any = {"wait_exponential_jitter": False}


class Flaky:
    """Tools that fail so often, and how often they were tried."""

    def __init__(self, failures: int) -> None:
        self.failures, self.tries = failures, 0

    def attempt(self) -> None:
        self.tries += 1
        if self.tries <= self.failures:
            raise ConnectionError("down")

    def search(
        self, topic: str, state: Annotated[dict[str, Any], InjectedState], ctx: ag.Context
    ) -> str:
        """Search the library."""
        self.attempt()
        return f"{topic} for {ctx.name}, {len(state['messages'])} messages"

    async def asearch(self, topic: str, ctx: ag.Context) -> str:
        """Search the library."""
        self.attempt()
        return f"{topic} for {ctx.name}"

    def acting(self, topic: str) -> Any:
        """Search the library."""
        self.attempt()
        return [ag.SetValues(topic=topic), f"{topic} set"]


class Searching(BaseTool):
    name: str = "searching"
    description: str = "Search the library."
    flaky: Any

    def _run(self, topic: str, ctx: ag.Context) -> str:
        self.flaky.attempt()
        return f"{topic} for {ctx.name}"


@tool
def never(topic: str) -> str:
    """Never be asked."""
    raise AssertionError(topic)


WRAPPED: dict[str, Any] = {
    "retry": lambda given: given.with_retry(stop_after_attempt=3, **AT_ONCE),
    "retry and config": lambda given: (
        given.with_config(tags=["t"]).with_retry(**AT_ONCE).with_config(run_name="r")
    ),
    "retry in fallbacks": lambda given: given.with_retry(**AT_ONCE).with_fallbacks([never]),
}


TOOLS: dict[str, tuple[Any, str]] = {
    "search": (lambda flaky: tool(flaky.search), "bees for w, 2 messages"),
    "asearch": (lambda flaky: tool(flaky.asearch), "bees for w"),
    "acting": (lambda flaky: tool(flaky.acting), "bees set"),
    "searching": (lambda flaky: Searching(flaky=flaky), "bees for w"),
}


@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_with_retries_is_tried_again(drive: Drive, name: str, how: str) -> None:
    flaky, (made, result) = Flaky(failures=2), TOOLS[name]
    model = scripted(calls(call(name, topic="bees")), "Done.")
    given = WRAPPED[how](made(flaky))
    writer = ag.chat_agent("w", model, tools=[given], on_tool_error="raise", instruction="On {topic?}.")
    heard = [each for each in drive.run(ag.Runner(writer), "Go.") if each.kind == "message"]
    assert lines(heard)[1:] == [f"w: {result}", "w: Done."]
    assert flaky.tries == 3
    described = model.tools[0]["function"]
    assert (described["name"], described["description"]) == (name, "Search the library.")
    assert list(described["parameters"]["properties"]) == ["topic"]
    assert model.inputs[1][0].text == ("On bees." if name == "acting" else "On .")


@pytest.mark.parametrize("on_tool_error", ["return", "raise"])
def test_a_tool_that_fails_too_often_fails_as_any_other(drive: Drive, on_tool_error: Any) -> None:
    flaky = Flaky(failures=5)
    given = WRAPPED["retry"](tool(flaky.search))
    made = calls(call("search", topic="bees"))
    runner = ag.Runner(chat("w", made, results, tools=[given], on_tool_error=on_tool_error))
    if on_tool_error == "raise":
        failing(drive.run(runner, "Go."), ConnectionError)
    else:
        assert lines(drive.run(runner, "Go."))[-1] == (
            "w: 1 search error: Error: ConnectionError('down')\n Please fix your mistakes."
        )
    assert flaky.tries == 3


def test_a_tool_may_have_fallbacks(drive: Drive) -> None:
    @tool
    def catalogue(topic: str) -> list[Any]:
        """Search the catalogue."""
        return ["Found.", ag.SetValues(topic=topic)]

    model = scripted(calls(call("search", topic="bees")), results)
    given = tool(Flaky(failures=1).search).with_fallbacks([catalogue])
    writer = ag.chat_agent("w", model, tools=[given], instruction="On {topic?}.")
    assert lines(drive.run(ag.Runner(writer), "Go."))[-1] == "w: 1 search success: Found."
    assert model.inputs[1][0].text == "On bees."


@pytest.mark.parametrize("how", ["retry", "retry in fallbacks"])
def test_a_question_is_not_a_failure_that_is_tried_again(disk: Disk, how: str) -> None:
    ran: list[str] = []

    @tool
    def ask() -> str:
        """Ask a person."""
        ran.append("ask")
        return str(interrupt("Sure?"))

    tree = chat("w", calls(call("ask")), results, tools=[WRAPPED[how](ask)])
    assert lines(disk.run(tree))[1:] == ["w: [asks] Sure?"]
    assert ran == ["ask"]
    assert lines(disk.resume(tree, "yes")) == ["w: yes", "w: 1 ask success: yes"]
    assert ran == ["ask", "ask"]


def test_bad_arguments_of_a_tool_with_retries_go_back_to_the_model(drive: Drive) -> None:
    given = WRAPPED["retry"](tool(Flaky(failures=0).search))
    writer = chat(
        "w", calls(call("search", subject="bees")), "Done.", tools=[given], on_tool_error="raise"
    )
    assert lines(drive.run(ag.Runner(writer), "Go."))[1].startswith(
        "w: Error invoking tool 'search' with kwargs {'subject': 'bees'} with error:"
    )


@pytest.mark.parametrize("by_tool", [True, False])
def test_a_tool_with_retries_may_return_directly(drive: Drive, by_tool: bool) -> None:
    given = StructuredTool.from_function(echo, return_direct=by_tool).with_retry(**AT_ONCE)
    directly = [] if by_tool else ["echo"]
    writer = chat("w", calls(call("echo", text="bees")), tools=[given], return_directly=directly)
    assert lines(drive.run(ag.Runner(writer), "Go."))[1:] == ["w: bees"]


def test_a_runnable_without_a_tool_in_it_is_not_a_tool() -> None:
    with pytest.raises(ag.InvalidAgentError, match="cannot be used as a tool"):
        ag.compile_agent(chat("w", tools=[scripted().with_retry()]))
