"""Transfers: what models see of them, what is drawn, and how a group resumes elsewhere.

What a run with transfers emits is in `tests/transcripts/transfers.txt`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from helpers import Disk, Drive, chat, failing, lines, says, scripted, texts, visits
from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls


def to(name: str, text: str = "") -> BaseMessage:
    return calls(call(f"transfer_to_{name}"), text=text)


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return texts(messages, system=False)


def edges(tree: ag.Agent, **options: Any) -> set[str]:
    drawn = ag.compile_agent(tree).get_graph(**options).edges
    return {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in drawn}


def test_a_chain_may_go_round_many_times(drive: Drive) -> None:
    middle = chat("C", *[to("D"), to("D"), to("P")] * 2, sub_agents=[chat("D", *[to("C")] * 4)])
    tree = chat("P", to("C"), to("C"), "Done.", sub_agents=[middle])
    events = list(drive.run(ag.Runner(tree), "Go."))
    assert visits(events)[-1] == ("P[1.1.0.1.0.0.1.1.0.1.0.0]", "/".join("PCDCDCPCDCDCP"))


def test_a_transfer_is_the_same_as_json_and_from_a_bare_graph() -> None:
    tree = chat("P", *[to("C"), "Done."] * 2, sub_agents=[chat("C", *[to("P")] * 2)])
    events = list(ag.Runner(tree).run("Go."))
    assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events
    parts = ag.compile_agent(tree).stream(
        {"messages": ["Go."]}, stream_mode=list(ag.STREAM_MODES), version="v2"
    )
    assert lines(ag.translate(tree, parts)) == lines(events)


def test_a_model_is_sent_a_tool_and_a_line_for_each_target() -> None:
    parent, child = scripted(to("C")), scripted("Done.")
    bills = ag.chat_agent(
        "C", child, description="Knows {bills} and {{refunds}}.", sub_agents=[says("E")]
    )
    tree = ag.chat_agent(
        "P", parent, instruction="Be {tone}.", description="Sorts.", sub_agents=[bills, says("D")]
    )
    list(ag.Runner(tree).run("Go.", values={"tone": "kind", "bills": "NO"}))
    head = "You can hand the conversation over to another agent, who then goes on, with these tools:\n"
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
        ("transfer_to_D", "Hand over to D. the agent D"),
    ]
    assert [t["function"]["name"] for t in child.tools] == ["transfer_to_E", "transfer_to_P"]


def test_an_agent_inside_a_target_that_is_a_composite_has_no_transfer_back() -> None:
    inside = scripted("Done.")
    steps = ag.sequential("S", [ag.chat_agent("C", inside)])
    list(ag.Runner(chat("P", to("S"), sub_agents=[steps])).run("Go."))
    assert inside.tools == []


def test_a_model_sees_what_was_said_with_a_transfer_but_no_silent_transfer(drive: Drive) -> None:
    parent = scripted(to("C"), to("C", "C knows."), "Done.")
    child = scripted(to("P"), to("P", "No."))
    list(
        drive.run(ag.Runner(ag.chat_agent("P", parent, sub_agents=[ag.chat_agent("C", child)])), "Go.")
    )
    assert [sent(messages) for messages in parent.inputs] == [
        ["human: Go."],
        ["human: Go."],
        ["human: Go.", "ai: C knows.", "tool: Transferred to C.", "human: [C] said: No."],
    ]
    assert sent(child.inputs[1]) == ["human: Go.", "human: [P] said: C knows."]


def test_the_path_policy_shows_what_was_said_on_the_way(drive: Drive) -> None:
    parent = scripted(to("C"), "Done.")
    lowest = chat("D", to("C", "It is three."))
    middle = chat("C", to("D", "D knows."), to("P", "No more."), sub_agents=[lowest])
    tree = ag.chat_agent("P", parent, sub_agents=[middle], history="path")
    list(drive.run(ag.Runner(tree), "Go."))
    assert sent(parent.inputs[1]) == [
        "human: Go.",
        "human: [C] said: D knows.",
        "human: [D] said: It is three.",
        "human: [C] said: No more.",
    ]


def test_only_the_output_of_the_agent_that_ended_the_group_is_a_value(drive: Drive) -> None:
    child = chat("C", "From C.", output_key="answer")
    runner = ag.Runner(chat("P", to("C"), sub_agents=[child], output_key="mine"))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["values"] == {
        "answer": "From C."
    }


def test_a_tool_runs_again_after_its_question_while_the_transfer_next_to_it_waits(disk: Disk) -> None:
    ran: list[str] = []

    def ask_boss() -> str:
        """Asks the boss."""
        ran.append("ask_boss")
        return f"The boss says {interrupt('Well?')}"

    child = scripted("Done.")
    tree = chat(
        "P",
        calls(call("ask_boss"), call("transfer_to_C")),
        tools=[ask_boss],
        sub_agents=[ag.chat_agent("C", child)],
    )
    assert lines(disk.run(tree))[-1] == "P: [asks] Well?"
    assert lines(disk.resume(tree, "yes")) == [
        "P: The boss says yes",
        "P: [transfer_to] C",
        "P[1]/C: Done.",
    ]
    assert ran == ["ask_boss"] * 2
    assert sent(child.inputs[0])[1:] == [
        "human: [P] called ask_boss({})",
        "human: [P] ask_boss returned: The boss says yes",
    ]


def test_a_tool_may_transfer_with_values_and_custom_data(drive: Drive) -> None:
    def route(city: str) -> list[Any]:
        """Routes."""
        return [ag.SetValues(city=city), ag.Custom({"routed": city}), ag.TransferTo("C")]

    child = scripted("Done.")
    tree = chat(
        "P",
        calls(call("route", city="Rome")),
        tools=[route],
        sub_agents=[ag.chat_agent("C", child, instruction="In {city}.")],
    )
    assert sorted(lines(drive.run(ag.Runner(tree), "Go."))) == [
        "P: Done.",
        'P: [calls] route({"city": "Rome"})',
        'P: [custom] {"routed": "Rome"}',
        "P: [transfer_to] C",
        "P[1]/C: Done.",
    ]
    assert child.inputs[0][0].text.startswith("In Rome.\n\n")


def test_an_unknown_target_of_a_tool_goes_back_to_the_model(drive: Drive) -> None:
    def route(where: str) -> ag.TransferTo:
        """Routes."""
        return ag.TransferTo(where)

    replies = [calls(call("route", where=where)) for where in ("nobody", "C")]
    tree = chat("P", *replies, tools=[route], sub_agents=[chat("C", "Done.")])
    assert lines(drive.run(ag.Runner(tree), "Go.")) == [
        'P: [calls] route({"where": "nobody"})',
        "P: Error: there is no agent nobody to transfer to; there are: C.",
        'P: [calls] route({"where": "C"})',
        "P: Done.",
        "P: [transfer_to] C",
        "P[1]/C: Done.",
    ]


def test_a_function_whose_annotation_names_no_transfer_may_not_transfer(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        return ag.TransferTo("P")  # type: ignore[return-value]

    tree = chat("P", to("f"), sub_agents=[ag.function_agent("f", fn)])
    _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(raised) == (
        "P[1]/f: the function gave TransferTo, which its return annotation does not name; add it, "
        "as in `-> str | TransferTo`, so that the graph has an edge for it"
    )


def test_a_generator_ends_with_its_transfer(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> Iterator[str | ag.TransferTo]:
        yield f"f at {ctx.address}"
        yield ag.TransferTo("P")
        yield "never"

    tree = chat("P", to("f"), "Done.", sub_agents=[ag.function_agent("f", fn)])
    assert lines(drive.run(ag.Runner(tree), "Go."))[-3:] == [
        "P[1]/f: f at P[1]/f",
        "P[1]/f: [transfer_to] P",
        "P[1.0]: Done.",
    ]


def test_a_coroutine_may_transfer(drive: Drive) -> None:
    async def fn(ctx: ag.Context) -> ag.TransferTo:
        return ag.TransferTo("P")

    tree = chat("P", to("f"), "Done.", sub_agents=[ag.function_agent("f", fn)])
    assert lines(drive.run(ag.Runner(tree), "Go."))[-2:] == ["P[1]/f: [transfer_to] P", "P[1.0]: Done."]


def test_a_tree_with_another_target_is_refused(disk: Disk) -> None:
    def tree(*more: ag.Agent) -> ag.Agent:
        return chat("P", to("boss"), sub_agents=[ag.human("boss", "Well?"), *more])

    disk.run(tree())
    with pytest.raises(ag.TreeChangedError) as caught:
        disk.resume(tree(says("C")), "yes")
    assert "+  function C" in caught.value.difference


@pytest.mark.parametrize(
    ("hops", "said"),
    [((2,), "s/P[2]/D s/P/D"), ((1, 0, 2), "s/P[1.0.2]/D s/P/C/P/D"), (None, "s/P[2]/D s/P/D")],
)
def test_a_command_may_jump_to_a_sub_agent(hops: tuple[int, ...] | None, said: str) -> None:
    child = ag.function_agent("D", lambda ctx: f"{ctx.address} {ctx.run_path}")
    group = chat("P", "Done.", sub_agents=[chat("C"), child])
    runner = ag.Runner(ag.sequential("s", [group, says("z")]))
    list(runner.run("Go.", thread_id="t"))
    config: Any = {"configurable": {"thread_id": "t"}}
    position = runner.graph.get_state(config).values["position"]
    update = {"position": {**position, "next": "D", "cursor": [hops]}} if hops else None
    state = runner.graph.invoke(Command(goto="D", update=update), config)
    assert [message.text for message in state["messages"][-2:]] == [said, "z"]


def back(ctx: ag.Context) -> ag.TransferTo:
    return ag.TransferTo("P")


def maybe(ctx: ag.Context) -> Iterator[str | ag.TransferTo]:
    yield ag.TransferTo("P")


def route(where):  # type: ignore[no-untyped-def]
    """Routes."""
    return ag.TransferTo(where)


DRAWN: dict[str, tuple[ag.Agent, set[str]]] = {
    "edges lead to each target, and to the end from what may end": (
        ag.sequential("s", [chat("P", sub_agents=[chat("C"), says("D")]), says("z")]),
        {
            *["__start__ -> P", "P .. P.tools", "P .. z", "P.tools .. P", "P.tools .. C"],
            *["P.tools .. D", "C .. C.tools", "C .. z", "C.tools .. C", "C.tools .. P"],
            *["D -> z", "z -> __end__"],
        },
    ),
    "edges lead to the first agent of a composite and out after its last": (
        ag.loop(
            "l",
            [
                chat(
                    "P",
                    sub_agents=[
                        ag.sequential("S", [says("a"), says("b")]),
                        ag.loop("L", [says("c"), says("d")], max_iterations=2),
                        ag.parallel("both", [says("e"), says("f")]),
                    ],
                )
            ],
            max_iterations=2,
        ),
        {
            *["__start__ -> P", "P .. P.tools", "P .. P", "P .. __end__", "P.tools .. P"],
            *["P.tools .. a", "P.tools .. c", "P.tools .. both", "a -> b", "b .. P"],
            *["b .. __end__", "c -> d", "d .. c", "d .. P", "d .. __end__", "both .. P"],
            *["both .. __end__"],
        },
    ),
    "a function has an edge back only where its annotation names a transfer": (
        chat(
            "P", sub_agents=[*map(ag.function_agent, ("back", "maybe"), (back, maybe)), says("never")]
        ),
        {
            *["__start__ -> P", "P .. P.tools", "P .. __end__", "P.tools .. P", "P.tools .. back"],
            *["P.tools .. maybe", "P.tools .. never", "back -> P", "maybe .. P"],
            *["maybe .. __end__", "never -> __end__"],
        },
    ),
    "a tool without annotation adds an exit, and no target": (
        chat("P", tools=[route], sub_agents=[says("C")]),
        {
            *["__start__ -> P", "P .. P.tools", "P .. __end__", "P.tools .. P", "P.tools .. C"],
            *["P.tools .. __end__", "C -> __end__"],
        },
    ),
}


@pytest.mark.parametrize("case", DRAWN)
def test_drawn_is_just_what_can_happen(case: str) -> None:
    tree, expected = DRAWN[case]
    assert edges(tree) == expected


def test_a_sub_agent_in_a_branch_is_drawn_in_its_branch() -> None:
    tree = ag.parallel("p", [chat("P", sub_agents=[says("C")]), says("b")])
    inside = {edge for edge in edges(tree, xray=True) if edge.startswith("p:P:P.tools")}
    assert inside == {"p:P:P.tools .. p:P:P", "p:P:P.tools .. p:P:C"}
