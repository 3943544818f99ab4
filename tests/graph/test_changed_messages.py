"""Messages that are replaced, removed, redacted or summarized, by whomever.

What graphs and functions do is in `tests/transcripts/changed_messages.txt`, at random in
`tests/properties/test_foreign_edits.py`.
"""

import asyncio
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from threading import RLock
from typing import Annotated, Any

import pytest
from helpers import (
    Disk,
    Drive,
    chat,
    foreign,
    removal,
    says,
    scripted,
    sees,
    texts_in,
    unvoided,
    yields,
)
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Overwrite

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def run(drive: Drive, tree: ag.Agent) -> tuple[ag.Runner, list[ag.AgentEvent]]:
    """Run a tree once; what is left of its events is what the thread has."""
    runner = ag.Runner(tree)
    events = list(drive.run(runner, HumanMessage("secret", id="user"), thread_id="t"))
    assert {event.id for event in runner.events("t")} == {event.id for event in unvoided(events)}
    return runner, events


def once(agents: list[ag.Agent]) -> ag.Agent:
    """Return a loop that ends once `until` sees the change."""
    return ag.loop(
        "l",
        agents,
        until=lambda ctx: [each.text for each in ctx.messages][:3] == ["secret", "draft", "better"],
        max_iterations=2,
    )


INSIDE = {
    "a loop": once,
    "a branch": lambda agents: ag.parallel("p", [ag.sequential("q", agents), says("other")]),
    "a loop in a branch": lambda agents: ag.parallel("p", [once(agents), says("other")]),
    "a branch in a branch": lambda agents: ag.parallel(
        "p", [ag.sequential("o", [ag.parallel("i", [ag.sequential("q", agents)])])]
    ),
    "a step": lambda agents: ag.workflow("f", [agents[0], ag.step(agents[1], depends_on=["e"])]),
}


@pytest.mark.parametrize("where", INSIDE)
def test_a_change_in_a_place_is_seen_there_and_after_it(drive: Drive, where: str) -> None:
    draft = yields("w", [AIMessage("draft", id="draft"), AIMessage("note", id="note")])
    editor = yields("e", [AIMessage("better", id="draft"), removal("note")])
    place = INSIDE[where]([editor, sees("in")])
    _, events = run(drive, ag.sequential("s", [draft, place, sees("after")]))
    inside = [event.text for event in events if event.agent_name == "in"]
    assert inside == ["saw secret | [w] said: draft | [e] said: better"]
    assert events[-1].text.startswith("saw secret | [w] said: draft | [e] said: better |")
    assert "note" not in events[-1].text


def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}, from ann@example.org"


def test_what_an_agent_of_langchains_redacts_and_summarizes_is_said_once(disk: Disk) -> None:
    def desk() -> ag.Agent:
        redaction = PIIMiddleware(
            "email", apply_to_input=True, apply_to_output=True, apply_to_tool_results=True
        )
        summaries = scripted("Short.", "Shorter.")
        summary = SummarizationMiddleware(summaries, trigger=("messages", 4), keep=("messages", 2))
        rounds = [calls(call("look", topic=topic)) for topic in ("bees", "wasps", "ants")]
        model = scripted(*rounds, "Ask bob@example.org.")
        made = create_agent(model, [look], middleware=[redaction, summary])
        return ag.sequential("s", [ag.graph_agent("desk", made, output_key="answer")])

    said = [
        *["", "bees, from [REDACTED_EMAIL]", "", "wasps, from [REDACTED_EMAIL]"],
        *["", "ants, from [REDACTED_EMAIL]", "Ask [REDACTED_EMAIL]."],
    ]
    events = disk.run(desk(), "I am me@example.org.")
    assert [each.text for each in unvoided(events)] == said
    assert disk.events(desk()) == unvoided(events)
    with ag.sqlite_saver(disk.path) as saver:
        state = ag.compile_agent(desk(), checkpointer=saver).get_state(CONFIG).values
    assert [each.text for each in state["messages"]] == ["I am [REDACTED_EMAIL].", *said]
    assert state["values"] == {"answer": "Ask [REDACTED_EMAIL]."}


