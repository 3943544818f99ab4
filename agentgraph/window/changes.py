"""The changes that the page makes before a rewind: a message, values, answers."""

from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import BaseModel, ConfigDict

from agentgraph.errors import AgentGraphError
from agentgraph.graph.stamps import address_of
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_lines import input_at, turn_at
from agentgraph.safe_repr import shown
from agentgraph.threads.rewinds.rewinding import TurnStart
from agentgraph.threads.rewinds.siblings import Siblings
from agentgraph.threads.runner import Runner


class Changes(BaseModel):
    """The changes of a rewind.

    Attributes:
        values: Values to write.
        text: The text of a message.
        replaces: The id of the message to replace, written by the user or by an agent; None adds a
            message.
        answers: A new answer to the question of the address.
        siblings: Whether parallel branches run again too.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    values: dict[str, Any] | None = None
    text: str | None = None
    replaces: str | None = None
    answers: Any = None
    siblings: Siblings = "keep"

    def arguments(
        self, runner: Runner, thread_id: str, at: str, turn: int | None = None
    ) -> dict[str, Any]:
        """Return the keyword arguments of `Runner.rewind`.

        Args:
            runner: Runs the tree.
            thread_id: The thread.
            at: The address or the step to run again from.
            turn: The turn of the address.

        Raises:
            AgentGraphError: `at` did not see the message to replace, or `text` is missing.
        """
        given = {
            "turn": turn,
            "siblings": self.siblings,
            "values": self.values,
            "answers": self.answers,
            "messages": self._messages(runner, thread_id, at, turn),
        }
        return {name: value for name, value in given.items() if value is not None}

    def _messages(
        self, runner: Runner, thread_id: str, at: str, turn: int | None
    ) -> list[BaseMessage] | None:
        if self.replaces is None:
            return [HumanMessage(self.text)] if self.text else None
        if not self.text:
            raise AgentGraphError(f"replaces={shown(self.replaces)} has no text; pass text= as well")
        for message in runner.activation(thread_id, at, turn=turn).saw:
            if message.id == self.replaces and message.type == "human" and not message.name:
                return [message.model_copy(update={"content": _with_text(message, self.text)})]
        for message in runner.engine.read(_input_of, thread_id, turn) if turn is not None else ():
            if message.id == self.replaces:  # of a composite, which reads none itself
                return [message.model_copy(update={"content": _with_text(message, self.text)})]
        for event in reversed(list(runner.events(thread_id))):
            if event.message is not None and event.id == self.replaces:
                content = _with_text(event.message, self.text)
                return [event.message.model_copy(update={"content": content})]
        raise AgentGraphError(
            f"replaces={shown(self.replaces)}: {at} saw no such message; reload the activation"
        )


def turn_start(
    runner: Runner, thread_id: str, turn: int, text: str | None, replaces: str | None
) -> TurnStart:
    """Return the start of a turn, with another text of one of its messages if `text` is passed.

    Raises:
        AgentGraphError: The input of the turn has no such message, or the text is empty.
    """
    if text is None:
        return TurnStart(turn)
    if not text.strip():
        raise AgentGraphError("the text is empty; pass the text of the message")
    messages = runner.engine.read(_input_of, thread_id, turn)
    at = next((number for number, each in enumerate(messages) if each.id == replaces), None)
    if at is None:
        raise AgentGraphError(
            f"replaces={shown(replaces)}: the input of turn {turn} has no such message; reload the page"
        )
    edited = messages[at].model_copy(update={"content": _with_text(messages[at], text)})
    return TurnStart(turn, [edited, *messages[at + 1 :]], str(replaces))


async def _input_of(saver: ThreadSaver, number: int) -> list[BaseMessage]:
    turn = await turn_at(saver, number)
    every = input_at(turn.roots[-1]) if turn else None
    return [each for each in every or () if address_of(each) is None]


def _with_text(message: BaseMessage, text: str) -> str | list[dict[str, object]]:
    """Return the content of a message with another text; pictures and other blocks stay."""
    if isinstance(message.content, str):
        return text
    others = [each for each in message.content if isinstance(each, dict) and each.get("type") != "text"]
    return [{"type": "text", "text": text}, *others]
