"""Messages that graphs, functions, tools and clients replace, remove, redact or summarize."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from commands import Commands
from helpers import Disk, Drive, says, scripted, standing
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}
ALL = RemoveMessage(id=REMOVE_ALL_MESSAGES)
SECRET = HumanMessage("secret", id="user")


def history_of(runner: ag.Runner) -> list[str]:
    return [each.text for each in runner.graph.get_state(CONFIG).values["messages"]]


def graph(*writes: Callable[[Any], list[Any]]) -> ag.Agent:
    """Return a graph agent whose nodes write what functions of its messages return."""
    builder = StateGraph(MessagesState)
    for i, write in enumerate(writes):
        builder.add_node(f"n{i}", lambda state, write=write: {"messages": write(state["messages"])})
        builder.add_edge(f"n{i - 1}" if i else START, f"n{i}")
    return ag.graph_agent("g", builder.compile())


def agent(name: str, *items: Any) -> ag.Agent:
    """Return a function agent that yields items."""

    def fn(ctx: ag.Context) -> Any:
        yield from items

    return ag.function_agent(name, fn)


def run(drive: Drive, tree: ag.Agent, **options: Any) -> tuple[ag.Runner, list[ag.AgentEvent]]:
    """Run a tree once; what is left of its events is what the thread has."""
    runner = ag.Runner(tree)
    told = list(drive.run(runner, SECRET, thread_id="t"))
    if options:
        told += drive.run(runner, "Next.", thread_id="t", **options)
    left = sorted(standing(told), key=lambda event: event.id)
    assert sorted(runner.events("t"), key=lambda event: event.id) == left
    return runner, told


CALLED = AIMessage("", id="call", tool_calls=[call("look")])
RESULT = ToolMessage("seen", id="seen", tool_call_id="1")


@pytest.mark.parametrize(
    ("writes", "heard", "kept"),
    [
        pytest.param(
            [
                lambda seen: [AIMessage("Hm."), CALLED, RESULT],
                lambda seen: [RemoveMessage(id=each.id) for each in seen],
            ],
            ["Hm.", "message", "seen", "discarded"],
            ["secret", "", "seen"],
            id="a word that is removed by its id is void, what ran is not",
        ),
        pytest.param(
            [
                lambda seen: [AIMessage("Hm.")],
                lambda seen: [{"type": "remove", "id": seen[1].id, "content": ""}],
            ],
            ["Hm.", "discarded"],
            ["secret"],
            id="a removal may be a dict",
        ),
        pytest.param(
            [lambda seen: [AIMessage("Hm.")], lambda seen: [ALL, HumanMessage("Somebody said Hm.")]],
            ["Hm."],
            ["secret", "Hm."],
            id="a removal of all leaves what was said",
        ),
        pytest.param(
            [
                lambda seen: [AIMessage("One.")],
                lambda seen: [AIMessage("Two."), ALL, AIMessage("Three.")],
            ],
            ["One.", "Three.", "Two."],
            ["secret", "One.", "Three.", "Two."],
            id="what is written beside a removal of all is said",
        ),
        pytest.param(
            [
                lambda seen: [AIMessage("draft", id="a")],
                lambda seen: [AIMessage("draft", id="a")],
                lambda seen: [AIMessage("better", id="a")],
                lambda seen: [RemoveMessage(id="a")],
                lambda seen: [AIMessage("again", id="a")],
            ],
            ["draft", "discarded", "better", "discarded", "discarded", "again"],
            ["secret", "again"],
            id="a message that changed is void, and said as it is now",
        ),
        pytest.param(
            [lambda seen: [each.model_copy(update={"content": each.text.upper()}) for each in seen]],
            [],
            ["SECRET"],
            id="a message of the user is replaced without an event",
        ),
    ],
)
def test_a_graph_changes_messages(drive: Drive, writes: Any, heard: Any, kept: Any) -> None:
    runner, told = run(drive, graph(*writes))
    assert [each.text or each.kind for each in told] == heard
    assert history_of(runner) == kept


def test_a_graph_does_not_change_what_another_agent_said(drive: Drive) -> None:
    loud = graph(lambda seen: [m.model_copy(update={"content": m.text.upper()}) for m in seen])
    runner, told = run(drive, ag.sequential("s", [says("a", "Before."), loud]))
    assert [each.text for each in told] == ["Before."]
    assert history_of(runner) == ["SECRET", "Before."]


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
    told = disk.run(desk(), "I am me@example.org.")
    assert [each.text for each in standing(told)] == said
    assert disk.events(desk()) == standing(told)
    with ag.sqlite_saver(disk.path) as saver:
        state = ag.compile_agent(desk(), checkpointer=saver).get_state(CONFIG).values
    assert [each.text for each in state["messages"]] == ["I am [REDACTED_EMAIL].", *said]
    assert state["values"] == {"answer": "Ask [REDACTED_EMAIL]."}


def test_a_turn_that_is_given_up_keeps_the_last_version_of_a_graphs_messages(drive: Drive) -> None:
    tree = graph(
        lambda seen: [AIMessage("One", id="1"), AIMessage("Gone", id="2")],
        lambda seen: [AIMessage("ONE", id="1"), RemoveMessage(id="2"), HumanMessage("*", id="user")],
        lambda seen: [AIMessage(interrupt("Well?"))],
    )
    runner = ag.Runner(tree)
    told = list(drive.run(runner, SECRET, thread_id="t"))
    told += drive.run(runner, "Next.", thread_id="t", drop_pending=True)
    assert history_of(runner) == ["*", "ONE", "Next."]
    left = [each.text for each in standing(told) if each.message]
    assert [each.text for each in runner.events("t") if each.message] == left == ["ONE"]


DRAFT = AIMessage("draft", id="draft"), AIMessage("note", id="note")
EDIT = AIMessage("better", id="draft"), RemoveMessage(id="note")


def test_a_function_voids_what_it_replaces_or_removes(drive: Drive) -> None:
    def edit(ctx: ag.Context) -> Any:
        yield [each for each in ctx.messages if each.id == "mine"]  # as it saw it: no change
        yield from EDIT
        yield [ALL, RemoveMessage(id="unknown"), HumanMessage("*", id="user")]

    first, second = AIMessage("first", id="mine"), AIMessage("second", id="mine")
    tree = ag.sequential("s", [agent("w", *DRAFT, first, second), ag.function_agent("e", edit)])
    runner, told = run(drive, tree)
    assert sorted(each.text for each in standing(told)) == ["better", "second"]
    assert history_of(runner) == ["*", "better", "second"]


def test_a_function_leaves_what_ran_and_removes_what_the_user_said(drive: Drive) -> None:
    edits = [RemoveMessage(id="call"), RemoveMessage(id="seen"), RemoveMessage(id="user")]
    runner, told = run(drive, ag.sequential("s", [agent("w", CALLED, RESULT), agent("e", *edits)]))
    assert [each.kind for each in told] == ["message", "message"]
    assert history_of(runner) == ["", "seen"]


@pytest.mark.parametrize("where", ["loop", "branch", "loop in a branch", "branch in a branch", "step"])
def test_a_change_is_seen_by_all_that_comes_after(drive: Drive, where: str) -> None:
    seen: list[list[str]] = []

    def looks(ctx: ag.Context) -> None:
        seen.append([each.text.removeprefix("[e] said: ") for each in ctx.messages])

    editor = agent("e", *EDIT)
    again = ag.loop("l", [editor], until=lambda ctx: looks(ctx) is None, max_iterations=2)
    pair = ag.sequential("q", [editor, ag.function_agent("in", looks)])
    dependent = ag.step(ag.function_agent("in", looks), depends_on=["e"])
    inside: dict[str, ag.Agent] = {
        "loop": again,
        "branch": ag.parallel("p", [pair, says("other")]),
        "loop in a branch": ag.parallel("p", [again, says("other")]),
        "branch in a branch": ag.parallel("p", [ag.sequential("o", [ag.parallel("i", [pair])])]),
        "step": ag.workflow("flow", [ag.step(editor), dependent]),
    }
    runner, _ = run(drive, ag.sequential("s", [agent("w", *DRAFT), inside[where]]))
    assert seen == [["secret", "better"]]
    assert history_of(runner)[:2] == ["secret", "better"]
    assert "note" not in history_of(runner)


def test_a_turn_that_is_given_up_keeps_what_a_branch_replaced_and_removed(drive: Drive) -> None:
    first = ag.function_agent("w", lambda ctx: [*DRAFT] if len(ctx.messages) == 1 else [])
    edits = ag.sequential("q", [agent("e", *EDIT), ag.human("h", "Sure?")])
    runner = ag.Runner(ag.sequential("s", [first, ag.parallel("p", [edits, says("o")])]))
    told = list(drive.run(runner, "Go.", thread_id="t"))
    told += drive.run(runner, "Next.", thread_id="t", drop_pending=True)
    assert history_of(runner)[:4] == ["Go.", "better", "o", "Next."]
    assert list(runner.events("t")) == standing(told)


@pytest.mark.parametrize("several", [1, 2])
def test_a_tool_may_change_its_agents_words_and_the_users(drive: Drive, several: int) -> None:
    @tool
    def tidy(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Tidy up."""
        changed = [
            *[ALL, HumanMessage("*", id="user"), AIMessage("B", id="before")],
            *[AIMessage("Later.", id="mine"), ToolMessage("tidied", tool_call_id=tool_call_id)],
        ]
        return Command(update={"messages": changed})

    replies = AIMessage("Mine.", id="mine"), calls(*[call("tidy")] * several), "Done."
    writer = ag.chat_agent("writer", scripted(*replies), tools=[tidy])
    before = agent("a", AIMessage("Before.", id="before"))
    runner, told = run(drive, ag.sequential("s", [before, ag.loop("l", [writer], max_iterations=2)]))
    assert history_of(runner)[:2] == ["*", "Before."]
    kept = runner.graph.get_state(CONFIG).values["messages"]
    assert {e.id: e.text for e in standing(told)} == {m.id: m.text for m in kept if m.id != "user"}