@pytest.mark.parametrize("several", [1, 2])
def test_a_tool_may_change_the_words_of_its_agent_and_of_the_user(drive: Drive, several: int) -> None:
    @tool
    def tidy(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Tidy up."""
        changed = [
            *[removal(), HumanMessage("*", id="user"), AIMessage("B", id="before")],
            *[AIMessage("Later.", id="mine"), ToolMessage("tidied", tool_call_id=tool_call_id)],
        ]
        return Command(update={"messages": changed})

    writer = chat(
        "w", AIMessage("Mine.", id="mine"), calls(*[call("tidy")] * several), "Done.", tools=[tidy]
    )
    before = yields("a", [AIMessage("Before.", id="before")])
    runner, events = run(drive, ag.sequential("s", [before, ag.loop("l", [writer], max_iterations=2)]))
    assert texts_in(runner)[:2] == ["*", "Before."]
    kept = runner.graph.get_state(CONFIG).values["messages"]
    assert {e.id: e.text for e in unvoided(events)} == {m.id: m.text for m in kept if m.id != "user"}


def test_a_client_may_remove_all_by_input_and_by_an_edit_of_the_state(drive: Drive) -> None:
    count = ag.function_agent("f", lambda ctx: str(len(ctx.messages)))
    compiled = ag.compile_agent(count, checkpointer=InMemorySaver())
    compiled.invoke({"messages": ["One."]}, CONFIG)
    for each in (removal(), {"type": "remove", "id": removal().id, "content": ""}):
        left = compiled.invoke({"messages": [each, "Two."]}, CONFIG)["messages"]
        assert [each.text for each in left] == ["Two.", "1"]
        assert all(each.id for each in left)
    edit = [HumanMessage("gone"), removal(), HumanMessage("Three.")]
    compiled.update_state(CONFIG, {"messages": edit})
    assert [each.text for each in compiled.get_state(CONFIG).values["messages"]] == ["Three."]
    runner = ag.Runner(count)
    given: list[Any] = ["One.", [removal(), "Two."]]
    events = [event for each in given for event in drive.run(runner, each, thread_id="t")]
    assert [each.text for each in events] == ["1", "1"]
    assert list(runner.events("t")) == events


def bare() -> tuple[Any, list[list[str]]]:
    """Return a graph with a message of an agent that is called x, and what another one has seen."""
    seen: list[list[str]] = []
    one = yields("a", [AIMessage("draft", id="x")])
    other = ag.function_agent("b", lambda ctx: seen.append([each.text for each in ctx.messages]))
    tree = ag.sequential("s", [one, ag.human("h", "Good?"), other])
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    graph.invoke({"messages": [HumanMessage("Go.", id="u")]}, CONFIG)
    return graph, seen


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("form", [AIMessage, partial(dict, type="ai")], ids=["object", "dict"])
def test_an_edit_of_the_state_stays_the_words_of_its_agent(form: Any, is_async: bool) -> None:
    graph, seen = bare()
    edit = {"messages": [form(content="better", id="x")]}
    if is_async:
        asyncio.run(graph.aupdate_state(CONFIG, edit))
    else:
        graph.update_state(CONFIG, edit)
    graph.invoke(Command(resume="yes"), CONFIG)
    assert seen == [["Go.", "[a] said: better", "[h] said: yes"]]


def whole(draft: BaseMessage) -> object:
    return Overwrite([HumanMessage("Go.", id="u"), draft])


def twice(draft: BaseMessage) -> object:
    return [AIMessage("worse", id="x"), draft]


@pytest.mark.parametrize("form", [whole, twice])
def test_an_edit_in_another_form_stays_the_words_of_its_agent_too(form: Any) -> None:
    graph, seen = bare()
    graph.update_state(CONFIG, {"messages": form(AIMessage("better", id="x"))})
    graph.invoke(Command(resume="yes"), CONFIG)
    assert seen == [["Go.", "[a] said: better", "[h] said: yes"]]
    events = ag.Runner(graph.agent, checkpointer=graph.checkpointer).events("t")
    assert [event.text for event in events if event.address == "s/a"] == ["better"]


def in_a_branch(tree: ag.Agent) -> tuple[Any, Callable[[Any], Any]]:
    """Return a graph with a tree in a branch, and a function that returns the state of the branch."""
    both = ag.parallel("p", [tree, ag.function_agent("z", lambda ctx: None)])
    graph = ag.compile_agent(both, checkpointer=InMemorySaver())
    return graph, lambda state: state.tasks[0].state.tasks[0].state


def in_a_graph(tree: ag.Agent) -> tuple[Any, Callable[[Any], Any]]:
    """Return a graph that has a tree as a node, and a function that returns the state of the tree."""
    builder = StateGraph(MessagesState)
    builder.add_node("tree", ag.compile_agent(tree))
    builder.add_edge(START, "tree")
    return builder.compile(checkpointer=InMemorySaver()), lambda state: state.tasks[0].state


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("made", [in_a_branch, in_a_graph])
def test_an_edit_of_an_inner_state_stays_the_words_of_its_agent(made: Any, is_async: bool) -> None:
    outer, seen = bare()
    graph, inner = made(outer.agent)
    graph.invoke({"messages": [HumanMessage("Go.", id="u")]}, CONFIG)
    state = inner(graph.get_state(CONFIG, subgraphs=True))
    (said,) = [each.id for each in state.values["messages"] if each.type == "ai"]
    for edit in (AIMessage("better", id=said), HumanMessage("more", id=said)):
        if is_async:
            asyncio.run(graph.aupdate_state(state.config, {"messages": [edit]}))
        else:
            graph.update_state(state.config, {"messages": [edit]})
        state = inner(graph.get_state(CONFIG, subgraphs=True))
    graph.invoke(Command(resume="yes"), CONFIG)
    assert seen == [["Go.", "[a] said: better", "more", "[h] said: yes"]]


def test_a_command_with_pairs_cannot_change_what_an_agent_said() -> None:
    graph, _ = bare()
    command = Command(resume="yes", update=[("messages", [AIMessage("approved", id="x")])])
    with pytest.raises(ag.ThreadError, match="call rewind"):
        graph.invoke(command, CONFIG)


def test_an_edit_of_the_state_never_replaces_a_message_of_another_type() -> None:
    graph, seen = bare()
    graph.update_state(CONFIG, {"messages": [HumanMessage("more", id="x")]})
    graph.invoke(Command(resume="yes"), CONFIG)
    assert seen == [["Go.", "[a] said: draft", "more", "[h] said: yes"]]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_client_that_sends_the_history_again_changes_nothing(is_async: bool) -> None:
    graph, seen = bare()
    history = graph.invoke(Command(resume="yes"), CONFIG)["messages"]
    sent: list[Any] = [{"type": m.type, "content": m.content, "id": m.id} for m in history]
    given = {"messages": [*sent, {"role": "user", "content": "Again."}]}
    if is_async:
        asyncio.run(graph.ainvoke(given, CONFIG))
    else:
        graph.invoke(given, CONFIG)
    again = graph.invoke(Command(resume="yes"), CONFIG)["messages"]
    assert seen[1] == [*seen[0], "Again.", "[h] said: yes"]  # x is the same message of the agent
    assert [each.text for each in again[: len(history)]] == [each.text for each in history]
    with pytest.raises(ag.ThreadError, match="call rewind"):
        graph.invoke({"messages": [{"role": "ai", "content": "approved", "id": "x"}]}, CONFIG)
    assert graph.get_state(CONFIG).values["messages"] == again


class Recording(InMemorySaver):
    """A saver that keeps what it had saved after each save, as a kill would leave it.

    Attributes:
        left: A saver for each.
    """

    def __init__(self, *, is_late: bool) -> None:
        """Make one; with `is_late` LangGraph's own saves of the results of tasks never come."""
        super().__init__()
        self.left: list[InMemorySaver] = []
        self._is_late, self._lock = is_late, RLock()

    def put(self, *given: Any) -> Any:
        with self._lock:
            config = super().put(*given)
            self._keep()
        return config

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        is_langgraphs = "metadata" in config and writes[0][0] == "__return__"
        with self._lock:
            if not (self._is_late and is_langgraphs):
                super().put_writes(config, writes, task_id, task_path)
                self._keep()

    def _keep(self) -> None:
        left = InMemorySaver()
        left.storage, left.writes, left.blobs = deepcopy([self.storage, self.writes, self.blobs])
        self.left.append(left)


@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "late"])
def test_a_kill_after_any_save_leaves_the_same_messages(drive: Drive, is_late: bool) -> None:
    """The result of a task is saved before the graph continues, however late LangGraph saves it."""
    asked = calls(call("look", "1")).model_copy(update={"id": "call"})
    returned = ToolMessage("two", id="2", tool_call_id="1")
    graph = foreign(
        lambda seen: [AIMessage("one", id="one"), AIMessage("gone", id="gone")],
        lambda seen: [asked, returned, AIMessage("ONE", id="one"), HumanMessage("*", id="user")],
        lambda seen: [removal(), HumanMessage("Short."), seen[2], AIMessage("three", id="three")],
    )
    tree = ag.sequential("s", [ag.graph_agent("g", graph)])
    saver = Recording(is_late=is_late)
    list(drive.run(ag.Runner(tree, checkpointer=saver), HumanMessage("Go.", id="user"), thread_id="t"))
    begun = [left for left in saver.left if left.get_tuple(CONFIG)]
    assert len(begun) > 10
    said = [("one", "ONE"), ("gone", "gone"), ("call", ""), ("2", "two"), ("three", "three")]
    for left in begun:
        runner = ag.Runner(tree, checkpointer=left)
        list(drive.resume(runner, "t"))
        kept = runner.graph.get_state(CONFIG).values["messages"]
        assert [(each.id, each.text) for each in kept] == [("user", "*"), *said]
        assert sorted((each.id, each.text) for each in runner.events("t")) == sorted(said)
