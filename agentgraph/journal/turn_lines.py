"""Where the turns of a thread are: on its present line, or on an older one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.graph.values import maps_in
from agentgraph.journal.data_digests import data_digest
from agentgraph.journal.lines import RootLine, leading, line_to, root_line
from agentgraph.journal.replay import events_of
from agentgraph.journal.saved import NO_TASK, Saved
from agentgraph.journal.schema import RESUMED, TAKEN
from agentgraph.journal.story import Story, present_story
from agentgraph.journal.thread_saver import ThreadSaver


class TurnLine(NamedTuple):
    """A turn on a line of a thread.

    Attributes:
        roots: Its checkpoints of the root, newest first. The turn begins after the last of them.
        story: The story of the line, since the turn at least.
        is_last: Whether the turn is the last one of the present line.
    """

    roots: Sequence[Saved]
    story: Story
    is_last: bool = False

    @property
    def number(self) -> int:
        """The number of the turn."""
        return self.roots[-1].clock[0]

    @property
    def answers(self) -> Mapping[str, str]:
        """The questions that were answered, by their ids, each with a digest of its answer.

        The digest is empty if it was not saved.
        """
        digests: dict[str, str] = {}
        for note in (each for saved in self.roots for each in saved.notes):
            if note.kind == TAKEN:
                digests |= {key: data_digest(answer) for key, answer in note.data.items()}
            elif note.kind == RESUMED:
                data = note.data or ()
                digests |= data if isinstance(data, Mapping) else dict.fromkeys(data, "")
        return digests

    def questions(self, saver: ThreadSaver) -> list[Interrupt]:
        """Return the questions that it asked, in order."""
        actions = (each.action for each in self.events(saver))
        return [each.interrupted for each in actions if each and each.interrupted]

    def events(self, saver: ThreadSaver) -> list[AgentEvent]:
        """Return its events, in order."""
        return [each for each in events_of(saver, self.story) if each.turn == self.number]


async def present_turn(saver: ThreadSaver) -> RootLine | None:
    """Return the checkpoints of the root in a thread's last turn; None if it has none."""
    roots = await root_line(saver, lambda saved: saved.begins_turn)
    return roots if roots.line and roots.line[-1].begins_turn else None


async def last_turn(saver: ThreadSaver, roots: RootLine) -> TurnLine:
    """Return a thread's last turn, given its checkpoints of the root; no older turn is read."""
    since = None if saver.tree.has_transfers else roots  # transfers before decide the run paths
    return TurnLine(roots.line, await present_story(saver, since), is_last=True)


async def turn_with(saver: ThreadSaver, message_id: str) -> TurnLine | None:
    """Return the turn whose input has a message, of the newest line with it; None without one."""
    turns = (turn for line in await _lines(saver) for turn in turns_in(saver, line))
    return next((turn for turn in turns if message_id in message_ids(turn.roots)), None)


async def turn_at(saver: ThreadSaver, number: int) -> TurnLine | None:
    """Return a turn of the present line by its number; None if it has none with it."""
    turns = turns_in(saver, (await _lines(saver))[0])
    return next((turn for turn in turns if turn.number == number), None)


def is_input_of(roots: RootLine | None, message_id: str) -> bool:
    """Return whether a message is of the input of a turn, given its checkpoints of the root."""
    return roots is not None and message_id in message_ids(roots.line)


def message_ids(roots: Sequence[Saved]) -> set[str | None]:
    """Return the ids of the messages of a turn's input, given its checkpoints of the root."""
    return {each.id for saved in roots for each in input_at(saved) or ()}


def input_at(saved: Saved) -> list[BaseMessage] | None:
    """Return the messages of the input after a checkpoint; None if no turn starts there."""
    for writes in saved.writes.values():
        if "outline" in (writes.get("position") or {}):
            return list(writes.get("messages") or ())
    begun = saved.turn_input
    return None if begun is None else list(begun["messages"])


def input_values_at(saved: Saved) -> dict[str, object]:
    """Return the values of the input after a checkpoint; none if no turn starts there."""
    begun = saved.turn_input
    return {} if begun is None else _joined(begun["values"])


def added_at(saved: Saved) -> Iterator[BaseMessage]:
    """Yield the messages that a rewind added before a step, or put in the place of others."""
    for task, channel, messages in saved.pending_writes or ():
        if task == NO_TASK and channel == "messages":
            yield from messages


def added_values_at(saved: Saved) -> dict[str, object]:
    """Return the values that a rewind or a resume set before a step."""
    writes = saved.pending_writes or ()
    return _joined(
        each
        for task, channel, written in writes
        if task == NO_TASK and channel == "values"
        for each in maps_in(written)
    )


def _joined(several: Iterable[Mapping[str, object]]) -> dict[str, object]:
    return {name: value for each in several for name, value in each.items()}


async def _lines(saver: ThreadSaver) -> list[list[Saved]]:
    """Return the lines of a thread, the present one first, each with its checkpoints newest first."""
    return lines_in(await saver.lean().checkpoints())


def lines_in(every: Sequence[Saved]) -> list[list[Saved]]:
    """Return the lines of a thread, as `_lines` does, from all of its checkpoints."""
    roots = [each for each in every if not each.namespace]
    if not roots:  # a process died after it had saved the record of the first turn
        return []
    parents = {each.parent_id for each in roots}
    _, *older = [each.id for each in roots if each.id not in parents]
    return [leading(every), *(line_to(head, every) for head in older)]


def turns_in(saver: ThreadSaver, line: Sequence[Saved]) -> Iterator[TurnLine]:
    """Yield the turns of a line, the last one first; they have one story."""
    story, roots = Story(saver.tree, line), list[Saved]()
    for saved in story.roots.values():
        roots.append(saved)
        if saved.begins_turn:
            yield TurnLine(roots, story)
            roots = []
