"""The builders: each option is a field of what they build, with the same default."""

from collections.abc import Callable
from dataclasses import fields
from inspect import Parameter, signature
from typing import Any

import pytest

import agentgraph as ag

BUILDERS: dict[Callable[..., Any], type] = {
    ag.chat_agent: ag.ChatAgent,
    ag.function_agent: ag.FunctionAgent,
    ag.graph_agent: ag.GraphAgent,
    ag.human: ag.HumanAgent,
    ag.sequential: ag.SequentialAgent,
    ag.parallel: ag.ParallelAgent,
    ag.loop: ag.LoopAgent,
    ag.workflow: ag.WorkflowAgent,
    ag.each: ag.EachAgent,
    ag.switch: ag.SwitchAgent,
    ag.swarm: ag.SwarmAgent,
    ag.step: ag.Step,
    ag.agent_tool: ag.AgentTool,
    ag.handoff: ag.Handoff,
}
RENAMED = {"agents": "sub_agents"}
"""The options of a swarm whose fields have another name."""


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: builder.__name__)
def test_each_option_of_a_builder_is_a_field_with_the_same_default(builder: Callable[..., Any]) -> None:
    defaults = {each.name: each.default for each in fields(BUILDERS[builder])}
    for name, option in signature(builder).parameters.items():
        field = name if name in defaults else RENAMED[name]
        assert defaults[field] == option.default or option.default is Parameter.empty, name
