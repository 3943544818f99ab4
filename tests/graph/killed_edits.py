"""A program that kills runs of a graph agent that changes messages, at each save, and resumes them.

For each kill it prints a line of JSON: the events of the thread, and the messages of its state, each
with its id and text.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from helpers import foreign, removal
from langchain_core.messages import AIMessage, HumanMessage

import agentgraph as ag
from agentgraph.testing import call, calls

GRAPH = foreign(
    lambda seen: AIMessage("one", id="one"),
    lambda seen: [
        calls(call("look", "1")).model_copy(update={"id": "call"}),
        {"role": "tool", "content": "two", "id": "2", "tool_call_id": "1"},
        *[AIMessage("ONE", id="one"), HumanMessage("*", id="user")],
    ],
    lambda seen: [removal(), HumanMessage("Short."), seen[2], AIMessage("three", id="three")],
)
TREE = ag.sequential("s", [ag.graph_agent("g", GRAPH)])
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def run(path: Path, saves: int, method: str, *args: Any, is_late: bool, **options: Any) -> int:
    """Run or resume in a process that is killed after so many saves, and return its exit code.

    Args:
        path: The file of the thread.
        saves: After how many saves it is killed; 0 for never.
        method: A method of the runner.
        *args: Its arguments.
        is_late: Whether LangGraph's own saves of the results of tasks come too late.
        **options: Keyword arguments of the method.
    """
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    done, by_task = 0, set()

    def dying(put: Any) -> Any:
        def putting(*given: Any) -> Any:
            nonlocal done
            done += 1
            is_result = put.__name__ == "put_writes" and given[1][0][0] == "__return__"
            if is_late and is_result and given[2] in by_task:
                return None
            by_task.update(given[2:3] if is_result else ())
            returned = put(*given)
            if 0 < saves <= done:
                os.kill(os.getpid(), signal.SIGKILL)
            return returned

        return putting

    with ag.sqlite_saver(path) as saver:
        saver.put, saver.put_writes = dying(saver.put), dying(saver.put_writes)
        list(getattr(ag.Runner(TREE, checkpointer=saver), method)(*args, **options))
    os._exit(0)


def main(folder: Path, *, is_late: bool) -> None:
    code, saves = -1, 0
    while code:
        saves += 1
        path, user = folder / f"{saves}.db", HumanMessage("Go.", id="user")
        code = run(path, saves, "run", user, is_late=is_late, thread_id="t")
        with ag.sqlite_saver(path) as saver:
            if saver.get_tuple(CONFIG) is None:  # the first checkpoint is saved with its first writes
                assert saves < 6
                continue
        if code:
            assert run(path, 0, "resume", "t", is_late=is_late) == 0
        with ag.sqlite_saver(path) as saver:
            runner = ag.Runner(TREE, checkpointer=saver)
            kept = runner.graph.get_state(CONFIG).values["messages"]
            events = [(event.id, event.text) for event in runner.events("t")]
            print(json.dumps([events, [(each.id, each.text) for each in kept]]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_late=sys.argv[2] == "late")
