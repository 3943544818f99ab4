"""LangGraph's state at the head of a line that was read already, without reading anything again.

LangGraph computes a state from what a saver returns: a checkpoint, and what earlier steps wrote to
channels that grow. Here a view of the line is that saver. So no write is decoded twice, nothing waits
for a database, and no message of a long history is read from a snapshot that the line has anyway.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
)

from agentgraph.graph.strict_serializer import UnreadSnapshot
from agentgraph.journal.saved import COPIED, Saved
from agentgraph.journal.schema import MESSAGES


class LineView(BaseCheckpointSaver[Any]):
    """A line of the root, as a saver that LangGraph reads a state from."""

    def __init__(self, head: Saved, before: Sequence[Saved]) -> None:
        """Make it.

        Args:
            head: The checkpoint whose state is read, with all that LangGraph reads of it.
            before: The checkpoints that lead to it, the newest first; they may be lean.
        """
        super().__init__()
        self._head, self._before = head, before

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the head. LangGraph writes into it, so it is a copy."""
        own = self._head.checkpoint
        seen = {node: {**versions} for node, versions in own["versions_seen"].items()}
        versions, values = {**own["channel_versions"]}, {**own["channel_values"]}
        changed: Any = {"channel_versions": versions, "channel_values": values, "versions_seen": seen}
        return CheckpointTuple(*self._head._replace(checkpoint={**own, **changed}))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes of the steps before the head to some channels, as each saver does."""
        return {channel: self._history(channel) for channel in channels}

    def _history(self, channel: str) -> DeltaChannelHistory:
        """Return the last snapshot of a channel, and the writes since then.

        A snapshot of the messages that has not been decoded is left alone if the writes before it are
        all that it is made of.
        """
        writes: list[PendingWrite] = []
        nearest: DeltaChannelHistory | None = None
        after = self._head
        for saved in self._before:
            own = [each for each in saved.pending_writes or () if each[1] == channel]
            if nearest is not None and not _has_applied(channel, own, saved, after):
                return nearest
            writes += reversed(own)
            if channel in (values := saved.checkpoint["channel_values"]):
                nearest = nearest or DeltaChannelHistory(writes=writes[::-1], seed=values[channel])
                if channel != MESSAGES or not isinstance(values[channel], UnreadSnapshot):
                    return nearest
            after = saved
        if nearest is not None and (after.parent_id or channel in after.checkpoint["channel_versions"]):
            return nearest  # something was before the first one that is there
        return DeltaChannelHistory(writes=writes[::-1])


def _has_applied(channel: str, own: Sequence[PendingWrite], saved: Saved, after: Saved) -> bool:
    """Return whether the writes to a channel saved at a checkpoint are what the one after it added.

    Edits, copies and runs that save only at their end (`durability="exit"`) store a snapshot for it.
    """
    was, now = (each.checkpoint["channel_versions"].get(channel) for each in (saved, after))
    if not own:
        return bool(was == now)
    is_next = after.metadata.get("step", 0) == saved.metadata.get("step", 0) + 1
    is_of_a_run = after.metadata.get("source") == "loop" and COPIED not in after.metadata
    return was != now and is_next and is_of_a_run
