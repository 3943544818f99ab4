"""The commands and their options."""

import json
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TypeVar, cast, get_args

import click
from rich.text import Text

from agentgraph.cli.answers import given_answers
from agentgraph.cli.inspecting import inspect
from agentgraph.cli.options import json_object
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
from agentgraph.events.events import Interrupt
from agentgraph.events.json_forms import JsonObject
from agentgraph.events.json_forms import as_json as as_data
from agentgraph.graph.compiler import compile_agent
from agentgraph.graph.graph_classes import RootGraph
from agentgraph.journal.pending import UNANSWERED
from agentgraph.journal.savers.urls import is_database_url, without_password
from agentgraph.journal.steps import Visit
from agentgraph.reports.result import Usage
from agentgraph.reports.thread import Thread, Turn
from agentgraph.safe_repr import as_json as as_text
from agentgraph.show.drawing import picture
from agentgraph.show.lines import one_line, print_event, tree_lines, without_controls
from agentgraph.show.screens import Lines, text_console
from agentgraph.show.timeline import chart
from agentgraph.skills import json_schema
from agentgraph.threads.config import thread_in
from agentgraph.threads.live.queueing import WhileRunning
from agentgraph.threads.rewinds.rewinding import RewindArguments
from agentgraph.threads.rewinds.siblings import Siblings
from agentgraph.threads.runner import Runner
from agentgraph.tree.hints import hints

F = TypeVar("F", bound=Callable[..., object])


class UserError(click.ClickException):
    """An error of the user: a message on standard error, and exit code 2."""

    exit_code = WRONG_USE

    def format_message(self) -> str:
        """Return the message without control characters."""
        return without_controls(self.message)


def options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that adds several options in order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


thread_argument = click.argument("thread", metavar="THREAD")
db_option = click.option(
    "--db",
    metavar="PATH",
    default="agentgraph.db",
    show_default=True,
    help="The SQLite file in which threads are saved, or postgresql://USER@HOST/NAME, with the "
    "password in PGPASSWORD or ~/.pgpass.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print each event as a line of JSON, and ask nothing."
)


def existing(db: str) -> str:
    """Return the path of a file that exists, or the URL of a database.

    Raises:
        UserError: It does not exist.
    """
    if is_database_url(db):
        return db
    if not Path(db).is_file():
        is_folder = bool(db) and Path(db).is_dir()
        what = f"{db} is a folder" if is_folder else f"there is no file {db or repr(db)}"
        raise UserError(f"{what}; name the file of the thread by --db")
    return db


_STATUSES = ("running", "paused", "failed", "stopped", "done", "unreadable")
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, a line for each thread."
)


def _runner(target: Target, db: str) -> Runner:
    return Runner(target.load(), checkpointer=existing(db), allow=target.types())


@click.command()
@takes_target
@click.option("--status", type=click.Choice(_STATUSES), help="Only threads with this status.")
@db_option
@_json_option
def threads(target: Target, status: str | None, db: str, as_json: bool) -> None:
    """List the threads of a file, those that began last first."""
    with _runner(target, db) as runner:
        for each in runner.threads(status):  # type: ignore[arg-type]
            line = f"{each.thread_id}  {each.status}  {each.error or _time(each.updated)}"
            click.echo(json.dumps(asdict(each)) if as_json else without_controls(line))


@click.command()
@takes_target
@thread_argument
@db_option
@_json_option
def show(target: Target, thread: str, db: str, as_json: bool) -> None:
    """Show THREAD: its status, turns, pending questions, values and tokens."""
    with _runner(target, db) as runner:
        saved = runner.thread(thread)
        if saved.status == "new":
            runner.pending(thread)  # raises the error for an unknown thread
        if as_json:
            click.echo(json.dumps(_data(saved)))
        else:
            _print(saved)


@click.command()
@takes_target
@thread_argument
@db_option
def delete(target: Target, thread: str, db: str) -> None:
    """Delete THREAD."""
    with _runner(target, db) as runner:
        runner.delete(thread)
    click.echo(without_controls(f"Deleted: thread {thread} in {without_password(db)}."))


@click.command()
@takes_target
@thread_argument
@click.argument("to", metavar="TO")
@click.option("--at", metavar="ADDRESS", help="Copy only what came before; see visits.")
@db_option
def copy(target: Target, thread: str, to: str, at: str | None, db: str) -> None:
    """Copy THREAD to the id TO; each can then be continued on its own."""
    with _runner(target, db) as runner:
        runner.copy(thread, to, at=at)
    where = without_password(db)
    click.echo(without_controls(f"Copied: thread {thread} to {to} in {where}."))


