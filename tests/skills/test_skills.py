"""Skill files: the same trees as the builders make, every fault with its line, nothing evaluated."""

import inspect
import json
import operator
import re
import sys
from dataclasses import asdict
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.types import RetryPolicy
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.agents.agents import Agent
from agentgraph.agents.prebuilt.plan_execute import plan_execute
from agentgraph.skills import ValueIs, json_schema
from agentgraph.skills.schema import KINDS
from agentgraph.testing import ScriptedChatModel, call, calls, transcript

MODEL, OTHER = (ScriptedChatModel(responses=[text]) for text in ("one", "two"))


def search(topic: str) -> str:
    "Search for a topic."
    return f"{topic}: 3 hits"


def fetch(page: str) -> str:
    "Fetch a page."
    return page


def say(ctx) -> str:
    return "said"


CRITIC = ag.function_agent("critic", say)
GIVEN: dict[str, Any] = {
    "models": {"m": MODEL, "n": OTHER},
    "tools": {"search": search, "fetch": fetch},
    "agents": {"critic": CRITIC},
}


@pytest.fixture
def skill(tmp_path: Path):
    """Write a skill file, and load it."""

    def load(text: str, name: str = "skill.yaml", **options: Any) -> Agent:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return ag.load(file, **(options or GIVEN))

    return load


@pytest.fixture
def faults(tmp_path: Path, skill):
    """Write a skill file, and return its faults without the folder."""

    def told(text: str, name: str = "skill.yaml", **options: Any) -> list[str]:
        with pytest.raises(ag.InvalidSkillError) as caught:
            skill(text, name, **options)
        return [fault.removeprefix(f"{tmp_path}/") for fault in caught.value.faults]

    return told


def writer(**options: Any) -> Agent:
    return ag.chat_agent("writer", MODEL, **options)


# what the builders make


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


def test_a_whole_file_may_be_one_agent_of_pythons(skill):
    assert skill("agent: critic") is CRITIC


def test_json_is_read_too_with_tabs_and_escapes(skill):
    data = {"kind": "chat", "name": "writer", "model": "m", "instruction": "Bees 🐝\tand \\ ü"}
    assert skill(json.dumps(data, indent="\t"), "skill.json") == writer(instruction=data["instruction"])


def test_words_are_read_as_yaml_1_2_has_them(skill):
    text = "{kind: human, name: boss, prompt: [no, on, 12:30, 010, 0.5, 1_000, true, null, 2024-01-01]}"
    assert skill(text) == ag.human(
        "boss", ["no", "on", "12:30", 10, 0.5, "1_000", True, None, "2024-01-01"]
    )


def test_a_byte_order_mark_is_no_part_of_the_text(skill):
    assert skill("\ufeffagent: critic") is CRITIC


def test_a_file_may_be_nested_deeply(skill):
    text, agent = "{agent: critic}", CRITIC
    for number in range(31):
        text = f"{{kind: sequential, name: s{number}, sub_agents: [{text}]}}"
        agent = ag.sequential(f"s{number}", [agent])
    assert skill(text) == agent


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


def test_rules_that_are_wrong_are_told_with_their_lines(faults):
    text = """
        kind: chat
        name: writer
        model: m
        tools: [search]
        interrupt_mode: each
        approve:
          search: {allowed_decisions: [accept], about: Search.}
          fetch: maybe
          find: {description: Find.}
    """
    assert faults(text) == [
        "skill.yaml:6: 'interrupt_mode' cannot be 'each'; use one of batched, per_call",
        "skill.yaml:8: item 1 of 'allowed_decisions' cannot be 'accept'; use one of approve, edit, "
        "reject, respond",
        "skill.yaml:8: a rule of approve has no field 'about'; it has: allowed_decisions, description",
        "skill.yaml:9: 'fetch' should be true or false, and is 'maybe'; correct it",
        "skill.yaml:10: a rule of approve needs the field 'allowed_decisions'; add it",
    ]


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


# what runs


def test_a_file_runs_end_to_end(skill):
    text = """
        kind: sequential
        name: report
        model: main
        sub_agents:
          - kind: loop
            name: refine
            max_iterations: 5
            until: {value: verdict, is: good}
            sub_agents:
              - {kind: chat, name: write, instruction: "About {topic}.", tools: [search]}
              - {kind: chat, name: judge, model: judge, output_key: verdict}
          - kind: parallel
            name: checks
            sub_agents:
              - {kind: chat, name: style, model: style}
              - {agent: critic}
    """
    main = ScriptedChatModel(responses=[calls(call("search", topic="bees")), "Bees.", "Better bees."])
    judge = ScriptedChatModel(responses=["bad", "good"])
    models = {"main": main, "judge": judge, "style": ScriptedChatModel(responses=["plain"])}
    report = skill(text, models=models, tools={"search": search}, agents={"critic": CRITIC})
    events = list(ag.Runner(report).query("Go.", values={"topic": "bees"}))
    assert [line for line in transcript(events) if "checks" not in line] == [
        'report/refine/write: [calls] search({"topic": "bees"})',
        "report/refine/write: bees: 3 hits",
        "report/refine/write: Bees.",
        "report/refine/write/judge: bad",
        "report/refine/write/judge/write: Better bees.",
        "report/refine/write/judge/write/judge: good",
    ]
    assert sorted(line.rpartition("/")[2] for line in transcript(events) if "checks" in line) == [
        "critic: said",
        "style: plain",
    ]
    main.assert_finished()


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


