"""The commands that write cases from threads, and that evaluate a tree by cases."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgraph.agents.functions import is_async
from agentgraph.cli.options import (
    UserError,
    db_option,
    number_option,
    print_skipped,
    runner_of,
    verbose_option,
)
from agentgraph.cli.own_threads import own_threads, print_skipped_other
from agentgraph.cli.session import DONE, FAILED
from agentgraph.cli.target import Target, takes_target
from agentgraph.errors import TreeChangedError
from agentgraph.safe_repr import reason
from agentgraph.show.lines import without_controls
from agentgraph.threads.live.event_loop import needs_event_loop, on_event_loop
from agentgraph.threads.runner import Runner

if TYPE_CHECKING:  # the other commands need none of these
    from agentgraph.testing import Case, Report
    from agentgraph.testing.evaluation.checks import Check


@click.command()
@takes_target
@click.argument("threads", metavar="[THREAD]...", nargs=-1)
@db_option
def cases(target: Target, threads: tuple[str, ...], db: str | None) -> None:
    """Print a case for each THREAD, or for all threads of the tree, as lines of JSON.

    A case repeats the turns of its thread, with their values and answers. Its expected text is the last
    text of the thread. `agentgraph evaluate` reads such a file.
    """
    from agentgraph.testing import case_from
    from agentgraph.testing.evaluation.cases import case_to_dict

    with runner_of(target, db) as runner:
        found = [case_from(runner, each) for each in threads] if threads else [*_all(runner)]
    for case in _with_unique_ids(found):
        click.echo(json.dumps(case_to_dict(case)))


def _all(runner: Runner) -> "Iterator[Case]":
    """Yield the cases of all threads that this tree ran, the latest started first."""
    from agentgraph.testing import case_from

    for each in own_threads(runner, runner.threads()):
        if each.error is not None:
            print_skipped(each.error)
            continue
        try:
            yield case_from(runner, each.thread_id)
        except TreeChangedError:
            print_skipped_other(each.thread_id)


def _with_unique_ids(several: "Iterable[Case]") -> "Iterator[Case]":
    """Yield cases, those with a repeated id under a new one: the ids of threads differ in more."""
    ids: set[str] = set()
    for case in several:
        names = (case.id, *(f"{case.id}-{number}" for number in range(2, len(ids) + 3)))
        unique = next(name for name in names if name not in ids)
        ids.add(unique)
        yield replace(case, id=unique)


@click.command()
@takes_target
@click.argument("file", metavar="CASES")
@click.option(
    "--name",
    "version",
    metavar="NAME",
    required=True,
    help="The name of this version of the tree.",
)
@click.option(
    "--checks",
    metavar="MODULE:NAMES",
    multiple=True,
    help="Functions of a result, or lists or dicts of them: names with commas, in a module next to "
    "TARGET or one that can be imported.",
)
@number_option("--repeats", 1, "Number of runs of each case.")
@number_option("--max-concurrency", 4, "Maximum number of cases that run at a time.")
@click.option(
    "--cassettes", metavar="FOLDER", help="The folder of recorded answers of models and tools."
)
@click.option("--retry-failed", is_flag=True, help="Continue cases that failed in an earlier call.")
@click.option("--save", metavar="FILE", help="Write the report to FILE, for --compare.")
@click.option("--compare", metavar="FILE", help="Compare with a saved report.")
@db_option
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@verbose_option
def evaluate(
    target: Target,
    file: str,
    version: str,
    checks: tuple[str, ...],
    repeats: int,
    max_concurrency: int,
    cassettes: str | None,
    retry_failed: bool,
    save: str | None,
    compare: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Run the cases of the file CASES, and print a table of the verdicts of checks.

    Each case has the thread NAME/CASE/NUMBER. The same command continues after a kill or Ctrl-C, and
    reads what has ended. Exit codes: 0 all passed, 1 some failed, 2 wrong use.
    """
    from agentgraph.testing import Report
    from agentgraph.testing.evaluation.cases import read_cases

    before = None if compare is None else Report.load(compare)
    with target.load() as loaded:
        named, several = [*_checks(checks, target.path)], read_cases(file)
        with loaded.open(db, creates=True) as runner:
            report = _evaluated(
                runner,
                several,
                named,
                name=version,
                repeats=repeats,
                max_concurrency=max_concurrency,
                cassettes=cassettes,
                retry_failed=retry_failed,
            )
    if save is not None:
        report.save(save)
    shown = json.dumps(report.to_dict()) if as_json else without_controls(repr(report))
    click.echo(shown)
    if before is not None:
        click.echo(without_controls(f"\n{before.compare(report)}"), err=as_json)
    sys.exit(FAILED if report.failed else DONE)


def _evaluated(runner: Runner, cases: "list[Case]", checks: "list[Check]", **options: Any) -> "Report":
    """Return the report, of async calls if the tree or a check needs them.

    Raises:
        UserError: An agent or a check raised `SystemExit`, whose code would say that all passed.
    """
    from agentgraph.testing import aevaluate, evaluate
    from agentgraph.testing.evaluation.checks import named_checks

    is_any_async = any(is_async(each.fn) for each in named_checks(checks))
    try:
        if is_any_async or needs_event_loop(runner.engine):
            return on_event_loop(aevaluate(runner, cases, checks, **options))
        return evaluate(runner, cases, checks, **options)
    except SystemExit as error:
        raise UserError(f"an agent or a check raised {error!r}; raise another exception") from error


def _checks(names: Iterable[str], path: Path) -> "Iterator[Check]":
    """Yield the checks that options name.

    Args:
        names: The options.
        path: The file or folder of the tree.

    Raises:
        UserError: There is no such check.
    """
    sys.path.append(str((path if path.is_dir() else path.parent).resolve()))
    for each in names:
        module_name, _, variables = each.partition(":")
        if not module_name or not variables:
            raise UserError(
                f"--checks {each!r} names no checks; write MODULE:NAME, such as checks:polite"
            )
        try:
            module = import_module(module_name)
        except (Exception, SystemExit) as error:
            why = reason(error) if isinstance(error, Exception) else repr(error)
            raise UserError(
                f"--checks {each}: {module_name} cannot be imported ({why}); name a module "
                "next to TARGET, without .py"
            ) from error
        for variable in variables.split(","):
            if not hasattr(module, variable):
                raise UserError(f"--checks {each}: {module_name} has no {variable!r}; name its checks")
            yield from _each(getattr(module, variable))


def _each(value: Any) -> "Iterator[Check]":
    from agentgraph.testing.evaluation.checks import named_checks

    if callable(value):
        yield value
    elif isinstance(value, Mapping):
        yield from named_checks(value)
    else:
        yield from value if isinstance(value, Iterable) else [value]
