"""The ids that LangGraph computes for its tasks, under which savers keep their results.

An id names the checkpoint from which a step runs, and what runs in it: a node, or a task that a node
calls. It is part of the namespace of every graph that runs in the task. So who copies a step to another
checkpoint must know the ids that LangGraph will look for there.
"""

from collections.abc import Callable

from agentgraph.graph.internals import PULL, PUSH, TRIGGER, id_from, task_path_str


def node_task(checkpoint_id: str, around: str, step: int, node: str) -> str:
    """Return the id of the task of a node.

    Args:
        checkpoint_id: The id of the checkpoint from which it runs.
        around: The namespace of that checkpoint.
        step: LangGraph's number of the step.
        node: The node.
    """
    return id_from(_bytes(checkpoint_id), joined(around, node), str(step), node, PULL, TRIGGER + node)


def called_tasks(
    checkpoint_id: str, within: str, step: int, path: tuple[object, ...]
) -> Callable[[str, int], str]:
    """Return a function that returns the id of a task that a node calls.

    Its arguments are the task's name and its call number in the node.

    Args:
        checkpoint_id: The id of the checkpoint from which the node runs.
        within: The namespace of the node's task: that around it, the node, and its id.
        step: LangGraph's number of the step.
        path: LangGraph's path of the node's task.
    """
    checkpoint, number_of_step, calls = _bytes(checkpoint_id), str(step), task_path_str(path)

    def task(name: str, number: int) -> str:
        return id_from(checkpoint, f"{within}|{name}", number_of_step, name, PUSH, calls, str(number))

    return task


def path_of_call(calls: str, number: int) -> str:
    """Return LangGraph's path of a task that a node calls, as a text.

    Args:
        calls: The number of calls of the node's task.
        number: The call number.
    """
    return f"~{PUSH}, {calls}, {number:010}, {True:010}"


def joined(around: str, part: str) -> str:
    """Return a namespace inside another one.

    >>> joined("", "review:1"), joined("review:1", "legal:2")
    ('review:1', 'review:1|legal:2')
    """
    return f"{around}|{part}" if around else part


def _bytes(checkpoint_id: str) -> bytes:
    return bytes.fromhex(checkpoint_id.replace("-", ""))