def test_an_until_equals_itself_and_shows_what_it_is():
    until = ValueIs(value="approved", wanted=True)
    assert until == ValueIs(value="approved", wanted=True)
    assert hash(until) == hash(ValueIs(value="approved", wanted=True))
    assert asdict(until) == {"value": "approved", "wanted": True}
    assert until != ValueIs(value="approved", wanted=False)


# what is refused: the file


@pytest.mark.parametrize("data", [b"kind: \xff", b"\x80"])
def test_a_file_in_another_encoding_is_refused(tmp_path, data):
    (tmp_path / "skill.yaml").write_bytes(data)
    with pytest.raises(
        ag.InvalidSkillError, match=r"skill\.yaml: this is no UTF-8 text \(.*\); save it"
    ):
        ag.load(tmp_path / "skill.yaml")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for name, reason in [("none.yaml", "No such file or directory"), ("", "Is a directory")]:
        with pytest.raises(ag.InvalidSkillError) as caught:
            ag.load(tmp_path / name)
        assert caught.value.faults == (
            f"{tmp_path / name}: the file cannot be read ({reason}); correct the path",
        )


def test_the_faults_begin_with_the_path_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("skill.yaml").write_text("agent: critic")
    with pytest.raises(ag.InvalidSkillError) as caught:
        ag.load("skill.yaml", agents={"boss": CRITIC})
    assert str(caught.value) == "skill.yaml:1: there is no agent 'critic'; there are: boss"


HINT = "quote a text that holds ': ' or ' #', or begins with a sign such as { [ * & ! @ %"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1: the file says nothing; write an agent, as in kind: chat"),
        ("# nothing\n---\n", "1: the file says nothing; write an agent, as in kind: chat"),
        (
            "kind: chat\nname: a: b",
            f"2: this is no YAML: mapping values are not allowed here; {HINT}",
        ),
        (
            "kind: chat\nname: [a",
            f"2: this is no YAML: expected ',' or ']', but got '<stream end>'; {HINT}",
        ),
        (
            "kind: chat\n\tname: x",
            "2: this is no YAML: found character '\\t' that cannot start any token",
        ),
        ("kind: chat\n? [a]\n: b", f"2: a key is a single text; {HINT}"),
        (
            "agent: critic\n---\nagent: critic",
            "2: a second document begins here; write one agent a file, ",
        ),
        ("agent: critic\nname: \x07", "2: the character '\\x07' is not allowed here; take it out"),
        ('agent: "\\UFFFFFFFF"', "1: this is no YAML: "),
        (
            'agent: "\\ud83d"',
            "1: an escape in the text is half a character; write the character itself",
        ),
        ('"\\ud83d": 1', "1: an escape in the text is half a character; write the character itself"),
        ("agent: " + "9" * 5000, "1: a number is too large; put it in quotes if it is text"),
        ("agent: 1e999", "1: a number is too large; put it in quotes if it is text"),
        (
            "[" * 100_000,
            "1: more than 64 mappings and lists stand in each other here; build the inner ",
        ),
        (
            "{a: " * 100_000,
            "1: more than 64 mappings and lists stand in each other here; build the inner ",
        ),
        ("5", "1: the file should be a mapping, and is 5; correct it"),
        ("[agent, critic]", "1: the file should be a mapping, and is a list; correct it"),
    ],
)
def test_a_text_that_is_no_skill_is_refused(faults, text, fault):
    (told,) = faults(text)
    assert told.startswith(f"skill.yaml:{fault}")


def test_a_key_that_stands_twice_is_a_fault(faults):
    text = (
        "kind: chat\nname: writer\nmodel: m\nname: reader\nretry:\n  max_attempts: 2\n  max_attempts: 3"
    )
    assert faults(text) == [
        "skill.yaml:4: 'name' stands here again, after line 2; leave one of them out",
        "skill.yaml:7: 'max_attempts' stands here again, after line 6; leave one of them out",
    ]


# what is refused: the parts


