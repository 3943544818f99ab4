"""Declared values: their types are checked where they are written, they have defaults, and schemas."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from random import Random
from typing import Annotated, Any, TypedDict

import pytest
from helpers import Drive, gives
from pydantic import BaseModel, Field

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


class Report(BaseModel):
    title: str


class Values(TypedDict, total=False):
    topic: str
    notes: Annotated[list[str], operator.add]
    report: Report
    day: date
    n: int


class Model(BaseModel):
    topic: str = Field("bees", description="What it is about.")
    count: Annotated[int, operator.add] = 5
    notes: list[str] = Field(default_factory=list)


@dataclass
class Plain:
    topic: str = "bees"
    notes: list[str] = field(default_factory=list)
    count: Annotated[int, operator.add] = 5


def sees(name: str = "sees") -> ag.Agent:
    return ag.function_agent(name, lambda ctx: str(dict(ctx.values)))


BEGUN: dict[str, Any] = {"notes": []}
FITTING: dict[str, dict[str, Any]] = {
    "a text": {"topic": "bees"},
    "items for a reducer": {"notes": ["a"]},
    "a dict for a model": {"report": {"title": "Bees"}},
    "an object of a model": {"report": Report(title="Bees")},
    "a date": {"day": date(2026, 1, 2)},
    "a date in JSON's form": {"day": "2026-01-02"},
    "a name that is not declared": {"other": [1]},
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a number for a text": ({"topic": 3}, "'topic' {}: Input should be a valid string, got 3"),
    "a text for a number": ({"n": "42"}, "'n' {}: Input should be a valid integer, got '42'"),
    "an item of a list": ({"notes": ["a", 3]}, "'notes'[1] {}: Input should be a valid string, got 3"),
    "a model without a field": ({"report": {}}, "'report'['title'] {}: Field required, got {{}}"),
    "a text for a date": (
        {"day": "soon"},
        "'day' {}: Input should be a valid date, got 'soon'",
    ),
}


@pytest.mark.parametrize("given", FITTING.values(), ids=FITTING)
def test_what_fits_is_kept_as_it_was_written(drive: Drive, given: dict[str, Any]) -> None:
    runner = ag.Runner(gives("writer", ag.SetValues(**given)), values=Values)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.thread("t").values == BEGUN | given


@pytest.mark.parametrize(("given", "why"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused_where_it_is_written(
    drive: Drive, given: dict[str, Any], why: str
) -> None:
    why = why.format("does not fit its declared type")
    writers: dict[str, Callable[[], ag.Agent]] = {
        "w": lambda: gives("w", ag.SetValues(**given), ag.SetValues(topic="bees")),
        "both/w": lambda: ag.parallel("both", [gives("w", ag.SetValues(**given)), gives("x", "X")]),
    }
    for at, make in writers.items():
        runner = ag.Runner(make(), values=Values)
        with pytest.raises(ag.InvalidOutputError) as caught:
            list(drive.run(runner, "Go.", thread_id="t"))
        assert str(caught.value) == f"{at}: the value {why}"
        assert runner.thread("t").values == BEGUN
    runner = ag.Runner(writers["w"](), values=Values)
    for refused in (
        lambda: list(drive.run(runner, "Go.", values=given)),
        lambda: runner.graph.invoke({"messages": ["Go."], "values": given}, CONFIG),
    ):
        with pytest.raises(ag.AgentGraphError) as caught_input:
            refused()
        assert str(caught_input.value) == f"values: {why}"


CONFIG: Any = {"configurable": {"thread_id": "t"}}


def test_the_step_that_wrote_a_wrong_type_can_be_tried_again(drive: Drive) -> None:
    runner = ag.Runner(gives("w", ag.SetValues(topic=3), ag.SetValues(topic="bees")), values=Values)
    with pytest.raises(ag.InvalidOutputError):
        list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t"))
    assert runner.thread("t").values == BEGUN | {"topic": "bees"}


def test_edits_of_the_state_are_checked(drive: Drive) -> None:
    runner = ag.Runner(sees(), values=Values)
    list(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(ag.AgentGraphError, match="values: 'topic' does not fit its declared type"):
        runner.graph.update_state(CONFIG, {"values": {"topic": 3}})
    runner.graph.update_state(CONFIG, {"values": {"topic": "ants"}})
    assert runner.thread("t").values == BEGUN | {"topic": "ants"}


@pytest.mark.parametrize("schema", [Model, Plain])
def test_declared_defaults_are_there_from_the_start(drive: Drive, schema: type) -> None:
    tree = ag.sequential("job", [sees("first"), gives("adds", ag.SetValues(count=2)), sees("last")])
    runner = ag.Runner(tree, values=schema)
    events = drive.run(runner, "Go.", thread_id="t", values={"topic": "ants"})
    first, last = (eval(event.text) for event in events if event.message)
    assert first == {"topic": "ants", "count": 5, "notes": []}
    assert last == {"topic": "ants", "count": 7, "notes": []}
    assert runner.thread("t").values == last


def test_a_default_of_a_thread_that_lacks_it(drive: Drive) -> None:
    old = ag.Runner(ag.sequential("job", [sees("a"), ag.human("boss", "Well?")]))
    list(drive.run(old, "Go.", thread_id="t", values={"topic": "ants"}))
    new = ag.Runner(old.agent, checkpointer=old.saver, values=Model)
    list(drive.resume(new, "t", "yes"))
    assert new.thread("t").values == {"topic": "ants", "count": 5, "notes": []}


DELETIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "written over": (None, {"kept": 1}),
    "with a default": (Model, {"kept": 1, "topic": "bees", "count": 5, "notes": []}),
}


@pytest.mark.parametrize(("schema", "left"), DELETIONS.values(), ids=DELETIONS)
def test_a_value_is_deleted(drive: Drive, schema: Any, left: dict[str, Any]) -> None:
    trees = (
        gives("w", ag.SetValues(topic=ag.DELETE)),
        ag.parallel("both", [gives("w", ag.SetValues(topic=ag.DELETE)), gives("x", "X")]),
    )
    for tree in trees:
        runner = ag.Runner(tree, values=schema)
        list(drive.run(runner, "Go.", thread_id="t", values={"topic": "ants", "kept": 1}))
        assert runner.thread("t").values == left
    list(drive.run(runner, "Go.", thread_id="u", values={"topic": "ants", "kept": 1}))
    runner.graph.update_state({"configurable": {"thread_id": "u"}}, {"values": {"kept": ag.DELETE}})
    assert "kept" not in runner.thread("u").values


def test_a_deletion_beside_another_write_conflicts(drive: Drive) -> None:
    tree = ag.parallel(
        "both", [gives("w", ag.SetValues(topic=ag.DELETE)), gives("x", ag.SetValues(topic="ants"))]
    )
    with pytest.raises(
        ag.ValueConflictError, match=r"wrote ag.DELETE and both/x wrote 'ants' as .*topic"
    ):
        list(drive.run(ag.Runner(tree), "Go."))


@pytest.mark.parametrize("schema", [Values, Model, Plain])
def test_the_schemas_of_a_graph_show_the_values(schema: type) -> None:
    graph = ag.compile_agent(sees(), values=schema)
    for found in (graph.get_input_jsonschema(), graph.get_output_jsonschema()):
        assert found["properties"]["values"] == {"$ref": "#/$defs/Values"}
        shown = found["$defs"]["Values"]
        assert shown["properties"]["notes"]["items"] == {"type": "string"}
        assert shown["properties"]["topic"]["type"] == "string"
        assert "required" not in shown
    if schema is Model:
        assert shown["properties"]["topic"]["description"] == "What it is about."


def test_a_tool_that_writes_a_wrong_type_fails_its_agent(drive: Drive) -> None:
    def write() -> ag.SetValues:
        """Write it."""
        return ag.SetValues(topic=3)

    boss = ag.chat_agent("boss", ScriptedChatModel(responses=[calls(call("write"))]), tools=[write])
    with pytest.raises(ag.InvalidOutputError, match="boss: the value 'topic' does not fit"):
        list(drive.run(ag.Runner(boss, values=Values), "Go."))


class Unchecked:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise TypeError("no schema")


class Nested(TypedDict):
    part: Unchecked


@dataclass
class Holding:
    part: Nested | None = None


class Forward(BaseModel):
    part: "Unknown"  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    "unchecked",
    [
        *[Unchecked, Nested, Holding, Forward, list[Nested], dict[str, Nested | None]],
        Annotated[list[Nested], operator.add],
    ],
    ids=str,
)
def test_a_type_that_pydantic_cannot_check_is_a_fault_before_the_run(unchecked: Any) -> None:
    """Such as a nested `typing.TypedDict` before Python 3.12: pydantic's error names what to import."""
    make: Any = TypedDict
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.Runner(sees(), values=make("Values", {"plan": unchecked, "topic": str}))
    given = "typing_extensions.TypedDict|no schema|'Unknown' is not defined"
    assert re.fullmatch(
        rf"values: pydantic cannot check the type of the field 'plan' \(.*({given}).*\); use a type "
        "that it knows, or Any",
        str(refused.value),
    )


def test_a_type_that_is_not_pydantics_is_checked_by_its_class() -> None:
    make: Any = TypedDict
    runner = ag.Runner(sees(), values=make("Values", {"rng": Random}))
    with pytest.raises(ag.AgentGraphError, match="'rng' does not fit its declared type"):
        runner.invoke("Go.", values={"rng": 5})
