"""Edited messages and regenerated answers: an input that goes back on its thread."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, Message, RunAgentInput, ToolMessage, UserMessage
from helpers import middleware
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolRuntime

import agentgraph as ag
from agentgraph import agui
from agentgraph.testing import ScriptedChatModel, call, calls


class Chat:
    """A client of one thread, which stores its messages as the official client does."""

    def __init__(self, tree: ag.Agent, checkpointer: Any = None, **options: Any) -> None:
        self.runner = ag.Runner(tree, checkpointer=checkpointer or InMemorySaver(), **options)
        self.messages: list[Any] = []
        self.outcome: Any = None

    async def send(self, *messages: Any, **more: Any) -> list[str]:
        """Send messages alone, and return the texts of the agents' new messages."""
        given = RunAgentInput(
            thread_id="t", run_id="r", messages=[*messages], tools=[], context=[], state={}, **more
        )
        events: list[Any] = [event async for event in await agui.arun(self.runner, given)]
        self.outcome = events[-1]
        return [each.delta for each in events if each.type == "TEXT_MESSAGE_CONTENT"]

    async def say(self, text: str, key: str) -> None:
        """Send all messages, and a new one."""
        await self.send(*await self.known(), user(key, text))

    async def known(self, upto: str | None = None) -> list[Message]:
        """Return the messages of the thread as a client has them, before one with a text."""
        found: list[Message] = []
        for turn in (await self.runner.athread("t")).turns if await self._exists() else ():
            found += [user(str(each.id), str(each.text)) for each in turn.messages]
            found += [_as_client(each.message) for each in turn.events if each.message is not None]
        texts = [each.content for each in found]
        return found if upto is None else found[: texts.index(upto)]

    async def _exists(self) -> bool:
        return (await self.runner.athread("t")).status != "new"

    async def texts(self) -> list[str]:
        return [str(each.text) for each in (await self.runner.athread("t")).messages]


def _as_client(message: Any) -> Message:
    key, text = str(message.id), str(message.text)
    if message.type == "tool":
        return ToolMessage(id=key, role="tool", content=text, tool_call_id=message.tool_call_id)
    return AssistantMessage(id=key, role="assistant", content=text)


def user(key: str, text: str) -> UserMessage:
    return UserMessage(id=key, role="user", content=text)


def numbered(name: str = "c", **options: Any) -> ag.Agent:
    """Return a chat agent whose replies are numbered, and name what the user said last."""
    count: list[int] = []

    def reply(messages: Sequence[Any]) -> str:
        count.append(1)
        users = [each.text for each in messages if each.type == "human" and "said:" not in each.text]
        return f"{name}{len(count)} on {users[-1]}"

    return ag.chat_agent(name, ScriptedChatModel(responses=reply), **options)


SEVERAL: dict[str, Callable[[], ag.Agent]] = {
    "a chat agent": numbered,
    "a function": lambda: ag.function_agent("f", lambda ctx: f"f on {ctx.messages[-1].text}"),
    "branches": lambda: ag.parallel("p", [numbered("a"), numbered("b")]),
    "a sequence": lambda: ag.sequential("s", [numbered("a"), numbered("b")]),
    "a swarm": lambda: ag.swarm("w", [numbered("a"), numbered("b")], start="b"),
    "a loop that hides": lambda: ag.sequential(
        "s", [ag.loop("l", [numbered("a", history="own")], max_iterations=2), numbered("b")]
    ),
}


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(main())  # type: ignore[arg-type]


async def three_turns(tree: ag.Agent, checkpointer: Any = None) -> Chat:
    chat = Chat(tree, checkpointer)
    for number in (1, 2, 3):
        await chat.say(f"q{number}", f"u{number}")
    return chat


@pytest.mark.parametrize("saver", ["memory", "SQLite"])
@pytest.mark.parametrize("kind", SEVERAL)
def test_an_answer_is_made_again_and_later_turns_go_to_an_older_line(
    kind: str, saver: str, tmp_path: Path
) -> None:
    async def main() -> None:
        chat = await three_turns(SEVERAL[kind](), tmp_path / "t.db" if saver == "SQLite" else None)
        before = await chat.texts()
        last = before.index("q3")
        assert await chat.send(*(await chat.known("q3")), user("u3", "q3"))
        again = await chat.texts()
        assert again[: last + 1] == before[: last + 1]
        assert len(again) == len(before)
        assert await chat.send(user("u1", "q1"))
        first = await chat.texts()
        assert first[0] == "q1"
        assert "q2" not in first
        thread = await chat.runner.athread("t")
        assert (thread.status, len(thread.turns), len(thread.lines)) == ("done", 1, 3)
        await chat.say("more", "u9")
        assert (await chat.texts())[: len(first) + 1] == [*first, "more"]
        await chat.runner.aclose()

    run(main)