def test_unknown_kinds_and_fields_are_told_with_the_nearest_name(faults):
    text = """
        kind: sequential
        name: report
        sub_agents:
          - kind: chatt
            name: writer
          - kind: chat
            name: reader
            model: m
            instrution: Read.
            retry: {attempts: 3}
            tools: [{agent: critic, descr: x}]
          - kind: agent
            name: critic
          - name: nobody
          - {agent: critic, name: other}
          - kind: loop
            name: refine
            max_iterations: 2
            untill: {}
            until: {value: x}
            sub_agents: []
        steps: []
    """
    lines = [re.sub(r"; it has: .*", "; it has: ...", fault) for fault in faults(text)]
    kinds = "sequential, parallel, loop, workflow, supervisor, plan_execute, chat, human"
    assert lines == [
        f"skill.yaml:5: there is no kind 'chatt' (did you mean 'chat'?); there are: {kinds}",
        "skill.yaml:10: a chat has no field 'instrution' (did you mean 'instruction'?); it has: ...",
        "skill.yaml:11: a retry has no field 'attempts' (did you mean 'max_attempts'?); it has: ...",
        "skill.yaml:12: an agent as a tool has no field 'descr' (did you mean 'description'?); it has: "
        "...",
        f"skill.yaml:13: there is no kind 'agent'; there are: {kinds}",
        f"skill.yaml:15: an agent needs a kind: {kinds}; or write agent: NAME for one of yours",
        "skill.yaml:16: a reference to an agent has no field 'name'; it has: ...",
        "skill.yaml:20: a loop has no field 'untill' (did you mean 'until'?); it has: ...",
        "skill.yaml:21: an until needs the field 'is'; add it",
        "skill.yaml:23: a sequential has no field 'steps'; it has: ...",
    ]


def test_the_fields_that_there_are_stand_behind_an_unknown_one(faults):
    assert faults("{kind: sequential, name: s, sub_agents: [{agent: critic}], instruction: x}") == [
        "skill.yaml:1: a sequential has no field 'instruction'; it has: name, model, description, "
        "kind, sub_agents"
    ]


def test_missing_fields_are_told(faults):
    text = """
        kind: parallel
        sub_agents:
          - kind: loop
            name: refine
          - kind: workflow
            steps:
              - depends_on: [a]
          - kind: supervisor
            model: m
          - kind: human
    """
    assert faults(text) == [
        "skill.yaml:2: a parallel needs the field 'name'; add it",
        "skill.yaml:4: a loop needs the field 'sub_agents'; add it",
        "skill.yaml:4: a loop needs the field 'max_iterations'; add it",
        "skill.yaml:6: a workflow needs the field 'name'; add it",
        "skill.yaml:8: a step needs the field 'agent'; add it",
        "skill.yaml:9: a supervisor needs the field 'name'; add it",
        "skill.yaml:9: a supervisor needs the field 'workers'; add it",
        "skill.yaml:11: a human needs the field 'name'; add it",
        "skill.yaml:11: a human needs the field 'prompt'; add it",
    ]


def test_wrong_types_are_told(faults):
    text = """
        kind: chat
        name: 5
        model: [m]
        description:
        instruction: {topic}
        tools: search
        sub_agents: [critic, 7]
        output_schema: text
        history: al
        max_iterations: 2.5
        on_max_iterations: 3
        exit_tool: yes
        approve: [search, {a: b}]
        timeout: 0
        retry: {max_attempts: 0, initial_interval: long}
    """
    assert faults(text) == [
        "skill.yaml:3: 'name' should be a text, and is 5; put it in quotes",
        "skill.yaml:4: 'model' should be a text, and is a list; put it in quotes",
        "skill.yaml:5: 'description' should be a text, and is empty; give it a value, or leave it out",
        "skill.yaml:6: 'instruction' should be a text, and is a mapping; put it in quotes",
        "skill.yaml:7: 'tools' should be a list, as in [one, two], and is 'search'; write [search]",
        "skill.yaml:8: item 1 of 'sub_agents' should be an agent, and is 'critic'; write agent: critic",
        "skill.yaml:8: item 2 of 'sub_agents' should be a mapping, and is 7; correct it",
        "skill.yaml:9: 'output_schema' should be a mapping, and is 'text'; correct it",
        "skill.yaml:10: 'history' cannot be 'al'; use one of shared, path, own, last, input",
        "skill.yaml:11: 'max_iterations' should be a whole number, and is 2.5; correct it",
        "skill.yaml:12: 'on_max_iterations' cannot be 3; use one of raise, answer",
        "skill.yaml:13: 'exit_tool' should be true or false, and is 'yes'; correct it",
        "skill.yaml:14: item 2 of 'approve' should be a text, and is a mapping; put it in quotes",
        "skill.yaml:15: 'timeout' should be above 0, and is 0; correct it",
        "skill.yaml:16: 'max_attempts' should be at least 1, and is 0; correct it",
        "skill.yaml:16: 'initial_interval' should be a number, and is 'long'; correct it",
    ]


