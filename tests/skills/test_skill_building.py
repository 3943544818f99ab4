"""Skill files make the same agents as the builders do."""

import inspect
import json
import operator
from typing import Annotated

import pytest
from langgraph.types import RetryPolicy
from skill_files import CRITIC, MODEL, OTHER, fetch, search, writer
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.agents.prebuilt.plan_execute import plan_execute
from agentgraph.skills import ValueIs
from agentgraph.skills.schema import KINDS
from agentgraph.testing import ScriptedChatModel


def test_a_chat_is_what_chat_agent_makes(skill):
    text = """
        kind: chat
        name: writer
        model: m
        description: Writes.
        instruction: "About {topic}."
        tools: [search, {type: web_search}, {agent: critic, description: Criticises., history: shared}]
        sub_agents:
          - {kind: human, name: boss, prompt: "Print {draft}?", response_schema: {enum: [yes, no]}}
          - agent: critic
        sub_agents_return: true
        output_key: draft
        output_schema: {type: object, properties: {title: {type: string}}}
        history: path
        max_iterations: null
        on_max_iterations: answer
        return_directly: [search]
        exit_tool: true
        approve: [search]
        parallel_tools: false
        on_tool_error: raise
        unknown_tool: raise
        retry: {max_attempts: 5, initial_interval: 1, backoff_factor: 3.5, max_interval: 60}
        timeout: 12.5
        tool_timeout: 3
    """
    boss = ag.human("boss", "Print {draft}?", response_schema={"enum": ["yes", "no"]})
    critic = ag.agent_tool(CRITIC, description="Criticises.", history="shared")
    assert skill(text.replace("- agent: critic", "")) == writer(
        description="Writes.",
        instruction="About {topic}.",
        tools=[search, {"type": "web_search"}, critic],
        sub_agents=[boss],
        sub_agents_return=True,
        output_key="draft",
        output_schema={"type": "object", "properties": {"title": {"type": "string"}}},
        history="path",
        max_iterations=None,
        on_max_iterations="answer",
        return_directly=["search"],
        exit_tool=True,
        approve=["search"],
        parallel_tools=False,
        on_tool_error="raise",
        unknown_tool="raise",
        retry=RetryPolicy(max_attempts=5, initial_interval=1, backoff_factor=3.5, max_interval=60),
        timeout=12.5,
        tool_timeout=3.0,
    )


def test_what_a_file_leaves_out_the_builder_fills_in(skill):
    assert skill("{kind: chat, name: writer, model: m}") == writer()


def test_a_human_is_what_human_makes(skill):
    text = """
        kind: human
        name: boss
        prompt: {ask: "Print it?", copies: 3}
        response_schema: {type: boolean}
        output_key: printed
        description: Decides.
    """
    assert skill(text) == ag.human(
        "boss",
        {"ask": "Print it?", "copies": 3},
        response_schema={"type": "boolean"},
        output_key="printed",
        description="Decides.",
    )


def test_composites_are_what_their_builders_make(skill):
    text = """
        kind: sequential
        name: report
        sub_agents:
          - kind: loop
            name: refine
            max_iterations: 3
            until: {value: approved, is: true}
            sub_agents: [{kind: chat, name: writer, model: m}, {agent: critic}]
          - kind: parallel
            name: checks
            on_error: collect
            max_concurrency: 2
            sub_agents:
              - {kind: human, name: style, prompt: "Fine?"}
              - {kind: human, name: facts, prompt: "True?"}
    """
    assert skill(text) == ag.sequential(
        "report",
        [
            ag.loop(
                "refine",
                [writer(), CRITIC],
                max_iterations=3,
                until=ValueIs(value="approved", wanted=True),
            ),
            ag.parallel(
                "checks",
                [ag.human("style", "Fine?"), ag.human("facts", "True?")],
                on_error="collect",
                max_concurrency=2,
            ),
        ],
    )


def test_a_workflow_is_what_workflow_makes(skill):
    text = """
        kind: workflow
        name: article
        on_error: wait
        steps:
          - agent: critic
          - {kind: human, name: boss, prompt: "Go?"}
          - agent: {kind: chat, name: writer, model: m}
            depends_on: [critic, boss]
            input: "Write about ${results.critic}."
            retry: {max_attempts: 2}
            timeout: 60
            compensate: {kind: human, name: undo, prompt: Undo it.}
    """
    assert skill(text) == ag.workflow(
        "article",
        [
            CRITIC,
            ag.human("boss", "Go?"),
            ag.step(
                writer(),
                depends_on=["critic", "boss"],
                input="Write about ${results.critic}.",
                retry=RetryPolicy(max_attempts=2),
                timeout=60.0,
                compensate=ag.human("undo", "Undo it."),
            ),
        ],
        on_error="wait",
    )


@pytest.mark.parametrize("mode", ["tools", "handoff"])
def test_a_supervisor_is_what_supervisor_makes(skill, mode):
    text = f"""
        kind: supervisor
        name: editor
        model: n
        mode: {mode}
        description: Edits.
        instruction: Decide.
        worker_history: shared
        tools: [fetch]
        approve: [fetch]
        history: last
        max_iterations: 5
        exit_tool: true
        workers:
          - {{kind: chat, name: writer, model: m, description: Writes.}}
          - {{agent: critic}}
    """
    assert skill(text) == ag.supervisor(
        "editor",
        OTHER,
        [writer(description="Writes."), CRITIC],
        mode=mode,
        description="Edits.",
        instruction="Decide.",
        worker_history="shared",
        tools=[fetch],
        approve=["fetch"],
        history="last",
        max_iterations=5,
        exit_tool=True,
    )


