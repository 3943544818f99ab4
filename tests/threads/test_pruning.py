"""Pruned threads: what stays is as it was, and goes on as if nothing had been removed."""

import asyncio
import operator
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Async, Drive, Session, Sync
from helpers.databases import Databases
from helpers.pruned import (
    KINDS,
    TURNS,
    asking,
    counting,
    keeps_a_tree,
    read,
    run,
    says,
    told_of,
)
from langchain.agents.middleware import SummarizationMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

PLACES: list[tuple[str, Drive]] = [("memory", Sync), ("file", Async), ("database", Sync)]
FEW = ("a chat agent with tools", "a tree with its own state", "graphs in branches")
"""The kinds that are tried in files and databases too."""
CASES = [
    *((kind, PLACES[0]) for kind in KINDS),
    *((kind, place) for kind in FEW for place in PLACES[1:]),
]


@pytest.fixture(params=PLACES, ids=[f"{drive.__name__} in {place}" for place, drive in PLACES])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Drive, Any]]:
    place, drive = request.param
    if place == "database":
        databases: Databases = request.getfixturevalue("databases")
        yield drive, databases.make()
    else:
        yield drive, None if place == "memory" else tmp_path / "threads.db"


def played(tree: ag.Agent, where: tuple[Drive, Any], turns: int = TURNS) -> Session:
    session = Session(tree, *where)
    for number in range(turns):
        run(session, "run", f"Turn {number}", thread_id="t")
    return session


def twin(session: Session) -> Session:
    """Return a session on a copy of the thread."""
    read(session, "copy", "t", "u")
    other = Session(session.tree, session.drive, session.path)
    other.memory, other._in_memory, other.id = session.memory, session._in_memory, "u"
    return other


@pytest.mark.parametrize(("kind", "where"), CASES, indirect=["where"])
def test_the_turns_that_stay_are_as_they_were(kind: str, where: tuple[Drive, Any]) -> None:
    session = played(KINDS[kind](), where)
    since = TURNS - 2
    before, whole = told_of(session, since), twin(session)
    pruned = read(session, "prune", "t", keep_turns=2)
    assert (pruned.threads, pruned.turns, pruned.lines, pruned.skipped) == (0, since, 0, ())
    assert pruned.checkpoints > 0
    after = told_of(session, since)
    for name, was in before.items():
        assert after[name] == was, name
    assert min(each.turn or 0 for each in session.events()) == since
    assert {each.turn for each in session.visits()} == {since, since + 1}

    ran = [run(each, "run", "Next", thread_id=each.id) for each in (session, whole)]
    assert ran[0] == ran[1]
    addresses = [(each.address, each.turn) for each in session.visits() if each.turn < TURNS]
    assert session.thread().values == whole.thread().values
    for at, turn in [*dict.fromkeys(addresses)][::-6]:
        ran = [run(each, "rewind", each.id, at, turn=turn) for each in (session, whole)]
        assert ran[0] == ran[1], (at, turn)
    read(session, "copy", "t", "v")
    ran = [run(each, "run", "Last", thread_id=each.id) for each in (session, whole)]
    assert ran[0] == ran[1]
    session.id = "v"
    assert run(session, "run", "Last", thread_id="v") == ran[0]


def test_questions_of_the_last_turn_are_still_open(where: tuple[Drive, Any]) -> None:
    session = Session(asking("s"), *where)
    for number in range(3):
        run(session, "run", f"Turn {number}", thread_id="t")
        if number < 2:
            run(session, "resume", "t", {each.address: "yes" for each in session.pending()})
    before, whole = told_of(session, 2), twin(session)
    assert len(session.pending()) == 2
    assert read(session, "prune", "t", keep_turns=1).turns == 2
    assert told_of(session, 2) == before
    first, second = (each.address for each in session.pending())
    for answers in ({first: "one"}, {second: "two"}):
        ran = [run(each, "resume", each.id, answers) for each in (session, whole)]
        assert ran[0] == ran[1]
    assert session.thread().status == "done"


