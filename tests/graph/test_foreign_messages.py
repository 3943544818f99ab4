"""Messages that graphs, functions, tools and clients replace, remove, redact or sum up."""

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
from langgraph.types import Command, RetryPolicy, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

CONFIG: Any = {"configurable": {"thread_id": "t"}}
ALL = RemoveMessage(id=REMOVE_ALL_MESSAGES)


def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}, from ann@example.org"


def history_of(runner: ag.Runner) -> list[str]:
    return [each.text for each in runner.graph.get_state(CONFIG).values["messages"]]


def by_hand(*nodes: Callable[[Any], Any]) -> Any:
    builder = StateGraph(MessagesState)
    for i, node in enumerate(nodes):
        builder.add_node(f"n{i}", node)
        builder.add_edge(f"n{i - 1}" if i else START, f"n{i}")
    return builder.compile()


def desk() -> ag.Agent:
    rounds = [calls(call("look", topic=topic)) for topic in ("bees", "wasps", "ants")]
    redaction = PIIMiddleware(
        "email", apply_to_input=True, apply_to_output=True, apply_to_tool_results=True
    )
    summary = SummarizationMiddleware(
        scripted("Short.", "Shorter."), trigger=("messages", 4), keep=("messages", 2)
    )
    model = scripted(*rounds, "Ask bob@example.org.")
    graph = create_agent(model, [look], middleware=[redaction, summary])
    return ag.sequential("s", [ag.graph_agent("desk", graph, output_key="answer")])


DESK = [
    "",
    *["bees, from [REDACTED_EMAIL]", "", "wasps, from [REDACTED_EMAIL]", ""],
    *["ants, from [REDACTED_EMAIL]", "Ask [REDACTED_EMAIL]."],
]


def test_what_an_agent_of_langchains_sums_up_and_redacts_is_told_once_as_it_is(drive: Drive) -> None:
    runner = ag.Runner(desk())
    told = list(drive.run(runner, "I am me@example.org.", thread_id="t"))
    assert [each.text for each in standing(told)] == DESK
    assert list(runner.events("t")) == standing(told)
    assert history_of(runner) == ["I am [REDACTED_EMAIL].", *DESK]
    values = runner.graph.get_state(CONFIG).values["values"]
    assert values == {"answer": "Ask [REDACTED_EMAIL]."}


def test_it_is_so_on_disk(drive: Drive, tmp_path: Path) -> None:
    disk = Disk(drive, tmp_path / "threads.db")
    told = disk.run(desk(), "I am me@example.org.")
    assert disk.events(desk()) == standing(told)
    assert [each.text for each in standing(told)] == DESK


def test_a_word_that_a_graph_removes_by_its_id_is_void_and_what_ran_is_not(drive: Drive) -> None:
    def says(state: Any) -> Any:
        asked = calls(call("look", topic="bees"))
        result = ToolMessage("seen", tool_call_id=asked.tool_calls[0]["id"])
        return {"messages": [AIMessage("Hm."), asked, result]}

    def removes(state: Any) -> Any:
        return {"messages": [RemoveMessage(id=each.id) for each in state["messages"]]}

    runner = ag.Runner(ag.graph_agent("g", by_hand(says, removes)))
    told = list(drive.run(runner, "Go.", thread_id="t"))
    assert [each.text or each.kind for each in told] == ["Hm.", "message", "seen", "discarded"]
    assert list(runner.events("t")) == standing(told) == told[1:3]
    assert history_of(runner) == ["Go.", "", "seen"]


def test_all_that_a_graph_removes_at_once_stays_said(drive: Drive) -> None:
    def says(state: Any) -> Any:
        return {"messages": [AIMessage("Hm.")]}

    def forgets(state: Any) -> Any:
        return {"messages": [ALL, HumanMessage("Somebody said Hm.")]}

    tree = ag.sequential(
        "s",
        [
            ag.graph_agent("g", by_hand(says, forgets), output_key="o"),
            ag.function_agent("z", lambda c: "z"),
        ],
    )
    runner = ag.Runner(tree)
    told = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(told) == ["s/g: Hm.", "s/g/z: z"]
    assert list(runner.events("t")) == told
    assert history_of(runner) == ["Go.", "Hm.", "z"]


def test_what_another_agent_said_is_not_replaced_by_a_graph(drive: Drive) -> None:
    def loud(state: Any) -> Any:
        changed = [m.model_copy(update={"content": m.text.upper()}) for m in state["messages"]]
        return {"messages": changed}

    tree = ag.sequential(
        "s", [ag.function_agent("a", lambda c: "Before."), ag.graph_agent("g", by_hand(loud))]
    )
    runner = ag.Runner(tree)
    told = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(told) == ["s/a: Before."]
    assert list(runner.events("t")) == told
    assert history_of(runner) == ["GO.", "Before."]


