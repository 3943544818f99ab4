"""How an activation ends whose hooks jump to the end."""

from pathlib import Path
from typing import Any, NotRequired

from driving import Disk, Drive, scripted
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