@click.command()
@takes_target
@thread_argument
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each visit.")
def visits(target: Target, thread: str, db: str, as_json: bool) -> None:
    """List what THREAD has visited, for `rewind`: each step of each agent."""
    with _runner(target, db) as runner:
        for each in runner.visits(thread):
            line = f"{_time(each.time)}  turn {each.turn}  {each.address}  {_shown(each)}"
            click.echo(json.dumps(asdict(each)) if as_json else without_controls(line))


@click.command()
@takes_target
@thread_argument
@click.option("--line", metavar="HEAD", help="An older line of the thread, as show lists them.")
@click.option(
    "--last",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="How many of the last steps of the root are read; 0 for all.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=12,
    show_default=True,
    help="Of how many activations inside another one rows are shown: the last ones, and those that are "
    "not done; 0 for all.",
)
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each bar.")
def timeline(
    target: Target, thread: str, line: str | None, last: int, rows: int, db: str, as_json: bool
) -> None:
    """Show what ran on THREAD over time: a row for each activation, and each tool call."""
    with _runner(target, db) as runner:
        read = runner.timeline(thread, last=last or None, line=line)
    if as_json:
        for bar in read.bars:
            click.echo(json.dumps(asdict(bar)))
        return
    console = text_console()
    for pieces in chart(read.bars, console.width, time.time(), rows or None):
        text = Text.assemble(*pieces)
        text.rstrip()
        console.print(text, soft_wrap=True)
    if not read.is_whole:
        console.print(f"The last {last} steps of the root; --last 0 shows all.", style="dim")


@click.command()
@takes_target
@thread_argument
@click.option("--reason", metavar="TEXT", default="stopped", help="Why, for the nodes of the run.")
@db_option
def stop(target: Target, thread: str, reason: str, db: str) -> None:
    """Stop the run on THREAD, of whichever process, before its next steps; resume goes on."""
    with _runner(target, db) as runner:
        is_running = runner.thread(thread).status == "running"
        runner.stop(thread, reason)
    said = "Asked to stop: the run on" if is_running else "Nothing runs on"
    click.echo(without_controls(f"{said} thread {thread} in {db}."))


@click.command()
@takes_target
@thread_argument
@click.argument("text", metavar="MESSAGE")
@db_option
def steer(target: Target, thread: str, text: str, db: str) -> None:
    """Send MESSAGE to the run on THREAD: the next call of a model reads it, else the next turn."""
    with _runner(target, db) as runner:
        is_running = runner.thread(thread).status == "running"
        runner.steer(thread, text)
    to = "the run on" if is_running else "the next run on"
    click.echo(without_controls(f"Sent to {to} thread {thread} in {db}."))


def _shown(visit: Visit) -> str:
    """Return the node of a visit, how long it took, and the tokens that it used."""
    took = "not ended" if visit.duration is None else f"{visit.duration:.1f} s"
    return f"{visit.node}, {took}" + (f", {visit.tokens} tokens" if visit.tokens else "")


def _data(thread: Thread) -> dict[str, object]:
    """Return a thread as JSON data."""
    turns = [
        {
            "number": turn.number,
            "messages": [message.text for message in turn.messages],
            "events": [event.to_dict() for event in turn.events],
            "began": turn.began,
            "ended": turn.ended,
        }
        for turn in thread.turns
    ]
    return {
        "thread_id": thread.thread_id,
        "status": thread.status,
        "values": as_data(thread.values),
        "turns": turns,
        "queued": [message.text for message in thread.queued],
        "pending": [as_data(asdict(question)) for question in thread.pending],
        "usage": asdict(thread.usage),
        "lines": [asdict(line) for line in thread.lines],
    }


def _print(thread: Thread) -> None:
    click.echo(without_controls(f"Thread {thread.thread_id}: {thread.status}"))
    for turn in thread.turns:
        _print_turn(turn)
    for question in thread.pending:
        value = question.value
        asked = value if isinstance(value, str) else as_text(value)
        click.echo(without_controls(f"Waits: {question.address}: {one_line(asked)}"))
    for message in thread.queued:
        click.echo(without_controls(f"Queued: {one_line(message.text)}"))
    for each in thread.lines[1:]:
        older = f"Older line: {each.head}, {_time(each.time)}, parts at {each.parts_at}"
        click.echo(without_controls(older))
    if thread.values:
        click.echo(without_controls(f"Values: {as_text(thread.values)}"))
    for line in _usage_lines(thread.usage):
        click.echo(line)


