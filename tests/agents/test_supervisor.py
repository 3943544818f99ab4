"""Supervisors: workers as tools and by handing over, whose turn it is, what is asked and counted."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import pytest
from helpers import Disk, Drive, failing, says, scripted, visits
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

import agentgraph as ag
from agentgraph.show.lines import tree_lines
from agentgraph.testing import transcript

IDS = count()
MODES = pytest.mark.parametrize("mode", ["tools", "handoff"])
REMINDER = (
    "a was named 3 times in a row and said the same each time. Ask for something else, name another "
    "one, or answer yourself."
)


def calling(*calls: str) -> AIMessage:
    """Return a message that calls tools: `a/bees` asks the worker `a` for bees."""
    made = []
    for call in calls:
        name, _, request = call.partition("/")
        args = {"request": request} if request else {}
        made.append({"name": name, "args": args, "id": f"call{next(IDS)}", "type": "tool_call"})
    return AIMessage("", tool_calls=made)


def to(name: str) -> AIMessage:
    return calling(f"transfer_to_{name}")


def naming(mode: str, name: str) -> AIMessage:
    """Return a message that names a worker, in the way of a mode."""
    return to(name) if mode == "handoff" else calling(f"{name}/Go on.")


def gives(name: str, item: Any) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: item)


def counted(counts: Counter[str], name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        counts[name] += 1
        return f"{name}{counts[name]}"

    return ag.function_agent(name, fn)


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages if message.type != "system"]


def lines(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return a transcript without the messages that name workers."""
    return [
        line for line in transcript(events) if "[calls]" not in line and ": Transferred to" not in line
    ]