def test_a_turn_that_failed_is_resumed(where: tuple[Drive, Any]) -> None:
    fails = [False, False, True]

    def fn(ctx: ag.Context) -> str:
        if len(fails) and fails.pop(0):
            raise ValueError("No.")
        return f"after {len(ctx.messages)}"

    session = Session(ag.sequential("s", [says("a"), ag.function_agent("b", fn)]), *where)
    for number in range(2):
        run(session, "run", f"Turn {number}", thread_id="t")
    with pytest.raises(ValueError, match="No"):
        run(session, "run", "Turn 2", thread_id="t")
    assert read(session, "prune", "t", keep_turns=1).turns == 2
    assert session.thread().status == "failed"
    assert run(session, "resume", "t")[-1].endswith("s/b message after 8")


def test_what_a_turn_that_was_given_up_had_said_is_not_among_events(where: tuple[Drive, Any]) -> None:
    session = Session(asking("s"), *where)
    run(session, "run", "Turn 0", thread_id="t")
    run(session, "run", "Turn 1", thread_id="t", drop_pending=True)
    before = told_of(session, 1)
    assert read(session, "prune", "t", keep_turns=1).turns == 1
    assert told_of(session, 1) == before
    assert {each.turn for each in session.events()} == {1}


def test_older_lines_go_but_those_that_are_kept(where: tuple[Drive, Any]) -> None:
    tree = ag.loop("l", [says("a"), says("b")], max_iterations=2)
    session = played(tree, where, turns=3)
    for at in ("l[0]/b", "l[1]/a", "l[1]/b"):
        run(session, "rewind", "t", at, turn=2)
    lines = session.thread().lines
    assert len(lines) == 4
    told = {each.head: read_line(session, each.head) for each in lines}
    present = told_of(session, 0)
    del present["activations"]  # they name the attempts on older lines
    assert read(session, "prune", "t", keep_lines=2).lines == 1
    assert session.thread().lines == lines[:3]
    assert {each.head: read_line(session, each.head) for each in lines[:3]} == {
        each.head: told[each.head] for each in lines[:3]
    }
    assert told_of(session, 0) | present == told_of(session, 0)
    pruned = read(session, "prune", "t", keep_turns=1)
    assert (pruned.turns, pruned.lines) == (2, 0)
    assert [each.head for each in session.thread().lines] == [each.head for each in lines[:3]]
    pruned = read(session, "prune", "t", keep_lines=0)
    assert (pruned.turns, pruned.lines) == (0, 2)
    assert told_of(session, 2)["events"] == [e for e in present["events"] if e.turn == 2]
    assert run(session, "rewind", "t", "l[0]/a")


def read_line(session: Session, head: str) -> list[ag.AgentEvent]:
    events: list[ag.AgentEvent] = []
    session.follow("events", "t", line=head, hear=events.append)
    return [each for each in events if each.turn == 2]


def test_a_line_that_branches_off_before_the_turns_that_stay_goes(where: tuple[Drive, Any]) -> None:
    session = played(ag.sequential("s", [says("a"), says("b")]), where, turns=3)
    run(session, "rewind", "t", "s/b", turn=1)
    run(session, "run", "Turn 2", thread_id="t")
    assert len(session.thread().lines) == 2
    pruned = read(session, "prune", "t", keep_turns=1)
    assert (pruned.turns, pruned.lines) == (2, 1)
    assert len(session.thread().lines) == 1
    assert [each.number for each in session.thread().turns] == [2]


def test_a_follower_with_an_old_cursor_is_rejected(where: tuple[Drive, Any]) -> None:
    session = played(ag.sequential("s", [says("a"), says("b")]), where, turns=3)
    events = session.events()
    old = next(each for each in events if each.turn == 1)
    last = [each for each in events if each.turn == 1][-1]
    read(session, "prune", "t", keep_turns=1)
    followed: list[ag.AgentEvent] = []
    session.follow("follow", "t", after=last.cursor, hear=followed.append)
    assert followed == [each for each in events if each.turn == 2]
    with pytest.raises(ag.ThreadError, match=f"events after the cursor '{old.cursor}' were pruned"):
        session.follow("follow", "t", after=old.cursor, hear=followed.append)
    read(session, "copy", "t", "u")
    with pytest.raises(ag.ThreadError, match="were pruned"):
        session.follow("follow", "u", after=old.cursor, hear=followed.append)
    followed.clear()
    session.follow("follow", "t", hear=followed.append)
    assert {each.turn for each in followed} == {2}


