"""Supervisors: their tools, their limit, and the reminder that a worker says the same again and again.

The order of the agents, and their input, are in `tests/transcripts/supervisors.txt`.
"""

from typing import Any

import pytest
from helpers import Drive, echo, failing, says, scripted, texts
from langchain_core.messages import BaseMessage, HumanMessage

import agentgraph as ag
from agentgraph.testing import call, calls

MODES = pytest.mark.parametrize("mode", ["tools", "handoff"])
REMINDER = (
    "human: a was named {} times in a row and said the same each time. Ask for something else, name "
    "another one, or answer yourself."
)


def naming(mode: str, name: str) -> Any:
    """Return a message that calls a worker, or transfers to it."""
    return calls(call(f"transfer_to_{name}") if mode == "handoff" else call(name, request="Go on."))


def reminders(model: Any) -> list[list[str]]:
    """Return the reminders that a model was sent, call by call."""
    return [[line for line in texts(messages) if "in a row" in line] for messages in model.inputs]


class TestTools:
    def test_workers_are_described_and_come_before_its_own_tools(self) -> None:
        model = scripted("Done.")
        worker = ag.chat_agent("a", scripted(), description="Knows bees.")
        tree = ag.supervisor("S", model, [worker], tools=[echo], exit_tool=True)
        list(ag.Runner(tree).run("Go."))
        described = {tool["function"]["name"]: tool["function"]["description"] for tool in model.tools}
        assert [*described] == ["a", "echo", "exit"]
        assert (described["a"], described["echo"]) == ("Knows bees.", "Say it again.")

    def test_a_worker_that_is_handed_over_to_has_no_tool_to_hand_back(self) -> None:
        model, inner, below = scripted(naming("handoff", "W"), "Done."), scripted("W."), scripted("D.")
        inner.responses.insert(0, naming("handoff", "D"))
        worker = ag.chat_agent("W", inner, tools=[echo], sub_agents=[ag.chat_agent("D", below)])
        list(ag.Runner(ag.supervisor("S", model, [worker], mode="handoff")).run("Go."))
        assert [
            [tool["function"]["name"] for tool in each.tools] for each in (model, inner, below)
        ] == [
            ["transfer_to_W"],
            ["echo", "transfer_to_D"],
            ["transfer_to_W"],
        ]


@MODES
@pytest.mark.parametrize("options", [{}, {"max_iterations": None}], ids=["default", "none"])
def test_its_model_is_called_20_times_unless_there_is_no_limit(mode: Any, options: Any) -> None:
    model = scripted(*[naming(mode, "W")] * 21, "Done.")
    runner = ag.Runner(ag.supervisor("S", model, [says("W")], mode=mode, **options))
    if options:
        assert list(runner.run("Go."))[-1].text == "Done."
    else:
        failing(runner.run("Go."), ag.MaxIterationsError)
    assert len(model.inputs) == (22 if options else 20)


