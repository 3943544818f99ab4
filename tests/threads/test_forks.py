"""Copies up to a visit, and variants of what came after it."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from helpers.failing_savers import Failing
from helpers.sampling import ALL_WAYS

import agentgraph as ag
from agentgraph.journal.locks import ThreadLock
from agentgraph.testing import ScriptedChatModel

RAN: Counter[str] = Counter()
TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    RAN.clear()
    TENANT.set("nobody")


def says(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        RAN[name] += 1
        return f"{name} {ctx.values.get('mood', '-')}"

    return ag.function_agent(name, fn, output_key=f"by_{name}")


def fails_if_bad(ctx: ag.Context) -> str:
    RAN["judge"] += 1
    if ctx.values.get("mood") == "bad":
        raise ValueError("bad")
    return f"{TENANT.get()} {ctx.values.get('mood', '-')}"


def tree() -> ag.Agent:
    judge = ag.function_agent("judge", fails_if_bad)
    return ag.sequential(
        "s",
        [says("a"), ag.parallel("p", [ag.sequential("x", [says("b"), judge]), says("c")]), says("z")],
    )


VARIANTS: dict[str, dict[str, Any]] = {
    "glad": {"values": {"mood": "glad"}},
    "bad": {"values": {"mood": "bad"}},
    "told": {"messages": "Be kind."},
    "anew": {"siblings": "rerun"},
}


def forked(runner: ag.Runner, mode: str, **variants: Any) -> ag.Forks:
    at = "s/p/x/judge"
    if mode == "async":
        return asyncio.run(runner.afork_many("t", at, variants))
    return runner.fork_many("t", at, variants)


@pytest.fixture(params=["memory", "file"])
def runner(request: Any, tmp_path: Path) -> Any:
    path = tmp_path / "t.db" if request.param == "file" else None
    with ag.Runner(tree(), checkpointer=path) as made:
        made.invoke("Go.", thread_id="t")
        yield made


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_variants_run_what_came_after_and_nothing_else(runner: ag.Runner, mode: str) -> None:
    before = list(runner.events("t"))
    RAN.clear()
    TENANT.set("me")
    forks = forked(runner, mode, **VARIANTS)
    assert {name: each.status for name, each in forks.items()} == {
        "glad": "done",
        "bad": "failed",
        "told": "done",
        "anew": "done",
    }
    assert RAN == {"judge": 4, "z": 3, "c": 1}
    assert forks["glad"].text == "z glad"
    assert repr(forks["bad"].error) == "ValueError('bad')"
    texts = [event.text for event in runner.events("t-glad")]
    assert sorted(texts) == ["a -", "b -", "c -", "me glad", "z glad"]
    assert "Be kind." in [message.text for message in runner.thread("t-told").messages]
    assert list(runner.events("t")) == before
    assert {each.thread_id for each in runner.threads()} == {"t", *(f"t-{name}" for name in VARIANTS)}


def test_a_failed_variant_can_go_back_again(runner: ag.Runner) -> None:
    runner.fork_many("t", "s/p/x/judge", {"bad": VARIANTS["bad"]})
    with pytest.raises(ValueError, match="bad"):
        runner.invoke(thread_id="t-bad")
    events = list(runner.rewind("t-bad", "s/p/x/judge", values={"mood": "well"}))
    assert events[-1].text == "z well"


def test_they_show_themselves_as_a_table(runner: ag.Runner) -> None:
    forks = runner.fork_many("t", "s/z", {"glad": VARIANTS["glad"], "<b>": {"values": {"mood": "<i>"}}})
    assert [row["by_z"] for row in forks.rows] == ["z glad", "z <i>"]
    assert {row["steps kept"] for row in forks.rows} == {"5"}
    first, *rest = repr(forks).splitlines()
    assert first.split() == [
        "variant",
        "status",
        "text",
        "mood",
        "by_z",
        "tokens",
        "steps",
        "run",
        "steps",
        "kept",
    ]
    assert len(rest) == len(forks) == 2
    assert "<td>z &lt;i&gt;</td>" in forks._repr_html_()


def test_a_variant_may_have_a_tree_and_a_saver_of_its_own(tmp_path: Path) -> None:
    def writes(text: str) -> ag.Agent:
        model = ScriptedChatModel(responses=[text])
        return ag.sequential("s", [says("a"), ag.chat_agent("w", model)])

    runner = ag.Runner(writes("One."))
    runner.invoke("Go.", thread_id="t")
    with ag.Runner(writes("Two."), checkpointer=tmp_path / "t.db") as other:
        forks = runner.fork_many("t", "s/w", {"other": {"runner": other}})
        assert (forks["other"].text, other.threads()[0].thread_id) == ("Two.", "t-other")
    assert RAN == {"a": 1}
    assert [each.thread_id for each in runner.threads()] == ["t"]


def test_no_variants_give_nothing(runner: ag.Runner) -> None:
    forks = runner.fork_many("t", "s/z", {})
    assert (dict(forks), repr(forks)) == ({}, "")


@pytest.mark.parametrize(
    ("at", "variants", "kind", "text"),
    [
        ("s/z", {"x": {"nope": 1}}, ag.AgentGraphError, "'nope' is not an argument of a variant"),
        ("s/z", {"x": 3}, ag.AgentGraphError, "variant 'x': 3"),
        ("s/z", ["x"], ag.AgentGraphError, "not a mapping of names to arguments"),
        ("s/z", {"x": {"runner": 3}}, ag.AgentGraphError, "runner=3 is not a Runner"),
        ("s/z", {"x": {}, "y": {"siblings": "all"}}, ag.AgentGraphError, "siblings='all'"),
        ("s/q", {"x": {}}, ag.UnknownAddressError, "has not visited 's/q'"),
        ("s/z", {"there": {}}, ag.ThreadError, "'t-there' exists already"),
    ],
)
def test_what_cannot_be_is_refused_and_copies_nothing(
    runner: ag.Runner, at: str, variants: Any, kind: type[Exception], text: str
) -> None:
    runner.copy("t", "t-there")
    with pytest.raises(kind, match=text):
        runner.fork_many("t", at, variants)
    assert {each.thread_id for each in runner.threads()} == {"t", "t-there"}


@pytest.mark.parametrize("many", [0, -1, "2"])
def test_how_many_run_at_a_time_is_a_number_from_1_on(runner: ag.Runner, many: Any) -> None:
    with pytest.raises(ag.AgentGraphError, match="max_concurrency"):
        runner.fork_many("t", "s/z", {"x": {}}, max_concurrency=many)
    with pytest.raises(ag.AgentGraphError, match="max_concurrency"):
        asyncio.run(runner.afork_many("t", "s/z", {"x": {}}, max_concurrency=many))
    assert [each.thread_id for each in runner.threads()] == ["t"]


def test_a_variant_that_needs_the_other_methods_is_refused_and_copies_nothing(
    runner: ag.Runner,
) -> None:
    timed = ag.function_agent("z", lambda ctx: "z", timeout=60)
    only_async = ag.Runner(ag.sequential("s", [says("a"), timed]), checkpointer=runner.saver)
    with pytest.raises(ag.AgentGraphError, match="timeout= needs afork_many"):
        runner.fork_many("t", "s/z", {"same": {}, "x": {"runner": only_async}})
    assert [each.thread_id for each in runner.threads()] == ["t"]


def test_a_copy_up_to_a_visit_has_what_came_before_under_its_ids(runner: ag.Runner) -> None:
    runner.copy("t", "u", at="s/p/x/judge")
    assert runner.thread("u").status == "stopped"
    before = {event.id: event for event in runner.events("t")}
    copied = list(runner.events("u"))
    assert sorted(event.text for event in copied) == ["a -", "b -", "c -"]
    assert all(before[event.id].step == event.step for event in copied)
    RAN.clear()
    assert runner.invoke(thread_id="u").text == "z -"
    assert RAN == {"judge": 1, "z": 1}
    runner.rewind("u", "s/p/x/b").close()
    assert [visit.address for visit in runner.visits("u")][-1] == "s/z"


def test_a_copy_up_to_a_visit_of_an_earlier_turn_has_no_later_one(runner: ag.Runner) -> None:
    runner.invoke("Again.", thread_id="t")
    runner.copy("t", "u", at="s/z", turn=0)
    assert [turn.messages[0].text for turn in runner.thread("u").turns] == ["Go."]
    asyncio.run(runner.acopy("t", "v", at="s/z"))
    assert [turn.messages[0].text for turn in runner.thread("v").turns] == ["Go.", "Again."]
    with pytest.raises(ag.ThreadError, match="'u' exists already"):
        runner.copy("t", "u", at="s/z")
    with pytest.raises(ag.UnknownAddressError):
        runner.copy("t", "w", at="s/nowhere")


class Killed(Failing):
    """A saver whose process is killed when it fails: nothing tidies up."""

    def delete_thread(self, thread_id: str) -> None:
        pass


@pytest.mark.by_turns  # so that `make properties` cuts it short at each save
@pytest.mark.parametrize("at", [None, "s/p/x/judge"])
def test_a_copy_that_is_cut_short_anywhere_is_completed_by_the_same_copy(at: str | None) -> None:
    for saves in range(0, 200, 1 if ALL_WAYS else 5):
        runner = ag.Runner(tree(), checkpointer=(saver := Killed()))
        runner.invoke("Go.", thread_id="t")
        runner.invoke("Again.", thread_id="t")
        runner.copy("t", "whole", at=at)
        saver.left = saves
        try:
            runner.copy("t", "u", at=at)
        except ag.SaverError:
            assert saver.left is None
            if "u" in [each.thread_id for each in runner.threads()]:
                for method in (
                    runner.thread,
                    runner.resume,
                    runner.events,
                    runner.pending,
                    runner.visits,
                ):
                    with pytest.raises(ag.ThreadError, match="copy that was cut short; make the same"):
                        method("u")
                with pytest.raises(ag.ThreadError, match="copy that was cut short; make the same"):
                    runner.run("Go.", thread_id="u")
            runner.copy("t", "u", at=at)
            has_failed = True
        else:
            has_failed, saver.left = False, None
        assert shown(runner.events("u")) == shown(runner.events("whole"))
        assert shown(runner.resume("u")) == shown(runner.resume("whole"))
        if not has_failed:
            assert saves > 5
            with pytest.raises(ag.ThreadError, match="'u' exists already"):
                runner.copy("t", "u", at=at)
            return
    raise AssertionError("there is no end to the saves")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_who_copies_to_the_thread_of_a_variant_at_once_is_refused(runner: ag.Runner, mode: str) -> None:
    other = ThreadLock(runner.saver, "t-glad")
    other.acquire()
    with pytest.raises(ag.ThreadBusyError, match="t-glad"):
        forked(runner, mode, glad=VARIANTS["glad"])
    assert [each.thread_id for each in runner.threads()] == ["t"]
    other.release()
    assert forked(runner, mode, glad=VARIANTS["glad"])["glad"].status == "done"


def test_a_copy_goes_back_and_is_copied_as_any_thread(runner: ag.Runner) -> None:
    runner.copy("t", "u")
    assert shown(runner.rewind("u", "s/z"))[-1] == "s/z: z -"
    runner.copy("u", "v", at="s/p")
    assert runner.thread("v").status == "stopped"
    assert shown(runner.resume("v"))[-1] == "s/z: z -"


def shown(events: Iterable[ag.AgentEvent]) -> list[str]:
    return [f"{event.address}: {event.text}" for event in events]


def test_a_saver_that_fails_at_any_save_of_a_fork_loses_nothing() -> None:
    for saves in range(100):
        runner = ag.Runner(tree(), checkpointer=(saver := Failing()))
        runner.invoke("Go.", thread_id="t")
        before, saver.left = list(runner.events("t")), saves
        RAN.clear()
        try:
            forks = runner.fork_many("t", "s/p/x/judge", {"glad": VARIANTS["glad"]})
        except ag.SaverError:  # while it was copied
            assert saver.left is None
            assert [each.thread_id for each in runner.threads()] == ["t"]
            assert not RAN
        else:
            has_failed, saver.left = saver.left is None, None
            error = forks["glad"].error  # none if only the mark of what was heard was not saved
            assert error is None or (has_failed and isinstance(error, ag.SaverError))
            if not has_failed:
                assert saves > 5
                return
            runner.invoke(thread_id="t-glad")
        assert list(runner.events("t")) == before
        if runner.thread("t-glad").status != "new":
            texts = sorted(event.text for event in runner.events("t-glad"))
            assert texts == ["a -", "b -", "c -", "nobody glad", "z glad"]
    raise AssertionError("there is no end to the saves")
