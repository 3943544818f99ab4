"""LangChain's middleware around the calls of a chat agent, side by side with `create_agent`."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from helpers import Async, Drive, scripted, shapes, standing
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ContextEditingMiddleware,
    ExtendedModelResponse,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelFallbackMiddleware,
    ModelResponse,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
    dynamic_prompt,
    wrap_model_call,
)
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, transcript


class Both(AgentMiddleware[Any, Any, Any]):
    """Notes what passes, around the model and around tools."""

    def __init__(self, label: str, log: list[str]) -> None:
        super().__init__()
        self.label, self.log = label, log

    @property
    def name(self) -> str:
        return self.label

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self._note(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self._note(request)
        return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self._note_tool(request)
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self._note_tool(request)
        return await handler(request)

    def _note(self, request: Any) -> None:
        names = [each.name for each in request.tools]
        self.log.append(
            f"{self.label}: {request.system_prompt}, {len(request.messages)}, "
            f"{type(request.model).__name__}, {names}, {len(request.state['messages'])}"
        )

    def _note_tool(self, request: Any) -> None:
        called, seen = request.tool_call, len(request.state["messages"])
        self.log.append(f"{self.label}: {called['name']} {called['args']} {request.tool.name}, {seen}")


class Flaky:
    """A tool that fails before it succeeds."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def tool(self) -> BaseTool:
        @tool
        def search(topic: str) -> str:
            """Search."""
            self.left -= 1
            if self.left >= 0:
                raise OSError(f"no line {self.left}")
            return f"3 books about {topic}"

        return search


@tool
def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}!"


def asks(*made: Any, text: str = "") -> AIMessage:
    return calls(*made, text=text)


def theirs(drive: Drive, model: Any, tools: Any, middleware: Any, system: str | None) -> list[Any]:
    agent = create_agent(model, tools, system_prompt=system, middleware=middleware)
    given: Any = {"messages": [HumanMessage("Go.")]}
    ended = asyncio.run(agent.ainvoke(given)) if drive is Async else agent.invoke(given)
    return shapes(ended["messages"])


