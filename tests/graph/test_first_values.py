"""A declared value before its first write: it begins as LangGraph's channel of its reducer does."""

import operator
from collections.abc import Mapping, Sequence, Set
from typing import Annotated, Any, Literal, NotRequired

import pytest
from helpers import THREAD, Drive, chat, gives, last, middleware, scripted, texts, writes
from langchain.tools import InjectedState, ToolRuntime
from langchain_core.messages import ToolMessage
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import Overwrite
from pydantic import BaseModel
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls


class Notes(TypedDict, total=False):
    notes: Annotated[list[str], operator.add]
    best: Annotated[int | None, lambda old, new: max(old, new)]
    topic: str


class Report(BaseModel):
    title: str


class Settings(BaseModel):
    size: int = 3


class Unsaved:
    """Has no form in which savers save it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unsaved)

    __hash__ = None  # type: ignore[assignment]


def merged(old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    return {**old, **new}


Case = tuple[Any, Any, Any]
WITH_ONE: dict[str, Case] = {
    "a list": (Annotated[list[str], operator.add], [], ["a"]),
    "a sequence": (Annotated[Sequence[str], operator.add], [], ["a"]),
    "a set": (Annotated[Set[str], operator.or_], set(), {"a"}),
    "a mapping": (Annotated[Mapping[str, int], merged], {}, {"a": 1}),
    "a number": (Annotated[int, operator.add], 0, 2),
    "a text": (Annotated[str, operator.add], "", "a"),
    "a model with defaults": (Annotated[Settings, last], Settings(), Settings(size=4)),
    "a class that is never saved": (Annotated[Unsaved, last], Unsaved(), None),
    "a dict that may be missing": (Annotated[NotRequired[dict[str, int]], merged], {}, {"a": 1}),
    "a channel": (Annotated[list[str], BinaryOperatorAggregate(list, operator.add)], [], ["a"]),
}
WITHOUT: dict[str, Case] = {
    "one of several types": (Annotated[int | None, operator.add], None, 2),
    "a model without defaults": (Annotated[Report, last], None, Report(title="Bees")),
    "a literal": (Annotated[Literal["a", "b"], last], None, "b"),
    "a type without a reducer": (str, None, "a"),
}


def seen_by_hand(schema: Any, written: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the states that the nodes of a graph see, one after the other, and the last one."""
    seen: list[Any] = []
    nodes = [
        (f"n{i}", lambda state, update=update: seen.append(dict(state)) or update)
        for i, update in enumerate(written)
    ]
    graph: Any = StateGraph(schema).add_sequence(nodes).set_entry_point("n0").compile()
    output = graph.invoke({"topic": "bees"})
    return [*seen, output]


