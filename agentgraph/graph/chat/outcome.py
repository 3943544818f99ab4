"""What one tool call comes to: messages, values of the run, what is told, and how it steers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage, convert_to_messages
from langgraph.prebuilt.tool_node import msg_content_output
from langgraph.types import Command

from agentgraph.agents.signals import Ask, BreakLoop, Custom, Exit, May, SetValues, TransferTo
from agentgraph.agents.tools import Content
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.calls import OpenCall
from agentgraph.graph.handoffs import (
    State,
    handed_on,
    new_messages,
    sole_target,
    transferred,
    update_of,
)
from agentgraph.graph.history import is_word
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.saving import check_names
from agentgraph.graph.state import Position, TaskResult, address_of, speaker_of, stamped
from agentgraph.graph.values import Write
from agentgraph.safe_repr import shown


class Outcome:
    """Collects what a call comes to.

    Attributes:
        activation: The activation of the agent that calls.
        opened: The call.
        tool: The name of the tool whose results these are; middleware may take another one.
        left: Whether an address is inside an agent that failed in the call.
    """

    def __init__(
        self, activation: Activation, opened: OpenCall, channels: Collection[str] = ()
    ) -> None:
        """Begin to collect.

        Args:
            activation: The activation of the agent that calls.
            opened: The call.
            channels: The names in the state of the agent's middleware.
        """
        self.activation, self.opened, self.tool = activation, opened, str(opened.call["name"])
        self.teller = activation.new_teller(is_beside=True)
        self._channels = {*channels}
        self._state: list[dict[str, Any]] = []
        self._messages: list[Any] = []
        self._rewritten: set[str] = set()
        self.left: Callable[[str], bool] = lambda _: False
        self.restart()

    @property
    def updates(self) -> Sequence[Mapping[str, Any]]:
        """What the call updated of the state of the agent's middleware."""
        return self._state

    @property
    def writes(self) -> Sequence[Write]:
        """The values of the run that the call wrote."""
        return self._writes

    def restart(self) -> None:
        """Forget the actions of the tool: it is run, maybe again."""
        self.teller.take_back()
        self._writes: list[Write] = []
        self._custom: list[Any] = []
        self._acts: dict[str, Any] = {}
        self._transfers = 0
        self._refused: Ask | None = None

    def take(self, returned: Any, state: State) -> Any:
        """Take the actions from what a tool returned, and return what is a message of LangChain's."""
        items = returned if isinstance(returned, list) else [returned]
        handed = [self._handed_over(item, state) for item in items]
        rest = [kept for item in handed if (kept := self._take(item)) is not None]
        if len(rest) == 1 and isinstance(rest[0], ToolMessage):
            rest = [self._bound(rest[0])]
        if not any(map(_answers, rest)):
            rest.append(self.message("Done."))
        return rest[0] if len(rest) == 1 else rest

    def set_values(self, values: dict[str, Any]) -> None:
        """Write values of the run."""
        self.write([Write(by=self.activation.address, values=dict(values))] if values else [])

    def write(self, writes: Sequence[Write]) -> None:
        """Write values of the run as others wrote them, in order."""
        self._writes = self.activation.site.reducers.collected(self._writes, writes)

    def add_transfers(self, count: int) -> None:
        """Count transfers that there were in the lane that the call ran."""
        self._transfers += count

    def message(self, content: Any, *, failed: bool = False) -> ToolMessage:
        """Return a result: a text, or data that becomes JSON as `ToolNode` does it."""
        call, text = self.opened.call, cast(Any, msg_content_output(content))
        status = "error" if failed else "success"
        return ToolMessage(text, tool_call_id=call["id"], name=self.tool, status=status)

    def add(self, given: Any, state: State) -> None:
        """Take what LangGraph's `ToolNode` gave: messages, and commands that update the state."""
        for each in given if isinstance(given, list) else [given]:
            if isinstance(each, Command):
                self._update(self._update_of(each), state)
            else:
                self._messages.append(self._named(each))

    def _update(self, update: Mapping[str, Any], state: State) -> None:
        """Take an update: messages, state of the middleware, and else values of the run."""
        messages = convert_to_messages(update.get("messages", []))
        for message in new_messages(messages, state):
            self._add_message(self._named(message))
        own = {key: value for key, value in update.items() if key in self._channels}
        self._state += [own] if own else []
        rest = {key: v for key, v in update.items() if key not in {*own, "messages", "values"}}
        self.set_values({**update.get("values", {}), **rest})

    def _add_message(self, message: BaseMessage) -> None:
        """Add a message, or what it replaces or removes by its id: a word of the agent, or the user's.

        What ran, and what others said, stays as it was said.
        """
        was = self.activation.standing(message.id) if message.id else None
        if was is None:
            self._messages += [] if isinstance(message, RemoveMessage) else [message]
        elif address_of(was) is None:
            if was.type == message.type == "human" and was in self.activation.written_here:
                self._rewritten.add(str(was.id))
                self._messages.append(message)
        elif speaker_of(was) == self.activation.name:
            is_removal = isinstance(message, RemoveMessage)
            is_here = address_of(was) == self.activation.address
            if not is_removal or (is_word(was) and is_here):
                self.teller.note("discarded", [was.id])
                self._messages.append(message)

    def result(self, may: May) -> TaskResult:
        """Return all of it, if the graph has edges for it.

        Raises:
            InvalidOutputError: A tool gave an action that no return annotation of the tools names,
                or a question.
        """
        if self._refused is not None:
            raise InvalidOutputError(
                f"{self.activation.address}: the tool {self.opened.call['name']!r} gave "
                f"{shown(self._refused)}; call langgraph.types.interrupt() in it, which returns the "
                "answer"
            )
        for kind, permitted in (("exit", may.exit), ("break_loop", may.break_loop)):
            if kind in self._acts and not permitted:
                given = "Exit" if kind == "exit" else "BreakLoop"
                raise InvalidOutputError(
                    f"{self.activation.address}: the tool {self.opened.call['name']!r} gave {given}, "
                    f"which its return annotation does not name; add it, as in `-> str | {given}`, so "
                    "that the graph has an edge for it"
                )
        self._check_saved()
        at = self.activation.address
        messages = [m if self._is_stamped_by_none(m) else stamped(m, at) for m in self._messages]
        self.teller.void_questions(self.left)
        for message in messages:
            if not self._is_stamped_by_none(message):
                self.teller.say(message)
        position = Position(next=None, cursor=[], tree="", at=at, told=self.teller.end())
        result = TaskResult(
            messages=messages,
            values=self._writes,
            position=position,
            acts=self._acts,
            number=self.opened.number,
        )
        if self._state:
            result["state"] = self._state
        if self._transfers:
            result["transfers"] = self._transfers
        return result

    def _is_stamped_by_none(self, message: BaseMessage) -> bool:
        return isinstance(message, RemoveMessage) or message.id in self._rewritten

    def _check_saved(self) -> None:
        """Refuse what cannot be saved; what a lane wrote was looked at there."""
        check, tool = self.activation.check, self.opened.call["name"]
        for message in self._messages:
            check(f"the result of the tool {tool!r}", message)
        for name, value in ((name, v) for update in self._state for name, v in update.items()):
            check(f"the state {name!r} that the tool {tool!r} gave", value)
        for data in self._custom:
            check(f"custom data of the tool {tool!r}", data)
        own = [write for write in self._writes if write["by"] == self.activation.address]
        for write in own:
            check_names(self.activation.address, write["values"])
        for name, value in ((name, v) for write in own for name, v in write["values"].items()):
            check(f"the value {name!r} of the tool {tool!r}", value)

    def _bound(self, message: ToolMessage) -> ToolMessage:
        """Return the only result as that of the call, whatever call it names."""
        call_id = self.opened.call["id"]
        if message.tool_call_id == call_id:
            return message
        return message.model_copy(update={"tool_call_id": call_id})

    def _named(self, message: BaseMessage) -> BaseMessage:
        if isinstance(message, ToolMessage) and not message.name:
            return message.model_copy(update={"name": self.tool})
        return message

    def _handed_over(self, item: Any, state: State) -> Any:
        """Take the transfer from a command that goes to one agent, as LangGraph's handoff tools do."""
        if not isinstance(item, Command) or item.graph != Command.PARENT:
            return item
        target = sole_target(item.goto)
        if target is None:
            return item
        if (refused := self._transfer(target)) is not None:
            return refused
        update = handed_on(item, state)
        said = convert_to_messages(update.get("messages", []))
        results = [message for message in said if isinstance(message, ToolMessage)]
        result = results[-1] if results else self.message(f"Transferred to {target}.")
        others = [message for message in said if message is not result]
        done = transferred(result, target)
        return Command(update={**update, "messages": [*others, done]})

    def _take(self, item: Any) -> Any:
        match item:
            case Exit():
                self._acts["exit"] = True
            case BreakLoop():
                self._acts["break_loop"] = True
            case TransferTo(agent_name=name):
                return self._transfer(name)
            case SetValues(values=values):
                self.set_values(values)
            case Custom(data=data):
                named = f"custom data of the tool {self.opened.call['name']!r}"
                self._custom.append(self.activation.plain(named, data))
                self.teller.note("custom", self._custom[-1])
            case Ask():
                self._refused = item
            case Content(content=content):
                return self.message(content)
            case _:
                return item
        return None

    def _transfer(self, name: str) -> ToolMessage | None:
        """Note a transfer; one to an agent that there is not goes back to the model."""
        there = self.activation.site.targets
        if name in there:
            self._acts["transfer_to"] = name
            return None
        names = ", ".join(there) or "none"
        return self.message(
            f"Error: there is no agent {name} to transfer to; there are: {names}.", failed=True
        )

    def _update_of(self, command: Command[Any]) -> dict[str, Any]:
        if command.goto or command.graph:
            raise InvalidOutputError(
                f"{self.activation.address}: the tool {self.opened.call['name']!r} gave "
                f"{shown(command)}; a command may update the state, and hand over to one agent by "
                "Command(goto=name, graph=Command.PARENT); return TransferTo(name), Exit() or "
                "BreakLoop() to go elsewhere"
            )
        return update_of(command)


def _answers(item: Any) -> bool:
    """Tell whether an item of what a tool returned has the result that the call must have."""
    if isinstance(item, Command):
        update = item.update if isinstance(item.update, dict) else {}
        return any(_answers(message) for message in convert_to_messages(update.get("messages", [])))
    return isinstance(item, ToolMessage)