def ours(drive: Drive, model: Any, tools: Any, middleware: Any, system: str | None) -> list[Any]:
    agent = ag.chat_agent("writer", model, tools=tools, middleware=middleware, instruction=system or "")
    runner = ag.Runner(ag.sequential("s", [agent]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert sorted(runner.events("t"), key=events.index) == events
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    return shapes(state["messages"])


def rewriting() -> list[Any]:
    @wrap_model_call
    def loud(request: Any, handler: Any) -> Any:
        response = handler(request)
        [reply] = response.result
        return ModelResponse(result=[reply.model_copy(update={"content": reply.text.upper()})])

    return [loud]


def arewriting() -> list[Any]:
    @wrap_model_call
    async def loud(request: Any, handler: Any) -> Any:
        response = await handler(request)
        [reply] = response.result
        return AIMessage(reply.text.upper(), tool_calls=reply.tool_calls)

    return [loud]


class Short(AgentMiddleware[Any, Any, Any]):
    """Answers in the place of the model and of a tool."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return self._answer(request) or handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return self._answer(request) or await handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return ToolMessage("cached", tool_call_id=request.tool_call["id"], name="look")

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return self.wrap_tool_call(request, handler)

    def _answer(self, request: Any) -> AIMessage | None:
        return AIMessage("Enough.") if len(request.messages) > 2 else None


class Answered(AgentMiddleware[Any, Any, Any]):
    """Answers the calls of the model's message itself; the model is asked again."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return self._with_results(handler(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return self._with_results(await handler(request))

    def _with_results(self, response: Any) -> Any:
        [reply] = response.result
        results = [
            ToolMessage("refused", tool_call_id=each["id"], name=each["name"])
            for each in reply.tool_calls
        ]
        return ModelResponse(result=[reply, *results])


class Adding(AgentMiddleware[Any, Any, Any]):
    """Adds a message beside the model's, by a command."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        said = Command(update={"messages": [AIMessage("And that is all.")]})
        return ExtendedModelResponse(model_response=handler(request), command=said)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        said = Command(update={"messages": [AIMessage("And that is all.")]})
        return ExtendedModelResponse(model_response=await handler(request), command=said)


class Editing(AgentMiddleware[Any, Any, Any]):
    """Calls tools with other arguments, and other tools."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(self._edited(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._edited(request))

    def _edited(self, request: Any) -> Any:
        changed = {**request.tool_call, "args": {"topic": "wasps"}}
        return request.override(tool_call=changed, tool=look)


class Bringing(AgentMiddleware[Any, Any, Any]):
    """Brings a tool."""

    def __init__(self) -> None:
        super().__init__()
        self.tools = [look]


def picked() -> Any:
    """Return a model that selects tools."""
    reply = {
        "name": "ToolSelectionResponse",
        "args": {"tools": ["look"]},
        "id": "s",
        "type": "tool_call",
    }
    return Selecting(responses=[AIMessage("", tool_calls=[reply])] * 3)


class Selecting(ScriptedChatModel):
    def with_structured_output(self, *_: Any, **__: Any) -> Any:
        return self | (lambda message: message.tool_calls[0]["args"])


def stacks() -> dict[str, Callable[[], tuple[Any, list[Any], list[Any], str | None]]]:
    """Return scripts: each gives a model, tools, middleware and a system prompt, all new."""
    one = asks(call("look", topic="bees"))
    two = asks(call("look", "1", topic="a"), call("search", "2", topic="b"))
    return {
        "none": lambda: (scripted(one, "Done."), [look], [], "Be brief."),
        "notes": lambda: (scripted(one, "Done."), [look], [Both("a", []), Both("b", [])], None),
        "several calls": lambda: (
            scripted(two, "Done."),
            [look, Flaky(0).tool()],
            [Both("a", [])],
            "Be brief.",
        ),
        "dynamic prompt": lambda: (
            scripted(one, lambda messages: f"{messages[0].text} {len(messages)}"),
            [look],
            [dynamic_prompt(lambda request: f"At {len(request.messages)}.")],
            "Be brief.",
        ),
        "model retry": lambda: (
            scripted(OSError("no line"), one, OSError("no line"), "Done."),
            [look],
            [ModelRetryMiddleware(max_retries=2, initial_delay=0)],
            None,
        ),
        "model fallback": lambda: (
            scripted(OSError("no line"), OSError("no line")),
            [look],
            [ModelFallbackMiddleware(scripted(one, "Done."))],
            "Be brief.",
        ),
        "tool retry": lambda: (
            scripted(two, "Done."),
            [look, Flaky(2).tool()],
            [ToolRetryMiddleware(max_retries=2, initial_delay=0)],
            None,
        ),
        "tool retry in vain": lambda: (
            scripted(two, "Done."),
            [look, Flaky(5).tool()],
            [ToolRetryMiddleware(max_retries=2, initial_delay=0)],
            None,
        ),
        "tool emulator": lambda: (
            scripted(one, "Done."),
            [look],
            [LLMToolEmulator(model=scripted("emulated"))],
            None,
        ),
        "context editing": lambda: (
            scripted(one, asks(call("look", "2", topic="b")), lambda sent: sent[2].text),
            [look],
            [ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)])],
            None,
        ),
        "tool selection": lambda: (
            scripted(one, "Done."),
            [look, Flaky(0).tool()],
            [LLMToolSelectorMiddleware(model=picked())],
            None,
        ),
        "short circuits": lambda: (scripted(one), [look], [Short()], None),
        "answered calls": lambda: (scripted(one, one, "Done."), [look], [Answered()], None),
        "a command": lambda: (scripted("Done."), [look], [Adding()], None),
        "edited calls": lambda: (scripted(two, "Done."), [look, Flaky(0).tool()], [Editing()], None),
        "a tool of its own": lambda: (scripted(one, "Done."), [], [Bringing()], None),
        "a tool at run time": lambda: (scripted(one, "Done."), [], [Editing()], None),
    }


@pytest.mark.parametrize("stack", list(stacks()))
def test_a_chat_agent_says_what_create_agent_says(drive: Drive, stack: str) -> None:
    made = stacks()[stack]
    assert ours(drive, *made()) == theirs(drive, *made())


def test_every_middleware_sees_what_it_sees_in_create_agent(drive: Drive) -> None:
    def seen(run: Callable[..., Any]) -> list[str]:
        log: list[str] = []
        model = scripted(asks(call("look", topic="bees")), "Done.")
        run(drive, model, [look], [Both("outer", log), Both("inner", log)], "Be brief.")
        return log

    assert seen(ours) == seen(theirs)
    assert seen(ours)[:3] == [
        "outer: Be brief., 1, ScriptedChatModel, ['look'], 1",
        "inner: Be brief., 1, ScriptedChatModel, ['look'], 1",
        "outer: look {'topic': 'bees'} look, 2",
    ]


