"""Faults of skill files: each is reported with its line and what to do."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skill_files import CRITIC, GIVEN

import agentgraph as ag
from agentgraph.skills.schema import KINDS


@pytest.mark.parametrize("data", [b"kind: \xff", b"\x80"])
def test_a_file_in_another_encoding_is_refused(tmp_path, data):
    (tmp_path / "skill.yaml").write_bytes(data)
    with pytest.raises(
        ag.InvalidSkillError, match=r"skill\.yaml: this is not UTF-8 text \(.*\); save it"
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
    assert str(caught.value) == "skill.yaml:1: unknown agent 'critic'; known are: boss"


HINT = "quote a text that holds ': ' or ' #', or begins with a sign such as { [ * & ! @ %"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1: the file is empty; write an agent, as in kind: chat"),
        ("# nothing\n---\n", "1: the file is empty; write an agent, as in kind: chat"),
        (
            "kind: chat\nname: a: b",
            f"2: this is not YAML: mapping values are not allowed here; {HINT}",
        ),
        (
            "kind: chat\nname: [a",
            f"2: this is not YAML: expected ',' or ']', but got '<stream end>'; {HINT}",
        ),
        (
            "kind: chat\n\tname: x",
            "2: this is not YAML: found character '\\t' that cannot start any token",
        ),
        ("kind: chat\n? [a]\n: b", f"2: a key must be a single text; {HINT}"),
        (
            "agent: critic\n---\nagent: critic",
            "2: a second document begins here; write one agent a file, ",
        ),
        ("agent: critic\nname: \x07", "2: the character '\\x07' is not allowed here; take it out"),
        ('agent: "\\UFFFFFFFF"', "1: this is not YAML: "),
        (
            'agent: "\\ud83d"',
            "1: an escape in the text is half a character; write the character itself",
        ),
        ('"\\ud83d": 1', "1: an escape in the text is half a character; write the character itself"),
        ("agent: " + "9" * 5000, "1: a number is too large; put it in quotes if it is text"),
        ("agent: 1e999", "1: a number is too large; put it in quotes if it is text"),
        (
            "[" * 100_000,
            "1: more than 64 mappings and lists are nested here; build the inner ",
        ),
        (
            "{a: " * 100_000,
            "1: more than 64 mappings and lists are nested here; build the inner ",
        ),
        ("5", "1: the file should be a mapping, and is 5; correct it"),
        ("[agent, critic]", "1: the file should be a mapping, and is a list; correct it"),
    ],
)
def test_a_text_that_is_not_a_skill_is_refused(faults, text, fault):
    (found,) = faults(text)
    assert found.startswith(f"skill.yaml:{fault}")


def test_a_key_that_is_repeated_is_a_fault(faults):
    text = (
        "kind: chat\nname: writer\nmodel: m\nname: reader\nretry:\n  max_attempts: 2\n  max_attempts: 3"
    )
    assert faults(text) == [
        "skill.yaml:4: the key 'name' is already on line 2; leave one of them out",
        "skill.yaml:7: the key 'max_attempts' is already on line 6; leave one of them out",
    ]


def test_unknown_kinds_and_fields_are_reported_with_the_nearest_name(faults):
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
        f"skill.yaml:5: unknown kind 'chatt' (did you mean 'chat'?); known are: {kinds}",
        "skill.yaml:10: a chat has no field 'instrution' (did you mean 'instruction'?); it has: ...",
        "skill.yaml:11: a retry has no field 'attempts' (did you mean 'max_attempts'?); it has: ...",
        "skill.yaml:12: an agent as a tool has no field 'descr' (did you mean 'description'?); it has: "
        "...",
        f"skill.yaml:13: unknown kind 'agent'; known are: {kinds}",
        f"skill.yaml:15: an agent needs a kind: {kinds}; or write agent: NAME for one of yours",
        "skill.yaml:16: a reference to an agent has no field 'name'; it has: ...",
        "skill.yaml:20: a loop has no field 'untill' (did you mean 'until'?); it has: ...",
        "skill.yaml:21: an until needs the field 'is'; add it",
        "skill.yaml:23: a sequential has no field 'steps'; it has: ...",
    ]


def test_missing_fields_are_reported(faults):
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


def test_wrong_types_are_reported(faults):
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


def test_a_wrong_tool_and_a_wrong_until_are_reported(faults):
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


def test_rules_that_are_wrong_are_reported_with_their_lines(faults):
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


def test_a_long_value_is_shortened(faults):
    (fault,) = faults(f"{{kind: {'x' * 200}}}")
    assert fault.startswith(f"skill.yaml:1: unknown kind '{'x' * 55}...'; known are: ")


def test_a_key_that_is_named_like_a_kind_is_just_an_unknown_field(faults):
    text = "kind: loop\nname: 5\nloop: {name: x}\nsub_agents: []\nmax_iterations: 1"
    assert faults(text) == [
        "skill.yaml:2: 'name' should be a text, and is 5; put it in quotes",
        "skill.yaml:3: a loop has no field 'loop'; it has: name, model, description, kind, sub_agents, "
        "max_iterations, until",
    ]


def test_a_template_without_quotes_is_not_a_prompt(faults):
    assert faults("kind: human\nname: boss\nprompt: {topic}") == [
        "skill.yaml:3: 'prompt' is a mapping without values; put a template in quotes"
    ]


def test_unknown_names_are_reported_with_the_known_ones(faults):
    text = """
        kind: chat
        name: writer
        model: main
        tools: [serch, {agent: critik}]
        sub_agents:
          - agent: boss
    """
    assert faults(text) == [
        "skill.yaml:4: unknown model 'main'; known are: m, n",
        "skill.yaml:5: unknown tool 'serch' (did you mean 'search'?); known are: search, fetch",
        "skill.yaml:5: unknown agent 'critik' (did you mean 'critic'?); known are: critic",
        "skill.yaml:7: unknown agent 'boss'; known are: critic",
    ]


def test_names_without_a_registry_say_where_they_are_given(faults):
    assert faults("{kind: chat, name: writer, model: main, tools: [search]}", models={}) == [
        "skill.yaml:1: unknown model 'main', because no models were given; pass models={'main': ...}, "
        "or on the command line --registry with a file that has such a dict 'models'",
        "skill.yaml:1: unknown tool 'search', because no tools were given; pass tools={'search': ...}, "
        "or on the command line --registry with a file that has such a dict 'tools'",
    ]


def test_agents_without_a_model_are_reported(faults):
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


def test_the_parts_of_a_plan_execute_without_a_model_are_reported(faults):
    text = "kind: plan_execute\nname: research\nplanner: m\nexecutor: critic\nparallel: maybe\n"
    assert faults(text) == [
        "skill.yaml:1: its replanner has no model; add model: NAME to it, or to an agent around it",
        "skill.yaml:4: unknown model 'critic'; known are: m, n",
        "skill.yaml:5: 'parallel' should be true or false, and is 'maybe'; correct it",
    ]


def test_the_faults_of_the_tree_are_reported_at_the_lines_of_their_agents(faults):
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
        "plain name such as 'draft'",
        "skill.yaml:24: report/flow: the step 'b' depends on 'c', which is not a step; there are: 'a', "
        "'b'",
        "skill.yaml:24: report/flow: the steps 'a' -> 'b' -> 'a' wait for each other; take one "
        "'depends_on' out",
        "skill.yaml:29: report/none: a parallel needs at least one sub-agent",
    ]


def test_two_agents_of_one_name_are_reported_at_the_second_one(faults):
    text = "kind: parallel\nname: p\nsub_agents:\n"
    first, second = (f"  - {{kind: chat, name: writer, model: {model}}}\n" for model in "mn")
    assert faults(f"{text}{first}  - agent: critic\n{second}") == [
        "skill.yaml:6: p/writer: two agents are named 'writer'; a name means one agent, rename one"
    ]


def test_the_faults_of_the_tree_are_reported_with_unknown_names(faults):
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
        "skill.yaml:7: unknown tool 'find'; known are: search, fetch",
        "skill.yaml:9: report/end: the name 'end' is reserved; choose another",
        "skill.yaml:11: unknown model 'gpt'; known are: m, n",
        "skill.yaml:12: unknown agent 'boss'; known are: critic",
    ]


def test_an_agent_made_in_python_is_reported_at_the_line_that_names_it(faults):
    text = "kind: sequential\nname: report\nsub_agents:\n  - agent: bad\n  - agent: none\n"
    bad = ag.sequential("bad", [ag.loop("inner", [], max_iterations=1)])
    assert faults(text, agents={"bad": bad, "none": 5}) == [
        "skill.yaml:4: report/bad/inner: a loop needs at least one sub-agent",
        "skill.yaml:5: 'none' must be an agent, got a int; build one with chat_agent, human, "
        "sequential, ...",
    ]


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
def test_any_data_is_an_agent_or_has_faults(tmp_path, data):
    file = tmp_path / "skill.yaml"
    file.write_text(json.dumps(data))
    load_anything(file)


@SOME
@given(
    text=st.text(
        st.sampled_from("kindametols: -[]{}\"'\n\t&*!|>%@?,#\\u12~<\0\x85\ud800é"), max_size=60
    )
)
def test_any_text_is_an_agent_or_has_faults(tmp_path, text):
    file = tmp_path / "skill.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    load_anything(file)
