"""How an activation ends whose hooks jump to the end."""

from pathlib import Path
from typing import Any, NotRequired

from helpers import Disk, Drive, scripted
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config

import agentgraph as ag
from agentgraph.testing import call, calls


class Ended(AgentState[Any]):
    """How often the end was reached."""

    ends: NotRequired[int]


class AgainAtTheEnd(AgentMiddleware[Any, Any, Any]):
    """Has the hooks at the end run twice, as a jump to the end from one of them does it."""

    state_schema = Ended

    @hook_config(can_jump_to=["end"])
    def after_agent(self, state: Any, runtime: Any) -> Any:
        ends = state.get("ends", 0) + 1
        return {"ends": ends, **({"jump_to": "end"} if ends == 1 else {})}


class Jumping(AgentMiddleware[Any, Any, Any]):
    """Jumps to the end: before the second activation, or after a message of the model, if not 0."""

    state_schema = Ended

    def __init__(self, after_message: int, *, before_the_second: bool = False) -> None:
        super().__init__()
        self.after_message, self.before_the_second = after_message, before_the_second

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"} if self.before_the_second and state.get("ends") else None

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        asked = state.get("ends", 0) + 1
        return {"ends": asked, **({"jump_to": "end"} if asked == self.after_message else {})}


def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}!"


def test_calls_that_are_open_leave_the_output_key_unset_whatever_their_ids_are(
    drive: Drive, tmp_path: Path
) -> None:
    asks = calls(call("look", "the same id", topic="bees"), text="I look.")
    writer = ag.chat_agent(
        "writer", scripted(asks, asks), tools=[look], output_key="out", middleware=[Jumping(2)]
    )
    told = Disk(drive, tmp_path / "runs.db").run(writer)
    assert [event.text for event in told] == ["I look.", "bees!", "I look."]
    assert values(tmp_path / "runs.db", writer) == {}


def test_what_stands_for_a_missing_result_is_no_word_of_the_agent(drive: Drive, tmp_path: Path) -> None:
    writer = ag.chat_agent(
        "writer",
        scripted(calls(call("look", topic="bees"))),
        tools=[look],
        output_key="out",
        middleware=[Jumping(1, before_the_second=True)],
    )
    tree = ag.loop("l", [writer], max_iterations=2)
    Disk(drive, tmp_path / "runs.db").run(tree)
    assert values(tmp_path / "runs.db", tree) == {"out": ""}


def values(path: Path, tree: ag.Agent) -> Any:
    with ag.sqlite_saver(path) as saver:
        graph = ag.Runner(tree, checkpointer=saver).graph
        return graph.get_state({"configurable": {"thread_id": "t"}}).values["values"]


def test_a_jump_to_the_end_at_the_end_forgets_no_exit(drive: Drive, tmp_path: Path) -> None:
    model = scripted(calls(call("exit", final_result="Enough.")))
    writer = ag.chat_agent("writer", model, exit_tool=True, middleware=[AgainAtTheEnd()])
    last = ag.function_agent("last", lambda ctx: "never said")
    disk, tree = Disk(drive, tmp_path / "runs.db"), ag.sequential("s", [writer, last])
    told = disk.run(tree)
    assert [event.kind for event in told] == ["message", "message", "exit"]
    assert disk.events(tree) == told


def test_a_jump_to_the_end_at_the_end_forgets_no_transfer(drive: Drive, tmp_path: Path) -> None:
    helper = ag.function_agent("helper", lambda ctx: "Here.")
    model = scripted(calls(call("transfer_to_helper")))
    writer = ag.chat_agent("writer", model, sub_agents=[helper], middleware=[AgainAtTheEnd()])
    told = Disk(drive, tmp_path / "runs.db").run(writer)
    assert [event.text for event in told][-1] == "Here."