class TestWorkersAsTools:
    def test_give_their_last_messages_to_the_supervisor(self, drive: Drive) -> None:
        model = scripted(calling("a/bees", "b/wasps"), "Done.")
        worker = ag.sequential("b", [says("x", "Looking."), says("y", "Two wasps.")])
        tree = ag.supervisor("S", model, [says("a", "Three bees."), worker])
        events = list(drive.run(ag.Runner(tree), "Go."))
        told = transcript(events)
        assert told[0] == 'S: [calls] a({"request": "bees"}), b({"request": "wasps"})'
        assert [line for line in told if line.startswith("S/b")] == [
            "S/b/x: Looking.",
            "S/b/x/y: Two wasps.",
        ]
        assert told[-1] == "S: Done."
        assert {event.address for event in events} == {"S", "S/a(0)", "S/b(1)/x", "S/b(1)/y"}
        assert sent(model.inputs[1]) == ["human: Go.", "ai: ", "tool: Three bees.", "tool: Two wasps."]
        assert [m.name for m in model.inputs[1] if isinstance(m, ToolMessage)] == ["a", "b"]

    def test_see_their_request_only(self, drive: Drive) -> None:
        inner = scripted("One.", "Two.")
        model = scripted(calling("a/first"), calling("a/second"), "Done.")
        tree = ag.supervisor("S", model, [ag.chat_agent("a", inner)])
        list(drive.run(ag.Runner(ag.sequential("s", [says("x"), tree])), "Go."))
        assert [sent(messages) for messages in inner.inputs] == [["human: first"], ["human: second"]]

    def test_see_with_a_shared_history_what_the_supervisor_sees(self, drive: Drive) -> None:
        inner = scripted("One.")
        model = scripted(calling("a/first"), "Done.")
        tree = ag.supervisor("S", model, [ag.chat_agent("a", inner)], worker_history="shared")
        list(drive.run(ag.Runner(ag.sequential("s", [says("x"), tree])), "Go."))
        assert sent(inner.inputs[0])[:2] == ["human: Go.", "human: [x] said: x"]
        assert sent(inner.inputs[0])[-1] == "human: first"

    def test_add_nothing_to_the_history_but_their_results(self, drive: Drive) -> None:
        after = scripted("Z.")
        worker = ag.sequential("a", [says("x", "hidden"), says("y", "shown")])
        tree = ag.supervisor("S", scripted(calling("a/bees"), "Done."), [worker])
        list(drive.run(ag.Runner(ag.sequential("s", [tree, ag.chat_agent("z", after)])), "Go."))
        assert sent(after.inputs[0]) == [
            "human: Go.",
            'human: [S] called a({"request": "bees"})',
            "human: [S] a returned: shown",
            "human: [S] said: Done.",
        ]

    def test_run_at_the_same_time(self) -> None:
        together = threading.Barrier(3)

        def fn(ctx: ag.Context) -> str:
            together.wait(timeout=60)
            return "met"

        workers = [ag.function_agent(name, fn) for name in "abc"]
        model = scripted(calling("a/x", "b/x", "c/x"), "Done.")
        list(ag.Runner(ag.supervisor("S", model, workers)).run("Go."))
        assert sent(model.inputs[1])[-3:] == ["tool: met"] * 3

    def test_run_at_the_same_time_on_the_event_loop(self) -> None:
        async def main() -> None:
            together = asyncio.Barrier(3)

            async def fn(ctx: ag.Context) -> str:
                await asyncio.wait_for(together.wait(), 60)
                return "met"

            workers = [ag.function_agent(name, fn) for name in "abc"]
            model = scripted(calling("a/x", "b/x", "c/x"), "Done.")
            events = ag.Runner(ag.supervisor("S", model, workers)).arun("Go.")
            assert [event async for event in events][-1].text == "Done."

        asyncio.run(main())

    def test_are_described_to_the_model_beside_its_own_tools(self) -> None:
        def search(topic: str) -> str:
            """Search the web."""
            return topic

        model = scripted("Done.")
        worker = ag.chat_agent("a", scripted(), description="Knows bees.")
        tree = ag.supervisor("S", model, [worker], tools=[search], exit_tool=True)
        list(ag.Runner(tree).run("Go."))
        told = [(t["function"]["name"], t["function"]["description"]) for t in model.tools]
        assert told[:2] == [("a", "Knows bees."), ("search", "Search the web.")]
        assert [name for name, _ in told] == ["a", "search", "exit"]

    def test_run_beside_its_own_tools(self, drive: Drive) -> None:
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        both = AIMessage(
            "",
            tool_calls=[
                {"name": "add", "args": {"a": 1, "b": 2}, "id": "1", "type": "tool_call"},
                {"name": "a", "args": {"request": "bees"}, "id": "2", "type": "tool_call"},
            ],
        )
        model = scripted(both, "Done.")
        tree = ag.supervisor("S", model, [says("a")], tools=[add])
        list(drive.run(ag.Runner(tree), "Go."))
        assert sent(model.inputs[1])[-2:] == ["tool: 3", "tool: a"]

    def test_that_fail_are_told_to_the_model(self, drive: Drive) -> None:
        def broken(ctx: ag.Context) -> str:
            raise ValueError("no bees")

        model = scripted(calling("a/bees"), "I cannot.")
        tree = ag.supervisor("S", model, [ag.function_agent("a", broken)])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert lines(events) == [
            "S/a: [error] ValueError('no bees')",
            "S: Error: ValueError('no bees')\n Please fix your mistakes.",
            "S: I cannot.",
        ]
        assert model.inputs[1][-1].status == "error"

    def test_that_fail_may_fail_the_supervisor_and_run_again(self, disk: Disk) -> None:
        faults = [ValueError("no bees")]
        counts: Counter[str] = Counter()

        def broken(ctx: ag.Context) -> str:
            counts["a"] += 1
            if faults:
                raise faults.pop()
            return "three"

        model = scripted(calling("a/bees", "b/wasps"), "Done.")
        workers = [ag.function_agent("a", broken), counted(counts, "b")]
        tree = ag.supervisor("S", model, workers, on_tool_error="raise")
        told = disk.fail(tree, "run", ValueError)
        assert transcript(told)[-1] == "S/a: [error] ValueError('no bees')"
        assert lines(disk.resume(tree))[-1] == "S: Done."
        assert sent(model.inputs[-1])[-2:] == ["tool: three", "tool: b1"]
        assert (counts, len(model.inputs)) == (Counter(a=2, b=1), 2)

    def test_end_nothing_but_themselves(self, drive: Drive) -> None:
        workers = [gives("a", ag.Exit()), gives("b", ag.BreakLoop())]
        tree = ag.supervisor("S", scripted(calling("a/x"), calling("b/x"), "Done."), workers)
        told = drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go.")
        assert lines(told)[-2:] == ["s/S: Done.", "s/S/z: z"]

    def test_may_need_a_persons_approval(self, disk: Disk) -> None:
        counts: Counter[str] = Counter()
        model = scripted(calling("a/bees", "b/wasps"), "Done.")
        tree = ag.supervisor("S", model, [counted(counts, "a"), counted(counts, "b")], approve=["b"])
        asked = disk.run(tree)[-1].action.interrupted
        assert [each["name"] for each in asked.value["action_requests"]] == ["b"]
        told = disk.resume(tree, {asked.id: {"decisions": [{"type": "reject", "message": "No."}]}})
        assert told[-1].text == "Done."
        assert sent(model.inputs[1])[-2:] == [
            "tool: a1",
            "tool: User rejected the tool call for `b` with reason: No.",
        ]
        assert counts == Counter(a=1)

    def test_may_be_supervisors(self, drive: Drive) -> None:
        inner = ag.supervisor("in", scripted(calling("a/deep"), "Found."), [says("a")])
        tree = ag.supervisor("out", scripted(calling("in/bees"), "Done."), [inner])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert lines(events) == [
            "out/in/a: a",
            "out/in: a",
            "out/in: Found.",
            "out: Found.",
            "out: Done.",
        ]
        assert [event.address for event in events if event.agent_name == "a"] == ["out/in(0)/a(0)"]


