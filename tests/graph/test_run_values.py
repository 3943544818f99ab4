"""Values: how they are declared, edited and compared, and which of them tools and middleware share.

What agents write in turn and side by side is in `tests/transcripts/values.txt`.
"""

import asyncio
import operator
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, NotRequired
from typing import TypedDict as TypingTypedDict

import pytest
from helpers import Disk, Drive, chat, failing, middleware, scripted, writes
from langchain.agents.middleware import AgentState
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Overwrite
from pydantic import BaseModel
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.graph.values import Reducers, is_same
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Notes(TypedDict, total=False):
    notes: Annotated[list, operator.add]
    topic: str


class PlainNotes(TypingTypedDict):
    notes: Annotated[list, operator.add]


class NotesModel(BaseModel):
    notes: Annotated[list[str], operator.add] = []


def values_of(runner: ag.Runner) -> dict[str, Any]:
    """Return the values of the run, without those of the package."""
    values = runner.graph.get_state(CONFIG).values["values"]
    return {name: value for name, value in values.items() if "." not in name}


# what declares values


@pytest.mark.parametrize("schema", [Notes, PlainNotes, NotesModel])
def test_a_reducer_is_declared_as_langgraph_users_declare_state(drive: Drive, schema: Any) -> None:
    tree = ag.sequential("s", [writes("a", {"notes": ["a"]}, {"notes": ["b"]}), writes("c", {"x": 1})])
    runner = ag.Runner(tree, values=schema)
    list(drive.run(runner, "Go.", thread_id="t", values={"notes": ["given"]}))
    assert values_of(runner) == {"notes": ["given", "a", "b"], "x": 1}


def test_values_of_other_collections_are_merged() -> None:
    class Seen(TypedDict):
        names: Annotated[set, operator.or_]
        last: Annotated[deque, operator.add]

    a, b = (writes(n, {"names": {n}, "last": deque([n])}) for n in "ab")
    out = ag.compile_agent(ag.parallel("p", [a, b]), values=Seen).invoke({"messages": ["Go."]})
    assert out["values"] == {"names": {"a", "b"}, "last": deque("ab")}


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
    kinds = {
        "a": ("UntrackedValue", "pass what is not saved to the run as context="),
        "b": ("EphemeralValue", "write ag.DELETE to the plain type when the value is used up"),
        "c": ("Topic", "use Annotated[list, operator.add], or Topic(type, accumulate=True)"),
        "d": ("RemainingStepsManager", "use Annotated[type, reducer], or the type alone"),
    }
    assert refused.value.faults == tuple(
        f"values: the field {name!r} is declared with {kind}, which values cannot have; {instead}"
        for name, (kind, instead) in kinds.items()
    )


def together(old: list[str], new: Sequence[list[str]]) -> list[str]:
    return [*old, *chain(*new)]


class Channels(TypedDict, total=False):
    delta: Annotated[NotRequired[list[str]], DeltaChannel(together)]
    topic: Annotated[str, Topic(str, accumulate=True)]
    any: Annotated[str, AnyValue]
    last: Annotated[int, LastValue]
    added: Annotated[list, BinaryOperatorAggregate(list, operator.add)]


CHANNELS: Any = {"delta": ["s"], "topic": ["s"], "any": "s", "last": 1, "added": ["s"]}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_channels_of_langgraph_merge_what_branches_write_as_in_langgraph(is_async: bool) -> None:
    written: dict[str, Any] = {n: {"delta": [n], "topic": n, "any": n, "added": [n]} for n in "ab"}
    theirs: Any = StateGraph(Channels)
    for name, values in written.items():
        theirs.add_node(name, lambda state, values=values: values)
        theirs.add_edge(START, name)
    tree = ag.parallel("p", [writes(name, values) for name, values in written.items()])
    graph = ag.compile_agent(tree, values=Channels)
    given: Any = {"messages": ["Go."], "values": {**CHANNELS, "topic": ["s"]}}
    out = asyncio.run(graph.ainvoke(given)) if is_async else graph.invoke(given)
    assert out["values"] == {**theirs.compile().invoke(CHANNELS), "last": 1}


