"""The channels that grow with a thread, of which a step stores its own writes alone.

The problem: a saver stores each channel that a step has changed, whole. A history stored so makes a
thread grow with the square of its length: 500 messages of 400 bytes take 74 MB in SQLite. The rules:

- What grows is a `DeltaChannel`: the messages, the values written in a lane, the state of middleware.
  The same 500 messages take 2 MB.
- To read such a channel, LangGraph replays all writes since the last snapshot of the whole list, so
  there must be snapshots; taken at fixed intervals they would grow with the square again. A
  `SnapshotList` takes one each time that the list has grown by a quarter.

Only this file, `stored_values.py` and `values.py` know of `DeltaChannel`, which is in beta.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import Checkpoint, DeltaChannelHistory, PendingWrite

from agentgraph.graph.agent_records import applied, collected
from agentgraph.graph.internals import MISSING, DeltaSnapshot, delta_reducer
from agentgraph.graph.message_changes import after_removal, folded, plain_messages
from agentgraph.graph.values import Reducers, Write

SNAPSHOT_FREQUENCY = 100


_RECORD_FREQUENCY = 32
"""The number of updates after which the state of middleware is stored whole. It is small and changes
seldom, and to load a thread LangGraph reads every step since then, whatever was written there."""


class SnapshotList(DeltaChannel[list[object]]):
    """A list stored as deltas, and whole each time that it has grown by a quarter.

    So neither the bytes that a step stores nor the writes that a read replays grow with the square.
    """

    @property
    def snapshot_frequency(self) -> int:
        """The number of updates after which it is stored whole."""
        return max(self._least, len(self.value) // 4 if self.is_available() else 0)

    @snapshot_frequency.setter
    def snapshot_frequency(self, least: int) -> None:
        self._least = least


class LaneWrites(SnapshotList):
    """The values that a lane has written, with their declared types also where a saver is read."""

    def from_checkpoint(self, checkpoint: object) -> "LaneWrites":
        """Return the channel with saved writes."""
        made: LaneWrites = super().from_checkpoint(checkpoint)
        reducers: Reducers = cast(Any, self.reducer).__self__
        if reducers.fields and made.is_available():
            made.value = [*reducers.loaded(cast(list[Write], made.value))]
        return made


class History(SnapshotList):
    """The channel `messages`. It handles `REMOVE_ALL_MESSAGES`, which a reducer of deltas cannot.

    In the root the reducer is LangGraph's own, which makes LangGraph assign an id to each message. A
    reducer makes an index of all ids at each write, so that a run of n steps would cost n squared:
    messages that are all new are appended without it, by an index that the channel keeps next to its
    list.
    """

    _ids: set[str | None]
    """The ids of the messages in `_indexed`."""
    _indexed: object = None
    """The list that was indexed: another list in its place is indexed from scratch."""

    def update(self, values: Sequence[object]) -> bool:
        """Apply the writes of a step; a removal of all empties the list first."""
        new = plain_messages(values)
        if new and self.is_available() and self._append(new):
            return True
        if new is not None or (rest := after_removal(values)) is None:
            return super().update(values)
        self.value = self.typ()
        super().update(rest)
        return True

    def _append(self, new: Sequence[BaseMessage]) -> bool:
        """Append messages; nothing is done, and False returned, if an id is known or missing."""
        if self._indexed is not self.value:
            known = [each for each in self.value if isinstance(each, BaseMessage)]
            if len(known) < len(self.value):
                return False
            self._ids, self._indexed = {each.id for each in known}, self.value
        ids = {each.id for each in new}
        if len(ids) < len(new) or None in ids or not self._ids.isdisjoint(ids):
            return False
        self._ids |= ids
        grown = [*self.value, *new]  # a new list: nodes and streams hold the old one
        self.value = self._indexed = grown
        return True

    def replay_writes(self, writes: Sequence[PendingWrite]) -> None:
        """Apply the writes saved since a snapshot, likewise."""
        if (rest := after_removal([value for _, _, value in writes])) is not None:
            self.value = self.typ()
            writes = [(*writes[0][:2], each) for each in rest]
        super().replay_writes(writes)


def changes_of_lane(changes: Sequence[BaseMessage], writes: Sequence[Any]) -> list[BaseMessage]:
    """Reduce the `messages` of a lane inside the tree: changes of the enclosing history."""
    flat = [each for write in writes for each in (write if isinstance(write, list) else [write])]
    return folded([*changes, *convert_to_messages(flat)])


Messages = Annotated[list[AnyMessage], History(delta_reducer, snapshot_frequency=SNAPSHOT_FREQUENCY)]


LANE_MESSAGES = Annotated[
    list[AnyMessage], History(changes_of_lane, snapshot_frequency=SNAPSHOT_FREQUENCY)
]


RECORDS = Annotated[dict[str, object], DeltaChannel(applied, snapshot_frequency=_RECORD_FREQUENCY)]


CHANGES = Annotated[dict[str, object], DeltaChannel(collected, snapshot_frequency=_RECORD_FREQUENCY)]


ROOT_CHANNELS: Mapping[str, DeltaChannel[Any]] = {
    "messages": History(cast(Any, delta_reducer), list, snapshot_frequency=SNAPSHOT_FREQUENCY),
    "middleware": DeltaChannel(applied, dict, snapshot_frequency=_RECORD_FREQUENCY),
}
"""The channels of roots that a later tree may not have any more."""


def growing(channels: Mapping[str, object], checkpoint: Checkpoint) -> dict[str, DeltaChannel[Any]]:
    """Return the channels that a checkpoint does not store whole, although they were written."""
    there, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
    return {
        name: channel
        for name, channel in channels.items()
        if isinstance(channel, DeltaChannel) and name in versions and name not in there
    }


def snapshot(channel: DeltaChannel[Any], history: DeltaChannelHistory) -> DeltaSnapshot:
    """Return all that a channel holds after the saved writes of its history."""
    made = channel.from_checkpoint(history.get("seed", MISSING))
    made.replay_writes(history["writes"])
    return DeltaSnapshot(made.value)
