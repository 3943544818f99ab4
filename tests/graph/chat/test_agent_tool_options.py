"""Agents as tools: their own arguments, what the model reads of them, and when it is offered them."""

from typing import Any

import pytest
from helpers import Disk, Drive, asks, chat, fails, lines, scripted
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls


class Trip(BaseModel):
    """Where to, and for how long."""

    city: str
    days: int = Field(2, ge=1)


class TypedTrip(TypedDict):
    city: str
    days: int


TRIP = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city", "days"],
}


@ag.agent
def plan(ctx: ag.Context) -> str:
    """Say the request, and the values that the call has."""
    return f"{ctx.messages[-1].text} {ctx.values['city']!r} {ctx.values['days']!r}"


@pytest.mark.parametrize("schema", [Trip, TypedTrip, TRIP])
def test_its_arguments_are_its_request_and_values_of_the_call(schema: Any, disk: Disk) -> None:
    boss = chat(
        "boss",
        calls(call("plan", city="Rome", days=0 if schema is not TypedTrip else "many")),
        calls(call("plan", city="Rome", days=3)),
        "Done.",
        tools=[ag.agent_tool(plan, args_schema=schema)],
    )
    _, refused, _, said, result, _ = disk.run(boss)
    assert refused.text.startswith("Error invoking tool 'plan' with kwargs {'city': 'Rome', ")
    assert refused.message.status == "error"
    assert said.text == result.text == """{"city": "Rome", "days": 3} 'Rome' 3"""
    assert disk.events(boss) == disk.heard
    with ag.Runner(boss, checkpointer=disk.path) as runner:
        assert runner.thread("t").values == {}


def test_the_model_sees_its_arguments() -> None:
    model = scripted("Done.")
    tools = [ag.agent_tool(plan, args_schema=Trip, description="Plans.")]
    list(ag.Runner(ag.chat_agent("boss", model, tools=tools)).run("Go."))
    (described,) = [tool["function"] for tool in model.tools]
    assert (described["name"], described["description"]) == ("plan", "Plans.")
    assert [*described["parameters"]["properties"]] == ["city", "days"]
    assert described["parameters"]["required"] == ["city"]


class Answer(BaseModel):
    fare: int


def test_output_says_what_the_model_reads(drive: Drive) -> None:
    seen: list[ag.Reply] = []

    def output(reply: ag.Reply) -> dict[str, Any]:
        seen.append(reply)
        return {"fare": reply.data.fare, "said": len(reply.messages)}

    desk = chat("desk", '{"fare": 90}', output_schema=Answer, output_key="quote")
    tool = ag.agent_tool(desk, output=output)
    boss = chat("boss", calls(call("desk", request="x")), "Done.", tools=[tool])
    said = lines(drive.run(ag.Runner(boss), "Go."))
    assert said[-2:] == ['boss: {"fare": 90, "said": 1}', "boss: Done."]
    (reply,) = seen
    assert (reply, reply.data, reply.values) == (
        '{"fare": 90}',
        Answer(fare=90),
        {"quote": {"fare": 90}},
    )


def test_an_output_that_fails_is_a_tool_error_that_says_so(drive: Drive) -> None:
    desk = chat("desk", "90")
    tool = ag.agent_tool(desk, output=lambda reply: reply.data.fare)
    given = calls(call("desk", request="x"))
    returned = lines(drive.run(ag.Runner(chat("boss", given, "Done.", tools=[tool])), "Go."))
    assert "Error: AttributeError(" in returned[-2]
    desk = chat("desk", "90")
    tool = ag.agent_tool(desk, output=lambda reply: reply.data.fare)
    raising = chat("boss", given, "Done.", tools=[tool], on_tool_error="raise")
    with pytest.raises(AttributeError) as raised:
        list(drive.run(ag.Runner(raising), "Go."))
    assert "It was `output` of the agent tool 'desk' that failed." in raised.value.__notes__


