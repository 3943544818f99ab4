"""What tools see: the agent's context in their state, and the whole run through a `Context`."""

import asyncio
from typing import Annotated, Any

import pytest
from helpers import Disk, Drive, chat, echo, lines, middleware, removal, results, says, scripted
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, tool
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls


def texts(messages: Any) -> str:
    return " | ".join(message.text for message in messages if message.text)


def by_runtime(runtime: ToolRuntime) -> str:
    """Look around."""
    return texts(runtime.state["messages"])


def by_state(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Look around."""
    return texts(state["messages"])


def by_messages(messages: Annotated[list[Any], InjectedState("messages")]) -> str:
    """Look around."""
    return texts(messages)


async def by_runtime_later(runtime: ToolRuntime) -> str:
    """Look around, later."""
    await asyncio.sleep(0)
    return texts(runtime.state["messages"])


def shorter() -> Any:
    """Return middleware that leaves the agent a summary and what is newest."""

    def before_agent(state: Any) -> Any:
        return {"messages": [removal(), HumanMessage("In short."), *state["messages"][-1:]]}

    return middleware("Shorter", before_agent=before_agent)


def watching(seen: list[str]) -> Any:
    """Return middleware that notes what a wrap of a tool call sees."""

    def note(request: Any) -> Any:
        seen.append(texts(request.state["messages"]))
        return (yield request)

    return middleware("Watching", wrap_tool_call=note)


def texts_of_results(drive: Drive, agent: ag.Agent, **options: Any) -> list[str]:
    """Return what the tools of an agent returned, which runs after one that says `Before.`"""
    tree = ag.sequential("s", [says("first", "Before."), agent])
    events = drive.run(ag.Runner(tree), "Go.", **options)
    return [event.text for event in events if isinstance(event.message, ToolMessage)]


@pytest.mark.parametrize(
    ("history", "stack", "seen"),
    [
        ("shared", [], "Go. | [first] said: Before."),
        ("input", [], "Go."),
        (lambda entries: [HumanMessage("Chosen.")], [], "Chosen."),
        ("input", [shorter()], "In short. | Go."),
    ],
    ids=["shared", "input", "a function", "changed by middleware"],
)
def test_the_state_of_a_tool_has_what_the_agent_sees(
    drive: Drive, history: Any, stack: Any, seen: str
) -> None:
    tools = [by_runtime, by_state, by_messages, by_runtime_later]
    model = scripted(*(calls(call(each.__name__)) for each in tools), "Done.")
    writer = ag.chat_agent("writer", model, tools=tools, history=history, middleware=stack)
    results = texts_of_results(drive, writer)
    assert texts(model.inputs[0]) == seen
    assert results == [" | ".join([seen, *results[:n]]) for n in range(4)]


def test_a_wrap_of_a_tool_call_sees_what_the_agent_sees(drive: Drive) -> None:
    seen: list[str] = []
    stack = [shorter(), watching(seen)]
    made = calls(call("echo", text="hi"))
    writer = chat("w", made, "Done.", tools=[echo], history="input", middleware=stack)
    assert texts_of_results(drive, writer) == ["hi"]
    assert seen == ["In short. | Go."]


def test_what_the_agent_sees_is_looked_up_only_where_a_tool_asks(drive: Drive) -> None:
    def look_ups(*made: Any) -> int:
        asked: list[int] = []

        def history(entries: list[ag.Entry]) -> list[BaseMessage]:
            asked.append(len(entries))
            return [entry.message for entry in entries]

        tools = [echo, by_runtime, by_state]
        texts_of_results(drive, chat("w", calls(*made), "Done.", tools=tools, history=history))
        return len(asked)

    assert look_ups(call("echo", text="hi"), call("echo", text="ho")) == 2
    assert look_ups(call("by_runtime"), call("by_state"), call("echo", text="hi")) == 3


def test_a_tool_that_changes_its_messages_changes_nothing_for_others(drive: Drive) -> None:
    def clear(runtime: ToolRuntime) -> str:
        """Forget everything."""
        runtime.state["messages"].clear()
        return "Cleared."

    made = calls(call("clear"), call("by_runtime"))
    writer = chat("w", made, "Done.", tools=[clear, by_runtime], parallel_tools=False)
    assert texts_of_results(drive, writer) == ["Cleared.", "Go. | [first] said: Before."]


def test_a_state_without_the_value_that_a_tool_asks_for_goes_back_to_the_model(drive: Drive) -> None:
    def look(topic: Annotated[int, InjectedState("topic")]) -> str:
        """Look around."""
        return str(topic)

    assert texts_of_results(drive, chat("w", calls(call("look")), "Done.", tools=[look])) == [
        "Error: KeyError('topic')\n Please fix your mistakes."
    ]


# a context


def whole(ctx: ag.Context) -> str:
    return f"{texts(ctx.messages)} by {ctx.name} at {ctx.address}, {dict(ctx.values)}"


def function(word: str, ctx: ag.Context) -> str:
    """Say it all."""
    return f"{word}: {whole(ctx)}"


async def async_function(word: str, ctx: ag.Context) -> str:
    """Say it all, later."""
    await asyncio.sleep(0)
    return f"{word}: {whole(ctx)}"


def annotated(word: str, context: Annotated[ag.Context, InjectedToolArg]) -> str:
    """Say it all."""
    return f"{word}: {whole(context)}"


def optional(word: str, ctx: Annotated[ag.Context | None, InjectedToolArg] = None) -> str:
    """Say it all."""
    assert ctx is not None
    return f"{word}: {whole(ctx)}"


def with_runtime(word: str, ctx: ag.Context, runtime: ToolRuntime) -> str:
    """Say it all."""
    assert "Before." not in texts(runtime.state["messages"]).split(" | ")[1:2]
    return f"{word}: {whole(ctx)}"


class Saying(BaseTool):
    name: str = "saying"
    description: str = "Say it all."

    def _run(self, word: str, ctx: ag.Context) -> str:
        return f"{word}: {whole(ctx)}"


SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
GIVEN = {
    "function": function,
    "async_function": async_function,
    "annotated": annotated,
    "optional": optional,
    "with_runtime": with_runtime,
    "decorated": tool("decorated")(function),
    "async decorated": tool("async_decorated")(async_function),
    "saying": Saying(),
    "JSON schema": StructuredTool.from_function(function, name="js", args_schema=SCHEMA),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_tool_sees_the_whole_run_through_a_context_that_the_model_does_not_see(
    drive: Drive, kind: str
) -> None:
    given: Any = GIVEN[kind]
    name = getattr(given, "name", kind)
    forged = {"context" if kind == "annotated" else "ctx": "mine"}
    model = scripted(calls(call(name, word="Here")), calls(call(name, word="There", **forged)), "Done.")
    writer = ag.chat_agent("writer", model, tools=[given], history="input")
    first, second = texts_of_results(drive, writer, values={"n": 1})
    assert first == "Here: Go. | Before. by writer at s/writer, {'n': 1}"
    assert second.startswith("There: Go. | Before. | Here:")
    assert list(model.tools[0]["function"]["parameters"]["properties"]) == ["word"]
    assert model.tools[0]["function"]["parameters"]["required"] == ["word"]


def test_a_context_is_given_through_a_wrap_and_after_a_resume(disk: Disk) -> None:
    def ask(ctx: ag.Context) -> str:
        """Ask a person."""
        return f"{interrupt('Well?')} {whole(ctx)}"

    writer = chat("writer", calls(call("ask")), results, tools=[ask], middleware=[watching([])])
    tree = ag.loop("l", [writer], max_iterations=1)
    disk.run(tree)
    assert lines(disk.resume(tree, "Yes."))[-1] == (
        "l[0]/writer: 1 ask success: Yes. Go. by writer at l[0]/writer, {}"
    )


def test_a_tool_that_middleware_brings_or_puts_in_is_given_a_context(drive: Drive) -> None:
    def put_in(request: Any) -> Any:
        found = request if request.tool else request.override(tool=tool("put_in")(function))
        return (yield found)

    bringing = middleware(tools=[tool("brought")(function)], wrap_tool_call=put_in)
    made = [calls(call("brought", word="A")), calls(call("put_in", word="B"))]
    first, second = texts_of_results(drive, chat("writer", *made, "Done.", middleware=[bringing]))
    assert first == "A: Go. | Before. by writer at s/writer, {}"
    assert second.startswith("B: Go. | Before. | A:")


@pytest.mark.parametrize("stack", [[], [watching([])]], ids=["alone", "wrapped"])
def test_calls_in_sequence_see_what_those_before_them_wrote(drive: Drive, stack: Any) -> None:
    def add(n: int) -> ag.SetValues:
        """Write a value."""
        return ag.SetValues(topic=n, **{f"n{n}": True})

    def look(
        state: Annotated[dict[str, Any], InjectedState],
        topic: Annotated[int, InjectedState("topic")],
        runtime: ToolRuntime,
        ctx: ag.Context,
    ) -> str:
        """Look around."""
        flat = {topic, state["topic"], runtime.state["topic"], ctx.values["topic"]}
        return f"{flat} {state['values']}"

    made = [call("look"), call("add", n=2), call("look"), call("add", n=3), call("look")]
    script = [calls(*made), calls(call("look")), "Done."]
    options: Any = {"tools": [add, look], "parallel_tools": False, "middleware": stack}
    seen = texts_of_results(drive, chat("writer", *script, **options), values={"topic": 1})
    assert [each for each in seen if each != "Done."] == [
        "{1} {'topic': 1}",
        "{2} {'topic': 2, 'n2': True}",
        *["{3} {'topic': 3, 'n2': True, 'n3': True}"] * 2,
    ]