def _print_turn(turn: Turn) -> None:
    console = text_console()
    click.echo(f"Turn {turn.number}, {_time(turn.began)}, {turn.ended - turn.began:.1f} s")
    for message in turn.messages:
        click.echo(without_controls(f"user: {message.text}"))
    for event in turn.events:
        print_event(console, event)


def _usage_lines(usage: Usage) -> Iterator[str]:
    if usage.total["total_tokens"]:
        each = [f"{name} {used['total_tokens']}" for name, used in usage.by_agent.items()]
        yield f"Tokens: {usage.total['total_tokens']} ({', '.join(each)})"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")[:19]


OF_THREADS = (threads, show, delete, copy, visits, timeline, stop, steer)
"""The commands of this file."""


class _Group(click.Group):
    """Turns errors into messages with exit code 2, and Ctrl-C into exit code 130."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except AgentGraphError as error:
            raise UserError(str(error)) from error
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
    use, 130 stopped by Ctrl-C or `stop`. A thread that is not done can be resumed.
    """


@commands.command()
@takes_target
@click.argument("text", metavar="INPUT")
@click.option("--thread", metavar="ID", help="The thread; by default that of --config, or a new one.")
@_run_options
@click.option("--drop-pending", is_flag=True, help="Drop the questions that wait on the thread.")
@click.option(
    "--while-running",
    type=click.Choice(get_args(WhileRunning)),
    default="refuse",
    show_default=True,
    help="What becomes of INPUT if another run is active on the thread.",
)
def run(
    target: Target,
    text: str,
    thread: str | None,
    values: JsonObject | None,
    context: JsonObject | None,
    config: JsonObject | None,
    db: str,
    as_json: bool,
    stream: bool,
    drop_pending: bool,
    while_running: WhileRunning,
    **options: bool,
) -> None:
    """Run a tree on INPUT, or on standard input if INPUT is -."""
    agent = target.load()
    thread_id = thread if thread is not None else (thread_in(config) or new_thread_id())
    where = Whereabouts(target=target, thread_id=thread_id, db=db, config=config, context=context)
    message = _standard_input() if text == "-" else text
    screen = screen_of(as_json=as_json, streams=stream)
    with open_session(agent, where, screen, **options) as session:
        more = {"drop_pending": drop_pending, "while_running": while_running}
        sys.exit(session.go(message, values=values, **more))


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
    values: JsonObject | None,
    context: JsonObject | None,
    config: JsonObject | None,
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
        by_question = given_answers(answers, session.runner.pending(thread)) if answers else UNANSWERED
        sys.exit(session.go(answers=by_question, values=values))


@commands.command()
@takes_target
@thread_argument
@click.argument("at", metavar="ADDRESS")
@click.option("--turn", type=int, help="The turn of ADDRESS; by default the last that visited it.")
@click.option(
    "--siblings",
    type=click.Choice(get_args(Siblings)),
    default="keep",
    show_default=True,
    help="What becomes of what ran side by side with it.",
)
@click.option("--message", metavar="TEXT", help="A message of the user to add before it begins.")
@click.option("--answer", metavar="TEXT", help="A new answer to its question.")
@_run_options
def rewind(
    target: Target,
    thread: str,
    at: str,
    answer: str | None,
    message: str | None,
    turn: int | None,
    siblings: Siblings,
    values: JsonObject | None,
    context: JsonObject | None,
    config: JsonObject | None,
    db: str,
    as_json: bool,
    stream: bool,
    **options: bool,
) -> None:
    """Go back to ADDRESS, which THREAD has visited, and run on from there.

    ADDRESS is that of an agent, such as report/refine[1]/critic, of an iteration, report/refine[1],
    or the name of a step. What came before is kept and not run again; what came after is gone from
    the thread's line.
    """
    agent = target.load()
    where = Whereabouts(
        target=target, thread_id=thread, db=existing(db), config=config, context=context
    )
    screen = screen_of(as_json=as_json, streams=stream)
    with open_session(agent, where, screen, **options) as session:
        by_question: object = UNANSWERED
        if answer is not None:
            by_question = given_answers([answer], _question_at(session.runner, thread, at))
        back = RewindArguments(at, turn, siblings, values, message or (), by_question)
        sys.exit(session.go(at=back))


def _question_at(runner: Runner, thread: str, at: str) -> list[Interrupt]:
    """Return the question that was asked last at an address, or in a step."""
    asked = [
        event.action.interrupted
        for event in runner.events(thread)
        if event.action and event.action.interrupted and at in (event.address, event.step)
    ]
    return asked[-1:]


