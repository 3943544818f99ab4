"""`threads()` in pages: newest first, by status and metadata, with every saver."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, Sync, asks, fails, says
from helpers.databases import Databases
from test_thread_lists import KINDS, aopened, opened

import agentgraph as ag

TREE = ag.sequential("s", [says("a"), ag.parallel("p", [asks("boss"), asks("legal")]), fails("c", 99)])
BOTH = {"s/p/boss": "yes", "s/p/legal": "yes"}
DONE = says("a")


class Used:
    """A saver used sync or async by a runner of each tree."""

    def __init__(self, saver: Any, drive: Drive) -> None:
        self.saver, self.drive = saver, drive

    async def call(self, name: str, *args: Any, tree: ag.Agent = DONE, **options: Any) -> Any:
        runner = ag.Runner(tree, checkpointer=self.saver)
        if self.drive is Async:
            return await getattr(runner, f"a{name}")(*args, **options)
        return getattr(runner, name)(*args, **options)

    async def run(self, thread_id: str, tree: ag.Agent = DONE, **options: Any) -> None:
        """Run a turn, or resume one with answers; `user` and other metadata are options."""
        answers = {"answers": options.pop("answers")} if "answers" in options else {"messages": "Go."}
        with suppress(ValueError):
            config = {"metadata": options}
            await self.call("invoke", tree=tree, thread_id=thread_id, config=config, **answers)

    async def ids(self, *args: Any, **options: Any) -> list[str]:
        return [each.thread_id for each in await self.call("threads", *args, **options)]


@asynccontextmanager
async def used(kind: str, place: Any, drive: Drive) -> AsyncIterator[Used]:
    if drive is Async and kind == "file":
        async with ag.async_sqlite_saver(place) as saver:
            yield Used(saver, drive)
    elif drive is Async:
        async with aopened(kind, place) as saver:
            yield Used(saver, drive)
    else:
        with opened(kind, place) as saver:
            yield Used(saver, drive)


@pytest.fixture(params=[f"{kind} {drive.__name__}" for kind in KINDS for drive in (Sync, Async)])
def use(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> Callable[[Callable[[Used], Any]], None]:
    """Give what calls an async test with a saver of each kind."""
    kind, name = request.param.split()
    place = databases.make() if kind in ("database", "PostgreSQL") else tmp_path / "threads.db"

    async def run(test: Callable[[Used], Any]) -> None:
        async with used(kind, place, Sync if name == "Sync" else Async) as saver:
            await test(saver)

    return lambda test: asyncio.run(run(test))


def test_pages_follow_each_other_newest_first(use: Any) -> None:
    async def test(saver: Used) -> None:
        for number in range(5):
            await saver.run(f"t{number}")
        await saver.run("t1")  # a later turn does not change when it began
        assert await saver.ids() == ["t4", "t3", "t2", "t1", "t0"]
        assert await saver.ids(limit=2) == ["t4", "t3"]
        assert await saver.ids(limit=2, before="t3") == ["t2", "t1"]
        assert await saver.ids(limit=2, before="t1") == ["t0"]
        assert await saver.ids(limit=2, before="t0") == []
        every = await saver.call("threads")
        assert [each.began for each in every] == sorted((each.began for each in every), reverse=True)
        assert all(0 < each.began <= each.updated + 0.001 for each in every)

    use(test)


def test_pages_of_a_status_are_full(use: Any) -> None:
    async def test(saver: Used) -> None:
        for number in range(3):
            await saver.run(f"done{number}")
            await saver.run(f"paused{number}", TREE)
            await saver.run(f"failed{number}", TREE)
            await saver.run(f"failed{number}", TREE, answers=BOTH)
        for status in ("done", "paused", "failed"):
            assert await saver.ids(status) == [f"{status}{number}" for number in (2, 1, 0)]
            assert await saver.ids(status, limit=2) == [f"{status}2", f"{status}1"]
            assert await saver.ids(status, limit=2, before=f"{status}1") == [f"{status}0"]
            assert await saver.ids(status, limit=1, before="done1") == [f"{status}0"]
        assert await saver.ids("stopped") == await saver.ids("running") == []

    use(test)


def test_threads_are_found_by_what_any_run_was_given(use: Any) -> None:
    async def test(saver: Used) -> None:
        await saver.run("one", TREE, user="ann", team=1, paid=True)
        await saver.run("two", user="bob", team=2, share=0.5)
        await saver.run("two", user="ann")
        await saver.run("three", user="cy", **{"of.team": "x"})
        assert await saver.ids(metadata={"user": "ann"}) == ["two", "one"]
        assert await saver.ids(metadata={"user": "ann", "team": 2}) == ["two"]  # of two runs
        assert await saver.ids(metadata={"team": 1.0}) == ["one"]
        assert await saver.ids(metadata={"paid": True}) == ["one"]
        assert await saver.ids(metadata={"paid": 1}) == await saver.ids(metadata={"team": True}) == []
        assert await saver.ids(metadata={"share": 0.5}) == ["two"]
        assert await saver.ids(metadata={"of.team": "x"}) == ["three"]
        assert await saver.ids(metadata={"user": "dan"}) == await saver.ids(metadata={"a": "b"}) == []
        assert await saver.ids(metadata={"source": "input"}) == []
        assert await saver.ids(metadata={"user": "ann"}, limit=1) == ["two"]
        assert await saver.ids(metadata={"user": "ann"}, limit=1, before="two") == ["one"]
        assert await saver.ids("paused", metadata={"user": "ann"}) == ["one"]
        assert await saver.ids(metadata={}) == ["three", "two", "one"]

    use(test)


def test_a_run_that_only_answers_or_fails_again_counts_too(use: Any) -> None:
    async def test(saver: Used) -> None:
        await saver.run("one", TREE, user="ann")
        await saver.run("one", TREE, user="boss", by="phone", answers={"s/p/boss": "yes"})
        assert await saver.ids(metadata={"by": "phone"}) == ["one"]
        await saver.run("one", TREE, user="legal", answers={"s/p/legal": "yes"})
        await saver.run("one", TREE, user="operator", level=2, answers=None)
        assert await saver.ids(metadata={"level": 2}) == ["one"]
        has_index = hasattr(saver.saver, "list_threads")
        for user in ["ann", "legal", *["boss", "operator"] * has_index]:
            assert await saver.ids(metadata={"user": user}) == ["one"], user
        assert await saver.ids("failed") == ["one"]
        thread = await saver.call("thread", "one", tree=TREE)
        assert [message.text for message in thread.messages] == ["Go.", "a", "yes", "yes"]

    use(test)


def test_copies_and_deleted_threads_are_listed_as_they_are(use: Any) -> None:
    async def test(saver: Used) -> None:
        await saver.run("one", user="ann")
        await saver.run("two", TREE, user="bob")
        await saver.call("copy", "one", "copy")
        assert await saver.ids() == ["two", "copy", "one"]
        assert await saver.ids(limit=1, before="two") == ["copy"]
        assert await saver.ids(limit=1, before="copy") == ["one"]
        assert await saver.ids("done") == ["copy", "one"]
        assert await saver.ids(metadata={"user": "ann"}) == ["copy", "one"]
        await saver.call("delete", "one")
        assert await saver.ids() == ["two", "copy"]
        assert await saver.ids(metadata={"user": "ann"}) == ["copy"]
        with pytest.raises(ag.UnknownThreadError, match="before='one' is not a thread of this saver"):
            await saver.ids(before="one")
        await saver.run("one")
        assert await saver.ids(limit=1) == ["one"]
        assert await saver.ids(metadata={"user": "ann"}) == ["copy"]

    use(test)


def test_a_thread_that_runs_is_the_first_of_the_list(use: Any) -> None:
    async def test(saver: Used) -> None:
        await saver.run("one")
        seen: dict[str, list[str]] = {}

        async def looks(ctx: ag.Context) -> str:
            seen["all"] = await saver.ids()
            seen["running"] = await saver.ids("running")
            seen["after"] = await saver.ids(before="two", limit=1)
            seen["done"] = await saver.ids("done")
            return "seen"

        await saver.run("two", ag.function_agent("looks", looks))
        assert seen == {"all": ["two", "one"], "running": ["two"], "after": ["one"], "done": ["one"]}

    use(test)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_threads_whose_first_run_has_saved_nothing_are_in_pages_too(kind: str, tmp_path: Path) -> None:
    with opened(kind, tmp_path / "threads.db") as saver:
        runner = ag.Runner(DONE, checkpointer=saver)
        for number in range(2):
            runner.invoke("Go.", thread_id=f"stored{number}", config={"metadata": {"n": 1}})
        runs = [runner.run("Go.", thread_id=f"new{number}") for number in range(3)]

        def ids(*args: Any, **options: Any) -> list[str]:
            return [each.thread_id for each in runner.threads(*args, **options)]

        assert ids() == ["new2", "new1", "new0", "stored1", "stored0"]
        assert ids(limit=2) == ids("running", limit=2) == ["new2", "new1"]
        assert ids(limit=2, before="new1") == ["new0", "stored1"]
        assert ids(limit=2, before="stored1") == ["stored0"]
        assert ids("running", before="stored1") == []
        assert ids("done", limit=1) == ["stored1"]
        assert ids(metadata={"n": 1}) == ["stored1", "stored0"]
        next(runs[0])
        runs[1].close()
        assert set(ids()) == {"new2", "new0", "stored1", "stored0"}
        assert ids("running") == ["new2", "new0"]
        for run in runs:
            run.close()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no threads": ({"limit": 0}, "limit=0 is not a number of threads; pass an integer of at least 1"),
    "a boolean": ({"limit": True}, "limit=True is not a number of threads"),
    "a text": ({"limit": "2"}, "limit='2' is not a number of threads"),
    "an unknown thread": ({"before": "nope"}, "before='nope' is not a thread of this saver"),
    "an empty thread": ({"before": ""}, "thread_id must be a non-empty string"),
    "a list": ({"metadata": ["user"]}, r"metadata=\['user'\] is not a dict with texts as keys"),
    "a dict inside": ({"metadata": {"a": {"b": 1}}}, "the value {'b': 1} of 'a' cannot be searched"),
    "no status": ({"status": "over"}, "status='over' is not a status of threads"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("drive", [Sync, Async])
def test_what_makes_no_sense_is_refused(case: str, drive: Drive) -> None:
    options, message = WRONG[case]
    runner = ag.Runner(DONE)
    with pytest.raises(ag.AgentGraphError, match=message):
        if drive is Async:
            asyncio.run(runner.athreads(**options))
        else:
            runner.threads(**options)
