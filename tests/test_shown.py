"""Values and exceptions in messages: a message never fails because of what it shows."""

import dataclasses
from typing import Any

import pytest
from helpers import collect, failing, says, scripted
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

import agentgraph as ag
from agentgraph.graph.failures import Failure, failures, mark_failure
from agentgraph.safe_repr import LONGEST, as_json, said, shown

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
DATA = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.sets(st.integers())
    ),
)


class Mute:
    """A value that cannot be shown."""

    def __repr__(self):
        raise RuntimeError("not shown")

    __str__ = __repr__


class MuteValueError(ValueError):
    def __str__(self):
        raise RuntimeError("not shown")


class MuteError(Exception):
    def __repr__(self):
        raise RuntimeError("not shown")

    __str__ = __repr__


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    code: int


@given(DATA)
def test_an_ordinary_value_is_shown_as_its_repr(value):
    text = repr(value)
    assert shown(value, longest=len(text)) == text


@given(DATA)
def test_a_long_value_is_cut(value):
    text = repr(value)
    assert shown(value, longest=len(text) - 1) == text[:-1] + "…"


def test_a_value_without_a_repr_is_shown_by_its_type():
    assert shown(Mute()) == "<Mute, whose repr fails>"
    assert shown([1, Mute()]) == "<list, whose repr fails>"


def test_a_value_inside_itself_and_a_deep_one_are_shown():
    around: list = [1]
    around.append({"around": around})
    assert shown(around) == repr(around) == "[1, {'around': [...]}]"
    for _ in range(100_000):
        around = [around]
    assert shown(around) == "[" * LONGEST + "…"


def test_of_a_huge_value_only_the_beginning_is_read():
    million = ["x" * 1_000_000]
    assert len(shown([million] * 1_000_000)) == LONGEST + 1


def test_lone_surrogates_can_be_written():
    odd = type("Odd", (), {"__repr__": lambda self: "odd \ud800"})()
    assert shown(odd) == "odd \\ud800"
    assert said(ValueError("odd \ud800")) == "odd \\ud800"


def test_an_exception_that_says_nothing_is_shown_by_its_repr():
    assert (said(KeyError()), said(MuteError())) == ("KeyError()", "<MuteError, whose repr fails>")


def test_signals_can_be_shown_whatever_they_hold():
    assert repr(ag.Ask(Mute())) == "Ask(value=<Mute, whose repr fails>, response_schema=None)"
    assert repr(ag.Custom({"n": 1})) == "Custom(data={'n': 1})"
    assert repr(ag.SetValues(n=Mute())) == "SetValues(n=<Mute, whose repr fails>)"


MUTE = Mute()
FAULTY = [
    MUTE,
    ag.chat_agent(MUTE, scripted("a")),
    ag.chat_agent("a", MUTE),
    ag.chat_agent("a", scripted("a"), instruction=MUTE),
    ag.chat_agent("a", scripted("a"), history=MUTE),
    ag.chat_agent("a", scripted("a"), max_iterations=MUTE),
    ag.chat_agent("a", scripted("a"), on_tool_error=MUTE),
    ag.chat_agent("a", scripted("a"), model_input=MUTE),
    ag.chat_agent("a", scripted("a"), tools=[MUTE]),
    ag.chat_agent("a", scripted("a"), retry=MUTE),
    ag.chat_agent("a", scripted("a"), timeout=MUTE),
    ag.chat_agent("a", scripted("a"), output_schema=MUTE),
    ag.function_agent("a", MUTE),
    ag.graph_agent("a", MUTE),
    ag.human("a", "?", response_schema=MUTE),
    ag.human("a", "?", output_key=MUTE),
    ag.loop("a", [says("b")], max_iterations=1, until=MUTE),
    ag.parallel("a", [says("b")], on_error=MUTE),
    ag.workflow("a", [ag.step(says("b"), input=MUTE)]),
    ag.validated(says("a"), MUTE),
]


@pytest.mark.parametrize("tree", FAULTY, ids=range(len(FAULTY)))
def test_a_fault_of_a_tree_is_told_whatever_it_shows(tree):
    with pytest.raises(ag.InvalidAgentError, match="<Mute, whose repr fails>"):
        ag.Runner(tree)


def test_wrong_input_is_refused_whatever_it_is():
    runner = ag.Runner(says("a"))
    for call in (
        lambda: runner.run(MUTE),
        lambda: runner.run("Go.", values=MUTE),
        lambda: ag.watch(runner, "Go.", answers=MUTE),
    ):
        with pytest.raises(ag.AgentGraphError, match="<Mute, whose repr fails>"):
            call()


