"""The timeline of a thread, as bars, from its checkpoints; a crashed run has a timeline too.

A client may request only the changes since its last read, or only the latest steps. Then only their
checkpoints are read, so the cost does not grow with the thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap

from agentgraph.errors import AgentGraphError
from agentgraph.journal.changed_trees import read_thread
from agentgraph.journal.lines import address_at, root_line
from agentgraph.journal.saved import Saved
from agentgraph.journal.story import present_story, story_of
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.activation_bars import bars_in
from agentgraph.reports.bars import Bar, Span, joined
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Tree

__all__ = ["Bar", "Timeline", "timeline"]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The activations, calls and questions of a thread, as bars.

    A timeline shows only saved data:

    - An attempt that LangGraph repeated by a retry policy is part of the bar of its step. An attempt
      that failed before a resume has its own bar. So has a killed attempt, up to the last sign of life
      of its step.
    - The start of a branch or item that is one leaf (see `Visit`) is not saved: its bar starts at the
      earliest possible time. Such a losing branch of a race has no bar.
    - Steps before a rewind are on an older history line: pass `line=`.

    Attributes:
        bars: The bars, in the order of their start.
        upto: The `since` for the next read; unchanged as long as the thread is unchanged.
        is_whole: Whether the timeline starts at the start of the thread.
        continues: Whether the timeline continues from the passed `since`, so that `joined` adds it to
            the earlier timeline. Otherwise it replaces the earlier timeline.
        pauses: The times without an active run, from the end of each run that had not ended its turn to
            the run that resumed it, and those before a rewind. Bars may last over them.
    """

    bars: list[Bar]
    upto: str
    is_whole: bool
    continues: bool = False
    pauses: list[Span] = field(default_factory=list)

    def joined(self, later: "Timeline") -> "Timeline":
        """Return this timeline joined with a later one, which was read with `since=` this `upto`.

        A later bar replaces the earlier bar with its id. An enclosing bar starts with its first inner
        bar, which may be older than the later timeline.

        Args:
            later: The later timeline.
        """
        if not later.continues:
            return later
        pauses = dict(self.pauses) | dict(later.pauses)
        return replace(
            later,
            bars=joined(self.bars, later.bars, head_in(self.upto)),
            is_whole=self.is_whole,
            pauses=sorted(starmap(Span, pauses.items())),
        )


async def timeline(
    saver: ThreadSaver, *, since: str | None = None, last: int | None = None, line: str | None = None
) -> Timeline:
    """Return the timeline of a thread, as `Runner.timeline` does.

    Args:
        saver: The thread.
        since: The `upto` of the client's timeline.
        last: Maximum number of latest steps of the root; None for all.
        line: The latest checkpoint of a history line; None for the current line.

    Raises:
        ThreadError: The thread has no such line; or as `read_thread` does.
        AgentGraphError: `last` is not a number of steps.
    """
    if last is not None and (not isinstance(last, int) or last < 1):
        raise AgentGraphError(
            f"last={shown(last)} is not a number of steps; pass at least 1, or None for all"
        )
    if await read_thread(saver) is None and line is None:
        return Timeline([], _upto([], is_running=True), is_whole=True)
    is_running = line is None and await saver.is_running()
    first, continues = "", False
    if line is not None:
        story = await story_of(saver, line)
        first = _first_of_last(story.every, last)
    elif since is None and last is None:
        story = await present_story(saver)
    else:
        window = _Window(saver.tree, since, last)
        roots = await root_line(saver, window.is_last)
        first, continues = window.first, window.continues
        story = await present_story(saver, roots if first else None)
    story.is_running = is_running
    is_whole = any(not each.parent_id and each.id >= first for each in story.roots.values())
    bars, pauses = bars_in(story, first)
    return Timeline(bars, _upto(story.every, is_running), is_whole, continues, pauses)


class _Window:
    """Finds the first requested step among the checkpoints of the root, newest first.

    Attributes:
        first: The id of the root's checkpoint with the first requested step; empty for all.
        continues: Whether this is the checkpoint of `since`.
    """

    def __init__(self, tree: Tree, since: str | None, last: int | None) -> None:
        self._tree, self._last = tree, last
        self._since = head_in(since) if since else None
        self._count, self.first, self.continues = 0, "", False
        self._function: str | None = None

    def is_last(self, saved: Saved) -> bool:
        """Return whether no older checkpoint is needed; some steps before `first` may be."""
        own = str(saved.id)
        if not self.first:
            self._count += saved.next_node is not None
            if own == self._since:
                self.first, self.continues = own, True
            elif self._count == self._last:
                self.first = own
            elif self._since is not None and own < self._since and self._last is None:
                self._since = None  # the thread was rewound to before it, so all is new
        return bool(self.first) and not self._needs_more(saved)

    def _needs_more(self, saved: Saved) -> bool:
        """Return whether older steps are needed: a function's others, or the model step of a call."""
        node = saved.next_node
        place = self._tree.by_node.get(node or "")
        if place is None or place.chat is not None:
            return place is not None and node != place.node
        if not place.kind.is_leaf or place.kind.asks or place.kind.runs_graph or place.kind.is_inner:
            return False
        at = address_at(self._tree, saved)
        if self._function in (None, at):
            self._function, self.first = at, str(saved.id)
            return True
        return False


def _first_of_last(every: Sequence[Saved], last: int | None) -> str:
    """Return the id of the root's checkpoint that starts the last steps; empty for all."""
    roots = [each for each in every if not each.namespace and each.next_node is not None]
    ids = sorted((str(each.id) for each in roots), reverse=True)
    return "" if last is None or last >= len(ids) else ids[last - 1]


def head_in(upto: str) -> str:
    """Return the id of the root's checkpoint that was the head, by the `upto` of a timeline."""
    return upto.partition(" ")[0]


def _upto(every: Sequence[Saved], is_running: bool) -> str:
    """Return the version of a thread, including its lanes, as a text that differs after each change."""
    head = max((str(each.id) for each in every if not each.namespace), default="")
    inside = [each for each in every if str(each.id) >= head]
    newest = max((str(each.id) for each in inside), default="")
    writes = sum(len(each.pending_writes or ()) for each in inside)
    return f"{head} {newest} {writes} {int(is_running)}"
