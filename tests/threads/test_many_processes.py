"""Processes that share a PostgreSQL database, and its threads: one turn at a time on each.

With `AGENTGRAPH_EXAMPLES` of at least 1,000 they run on 1,000 threads.
"""

import os
from collections import defaultdict
from pathlib import Path

from helpers.commands import Commands
from helpers.databases import Databases
from many_processes import PROCESSES

import agentgraph as ag

PROGRAM = str(Path(__file__).with_name("many_processes.py"))
COUNT = 1000 if int(os.environ.get("AGENTGRAPH_EXAMPLES", "0")) >= 1000 else 20


def test_turns_of_four_processes_do_not_mix_and_none_is_lost(
    program: Commands, databases: Databases
) -> None:
    url = databases.make()
    ended = program(PROGRAM, url, str(COUNT))
    assert (ended.code, ended.err) == (0, "")
    steps = defaultdict[str, list[str]](list)
    for line in (program.folder / "ledger").read_text().splitlines():
        name, what = line.split()
        steps[name].append(what)
    busy = (program.folder / "busy").read_text().split()
    tree = ag.sequential("s", [ag.function_agent(name, lambda ctx: "") for name in "ab"])
    with ag.Runner(tree, checkpointer=url) as runner:
        assert {each.thread_id for each in runner.threads("done")} == steps.keys()
        for number in range(COUNT):
            name = f"t{number}"
            turns = runner.thread(name).turns
            assert len(turns) == PROCESSES - busy.count(name) > 0
            assert steps[name] == ["begin", "end"] * 2 * len(turns)
            for turn in turns:
                said = [event.text for event in turn.events]
                assert len(said) == 2
                assert len(set(said)) == 1
