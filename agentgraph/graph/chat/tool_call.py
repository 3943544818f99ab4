"""One tool call while it runs: its input, and the result that it collects."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any, Protocol, cast
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import END
from langgraph.prebuilt.tool_node import msg_content_output
from langgraph.types import Command

from agentgraph.agents.agents import Handoff
from agentgraph.agents.signals import Ask, BreakLoop, Capabilities, Custom, Exit, SetValues, TransferTo
from agentgraph.agents.tool_results import FORWARD, LONG_RUNNING, Answer, Content
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.call_attempts import Attempts
from agentgraph.graph.chat.calls import OpenCall, event_call
from agentgraph.graph.chat.step import Step, values_in
from agentgraph.graph.copied_values import detached
from agentgraph.graph.effects import Giver, MessageChange
from agentgraph.graph.failures import as_data, from_data
from agentgraph.graph.foreign.handoffs import (
    flattened,
    handoff_update,
    leaving_for,
    new_messages,
    sent_by,
    sole_target,
    task_sent,
    transferred,
    update_of,
)
from agentgraph.graph.lane_position import Position, details_of
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.callers import Caller, attempt_of_run
from agentgraph.graph.nodes.context import RunState
from agentgraph.graph.nodes.emitter import Emitter
from agentgraph.graph.nodes.lane import UNSAVED_CALLS, UnsavedCall
from agentgraph.graph.nodes.stopping import Stop
from agentgraph.graph.nodes.tasks import request_of, task_of
from agentgraph.graph.read_back import UnsavableError
from agentgraph.graph.saving import saver_of, step_config
from agentgraph.graph.stored_values import without_copies
from agentgraph.graph.sync_async import Call
from agentgraph.graph.task_results import TaskResult
from agentgraph.graph.values import Write, is_same
from agentgraph.safe_repr import as_json, shown

UNSAVED = "$agentgraph_unsaved"
"""The key in what replaces an artifact that cannot be saved; its value is the type of that."""


class RunningCall:
    """One call, from its start to its result.

    Attributes:
        built: The agent that calls.
        activation: Its activation.
        opened: The call.
        tool_name: The name of the tool to run, which differs from the call's if a person edited that.
        emitter: Emits its events. If it is the only call, and runs in the node itself, the node's.
        is_concurrent: Whether other calls of the message may say something.
        parks: Whether it waits for answers while other calls run, in its own task.
        is_resumed: Whether it continues after an answer in the same run.
        tool: The name of the tool that ran; middleware may have replaced it.
        control: Stops the lanes that calls run.
        step: Returns the agent's messages and middleware state, for tools that read them.
        has_run: Whether the tool has run for it, in this attempt of its node or before.
        is_ignored: Whether it is a transfer, and a later transfer of the same message replaces it.
        seen: The history and values visible to it; in sequence, with what earlier calls wrote.
        before: The updates of the middleware's state by earlier calls, if calls run in sequence.
        updates: The updates of the middleware's state by this call.
        writes: The values of the run that the call wrote.
        is_in_failed: Returns whether an address is inside an agent that failed in the call, if one did.
        fatal: A failure in the lane that the call ran, or of the recorder, which no code may handle.
        arguments: The arguments of the tool that runs, without what is injected.
        recorder: Calls the tool, or returns its recorded result; None if nothing is recorded.
    """

    def __init__(
        self,
        built: BuiltAgent,
        activation: Activation,
        opened: OpenCall,
        tool_name: str,
        emitter: Emitter,
        control: Stop,
        step: Callable[[], Step],
        *,
        is_concurrent: bool,
    ) -> None:
        self.built, self.activation, self.opened = built, activation, opened
        self.tool_name, self.tool, self.emitter = tool_name, str(opened.call["name"]), emitter
        self.control, self.step, self.is_concurrent = control, step, is_concurrent
        self.is_ignored = self.has_run = self.parks = self.is_resumed = False
        self.seen = activation.view.seen
        self.before: list[Mapping[str, object]] = []
        self.updates: list[dict[str, object]] = []
        self.is_in_failed: Callable[[str], bool] | None = None
        self.fatal: Exception | None = None
        self.arguments: Mapping[str, object] = opened.call["args"]
        self.recorder: Recorder | None = None
        self._messages: list[BaseMessage] = []
        self._discarded: list[str] = []
        self._sent: list[Write] = []
        self.began = 0
        emitter.calls = partial(event_call, activation.view, opened)
        self.writes: list[Write] = []
        self.restart()

    def resumed(self) -> "RunningCall":
        """Return the same call, which continues after an answer."""
        emitter = self.activation.output.new_emitter(is_concurrent=True)
        own = (self.built, self.activation, self.opened, self.tool_name, emitter, self.control)
        again = RunningCall(*own, self.step, is_concurrent=self.is_concurrent)
        again.is_ignored, again.is_resumed = self.is_ignored, True
        again.park()
        return again

    def park(self) -> None:
        """Have it wait for answers while other calls run."""
        self.parks = self.emitter.parks = True

    @cached_property
    def attempts(self) -> Attempts:
        """The attempts to run an agent for this call."""
        may_repeat, is_resumed = self.built.wraps_tools, self.is_resumed
        return Attempts(self.activation, self.opened.number, may_repeat, is_resumed=is_resumed)

    @property
    def current(self) -> RunState:
        """The history visible to it, with the values as they are now."""
        return self.seen.with_new((), self.writes) if self.writes else self.seen

    def state(self, *, is_shared: bool = False) -> dict[str, Any]:
        """Return the state as tools see it.

        Args:
            is_shared: As in `Step.state`.
        """
        state = self.step().state(self.current.values, self.updates, is_shared=is_shared)
        if self.opened.call["name"] == FORWARD:
            state["messages"] = [self._in_own_words(message) for message in state["messages"]]
        return state

    def _in_own_words(self, message: BaseMessage) -> BaseMessage:
        if not message.name or message.name == self.activation.name:
            return message
        if isinstance(message, ToolMessage):
            return AIMessage(message.content, name=message.name, id=message.id)
        said = (each for each in self.seen.messages if each.id == message.id)
        return next((each.model_copy(update={"name": message.name}) for each in said), message)

    def read(self, fresh: bool) -> dict[str, object]:
        """Return the state as it is now, or before the call."""
        return self.state() if fresh else self.step().state(self.seen.values)

    def send(self, update: Mapping[str, object]) -> None:
        """Apply an update written to LangGraph's channels; if the tool runs again, it is kept."""
        before, self.writes = self.writes, []
        self.update(update)
        sent, self.writes = self.writes, before
        self._sent = self.activation.node_context.reducers.collected(self._sent, sent)
        self.write(sent)

    def begin(self) -> None:
        """Begin a run of the tool; what an earlier one did does not count any more."""
        if self.has_run:
            self.restart()
        self.has_run = True

    def restart(self) -> None:
        """Drop the actions of an earlier run of the tool."""
        self.emitter.discard_all()
        self.writes = list(self._sent)
        self._own_writes: list[Write] = []
        for write in self._sent:
            self._write_and_emit(write)
        self._acts: dict[str, object] = {}
        self._question: Ask | None = None
        self._fault: str | None = None
        self._unsaved: InvalidOutputError | None = None

    def take(self, returned: object) -> object:
        """Take the actions out of what a tool returned, and return the rest for LangChain."""
        call_id = self.opened.call["id"]
        if isinstance(returned, ToolMessage) and returned.tool_call_id == call_id:
            is_plain = returned.artifact is None and type(returned.content) is str
            return returned if is_plain else detached(returned)
        items = detached(returned if isinstance(returned, list) else [returned])
        handed = [*map(self._as_transfer, items)]
        rest = [item for item in map(self._take, handed) if item is not None]
        if len(rest) == 1 and isinstance(rest[0], ToolMessage) and rest[0].tool_call_id != call_id:
            rest = [rest[0].model_copy(update={"tool_call_id": call_id})]  # it may name another call
        if not any(map(_answers, rest)):
            rest.append(self.message("Done."))
        return rest[0] if len(rest) == 1 else rest

    def set_values(self, values: dict[str, object]) -> None:
        """Write values of the run; those that cannot be saved fail the call when the tool has ended."""
        if values:
            whose = f" of the tool {self.opened.call['name']!r}"
            try:
                saved = self.activation.output.saved_values(detached(dict(values)), whose)
            except InvalidOutputError as error:
                self._unsaved = self._unsaved or error
            else:
                self._write_and_emit(Write(by=self.activation.address, values=saved))
                self.write(self._own_writes[-1:])

    def _write_and_emit(self, write: Write) -> None:
        """Emit what the tool itself writes; what a lane in it wrote was emitted there."""
        self._own_writes.append(write)
        if emitted := self.activation.node_context.reducers.emitted(write["values"]):
            self.emitter.add_note("values", emitted)

    def write(self, writes: Sequence[Write]) -> None:
        """Add writes of the run's values, in order."""
        self.writes = self.activation.node_context.reducers.collected(self.writes, writes)

    def identity(self) -> Sequence[object]:
        """Return the identity of the call among those of its and other activations."""
        return [*event_call(self.activation.view, self.opened), self.tool, dict(self.arguments)]

    def caller(self) -> Caller:
        """Return the code of the call."""
        return Caller([*self.activation.view.identity(), *self.identity()], attempt_of_run())

    def message(self, content: object, *, failed: bool = False) -> ToolMessage:
        """Return a tool message; data becomes JSON as in `ToolNode`."""
        call, text = self.opened.call, cast(Any, msg_content_output(content))
        status = "error" if failed else "success"
        return ToolMessage(text, tool_call_id=call["id"], name=self.tool, status=status)

    def add(self, result: Any) -> None:
        """Add what LangGraph's `ToolNode` returned: messages, and commands that update the state."""
        for each in result if isinstance(result, list) else [result]:
            if isinstance(each, BaseMessage):
                said = self.activation.output.stamped(
                    self._named(each), is_concurrent=self.is_concurrent
                )
                self._messages.append(said)
            elif not isinstance(each, Command):
                raise InvalidOutputError(
                    f"{self.activation.address}: wrap_tool_call of the middleware returned "
                    f"{shown(each)} for the tool {self.opened.call['name']!r}; return what the handler "
                    "returned, a ToolMessage or a Command"
                )
            elif each.goto or each.graph:
                fault = f"{self._fault}; " if self._fault else ""
                raise InvalidOutputError(
                    f"{self.activation.address}: the tool {self.opened.call['name']!r} returned "
                    f"{shown(each)}; {fault}a command may update the state, and transfer to one agent "
                    "by Command(goto=name, graph=Command.PARENT); return TransferTo(name), Exit() or "
                    "BreakLoop() to go elsewhere"
                )
            else:
                self.update(update_of(each))

    def update(self, update: Mapping[str, Any]) -> None:
        """Apply an update: messages, state of the middleware; other keys are values of the run."""
        self._update_messages(convert_to_messages(update.get("messages", [])))
        own = {key: value for key, value in update.items() if key in self.built.channels.own}
        self.updates += [own] if own else []
        rest = {key: v for key, v in update.items() if key not in {*own, "messages", "values"}}
        self.set_values({**values_in(update, self.activation.address), **rest})

    def _update_messages(self, several: Sequence[BaseMessage]) -> None:
        """Emit the new messages of an update, and change the agent's context by the rest.

        If it removes or replaces messages, it does what a hook would: a new user's message is context,
        as a summary is. The message of a handoff is for the next agent.
        """
        has_ids = any(message.id for message in several)
        seen = self.state(is_shared=True)["messages"] if has_ids else ()
        known = {each.id: each for each in seen}
        messages = [self._owned(message, known.get(message.id)) for message in several]
        changed = [each for each in messages if not is_same(known.get(each.id), each)]
        is_edit = any(each.id in known or isinstance(each, RemoveMessage) for each in changed)
        hands_over = not self._acts.keys().isdisjoint(("transfer_to", "leaving"))
        giver: Giver = "hook" if is_edit and not hands_over else "tool"
        for message in changed:
            change = self.activation.output.change_by(message, giver, is_seen=message.id in known)
            self._messages += change.messages
            self._discarded += change.discarded
        if is_edit:
            self._check_changes()
            self.updates.append({"messages": messages})

    def save(self, *, marks: bool) -> None:
        """Convert the tool's result to the form that the saver returns.

        Args:
            marks: Whether a result that cannot be saved becomes a marker: the tool has run, and is not
                to run again.

        Raises:
            InvalidOutputError: Something else cannot be saved.
        """
        if self._unsaved is not None:
            raise self._unsaved
        output, tool = self.activation.output, self.opened.call["name"]
        for at, message in enumerate(self._messages):
            try:
                self._messages[at] = output.saved(f"the result of the tool {tool!r}", message)
            except InvalidOutputError as error:
                if not (marks and isinstance(message, ToolMessage)):
                    raise
                self._messages[at] = self._marked(message, cast(UnsavableError, error.__cause__))
        for update in self.updates:
            for name, value in update.items():
                named = f"the state {name!r} that the tool {tool!r} returned"
                update[name] = output.saved(named, value)

    def _marked(self, message: ToolMessage, whole: UnsavableError) -> BaseMessage:
        """Return a message with a marker in the place of its artifact, or else of all that it says."""
        tool = self.opened.call["name"]
        if (artifact := message.artifact) is not None:
            named = f"{type(artifact).__module__}.{type(artifact).__qualname__}"
            whole = self._fault_of(artifact) or whole
            kept = message.model_copy(update={"artifact": {UNSAVED: named, "why": str(whole)}})
            if (fault := self._fault_of(kept)) is None:
                self._warn(f"the artifact of the tool {tool!r}, of the type {named},", whole)
                return kept
            whole = fault
        kind = type(message.content)
        self._warn(f"the result of the tool {tool!r}, of the type {kind.__name__},", whole)
        text = f"The result of the tool {tool} cannot be saved ({whole})."
        return self.activation.output.stamped(self._named(self.message(text)))

    def _fault_of(self, value: object) -> UnsavableError | None:
        try:
            self.activation.output.saved("", value)
        except InvalidOutputError as error:
            return cast(UnsavableError, error.__cause__)
        return None

    def _warn(self, named: str, fault: UnsavableError) -> None:
        text = f"{self.activation.address}: {named} cannot be saved ({fault}); a marker takes its place"
        warnings.warn(text, RuntimeWarning, stacklevel=2)

    def fail(self, content: object) -> None:
        """Have the model read a failure in the place of the tool's whole result."""
        self.restart()
        self.updates = []
        message = self._named(self.message(content, failed=True))
        self._messages = [self.activation.output.stamped(message)]

    async def failed_before(self) -> Exception | None:
        """Return the saved failure of the call, in a run that is resumed, or None."""
        if (saver := saver_of(self.activation.config)) is None:
            return None
        read = saver.get_tuple, saver.aget_tuple
        saved = await Call(*read, (step_config(self.activation.config),))
        for _, channel, value in (saved.pending_writes if saved else None) or ():
            if channel == UNSAVED_CALLS and value["number"] == self.opened.number:
                return from_data(value["failed"])
        return None

    async def save_failure(self, error: Exception) -> None:
        """Save a failure as the result of the call, so that the tool does not run again."""
        if (saver := saver_of(self.activation.config)) is not None:
            failed = UnsavedCall(number=self.opened.number, failed=as_data(error))
            arguments = (step_config(self.activation.config), [(UNSAVED_CALLS, failed)], str(uuid4()))
            await Call(saver.put_writes, saver.aput_writes, arguments)

    def _owned(self, message: BaseMessage, seen: BaseMessage | None) -> BaseMessage:
        """Return a message of an update with an id, which no other call may give too."""
        return self.activation.output.owned(
            self._named(message), seen, is_concurrent=self.is_concurrent
        )

    def result(self, capabilities: Capabilities) -> TaskResult:
        """Return the result of the call.

        Raises:
            InvalidOutputError: The tool returned an action that no return annotation names (so the
                graph has no edge for it), or a question.
        """
        if self._acts or self._question is not None:
            self._check_acts(capabilities)
        if self.is_in_failed is not None:
            self.emitter.discard_questions(self.is_in_failed)
        self.emitter.add_change(MessageChange("said", self._messages, self._discarded))
        is_of_node = self.emitter is self.activation.output.emitter
        at, notes = self.activation.address, [] if is_of_node else self.emitter.end()
        notes = without_copies(notes, self.writes) if notes and self.writes else notes
        position = Position(next=None, cursor=[], tree="", at=at, told=notes)
        result = TaskResult(
            agentgraph="tool",
            messages=self._messages,
            values=self.writes,
            position=position,
            acts=self._acts,
            number=self.opened.number,
            began=self.began,
        )
        if self.updates:
            result["state"] = self.updates
        return result

    def _check_changes(self) -> None:
        if not self.built.keeps_record:
            raise InvalidOutputError(
                f"{self.activation.address}: the tool {self.opened.call['name']!r} returned a Command "
                "that replaces or removes messages, which its return annotation does not name; add it, "
                "as in `-> str | Command`, so that the graph keeps what the agent sees"
            )

    def _check_acts(self, capabilities: Capabilities) -> None:
        where = f"{self.activation.address}: the tool {self.opened.call['name']!r} returned"
        if self._question is not None:
            raise InvalidOutputError(
                f"{where} {shown(self._question)}; call langgraph.types.interrupt() in it, which "
                "returns the answer"
            )
        for kind, action, permitted in (
            ("exit", "Exit", capabilities.exit),
            ("break_loop", "BreakLoop", capabilities.break_loop),
        ):
            if kind in self._acts and not permitted:
                raise InvalidOutputError(
                    f"{where} {action}, which its return annotation does not name; add it, as in "
                    f"`-> str | {action}`, so that the graph has an edge for it"
                )

    def _named(self, message: BaseMessage) -> BaseMessage:
        if not isinstance(message, ToolMessage):
            return message
        if not message.name:
            message = message.model_copy(update={"name": self.tool})
        if self.tool in self.built.long_running and message.status == "success":
            marked = {**message.additional_kwargs, LONG_RUNNING: True}
            message = message.model_copy(update={"additional_kwargs": marked})
        return message

    def _as_transfer(self, item: object) -> object:
        """Turn a command that goes to one agent (as LangGraph's handoff tools do) into a transfer.

        To a name that is none in the tree it leaves the tree, if that is a node of another graph.
        """
        if not isinstance(item, Command) or item.graph != Command.PARENT:
            return item
        shared_state = partial(self.state, is_shared=True)
        update = handoff_update(item, shared_state)
        if item.goto == END:
            return self._ended(update)
        if not item.goto:
            return _of_run(update)
        try:
            sent, target = sent_by(item.goto), sole_target(item.goto)
            if target is None:
                return item
            if target not in self.activation.node_context.targets and self.activation.may_leave:
                rest = {key: v for key, v in update_of(item).items() if key != "messages"}
                self._acts["leaving"] = leaving_for(self.activation, target, sent, rest)
                update = {"messages": update.get("messages", [])}
            elif (refused := self._transfer(target)) is not None:
                return refused
            elif sent is not None:
                call_id = self.opened.call["id"]
                self._acts["task"] = task_sent(self.activation, sent, shared_state(), call_id)
        except ValueError as error:
            self._fault = str(error)
            return item
        messages = convert_to_messages(update.get("messages", []))
        new = new_messages(messages, shared_state()["messages"]) if messages else []
        results = [message for message in new if isinstance(message, ToolMessage)]
        result = results[-1] if results else self.message(f"Transferred to {target}.")
        others = [message for message in messages if message is not result]
        done = transferred(result, target)
        return Command(update={**update, "messages": [*others, done]})

    def transfer_with_task(self, handoff: Handoff, arguments: Mapping[str, object]) -> object:
        """Hand over to an agent with a task: the arguments of its handoff tool."""
        target = handoff.agent.name
        result = transferred(self.message(f"Transferred to {target}."), target)
        taken = self.take([result, TransferTo(target)])
        request = request_of(as_json(arguments), str(uuid4()))
        is_added = handoff.context is not None
        task = task_of([request], arguments, self.activation.view.seen, is_added=is_added)
        self._acts["task"] = task
        return taken

    def _ended(self, update: dict[str, Any]) -> Command[str]:
        self._acts["ends"] = True
        messages = update.get("messages", [])
        result = [] if any(map(_answers, messages)) else [self.message("Done.")]
        return Command(update={**update, "messages": [*result, *messages]})

    def _take(self, item: object) -> object:
        match item:
            case Answer(text=text):
                return self._ended({"messages": [AIMessage(text)]})
            case Exit():
                self._acts["exit"] = details_of(item, self.activation.address)
            case BreakLoop():
                self._acts["break_loop"] = details_of(item, self.activation.address)
            case TransferTo(agent_name=name):
                return self._transfer(name)
            case SetValues(values=values):
                self.set_values(values)
            case Custom(data=data):
                self._emit_custom(data)
            case Ask():
                self._question = item
            case Content(content=content):
                return self.message(content)
            case _:
                return item
        return None

    def _emit_custom(self, data: object) -> None:
        output, named = self.activation.output, f"custom data of the tool {self.opened.call['name']!r}"
        try:
            saved = output.saved(named, output.plain(named, data))
        except InvalidOutputError as error:
            self._unsaved = self._unsaved or error
        else:
            self.emitter.add_note("custom", saved)

    def _transfer(self, name: str) -> ToolMessage | None:
        """Record a transfer; return an error for the model if the target is unknown."""
        there = self.activation.node_context.targets
        if name in there:
            self._acts["transfer_to"] = name
            self._acts.pop("task", None)
            return None
        names = ", ".join(there) or "none"
        return self.message(
            f"Error: there is no agent {name} to transfer to; available: {names}.", failed=True
        )


class Recorder(Protocol):
    """The recorder of the calls of tools."""

    async def tool(
        self, running: RunningCall, tool: BaseTool, call: ToolCall, config: RunnableConfig
    ) -> object:
        """Call a tool, or return or raise its recorded result."""


RUNNING: ContextVar[RunningCall] = ContextVar("running call")
"""The running call. `ToolNode` and middleware copy calls, so it cannot be passed through them."""


def _of_run(update: Mapping[str, Any]) -> Command[str]:
    """Return a command that writes an update of the parent graph: messages, and values of the run."""
    rest = {key: value for key, value in update.items() if key != "messages"}
    return Command(update={"messages": update.get("messages", []), "values": flattened(rest)})


def _answers(item: object) -> bool:
    """Return whether an item that a tool returned contains a tool message, which each call needs."""
    if isinstance(item, Command):
        update = item.update if isinstance(item.update, dict) else {}
        return any(_answers(message) for message in convert_to_messages(update.get("messages", [])))
    return isinstance(item, ToolMessage)
