"""The threads of the tree that a command works on; those of other trees are left alone.

A tree whose root agent has another name is another tree, as in the page of `agentgraph inspect`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from agentgraph.cli.options import print_skipped
from agentgraph.reports.thread_list import ThreadSummary
from agentgraph.threads.runner import Runner, options_of

_MOST_OTHERS = 500
"""Maximum number of threads of other trees that a list leaves out; the next page continues."""


class ThreadPage(NamedTuple):
    """A page of a list of threads.

    Attributes:
        threads: The threads.
        has_others: Whether threads of other trees are left out.
        last: The last thread that was read, if there are more; else None.
    """

    threads: list[ThreadSummary]
    has_others: bool
    last: str | None


def page_of(
    runner: Runner, limit: int, before: str | None, *, others: bool, **filters: Any
) -> ThreadPage:
    """Return a page of threads, the latest started first.

    Args:
        runner: Runs the tree.
        limit: Maximum number of threads.
        before: The last thread of the previous page.
        others: Whether threads of other trees are listed, too.
        **filters: Further arguments of `Runner.threads`.
    """
    found: list[ThreadSummary] = []
    names, left_out = _root_names(runner), 0
    for each in _read(runner, limit + 1, before, **filters):
        if others or each.tree in names:
            found.append(each)
        else:
            left_out += 1
        if len(found) > limit:
            return ThreadPage(found[:limit], left_out > 0, found[limit - 1].thread_id)
        if left_out == _MOST_OTHERS:
            return ThreadPage(found, True, each.thread_id)
    return ThreadPage(found, left_out > 0, None)


def _read(runner: Runner, limit: int, before: str | None, **filters: Any) -> Iterator[ThreadSummary]:
    while page := runner.threads(limit=limit, before=before, **filters):
        yield from page
        before = page[-1].thread_id


def own_threads(runner: Runner, threads: Iterable[ThreadSummary]) -> Iterator[ThreadSummary]:
    """Yield those of some threads that the tree of a runner ran last; print which are skipped."""
    names = _root_names(runner)
    for each in threads:
        if each.tree in names:
            yield each
        else:
            print_skipped_other(each.thread_id)


def _root_names(runner: Runner) -> set[str | None]:
    """Return the names of the root agent, and None for threads whose tree is not known."""
    root, renames = runner.engine.tree.root.given_name, options_of(runner)["renames"] or {}
    return {None, root, *(old for old, new in renames.items() if new == root)}


def print_skipped_other(thread_id: str) -> None:
    """Print that a thread is left out, because another tree ran it."""
    print_skipped(f"thread {thread_id} was run by another tree.")
