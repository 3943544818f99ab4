"""Where transfers led, for readers that see only a part of a run: messages, a resume, a new turn."""

from typing import Any

from helpers import Drive, asks, chat, lines, says
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import agentgraph as ag
from agentgraph.events.translation import STREAM_MODES
from agentgraph.testing import call, calls


def silent(ctx: ag.Context) -> ag.TransferTo:
    return ag.TransferTo("desk")


def desk() -> ag.Agent:
    """Return a group with a silent agent: the others reply after 0, 2, 3 and 4 transfers."""
    silently, to_more = calls(call("transfer_to_silent")), calls(call("transfer_to_more"))
    more = chat("more", *[calls(call("transfer_to_desk"))] * 2)
    workers = [ag.function_agent("silent", silent), more]
    return chat("desk", *[silently, to_more, "Done."] * 2, sub_agents=workers)


def test_a_history_knows_the_run_paths_of_what_was_said(drive: Drive) -> None:
    seen: list[tuple[str | None, str]] = []

    def reads(ctx: ag.Context) -> None:
        seen[:] = [(entry.address, str(entry.run_path)) for entry in ctx.entries if entry.address]

    branches = ag.parallel("p", [desk(), says("x")])
    runner = ag.Runner(ag.sequential("s", [branches, ag.function_agent("reader", reads)]))
    for turn in range(2):
        list(drive.run(runner, "Go.", thread_id="t"))
        events = [event for event in runner.events("t") if event.kind == "message"]
        said = [(event.address, str(event.run_path)) for event in events]
        assert sorted(seen) == sorted(said)
        assert len(seen) == (turn + 1) * 8
        assert ("s/p/desk[4]", "s/p/desk/silent/desk/more/desk") in seen


def test_a_stream_that_begins_at_a_resume_knows_where_transfers_had_led() -> None:
    def tree() -> ag.Agent:
        to = calls(call("transfer_to_silent")), calls(call("transfer_to_boss"))
        boss = ag.parallel("boss", [asks("h"), says("x")], max_concurrency=1)
        workers = [ag.function_agent("silent", silent), boss]
        return ag.sequential("s", [chat("desk", *to, sub_agents=workers), says("last")])

    runner = ag.Runner(tree())
    first = list(runner.run("Go.", thread_id="t"))
    second = list(runner.resume("t", "Yes."))
    paths = {event.address: str(event.run_path) for event in second}
    assert paths["s/desk[3]/boss/h"] == "s/desk/silent/desk/boss/h"
    assert list(runner.events("t")) == [*first, *second]
    graph = ag.compile_agent(tree(), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    modes: Any = {"stream_mode": STREAM_MODES, "subgraphs": True, "version": "v2"}
    go: Any = {"messages": [("user", "Go.")]}
    for given, heard in ((go, first), (Command(resume="Yes."), second)):
        parts = graph.stream(given, config, **modes)
        translated = [event for event in ag.translate(tree(), parts) if not event.partial]
        assert lines(translated) == lines(heard)
        assert [each.run_path for each in translated] == [each.run_path for each in heard]
