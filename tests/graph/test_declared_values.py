"""Values that are declared with a reducer: how they are read, merged, edited, and refused."""

import operator
from collections import deque
from pathlib import Path
from typing import Annotated, Any
from typing import TypedDict as TypingTypedDict

import pytest
from helpers import Drive, scripted
from langchain_core.messages import AIMessage
from langgraph.channels import EphemeralValue, Topic, UntrackedValue
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Overwrite
from pydantic import BaseModel
from typing_extensions import TypedDict
from value_runs import CONFIG, Thread, saw, writes

import agentgraph as ag
from agentgraph.testing import call, calls


class Notes(TypedDict, total=False):
    notes: Annotated[list, operator.add]
    topic: str


class PlainNotes(TypingTypedDict):
    notes: Annotated[list, operator.add]


class NotesModel(BaseModel):
    notes: Annotated[list[str], operator.add] = []


@pytest.fixture(params=["memory", "disk"])
def thread(request: pytest.FixtureRequest, drive: Drive, tmp_path: Path) -> Thread:
    return Thread(drive, tmp_path / "x.db" if request.param == "disk" else None)


@pytest.mark.parametrize("schema", [Notes, PlainNotes, NotesModel])
def test_a_reducer_is_declared_as_langgraph_users_declare_state(thread: Thread, schema: Any) -> None:
    tree = ag.sequential("s", [writes("a", {"notes": ["a"]}, {"notes": ["b"]}), writes("c", {"x": 1})])
    thread.run(tree, schema, values={"notes": ["given"]})
    assert thread.values(tree, schema) == {"notes": ["given", "a", "b"], "x": 1}
    thread.run(tree, schema)
    assert thread.values(tree, schema)["notes"] == ["given", "a", "b", "a", "b"]


class Wrong(TypedDict):
    notes: Annotated[list, operator.add]
    a: Annotated[int, UntrackedValue]
    b: Annotated[int, EphemeralValue]
    c: Annotated[int, Topic(int)]
    d: RemainingSteps


@pytest.mark.parametrize("compiled", [ag.compile_agent, ag.Runner])
def test_fields_of_other_kinds_are_faults(compiled: Any) -> None:
    with pytest.raises(ag.InvalidAgentError) as refused:
        compiled(writes("a"), values=Wrong)
    assert refused.value.faults == tuple(
        f"values: the field {name!r} is declared with {kind}, which values cannot have; use "
        "Annotated[type, reducer], or the type alone"
        for name, kind in [
            ("a", "UntrackedValue"),
            ("b", "EphemeralValue"),
            ("c", "Topic"),
            ("d", "RemainingStepsManager"),
        ]
    )


@pytest.mark.parametrize("schema", [int, dict, 5, "Notes", {"notes": list}])
def test_what_declares_no_fields_is_a_fault(schema: Any) -> None:
    with pytest.raises(ag.InvalidAgentError, match="declares no fields; pass a TypedDict"):
        ag.compile_agent(writes("a"), values=schema)


def test_a_declaration_is_no_part_of_the_tree() -> None:
    def position(schema: Any) -> Any:
        graph = ag.compile_agent(writes("a"), values=schema)
        part = next(graph.stream({"messages": ["Go."]}, stream_mode="updates"))
        return part["a"]["position"]["tree"]

    assert position(None) == position(Notes)


def in_place(left: list[Any], right: list[Any]) -> list[Any]:
    left.extend(right)
    return left


def into_the_right(left: list[Any], right: list[Any]) -> list[Any]:
    right[:0] = left
    return right


@pytest.mark.parametrize("reducer", [in_place, into_the_right])
def test_a_reducer_that_changes_what_it_is_given_does_no_harm(thread: Thread, reducer: Any) -> None:
    class Changed(TypedDict):
        notes: Annotated[list, reducer]

    a, b, c = (writes(name, {"notes": [name]}) for name in "abc")
    tree = ag.sequential("s", [ag.parallel("p", [ag.sequential("t", [a, b]), c]), writes("d")])
    thread.run(tree, Changed)
    assert thread.values(tree, Changed) == {"notes": ["a", "b", "c"]}
    assert saw(b) == [{"notes": ["a"]}]
    thread.run(tree, Changed)
    assert thread.values(tree, Changed) == {"notes": ["a", "b", "c"] * 2}
    fresh = Thread(thread.drive)
    fresh.run(tree, Changed)
    assert fresh.values(tree, Changed) == {"notes": ["a", "b", "c"]}


