"""Savers that lose what runs rely on are refused, before an answer is taken or a branch runs again."""

import json
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, Sync, asks, failing, fails, says
from helpers.lossy_savers import LosingSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Interrupt

import agentgraph as ag
from agentgraph.graph.internals import INTERRUPT, RETURN
from agentgraph.journal.savers import known
from agentgraph.journal.savers.known import Fitness

BRANCHES = ag.parallel("p", [says("a", "One."), asks("h")])


class Changing(InMemorySaver):
    """A saver that changes the writes that it returns."""

    def change(self, write: Any) -> Any:
        return write

    def get_tuple(self, config: Any) -> Any:
        saved = super().get_tuple(config)
        if saved is None:
            return None
        changed = map(self.change, saved.pending_writes or ())
        return saved._replace(pending_writes=[each for each in changed if each])

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)


class NoQuestions(Changing):
    def change(self, write: Any) -> Any:
        return None if write[1] == INTERRUPT else write


class NoValues(Changing):
    def change(self, write: Any) -> Any:
        task, channel, value = write
        if channel == INTERRUPT:
            value = [Interrupt(None, one.id, response_schema=one.response_schema) for one in value]
        return task, channel, value


class NewIds(Changing):
    def change(self, write: Any) -> Any:
        task, channel, value = write
        return task, channel, [Interrupt(one.value) for one in value] if channel == INTERRUPT else value


class NoResults(Changing):
    def change(self, write: Any) -> Any:
        return None if write[1] == RETURN else write


class CutResults(Changing):
    def change(self, write: Any) -> Any:
        task, channel, value = write
        if channel == RETURN:
            value = {key: each for key, each in value.items() if key != "position"}
        return task, channel, value


class NoWrites(Changing):
    def put_writes(self, *args: Any, **options: Any) -> None:
        pass


class Subclass(InMemorySaver):
    """A saver that is not known, and keeps all.

    Attributes:
        reads: Number of reads.
    """

    reads = 0

    def get_tuple(self, config: Any) -> Any:
        self.reads += 1
        return super().get_tuple(config)


LOSING: dict[type[Changing], str] = {
    NoQuestions: "a question",
    NoValues: "a question's value",
    NewIds: "a question's id",
    NoResults: "the result of a branch",
    CutResults: "the result of a branch's 'position'",
    NoWrites: "a question",
}


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize("saver", LOSING)
def test_a_saver_that_loses_a_question_or_a_result_is_refused_in_its_first_run(
    saver: type[Changing], drive: Drive
) -> None:
    runner = ag.Runner(BRANCHES, checkpointer=saver())
    _, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.UnfitSaverError)
    assert f"{saver.__name__}: the saver lost {LOSING[saver]}" in str(error)
    assert "what works: " in str(error)


def test_a_question_of_the_root_is_read_back_too() -> None:
    with pytest.raises(ag.UnfitSaverError):
        ag.Runner(asks("h"), checkpointer=NoQuestions()).invoke("Go.", thread_id="t")


def test_a_lost_result_is_noticed_when_a_sibling_fails() -> None:
    tree = ag.parallel("p", [says("a", "One."), fails("b")], on_error="wait")
    _, error = failing(
        ag.Runner(tree, checkpointer=NoResults()).run("Go.", thread_id="t"), ag.UnfitSaverError
    )
    assert isinstance(error.__context__, ValueError)


def test_a_lost_result_is_noticed_in_a_run_that_ends_well() -> None:
    tree = ag.parallel("p", [says("a", "One."), says("b", "Two.")])
    with pytest.raises(ag.UnfitSaverError):
        ag.Runner(tree, checkpointer=NoResults()).invoke("Go.", thread_id="t")


def test_a_saver_without_questions_or_branches_is_not_checked() -> None:
    assert ag.Runner(says("a", "One."), checkpointer=NoQuestions()).invoke("Go.").text == "One."


@pytest.mark.parametrize("saver", LOSING)
def test_a_runner_may_warn_in_the_place_of_an_error(saver: type[Changing]) -> None:
    runner = ag.Runner(BRANCHES, checkpointer=saver(), unfit="warn")
    with pytest.warns(UserWarning, match=saver.__name__):
        runner.invoke("Go.", thread_id="t")


@pytest.mark.parametrize("make", [Subclass, LosingSaver])
@pytest.mark.parametrize("drive", [Sync, Async])
def test_a_saver_that_keeps_all_is_not_refused(drive: Drive, make: Callable[[], Any]) -> None:
    runner = ag.Runner(BRANCHES, checkpointer=make())
    [*drive.run(runner, "Go.", thread_id="t")]
    assert [each.text for each in drive.resume(runner, "t", "yes")][-1] == "yes"


def test_a_runner_reads_back_once() -> None:
    def reads(saver: Subclass, runner: ag.Runner, thread_id: str) -> int:
        before = saver.reads
        runner.invoke("Go.", thread_id=thread_id)
        return saver.reads - before

    saver = Subclass()
    runner = ag.Runner(BRANCHES, checkpointer=saver)
    assert reads(saver, runner, "1") == reads(saver, runner, "2") + 2


