"""Natural mistakes of people who know other libraries end in a line that says what to do."""

import asyncio
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from helpers import Drive, gives, says, scripted
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph

import agentgraph as ag

of: Any = ag
"""The package, as a newcomer sees it who has no type checker."""
A, B = says("a"), says("b")
RUNNER: Any = ag.Runner(A)
GRAPH: Any = ag.compile_agent(A)


def search(topic: str) -> str:
    """Search."""
    return topic


def of_nothing() -> bool:
    return True


def built(name: str, *arguments: Any, **options: Any) -> Callable[[], object]:
    return lambda: of.Runner(getattr(of, name)(*arguments, **options))


def returns(value: Any) -> Callable[[], object]:
    return lambda: ag.Runner(gives("f", value)).invoke("Go.")


def runs(fn: Callable[[Any], object], **options: Any) -> Callable[[], object]:
    return lambda: ag.Runner(of.function_agent("f", fn, **options)).invoke("Go.")


def event() -> Any:
    return RUNNER.invoke("Go.").events[0]


async def awaited(thing: Any) -> object:
    return await thing


async def looped(run: Any) -> object:
    return [each async for each in run]


async def entered(run: Any) -> object:
    async with run:
        return None


def with_block(run: Any) -> object:
    with run:
        return None


LIST = "a run is not a list; use query(...), which returns the list of its events"
NOT_ASYNC = "a Run is not async; use `async with` and `async for` with arun(...)"
NOT_SYNC = "an AsyncRun is async; use `async with`, or run(...)"
OPERATORS = 'agents have no operators; write ag.sequential("name", [a, b]), or ag.parallel(...)'
INVOKE = (
    'Runner.invoke(): too many positional arguments; write runner.invoke("x", thread_id="monday", '
    "values={...}, config={...})"
)
NO_CONTEXT = "takes (); it takes one argument, a Context"
TEXT = "return the text itself, or an AIMessage"
BUILT = "agents do not change; build a tree with all of them, then ag.Runner(tree)"
KEY = {"thread_id": "1"}