def test_a_plan_execute_is_what_plan_execute_makes(skill):
    text = """
        kind: plan_execute
        name: research
        model: n
        planner: m
        executor: {agent: critic}
        max_iterations: 4
        parallel: true
        approve_plan: true
    """
    assert skill(text) == plan_execute(
        "research",
        planner=MODEL,
        executor=CRITIC,
        replanner=OTHER,
        max_iterations=4,
        parallel=True,
        approve_plan=True,
    )


def test_an_agent_may_be_a_tool_by_its_name_or_written_out(skill):
    text = """
        kind: chat
        name: writer
        model: m
        tools:
          - agent: critic
          - agent: {kind: human, name: boss, prompt: "{request}"}
            description: Asks the boss.
    """
    boss = ag.agent_tool(ag.human("boss", "{request}"), description="Asks the boss.")
    assert skill(text) == writer(tools=[ag.agent_tool(CRITIC), boss])


def test_the_nearest_model_around_an_agent_counts(skill):
    text = """
        kind: sequential
        name: report
        model: m
        sub_agents:
          - {kind: chat, name: writer}
          - kind: parallel
            name: checks
            model: n
            sub_agents: [{kind: chat, name: style}, {kind: chat, name: facts, model: m}]
          - {kind: supervisor, name: editor, workers: [{agent: critic}]}
    """
    checks = [ag.chat_agent("style", OTHER), ag.chat_agent("facts", MODEL)]
    editor = ag.supervisor("editor", MODEL, [CRITIC])
    assert skill(text) == ag.sequential("report", [writer(), ag.parallel("checks", checks), editor])


@pytest.mark.parametrize("kind", ["chat", "supervisor"])
def test_approve_may_be_rules_as_langchain_has_them(kind, skill):
    text = f"""
        kind: {kind}
        name: writer
        model: m
        workers: [{{agent: critic}}]
        tools: [search, fetch]
        interrupt_mode: per_call
        approve:
          search: {{allowed_decisions: [approve, reject], description: Search.}}
          fetch: false
    """
    found = skill(text if kind == "supervisor" else text.replace("workers", "sub_agents"))
    rule = {"allowed_decisions": ["approve", "reject"], "description": "Search."}
    assert found.approve == {"search": rule, "fetch": False}
    assert found.interrupt_mode == "per_call"


def test_a_whole_file_may_be_one_agent_made_in_python(skill):
    assert skill("agent: critic") is CRITIC


def test_a_name_of_a_registry_may_hold_a_colon(skill):
    assert skill("agent: 'team:critic'", agents={"team:critic": CRITIC}) is CRITIC


def test_json_is_read_too_with_tabs_and_escapes(skill):
    data = {"kind": "chat", "name": "writer", "model": "m", "instruction": "Bees 🐝\tand \\ ü"}
    assert skill(json.dumps(data, indent="\t"), "skill.json") == writer(instruction=data["instruction"])


def test_words_are_read_as_yaml_1_2_has_them(skill):
    text = "{kind: human, name: boss, prompt: [no, on, 12:30, 010, 0.5, 1_000, true, null, 2024-01-01]}"
    assert skill(text) == ag.human(
        "boss", ["no", "on", "12:30", 10, 0.5, "1_000", True, None, "2024-01-01"]
    )


def test_a_byte_order_mark_is_not_part_of_the_text(skill):
    assert skill("\ufeffagent: critic") is CRITIC


def test_a_file_may_be_nested_deeply(skill):
    text, agent = "{agent: critic}", CRITIC
    for number in range(31):
        text = f"{{kind: sequential, name: s{number}, sub_agents: [{text}]}}"
        agent = ag.sequential(f"s{number}", [agent])
    assert skill(text) == agent


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_fields_of_a_kind_are_those_of_its_builder(kind):
    builders = {"chat": ag.chat_agent, "plan_execute": plan_execute}
    builder = builders[kind] if kind in builders else getattr(ag, kind)
    parameters = inspect.signature(builder).parameters
    fields = {name: f for name, f in KINDS[kind].model_fields.items() if name != "kind"}
    own = set(fields) - ({"model"} if "model" not in parameters else set())
    in_python = {"model_input", "middleware"}
    only_in_python = {"chat": in_python, "supervisor": in_python}.get(kind, set())
    assert own == set(parameters) - only_in_python
    for name in own - {"model", "planner", "executor", "replanner"}:
        default = parameters[name].default
        wanted = default if default != () else []
        assert fields[name].is_required() == (default is inspect.Parameter.empty), name
        assert fields[name].is_required() or fields[name].default == wanted, name


def test_branches_share_an_output_key_that_is_declared_where_it_is_compiled(skill):
    text = """
        kind: parallel
        name: checks
        sub_agents:
          - {kind: chat, name: style, model: style, output_key: notes}
          - {kind: chat, name: facts, model: facts, output_key: notes}
    """
    models = {name: ScriptedChatModel(responses=[f"{name}. "]) for name in ("style", "facts")}
    checks = skill(text, models=models)
    with pytest.raises(ag.InvalidAgentError, match=r"or declare a reducer for 'notes' in values="):
        ag.Runner(checks)
    runner = ag.Runner(checks, values=TypedDict("Values", {"notes": Annotated[str, operator.add]}))
    list(runner.run("Go.", thread_id="t"))
    config = {"configurable": {"thread_id": "t"}}
    assert runner.graph.get_state(config).values["values"] == {"notes": "style. facts. "}


@pytest.mark.parametrize(
    ("wanted", "found", "ends"),
    [(True, True, True), (True, 1, False), (1, True, False), ("yes", "yes", True), (None, None, True)],
)
def test_a_loop_ends_once_a_value_is_as_wanted(wanted, found, ends):
    class Context:
        values = {"approved": found}  # noqa: RUF012

    assert ValueIs(value="approved", wanted=wanted)(Context()) is ends
