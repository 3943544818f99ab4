"""Skill files make the same agents as the builders do; those of `agents.txt` are next to each other."""

import inspect
import operator
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from langgraph.types import RetryPolicy
from skill_files import CRITIC, GIVEN, MODEL, OTHER, cases, fetch, search
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.agents.prebuilt.plan_execute import plan_execute
from agentgraph.skills import ValueIs
from agentgraph.skills.schema import KINDS
from agentgraph.testing import ScriptedChatModel

NAMES = {
    **{name: getattr(ag, name) for name in ag.__all__},
    **{"CRITIC": CRITIC, "MODEL": MODEL, "OTHER": OTHER, "search": search, "fetch": fetch},
    **{"plan_execute": plan_execute, "RetryPolicy": RetryPolicy, "ValueIs": ValueIs},
    "replace": replace,
    "Decimal": Decimal,
}


@pytest.mark.parametrize("case", [pytest.param(text, id=title) for title, text in cases("agents.txt")])
def test_a_file_makes_what_the_builders_make(skill: Any, case: str) -> None:
    text, _, python = case.partition("\n>>>\n")
    name = "skill.json" if text.startswith("{\n") else "skill.yaml"
    assert skill(text, name) == eval(f"(\n{python}\n)", dict(NAMES))


def test_a_byte_order_mark_is_not_part_of_the_text(skill: Any) -> None:
    assert skill("\ufeffagent: critic") is CRITIC


def test_a_file_may_be_nested_deeply(skill: Any) -> None:
    text, agent = "{agent: critic}", CRITIC
    for number in range(31):
        text = f"{{kind: sequential, name: s{number}, sub_agents: [{text}]}}"
        agent = ag.sequential(f"s{number}", [agent])
    assert skill(text) == agent


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_fields_of_a_kind_are_those_of_its_builder(kind: str) -> None:
    builders: dict[str, Any] = {"chat": ag.chat_agent, "plan_execute": plan_execute}
    parameters = inspect.signature(builders.get(kind) or getattr(ag, kind)).parameters
    fields = {name: f for name, f in KINDS[kind].model_fields.items() if name != "kind"}
    own = set(fields) - ({"model"} if "model" not in parameters else set())
    only_in_python = {"model_input", "middleware", "key", "accept"} & parameters.keys()
    assert own == set(parameters) - only_in_python
    for name in own - {"model", "planner", "executor", "replanner"}:
        default = parameters[name].default
        wanted = default if default != () else []
        assert fields[name].is_required() == (default is inspect.Parameter.empty), name
        own_default = fields[name].get_default(call_default_factory=True)
        assert fields[name].is_required() or own_default == wanted, name


def test_branches_may_share_an_output_key_that_is_declared_where_it_is_compiled(skill: Any) -> None:
    text = """
        kind: parallel
        name: checks
        sub_agents:
          - {kind: chat, name: style, model: style, output_key: notes}
          - {kind: chat, name: facts, model: facts, output_key: notes}
    """
    models = {name: ScriptedChatModel(responses=[f"{name}. "]) for name in ("style", "facts")}
    checks = skill(text, **{**GIVEN, "models": models})
    with pytest.raises(ag.InvalidAgentError, match=r"declare a reducer for 'notes' in values="):
        ag.Runner(checks)
    runner = ag.Runner(checks, values=TypedDict("Values", {"notes": Annotated[str, operator.add]}))
    list(runner.run("Go.", thread_id="t"))
    state: Any = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    assert state.values["values"] == {"notes": "style. facts. "}


@pytest.mark.parametrize(
    ("wanted", "found", "ends"),
    [(True, True, True), (True, 1, False), (1, True, False), ("yes", "yes", True), (None, None, True)],
)
def test_a_loop_ends_once_a_value_is_as_wanted(wanted: Any, found: Any, ends: bool) -> None:
    context: Any = SimpleNamespace(values={"approved": found})
    assert ValueIs(value="approved", wanted=wanted)(context) is ends
