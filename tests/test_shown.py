"""Values and exceptions in messages: a message never fails because of what it shows."""

import dataclasses
from typing import Any

import pytest
from helpers import Drive, Session, chat, failing, says, scripted, texts
from hypothesis import given
from hypothesis import strategies as st

import agentgraph as ag
from agentgraph.graph.failures import Failure, failures, mark_failure
from agentgraph.safe_repr import LONGEST, as_json, error_text, shown
from agentgraph.testing import call, calls

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.sets(st.integers())
    ),
)


def not_shown(self: object) -> str:
    raise RuntimeError("not shown")


class Mute:
    __repr__ = __str__ = not_shown


class MuteValueError(ValueError):
    __str__ = not_shown


class MuteError(Exception):
    __repr__ = __str__ = not_shown


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    code: int


MUTE = Mute()
SHOWN = "<Mute, whose repr fails>"


@given(DATA)
def test_an_ordinary_value_is_shown_as_its_repr_and_cut_where_it_is_long(value: Any) -> None:
    text = repr(value)
    assert shown(value, longest=len(text)) == text
    assert shown(value, longest=len(text) - 1) == text[:-1] + "…"


def test_a_value_without_a_repr_is_shown_by_its_type() -> None:
    assert (shown(MUTE), shown([1, MUTE])) == (SHOWN, "<list, whose repr fails>")
    assert (error_text(KeyError()), error_text(MuteError())) == (
        "KeyError()",
        "<MuteError, whose repr fails>",
    )
    assert repr(ag.Ask(MUTE)) == f"Ask(value={SHOWN}, response_schema=None)"
    assert repr(ag.Custom({"n": 1})) == "Custom(data={'n': 1})"
    assert repr(ag.SetValues(n=MUTE)) == f"SetValues(n={SHOWN})"
    assert str(ag.sequential("s", [MUTE])) == f"s (sequential)\n└─ {SHOWN} (mute)"


def test_a_value_inside_itself_a_deep_one_and_a_huge_one_are_shown() -> None:
    outer: list[Any] = [1]
    outer.append({"outer": outer})
    assert shown(outer) == repr(outer) == "[1, {'outer': [...]}]"
    for _ in range(100_000):
        outer = [outer]
    assert shown(outer) == "[" * LONGEST + "…"
    million = ["x" * 1_000_000]
    assert len(shown([million] * 1_000_000)) == LONGEST + 1


def test_lone_surrogates_can_be_written() -> None:
    odd = type("Odd", (), {"__repr__": lambda self: "odd \ud800"})()
    assert shown(odd) == "odd \\ud800"
    assert error_text(ValueError("odd \ud800")) == "odd \\ud800"


def test_arguments_are_shown_as_json_whatever_their_objects_do() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert as_json({"a": "é", "b": MUTE}) == f'{{"a": "é", "b": "{SHOWN}"}}'
    assert as_json({"a": "é"}, in_ascii=True) == '{"a": "\\u00e9"}'
    assert as_json(loop) == "[[...]]"
    assert as_json({(1, 2): 3}) == "{(1, 2): 3}"


