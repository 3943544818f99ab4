"""Answers: what names a question, what fits it, and what an edit of the state does to questions."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from helpers import Drive, ask_person, asks, chat, failing, fails, lines, says, unvoided, yields
from helpers.commands import wait_until
from helpers.forked import CONFIG, Thread
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.errors import UnknownInterruptError
from agentgraph.testing import call, calls

ThreadOf = Callable[[ag.Agent], Thread]


def form(**options: Any) -> ag.Agent:
    shows = ag.function_agent("shows", lambda ctx: repr(ctx.values["got"]))
    return ag.sequential("s", [asks("form", output_key="got", **options), shows])


def test_a_question_keeps_the_id_of_its_event_when_it_is_asked_again(drive: Drive) -> None:
    runner = ag.Runner(asks("boss"))
    (asked,) = drive.run(runner, "Go.", thread_id="t")
    (question,) = runner.pending("t")
    assert asked.action == ag.Action(interrupted=question)
    assert (asked.id, question.address, question.agent_name) == (question.id, "boss", "boss")
    void, again = drive.resume(runner, "t")
    assert void.action == ag.Action(discarded=(asked.id,))
    assert (again.id, again.action) == (asked.id, asked.action)
    assert list(runner.events("t")) == [again]
    (answer,) = drive.resume(runner, "t", "yes")
    assert isinstance(answer.message, HumanMessage)


DICTS = [{"decisions": [{"type": "approve"}]}, {"size": 3}, {"form": 1}, {}, {1: 2}]


@pytest.mark.parametrize("answer", [*DICTS, None, "", 0, False, []], ids=repr)
def test_an_answer_is_anything_that_cannot_name_a_question(thread_of: ThreadOf, answer: Any) -> None:
    thread = thread_of(form())
    thread.run()
    plain = {"1": 2} if answer == {1: 2} else answer
    assert thread.resume(answer)[-1] == repr(plain)
    thread.check_pending()


@pytest.mark.parametrize("key", ["s/from", "s/Form", "s/for"])
def test_a_near_miss_of_a_question_is_answered_by_its_address(key: str) -> None:
    runner = ag.Runner(form())
    runner.invoke("Go.", thread_id="t")
    (question,) = runner.pending("t")
    with pytest.raises(UnknownInterruptError) as caught:
        runner.invoke(thread_id="t", answers={key: "x"})
    assert str(caught.value) == (
        f"thread 't': the question {key!r} is not pending (was it answered already?); pending: s/form "
        f"({question.id}); did you mean 's/form'?"
    )
    assert runner.pending("t") == [question]


def test_a_near_miss_of_an_item_is_answered_by_its_address() -> None:
    runner = ag.Runner(ag.each("mail", asks("boss"), "names", key=str.lower))
    runner.invoke("Go.", thread_id="t", values={"names": ["Ann", "Bob"]})
    with pytest.raises(UnknownInterruptError, match=r"; did you mean 'mail/boss\(0:ann\)'\?$"):
        runner.invoke(thread_id="t", answers={"mail/bos(0)": "x"})
    with pytest.raises(UnknownInterruptError, match="to change an earlier answer"):
        runner.invoke(thread_id="t", answers={"boss": "x"})  # which of the two?


def test_the_name_of_an_agent_that_asks_is_answered_by_its_address() -> None:
    runner = ag.Runner(ag.parallel("p", [asks("a"), asks("b")]))
    runner.invoke("Go.", thread_id="t")
    with pytest.raises(UnknownInterruptError, match=r"; did you mean 'p/b'\?$"):
        runner.invoke(thread_id="t", answers={"b": "x"})


def test_the_name_of_the_only_agent_that_asks_is_answered_by_its_address(drive: Drive) -> None:
    runner = ag.Runner(form(response_schema={"enum": ["yes", "no"]}))
    list(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(UnknownInterruptError, match=r"; did you mean 's/form'\?$"):
        list(drive.resume(runner, "t", {"form": "yes"}))
    assert list(drive.resume(runner, "t", {"s/form": "yes"}))


@pytest.mark.parametrize("key", ["0" * 32, "s/shows", "s", "s/nobody", "s[1]/form", "s/form/more"])
def test_a_dict_with_an_id_or_an_address_holds_answers_by_name(thread_of: ThreadOf, key: str) -> None:
    thread = thread_of(form())
    thread.run()
    with pytest.raises(UnknownInterruptError, match=re.escape(f"the question '{key}' is not pending")):
        thread.resume({key: "x", "size": 3})
    assert thread.resume({"s/form": {"size": 3}})[-1] == "{'size': 3}"
    assert thread.resume({}) == thread.resume(None) == []
    with pytest.raises(UnknownInterruptError, match="the question 'size' is not pending"):
        thread.resume({"size": 3})


def test_a_key_that_is_nearly_the_name_of_the_only_question_is_no_answer(thread_of: ThreadOf) -> None:
    thread = thread_of(form())
    thread.run()
    (question,) = thread.pending()
    there = f"pending: s/form \\({question.id}\\)"
    changed = f"{question.id[:9]}o{question.id[10:]}"
    for key in (changed, question.id[:-1], f"{question.id} ", question.id.upper(), "t/form", "S/forn"):
        with pytest.raises(UnknownInterruptError, match=there):
            thread.resume({key: "x"})
    assert thread.pending() == [question]
    assert thread.resume({"a/b": "form"})[-1] == "{'a/b': 'form'}"


@pytest.mark.parametrize("key", ["0" * 32, "s/shows", "s/nobody", "form"])
def test_a_dict_that_fits_the_schema_of_the_only_question_is_the_answer(
    thread_of: ThreadOf, key: str
) -> None:
    thread = thread_of(form(response_schema={"type": "object"}))
    thread.run()
    assert thread.resume({key: "x"})[-1] == repr({key: "x"})


def test_a_dict_that_names_the_only_question_is_keyed_even_if_it_fits_its_schema(
    thread_of: ThreadOf,
) -> None:
    thread = thread_of(form(response_schema={"type": "object"}))
    thread.run()
    assert thread.resume({"s/form": {"size": 3}})[-1] == "{'size': 3}"


def test_a_watched_thread_takes_a_bare_dict_too() -> None:
    runner = ag.Runner(form())
    list(runner.run("Go.", thread_id="t"))
    assert ag.watch(runner, thread_id="t", answers={"size": 3}).text == "{'size': 3}"


def three() -> ag.Agent:
    lane = ag.sequential("q", [says("c"), asks("d")])
    return ag.sequential("s", [ag.parallel("p", [asks("a"), asks("b"), lane]), says("z")])


def test_questions_are_in_the_order_of_the_tree_and_answered_by_id_or_address(
    thread_of: ThreadOf,
) -> None:
    thread = thread_of(three())
    thread.run()
    _, b, d = thread.pending()
    thread.check_pending("s/p/a", "s/p/b", "s/p/q/d")
    assert sorted(thread.resume({})) == ["a?", "b?", "d?"]
    assert "3" in thread.resume({d.id: 3})
    thread.check_pending("s/p/a", "s/p/b")
    assert "null" in thread.resume({"s/p/a": None})
    assert thread.pending() == [b]
    assert thread.resume("x") == ["x", "z"]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            "x",
            "3 questions are pending; answer by id or address, as a dict: s/p/a ({a}), s/p/b",
        ),
        (
            {"s/p": 1},
            "the question 's/p' is not pending (was it answered already?); pending: s/p/a",
        ),
        ({"s/p/b": "x", "size": 1}, "the question 'size' is not pending"),
        (
            {"{a}": 1, "s/p/a": 1},
            "the question 's/p/a' is answered more than once; pending: s/p/a ({a}), ",
        ),
    ],
    ids=["bare, with several questions", "a composite", "an unknown name", "one by id and by address"],
)
def test_an_answer_without_its_question_is_refused_before_anything_runs(
    drive: Drive, answers: Any, message: str
) -> None:
    runner = ag.Runner(three())
    list(runner.run("Go.", thread_id="t"))
    before = runner.pending("t")
    ids = {question.agent_name: question.id for question in before}
    if isinstance(answers, dict):
        answers = {name.format(**ids): answer for name, answer in answers.items()}
    with pytest.raises(UnknownInterruptError) as caught:
        list(drive.resume(runner, "t", answers))
    assert str(caught.value).startswith(f"thread 't': {message.format(**ids)}")
    assert runner.pending("t") == before


class Verdict(BaseModel):
    ok: bool
    why: str = ""


@pytest.mark.parametrize(
    ("schema", "bad", "why", "good"),
    [
        (Verdict, {"ok": "maybe"}, "ok: Input should be a valid boolean", Verdict(ok=True)),
        ({"enum": ["yes", "no"]}, "perhaps", "must be one of ['yes', 'no']", "yes"),
        ({"type": "object", "required": ["size"]}, {"weight": 3}, "size: Field required", {"size": 3}),
    ],
    ids=["a pydantic model", "an enum", "a JSON schema"],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(
    thread_of: ThreadOf, schema: Any, bad: Any, why: str, good: Any
) -> None:
    thread = thread_of(asks("boss", response_schema=schema))
    thread.run()
    (question,) = thread.pending()
    with pytest.raises(ag.InvalidAnswerError) as caught:
        thread.resume(bad)
    assert str(caught.value) == (
        f"the answer {bad!r} to boss does not fit: {why}; the question is still pending, answer it "
        f"again to fit {question.response_schema}"
    )
    assert thread.pending() == [question]
    thread.resume(good)
    thread.check_pending()


def test_an_answer_that_langgraph_was_given_is_asked_for_until_it_fits(drive: Drive) -> None:
    runner = ag.Runner(asks("a", response_schema=bool))
    list(drive.run(runner, "Go.", thread_id="t"))
    runner.graph.invoke(Command(resume="perhaps"), CONFIG)
    assert [question.address for question in runner.pending("t")] == ["a"]
    assert lines(drive.resume(runner, "t", True)) == ["a: true"]


def test_new_input_is_refused_while_a_question_is_pending_unless_it_is_dropped(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), asks("b")]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    (question,) = runner.pending("t")
    with pytest.raises(ag.PendingInterruptError) as caught:
        list(drive.run(runner, "Again.", thread_id="t"))
    assert str(caught.value) == (
        f"thread 't' waits for answers to s/b ({question.id}); answer them with resume(), or run with "
        "drop_pending=True to drop them"
    )
    events += drive.run(runner, "Again.", thread_id="t", drop_pending=True)
    assert lines(events)[2:] == ["s: [discarded]", "s/a: a", "s/b: [asks] Well?"]
    assert runner.pending("t")[0].id != question.id
    assert list(runner.events("t")) == unvoided(events)


def test_a_turn_that_is_closed_as_it_drops_a_question_leaves_it_pending(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [asks("h"), says("z")]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    events.append(next(drive.run(runner, "Again.", thread_id="t", drop_pending=True)))
    assert events[-1].kind == "discarded"
    events += drive.resume(runner, "t", "yes")
    assert unvoided(events) == list(runner.events("t"))
    assert lines(unvoided(events)) == ["s/h: [asks] Well?", "s/h: yes", "s/z: z"]


def test_an_answer_counts_even_if_another_branch_fails_at_once(drive: Drive) -> None:
    """The other branch fails first when the question is pending, then while its answer is used."""
    waits = ag.function_agent("waits", lambda ctx: wait_until(lambda: runner.pending("t")))
    other = ag.sequential("y", [waits, fails("c", 2)])
    tree = ag.parallel("p", [other, ag.sequential("x", [asks("h"), says("b")])])
    runner = ag.Runner(tree)
    failing(drive.run(runner, "Go.", thread_id="t"), ValueError)
    failing(drive.resume(runner, "t", "yes"), ValueError)
    assert runner.pending("t") == []
    list(drive.resume(runner, "t"))
    assert sorted(event.text for event in runner.events("t") if event.message) == ["b", "c", "yes"]


@pytest.mark.parametrize("at_once", [None, 1])
def test_answers_that_were_not_taken_when_a_sibling_failed_are_kept(
    thread_of: ThreadOf, at_once: int | None
) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("ask", lambda state: {"messages": [("ai", f"{interrupt('Sure?')}!")]})
    builder.add_edge(START, "ask")
    graph = ag.graph_agent("graph", builder.compile())
    first = yields("first", [ag.Ask("First?")], [ValueError("late")], ["done"])
    inner = ag.parallel("inner", [asks("h"), graph])
    thread = thread_of(ag.parallel("p", [first, inner], max_concurrency=at_once))
    thread.run()
    thread.check_pending("p/first", "p/inner/h", "p/inner/graph")
    with pytest.raises(ValueError, match="late"):
        thread.resume({"p/first": "a", "p/inner/h": "b", "p/inner/graph": "c"})
    assert thread.pending() == []
    thread.resume()
    said = sorted(each.text for each in thread.events() if each.message)
    assert said == ["b", "c!", "done"]


def test_a_question_of_a_tool_beside_a_failure_is_asked_again(thread_of: ThreadOf) -> None:
    made = calls(call("ask_person", what="Well?"), call("f", request="x"))
    tools = [ask_person, ag.agent_tool(fails("f", 2))]
    boss = chat("boss", made, "Done.", tools=tools, on_tool_error="raise")
    thread = thread_of(ag.parallel("p", [boss, says("b")]))
    for attempt in (thread.run, thread.resume):
        with pytest.raises(ValueError, match="f failed"):
            attempt()
    thread.resume()
    thread.check_pending("p/boss")
    thread.resume("Yes.")
    assert [event.address for event in thread.events() if event.kind == "interrupted"] == ["p/boss"]
    assert thread.lines()[-1] == "Done."


# Questions after an edit of the state, as an operator or Studio makes it.


def approved(ctx: ag.Context) -> Any:
    return ctx.answer if ctx.answered else ag.Ask("Sure?", response_schema={"enum": ["yes", "no"]})


def graph() -> ag.Agent:
    builder = StateGraph(MessagesState)
    builder.add_node("one", lambda state: {"messages": [("ai", interrupt("Well?"))]})
    builder.add_edge(START, "one")
    return ag.graph_agent("boss", builder.compile())


OF_THE_ROOT: dict[str, Callable[[], ag.Agent]] = {
    "a person": lambda: asks("boss", response_schema={"enum": ["yes", "no"]}),
    "a function's Ask": lambda: ag.function_agent("boss", approved),
    "a function's interrupt": lambda: ag.function_agent("boss", lambda ctx: ask_person("Well?")),
    "a tool": lambda: chat(
        "boss", calls(call("ask_person", what="Sure?")), "Done.", tools=[ask_person]
    ),
}
INSIDE: dict[str, Callable[[], ag.Agent]] = {
    "a graph": graph,
    "a branch": lambda: ag.parallel("boss", [asks("h"), says("other")]),
    "an agent as a tool": lambda: chat(
        "boss", calls(call("h", request="x")), "Done.", tools=[ag.agent_tool(asks("h"))]
    ),
}
UPDATES = {"values": {"values": {"k": 1}}, "messages": {"messages": [("user", "By the way.")]}}
edited = pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)


def around(agent: ag.Agent) -> ag.Agent:
    return ag.sequential("s", [says("a"), agent, says("z")])


@edited
@pytest.mark.parametrize("by", ["bare", "id", "address", "id, asked again"])
@pytest.mark.parametrize("asker", OF_THE_ROOT.values(), ids=OF_THE_ROOT)
@pytest.mark.by_turns("thread_of")
def test_after_an_edit_a_question_is_pending_under_a_new_id(
    thread_of: ThreadOf, asker: Any, by: str, update: Any
) -> None:
    thread = thread_of(around(asker()))
    thread.run()
    (before,) = thread.pending()
    thread.edit(CONFIG, update)
    (after,) = thread.pending()
    assert after == replace(before, id=after.id)
    if before.response_schema:
        with pytest.raises(ag.InvalidAnswerError):
            thread.resume("perhaps")
    with pytest.raises(UnknownInterruptError, match="is not pending"):
        thread.resume({before.id: "yes"})
    if by == "id, asked again":
        thread.resume()
        assert thread.pending() == [after]
    answers: dict[str, Any] = {"bare": "yes", "address": {"s/boss": "yes"}}
    answered = thread.resume(answers.get(by, {after.id: "yes"}))
    assert answered[-1] == "z"
    assert {"yes", "boss?"} & {*answered} == {"yes"}
    thread.check_pending()


@edited
@pytest.mark.parametrize("asker", INSIDE.values(), ids=INSIDE)
def test_after_an_edit_the_only_question_inside_takes_an_answer_that_langgraph_cannot_misread(
    thread_of: ThreadOf, asker: Any, update: Any
) -> None:
    thread = thread_of(around(asker()))
    thread.run()
    (asked,) = thread.pending()
    thread.edit(CONFIG, update)
    for misread in (None, {}, {"0" * 32: 1}):
        with pytest.raises(UnknownInterruptError, match="the state was edited"):
            thread.resume({asked.address: misread})
    assert [question.address for question in thread.pending()] == [asked.address]
    answered = thread.resume("yes")
    assert answered[-1] == "z"
    assert not any(line.endswith("?") for line in answered)


def test_after_an_edit_new_input_is_refused(thread_of: ThreadOf) -> None:
    thread = thread_of(around(ag.parallel("p", [says("b"), asks("boss")])))
    thread.run()
    thread.edit(CONFIG)
    with pytest.raises(ag.PendingInterruptError, match="s/p/boss"):
        thread.run()


@pytest.mark.parametrize("how", ["by an older checkpoint", "bare", "by address", "by id"])
def test_what_an_error_advises_for_an_answered_question_hears_another_answer(
    drive: Drive, how: str
) -> None:
    runner = ag.Runner(
        ag.sequential("s", [asks("h"), ag.function_agent("z", lambda c: c.messages[-1])])
    )
    list(drive.run(runner, "Go.", thread_id="t"))
    (question,) = runner.pending("t")
    paused = runner.graph.get_state({"configurable": {"thread_id": "t"}}).config
    list(drive.resume(runner, "t", "first"))
    answers: Any = {"by address": {"s/h": "second"}, "by id": {question.id: "second"}}.get(
        how, "second"
    )
    config = paused if how == "by an older checkpoint" else None
    with pytest.raises(ag.AgentGraphError, match=re.escape("rewind(thread_id, ")):
        list(drive.resume(runner, "t", answers, config=config))
    assert [each.address for each in runner.visits("t")] == ["s/h", "s/z"]
    assert [each.text for each in runner.rewind("t", "s/h", answers="second")][-1] == "second"