@pytest.mark.parametrize("failures", [1, 2, 3, 4])
def test_tries_that_fail_are_void_in_a_run_and_over_a_resume(drive: Drive, failures: int) -> None:
    tries: list[int] = []

    def one(state: Any) -> Any:
        return {"messages": [AIMessage(f"one {len(tries)}")]}

    def two(state: Any) -> Any:
        tries.append(1)
        if len(tries) <= failures:
            raise ConnectionError("down")
        return {"messages": [AIMessage("two")]}

    twice = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False)
    runner = ag.Runner(ag.sequential("s", [ag.graph_agent("g", by_hand(one, two), retry=twice)]))
    told: list[ag.AgentEvent] = []
    for turn in range(failures // 2 + 1):
        events = drive.resume(runner, "t") if turn else drive.run(runner, "Go.", thread_id="t")
        if turn < failures // 2:
            with pytest.raises(ConnectionError):
                told.extend(events)
            assert list(runner.events("t")) == standing(told)
        else:
            told.extend(events)
    assert list(runner.events("t")) == standing(told)
    left = [each for each in standing(told) if each.kind != "error"]
    assert [each.text for each in left] == history_of(runner)[1:]
    assert [each.text[:3] for each in left] == ["one", "two"]


def test_a_function_that_replaces_or_removes_what_was_said_voids_it(drive: Drive) -> None:
    def write(ctx: ag.Context) -> Any:
        yield AIMessage("draft", id="draft")
        yield AIMessage("note", id="note")
        yield AIMessage("first", id="mine")
        yield AIMessage("second", id="mine")

    def edit(ctx: ag.Context) -> Any:
        yield [each for each in ctx.messages if each.id == "mine"]
        yield AIMessage("better", id="draft")
        yield RemoveMessage(id="note")
        yield [ALL, HumanMessage("*", id="user")]

    tree = ag.sequential("s", [ag.function_agent("w", write), ag.function_agent("e", edit)])
    runner = ag.Runner(tree)
    told = list(drive.run(runner, HumanMessage("secret", id="user"), thread_id="t"))
    assert sorted(each.text for each in standing(told)) == ["better", "second"]
    assert list(runner.events("t")) == standing(told)
    assert history_of(runner) == ["*", "better", "second"]


@pytest.mark.parametrize("several", [1, 2])
def test_a_tool_that_removes_all_or_replaces_leaves_what_ran_and_what_others_said(
    drive: Drive, several: int
) -> None:
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
    before = ag.function_agent("a", lambda c: AIMessage("Before.", id="before"))
    tree = ag.sequential("s", [before, ag.loop("l", [writer], max_iterations=2)])
    runner = ag.Runner(tree)
    told = list(drive.run(runner, HumanMessage("secret", id="user"), thread_id="t"))
    assert history_of(runner)[:2] == ["*", "Before."]
    again = list(runner.events("t"))
    assert sorted(again, key=lambda e: e.id) == sorted(standing(told), key=lambda e: e.id)
    kept = runner.graph.get_state(CONFIG).values["messages"]
    assert {e.id: e.text for e in standing(told)} == {m.id: m.text for m in kept if m.id != "user"}


def test_a_client_removes_all_by_input_and_by_an_edit_of_the_state(drive: Drive) -> None:
    graph = ag.compile_agent(ag.function_agent("f", lambda c: "ok"), checkpointer=InMemorySaver())
    graph.invoke({"messages": ["One."]}, CONFIG)
    as_json = {"type": "remove", "id": REMOVE_ALL_MESSAGES, "content": ""}
    for removal in (ALL, as_json):
        left = graph.invoke({"messages": [removal, "Two."]}, CONFIG)["messages"]
        assert [each.text for each in left] == ["Two.", "ok"]
        assert all(each.id for each in left)
    graph.update_state(CONFIG, {"messages": [HumanMessage("gone"), ALL, HumanMessage("Three.")]})
    assert [each.text for each in graph.get_state(CONFIG).values["messages"]] == ["Three."]
    runner = ag.Runner(ag.function_agent("f", lambda c: f"{len(c.messages)}"))
    told = [e for given in ("One.", [ALL, "Two."]) for e in drive.run(runner, given, thread_id="t")]
    assert [each.text for each in told] == ["1", "1"]
    assert list(runner.events("t")) == told


def test_a_turn_that_is_given_up_keeps_what_a_graph_said_as_it_was_last(drive: Drive) -> None:
    def says(state: Any) -> Any:
        return {"messages": [AIMessage("One", id="1"), AIMessage("Gone", id="2")]}

    def edits(state: Any) -> Any:
        redacted = HumanMessage("*", id="user")
        return {"messages": [AIMessage("ONE", id="1"), RemoveMessage(id="2"), redacted]}

    def asks(state: Any) -> Any:
        return {"messages": [AIMessage(interrupt("Well?"))]}

    runner = ag.Runner(ag.sequential("s", [ag.graph_agent("g", by_hand(says, edits, asks))]))
    told = list(drive.run(runner, HumanMessage("secret", id="user"), thread_id="t"))
    told += drive.run(runner, "Next.", thread_id="t", drop_pending=True)
    assert history_of(runner) == ["*", "ONE", "Next."]
    left = [each.text for each in standing(told) if each.message]
    assert [each.text for each in runner.events("t") if each.message] == left == ["ONE"]


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
                return None  # LangGraph's own save, beside the run, comes too late
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
    if not is_known:  # its first checkpoint is saved beside its first writes
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
def test_a_process_that_is_killed_wherever_it_saves_leaves_one_story(
    program: Commands, tmp_path: Path, how: str
) -> None:
    """What a task keeps is saved before the graph goes on, however late LangGraph saves it beside."""
    (tmp_path / "killed.py").write_text(KILLED)
    ran = program(str(tmp_path / "killed.py"), str(tmp_path), how)
    assert ran.code == 0, ran.err
    outcomes = [json.loads(line) for line in ran.lines]
    assert len(outcomes) > 10
    ever = {"one": "ONE", "gone": "gone", "call": "", "2": "two", "three": "three"}
    for told, kept in outcomes:
        assert kept[0] == ["user", "*"]
        assert kept[1:] == [*map(list, ever.items())]
        assert dict(told) == ever
        assert len(told) == len(ever)


def write(ctx: ag.Context) -> Any:
    if len(ctx.messages) == 1:
        yield AIMessage("draft", id="draft")
        yield AIMessage("note", id="note")


def edit(ctx: ag.Context) -> Any:
    yield AIMessage("better", id="draft")
    yield RemoveMessage(id="note")


def looks(name: str, seen: list[list[str]]) -> ag.Agent:
    def look(ctx: ag.Context) -> None:
        seen.append([each.text for each in ctx.messages])

    return ag.function_agent(name, look)


@pytest.mark.parametrize("where", ["loop", "branch", "loop in a branch", "branch in it", "step"])
def test_what_is_replaced_or_removed_is_so_for_all_that_comes_behind(drive: Drive, where: str) -> None:
    seen: list[list[str]] = []

    def until(ctx: ag.Context) -> bool:
        seen.append([each.text for each in ctx.messages])
        return True

    first, editor = ag.function_agent("w", write), ag.function_agent("e", edit)
    again = ag.loop("l", [editor], until=until, max_iterations=2)
    pair = ag.sequential("q", [editor, looks("in", seen)])
    dependent = ag.step(looks("in", seen), depends_on=["e"])
    inside: dict[str, ag.Agent] = {
        "loop": again,
        "branch": ag.parallel("p", [pair, says("other")]),
        "loop in a branch": ag.parallel("p", [again, says("other")]),
        "branch in it": ag.parallel("p", [ag.sequential("o", [ag.parallel("i", [pair])])]),
        "step": ag.workflow("flow", [ag.step(editor), dependent]),
    }
    runner = ag.Runner(ag.sequential("s", [first, inside[where], looks("z", seen)]))
    told = list(drive.run(runner, "Go.", thread_id="t"))
    assert seen[0][0] == "Go."
    assert seen[0][-1].removeprefix("[e] said: ") == "better"
    assert len(seen[0]) == 2
    assert history_of(runner)[:2] == ["Go.", "better"]
    assert "note" not in history_of(runner)
    assert list(runner.events("t")) == standing(told)


def test_a_turn_that_is_given_up_keeps_what_a_branch_replaced_and_removed(drive: Drive) -> None:
    edits = ag.sequential("q", [ag.function_agent("e", edit), ag.human("h", "Sure?")])
    branches = ag.parallel("p", [edits, says("other")])
    runner = ag.Runner(ag.sequential("s", [ag.function_agent("w", write), branches]))
    told = list(drive.run(runner, "Go.", thread_id="t"))
    told += drive.run(runner, "Next.", thread_id="t", drop_pending=True)
    assert history_of(runner)[:4] == ["Go.", "better", "other", "Next."]
    assert list(runner.events("t")) == standing(told)
