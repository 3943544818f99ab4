"""Which checkpoints lead to the head of a thread: time travel leaves others beside them.

LangGraph goes on from any checkpoint of a thread, by `update_state` or `invoke(None, config)`. A new
line of checkpoints begins there, and the old one stays in the saver. The head is the latest checkpoint
of the thread; its line is found by the parents that each checkpoint names.

That is not enough for two things that lie beside a checkpoint and are not checkpoints of its line:

- What the tasks of a step wrote lies with the checkpoint that the step began from. If that checkpoint
  was forked, the line to the head goes on with a checkpoint in which the step had not run, and the
  step is of the other line. A step that never ended is of all lines, though: it asked or failed, that
  was told, and then somebody edited the state and let it begin anew.
- A lane inside a step has a namespace of its own, and names the checkpoints around it. It leads to the
  head if the steps that it ran in do.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.threads.threads import namespace_of

Key = tuple[str, str]
"""A namespace and the id of a checkpoint."""
_RAN = "loop"
"""How LangGraph marks the checkpoints that a step ended with."""
_FORK = "fork"
"""How it marks copies, and where `invoke(None, config)` goes on from an older checkpoint."""


def leading(every: Iterable[CheckpointTuple]) -> list[CheckpointTuple]:
    """Return the checkpoints that lead to the head of a thread, with those of the lanes inside.

    One whose step ran in another line only is returned without what the tasks of that step wrote.

    Args:
        every: All checkpoints of the thread, in all namespaces, in any order.

    Returns:
        The checkpoints, in the order in which they were given.
    """
    given = list(every)
    by_namespace: dict[str, list[CheckpointTuple]] = defaultdict(list)
    for saved in given:
        by_namespace[namespace_of(saved)].append(saved)
    lost = {_key(saved) for saved in given}
    found: dict[Key, CheckpointTuple] = {}
    for namespace in sorted(by_namespace, key=lambda each: (each.count("|"), each)):
        inside = [saved for saved in by_namespace[namespace] if _is_inside(saved, lost)]
        for saved, has_run in _line(by_namespace[namespace], inside):
            found[_key(saved)] = saved if has_run else saved._replace(pending_writes=[])
            if has_run:
                lost.discard(_key(saved))
    return [found[key] for key in map(_key, given) if key in found]


def _is_inside(saved: CheckpointTuple, lost: set[Key]) -> bool:
    """Tell whether the steps around a checkpoint are of the line; what was not saved does not count."""
    return lost.isdisjoint(_around(saved).items())


def _around(saved: CheckpointTuple) -> Mapping[str, str]:
    """Return the checkpoints that the steps around a checkpoint began from, by namespace."""
    around: Mapping[str, str] = saved.metadata.get("parents", {})
    return around


def _line(
    every: Sequence[CheckpointTuple], inside: Sequence[CheckpointTuple]
) -> list[tuple[CheckpointTuple, bool]]:
    """Return the line to the latest of the checkpoints `inside`, and whether each one's step ran in it.

    The checkpoints are those of one namespace. Its line may lead through others than those inside:
    a graph that keeps its state from step to step goes on where it was in an earlier step.
    """
    if not inside:
        return []
    by_id = {saved.checkpoint["id"]: saved for saved in every}
    children: dict[str, list[CheckpointTuple]] = defaultdict(list)
    for saved in every:
        children[_parent(saved)].append(saved)
    wanted = {saved.checkpoint["id"] for saved in inside}
    line: list[tuple[CheckpointTuple, bool]] = []
    at = by_id.get(max(wanted))
    behind: CheckpointTuple | None = None
    while at is not None:
        own = at.checkpoint["id"]
        if own in wanted:
            line.append((at, behind is None or _has_run(behind, children[own])))
        behind, at = at, by_id.get(_parent(at))
    return line


def _has_run(behind: CheckpointTuple, children: Iterable[CheckpointTuple]) -> bool:
    """Tell whether the step between a checkpoint and the one `behind` it is of that line.

    It is if the step ended with that one, or with the one that it is a copy of
    (`update_state(..., as_node="__copy__")`), or if it ended in no line at all.
    """
    if behind.metadata.get("source") == _RAN:
        return True
    ended = [child for child in children if child.metadata.get("source") == _RAN]
    return not ended or any(_is_copy(behind, child) for child in ended)


def _is_copy(saved: CheckpointTuple, original: CheckpointTuple) -> bool:
    """Tell whether one checkpoint is a copy of the other; both have the same parent."""
    channels, others = saved.checkpoint["channel_versions"], original.checkpoint["channel_versions"]
    return saved.metadata.get("source") == _FORK and channels == others


def _parent(saved: CheckpointTuple) -> str:
    """Return the id of the checkpoint before one, in its namespace; empty for the first."""
    return str((saved.parent_config or {}).get("configurable", {}).get("checkpoint_id", ""))


def _key(saved: CheckpointTuple) -> Key:
    return namespace_of(saved), saved.checkpoint["id"]