@pytest.mark.parametrize("made", [rewriting, arewriting])
def test_decorators_make_middleware_for_one_kind_of_runs(drive: Drive, made: Any) -> None:
    agent = ag.chat_agent("writer", scripted("Done."), middleware=made())
    runner = ag.Runner(agent)
    if (drive is Async) == (made is arewriting):
        assert transcript(drive.run(runner, "Go.")) == ["writer: DONE."]
        return
    there, wanted = ("wrap_model_call", "awrap_model_call")
    if made is arewriting:
        there, wanted = wanted, there
    message = f"writer: the middleware 'loud' has {there}, but no {wanted}"
    with pytest.raises(ag.AgentGraphError, match=message):
        list(drive.run(runner, "Go.", thread_id="t"))
    assert "t" not in str(runner.saver.get({"configurable": {"thread_id": "t"}}))


def test_a_graph_without_a_runner_names_the_method_too() -> None:
    graph = ag.compile_agent(ag.chat_agent("writer", scripted("Done."), middleware=arewriting()))
    with pytest.raises(ag.AgentGraphError, match="writer: the middleware 'loud' has awrap_model_call"):
        graph.invoke({"messages": ["Go."]})


def test_templates_are_filled_before_middleware_sees_them(drive: Drive) -> None:
    log: list[str] = []
    model = scripted("One.", "Two.")
    agent = ag.chat_agent("writer", model, instruction="On {topic}.", middleware=[Both("note", log)])
    runner = ag.Runner(agent)
    for topic in ("bees", "wasps"):
        list(drive.run(runner, "Go.", thread_id="t", values={"topic": topic}))
    assert [each.split(",")[0] for each in log] == ["note: On bees.", "note: On wasps."]
    assert [sent[0].text for sent in model.inputs] == ["On bees.", "On wasps."]


def test_values_of_the_run_are_in_the_state_that_middleware_and_tools_see(drive: Drive) -> None:
    seen: list[Any] = []

    class Reading(Both):
        def _note(self, request: Any) -> None:
            seen.append((request.state["topic"], request.state["values"]))

        def _note_tool(self, request: Any) -> None:
            seen.append((request.state["topic"], request.runtime.state["values"]))

    model = scripted(asks(call("look", topic="x")), "Done.")
    agent = ag.chat_agent("writer", model, tools=[look], middleware=[Reading("r", [])])
    list(drive.run(ag.Runner(agent), "Go.", values={"topic": "bees"}))
    assert seen == [("bees", {"topic": "bees"})] * 3


def test_only_the_agents_own_model_is_streamed(drive: Drive) -> None:
    middleware = [
        LLMToolSelectorMiddleware(model=picked()),
        ModelFallbackMiddleware(scripted("From b.")),
    ]
    agent = ag.chat_agent("writer", scripted(OSError("no line")), tools=[look], middleware=middleware)
    events = list(drive.run(ag.Runner(agent), "Go.", stream=True))
    assert [event.text for event in events if event.partial and event.text] == ["From ", "b."]
    assert transcript(events) == ["writer: From b."]


def test_a_reply_that_a_retry_throws_away_is_told_to_be_void(drive: Drive) -> None:
    class Again(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            handler(request)
            return handler(request)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            await handler(request)
            return await handler(request)

    agent = ag.chat_agent("writer", scripted("First.", "Second."), middleware=[Again()])
    runner = ag.Runner(agent)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    whole = [event for event in events if event.kind == "message" and not event.partial]
    [voided] = [event.action.discarded for event in events if event.kind == "discarded"]
    assert [event.text for event in whole] == ["Second."]
    assert set(voided) == {event.id for event in events if event.partial and event.text == "First."}


def test_model_input_has_the_last_word_after_middleware(drive: Drive) -> None:
    @wrap_model_call
    def more(request: Any, handler: Any) -> Any:
        return handler(request.override(messages=[*request.messages, HumanMessage("More.")]))

    @wrap_model_call
    async def amore(request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=[*request.messages, HumanMessage("More.")]))

    model = scripted("Done.")
    agent = ag.chat_agent(
        "writer",
        model,
        middleware=[amore if drive is Async else more],
        instruction="Be brief.",
        model_input=lambda messages: [*messages, HumanMessage("Last.")],
    )
    list(drive.run(ag.Runner(agent), "Go."))
    assert [each.text for each in model.inputs[0]] == ["Be brief.", "Go.", "More.", "Last."]


