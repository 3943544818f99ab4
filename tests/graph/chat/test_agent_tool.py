"""Agents as tools: what they see, what is told of them, what they ask, and how they fail."""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import pytest
from helpers import Disk, Drive, failing, scripted, standing, visits
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.show.lines import tree_lines
from agentgraph.testing import ScriptedChatModel, transcript

IDS = count()
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def calling(*calls: str, text: str = "") -> AIMessage:
    """Return a message that calls tools: `search/bees` asks the agent `search` for bees."""
    made = []
    for call in calls:
        name, _, request = call.partition("/")
        args = {"request": request} if request else {}
        made.append({"name": name, "args": args, "id": f"call{next(IDS)}", "type": "tool_call"})
    return AIMessage(text, tool_calls=made)


def chat(name: str, *responses: Any, **options: Any) -> Any:
    return ag.chat_agent(name, scripted(*responses), **options)


def asking(name: str, tool: ag.Agent, *responses: Any, **options: Any) -> Any:
    """Return a chat agent with an agent as its tool."""
    return chat(name, *responses, tools=[ag.agent_tool(tool)], **options)


def says(name: str, *texts: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> Iterator[str]:
        yield from texts or (name,)

    return ag.function_agent(name, fn)


def gives(name: str, item: Any) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: item)


