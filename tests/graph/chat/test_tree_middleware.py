"""Middleware of a whole tree, and what LangGraph's streams and traces show of middleware."""

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from helpers import echo, scripted
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TracePolicy,
    configure_trace_policy,
    omit_payload,
    wrap_model_call,
)
from langchain_core.messages import SystemMessage
from langchain_core.tracers import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.prebuilt import ToolCallTransformer
from langgraph.stream import StreamTransformer

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

modes = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


class Asked(AgentMiddleware[Any, Any, Any]):
    """Notes whose model was asked, by the system message."""

    def __init__(self) -> None:
        self.who: list[str] = []

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.who.append(request.system_message.text.split()[0])
        return handler(request)


def chat(name: str, *replies: Any, **options: Any) -> Any:
    return ag.chat_agent(name, scripted(*replies), instruction=name, **options)


# of a whole tree


def test_every_chat_agent_of_a_tree_has_it() -> None:
    undone = ag.workflow(
        "flow",
        [
            ag.step(chat("draft", "d"), compensate=chat("undo", "u")),
            ag.step(ag.function_agent("breaks", lambda ctx: 1 / 0), depends_on=["draft"]),
        ],
    )
    helper = ag.agent_tool(chat("helper", "h"))
    tree = ag.sequential(
        "all",
        [
            ag.parallel("both", [chat("left", "l"), chat("right", "r")]),
            ag.loop("again", [chat("looped", "o", "o")], max_iterations=2),
            chat("boss", calls(call("helper", request="?")), "b", tools=[helper]),
            chat("host", calls(call("transfer_to_guest")), sub_agents=[chat("guest", "g")]),
            ag.validated(chat("checked", "c"), lambda text: None),
            undone,
        ],
    )
    asked = Asked()
    with pytest.raises(ag.StepFailedError):
        list(ag.Runner(tree, middleware=[asked]).query("Go."))
    assert sorted(asked.who[:2]) == ["left", "right"]
    assert asked.who[2:] == [
        *("looped", "looped", "boss", "helper", "boss", "host", "guest", "checked", "draft", "undo")
    ]


def test_it_is_outside_the_middleware_of_the_agents_and_the_tree_is_unchanged() -> None:
    order: list[str] = []

    @wrap_model_call
    def inner(request: Any, handler: Callable[[Any], Any]) -> Any:
        order.append("inner")
        return handler(request)

    @wrap_model_call
    def outer(request: Any, handler: Callable[[Any], Any]) -> Any:
        order.append("outer")
        return handler(request.override(system_message=SystemMessage("Be brief.")))

    model = scripted("hello")
    agent = ag.chat_agent("writer", model, middleware=[inner])
    ag.compile_agent(agent, middleware=[outer]).invoke({"messages": ["Hi."]})
    assert order == ["outer", "inner"]
    assert [message.text for message in model.inputs[0]] == ["Be brief.", "Hi."]
    assert agent.middleware == (inner,)


def test_redaction_protects_every_agent_from_the_user() -> None:
    first, second = scripted("noted"), scripted("done")
    tree = ag.sequential("s", [ag.chat_agent("a", first), ag.chat_agent("b", second)])
    list(ag.Runner(tree, middleware=[PIIMiddleware("email")]).query("I am ada@example.org."))
    for model in (first, second):
        assert "ada@example.org" not in str(model.inputs)
        assert "[REDACTED_EMAIL]" in str(model.inputs)


def test_each_agent_has_its_own_state_of_it() -> None:
    limit = ModelCallLimitMiddleware(thread_limit=1, exit_behavior="end")
    tree = ag.sequential("s", [chat("a", "one"), chat("b", "two")])
    runner = ag.Runner(tree, middleware=[limit])
    assert transcript(runner.run("Go.", thread_id="t")) == ["s/a: one", "s/a/b: two"]
    again = transcript(runner.run("Again.", thread_id="t"))
    assert ["limit" in line for line in again] == [True, True]


def test_a_stream_is_translated_with_the_same_middleware() -> None:
    agent, middleware = chat("writer", "hello"), [ModelCallLimitMiddleware(run_limit=3)]
    graph = ag.compile_agent(agent, middleware=middleware)
    options: Any = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": "v2"}
    parts = graph.stream({"messages": ["Hi."]}, **options)
    assert transcript(ag.translate(agent, parts, middleware=middleware)) == ["writer: hello"]


@pytest.mark.parametrize(
    ("agents", "middleware", "faults"),
    [
        (
            [chat("a"), chat("b")],
            Asked,
            [f"the middleware of the tree: {Asked!r} is not a middleware (a class: call it)"],
        ),
        (
            [chat("a"), chat("b", middleware=[Asked()])],
            Asked(),
            ["s/b: two middlewares are named 'Asked'"],
        ),
        (
            ["no agent", chat("b", tools=[ag.agent_tool("none")])],  # type: ignore[arg-type]
            Asked(),
            ["s: 'no agent' is not an agent", "s/b: "],
        ),
    ],
    ids=["of the middleware, once", "of an agent that has it too", "of the tree, all of them"],
)
def test_faults_are_raised(agents: Any, middleware: Any, faults: list[str]) -> None:
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.Runner(ag.sequential("s", agents), middleware=[middleware])
    for found, expected in zip(refused.value.faults, faults, strict=True):
        assert found.startswith(expected)


