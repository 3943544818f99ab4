"""Custom data of a tool names its call, so that the calls of one message can be distinguished."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from helpers import Drive, middleware, unvoided
from helpers.drives import fresh
from helpers.middlewares import passes, tries_calls_again
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt
from pydantic import BaseModel, TypeAdapter

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def writes(n: int, runtime: ToolRuntime) -> str:
    """Write progress, in both ways."""
    runtime.stream_writer(f"{n} begins")
    get_stream_writer()(f"{n} ends")
    return "Done."


async def awrites(n: int, runtime: ToolRuntime) -> str:
    """Write progress, in both ways."""
    runtime.stream_writer(f"{n} begins")
    get_stream_writer()(f"{n} ends")
    return "Done."


def returns(n: int) -> "list[ag.Custom | str]":
    """Return progress."""
    return [ag.Custom(f"{n} begins"), ag.Custom(f"{n} ends"), "Done."]


def desk(*tools: Any, rounds: Sequence[Sequence[Any]], name: str = "desk", **options: Any) -> ag.Agent:
    """Return a chat agent that makes calls, round by round."""
    responses = [*(calls(*each) for each in rounds), AIMessage("Done.")]
    return ag.chat_agent(name, ScriptedChatModel(responses=responses), tools=[*tools], **options)


def two_of(tool: str) -> list[Any]:
    return [call(tool, "a", n=1), call(tool, "b", n=2)]


class Number(BaseModel):
    n: int


def progress(events: Sequence[ag.AgentEvent]) -> dict[str, list[tuple[Any, ag.EventCall | None]]]:
    """Return the custom data of each address, with the calls."""
    said: dict[str, list[tuple[Any, ag.EventCall | None]]] = {}
    for event in events:
        if event.kind == "custom" and event.output is not None:
            said.setdefault(event.address, []).append((event.output.custom, event.call))
    return {at: sorted(each) for at, each in said.items()}


TWO = [
    (f"{n} {what}", ag.EventCall(0, n - 1, call_id))
    for n, call_id in ((1, "a"), (2, "b"))
    for what in ("begins", "ends")
]
"""The progress of two calls of one message."""


@pytest.fixture(params=["memory", "SQLite"])
def runner_of(
    request: pytest.FixtureRequest, tmp_path: Any
) -> Iterator[Callable[[ag.Agent], ag.Runner]]:
    made: list[ag.Runner] = []

    def runner(tree: ag.Agent) -> ag.Runner:
        where = InMemorySaver() if request.param == "memory" else str(tmp_path / "threads.db")
        made.append(ag.Runner(tree, checkpointer=where))
        return made[-1]

    yield runner
    for each in made:
        each.close()


Runners = Callable[[ag.Agent], ag.Runner]

SHAPES: dict[str, tuple[Callable[[], ag.Agent], str]] = {
    "in parallel": (lambda: desk(writes, rounds=[two_of("writes")]), "desk"),
    "one after the other": (
        lambda: desk(writes, rounds=[two_of("writes")], parallel_tools=False),
        "desk",
    ),
    "actions": (lambda: desk(returns, rounds=[two_of("returns")]), "desk"),
    "middleware around": (
        lambda: desk(writes, rounds=[two_of("writes")], middleware=[middleware(wrap_tool_call=passes)]),
        "desk",
    ),
    "in a branch": (
        lambda: ag.parallel(
            "p", [desk(writes, rounds=[two_of("writes")]), ag.function_agent("f", lambda ctx: "F.")]
        ),
        "p/desk",
    ),
    "in an agent as a tool": (
        lambda: desk(
            ag.agent_tool(desk(writes, rounds=[two_of("writes")], name="inner")),
            rounds=[[call("inner", request="Go.")]],
        ),
        "desk/inner(0)",
    ),
    "in a call of ctx.run": (
        lambda: ag.function_agent(
            "f",
            lambda ctx: ctx.run("desk", "Go."),
            agents=[desk(writes, rounds=[two_of("writes")])],
        ),
        "f/desk(0)",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_two_calls_of_one_message_can_be_distinguished_live_and_again(
    shape: str, drive: Drive, runner_of: Runners
) -> None:
    tree, at = SHAPES[shape]
    runner = runner_of(tree())
    events = unvoided(drive.run(runner, "Go.", thread_id="t"))
    assert progress(events) == {at: TWO}
    assert [*runner.events("t")] == events
    assert {event.call for event in events if event.kind != "custom"} == {None}


def test_calls_of_later_messages_have_the_next_numbers(drive: Drive, runner_of: Runners) -> None:
    rounds = [[call("returns", "x", n=1)], [call("returns", "x", n=1)]]  # some models repeat ids
    events = list(drive.run(runner_of(desk(returns, rounds=rounds)), "Go.", thread_id="t"))
    assert [each for _, each in progress(events)["desk"]] == [
        *[ag.EventCall(0, 0, "x"), ag.EventCall(1, 0, "x")] * 2
    ]


def test_an_async_tool_names_its_calls(tmp_path: Any) -> None:
    from helpers import Async

    tree = desk(awrites, rounds=[two_of("awrites")])
    events = fresh(Async, tmp_path / "threads.db", tree, "run", "Go.", thread_id="t")
    assert progress(events) == {"desk": TWO}
    assert fresh(Async, tmp_path / "threads.db", tree, "events", "t") == events


def test_an_agent_as_a_tool_names_the_call_that_runs_it(drive: Drive, runner_of: Runners) -> None:
    def work(ctx: ag.Context) -> Iterator[Any]:
        get_stream_writer()(f"{ctx.messages[-1].text} begins")
        yield ag.Custom(f"{ctx.messages[-1].text} ends")
        yield "Done."

    helper = ag.agent_tool(ag.loop("job", [ag.function_agent("helper", work)], max_iterations=1))
    rounds = [[call("job", "a", request="1"), call("job", "b", request="2")]]
    runner = runner_of(desk(helper, rounds=rounds))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert progress(events) == {"desk/job(0)[0]/helper": TWO[:2], "desk/job(1)[0]/helper": TWO[2:]}
    assert [*runner.events("t")] == events


def test_an_attempt_that_is_made_again_names_the_same_call(drive: Drive, runner_of: Runners) -> None:
    failed: list[int] = []

    def loads(n: int, runtime: ToolRuntime) -> str:
        """Load."""
        runtime.stream_writer(f"{n} begins")
        if n not in failed:
            failed.append(n)
            raise ConnectionError
        runtime.stream_writer(f"{n} ends")
        return "Done."

    runner = runner_of(desk(loads, rounds=[two_of("loads")], middleware=[tries_calls_again()]))
    every = list(drive.run(runner, "Go.", thread_id="t"))
    assert progress(unvoided(every)) == {"desk": TWO}
    assert len(progress(every)["desk"]) == 6
    assert [*runner.events("t")] == unvoided(every)


def test_progress_of_middleware_around_a_call_names_it_and_stays(
    drive: Drive, runner_of: Runners
) -> None:
    def around(request: Any) -> Any:
        n = request.tool_call["args"]["n"]
        request.runtime.stream_writer(f"{n} begins")
        result = yield request
        request.runtime.stream_writer(f"{n} ends")
        return result

    def rests(n: int) -> str:
        """Rest."""
        return "Done."

    middle = middleware(wrap_tool_call=around)
    helper = ag.agent_tool(ag.function_agent("helper", lambda ctx: "Done."), args_schema=Number)
    for tool, name in ((rests, "rests"), (helper, "helper")):
        runner = runner_of(desk(tool, rounds=[two_of(name)], middleware=[middle]))
        events = list(drive.run(runner, "Go.", thread_id=name))
        assert progress(events) == {"desk": TWO}
        assert "discarded" not in [each.kind for each in events]
        assert [*runner.events(name)] == events


def test_a_resume_names_the_same_calls(drive: Drive, runner_of: Runners) -> None:
    def asks(n: int, runtime: ToolRuntime) -> str:
        """Ask."""
        if n == 2:
            interrupt("Really?")
        runtime.stream_writer(f"{n} begins")
        runtime.stream_writer(f"{n} ends")
        return "Done."

    runner = runner_of(desk(asks, rounds=[two_of("asks")]))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", "yes"))
    assert progress([*runner.events("t")]) == {"desk": TWO}


def test_data_outside_of_tools_names_no_call(drive: Drive, runner_of: Runners) -> None:
    def node(state: Any) -> Any:
        get_stream_writer()("graph")
        return {"messages": [AIMessage("g")]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    hook = middleware(before_model=lambda state: get_stream_writer()("hook"))
    steps = [
        ag.graph_agent("g", builder.compile()),
        ag.function_agent("f", lambda ctx: ag.Custom("function")),
        desk(returns, rounds=[two_of("returns")], middleware=[hook]),
    ]
    events = list(drive.run(runner_of(ag.sequential("s", steps)), "Go.", thread_id="t"))
    without = [(said, named) for each in progress(events).values() for said, named in each if not named]
    assert without == [("graph", None), ("function", None), ("hook", None), ("hook", None)]


def test_a_call_comes_back_from_json_pydantic_and_servers(drive: Drive, runner_of: Runners) -> None:
    runner = runner_of(desk(returns, rounds=[two_of("returns")]))
    events = [each for each in drive.run(runner, "Go.", thread_id="t") if each.kind == "custom"]
    for event in events:
        data = json.loads(json.dumps(event.to_dict()))
        assert event.call is not None
        assert data["call"] == event.call._asdict()
        assert ag.AgentEvent.from_dict(data) == event
        assert json.loads(event.to_sse().partition("data: ")[2])["call"] == data["call"]
        adapter = TypeAdapter(ag.AgentEvent)
        assert adapter.validate_json(adapter.dump_json(event)) == event
        del data["call"]
        assert ag.AgentEvent.from_dict(data).call is None


def test_a_stream_of_the_graph_has_the_calls() -> None:
    tree = desk(writes, rounds=[two_of("writes")])
    graph = ag.compile_agent(tree)
    parts = graph.stream(
        {"messages": ["Go."]}, stream_mode=ag.STREAM_MODES, subgraphs=True, version="v2"
    )
    assert progress([*ag.translate(tree, parts)]) == {"desk": TWO}