MISTAKES: list[tuple[str, Callable[[], object], str]] = [
    ("runner.run()[0]", lambda: RUNNER.run("Go.")[0], LIST),
    ("runner.arun()[0]", lambda: RUNNER.arun("Go.")[0], LIST),
    ("async for in run()", lambda: asyncio.run(looped(RUNNER.run("Go."))), NOT_ASYNC),
    ("async with run()", lambda: asyncio.run(entered(RUNNER.run("Go."))), NOT_ASYNC),
    ("with arun()", lambda: with_block(RUNNER.arun("Go.")), NOT_SYNC),
    (
        "await invoke()",
        lambda: asyncio.run(awaited(RUNNER.invoke("Go."))),
        "a Result cannot be awaited; use await ainvoke(...)",
    ),
    ("a | b", lambda: of.human("x", "X?") | B, OPERATORS),
    ("a >> b", lambda: of.human("x", "X?") >> B, OPERATORS),
    ("a + b", lambda: of.human("x", "X?") + B, OPERATORS),
    ("event['text']", lambda: event()["text"], "AgentEvent has no key 'text'; use event.text"),
    (
        "event['data']",
        lambda: event()["data"],
        "AgentEvent has no key 'data'; use its attributes, or to_dict()['data']",
    ),
    ("invoke(text, config)", lambda: RUNNER.invoke("Go.", {"configurable": KEY}), INVOKE),
    ("invoke(text, thread)", lambda: RUNNER.invoke("Go.", "monday"), INVOKE),
    (
        "runner.values",
        lambda: RUNNER.values,
        "Runner has no attribute 'values'; use thread(id).values, or invoke(...).values",
    ),
    ("runner.agents", lambda: RUNNER.agents, "Runner has no attribute 'agents'; use agent"),
    (
        "runner.compile()",
        lambda: RUNNER.compile(),
        "Runner has no attribute 'compile'; use graph, which is compiled",
    ),
    (
        "runner.send_message()",
        lambda: RUNNER.send_message("Go."),
        "Runner has no attribute 'send_message'; use resume(id, answer), or invoke(..., thread_id=id)",
    ),
    (
        "agent.add_tool()",
        lambda: of.human("x", "X?").add_tool(search),
        f"HumanAgent has no attribute 'add_tool'; {BUILT}",
    ),
    (
        "agent.then(b)",
        lambda: of.human("x", "X?").then(B),
        "HumanAgent has no attribute 'then'; use ag.sequential(\"name\", [a, b])",
    ),
    (
        "graph.run()",
        lambda: GRAPH.run("Go."),
        "RootGraph has no attribute 'run'; use ag.Runner(tree).run(...), or invoke({...})",
    ),
    (
        "graph.compile()",
        lambda: GRAPH.compile(),
        "RootGraph has no attribute 'compile'; use it as it is; it is compiled",
    ),
    (
        "graph.invoke({'input': ...})",
        lambda: GRAPH.invoke({"input": "Go."}),
        "the input of a graph has messages and values, not ['input']; pass "
        '{"messages": [("user", ...)], "values": {...}}',
    ),
    (
        "graph.invoke([messages])",
        lambda: GRAPH.invoke([("user", "Go.")]),
        "the input of a graph is a mapping, not [('user', 'Go.')]; pass {\"messages\": [...]}",
    ),
    (
        "graph.invoke(message)",
        lambda: GRAPH.invoke(AIMessage("Go.")),
        "the input of a graph is a mapping, not AIMessage('Go.'); pass {\"messages\": [...]}",
    ),
    (
        "ag.Sequential",
        lambda: of.Sequential,
        "agentgraph has no attribute 'Sequential'; use ag.sequential(\"name\", [a, b])",
    ),
    (
        "ag.HumanMessage",
        lambda: of.HumanMessage,
        "agentgraph has no attribute 'HumanMessage'; import it from langchain_core.messages",
    ),
    (
        "ag.UserProxyAgent",
        lambda: of.UserProxyAgent,
        'agentgraph has no attribute \'UserProxyAgent\'; use ag.human("name", "Print it?")',
    ),
    (
        "ag.Agent(...)",
        lambda: of.Agent(name="writer", instructions="Write."),
        "ag.Agent is the type of all agents; use ag.chat_agent(name, model, tools=[...]), "
        "ag.function_agent(name, fn), ag.sequential(name, [a, b]), ...",
    ),
    (
        "class Mine(ag.Agent)",
        lambda: type("Mine", (of.Agent,), {}),
        "agents are not subclassed; write a function with @ag.agent",
    ),
    (
        "ag.entrypoint",
        lambda: of.entrypoint,
        "agentgraph has no attribute 'entrypoint'; use @ag.agent",
    ),
    (
        "@ag.agent('writer')",
        lambda: of.agent("writer"),
        "'writer' is not a function; write @ag.agent(name='writer'), or ag.function_agent('writer', "
        "fn)",
    ),
    (
        "human(schema=['yes', 'no'])",
        built("human", "h", "Well?", response_schema=["yes", "no"]),
        "h: the response schema ['yes', 'no'] is neither a type nor a JSON schema (pydantic knows no "
        "such type); for a choice pass Literal['yes', 'no'], or {\"enum\": [...]}",
    ),
    (
        "output_schema='Report'",
        built("chat_agent", "c", scripted(), output_schema="Report"),
        "c: the output schema 'Report' is neither a type nor a JSON schema (pydantic knows no such "
        "type); pass a pydantic model or another type",
    ),
    (
        "tools={'search': search}",
        built("chat_agent", "c", scripted(), tools={"search": search}),
        "c: tools={'search': <function search>} is a mapping; pass a list of the tools: tools=[...]",
    ),
    (
        "tools=[handoff(a)]",
        built("chat_agent", "c", scripted(), tools=[of.handoff(A)]),
        "c: handoff('a') cannot be used as a tool (a handoff belongs in sub_agents=); pass a LangChain "
        "tool, or a function with a docstring",
    ),
    (
        "sub_agents=[agent_tool(a)]",
        built("chat_agent", "c", scripted(), sub_agents=[of.agent_tool(A)]),
        "c: agent_tool(function agent 'a') is not an agent; an agent tool belongs in tools= of a chat "
        "agent",
    ),
    (
        "sequential with Exit()",
        built("sequential", "s", [A, ag.Exit()]),
        "s: Exit() is not an agent; a function returns it: return ag.Exit()",
    ),
    (
        "supervisor with a model for workers",
        built("supervisor", "s", scripted(), scripted()),
        's: ScriptedChatModel is not an agent; it is a model: pass ag.chat_agent("name", model)',
    ),
    (
        "until without a parameter",
        built("loop", "l", [A], max_iterations=2, until=of_nothing),
        f"l: until=<function of_nothing> {NO_CONTEXT}",
    ),
    (
        "switch on a function without a parameter",
        built("switch", "s", of_nothing, {True: A, False: B}),
        f"s: choose=<function of_nothing> {NO_CONTEXT}",
    ),
    (
        "each over a function without a parameter",
        built("each", "e", A, of_nothing),
        f"e: over=<function of_nothing> {NO_CONTEXT}",
    ),
    (
        "step(name, agent)",
        lambda: of.step("a", A),
        'step(): too many positional arguments; write ag.step(agent, depends_on=["a"])',
    ),
    (
        "agent_tool(agent, text)",
        lambda: of.agent_tool(A, "Asks a."),
        'agent_tool(): too many positional arguments; write ag.agent_tool(agent, description="...")',
    ),
    (
        "Custom(text=...)",
        lambda: of.Custom(text="Hi."),
        "Custom() has no option 'text'; pass it as the first argument, data",
    ),
    ("returns ('ai', text)", returns(("ai", "Hi.")), f"f: the function returned ('ai', 'Hi.'); {TEXT}"),
    (
        "returns [('ai', text)]",
        returns([("ai", "Hi.")]),
        f"f: the function returned ('ai', 'Hi.'); {TEXT}",
    ),
    (
        "returns a message as a dict",
        returns({"role": "assistant", "content": "Hi."}),
        f"f: the function returned {{'role': 'assistant', 'content': 'Hi.'}}; {TEXT}",
    ),
    (
        "TransferTo([...])",
        returns(of.TransferTo([A])),
        "f: cannot transfer to [function agent 'a'] from here; possible: none: only agents in a chat "
        "agent's sub_agents can",
    ),
    (
        "ctx.run(agent, text)",
        runs(lambda ctx: ctx.run(B, "Go."), agents=[B]),
        "f: ctx.run(function agent 'b'): agents= declares only 'b'; pass a name of these",
    ),
    (
        "ctx.run(name)",
        runs(lambda ctx: ctx.run("b"), agents=[B]),
        "f: ctx.run('b'): the request None is not a text; pass one, as in ctx.run('b', 'Find bees.')",
    ),
    (
        "load(agent)",
        lambda: of.load(A),
        "path=function agent 'a' is not the path of a skill file; pass one, such as 'report.yaml'",
    ),
    (
        "Runner(allow=Report())",
        lambda: of.Runner(A, allow=3),
        "allow= must be a list of types, got 3; pass allow=[Report]",
    ),
    (
        "Runner(store={})",
        lambda: of.Runner(A, store={}),
        "store={} is not a store of LangGraph; pass one, such as "
        "langgraph.store.memory.InMemoryStore()",
    ),
]