def test_pruning_twice_is_as_pruning_once(where: tuple[Drive, Any]) -> None:
    session = played(KINDS["graphs in branches"](), where)
    before = told_of(session, TURNS - 1)
    began = read(session, "threads")[0].began
    assert read(session, "prune", "t", keep_turns=3).turns == TURNS - 3
    assert read(session, "prune", "t", keep_turns=1).turns == 2
    assert read(session, "prune", "t", keep_turns=1).checkpoints == 0
    assert told_of(session, TURNS - 1) == before
    assert read(session, "threads")[0].began == began


def test_a_named_turn_that_was_pruned_never_runs_again(where: tuple[Drive, Any]) -> None:
    session = Session(ag.sequential("s", [says("a"), says("b")]), *where)
    for number in range(3):
        read(session, "advance", "t", f"Turn {number}", turn_id=f"id {number}")
    results = [read(session, "advance", "t", turn_id=f"id {number}") for number in range(3)]
    read(session, "prune", "t", keep_turns=1)
    read(session, "copy", "t", "u")
    for thread in ("t", "u"):
        for number, was in enumerate(results):
            found = read(session, "advance", thread, f"Turn {number}", turn_id=f"id {number}")
            assert (found.status, found.text) == (was.status, was.text)
        with pytest.raises(ag.ThreadError, match="begun with other"):
            read(session, "advance", thread, "Other", turn_id="id 0")
    assert [each.number for each in session.thread().turns] == [2]


def test_a_message_that_was_read_before_the_turns_that_stay_is_not_read_again(
    where: tuple[Drive, Any],
) -> None:
    session = played(ag.sequential("s", [says("a"), says("b")]), where, turns=1)
    read(session, "steer", "t", "Wait.")
    run(session, "run", "Turn 1", thread_id="t")
    run(session, "run", "Turn 2", thread_id="t")
    read(session, "steer", "t", "Later.")
    read(session, "prune", "t", keep_turns=1)
    assert [each.text for each in session.thread().queued] == ["Later."]


def test_the_tree_may_have_lost_graphs_that_kept_their_states(where: tuple[Drive, Any]) -> None:
    tree = ag.sequential("s", [says("a"), counting("g"), keeps_a_tree("k")])
    session = played(tree, where)
    whole = twin(session)
    for each in (session, whole):
        each.tree = ag.sequential("s", [says("a")])
        run(each, "run", "Without", thread_id=each.id)
    assert read(session, "prune", "t", keep_turns=1).turns == TURNS
    for each in (session, whole):
        each.tree = tree
    ran = [run(each, "run", "Next", thread_id=each.id) for each in (session, whole)]
    assert ran[0] == ran[1]
    assert any(f"visit {TURNS}" in each for each in ran[0])


def test_a_run_that_was_left_is_resumed(where: tuple[Drive, Any]) -> None:
    session = played(KINDS["a loop"](), where, turns=2)
    session.follow("run", "Turn 2", thread_id="t", hear=lambda event: None, left=3)
    whole, before = twin(session), told_of(session, 2)
    assert read(session, "prune", "t", keep_turns=1).turns == 2
    assert told_of(session, 2) == before
    assert before["status"] == "stopped"
    ran = [run(each, "resume", each.id) for each in (session, whole)]
    assert ran[0] == ran[1]


def test_the_state_of_middleware_stays(where: tuple[Drive, Any]) -> None:
    def model(word: str) -> ScriptedChatModel:
        return ScriptedChatModel(responses=lambda seen: f"{word} {len(seen)}")

    summary = SummarizationMiddleware(model("sum"), trigger=("messages", 6), keep=("messages", 2))
    session = played(ag.chat_agent("c", model("after"), middleware=[summary]), where, turns=7)
    before, whole = told_of(session, 6), twin(session)
    assert read(session, "prune", "t", keep_turns=1).turns == 6
    assert told_of(session, 6) == before
    for _ in range(3):
        ran = [run(each, "run", "Next", thread_id=each.id) for each in (session, whole)]
        assert ran[0] == ran[1]


