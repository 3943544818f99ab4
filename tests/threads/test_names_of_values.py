"""Names of values: a typo of a known one is refused before the run, a missing one where it is read."""

import operator
import pickle
from typing import Annotated, Any

import pytest
from helpers import Drive, chat, failing, lines, says, writes
from langchain.agents.middleware import ModelCallLimitMiddleware
from typing_extensions import TypedDict

import agentgraph as ag


class State(TypedDict):
    topic: str
    notes: Annotated[list[str], operator.add]


def tree() -> ag.Agent:
    """Return a tree that knows `tone` and `title` by templates, and `draft` by an output key."""
    writer = chat(
        "writer",
        "So.",
        instruction="Be {tone}.",
        output_key="draft",
        middleware=[ModelCallLimitMiddleware(run_limit=9)],
    )
    steps = ag.workflow("w", [ag.step(says("a"), input="About {title}.")])
    return ag.sequential("s", [writer, steps, ag.human("boss", "{question}?")])


def reading(name: str) -> ag.Agent:
    return ag.function_agent("a", lambda ctx: f"Read {ctx.values[name]}.")


GIVEN = {"tone": "kind", "title": "Bees", "question": "Well"}
TYPOS = {"tpoic": "topic", "note": "notes", "drafts": "draft", "tones": "tone", "titel": "title"}
TYPOS |= {"run_model_call_counts": "run_model_call_count"}


@pytest.mark.parametrize(("name", "meant"), TYPOS.items())
def test_a_typo_of_a_known_name_is_refused_before_the_run(drive: Drive, name: str, meant: str) -> None:
    runner = ag.Runner(tree(), values=State)
    with pytest.raises(ag.AgentGraphError) as caught:
        [*drive.run(runner, "Go.", values={**GIVEN, name: "bees"})]
    assert str(caught.value) == (
        f"values: no schema, agent or thread knows {name!r}; did you mean {meant!r}? Write that, or "
        f"declare {name!r} in the schema"
    )
    assert runner.threads() == []


@pytest.mark.parametrize("values", [{}, {"mood": 1}, {"topic2": "b"}, {"topic": "bees"}, {"tone": "x"}])
def test_every_other_name_may_be_given(values: dict[str, Any]) -> None:
    assert ag.Runner(tree(), values=State).invoke("Go.", values=GIVEN | values).status == "paused"


def test_without_a_schema_any_name_may_be_given() -> None:
    values = {**GIVEN, "tones": "x"}
    assert ag.Runner(tree()).invoke("Go.", values=values).status == "paused"


def test_a_resume_refuses_a_typo_and_takes_what_is_on_the_thread(drive: Drive) -> None:
    runner = ag.Runner(
        ag.sequential("s", [writes("w", {"colour": "red"}), ag.human("boss", "Well?")]), values=State
    )
    [*drive.run(runner, "Go.", thread_id="t")]
    with pytest.raises(ag.AgentGraphError, match="did you mean 'colour'"):
        [*drive.resume(runner, "t", "Yes.", values={"color": "blue"})]
    with pytest.raises(ag.AgentGraphError, match="did you mean 'topic'"):
        runner.invoke(thread_id="t", answers="Yes.", values={"topc": "blue"})
    assert lines(drive.resume(runner, "t", "Yes.", values={"colour": "blue"})) == ["s/boss: Yes."]


def test_a_resume_takes_the_name_of_an_open_conflict(drive: Drive) -> None:
    two = ag.parallel("p", [writes("a", {"topik": 1}), writes("b", {"topik": 2})])
    runner = ag.Runner(ag.sequential("s", [two, says("c")]), values=State)
    failing(drive.run(runner, "Go.", thread_id="t"), ag.ValueConflictError)
    assert lines(drive.resume(runner, "t", values={"topik": 3})) == ["s/c: c"]


def test_a_missing_value_is_named_with_where_it_was_read_and_the_near_one(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [reading("tpoic")]), values=State)
    _, error = failing(drive.run(runner, "Go.", values={"topic": "bees"}), ag.MissingValueError)
    assert isinstance(error, KeyError)
    assert str(error) == (
        "s/a: ctx.values has no 'tpoic' (available: notes, topic; did you mean 'topic'?); pass it with "
        "values=, or read it with ctx.values.get('tpoic') if it may be missing"
    )
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.address, copied.agent_name) == (str(error), "s/a", "a")


def test_a_declared_value_that_was_not_given_is_missing_where_it_is_read(drive: Drive) -> None:
    runner = ag.Runner(reading("topic"), values=State)
    failing(drive.run(runner, "Go.", thread_id="t"), ag.MissingValueError)
    assert lines(drive.resume(runner, "t", values={"topic": "bees"})) == ["a: Read bees."]


def test_values_are_read_as_a_mapping() -> None:
    seen: list[Any] = []

    def reads(ctx: ag.Context) -> None:
        values = ctx.values
        seen.extend([values.get("b"), "b" in values, dict(values), {**values}, repr(values)])
        seen.append(values == {"a": 1})

    ag.Runner(ag.function_agent("a", reads)).invoke("Go.", values={"a": 1})
    assert seen == [None, False, {"a": 1}, {"a": 1}, "mappingproxy({'a': 1})", True]


@pytest.mark.parametrize(
    ("one", "other", "declared"),
    [
        ({"a": 1}, {"b": 2}, "dict, operator.or_"),
        ([1], [2], "list, operator.add"),
        ("a", "b", "str, operator.add"),
        (1, 2.5, "float, operator.add"),
        (True, False, "object, lambda old, new: ..."),
    ],
)
def test_a_conflict_is_settled_by_a_reducer_that_merges_such_values(
    one: Any, other: Any, declared: str
) -> None:
    tree = ag.parallel("p", [writes("a", {"k": one}), writes("b", {"k": other})])
    with pytest.raises(ag.ValueConflictError) as caught:
        ag.Runner(tree).invoke("Go.")
    assert f"k: Annotated[{declared}]" in str(caught.value)
