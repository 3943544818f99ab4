"""Saves the result of a task before the task ends, so that no other one begins in its place.

LangGraph saves results, too, but later, after the tasks that wait for a thread: a kill in the middle of
1,000 items lost 250 results. LangGraph does not save a second time the results that are saved here
(`GuardedSaver`).
"""

from typing import NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config

from agentgraph.graph.guarded_saver import GuardedSaver
from agentgraph.graph.internals import RETURN, TASK_ID, task_path_str
from agentgraph.graph.saving import saver_of, step_config
from agentgraph.graph.sync_async import Call
from agentgraph.graph.task_ids import path_of_call


class ResultSaver(NamedTuple):
    """Saves the results of the tasks that a node calls.

    Attributes:
        saver: The saver of the run.
        at: The checkpoint of the node's step.
        path: LangGraph's path of the node's task.
    """

    saver: GuardedSaver
    at: RunnableConfig
    path: str

    def save(self, result: object) -> None:
        """Save the result of the current task."""
        self.saver.save_result(self.at, result, *self._task())

    async def asave(self, result: object) -> None:
        """Save the result of the current task on the event loop."""
        await self.saver.asave_result(self.at, result, *self._task())

    def put(self, result: object, task_id: str, number: int, channel: str = RETURN) -> None:
        """Save for a task what LangGraph does not save for it.

        Args:
            result: The result of a leaf that has no task; or its failure, or the questions of a task.
            task_id: The id of the task, or that it would have.
            number: Its call number.
            channel: The channel under which LangGraph saves it.
        """
        self.saver.put_result(self.at, result, task_id, path_of_call(self.path, number), channel)

    async def aput(self, result: object, task_id: str, number: int, channel: str = RETURN) -> None:
        """Save it on the event loop, as `put` does."""
        await self.saver.aput_result(self.at, result, task_id, path_of_call(self.path, number), channel)

    def _task(self) -> tuple[str, str]:
        config = get_config()
        number = config["metadata"]["langgraph_path"][2]
        return config["configurable"][TASK_ID], path_of_call(self.path, number)


def result_saver(config: RunnableConfig) -> ResultSaver | None:
    """Return the saver of the results of the tasks that a node calls; None if they are not saved.

    Args:
        config: LangGraph's config of the node.
    """
    saver = saver_of(config)
    if not isinstance(saver, GuardedSaver):
        return None
    return ResultSaver(saver, step_config(config), task_path_str(config["metadata"]["langgraph_path"]))


async def save_result(result: object, around: RunnableConfig) -> None:
    """Save the result that the current task is about to return.

    Args:
        result: The result.
        around: LangGraph's config of the node that runs the task.
    """
    if (saver := result_saver(around)) is not None:
        await Call(saver.save, saver.asave, (result,))