@commands.command()
@takes_target
@thread_argument
@click.option("--line", metavar="HEAD", help="An older line of the thread, as show lists them.")
@options(db_option, json_option)
def events(target: Target, thread: str, line: str | None, db: str, as_json: bool) -> None:
    """Print the events of THREAD again."""
    agent, screen = target.load(), screen_of(as_json=as_json)
    where = Whereabouts(target=target, thread_id=thread, db=existing(db))
    with open_session(agent, where, screen) as session:
        for event in session.runner.events(thread, line=line):
            screen.line(event)


@commands.command()
@takes_target
@click.option("--tree", is_flag=True, help="Print an outline of the tree instead.")
@click.option("--svg", metavar="FILE", help="Write the drawing to an SVG file, with a legend.")
@click.option("--html", metavar="FILE", help="Write the drawing to a page that loads nothing.")
@click.option("--thread", metavar="ID", help="A thread: draw how often its agents ran, and how long.")
@click.option("--db", metavar="PATH", help="Where the thread is saved, by default agentgraph.db.")
def draw(
    target: Target,
    tree: bool,
    svg: str | None,
    html: str | None,
    thread: str | None,
    db: str | None,
) -> None:
    """Draw the graph of a tree: as Mermaid text, or to files.

    With --thread it draws a run: each node says how often it ran, how long, and with how many tokens;
    what never ran is pale. --svg and --html need the extra `svg`.
    """
    if tree and (svg or html or thread):
        raise UserError("--tree prints an outline; it takes no --svg, --html or --thread")
    if db and not thread:
        raise UserError("--db is the file of a thread; name the thread by --thread, or leave --db out")
    agent = target.load()
    graph = compile_agent(agent)
    if tree:
        click.echo(without_controls("\n".join(tree_lines(agent))))
        return
    visited, caption = None, ""
    if thread:
        with _runner(target, db or "agentgraph.db") as runner:
            visited = runner.visits(thread)
        tokens = sum(each.tokens for each in visited)
        caption = f"Thread {thread}: {len(visited)} steps" + (f", {tokens:,} tokens" if tokens else "")
    drawing = picture(graph, visits=visited)
    if not (svg or html):
        click.echo(without_controls(drawing.text.rstrip()))
    if svg:
        _write(svg, drawing.svg())
    if html:
        _write(html, drawing.html(caption))


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}") from error
    click.echo(without_controls(f"Drawn: {file}."))


@commands.command()
@takes_target
def check(target: Target) -> None:
    """Print the faults of a tree, one a line; warn of what may be a mistake."""
    try:
        graph = compile_agent(target.load())
    except (InvalidAgentError, InvalidSkillError) as error:
        click.echo(without_controls("\n".join(error.faults)), err=True)
        sys.exit(WRONG_USE)
    for hint in hints(cast(RootGraph, graph).tree):
        click.echo(without_controls(f"warning: {hint}"), err=True)
    click.echo(without_controls(f"{target.name.rpartition(':')[2]}: no faults"))


@commands.command()
def schema() -> None:
    """Print the JSON schema of skill files, for editors."""
    click.echo(json.dumps(json_schema(), indent=2))


@commands.command()
@click.argument("file", required=False)
@click.option(
    "--db",
    metavar="PATH",
    help="The file, or the URL of a database; by default one in a temporary folder.",
)
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
    _print_text(screen, f"Model: {speaker()}. Text: {name}.\n")
    db = db or str(Path(tempfile.mkdtemp(prefix="agentgraph-demo-")) / "demo.db")
    where = Whereabouts(target=target, thread_id=new_thread_id(), db=db)
    with open_session(agent, where, screen, no_input=True) as session:
        code = session.go(f"Report on {path.name}.", values={"text": text})
    sys.exit(_go_on(where, screen, no_input) if code == PAUSED else code)


def _demo_text(path: Path) -> str:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    if "\0" in text:
        raise UserError(f"{path} is not text: it has a zero byte")
    if not text.strip():
        raise UserError(f"{path} is empty; the demo needs some sentences to report on")
    return text


def _go_on(where: Whereabouts, screen: Lines, no_input: bool) -> int:
    """Resume a thread in a second process; Ctrl-C is left to that process, which receives it too."""
    may_ask = at_terminal() and not no_input
    options = () if may_ask else ("--answer", "approve", "--no-input")
    command = [sys.executable, "-m", "agentgraph", *where.resume(*options)]
    how = "" if may_ask else f" with {shlex.join(options)}, because nobody can be asked here"
    _print_text(screen, f"\nThis process ends here. A second one now runs that command{how}.\n")
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _print_text(screen: Lines, text: str) -> None:
    screen.console.print(without_controls(text), soft_wrap=True)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is not UTF-8 text: {error}") from error


for each in (*OF_THREADS, inspect):
    commands.add_command(each)
