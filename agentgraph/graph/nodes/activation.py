"""One activation of a leaf or a fork: what it enters with, what it says and does, what it writes."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, cast

from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.runtime import get_runtime
from langgraph.types import Command, interrupt

from agentgraph.agents.agents import HistoryPolicy
from agentgraph.agents.context import Context
from agentgraph.agents.schemas import answer_fault, checkable, plain_at
from agentgraph.agents.signals import Signal
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.failures import asked_beside, mark_border, mark_failure
from agentgraph.graph.history import visible
from agentgraph.graph.middleware_state import Change, Changes, Record
from agentgraph.graph.moments import Note, addressed, asked_when, asker, asking_call, unaddressed
from agentgraph.graph.nodes.completion import Completion
from agentgraph.graph.nodes.context import ActivationContext, NodeContext, RunState
from agentgraph.graph.nodes.emitter import Emitter, Writer, with_writer
from agentgraph.graph.nodes.stopping import Contained, Stop, is_cancelled
from agentgraph.graph.saving import check_names, check_saved
from agentgraph.graph.state import (
    STAMP,
    Border,
    LaneState,
    Position,
    Progress,
    Question,
    Update,
    address_of,
    speaker_of,
    stamped,
)
from agentgraph.graph.values import Write
from agentgraph.tree.addresses import address, as_cursor, attempt, attempts


class Activation:
    """One activation of a leaf, or of a fork.

    Attributes:
        node_context: The place.
        cursor: The counters at it.
        address: Its address.
        asked: The question that this step is to ask.
        progress: How far a chat agent is.
        has_ended: Whether it ended in a step before, and only what comes after it is still asked.
        seen: What is visible to it.
        transfers: How many transfers there were in this turn, its own left out.
        emitter: What tells what it says.
        config: LangGraph's config for what runs in it.
        mark: The metadata of what runs in it.
        written_here: The messages of its lane.
        asked_after: Behind how many messages of a graph that runs in it questions are asked.
    """

    def __init__(
        self,
        node_context: NodeContext,
        state: LaneState,
        config: RunnableConfig,
        *,
        runs_lanes: bool = False,
        runs_trees: bool = False,
    ) -> None:
        """Enter a node.

        Args:
            node_context: The place.
            state: The state of the lane.
            config: LangGraph's config of the node.
            runs_lanes: Whether the node runs lanes, which may tell at the same time.
            runs_trees: Whether a graph runs in it that may itself be a compiled tree.
        """
        self._control = get_runtime().control
        if isinstance(self._control, Stop):
            self._control.begin_step(config)
        self._given = config
        position = node_context.arrived(state.get("position"))
        self.node_context = node_context
        self.cursor = as_cursor(position["cursor"])
        self.address = node_context.address(self.cursor)
        self.asked = position.get("ask")
        self.progress: Progress = position.get("chat", {})
        self.asked_after: int | None = None
        self.seen = node_context.run_state(state, config)
        self.transfers = self.seen.transfers
        is_beside = runs_lanes or node_context.is_inner
        self.emitter = Emitter(self.seen.clock, self.address, config, is_beside=is_beside)
        self.config = with_writer(config, Writer(self.emitter, passes_ours=runs_trees))
        self.mark = {
            "agent_name": self.name,
            "agent_address": self.address,
            "agent_turn": self.seen.clock.turn,
            "agent_step": self.emitter.step,
            "lc_agent_name": self.name,
        }
        self.written_here: Sequence[BaseMessage] = state.get("messages", ())
        self._answer = position.get("answer", [])
        self._said: list[BaseMessage] = []
        self._writes: list[Write] = []
        self.has_ended = "border" in position
        self._ending = position.get("border", Border(given=[]))
        self._failure = state.get("failure") if self.has_ended else None
        self._next: Position | None = None
        self._untracked = state.get("untracked")
        self._changes: Changes = {}
        self._new_untracked: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.node_context.place.name

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that this activation found."""
        return self.seen.values

    @property
    def record(self) -> Record:
        """What the middleware of this agent keeps."""
        return self.seen.middleware.get(self.node_context.place.node, {})

    @property
    def untracked(self) -> Mapping[str, Any]:
        """The state of its middleware that is never saved; each activation and resume begins anew."""
        at, values = self._untracked or ("", {})
        return values if at == self.address and self.progress else {}

    def context(self, history: HistoryPolicy, seen: RunState | None = None) -> Context:
        """Return what the agent is to know; of what else is visible now, where that is given."""
        seen = seen or self.seen
        return ActivationContext(
            self.node_context.place,
            self.cursor,
            self.node_context.paths,
            messages=seen.messages,
            values=seen.values,
            history=history,
            under_way=self._under_way,
            answer=self._answer,
        )

    def visible(self, history: HistoryPolicy) -> list[BaseMessage]:
        """Return what the agent sees now, in the middle of the activation: calls may be open."""
        return visible(
            self.seen.messages,
            history,
            self.name,
            self.address,
            self.node_context.paths.of,
            self._under_way,
            is_open=True,
        )

    def emit_message(self, message: BaseMessage, *, live: bool = False, at: str | None = None) -> None:
        """Say a message.

        Args:
            message: The message.
            live: Whether it is told at once, and not when the node has ended.
            at: The address of who says it, where it is another activation of the agent.
        """
        self.check("the message", message)
        if isinstance(message, RemoveMessage):
            self._said.append(message)
            return
        self._said.append(stamped(message, at or self.address))
        self.emitter.add_message(self._said[-1])
        if live:
            self.emitter.flush()

    def replace_user_message(self, message: BaseMessage) -> None:
        """Replace a message of the user's under its id; that is not told."""
        self.check("the message", message)
        self._said.append(message)

    def replace_message(self, message: BaseMessage, was: BaseMessage) -> None:
        """Replace a message under its id: void it, and say it as it is now.

        One of the agent's own keeps its address; another's is said at this one.
        """
        self.emitter.add_note("discarded", [was.id])
        self.emit_message(message, at=address_of(was) if speaker_of(was) == self.name else None)

    def remove_message(self, message_id: str) -> None:
        """Void a message that this activation said, and remove it from the history.

        That is told when the node has ended: one that fails voids nothing.
        """
        self.emitter.add_note("discarded", [message_id])
        self._said.append(RemoveMessage(id=message_id))

    def add_emitted(self, messages: Sequence[BaseMessage], notes: Sequence[Note] = ()) -> None:
        """Write what tasks, or a call, have told."""
        self._said += messages
        self.emitter.notes += notes

    def emit_note(self, kind: str, data: Any = None) -> None:
        """Tell at once something that is no message: `custom` data, or a signal."""
        self.check("custom data", data)
        self.emitter.add_note(kind, data)
        self.emitter.flush()

    def signal(self, signal: Signal, *, is_emitted: bool = False) -> None:
        """End with a signal, which outweighs a transfer; it is told, unless a lane has told it."""
        self._ending = Border(signal=signal, given=[])
        if not is_emitted:
            self.emit_note(signal)

    def transfer(self, target: str) -> None:
        """End with a transfer to one of the site's targets."""
        if "signal" not in self._ending:
            self._ending = Border(target=target, given=[])
        self.emit_note("transfer_to", target)

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Write values of the run."""
        self.write([Write(by=self.address, values=dict(values))])

    def keep_middleware(self, change: Change, untracked: Mapping[str, Any] | None) -> None:
        """Write what the middleware changed of its record, and its untracked state if that is new."""
        self._changes = {self.node_context.place.node: change} if change else {}
        self._new_untracked = untracked

    def keep_changes(self, changes: Changes) -> None:
        """Write what middleware changed in lanes that this activation ran."""
        self._changes = changes

    def write(self, writes: Sequence[Write]) -> None:
        """Write values of the run, in order; those by nobody are the package's, and never conflict."""
        for write in writes:
            if write["by"] in ("", self.address):
                values = write["values"]
                check_names(self.address, values)
                named = ((f"the value {name!r}", value) for name, value in values.items())
                check_saved(self.config, self.address, named)
        self._writes = self.node_context.reducers.collected(self._writes, writes)

    def plain(self, named: str, value: Any) -> Any:
        """Return what the agent gives as plain JSON data, or refuse it."""
        return plain_at(self.address, named, value)

    def check(self, named: str, value: Any) -> None:
        """Refuse what the run's saver cannot save."""
        check_saved(self.config, self.address, [(named, value)])

    def continue_at(self, node: str, **more: Any) -> None:
        """Go on at another node of this activation, or this one again, with more in the position."""
        position = self.node_context.position(node, self.cursor, self.transfers)
        self._next = cast(Position, {**position, **more})

    def ask(self, question: Question) -> Any:
        """Pause until a person has answered, and again until the answer fits the schema."""
        schema = addressed(question["response_schema"], self.address)
        return ask_until_it_fits(question["value"], schema)

    def current_message(self, message_id: str | None) -> BaseMessage | None:
        """Return the message of an id as it is now, if this activation sees one in the history."""
        for message in reversed(self._said):
            if message.id == message_id:
                return None if isinstance(message, RemoveMessage) else message
        return next((each for each in self.seen.messages if each.id == message_id), None)

    @property
    def said_ids(self) -> set[str | None]:
        """The ids of the messages that it has said in this step."""
        return {message.id for message in self._said if not isinstance(message, RemoveMessage)}

    def last_text(self) -> str | None:
        """Return the text of the last message said, or None."""
        gone: set[str | None] = set()
        for message in reversed(self._said):
            if isinstance(message, RemoveMessage):
                gone.add(message.id)
            elif address_of(message) is not None and message.id not in gone:
                return str(message.text)
        return None

    def update(self) -> Update:
        """Return what the node writes, with where the lane goes on.

        Raises:
            BaseException: What failed at the border of this activation, in this step or before it.
        """
        if self._failure is not None:
            raise self._failure
        if self.node_context.reducers.channels:
            self.seen.check(self.address, self._writes)
        completion, position = None, self._next
        if position is None:
            completion = Completion(
                self.node_context,
                self.cursor,
                self._ending,
                lambda: self.seen.with_new(self._said, self._writes),
                transfers=self.transfers,
                is_border=self.has_ended,
            )
            position = completion.position(self.config)
            completion.emit(self.emitter)
            self._said += completion.messages
            if completion.values:
                self._writes = [*self._writes, Write(by="", values=completion.values)]
        position["at"] = self.address
        if notes := self.emitter.end():
            position["told"] = notes
        position["clock"] = [self.seen.clock.turn, self.seen.clock.last]
        update = Update(position=position)
        if self._said or notes:  # LangGraph saves what is new of a history before it goes on
            update["messages"] = self._said
        if self._writes:
            update["values"] = self.node_context.update(self._writes)
        if self._changes:
            update["middleware"] = self._changes
        if self._new_untracked is not None:
            update["untracked"] = [self.address, self._new_untracked]
        if completion is not None and completion.failure is not None:
            update["failure"] = completion.failure
            if isinstance(self._control, Stop):
                self._control.fail_next()
        return update

    def new_emitter(self, *, is_beside: bool) -> Emitter:
        """Return a teller of this activation, for all that it tells or for one tool call of several."""
        return Emitter(self.seen.clock, self.address, self._given, is_beside=is_beside)

    def reported(self, call: int | None = None, emitter: Emitter | None = None) -> "_Reported":
        """Write on questions and failures from a `with` block at what address they arose.

        What was told in it before is void then.

        Args:
            call: The number of the tool call that runs in it, if one does.
            emitter: What that call tells with.
        """
        return _Reported(self, call, emitter or self.emitter)

    def leaving_error(self, error: BaseException, call: int | None, emitter: Emitter) -> BaseException:
        """Return what leaves the activation for an exception, with its address on it.

        A question says, too, which tool call asks, or behind how many messages of a graph: there
        it is the graph agent's, whoever asks inside.
        """
        emitter.void_all()
        if isinstance(error, GraphInterrupt):
            self._check_questions(error.args[0])
            self._report_questions(error.args[0], call, emitter)
        elif isinstance(error, ParentCommand):
            return self._report(self._left_by_command(error.args[0]))
        elif not isinstance(error, GraphBubbleUp) and not is_cancelled(error):
            self._report_questions(asked_beside(error), call, emitter)
            return self._report(error)
        return error

    def _report_questions(self, asked: Sequence[Any], call: int | None, emitter: Emitter) -> None:
        for one in asked:
            if asked_when(one.response_schema) is None or self.asked_after is not None:
                self._report_question(one, call, emitter)

    def _report_question(self, asked: Any, call: int | None, emitter: Emitter) -> None:
        """Write on a question who asks, and tell it; that of a call when the node pauses for it."""
        given = asked.response_schema
        is_ours = asker(given) is not None and self.asked_after is None
        schema = unaddressed(given if is_ours else checkable(given))
        number = self.asked_after if call is None else call
        if is_ours:
            number = asking_call(given)
        moment = emitter.emit_question(asked.id, asked.value, schema).moment if call is None else None
        asked.response_schema = addressed(schema, self.address, number, moment)

    def _check_questions(self, asked: Sequence[Any]) -> None:
        """Refuse questions that cannot be saved, as a failure of this activation."""
        try:
            for one in asked:
                if asker(one.response_schema) is None or asker(one.response_schema) == self.address:
                    self.check("the question", one.value)
        except InvalidOutputError as error:
            mark_failure(error, self.address, self.name, self.emitter.step)
            self.emitter.stream_failures(error)
            raise error from None

    def said_before(self) -> list[BaseMessage]:
        """Return what this activation has said in the steps before this one."""
        before = self.seen.messages[len(self.seen.messages) - self._under_way :]
        return [message for message in before if address_of(message) == self.address]

    @cached_property
    def _under_way(self) -> int:
        """How many of the last messages are those of this activation, and of attempts before."""
        place = self.node_context.place
        if not self.progress and not attempt(place, self.cursor):
            return 0
        mine = {self.address}
        if place.repeats:
            mine |= {address(place, each) for each in attempts(place, self.cursor)}
        count = 0
        for message in reversed(self.seen.messages):
            if message.response_metadata.get(STAMP) not in mine:
                break
            count += 1
        return count

    def _report(self, error: BaseException) -> BaseException:
        """Tell of a failure, and return what to raise for it."""
        marked = mark_failure(error, self.address, self.name, self.emitter.step)
        if self.has_ended:
            mark_border(marked)
        self.emitter.stream_failures(marked)
        return marked

    def _left_by_command(self, command: Command[Any]) -> InvalidOutputError:
        """Return the error for a command to the graph around one that runs in this activation."""
        return InvalidOutputError(
            f"{self.address}: a LangGraph graph in the agent {self.name!r} ended by Command(goto="
            f"{command.goto!r}, graph=Command.PARENT), but the tree decides where the run goes on, and "
            "nothing of the command was written; end that graph without it, and hand over by "
            "TransferTo(name), from a tool or a function agent in the sub_agents of a chat agent"
        )


class _Reported(Contained):
    """Says where questions and failures arose, and contains them.

    No `@contextmanager`: nodes are entered too often for what one costs.
    """

    __slots__ = ("_activation", "_call", "_emitter")

    def __init__(self, activation: Activation, call: int | None, emitter: Emitter) -> None:
        self._activation, self._call, self._emitter = activation, call, emitter
        self._in_task = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            return
        contained = self.contained(error)
        leaves = self._activation.leaving_error(contained, self._call, self._emitter)
        if leaves is error:
            return
        if leaves is contained:
            raise leaves from error
        raise leaves from None if isinstance(contained, ParentCommand) else contained


def ask_until_it_fits(value: Any, schema: dict[str, Any] | None) -> Any:
    """Pause until a person has answered, and again until the answer fits a JSON schema."""
    while True:
        answer = interrupt(value, response_schema=schema)
        if answer_fault(unaddressed(schema), answer) is None:
            return answer
