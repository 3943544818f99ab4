"""Values that several wrote side by side: conflicts, what settles them, and what never conflicts."""

import operator
from pathlib import Path
from typing import Annotated, Any

import pytest
from commands import Commands
from helpers import Drive, scripted
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId
from langgraph.types import Command
from typing_extensions import TypedDict
from value_runs import Thread, runs_of, saw, writes

import agentgraph as ag
from agentgraph.testing import call, calls


class Notes(TypedDict):
    notes: Annotated[list, operator.add]


def merge_files(left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
    left.update(right)  # in place, as some do
    return left


class Files(TypedDict):
    files: Annotated[dict, merge_files]


@pytest.fixture(params=["memory", "disk"])
def thread(request: pytest.FixtureRequest, drive: Drive, tmp_path: Path) -> Thread:
    return Thread(drive, tmp_path / "x.db" if request.param == "disk" else None)


def two(**options: Any) -> tuple[ag.Agent, ag.Agent, ag.Agent]:
    """Return two branches that append to one list, and the sequence that they are in."""
    a, b = writes("a", {"notes": ["from a"]}), writes("b", {"notes": ["from b"]})
    after = writes("after", {"done": True})
    tree = ag.sequential("s", [ag.parallel("p", [a, b], **options), after])
    return a, b, tree


def test_branches_that_write_one_undeclared_name_conflict_and_the_error_names_both(
    thread: Thread,
) -> None:
    _, _, tree = two()
    told = thread.run(tree)
    error = thread.error
    assert isinstance(error, ag.ValueConflictError)
    assert (error.where, error.name) == ("s/p", "notes")
    assert error.writers == ("s/p/a", "s/p/b")
    assert error.values == ("['from a']", "['from b']")
    assert str(error) == (
        "s/p: s/p/a wrote ['from a'] and s/p/b wrote ['from b'] as the value 'notes' while they ran "
        "side by side; declare a reducer for it and pass values=Values, as in class "
        "Values(TypedDict): notes: Annotated[list, operator.add]; or settle it with "
        "resume(thread_id, values={'notes': ...})"
    )
    assert [(event.agent_name, str(event.run_path)) for event in told if event.kind == "error"] == [
        ("p", "s/p")
    ]
    again = [event for event in thread.events(tree) if event.kind == "error"]
    assert [(event.agent_name, "ValueConflictError" in (event.error or "")) for event in again] == [
        ("p", True)
    ]


def test_a_conflict_stays_until_it_is_settled_and_nothing_runs_again(thread: Thread) -> None:
    a, b, tree = two()
    thread.run(tree)
    thread.resume(tree)
    assert isinstance(thread.error, ag.ValueConflictError)
    thread.resume(tree, values={"other": 1})
    assert isinstance(thread.error, ag.ValueConflictError)
    thread.resume(tree, values={"notes": ["settled"]})
    assert thread.error is None
    assert thread.values(tree) == {"notes": ["settled"], "other": 1, "done": True}
    assert (runs_of(a), runs_of(b)) == (1, 1)


def test_a_conflict_ends_once_the_name_is_declared_and_nothing_runs_again(thread: Thread) -> None:
    a, b, tree = two()
    thread.run(tree)
    assert isinstance(thread.error, ag.ValueConflictError)
    thread.resume(tree, Notes)
    assert thread.error is None
    assert thread.values(tree, Notes)["notes"] == ["from a", "from b"]
    assert (runs_of(a), runs_of(b)) == (1, 1)


def test_several_resumes_settle_several_names_one_after_the_other(thread: Thread) -> None:
    a, b = writes("a", {"x": 1, "y": 1}), writes("b", {"x": 2, "y": 2})
    tree = ag.parallel("p", [a, b])
    thread.run(tree)
    assert thread.error.names == ("x", "y")
    thread.resume(tree, values={"x": 7})
    assert thread.error.names == ("y",)
    thread.resume(tree, values={"y": 8})
    assert thread.error is None
    assert thread.values(tree) == {"x": 7, "y": 8}


def test_what_settled_one_join_does_not_settle_the_next(thread: Thread) -> None:
    first = ag.parallel("p", [writes("a", {"x": 1}), writes("b", {"x": 2})])
    second = ag.parallel("q", [writes("c", {"x": 3}), writes("d", {"x": 4})])
    tree = ag.sequential("s", [first, second])
    thread.run(tree)
    thread.resume(tree, values={"x": 7})
    assert isinstance(thread.error, ag.ValueConflictError)
    assert thread.error.where == "s/q"


def test_equal_values_do_not_conflict(thread: Thread) -> None:
    tree = ag.parallel("p", [writes("a", {"x": {"n": [1]}}), writes("b", {"x": {"n": [1]}})])
    thread.run(tree)
    assert (thread.error, thread.values(tree)) == (None, {"x": {"n": [1]}})


class Odd:
    """A value whose comparison fails."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(("one", "other", "differ"), [(1, 1, False), (1, 2, True)])
def test_values_that_cannot_be_compared_conflict_where_they_differ(
    one: int, other: int, differ: bool
) -> None:
    tree = ag.parallel("p", [writes("a", {"x": Odd(one)}), writes("b", {"x": Odd(other)})])
    graph = ag.compile_agent(tree)
    if differ:
        with pytest.raises(ag.ValueConflictError):
            graph.invoke({"messages": ["Go."]})
    else:
        assert graph.invoke({"messages": ["Go."]})["values"]["x"].n == 1


def test_a_conflict_of_nested_branches_is_settled_inside_and_outside(thread: Thread) -> None:
    inner = ag.parallel("q", [writes("a", {"x": 1}), writes("b", {"x": 2})])
    behind = writes("behind", {"y": 1})
    other = writes("c", {"x": 3})
    tree = ag.parallel("p", [ag.sequential("s", [inner, behind]), other])
    thread.run(tree)
    assert thread.error.writers == ("p/s/q/a", "p/s/q/b")
    thread.resume(tree, values={"x": 7})
    assert thread.error is None
    assert thread.values(tree) == {"x": 7, "y": 1}
    assert saw(behind) == [{"x": 7}]
    assert runs_of(other) == 1


def test_nested_branches_hand_on_who_wrote(thread: Thread) -> None:
    inner = ag.parallel("q", [writes("a", {"x": 1}), writes("b", {"y": 2})])
    tree = ag.parallel("p", [inner, writes("c", {"x": 3})])
    thread.run(tree)
    assert thread.error.writers == ("p/q/a", "p/c")


def test_branches_write_a_declared_list_at_any_depth_once_each(thread: Thread) -> None:
    def note(name: str) -> ag.Agent:
        return writes(name, {"notes": [name]}, {"notes": [name.upper()]})

    inner = ag.parallel("q", [note("a"), ag.loop("l", [note("b")], max_iterations=2)])
    seen = note("c")
    tree = ag.sequential(
        "s", [note("z"), ag.parallel("p", [ag.sequential("t", [inner, seen]), note("d")])]
    )
    thread.run(tree, Notes)
    assert thread.error is None
    notes = ["z", "Z", "a", "A", "b", "B", "b", "B"]
    assert saw(seen) == [{"notes": notes}]
    assert thread.values(tree, Notes)["notes"] == [*notes, "c", "C", "d", "D"]


def diamond(left: dict[str, Any], right: dict[str, Any]) -> tuple[dict[str, ag.Agent], ag.Agent]:
    steps = {
        "a": writes("a", {"x": 0, "notes": ["a"]}),
        "b": writes("b", left),
        "c": writes("c", right),
        "d": writes("d", {"z": 4, "notes": ["d"]}),
    }
    after = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    flow = ag.workflow("w", [ag.step(steps[name], depends_on=after[name]) for name in "dcba"])
    return steps, flow


def test_steps_that_depend_on_each_other_write_over_and_the_others_conflict(thread: Thread) -> None:
    _, tree = diamond({"x": 1}, {"y": 2})
    thread.run(tree, Notes)
    assert (thread.error, thread.values(tree, Notes)) == (
        None,
        {"x": 1, "y": 2, "z": 4, "notes": ["a", "d"]},
    )


def test_steps_of_which_neither_depends_on_the_other_conflict(thread: Thread) -> None:
    steps, tree = diamond({"y": 1}, {"y": 2})
    thread.run(tree, Notes)
    assert isinstance(thread.error, ag.ValueConflictError)
    assert sorted(thread.error.writers) == ["w/b", "w/c"]
    thread.resume(tree, Notes, values={"y": 3})
    assert thread.error is None
    assert thread.values(tree, Notes)["y"] == 3
    assert [runs_of(step) for step in steps.values()] == [1, 1, 1, 1]


def test_a_step_sees_what_the_steps_before_it_wrote_through_the_reducer(thread: Thread) -> None:
    steps, tree = diamond({"notes": ["b"]}, {"notes": ["c"]})
    thread.run(tree, Notes)
    assert saw(steps["d"])[0]["notes"] == ["a", "b", "c"]
    assert thread.values(tree, Notes)["notes"] == ["a", "b", "c", "d"]


def test_losers_write_nothing(thread: Thread) -> None:
    def fails(ctx: ag.Context) -> Any:
        yield ag.SetValues(x=2)
        raise ValueError("no")

    tree = ag.parallel("p", [ag.function_agent("a", fails), writes("b", {"x": 1})], on_error="first")
    thread.run(tree)
    assert (thread.error, thread.values(tree)) == (None, {"x": 1})


def test_calls_of_one_worker_with_an_output_key_conflict_unless_it_is_declared(thread: Thread) -> None:
    def boss() -> ag.Agent:
        worker = ag.function_agent("worker", lambda ctx: ctx.messages[-1].text, output_key="found")
        three = calls(*(call("worker", str(n), request=f"part {n}") for n in range(3)))
        return ag.chat_agent("boss", scripted(three, "Done."), tools=[ag.agent_tool(worker)])

    class Found(TypedDict):
        found: Annotated[str, lambda old, new: f"{old} {new}".strip()]

    thread.run(boss())
    assert isinstance(thread.error, ag.ValueConflictError)
    assert thread.error.where == "boss"
    assert thread.error.writers == ("boss/worker(0)", "boss/worker(1)")
    tree = ag.chat_agent("boss", scripted("Done."), tools=boss().tools)  # type: ignore[union-attr]
    thread.resume(tree, Found)
    assert thread.error is None
    assert thread.values(tree, Found) == {"found": "part 0 part 1 part 2"}


@pytest.mark.parametrize("by_command", [True, False])
def test_files_that_agents_as_tools_write_at_once_are_all_there(
    thread: Thread, by_command: bool
) -> None:
    def write_file(name: str, text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Write a file."""
        files = {"files": {name: text}}
        if not by_command:
            return ag.SetValues(**files)
        said = ToolMessage("Written.", tool_call_id=tool_call_id)
        return Command(update={"values": files, "messages": [said]})

    def worker(name: str) -> ag.Agent:
        model = scripted(calls(call("write_file", name=f"{name}.md", text=f"by {name}")), "Written.")
        return ag.chat_agent(name, model, tools=[write_file])

    names = ["a", "b", "c"]
    model = scripted(calls(*(call(name, name, request="Write.") for name in names)), "Done.")
    tree = ag.chat_agent("boss", model, tools=[ag.agent_tool(worker(name)) for name in names])
    thread.run(tree, Files)
    assert thread.error is None
    assert thread.values(tree, Files) == {"files": {f"{n}.md": f"by {n}" for n in names}}


def test_tools_of_one_message_conflict_and_the_error_names_the_calls(thread: Thread) -> None:
    ran: list[str] = []

    def choose(topic: str) -> ag.SetValues:
        """Choose a topic."""
        ran.append(topic)
        return ag.SetValues(topic=topic)

    def tree(*replies: Any) -> ag.Agent:
        return ag.chat_agent("boss", scripted(*replies), tools=[choose])

    both = calls(call("choose", "1", topic="bees"), call("choose", "2", topic="wasps"))
    thread.run(tree(both))
    assert thread.error.writers == ("boss", "boss")
    assert "boss (choose, call 0) wrote 'bees' and boss (choose, call 1) wrote 'wasps'" in str(
        thread.error
    )
    thread.resume(tree("Done."), values={"topic": "ants"})
    assert (thread.error, thread.values(tree())) == (None, {"topic": "ants"})
    assert sorted(ran) == ["bees", "wasps"]


PLAN = '["one"]'


def planner(name: str) -> ag.Agent:
    return ag.plan_execute(
        name,
        planner=ag.function_agent(f"{name}_plan", lambda ctx: PLAN),
        executor=ag.function_agent(f"{name}_do", lambda ctx: f"{name} done"),
        replanner=ag.function_agent(f"{name}_again", lambda ctx: f'{{"answer": "{name}"}}'),
    )


def test_what_the_package_keeps_itself_never_conflicts(thread: Thread) -> None:
    tree = ag.parallel("p", [planner("x"), planner("y"), planner("z")])
    thread.run(tree)
    assert thread.error is None
    assert thread.values(tree)["answer"] == "z"


def test_calls_of_one_plan_execute_do_not_conflict(thread: Thread) -> None:
    three = calls(*(call("x", str(n), request=f"part {n}") for n in range(3)))
    tree = ag.chat_agent("boss", scripted(three, "Done."), tools=[ag.agent_tool(planner("x"))])
    thread.run(tree)
    assert thread.error is None


def test_calls_of_an_agent_that_sums_up_do_not_conflict(thread: Thread) -> None:
    summer = scripted(*[f"summary {n}" for n in range(3)])
    policy = ag.summarized(summer, max_tokens=1, token_counter=len)
    worker = ag.chat_agent("worker", scripted("1", "2", "3"), history=policy)
    three = calls(*(call("worker", str(n), request=f"part {n}") for n in range(3)))
    tools = [ag.agent_tool(worker, history="shared")]
    tree = ag.chat_agent("boss", scripted(three, "Done."), tools=tools)
    thread.run(tree)
    assert thread.error is None
    assert len(summer.inputs) == 3
    assert thread.values(tree) == {}


SCRIPT = """
from value_runs import writes
import agentgraph as ag
tree = ag.parallel("p", [writes("a", {{"x": 1, "y": 1}}), writes("b", {{"x": 2, "y": 2}})])
with ag.sqlite_saver({path!r}) as saver:
    runner = ag.Runner(tree, checkpointer=saver)
    try:
        list({call})
    except ag.ValueConflictError as error:
        print("conflict", *error.names, *(b.fn.runs for b in tree.sub_agents))
    else:
        values = runner.graph.get_state({{"configurable": {{"thread_id": "t"}}}}).values["values"]
        print(values, *(b.fn.runs for b in tree.sub_agents))
"""


def test_a_conflict_is_settled_from_other_processes(program: Commands, tmp_path: Path) -> None:
    told = []
    script = tmp_path / "conflict.py"
    for begin in (
        "runner.run('Go.', thread_id='t')",
        "runner.resume('t', values={'x': 7})",
        "runner.resume('t', values={'y': 8})",
    ):
        script.write_text(SCRIPT.format(path=str(tmp_path / "x.db"), call=begin))
        ended = program(str(script))
        assert ended.code == 0, ended.err
        told += ended.lines
    assert told == ["conflict x y 1 1", "conflict y 0 0", "{'x': 7, 'y': 8} 0 0"]
