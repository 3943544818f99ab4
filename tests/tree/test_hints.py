"""Possible mistakes in a tree that can run are not faults: `agentgraph check` warns of them."""

from typing import Any

import pytest
from helpers import chat, lines, says

import agentgraph as ag
from agentgraph.tree.hints import hints


def hints_of(*agents: ag.Agent) -> list[str]:
    graph: Any = ag.compile_agent(ag.sequential("s", [says("z"), *agents]))
    return hints(graph.tree)


def writer(instruction: Any, **options: Any) -> ag.Agent:
    return chat("writer", "So.", instruction=instruction, **options)


WRITTEN = ag.function_agent("t", lambda ctx: ag.SetValues(topic={"name": "bees"}), output_key="topic")


@pytest.mark.parametrize(
    ("option", "agent"),
    [
        ("its instruction", writer("About {topic.name}.")),
        ("its prompt", ag.human("boss", "Print {topic.name}?")),
        ("its input", ag.each("e", says("w"), "xs", input="About {topic.name}.")),
        ("the input of the step 'w'", ag.workflow("f", [ag.step(says("w"), input="{topic.name}")])),
    ],
)
def test_a_part_of_a_known_value_in_a_template_is_a_hint(option: str, agent: ag.Agent) -> None:
    assert hints_of(agent) == []
    assert hints_of(WRITTEN, agent) == [
        f"{agent.name}: {option} has {{topic.name}}, which is sent unchanged; write {{topic}}, or "
        "write the part to its own value; write {{topic.name}} to keep the braces"
    ]


@pytest.mark.parametrize("text", ["{topic[0]}", "{topic.name.first}", "{topic['a'].b}"])
def test_a_part_may_be_an_index_or_deeper(text: str) -> None:
    [hint] = hints_of(WRITTEN, writer(f"{{topic}}: {text}"))
    assert f"has {text}, which" in hint


@pytest.mark.parametrize(
    "text",
    [
        "{topic}",
        "{{topic.name}}",
        "{other.name}",
        '{"topic": {"name": 1}}',
        "{topic.name",
        "{ topic.name }",
        "{topic.}",
        "{1.5}",
    ],
)
def test_any_other_text_in_braces_is_none(text: str) -> None:
    assert hints_of(WRITTEN, writer(f"{{topic}} {text}")) == []


def test_functions_and_messages_give_none() -> None:
    assert hints_of(WRITTEN, writer(lambda ctx: "{topic.name}")) == []


def test_the_tree_runs_and_the_text_is_sent_unchanged() -> None:
    agent = chat("w", lambda messages: str(messages[0].text), instruction="{topic}: {topic.name}")
    runner = ag.Runner(ag.sequential("s", [WRITTEN, agent]))
    assert lines(runner.run("Go.", thread_id="t", values={"topic": "bees"}))[-1].endswith(
        ": {topic.name}"
    )


def test_a_scope_of_google_adk_in_a_template_is_a_hint() -> None:
    assert hints_of(writer("For {user:name}, {app:name?}, not {{temp:name}} or {other:name}.")) == [
        f"writer: its instruction has {{{text}}}, which is sent unchanged; write {{name}}: values have "
        f"no scopes as in google-adk; write {{{{{text}}}}} to keep the braces"
        for text in ("user:name", "app:name?")
    ]