@pytest.mark.parametrize("saver", ["memory", "SQLite"])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("key", ["its own id", "a new id"])
@pytest.mark.parametrize("kind", SEVERAL)
def test_an_edited_message_takes_the_place_of_the_old_one(
    kind: str, key: str, number: int, saver: str, tmp_path: Path
) -> None:
    async def main() -> None:
        chat = await three_turns(SEVERAL[kind](), tmp_path / "t.db" if saver == "SQLite" else None)
        before = await chat.texts()
        known = await chat.known(f"q{number}")
        if number == 1 and key == "a new id":  # nothing of it is known: a new turn
            await chat.send(user("x", "edited"))
            assert (await chat.texts())[: len(before) + 1] == [*before, "edited"]
            return
        edited = user(f"u{number}" if key == "its own id" else "x", "edited")
        await chat.send(*known, edited)
        after = await chat.texts()
        at = before.index(f"q{number}")
        assert after[: at + 1] == [*before[:at], "edited"]
        assert not {f"q{n}" for n in range(number, 4)} & {*after}
        thread = await chat.runner.athread("t")
        assert (thread.status, len(thread.turns)) == ("done", number)
        assert [each.id for each in thread.turns[-1].messages] == [edited.id]
        await chat.say("more", "u9")
        assert (await chat.texts())[: len(after) + 1] == [*after, "more"]
        await chat.runner.aclose()

    run(main)


def test_only_the_answer_that_is_missing_of_a_turn_is_made_again() -> None:
    async def main() -> None:
        chat = Chat(ag.sequential("s", [numbered("a"), numbered("b")]))
        await chat.say("q", "u")
        assert await chat.send(*(await chat.known("b1 on q"))) == ["b2 ", "on ", "q"]
        assert await chat.texts() == ["q", "a1 on q", "b2 on q"]

    run(main)


def test_a_result_of_a_tool_that_the_client_has_stays() -> None:
    looked: list[str] = []

    def look(runtime: ToolRuntime) -> str:
        """Look."""
        looked.append("x")
        return f"seen {len(looked)}"

    async def main() -> None:
        model = ScriptedChatModel(
            responses=[calls(call("look")), "one", "two", calls(call("look")), "three"]
        )
        chat = Chat(ag.chat_agent("c", model, tools=[look]))
        await chat.say("q", "u")
        await chat.send(*(await chat.known("one")))
        assert await chat.texts() == ["q", "", "seen 1", "two"]
        await chat.send(user("u", "q"))
        assert await chat.texts() == ["q", "", "seen 2", "three"]

    run(main)


def test_the_same_text_and_the_same_history_go_back_to_nothing() -> None:
    async def main() -> None:
        chat = await three_turns(numbered())
        before = await chat.texts()
        assert await chat.send(*(await chat.known())) == []
        assert await chat.texts() == before
        assert len((await chat.runner.athread("t")).lines) == 1

    run(main)


def test_an_edit_with_the_same_text_regenerates_the_answer() -> None:
    async def main() -> None:
        chat = await three_turns(numbered())
        known = await chat.known("q2")
        await chat.send(*known, user("x", "q2"))
        assert await chat.texts() == ["q1", "c1 on q1", "q2", "c4 on q2"]
        await chat.send(*known, user("x", "q2"))  # it is known now
        assert await chat.texts() == ["q1", "c1 on q1", "q2", "c5 on q2"]

    run(main)


@pytest.mark.parametrize("since", [1, 2, 3, 4, 5])
def test_a_client_may_send_a_part_of_the_history(since: int) -> None:
    async def main() -> None:
        chat = await three_turns(numbered())
        before = await chat.texts()
        await chat.send(*(await chat.known())[since:], user("x", "new"))
        assert await chat.texts() == [*before, "new", "c4 on new"]
        await chat.send(*(await chat.known("q3"))[min(since, 3) :], user("y", "other"))
        assert await chat.texts() == [*before[:4], "other", "c5 on other"]

    run(main)


def test_a_client_may_send_only_what_is_new_or_only_the_users_messages() -> None:
    async def main() -> None:
        chat = Chat(numbered())
        for number in (1, 2):
            await chat.send(user(f"u{number}", f"q{number}"))
        await chat.send(user("u1", "q1"), user("u2", "q2"), user("u3", "q3"))
        texts = ["q1", "c1 on q1", "q2", "c2 on q2", "q3", "c3 on q3"]
        assert await chat.texts() == texts
        await chat.send(user("u1", "q1"), user("u2", "q2"), user("x", "other"))
        assert await chat.texts() == [*texts[:4], "other", "c4 on other"]

    run(main)


