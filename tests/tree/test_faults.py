"""The faults of trees, all found before the run: those of `faults.txt`, and how errors list them."""

import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers import foreign, lines, says, scripted, walking
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, before_model
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.types import CachePolicy

import agentgraph as ag
from agentgraph.agents.agents import FunctionAgent
from agentgraph.safe_repr import shown
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.validation import validate

MODEL = scripted()
CHAIN = RunnableLambda(list) | MODEL
MADE = foreign(lambda messages: "Hm.")


def keyed(name: str, key: Any = "k") -> ag.Agent:
    return ag.function_agent(name, lambda ctx: "said", output_key=key)


def flow(text: str, depends_on: Any = ()) -> ag.Agent:
    """Return a workflow of the steps `find`, `write`, which has an input, and `post` after it."""
    write = ag.function_agent("write", lambda ctx: ctx.messages[-1].text)
    steps = [
        ag.step(write, depends_on=depends_on, input=text),
        ag.step(says("post"), depends_on=["write"]),
    ]
    return ag.workflow("wf", [says("find"), *steps])


def may_ask(ctx: Any) -> str | ag.Ask:
    return ag.Ask("ok?")


def may_leave_later(ctx: Any) -> Iterator[str | ag.BreakLoop]:
    yield ag.BreakLoop()


def breaks(ctx: Any) -> str | ag.BreakLoop:
    """Stop."""
    return ag.BreakLoop()


def search(q: str) -> str:
    """Search."""
    return q


def undocumented(q: str) -> str:
    return q


async def later(given: Any) -> str:
    return "Later."


async def streamed(given: Any) -> AsyncIterator[str]:
    yield "Later."


@tool
def look(topic: str) -> str:
    """Look something up."""
    return topic


class Bringing(AgentMiddleware[Any, Any, Any]):
    """Brings a tool."""

    tools = (look,)


class Deaf(BaseChatModel):
    """A chat model that takes no tools."""

    @property
    def _llm_type(self) -> str:
        return "deaf"

    def _generate(self, *given: Any, **_: Any) -> Any:
        raise NotImplementedError


USED = (
    *(
        AIMessage,
        CachePolicy,
        FakeListChatModel,
        FunctionAgent,
        HumanInTheLoopMiddleware,
        ScriptedChatModel,
    ),
    *(SystemMessage, timedelta),
)
NAMES = {
    **walking.NAMES,
    **globals(),
    **{each.__name__: each for each in USED},
}


def faults(agent: Any) -> tuple[str, ...]:
    with pytest.raises(ag.InvalidAgentError) as refused:
        validate(agent)
    return refused.value.faults


def faults_or_allowed(agent: Any) -> list[str]:
    try:
        validate(agent)
    except ag.InvalidAgentError as error:
        return [re.sub(r" at 0x\w+", "", fault) for fault in error.faults]
    return ["allowed"]


@pytest.mark.parametrize(
    ("expression", "expected"), walking.cases(Path(__file__).with_name("faults.txt"))
)
def test_the_faults_of(expression: str, expected: str) -> None:
    made = eval(expression, dict(NAMES))
    found = [faults_or_allowed(agent) for agent in (made if isinstance(made, list) else [made])]
    if all(each == ["allowed"] for each in found):
        assert expected == "allowed"
    else:
        assert "\n".join(fault for each in found for fault in each) == expected


def test_the_error_is_the_fault_if_there_is_one_and_a_list_otherwise() -> None:
    (one,) = faults(ag.sequential("s", []))
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(ag.sequential("s", []))
    assert (str(refused.value), refused.value.faults) == (one, (one,))
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.Runner(ag.sequential("s", [ag.parallel("p", []), None]))  # type: ignore[list-item]
    assert str(refused.value) == "\n- ".join(["2 faults:", *refused.value.faults])


@tool
def count(text: str) -> int:
    """Count."""
    return len(text)


NO_AGENTS: dict[str, tuple[Any, str]] = {
    "a graph of an agent": (
        ag.compile_agent(says("a")),
        'it is a graph of LangGraph: pass ag.graph_agent("name", graph)',
    ),
    "a graph": (foreign(dict), 'it is a graph of LangGraph: pass ag.graph_agent("name", graph)'),
    "a graph that is not compiled": (
        foreign(dict).builder,
        'it is a graph that is not compiled: pass ag.graph_agent("name", graph.compile())',
    ),
    "a function": (
        len,
        'make the function one with @ag.agent, or pass ag.function_agent("name", function)',
    ),
    "a model": (MODEL, 'it is a model: pass ag.chat_agent("name", model)'),
    "a runnable": (CHAIN, 'it is a runnable: pass ag.runnable_agent("name", runnable)'),
    "a tool": (
        count,
        'it is a tool: pass it in the tools of ag.chat_agent("name", model, tools=[...])',
    ),
}


@pytest.mark.parametrize(("given", "way_out"), NO_AGENTS.values(), ids=NO_AGENTS)
def test_what_is_not_an_agent_is_refused_with_how_to_make_one(given: Any, way_out: str) -> None:
    assert faults(ag.sequential("s", [given])) == (f"s: {shown(given)} is not an agent; {way_out}",)


def nested(levels: int) -> ag.Agent:
    tree = says("inmost")
    for level in range(levels - 1):
        tree = ag.sequential(f"s{level}", [tree])
    return tree


@pytest.mark.parametrize("levels", [101, 2000])
def test_a_tree_that_is_nested_too_deep_is_one_fault(levels: int) -> None:
    (fault,) = faults(nested(levels))
    problem = "its agents are nested more than 100 levels deep; put several into one "
    assert fault.startswith(f"s{levels - 2}: {problem}")
    assert len(str(nested(levels)).splitlines()) == levels


def test_a_tree_of_a_hundred_levels_runs() -> None:
    runner = ag.Runner(nested(100))
    events = list(runner.run("Go.", thread_id="t"))
    assert [event.text for event in events] == ["inmost"]
    assert list(runner.events("t")) == events


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("${results.find} ${values.topic} ${topic} {topic} {none?}", "found bees bees bees "),
        ("{{results.find}}: ${results.find}", "{results.find}: found"),
        ('{"results": {"find": 1}, "values.topic": []}', None),
        (r"\ref{results.find} \input[draft]{results.tex} \frac{1}{results.b} $x_{i.j}$", None),
        ("{other.find} {other.find.more} {results.}", None),
    ],
)
def test_braces_of_an_input_that_are_not_faults_are_sent_as_they_are(
    text: str, sent: str | None
) -> None:
    tree: Any = flow(text, depends_on=["find"])
    runner = ag.Runner(ag.workflow("wf", [says("find", "found"), *tree.steps[1:]]))
    assert lines(runner.run("Go.", values={"topic": "bees"}))[1] == f"wf/write: {sent or text}"


def test_an_async_hook_needs_an_async_run() -> None:
    @before_model
    async def wait(state: Any, runtime: Any) -> None:
        return None

    runner = ag.Runner(ag.chat_agent("writer", MODEL, middleware=[wait]))
    fault = "writer: the middleware 'wait' has abefore_model, but no before_model"
    with pytest.raises(ag.AgentGraphError, match=fault):
        list(runner.query("Go."))


def test_a_tool_of_middleware_may_need_approval_and_end_the_agent() -> None:
    agent = ag.chat_agent(
        "writer", MODEL, middleware=[Bringing()], approve=["look"], return_directly=["look"]
    )
    edges = {(e.source, e.target) for e in ag.compile_agent(agent).get_graph().edges}
    assert {("writer", "writer.approve"), ("writer.tools", "__end__")} <= edges
