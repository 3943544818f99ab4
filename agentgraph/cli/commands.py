"""The commands, and their options."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from agentgraph.agents.agents import Agent
from agentgraph.cli.answers import given_answers
from agentgraph.cli.demo.command import demonstrate
from agentgraph.cli.session import (
    STOPPED,
    WRONG_USE,
    Printer,
    Session,
    Whereabouts,
    new_thread_id,
    open_runner,
)
from agentgraph.cli.target import load
from agentgraph.errors import AgentGraphError, InvalidAgentError, InvalidSkillError
from agentgraph.graph.compiler import compile_agent
from agentgraph.show.drawing import mermaid
from agentgraph.show.lines import without_controls
from agentgraph.show.outline import tree_lines
from agentgraph.show.watching import watch
from agentgraph.skills import json_schema
from agentgraph.threads.pending import UNANSWERED

F = TypeVar("F", bound=Callable[..., Any])


class _Refusal(click.ClickException):
    exit_code = WRONG_USE

    def format_message(self) -> str:
        return without_controls(self.message)


class _Group(click.Group):
    """Tells wrong use as a message, and Ctrl-C as an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AgentGraphError as error:
            raise _Refusal(str(error)) from error
        except KeyboardInterrupt:
            sys.exit(STOPPED)


def _json_object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no JSON ({error}).") from None
    if not isinstance(values, dict):
        raise click.BadParameter(f'{text!r} is no JSON object such as {{"topic": "bees"}}.')
    return values


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that adds several options, in their order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A tree, in the words of the command line.

    Attributes:
        name: `FILE.py:NAME`, or a skill file.
        registry: The Python file with what a skill file names.
        allow: What a skill file may import.
    """

    name: str
    registry: str | None
    allow: tuple[str, ...]

    def load(self) -> Agent:
        """Return the tree."""
        return load(self.name, self.registry, self.allow)

    def thread(self, thread_id: str, db: str) -> Whereabouts:
        """Return where one of its threads is."""
        registry = ["--registry", self.registry] if self.registry else []
        allow = [word for each in self.allow for word in ("--allow", each)]
        options = (*registry, *allow)
        return Whereabouts(target=self.name, thread_id=thread_id, db=db, options=options)


def _takes_target(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its argument TARGET, with the options of skill files, as one value."""

    @click.argument("target", metavar="TARGET")
    @click.option(
        "--registry",
        metavar="FILE.py",
        help="For a skill file: the Python file with its dicts tools, models and agents.",
    )
    @click.option(
        "--allow",
        metavar="MODULE:NAME",
        multiple=True,
        help="For a skill file: what it may import; MODULE:* for all public names.",
    )
    @wraps(command)
    def with_target(target: str, registry: str | None, allow: tuple[str, ...], **options: Any) -> None:
        command(target=Target(name=target, registry=registry, allow=allow), **options)

    return with_target


_thread = click.option("--thread", metavar="ID", required=True, help="The thread.")
_db = click.option(
    "--db",
    metavar="PATH",
    default="agentgraph.db",
    show_default=True,
    help="The SQLite file that keeps the threads.",
)
_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print each event as a line of JSON, and ask nothing."
)
_run_options = _options(
    click.option(
        "--values",
        metavar="JSON",
        type=_json_object,
        help="""Values of the run, such as '{"topic": "bees"}'.""",
    ),
    _db,
    _as_json,
    click.option("--no-input", is_flag=True, help="Pause at a question, also at a terminal."),
    click.option(
        "--traceback", "with_traceback", is_flag=True, help="Print the traceback of a failure."
    ),
)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentgraph")
def commands() -> None:
    """Run trees of agents, and look at them.

    TARGET is FILE.py:NAME, the variable NAME of a Python file, or a skill file, which ends with
    .yaml, .yml or .json. A command ends with 0 when all is done, 3 when it paused at a question,
    1 when an agent failed, 2 when it was called wrongly, and 130 when it was stopped by Ctrl-C; a
    thread that did not end can be resumed.
    """


@commands.command()
@_takes_target
@click.argument("text", metavar="INPUT")
@click.option("--thread", metavar="ID", help="The thread; a new one if left out.")
@_run_options
@click.option("--drop-pending", is_flag=True, help="Drop the questions that wait on the thread.")
def run(
    target: Target,
    text: str,
    thread: str | None,
    values: dict[str, Any] | None,
    db: str,
    as_json: bool,
    drop_pending: bool,
    **options: bool,
) -> None:
    """Run a tree on INPUT, or on standard input where INPUT is -."""
    agent = target.load()
    where = target.thread(new_thread_id() if thread is None else thread, db)
    given = _standard_input() if text == "-" else text
    with open_runner(agent, db) as runner:
        start = partial(
            watch, runner, given, thread_id=where.thread_id, values=values, drop_pending=drop_pending
        )
        sys.exit(Session(runner, where, Printer(as_json=as_json), **options).go(start))


@commands.command()
@_takes_target
@_thread
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
    db: str,
    as_json: bool,
    **options: bool,
) -> None:
    """Go on where a thread stopped: at its questions, or at the step that failed.

    A TEXT that is JSON is taken as such, unless the question asks for text; `approve` and `reject`
    decide on all tool calls that are asked for, `approve, reject` on each in order. A TEXT that
    itself begins like NAME= needs its ADDRESS= before it.
    """
    agent = target.load()
    where = target.thread(thread, _there(db))
    with open_runner(agent, db) as runner:
        given = given_answers(answers, runner.pending(thread)) if answers else UNANSWERED
        start = partial(watch, runner, thread_id=thread, answers=given, values=values)
        sys.exit(Session(runner, where, Printer(as_json=as_json), **options).go(start))


@commands.command()
@_takes_target
@_thread
@_options(_db, _as_json)
def events(target: Target, thread: str, db: str, as_json: bool) -> None:
    """Tell again what happened on a thread."""
    printer = Printer(as_json=as_json)
    with open_runner(target.load(), _there(db)) as runner:
        for event in runner.events(thread):
            printer.show(event)


@commands.command()
@_takes_target
@click.option("--tree", is_flag=True, help="Print an outline of the tree instead.")
def draw(target: Target, tree: bool) -> None:
    """Print the graph of a tree as Mermaid text."""
    agent = target.load()
    graph = compile_agent(agent)
    text = "\n".join(tree_lines(agent)) if tree else mermaid(graph).rstrip()
    click.echo(without_controls(text))


@commands.command()
@_takes_target
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
@click.option("--db", metavar="PATH", help="The SQLite file; one in a temporary folder if left out.")
@click.option("--no-input", is_flag=True, help="Ask nothing: the demo answers by itself.")
def demo(file: str | None, db: str | None, no_input: bool) -> None:
    """Report on FILE, or on a text about honeybees: pause, and go on in a second process.

    Works offline; with OPENAI_API_KEY set, an OpenAI model speaks (OPENAI_MODEL,
    OPENAI_BASE_URL).
    """
    sys.exit(demonstrate(file, db, no_input=no_input))


def _there(db: str) -> str:
    if not Path(db).is_file():
        raise _Refusal(f"there is no file {db}; --db names the one that the thread is kept in")
    return db


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise _Refusal(f"standard input is no UTF-8 text: {error}") from error
