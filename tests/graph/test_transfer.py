"""Transfers: what a model is sent of them, which functions may transfer, and jumps to sub-agents.

What a run with transfers emits is in `tests/transcripts/transfers.txt` and `transfers_and_tools.txt`.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from helpers import Drive, chat, failing, says, scripted
from langchain_core.messages import SystemMessage
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import call, calls


def test_a_model_is_sent_a_tool_and_a_line_for_each_target() -> None:
    parent, child = scripted(calls(call("transfer_to_C"))), scripted("Done.")
    bills = ag.chat_agent(
        "C", child, description="Knows {bills} and {{refunds}}.", sub_agents=[says("E")]
    )
    tree = ag.chat_agent(
        "P", parent, instruction="Be {tone}.", description="Sorts.", sub_agents=[bills, says("D")]
    )
    list(ag.Runner(tree).run("Go.", values={"tone": "kind", "bills": "NO"}))
    head = "You can hand the conversation over to another agent, who continues, with these tools:\n"
    assert parent.inputs[0][0] == SystemMessage(
        f"Be kind.\n\n{head}"
        "- transfer_to_C: Knows {bills} and {{refunds}}.\n"
        "- transfer_to_D: the agent D"
    )
    assert child.inputs[0][0] == SystemMessage(
        f"{head}- transfer_to_E: the agent E\n- transfer_to_P: Sorts."
    )
    assert [(t["function"]["name"], t["function"]["description"]) for t in parent.tools] == [
        ("transfer_to_C", "Hand over to C. Knows {bills} and {{refunds}}."),
        ("transfer_to_D", "Hand over to D."),
    ]
    assert [t["function"]["name"] for t in child.tools] == ["transfer_to_E", "transfer_to_P"]


def test_an_agent_inside_a_target_that_is_a_composite_has_no_transfer_back() -> None:
    inside = scripted("Done.")
    steps = ag.sequential("S", [ag.chat_agent("C", inside)])
    list(ag.Runner(chat("P", calls(call("transfer_to_S")), sub_agents=[steps])).run("Go."))
    assert inside.tools == []


def test_a_function_whose_annotation_names_no_transfer_may_not_transfer(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        return ag.TransferTo("P")  # type: ignore[return-value]

    tree = chat("P", calls(call("transfer_to_f")), sub_agents=[ag.function_agent("f", fn)])
    _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(raised) == (
        "P[1]/f: the function returned TransferTo, which its return annotation does not name; add it, "
        "as in `-> str | TransferTo`, so that the graph has an edge for it"
    )


@pytest.mark.parametrize(
    ("hops", "said"),
    [(["D"], "s/P[1]/D s/P/D"), ("CPD", "s/P[3]/D s/P/C/P/D"), (None, "s/P[1]/D s/P/D")],
)
def test_a_command_may_jump_to_a_sub_agent(hops: Sequence[str] | None, said: str) -> None:
    child = ag.function_agent("D", lambda ctx: f"{ctx.address} {ctx.run_path}")
    group = chat("P", "Done.", sub_agents=[chat("C"), child])
    runner = ag.Runner(ag.sequential("s", [group, says("z")]))
    list(runner.run("Go.", thread_id="t"))
    config: Any = {"configurable": {"thread_id": "t"}}
    position = runner.graph.get_state(config).values["position"]
    update = {"position": {**position, "next": "D", "cursor": [[*hops]]}} if hops else None
    state = runner.graph.invoke(Command(goto="D", update=update), config)
    assert [message.text for message in state["messages"][-2:]] == [said, "z"]
