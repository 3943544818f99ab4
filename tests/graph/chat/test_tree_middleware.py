"""Middleware of a whole tree: `compile_agent(..., middleware=[...])`, and that of the Runner."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers import scripted
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    PIIMiddleware,
    wrap_model_call,
)
from langchain_core.messages import SystemMessage

import agentgraph as ag
from agentgraph.testing import call, calls, transcript


class Asked(AgentMiddleware[Any, Any, Any]):
    """Notes whose model was asked, by the system message."""

    def __init__(self) -> None:
        self.who: list[str] = []

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.who.append(request.system_message.text.split()[0])
        return handler(request)


def chat(name: str, *replies: Any, **options: Any) -> Any:
    return ag.chat_agent(name, scripted(*replies), instruction=name, **options)


def test_every_chat_agent_of_a_tree_has_it() -> None:
    undone = ag.workflow(
        "flow",
        [
            ag.step(chat("draft", "d"), compensate=chat("undo", "u")),
            ag.step(ag.function_agent("breaks", lambda ctx: 1 / 0), depends_on=["draft"]),
        ],
    )
    tree = ag.sequential(
        "all",
        [
            ag.parallel("both", [chat("left", "l"), chat("right", "r")]),
            ag.loop("again", [chat("looped", "o", "o")], max_iterations=2),
            chat(
                "boss",
                calls(call("helper", request="?")),
                "b",
                tools=[ag.agent_tool(chat("helper", "h"))],
            ),
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


def test_it_is_outside_the_middleware_of_the_agents() -> None:
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
    graph = ag.compile_agent(agent, middleware=[outer])
    graph.invoke({"messages": ["Hi."]})
    assert order == ["outer", "inner"]
    assert [message.text for message in model.inputs[0]] == ["Be brief.", "Hi."]


def test_redaction_of_the_whole_tree_protects_every_agent_from_the_user() -> None:
    first, second = scripted("noted"), scripted("done")
    tree = ag.sequential("s", [ag.chat_agent("a", first), ag.chat_agent("b", second)])
    list(ag.Runner(tree, middleware=[PIIMiddleware("email")]).query("I am ada@example.org."))
    for model in (first, second):
        assert "ada@example.org" not in str(model.inputs)
        assert "[REDACTED_EMAIL]" in str(model.inputs)


def test_its_state_belongs_to_each_agent() -> None:
    limit = ModelCallLimitMiddleware(thread_limit=1, exit_behavior="end")
    tree = ag.sequential("s", [chat("a", "one"), chat("b", "two")])
    runner = ag.Runner(tree, middleware=[limit])
    assert transcript(runner.run("Go.", thread_id="t")) == ["s/a: one", "s/a/b: two"]
    assert all("limit" in line for line in transcript(runner.run("Again.", thread_id="t")))


def test_a_stream_of_such_a_graph_is_translated_with_the_same_middleware() -> None:
    agent = chat("writer", "hello")
    given = [ModelCallLimitMiddleware(run_limit=3)]
    graph = ag.compile_agent(agent, middleware=given)
    parts = graph.stream(
        {"messages": ["Hi."]}, stream_mode=ag.STREAM_MODES, subgraphs=True, version="v2"
    )
    assert transcript(ag.translate(agent, parts, middleware=given)) == ["writer: hello"]


def test_its_faults_are_told_once() -> None:
    tree = ag.sequential("s", [chat("a", "one"), chat("b", "two")])
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(tree, middleware=[Asked])
    [fault] = refused.value.faults
    assert fault.startswith("the middleware of the tree: ")
    assert "is not a middleware (a class: call it)" in fault


def test_one_that_an_agent_has_too_is_refused_there() -> None:
    agent = ag.sequential("s", [chat("a", "one"), chat("b", "two", middleware=[Asked()])])
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.Runner(agent, middleware=[Asked()])
    [fault] = refused.value.faults
    assert fault.startswith("s/b: two middlewares are named 'Asked'")


def test_a_tree_with_faults_is_refused_with_all_of_them() -> None:
    tree = ag.sequential("s", ["no agent", chat("b", "two", tools=[ag.agent_tool("none")])])  # type: ignore[list-item,arg-type]
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.Runner(tree, middleware=[Asked()])
    assert len(refused.value.faults) == 2


def test_the_tree_itself_is_left_as_it_was() -> None:
    agent = chat("writer", "hello")
    ag.Runner(agent, middleware=[Asked()])
    assert agent.middleware == ()
