"""Graphs of LangGraph as leaves: `create_agent` and graphs built by hand."""

from collections.abc import Callable
from typing import Any

import pytest
from helpers import Disk, Drive, failing, lines, retrying, says, scripted, standing
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

APPROVED = {"decisions": [{"type": "approve"}]}


def built(*nodes: Callable[[Any], Any], state: Any = MessagesState) -> Any:
    """Return a builder of a graph that runs nodes one after the other."""
    builder = StateGraph(state)
    for node in nodes:
        builder.add_node(node.__name__, node)
    for before, node in zip([None, *nodes], nodes, strict=False):
        builder.add_edge(before.__name__ if before else START, node.__name__)
    return builder


def by_hand(*nodes: Callable[[Any], Any], **options: Any) -> Any:
    return built(*nodes, **options).compile()


def writer(state: Any) -> Any:
    return {"messages": [AIMessage("inside")]}


class Desk:
    """An agent of LangChain's with two tools, one of which a person must approve."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        rounds = [calls(call(name, to=name), text=f"I {name}.") for name in ("look", "send")]
        self.model = scripted(*rounds, "All done.")

    def agent(self) -> ag.Agent:
        def look(to: str) -> str:
            """Look."""
            self.ran.append("look")
            return "seen"

        def send(to: str) -> str:
            """Send."""
            self.ran.append("send")
            return f"sent to {to}"

        approval = HumanInTheLoopMiddleware(interrupt_on={"send": True})
        graph = create_agent(self.model, [look, send], middleware=[approval])
        return ag.graph_agent("desk", graph, output_key="done")


BEFORE = ["desk: I look.", "desk: seen", "desk: I send."]
AFTER = ["desk: sent to send", "desk: All done."]


def at(prefix: str, told: list[str]) -> list[str]:
    return [f"{prefix}{line}" for line in told]


class TestAnAgentOfLangChains:
    def test_emits_each_message_after_its_step_and_pauses_for_a_person(self, disk: Disk) -> None:
        desk = Desk()
        shown = ag.function_agent("after", lambda ctx: f"{ctx.values} {len(ctx.messages)}")
        tree = ag.sequential("s", [desk.agent(), shown])
        *told, asked = disk.run(tree)
        assert lines(told) == at("s/", BEFORE)
        assert asked.address == "s/desk"
        assert asked.action.interrupted.value["action_requests"][0]["name"] == "send"
        assert lines(disk.resume(tree, APPROVED)) == [
            *at("s/", AFTER),
            "s/after: {'done': 'All done.'} 6",
        ]
        assert disk.events(tree) == disk.told
        assert desk.ran == ["look", "send"]
        assert len(desk.model.inputs) == 3

    def test_streams_its_tokens_under_its_address(self, drive: Drive) -> None:
        runner = ag.Runner(ag.loop("l", [Desk().agent()], max_iterations=1))
        events = list(drive.run(runner, "Go.", stream=True))
        chunks: dict[str, str] = {}
        for event in (each for each in events if each.partial):
            assert (event.agent_name, event.address) == ("desk", "l[0]/desk")
            chunks[event.id] = chunks.get(event.id, "") + event.text
        assert list(chunks.values()) == ["I look.", "I send."]
        whole = {event.id: event.text for event in events if event.message and not event.partial}
        assert chunks.items() <= whole.items()

    def test_may_be_a_branch(self, drive: Drive) -> None:
        runner = ag.Runner(ag.parallel("p", [Desk().agent(), says("other")]))
        told = lines(drive.run(runner, "Go.", thread_id="t"))
        assert [line for line in told if line.startswith("p/desk: I") or "seen" in line] == at(
            "p/", BEFORE
        )
        assert lines(drive.resume(runner, "t", APPROVED)) == at("p/", AFTER)

    def test_may_be_a_tool(self, drive: Drive) -> None:
        desk = Desk()
        model = scripted(calls(call("desk", request="Look!")), "I thank you.")
        runner = ag.Runner(ag.chat_agent("boss", model, tools=[ag.agent_tool(desk.agent())]))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert [message.text for message in desk.model.inputs[0]] == ["Look!"]
        (asked,) = runner.pending("t")
        assert asked.address == "boss/desk(0)"
        assert lines(drive.resume(runner, "t", APPROVED))[-2:] == [
            "boss: All done.",
            "boss: I thank you.",
        ]


class TestAGraphByHand:
    def test_asks_and_is_resumed_at_the_node_that_failed(self, drive: Drive) -> None:
        answers: list[str] = []

        def one(state: Any) -> Any:
            return {"messages": [AIMessage("one")]}

        def two(state: Any) -> Any:
            answers.append(interrupt("really?"))
            if len(answers) == 1:
                raise ConnectionError("down")
            return {"messages": [AIMessage(f"two, {answers[-1]}")]}

        runner = ag.Runner(ag.loop("l", [ag.graph_agent("g", by_hand(one, two))], max_iterations=2))
        told = list(drive.run(runner, "Go.", thread_id="t"))
        assert lines(told) == ["l[0]/g: one", "l[0]/g: [asks] really?"]
        events, _ = failing(drive.resume(runner, "t", "yes"), ConnectionError)
        assert lines(events) == ["l[0]/g: [error] ConnectionError('down')"]
        assert runner.pending("t") == []
        told += [*events, *(second := list(drive.resume(runner, "t")))]
        assert lines(second) == ["l[0]/g: two, yes", "l[1]/g: one", "l[1]/g: [asks] really?"]
        told += (third := list(drive.resume(runner, "t", "again")))
        assert lines(third) == ["l[1]/g: two, again"]
        assert list(runner.events("t")) == told

    def test_may_ask_in_two_nodes_at_once(self, drive: Drive) -> None:
        builder = StateGraph(MessagesState)
        for name in ("left", "right"):

            def node(state: Any, name: str = name) -> Any:
                return {"messages": [AIMessage(f"{name} {interrupt(f'{name}?')}")]}

            builder.add_node(name, node)
            builder.add_edge(START, name)
        runner = ag.Runner(ag.graph_agent("g", builder.compile()))
        list(drive.run(runner, "Go.", thread_id="t"))
        asked = {question.value: question.id for question in runner.pending("t")}
        assert asked.keys() == {"left?", "right?"}
        list(drive.resume(runner, "t", {asked["right?"]: 2}))
        assert [question.value for question in runner.pending("t")] == ["left?"]
        assert sorted(lines(drive.resume(runner, "t", 1))) == ["g: left 1", "g: right 2"]

    def test_may_have_nodes_with_the_names_of_agents(self, drive: Drive) -> None:
        tree = ag.sequential("s", [says("writer", "outside"), ag.graph_agent("g", by_hand(writer))])
        assert lines(drive.run(ag.Runner(tree), "Go.")) == ["s/writer: outside", "s/g: inside"]

    def test_may_be_a_compiled_tree(self, drive: Drive) -> None:
        inner = ag.sequential(
            "inner", [ag.chat_agent("deep", scripted("Hello there.")), ag.human("who", "Who?")]
        )
        runner = ag.Runner(
            ag.sequential("s", [ag.graph_agent("g", ag.compile_agent(inner)), says("z")])
        )
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert {event.address for event in events} == {"s/g"}
        assert lines(events) == ["s/g: Hello there.", "s/g: [asks] Who?"]
        assert lines(drive.resume(runner, "t", "me")) == ["s/g: me", "s/z: z"]

    def test_sees_the_history_or_what_a_function_makes_of_it(self, drive: Drive) -> None:
        class Counted(MessagesState):
            n: int

        def echo(state: Any) -> Any:
            texts = [message.text for message in state["messages"]]
            return {"messages": [AIMessage(f"{state.get('n')} {texts}")]}

        graph = by_hand(echo, state=Counted)

        def made(ctx: ag.Context) -> Any:
            return {"messages": [HumanMessage("mine")], "n": ctx.values["n"]}

        tree = ag.sequential(
            "s",
            [
                says("a", "first"),
                ag.graph_agent("shared", graph),
                ag.graph_agent("alone", graph, history="input"),
                ag.graph_agent("made", graph, input=made),
            ],
        )
        assert lines(drive.run(ag.Runner(tree), "Go.", values={"n": 3}))[1:] == [
            "s/shared: None ['Go.', '[a] said: first']",
            "s/alone: None ['Go.']",
            "s/made: 3 ['mine']",
        ]

    def test_that_runs_for_ever_meets_its_own_limit(self, drive: Drive) -> None:
        def again(state: Any) -> Any:
            return {}

        graph = built(again).add_edge("again", "again").compile().with_config({"recursion_limit": 7})
        runner = ag.Runner(ag.sequential("s", [ag.graph_agent("g", graph)]))
        events, error = failing(drive.run(runner, "Go."), Exception)
        assert type(error).__name__ == "GraphRecursionError"
        assert events[-1].address == "s/g"

    def test_may_be_compiled_without_a_saver(self, drive: Drive) -> None:
        graph = built(writer).compile(checkpointer=False)
        tree = ag.sequential("s", [ag.graph_agent("g", graph), says("z")])
        assert lines(drive.run(ag.Runner(tree), "Go.")) == ["s/g: inside", "s/z: z"]

    def test_is_drawn_in_its_box(self) -> None:
        graph = ag.compile_agent(ag.sequential("s", [ag.graph_agent("g", by_hand(writer))]))
        assert "g:writer" in graph.get_graph(xray=True).nodes

    def test_that_cannot_be_saved_is_an_error_that_names_the_agent(self, disk: Disk) -> None:
        class Loose(MessagesState):
            thing: Any

        def keep(state: Any) -> Any:
            return {"thing": object()}

        tree = ag.graph_agent("g", by_hand(keep, state=Loose))
        with pytest.raises(ag.InvalidOutputError) as caught:
            disk.run(tree)
        assert str(caught.value).startswith("g: the input or the state of the graph cannot be saved (")
        assert str(caught.value).endswith(
            "); use plain data: texts, numbers, lists, dicts. The step can be tried again"
        )


class TestATryThatFailed:
    @pytest.mark.parametrize("saves", [None, False], ids=["saved", "not saved"])
    def test_is_discarded_and_the_retry_begins_the_graph_again(
        self, drive: Drive, saves: bool | None
    ) -> None:
        tries: list[int] = []

        def one(state: Any) -> Any:
            return {"messages": [AIMessage(f"one {len(tries)}")]}

        def two(state: Any) -> Any:
            tries.append(1)
            if len(tries) < 3:
                raise ConnectionError("down")
            return {"messages": [AIMessage("two")]}

        graph = built(one, two).compile(checkpointer=saves)
        runner = ag.Runner(ag.graph_agent("g", graph, retry=retrying(3)))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        assert lines(events) == [
            *["g: one 0", "g: [discarded]", "g: one 1", "g: [discarded]", "g: one 2", "g: two"]
        ]
        assert list(runner.events("t")) == standing(events)
        state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
        assert [message.text for message in state["messages"]] == ["Go.", "one 2", "two"]

    @pytest.mark.parametrize("failures", [1, 2, 3, 4])
    def test_is_discarded_over_resumes_too(self, drive: Drive, failures: int) -> None:
        tries: list[int] = []

        def one(state: Any) -> Any:
            return {"messages": [AIMessage("one")]}

        def two(state: Any) -> Any:
            tries.append(1)
            if len(tries) <= failures:
                raise ConnectionError("down")
            return {"messages": [AIMessage("two")]}

        runner = ag.Runner(ag.graph_agent("g", by_hand(one, two), retry=retrying(2)))
        told: list[ag.AgentEvent] = []
        for turn in range(failures // 2 + 1):
            events = drive.resume(runner, "t") if turn else drive.run(runner, "Go.", thread_id="t")
            if turn < failures // 2:
                told += failing(events, ConnectionError)[0]
            else:
                told += events
            assert list(runner.events("t")) == standing(told)
        assert [each.text for each in standing(told) if each.kind != "error"] == ["one", "two"]
