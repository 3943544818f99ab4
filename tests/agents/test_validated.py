"""Checked agents: what a check may say, what the next attempt sees, where attempts are told."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from helpers import Disk, Drive, failing, gives, says, scripted, visits
from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.errors import CheckFailedError
from agentgraph.show.lines import tree_lines
from agentgraph.testing import call, calls, transcript


class Bees(BaseModel):
    number: int


SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def is_yes(text: str) -> str | None:
    return None if text == "yes" else f"{text!r} is not yes"


def wrong(fault: str) -> str:
    return f"This did not pass a check: {fault}\nDo it again, with that put right."


NOT_YES = wrong("'no' is not yes")


def checked(agent: ag.Agent | None = None, check: Any = is_yes, **options: Any) -> Any:
    return ag.validated(agent or says("w", "no", "yes"), check, **options)


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


class TestAnAttempt:
    def test_that_passes_is_all_there_is(self, drive: Drive) -> None:
        tree = ag.sequential("s", [checked(says("w", "yes")), says("z")])
        assert transcript(drive.run(ag.Runner(tree), "Go.")) == ["s/w: yes", "s/w/z: z"]

    def test_that_does_not_pass_is_followed_by_another(self, drive: Drive) -> None:
        tree = ag.sequential("s", [checked(), says("z")])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert transcript(events) == [
            "s/w: no",
            f"s/w: {NOT_YES}",
            "s/w/w: yes",
            "s/w/z: z",
        ]
        assert [event.address for event in events] == ["s/w", "s/w", "s/w{1}", "s/z"]
        assert {event.agent_name for event in events} == {"w", "z"}

    @pytest.mark.parametrize("history", ["shared", "own", "path"])
    def test_sees_what_was_wrong_with_the_one_before(self, drive: Drive, history: Any) -> None:
        model = scripted("no", "yes")
        tree = checked(ag.chat_agent("w", model, history=history))
        list(drive.run(ag.Runner(ag.sequential("s", [says("x"), tree])), "Go."))
        other = [] if history == "own" else ["human: [x] said: x"]
        assert sent(model.inputs[1]) == ["human: Go.", *other, "ai: no", f"human: {NOT_YES}"]

    def test_sees_all_that_was_wrong(self, drive: Drive) -> None:
        model = scripted("a", "b", "yes")
        list(drive.run(ag.Runner(checked(ag.chat_agent("w", model))), "Go."))
        assert sent(model.inputs[2])[1:] == [
            "ai: a",
            f"human: {wrong(repr('a') + ' is not yes')}",
            "ai: b",
            f"human: {wrong(repr('b') + ' is not yes')}",
        ]

    def test_of_others_is_seen_by_those_that_follow(self, drive: Drive) -> None:
        model = scripted("Done.")
        list(drive.run(ag.Runner(ag.sequential("s", [checked(), ag.chat_agent("z", model)])), "Go."))
        assert sent(model.inputs[0]) == [
            "human: Go.",
            "human: [w] said: no",
            f"human: [w] said: {NOT_YES}",
            "human: [w] said: yes",
        ]

    def test_writes_its_value_again(self, drive: Drive) -> None:
        model = scripted("no", "yes")
        tree = checked(ag.chat_agent("w", model, output_key="found"))
        look = ag.function_agent("z", lambda ctx: str(ctx.values["found"]))
        assert list(drive.run(ag.Runner(ag.sequential("s", [tree, look])), "Go."))[-1].text == "yes"

    def test_is_the_same_from_the_thread(self, drive: Drive) -> None:
        runner = ag.Runner(ag.sequential("s", [checked(), says("z")]))
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert list(runner.events("t")) == [event for event in events if not event.partial]

    def test_is_counted_anew_in_a_second_turn(self, drive: Drive) -> None:
        runner = ag.Runner(checked(says("w", "no", "no", "yes", "no", "no", "yes")))
        for text in ("Go.", "Again."):
            told = visits(drive.run(runner, text, thread_id="t"))
            assert told == [("w", "w"), ("w{1}", "w/w"), ("w{2}", "w/w/w")]

    def test_is_counted_anew_in_each_iteration(self, drive: Drive) -> None:
        tree = ag.loop("l", [checked(says("w", "no", "yes", "no", "yes"))], max_iterations=2)
        assert visits(drive.run(ag.Runner(tree), "Go.")) == [
            ("l[0]/w", "l/w"),
            ("l[0]/w{1}", "l/w/w"),
            ("l[1]/w", "l/w/w"),
            ("l[1]/w{1}", "l/w/w/w"),
        ]


class TestACheck:
    @pytest.mark.parametrize("found", [None, True])
    def test_says_that_all_is_well(self, drive: Drive, found: Any) -> None:
        tree = checked(says("w"), lambda text: found)
        assert transcript(drive.run(ag.Runner(tree), "Go.")) == ["w: w"]

    @pytest.mark.parametrize(
        ("found", "fault"),
        [
            ("too short", "too short"),
            (False, "it was refused, without a reason"),
            ("", "it was refused, without a reason"),
            (["a", "b"], "['a', 'b']"),
        ],
    )
    def test_says_what_is_wrong(self, drive: Drive, found: Any, fault: str) -> None:
        tree = checked(says("w", "no", "yes"), lambda text: text == "yes" or found)
        told = [event.text for event in drive.run(ag.Runner(tree), "Go.")]
        assert told == ["no", wrong(fault), "yes"]

    @pytest.mark.parametrize(
        ("error", "fault"),
        [
            (ValueError("too short"), "too short"),
            (AssertionError("too long"), "too long"),
            (AssertionError(), "AssertionError()"),
        ],
    )
    def test_may_raise_what_is_wrong(self, drive: Drive, error: Exception, fault: str) -> None:
        def check(text: str) -> None:
            if text == "no":
                raise error

        told = [event.text for event in drive.run(ag.Runner(checked(check=check)), "Go.")]
        assert told == ["no", wrong(fault), "yes"]

    def test_may_take_a_context(self, drive: Drive) -> None:
        seen: list[Any] = []

        def check(ctx: ag.Context, text: str) -> bool:
            seen.append((ctx.name, ctx.address, str(ctx.run_path), ctx.values["topic"], text))
            return text == "yes"

        tree = ag.sequential("s", [checked(check=check)])
        list(drive.run(ag.Runner(tree), "Go.", values={"topic": "bees"}))
        assert seen == [
            ("w", "s/w", "s/w", "bees", "no"),
            ("w", "s/w{1}", "s/w/w", "bees", "yes"),
        ]

    def test_finds_the_values_that_the_agent_wrote(self, drive: Drive) -> None:
        def check(ctx: ag.Context, text: str) -> bool:
            return bool(ctx.values["found"] == text == "yes")

        tree = checked(ag.chat_agent("w", scripted("no", "yes"), output_key="found"), check)
        assert list(drive.run(ag.Runner(tree), "Go."))[-1].text == "yes"

    @pytest.mark.parametrize("check", [Bees, SCHEMA, dict[str, int]])
    def test_may_be_a_type_or_a_schema(self, drive: Drive, check: Any) -> None:
        model = scripted("three", '{"number": "many"}', '```json\n{"number": 3}\n```')
        events = list(drive.run(ag.Runner(checked(ag.chat_agent("w", model), check)), "Go."))
        said = [event.text for event in events]
        assert said[0::2] == ["three", '{"number": "many"}', '```json\n{"number": 3}\n```']
        assert all(text.startswith("This did not pass a check: ") for text in said[1::2])
        assert "number" in said[3]
        assert events[-1].address == "w{2}"

    def test_is_asked_about_an_empty_text_where_nothing_was_said(self, drive: Drive) -> None:
        texts: list[str] = []

        def check(text: str) -> bool:
            texts.append(text)
            return text == "yes"

        tree = checked(gives("w", None, "yes"), check)
        list(drive.run(ag.Runner(ag.sequential("s", [says("x"), tree])), "Go."))
        assert texts == ["", "yes"]

    def test_is_asked_once_for_each_attempt(self, disk: Disk) -> None:
        texts: list[str] = []

        def check(text: str) -> bool:
            texts.append(text)
            return text == "yes"

        steps = [says("a"), ag.human("h", "Well?")]
        tree = ag.sequential("s", [checked(ag.sequential("w", steps), check), ag.human("z", "And?")])
        disk.run(tree)
        disk.resume(tree, "no")
        disk.resume(tree, "yes")
        disk.resume(tree, "Fine.")
        assert texts == ["no", "yes"]


class TestTooManyAttempts:
    def test_fail_with_the_last_fault(self, drive: Drive) -> None:
        tree = ag.sequential("s", [checked(says("w", "a", "b", "c"))])
        told, raised = failing(drive.run(ag.Runner(tree), "Go."), CheckFailedError)
        message = (
            "s/w{2}: what it said failed its check in all of 3 attempts; the last fault: 'c' is not yes"
        )
        assert str(raised) == message
        assert told[-1].error == repr(raised)
        assert (told[-1].agent_name, told[-1].address) == ("w", "s/w{2}")
        assert [event.text for event in told if event.kind == "message"] == [
            "a",
            wrong("'a' is not yes"),
            "b",
            wrong("'b' is not yes"),
            "c",
        ]

    def test_are_one_where_one_is_allowed(self, drive: Drive) -> None:
        tree = checked(says("w", "no"), max_attempts=1)
        told, raised = failing(drive.run(ag.Runner(tree), "Go."), CheckFailedError)
        assert str(raised) == (
            "w: what it said failed its check in all of 1 attempts; the last fault: 'no' is not yes"
        )
        assert transcript(told) == ["w: no", f"w: [error] {raised!r}"]

    def test_may_be_five(self, drive: Drive) -> None:
        tree = checked(says("w", *["no"] * 4, "yes"), max_attempts=5)
        assert visits(drive.run(ag.Runner(tree), "Go."))[-1] == ("w{4}", "w/w/w/w/w")

    def test_are_followed_by_one_more_when_resumed(self, disk: Disk) -> None:
        model = scripted("a", "b", "c", "yes")
        tree = ag.sequential("s", [says("x"), checked(ag.chat_agent("w", model)), says("z")])
        disk.fail(tree, "run", CheckFailedError)
        refused = wrong("'c' is not yes")
        assert transcript(disk.resume(tree)) == [
            f"s/x/w/w/w: {refused}",
            "s/x/w/w/w/w: yes",
            "s/x/w/z: z",
        ]
        assert sent(model.inputs[3])[-2:] == ["ai: c", f"human: {refused}"]

    def test_are_followed_by_one_more_at_each_resume(self, disk: Disk) -> None:
        tree = checked(says("w", "a", "b", "yes"), max_attempts=1)
        disk.fail(tree, "run", CheckFailedError)
        disk.fail(tree, "resume", CheckFailedError)
        assert [event.text for event in disk.resume(tree)] == [wrong("'b' is not yes"), "yes"]

    def test_are_no_end_for_a_text_that_passes_another_check(self, disk: Disk) -> None:
        model = scripted("no")
        agent = ag.chat_agent("w", model)
        disk.fail(checked(agent, max_attempts=1), "run", CheckFailedError)
        assert disk.resume(checked(agent, lambda text: True)) == []
        assert len(model.inputs) == 1

    def test_are_an_error_for_the_agent_around_a_tool(self, drive: Drive) -> None:
        model = scripted(calls(call("w", request="x")), "I cannot.")
        tree = ag.supervisor("S", model, [checked(says("w", "no"))])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert events[-1].text == "I cannot."
        assert "failed its check in all of 3 attempts" in str(model.inputs[1][-1].text)

    def test_are_kept_by_a_parallel_that_collects(self, drive: Drive) -> None:
        both = ag.parallel("p", [checked(says("w", "no")), says("b")], on_error="collect")
        events = list(drive.run(ag.Runner(ag.sequential("s", [both, says("z")])), "Go."))
        assert events[-1].text == "z"
        assert [event.address for event in events if event.kind == "error"] == ["s/p/w{2}"]


class TestAFault:
    @staticmethod
    def faults(tree: Any) -> tuple[str, ...]:
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(ag.sequential("s", [tree]))
        return caught.value.faults

    def test_is_an_async_check(self) -> None:
        async def check(text: str) -> None:
            return None

        assert self.faults(checked(check=check)) == (
            f"s/w: the check {check!r} is async; pass a sync function, or check in an agent in a loop",
        )

    def test_is_a_limit_of_none(self) -> None:
        assert self.faults(checked(max_attempts=None)) == (
            "s/w: max_attempts=None is not a limit; use a whole number from 1",
        )

    @pytest.mark.parametrize("limit", [0, -1, "x", True, 1.5])
    def test_is_another_limit_that_is_none(self, limit: Any) -> None:
        (fault,) = self.faults(checked(max_attempts=limit))
        assert fault.startswith(
            f"s/w: max_attempts={limit!r} is not a limit; use a whole number from 1"
        )
        assert "None" not in fault

    def test_is_a_schema_that_cannot_be_checked(self) -> None:
        (fault,) = self.faults(checked(check={"type": "object", "not": 5}))
        assert fault.startswith("s/w: the check ")
        assert "not: Input should be an object" in fault

    def test_is_a_check_that_is_neither(self) -> None:
        (fault,) = self.faults(checked(check="yes"))
        assert fault == (
            "s/w: the check 'yes' cannot be used; pass a type, a JSON schema, or a sync function of a "
            "text, or of a context and a text"
        )

    def test_is_no_check_at_all(self) -> None:
        (fault,) = self.faults(ag.validated(says("w"), None))  # type: ignore[arg-type]
        assert fault.startswith("s/w: ")

    @pytest.mark.parametrize("check", [lambda: None, lambda a, b, c: None])
    def test_is_a_check_of_too_few_or_too_many_arguments(self, check: Any) -> None:
        (fault,) = self.faults(checked(check=check))
        assert fault.startswith(f"s/w: the check {check!r} ")

    def test_is_what_is_no_agent(self) -> None:
        given: Any = 3
        assert self.faults(ag.validated(given, is_yes))[-1].endswith(
            "3 is not an agent; build one with chat_agent, human, sequential, ..."
        )

    def test_is_to_be_validated_twice(self) -> None:
        assert self.faults(checked(checked())) == (
            "s/w: it has two validated(...) checks; combine them into one",
        )

    def test_of_an_agent_inside_is_told_with_it(self) -> None:
        assert self.faults(checked(ag.sequential("q", []), max_attempts=None)) == (
            "s/q: max_attempts=None is not a limit; use a whole number from 1",
            "s/q: a sequential needs at least one sub-agent",
        )


class TestWhatIsChecked:
    def test_may_be_a_composite(self, drive: Drive) -> None:
        model = scripted("no", "yes")
        tree = checked(ag.sequential("q", [says("a"), ag.chat_agent("b", model)]))
        events = list(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert [(e.address, str(e.run_path)) for e in events] == [
            ("s/q/a", "s/q/a"),
            ("s/q/b", "s/q/a/b"),
            ("s/q", "s/q"),
            ("s/q{1}/a", "s/q/q/a"),
            ("s/q{1}/b", "s/q/q/a/b"),
            ("s/z", "s/q/z"),
        ]
        assert f"human: [q] said: {NOT_YES}" in sent(model.inputs[1])

    def test_may_be_a_parallel(self, drive: Drive) -> None:
        tree = checked(ag.parallel("p", [says("a"), says("b", "no", "yes")]))
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert sorted({event.address for event in events}) == [
            "p",
            "p/a",
            "p/b",
            "p{1}/a",
            "p{1}/b",
        ]
        assert [event.text for event in events if event.agent_name == "p"] == [NOT_YES]

    def test_may_be_a_workflow(self, drive: Drive) -> None:
        steps = [ag.step(says("a")), ag.step(says("b", "no", "yes"), depends_on=["a"])]
        events = list(drive.run(ag.Runner(checked(ag.workflow("f", steps))), "Go."))
        assert [event.address for event in events] == ["f/a", "f/b", "f", "f{1}/a", "f{1}/b"]

    def test_may_be_a_loop(self, drive: Drive) -> None:
        tree = checked(ag.loop("l", [says("a", "x", "no", "y", "yes")], max_iterations=2))
        assert visits(drive.run(ag.Runner(tree), "Go.")) == [
            ("l[0]/a", "l/a"),
            ("l[1]/a", "l/a/a"),
            ("l", "l"),
            ("l{1}[0]/a", "l/l/a"),
            ("l{1}[1]/a", "l/l/a/a"),
        ]

    def test_may_be_a_chat_agent_with_tools(self, drive: Drive) -> None:
        count: Counter[str] = Counter()

        def look() -> str:
            """Look."""
            count["look"] += 1
            return "seen"

        model = scripted(calls(call("look")), "no", calls(call("look")), "yes")
        tree = checked(ag.chat_agent("w", model, tools=[look], max_iterations=2))
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert [event.text for event in events if event.text] == ["seen", "no", NOT_YES, "seen", "yes"]
        assert sent(model.inputs[3])[1:] == [
            "ai: ",
            "tool: seen",
            "ai: no",
            f"human: {NOT_YES}",
            "ai: ",
            "tool: seen",
        ]
        assert count == Counter(look=2)

    def test_may_be_a_chat_agent_that_transfers(self, drive: Drive) -> None:
        model = scripted(calls(call("transfer_to_c")), calls(call("transfer_to_c")))
        tree = checked(ag.chat_agent("w", model, sub_agents=[says("c", "no", "yes")]))
        events = list(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        told = [(e.address, e.text) for e in events if e.agent_name == "c" or e.text == NOT_YES]
        assert (told[0], told[2]) == (("s/w[1]/c", "no"), ("s/w{1}[1]/c", "yes"))
        assert told[1][1] == NOT_YES
        assert (events[-1].address, str(events[-1].run_path)) == ("s/z", "s/w/z")

    def test_may_be_a_person(self, disk: Disk) -> None:
        tree = checked(ag.human("h", "Well?", output_key="found"))
        first = disk.run(tree)[-1].action.interrupted
        told = disk.resume(tree, "no")
        second = told[-1].action.interrupted
        assert transcript(told) == ["h: no", f"h: {NOT_YES}", "h/h: [asks] Well?"]
        assert (first.address, second.address) == ("h", "h{1}")
        assert first.id != second.id
        assert transcript(disk.resume(tree, "yes")) == ["h/h: yes"]
        assert disk.events(tree) == disk.told

    def test_may_be_a_graph(self, drive: Drive) -> None:
        left = ["no", "yes"]
        seen: list[list[str]] = []

        def node(state: MessagesState) -> dict[str, Any]:
            seen.append([str(message.text) for message in state["messages"]])
            return {"messages": [("ai", left.pop(0))]}

        builder = StateGraph(MessagesState)
        builder.add_node("n", node)
        builder.add_edge(START, "n")
        builder.add_edge("n", END)
        tree = checked(ag.graph_agent("g", builder.compile()))
        assert transcript(drive.run(ag.Runner(tree), "Go.")) == [
            "g: no",
            f"g: {NOT_YES}",
            "g/g: yes",
        ]
        assert seen == [["Go."], ["Go.", "no", NOT_YES]]

    def test_may_be_a_function_that_asks(self, disk: Disk) -> None:
        def fn(ctx: ag.Context) -> str | ag.Ask:
            return str(ctx.answer) if ctx.answered else ag.Ask("Well?")

        tree = checked(ag.function_agent("f", fn))
        disk.run(tree)
        disk.resume(tree, "no")
        assert transcript(disk.resume(tree, "yes")) == ["f/f: yes"]

    def test_is_shown_as_checked(self) -> None:
        tree = checked(ag.sequential("q", [says("a"), checked(says("b"))]))
        assert tree_lines(tree) == [
            "q (sequential, checked)",
            "├─ a (function)",
            "└─ b (function, checked)",
        ]

    def test_is_drawn_with_a_way_back(self) -> None:
        tree = ag.sequential("s", [checked(ag.sequential("q", [says("a"), says("b")])), says("z")])
        drawn = ag.compile_agent(tree).get_graph().edges
        assert {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in drawn} == {
            "__start__ -> a",
            "a -> b",
            "b .. a",
            "b .. z",
            "z -> __end__",
        }

    def test_may_hold_what_is_checked(self, drive: Drive) -> None:
        inner = checked(says("a", "no", "yes", "no", "yes"))
        tree = checked(ag.sequential("q", [inner, says("b", "maybe", "yes")]))
        assert visits(drive.run(ag.Runner(tree), "Go.")) == [
            ("q/a", "q/a"),
            ("q/a{1}", "q/a/a"),
            ("q/b", "q/a/b"),
            ("q", "q"),
            ("q{1}/a", "q/q/a"),
            ("q{1}/a{1}", "q/q/a/a"),
            ("q{1}/b", "q/q/a/b"),
        ]


class TestWhereItStands:
    @pytest.mark.parametrize(
        ("wrap", "addresses"),
        [
            (lambda w: w, ["w", "w{1}"]),
            (lambda w: ag.loop("l", [w], max_iterations=1), ["l[0]/w", "l[0]/w{1}"]),
            (lambda w: ag.parallel("p", [w, says("b")]), ["p/w", "p/w{1}"]),
            (lambda w: ag.workflow("f", [w]), ["f/w", "f/w{1}"]),
            (
                lambda w: ag.supervisor("S", scripted(calls(call("w", request="x")), "Done."), [w]),
                ["S/w(0)", "S/w(0){1}"],
            ),
            (
                lambda w: ag.chat_agent(
                    "S", scripted(calls(call("w", request="x")), "Done."), tools=[ag.agent_tool(w)]
                ),
                ["S/w(0)", "S/w(0){1}"],
            ),
            (
                lambda w: ag.supervisor(
                    "S", scripted(calls(call("transfer_to_w")), "Done."), [w], mode="handoff"
                ),
                ["S[1]/w", "S[1]/w{1}"],
            ),
            (
                lambda w: ag.chat_agent("S", scripted(calls(call("transfer_to_w"))), sub_agents=[w]),
                ["S[1]/w", "S[1]/w{1}"],
            ),
            (lambda w: ag.with_helpers(w, [says("h")]), ["w_with_helpers/w", "w_with_helpers/w{1}"]),
            (lambda w: ag.with_helpers(says("z"), [w]), None),
        ],
        ids=[
            "root",
            "loop",
            "branch",
            "step",
            "worker",
            "tool",
            "handed-over",
            "target",
            "helped",
            "helper",
        ],
    )
    def test_attempts_have_addresses_of_their_own(
        self, drive: Drive, wrap: Callable[[Any], Any], addresses: list[str] | None
    ) -> None:
        runner = ag.Runner(wrap(checked()))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        mine = [event for event in events if event.agent_name == "w"]
        assert [event.text for event in mine] == ["no", NOT_YES, "yes"]
        wanted = addresses or ["z_with_helpers/z_helpers/w", "z_with_helpers/z_helpers/w{1}"]
        assert list(dict.fromkeys(event.address for event in mine)) == wanted
        assert {e.id: e for e in runner.events("t")} == {e.id: e for e in events}

    def test_a_tool_gives_what_passed(self, drive: Drive) -> None:
        model = scripted(calls(call("w", request="x")), "Done.")
        list(drive.run(ag.Runner(ag.supervisor("S", model, [checked()])), "Go."))
        assert sent(model.inputs[1])[-1] == "tool: yes"

    def test_the_worker_hands_back_when_it_has_passed(self, drive: Drive) -> None:
        model = scripted(calls(call("transfer_to_w")), "Done.")
        tree = ag.supervisor("S", model, [checked()], mode="handoff")
        assert visits(drive.run(ag.Runner(tree), "Go.")) == [
            ("S", "S"),
            ("S[1]/w", "S/w"),
            ("S[1]/w{1}", "S/w/w"),
            ("S[1.0]", "S/w/S"),
        ]

    def test_a_step_gives_what_passed(self, drive: Drive) -> None:
        steps = [
            ag.step(checked()),
            ag.step(
                ag.function_agent("z", lambda ctx: str(ctx.messages[-1].text)),
                depends_on=["w"],
                input="Got ${results.w}.",
            ),
        ]
        assert list(drive.run(ag.Runner(ag.workflow("f", steps)), "Go."))[-1].text == "Got yes."

    def test_may_be_a_chain_of_many_in_one_tree(self, drive: Drive) -> None:
        inner = [checked(says(f"w{i}", "no", "yes")) for i in range(3)]
        events = list(drive.run(ag.Runner(ag.sequential("s", inner)), "Go."))
        assert [event.text for event in events] == ["no", NOT_YES, "yes"] * 3

    def test_the_same_agent_may_be_checked_in_two_places(self, drive: Drive) -> None:
        worker = checked(says("w", "no", "yes", "no", "yes"))
        events = list(drive.run(ag.Runner(ag.sequential("s", [worker, worker])), "Go."))
        assert list(dict.fromkeys(event.address for event in events)) == [
            "s/w",
            "s/w{1}",
            "s/w#2",
            "s/w#2{1}",
        ]


class TestASignalInside:
    def test_exits_without_a_check(self, drive: Drive) -> None:
        texts: list[str] = []
        steps = ag.sequential("q", [says("a"), gives("b", ag.Exit())])
        tree = ag.sequential("s", [checked(steps, texts.append), says("z")])
        assert transcript(drive.run(ag.Runner(tree), "Go.")) == ["s/q/a: a", "s/q/a/b: [exit]"]
        assert texts == []

    def test_breaks_the_loop_around_it_without_a_check(self, drive: Drive) -> None:
        texts: list[str] = []
        tree = ag.loop("l", [checked(gives("w", ag.BreakLoop()), texts.append)], max_iterations=5)
        told = transcript(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert told == ["s/l/w: [break_loop]", "s/l/z: z"]
        assert texts == []

    def test_breaks_nothing_where_no_loop_is_around_it_and_is_checked(self, drive: Drive) -> None:
        tree = ag.sequential("s", [checked(gives("w", ag.BreakLoop(), "yes")), says("z")])
        told = transcript(drive.run(ag.Runner(tree), "Go."))
        assert told[0] == "s/w: [break_loop]"
        assert told[-2:] == ["s/w/w: yes", "s/w/z: z"]

    def test_breaks_a_loop_inside_and_is_checked(self, drive: Drive) -> None:
        steps = ag.loop("l", [says("a", "no", "yes"), gives("b", ag.BreakLoop())], max_iterations=5)
        told = transcript(drive.run(ag.Runner(checked(steps)), "Go."))
        assert told == [
            "l/a: no",
            "l/a/b: [break_loop]",
            f"l: {NOT_YES}",
            "l/l/a: yes",
            "l/l/a/b: [break_loop]",
        ]

    def test_leaves_the_loop_in_the_second_attempt(self, drive: Drive) -> None:
        tree = ag.loop("l", [checked(gives("w", "no", ag.BreakLoop()))], max_iterations=5)
        told = list(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert [event.address for event in told] == ["s/l[0]/w", "s/l[0]/w", "s/l[0]/w{1}", "s/z"]


def test_attempts_go_on_in_another_process_with_the_right_number(disk: Disk) -> None:
    def tree() -> Any:
        steps = [
            ag.human("h", "Well?", output_key="h"),
            ag.function_agent("f", lambda ctx: str(ctx.values["h"])),
        ]
        return ag.sequential("s", [checked(ag.sequential("w", steps))])

    asked = [disk.run(tree())[-1].address]
    for answer in ("a", "b"):
        asked.append(disk.resume(tree(), answer)[-1].address)
    assert asked == ["s/w/h", "s/w{1}/h", "s/w{2}/h"]
    assert [event.text for event in disk.resume(tree(), "yes")] == ["yes", "yes"]
    assert disk.events(tree()) == disk.told


def test_a_check_of_a_type_leaves_the_text_as_it_was(drive: Drive) -> None:
    text = json.dumps({"number": 3})
    tree = checked(ag.chat_agent("w", scripted(text), output_key="found"), Bees)
    look = ag.function_agent("z", lambda ctx: repr(ctx.values["found"]))
    assert list(drive.run(ag.Runner(ag.sequential("s", [tree, look])), "Go."))[-1].text == repr(text)