class TestTheReminder:
    @MODES
    @pytest.mark.parametrize(
        ("turns", "reminded"),
        [
            ("a:r a:r a:r", {3: 3}),
            ("a:x a:r a:r a:r a:r", {4: 3, 5: 4}),
            ("a:r a:r a:s a:r a:r a:t", {}),
            ("a:r a:r b:r a:r a:r b:r", {}),
        ],
    )
    def test_comes_at_three_equal_results_of_a_worker_in_a_row(
        self, mode: Any, turns: str, reminded: dict[int, int]
    ) -> None:
        """The rows: `worker:result` for each turn, and the times that each call's reminder names."""
        named = [turn.split(":") for turn in turns.split()]
        model, after = scripted(*[naming(mode, name) for name, _ in named], "Done."), scripted("Z.")
        workers = [says(each, *(result for name, result in named if name == each)) for each in "ab"]
        boss = ag.supervisor("S", model, workers, mode=mode)
        events = list(ag.Runner(ag.sequential("s", [boss, ag.chat_agent("z", after)])).run("Go."))
        expected = {at: [REMINDER.format(times)] for at, times in reminded.items()}
        assert reminders(model) == [expected.get(at, []) for at in range(len(model.inputs))]
        assert [texts(model.inputs[at])[-1:] for at in expected] == [*expected.values()]
        assert reminders(after) == [[]]
        assert not [event for event in events if "in a row" in event.text]

    @MODES
    def test_does_not_count_the_turns_before_the_last_input(self, mode: Any) -> None:
        model = scripted(*[*[naming(mode, "a")] * 2, "One."] * 2)
        runner = ag.Runner(ag.supervisor("S", model, [says("a")], mode=mode))
        for text in ("Go.", "Again."):
            list(runner.run(text, thread_id="t"))
        assert reminders(model) == [[]] * 6

    @MODES
    @pytest.mark.parametrize(
        ("results", "critic", "reminded"),
        [(["1", "2", "3", "4"], ["Not yet."], False), (["r"], ["1", "2", "3", "4"], True)],
        ids=["the same of a critic", "the same of the worker"],
    )
    def test_counts_the_workers_only(
        self, mode: Any, results: list[str], critic: list[str], reminded: bool
    ) -> None:
        model = scripted(*[reply for i in range(4) for reply in (naming(mode, "a"), f"D{i}")])
        boss = ag.supervisor("S", model, [says("a", *results)], mode=mode)
        list(ag.Runner(ag.loop("l", [boss, says("critic", *critic)], max_iterations=4)).run("Go."))
        late = [REMINDER.format(3)], [REMINDER.format(3)], [REMINDER.format(4)]
        assert reminders(model) == [[]] * 5 + (list(late) if reminded else [[]] * 3)

    def test_does_not_count_the_supervisor_above(self) -> None:
        model = scripted(*[reply for i in range(4) for reply in (naming("handoff", "a"), f"D{i}")])
        inner = ag.supervisor("in", model, [says("a", "1", "2", "3", "4")], mode="handoff")
        above = scripted(*[naming("handoff", "in")] * 4, "Done.")
        list(ag.Runner(ag.supervisor("out", above, [inner], mode="handoff")).run("Go."))
        assert reminders(model) == [[]] * 8

    @MODES
    def test_leaves_the_last_word_to_model_input(self, mode: Any) -> None:
        def without(messages: list[BaseMessage]) -> list[BaseMessage]:
            seen.append(texts(messages)[-1])
            return [message for message in messages if "in a row" not in message.text]

        def named(ctx: ag.Context, messages: list[BaseMessage]) -> list[BaseMessage]:
            return [*messages, HumanMessage(f"You are {ctx.name}.")]

        seen: list[str] = []
        model = scripted(*[naming(mode, "a")] * 3, "Done.")
        tree = ag.supervisor("S", model, [says("a")], mode=mode, model_input=without)
        list(ag.Runner(tree).run("Go."))
        assert (seen[3], reminders(model)) == (REMINDER.format(3), [[]] * 4)
        model = scripted(*[naming(mode, "a")] * 3, "Done.")
        tree = ag.supervisor("S", model, [says("a")], mode=mode, model_input=named)
        list(ag.Runner(tree).run("Go."))
        assert texts(model.inputs[3])[-2:] == [REMINDER.format(3), "human: You are S."]


def test_its_tokens_are_streamed_under_its_name(drive: Drive) -> None:
    tree = ag.supervisor(
        "S", scripted(naming("handoff", "W"), "All done."), [says("W")], mode="handoff"
    )
    events = drive.run(ag.Runner(tree), "Go.", stream=True)
    partial = [(event.address, event.text) for event in events if event.partial and event.text]
    assert {address for address, _ in partial} == {"S[2]"}
    assert "".join(text for _, text in partial) == "All done."


def test_the_last_message_of_a_supervisor_is_all_that_is_seen_of_its_own_workers(drive: Drive) -> None:
    def boss(name: str, workers: list[Any], *says: Any) -> Any:
        modes: dict[str, Any] = {"mode": "handoff", "output_mode": "last"}
        model = scripted(*says)
        models[name] = model
        return ag.supervisor(name, model, workers, description=name, **modes)

    models: dict[str, Any] = {}
    worker = ag.function_agent("w", lambda ctx: ["DRAFT", "FINAL"], description="w")
    low = boss("low", [worker], naming("handoff", "w"), "low 1", naming("handoff", "w"), "low 2")
    mid = boss("mid", [low], naming("handoff", "low"), "mid 1", naming("handoff", "low"), "mid 2")
    top = boss("top", [mid], naming("handoff", "mid"), naming("handoff", "mid"), "Done.")
    list(drive.run(ag.Runner(top), "Go.", thread_id="t"))
    assert texts(models["top"].inputs[-1], system=False) == [
        "human: Go.",
        "human: [mid] said: mid 1",
        "human: [mid] said: mid 2",
    ]
    assert texts(models["mid"].inputs[1], system=False) == ["human: Go.", "human: [low] said: low 1"]
    assert "human: [w] said: FINAL" in texts(models["low"].inputs[1])
    assert "human: [w] said: DRAFT" not in texts(models["low"].inputs[1])
