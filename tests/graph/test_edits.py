"""What middleware made of the messages, as edits: what is told apart is put together again."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from agentgraph.graph.chat.step import Edits, edited, edits_between


def said(*ids: str) -> list[Any]:
    return [HumanMessage(each, id=each) for each in ids]


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Draw messages, and what middleware made of them: the order of those that stay is kept."""
    before = said(*map(str, range(draw(st.integers(0, 6)))))
    after: list[Any] = []
    for index in range(len(before) + 1):
        after += said(*(f"new{index}.{n}" for n in range(draw(st.integers(0, 2)))))
        match draw(st.sampled_from(["keep", "drop", "replace"])) if index < len(before) else "end":
            case "keep":
                after.append(before[index])
            case "replace":
                after.append(HumanMessage("other", id=before[index].id))
    return before, after


@given(changes())
def test_edits_make_what_middleware_made(change: tuple[list[Any], list[Any]]) -> None:
    before, after = change
    assert edited(before, edits_between(before, after)) == after


@given(changes(), st.integers(1, 3))
def test_what_is_said_later_is_seen_as_it_is(change: tuple[list[Any], list[Any]], more: int) -> None:
    before, after = change
    later = said(*(f"later{n}" for n in range(more)))
    assert edited([*before, *later], edits_between(before, after)) == [*after, *later]


def test_nothing_changed_needs_no_edits() -> None:
    assert edits_between(said("1", "2"), said("1", "2")) == {}


def test_a_summary_costs_one_id_and_one_message() -> None:
    before = said(*map(str, range(100)))
    [summary] = said("summary")
    edits = edits_between(before, [summary, *before[-2:]])
    assert edits == {"beginning": {"upto": "97", "head": [summary]}}


def test_where_the_left_out_beginning_is_not_seen_any_more_nothing_is_put_in_its_place() -> None:
    edits: Edits = {"beginning": {"upto": "1", "head": said("summary")}}
    assert edited(said("2", "3"), edits) == said("2", "3")