@pytest.mark.parametrize(
    ("call", "text"), [each[1:] for each in MISTAKES], ids=[m[0] for m in MISTAKES]
)
def test_a_natural_mistake_is_answered_by_what_to_do(call: Callable[[], object], text: str) -> None:
    with pytest.raises((ag.AgentGraphError, TypeError, AttributeError)) as caught:
        call()
    assert str(caught.value) == text


def test_a_write_to_the_values_of_a_context_is_answered(drive: Drive) -> None:
    def writes(ctx: Any) -> str:
        ctx.values.update(topic="bees")
        return "never"

    with pytest.raises(AttributeError) as caught:
        [*drive.run(ag.Runner(ag.function_agent("f", writes)), "Go.")]
    assert any("return ag.SetValues(name=...)" in note for note in caught.value.__notes__)


def test_a_result_of_another_run_is_not_awaited(drive: Drive) -> None:
    inner = ag.Runner(says("b"))
    with pytest.raises(ag.InvalidOutputError) as caught:
        [*drive.run(ag.Runner(gives("f", inner.invoke("Go."))), "Go.")]
    assert str(caught.value).endswith("; return its text: result.text")


def test_what_langgraph_passes_to_a_graph_is_taken() -> None:
    """A graph around a tree may pass a state without its keys, and a caller an object of a state."""

    class Topic(TypedDict):
        topic: str

    builder = StateGraph(Topic)
    builder.add_node("tree", ag.compile_agent(says("a")))
    builder.add_edge(START, "tree")
    assert builder.compile().invoke({"topic": "bees"}) == {"topic": "bees"}
    assert ag.compile_agent(A).invoke({})["messages"][0].text == "a"


def test_the_type_of_all_agents_is_a_type() -> None:
    kind: Any = of.Agent
    for each in (A, ag.sequential("s", [A]), ag.validated(A, str), ag.human("h", "Well?")):
        assert isinstance(each, kind)
    assert not isinstance(search, kind)
    assert (kind | None).__args__[0] is kind
