"""langgraph-supervisor's own tests, over an adapter: its agents are workers of our supervisor.

Of what it adds to the history nothing marks the way back to the supervisor: an event says it.
"""

from typing import Any

import pytest
from helpers import scripted
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_supervisor.handoff import create_forward_message_tool, create_handoff_tool

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

THREAD: Any = {"configurable": {"thread_id": "1"}}
FOUND = "Facebook has 67,317, Amazon 1,551,000, Apple 164,000."
SUM = "Together they have 1,782,317."


def create_supervisor(agents: list[Any], model: Any, output_mode: Any = "last", **options: Any) -> Any:
    """Return what langgraph-supervisor would compile, as a tree of ours."""
    workers = [ag.graph_agent(agent.name, agent) for agent in agents]
    boss = ag.supervisor(
        "supervisor", model, workers, mode="handoff", output_mode=output_mode, **options
    )
    return ag.compile_agent(boss, checkpointer=InMemorySaver())


def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


def web_search(query: str) -> str:
    """Searches the web."""
    return FOUND


def experts() -> list[Any]:
    sums = [(67317, 1551000), (1618317, 164000)]
    adding = [calls(call("add", str(number), a=a, b=b)) for number, (a, b) in enumerate(sums)]
    math = create_agent(scripted(*adding, SUM), tools=[add], name="math_expert")
    searching = calls(call("web_search", query="headcounts"))
    research = create_agent(scripted(searching, FOUND), tools=[web_search], name="research_expert")
    return [math, research]


def boss() -> ScriptedChatModel:
    return scripted(
        calls(call("transfer_to_research_expert")), calls(call("transfer_to_math_expert")), SUM
    )


def spoken(messages: Any) -> list[tuple[str, str | None]]:
    """Return what was said in words, and by whom; without what a model was instructed."""
    words = [each for each in messages if each.type != "system"]
    return [(str(each.text), each.name) for each in words if each.text and each.type != "tool"]


# test_supervisor_basic_workflow, with output_mode="last_message"
def test_the_supervisor_sees_the_last_message_of_each_worker() -> None:
    model = boss()
    app = create_supervisor(experts(), model)
    result = app.invoke({"messages": ["How many?"]}, THREAD)
    assert spoken(model.inputs[1])[1:] == [(f"[research_expert] said: {FOUND}", "research_expert")]
    assert spoken(model.inputs[2])[1:] == [
        (f"[research_expert] said: {FOUND}", "research_expert"),
        (f"[math_expert] said: {SUM}", "math_expert"),
    ]
    assert spoken(result["messages"]) == [
        ("How many?", None),
        (FOUND, "research_expert"),
        (SUM, "math_expert"),
        (SUM, "supervisor"),
    ]


# test_supervisor_basic_workflow, with output_mode="full_history"
def test_the_supervisor_sees_all_that_a_worker_did() -> None:
    model = boss()
    app = create_supervisor(experts(), model, "full")
    result = app.invoke({"messages": ["How many?"]}, THREAD)
    sent = "\n".join(str(each.text) for each in model.inputs[2])
    assert "web_search" in sent
    assert "1782317" in sent
    called = [each["name"] for m in result["messages"] for each in getattr(m, "tool_calls", ())]
    assert called == [
        *("transfer_to_research_expert", "web_search"),
        *("transfer_to_math_expert", "add", "add"),
    ]


# test_worker_hide_handoffs
def test_a_worker_sees_no_transfers_also_in_the_next_turn() -> None:
    echo = scripted("Echo 1!", "Echo 2!")
    model = scripted(
        calls(call("transfer_to_echo_agent")), "boo", calls(call("transfer_to_echo_agent")), "END"
    )
    app = create_supervisor([create_agent(echo, name="echo_agent")], model)
    app.invoke({"messages": ["Scooby-dooby-doo"]}, THREAD)
    app.invoke({"messages": ["Huh take two?"]}, THREAD)
    assert [[str(each.text) for each in sent] for sent in echo.inputs] == [
        ["Scooby-dooby-doo"],
        ["Scooby-dooby-doo", "Echo 1!", "[supervisor] said: boo", "Huh take two?"],
    ]


# test_supervisor_message_forwarding
@pytest.mark.parametrize("own", [False, True], ids=["its tool", "ours"])
def test_the_supervisor_forwards_the_words_of_a_worker(own: bool) -> None:
    model = scripted(
        calls(call("transfer_to_echo_agent")), calls(call("forward_message", from_agent="echo_agent"))
    )
    options: Any = {"forward": True} if own else {"tools": [create_forward_message_tool("supervisor")]}
    echo = create_agent(scripted("Echo: test forwarding!"), name="echo_agent")
    result = create_supervisor([echo], model, **options).invoke({"messages": ["Scooby"]}, THREAD)
    assert spoken(result["messages"])[1:] == [
        ("Echo: test forwarding!", "echo_agent"),
        ("Echo: test forwarding!", "supervisor"),
    ]


# test_supervisor_basic_workflow, with its own handoff tools
def test_its_handoff_tools_lead_to_the_workers() -> None:
    tools = [create_handoff_tool(agent_name=name) for name in ("math_expert", "research_expert")]
    workers = [ag.graph_agent(worker.name, worker) for worker in experts()]
    tree = ag.chat_agent("supervisor", boss(), tools=tools, sub_agents=workers, sub_agents_return=True)
    result = ag.compile_agent(tree, checkpointer=InMemorySaver()).invoke({"messages": ["How?"]}, THREAD)
    assert spoken(result["messages"])[1:] == [
        (FOUND, "research_expert"),
        (SUM, "math_expert"),
        (SUM, "supervisor"),
    ]


# test_metadata_passed_to_subagent
def test_a_worker_reads_the_metadata_of_the_run() -> None:
    metadata: dict[str, Any] = {}

    def answer(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        metadata.update(config["metadata"])
        return {"messages": [AIMessage("Test response")]}

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    model = scripted(calls(call("transfer_to_test_agent")), "Final response")
    app = create_supervisor([builder.compile(name="test_agent")], model)
    config = {**THREAD, "metadata": {"test_key": "test_value", "another_key": 123}}
    result = app.invoke({"messages": ["Test message"]}, config)
    assert (metadata["test_key"], metadata["another_key"]) == ("test_value", 123)
    assert result["messages"][-1].text == "Final response"


# test_supervisor_functional_workflow; an entrypoint needs `output`, for its state has no messages
@pytest.mark.parametrize("called", [False, True], ids=["not called", "called"])
def test_a_worker_is_an_entrypoint(called: bool) -> None:
    joker = scripted("Mocked joke")

    @task
    def generate_joke(messages: list[Any]) -> Any:
        return joker.invoke([("system", "Write a short joke"), *messages])

    @entrypoint()
    def joke_agent(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [*state["messages"], generate_joke(state["messages"]).result()]}

    worker = ag.graph_agent("joke_agent", joke_agent, output=lambda state: state["messages"][-1])
    first = [calls(call("transfer_to_joke_agent"))] if called else []
    model, instruction = scripted(*first, "Mocked response"), "You manage a joke expert."
    boss = ag.supervisor("supervisor", model, [worker], mode="handoff", instruction=instruction)
    result = ag.compile_agent(boss).invoke({"messages": ["Tell me a joke!"]})
    assert instruction in model.inputs[0][0].text
    assert spoken(result["messages"]) == [
        ("Tell me a joke!", None),
        *([("Mocked joke", "joke_agent")] if called else []),
        ("Mocked response", "supervisor"),
    ]