def test_a_wrong_tool_and_a_wrong_until_are_told(faults):
    text = """
        kind: loop
        name: refine
        max_iterations: null
        until: {value: x, is: [1]}
        sub_agents:
          - {kind: chat, name: writer, model: m, tools: [{agnt: critic}, 5]}
    """
    assert faults(text) == [
        "skill.yaml:5: 'is' should be a text, a number, true, false or null; compare with one of these",
        "skill.yaml:7: a tool is a name, an agent as in agent: NAME, or a mapping with a type",
        "skill.yaml:7: item 2 of 'tools' should be a text, and is 5; put it in quotes",
    ]


def test_a_long_value_is_shortened(faults):
    (told,) = faults(f"{{kind: {'x' * 200}}}")
    assert told.startswith(f"skill.yaml:1: there is no kind '{'x' * 55}...'; there are: ")


def test_a_key_that_is_named_like_a_kind_confuses_nobody(faults):
    text = "kind: loop\nname: 5\nloop: {name: x}\nsub_agents: []\nmax_iterations: 1"
    assert faults(text) == [
        "skill.yaml:2: 'name' should be a text, and is 5; put it in quotes",
        "skill.yaml:3: a loop has no field 'loop'; it has: name, model, description, kind, sub_agents, "
        "max_iterations, until",
    ]


def test_a_template_without_quotes_is_no_prompt(faults):
    assert faults("kind: human\nname: boss\nprompt: {topic}") == [
        "skill.yaml:3: 'prompt' is a mapping without values; put a template in quotes"
    ]


def test_unknown_names_are_told_with_those_that_there_are(faults):
    text = """
        kind: chat
        name: writer
        model: main
        tools: [serch, {agent: critik}]
        sub_agents:
          - agent: boss
    """
    assert faults(text) == [
        "skill.yaml:4: there is no model 'main'; there are: m, n",
        "skill.yaml:5: there is no tool 'serch' (did you mean 'search'?); there are: search, fetch",
        "skill.yaml:5: there is no agent 'critik' (did you mean 'critic'?); there are: critic",
        "skill.yaml:7: there is no agent 'boss'; there are: critic",
    ]


def test_names_without_a_registry_say_where_they_are_given(faults):
    assert faults("{kind: chat, name: writer, model: main, tools: [search]}", models={}) == [
        "skill.yaml:1: there is no model 'main', for no models were given; pass models={'main': ...}, "
        "or on the command line --registry with a file that has such a dict 'models'",
        "skill.yaml:1: there is no tool 'search', for no tools were given; pass tools={'search': ...}, "
        "or on the command line --registry with a file that has such a dict 'tools'",
    ]


def test_agents_without_a_model_are_told(faults):
    text = """
        kind: sequential
        name: report
        sub_agents:
          - {kind: chat, name: writer, tools: [{agent: {kind: chat, name: helper}}]}
          - kind: workflow
            name: flow
            model: m
            steps:
              - {kind: chat, name: one}
          - kind: supervisor
            name: editor
            workers: [{agent: critic}]
    """
    assert faults(text) == [
        "skill.yaml:5: a chat has no model; add model: NAME to it, or to an agent around it",
        "skill.yaml:5: a chat has no model; add model: NAME to it, or to an agent around it",
        "skill.yaml:11: a supervisor has no model; add model: NAME to it, or to an agent around it",
    ]


# what is refused: the tree


def test_the_faults_of_the_tree_are_told_at_the_lines_of_their_agents(faults):
    text = """
        kind: sequential
        name: report
        sub_agents:
          - kind: loop
            name: refine
            max_iterations: null
            sub_agents:
              - kind: chat
                name: bad name
                model: m
                approve: [search]
          - kind: chat
            name: writer
            model: m
            break_tool: true
            tools:
              - agent:
                  kind: human
                  name: end
                  prompt: x
                  output_key: no key
          - {kind: human, name: reader, prompt: x}
          - kind: workflow
            name: flow
            steps:
              - {agent: {kind: human, name: a, prompt: x}, depends_on: [b]}
              - {agent: {kind: human, name: b, prompt: x}, depends_on: [a, c]}
          - {kind: parallel, name: none, sub_agents: []}
    """
    assert faults(text) == [
        "skill.yaml:5: report/refine: nothing can end this loop; give it max_iterations or until, or "
        "an agent inside that may exit or break_loop",
        "skill.yaml:9: report/refine/bad name: the name 'bad name' is not allowed; use letters, "
        "digits, '_' and single '-', letter first",
        "skill.yaml:9: report/refine/bad name: approve names 'search', which is not one of its "
        "tools: none",
        "skill.yaml:13: report/writer: break_tool=True needs an enclosing loop; leave it out",
        "skill.yaml:18: report/writer/end: the name 'end' is reserved; choose another",
        "skill.yaml:18: report/writer/end: output_key='no key' cannot be used in a template; use a "
        "plain "
        "name such as 'draft'",
        "skill.yaml:24: report/flow: the step 'b' depends on 'c', which is not a step; there are: 'a', "
        "'b'",
        "skill.yaml:24: report/flow: the steps 'a' -> 'b' -> 'a' wait for each other; take one "
        "'depends_on' out",
        "skill.yaml:29: report/none: a parallel needs at least one sub-agent",
    ]


