"""The commands and their options."""

import json
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from agentgraph.cli.answers import given_answers
from agentgraph.cli.options import (
    Refusal,
    db_option,
    existing,
    json_object,
    json_option,
    options,
    thread_argument,
)
from agentgraph.cli.saved import OF_THREADS
from agentgraph.cli.session import (
    PAUSED,
    STOPPED,
    WRONG_USE,
    Whereabouts,
    at_terminal,
    new_thread_id,
    open_session,
    screen_of,
)
from agentgraph.cli.target import Target, takes_target
from agentgraph.errors import AgentGraphError, InvalidAgentError, InvalidSkillError
from agentgraph.graph.compiler import compile_agent
from agentgraph.show.drawing import mermaid
from agentgraph.show.lines import tree_lines, without_controls
from agentgraph.show.screens import Lines
from agentgraph.skills import json_schema
from agentgraph.threads.config import thread_in
from agentgraph.threads.pending import UNANSWERED


class _Group(click.Group):
    """Turns errors into messages with exit code 2, and Ctrl-C into exit code 130."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AgentGraphError as error:
            raise Refusal(str(error)) from error
        except KeyboardInterrupt:
            sys.exit(STOPPED)


_run_options = options(
    click.option(
        "--values",
        metavar="JSON",
        type=json_object,
        help="""Values of the run, such as '{"topic": "bees"}'.""",
    ),
    click.option(
        "--context", metavar="JSON", type=json_object, help="LangGraph's runtime context, ctx.context."
    ),
    click.option(
        "--config",
        metavar="JSON",
        type=json_object,
        help="""LangGraph's config, such as '{"configurable": {"model": "gpt-5"}}'.""",
    ),
    db_option,
    json_option,
    click.option("--stream", is_flag=True, help="Print the replies of models as they grow."),
    click.option("--no-input", is_flag=True, help="Pause at questions instead of asking them."),
    click.option(
        "--traceback", "with_traceback", is_flag=True, help="Print the traceback of a failure."
    ),
)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentgraph")
def commands() -> None:
    """Run, resume, draw and check trees of agents.

    TARGET is FILE.py:NAME, the variable NAME of a Python file, or a skill file, which ends with
    .yaml, .yml or .json. Each event is printed as a line led by its address, such as
    report/refine[1]/critic. Exit codes: 0 done, 3 paused at a question, 1 an agent failed, 2 wrong
    use, 130 stopped by Ctrl-C. A thread that is not done can be resumed.
    """


@commands.command()
@takes_target
@click.argument("text", metavar="INPUT")
@click.option("--thread", metavar="ID", help="The thread; by default that of --config, or a new one.")
@_run_options
@click.option("--drop-pending", is_flag=True, help="Drop the questions that wait on the thread.")
def run(
    target: Target,
    text: str,
    thread: str | None,
    values: dict[str, Any] | None,
    context: dict[str, Any] | None,
    config: dict[str, Any] | None,
    db: str,
    as_json: bool,
    stream: bool,
    drop_pending: bool,
    **options: bool,
) -> None:
    """Run a tree on INPUT, or on standard input if INPUT is -."""
    agent = target.load()
    thread_id = thread if thread is not None else (thread_in(config) or new_thread_id())
    where = Whereabouts(target=target, thread_id=thread_id, db=db, config=config, context=context)
    given = _standard_input() if text == "-" else text
    screen = screen_of(as_json=as_json, streams=stream)
    with open_session(agent, where, screen, **options) as session:
        sys.exit(session.go(given, values=values, drop_pending=drop_pending))


@commands.command()
@takes_target
@thread_argument
@click.option(
    "--answer",
    "answers",
    metavar="TEXT",
    multiple=True,
    help="An answer, or ADDRESS=TEXT or ID=TEXT for one of several questions.",
)
@_run_options
def resume(
    target: Target,
    thread: str,
    answers: tuple[str, ...],
    values: dict[str, Any] | None,
    context: dict[str, Any] | None,
    config: dict[str, Any] | None,
    db: str,
    as_json: bool,
    stream: bool,
    **options: bool,
) -> None:
    """Resume THREAD at its questions, or at the step that failed.

    TEXT is parsed as JSON if it is JSON, unless the question asks for text. `approve` and `reject`
    decide on all tool calls of a question, `approve, reject` on each in order. A TEXT that
    begins like NAME= needs ADDRESS= before it.
    """
    agent = target.load()
    where = Whereabouts(
        target=target, thread_id=thread, db=existing(db), config=config, context=context
    )
    screen = screen_of(as_json=as_json, streams=stream)
    with open_session(agent, where, screen, **options) as session:
        given = given_answers(answers, session.runner.pending(thread)) if answers else UNANSWERED
        sys.exit(session.go(answers=given, values=values))