class TestHandingOver:
    def test_comes_back_when_the_worker_ends(self, drive: Drive) -> None:
        model = scripted(to("W"), "Done.")
        tree = ag.supervisor("S", model, [says("W", "Three.")], mode="handoff")
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert transcript(events) == [
            "S: [calls] transfer_to_W({})",
            "S: Transferred to W.",
            "S: [transfer_to] W",
            "S/W: Three.",
            "S/W/S: Done.",
        ]
        assert visits(events) == [("S", "S"), ("S[1]/W", "S/W"), ("S[1.0]", "S/W/S")]
        assert sent(model.inputs[1]) == ["human: Go.", "human: [W] said: Three."]

    def test_goes_on_until_the_supervisor_answers(self, drive: Drive) -> None:
        model = scripted(to("a"), to("b"), to("a"), "Done.")
        tree = ag.supervisor("S", model, [says("a", "a1", "a2"), says("b")], mode="handoff")
        events = list(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert visits(events) == [
            ("s/S", "s/S"),
            ("s/S[1]/a", "s/S/a"),
            ("s/S[1.0]", "s/S/a/S"),
            ("s/S[1.0.2]/b", "s/S/a/S/b"),
            ("s/S[1.0.2.0]", "s/S/a/S/b/S"),
            ("s/S[1.0.2.0.1]/a", "s/S/a/S/b/S/a"),
            ("s/S[1.0.2.0.1.0]", "s/S/a/S/b/S/a/S"),
            ("s/z", "s/S/z"),
        ]
        assert sent(model.inputs[3]) == [
            "human: Go.",
            "human: [a] said: a1",
            "human: [b] said: b",
            "human: [a] said: a2",
        ]

    def test_shows_the_worker_the_history(self, drive: Drive) -> None:
        inner = scripted("Three.")
        tree = ag.supervisor(
            "S", scripted(to("W"), "Done."), [ag.chat_agent("W", inner)], mode="handoff"
        )
        list(drive.run(ag.Runner(ag.sequential("s", [says("x"), tree])), "Go."))
        assert sent(inner.inputs[0]) == ["human: Go.", "human: [x] said: x"]

    def test_gives_the_worker_no_tool_to_hand_back(self, drive: Drive) -> None:
        inner, model = scripted("Three."), scripted(to("W"), "Done.")
        tree = ag.supervisor("S", model, [ag.chat_agent("W", inner)], mode="handoff")
        list(drive.run(ag.Runner(tree), "Go."))
        assert inner.tools == []
        assert [message.type for message in inner.inputs[0]] == ["human"]
        assert [tool["function"]["name"] for tool in model.tools] == ["transfer_to_W"]

    def test_lets_a_worker_have_tools_and_workers_of_its_own(self, drive: Drive) -> None:
        def add() -> int:
            """Add one and two."""
            return 3

        low = scripted("Low.")
        inner = scripted(calling("add"), to("D"))
        worker = ag.chat_agent("W", inner, tools=[add], sub_agents=[ag.chat_agent("D", low)])
        tree = ag.supervisor("S", scripted(to("W"), "Done."), [worker], mode="handoff")
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert [tool["function"]["name"] for tool in inner.tools] == ["add", "transfer_to_D"]
        assert [tool["function"]["name"] for tool in low.tools] == ["transfer_to_W"]
        assert visits(events) == [
            ("S", "S"),
            ("S[1]/W", "S/W"),
            ("S[1.1]/W/D", "S/W/D"),
            ("S[1.1.0.0]", "S/W/D/W/S"),
        ]
        assert transcript(events)[-2:] == ["S/W/D: Low.", "S/W/D/W/S: Done."]

    def test_takes_composites_as_workers(self, drive: Drive) -> None:
        steps = ag.sequential("q", [says("x"), says("y")])
        rounds = ag.loop("l", [says("v")], max_iterations=2)
        both = ag.parallel("p", [says("m"), says("n")])
        model = scripted(to("q"), to("l"), to("p"), "Done.")
        tree = ag.supervisor("S", model, [steps, rounds, both], mode="handoff")
        events = list(drive.run(ag.Runner(tree), "Go."))
        told = visits(events)
        assert told[:6] == [
            ("S", "S"),
            ("S[1]/q/x", "S/q/x"),
            ("S[1]/q/y", "S/q/x/y"),
            ("S[1.0]", "S/q/S"),
            ("S[1.0.2]/l[0]/v", "S/q/S/l/v"),
            ("S[1.0.2]/l[1]/v", "S/q/S/l/v/v"),
        ]
        assert told[6] == ("S[1.0.2.0]", "S/q/S/l/S")
        assert sorted(told[7:9]) == [
            ("S[1.0.2.0.3]/p/m", "S/q/S/l/S/p/m"),
            ("S[1.0.2.0.3]/p/n", "S/q/S/l/S/p/n"),
        ]
        assert told[9:] == [("S[1.0.2.0.3.0]", "S/q/S/l/S/p/S")]
        assert sent(model.inputs[3])[-2:] == ["human: [m] said: m", "human: [n] said: n"]

    def test_takes_supervisors_as_workers(self, drive: Drive) -> None:
        inner = ag.supervisor(
            "in", scripted(to("a"), to("b"), "Inside.", to("a"), "Again."), [says("a"), says("b")],
            mode="handoff",
        )  # fmt: skip
        tree = ag.supervisor("out", scripted(to("in"), to("in"), "Done."), [inner], mode="handoff")
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert [str(path) for _, path in visits(events)][-1] == "out/in/a/in/b/in/out/in/a/in/out"
        assert visits(events)[:7] == [
            ("out", "out"),
            ("out[1]/in", "out/in"),
            ("out[1.1]/in/a", "out/in/a"),
            ("out[1.1.0]/in", "out/in/a/in"),
            ("out[1.1.0.2]/in/b", "out/in/a/in/b"),
            ("out[1.1.0.2.0]/in", "out/in/a/in/b/in"),
            ("out[1.1.0.2.0.0]", "out/in/a/in/b/in/out"),
        ]

    def test_lets_a_worker_end_the_run(self, drive: Drive) -> None:
        worker = ag.sequential("W", [says("x"), gives("y", ag.Exit()), says("never")])
        tree = ag.supervisor("S", scripted(to("W")), [worker], mode="handoff")
        events = list(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert transcript(events)[-2:] == ["s/S/W/x: x", "s/S/W/x/y: [exit]"]

    def test_lets_a_worker_break_the_loop_around_the_supervisor(self, drive: Drive) -> None:
        tree = ag.supervisor("S", scripted(to("W")), [gives("W", ag.BreakLoop())], mode="handoff")
        rounds = ag.loop("l", [tree, says("b")], max_iterations=3)
        events = list(drive.run(ag.Runner(ag.sequential("s", [rounds, says("z")])), "Go."))
        assert transcript(events)[-2:] == ["s/l/S/W: [break_loop]", "s/l/z: z"]

    def test_comes_back_from_a_loop_that_a_worker_breaks(self, drive: Drive) -> None:
        rounds = ag.loop("l", [gives("W", ag.BreakLoop()), says("b")], max_iterations=3)
        tree = ag.supervisor("S", scripted(to("l"), "Done."), [rounds], mode="handoff")
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert transcript(events)[-2:] == ["S/l/W: [break_loop]", "S/l/S: Done."]

    def test_comes_back_from_a_worker_that_says_nothing(self, drive: Drive) -> None:
        tree = ag.supervisor("S", scripted(to("W"), "Done."), [gives("W", None)], mode="handoff")
        assert lines(drive.run(ag.Runner(tree), "Go.")) == ["S: [transfer_to] W", "S/W/S: Done."]

    def test_fails_where_a_worker_fails_and_goes_on_there(self, disk: Disk) -> None:
        counts: Counter[str] = Counter()
        faults = [ValueError("no bees")]

        def broken(ctx: ag.Context) -> str:
            if faults:
                raise faults.pop()
            return "three"

        model = scripted(to("W"), "Done.")
        worker = ag.sequential("W", [counted(counts, "x"), ag.function_agent("y", broken)])
        tree = ag.supervisor("S", model, [worker], mode="handoff")
        assert transcript(disk.fail(tree, "run", ValueError))[-1] == (
            "S/W/x/y: [error] ValueError('no bees')"
        )
        assert transcript(disk.resume(tree)) == ["S/W/x/y: three", "S/W/S: Done."]
        assert (counts["x"], len(model.inputs)) == (1, 2)

    def test_may_need_a_persons_approval(self, disk: Disk) -> None:
        model = scripted(to("W"), "Done.")
        tree = ag.supervisor("S", model, [says("W")], mode="handoff", approve=["transfer_to_W"])
        asked = disk.run(tree)[-1].action.interrupted
        assert [each["name"] for each in asked.value["action_requests"]] == ["transfer_to_W"]
        told = disk.resume(tree, {asked.id: {"decisions": [{"type": "approve"}]}})
        assert lines(told) == ["S: [transfer_to] W", "S/W: W", "S/W/S: Done."]

    def test_is_the_same_from_the_thread(self, drive: Drive) -> None:
        inner = ag.supervisor("in", scripted(to("a"), "Inside."), [says("a")], mode="handoff")
        tree = ag.supervisor(
            "out", scripted(to("in"), to("b"), "Done."), [inner, says("b")], mode="handoff"
        )
        runner = ag.Runner(ag.sequential("s", [tree, says("z")]))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        assert list(runner.events("t")) == events

    def test_begins_a_second_turn_at_the_supervisor(self, drive: Drive) -> None:
        model = scripted(to("W"), "One.", to("W"), "Two.")
        tree = ag.supervisor("S", model, [says("W")], mode="handoff")
        runner = ag.Runner(tree)
        first = list(drive.run(runner, "Go.", thread_id="t"))
        second = list(drive.run(runner, "Again.", thread_id="t"))
        assert visits(first) == visits(second) == [("S", "S"), ("S[1]/W", "S/W"), ("S[1.0]", "S/W/S")]
        assert sent(model.inputs[2]) == [
            "human: Go.",
            "human: [W] said: W",
            "ai: One.",
            "human: Again.",
        ]


class TestEitherMode:
    @MODES
    def test_keeps_its_last_message_as_a_value(self, drive: Drive, mode: Any) -> None:
        after = scripted("Z.")
        model = scripted(naming(mode, "W"), '{"bees": 3}')
        schema = {"type": "object", "properties": {"bees": {"type": "integer"}}, "required": ["bees"]}
        tree = ag.supervisor(
            "S", model, [says("W")], mode=mode, output_key="found", output_schema=schema
        )
        reader = ag.chat_agent("z", after, instruction="Found: {found}")
        list(drive.run(ag.Runner(ag.sequential("s", [tree, reader])), "Go."))
        assert after.inputs[0][0].text == 'Found: {"bees": 3}'

    @MODES
    def test_asks_again_where_the_answer_does_not_fit(self, drive: Drive, mode: Any) -> None:
        model = scripted(naming(mode, "W"), "three", "3")
        tree = ag.supervisor("S", model, [says("W")], mode=mode, output_schema=int)
        assert list(drive.run(ag.Runner(tree), "Go."))[-1].text == "3"
        assert len(model.inputs) == 3

    @MODES
    def test_may_exit(self, drive: Drive, mode: Any) -> None:
        leave = AIMessage(
            "",
            tool_calls=[
                {"name": "exit", "args": {"final_result": "Enough."}, "id": "1", "type": "tool_call"}
            ],
        )
        tree = ag.supervisor(
            "S", scripted(naming(mode, "W"), leave), [says("W")], mode=mode, exit_tool=True
        )
        told = transcript(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert told[-1].endswith(": [exit]")
        assert any(line.endswith(": Enough.") for line in told)

    @MODES
    def test_asks_deep_in_a_worker_once_and_repeats_nothing(self, disk: Disk, mode: Any) -> None:
        counts: Counter[str] = Counter()
        steps = [
            ag.step(counted(counts, "f")),
            ag.step(ag.human("boss", "Well?"), depends_on=["f"]),
            ag.step(counted(counts, "g"), depends_on=["boss"]),
        ]
        model = scripted(naming(mode, "W"), "Done.")
        worker = ag.sequential(
            "W", [counted(counts, "x"), ag.workflow("flow", steps), counted(counts, "y")]
        )
        tree = ag.supervisor("S", model, [worker], mode=mode)
        told = disk.run(tree)
        questions = [event.action.interrupted for event in told if event.kind == "interrupted"]
        assert [q.value for q in questions] == ["Well?"]
        assert questions[0].address == {
            "tools": "S/W(0)/flow/boss",
            "handoff": "S[1]/W/flow/boss",
        }[mode]  # fmt: skip
        assert counts == Counter(x=1, f=1)
        rest = disk.resume(tree, "Go on.")
        assert [event.text for event in rest if event.agent_name != "S"] == ["Go on.", "g1", "y1"]
        assert rest[-1].text == "Done."
        assert (counts, len(model.inputs)) == (Counter(x=1, f=1, g=1, y=1), 2)
        assert disk.resume(tree) == []

    @MODES
    def test_goes_on_after_two_questions_one_after_the_other(self, disk: Disk, mode: Any) -> None:
        worker = ag.sequential("W", [ag.human("h1", "One?"), ag.human("h2", "Two?")])
        model = scripted(naming(mode, "W"), naming(mode, "W"), "Done.")
        tree = ag.supervisor("S", model, [worker], mode=mode)
        asked = []
        told = disk.run(tree)
        while told[-1].kind == "interrupted":
            asked.append(told[-1].action.interrupted)
            told = disk.resume(tree, {asked[-1].id: f"answer {len(asked)}"})
        assert [question.value for question in asked] == ["One?", "Two?", "One?", "Two?"]
        assert len({question.id for question in asked}) == 4
        assert (told[-1].text, len(model.inputs)) == ("Done.", 3)

    @MODES
    def test_is_told_by_a_thread_as_it_was_told(self, disk: Disk, mode: Any) -> None:
        worker = ag.sequential("W", [says("x"), ag.human("boss", "Well?"), says("y")])
        tree = ag.supervisor("S", scripted(naming(mode, "W"), "Done."), [worker], mode=mode)
        disk.run(tree)
        disk.resume(tree, "Fine.")
        assert disk.events(tree) == disk.told

    @MODES
    def test_is_shown_as_a_chat_agent(self, mode: Any) -> None:
        tree = ag.supervisor("S", scripted(), [says("a"), ag.sequential("q", [says("b")])], mode=mode)
        assert tree_lines(tree) == [
            "S (chat)",
            "├─ a (function)",
            "└─ q (sequential)",
            "   └─ b (function)",
        ]

    @MODES
    def test_tells_every_fault_at_once(self, mode: Any) -> None:
        workers: list[Any] = [says("a"), says("a", "other"), 3]
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(
                ag.supervisor("S", scripted(), workers, mode=mode, max_iterations=0, approve=["x"])
            )
        name = "a" if mode == "tools" else "transfer_to_a"
        assert caught.value.faults == (
            "S: max_iterations=0 is not a limit; use a whole number from 1, or None for no bound",
            f"S: 2 tools are named {name!r}; a name means one tool, rename the others",
            f"S: approve names 'x', which is not one of its tools: {name}, {name}",
            "S/a: two agents are named 'a'; a name means one agent, rename one",
            "S: 3 is not an agent; build one with chat_agent, human, sequential, ...",
        )


class TestMaxIterations:
    @MODES
    def test_counts_the_turns_of_the_supervisor(self, drive: Drive, mode: Any) -> None:
        model = scripted(*[naming(mode, "W") for _ in range(3)], "Never.")
        tree = ag.supervisor("S", model, [says("W", "1", "2", "3")], mode=mode, max_iterations=3)
        told, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.MaxIterationsError)
        at = "S" if mode == "tools" else "S[1.0.1.0.1.0]"
        assert str(raised) == (
            f"{at}: the model was asked 3 times and still calls tools; raise max_iterations, then "
            "resume, or use on_max_iterations='answer' for an answer without tools"
        )
        assert len(model.inputs) == 3
        assert told[-1].kind == "error"

    @MODES
    def test_may_be_reached_by_an_answer(self, drive: Drive, mode: Any) -> None:
        model = scripted(naming(mode, "W"), naming(mode, "W"), "Done.")
        tree = ag.supervisor("S", model, [says("W", "1", "2")], mode=mode, max_iterations=3)
        assert list(drive.run(ag.Runner(tree), "Go."))[-1].text == "Done."

    @MODES
    def test_may_end_in_an_answer_without_tools(self, drive: Drive, mode: Any) -> None:
        model = scripted(naming(mode, "W"), naming(mode, "W"), "Enough.")
        tree = ag.supervisor(
            "S", model, [says("W", "1", "2")], mode=mode, max_iterations=2, on_max_iterations="answer"
        )
        events = list(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert [event.text for event in events[-2:]] == ["Enough.", "z"]
        assert len(model.inputs) == 3

    @MODES
    def test_drops_calls_of_the_last_answer(self, drive: Drive, mode: Any) -> None:
        counts: Counter[str] = Counter()
        model = scripted(naming(mode, "W"), naming(mode, "W"))
        tree = ag.supervisor(
            "S", model, [counted(counts, "W")], mode=mode, max_iterations=1, on_max_iterations="answer"
        )
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert (events[-1].agent_name, events[-1].text) == ("S", "")
        assert counts == Counter(W=1)

    @MODES
    def test_begins_anew_in_a_second_turn(self, drive: Drive, mode: Any) -> None:
        model = scripted(naming(mode, "W"), "One.", naming(mode, "W"), "Two.")
        tree = ag.supervisor("S", model, [says("W", "1", "2")], mode=mode, max_iterations=2)
        runner = ag.Runner(tree)
        list(drive.run(runner, "Go.", thread_id="t"))
        assert list(drive.run(runner, "Again.", thread_id="t"))[-1].text == "Two."

    @MODES
    def test_begins_anew_in_each_iteration_of_a_loop(self, drive: Drive, mode: Any) -> None:
        model = scripted(naming(mode, "W"), "One.", naming(mode, "W"), "Two.")
        tree = ag.supervisor("S", model, [says("W", "1", "2")], mode=mode, max_iterations=2)
        rounds = ag.loop("l", [tree], max_iterations=2)
        assert list(drive.run(ag.Runner(rounds), "Go."))[-1].text == "Two."

    @MODES
    def test_may_be_none(self, drive: Drive, mode: Any) -> None:
        model = scripted(*[naming(mode, "W") for _ in range(25)], "Done.")
        texts = map(str, range(25))
        tree = ag.supervisor("S", model, [says("W", *texts)], mode=mode, max_iterations=None)
        assert list(drive.run(ag.Runner(tree), "Go."))[-1].text == "Done."

    @MODES
    def test_counts_calls_of_its_own_tools_with_them(self, drive: Drive, mode: Any) -> None:
        def look() -> str:
            """Look."""
            return "seen"

        model = scripted(calling("look"), naming(mode, "W"), "Never.")
        tree = ag.supervisor("S", model, [says("W")], mode=mode, tools=[look], max_iterations=2)
        failing(drive.run(ag.Runner(tree), "Go."), ag.MaxIterationsError)
        assert len(model.inputs) == 2

    def test_is_counted_for_each_supervisor_by_itself(self, drive: Drive) -> None:
        inner = ag.supervisor(
            "in", scripted(to("a"), "One.", to("a"), "Two."), [says("a", "a1", "a2")],
            mode="handoff", max_iterations=2,
        )  # fmt: skip
        tree = ag.supervisor(
            "out", scripted(to("in"), to("in"), "Done."), [inner], mode="handoff", max_iterations=3
        )
        assert list(drive.run(ag.Runner(tree), "Go."))[-1].text == "Done."


class TestTheReminder:
    @staticmethod
    def sent_by(
        drive: Drive, mode: str, results: Iterable[str], wrap: Callable[[Any], Any] = lambda a: a
    ) -> tuple[list[list[str]], list[ag.AgentEvent]]:
        results = list(results)
        model = scripted(*[naming(mode, "a") for _ in results], "Done.")
        tree = ag.supervisor("S", model, [says("a", *results)], mode=mode)  # type: ignore[arg-type]
        events = list(drive.run(ag.Runner(wrap(tree)), "Go."))
        return [sent(messages) for messages in model.inputs], events

    @MODES
    def test_comes_when_a_worker_says_the_same_three_times(self, drive: Drive, mode: Any) -> None:
        inputs, _ = self.sent_by(drive, mode, ["r", "r", "r"])
        assert [f"human: {REMINDER}" in messages for messages in inputs] == [False, False, False, True]
        assert inputs[3][-1] == f"human: {REMINDER}"

    @MODES
    def test_counts_on_and_comes_once_in_each_input(self, drive: Drive, mode: Any) -> None:
        inputs, _ = self.sent_by(drive, mode, ["x", "r", "r", "r", "r"])
        told = [[line for line in messages if "in a row" in line] for messages in inputs]
        assert told[:4] == [[], [], [], []]
        assert told[4] == [f"human: {REMINDER}"]
        assert told[5] == [f"human: {REMINDER.replace('3', '4')}"]

    @MODES
    def test_stands_neither_in_the_history_nor_in_the_events(self, drive: Drive, mode: Any) -> None:
        after = scripted("Z.")
        _, events = self.sent_by(
            drive, mode, ["r", "r", "r"],
            lambda tree: ag.sequential("s", [tree, ag.chat_agent("z", after)]),
        )  # fmt: skip
        assert not [line for line in transcript(events) if "in a row" in line]
        assert not [line for line in sent(after.inputs[0]) if "in a row" in line]

    @MODES
    def test_does_not_come_where_results_differ(self, drive: Drive, mode: Any) -> None:
        inputs, _ = self.sent_by(drive, mode, ["r", "r", "s", "r", "r", "t"])
        assert not [line for messages in inputs for line in messages if "in a row" in line]

    @MODES
    def test_does_not_come_where_workers_take_turns(self, drive: Drive, mode: Any) -> None:
        model = scripted(*[naming(mode, name) for name in "aabaab"], "Done.")
        tree = ag.supervisor("S", model, [says("a", "r"), says("b", "r")], mode=mode)
        list(drive.run(ag.Runner(tree), "Go."))
        assert not [line for messages in model.inputs for line in sent(messages) if "in a row" in line]

    @MODES
    def test_forgets_what_was_before_the_users_next_input(self, drive: Drive, mode: Any) -> None:
        model = scripted(*[naming(mode, "a")] * 2, "One.", *[naming(mode, "a")] * 2, "Two.")
        runner = ag.Runner(ag.supervisor("S", model, [says("a", "r")], mode=mode))
        list(drive.run(runner, "Go.", thread_id="t"))
        list(drive.run(runner, "Again.", thread_id="t"))
        assert not [line for messages in model.inputs for line in sent(messages) if "in a row" in line]

    @MODES
    def test_is_not_misled_by_what_others_say_between_the_supervisors_turns(
        self, drive: Drive, mode: Any
    ) -> None:
        replies = [reply for i in range(4) for reply in (naming(mode, "a"), f"D{i}")]
        model = scripted(*replies)
        tree = ag.supervisor("S", model, [says("a", "r1", "r2", "r3", "r4")], mode=mode)
        rounds = ag.loop("l", [tree, says("critic", "Not yet.")], max_iterations=4)
        list(drive.run(ag.Runner(rounds), "Go."))
        assert not [line for messages in model.inputs for line in sent(messages) if "in a row" in line]

    @MODES
    def test_comes_also_where_others_say_different_things_between(
        self, drive: Drive, mode: Any
    ) -> None:
        replies = [reply for i in range(4) for reply in (naming(mode, "a"), f"D{i}")]
        model = scripted(*replies)
        tree = ag.supervisor("S", model, [says("a", "r")], mode=mode)
        rounds = ag.loop("l", [tree, says("critic", "1", "2", "3", "4")], max_iterations=4)
        list(drive.run(ag.Runner(rounds), "Go."))
        assert sent(model.inputs[6])[-1] == f"human: {REMINDER}"

    def test_is_not_misled_by_the_supervisor_above(self, drive: Drive) -> None:
        model = scripted(*[reply for i in range(4) for reply in (to("a"), f"D{i}")])
        inner = ag.supervisor("in", model, [says("a", "r1", "r2", "r3", "r4")], mode="handoff")
        above = scripted(*[to("in") for _ in range(4)], "Done.")
        list(drive.run(ag.Runner(ag.supervisor("out", above, [inner], mode="handoff")), "Go."))
        assert not [line for messages in model.inputs for line in sent(messages) if "in a row" in line]

    @MODES
    def test_leaves_the_last_word_to_model_input(self, drive: Drive, mode: Any) -> None:
        seen: list[str] = []

        def without(messages: list[BaseMessage]) -> list[BaseMessage]:
            seen.append(str(messages[-1].text))
            return [m for m in messages if "in a row" not in m.text]

        model = scripted(*[naming(mode, "a")] * 3, "Done.")
        tree = ag.supervisor("S", model, [says("a", "r")], mode=mode, model_input=without)
        list(drive.run(ag.Runner(tree), "Go."))
        assert seen[3] == REMINDER
        assert not [line for messages in model.inputs for line in sent(messages) if "in a row" in line]

    @MODES
    def test_leaves_the_last_word_to_a_model_input_with_a_context(
        self, drive: Drive, mode: Any
    ) -> None:
        def named(ctx: ag.Context, messages: list[BaseMessage]) -> list[BaseMessage]:
            return [*messages, HumanMessage(f"You are {ctx.name}.")]

        model = scripted(*[naming(mode, "a")] * 3, "Done.")
        tree = ag.supervisor("S", model, [says("a", "r")], mode=mode, model_input=named)
        list(drive.run(ag.Runner(tree), "Go."))
        assert sent(model.inputs[3])[-2:] == [f"human: {REMINDER}", "human: You are S."]

    def test_leaves_a_model_input_that_cannot_be_used_to_be_told(self) -> None:
        async def hook(messages: list[BaseMessage]) -> list[BaseMessage]:
            return messages

        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(ag.supervisor("S", scripted(), [says("a")], model_input=hook))  # type: ignore[arg-type]
        assert caught.value.faults == (
            f"S: model_input={hook!r} cannot be used; pass a sync function of the messages, or of a "
            "context and the messages",
        )


def test_several_workers_may_ask_at_once_and_are_answered_in_any_order(disk: Disk) -> None:
    workers = [ag.sequential(n, [ag.human(f"h{n}", f"{n}?"), says(f"z{n}")]) for n in "ab"]
    model = scripted(calling("a/x", "b/x"), "Done.")
    tree = ag.supervisor("S", model, workers)
    asked = {e.action.interrupted.value: e.id for e in disk.run(tree) if e.kind == "interrupted"}
    assert sorted(asked) == ["a?", "b?"]
    told = disk.resume(tree, {asked["b?"]: "B."})
    assert [e.id for e in told if e.kind == "interrupted"] == [asked["a?"]]
    assert [e.text for e in told if e.kind == "message"] == ["B.", "zb", "zb"]
    told = disk.resume(tree, {asked["a?"]: "A."})
    assert [e.text for e in told] == ["A.", "za", "za", "Done."]
    assert len(model.inputs) == 2


def test_a_worker_of_one_supervisor_may_be_that_of_another() -> None:
    shared = says("a")
    left = ag.supervisor("L", scripted(to("a"), "Left."), [shared], mode="handoff")
    right = ag.supervisor("R", scripted(calling("a/x"), "Right."), [shared])
    told = lines(ag.Runner(ag.sequential("s", [left, right])).run("Go."))
    assert told == [
        "s/L: [transfer_to] a",
        "s/L/a: a",
        "s/L/a/L: Left.",
        "s/L/R/a: a",
        "s/L/R: a",
        "s/L/R: Right.",
    ]


def test_a_stream_of_a_supervisors_tokens_names_it(drive: Drive) -> None:
    def spoken() -> Iterator[Any]:
        yield to("W")
        yield "All done."

    tree = ag.supervisor("S", scripted(*spoken()), [says("W")], mode="handoff")
    events = list(drive.run(ag.Runner(tree), "Go.", stream=True))
    partial = [event for event in events if event.partial and event.text]
    assert {(event.agent_name, event.address) for event in partial} == {("S", "S[1.0]")}
    assert "".join(event.text for event in partial) == "All done."