def test_two_agents_of_one_name_are_told_at_the_second_one(faults):
    text = "kind: parallel\nname: p\nsub_agents:\n"
    first, second = (f"  - {{kind: chat, name: writer, model: {model}}}\n" for model in "mn")
    assert faults(f"{text}{first}  - agent: critic\n{second}") == [
        "skill.yaml:6: p/writer: two agents are named 'writer'; a name means one agent, rename one"
    ]


def test_a_tool_that_is_none_is_told(faults):
    text = "{kind: chat, name: writer, model: m, tools: [search]}"
    assert faults(text, models={"m": MODEL}, tools={"search": 5}) == [
        "skill.yaml:1: writer: 5 cannot be used as a tool (it is no function); pass a LangChain "
        "tool, or "
        "a function with a docstring"
    ]


def test_the_faults_of_the_tree_are_told_with_unknown_names(faults):
    text = """
        kind: sequential
        name: report
        sub_agents:
          - kind: chat
            name: writer
            tools: [find]
            approve: [find]
          - kind: chat
            name: end
            model: gpt
          - agent: boss
    """
    assert faults(text) == [
        "skill.yaml:5: a chat has no model; add model: NAME to it, or to an agent around it",
        "skill.yaml:7: there is no tool 'find'; there are: search, fetch",
        "skill.yaml:9: report/end: the name 'end' is reserved; choose another",
        "skill.yaml:11: there is no model 'gpt'; there are: m, n",
        "skill.yaml:12: there is no agent 'boss'; there are: critic",
    ]


def test_an_agent_of_pythons_is_told_at_the_line_that_names_it(faults):
    text = "kind: sequential\nname: report\nsub_agents:\n  - agent: bad\n  - agent: none\n"
    bad = ag.sequential("bad", [ag.loop("inner", [], max_iterations=1)])
    assert faults(text, agents={"bad": bad, "none": 5}) == [
        "skill.yaml:4: report/bad/inner: a loop needs at least one sub-agent",
        "skill.yaml:5: 'none' is of type int, which is not an agent; build one with chat_agent, human, "
        "sequential, ...",
    ]


def test_a_model_that_is_none_is_told(faults):
    assert faults("{kind: chat, name: writer, model: m}", models={"m": 5}) == [
        "skill.yaml:1: writer: the model 5 is not a LangChain chat model; pass one, such as "
        "ChatOpenAI(...), a name, such as 'openai:gpt-5', or a sync function of a context"
    ]


# what is safe

PYTHON_TAGS = [
    "!!python/object/apply:os.system ['touch hacked']",
    "!!python/name:os.system ''",
    "!!python/module:os ''",
    "!!python/object/new:subprocess.Popen [[touch, hacked]]",
    "!custom 5",
    "!!binary aGk=",
    "!!set {a, b}",
]


