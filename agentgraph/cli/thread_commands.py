"""The commands that read and change saved threads."""

import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any, get_args

import click
from rich.text import Text

from agentgraph.cli.answers import given_answers
from agentgraph.cli.loaded import place_of
from agentgraph.cli.options import db_option, json_object, number_option, runner_of, thread_argument
from agentgraph.cli.own_threads import page_of
from agentgraph.cli.target import Target, takes_target
from agentgraph.events.json_forms import JsonObject
from agentgraph.events.json_forms import as_json as as_data
from agentgraph.journal.spent import cost_text, shown_cost
from agentgraph.journal.steps import Visit
from agentgraph.reports.flame import Measure
from agentgraph.reports.result import Usage
from agentgraph.reports.thread import Thread, Turn
from agentgraph.safe_repr import as_json as as_text
from agentgraph.show.approvals import question_line, until_text
from agentgraph.show.lines import one_line, print_event, without_controls
from agentgraph.show.screens import text_console
from agentgraph.show.timeline import chart

_STATUSES = ("running", "paused", "failed", "stopped", "done", "unreadable")


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per thread.")


@click.command()
@takes_target
@click.option("--status", type=click.Choice(_STATUSES), help="Only threads with this status.")
@click.option(
    "--metadata",
    metavar="JSON",
    type=json_object,
    help='Only threads whose runs have this metadata, such as \'{"user": "ann"}\'.',
)
@number_option("--limit", 50, "Maximum number of threads listed.")
@click.option("--before", metavar="THREAD", help="List the threads after this one: the next page.")
@click.option("--due", is_flag=True, help="Only threads with a question whose deadline has passed.")
@click.option("--others", is_flag=True, help="Also threads that other trees ran last.")
@db_option
@_json_option
def threads(
    target: Target,
    status: str | None,
    metadata: JsonObject | None,
    limit: int,
    before: str | None,
    due: bool,
    others: bool,
    db: str | None,
    as_json: bool,
) -> None:
    """List the threads that a tree ran last, the latest started first, each with the name of the tree.

    A tree whose root agent has the same name counts as the same tree. The threads of other trees in the
    same file or database are left out without --others.
    """
    filters: dict[str, Any] = {"status": status, "metadata": metadata, "due": due or None}
    with runner_of(target, db) as runner:
        page = page_of(runner, limit, before, others=others, **filters)
    for each in page.threads:
        line = f"{each.thread_id}  {each.status}  {each.error or _time(each.updated)}"
        line += f"  {each.tree}" if each.tree else ""
        if each.stop_reason is not None:
            line += f"  stopped by a person: {one_line(each.stop_reason)}"
        if each.deadline is not None:
            line += f"  until {_time(each.deadline)}{', which has passed' * each.is_due}"
        click.echo(json.dumps(asdict(each)) if as_json else without_controls(line))
    if page.last is not None:
        more = f"There are more threads: add --before {shlex.quote(page.last)}"
        click.echo(without_controls(more), err=True)
    if page.has_others:
        click.echo("There are threads of other trees: add --others", err=True)


@click.command()
@takes_target
@thread_argument
@db_option
@_json_option
def show(target: Target, thread: str, db: str | None, as_json: bool) -> None:
    """Show THREAD: its status, turns, pending questions, values and tokens."""
    with runner_of(target, db) as runner:
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
def delete(target: Target, thread: str, db: str | None) -> None:
    """Delete THREAD."""
    with runner_of(target, db) as runner:
        runner.delete(thread)
        place = place_of(runner)
    click.echo(without_controls(f"Deleted: thread {thread} in {place}."))


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""The units of times, in seconds."""


def _seconds(text: str) -> float:
    """Parse a time such as 30d, 12h, 45m, or a number of seconds.

    Raises:
        click.BadParameter: The text is not a time.
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _SECONDS else (text, "s")
    try:
        return float(number) * _SECONDS[unit]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time such as 30d, 12h, 45m or 90.") from None


