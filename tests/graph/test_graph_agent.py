"""Graphs of LangGraph as leaves: `create_agent` and graphs drawn by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, failing
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy, interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, transcript


def calls(text: str, *names: str) -> AIMessage:
    made = [{"name": n, "args": {"to": n}, "id": f"call_{n}", "type": "tool_call"} for n in names]
    return AIMessage(text, tool_calls=made)


class Desk:
    """An agent of LangChain's with two tools, one of which a person must approve."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        replies = [calls("I look.", "look"), calls("I send.", "send"), "All done."]
        self.model = ScriptedChatModel(responses=replies)

    def agent(self) -> ag.Agent:
        def look(to: str) -> str:
            """Look."""
            self.ran.append("look")
            return "seen"

        def send(to: str) -> str:
            """Send."""
            self.ran.append(f"send {to}")
            return f"sent to {to}"

        approval = HumanInTheLoopMiddleware(interrupt_on={"send": True})
        graph = create_agent(self.model, [look, send], middleware=[approval])
        return ag.graph_agent("desk", graph, output_key="done")


def by_hand(*nodes: Callable[[Any], Any], state: type = MessagesState) -> Any:
    builder = StateGraph(state)
    for node in nodes:
        builder.add_node(node.__name__, node)
    for before, node in zip([None, *nodes], nodes, strict=False):
        builder.add_edge(before.__name__ if before else START, node.__name__)
    return builder.compile()