@pytest.mark.parametrize("value", PYTHON_TAGS)
def test_tags_are_refused_and_build_nothing(faults, tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    (told,) = faults(f"kind: human\nname: boss\nprompt: {value}")
    assert re.fullmatch(r"skill\.yaml:3: the tag \S+ is not allowed; take it out", told)
    assert not (tmp_path / "hacked").exists()


def test_anchors_and_aliases_are_refused_at_once(faults):
    levels = "".join(f"  - &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    text = f"kind: human\nname: boss\nprompt:\n  - &a0 [lol]\n{levels}"
    told = faults(text)
    assert told[:2] == [
        "skill.yaml:4: the anchor &a0 is not allowed; take it out",
        "skill.yaml:5: the anchor &a1 is not allowed; take it out",
    ]
    assert "skill.yaml:5: the alias *a0 is not allowed; write out what it stands for" in told


def test_merge_keys_are_unknown_fields(faults):
    (told,) = faults("kind: human\nname: boss\nprompt: x\n<<: {description: y}")
    assert told.startswith("skill.yaml:4: a human has no field '<<'; it has: ")


def folder_with(tmp_path: Path, **modules: str) -> Path:
    folder = tmp_path / "modules"
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


TOOLS = """
import os
from os import system
from pathlib import Path
from textwrap import dedent

from agentgraph.testing import ScriptedChatModel

__version__ = "1"
main = ScriptedChatModel(responses=["one"])


def find(topic: str) -> str:
    "Find a topic."
    return topic


def _private(topic: str) -> str:
    "Find a topic."
    return topic


def __getattr__(name):
    raise SystemExit("called")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Make a module that can be imported, and forget it later."""
    monkeypatch.syspath_prepend(folder_with(tmp_path, skill_tools=TOOLS, skill_broken="1 / 0"))
    yield "skill_tools"
    sys.modules.pop("skill_tools", None)


TEXT = "{{kind: chat, name: writer, model: '{0}', tools: ['{1}']}}"


@pytest.mark.parametrize("allow", [["skill_tools:main", "skill_tools:find"], ["skill_tools:*"]])
def test_what_is_allowed_is_imported(skill, module, allow):
    made = skill(TEXT.format("skill_tools:main", "skill_tools:find"), allow=allow)
    tools = sys.modules[module]
    assert made == ag.chat_agent("writer", tools.main, tools=[tools.find])


def test_one_reference_may_be_allowed_as_a_text(skill, module):
    made = skill(TEXT.format("m", "skill_tools:find"), **GIVEN, allow="skill_tools:find")
    assert made == writer(tools=[sys.modules[module].find])


@pytest.mark.parametrize("allow", [[], ["os:*"], ["skill_tools:other"], ["skill_tool:*"]])
def test_what_is_not_allowed_is_not_imported(faults, module, allow):
    assert faults(TEXT.format("m", "skill_tools:find"), **GIVEN, allow=allow) == [
        "skill.yaml:1: 'skill_tools:find' may not be imported; if you trust it, pass "
        "allow=['skill_tools:find'], or --allow skill_tools:find on the command line"
    ]
    assert module not in sys.modules


@pytest.mark.parametrize(
    "name",
    [
        "skill_tools:__builtins__",
        "skill_tools:_private",
        "skill_tools:find.__globals__",
        "skill_tools:find.name",
        "skill_tools:find()",
        "__main__:find",
        "skill_tools.__init__:find",
        ".skill_tools:find",
        "skill_tools::find",
        "skill_tools:",
        ":find",
        "skill_tools:*",
        "skill_tools:find\n",
    ],
)
def test_a_reference_is_a_module_and_one_public_name(faults, module, name):
    text = json.dumps({"kind": "chat", "name": "writer", "model": "m", "tools": [name]})
    assert faults(text, **GIVEN, allow=["skill_tools:*"]) == [
        f"skill.yaml:1: {name!r} is no reference; write 'module:name', with one public name behind the "
        f"colon"
    ]
    assert module not in sys.modules


def test_a_missing_name_of_a_module_is_told_and_nothing_is_called(faults, module):
    assert faults(TEXT.format("m", "skill_tools:fin"), **GIVEN, allow=["skill_tools:fin"]) == [
        "skill.yaml:1: the module 'skill_tools' offers no 'fin' (did you mean 'find'?); it offers its "
        "__all__, or without one what it defines itself"
    ]


@pytest.mark.parametrize("name", ["os", "Path", "system", "ScriptedChatModel", "missing"])
def test_what_a_module_imports_itself_is_not_allowed_with_it(faults, module, name):
    (told,) = faults(TEXT.format("m", f"skill_tools:{name}"), **GIVEN, allow=["skill_tools:*"])
    assert told.startswith(f"skill.yaml:1: the module 'skill_tools' offers no {name!r}")


def test_it_may_be_allowed_by_its_name(skill, module):
    made = skill(TEXT.format("m", "skill_tools:dedent"), **GIVEN, allow=["skill_tools:dedent"])
    assert made == writer(tools=[dedent])


def test_all_of_a_module_is_its_list_where_it_has_one(faults, module, tmp_path):
    (tmp_path / "modules" / "skill_tools.py").write_text(f"__all__ = ['main']\n{TOOLS}")
    assert faults(
        TEXT.format("skill_tools:main", "skill_tools:find"), **GIVEN, allow=["skill_tools:*"]
    ) == [
        "skill.yaml:1: the module 'skill_tools' offers no 'find'; it offers its __all__, or without "
        "one what it defines itself"
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("skill_broken:find", "ZeroDivisionError: division by zero"),
        ("skill_nowhere:find", "ModuleNotFoundError: No module named 'skill_nowhere'"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told(faults, module, name, reason):
    assert faults(TEXT.format("m", name), **GIVEN, allow=[name]) == [
        f"skill.yaml:1: {name!r} cannot be imported: {reason}"
    ]


@pytest.mark.parametrize("allowed", ["skill_tools", "*:*", "os:_exit", "os:path.join", "__main__:*", 5])
def test_only_references_can_be_allowed(tmp_path, allowed):
    (tmp_path / "skill.yaml").write_text("agent: critic")
    with pytest.raises(ag.AgentGraphError) as caught:
        ag.load(tmp_path / "skill.yaml", agents=GIVEN["agents"], allow=[allowed])
    assert str(caught.value) == (
        f"{allowed!r} cannot be allowed; write 'module:name' with a public name, or 'module:*'"
    )


def test_a_name_of_a_registry_may_hold_a_colon(skill):
    assert skill("agent: 'team:critic'", agents={"team:critic": CRITIC}) is CRITIC


FIELDS = "kind name agent model tools sub_agents steps until is value retry planner executor workers"
MORE = "depends_on prompt max_iterations compensate m search critic a end skill_tools:find __main__:x"
MOST_KINDS = [kind for kind in KINDS if kind != "plan_execute"]
WORDS = st.sampled_from([*FIELDS.split(), *MORE.split(), *MOST_KINDS, "{x}", ""])
DATA = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=25,
)
SOME = settings(
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def load_anything(file: Path) -> None:
    faults: tuple[str, ...] = (str(file),)
    try:
        ag.load(file, **GIVEN)
    except ag.InvalidSkillError as error:
        faults = error.faults
    assert faults
    assert all(fault.startswith(str(file)) for fault in faults)


@SOME
@given(data=DATA)
def test_any_data_is_an_agent_or_told_as_faults(tmp_path, data):
    file = tmp_path / "skill.yaml"
    file.write_text(json.dumps(data))
    load_anything(file)


@SOME
@given(
    text=st.text(
        st.sampled_from("kindametols: -[]{}\"'\n\t&*!|>%@?,#\\u12~<\0\x85\ud800é"), max_size=60
    )
)
def test_any_text_is_an_agent_or_told_as_faults(tmp_path, text):
    file = tmp_path / "skill.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    load_anything(file)


# the JSON schema


def test_the_json_schema_has_each_kind_with_a_word_on_each_field():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(schema)) == schema
    reference, kinds = schema["oneOf"]
    assert reference == {"$ref": "#/$defs/Reference"}
    assert set(kinds["discriminator"]["mapping"]) == set(KINDS)
    for name, part in schema["$defs"].items():
        assert part["additionalProperties"] is False, name
        assert all(each["description"] for each in part["properties"].values()), name


def test_the_json_schema_says_what_a_field_may_be():
    loop = json_schema()["$defs"]["Loop"]
    assert loop["required"] == ["name", "kind", "sub_agents", "max_iterations"]
    assert loop["properties"]["kind"]["const"] == "loop"
    assert loop["properties"]["max_iterations"]["anyOf"] == [
        {"minimum": 1, "type": "integer"},
        {"type": "null"},
    ]
    tool = json_schema()["$defs"]["Chat"]["properties"]["tools"]["items"]
    assert tool["oneOf"][:2] == [{"type": "string"}, {"$ref": "#/$defs/AgentTool"}]
    until = json_schema()["$defs"]["Until"]
    assert (list(until["properties"]), until["required"]) == (["value", "is"], ["value", "is"])


SCHEMA = json_schema()
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "null": type(None),
    "number": float,
}


def is_type(name: str, data: Any) -> bool:
    if isinstance(data, bool):
        return name == "boolean"
    if isinstance(data, int):
        return name in ("integer", "number")
    return isinstance(data, TYPES.get(name, ()))


def as_dict(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


CHECKS: dict[str, Any] = {
    "$ref": lambda ref, data: fits(SCHEMA["$defs"][ref.removeprefix("#/$defs/")], data),
    "type": lambda names, data: any(
        is_type(name, data) for name in ([names], names)[type(names) is list]
    ),
    "oneOf": lambda schemas, data: sum(fits(each, data) for each in schemas) == 1,
    "anyOf": lambda schemas, data: any(fits(each, data) for each in schemas),
    "not": lambda schema, data: not fits(schema, data),
    "const": lambda value, data: data == value,
    "enum": lambda values, data: data in values,
    "minimum": lambda least, data: not is_type("number", data) or data >= least,
    "exclusiveMinimum": lambda bound, data: not is_type("number", data) or data > bound,
    "required": lambda names, data: not isinstance(data, dict) or set(names) <= set(data),
    "items": lambda schema, data: (
        not isinstance(data, list) or all(fits(schema, each) for each in data)
    ),
    "properties": lambda schemas, data: all(
        fits(schemas.get(key, {}), each) for key, each in as_dict(data).items()
    ),
}
NOTES = {"$schema", "$defs", "title", "description", "default", "discriminator", "additionalProperties"}


def fits(schema: dict[str, Any], data: Any) -> bool:
    """Tell whether data fits a JSON schema, as far as the words of that of skill files go."""
    assert schema.keys() <= CHECKS.keys() | NOTES
    closed = schema.get("additionalProperties") is False
    unknown = closed and not as_dict(data).keys() <= schema["properties"].keys()
    return not unknown and all(
        CHECKS[word](wanted, data) for word, wanted in schema.items() if word in CHECKS
    )


BOSS: dict[str, Any] = {"kind": "human", "name": "boss", "prompt": "Print it?"}
EVERY_KIND: dict[str, dict[str, Any]] = {
    "human": BOSS,
    "chat": {
        "kind": "chat",
        "name": "writer",
        "model": "m",
        "tools": ["search", {"agent": "critic"}, {"type": "web_search"}],
        "retry": {"max_attempts": 2},
        "timeout": 5,
    },
    "loop": {
        "kind": "loop",
        "name": "refine",
        "max_iterations": None,
        "until": {"value": "x", "is": True},
        "sub_agents": [BOSS, {"agent": "critic"}],
    },
    "sequential": {"kind": "sequential", "name": "report", "model": "m", "sub_agents": [BOSS]},
    "parallel": {"kind": "parallel", "name": "checks", "sub_agents": [BOSS], "on_error": "first"},
    "workflow": {
        "kind": "workflow",
        "name": "flow",
        "steps": [BOSS, {"agent": "critic"}, {"agent": {**BOSS, "name": "b"}, "depends_on": ["boss"]}],
    },
    "supervisor": {"kind": "supervisor", "name": "editor", "model": "m", "workers": [BOSS]},
    "reference": {"agent": "critic"},
}
CHANGES: list[dict[str, Any]] = [
    {"name": 5},
    {"kind": "chatt"},
    {"max_iterations": 0},
    {"max_iterations": True},
    {"nothing": 1},
    {"model": ["m"]},
    {"sub_agents": BOSS},
    {"sub_agents": ["critic"]},
    {"sub_agents": [{"agent": "critic", "name": "x"}]},
    {"sub_agents": [5]},
    {"tools": [{"agnt": "critic"}]},
    {"tools": [{"agent": "critic", "descr": "x"}]},
    {"until": {"value": "x"}},
    {"until": {"value": "x", "is": [1]}},
    {"retry": {"max_attempts": 0}},
    {"timeout": 0},
    {"timeout": 0.5},
    {"history": "al"},
    {"history": "input"},
    {"steps": [{"depends_on": ["boss"]}]},
    {"steps": [{"agent": BOSS, "input": "x", "compensate": {"agent": "critic"}}]},
    {"workers": []},
    {"max_concurrency": None},
    {"agent": {"kind": "human"}},
    {"description": None},
]


@pytest.mark.parametrize("kind", list(EVERY_KIND))
def test_the_json_schema_takes_what_is_loaded(skill, kind):
    skill(json.dumps(EVERY_KIND[kind]))
    assert fits(SCHEMA, EVERY_KIND[kind])


@pytest.mark.parametrize("change", CHANGES, ids=repr)
@pytest.mark.parametrize("kind", list(EVERY_KIND))
def test_the_json_schema_refuses_what_has_a_wrong_form(tmp_path, kind, change):
    data = {**EVERY_KIND[kind], **change}
    (tmp_path / "skill.yaml").write_text(json.dumps(data))
    faults: tuple[str, ...] = ()
    try:
        ag.load(tmp_path / "skill.yaml", **GIVEN)
    except ag.InvalidSkillError as error:
        faults = error.faults
    of_form = [fault for fault in faults if not re.search(r":1: [\w/]+: ", fault)]
    assert fits(SCHEMA, data) == (of_form == [])


def test_each_field_left_out_is_refused_by_both(faults):
    for data in EVERY_KIND.values():
        for name in data:
            less = {key: value for key, value in data.items() if key != name}
            if not fits(SCHEMA, less):
                assert faults(json.dumps(less) if less else "{}")


# plan and execute


def test_the_parts_of_a_plan_execute_without_a_model_are_told(faults):
    text = "kind: plan_execute\nname: research\nplanner: m\nexecutor: critic\nparallel: maybe\n"
    assert faults(text) == [
        "skill.yaml:1: its replanner has no model; add model: NAME to it, or to an agent around it",
        "skill.yaml:4: there is no model 'critic'; there are: m, n",
        "skill.yaml:5: 'parallel' should be true or false, and is 'maybe'; correct it",
    ]


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
