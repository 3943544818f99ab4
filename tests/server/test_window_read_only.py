"""A file that may not be written to is shown, and nothing of it changes."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import agentgraph as ag
from agentgraph.journal.savers.sqlite import reading_saver
from agentgraph.window.calls import Window

NOBODY = 65534

report = ag.sequential(
    "report", [ag.function_agent("ann", lambda ctx: "Hi."), ag.human("boss", "Well?")]
)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be a user whom permissions stop: they do not stop root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def path() -> Iterator[Path]:
    """Return a file in a folder that others may enter: those of pytest are closed to them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder / "runs.db"
    folder.chmod(0o755)
    shutil.rmtree(folder)


def closed(path: Path) -> None:
    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)


def shown(path: Path) -> list[object]:
    with reading_saver(path) as saver:
        window = Window(ag.Runner(report, checkpointer=saver), "report")
        assert window.call("about", {})["is_read_only"]
        for name, arguments in (
            ("start", {"text": "Go."}),
            ("answer", {"thread_id": "t", "answers": {"report/boss": "yes"}}),
            ("delete", {"thread_id": "t"}),
        ):
            with pytest.raises(ag.SaverError, match="is read-only"):
                window.call(name, arguments)
        (row,) = window.call("threads", {})["threads"]
        bars = window.call("timeline", {"thread_id": "t"})["bars"]
        return [row["status"], window.call("thread", {"thread_id": "t"})["status"], len(bars)]


@pytest.mark.parametrize("is_open_elsewhere", [False, True])
def test_a_file_that_may_not_be_written_to(path: Path, is_open_elsewhere: bool) -> None:
    with ag.Runner(report, checkpointer=path) as runner:
        runner.invoke("Go.", thread_id="t")
        told = shown(path)  # which imports all that others may not read
        if is_open_elsewhere:
            closed(path)
            with unprivileged():
                assert shown(path) == told
            return
    closed(path)
    with unprivileged():
        assert shown(path) == told == ["paused", "paused", 4]


def test_what_is_no_file_of_threads_is_refused(path: Path) -> None:
    path.write_text("no database at all, but a text that is long enough" * 9)
    with pytest.raises(ag.SaverError, match="cannot be opened as a SQLite file"):
        reading_saver(path)
    with pytest.raises(ag.SaverError, match="cannot be opened as a SQLite file"):
        reading_saver(path.with_name("nothing.db"))