def test_declared_values_keep_their_types_and_reducers(where: tuple[Drive, Any]) -> None:
    class Values(TypedDict, total=False):
        log: Annotated[list[str], operator.add]
        pair: tuple[int, str]

    def fn(ctx: ag.Context) -> ag.SetValues:
        number = len(ctx.values.get("log", ()))
        return ag.SetValues(log=[f"n{number}"], pair=(number, "x"))

    def act(runner: ag.Runner) -> tuple[Any, Any]:
        declared = ag.Runner(tree, checkpointer=runner.saver, values=Values)
        for number in range(4):
            declared.invoke(f"Turn {number}", thread_id="t")
        declared.prune("t", keep_turns=1)
        return declared.thread("t").values, declared.invoke("Next", thread_id="t").values

    tree = ag.function_agent("a", fn)
    session = Session(tree, Sync, where[1])
    for count, values in zip((4, 5), session.use(act, act), strict=True):
        assert values == {"log": [f"n{n}" for n in range(count)], "pair": (count - 1, "x")}


def test_savers_of_langgraph_that_the_user_opens_are_pruned_too(url: str, tmp_path: Path) -> None:
    tree, path = ag.sequential("s", [says("a"), says("b")]), str(tmp_path / "t.db")

    def check(saver: Any) -> None:
        runner = ag.Runner(tree, checkpointer=saver)
        for _ in range(3):
            runner.invoke("Go.", thread_id="t")
        assert runner.prune("t", keep_turns=1).turns == 2
        assert runner.invoke("Go.", thread_id="t").values == {"a": 4, "b": 4}

    async def acheck(saver: Any) -> None:
        runner = ag.Runner(tree, checkpointer=saver)
        await saver.setup()
        for _ in range(3):
            await runner.ainvoke("Go.", thread_id="u")
        assert (await runner.aprune("u", keep_turns=1)).turns == 2
        assert (await runner.ainvoke("Go.", thread_id="u")).values == {"a": 4, "b": 4}

    async def both() -> None:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            await acheck(saver)
        async with AsyncPostgresSaver.from_conn_string(url) as database:
            await acheck(database)

    with SqliteSaver.from_conn_string(path) as saver:
        check(saver)
    with PostgresSaver.from_conn_string(url) as database:
        check(database)
    asyncio.run(both())


def test_events_that_are_read_in_parts_are_those_that_are_left(tmp_path: Path) -> None:
    runner = ag.Runner(says("a"), checkpointer=tmp_path / "t.db")
    for number in range(168):
        runner.invoke(f"Turn {number}", thread_id="t")
    every = [*runner.events("t")]
    events = runner.events("t")
    first = [next(events) for _ in range(10)]
    runner.prune("t", keep_turns=60)
    kept = [each for each in every if each.turn is not None and each.turn >= 108]
    rest = [*events]
    assert first == every[:10]
    assert rest[-len(kept) :] == kept
    assert [*runner.events("t")] == kept


class DiedError(BaseException):
    """The process of a saver has died: it saves nothing more."""


class Dying(InMemorySaver):
    """A saver that dies after so many saves.

    Attributes:
        left: How many; None for no death.
    """

    left: int | None = None

    def put(self, *args: Any) -> Any:
        self._count()
        return super().put(*args)

    def put_writes(self, *args: Any, **more: Any) -> None:
        self._count()
        super().put_writes(*args, **more)

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise DiedError


@pytest.mark.parametrize("kind", ["a sequence", "branches", "a tree with its own state"])
def test_a_run_that_died_after_a_save_is_resumed(kind: str) -> None:
    for left in range(0, 100, 2):
        saver, tree = Dying(), KINDS[kind]()
        runner = ag.Runner(tree, checkpointer=saver)
        for number in range(2):
            runner.invoke(f"Turn {number}", thread_id="t")
        saver.left = left
        with suppress(DiedError):
            runner.invoke("Turn 2", thread_id="t")
        has_died, saver.left = saver.left < 0, None
        session = Session(tree, Sync)
        session.memory = saver
        whole = twin(session)
        last = session.thread().turns[-1].number
        before = told_of(session, last)
        assert read(session, "prune", "t", keep_turns=1).turns == last
        assert told_of(session, last) == before
        if before["status"] != "done":
            ran = [run(each, "resume", each.id) for each in (session, whole)]
            assert ran[0] == ran[1], left
        ran = [run(each, "run", "Turn 3", thread_id=each.id) for each in (session, whole)]
        assert ran[0] == ran[1], left
        if not has_died:
            return
    raise AssertionError("it always died")
