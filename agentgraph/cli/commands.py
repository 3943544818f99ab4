"""The group of all commands, and the commands that run, draw and check trees."""

import json
import os
import sys
from pathlib import Path
from typing import get_args

import click

from agentgraph import __version__
from agentgraph.cli.advance_command import advance
from agentgraph.cli.answers import given_answers
from agentgraph.cli.definition_lines import definition_lines
from agentgraph.cli.demo_command import demo
from agentgraph.cli.evaluate_command import cases, evaluate
from agentgraph.cli.inspecting import inspect
from agentgraph.cli.loaded import Loaded
from agentgraph.cli.new import new
from agentgraph.cli.options import (
    UserError,
    db_option,
    json_object,
    json_option,
    options,
    thread_argument,
    verbose_option,
)
from agentgraph.cli.session import (
    STOPPED,
    WRONG_USE,
    Whereabouts,
    new_thread_id,
    open_session,
    screen_of,
)
from agentgraph.cli.target import Target, takes_target
from agentgraph.cli.thread_commands import OF_THREADS
from agentgraph.errors import AgentGraphError, InvalidAgentError, InvalidSkillError
from agentgraph.events.events import Interrupt
from agentgraph.events.json_forms import JsonObject
from agentgraph.journal.answers import UNANSWERED
from agentgraph.journal.steps import Visit
from agentgraph.show.drawing import picture
from agentgraph.show.lines import tree_lines, without_controls
from agentgraph.skills import json_schema
from agentgraph.threads.config import thread_in
from agentgraph.threads.live.queueing import WhileRunning
from agentgraph.threads.rewinds.rewinding import RewindArguments
from agentgraph.threads.rewinds.siblings import Siblings
from agentgraph.threads.runner import Runner
from agentgraph.tree.hints import hints
from agentgraph.tree.lint.formats import as_data, as_sarif
from agentgraph.window.findings import findings_of


class _Group(click.Group):
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
    click.option("--stream", is_flag=True, help="Print the replies of models while they are streamed."),
    click.option("--no-input", is_flag=True, help="Pause at questions instead of asking them."),
    click.option(
        "--traceback", "with_traceback", is_flag=True, help="Print the traceback of a failure."
    ),
    verbose_option,
)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def commands() -> None:
    """Run, resume, draw and check trees of agents.

    TARGET is FILE.py:NAME, where NAME is a tree, a Runner, or a function that returns one; or a skill
    file, which ends with .yaml, .yml or .json. Without :NAME it is the only tree of the file or folder:
    a Runner, or an agent that is in no other agent and no Runner. A Runner with a checkpointer keeps
    its threads there; others use --db.

    Each event is printed as a line that starts with its address, such as report/refine[1]/critic. Exit
    codes: 0 done, 3 paused at a question, 1 an agent failed, 2 wrong use, 130 stopped by Ctrl-C or
    `stop`. A thread that is not done can be resumed.
    """


@commands.command()
@takes_target
@click.argument("text", metavar="INPUT")
@click.option(
    "--thread", metavar="ID", help="The thread; by default the one in --config, or a new one."
)
@_run_options
@click.option("--drop-pending", is_flag=True, help="Drop the pending questions of the thread.")
@click.option(
    "--while-running",
    type=click.Choice(get_args(WhileRunning)),
    default="refuse",
    show_default=True,
    help="The treatment of INPUT if another run is active on the thread.",
)
def run(
    target: Target,
    text: str,
    thread: str | None,
    values: JsonObject | None,
    context: JsonObject | None,
    config: JsonObject | None,
    db: str | None,
    as_json: bool,
    stream: bool,
    drop_pending: bool,
    while_running: WhileRunning,
    **options: bool,
) -> None:
    """Run a tree on INPUT, or on standard input if INPUT is -."""
    thread_id = thread if thread is not None else (thread_in(config) or new_thread_id())
    where = Whereabouts(target=target, thread_id=thread_id, db=db, config=config, context=context)
    screen = screen_of(as_json=as_json, streams=stream)
    with open_session(where, screen, creates=True, **options) as session:
        message = _standard_input() if text == "-" else text
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
    db: str | None,
    as_json: bool,
    stream: bool,
    **options: bool,
) -> None:
    """Resume THREAD at its questions, or at its failed step.

    TEXT is parsed as JSON if it is JSON, unless the question asks for text. Decisions on tool calls
    are `approve`, `reject`, `reject: REASON`, `respond: RESULT` and `edit: {ARGUMENTS}`: one for all
    calls of a question, or one for each in order, with commas. A TEXT that starts with NAME= needs
    ADDRESS= before it.
    """
    where = Whereabouts(target=target, thread_id=thread, db=db, config=config, context=context)
    screen = screen_of(as_json=as_json, streams=stream)
    with open_session(where, screen, **options) as session:
        by_question = given_answers(answers, session.runner.pending(thread)) if answers else UNANSWERED
        sys.exit(session.go(answers=by_question, values=values))


