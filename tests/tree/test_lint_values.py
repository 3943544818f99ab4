"""`lint` finds values that nothing has written, values that nothing reads, and conflicting writes."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from helpers.linted import MODEL, chat, function, seq
from pydantic import BaseModel

import agentgraph as ag

UNREAD = "read it, leave it out, or name it in inputs= if the caller reads it"


def found(tree: ag.Agent, inputs: Any = ()) -> list[str]:
    """Return the kind, address, name and way of each finding, as a line."""
    findings = ag.lint(tree, inputs=inputs)
    return [f"{each.kind} {each.address} {each.name}: {' '.join(each.way)}" for each in findings]


def says_yes(ctx: Any) -> bool:
    return "yes" in ctx.messages[-1].text


WRITER = chat("w", output_key="draft")
READER = chat("r", "Read {draft}.")
MAYBE = ag.switch("m", says_yes, {True: WRITER, False: ag.SKIP})


def test_a_finding_has_a_text_with_the_remedy_and_the_way() -> None:
    [finding] = ag.lint(seq(WRITER, chat("c", "Check {draft}."), chat("r", "Read {drfat}.")))
    assert finding == ag.Finding(
        kind="unwritten_value",
        address="s/r",
        name="drfat",
        way=("s/w", "s/c", "s/r"),
        advice="did you mean 'draft'? Else name it in inputs=",
    )
    assert str(finding) == (
        "s/r: nothing has written the value 'drfat', which it reads; did you mean 'draft'? Else name "
        "it in inputs= (way: s/w -> s/c -> s/r)"
    )


@pytest.mark.parametrize(
    "agent",
    [
        chat("x", "Read {drfat}."),
        function("x", lambda ctx: ctx.values["drfat"]),
        ag.human("x", "Print {drfat}?"),
        ag.switch("x", "drfat", {"a": ag.SKIP}),
        ag.each("x", chat("y"), "drfat"),
        ag.each("x", chat("y"), lambda ctx: ["a"], input="{item} of {drfat}"),
        ag.workflow("x", [ag.step(chat("y"), when="drfat")]),
        ag.workflow("x", [ag.step(chat("y"), input="${drfat}")]),
        ag.loop("x", [chat("y")], until=lambda ctx: ctx.values["drfat"] == "ok", max_iterations=9),
        chat("x", lambda ctx: f"Read {ctx.values['drfat']}."),
        ag.validated(chat("x"), lambda ctx, text: text in ctx.values["drfat"]),
    ],
    ids=str,
)
def test_each_option_that_reads_a_value_is_read(agent: ag.Agent) -> None:
    names = [each.name for each in ag.lint(seq(WRITER, READER, agent)) if "draft" in each.advice]
    assert names == ["drfat"]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("topic", []),
        ("drafts", ["draft"]),
        ("min_price", ["max_price"]),
        ("page2", ["page1"]),
        ("date", ["data"]),
        ("input_text", ["output_text"]),
        ("scores", ["scored"]),
    ],
)
def test_a_value_that_nothing_writes_is_an_input_unless_it_is_a_typo(
    name: str, others: list[str]
) -> None:
    writers = [chat(f"w{i}", output_key=each) for i, each in enumerate(others)]
    readers = [chat(f"r{i}", f"{{{each}}}") for i, each in enumerate(others)]
    assert found(seq(*writers, *readers, chat("x", f"{{{name}}}"))) == []


def test_a_typo_may_be_one_of_the_writer_or_of_a_value_that_runs_pass() -> None:
    assert found(
        seq(chat("w", output_key="topics"), chat("r", "{topic}"), chat("e", output_key="end"))
    ) == ["unwritten_value s/r topic: s/w s/r"]
    several = [chat("a", "{topic}"), chat("b", "{topic}"), chat("c", "{tpoic}")]
    assert found(seq(*several)) == ["unwritten_value s/c tpoic: s/a s/b s/c"]
    assert found(seq(chat("c", "{tpoic}")), ["topic"]) == ["unwritten_value s/c tpoic: s/c"]


@pytest.mark.parametrize(
    ("tree", "way"),
    [
        (seq(MAYBE, READER), "s/m s/r"),
        (seq(MAYBE, chat("c"), READER), "s/m s/c s/r"),
        (ag.parallel("s", [WRITER, READER]), "s s/r"),
        (ag.workflow("s", [WRITER, READER]), "s s/r"),
        (ag.loop("s", [READER, WRITER], max_iterations=2), "s/r"),
        (ag.switch("s", says_yes, {True: WRITER, False: READER}), "s s/r"),
        (seq(ag.parallel("p", [WRITER, chat("c")], on_error="first"), READER), "s/p s/r"),
        (seq(ag.workflow("f", [ag.step(WRITER, when=says_yes)]), READER), "s/f s/r"),
        (
            seq(ag.parallel("p", [ag.sequential("q", [chat("a"), READER])]), WRITER),
            "s/p s/p/q/a s/p/q/r",
        ),
        (
            seq(ag.loop("l", [chat("c", break_tool=True), WRITER], max_iterations=3), READER),
            "s/l/c s/r",
        ),
        (
            ag.loop(
                "s",
                [ag.switch("b", says_yes, {True: ag.BreakLoop(), False: READER}), WRITER],
                max_iterations=3,
            ),
            "s/b s/b/r",
        ),
    ],
    ids=lambda each: str(each).partition("\n")[0],
)
def test_a_value_that_is_written_on_another_way_is_found_with_the_way(tree: ag.Agent, way: str) -> None:
    [finding] = [each for each in ag.lint(tree) if each.kind == "unwritten_value"]
    assert (finding.name, " ".join(finding.way)) == ("draft", way)
    assert "{draft?} copes without it" in finding.advice
    assert [each for each in ag.lint(tree, inputs=["draft"]) if each.name == "draft"] == []


def knows(ctx: Any) -> str:
    return "old" if "stage" in ctx.values else "new"


def by_iteration(ctx: Any) -> bool:
    return ctx.iteration > 0


INTAKE = function("i", lambda ctx: ag.SetValues(stage="old", draft="A draft."))


@pytest.mark.parametrize(
    "tree",
    [
        seq(WRITER, READER),
        seq(MAYBE, chat("r", "Read {draft?}.")),
        seq(MAYBE, function("r", lambda ctx: ctx.values.get("draft"))),
        seq(MAYBE, function("r", lambda ctx: "draft" in ctx.values and ctx.values["draft"])),
        seq(ag.switch("m", lambda ctx: "draft" in ctx.values, {False: WRITER, True: ag.SKIP}), READER),
        seq(MAYBE, ag.switch("m2", says_yes, {True: READER, False: ag.SKIP})),
        ag.switch("s", knows, {"new": INTAKE, "old": READER}),  # a later turn knows the value
        ag.loop(
            "s",
            [ag.switch("b", by_iteration, {True: READER, False: ag.SKIP}), WRITER],
            max_iterations=3,
        ),
        ag.loop(
            "s",
            [function("f", lambda ctx: ctx.values["draft"] if ctx.iteration else "None."), WRITER],
            max_iterations=3,
        ),
        seq(ag.loop("l", [function("f", lambda ctx: "Hi."), WRITER], max_iterations=3), READER),
        ag.workflow("s", [WRITER, ag.step(READER, depends_on=["w"])]),
        seq(function("w", lambda ctx: ag.SetValues(**dict(ctx.values))), READER),
        seq(function("w", print), READER),
        ag.supervisor("s", MODEL, [WRITER, READER], mode="handoff"),
        ag.swarm("s", [WRITER, READER]),
        chat("s", tools=[ag.agent_tool(WRITER), ag.agent_tool(READER)]),
        ag.plan_execute(
            "s", planner=MODEL, executor=chat("e", "Do {step} of {plan}."), replanner=MODEL
        ),
        ag.each("s", chat("w", "About {topic}."), "topics", as_="topic"),
        ag.each("s", chat("w"), "items"),
        seq(ag.each("e", chat("w"), "lines"), chat("r", output_key="line")),
        ag.validated(chat("w"), dict[str, int]),
        function("s", lambda ctx: ag.TransferTo(["a"])),  # type: ignore[arg-type]
    ],
    ids=lambda each: str(each).partition("\n")[0],
)
def test_a_value_that_may_be_there_is_none(tree: ag.Agent) -> None:
    assert found(tree) == []


def test_a_value_that_nothing_reads_is_found() -> None:
    notes = function("n", lambda ctx: [ag.SetValues(note=1), "Noted."])
    [finding] = ag.lint(seq(WRITER, notes, READER))
    assert (finding.kind, finding.address, finding.name) == ("unread_value", "s/n", "note")
    assert (finding.way, finding.advice) == (("s/w", "s/n"), UNREAD)
    assert found(seq(WRITER, notes, READER), ["note"]) == []
    steps = [notes, ag.step(WRITER, depends_on=["n"]), ag.step(READER, depends_on=["w"])]
    [finding] = ag.lint(ag.workflow("s", steps))
    assert (finding.kind, finding.address, finding.name) == ("unread_value", "s/n", "note")


@pytest.mark.parametrize(
    "tree",
    [
        seq(WRITER, READER, chat("e", output_key="final")),  # the result
        seq(WRITER, READER, chat("e", output_key="final"), ag.human("h", "Well?")),
        seq(
            chat("a", output_key="one"), chat("b", output_key="two"), chat("c")
        ),  # nothing reads values
        seq(WRITER, READER, function("f", lambda ctx: ag.SetValues(note=1))),
        seq(WRITER, READER, ag.human("h", "Well?", output_key="note"), chat("e")),
        seq(WRITER, READER, function("n", lambda ctx: ag.SetValues(_note=1)), chat("e")),
        seq(
            WRITER,
            READER,
            function("n", lambda ctx: ag.SetValues(note=1)),
            function("a", lambda ctx: str(dict(ctx.values))),
        ),
        seq(ag.each("e", chat("i", output_key="part"), "xs", output_key="parts"), chat("r", "{parts}")),
    ],
    ids=lambda each: str(each).partition("\n")[0],
)
def test_results_and_values_that_may_be_read_are_none(tree: ag.Agent) -> None:
    assert found(tree) == []


def test_a_result_that_is_a_typo_of_a_value_that_is_read_is_found() -> None:
    tree = seq(WRITER, ag.loop("l", [READER, chat("e", output_key="darft")], max_iterations=2))
    [finding] = ag.lint(tree)
    assert finding.advice == f"did you mean 'draft'? Else {UNREAD}"


class Model(BaseModel):
    notes: Annotated[list[str], operator.add] = []


class Typed(TypedDict, total=False):
    notes: Annotated[list[str], ag.LOCAL]


@dataclass
class Data:
    notes: Annotated[list[str], operator.add]


ADDS = [function(name, lambda ctx: ag.SetValues(notes=["A."])) for name in "ab"]


@pytest.mark.parametrize(
    ("tree", "way"),
    [
        (ag.parallel("s", ADDS), "s s/a s/b"),
        (ag.workflow("s", [ADDS[0], ag.step(ADDS[1], depends_on=["a"])]), "s s/a s/b"),
        (ag.parallel("s", [ADDS[0], ag.loop("l", [ADDS[1]], max_iterations=2)]), "s s/a s/l/b"),
        (ag.parallel("s", [chat("a", output_key="notes"), chat("b", output_key="notes")]), "s s/a s/b"),
        (ag.each("s", ADDS[0], "xs"), "s s/a"),
        (chat("s", tools=[ag.agent_tool(each) for each in ADDS]), "s"),
    ],
    ids=["parallel", "workflow", "nested", "output keys", "each", "tools"],
)
def test_writes_in_parallel_without_a_reducer_are_found(tree: ag.Agent, way: str) -> None:
    assert found(tree) == [f"conflicting_writes s notes: {way}"]
    for declared in (Model, Typed, Data):
        assert found(tree, declared) == []


def test_values_of_plans_are_kept_apart() -> None:
    def plans(name: str) -> ag.Agent:
        parts = {"planner": f"{name}p", "executor": f"{name}e", "replanner": f"{name}r"}
        options: Any = {part: chat(inner) for part, inner in parts.items()}
        return ag.plan_execute(name, **options)

    assert found(ag.parallel("s", [plans("a"), plans("b")])) == []


def test_writes_of_one_tool_or_of_calls_in_their_order_or_of_a_race_are_none() -> None:
    tools = [ag.agent_tool(each) for each in ADDS]
    assert found(chat("s", tools=tools[:1])) == []
    assert found(chat("s", tools=tools, parallel_tools=False)) == []
    assert found(ag.parallel("s", ADDS, on_error="first")) == []


def test_a_notebook_shows_findings_as_a_table() -> None:
    findings: Any = ag.lint(seq(chat("w", output_key="draft"), chat("r", "Read {drfat}.")))
    assert findings._repr_html_() == (
        "<table><thead><tr><th>agent</th><th>mistake</th><th>way</th></tr></thead><tbody><tr><td>s/r</td>"
        "<td>nothing has written the value &#x27;drfat&#x27;, which it reads; did you mean "
        "&#x27;draft&#x27;? Else name it in inputs=</td><td>s/w → s/r</td></tr></tbody></table>"
    )
    none: Any = ag.lint(WRITER)
    assert (none, none._repr_html_()) == ([], "<p>No findings.</p>")


@pytest.mark.parametrize("inputs", ["topic", 3, [3], None])
def test_other_inputs_are_rejected(inputs: Any) -> None:
    with pytest.raises(ag.AgentGraphError, match="cannot be used; pass names of values"):
        ag.lint(WRITER, inputs=inputs)


def test_a_tree_with_faults_is_rejected_and_one_mistake_is_found_once() -> None:
    with pytest.raises(ag.InvalidAgentError, match="at least one sub-agent"):
        ag.lint(ag.sequential("s", []))
    twice = seq(READER, chat("x", "{draft} and {draft}"), WRITER)
    assert [each.address for each in ag.lint(twice)] == ["s/r", "s/x"]
