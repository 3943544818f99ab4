"""Failures that are the first that a resume tells: their run paths are those of the thread."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import Drive, Session, unvoided

import agentgraph as ag

TRIES: Counter[str] = Counter()
TIMES = 3


def fails(ctx: ag.Context) -> str:
    TRIES[ctx.address] += 1
    if TRIES[ctx.address] <= TIMES:
        raise ValueError("It is broken.")
    return "Mended."


async def side_by_side(ctx: ag.Context) -> str:
    return " ".join(await asyncio.gather(*(ctx.run("team", "Go.", key=key) for key in ("one", "two"))))


def team() -> ag.Agent:
    hands_over = ag.function_agent("ann", lambda ctx: ag.TransferTo("bob"))
    return ag.swarm("team", [hands_over, ag.function_agent("bob", fails)])


TREES: dict[str, Callable[[], ag.Agent]] = {
    "root": team,
    "branch": lambda: ag.parallel("p", [team(), ag.function_agent("c", lambda ctx: "c")]),
    "items": lambda: ag.each("e", team(), lambda ctx: ["one", "two"]),
    "calls": lambda: ag.function_agent("f", side_by_side, agents=[team()]),
    "calls in a branch": lambda: ag.parallel(
        "p", [ag.function_agent("f", side_by_side, agents=[team()])]
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_where_transfers_led_is_known_before_the_first_event(
    name: str, drive: Drive, tmp_path: Path
) -> None:
    TRIES.clear()
    session, heard = Session(TREES[name](), drive, tmp_path / "t.db"), list[ag.AgentEvent]()
    for number in range(4 * TIMES):
        method, args = ("resume", (session.id,)) if number else ("run", ("Go.",))
        try:
            session.follow(
                method, *args, hear=heard.append, **({} if number else {"thread_id": session.id})
            )
        except ValueError:
            continue
        break
    assert unvoided(heard) == session.events()
    failed = {str(each.run_path).rpartition("team/")[2] for each in heard if each.kind == "error"}
    assert failed == {"ann/bob"}