def test_a_wrong_answer_is_refused_whatever_it_is():
    runner = ag.Runner(ag.human("boss", "?"))
    list(runner.run("Go.", thread_id="t"))
    for answer, told in (
        (MUTE, "<Mute, whose repr fails>"),
        ({MUTE: "yes"}, "<dict, whose repr fails>"),
    ):
        with pytest.raises(ag.InvalidAnswerError, match=f"the answer {told} .* it has no JSON form"):
            runner.resume("t", answer)


def test_what_a_function_must_not_give_is_named_whatever_it_is(drive):
    _, error = failing(
        drive.run(ag.Runner(ag.function_agent("a", lambda ctx: Mute())), "Go."), ag.InvalidOutputError
    )
    assert "a: the function gave <Mute, whose repr fails>" in str(error)


UNTRAVELLED = [(MuteError(), "<MuteError, whose repr fails>"), (FrozenError(7), "FrozenError(code=7)")]


@pytest.mark.parametrize(("original", "text"), UNTRAVELLED, ids=["mute", "frozen"])
@pytest.mark.parametrize("shape", ["leaf", "branch", "loop", "step"])
def test_an_exception_that_cannot_be_kept_is_told_and_is_the_cause(
    drive, tmp_path, original, text, shape
):
    def fails(ctx: ag.Context) -> str:
        raise original

    leaf = ag.function_agent("a", fails)
    shapes = {
        "leaf": leaf,
        "branch": ag.parallel("p", [leaf, says("b")]),
        "loop": ag.loop("l", [says("b")], max_iterations=2, until=fails),
        "step": ag.workflow("w", [ag.step(leaf)]),
    }
    told: list[ag.AgentEvent] = []
    with pytest.raises(ag.AgentGraphError) as caught:
        collect(told, drive, tmp_path / "x.db", shapes[shape], "run", "Go.", thread_id="t")
    assert f"{text} was raised, which cannot be saved" in str(caught.value)
    causes = [error := caught.value, *(error := error.__cause__ for _ in range(2) if error)]
    assert original in causes
    errors = [event for event in told if event.kind == "error"]
    assert [text in str(event.error) for event in errors] == [True]
    again: list[ag.AgentEvent] = []
    collect(again, drive, tmp_path / "x.db", shapes[shape], "events", "t")
    assert [event.error for event in again if event.kind == "error"] == [errors[0].error]


def test_an_exception_that_can_be_kept_stays_what_it_is():
    error = ValueError("no")
    assert mark_failure(error, "s/a", "a") is error
    assert mark_failure(error, "s", "s") is error
    assert failures(error) == [Failure("s/a", "ValueError('no')")]


def test_a_model_is_told_of_a_tool_that_failed_whatever_it_raised(drive):
    @tool
    def search(q: str) -> str:
        """Searches."""
        raise MuteError

    call = {"name": "search", "args": {"q": "bees"}, "id": "1"}
    model = scripted(AIMessage("", tool_calls=[call]), "Sorry.")
    events = list(drive.run(ag.Runner(ag.chat_agent("a", model, tools=[search])), "Go."))
    assert [event.text for event in events][1:] == [
        "Error: <MuteError, whose repr fails>\n Please fix your mistakes.",
        "Sorry.",
    ]


def test_a_check_that_raises_an_exception_without_a_text_sends_its_agent_back():
    def check(text: str) -> None:
        if text == "bad":
            raise MuteValueError

    events = list(ag.Runner(ag.validated(says("a", "bad", "good"), check)).run("Go."))
    assert [event.text for event in events if event.text in ("bad", "good")] == ["bad", "good"]


def test_an_outline_shows_what_is_no_agent():
    assert str(ag.sequential("s", [MUTE])) == "s (sequential)\n└─ <Mute, whose repr fails> (mute)"


def test_an_error_outside_every_agent_is_shown_too():
    def parts():
        raise MuteError
        yield

    told, _ = failing(ag.translate(says("a"), parts()), MuteError)
    assert [event.error for event in told] == ["<MuteError, whose repr fails>"]


def test_arguments_are_told_as_json_whatever_their_objects_do() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("it has no text")

        __repr__ = __str__

    loop: list[Any] = []
    loop.append(loop)
    assert as_json({"a": "é", "b": Odd()}) == '{"a": "é", "b": "<Odd, whose repr fails>"}'
    assert as_json({"a": "é"}, in_ascii=True) == '{"a": "\\u00e9"}'
    assert as_json(loop) == "[[...]]"
    assert as_json({(1, 2): 3}) == "{(1, 2): 3}"
