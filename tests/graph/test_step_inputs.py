"""What the input of a step names is checked before the run, and other braces stay as they are."""

import pytest
from helpers import says

import agentgraph as ag
from agentgraph.agents.templates import bare_in
from agentgraph.testing import transcript


def faults(input, depends_on=("find",)):
    """Return what is wrong with a workflow of `find`, `write`, which has an input, and `post`."""
    steps = [
        says("find"),
        ag.step(says("write"), depends_on=depends_on, input=input),
        ag.step(says("post"), depends_on=["write"]),
    ]
    try:
        ag.compile_agent(ag.workflow("wf", steps))
    except ag.InvalidAgentError as error:
        return [fault.removeprefix("wf: the input of the step 'write' ") for fault in error.faults]
    return []


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("{results.find}", "results.find"),
        ("{ results.find }", "results.find"),
        ("{results.zz}", "results.zz"),
        ("{values.topic}", "values.topic"),
    ],
)
def test_a_reference_without_a_dollar_sign_is_a_fault(text, inside):
    assert faults(f"Use {text}, and again {text}.") == [
        f"has {text}, which is sent unchanged; write ${{{inside}}} for the value, or {{{{{inside}}}}} "
        "for the braces"
    ]


ALLOWED = [
    "${results.find} ${values.topic} ${topic} {topic} {topic?}",
    "{{results.find}}",
    '{"results": {"find": 1}, "values.topic": []}',
    r"\ref{results.find} \input[draft]{results.tex} \frac{a}{results.b} $x_{i.j}$",
    "{results} {values} {other.find} {results.find.more} {results.}",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_other_braces_are_allowed(text):
    assert faults(text) == []
    assert bare_in(text) == []


def test_braces_that_are_allowed_reach_the_agent_as_they_are():
    echo = ag.function_agent("write", lambda ctx: ctx.messages[-1].text)
    text = r'{"results": {"find": 1}} \ref{results.find} {{results.find}}: ${results.find}'
    steps = [says("find"), ag.step(echo, depends_on=["find"], input=text)]
    (_, told) = transcript(ag.Runner(ag.workflow("wf", steps)).run("Go."))
    assert told == r'wf/write: {"results": {"find": 1}} \ref{results.find} {results.find}: find'


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("zz", "is not a step; there are: 'find', 'post'"),
        ("write", "runs after it; take it out"),
        ("post", "runs after it; take it out"),
        ("find", "does not come before it; add 'find' to its depends_on, or take it out"),
    ],
)
def test_what_to_do_about_a_result_that_is_not_there_can_be_done(name, why):
    assert faults(f"${{results.{name}}}", depends_on=()) == [f"names ${{results.{name}}}, which {why}"]


def test_a_step_alone_has_no_result_to_name():
    steps = [ag.step(says("write"), input="${results.zz}")]
    with pytest.raises(ag.InvalidAgentError, match="is not a step; there are: none but itself"):
        ag.compile_agent(ag.workflow("wf", steps))
