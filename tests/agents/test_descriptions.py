"""What other agents are told that an agent is for: of every kind, under checks, and in skill files."""

from typing import Any

import pytest

import agentgraph as ag
from agentgraph.agents.agents import Agent
from agentgraph.testing import ScriptedChatModel


def says(name: str, **options: Any) -> Agent:
    return ag.function_agent(name, lambda ctx: name, **options)


def model() -> ScriptedChatModel:
    return ScriptedChatModel(responses=["Done."])


KINDS = {
    "sequential": lambda **more: ag.sequential("w", [says("a")], **more),
    "parallel": lambda **more: ag.parallel("w", [says("a"), says("b")], **more),
    "loop": lambda **more: ag.loop("w", [says("a")], max_iterations=2, **more),
    "workflow": lambda **more: ag.workflow("w", [says("a")], **more),
    "with_helpers": lambda **more: ag.with_helpers(says("w"), [says("a")], **more),
    "plan_execute": lambda **more: ag.plan_execute(
        "w", planner=model(), executor=model(), replanner=model(), **more
    ),
    "chat_agent": lambda **more: ag.chat_agent("w", model(), **more),
    "function_agent": lambda **more: says("w", **more),
    "human": lambda **more: ag.human("w", "?", **more),
    "supervisor": lambda **more: ag.supervisor("w", model(), [says("a")], **more),
}


def told_of(worker: Agent, mode: Any) -> str:
    """Return what the model of a supervisor is told of its only worker."""
    boss = model()
    list(ag.Runner(ag.supervisor("boss", boss, [worker], mode=mode)).query("Go."))
    (tool,) = boss.tools
    return str(tool["function"]["description"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_builder_says_what_its_agent_is_for(kind: str) -> None:
    worker = KINDS[kind](description="Counts bees.")
    assert worker.description == "Counts bees."
    assert told_of(worker, "tools") == "Counts bees."
    assert told_of(worker, "handoff").endswith("Counts bees.")


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_is_checked_is_for_what_it_was_for(kind: str) -> None:
    checked = ag.validated(KINDS[kind](description="Counts bees."), lambda text: None)
    assert told_of(checked, "tools") == "Counts bees."


def test_helpers_are_for_what_their_main_agent_is_for() -> None:
    assert ag.with_helpers(says("w", description="Counts."), [says("a")]).description == "Counts."


@pytest.mark.parametrize("kind", KINDS)
def test_a_description_that_is_no_text_is_a_fault(kind: str) -> None:
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
def test_a_skill_file_says_what_a_composite_is_for(body: str, tmp_path: Any) -> None:
    file = tmp_path / "skill.yaml"
    file.write_text(f"name: w\ndescription: Counts bees.\n{body}\n")
    loaded = ag.load(file, agents={"a": says("a")}, models={"m": model()})
    assert loaded.description == "Counts bees."