OVERWRITES: dict[str, Any] = {
    "an object": Overwrite,
    "JSON": lambda value: {"__overwrite__": value},
    "what a server gets": lambda value: {"value": value, "type": "__overwrite__"},
}


@pytest.mark.parametrize("form", OVERWRITES.values(), ids=OVERWRITES)
def test_overwrite_replaces_what_channels_have_merged(form: Any) -> None:
    new: dict[str, Any] = {"delta": ["n"], "topic": ["n"], "any": "n", "added": ["n"]}
    tree = writes("w", {name: form(value) for name, value in new.items()})
    out = ag.compile_agent(tree, values=Channels).invoke({"messages": ["Go."], "values": CHANNELS})
    assert out["values"] == {**new, "last": 1}


def test_a_delta_channel_is_stored_merged_and_its_reducer_is_not_run_on_a_read(disk: Disk) -> None:
    runs: list[Any] = []

    def counted(old: list[str], new: Sequence[list[str]]) -> list[str]:
        runs.append(new)
        return together(old, new)

    schema: Any = TypedDict("Schema", {"notes": Annotated[list[str], DeltaChannel(counted)]})  # type: ignore[misc]
    runner = ag.Runner(writes("w", {"notes": ["n"]}), checkpointer=disk.path, values=schema)
    [*_] = disk.drive.run(runner, "Go.", thread_id="t")
    before = len(runs)
    assert runner.thread("t").values == {"notes": ["n"]}
    assert len(runs) == before


@pytest.mark.parametrize("schema", [int, dict, 5, "Notes", {"notes": list}], ids=str)
def test_what_declares_no_fields_is_a_fault(schema: Any) -> None:
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(writes("a"), values=schema)
    assert str(refused.value) == (
        f"values={schema!r} declares no fields; pass a TypedDict or a pydantic model, as in class "
        "Values(TypedDict): notes: Annotated[list, operator.add]"
    )


REDUCERS: dict[str, Any] = {"a built-in function": max, "one argument": lambda old: old}


@pytest.mark.parametrize("reducer", REDUCERS.values(), ids=REDUCERS)
def test_a_reducer_that_langgraph_cannot_call_is_a_fault_that_says_why(reducer: Any) -> None:
    schema: Any = TypedDict("Best", {"best": Annotated[int, reducer]})  # type: ignore[misc]
    with pytest.raises(
        ag.InvalidAgentError, match=r"cannot be read as a state \(ValueError.*signature"
    ):
        ag.Runner(writes("a"), values=schema)


def test_a_tree_whose_branches_share_a_declared_output_key_is_translated() -> None:
    branches = [ag.function_agent(n, lambda ctx: ctx.name, output_key="topic") for n in "ab"]
    tree = ag.parallel("p", branches)

    class Topics(TypedDict):
        topic: Annotated[str, operator.add]

    graph = ag.compile_agent(tree, values=Topics)
    parts = graph.stream(
        {"messages": ["Go."]}, stream_mode=ag.STREAM_MODES, subgraphs=True, version="v2"
    )
    assert sorted(event.text for event in ag.translate(tree, parts)) == ["a", "b"]


@pytest.mark.parametrize("schema", [None, Notes])
@pytest.mark.parametrize("given", [3, "ab", [["a", 1]]], ids=str)
def test_input_whose_values_are_not_a_mapping_is_refused(schema: Any, given: Any) -> None:
    graph = ag.compile_agent(writes("a"), values=schema, checkpointer=InMemorySaver())
    with pytest.raises(ag.AgentGraphError, match="values must be a mapping, got"):
        graph.invoke({"messages": ["Go."], "values": given}, CONFIG)
    assert list(graph.get_state_history(CONFIG)) == []
    begun = {"notes": []} if schema else {}
    assert graph.invoke({"messages": ["Go."], "values": None}, CONFIG)["values"] == begun


# conflicts and failures of reducers


