"""Transfers: who goes on, how it is told, and what is left of it in the history."""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import pytest
from helpers import Disk, Drive, driven, failing, scripted, standing, visits
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import transcript

IDS = count()


def calling(*names: str, text: str = "", **args: Any) -> AIMessage:
    """Return a message that calls tools."""
    made = [{"name": n, "args": args, "id": f"call{next(IDS)}", "type": "tool_call"} for n in names]
    return AIMessage(text, tool_calls=made)


def to(*names: str, text: str = "") -> AIMessage:
    """Return a message that transfers."""
    return calling(*(f"transfer_to_{name}" for name in names), text=text)


def chat(name: str, *responses: Any, **options: Any) -> Any:
    return ag.chat_agent(name, scripted(*responses), **options)


def says(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return name

    return ag.function_agent(name, fn)


def spoken(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return a transcript without the messages that carry out transfers."""
    told = [
        e for e in events if not e.text.startswith("Transferred") and "[calls] tran" not in _line(e)
    ]
    return transcript(told)


def _line(event: ag.AgentEvent) -> str:
    return "".join(transcript([event]))


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages if message.type != "system"]


def edges(graph: CompiledStateGraph[Any, Any, Any, Any]) -> set[str]:
    drawn = graph.get_graph().edges
    return {f"{e.source} {'-.->' if e.conditional else '-->'} {e.target}" for e in drawn}


class TestATransfer:
    def test_leads_to_a_child_and_back(self, drive: Drive) -> None:
        tree = chat("P", to("C"), "Done.", sub_agents=[chat("C", to("P"))])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert transcript(events) == [
            "P: [calls] transfer_to_C({})",
            "P: Transferred to C.",
            "P: [transfer_to] C",
            "P/C: [calls] transfer_to_P({})",
            "P/C: Transferred to P.",
            "P/C: [transfer_to] P",
            "P/C/P: Done.",
        ]
        assert visits(events) == [("P", "P"), ("P[1]/C", "P/C"), ("P[1.0]", "P/C/P")]

    def test_is_told_under_the_agent_that_transfers(self, drive: Drive) -> None:
        tree = chat("P", to("C"), sub_agents=[chat("C", "Done.")])
        acted = [e for e in drive.run(ag.Runner(tree), "Go.") if e.kind == "transfer_to"]
        assert [(e.agent_name, e.address, e.action) for e in acted] == [
            ("P", "P", ag.Action(transfer_to="C"))
        ]

    def test_to_two_children_in_turn_counts_them_from_one(self, drive: Drive) -> None:
        children = [chat("A", to("P"), "A again."), chat("B", to("P"))]
        tree = chat("P", to("A"), to("B"), to("A"), sub_agents=children)
        assert visits(drive.run(ag.Runner(tree), "Go.")) == [
            ("P", "P"),
            ("P[1]/A", "P/A"),
            ("P[1.0]", "P/A/P"),
            ("P[1.0.2]/B", "P/A/P/B"),
            ("P[1.0.2.0]", "P/A/P/B/P"),
            ("P[1.0.2.0.1]/A", "P/A/P/B/P/A"),
        ]

    def test_goes_down_a_chain_and_up_again(self, drive: Drive) -> None:
        low = chat("D", to("C"))
        middle = chat("C", to("D"), to("P"), sub_agents=[low])
        tree = chat("P", to("C"), "Done.", sub_agents=[middle])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert visits(events) == [
            ("P", "P"),
            ("P[1]/C", "P/C"),
            ("P[1.1]/C/D", "P/C/D"),
            ("P[1.1.0]/C", "P/C/D/C"),
            ("P[1.1.0.0]", "P/C/D/C/P"),
        ]
        assert transcript(events)[-1] == "P/C/D/C/P: Done."

    def test_may_go_round_many_times(self, drive: Drive) -> None:
        rounds = 25
        child = chat("C", *[to("P")] * rounds)
        tree = chat("P", *[to("C")] * rounds, "Done.", sub_agents=[child], max_iterations=1)
        events = list(drive.run(ag.Runner(tree), "Go.", thread_id="t"))
        assert events[-1].address == f"P[{'.'.join(['1', '0'] * rounds)}]"
        assert events[-1].run_path.names == ("P", *["C", "P"] * rounds)
        assert len(visits(events)) == 2 * rounds + 1

    def test_chains_may_go_round_too(self, drive: Drive) -> None:
        low = chat("D", *[to("C")] * 4)
        middle = chat("C", to("D"), to("D"), to("P"), to("D"), to("D"), to("P"), sub_agents=[low])
        tree = chat("P", to("C"), to("C"), "Done.", sub_agents=[middle])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert "".join(name for *_, name in (path for _, path in visits(events))) == "PCDCDCPCDCDCP"
        assert visits(events)[-2:] == [
            ("P[1.1.0.1.0.0.1.1.0.1.0]/C", "/".join("PCDCDCPCDCDC")),
            ("P[1.1.0.1.0.0.1.1.0.1.0.0]", "/".join("PCDCDCPCDCDCP")),
        ]

    def test_back_shows_on_the_path_what_was_said_on_the_way(self, drive: Drive) -> None:
        parent = scripted(to("C"), "Done.")
        middle = chat(
            "C",
            to("D", text="D knows."),
            to("P", text="No more."),
            sub_agents=[chat("D", to("C", text="It is three."))],
        )
        tree = ag.chat_agent("P", parent, sub_agents=[middle], history="path")
        list(drive.run(ag.Runner(tree), "Go."))
        assert sent(parent.inputs[1]) == [
            "human: Go.",
            "human: [C] said: D knows.",
            "human: [D] said: It is three.",
            "human: [C] said: No more.",
        ]

    def test_gives_the_agent_that_goes_on_its_model_calls_anew(self, drive: Drive) -> None:
        child = chat("C", to("P"), to("P"), max_iterations=1)
        tree = chat("P", to("C"), to("C"), "Done.", sub_agents=[child], max_iterations=1)
        assert spoken(drive.run(ag.Runner(tree), "Go."))[-1] == "P/C/P/C/P: Done."

    def test_back_has_a_limit_of_model_calls_too(self, drive: Drive) -> None:
        tree = chat("P", to("C"), to("nobody"), max_iterations=1, sub_agents=[chat("C", to("P"))])
        _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.MaxIterationsError)
        assert str(raised).startswith("P[1.0]: the model was asked 1 time and still calls tools; ")

    def test_is_the_last_step_of_its_agent_also_at_its_limit_of_model_calls(self, drive: Drive) -> None:
        tree = chat("P", to("C"), sub_agents=[chat("C", "Done.")], max_iterations=1)
        assert spoken(drive.run(ag.Runner(tree), "Go.")) == ["P: [transfer_to] C", "P/C: Done."]

    def test_is_the_same_from_the_thread(self, drive: Drive) -> None:
        tree = ag.sequential(
            "s", [chat("P", to("C"), "Done.", sub_agents=[chat("C", to("P"))]), says("z")]
        )
        runner = ag.Runner(tree)
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert list(runner.events("t")) == [event for event in events if not event.partial]

    def test_is_the_same_from_a_bare_graph(self) -> None:
        tree = chat("P", *[to("C"), "Done."] * 2, sub_agents=[chat("C", *[to("P")] * 2)])
        graph = ag.compile_agent(tree)
        modes = list(ag.STREAM_MODES)
        parts = graph.stream({"messages": ["Go."]}, stream_mode=modes, version="v2")
        told = transcript(ag.translate(tree, parts))
        assert told == transcript(ag.Runner(tree).run("Go."))

    def test_goes_through_json(self) -> None:
        tree = chat("P", to("C"), sub_agents=[chat("C", "Done.")])
        events = list(ag.Runner(tree).run("Go."))
        assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events


class TestAGroup:
    """A chat agent and those that it may transfer to."""

    def test_ends_with_a_child_that_ends_and_what_follows_goes_on(self, drive: Drive) -> None:
        tree = ag.sequential(
            "s", [says("a"), chat("P", to("C"), sub_agents=[chat("C", "Done.")]), says("z")]
        )
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert spoken(events) == ["s/a: a", "s/a/P: [transfer_to] C", "s/a/P/C: Done.", "s/a/P/z: z"]

    def test_ends_with_a_grandchild_that_ends(self, drive: Drive) -> None:
        middle = chat("C", to("D"), sub_agents=[chat("D", "Done.")])
        tree = ag.sequential("s", [chat("P", to("C"), sub_agents=[middle]), says("z")])
        assert spoken(drive.run(ag.Runner(tree), "Go."))[-2:] == ["s/P/C/D: Done.", "s/P/z: z"]

    def test_starts_at_the_parent_in_each_iteration(self, drive: Drive) -> None:
        group = chat("P", to("C"), to("C"), sub_agents=[chat("C", "One.", "Two.")])
        tree = ag.loop("l", [group, says("b")], max_iterations=2)
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert visits(events) == [
            ("l[0]/P", "l/P"),
            ("l[0]/P[1]/C", "l/P/C"),
            ("l[0]/b", "l/P/b"),
            ("l[1]/P", "l/P/b/P"),
            ("l[1]/P[1]/C", "l/P/b/P/C"),
            ("l[1]/b", "l/P/b/P/b"),
        ]
        assert [step.iteration for step in events[-2].run_path] == [None, 0, 0, 1, 1]

    def test_runs_in_branches_at_once(self, drive: Drive) -> None:
        groups = [
            chat(f"P{i}", to(f"C{i}"), "Done.", sub_agents=[chat(f"C{i}", to(f"P{i}"))])
            for i in range(3)
        ]
        runner = ag.Runner(ag.sequential("s", [ag.parallel("p", groups), says("z")]))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        for i in range(3):
            assert visits(e for e in events if e.agent_name.endswith(str(i))) == [
                (f"s/p/P{i}", f"s/p/P{i}"),
                (f"s/p/P{i}[1]/C{i}", f"s/p/P{i}/C{i}"),
                (f"s/p/P{i}[1.0]", f"s/p/P{i}/C{i}/P{i}"),
            ]
        assert transcript(events)[-1] == "s/p/z: z"
        assert {e.id: e for e in runner.events("t")} == {e.id: e for e in events}

    def test_begins_a_second_turn_at_the_root(self, drive: Drive) -> None:
        parent, child = scripted(to("C"), "I am back."), scripted("From C.")
        tree = ag.chat_agent("P", parent, sub_agents=[ag.chat_agent("C", child)])
        runner = ag.Runner(tree)
        list(drive.run(runner, "Go.", thread_id="t"))
        assert transcript(drive.run(runner, "Again.", thread_id="t")) == ["P: I am back."]
        assert sent(parent.inputs[1]) == ["human: Go.", "human: [C] said: From C.", "human: Again."]

    def test_begins_a_second_turn_at_the_root_also_when_a_question_is_dropped(
        self, drive: Drive
    ) -> None:
        parent = scripted(to("boss"), "I am back.")
        tree = ag.chat_agent("P", parent, sub_agents=[ag.human("boss", "Well?")])
        runner = ag.Runner(tree)
        list(drive.run(runner, "Go.", thread_id="t"))
        with pytest.raises(ag.PendingInterruptError, match=r"waits for answers to P\[1\]/boss \("):
            list(drive.run(runner, "Again.", thread_id="t"))
        told = drive.run(runner, "Again.", thread_id="t", drop_pending=True)
        assert transcript(told) == ["P: [discarded]", "P: I am back."]
        assert sent(parent.inputs[1]) == ["human: Go.", "human: Again."]

    def test_keeps_the_output_of_the_agent_that_ended_it(self, drive: Drive) -> None:
        child = chat("C", "From C.", output_key="answer")
        group = chat("P", to("C"), sub_agents=[child], output_key="mine")
        after = scripted("Read.")
        writer = ag.chat_agent("z", after, instruction="{answer}, {mine?}.")
        list(drive.run(ag.Runner(ag.sequential("s", [group, writer])), "Go."))
        assert after.inputs[0][0] == SystemMessage("From C., .")


class TestATarget:
    def test_may_be_a_sequence_that_ends_the_group(self, drive: Drive) -> None:
        steps = ag.sequential("S", [says("a"), chat("b", "From b."), says("c")])
        tree = ag.sequential("s", [chat("P", to("S"), sub_agents=[steps]), says("z")])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert spoken(events) == [
            "s/P: [transfer_to] S",
            "s/P/S/a: a",
            "s/P/S/a/b: From b.",
            "s/P/S/a/b/c: c",
            "s/P/z: z",
        ]
        assert events[-2].address == "s/P[1]/S/c"

    def test_may_be_a_loop(self, drive: Drive) -> None:
        rounds = ag.loop("L", [chat("a", "One.", "Two.", break_tool=True), says("b")], max_iterations=2)
        tree = chat("P", to("L"), sub_agents=[rounds])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert spoken(events) == [
            "P: [transfer_to] L",
            "P/L/a: One.",
            "P/L/a/b: b",
            "P/L/a/b/a: Two.",
            "P/L/a/b/a/b: b",
        ]
        assert [e.address for e in events[-2:]] == ["P[1]/L[1]/a", "P[1]/L[1]/b"]

    def test_may_be_a_parallel_with_groups_in_it(self, drive: Drive) -> None:
        inner = chat("Q", to("R"), sub_agents=[chat("R", "From R.")])
        tree = chat("P", to("all"), sub_agents=[ag.parallel("all", [inner, says("b")])])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert set(spoken(events)) == {
            "P: [transfer_to] all",
            "P/all/Q: [transfer_to] R",
            "P/all/Q/R: From R.",
            "P/all/b: b",
        }
        assert {e.address for e in events} == {"P", "P[1]/all/Q", "P[1]/all/Q[1]/R", "P[1]/all/b"}

    def test_that_is_a_composite_asks_people_and_goes_on(self, disk: Disk) -> None:
        parent, child = scripted(to("S")), scripted("Read.")

        def tree() -> ag.Agent:
            asks = ag.parallel("ask", [ag.human("boss", "Print?"), ag.human("press", "How many?")])
            inside = ag.sequential("S", [asks, ag.chat_agent("C", child)])
            return ag.sequential("s", [ag.chat_agent("P", parent, sub_agents=[inside]), says("z")])

        first = disk.run(tree())
        assert set(spoken(first)[1:]) == {
            "s/P/S/ask/boss: [asks] Print?",
            "s/P/S/ask/press: [asks] How many?",
        }
        second = disk.resume(tree(), {"s/P[1]/S/ask/press": "Nine."})
        assert set(spoken(second)) == {
            "s/P/S/ask/press: Nine.",
            "s/P/S/ask/boss: [discarded]",
            "s/P/S/ask/boss: [asks] Print?",
        }
        third = disk.resume(tree(), {"s/P[1]/S/ask/boss": "Yes."})
        assert spoken(third) == ["s/P/S/ask/boss: Yes.", "s/P/S/ask/C: Read.", "s/P/z: z"]
        assert len(parent.inputs) == len(child.inputs) == 1
        assert sent(child.inputs[0]) == [
            "human: Go.",
            "human: [boss] said: Yes.",
            "human: [press] said: Nine.",
        ]

    def test_may_be_a_person(self, disk: Disk) -> None:
        parent = scripted(to("boss"))

        def tree() -> ag.Agent:
            boss = ag.human("boss", "Print?", description="Decides.")
            return ag.sequential("s", [ag.chat_agent("P", parent, sub_agents=[boss]), says("z")])

        assert spoken(disk.run(tree())) == ["s/P: [transfer_to] boss", "s/P/boss: [asks] Print?"]
        assert spoken(disk.resume(tree(), "Yes.")) == ["s/P/boss: Yes.", "s/P/z: z"]
        assert len(parent.inputs) == 1
        assert {t["function"]["name"]: t["function"]["description"] for t in parent.tools} == {
            "transfer_to_boss": "Hand over to boss. Decides."
        }

    def test_in_a_composite_has_no_way_back(self) -> None:
        inside = scripted("Done.")
        steps = ag.sequential("S", [ag.chat_agent("C", inside)])
        tree = chat("P", to("S"), sub_agents=[steps])
        list(ag.Runner(tree).run("Go."))
        assert inside.tools == []

    @pytest.mark.parametrize("name", ["tools", "call", "approve"])
    def test_may_have_the_name_of_a_node_of_its_parent(self, drive: Drive, name: str) -> None:
        @ag.agent(name="other")
        def other(ctx: ag.Context) -> str:
            return "other"

        def weather(city: str) -> str:
            """Tells the weather."""
            return f"Rain in {city}."

        group = chat(
            "P",
            calling("weather", city="Rome"),
            to(name),
            "Done.",
            tools=[weather],
            approve=["weather"],
            sub_agents=[chat(name, to("P"))],
        )
        again = ag.sequential("s", [group, ag.sequential("again", [chat(name, to("P"))])])
        with pytest.raises(ag.InvalidAgentError, match=f"two agents are named '{name}'"):
            ag.compile_agent(again)

        runner = ag.Runner(ag.sequential("s", [group, other]))
        assert transcript(drive.run(runner, "Go.", thread_id="t"))[-1].startswith("s/P: [asks]")
        events = list(drive.resume(runner, "t", {"s/P": {"decisions": [{"type": "approve"}]}}))
        assert spoken(events) == [
            "s/P: Rain in Rome.",
            f"s/P: [transfer_to] {name}",
            f"s/P/{name}: [transfer_to] P",
            f"s/P/{name}/P: Done.",
            "s/P/other: other",
        ]

    @pytest.mark.parametrize("name", ["tools", "call", "approve"])
    def test_of_such_a_name_may_stand_twice(self, drive: Drive, name: str) -> None:
        child = ag.chat_agent(name, scripted(to("P"), to("P")))
        parent = ag.chat_agent("P", scripted(to(name), "One.", to(name), "Two."), sub_agents=[child])
        runner = ag.Runner(ag.sequential("s", [parent, ag.sequential("t", [parent])]))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        assert visits(events) == [
            ("s/P", "s/P"),
            (f"s/P[1]/{name}", f"s/P/{name}"),
            ("s/P[1.0]", f"s/P/{name}/P"),
            ("s/t/P", "s/P/t/P"),
            (f"s/t/P[1]/{name}", f"s/P/t/P/{name}"),
            ("s/t/P[1.0]", f"s/P/t/P/{name}/P"),
        ]
        assert list(runner.events("t")) == events


class TestSeveralCalls:
    def test_the_last_transfer_decides(self, drive: Drive) -> None:
        children = [chat("A"), chat("B", "From B.")]
        tree = chat("P", to("A", "B"), sub_agents=children)
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert transcript(events)[0] == "P: [calls] transfer_to_A({}), transfer_to_B({})"
        assert set(transcript(events)[1:3]) == {
            "P: Not carried out: of several transfers in one message only the last one is.",
            "P: Transferred to B.",
        }
        assert transcript(events)[3:] == ["P: [transfer_to] B", "P/B: From B."]

    @pytest.mark.parametrize("first", [0, 1], ids=["before", "behind"])
    def test_an_ordinary_call_beside_a_transfer_runs_too(self, drive: Drive, first: int) -> None:
        called: list[str] = []

        def note(what: str) -> str:
            """Notes."""
            called.append(what)
            return f"Noted {what}."

        child = scripted("Done.")
        message = to("C", text="One.")
        message.tool_calls.insert(first, *calling("note", what="bees").tool_calls)
        tree = chat("P", message, tools=[note], sub_agents=[ag.chat_agent("C", child)])
        told = spoken(drive.run(ag.Runner(tree), "Go."))
        assert told == ["P: One.", "P: Noted bees.", "P: [transfer_to] C", "P/C: Done."]
        assert sent(child.inputs[0]) == [
            "human: Go.",
            'human: [P] said: One.\n[P] called note({"what": "bees"})',
            "human: [P] note returned: Noted bees.",
        ]
        assert called == ["bees"]

    def test_a_transfer_that_fails_lets_one_before_it_decide(self, drive: Drive) -> None:
        tree = chat("P", to("A", "nobody"), sub_agents=[chat("A", "From A."), chat("B")])
        assert transcript(drive.run(ag.Runner(tree), "Go."))[-2:] == [
            "P: [transfer_to] A",
            "P/A: From A.",
        ]

    def test_a_transfer_waits_for_a_question_in_another_call(self, disk: Disk) -> None:
        asked: list[str] = []

        def ask_boss() -> str:
            """Asks the boss."""
            asked.append("asked")
            return f"The boss says {interrupt('Well?')}"

        parent, child = scripted(calling("ask_boss", "transfer_to_C")), scripted("Done.")

        def tree() -> ag.Agent:
            sub_agents = [ag.chat_agent("C", child)]
            return ag.chat_agent("P", parent, tools=[ask_boss], sub_agents=sub_agents)

        first = disk.run(tree())
        assert [e.kind for e in first].count("transfer_to") == 0
        assert spoken(first)[-1] == "P: [asks] Well?"
        second = disk.resume(tree(), "yes")
        assert spoken(second) == ["P: The boss says yes", "P: [transfer_to] C", "P/C: Done."]
        assert len(parent.inputs) == 1
        assert asked == ["asked", "asked"]
        assert {e.id: e for e in disk.events(tree())} == {e.id: e for e in (*first, *second)}

    def test_a_transfer_waits_for_an_approval_of_another_call(self, disk: Disk) -> None:
        sold: list[int] = []

        def sell() -> str:
            """Sells."""
            sold.append(1)
            return "Sold."

        parent, child = scripted(calling("sell", "transfer_to_C")), scripted("Done.")

        def tree() -> ag.Agent:
            sub_agents = [ag.chat_agent("C", child)]
            options: Any = {"approve": ["sell"], "sub_agents": sub_agents}
            return ag.chat_agent("P", parent, tools=[sell], **options)

        first = disk.run(tree())
        assert [event.kind for event in first] == ["message", "interrupted"]
        reject = {"decisions": [{"type": "reject", "message": "Not now."}]}
        assert spoken(disk.resume(tree(), {"P": reject})) == [
            "P: User rejected the tool call for `sell` with reason: Not now.",
            "P: [transfer_to] C",
            "P/C: Done.",
        ]
        assert sold == []

    def test_a_transfer_waits_for_an_agent_in_another_call(self, disk: Disk) -> None:
        parent, child = scripted(calling("transfer_to_C", "boss", request="x")), scripted("Done.")
        del parent.responses[0].tool_calls[0]["args"]["request"]

        def tree() -> ag.Agent:
            tools = [ag.agent_tool(ag.human("boss", "Well?"))]
            sub_agents = [ag.chat_agent("C", child)]
            return ag.chat_agent("P", parent, tools=tools, sub_agents=sub_agents)

        first = disk.run(tree())
        assert spoken(first)[-1] == "P/boss: [asks] Well?"
        second = disk.resume(tree(), {"P/boss(1)": "Yes."})
        assert spoken(second) == [
            "P/boss: Yes.",
            "P: Yes.",
            "P: [transfer_to] C",
            "P/C: Done.",
        ]
        assert {e.id: e for e in disk.events(tree())} == {e.id: e for e in (*first, *second)}

    def test_a_transfer_weighs_more_than_a_tool_that_ends_the_agent(self, drive: Drive) -> None:
        def answer() -> str:
            """Answers."""
            return "Answered."

        tree = chat(
            "P",
            calling("transfer_to_C", "answer"),
            tools=[answer],
            return_directly=["answer"],
            sub_agents=[chat("C", "Done.")],
        )
        told = spoken(drive.run(ag.Runner(tree), "Go."))
        assert told == ["P: Answered.", "P: [transfer_to] C", "P/C: Done."]

    def test_an_exit_weighs_more_than_a_transfer(self, drive: Drive) -> None:
        message = calling("exit", "transfer_to_C")
        group = chat("P", message, exit_tool=True, sub_agents=[chat("C")])
        tree = ag.sequential("s", [group, says("z")])
        assert spoken(drive.run(ag.Runner(tree), "Go."))[-1] == "s/P: [exit]"

    def test_a_transfer_may_need_approval(self, disk: Disk) -> None:
        parent = scripted(to("C"), to("C"))
        child = scripted("Done.")

        def tree() -> ag.Agent:
            sub_agents = [ag.chat_agent("C", child)]
            return ag.chat_agent("P", parent, approve=["transfer_to_C"], sub_agents=sub_agents)

        assert disk.run(tree())[-1].kind == "interrupted"
        again = disk.resume(tree(), {"P": {"decisions": [{"type": "reject"}]}})
        assert [event.kind for event in again] == ["message", "message", "interrupted"]
        last = disk.resume(tree(), {"P": {"decisions": [{"type": "approve"}]}})
        assert spoken(last) == ["P: [transfer_to] C", "P/C: Done."]


class TestAnUnknownTarget:
    def test_goes_back_to_the_model(self, drive: Drive) -> None:
        model = scripted(to("nobody"), "Sorry.")
        tree = ag.chat_agent("P", model, sub_agents=[chat("C")])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert [event.kind for event in events] == ["message"] * 3
        message = events[1].message
        assert isinstance(message, ToolMessage)
        assert (message.status, message.text) == (
            "error",
            "Error: transfer_to_nobody is not a valid tool, try one of [transfer_to_C].",
        )
        assert sent(model.inputs[1])[-1] == f"tool: {message.text}"

    def test_named_by_a_tool_goes_back_to_the_model(self, drive: Drive) -> None:
        def route(where: str) -> ag.TransferTo:
            """Routes."""
            return ag.TransferTo(where)

        tree = chat(
            "P",
            calling("route", where="nobody"),
            calling("route", where="C"),
            tools=[route],
            sub_agents=[chat("C", "Done.")],
        )
        assert transcript(drive.run(ag.Runner(tree), "Go.")) == [
            'P: [calls] route({"where": "nobody"})',
            "P: Error: there is no agent nobody to transfer to; there are: C.",
            'P: [calls] route({"where": "C"})',
            "P: Done.",
            "P: [transfer_to] C",
            "P/C: Done.",
        ]

    def test_named_by_a_function_fails_it(self, drive: Drive) -> None:
        def fn(ctx: ag.Context) -> ag.TransferTo:
            return ag.TransferTo("nobody")

        tree = chat("P", to("f"), sub_agents=[ag.function_agent("f", fn), chat("C")])
        events, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.AgentGraphError)
        assert str(raised) == ("P[1]/f: there is no transfer to 'nobody' from here; possible: 'P'")
        assert transcript(events)[-1] == f"P/f: [error] {raised!r}"

    def test_named_by_a_function_that_has_none_fails_it(self, drive: Drive) -> None:
        tree = ag.sequential("s", [ag.function_agent("f", lambda ctx: ag.TransferTo("C")), says("C")])
        _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.AgentGraphError)
        assert str(raised) == (
            "s/f: there is no transfer to 'C' from here; possible: none: only what stands in a chat "
            "agent's sub_agents may"
        )


class TestWhatTheModelIsTold:
    def test_is_a_tool_and_a_line_for_each_target(self) -> None:
        parent, child = scripted(to("C")), scripted("Done.")
        bills = ag.chat_agent("C", child, description="Knows {bills} and {{refunds}}.")
        press = says("D")
        tree = ag.chat_agent(
            "P", parent, instruction="Be {tone}.", description="Sorts.", sub_agents=[bills, press]
        )
        list(ag.Runner(tree).run("Go.", values={"tone": "kind", "bills": "NO"}))
        assert parent.inputs[0][0] == SystemMessage(
            "Be kind.\n\n"
            "You can hand the conversation over to another agent, who then goes on, with these tools:\n"
            "- transfer_to_C: Knows {bills} and {{refunds}}.\n"
            "- transfer_to_D: the agent D"
        )
        assert child.inputs[0][0] == SystemMessage(
            "You can hand the conversation over to another agent, who then goes on, with these tools:\n"
            "- transfer_to_P: Sorts."
        )
        assert [(t["function"]["name"], t["function"]["description"]) for t in parent.tools] == [
            ("transfer_to_C", "Hand over to C. Knows {bills} and {{refunds}}."),
            ("transfer_to_D", "Hand over to D. the agent D"),
        ]
        assert [tool["function"]["name"] for tool in child.tools] == ["transfer_to_P"]

    def test_names_sub_agents_first_and_then_the_parent(self) -> None:
        middle = scripted("Done.")
        child = ag.chat_agent("C", middle, sub_agents=[says("D"), says("E")])
        list(ag.Runner(chat("P", to("C"), sub_agents=[child])).run("Go."))
        names = [tool["function"]["name"] for tool in middle.tools]
        assert names == ["transfer_to_D", "transfer_to_E", "transfer_to_P"]

    def test_is_the_parent_of_the_place_where_an_agent_stands_twice(self, drive: Drive) -> None:
        model = scripted(to("P"), to("Q"))
        child = ag.chat_agent("C", model)
        groups = [
            chat("P", to("C"), "P.", sub_agents=[child]),
            chat("Q", to("C"), "Q.", sub_agents=[child]),
        ]
        told = spoken(drive.run(ag.Runner(ag.sequential("s", groups)), "Go."))
        assert told == [
            "s/P: [transfer_to] C",
            "s/P/C: [transfer_to] P",
            "s/P/C/P: P.",
            "s/P/Q: [transfer_to] C",
            "s/P/Q/C: [transfer_to] Q",
            "s/P/Q/C/Q: Q.",
        ]

    def test_does_not_hold_messages_that_only_carry_out_a_transfer(self, drive: Drive) -> None:
        parent = scripted(to("C"), to("C"), "Done.")
        child = scripted(to("P"), to("P"))
        tree = ag.sequential(
            "s", [ag.chat_agent("P", parent, sub_agents=[ag.chat_agent("C", child)]), chat("z", "Z.")]
        )
        list(drive.run(ag.Runner(tree), "Go."))
        assert [sent(messages) for messages in parent.inputs] == [["human: Go."]] * 3
        assert [sent(messages) for messages in child.inputs] == [["human: Go."]] * 2

    def test_holds_what_was_said_beside_a_transfer(self, drive: Drive) -> None:
        parent = scripted(to("C", text="C knows."), "Done.")
        child = scripted(to("P", text="No."))
        tree = ag.chat_agent("P", parent, sub_agents=[ag.chat_agent("C", child)])
        list(drive.run(ag.Runner(tree), "Go."))
        assert sent(child.inputs[0]) == ["human: Go.", "human: [P] said: C knows."]
        assert sent(parent.inputs[1]) == [
            "human: Go.",
            "ai: C knows.",
            "tool: Transferred to C.",
            "human: [C] said: No.",
        ]


class TestAFunction:
    def test_may_transfer_back(self, drive: Drive) -> None:
        def fn(ctx: ag.Context) -> Iterator[str | ag.TransferTo]:
            yield f"f at {ctx.address}"
            yield ag.TransferTo("P")
            yield "never"

        tree = chat("P", to("f"), to("f"), "Done.", sub_agents=[ag.function_agent("f", fn)])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert spoken(events) == [
            "P: [transfer_to] f",
            "P/f: f at P[1]/f",
            "P/f: [transfer_to] P",
            "P/f/P: [transfer_to] f",
            "P/f/P/f: f at P[1.0.1]/f",
            "P/f/P/f: [transfer_to] P",
            "P/f/P/f/P: Done.",
        ]

    def test_that_is_a_coroutine_may_transfer_too(self, drive: Drive) -> None:
        async def fn(ctx: ag.Context) -> ag.TransferTo:
            return ag.TransferTo("P")

        tree = chat("P", to("f"), "Done.", sub_agents=[ag.function_agent("f", fn)])
        assert spoken(drive.run(ag.Runner(tree), "Go."))[1:] == [
            "P/f: [transfer_to] P",
            "P/f/P: Done.",
        ]

    def test_whose_annotation_names_no_transfer_is_refused(self, drive: Drive) -> None:
        def fn(ctx: ag.Context) -> str:
            return ag.TransferTo("P")  # type: ignore[return-value]

        tree = chat("P", to("f"), sub_agents=[ag.function_agent("f", fn)])
        _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
        assert str(raised) == (
            "P[1]/f: the function gave TransferTo, which its return annotation does not name; add it, "
            "as in `-> str | TransferTo`, so that the graph has an edge for it"
        )

    def test_may_ask_and_then_transfer(self, disk: Disk) -> None:
        calls: list[bool] = []
        parent = scripted(to("f"), "Done.")

        def fn(ctx: ag.Context) -> Iterator[ag.Ask | ag.TransferTo | str]:
            calls.append(ctx.answered)
            if not ctx.answered:
                yield ag.Ask("Back?")
            yield ag.TransferTo("P")

        def tree() -> ag.Agent:
            return ag.chat_agent("P", parent, sub_agents=[ag.function_agent("f", fn)])

        assert spoken(disk.run(tree())) == ["P: [transfer_to] f", "P/f: [asks] Back?"]
        assert spoken(disk.resume(tree(), "yes")) == ["P/f: [transfer_to] P", "P/f/P: Done."]
        assert calls == [False, True]
        assert len(parent.inputs) == 2


class TestATool:
    def test_may_transfer_with_a_message_and_values(self, drive: Drive) -> None:
        def route(city: str) -> list[Any]:
            """Routes."""
            return [ag.SetValues(city=city), ag.Custom({"routed": city}), ag.TransferTo("C")]

        child = scripted("Done.")
        tree = chat(
            "P",
            calling("route", city="Rome"),
            tools=[route],
            sub_agents=[ag.chat_agent("C", child, instruction="In {city}.")],
        )
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert sorted(transcript(events)[1:]) == [
            "P/C: Done.",
            "P: Done.",
            'P: [custom] {"routed": "Rome"}',
            "P: [transfer_to] C",
        ]
        assert str(child.inputs[0][0].text).startswith("In Rome.\n\n")

    def test_that_is_a_coroutine_of_a_child_may_transfer_back(self) -> None:
        async def back() -> ag.TransferTo:
            """Goes back."""
            return ag.TransferTo("P")

        child = chat("C", calling("back"), tools=[back])
        runner = ag.Runner(chat("P", to("C"), "Done.", sub_agents=[child]))
        told = driven(runner.arun("Go."))
        assert spoken(told)[-2:] == ["P/C: [transfer_to] P", "P/C/P: Done."]


class TestControlInsideAChild:
    def test_an_exit_ends_the_run(self, drive: Drive) -> None:
        child = chat("C", calling("exit", final_result="Over."), exit_tool=True)
        tree = ag.sequential("s", [chat("P", to("C"), sub_agents=[child]), says("z")])
        assert spoken(drive.run(ag.Runner(tree), "Go."))[-2:] == ["s/P/C: Over.", "s/P/C: [exit]"]

    def test_a_break_ends_the_loop_around_the_group(self, drive: Drive) -> None:
        child = chat("C", calling("break_loop", final_result="Over."), break_tool=True)
        group = chat("P", to("C"), sub_agents=[child])
        tree = ag.sequential("s", [ag.loop("l", [group, says("b")], max_iterations=5), says("z")])
        assert spoken(drive.run(ag.Runner(tree), "Go."))[2:] == [
            "s/l/P/C: Over.",
            "s/l/P/C: [break_loop]",
            "s/l/z: z",
        ]

    def test_a_break_ends_the_loop_inside_the_group_only(self, drive: Drive) -> None:
        rounds = ag.loop(
            "l", [ag.function_agent("f", lambda ctx: ag.BreakLoop()), says("b")], max_iterations=5
        )
        group = chat("P", to("S"), sub_agents=[ag.sequential("S", [rounds, says("c")])])
        tree = ag.loop("o", [group, says("z")], max_iterations=1)
        assert spoken(drive.run(ag.Runner(tree), "Go."))[1:] == [
            "o/P/S/l/f: [break_loop]",
            "o/P/S/l/c: c",
            "o/P/z: z",
        ]

    def test_a_child_that_fails_is_tried_again_alone(self, disk: Disk) -> None:
        parent, child = scripted(to("C"), "Done."), scripted(ConnectionError("down"), to("P"))

        def tree() -> ag.Agent:
            sub_agents = [ag.chat_agent("C", child)]
            return ag.sequential("s", [ag.chat_agent("P", parent, sub_agents=sub_agents), says("z")])

        with pytest.raises(ConnectionError) as caught:
            disk.run(tree())
        assert caught.value.__notes__[0] == "This happened in the agent 'C', at s/P[1]/C."
        assert spoken(disk.resume(tree())) == [
            "s/P/C: [transfer_to] P",
            "s/P/C/P: Done.",
            "s/P/z: z",
        ]
        assert (len(parent.inputs), len(child.inputs)) == (2, 2)


class TestInAnotherProcess:
    def test_a_group_goes_on_in_its_middle(self, disk: Disk) -> None:
        parent = scripted(to("boss"), to("C"), to("boss"), "Never.")
        child = scripted(to("P"))

        def tree() -> ag.Agent:
            def boss(ctx: ag.Context) -> Iterator[ag.Ask | ag.TransferTo | str]:
                if not ctx.answered:
                    yield ag.Ask(f"At {ctx.address}?")
                    return
                yield f"The boss: {ctx.answer}"
                if ctx.answer == "back":
                    yield ag.TransferTo("P")

            children = [ag.function_agent("boss", boss), ag.chat_agent("C", child)]
            group = ag.chat_agent("P", parent, sub_agents=children)
            return ag.loop("l", [group, says("b")], max_iterations=1)

        first = disk.run(tree())
        assert spoken(first) == ["l/P: [transfer_to] boss", "l/P/boss: [asks] At l[0]/P[1]/boss?"]
        second = disk.resume(tree(), {"l[0]/P[1]/boss": "back"})
        assert spoken(second) == [
            "l/P/boss: The boss: back",
            "l/P/boss: [transfer_to] P",
            "l/P/boss/P: [transfer_to] C",
            "l/P/boss/P/C: [transfer_to] P",
            "l/P/boss/P/C/P: [transfer_to] boss",
            "l/P/boss/P/C/P/boss: [asks] At l[0]/P[1.0.2.0.1]/boss?",
        ]
        third = disk.resume(tree(), {"l[0]/P[1.0.2.0.1]/boss": "end"})
        assert spoken(third) == ["l/P/boss/P/C/P/boss: The boss: end", "l/P/b: b"]
        assert disk.events(tree()) == [*first, *second, *third]
        assert (len(parent.inputs), len(child.inputs)) == (3, 1)

    def test_groups_in_branches_go_on_each_for_itself(self, disk: Disk) -> None:
        models = {name: scripted(to(f"h{name}"), to(f"C{name}")) for name in "ab"}
        last = {name: scripted(f"From C{name}.") for name in "ab"}

        def tree() -> ag.Agent:
            def asks(name: str) -> ag.Agent:
                def fn(ctx: ag.Context) -> Iterator[ag.Ask | ag.TransferTo]:
                    if not ctx.answered:
                        yield ag.Ask(f"{name}?")
                    yield ag.TransferTo(f"P{name}")

                return ag.function_agent(f"h{name}", fn)

            groups = [
                ag.chat_agent(
                    f"P{name}",
                    models[name],
                    sub_agents=[asks(name), ag.chat_agent(f"C{name}", last[name])],
                )
                for name in "ab"
            ]
            return ag.sequential("s", [ag.parallel("p", groups), says("z")])

        first = disk.run(tree())
        assert set(spoken(first)) == {
            *[f"s/p/P{name}: [transfer_to] h{name}" for name in "ab"],
            *[f"s/p/P{name}/h{name}: [asks] {name}?" for name in "ab"],
        }
        second = disk.resume(tree(), {"s/p/Pb[1]/hb": "yes"})
        assert set(spoken(second)) == {
            "s/p/Pb/hb: [transfer_to] Pb",
            "s/p/Pb/hb/Pb: [transfer_to] Cb",
            "s/p/Pb/hb/Pb/Cb: From Cb.",
            "s/p/Pa/ha: [discarded]",
            "s/p/Pa/ha: [asks] a?",
        }
        third = disk.resume(tree(), {"s/p/Pa[1]/ha": "yes"})
        assert spoken(third)[-2:] == ["s/p/Pa/ha/Pa/Ca: From Ca.", "s/p/z: z"]
        assert [len(model.inputs) for model in (*models.values(), *last.values())] == [2, 2, 1, 1]
        assert disk.events(tree()) == standing([*first, *second, *third])

    def test_a_tree_with_another_target_is_refused(self, disk: Disk) -> None:
        def tree(*more: ag.Agent) -> ag.Agent:
            return chat("P", to("boss"), sub_agents=[ag.human("boss", "Well?"), *more])

        disk.run(tree())
        with pytest.raises(ag.TreeChangedError) as caught:
            disk.resume(tree(says("C")), "yes")
        assert "+  function C" in caught.value.difference

    @pytest.mark.parametrize("hops", [(2,), (1, 0, 2), None])
    def test_a_jump_goes_on_at_a_child(self, hops: tuple[int, ...] | None) -> None:
        child = ag.function_agent("D", lambda ctx: f"{ctx.address} {ctx.run_path}")
        group = chat("P", "Done.", sub_agents=[chat("C"), child])
        runner = ag.Runner(ag.sequential("s", [group, says("z")]))
        list(runner.run("Go.", thread_id="t"))
        config: Any = {"configurable": {"thread_id": "t"}}
        position = runner.graph.get_state(config).values["position"]
        there = {**position, "next": "D", "cursor": [hops]} if hops else None
        update = {"position": there} if there else None
        state = runner.graph.invoke(Command(goto="D", update=update), config)
        said = {(2,): "s/P[2]/D s/P/D", (1, 0, 2): "s/P[1.0.2]/D s/P/C/P/D", None: "s/P[2]/D s/P/D"}
        assert [message.text for message in state["messages"][-2:]] == [said[hops], "z"]


class TestWhatIsDrawn:
    def test_is_just_what_can_happen(self) -> None:
        group = chat("P", sub_agents=[chat("C"), says("D")])
        assert edges(ag.compile_agent(ag.sequential("s", [group, says("z")]))) == {
            "__start__ --> P",
            "P -.-> P.tools",
            "P -.-> z",
            "P.tools -.-> P",
            "P.tools -.-> C",
            "P.tools -.-> D",
            "C -.-> C.tools",
            "C -.-> z",
            "C.tools -.-> C",
            "C.tools -.-> P",
            "D --> z",
            "z --> __end__",
        }

    def test_leads_to_the_first_agent_of_a_composite_and_out_behind_its_last(self) -> None:
        steps = ag.sequential("S", [says("a"), says("b")])
        rounds = ag.loop("L", [says("c"), says("d")], max_iterations=2)
        both = ag.parallel("both", [says("e"), says("f")])
        group = chat("P", sub_agents=[steps, rounds, both])
        assert edges(ag.compile_agent(ag.loop("l", [group], max_iterations=2))) == {
            "__start__ --> P",
            "P -.-> P.tools",
            "P -.-> P",
            "P -.-> __end__",
            "P.tools -.-> P",
            "P.tools -.-> a",
            "P.tools -.-> c",
            "P.tools -.-> both",
            "a --> b",
            "b -.-> P",
            "b -.-> __end__",
            "c --> d",
            "d -.-> c",
            "d -.-> P",
            "d -.-> __end__",
            "both -.-> P",
            "both -.-> __end__",
        }

    def test_a_function_has_a_way_back_only_where_its_annotation_names_it(self) -> None:
        def back(ctx: ag.Context) -> ag.TransferTo:
            return ag.TransferTo("P")

        def maybe(ctx: ag.Context) -> str | ag.TransferTo:
            return ag.TransferTo("P")

        children = [ag.function_agent("back", back), ag.function_agent("maybe", maybe), says("never")]
        drawn = edges(ag.compile_agent(chat("P", sub_agents=children)))
        assert {edge for edge in drawn if not edge.startswith(("P", "__"))} == {
            "back --> P",
            "maybe -.-> P",
            "maybe -.-> __end__",
            "never --> __end__",
        }

    def test_a_tool_whose_annotation_says_nothing_adds_an_exit_and_no_target(self) -> None:
        def route(where):  # type: ignore[no-untyped-def]
            """Routes."""
            return ag.TransferTo(where)

        plain = edges(ag.compile_agent(chat("P", sub_agents=[chat("C")])))
        with_tool = edges(ag.compile_agent(chat("P", tools=[route], sub_agents=[chat("C")])))
        assert with_tool - plain == {"P.tools -.-> __end__"}

    def test_a_child_of_a_branch_ends_in_its_branch(self) -> None:
        group = chat("P", sub_agents=[says("C")])
        graph = ag.compile_agent(ag.parallel("p", [group, says("b")]))
        drawn = graph.get_graph(xray=True)
        inside = {(e.source, e.target) for e in drawn.edges if e.source == "p:P:P.tools"}
        assert inside == {("p:P:P.tools", "p:P:P"), ("p:P:P.tools", "p:P:C")}