# event streams


def streamed(graph: Any, what: str, is_async: bool) -> list[Any]:
    """Return the messages or tool calls of an event stream of LangGraph."""
    given: Any = {"messages": ["One.", "Two.", "Three."]}

    async def awaited() -> list[Any]:
        run = await graph.astream_events(given, version="v3")
        return [await each.text async for each in getattr(run, what)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the version is a beta
        if is_async:
            return asyncio.run(awaited())
        return list(getattr(graph.stream_events(given, version="v3"), what))


def summarizing() -> Any:
    model = scripted("The summary.")
    return SummarizationMiddleware(model, trigger=("messages", 2), keep=("messages", 1))


@modes
def test_a_summary_is_not_a_reply(is_async: bool) -> None:
    policy = ag.summarized(scripted("The summary."), 2, token_counter=len)
    first = ag.chat_agent("a", scripted("Reply of a."), middleware=[summarizing()])
    second = ag.chat_agent("b", scripted("Reply of b."), history=policy)
    graph = ag.compile_agent(ag.sequential("s", [first, second]))
    found = streamed(graph, "messages", is_async)
    replies = found if is_async else [message.text for message in found]
    assert [*map(str, replies)] == ["Reply of a.", "Reply of b."]


def test_tool_calls_are_streamed_as_those_of_create_agent() -> None:
    agent = ag.chat_agent("a", scripted(calls(call("echo", text="bees")), "Found."), tools=[echo])
    found = streamed(ag.compile_agent(ag.sequential("s", [agent])), "tool_calls", is_async=False)
    assert [(each.tool_name, each.output) for each in found] == [("echo", "bees")]


def test_transformers_that_are_given_come_after_those_of_the_middleware() -> None:
    class Mine(StreamTransformer):
        def init(self) -> dict[str, Any]:
            return {}

        def process(self, event: Any) -> bool:
            return True

    def names(agent: ag.Agent, *given: Any) -> list[str]:
        graph = ag.compile_agent(agent, transformers=given)
        return [each.__name__ for each in graph.stream_transformers]

    class Theirs(Mine):
        pass

    class Transforming(AgentMiddleware[Any, Any, Any]):
        transformers = (Theirs,)

    agent = ag.chat_agent("a", scripted(), middleware=[Transforming()])
    expected = ["ToolCallTransformer", "Theirs"]
    assert names(agent, Mine) == [*expected, "Mine"]
    assert names(agent, ToolCallTransformer) == expected
    assert names(ag.function_agent("a", lambda ctx: "Reply.")) == []


# traces


class Kept(BaseTracer):
    """Keeps the inputs and outputs of runs by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, tuple[Any, Any]] = {}

    def _persist_run(self, run: Run) -> None:
        pass

    def _on_run_update(self, run: Run) -> None:
        self.found[run.name] = (run.inputs, run.outputs)


class Hooked(AgentMiddleware[Any, Any, Any]):
    def __init__(self, policy: TracePolicy | None = None) -> None:
        if policy is not None:
            self.trace_policy = policy

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"messages": []}


def traced(middleware: Any, *, is_async: bool = False) -> tuple[Any, Any]:
    """Return the inputs and outputs of a hook in a trace, after a check of those of its agent."""
    kept = Kept()
    graph = ag.compile_agent(ag.chat_agent("writer", scripted("ok"), middleware=[middleware]))
    given: Any = {"messages": ["The number is 4111."]}
    config: Any = {"callbacks": [kept]}
    asyncio.run(graph.ainvoke(given, config)) if is_async else graph.invoke(given, config)
    assert "4111" in str(kept.found["writer"])
    return kept.found["writer.Hooked.before_model"]


@modes
def test_a_trace_has_of_a_hook_what_its_middleware_allows(is_async: bool) -> None:
    policy = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)
    assert traced(Hooked(policy), is_async=is_async) == ({}, {})
    inputs, _ = traced(Hooked(), is_async=is_async)
    assert "4111" in str(inputs)


def test_the_trace_policy_of_all_middleware_counts_too() -> None:
    middleware = Hooked()
    configure_trace_policy(TracePolicy(process_inputs=omit_payload))
    try:
        inputs, _ = traced(middleware)
    finally:
        configure_trace_policy(None)
    assert inputs == {}


def test_calls_of_the_model_have_the_name_of_the_agent_as_in_langchain() -> None:
    graph = ag.compile_agent(ag.chat_agent("writer", scripted("ok")))
    [(_, metadata), *_] = graph.stream({"messages": ["Hi."]}, stream_mode="messages")
    assert metadata["lc_agent_name"] == "writer"