def seen_by_agents(
    drive: Drive, schema: Any, written: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the values that agents see, one after the other, and the last ones."""
    seen: list[Any] = []

    def agent(name: str, update: dict[str, Any]) -> ag.Agent:
        return ag.function_agent(name, lambda ctx: seen.append(dict(ctx.values)) or _set(update))

    agents = [agent(f"n{i}", update) for i, update in enumerate(written)]
    runner = ag.Runner(ag.sequential("s", agents), values=schema)
    list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}))
    return [*seen, dict(runner.thread("t").values)]


def _set(update: dict[str, Any]) -> ag.SetValues | None:
    return ag.SetValues(**update) if update else None


def declaring(hint: Any) -> Any:
    """Return a state with a value of a type."""
    make: Any = TypedDict
    return make("State", {"value": hint, "topic": str, "other": int})


@pytest.mark.parametrize(("hint", "begins", "first"), WITH_ONE.values(), ids=WITH_ONE)
def test_a_value_begins_with_the_empty_value_of_its_type(
    drive: Drive, hint: Any, begins: Any, first: Any
) -> None:
    written = [{"other": 1}, {"value": first} if first else {}, {"value": first} if first else {}]
    found = seen_by_agents(drive, declaring(hint), written)
    assert found[0] == {"value": begins, "topic": "bees"}
    assert found[1] == {"value": begins, "topic": "bees", "other": 1}
    assert found == seen_by_hand(declaring(hint), written)


@pytest.mark.parametrize(("hint", "begins", "first"), WITHOUT.values(), ids=WITHOUT)
def test_a_type_without_an_empty_value_has_none_until_the_first_write(
    drive: Drive, hint: Any, begins: Any, first: Any
) -> None:
    written = [{"other": 1}, {"value": first}, {"value": first}]
    found = seen_by_agents(drive, declaring(hint), written)
    assert [each.get("value") for each in found[:3]] == [begins, begins, first]
    assert "value" not in found[1]
    assert found == seen_by_hand(declaring(hint), written)


@pytest.mark.parametrize("first", [Overwrite(2), {"__overwrite__": 2}], ids=["object", "data"])
def test_a_first_write_may_be_an_overwrite(drive: Drive, first: Any) -> None:
    """LangGraph would keep the `Overwrite` itself as the value."""
    seen = seen_by_agents(drive, Notes, [{"best": first}, {"best": 1}])
    assert [each.get("best") for each in seen] == [None, 2, 2]


def by_state(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Return the notes of the whole state."""
    return f"{state['notes']} {state.get('best')}"


def by_name(notes: Annotated[list[str], InjectedState("notes")]) -> str:
    """Return the notes alone."""
    return str(notes)


def by_runtime(runtime: ToolRuntime) -> str:
    """Return the notes of the runtime's state."""
    return str(runtime.state["notes"])


def by_context(ctx: ag.Context) -> str:
    """Return the notes of the context."""
    return str(ctx.values["notes"])


@pytest.mark.parametrize("parallel_tools", [True, False])
def test_tools_and_hooks_see_it_as_in_langchain(drive: Drive, parallel_tools: bool) -> None:
    hooked: list[Any] = []
    hooks = middleware(before_model=lambda state: hooked.append(state["notes"]))
    tools: Any = [by_state, by_name, by_runtime, by_context]
    asked = calls(*(call(each.__name__, str(i)) for i, each in enumerate(tools)))
    tree = chat("boss", asked, "Done.", tools=tools, middleware=[hooks], parallel_tools=parallel_tools)
    events = list(drive.run(ag.Runner(tree, values=Notes), "Go."))
    results = [each.text for each in events if isinstance(each.message, ToolMessage)]
    assert sorted(results) == ["[]", "[]", "[]", "[] None"]
    assert hooked == [[], []]


def test_instructions_and_inputs_of_steps_have_it(drive: Drive) -> None:
    model = scripted("Read.")
    reader = ag.chat_agent("reader", model, instruction="{notes}, {notes?}, {best?}.")
    step = ag.step(gives("other", "Done."), input="About {notes} and ${values.notes}.")
    runner = ag.Runner(ag.sequential("s", [reader, ag.workflow("w", [step])]), values=Notes)
    assert list(drive.run(runner, "Go."))[-1].text == "Done."
    assert texts(model.inputs[0])[0] == "system: [], [], ."
    runner = ag.Runner(chat("reader", instruction="{best}"), values=Notes)
    with pytest.raises(ag.MissingValueError, match="best"):
        list(drive.run(runner, "Go."))


def test_until_reads_it(drive: Drive) -> None:
    counted: list[int] = []

    def has_two(ctx: ag.Context) -> bool:
        counted.append(len(ctx.values["notes"]))
        return counted[-1] == 2

    body = gives("a", "Nothing.", ag.SetValues(notes=["one"]), ag.SetValues(notes=["two"]))
    tree = ag.loop("l", [body], max_iterations=9, until=has_two)
    list(drive.run(ag.Runner(tree, values=Notes), "Go."))
    assert counted == [0, 1, 2]


def test_branches_see_it_and_hand_back_what_they_write_alone(drive: Drive) -> None:
    lanes = [
        ag.sequential("t", [writes("a"), writes("b", {"notes": ["b"]}), writes("c")]),
        writes("d"),
    ]
    tree = ag.sequential("s", [ag.parallel("p", lanes), ag.parallel("q", [writes("e"), writes("f")])])
    runner = ag.Runner(tree, values=Notes)
    heard = drive.run(runner, "Go.", thread_id="t")
    found = {each.address: each.text for each in heard if each.text}
    assert found["s/p/t/a"] == found["s/p/t/b"] == found["s/p/d"] == "saw {'notes': []}"
    assert found["s/p/t/c"] == found["s/q/f"] == "saw {'notes': ['b']}"
    graph = ag.compile_agent(tree, values=Notes)
    updates = list(graph.stream({"messages": "Go."}, stream_mode="updates"))
    written = {
        name: update.get("values") for each in updates for name, update in each.items() if update
    }
    assert (written["p"], written["q"]) == ({"notes": ["b"]}, None)


# how it is kept


def test_it_is_not_saved_before_the_first_write(drive: Drive) -> None:
    tree = ag.sequential("s", [gives("a", ag.SetValues(topic="bees")), ag.human("h", "Well?")])
    runner = ag.Runner(tree, values=Notes)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    every = [write for each in runner.saver.list(THREAD) for write in each.pending_writes or ()]
    assert [value for _, channel, value in every if channel == "values"] == [{"topic": "bees"}]
    assert runner.graph.get_state(THREAD).values["values"] == {"topic": "bees", "notes": []}
    assert list(runner.events("t")) == events

    class Redeclared(TypedDict, total=False):
        notes: Annotated[dict[str, int], merged]

    again = ag.Runner(tree, checkpointer=runner.saver, values=Redeclared)
    list(drive.resume(again, "t", "yes"))
    assert again.thread("t").values == {"topic": "bees", "notes": {}}


def test_a_thread_that_ran_without_the_declaration_has_it_from_then_on(drive: Drive) -> None:
    lane = ag.sequential("t", [writes("a", {"topic": "bees"}), ag.human("h", "Well?"), writes("b")])
    tree = ag.sequential("s", [ag.parallel("p", [lane, writes("c")]), writes("d", {"notes": ["d"]})])
    old = ag.Runner(tree)
    list(drive.run(old, "Go.", thread_id="t"))
    new = ag.Runner(tree, checkpointer=old.saver, values=Notes)
    told = [each.text for each in drive.resume(new, "t", "yes") if each.text.startswith("saw")]
    assert told == ["saw {'notes': [], 'topic': 'bees'}", "saw {'topic': 'bees', 'notes': []}"]
    assert new.thread("t").values == {"topic": "bees", "notes": ["d"]}


def test_a_question_and_a_file_between_keep_what_was_written(drive: Drive, tmp_path: Any) -> None:
    path = tmp_path / "threads.db"
    tree = ag.sequential(
        "s", [writes("a", {"notes": ["a"]}), ag.human("h", "{notes}?"), writes("b", {"notes": ["b"]})]
    )
    with ag.Runner(tree, checkpointer=path, values=Notes) as runner:
        assert [*drive.run(runner, "Go.", thread_id="t")][-1].action.interrupted.value == '["a"]?'
    with ag.Runner(tree, checkpointer=path, values=Notes) as runner:
        assert [*drive.resume(runner, "t", "yes")][-2].text == "saw {'notes': ['a']}"
        again = [*drive.run(runner, "Again.", thread_id="t")]
        assert [each.text for each in again if each.text] == ["saw {'notes': ['a', 'b']}"]


def test_a_function_that_changes_it_in_place_changes_no_other_run() -> None:
    def append(ctx: ag.Context) -> str:
        ctx.values["notes"].append("x")
        return str(len(ctx.values["notes"]))

    graph = ag.compile_agent(ag.function_agent("a", append), values=Notes)
    results = [graph.invoke({"messages": "Go."}) for _ in range(3)]
    assert [each["messages"][-1].text for each in results] == ["1", "1", "1"]


def test_edits_and_deletions_go_through_the_reducer(drive: Drive) -> None:
    tree = ag.sequential("s", [gives("a", "A"), ag.human("h", "Well?"), writes("b", {"notes": ["b"]})])
    runner = ag.Runner(tree, values=Notes)
    list(drive.run(runner, "Go.", thread_id="t"))
    edits: list[tuple[Any, Any]] = [
        (["edited"], ["edited"]),
        (Overwrite(["new"]), ["new"]),
        (ag.DELETE, []),
        (["again"], ["again"]),
    ]
    for edit, after in edits:
        runner.graph.update_state(THREAD, {"values": {"notes": edit}})
        assert runner.thread("t").values == {"notes": after}
    list(drive.resume(runner, "t", "yes"))
    assert runner.thread("t").values == {"notes": ["again", "b"]}


def test_two_overwrites_side_by_side_conflict_and_one_of_them_is_settled(drive: Drive) -> None:
    tree = ag.parallel("p", [writes(n, {"notes": Overwrite([n])}) for n in "ab"])
    runner = ag.Runner(tree, values=Notes)
    with pytest.raises(ag.ValueConflictError) as refused:
        list(drive.run(runner, "Go.", thread_id="t"))
    assert str(refused.value).startswith(
        "p: p/a wrote ['a'] and p/b wrote ['b'] as the value 'notes' while they ran concurrently; let "
        "only one of them write an Overwrite, and the others values that its reducer accepts; or"
    )
    assert runner.thread("t").values == {"notes": []}
    list(drive.resume(runner, "t", values={"notes": ["settled"]}))
    assert runner.thread("t").values == {"notes": ["settled"]}


def test_two_that_overwrite_side_by_side_with_the_same_agree(drive: Drive) -> None:
    forms = {"a": Overwrite(["new"]), "b": {"__overwrite__": ["new"]}}
    tree = ag.parallel("p", [writes(name, {"notes": form}) for name, form in forms.items()])
    runner = ag.Runner(tree, values=Notes)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.thread("t").values == {"notes": ["new"]}


def test_a_graph_around_it_gets_it_too() -> None:
    class Outer(MessagesState):
        values: dict[str, Any]

    inner: Any = ag.compile_agent(writes("a"), values=Notes)
    outer: Any = StateGraph(Outer).add_node("inner", inner).set_entry_point("inner").compile()
    out = outer.invoke({"messages": "Go.", "values": {"topic": "bees"}})
    assert out["values"] == {"topic": "bees", "notes": []}
    assert out["messages"][-1].text == "saw {'topic': 'bees', 'notes': []}"


def test_results_and_threads_show_it() -> None:
    runner = ag.Runner(gives("a", "A"), values=Notes)
    assert runner.thread("t").values == {}
    assert runner.invoke("Go.", thread_id="t").values == {"notes": []}
    assert runner.thread("t").values == {"notes": []}
