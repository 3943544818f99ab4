"""What a turn has used of its `Limits`: one counter for a run, shared by all its lanes.

The counter is in memory, so that lanes that run side by side see each other's use at once. It begins
with what the thread has saved of the turn:

- The position of the root holds what the turn had used before the step that is next.
- The position of any other lane holds what was used in that lane alone, without the lanes inside it.

So a run that resumes a step with lanes adds up the last positions of all lanes in it. What became of
them does not matter: a lane that ended, failed or was thrown away has used what it used.
"""

from collections import Counter
from collections.abc import Iterable
from threading import Lock

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.graph.internals import RESUMING
from agentgraph.graph.saving import list_checkpoints, saver_of, step_config
from agentgraph.graph.sync_async import Calls
from agentgraph.tree.places import Tree

SPENT = "__agentgraph_spent"
"""The key in `config["configurable"]` of the `Spent` of a run."""


class Spent:
    """What a turn has used, by the names of the limits."""

    def __init__(self) -> None:
        self._lock, self._used = Lock(), Counter[str]()
        self._steps = 0

    def begin_step(self, transfers: int) -> None:
        """Note that a step of the root begins; the first one begins with what is saved."""
        self._steps += 1
        if self._steps == 1:
            self._used["transfers"] = transfers

    def used(self, limit: str) -> int:
        """Return what the turn has used."""
        return self._used[limit]

    def add(self, limit: str, used: int) -> None:
        """Add what was used before the run, or take back one that was not needed."""
        with self._lock:
            self._used[limit] += used

    def take(self, limit: str, bound: int | None) -> bool:
        """Use one more, unless the bound is reached; return whether it was used."""
        with self._lock:
            if bound is not None and self._used[limit] >= bound:
                return False
            self._used[limit] += 1
            return True

    def read_lanes(self, config: RunnableConfig, tree: Tree) -> Calls[None]:
        """Add what the lanes of a resumed step have used.

        Args:
            config: LangGraph's config of the node of the root that runs them.
            tree: The tree.
        """
        may_have_run = self._steps == 1 and config["configurable"].get(RESUMING)
        if (saver := saver_of(config) if may_have_run else None) is not None:
            thread = {"thread_id": config["configurable"]["thread_id"]}
            every = yield list_checkpoints(saver, {"configurable": thread})
            self._add_lanes(every, config, tree)

    def _add_lanes(
        self, newest_first: Iterable[CheckpointTuple], config: RunnableConfig, tree: Tree
    ) -> None:
        step = step_config(config)["configurable"]
        around, began = step["checkpoint_ns"], step["checkpoint_id"]
        heads: dict[str, int] = {}
        for saved in newest_first:
            namespace = str(saved.config["configurable"]["checkpoint_ns"])
            inside = namespace.removeprefix(around).removeprefix("|").split("|")
            is_in_step = saved.metadata.get("parents", {}).get(around) == began
            if is_in_step and not tree.is_foreign(inside):
                position = saved.checkpoint["channel_values"].get("position") or {}
                heads.setdefault(namespace, position.get("transfers", 0))
        self.add("transfers", sum(heads.values()))