@pytest.mark.parametrize("over", [Overwrite(["new"]), {"__overwrite__": ["new"]}])
def test_an_overwrite_replaces_what_is_there_and_before_it(thread: Thread, over: Any) -> None:
    branch = ag.sequential("t", [writes("a", {"notes": ["a"]}), writes("b", {"notes": over})])
    behind = writes("c", {"notes": ["c"]})
    tree = ag.parallel("p", [ag.sequential("u", [branch, behind]), writes("d", {"notes": ["d"]})])
    thread.run(tree, Notes, values={"notes": ["given"]})
    assert thread.error is None
    assert saw(behind) == [{"notes": ["new"]}]
    assert thread.values(tree, Notes) == {"notes": ["new", "c", "d"]}


def test_a_reducer_that_fails_is_a_named_error_and_the_step_is_tried_again(thread: Thread) -> None:
    given = [["b"], 5]
    a = writes("a", {"notes": ["a"]})
    b = ag.function_agent("b", lambda ctx: ag.SetValues(notes=given.pop()))
    tree = ag.sequential("s", [a, b, writes("c", {"notes": ["c"]})])
    told = thread.run(tree, Notes)
    error = thread.error
    assert isinstance(error, ag.ReducerError)
    assert (error.where, error.name, error.value) == ("s/b", "notes", "5")
    assert str(error).startswith("s/b: the reducer of the value 'notes' failed on 5: TypeError(")
    assert [(event.agent_name, event.kind) for event in told] == [("b", "error")]
    thread.resume(tree, Notes)
    assert (thread.error, thread.values(tree, Notes)) == (None, {"notes": ["a", "b", "c"]})


def test_a_reducer_that_fails_at_a_join_is_a_named_error_and_no_branch_runs_again(
    thread: Thread,
) -> None:
    def strict(left: int, right: int) -> int:
        if left + right > 2:
            raise ValueError("too much")
        return left + right

    class Strict(TypedDict):
        n: Annotated[int, strict]

    class Sum(TypedDict):
        n: Annotated[int, operator.add]

    a, b = writes("a", {"n": 2}), writes("b", {"n": 1})
    tree = ag.sequential("s", [ag.parallel("p", [a, b])])
    thread.run(tree, Strict)
    assert isinstance(thread.error, ag.ReducerError)
    assert thread.error.where == "s/p"
    thread.resume(tree, Sum)
    assert (thread.error, thread.values(tree, Sum)) == (None, {"n": 3})
    assert (len(saw(a)), len(saw(b))) == (1, 1)


def test_input_on_which_a_reducer_fails_is_an_error_and_nothing_is_written(thread: Thread) -> None:
    tree = writes("a", {"notes": ["a"]})
    thread.run(tree, Notes, values={"notes": 5})
    assert isinstance(thread.error, ag.ReducerError)
    thread.run(tree, Notes)
    assert thread.values(tree, Notes) == {"notes": ["a"]}


def test_an_output_key_goes_through_its_reducer_and_branches_may_share_it(thread: Thread) -> None:
    class Drafts(TypedDict):
        draft: Annotated[str, lambda old, new: f"{old}{new};"]

    branches = [
        ag.function_agent("a", lambda ctx: "one", output_key="draft"),
        ag.chat_agent("b", scripted("two"), output_key="draft"),
    ]
    tree = ag.sequential("s", [ag.parallel("p", branches), ag.human("h", "?", output_key="draft")])
    with pytest.raises(ag.InvalidAgentError, match="write the same output_key 'draft'"):
        ag.compile_agent(tree)
    thread.run(tree, Drafts)
    thread.resume(tree, Drafts, "three")
    assert (thread.error, thread.values(tree, Drafts)) == (None, {"draft": "one;two;three;"})


def test_a_tree_that_was_compiled_with_declared_values_is_translated() -> None:
    class Drafts(TypedDict):
        draft: Annotated[str, operator.add]

    tree = ag.parallel(
        "p", [ag.function_agent(n, lambda ctx: ctx.name, output_key="draft") for n in "ab"]
    )
    graph = ag.compile_agent(tree, values=Drafts)
    parts = graph.stream(
        {"messages": ["Go."]}, stream_mode=ag.STREAM_MODES, subgraphs=True, version="v2"
    )
    assert sorted(event.text for event in ag.translate(tree, parts)) == ["a", "b"]


@pytest.mark.parametrize("by", ["set_values", "command"])
def test_calls_in_turn_see_what_those_before_them_wrote(thread: Thread, by: str) -> None:
    seen: list[Any] = []

    def note(text: str, values: Annotated[dict, InjectedState("values")]) -> Any:
        """Note a text."""
        seen.append(dict(values))
        written = {"notes": [text], "last": text}
        return ag.SetValues(**written) if by == "set_values" else Command(update={"values": written})

    asked = calls(*(call("note", text, text=text) for text in ("one", "two", "three")))
    tree = ag.chat_agent("boss", scripted(asked, "Done."), tools=[note], parallel_tools=False)
    thread.run(tree, Notes)
    assert thread.error is None
    assert seen == [
        {},
        {"notes": ["one"], "last": "one"},
        {"notes": ["one", "two"], "last": "two"},
    ]
    assert thread.values(tree, Notes) == {"notes": ["one", "two", "three"], "last": "three"}


