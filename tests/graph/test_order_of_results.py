"""Calls and packets that run side by side in a graph: said as they end, kept in their order."""

import threading
from collections.abc import Callable
from itertools import count
from typing import Annotated, Any

import pytest
from helpers import Async, Disk, Drive, failing, scripted
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Send, interrupt
from test_changed_messages import Recording

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

pytestmark = pytest.mark.by_turns("drive")

PATIENCE = 20
CONFIG: Any = {"configurable": {"thread_id": "t"}}
Work = Callable[[int], None]


class Backwards:
    """Lets the last of three calls end first."""

    def __init__(self) -> None:
        self.ended = [threading.Event() for _ in range(4)]
        self.ended[3].set()

    def __call__(self, number: int) -> None:
        assert self.ended[number + 1].wait(PATIENCE)
        self.ended[number].set()


def asks_in_the_middle(number: int, work: Work) -> None:
    work(number)
    if number == 1:
        interrupt("Well?")


def three() -> AIMessage:
    return calls(*(call("look", str(n), number=n) for n in range(3)))


def calls_once(messages: list[BaseMessage]) -> AIMessage | str:
    return three() if messages[-1].type == "human" else "Done."


def langchains(work: Work) -> Any:
    """Return an agent of LangChain's that calls a tool three times."""

    def look(number: int) -> str:
        """Look."""
        work(number)
        return f"r{number}"

    return create_agent(ScriptedChatModel(responses=calls_once), [look])


def packets(work: Work) -> Any:
    """Return a graph that sends three packets to a node, which says a word with an id for each."""

    def look(packet: Any) -> dict[str, Any]:
        work(packet["number"])
        return {"messages": [AIMessage(f"r{packet['number']}", id=f"m{packet['number']}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("begin", lambda state: {"messages": [AIMessage("Go on.")]})
    builder.add_node("look", look)
    builder.add_node("end", lambda state: {"messages": [AIMessage("Done.")]})
    builder.add_edge(START, "begin").add_edge("look", "end")
    builder.add_conditional_edges(
        "begin", lambda state: [Send("look", {"number": n}) for n in range(3)], ["look"]
    )
    return builder.compile()


def in_place(agent: ag.Agent, where: str) -> ag.Agent:
    return agent if where == "alone" else ag.parallel("p", [agent])


def results(runner: ag.Runner) -> list[str]:
    return [message.text for message in runner.thread("t").messages if message.text[:1] == "r"]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("where", ["alone", "branch"])
@pytest.mark.parametrize("graph", [langchains, packets])
def test_the_history_has_the_order_of_the_calls_and_events_that_of_the_stream(
    drive: Drive, graph: Any, where: str, flat: bool
) -> None:
    runner = ag.Runner(in_place(ag.graph_agent("a", graph(Backwards()), flat=flat), where))
    heard = list(drive.run(runner, "Go.", thread_id="t"))
    assert results(runner) == ["r0", "r1", "r2"]
    assert list(runner.events("t")) == heard


@pytest.mark.parametrize("flat", [False, True])
def test_a_result_is_said_when_its_tool_ends(flat: bool) -> None:
    """In a sync run LangGraph may stream a result of a nested graph only when the next tool ends."""
    heard = threading.Event()

    def work(number: int) -> None:
        assert number == 1 or heard.wait(PATIENCE)

    for event in Async.run(ag.Runner(ag.graph_agent("a", langchains(work), flat=flat)), "Go."):
        if event.text == "r1":
            heard.set()


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("where", ["alone", "branch"])
@pytest.mark.parametrize("graph", [langchains, packets])
def test_the_order_is_the_same_where_one_of_them_asks(
    disk: Disk, graph: Any, where: str, flat: bool
) -> None:
    def tree(work: Work) -> ag.Agent:
        asking = graph(lambda number: asks_in_the_middle(number, work))
        return in_place(ag.graph_agent("a", asking, flat=flat), where)

    disk.run(tree(Backwards()))
    again = tree(lambda number: None)
    assert [event.text for event in disk.resume(again, "Yes.")][-1] == "Done."
    assert disk.events(again) == disk.heard
    with ag.sqlite_saver(disk.path) as saver:
        assert results(ag.Runner(again, checkpointer=saver)) == ["r0", "r1", "r2"]


@pytest.mark.parametrize("flat", [False, True])
def test_the_order_is_the_same_where_one_of_them_fails(drive: Drive, flat: bool) -> None:
    tries, back = count(), Backwards()

    def work(number: int) -> None:
        back(number)
        if number == 1 and next(tries) == 0:
            assert back.ended[0].wait(PATIENCE)
            raise ValueError("no")

    runner = ag.Runner(ag.graph_agent("a", langchains(work), flat=flat))
    failing(drive.run(runner, "Go.", thread_id="t"), ValueError)
    list(drive.resume(runner, "t"))
    assert results(runner) == ["r0", "r1", "r2"]


def test_a_turn_that_is_given_up_keeps_the_order(drive: Drive) -> None:
    back = Backwards()
    asking = langchains(lambda number: asks_in_the_middle(number, back))
    runner = ag.Runner(ag.graph_agent("a", asking))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.run(runner, "Next.", thread_id="t", drop_pending=True))
    texts = [message.text for message in runner.thread("t").messages]
    assert texts[1:6] == ["", "r0", "The call was not finished.", "r2", "Next."]


def test_results_that_are_forgotten_in_their_step_keep_the_order_of_the_calls(drive: Drive) -> None:
    back, again = Backwards(), calls(call("look", "2", number=2))

    def look(number: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Look; the last one makes the graph forget."""
        back(number)
        result = ToolMessage(f"r{number}", tool_call_id=tool_call_id)
        forget = [RemoveMessage(id=REMOVE_ALL_MESSAGES), again] if number == 2 else []
        return Command(update={"messages": [*forget, result]})

    runner = ag.Runner(ag.graph_agent("a", create_agent(scripted(three(), "Done."), [look])))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert results(runner)[:3] == ["r0", "r1", "r2"]


class Losing(Recording):
    """A saver that saves what a tool of the graph wrote only with the next checkpoint."""

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        in_graph = config["configurable"]["checkpoint_ns"].startswith("a:")
        if not (in_graph and isinstance(writes[0][1], list) and writes[0][1][0].type == "tool"):
            super().put_writes(config, writes, task_id, task_path)


@pytest.mark.parametrize("kind", [Recording, Losing])
def test_a_result_is_kept_once_after_a_kill_behind_any_save(
    drive: Drive, kind: type[Recording]
) -> None:
    saver = kind(is_late=True)
    tree = ag.graph_agent("a", langchains(Backwards()))
    list(drive.run(ag.Runner(tree, checkpointer=saver), "Go.", thread_id="t"))
    begun = [left for left in saver.left if left.get_tuple(CONFIG)]
    assert len(begun) > 10
    for left in begun:
        runner = ag.Runner(ag.graph_agent("a", langchains(lambda number: None)), checkpointer=left)
        list(drive.resume(runner, "t"))
        kept = [message.text for message in runner.thread("t").messages]
        assert kept == ["Go.", "", "r0", "r1", "r2", "Done."]
        assert sorted(event.text for event in runner.events("t")) == sorted(kept[1:])