def test_an_edit_in_a_whole_history_takes_later_messages_from_the_client() -> None:
    async def main() -> None:
        chat = await three_turns(numbered())
        known = await chat.known()
        known[2] = user("u2", "edited")
        given = RunAgentInput(thread_id="t", run_id="r", messages=known, tools=[], context=[], state={})
        events: list[Any] = [event async for event in await agui.arun(chat.runner, given)]
        shown = [each.messages for each in events if each.type == "MESSAGES_SNAPSHOT"]
        assert [[each.content for each in messages] for messages in shown] == [
            ["q1", "c1 on q1", "edited"],
            ["q1", "c1 on q1", "edited", "c4 on edited"],
        ]
        assert await chat.texts() == ["q1", "c1 on q1", "edited", "c4 on edited"]

    run(main)


def test_what_middleware_replaced_is_not_an_edit() -> None:
    def redact(state: Any) -> Any:
        users = [each for each in state["messages"] if each.type == "human"]
        return {"messages": [HumanMessage("***", id=each.id) for each in users]}

    def forget(state: Any) -> Any:
        rest = state["messages"][:-1]
        return {"messages": [RemoveMessage(str(each.id)) for each in rest]}

    async def main(hook: Any, number: int) -> None:
        chat = Chat(numbered(middleware=[middleware(before_model=hook)]))
        known: list[Any] = []
        for n in (1, 2, 3):
            known = [*known, user(f"u{n}", f"q{n}")]
            await chat.send(*known)
            last = (await chat.runner.athread("t")).turns[-1].events
            known += [_as_client(each.message) for each in last if each.message is not None]
        thread = await chat.runner.athread("t")
        assert (len(thread.turns), len(thread.lines)) == (3, 1)
        await chat.send(*known[:2], user("x", "other"))
        assert len((await chat.runner.athread("t")).turns) == number

    asyncio.run(main(redact, 2))
    asyncio.run(main(forget, 2))


def test_it_is_refused_while_questions_are_pending_and_the_questions_stay() -> None:
    async def main() -> None:
        tree = ag.sequential("s", [numbered("a"), ag.human("boss", "Fine?")])
        chat = Chat(tree)
        await chat.send(user("u1", "q1"))
        await chat.send(*(await chat.known()))
        (asked,) = chat.outcome.outcome.interrupts
        await chat.send(resume=[{"interruptId": asked.id, "status": "resolved", "payload": "yes"}])
        await chat.say("q2", "u2")
        for given in (
            [user("u1", "edited")],
            [*(await chat.known("q2")), user("x", "other")],
            [user("u1", "q1")],
        ):
            with pytest.raises(ag.PendingInterruptError, match=r"waits for answers to s/boss"):
                await chat.send(*given)
        assert [each.address for each in await chat.runner.apending("t")] == ["s/boss"]
        await chat.send(
            *(await chat.known("q2")), user("u2", "q2")
        )  # its own turn waits: it asks again
        assert len(chat.outcome.outcome.interrupts) == 1

    run(main)


def test_it_is_refused_while_a_run_is_active() -> None:
    async def main() -> None:
        chat = await three_turns(numbered())
        run = chat.runner.arun("q4", thread_id="t")
        await run
        for given in (user("u1", "edited"), user("u3", "q3")):
            with pytest.raises(ag.ThreadBusyError):
                await chat.send(given)
        await run.aclose()

    run(main)


def test_a_turn_that_failed_is_resumed_or_edited() -> None:
    async def main() -> None:
        failing = [True]

        def second(ctx: ag.Context) -> str:
            if failing[0]:
                raise ValueError("no")
            return "second"

        chat = Chat(ag.sequential("s", [numbered("a"), ag.function_agent("b", second)]))
        await chat.send(user("u", "q"))
        failing[0] = False
        await chat.send(user("u", "q"))
        assert await chat.texts() == ["q", "a1 on q", "second"]
        failing[0] = True
        await chat.say("q2", "u2")
        failing[0] = False
        await chat.send(user("u2", "edited"))
        assert await chat.texts() == ["q", "a1 on q", "second", "edited", "a3 on edited", "second"]

    run(main)


def test_values_go_back_too_and_those_that_the_client_changed_are_written() -> None:
    def count(ctx: ag.Context) -> list[Any]:
        number = ctx.values.get("n", 0) + 1
        return [ag.SetValues(n=number), f"{number} {ctx.values.get('color')}"]

    async def main() -> None:
        chat = Chat(ag.function_agent("f", count))
        for n in (1, 2, 3):
            await chat.send(user(f"u{n}", "q"))
        run_input = RunAgentInput(
            thread_id="t", run_id="r", messages=[user("u2", "edited")], state={"n": 3, "color": "red"}
        )
        async for _ in await agui.arun(chat.runner, run_input):
            pass
        assert (await chat.texts())[-1] == "2 red"

    run(main)