OPTIONS_OF_A_CHAT_AGENT: list[dict[str, Any]] = [
    {name: MUTE}
    for name in (
        *("instruction", "history", "max_iterations", "on_tool_error", "model_input", "retry"),
        *("timeout", "output_schema"),
    )
]
FAULTY = [
    MUTE,
    ag.chat_agent(MUTE, scripted("a")),
    ag.chat_agent("a", MUTE),
    chat("a", tools=[MUTE]),
    *(chat("a", **options) for options in OPTIONS_OF_A_CHAT_AGENT),
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
def test_a_fault_of_a_tree_is_named_whatever_it_shows(tree: ag.Agent) -> None:
    with pytest.raises(ag.InvalidAgentError, match=SHOWN):
        ag.Runner(tree)


def test_wrong_input_and_answers_are_refused_whatever_they_are() -> None:
    runner = ag.Runner(ag.human("boss", "?"))
    list(runner.run("Go.", thread_id="t"))
    refused = {
        lambda: runner.run(MUTE): SHOWN,
        lambda: runner.run("Go.", values=MUTE): SHOWN,
        lambda: ag.watch(runner, "Go.", answers=MUTE): SHOWN,
        lambda: runner.resume("t", MUTE): f"the answer {SHOWN} .* it has no JSON form",
        lambda: runner.resume("t", {MUTE: 1}): "the answer <dict, whose repr fails> .* no JSON form",
    }
    for act, message in refused.items():
        with pytest.raises(ag.AgentGraphError, match=message):
            act()


def test_what_a_function_must_not_give_is_named_whatever_it_is(drive: Drive) -> None:
    runner = ag.Runner(ag.function_agent("a", lambda ctx: MUTE))
    _, error = failing(drive.run(runner, "Go."), ag.InvalidOutputError)
    assert f"a: the function returned {SHOWN}" in str(error)


UNTRAVELLED = [(MuteError(), "<MuteError, whose repr fails>"), (FrozenError(7), "FrozenError(code=7)")]


@pytest.mark.parametrize(("original", "text"), UNTRAVELLED, ids=["mute", "frozen"])
@pytest.mark.parametrize("shape", ["leaf", "branch", "loop", "step"])
def test_an_exception_that_cannot_be_kept_is_reported_and_is_the_cause(
    drive: Drive, tmp_path: Any, original: Exception, text: str, shape: str
) -> None:
    def fails(ctx: ag.Context) -> str:
        raise original

    leaf = ag.function_agent("a", fails)
    shapes = {
        "leaf": leaf,
        "branch": ag.parallel("p", [leaf, says("b")]),
        "loop": ag.loop("l", [says("b")], max_iterations=2, until=fails),
        "step": ag.workflow("w", [ag.step(leaf)]),
    }
    session, events = Session(shapes[shape], drive, tmp_path / "x.db"), list[ag.AgentEvent]()
    with pytest.raises(ag.AgentGraphError) as caught:
        session.follow("run", "Go.", thread_id="t", hear=events.append)
    assert f"{text} was raised, which cannot be saved" in str(caught.value)
    causes = [error := caught.value, *(error := error.__cause__ for _ in range(2) if error)]
    assert original in causes
    errors = [event.error for event in events if event.kind == "error"]
    assert [text in str(error) for error in errors] == [True]
    assert [event.error for event in session.events() if event.kind == "error"] == errors


def test_an_exception_that_can_be_kept_stays_what_it_is() -> None:
    error = ValueError("no")
    assert mark_failure(error, "s/a", "a") is error
    assert mark_failure(error, "s", "s") is error
    assert failures(error) == [Failure("s/a", "ValueError('no')")]


def test_a_model_is_shown_that_a_tool_failed_whatever_it_raised(drive: Drive) -> None:
    def search(q: str) -> str:
        """Search."""
        raise MuteError

    writer = chat("a", calls(call("search", q="bees")), "Sorry.", tools=[search])
    messages = [event.message for event in drive.run(ag.Runner(writer), "Go.") if event.message]
    assert texts(messages)[1:] == [
        "tool: Error: <MuteError, whose repr fails>\n Please fix your mistakes.",
        "ai: Sorry.",
    ]


def test_a_check_that_raises_an_exception_without_a_text_sends_its_agent_back() -> None:
    def check(text: str) -> None:
        if text == "bad":
            raise MuteValueError

    events = list(ag.Runner(ag.validated(says("a", "bad", "good"), check)).run("Go."))
    assert [event.text for event in events if event.text in ("bad", "good")] == ["bad", "good"]


def test_an_error_outside_every_agent_is_shown_too() -> None:
    def parts() -> Any:
        raise MuteError
        yield

    events, _ = failing(ag.translate(says("a"), parts()), MuteError)
    assert [event.error for event in events] == ["<MuteError, whose repr fails>"]