def echo(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return f"{name}({ctx.messages[-1].text})"

    return ag.function_agent(name, fn)


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


def lines(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return a transcript without the messages that call agents."""
    return [line for line in transcript(events) if "[calls]" not in line]


class TestAnAgentAsATool:
    def test_gives_its_last_message_to_its_caller(self, drive: Drive) -> None:
        model = scripted(calling("search/bees"), "Bees dance.")
        inner = says("search", "Looking.", "Bees dance at noon.")
        tree = ag.chat_agent("writer", model, tools=[ag.agent_tool(inner)])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert transcript(events) == [
            'writer: [calls] search({"request": "bees"})',
            "writer/search: Looking.",
            "writer/search: Bees dance at noon.",
            "writer: Bees dance at noon.",
            "writer: Bees dance.",
        ]
        result = model.inputs[1][-1]
        assert isinstance(result, ToolMessage)
        assert (result.name, result.text, result.status) == ("search", "Bees dance at noon.", "success")

    def test_is_described_to_the_model(self) -> None:
        model = scripted("Done.")
        tools = [
            ag.agent_tool(chat("a", description="Knows {bees}."), description="Asks about bees."),
            ag.agent_tool(chat("b", description="Knows {wasps}.")),
            ag.agent_tool(ag.sequential("c", [says("x")])),
        ]
        list(ag.Runner(ag.chat_agent("writer", model, tools=tools)).run("Go."))
        told = [tool["function"] for tool in model.tools]
        assert [(tool["name"], tool["description"]) for tool in told] == [
            ("a", "Asks about bees."),
            ("b", "Knows {wasps}."),
            ("c", "Asks the agent c."),
        ]
        assert told[0]["parameters"] == {
            "type": "object",
            "properties": {
                "request": {
                    "type": "string",
                    "description": "What the agent is asked to do, with all that it has to know.",
                }
            },
            "required": ["request"],
        }

    def test_sees_the_request_only(self, drive: Drive) -> None:
        inner = scripted("One.", "Two.")
        tool = ag.agent_tool(ag.chat_agent("search", inner, instruction="Search for {topic}."))
        writer = chat("writer", calling("search/a"), calling("search/b"), "Done.", tools=[tool])
        list(
            drive.run(ag.Runner(ag.sequential("s", [says("x"), writer])), "Go.", values={"topic": "T"})
        )
        assert [sent(messages) for messages in inner.inputs] == [
            ["system: Search for T.", "human: a"],
            ["system: Search for T.", "human: b"],
        ]

    def test_with_a_shared_history_sees_what_its_caller_sees_and_the_request(
        self, drive: Drive
    ) -> None:
        inner = scripted("One.", "Two.")
        tool = ag.agent_tool(ag.chat_agent("search", inner), history="shared")
        writer = chat("writer", calling("search/a"), calling("search/b"), "Done.", tools=[tool])
        list(drive.run(ag.Runner(ag.sequential("s", [says("x"), writer])), "Go."))
        first, second = (sent(messages) for messages in inner.inputs)
        assert first[:2] == second[:2] == ["human: Go.", "human: [x] said: x"]
        assert first[-1] == "human: a"
        assert second[-1] == "human: b"
        assert "human: [writer] search returned: One." in second

    def test_is_called_again_with_a_request_when_there_was_none(self, drive: Drive) -> None:
        writer = asking("writer", echo("search"), calling("search"), calling("search/bees"), "Done.")
        events = list(drive.run(ag.Runner(writer), "Go."))
        assert len([e for e in events if e.agent_name == "search"]) == 1
        refused = events[1].message
        assert isinstance(refused, ToolMessage)
        assert refused.status == "error"
        assert "request: Field required" in refused.text
        assert lines(events)[1:] == [
            "writer/search: search(bees)",
            "writer: search(bees)",
            "writer: Done.",
        ]

    def test_that_says_nothing_gives_an_empty_text(self, drive: Drive) -> None:
        model = scripted(calling("search/bees"), "Done.")
        tree = ag.chat_agent("writer", model, tools=[ag.agent_tool(gives("search", None))])
        assert lines(drive.run(ag.Runner(tree), "Go.")) == ["writer: ", "writer: Done."]
        assert sent(model.inputs[1])[-1] == "tool: "

    def test_writes_values_that_are_the_callers(self, drive: Drive) -> None:
        inner = ag.sequential(
            "search", [gives("f", ag.SetValues(found="bees")), chat("g", "Fine.", output_key="note")]
        )
        after = scripted("Z.")
        tree = ag.sequential(
            "s",
            [
                asking("writer", inner, calling("search/a"), "Done."),
                ag.chat_agent("z", after, instruction="{found} {note}"),
            ],
        )
        list(drive.run(ag.Runner(tree), "Go."))
        assert after.inputs[0][0] == SystemMessage("bees Fine.")

    def test_sees_the_values_of_its_caller(self, drive: Drive) -> None:
        inner = ag.function_agent("search", lambda ctx: f"{sorted(ctx.values.items())}")
        tree = ag.sequential(
            "s", [gives("x", ag.SetValues(a=1)), asking("writer", inner, calling("search/a"), "Done.")]
        )
        told = lines(drive.run(ag.Runner(tree), "Go.", values={"b": 2}))
        assert told[0] == "s/x/writer/search: [('a', 1), ('b', 2)]"

    def test_adds_nothing_to_the_history_but_its_result(self, drive: Drive) -> None:
        after = scripted("Z.")
        inner = ag.sequential("search", [says("x", "hidden"), says("y")])
        writer = asking("writer", inner, calling("search/a"), "Done.")
        runner = ag.Runner(ag.sequential("s", [writer, ag.chat_agent("z", after)]))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert sent(after.inputs[0]) == [
            "human: Go.",
            'human: [writer] called search({"request": "a"})',
            "human: [writer] search returned: y",
            "human: [writer] said: Done.",
        ]
        messages = runner.graph.get_state(CONFIG).values["messages"]
        assert sent(messages) == ["human: Go.", "ai: ", "tool: y", "ai: Done.", "ai: Z."]

    def test_may_end_its_caller_with_its_result(self, drive: Drive) -> None:
        after = scripted("Z.")
        writer = asking(
            "writer",
            echo("search"),
            calling("search/a"),
            return_directly=["search"],
            output_key="found",
        )
        tree = ag.sequential("s", [writer, ag.chat_agent("z", after, instruction="{found}")])
        assert lines(drive.run(ag.Runner(tree), "Go.")) == [
            "s/writer/search: search(a)",
            "s/writer: search(a)",
            "s/writer/z: Z.",
        ]
        assert after.inputs[0][0] == SystemMessage("search(a)")


class TestAnyAgent:
    def test_may_be_a_chat_agent_with_tools(self, drive: Drive) -> None:
        def weather(request: str) -> str:
            """Tells the weather."""
            return f"Rain in {request}."

        inner = chat("search", calling("weather/Rome"), "It rains.", tools=[weather])
        tree = asking("writer", inner, calling("search/a"), "Done.")
        assert transcript(drive.run(ag.Runner(tree), "Go."))[1:] == [
            'writer/search: [calls] weather({"request": "Rome"})',
            "writer/search: Rain in Rome.",
            "writer/search: It rains.",
            "writer: It rains.",
            "writer: Done.",
        ]

    def test_may_be_a_parallel(self, drive: Drive) -> None:
        inner = ag.parallel("search", [echo("a"), echo("b")])
        events = list(
            drive.run(ag.Runner(asking("writer", inner, calling("search/x"), "Done.")), "Go.")
        )
        assert set(visits(events)) == {
            ("writer", "writer"),
            ("writer/search(0)/a", "writer/search/a"),
            ("writer/search(0)/b", "writer/search/b"),
        }
        assert lines(events)[-2:] == ["writer: b(x)", "writer: Done."]

    def test_has_no_way_to_transfer_to_its_caller(self) -> None:
        inner = scripted("Done.")
        tool = ag.agent_tool(ag.chat_agent("search", inner))
        list(ag.Runner(chat("writer", calling("search/x"), "Done.", tools=[tool])).run("Go."))
        assert inner.tools == []

    @pytest.mark.parametrize("name", ["tools", "call", "approve"])
    def test_may_have_the_name_of_a_node_of_its_caller(self, disk: Disk, name: str) -> None:
        model = scripted(calling(f"{name}/x"), "Done.")

        def tree() -> ag.Agent:
            inner = ag.sequential(name, [ag.human("boss", "Well?"), says("z")])
            return ag.chat_agent("writer", model, tools=[ag.agent_tool(inner)])

        assert lines(disk.run(tree())) == [f"writer/{name}/boss: [asks] Well?"]
        assert lines(disk.resume(tree(), {f"writer/{name}(0)/boss": "Yes."})) == [
            f"writer/{name}/boss: Yes.",
            f"writer/{name}/boss/z: z",
            "writer: z",
            "writer: Done.",
        ]


def nested(*responses: Any) -> tuple[ag.Agent, list[ScriptedChatModel]]:
    """Return three chat agents, each a tool of the one before, the last with `responses`."""
    models = [
        scripted(calling("middle/x"), "Outer."),
        scripted(calling("inner/y"), "Middle."),
        scripted(*responses),
    ]
    inner = ag.chat_agent("inner", models[2])
    middle = ag.chat_agent("middle", models[1], tools=[ag.agent_tool(inner)])
    return ag.chat_agent("outer", models[0], tools=[ag.agent_tool(middle)]), models


class TestThreeDeep:
    def test_fails_with_the_address_of_the_innermost(self, drive: Drive) -> None:
        tree, _ = nested(ConnectionError("down"))
        events = list(drive.run(ag.Runner(tree), "Go."))
        (failed,) = [event for event in events if event.kind == "error"]
        assert (failed.agent_name, failed.address) == ("inner", "outer/middle(0)/inner(0)")
        assert str(failed.run_path) == "outer/middle/inner"


class TestEvents:
    def test_of_several_calls_have_addresses_of_their_own(self, drive: Drive) -> None:
        writer = asking(
            "writer",
            says("search", "Looking.", "Found."),
            calling("search/a", "search/b"),
            calling("search/c"),
            "Done.",
        )
        events = list(drive.run(ag.Runner(writer), "Go."))
        told = [(e.address, e.text) for e in events if e.agent_name == "search"]
        assert sorted(told) == [
            ("writer/search(0)", "Found."),
            ("writer/search(0)", "Looking."),
            ("writer/search(1)", "Found."),
            ("writer/search(1)", "Looking."),
            ("writer/search(2)", "Found."),
            ("writer/search(2)", "Looking."),
        ]

    def test_are_told_live(self, drive: Drive) -> None:
        goes_on = threading.Event()

        def fn(ctx: ag.Context) -> Iterator[str]:
            yield "First."
            assert goes_on.wait(20)
            yield "Second."

        writer = asking("writer", ag.function_agent("search", fn), calling("search/a"), "Done.")
        told = []
        for event in drive.run(ag.Runner(writer), "Go."):
            told.append(event.text)
            if event.text == "First.":
                goes_on.set()
        assert told == ["", "First.", "Second.", "Second.", "Done."]

    def test_of_calls_run_at_the_same_time(self, drive: Drive) -> None:
        both = threading.Barrier(2, timeout=20)

        def fn(ctx: ag.Context) -> str:
            both.wait()
            return ctx.address

        writer = asking("writer", ag.function_agent("f", fn), calling("f/a", "f/b"), "Done.")
        told = [e.text for e in drive.run(ag.Runner(writer), "Go.") if e.agent_name == "f"]
        assert sorted(told) == ["writer/f(0)", "writer/f(1)"]

    def test_of_calls_in_their_order_come_in_it(self, drive: Drive) -> None:
        def fn(ctx: ag.Context) -> Iterator[str]:
            yield f"{ctx.address} one"
            yield f"{ctx.address} two"

        writer = asking(
            "writer",
            ag.function_agent("f", fn),
            calling("f/a", "f/b"),
            "Done.",
            parallel_tools=False,
        )
        told = [e.text for e in drive.run(ag.Runner(writer), "Go.") if e.agent_name == "f"]
        assert told == ["writer/f(0) one", "writer/f(0) two", "writer/f(1) one", "writer/f(1) two"]

    def test_begin_anew_in_each_iteration_and_turn(self, drive: Drive) -> None:
        writer = asking("writer", echo("f"), *[calling("f/a"), "Done."] * 4)
        runner = ag.Runner(ag.loop("l", [writer], max_iterations=2))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        assert visits(e for e in events if e.agent_name == "f") == [
            ("l[0]/writer/f(0)", "l/writer/f"),
            ("l[1]/writer/f(0)", "l/writer/writer/f"),
        ]
        again = list(drive.run(runner, "Again.", thread_id="t"))
        assert visits(again) == visits(events)
        assert list(runner.events("t")) == standing([*events, *again])

    def test_are_the_same_from_the_thread_and_from_a_bare_graph(self) -> None:
        def tree() -> ag.Agent:
            inner = ag.sequential("search", [says("a", "One.", "Two."), chat("b", "B.", "B.")])
            script = [calling("search/x"), calling("search/y", text="Again."), "Done."]
            return ag.sequential("s", [asking("writer", inner, *script), says("z")])

        runner = ag.Runner(tree())
        events = list(runner.run("Go.", thread_id="t"))
        assert list(runner.events("t")) == standing(events)
        assert transcript(runner.events("t")) == transcript(events)

        graph = ag.compile_agent(tree(), checkpointer=InMemorySaver())
        modes = list(ag.STREAM_MODES)
        parts = graph.stream(
            {"messages": ["Go."]}, CONFIG, stream_mode=modes, subgraphs=True, version="v2"
        )
        assert transcript(ag.translate(tree(), parts)) == transcript(events)

    def test_of_an_async_bare_graph_are_the_same(self) -> None:
        def tree() -> ag.Agent:
            return asking("writer", says("search", "One.", "Two."), calling("search/x"), "Done.")

        async def main() -> list[str]:
            graph = ag.compile_agent(tree())
            modes = list(ag.STREAM_MODES)
            parts = graph.astream(
                {"messages": ["Go."]}, stream_mode=modes, subgraphs=True, version="v2"
            )
            return transcript([event async for event in ag.atranslate(tree(), parts)])

        assert asyncio.run(main()) == transcript(ag.Runner(tree()).run("Go."))

    def test_have_paths_that_the_thread_finds_again(self) -> None:
        tree, _ = nested("Inner.")
        runner = ag.Runner(tree)
        events = list(runner.run("Go.", thread_id="t"))
        assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events
        assert list(runner.events("t")) == standing(events)


class TestControl:
    def test_a_break_tool_inside_without_a_loop_of_its_own_is_a_fault(self) -> None:
        inner = chat("search", break_tool=True)
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(ag.loop("l", [asking("writer", inner)], max_iterations=2))
        assert str(caught.value) == (
            "l/writer/search: break_tool=True needs an enclosing loop; leave it out"
        )


class TestQuestions:
    def test_of_several_calls_are_put_at_once_and_answered_in_any_order(self, disk: Disk) -> None:
        asked: list[tuple[str, bool]] = []
        model = scripted(calling("f/a", "f/b", "f/c"), "Done.")

        def tree() -> ag.Agent:
            def fn(ctx: ag.Context) -> Iterator[str | ag.Ask]:
                asked.append((ctx.address, ctx.answered))
                request = next(m for m in ctx.messages if m.type == "human").text
                if not ctx.answered:
                    yield f"Before {request}."
                    yield ag.Ask(f"{request}?")
                else:
                    yield f"{request}: {ctx.answer}"

            inner = ag.function_agent("f", fn)
            writer = ag.chat_agent("writer", model, tools=[ag.agent_tool(inner)])
            return ag.sequential("s", [writer, says("z")])

        first = disk.run(tree())
        assert set(lines(first)) == {
            *[f"s/writer/f: Before {each}." for each in "abc"],
            *[f"s/writer/f: [asks] {each}?" for each in "abc"],
        }
        second = disk.resume(tree(), {"s/writer/f(1)": "two"})
        assert set(lines(second)) - {"s/writer/f: [discarded]"} == {
            "s/writer/f: b: two",
            "s/writer: b: two",
            "s/writer/f: [asks] a?",
            "s/writer/f: [asks] c?",
        }
        third = disk.resume(tree(), {"s/writer/f(2)": "three", "s/writer/f(0)": None})
        assert set(lines(third)[:-2]) == {
            "s/writer/f: a: None",
            "s/writer: a: None",
            "s/writer/f: c: three",
            "s/writer: c: three",
        }
        assert lines(third)[-2:] == ["s/writer: Done.", "s/writer/z: z"]
        assert sorted(asked) == [(f"s/writer/f({i})", done) for i in range(3) for done in (False, True)]
        assert sent(model.inputs[1])[-3:] == ["tool: a: None", "tool: b: two", "tool: c: three"]
        assert disk.events(tree()) == standing([*first, *second, *third])

    def test_are_answered_without_repeating_finished_calls_beside_them(self, disk: Disk) -> None:
        called: list[str] = []
        inner = scripted("Found.")
        model = scripted(calling("search/x", "note/y", "boss/z"), "Done.")

        def tree() -> ag.Agent:
            def note(request: str) -> str:
                """Notes."""
                called.append(request)
                return "Noted."

            search = ag.agent_tool(ag.chat_agent("search", inner))
            boss = ag.agent_tool(ag.human("boss", "Well?"))
            return ag.chat_agent("writer", model, tools=[search, note, boss])

        first = disk.run(tree())
        assert set(lines(first)) == {
            "writer/search: Found.",
            "writer: Found.",
            "writer: Noted.",
            "writer/boss: [asks] Well?",
        }
        second = disk.resume(tree(), "Yes.")
        assert lines(second) == ["writer/boss: Yes.", "writer: Yes.", "writer: Done."]
        assert (called, len(inner.inputs)) == (["y"], 1)
        assert disk.events(tree()) == standing([*first, *second])

    def test_inside_a_parallel_inside_are_answered_apart(self, disk: Disk) -> None:
        model = scripted(calling("ask/x"), "Done.")

        def tree() -> ag.Agent:
            inner = ag.parallel(
                "ask", [ag.human("a", "A?"), ag.sequential("q", [ag.human("b", "B?"), says("c")])]
            )
            return ag.chat_agent("writer", model, tools=[ag.agent_tool(inner)])

        assert set(lines(disk.run(tree()))) == {"writer/ask/a: [asks] A?", "writer/ask/q/b: [asks] B?"}
        told = disk.resume(tree(), {"writer/ask(0)/q/b": "two"})
        assert set(lines(told)) == {
            "writer/ask/q/b: two",
            "writer/ask/q/b/c: c",
            "writer/ask/a: [discarded]",
            "writer/ask/a: [asks] A?",
        }
        assert lines(disk.resume(tree(), "one")) == [
            "writer/ask/a: one",
            "writer: c",
            "writer: Done.",
        ]

    def test_of_callers_in_branches_and_loops_are_answered_apart(self, disk: Disk) -> None:
        models = {name: scripted(*[calling("ask/x"), "Done."] * 2) for name in "ab"}

        def tree() -> ag.Agent:
            ask = ag.agent_tool(ag.sequential("ask", [says("f"), ag.human("boss", "Well?")]))
            writers = [ag.chat_agent(name, models[name], tools=[ask]) for name in "ab"]
            return ag.loop("l", [ag.parallel("p", writers)], max_iterations=2)

        told = disk.run(tree())
        for iteration in (0, 1):
            addresses = [e.address for e in told if e.kind == "interrupted"]
            assert sorted(addresses) == [f"l[{iteration}]/p/{name}/ask(0)/boss" for name in "ab"]
            told = disk.resume(tree(), {f"l[{iteration}]/p/b/ask(0)/boss": "b"})
            again = [e.address for e in told if e.kind == "interrupted"]
            assert again == [f"l[{iteration}]/p/a/ask(0)/boss"]
            told = disk.resume(tree(), {f"l[{iteration}]/p/a/ask(0)/boss": "a"})
        assert [len(model.inputs) for model in models.values()] == [4, 4]
        assert disk.events(tree()) == standing(disk.told)

    def test_of_an_approval_inside_are_answered(self, disk: Disk) -> None:
        sold: list[str] = []
        inner = scripted(calling("sell/bees"), "Sold them.")
        model = scripted(calling("seller/x"), "Done.")

        def tree() -> ag.Agent:
            def sell(request: str) -> str:
                """Sells."""
                sold.append(request)
                return f"Sold {request}."

            seller = ag.chat_agent("seller", inner, tools=[sell], approve=["sell"])
            return ag.chat_agent("writer", model, tools=[ag.agent_tool(seller)])

        (asked,) = [e.action for e in disk.run(tree()) if e.kind == "interrupted"]
        assert asked is not None
        assert asked.interrupted is not None
        assert asked.interrupted.address == "writer/seller(0)"
        told = disk.resume(tree(), {"writer/seller(0)": {"decisions": [{"type": "approve"}]}})
        assert lines(told) == [
            "writer/seller: Sold bees.",
            "writer/seller: Sold them.",
            "writer: Sold them.",
            "writer: Done.",
        ]
        assert sold == ["bees"]

    def test_of_a_tool_inside_are_answered(self, disk: Disk) -> None:
        inner = scripted(calling("ask_boss"), "The boss agrees.")
        model = scripted(calling("search/x"), "Done.")

        def tree() -> ag.Agent:
            def ask_boss() -> str:
                """Asks the boss."""
                return f"The boss: {interrupt('Well?')}"

            search = ag.chat_agent("search", inner, tools=[ask_boss])
            return ag.chat_agent("writer", model, tools=[ag.agent_tool(search)])

        assert lines(disk.run(tree())) == ["writer/search: [asks] Well?"]
        assert lines(disk.resume(tree(), {"writer/search(0)": "yes"})) == [
            "writer/search: The boss: yes",
            "writer/search: The boss agrees.",
            "writer: The boss agrees.",
            "writer: Done.",
        ]

    def test_that_do_not_fit_are_refused_before_anything_runs(self, disk: Disk) -> None:
        model = scripted(calling("boss/x"), "Done.")
        boss = ag.human("boss", "How many?", response_schema=int)
        tree = ag.chat_agent("writer", model, tools=[ag.agent_tool(boss)])
        disk.run(tree)
        with pytest.raises(ag.InvalidAnswerError, match=r"the answer 'many' to writer/boss\(0\)"):
            disk.resume(tree, "many")
        with pytest.raises(ag.UnknownInterruptError, match=r"writer/boss\(1\)"):
            disk.resume(tree, {"writer/boss(1)": 1})
        assert lines(disk.resume(tree, 3))[0] == "writer/boss: 3"


class TestAFailure:
    def test_goes_to_the_model_and_is_told(self, drive: Drive) -> None:
        model = scripted(calling("search/x"), "Sorry.")
        inner = ag.sequential("search", [says("a"), chat("b", ConnectionError("down"))])
        runner = ag.Runner(ag.chat_agent("writer", model, tools=[ag.agent_tool(inner)]))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        assert lines(events)[:2] == [
            "writer/search/a: a",
            "writer/search/a/b: [error] ConnectionError('down')",
        ]
        assert lines(events)[-1] == "writer: Sorry."
        (failed,) = [event for event in events if event.kind == "error"]
        assert (failed.agent_name, failed.address) == ("b", "writer/search(0)/b")
        result = model.inputs[1][-1]
        assert isinstance(result, ToolMessage)
        assert result.status == "error"
        assert result.text == "Error: ConnectionError('down')\n Please fix your mistakes."
        assert list(runner.events("t")) == standing(events)

    def test_beside_another_call_lets_that_finish(self, drive: Drive) -> None:
        model = scripted(calling("bad/x", "good/y"), "Done.")
        tools = [ag.agent_tool(chat("bad", OSError("out"))), ag.agent_tool(echo("good"))]
        tree = ag.chat_agent("writer", model, tools=tools)
        told = lines(drive.run(ag.Runner(tree), "Go."))
        assert "writer/bad: [error] OSError('out')" in told
        assert "writer/good: good(y)" in told
        assert [m.text for m in model.inputs[1][-1:]] == ["good(y)"]

    def test_fails_the_run_and_is_tried_again(self, disk: Disk) -> None:
        calls: list[str] = []
        models = [scripted(calling("search/x"), "Done."), scripted(ConnectionError("down"), "Better.")]

        def tree() -> ag.Agent:
            def f(ctx: ag.Context) -> str:
                calls.append(ctx.address)
                return "f"

            steps = [ag.function_agent("f", f), ag.chat_agent("b", models[1])]
            tools = [ag.agent_tool(ag.sequential("search", steps))]
            return ag.chat_agent("writer", models[0], tools=tools, on_tool_error="raise")

        first = disk.fail(tree(), "run", ConnectionError)
        assert lines(first) == [
            "writer/search/f: f",
            "writer/search/f/b: [error] ConnectionError('down')",
        ]
        second = disk.resume(tree())
        assert lines(second) == ["writer/search/f/b: Better.", "writer: Better.", "writer: Done."]
        assert calls == ["writer/search(0)/f"]
        assert [len(model.inputs) for model in models] == [2, 2]
        assert disk.events(tree()) == standing([*first, *second])

    def test_beside_a_finished_call_runs_that_only_once(self, disk: Disk) -> None:
        model = scripted(calling("good/y", "bad/x"), "Done.")
        good, bad = scripted("Good."), scripted(OSError("out"), OSError("again"), "Better.")

        def tree() -> ag.Agent:
            tools = [
                ag.agent_tool(ag.chat_agent("good", good)),
                ag.agent_tool(ag.chat_agent("bad", bad)),
            ]
            return ag.chat_agent(
                "writer", model, tools=tools, on_tool_error="raise", parallel_tools=False
            )

        assert lines(disk.fail(tree(), "run", OSError)) == [
            "writer/good: Good.",
            "writer: Good.",
            "writer/bad: [error] OSError('out')",
        ]
        assert lines(disk.fail(tree(), "resume", OSError)) == ["writer/bad: [error] OSError('again')"]
        assert lines(disk.resume(tree())) == ["writer/bad: Better.", "writer: Better.", "writer: Done."]
        assert (len(good.inputs), len(bad.inputs), len(model.inputs)) == (1, 3, 2)

    def test_beside_a_question_leaves_that_to_be_answered(self, disk: Disk) -> None:
        model = scripted(calling("bad/x", "boss/y"), "Done.")
        bad = scripted(OSError("out"), "Better.")

        def tree() -> ag.Agent:
            boss = ag.sequential("boss", [ag.human("h", "Well?"), says("z")])
            tools = [ag.agent_tool(ag.chat_agent("bad", bad)), ag.agent_tool(boss)]
            return ag.chat_agent("writer", model, tools=tools, on_tool_error="raise")

        asked = "writer/boss/h: [asks] Well?" in lines(disk.fail(tree(), "run", OSError))
        assert set(lines(disk.resume(tree()))) == {
            "writer/bad: Better.",
            "writer: Better.",
            *["writer/boss/h: [discarded]"] * asked,
            "writer/boss/h: [asks] Well?",
        }
        assert lines(disk.resume(tree(), {"writer/boss(1)/h": "Yes."})) == [
            "writer/boss/h: Yes.",
            "writer/boss/h/z: z",
            "writer: z",
            "writer: Done.",
        ]
        assert (len(bad.inputs), len(model.inputs)) == (2, 2)

    def test_of_a_bound_of_model_calls_is_told(self, drive: Drive) -> None:
        def again(request: str) -> str:
            """Does it again."""
            return "Again."

        inner = chat("search", calling("again/x"), max_iterations=1, tools=[again])
        tree = asking("writer", inner, calling("search/x"), on_tool_error="raise")
        events, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.MaxIterationsError)
        assert str(raised).startswith("writer/search(0): the model was asked 1 time")
        assert lines(events)[-1] == f"writer/search: [error] {raised!r}"


class TestTheDrawing:
    def test_has_the_agent_inside_its_caller(self) -> None:
        inner = ag.sequential("search", [says("a"), says("b")])
        graph = ag.compile_agent(ag.sequential("s", [asking("writer", inner), says("z")]))
        flat = {(e.source, e.target) for e in graph.get_graph().edges}
        assert flat == {
            ("__start__", "writer"),
            ("writer", "writer.tools"),
            ("writer", "z"),
            ("writer.tools", "writer"),
            ("z", "__end__"),
        }
        deep = {(e.source, e.target) for e in graph.get_graph(xray=True).edges}
        assert {
            ("writer.tools:search:a", "writer.tools:search:b"),
            ("writer", "writer.tools:__start__"),
            ("writer.tools:__end__", "writer"),
        } <= deep

    def test_has_a_leaf_as_a_single_node_and_other_tools_as_one(self) -> None:
        def note(request: str) -> str:
            """Notes."""
            return "Noted."

        graph = ag.compile_agent(chat("writer", tools=[ag.agent_tool(echo("search")), note]))
        nodes = set(graph.get_graph(xray=True).nodes)
        assert {"writer.tools:search", "writer.tools:writer.call"} <= nodes

    def test_has_every_depth(self) -> None:
        tree, _ = nested("Inner.")
        nodes = set(ag.compile_agent(tree).get_graph(xray=True).nodes)
        assert "outer.tools:middle:middle.tools:inner" in nodes

    def test_is_a_tree_in_words(self) -> None:
        tree, _ = nested()
        assert tree_lines(tree) == ["outer (chat)", "└─ middle (chat)", "   └─ inner (chat)"]


class TestTheState:
    def paused(self) -> ag.Runner:
        inner = ag.sequential("search", [says("a"), ag.human("boss", "Well?")])
        runner = ag.Runner(asking("writer", inner, calling("search/x"), "Done."))
        list(runner.run("Go.", thread_id="t"))
        return runner

    def test_of_a_paused_agent_is_found_by_its_namespace(self) -> None:
        runner = self.paused()
        (namespace,) = {
            saved.config["configurable"]["checkpoint_ns"]
            for saved in runner.saver.list(CONFIG)
            if "|search:" in saved.config["configurable"]["checkpoint_ns"]
        }
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}
        state = runner.graph.get_state(config)
        assert state.next == ("boss",)
        assert [message.text for message in state.values["messages"]] == ["a"]

    def test_is_resumed_by_a_plain_command(self) -> None:
        runner = self.paused()
        state = runner.graph.invoke(Command(resume="Yes."), CONFIG)
        assert [message.text for message in state["messages"]][-2:] == ["Yes.", "Done."]


def test_a_coroutine_inside_runs_with_the_async_methods_and_the_sync_ones(drive: Drive) -> None:
    async def fn(ctx: ag.Context) -> str:
        await asyncio.sleep(0)
        return "Slept."

    tree = asking("writer", ag.function_agent("f", fn), calling("f/x", "f/y"), "Done.")
    assert lines(drive.run(ag.Runner(tree), "Go.")).count("writer/f: Slept.") == 2


def test_forty_calls_at_once_each_run_once(drive: Drive) -> None:
    writer = asking("writer", echo("f"), calling(*[f"f/{i}" for i in range(40)]), "Done.")
    events = list(drive.run(ag.Runner(writer), "Go."))
    assert sorted(e.text for e in events if e.agent_name == "f") == sorted(f"f({i})" for i in range(40))