def test_langgraphs_savers_are_known_and_not_checked(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver, ag.sqlite_saver(tmp_path / "x.db") as ours:
        for each in (InMemorySaver(), saver, ours, None):
            assert ag.Runner(BRANCHES, checkpointer=each).engine.fitness == Fitness()


def test_a_runner_that_is_made_calls_no_saver() -> None:
    class Untouched(InMemorySaver):
        def __getattribute__(self, name: str) -> Any:
            called = {"get_tuple", "put", "put_writes", "list", "delete_thread"}
            if name.removeprefix("a") in called:
                raise AssertionError(name)
            return super().__getattribute__(name)

    ag.Runner(BRANCHES, checkpointer=Untouched())


def test_a_compiled_graph_is_not_checked() -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    graph = ag.compile_agent(BRANCHES, checkpointer=NoQuestions())
    assert "__interrupt__" in graph.invoke({"messages": [("user", "Go.")]}, config)


def test_unfit_is_one_of_two_words() -> None:
    with pytest.raises(ag.AgentGraphError, match="unfit='ignore' is not known; pass 'refuse'"):
        ag.Runner(BRANCHES, unfit="ignore")  # type: ignore[arg-type]


def known_as(
    results: dict[str, str | None], *, package: str = "", number: str = ""
) -> known.KnownSaver:
    package = package or "langgraph-checkpoint"
    name = f"{Subclass.__module__}.{Subclass.__qualname__}"
    return known.KnownSaver(name, package, number or version(package), "in memory", results)


@pytest.fixture
def knows(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def know(*several: known.KnownSaver) -> None:
        monkeypatch.setattr(known, "known_savers", lambda: several)

    return know


def test_a_saver_that_is_known_to_lose_questions_is_refused_before_anything_runs(
    knows: Callable[..., None],
) -> None:
    knows(known_as({"answers": "questions have no ids", "types": "", "copy": "", "kill": None}))
    with pytest.raises(ag.UnfitSaverError) as caught:
        ag.Runner(BRANCHES, checkpointer=Subclass())
    number = version("langgraph-checkpoint")
    assert str(caught.value) == (
        f"checkpointer=Subclass: runs on Subclass of langgraph-checkpoint {number} are wrong (answers: "
        "questions have no ids); what works: types, copy; use another saver, such as "
        "ag.sqlite_saver(path), or pass unfit='warn' to the Runner"
    )
    assert (caught.value.missing, caught.value.works) == (["answers"], ["types", "copy"])
    assert caught.value.package == ("langgraph-checkpoint", number)
    with pytest.warns(UserWarning, match="questions have no ids"):
        ag.Runner(BRANCHES, checkpointer=Subclass(), unfit="warn")


def test_calls_that_a_saver_is_known_not_to_support_say_so(knows: Callable[..., None]) -> None:
    calls = {"delete": "no such method", "threads": "one thread", "rewind": "hidden", "copy": "hidden"}
    knows(known_as({"answers": "", **calls}))
    with pytest.warns(UserWarning, match="not supported: delete: no such method"):
        runner = ag.Runner(BRANCHES, checkpointer=Subclass())
    runner.invoke("Go.", thread_id="t")
    made: dict[str, Callable[[], Any]] = {
        "delete": lambda: runner.delete("t"),
        "threads": runner.threads,
        "rewind": lambda: [*runner.rewind("t", "p/h")],
        "copy": lambda: runner.copy("t", "u"),
    }
    for name, make in made.items():
        with pytest.raises(ag.SaverError) as caught:
            make()
        assert f"does not support '{name}' ({calls[name]}); use a saver that does" in str(caught.value)


def test_a_saver_that_is_known_to_be_fit_is_not_read_back(knows: Callable[..., None]) -> None:
    knows(known_as({"answers": "", "kill": None}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ag.Runner(BRANCHES, checkpointer=Subclass()).engine.fitness == Fitness()


@pytest.mark.parametrize("other", [{"number": "0.0.1"}, {"package": "no-such-package", "number": "1"}])
def test_another_version_of_a_known_saver_is_not_known(
    knows: Callable[..., None], other: dict[str, str]
) -> None:
    knows(known_as({"answers": "questions have no ids"}, **other))
    assert ag.Runner(BRANCHES, checkpointer=Subclass()).engine.fitness.trial is not None


def test_the_file_of_known_savers_can_be_read() -> None:
    file = Path(known.__file__).with_name("known_savers.json")
    assert [each.package for each in known.known_savers()] == [
        each["package"] for each in json.loads(file.read_text())
    ]


def test_the_page_of_savers_has_the_known_ones() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/savers.md").read_text()
    rows = [line.split(" | ")[:3] for line in page.splitlines() if line.startswith("| `")]
    for each in known.known_savers():
        name = each.name.rpartition(".")[2]
        assert [f"| `{name}`", f"{each.package} {each.version}", each.server] in rows
        for ability, why in each.faults.items():
            assert f"- `{name}` of {each.package} {each.version}, {ability}: `{why}`" in page


class Bare(Subclass):
    def delete_thread(self, thread_id: str) -> None:
        raise NotImplementedError


def test_what_a_saver_does_not_offer_is_an_error_that_says_so() -> None:
    runner = ag.Runner(says("a", "One."), checkpointer=Bare())
    runner.invoke("Go.", thread_id="t")
    with pytest.raises(ag.SaverError, match="does not offer delete_thread; use a saver that does"):
        runner.delete("t")