@click.command()
@takes_target
@click.argument("thread", metavar="[THREAD]", required=False)
@click.option(
    "--keep-turns",
    metavar="N",
    type=click.IntRange(min=1),
    help="Remove all turns of a thread but its last N.",
)
@click.option(
    "--keep-lines",
    metavar="N",
    type=click.IntRange(min=0),
    help="Remove all older history lines of a thread, as listed by show, but the latest N.",
)
@click.option(
    "--older-than",
    metavar="TIME",
    type=_seconds,
    help="Remove threads that are done and were last saved so long ago: 30d, 12h, 45m or seconds.",
)
@click.option(
    "--compact", is_flag=True, help="Copy the SQLite file without free space; nothing may run on it."
)
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prune(
    target: Target,
    thread: str | None,
    keep_turns: int | None,
    keep_lines: int | None,
    older_than: float | None,
    compact: bool,
    db: str | None,
    as_json: bool,
) -> None:
    """Remove old turns and lines of THREAD, or of all threads, and whole threads that are done.

    The rest of a thread stays as it was. Threads on which a run is active are skipped.
    """
    if keep_turns is None and keep_lines is None and older_than is None and not compact:
        raise click.UsageError("Pass --keep-turns, --keep-lines, --older-than or --compact.")
    with runner_of(target, db) as runner:
        pruned = runner.prune(
            thread,
            keep_turns=keep_turns,
            older_than=older_than,
            keep_lines=keep_lines,
            compact=compact,
        )
    click.echo(json.dumps(asdict(pruned)) if as_json else without_controls(f"{pruned}."))


@click.command()
@takes_target
@thread_argument
@click.argument("to", metavar="TO")
@click.option(
    "--at", metavar="ADDRESS", help="Copy only the steps before ADDRESS, as listed by visits."
)
@db_option
def copy(target: Target, thread: str, to: str, at: str | None, db: str | None) -> None:
    """Copy THREAD to the id TO; each can then be continued on its own."""
    with runner_of(target, db) as runner:
        runner.copy(thread, to, at=at)
        where = place_of(runner)
    click.echo(without_controls(f"Copied: thread {thread} to {to} in {where}."))


@click.command()
@takes_target
@thread_argument
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per visit.")
def visits(target: Target, thread: str, db: str | None, as_json: bool) -> None:
    """List each step of each agent on THREAD, for `rewind`."""
    with runner_of(target, db) as runner:
        for each in runner.visits(thread):
            line = f"{_time(each.time)}  turn {each.turn}  {each.address}  {_shown(each)}"
            click.echo(json.dumps(asdict(each)) if as_json else without_controls(line))


