"""An error shows an agent, a graph, a model, a function by its kind and name, and any value shortly."""

import re
from collections.abc import Callable
from typing import Any, Literal, TypedDict

import pytest
from helpers import asks, chat, foreign, says
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

import agentgraph as ag
from agentgraph.safe_repr import LONGEST, shown
from agentgraph.testing import ScriptedChatModel

of: Any = ag
"""The package, as it is seen without a type checker."""
LONGEST_LINE = 320

MODEL = ScriptedChatModel(responses=["Hi."] * 100)
A, B = chat("a", "Hi."), says("b")
GRAPH = foreign(lambda state: {})


def search(topic: str) -> str:
    """Search."""
    return topic


class State(TypedDict, total=False):
    topic: str


VALUES: dict[str, tuple[object, str]] = {
    "an agent": (A, "chat agent 'a'"),
    "agents": ([A, B], "[chat agent 'a', function agent 'b']"),
    "an agent in a dict": ({"first": A}, "{'first': chat agent 'a'}"),
    "a checked agent": (ag.validated(A, search), "chat agent 'a'"),
    "a tree": (ag.sequential("s", [A, B]), "sequential agent 's'"),
    "an agent tool": (ag.agent_tool(A), "agent_tool(chat agent 'a')"),
    "a step": (ag.step(A), "step(chat agent 'a')"),
    "a handoff": (ag.handoff(A), "handoff('a')"),
    "a graph": (GRAPH, "CompiledStateGraph 'LangGraph'"),
    "a model": (MODEL, "ScriptedChatModel"),
    "a tool": (tool(search), "StructuredTool 'search'"),
    "a function": (search, "<function search>"),
    "a message": (AIMessage("x" * 1000), "AIMessage('xxxxxxxxx"),
    "an object": (object(), "<object object>"),
    "a long text": ("x" * 1000, "'xxxxxxxxxxxxxxx"),
    "a big dict": ({f"key {n}": n for n in range(1000)}, "{'key 0': 0, 'key 1': 1, "),
    "a big list": ([*range(1000)], "[0, 1, 2, 3, 4, 5, 6"),
}


def paused() -> ag.Runner:
    runner = ag.Runner(asks("boss", response_schema=Literal["yes", "no"]))
    runner.invoke("Go.", thread_id="t")
    return runner


def run(**options: Any) -> object:
    return [*ag.Runner(B).run("Go.", **options)]


def returns(value: object) -> object:
    return ag.Runner(of.function_agent("f", lambda ctx: value)).invoke("Go.")


def built(name: str, *arguments: Any, **options: Any) -> Callable[[], object]:
    return lambda: ag.Runner(getattr(of, name)(*arguments, **options))