def says(name: str, text: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return text

    return ag.function_agent(name, fn)


class TestAnAgentOfLangChains:
    def test_tells_each_message_when_its_step_has_ended_and_pauses_for_a_person(
        self, drive: Drive
    ) -> None:
        desk = Desk()
        runner = ag.Runner(ag.sequential("s", [desk.agent(), says("after", "thanks")]))
        lines = transcript(drive.run(runner, "Go.", thread_id="t"))
        assert lines[:3] == ["s/desk: I look.", "s/desk: seen", "s/desk: I send."]
        (asked,) = runner.pending("t")
        assert (asked.address, asked.agent_name) == ("s/desk", "desk")
        assert asked.value["action_requests"][0]["name"] == "send"

        decision = {"decisions": [{"type": "approve"}]}
        assert transcript(drive.resume(runner, "t", {asked.id: decision})) == [
            "s/desk: sent to send",
            "s/desk: All done.",
            "s/desk/after: thanks",
        ]
        assert desk.ran == ["look", "send send"]
        assert len(desk.model.inputs) == 3
        state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
        assert state["values"] == {"done": "All done."}
        assert [m.text for m in state["messages"]][-3:] == ["sent to send", "All done.", "thanks"]

    def test_goes_on_in_another_process_with_its_file(self, tmp_path: Path) -> None:
        desk = Desk()
        with ag.sqlite_saver(tmp_path / "runs.db") as saver:
            first = ag.Runner(ag.sequential("s", [desk.agent()]), checkpointer=saver)
            told = list(first.run("Go.", thread_id="t"))
        with ag.sqlite_saver(tmp_path / "runs.db") as saver:
            second = ag.Runner(ag.sequential("s", [desk.agent()]), checkpointer=saver)
            assert list(second.events("t")) == told
            (asked,) = second.pending("t")
            decision = {"decisions": [{"type": "reject", "message": "No."}]}
            told += second.resume("t", {asked.id: decision})
            assert list(second.events("t")) == told
        assert desk.ran == ["look"]
        assert told[-1].text == "All done."

    def test_streams_its_tokens_as_those_of_the_agent(self, drive: Drive) -> None:
        runner = ag.Runner(ag.loop("l", [Desk().agent()], max_iterations=1))
        events = list(drive.run(runner, "Go.", stream=True))
        chunks = [event for event in events if event.partial]
        assert {(event.agent_name, event.address) for event in chunks} == {("desk", "l[0]/desk")}
        whole = {event.id: event.text for event in events if event.message and not event.partial}
        told: dict[str, str] = {}
        for event in chunks:
            told[event.id] = told.get(event.id, "") + event.text
        assert told == {each: whole[each] for each in told}
        assert list(told.values()) == ["I look.", "I send."]

    def test_is_a_branch_and_a_tool_like_any_agent(self, drive: Drive) -> None:
        both = ag.parallel("p", [Desk().agent(), says("other", "here")])
        runner = ag.Runner(both)
        lines = transcript(drive.run(runner, "Go.", thread_id="t"))
        assert [line for line in lines if "desk" in line][:3] == [
            "p/desk: I look.",
            "p/desk: seen",
            "p/desk: I send.",
        ]
        (asked,) = runner.pending("t")
        resumed = transcript(
            drive.resume(runner, "t", {asked.id: {"decisions": [{"type": "approve"}]}})
        )
        assert resumed == ["p/desk: sent to send", "p/desk: All done."]

        request = AIMessage(
            "",
            tool_calls=[{"name": "desk", "args": {"request": "Look!"}, "id": "1", "type": "tool_call"}],
        )
        desk = Desk()
        model = ScriptedChatModel(responses=[request, "I thank you."])
        runner = ag.Runner(ag.chat_agent("boss", model, tools=[ag.agent_tool(desk.agent())]))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert [message.text for message in desk.model.inputs[0]] == ["Look!"]
        (asked,) = runner.pending("t")
        assert asked.address == "boss/desk(0)"
        resumed = transcript(
            drive.resume(runner, "t", {asked.id: {"decisions": [{"type": "approve"}]}})
        )
        assert resumed[-2:] == ["boss: All done.", "boss: I thank you."]


class TestAGraphByHand:
    def test_asks_and_is_asked_again_only_for_what_was_not_answered(self, drive: Drive) -> None:
        tries: list[str] = []

        def one(state: MessagesState) -> Any:
            return {"messages": [AIMessage("one")]}

        def two(state: MessagesState) -> Any:
            answer = interrupt("really?")
            tries.append(answer)
            if len(tries) == 1:
                raise ConnectionError("down")
            return {"messages": [AIMessage(f"two, {answer}")]}

        tree = ag.loop("l", [ag.graph_agent("hand", by_hand(one, two))], max_iterations=2)
        runner = ag.Runner(tree)
        told = list(drive.run(runner, "Go.", thread_id="t"))
        assert transcript(told) == ["l/hand: one", "l/hand: [asks] really?"]
        events, _ = failing(drive.resume(runner, "t", "yes"), ConnectionError)
        assert transcript(events) == ["l/hand: [error] ConnectionError('down')"]
        assert runner.pending("t") == []
        second = list(drive.resume(runner, "t"))
        assert transcript(second) == [
            "l/hand: two, yes",
            "l/hand/hand: one",
            "l/hand/hand: [asks] really?",
        ]
        third = list(drive.resume(runner, "t", "again"))
        assert transcript(third) == ["l/hand/hand: two, again"]
        assert list(runner.events("t")) == [*told, *events, *second, *third]

    def test_that_asks_in_two_nodes_at_once_has_two_questions(self, drive: Drive) -> None:
        def left(state: MessagesState) -> Any:
            return {"messages": [AIMessage(f"left {interrupt('left?')}")]}

        def right(state: MessagesState) -> Any:
            return {"messages": [AIMessage(f"right {interrupt('right?')}")]}

        builder = StateGraph(MessagesState)
        for node in (left, right):
            builder.add_node(node.__name__, node)
            builder.add_edge(START, node.__name__)
        runner = ag.Runner(ag.sequential("s", [ag.graph_agent("g", builder.compile())]))
        list(drive.run(runner, "Go.", thread_id="t"))
        asked = {question.value: question.id for question in runner.pending("t")}
        assert asked.keys() == {"left?", "right?"}
        list(drive.resume(runner, "t", {asked["right?"]: 2}))
        assert [question.value for question in runner.pending("t")] == ["left?"]
        assert sorted(transcript(drive.resume(runner, "t", 1))) == ["s/g: left 1", "s/g: right 2"]

    def test_whose_nodes_have_the_names_of_agents_is_told_apart(self, drive: Drive) -> None:
        def writer(state: MessagesState) -> Any:
            return {"messages": [AIMessage("inside")]}

        tree = ag.sequential("s", [says("writer", "outside"), ag.graph_agent("g", by_hand(writer))])
        lines = ["s/writer: outside", "s/writer/g: inside"]
        assert transcript(drive.run(ag.Runner(tree), "Go.")) == lines

    def test_may_be_a_tree_of_agents_itself(self, drive: Drive) -> None:
        model = ScriptedChatModel(responses=["Hello there."])
        inner = ag.sequential("inner", [ag.chat_agent("deep", model), ag.human("who", "Who?")])
        graph = ag.compile_agent(inner)
        runner = ag.Runner(ag.sequential("s", [ag.graph_agent("g", graph), says("end_", "bye")]))
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert {event.agent_name for event in events} == {"g"}
        assert transcript(events) == ["s/g: Hello there.", "s/g: [asks] Who?"]
        assert transcript(drive.resume(runner, "t", "me")) == ["s/g: me", "s/g/end_: bye"]

    def test_is_given_what_the_agent_sees_or_what_a_function_makes_of_it(self, drive: Drive) -> None:
        class Counted(MessagesState):
            n: int

        def echo(state: Counted) -> Any:
            texts = [message.text for message in state["messages"]]
            return {"messages": [AIMessage(f"{state.get('n')} {texts}")]}

        graph = by_hand(echo, state=Counted)
        tree = ag.sequential(
            "s",
            [
                says("a", "first"),
                ag.graph_agent("shared", graph),
                ag.graph_agent("alone", graph, history="input"),
                ag.graph_agent(
                    "made",
                    graph,
                    input=lambda ctx: {"messages": [HumanMessage("mine")], "n": ctx.values["n"]},
                ),
            ],
        )
        events = list(drive.run(ag.Runner(tree), "Go.", values={"n": 3}))
        assert [event.text for event in events[1:]] == [
            "None ['Go.', '[a] said: first']",
            "None ['Go.']",
            "3 ['mine']",
        ]

    def test_that_runs_for_ever_meets_its_own_limit(self, drive: Drive) -> None:
        def again(state: MessagesState) -> Any:
            return {}

        builder = StateGraph(MessagesState)
        builder.add_node("again", again)
        builder.add_edge(START, "again")
        builder.add_edge("again", "again")
        graph = builder.compile().with_config({"recursion_limit": 7})
        events, error = failing(
            drive.run(ag.Runner(ag.sequential("s", [ag.graph_agent("g", graph)])), "Go."), Exception
        )
        assert type(error).__name__ == "GraphRecursionError"
        assert events[-1].address == "s/g"

    def test_may_keep_nothing(self, drive: Drive) -> None:
        def writer(state: MessagesState) -> Any:
            return {"messages": [AIMessage("inside")]}

        builder = StateGraph(MessagesState).add_node("writer", writer).add_edge(START, "writer")
        graph = builder.compile(checkpointer=False)
        tree = ag.sequential("s", [ag.graph_agent("g", graph), says("end_", "bye")])
        events = drive.run(ag.Runner(tree), "Go.")
        assert transcript(events) == ["s/g: inside", "s/g/end_: bye"]

    def test_is_drawn_in_its_box(self) -> None:
        def writer(state: MessagesState) -> Any:
            return {}

        def critic(state: MessagesState) -> Any:
            return {}

        graph = ag.compile_agent(ag.sequential("s", [ag.graph_agent("g", by_hand(writer, critic))]))
        assert {"g:writer", "g:critic"} <= set(graph.get_graph(xray=True).nodes)


def test_faults_of_a_graph_agent_are_found_before_it_runs() -> None:
    def node(state: Any) -> Any:
        return {}

    class Other(dict):
        pass

    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(
            ag.sequential(
                "s",
                [
                    ag.graph_agent("a", StateGraph(MessagesState)),
                    ag.graph_agent("b", by_hand(node, state=dict)),
                    ag.graph_agent("c", by_hand(node), input=3, history="all", timeout=0),
                ],
            )
        )
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        *["s/a", "s/b"],
        *["s/c"] * 3,
    ]


def test_a_retry_begins_the_graph_again_and_marks_what_it_throws_away(drive: Drive) -> None:
    tries: list[int] = []

    def one(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"one {len(tries)}")]}

    def two(state: MessagesState) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("down")
        return {"messages": [AIMessage("two")]}

    patient = RetryPolicy(max_attempts=3, initial_interval=0.01, jitter=False)
    tree = ag.sequential("s", [ag.graph_agent("g", by_hand(one, two), retry=patient), says("z", "z")])
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [event.text or event.kind for event in events] == [
        *["one 0", "discarded", "one 1", "discarded", "one 2"],
        *["two", "z"],
    ]
    assert [e.action.discarded for e in events if e.action] == [(events[0].id,), (events[2].id,)]
    assert transcript(runner.events("t")) == ["s/g: one 2", "s/g: two", "s/g/z: z"]
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert [message.text for message in state["messages"]] == ["Go.", "one 2", "two", "z"]