def test_a_client_may_remove_all_by_input_and_by_an_edit_of_the_state(drive: Drive) -> None:
    count = ag.function_agent("f", lambda ctx: str(len(ctx.messages)))
    compiled = ag.compile_agent(count, checkpointer=InMemorySaver())
    compiled.invoke({"messages": ["One."]}, CONFIG)
    for removal in (ALL, {"type": "remove", "id": REMOVE_ALL_MESSAGES, "content": ""}):
        left = compiled.invoke({"messages": [removal, "Two."]}, CONFIG)["messages"]
        assert [each.text for each in left] == ["Two.", "1"]
        assert all(each.id for each in left)
    edit = [HumanMessage("gone"), ALL, HumanMessage("Three.")]
    compiled.update_state(CONFIG, {"messages": edit})
    assert [each.text for each in compiled.get_state(CONFIG).values["messages"]] == ["Three."]
    runner = ag.Runner(count)
    told = [e for given in ("One.", [ALL, "Two."]) for e in drive.run(runner, given, thread_id="t")]
    assert [each.text for each in told] == ["1", "1"]
    assert list(runner.events("t")) == told


KILLED = """
import json, os, signal, sys
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
import agentgraph as ag

ASKED = [{"name": "look", "args": {}, "id": "1", "type": "tool_call"}]
STEPS = [
    lambda seen: [AIMessage("one", id="one"), AIMessage("gone", id="gone")],
    lambda seen: [
        AIMessage("", id="call", tool_calls=ASKED),
        ToolMessage("two", id="2", tool_call_id="1"),
    ],
    lambda seen: [AIMessage("ONE", id="one"), HumanMessage("*", id="user")],
    lambda seen: [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("Short."), seen[2]],
    lambda seen: [AIMessage("three", id="three")],
]
builder = StateGraph(MessagesState)
for i, step in enumerate(STEPS):
    builder.add_node(f"n{i}", lambda state, step=step: {"messages": step(state["messages"])})
    builder.add_edge(f"n{i - 1}" if i else START, f"n{i}")
tree = ag.sequential("s", [ag.graph_agent("g", builder.compile())])


def child(path, puts, method, *args, **options):
    left, by_task = [puts], set()

    def dying(put):
        def putting(*given):
            left[0] -= 1
            is_of_task = put.__name__ == "put_writes" and given[1][0][0] == "__return__"
            if LATE and is_of_task and given[2] in by_task:
                return None  # LangGraph's own save of the task comes too late
            by_task.update(given[2:3] if is_of_task else ())
            done = put(*given)
            if -500 < left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return putting

    with ag.sqlite_saver(path) as saver:
        saver.put, saver.put_writes = dying(saver.put), dying(saver.put_writes)
        list(getattr(ag.Runner(tree, checkpointer=saver), method)(*args, **options))


def forked(*args, **options):
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    child(*args, **options)
    os._exit(0)


LATE = sys.argv[2] == "late"
ended = puts = 0
while not ended:
    puts += 1
    path = f"{sys.argv[1]}/{puts}.db"
    user = HumanMessage("Go.", id="user")
    ended = forked(path, puts, "run", user, thread_id="t") == 0
    with ag.sqlite_saver(path) as saver:
        is_known = saver.get_tuple({"configurable": {"thread_id": "t"}}) is not None
    if not is_known:  # its first checkpoint is saved together with its first writes
        assert puts < 6
        continue
    resumed = ended or forked(path, -500, "resume", "t") == 0
    with ag.sqlite_saver(path) as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        kept = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        told = [[event.id, event.text] for event in runner.events("t")]
        print(json.dumps([told, [[each.id, each.text] for each in kept]]), flush=True)
"""


@pytest.mark.parametrize("how", ["in time", "late"])
def test_a_process_that_is_killed_at_any_save_leaves_the_same_messages(
    program: Commands, tmp_path: Path, how: str
) -> None:
    """The result of a task is saved before the graph continues, however late LangGraph saves it."""
    (tmp_path / "killed.py").write_text(KILLED)
    ran = program(str(tmp_path / "killed.py"), str(tmp_path), how)
    assert ran.code == 0, ran.err
    outcomes = [json.loads(line) for line in ran.lines]
    assert len(outcomes) > 10
    said = [["one", "ONE"], ["gone", "gone"], ["call", ""], ["2", "two"], ["three", "three"]]
    for told, kept in outcomes:
        assert kept == [["user", "*"], *said]
        assert sorted(told) == sorted(said)
