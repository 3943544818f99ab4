"""How long steps took: a pause before a resume or a rewind is no time of theirs."""

import time

import pytest
from helpers import Drive, fails, says

import agentgraph as ag


def test_a_step_that_a_run_resumes_begins_anew(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), fails("b", 1), says("c")]))
    with pytest.raises(ValueError, match="b failed"):
        list(drive.run(runner, "Go.", thread_id="t"))
    resumed_at = time.time()
    list(drive.resume(runner, "t"))
    report = runner.activation("t", "s/b")
    took = {each.address: each.duration for each in runner.visits("t")}
    assert report.began is not None
    assert report.began >= resumed_at
    assert report.ended is not None
    assert took["s/b"] is not None
    assert took["s/b"] <= report.ended - resumed_at


def test_a_step_before_a_rewind_has_ended_when_it_did(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b")]))
    list(drive.run(runner, "Go.", thread_id="t"))
    before = runner.activation("t", "s/a")
    rewound_at = time.time()
    list(runner.rewind("t", "s/b", messages="Again."))
    after, again = runner.activation("t", "s/a"), runner.activation("t", "s/b")
    assert after.began == before.began
    assert after.ended is not None
    assert after.ended < rewound_at
    assert again.began is not None
    assert again.began >= rewound_at
    bars = {each.address: each for each in runner.timeline("t").bars}
    assert bars["s/a"].ended is not None
    assert bars["s/a"].ended < rewound_at
