"""The descriptions of agents for other agents: of every kind, with checks, and in skill files."""

from pathlib import Path
from typing import Any

import pytest
from helpers import says, scripted

import agentgraph as ag


def function(**options: Any) -> ag.Agent:
    return ag.function_agent("w", lambda ctx: "w", **options)


A = says("a")
ROLES: Any = dict.fromkeys(("planner", "executor", "replanner"), scripted("Done."))
KINDS: dict[str, Any] = {
    "sequential": lambda **more: ag.sequential("w", [A], **more),
    "parallel": lambda **more: ag.parallel("w", [A], **more),
    "loop": lambda **more: ag.loop("w", [A], max_iterations=2, **more),
    "workflow": lambda **more: ag.workflow("w", [A], **more),
    "with_helpers": lambda **more: ag.with_helpers(says("w"), [A], **more),
    "with_helpers of a described agent": lambda **more: ag.with_helpers(function(**more), [A]),
    "plan_execute": lambda **more: ag.plan_execute("w", **ROLES, **more),
    "chat_agent": lambda **more: ag.chat_agent("w", scripted("Done."), **more),
    "function_agent": function,
    "human": lambda **more: ag.human("w", "?", **more),
    "supervisor": lambda **more: ag.supervisor("w", scripted("Done."), [A], **more),
}


def read_of(worker: ag.Agent, mode: Any) -> str:
    """Return the description of the only worker for the model of a supervisor."""
    boss = scripted("Done.")
    list(ag.Runner(ag.supervisor("boss", boss, [worker], mode=mode)).query("Go."))
    (tool,) = boss.tools
    return str(tool["function"]["description"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_supervisor_reads_what_a_worker_is_for(kind: str) -> None:
    worker = KINDS[kind](description="Counts bees.")
    assert worker.description == "Counts bees."
    assert read_of(worker, "tools") == "Counts bees."
    assert read_of(worker, "handoff").endswith("Counts bees.")
    assert read_of(ag.validated(worker, lambda text: None), "tools") == "Counts bees."


@pytest.mark.parametrize("kind", KINDS)
def test_a_description_must_be_a_text(kind: str) -> None:
    with pytest.raises(ag.InvalidAgentError, match=r"w\w*: description=3 is not a text"):
        ag.compile_agent(KINDS[kind](description=3))


@pytest.mark.parametrize(
    "body",
    [
        "kind: sequential\nsub_agents: [{agent: a}]",
        "kind: parallel\nsub_agents: [{agent: a}]",
        "kind: loop\nmax_iterations: 1\nsub_agents: [{agent: a}]",
        "kind: workflow\nsteps: [{agent: a}]",
        "kind: plan_execute\nmodel: m",
    ],
)
def test_a_skill_file_says_what_a_composite_is_for(body: str, tmp_path: Path) -> None:
    file = tmp_path / "skill.yaml"
    file.write_text(f"name: w\ndescription: Counts bees.\n{body}\n")
    loaded = ag.load(file, agents={"a": A}, models={"m": scripted()})
    assert loaded.description == "Counts bees."
