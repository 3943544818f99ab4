"""langgraph-swarm's own tests, over an adapter: its agents and tools are members of our swarm."""

from typing import Any

import pytest
from helpers import add, scripted
from langchain.agents import AgentState, create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool

import agentgraph as ag
from agentgraph.testing import call, calls

BOB_SAYS = "Ahoy, I am Bob the pirate!"
SUM = "The sum of 5 and 7 is 12."


class WithActive(AgentState[Any]):
    """A state with langgraph-swarm's key, which nobody has to give."""

    active_agent: str | None


class Swarm:
    """What langgraph-swarm compiles, of a swarm of ours."""

    def __init__(self, agents: list[Any], default_active_agent: str, **options: Any) -> None:
        members = [ag.graph_agent(agent.name, agent, **options) for agent in agents]
        tree = ag.swarm("swarm", members, start=default_active_agent)
        self.graph: Any = ag.compile_agent(tree, checkpointer=InMemorySaver())

    def invoke(self, text: str) -> dict[str, Any]:
        config = {"configurable": {"thread_id": "1"}}
        state = self.graph.invoke({"messages": [{"role": "user", "content": text}]}, config)
        return {**state, "active_agent": state["values"]["swarm_active"]}


# test_basic_swarm, test_basic_swarm_pydantic
@pytest.mark.parametrize("state", [None, WithActive], ids=["plain", "with its key"])
@pytest.mark.parametrize("flat", [False, True], ids=["nested", "flat"])
def test_a_swarm_of_two_keeps_who_is_active_and_all_that_is_said(state: Any, flat: bool) -> None:
    model = scripted(
        calls(call("transfer_to_bob")),
        BOB_SAYS,
        calls(call("transfer_to_alice")),
        calls(call("add", a=5, b=7)),
        SUM,
    )
    to_alice = create_handoff_tool(agent_name="Alice", description="Alice can help with sums.")
    alice = create_agent(
        model,
        tools=[add, create_handoff_tool(agent_name="Bob")],
        system_prompt="You are Alice, who adds.",
        name="Alice",
        state_schema=state,
    )
    bob = create_agent(
        model, tools=[to_alice], system_prompt="You are Bob.", name="Bob", state_schema=state
    )
    app = Swarm([alice, bob], "Alice", flat=flat)
    first = app.invoke("I want to speak to Bob.")
    assert len(first["messages"]) == 4
    assert first["messages"][-2].content == "Successfully transferred to Bob"
    assert first["messages"][-1].content == BOB_SAYS
    assert first["active_agent"] == "Bob"
    second = app.invoke("What is 5 + 7?")
    assert len(second["messages"]) == 10
    assert second["messages"][-4].content == "Successfully transferred to Alice"
    assert second["messages"][-2].content == "12"
    assert second["messages"][-1].content == SUM
    assert second["active_agent"] == "Alice"
