"""Tools of chat agents: which kinds there are, what they are given, and what they may return."""

import asyncio
import threading
from typing import Annotated, Any

import pytest
from helpers import (
    Disk,
    Drive,
    add,
    ask_person,
    chat,
    echo,
    failing,
    lines,
    removal,
    results,
    scripted,
    sent,
    tool,
)
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langchain_core.tools import tool as as_tool
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls

SECONDS = 20
"""How long a test waits for what must come."""


class Calculator:
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


class LaterCalculator:
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        await asyncio.sleep(0)
        return a + b


class Adder(BaseTool):
    name: str = "add"
    description: str = "Add two numbers."

    def _run(self, a: int, b: int) -> int:
        return a + b


class Numbers(BaseModel):
    a: int = Field(ge=0)
    b: int = Field(ge=0)


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
KINDS = {
    "a function": add,
    "a method": Calculator().add,
    "an async method": LaterCalculator().add,
    "a decorated function": as_tool(add),
    "a structured tool": StructuredTool.from_function(add),
    "arguments by a model": StructuredTool.from_function(add, args_schema=Numbers),
    "arguments by a JSON schema": StructuredTool.from_function(add, args_schema=SCHEMA),
    "a class": Adder(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_is_a_function_or_any_tool_of_langchain(drive: Drive, kind: str) -> None:
    model = scripted(calls(call("add", a=2, b=3)), results)
    given: Any = KINDS[kind]
    assert lines(drive.run(ag.Runner(ag.chat_agent("writer", model, tools=[given])), "2 + 3?")) == [
        'writer: [calls] add({"a": 2, "b": 3})',
        "writer: 5",
        "writer: 1 add success: 5",
    ]
    (described,) = model.tools
    assert described["function"]["name"] == "add"
    assert described["function"]["parameters"]["required"] == ["a", "b"]


def test_a_model_may_give_its_calls_in_a_chunk(drive: Drive) -> None:
    class Chunks(RunnableLambda[Any, Any]):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    parts = [
        tool_call_chunk(name="add", args='{"a": 2, ', id="1", index=0),
        tool_call_chunk(args='"b": 3}', index=0),
    ]
    first, second = (AIMessageChunk("", tool_call_chunks=[part]) for part in parts)
    replies = [first + second, AIMessage("Five.")]
    writer = ag.chat_agent("writer", Chunks(lambda _: replies.pop(0)), tools=[add])
    assert lines(drive.run(ag.Runner(writer), "Go.")) == [
        'writer: [calls] add({"a": 2, "b": 3})',
        "writer: 5",
        "writer: Five.",
    ]


# what reaches a tool


def test_state_store_runtime_config_and_call_id_reach_a_tool(drive: Drive) -> None:
    seen: dict[str, Any] = {}

    def look(
        q: str,
        runtime: ToolRuntime,
        state: Annotated[dict[str, Any], InjectedState],
        values: Annotated[dict[str, Any], InjectedState("values")],
        store: Annotated[BaseStore, InjectedStore()],
        call_id: Annotated[str, InjectedToolCallId],
        config: RunnableConfig,
    ) -> str:
        """Look around."""
        seen.update(runtime=runtime, state=state, values=values, store=store, id=call_id, config=config)
        return q

    model = scripted(calls(call("look", "7", q="bees")), results)
    tree = ag.sequential("s", [ag.chat_agent("writer", model, tools=[look])])
    store = InMemoryStore()
    events = lines(drive.run(ag.Runner(tree, store=store), "Go.", thread_id="t", values={"topic": 1}))

    assert events[-1] == "s/writer: 7 look success: bees"
    assert list(model.tools[0]["function"]["parameters"]["properties"]) == ["q"]
    runtime = seen["runtime"]
    assert seen["id"] == runtime.tool_call_id == "7"
    assert seen["values"] == seen["state"]["values"] == runtime.state["values"] == {"topic": 1}
    assert [message.type for message in seen["state"]["messages"]] == ["human", "ai"]
    assert seen["store"] is runtime.store is store
    assert seen["config"]["configurable"]["thread_id"] == "t"
    assert runtime.config["configurable"]["thread_id"] == "t"
    assert [each.name for each in runtime.tools] == ["look"]


def test_a_tool_in_a_branch_sees_what_was_before_the_fork(drive: Drive) -> None:
    def look(state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Look around."""
        return f"{[message.text for message in state['messages']]} {state['values']}"

    first = ag.function_agent("first", lambda ctx: "Before.", output_key="said")
    writer = chat("writer", calls(call("look")), results, tools=[look])
    tree = ag.sequential("s", [first, ag.parallel("p", [writer])])
    assert lines(drive.run(ag.Runner(tree), "Go."))[-1] == (
        "s/p/writer: 1 look success: ['Go.', '[first] said: Before.', ''] {'said': 'Before.'}"
    )


# what a tool may return


def test_a_command_of_a_tool_writes_values_and_messages(drive: Drive) -> None:
    """Keys of the update that are not of the state are values, too."""

    def choose(topic: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Choose a topic."""
        said = ToolMessage(f"{topic} it is", tool_call_id=tool_call_id)
        messages = [said, HumanMessage(f"Mind the {topic}.")]
        return Command(update={"values": {"topic": topic}, "last": topic, "messages": messages})

    made = calls(call("choose", "1", topic="bees"), call("echo", "2", text="x"))
    writer = chat("writer", made, sent, tools=[choose, echo], parallel_tools=False, history="input")
    critic = chat("critic", sent, instruction="On {topic}, {last}.", history="input")
    assert lines(drive.run(ag.Runner(ag.sequential("s", [writer, critic])), "Go."))[1:] == [
        "s/writer: [values] topic, last",
        "s/writer: bees it is",
        "s/writer: Mind the bees.",
        "s/writer: x",
        "s/writer: human: Go. | ai:  | tool: bees it is | tool: x | human: Mind the bees.",
        "s/critic: system: On bees, bees. | human: Go.",
    ]


def test_a_command_without_a_message_is_answered(drive: Drive) -> None:
    writer = chat("w", calls(call("note")), results, tools=[tool("note", Command(update={"n": 1}))])
    assert lines(drive.run(ag.Runner(writer), "Go."))[-1] == "w: 1 note success: Done."


def test_a_result_for_another_call_is_taken_for_this_one(drive: Drive) -> None:
    other = ToolMessage("Found.", tool_call_id="7")
    writer = chat("w", calls(call("look")), results, tools=[tool("look", other)])
    assert lines(drive.run(ag.Runner(writer), "Go."))[-1] == "w: 1 look success: Found."


def test_a_result_may_have_an_artifact(drive: Drive) -> None:
    @as_tool(response_format="content_and_artifact")
    def look() -> tuple[str, dict[str, Any]]:
        """Look."""
        return "two rows", {"rows": [1, 2]}

    runner = ag.Runner(chat("writer", calls(call("look")), results, tools=[look]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert events[-1].text == "1 look success: two rows"
    assert isinstance(events[1].message, ToolMessage)
    assert events[1].message.artifact == {"rows": [1, 2]}
    assert list(runner.events("t")) == events


def test_a_tool_may_ask_a_model_of_its_own_whose_words_are_not_emitted(drive: Drive) -> None:
    inner = scripted("inner words")

    def consult(runtime: ToolRuntime) -> str:
        """Consult another model."""
        runtime.stream_writer({"progress": 1})
        return str(inner.invoke("Hi.").text).upper()

    runner = ag.Runner(chat("writer", calls(call("consult")), "Done.", tools=[consult]))
    events = list(drive.run(runner, "Go.", stream=True))
    assert lines(events) == [
        "writer: [calls] consult({})",
        'writer: [custom] {"progress": 1}',
        "writer: INNER WORDS",
        "writer: Done.",
    ]
    assert [event.text for event in events if event.partial and event.text] == ["Done."]


class LastTopic(TypedDict):
    topic: Annotated[str, lambda _, new: new]


def test_values_that_several_calls_set_are_merged_in_the_order_of_the_calls(drive: Drive) -> None:
    second_ended = threading.Event()

    def choose(topic: str) -> ag.SetValues:
        """Choose a topic."""
        if topic == "bees":
            assert second_ended.wait(SECONDS)
        second_ended.set()
        return ag.SetValues(topic=topic, **{topic: True})

    made = calls(call("choose", "1", topic="bees"), call("choose", "2", topic="wasps"))
    runner = ag.Runner(chat("writer", made, "Chosen.", tools=[choose]), values=LastTopic)
    list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    assert state.values["values"] == {"topic": "wasps", "bees": True, "wasps": True}


def test_async_tools_may_ask_and_act(disk: Disk) -> None:
    async def aask(what: str) -> list[ag.SetValues | ag.Exit]:
        """Ask a person."""
        await asyncio.sleep(0)
        return [ag.SetValues(**{what: interrupt(what)}), ag.Exit()]

    writer = chat(
        "writer", calls(call("aask", "1", what="a"), call("aask", "2", what="b")), tools=[aask]
    )
    tree = ag.sequential("s", [writer, chat("critic", "Never.")])
    asked = {event.action.interrupted.id for event in disk.run(tree) if event.kind == "interrupted"}
    assert lines(disk.resume(tree, dict.fromkeys(asked, "yes")))[-2:] == [
        "s/writer: Done.",
        "s/writer: [exit]",
    ]


# what is refused


@pytest.mark.parametrize("several", [False, True], ids=["alone", "in a list"])
@pytest.mark.parametrize("given", [ag.Exit(), ag.BreakLoop()], ids=["Exit", "BreakLoop"])
def test_an_action_that_the_annotation_does_not_name_is_refused(
    drive: Drive, given: Any, several: bool
) -> None:
    def stop() -> str:
        """Stop."""
        return [given] if several else given

    tree = ag.loop("l", [chat("writer", calls(call("stop")), tools=[stop])], max_iterations=2)
    events, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    name = type(given).__name__
    assert str(raised) == (
        f"l[0]/writer: the tool 'stop' returned {name}, which its return annotation does not name; "
        f"add it, as in `-> str | {name}`, so that the graph has an edge for it"
    )
    assert lines(events)[1:] == [f"l[0]/writer: [error] {raised!r}"]


def test_a_change_of_messages_that_the_annotation_does_not_name_is_refused(drive: Drive) -> None:
    """Such a tool costs nothing: only where one may return a command the graph keeps what is seen."""

    def tidy(tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Tidy up."""
        messages = [removal(), ToolMessage("tidied", tool_call_id=tool_call_id)]
        return Command(update={"messages": messages})  # type: ignore[return-value]

    runner = ag.Runner(chat("w", calls(call("tidy")), tools=[tidy]))
    assert "middleware" not in runner.graph.channels
    _, raised = failing(drive.run(runner, "Go."), ag.InvalidOutputError)
    assert str(raised) == (
        "w: the tool 'tidy' returned a Command that replaces or removes messages, which its return "
        "annotation does not name; add it, as in `-> str | Command`, so that the graph keeps what the "
        "agent sees"
    )


COMMAND = (
    "; a command may update the state, and transfer to one agent by Command(goto=name, "
    "graph=Command.PARENT); return TransferTo(name), Exit() or BreakLoop() to go elsewhere"
)
REFUSED = {
    "a question": (
        ag.Ask("Sure?"),
        "Ask(value='Sure?', response_schema=None)",
        "; call langgraph.types.interrupt() in it, which returns the answer",
    ),
    "a command to go on": (Command(goto="critic"), "Command(goto='critic')", COMMAND),
    "a command for a graph": (Command(graph="g"), "Command(graph='g')", COMMAND),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_tool_may_not_return_is_refused(drive: Drive, kind: str) -> None:
    given, shown, instead = REFUSED[kind]
    if isinstance(given, Command):
        given = [given, ToolMessage("Gone.", tool_call_id="1")]
    tree = ag.sequential("s", [chat("writer", calls(call("go")), "Never.", tools=[tool("go", given)])])
    _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(raised) == f"s/writer: the tool 'go' returned {shown}{instead}"


def test_a_tool_that_is_gone_when_its_question_is_answered_is_not_a_valid_one(disk: Disk) -> None:
    model = scripted(calls(call("ask_person", what="Sure?")), "Done.")
    disk.run(ag.chat_agent("writer", model, tools=[ask_person]))
    assert lines(disk.resume(ag.chat_agent("writer", model, tools=[echo]), "yes")) == [
        "writer: Error: ask_person is not a valid tool, try one of [echo].",
        "writer: Done.",
    ]