def test_output_of_an_attempt_that_ended_is_not_asked_again_on_a_resume(disk: Disk) -> None:
    asked: list[str] = []

    def output(reply: ag.Reply) -> str:
        asked.append(reply)
        return f"<{reply}>"

    tools = [ag.agent_tool(chat("one", "1"), output=output), ag.agent_tool(asks("boss"))]
    made = calls(call("one", "1", request="x"), call("boss", "2", request="y"))
    tree = chat("main", made, "Done.", tools=tools)
    assert "main: <1>" in lines(disk.run(tree))
    assert lines(disk.resume(tree, "yes"))[-2:] == ["main: yes", "main: Done."]
    assert asked == ["1"]


class Watching(AgentMiddleware[Any, Any, Any]):
    """Notes which tools a model is offered."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[list[str]] = []

    def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        self.offered.append([getattr(tool, "name", "?") for tool in request.tools])
        return handler(request)

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        self.offered.append([getattr(tool, "name", "?") for tool in request.tools])
        return await handler(request)


def is_open(ctx: ag.Context) -> bool:
    return not ctx.values.get("closed")


@pytest.mark.parametrize("enabled", [is_open, "open"])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_the_model_is_offered_what_is_enabled(enabled: Any, is_wrapped: bool, drive: Drive) -> None:
    shut = ag.function_agent("shut", lambda ctx: ag.SetValues(closed=True, open=False))
    watching = Watching()
    model = scripted(
        calls(call("shut", "1", request="x")), calls(call("shut", "2", request="x")), "Done."
    )
    tree = ag.chat_agent(
        "boss",
        model,
        tools=[ag.agent_tool(shut, enabled=enabled), ag.agent_tool(chat("other"))],
        middleware=[watching] if is_wrapped else [],
    )
    said = lines(drive.run(ag.Runner(tree), "Go.", values={"open": True}))
    assert said[-3:] == [
        'boss: [calls] shut({"request": "x"})',
        "boss: Error: shut is not a valid tool, try one of [other].",
        "boss: Done.",
    ]
    if is_wrapped:
        assert watching.offered == [["shut", "other"], ["other"], ["other"]]
    assert [tool["function"]["name"] for tool in model.tools] == ["other"]


def test_one_that_is_never_enabled_is_an_unknown_tool() -> None:
    def tree(**options: Any) -> ag.Agent:
        tools = [ag.agent_tool(chat("desk"), enabled=False)]
        return chat("boss", calls(call("desk", request="x")), "Done.", tools=tools, **options)

    called = tree(unknown_tool=lambda name, arguments: f"No {name}.")
    assert lines(ag.Runner(called).run("Go."))[-2:] == ["boss: No desk.", "boss: Done."]
    with pytest.raises(ag.InvalidOutputError, match="called the unknown tool 'desk'"):
        list(ag.Runner(tree(unknown_tool="raise")).run("Go."))


def test_an_enabled_that_fails_fails_the_agent_and_is_asked_again(drive: Drive) -> None:
    times = iter([1, 0, 0])

    def enabled(ctx: ag.Context) -> bool:
        if next(times):
            raise ValueError("no")
        return True

    runner = ag.Runner(chat("boss", "Done.", tools=[ag.agent_tool(chat("desk"), enabled=enabled)]))
    with pytest.raises(ValueError, match="no") as raised:
        list(drive.run(runner, "Go.", thread_id="t"))
    assert "It was `enabled` of the agent tool 'desk' that failed." in raised.value.__notes__
    assert lines(drive.resume(runner, "t")) == ["boss: Done."]


def test_a_failed_agent_with_arguments_runs_again_with_them(drive: Drive, disk: Disk) -> None:
    shaky = ag.sequential("shaky", [fails("first"), plan])
    tool = ag.agent_tool(shaky, args_schema=Trip)
    tree = chat("boss", calls(call("shaky", city="Rome")), "Done.", tools=[tool], on_tool_error="raise")
    with ag.Runner(tree, checkpointer=disk.path) as runner:
        with pytest.raises(ValueError, match="first failed"):
            list(drive.run(runner, "Go.", thread_id="t"))
        said = lines(drive.resume(runner, "t"))
    assert said[-2:] == ["boss: [first] said: first 'Rome' 2", "boss: Done."]