ENTRANCES: dict[str, Callable[[Any], object]] = {
    "Runner()": lambda it: of.Runner([it]),
    "compile_agent()": lambda it: of.compile_agent([it]),
    "sequential()": lambda it: built("sequential", "q", [B, [it]])(),
    "parallel()": lambda it: built("parallel", "p", [B, [it]])(),
    "loop(until)": lambda it: built("loop", "l", [B], until=[it])(),
    "each(agent)": lambda it: built("each", "e", [it], "items")(),
    "each(over)": lambda it: built("each", "e", B, [it])(),
    "switch(choose)": lambda it: built("switch", "w", [it], {"x": B})(),
    "switch(cases)": lambda it: built("switch", "w", "kind", [it])(),
    "swarm(start)": lambda it: built("swarm", "w", [B], start=it)(),
    "workflow()": lambda it: built("workflow", "w", [[it]])(),
    "step(depends_on)": lambda it: built("workflow", "w", [of.step(B, depends_on=[it])])(),
    "supervisor(workers)": lambda it: built("supervisor", "v", MODEL, [[it]])(),
    "chat_agent(model)": lambda it: built("chat_agent", "c", [it])(),
    "chat_agent(tools)": lambda it: built("chat_agent", "c", MODEL, tools=[[it]])(),
    "chat_agent(sub_agents)": lambda it: built("chat_agent", "c", MODEL, sub_agents=[[it]])(),
    "chat_agent(instruction)": lambda it: built("chat_agent", "c", MODEL, instruction=[it])(),
    "chat_agent(output_schema)": lambda it: built("chat_agent", "c", MODEL, output_schema=[it])(),
    "chat_agent(middleware)": lambda it: built("chat_agent", "c", MODEL, middleware=[it])(),
    "chat_agent(history)": lambda it: built("chat_agent", "c", MODEL, history=[it])(),
    "chat_agent(limits)": lambda it: built("chat_agent", "c", MODEL, limits=[it])(),
    "human(response_schema)": lambda it: built("human", "h", "Well?", response_schema=[it])(),
    "function_agent(fn)": lambda it: built("function_agent", "f", [it])(),
    "graph_agent(graph)": lambda it: built("graph_agent", "g", [it])(),
    "agent_tool()": lambda it: built("chat_agent", "c", MODEL, tools=[of.agent_tool([it])])(),
    "handoff()": lambda it: built("chat_agent", "c", MODEL, sub_agents=[of.handoff([it])])(),
    "validated()": lambda it: built("validated", B, [it])(),
    "Limits()": lambda it: of.Limits(steps=it),
    "load()": lambda it: of.load([it]),
    "watch()": lambda it: of.watch(it, "Go."),
    "Runner(values)": lambda it: of.Runner(B, values=[it]),
    "Runner(checkpointer)": lambda it: of.Runner(B, checkpointer=[it]),
    "Runner(config)": lambda it: of.Runner(B, config=[it]),
    "Runner(context_schema)": lambda it: of.Runner(B, context_schema=[it]),
    "Runner(cache)": lambda it: of.Runner(B, cache=[it]),
    "Runner(store)": lambda it: of.Runner(B, store=[it]),
    "Runner(limits)": lambda it: of.Runner(B, limits=[it]),
    "Runner(allow)": lambda it: of.Runner(B, allow=[[it]]),
    "run(messages)": lambda it: [*of.Runner(B).run([[[it]]])],
    "run(values)": lambda it: run(values=[it]),
    "run(config)": lambda it: run(config=[it]),
    "run(limits)": lambda it: run(limits=[it]),
    "run(thread_id)": lambda it: run(thread_id=[it]),
    "run(while_running)": lambda it: run(while_running=[it]),
    "resume(answers)": lambda it: [*paused().resume("t", [it])],
    "resume(answer by address)": lambda it: [*paused().resume("t", {"boss": it})],
    "resume(thread_id)": lambda it: [*of.Runner(B).resume([it], "yes")],
    "rewind(at)": lambda it: [*paused().rewind("t", [it])],  # type: ignore[arg-type]
    "thread()": lambda it: of.Runner(B).thread([it]),
    "fork_many()": lambda it: of.Runner(B).fork_many("t", "b", [it]),
    "steer()": lambda it: of.Runner(B).steer("t", [[[it]]]),
    "follow(after)": lambda it: of.Runner(B).follow("t", after=[it]),
    "threads(status)": lambda it: of.Runner(B).threads(status=[it]),
    "returned": lambda it: returns([[it]]),
    "TransferTo()": lambda it: returns(ag.TransferTo([it])),  # type: ignore[arg-type]
    "graph.invoke()": lambda it: of.compile_agent(B).invoke([it]),
    "graph.invoke(values)": lambda it: of.compile_agent(B).invoke({"values": [it]}),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_an_error_shows_names_and_kinds_in_a_short_line(entrance: str) -> None:
    for value, _ in VALUES.values():
        with pytest.raises((ag.AgentGraphError, TypeError)) as caught:
            ENTRANCES[entrance](value)
        said = str(caught.value)
        assert max(map(len, said.splitlines())) <= LONGEST_LINE, said
        assert "Agent(" not in said, said
        assert " object at 0x" not in said, said
        assert "lc_versions" not in said, said
        assert re.search(r"; |: pass|pass |write ", said), said


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_shown_by_its_kind_and_name(name: str) -> None:
    value, text = VALUES[name]
    assert shown(value).startswith(text)
    assert len(shown(value)) <= LONGEST + 1


def test_agents_in_a_list_of_a_runner_are_named() -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        of.Runner([A, B])
    assert str(caught.value) == (
        "the root: [chat agent 'a', function agent 'b'] is not an agent; put several agents in one: "
        'ag.sequential("name", [...]), ag.parallel("name", [...])'
    )
