"""The command `demo`: a report that pauses, and that a second process resumes."""

import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from agentgraph.cli.options import UserError
from agentgraph.cli.session import (
    PAUSED,
    Whereabouts,
    at_terminal,
    new_thread_id,
    open_session,
    screen_of,
)
from agentgraph.cli.target import Target
from agentgraph.show.lines import without_controls
from agentgraph.show.screens import Lines


@click.command()
@click.argument("file", required=False)
@click.option(
    "--db",
    metavar="PATH",
    help="The file, or the URL of a database; by default one in a temporary folder.",
)
@click.option("--no-input", is_flag=True, help="Ask nothing; the demo answers its own question.")
def demo(file: str | None, db: str | None, no_input: bool) -> None:
    """Report on FILE, or on a text about honeybees; pause, and resume in a second process.

    Works offline; if OPENAI_API_KEY is set, it uses an OpenAI model (OPENAI_MODEL,
    OPENAI_BASE_URL).
    """
    path = Path(file) if file else Path(__file__).with_name("honeybees.txt")
    text, screen = _demo_text(path), screen_of()
    target = Target(name=f"{Path(__file__).with_name('demo.py')}:report")
    from agentgraph.cli.demo import speaker  # not at the top: importing it builds a tree

    name = f"{path.name}, which comes with the demo" if not file else path
    _print_text(screen, f"Model: {speaker()}. Text: {name}.\n")
    db = db or str(Path(tempfile.mkdtemp(prefix="agentgraph-demo-")) / "demo.db")
    where = Whereabouts(target=target, thread_id=new_thread_id(), db=db)
    with open_session(where, screen, creates=True, no_input=True) as session:
        code = session.go(f"Report on {path.name}.", values={"text": text})
    sys.exit(_go_on(where, screen, no_input) if code == PAUSED else code)


def _demo_text(path: Path) -> str:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; name another file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}; name another file") from error
    if "\0" in text:
        raise UserError(f"{path} is not text because it has a zero byte; name another file")
    if not text.strip():
        raise UserError(f"{path} is empty; name a file with some sentences")
    return text


def _go_on(where: Whereabouts, screen: Lines, no_input: bool) -> int:
    """Resume a thread in a second process, which handles Ctrl-C because it receives it too."""
    may_ask = at_terminal() and not no_input
    options = () if may_ask else ("--answer", "approve", "--no-input")
    command = [sys.executable, "-m", "agentgraph", *where.resume(*options)]
    how = "" if may_ask else f" with {shlex.join(options)}, because there is no terminal to ask at"
    _print_text(screen, f"\nThis process ends here. A second one now runs that command{how}.\n")
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _print_text(screen: Lines, text: str) -> None:
    screen.console.print(without_controls(text), soft_wrap=True)