def test_what_calls_a_tool_again_counts_as_it_went_the_last_time(drive: Drive) -> None:
    runs: list[int] = []

    def note() -> Any:
        """Note."""
        runs.append(len(runs))
        return [ag.SetValues(**{f"n{len(runs)}": True}), ag.Custom(len(runs))]

    class Twice(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            handler(request)
            return handler(request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            await handler(request)
            return await handler(request)

    model = scripted(asks(call("note")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[note], middleware=[Twice()]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events)[1:] == ["writer: [custom] 2", "writer: Done.", "writer: Done."]
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"n2": True}
    assert list(runner.events("t")) == events


def test_an_agent_as_a_tool_runs_again_where_middleware_calls_it_again(drive: Drive) -> None:
    runs: list[str] = []

    def fails(ctx: ag.Context) -> str:
        runs.append(ctx.address)
        raise OSError("no line")

    helper = ag.agent_tool(ag.function_agent("helper", fails))
    model = scripted(asks(call("helper", request="x")), "Done.")
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0)
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[helper], middleware=[retry]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert runs == ["writer/helper(0)", "writer/helper(0.1)", "writer/helper(0.2)"]
    assert events[-1].text == "Done."
    assert list(runner.events("t")) == standing(events)


def test_a_supervisor_takes_middleware_around_its_workers(drive: Drive) -> None:
    log: list[str] = []
    worker = ag.chat_agent("find", scripted("Bees hum."), description="Finds.")
    model = scripted(asks(call("find", request="bees")), "So they do.")
    boss = ag.supervisor("boss", model, [worker], middleware=[Both("note", log)])
    runner = ag.Runner(boss)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events)[1:] == ["boss/find: Bees hum.", "boss: Bees hum.", "boss: So they do."]
    assert log[1] == "note: find {'request': 'bees'} find, 2"
    assert list(runner.events("t")) == events


def test_middleware_around_a_tool_may_ask_and_nothing_else_runs_again(drive: Drive) -> None:
    runs: list[str] = []

    def count(name: str) -> str:
        """Count."""
        runs.append(name)
        return name

    class Gate(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(self._asked(request))

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(self._asked(request))

        def _asked(self, request: Any) -> Any:
            args = request.tool_call["args"]
            if args["name"] == "b":
                args = {"name": interrupt("Which?")}
            return request.override(tool_call={**request.tool_call, "args": args})

    model = scripted(asks(call("count", "1", name="a"), call("count", "2", name="b")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[count], middleware=[Gate()]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [event.action.interrupted.address for event in events if event.kind == "interrupted"] == [
        "writer"
    ]
    events += drive.resume(runner, "t", "c")
    assert runs == ["a", "c"]
    assert len(model.inputs) == 2
    assert sorted(runner.events("t"), key=events.index) == events


def test_middleware_around_the_model_may_ask(drive: Drive) -> None:
    class Gate(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            system = SystemMessage(interrupt("How?"))
            return handler(request.override(system_message=system))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            system = SystemMessage(interrupt("How?"))
            return await handler(request.override(system_message=system))

    model = scripted("Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, middleware=[Gate()]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events) == ["writer: [asks] How?"]
    events += drive.resume(runner, "t", "Softly.")
    assert [each.text for each in model.inputs[0]] == ["Softly.", "Go."]
    assert list(runner.events("t")) == events


def test_the_answer_at_the_limit_has_no_tools_with_middleware_either(drive: Drive) -> None:
    model = scripted(asks(call("look", topic="x")), asks(call("look", topic="y"), text="Enough."))
    agent = ag.chat_agent(
        "writer",
        model,
        tools=[look],
        middleware=[Both("note", [])],
        max_iterations=1,
        on_max_iterations="answer",
    )
    events = list(drive.run(ag.Runner(agent), "Go."))
    assert transcript(events)[-1] == "writer: Enough."


def test_a_short_circuit_that_calls_tools_for_ever_meets_the_bound(drive: Drive) -> None:
    class Endless(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return asks(call("look", f"c{len(request.messages)}", topic="x"))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return self.wrap_model_call(request, handler)

    agent = ag.chat_agent("writer", scripted(), tools=[look], middleware=[Endless()], max_iterations=3)
    with pytest.raises(ag.MaxIterationsError, match="writer: the model was asked 3 times"):
        list(drive.run(ag.Runner(agent), "Go."))


def test_a_short_circuit_must_fit_the_output_schema(drive: Drive) -> None:
    agent = ag.chat_agent(
        "writer", scripted(), middleware=[Answering("no JSON")], output_schema=int, output_key="n"
    )
    with pytest.raises(
        ag.InvalidOutputError, match="writer: the middleware returned 'no JSON' as the reply"
    ):
        list(drive.run(ag.Runner(agent), "Go."))


class Answering(AgentMiddleware[Any, Any, Any]):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return AIMessage(self.text)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return AIMessage(self.text)