def test_calls_in_turn_see_those_before_them_after_a_resume_too(thread: Thread) -> None:
    helper = ag.chat_agent("helper", scripted("Looked.", "Looked."), instruction="Notes: {last}.")
    asker = ag.sequential("asker", [ag.human("person", "{last}?", output_key="last"), helper])
    runs: list[str] = []

    def note(text: str) -> ag.SetValues:
        """Note a text."""
        runs.append(text)
        return ag.SetValues(notes=[text], last=text)

    last = writes("last", {"notes": ["end"]})
    asked = calls(
        call("note", "1", text="one"),
        call("asker", "2", request="Ask."),
        call("last", "3", request="."),
    )
    tools = [note, ag.agent_tool(asker), ag.agent_tool(last)]
    tree = ag.chat_agent("boss", scripted(asked, "Done."), tools=tools, parallel_tools=False)
    thread.run(tree, Notes)
    assert [each.value for each in thread.pending(tree, Notes)] == ["one?"]
    thread.resume(tree, Notes, "answer")
    assert thread.error is None
    assert runs == ["one"]
    assert saw(last) == [{"notes": ["one"], "last": "answer"}]
    assert helper.model.inputs[0][0].text == "Notes: answer."  # type: ignore[union-attr]
    assert thread.values(tree, Notes) == {"notes": ["one", "end"], "last": "answer"}


def test_the_root_is_edited_through_the_reducers() -> None:
    tree = ag.sequential("s", [writes("a", {"notes": ["a"]}), ag.human("h", "?"), writes("c")])
    runner = ag.Runner(tree, values=Notes)
    list(runner.run("Go.", thread_id="t", values={"topic": "bees"}))
    runner.graph.update_state(CONFIG, {"values": {"notes": ["edited"], "topic": "wasps"}})
    values = runner.graph.get_state(CONFIG).values["values"]
    assert values == {"notes": ["a", "edited"], "topic": "wasps"}


def test_a_lane_is_edited_with_a_plain_dict() -> None:
    inner = writes("c", {"notes": ["c"]})
    lane = ag.sequential("s", [writes("a", {"notes": ["a"], "x": 1}), ag.human("h", "?"), inner])
    runner = ag.Runner(ag.parallel("p", [lane, writes("b", {"notes": ["b"]})]), values=Notes)
    list(runner.run("Go.", thread_id="t"))
    lanes = (each.config["configurable"]["checkpoint_ns"] for each in runner.saver.list(CONFIG))
    namespace = next(each for each in lanes if "|s:" in each)
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}
    runner.graph.update_state(config, {"values": {"notes": ["edited"], "x": 2}})
    list(runner.resume("t"))
    list(runner.resume("t", "yes"))
    assert saw(inner) == [{"notes": ["a", "edited"], "x": 2}]


def test_updates_of_the_root_stay_plain_dicts_where_nothing_is_lost_by_it() -> None:
    a = writes("a", {"notes": ["a"], "x": 1}, {"x": 2})
    b = writes("b", {"notes": ["b"]}, {"notes": ["c"], "x": 3})
    graph = ag.compile_agent(ag.sequential("s", [a, b]), values=Notes)
    parts = list(graph.stream({"messages": ["Go."]}, stream_mode="updates"))
    assert [part[name]["values"] for part in parts for name in part if name in "ab"] == [
        {"notes": ["a"], "x": 2},
        [{"notes": ["b"]}, {"notes": ["c"], "x": 3}],
    ]


def test_what_a_lane_keeps_does_not_grow_with_what_it_writes_over() -> None:
    kept: list[int] = []

    def look(ctx: ag.Context) -> ag.SetValues:
        return ag.SetValues(n=ctx.iteration, m={"n": ctx.iteration})

    lane = ag.loop("l", [ag.function_agent("a", look)], max_iterations=20)
    graph = ag.compile_agent(ag.parallel("p", [lane]))
    for _, part in graph.stream({"messages": ["Go."]}, stream_mode="values", subgraphs=True):
        kept.append(len(part.get("values", ())))
    assert max(kept) == 2  # of the root, which has two names


def test_values_of_other_collections_are_merged() -> None:
    class Seen(TypedDict):
        names: Annotated[set, operator.or_]
        last: Annotated[deque, operator.add]

    a, b = (writes(n, {"names": {n}, "last": deque([n])}) for n in "ab")
    out = ag.compile_agent(ag.parallel("p", [a, b]), values=Seen).invoke({"messages": [AIMessage("x")]})
    assert out["values"] == {"names": {"a", "b"}, "last": deque("ab")}