@click.command()
@takes_target
@thread_argument
@click.option("--line", metavar="HEAD", help="An older history line of the thread, as listed by show.")
@number_option("--last", 200, "Number of last steps of the root to read; 0 for all.", least=0)
@number_option(
    "--rows",
    12,
    "Number of activations shown inside another one: the last ones, and those that are not done; "
    "0 for all.",
    least=0,
)
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per bar.")
def timeline(
    target: Target, thread: str, line: str | None, last: int, rows: int, db: str | None, as_json: bool
) -> None:
    """Show the activations and tool calls of THREAD over time, one row each."""
    with runner_of(target, db) as runner:
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
@click.option(
    "--by",
    type=click.Choice(get_args(Measure)),
    default="seconds",
    show_default=True,
    help="The measure.",
)
@click.option("--turn", type=click.IntRange(min=0), help="The turn, from 0; the last one by default.")
@click.option("--other", metavar="THREAD", help="Another thread, whose totals are shown too.")
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line per frame.")
def flame(
    target: Target,
    thread: str,
    by: Measure,
    turn: int | None,
    other: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Show where a turn of THREAD spent time, tokens or money, one row per agent."""
    with runner_of(target, db) as runner:
        read = runner.flame(thread, turn=turn)
        compared = None if other is None else runner.flame(other, turn=turn)
    if as_json:
        for frame in read.frames:
            click.echo(json.dumps(asdict(frame), default=str))
        return
    click.echo(without_controls(read.text(by, other=compared)))


@click.command()
@takes_target
@thread_argument
@click.option(
    "--reason", metavar="TEXT", default="stopped", help="The reason, for the nodes of the run."
)
@db_option
def stop(target: Target, thread: str, reason: str, db: str | None) -> None:
    """Stop the run on THREAD, in any process, before its next steps; resume continues it."""
    with runner_of(target, db) as runner:
        is_running = runner.thread(thread).status == "running"
        runner.stop(thread, reason)
        place = place_of(runner)
    said = "Stop requested: the run on" if is_running else "Nothing runs on"
    click.echo(without_controls(f"{said} thread {thread} in {place}."))


@click.command()
@takes_target
@thread_argument
@click.argument("text", metavar="MESSAGE")
@db_option
def steer(target: Target, thread: str, text: str, db: str | None) -> None:
    """Send MESSAGE to the run on THREAD: the next model call reads it, or else the next turn."""
    with runner_of(target, db) as runner:
        is_running = runner.thread(thread).status == "running"
        runner.steer(thread, text)
        place = place_of(runner)
    to = "the run on" if is_running else "the next run on"
    click.echo(without_controls(f"Sent to {to} thread {thread} in {place}."))


@click.command()
@takes_target
@thread_argument
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@db_option
def answer(target: Target, thread: str, texts: tuple[str, ...], db: str | None) -> None:
    """Answer questions of THREAD: its active run continues, or the next resume or advance does.

    Each TEXT is an answer, or ADDRESS=TEXT or ID=TEXT for one of several questions, as in resume.
    """
    with runner_of(target, db) as runner:
        runner.answer(thread, given_answers(texts, runner.pending(thread), "TEXT"))
        saved = runner.thread(thread)
        where = f"thread {thread} in {place_of(runner)}"
    said = f"the run on {where} continues" if saved.status == "running" else where
    click.echo(without_controls(f"Answered: {said}."))
    _print_waiting(saved)


def _shown(visit: Visit) -> str:
    took = "not ended" if visit.duration is None else f"{visit.duration:.1f} s"
    return f"{visit.node}, {took}" + (f", {visit.tokens} tokens" if visit.tokens else "")


def _data(thread: Thread) -> dict[str, object]:
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
        "answered": [as_data(asdict(each)) for each in thread.answered],
        "usage": asdict(thread.usage),
        "cost": _costs(thread),
        "lines": [asdict(line) for line in thread.lines],
    }


def _print(thread: Thread) -> None:
    click.echo(without_controls(f"Thread {thread.thread_id}: {thread.status}"))
    for turn in thread.turns:
        _print_turn(turn)
    _print_waiting(thread)
    for answered in thread.answered:
        given = f"Answered: {answered.question.address}: {one_line(as_text(answered.answer))}"
        click.echo(without_controls(given))
    for message in thread.queued:
        click.echo(without_controls(f"Queued: {one_line(message.text)}"))
    for each in thread.lines[1:]:
        older = f"Older line: {each.head}, {_time(each.time)}, parts at {each.parts_at}"
        click.echo(without_controls(older))
    if thread.values:
        click.echo(without_controls(f"Values: {as_text(thread.values)}"))
    for line in (*_usage_lines(thread.usage), *_cost_lines(thread)):
        click.echo(line)


def _print_waiting(thread: Thread) -> None:
    for question in thread.pending:
        asked = question_line(question) + until_text(question)
        click.echo(without_controls(f"Waits: {question.address}: {one_line(asked)}"))


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


def _costs(thread: Thread) -> dict[str, str] | None:
    """Return the cost of a thread and of each agent; None if no run of it had prices."""
    if all(cost_text(turn.counts) is None for turn in thread.turns):
        return None
    spent = thread.spent
    by_agent = {name: shown_cost(each.cost) for name, each in spent.by_agent.items()}
    return {"total": shown_cost(spent.cost), **by_agent}


def _cost_lines(thread: Thread) -> Iterator[str]:
    if costs := _costs(thread):
        total, *each = (f"{name} {cost}" for name, cost in costs.items())
        yield f"Cost: {total.removeprefix('total ')} ({', '.join(each)})"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")[:19]


OF_THREADS = (threads, show, delete, prune, copy, visits, timeline, flame, stop, steer, answer)
"""The commands of this file."""
