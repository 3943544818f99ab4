"""Parks a task that waits for a person while others of its node run: see `schedule.py`, `desk.py`.

Its questions are saved as LangGraph saves those that a task raises. Also for the tasks of the lanes
around it, because a reader of the thread looks only inside tasks that have questions.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NoReturn

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphDrained
from langgraph.types import Interrupt

from agentgraph.graph.internals import INTERRUPT, SCRATCHPAD, TASK_ID
from agentgraph.graph.nodes.stopping import LaneStop, Stop, TaskConfigs
from agentgraph.graph.result_saver import result_saver
from agentgraph.graph.saving import is_saved_at_exit, loop_around
from agentgraph.graph.sync_async import Call


class Parked(GraphDrained):
    """Ends a task that waits for an answer.

    Attributes:
        questions: Its questions.
    """

    def __init__(self, questions: Sequence[Interrupt]) -> None:
        super().__init__("it waits for an answer")
        self.questions = questions


async def park(questions: Sequence[Interrupt], around: RunnableConfig, control: Stop) -> NoReturn:
    """Save the questions of the current task, and end it until one of them is answered.

    Args:
        questions: Its questions.
        around: LangGraph's config of the node that runs it.
        control: Stops the tasks of that node.

    Raises:
        Parked: The task waits.
    """
    own = around, get_config()
    for each in (*_tasks_around(control), own):
        await _save(questions, *each)
    if control.desk is not None:
        control.desk.parked[own_task()] = questions
    raise Parked(questions) from None


def own_task() -> str:
    """Return the id of the current task."""
    return str(get_config()["configurable"][TASK_ID])


def check_parked(control: Stop) -> None:
    """Park the current task again if it was parked, and none of its questions is answered.

    Args:
        control: Stops the tasks of its node.

    Raises:
        Parked: The task waits.
    """
    desk = control.desk
    if desk is not None and desk.is_waiting(own_task()):
        raise Parked(desk.parked[own_task()])


def take_answers(control: Stop) -> None:
    """Give the current task the answers that were saved after LangGraph had read those of its graph.

    Args:
        control: Stops the tasks of its node.
    """
    if control.desk is None or not control.desk.resumes:
        return
    answers = control.desk.resumes.get(own_task(), ())
    given: list[object] = get_config()["configurable"][SCRATCHPAD].resume
    if len(answers) > len(given):
        given[:] = answers


def end_wait(control: Stop, questions: Collection[str]) -> bool:
    """End the wait of all parked tasks of a node, and return True, unless an answer is on its way.

    Args:
        control: Stops the tasks of the node.
        questions: Their questions.
    """
    is_last = getattr(control.outer, "outer", None) is None
    return control.desk is None or control.desk.rest(questions, is_last=is_last)


def _tasks_around(control: Stop) -> Iterator[TaskConfigs]:
    """Yield the configs of the tasks that run the lanes around a node, and those of their nodes."""
    for each in control.chain():
        if isinstance(each, LaneStop) and each.task is not None:
            yield each.task


async def _save(questions: Sequence[Interrupt], around: RunnableConfig, task: RunnableConfig) -> None:
    task_id = str(task["configurable"][TASK_ID])
    loop, _ = loop_around(around)
    if is_saved_at_exit(around) and loop is not None:
        loop.put_writes(task_id, [(INTERRUPT, questions)])
    elif (saver := result_saver(around)) is not None:
        number = task["metadata"]["langgraph_path"][2]
        await Call(saver.put, saver.aput, (questions, task_id, number, INTERRUPT))
