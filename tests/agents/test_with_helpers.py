"""An agent with helpers: what it is made of, what it sees of them, and how it fails."""

from typing import Any

import pytest
from helpers import Disk, Drive, failing, scripted
from langchain_core.messages import BaseMessage

import agentgraph as ag
from agentgraph.show.lines import tree_lines
from agentgraph.testing import call, calls, transcript


def says(name: str, text: str | None = None) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return text or name

    return ag.function_agent(name, fn)


def gives(name: str, item: Any) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: item)


def sent(messages: list[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


def test_it_is_a_sequence_of_a_parallel_and_the_agent() -> None:
    assert tree_lines(ag.with_helpers(says("w"), [says("a")])) == [
        "w_with_helpers (sequential)",
        "├─ w_helpers (parallel)",
        "│  └─ a (function)",
        "└─ w (function)",
    ]


def test_helpers_run_before_the_agent(drive: Drive) -> None:
    tree = ag.with_helpers(says("writer"), [says("facts"), says("tone")])
    told = transcript(drive.run(ag.Runner(tree), "Go."))
    assert sorted(told[:2]) == [
        "writer_with_helpers/writer_helpers/facts: facts",
        "writer_with_helpers/writer_helpers/tone: tone",
    ]
    assert told[2:] == ["writer_with_helpers/writer_helpers/writer: writer"]


def test_the_agent_sees_what_they_said_in_declared_order(drive: Drive) -> None:
    model = scripted("Done.")
    helpers = [ag.sequential("q", [says("a"), says("b")]), says("c"), gives("d", None)]
    tree = ag.with_helpers(ag.chat_agent("writer", model), helpers)
    list(drive.run(ag.Runner(tree), "Go."))
    assert sent(model.inputs[0]) == [
        "human: Go.",
        "human: [a] said: a",
        "human: [b] said: b",
        "human: [c] said: c",
    ]


def test_helpers_do_not_see_each_other(drive: Drive) -> None:
    models = [scripted("One."), scripted("Two.")]
    helpers = [ag.chat_agent(f"h{i}", model) for i, model in enumerate(models)]
    list(drive.run(ag.Runner(ag.with_helpers(says("w"), helpers)), "Go."))
    assert [sent(model.inputs[0]) for model in models] == [["human: Go."]] * 2


def test_the_agent_has_the_values_that_they_wrote(drive: Drive) -> None:
    model = scripted("Done.")
    helpers = [
        gives("a", ag.SetValues(topic="bees")),
        ag.chat_agent("b", scripted("Three."), output_key="number"),
    ]
    writer = ag.chat_agent("writer", model, instruction="{topic}: {number}")
    list(drive.run(ag.Runner(ag.with_helpers(writer, helpers)), "Go."))
    assert model.inputs[0][0].text == "bees: Three."


def test_one_helper_alone_will_do(drive: Drive) -> None:
    tree = ag.with_helpers(says("w"), says("h"))  # type: ignore[arg-type]
    assert [e.text for e in drive.run(ag.Runner(tree), "Go.")] == ["h", "w"]


def test_no_helpers_at_all_are_refused() -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(ag.with_helpers(says("w"), []))
    assert caught.value.faults == ("w_with_helpers/w_helpers: a parallel needs at least one sub-agent",)


def test_what_is_no_agent_is_refused() -> None:
    given: Any = "writer"
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(ag.with_helpers(given, [says("h"), given]))
    fault = "'writer' is not an agent; build one with chat_agent, human, sequential, ..."
    assert caught.value.faults == (
        f"writer_with_helpers/writer_helpers: {fault}",
        f"writer_with_helpers: {fault}",
    )


def test_helpers_that_write_one_value_are_refused() -> None:
    helpers = [ag.chat_agent(n, scripted(), output_key="found") for n in "ab"]
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(ag.with_helpers(says("w"), helpers))
    assert caught.value.faults == (
        "w_with_helpers/w_helpers: the branches 'a' and 'b' write the same output_key 'found'; give "
        "each its "
        "own key, or declare a reducer for 'found' in values=",
    )


def test_a_helper_that_fails_fails_it_before_the_agent_and_runs_again(disk: Disk) -> None:
    faults = [ValueError("no bees")]
    model = scripted("Done.")

    def broken(ctx: ag.Context) -> str:
        if faults:
            raise faults.pop()
        return "three"

    tree = ag.with_helpers(ag.chat_agent("w", model), [ag.function_agent("h", broken)])
    told = disk.fail(tree, "run", ValueError)
    assert transcript(told) == ["w_with_helpers/w_helpers/h: [error] ValueError('no bees')"]
    assert model.inputs == []
    assert [event.text for event in disk.resume(tree)] == ["three", "Done."]


def test_helpers_may_ask(disk: Disk) -> None:
    tree = ag.with_helpers(says("w"), [ag.human("h1", "One?"), ag.human("h2", "Two?")])
    asked = {event.action.interrupted.value: event.id for event in disk.run(tree)}
    assert sorted(asked) == ["One?", "Two?"]
    told = disk.resume(tree, {asked["Two?"]: "2", asked["One?"]: "1"})
    assert sorted(event.text for event in told[:2]) == ["1", "2"]
    assert told[2].text == "w"


@pytest.mark.parametrize(("signal", "rest"), [(ag.Exit(), []), (ag.BreakLoop(), ["z"])])
def test_a_helper_may_end_it(drive: Drive, signal: Any, rest: list[str]) -> None:
    helped = ag.with_helpers(says("w"), [gives("h", signal)])
    rounds = ag.loop("l", [helped], max_iterations=3)
    events = list(drive.run(ag.Runner(ag.sequential("s", [rounds, says("z")])), "Go."))
    assert [event.text for event in events if event.kind == "message"] == rest


def test_helped_agents_may_be_helpers_and_be_helped_again(drive: Drive) -> None:
    inner = ag.with_helpers(says("a"), [says("b")])
    tree = ag.with_helpers(ag.with_helpers(says("w"), [inner]), [says("c")])
    assert transcript(drive.run(ag.Runner(tree), "Go.")) == [
        "w_with_helpers_with_helpers/w_with_helpers_helpers/c: c",
        "w_with_helpers_with_helpers/w_with_helpers_helpers/w_with_helpers/w_helpers/a_with_helpers/"
        "a_helpers/b: b",
        "w_with_helpers_with_helpers/w_with_helpers_helpers/w_with_helpers/w_helpers/a_with_helpers/"
        "a_helpers/a: a",
        "w_with_helpers_with_helpers/w_with_helpers_helpers/w_with_helpers/w_helpers/w: w",
    ]


def test_it_may_be_a_tool_and_a_worker(drive: Drive) -> None:
    helped = ag.with_helpers(says("w"), [says("h")])
    use = calls(call("w_with_helpers", request="bees"))
    tree = ag.supervisor("S", scripted(use, "Done."), [helped])
    assert transcript(drive.run(ag.Runner(tree), "Go."))[1:] == [
        "S/w_with_helpers/w_helpers/h: h",
        "S/w_with_helpers/w_helpers/w: w",
        "S: w",
        "S: Done.",
    ]


def test_it_is_the_same_from_the_thread(drive: Drive) -> None:
    runner = ag.Runner(ag.with_helpers(says("w"), [says("h")]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert list(runner.events("t")) == events


def test_it_fails_where_the_agent_fails(drive: Drive) -> None:
    def broken(ctx: ag.Context) -> str:
        raise ValueError("no words")

    tree = ag.with_helpers(ag.function_agent("w", broken), [says("h")])
    told, raised = failing(drive.run(ag.Runner(tree), "Go."), ValueError)
    assert (told[-1].address, str(raised)) == ("w_with_helpers/w", "no words")