@commands.command()
@takes_target
@thread_argument
@options(db_option, json_option)
def events(target: Target, thread: str, db: str, as_json: bool) -> None:
    """Print the events of THREAD again."""
    agent, screen = target.load(), screen_of(as_json=as_json)
    where = Whereabouts(target=target, thread_id=thread, db=existing(db))
    with open_session(agent, where, screen) as session:
        for event in session.runner.events(thread):
            screen.line(event)


@commands.command()
@takes_target
@click.option("--tree", is_flag=True, help="Print an outline of the tree instead.")
def draw(target: Target, tree: bool) -> None:
    """Print the graph of a tree as Mermaid text."""
    agent = target.load()
    graph = compile_agent(agent)
    text = "\n".join(tree_lines(agent)) if tree else mermaid(graph).rstrip()
    click.echo(without_controls(text))


@commands.command()
@takes_target
def check(target: Target) -> None:
    """Print the faults of a tree, one a line."""
    try:
        compile_agent(target.load())
    except (InvalidAgentError, InvalidSkillError) as error:
        click.echo(without_controls("\n".join(error.faults)), err=True)
        sys.exit(WRONG_USE)
    click.echo(without_controls(f"{target.name.rpartition(':')[2]}: no faults"))


@commands.command()
def schema() -> None:
    """Print the JSON schema of skill files, for editors."""
    click.echo(json.dumps(json_schema(), indent=2))


@commands.command()
@click.argument("file", required=False)
@click.option("--db", metavar="PATH", help="The SQLite file; by default one in a temporary folder.")
@click.option("--no-input", is_flag=True, help="Ask nothing; the demo answers its own question.")
def demo(file: str | None, db: str | None, no_input: bool) -> None:
    """Report on FILE, or on a text about honeybees: pause, and resume in a second process.

    Works offline; if OPENAI_API_KEY is set, it uses an OpenAI model (OPENAI_MODEL,
    OPENAI_BASE_URL).
    """
    path = Path(file) if file else Path(__file__).with_name("honeybees.txt")
    text, screen = _demo_text(path), screen_of()
    target = Target(name=f"{Path(__file__).with_name('demo.py')}:report")
    agent = target.load()
    from agentgraph.cli.demo import speaker  # not at the top: importing it builds a tree

    name = f"{path.name}, which comes with the demo" if not file else path
    _say(screen, f"Model: {speaker()}. Text: {name}.\n")
    db = db or str(Path(tempfile.mkdtemp(prefix="agentgraph-demo-")) / "demo.db")
    where = Whereabouts(target=target, thread_id=new_thread_id(), db=db)
    with open_session(agent, where, screen, no_input=True) as session:
        code = session.go(f"Report on {path.name}.", values={"text": text})
    sys.exit(_go_on(where, screen, no_input) if code == PAUSED else code)


def _demo_text(path: Path) -> str:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise Refusal(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Refusal(f"{path} is not UTF-8 text: {error}") from error
    if "\0" in text:
        raise Refusal(f"{path} is not text: it has a zero byte")
    if not text.strip():
        raise Refusal(f"{path} is empty; the demo needs some sentences to report on")
    return text


def _go_on(where: Whereabouts, screen: Lines, no_input: bool) -> int:
    """Resume a thread in a second process; Ctrl-C is left to that process, which receives it too."""
    may_ask = at_terminal() and not no_input
    options = () if may_ask else ("--answer", "approve", "--no-input")
    command = [sys.executable, "-m", "agentgraph", *where.resume(*options)]
    how = "" if may_ask else f" with {shlex.join(options)}, because nobody can be asked here"
    _say(screen, f"\nThis process ends here. A second one now runs that command{how}.\n")
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _say(screen: Lines, text: str) -> None:
    screen.console.print(without_controls(text), soft_wrap=True)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Refusal(f"standard input is not UTF-8 text: {error}") from error


for each in OF_THREADS:
    commands.add_command(each)