def test_the_errors_say_where_what_and_by_whom(drive: Drive) -> None:
    tree = ag.parallel("p", [writes("a", {"x": 1, "y": 1}), writes("b", {"x": 2, "y": 2})])
    _, conflict = failing(drive.run(ag.Runner(tree), "Go."), ag.ValueConflictError)
    assert (conflict.where, conflict.name, conflict.names) == ("p", "x", ("x", "y"))  # type: ignore[attr-defined]
    assert (conflict.writers, conflict.values) == (("p/a", "p/b"), ("1", "2"))  # type: ignore[attr-defined]
    runner = ag.Runner(writes("a", {"notes": 5}), values=Notes)
    _, failed = failing(drive.run(runner, "Go."), ag.ReducerError)
    assert (failed.where, failed.name, failed.value) == ("a", "notes", "5")  # type: ignore[attr-defined]


@dataclass(eq=False)
class Array:
    """Gives no answer to `==`, as arrays of numpy do."""

    items: list[int]

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_values_that_cannot_be_compared_are_the_same_where_their_pickles_are() -> None:
    assert is_same(Array([1]), Array([1]))
    assert not is_same(Array([1]), Array([2]))
    local = [Array([1]), lambda: None]
    assert is_same(local, local)
    assert not is_same(local, [Array([1]), lambda: None])


@pytest.mark.parametrize(("other", "differ"), [([1], False), ([2], True)])
def test_values_that_cannot_be_compared_conflict_where_they_differ(other: Any, differ: bool) -> None:
    tree = ag.parallel("p", [writes("a", {"x": Array([1])}), writes("b", {"x": Array(other)})])
    graph = ag.compile_agent(tree)
    if differ:
        with pytest.raises(ag.ValueConflictError):
            graph.invoke({"messages": ["Go."]})
    else:
        assert graph.invoke({"messages": ["Go."]})["values"]["x"].items == [1]


def test_middleware_may_hand_back_messages_that_cannot_be_compared(drive: Drive) -> None:
    @tool(response_format="content_and_artifact")
    def measure() -> tuple[str, Any]:
        """Measure."""
        return "measured", Array([1, 2])

    def redact(state: Any) -> dict[str, Any]:
        copies = [message.model_copy(deep=True) for message in state["messages"]]
        if copies[-1].type == "tool":
            copies[-1].content = "redacted"
        return {"messages": copies}

    model = scripted(calls(call("measure")), calls(call("measure", "2")), "Done.")
    tree = ag.chat_agent("a", model, tools=[measure], middleware=[middleware(before_model=redact)])
    assert [event.text for event in drive.run(ag.Runner(tree), "Go.")][-1] == "Done."
    assert [m.text for m in model.inputs[-1] if m.type == "tool"] == ["redacted", "redacted"]


# how values are kept and edited


def test_to_merge_changes_neither_side() -> None:
    values, new = {"a": 1}, {"a": 2}
    assert Reducers().merged(values, new) == {"a": 2}
    assert (values, new) == ({"a": 1}, {"a": 2})


def test_a_lane_is_edited_with_a_plain_dict() -> None:
    lane = ag.sequential("s", [writes("a", {"notes": ["a"], "x": 1}), ag.human("h", "?"), writes("c")])
    runner = ag.Runner(ag.parallel("p", [lane, writes("b", {"notes": ["b"]})]), values=Notes)
    list(runner.run("Go.", thread_id="t"))
    lanes = (each.config["configurable"]["checkpoint_ns"] for each in runner.saver.list(CONFIG))
    namespace = next(each for each in lanes if "|s:" in each)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}
    runner.graph.update_state(config, {"values": {"notes": ["edited"], "x": 2}})
    list(runner.resume("t"))
    assert list(runner.resume("t", "yes"))[-1].text == "saw {'notes': ['a', 'edited'], 'x': 2}"


def test_updates_of_the_root_are_plain_dicts_where_no_write_is_lost_by_it() -> None:
    a = writes("a", {"notes": ["a"], "x": 1}, {"x": 2})
    b = writes("b", {"notes": ["b"]}, {"notes": ["c"], "x": 3})
    graph = ag.compile_agent(ag.sequential("s", [a, b]), values=Notes)
    parts = list(graph.stream({"messages": ["Go."]}, stream_mode="updates"))
    assert [part[name]["values"] for part in parts for name in part if name in "ab"] == [
        {"notes": ["a"], "x": 2},
        [{"notes": ["b"]}, {"notes": ["c"], "x": 3}],
    ]


