"""An office whose process is killed again and again loses no worker, and reports none twice.

`AGENTGRAPH_EXAMPLES=100000` kills after each number of saves; without it, after a few.
"""

import signal
from collections import Counter
from pathlib import Path

import pytest
from campaign import EXAMPLES
from helpers.forking import Forker
from langchain_core.messages import ToolMessage
from office_process import PATH

import agentgraph as ag
from examples.background.app import CONVERSATION, desk, researcher
from examples.background.office import DESK, Values
from examples.background.offline import LOG

WISH = "Look at Europe only."


@pytest.mark.parametrize("after", range(9, 60) if EXAMPLES else (11, 37))
def test_an_office_that_is_killed_goes_on(after: int, forker: Forker, tmp_path: Path) -> None:
    forks, deaths, code = forker.of("office_process"), 0, 1
    while code:
        known = found(tmp_path)
        searched = len(log(tmp_path))
        forks.start(folder=str(tmp_path), after=after)
        code = forks.wait()
        assert code in (0, -signal.SIGKILL), output(tmp_path)
        deaths += code != 0
        new = log(tmp_path)[searched:]
        assert [*Counter(new).values()].count(1) == len(new), "a process searched twice"
        assert not known & {*new}, "a result that was saved was searched for again"
    assert deaths > 1
    check(tmp_path)


def check(folder: Path) -> None:
    """Check that each text was said once, and that the end of each worker was reported once."""
    with ag.Runner(desk, checkpointer=folder / PATH, values=Values) as runner:
        thread = runner.thread(DESK)
        replies = [event.text for event in runner.events(DESK)]
    assert (thread.status, thread.open_calls) == ("done", [])
    said = [turn.messages for turn in thread.turns]
    assert [each.text for (each,) in said if each.type == "human"] == CONVERSATION
    ends = {each.text.partition(" ")[0]: each.text for (each,) in said if isinstance(each, ToolMessage)}
    assert len(ends) == len(said) - len(CONVERSATION) == 3
    with ag.Runner(researcher, checkpointer=folder / PATH) as runner:
        workers = {each.thread_id for each in runner.threads()} - {DESK}
        assert workers == ends.keys()
        for worker, end in ends.items():
            thread = runner.thread(worker)
            assert thread.status == ("stopped" if "was stopped" in end else "done")
            (turn,) = thread.turns
            assert [each.text for each in turn.messages if each.text != WISH] == [worker[:-9]]
            sent = [each.id for each in (*thread.messages, *thread.queued) if each.text == WISH]
            assert len({*sent}) == worker.startswith("ants")
            assert len([each for each in thread.messages if each.text == WISH]) <= 1
            reports = replies.count(f"Here it is: {thread.messages[-1].text}")
            assert reports == (thread.status == "done")


def found(folder: Path) -> set[str]:
    """Return the searches whose results are saved."""
    with ag.Runner(researcher, checkpointer=folder / PATH) as runner:
        threads = [each.thread_id for each in runner.threads() if each.thread_id != DESK]
        events = [event for each in threads for event in runner.events(each)]
    texts = (event.text or "" for event in events if isinstance(event.message, ToolMessage))
    return {text.removeprefix("There is a page on ").removesuffix(".") for text in texts}


def log(folder: Path) -> list[str]:
    """Return the searches that were begun."""
    path = folder / LOG
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def output(folder: Path) -> str:
    return "\n".join(path.read_text() for path in folder.glob("*.out"))
