"""What ran on a thread as bars over time, from what its saver has: a crashed run has a timeline, too.

A reader may ask for what is new since it read last, or for the last steps alone. Then only the
checkpoints of these are read, so that the cost does not grow with the thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentgraph.errors import AgentGraphError
from agentgraph.journal.changed_trees import read_thread
from agentgraph.journal.lines import address_at, root_line
from agentgraph.journal.saved import Saved
from agentgraph.journal.story import present_story, story_of
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.activation_bars import bars_in
from agentgraph.reports.bars import Bar, joined
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Tree

__all__ = ["Bar", "Timeline", "timeline"]


@dataclass(frozen=True, slots=True)
class Timeline:
    """What ran on a thread, as bars.

    What is not saved cannot be shown:

    - An attempt that LangGraph repeated by itself (a retry policy) is part of the bar of its step. One
      that failed before a resume has a bar of its own, and so has one that was killed: up to the last
      sign of life of its step.
    - When a lane began that is one leaf (see `Visit`) is not saved: its bar begins as early as it may
      have. Such a loser of a race has no bar.
    - Steps that a rewind left are on an older line: pass `line=`.

    Attributes:
        bars: The bars, in order of beginning.
        upto: What a reader passes as `since` next time; the same as long as nothing has changed.
        is_whole: Whether it begins at the beginning of the thread.
        continues: Whether it goes on from the `since` that was passed: a reader adds it by `joined` to
            what it has. Otherwise it takes its place.
    """

    bars: list[Bar]
    upto: str
    is_whole: bool
    continues: bool = False

    def joined(self, later: "Timeline") -> "Timeline":
        """Return this timeline with a later one, which was read with its `upto` as `since`.

        A bar that comes again takes the place of the one with its id. One that encloses others begins
        with the first of them, which may be older than what was read.

        Args:
            later: The later one.
        """
        if not later.continues:
            return later
        return replace(later, bars=joined(self.bars, later.bars), is_whole=self.is_whole)


async def timeline(
    saver: ThreadSaver, *, since: str | None = None, last: int | None = None, line: str | None = None
) -> Timeline:
    """Return what ran on a thread, as `Runner.timeline` does.

    Args:
        saver: The thread.
        since: The `upto` of what the reader has.
        last: How many of the last steps of the root are wanted; None for all.
        line: The head of one of the thread's lines; None for the present one.

    Raises:
        ThreadError: The thread has no such line; or as `read_thread` does.
        AgentGraphError: `last` is no number of steps.
    """
    if last is not None and (not isinstance(last, int) or last < 1):
        raise AgentGraphError(
            f"last={shown(last)} is not a number of steps; pass 1 or more, or None for all"
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
    return Timeline(bars_in(story, first), _upto(story.every, is_running), is_whole, continues)


class _Window:
    """Finds where the wanted steps begin, among the checkpoints of the root from the newest on.

    Attributes:
        first: The id of the checkpoint of the root whose step is the first wanted; empty for all.
        continues: Whether it is that of `since`.
    """

    def __init__(self, tree: Tree, since: str | None, last: int | None) -> None:
        self._tree, self._last = tree, last
        self._since = since.partition(" ")[0] if since else None
        self._count, self.first, self.continues = 0, "", False
        self._function: str | None = None

    def is_last(self, saved: Saved) -> bool:
        """Return whether no older checkpoint is needed, which may be some steps before `first`."""
        own = str(saved.id)
        if not self.first:
            self._count += saved.next_node is not None
            if own == self._since:
                self.first, self.continues = own, True
            elif self._count == self._last:
                self.first = own
            elif self._since is not None and own < self._since and self._last is None:
                self._since = None  # the thread went back to before it: all is new
        return bool(self.first) and not self._needs_more(saved)

    def _needs_more(self, saved: Saved) -> bool:
        """Return whether older steps are needed: of a function that asks all, of a call the model's."""
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
    """Return the id of the checkpoint of the root that begins the last steps; empty for all."""
    roots = [each for each in every if not each.namespace and each.next_node is not None]
    ids = sorted((str(each.id) for each in roots), reverse=True)
    return "" if last is None or last >= len(ids) else ids[last - 1]


def _upto(every: Sequence[Saved], is_running: bool) -> str:
    """Return how far a thread has been read, down to its lanes: another text after any change."""
    head = max((str(each.id) for each in every if not each.namespace), default="")
    inside = [each for each in every if str(each.id) >= head]
    newest = max((str(each.id) for each in inside), default="")
    writes = sum(len(each.pending_writes or ()) for each in inside)
    return f"{head} {newest} {writes} {int(is_running)}"