def test_what_a_lane_keeps_does_not_grow_with_what_it_writes_over() -> None:
    def look(ctx: ag.Context) -> ag.SetValues:
        return ag.SetValues(n=ctx.iteration, m={"n": ctx.iteration})

    lane = ag.loop("l", [ag.function_agent("a", look)], max_iterations=20)
    graph = ag.compile_agent(ag.parallel("p", [lane]))
    parts = graph.stream({"messages": ["Go."]}, stream_mode="values", subgraphs=True)
    assert (
        max(len(part.get("values", ())) for _, part in parts) == 2
    )  # of the root, which has two names


# what tools and middleware share with the run


def merged(old: dict[str, str] | None, new: dict[str, str]) -> dict[str, str]:
    return {**(old or {}), **new}


Files = Annotated[dict[str, str], merged]


class FileState(AgentState[Any]):
    files: NotRequired[Files]
    notes: NotRequired[list[str]]


def begins(state: Any) -> dict[str, Any]:
    """Write to the state, as middleware of deepagents does: tools write it, too."""
    return {"files": {"readme": f"{len(state.get('files') or {})} files"}, "notes": ["begun"]}


class Shared(TypedDict, total=False):
    files: Files
    count: int


def write(name: str, text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write a file."""
    done = ToolMessage(f"Wrote {name}.", tool_call_id=tool_call_id)
    return Command(update={"files": {name: text}, "count": 1, "topic": name, "messages": [done]})


def read(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Read everything."""
    return f"{state.get('files')} {state.get('notes')}"


def filing(name: str, *responses: Any, **options: Any) -> ag.Agent:
    stack = [middleware(state=FileState, before_agent=begins)]
    return chat(name, *responses, tools=[write, read], middleware=stack, **options)


def reading(name: str) -> ag.Agent:
    return chat(name, calls(call("read")), "Done.", tools=[read])


@pytest.mark.parametrize("parallel_tools", [True, False])
def test_a_key_that_values_declare_is_shared_and_another_is_the_agents_own(
    drive: Drive, parallel_tools: bool
) -> None:
    asked = calls(call("write", name="a", text="A"), call("read"))
    writer = filing("w", asked, calls(call("read")), "Done.", parallel_tools=parallel_tools)
    runner = ag.Runner(ag.sequential("s", [writer, reading("c")]), values=Shared)
    events = list(drive.run(runner, "Go.", thread_id="t", values={"files": {"old": "O"}}))
    results = [each.message.text for each in events if isinstance(each.message, ToolMessage)]
    both = "{'old': 'O', 'readme': '1 files', 'a': 'A'}"
    assert results[-2:] == [f"{both} ['begun']", f"{both} None"]
    assert parallel_tools or results[1] == f"{both} ['begun']"
    files = {"old": "O", "readme": "1 files", "a": "A"}
    assert values_of(runner) == {"files": files, "count": 1, "topic": "a"}


def test_what_values_do_not_declare_is_the_state_of_the_agent(drive: Drive) -> None:
    writer = filing("w", calls(call("write", name="a", text="A")), calls(call("read")), "Done.")
    runner = ag.Runner(ag.sequential("s", [writer, reading("c")]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    results = [each.message.text for each in events if isinstance(each.message, ToolMessage)]
    assert results == ["Wrote a.", "{'readme': '0 files', 'a': 'A'} ['begun']", "None None"]


def test_agents_side_by_side_share_files_through_the_reducer(drive: Drive) -> None:
    class OnlyFiles(TypedDict, total=False):
        files: Files
        topic: Annotated[str, lambda old, new: max(old, new)]

    agents = [filing(name, calls(call("write", name=name, text=name)), "Done.") for name in "ab"]
    runner = ag.Runner(ag.parallel("p", agents), values=OnlyFiles)
    list(drive.run(runner, "Go.", thread_id="t"))
    values = values_of(runner)
    assert values["files"] == {"readme": "0 files", "a": "a", "b": "b"}
    assert values["topic"] == "b"