@commands.command()
@takes_target
@thread_argument
@click.argument("at", metavar="ADDRESS")
@click.option("--turn", type=int, help="The turn of ADDRESS; by default the last that reached it.")
@click.option(
    "--siblings",
    type=click.Choice(get_args(Siblings)),
    default="keep",
    show_default=True,
    help="Whether agents that ran in parallel with it are kept or run again.",
)
@click.option("--message", metavar="TEXT", help="A user message to add before the agent starts.")
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
    db: str | None,
    as_json: bool,
    stream: bool,
    **options: bool,
) -> None:
    """Go back to ADDRESS, which THREAD has reached, and continue from there.

    ADDRESS names an agent, such as report/refine[1]/critic, an iteration, such as report/refine[1],
    or a step. Earlier work is kept and does not run again. Later work leaves the thread's history
    line.
    """
    where = Whereabouts(target=target, thread_id=thread, db=db, config=config, context=context)
    screen = screen_of(as_json=as_json, streams=stream)
    with open_session(where, screen, **options) as session:
        by_question: object = UNANSWERED
        if answer is not None:
            by_question = given_answers([answer], _question_at(session.runner, thread, at))
        back = RewindArguments(at, turn, siblings, values, message or (), by_question)
        sys.exit(session.go(at=back))


def _question_at(runner: Runner, thread: str, at: str) -> list[Interrupt]:
    """Return the latest question at an address or in a step, as a list of at most one."""
    asked = [
        event.action.interrupted
        for event in runner.events(thread)
        if event.action and event.action.interrupted and at in (event.address, event.step)
    ]
    return asked[-1:]


@commands.command()
@takes_target
@thread_argument
@click.option("--line", metavar="HEAD", help="An older history line of the thread, as listed by show.")
@options(db_option, json_option)
def events(target: Target, thread: str, line: str | None, db: str, as_json: bool) -> None:
    """Print the saved events of THREAD."""
    screen = screen_of(as_json=as_json)
    where = Whereabouts(target=target, thread_id=thread, db=db)
    with open_session(where, screen) as session:
        for event in session.runner.events(thread, line=line):
            screen.line(event)


@commands.command()
@takes_target
@click.option("--tree", is_flag=True, help="Print an outline of the tree instead.")
@click.option("--svg", metavar="FILE", help="Write the drawing to an SVG file, with a legend.")
@click.option("--html", metavar="FILE", help="Write the drawing to a self-contained page.")
@click.option("--thread", metavar="ID", help="A thread: draw how often its agents ran, and how long.")
@click.option("--db", metavar="PATH", help="The file of the thread, by default agentgraph.db.")
def draw(
    target: Target,
    tree: bool,
    svg: str | None,
    html: str | None,
    thread: str | None,
    db: str | None,
) -> None:
    """Draw the graph of a tree: as Mermaid text, or to files.

    With --thread it draws a run: each node shows its number of runs, their time and their tokens.
    Nodes that never ran are pale. --svg and --html need the extra `svg`.
    """
    if tree and (svg or html or thread):
        raise UserError("--tree prints an outline; leave out --svg, --html and --thread, or --tree")
    if db and not thread:
        raise UserError("--db needs a thread; name the thread with --thread, or leave --db out")
    with target.load() as loaded:
        graph = loaded.bare_runner().graph
        if tree:
            click.echo(without_controls("\n".join(tree_lines(loaded.agent))))
            return
        visited = _visits(loaded, db, thread) if thread else None
    caption = ""
    if visited is not None:
        tokens = sum(each.tokens for each in visited)
        caption = f"Thread {thread}: {len(visited)} steps" + (f", {tokens:,} tokens" if tokens else "")
    drawing = picture(graph, visits=visited)
    if not (svg or html):
        click.echo(without_controls(drawing.text.rstrip()))
    if svg:
        _write(svg, drawing.svg())
    if html:
        _write(html, drawing.html(caption))


def _visits(loaded: Loaded, db: str | None, thread: str) -> list[Visit]:
    with loaded.open(db) as runner:
        return runner.visits(thread)


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}; name another file") from error
    click.echo(without_controls(f"Drawn: {file}."))


@commands.command()
@takes_target
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="The form of the warnings: lines on standard error, or a document on standard output.",
)
@click.option("--json", "short", flag_value="json", help="The same as --format json.")
@click.option("--sarif", "short", flag_value="sarif", help="The same as --format sarif.")
@click.option(
    "--input",
    "inputs",
    metavar="NAME",
    multiple=True,
    help="A value that runs pass, or that callers read.",
)
def check(target: Target, strict: bool, form: str, short: str | None, inputs: tuple[str, ...]) -> None:
    """Print the faults of a tree, one per line, and warnings about likely mistakes.

    A warning names an agent, the mistake, the remedy, and the way through the tree on which it happens.
    Exit codes: 0 no faults, 1 warnings with --strict, 2 faults or wrong use.
    """
    try:
        with target.load() as loaded:
            runner = loaded.bare_runner()
            findings = findings_of(runner, inputs)
    except (InvalidAgentError, InvalidSkillError) as error:
        click.echo(without_controls("\n".join(error.faults)), err=True)
        sys.exit(WRONG_USE)
    form = short or form
    texts = [*hints(runner.engine.tree), *(map(str, findings) if form == "text" else ())]
    for text in texts:
        click.echo(without_controls(f"warning: {text}"), err=True)
    if form == "text":
        click.echo(without_controls(f"{loaded.short_name}: no faults"))
    else:
        file = loaded.file.replace(os.sep, "/")
        sarif = as_sarif(findings, file, __version__, definition_lines(loaded.file))
        click.echo(json.dumps(as_data(findings) if form == "json" else sarif, indent=2))
    sys.exit(1 if strict and (texts or findings) else 0)


@commands.command()
def schema() -> None:
    """Print the JSON schema of skill files, for editors."""
    click.echo(json.dumps(json_schema(), indent=2))


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is not UTF-8 text: {error}; convert it first") from error


for each in (*OF_THREADS, advance, cases, evaluate, inspect, demo, new):
    commands.add_command(each)
