"""The demo: runs its tree up to the person, and goes on in a second process."""

import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import agentgraph.cli.demo
from agentgraph.cli.demo.models import speaker
from agentgraph.cli.session import (
    PAUSED,
    Printer,
    Session,
    Whereabouts,
    at_terminal,
    new_thread_id,
    open_runner,
)
from agentgraph.cli.target import load
from agentgraph.errors import AgentGraphError
from agentgraph.show.watching import watch

_FOLDER = Path(agentgraph.cli.demo.__file__).parent
_TARGET = f"{_FOLDER / 'tree.py'}:report"


class TextError(AgentGraphError):
    """A file that the demo cannot report on."""


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        TextError: It is not there, is no UTF-8 text, or is empty.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise TextError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TextError(f"{path} is no UTF-8 text: {error}") from error
    if "\0" in text:
        raise TextError(f"{path} is no text: it holds a zero byte")
    if not text.strip():
        raise TextError(f"{path} is empty; the demo needs some sentences to report on")
    return text


def demonstrate(file: str | None, db: str | None, *, no_input: bool) -> int:
    """Run the demo's tree on a file, and go on in a second process; return the exit code.

    Raises:
        TextError: The file cannot be reported on.
    """
    path = Path(file) if file else _FOLDER / "honeybees.txt"
    text = read_text(path)
    printer = Printer()
    printer.say(
        f"Model: {speaker()}. Text: {path if file else f'{path.name}, which comes with the demo'}.\n"
    )
    where = Whereabouts(target=_TARGET, thread_id=new_thread_id(), db=db or _temporary_db())
    with open_runner(load(_TARGET), where.db) as runner:
        start = partial(
            watch, runner, f"Report on {path.name}.", thread_id=where.thread_id, values={"text": text}
        )
        code = Session(runner, where, printer, no_input=True).go(start)
    return _go_on(where, printer, may_ask=at_terminal() and not no_input) if code == PAUSED else code


def _temporary_db() -> str:
    return str(Path(tempfile.mkdtemp(prefix="agentgraph-demo-")) / "demo.db")


def _go_on(where: Whereabouts, printer: Printer, *, may_ask: bool) -> int:
    options = () if may_ask else ("--answer", "approve", "--no-input")
    command = [sys.executable, "-m", "agentgraph", *where.resume(*options)]
    how = "" if may_ask else f", with {shlex.join(options)} since nobody is asked here"
    printer.say(f"\nThis process is done. A second one now runs that command{how}.\n")
    with _left_to_the_child():
        return subprocess.run(command, check=False).returncode


@contextmanager
def _left_to_the_child() -> Iterator[None]:
    """Leave Ctrl-C to the second process, which hears it too."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
