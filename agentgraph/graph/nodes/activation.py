"""One run of a leaf or a fork: its input state, its messages and notes, and the update it writes."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, cast
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.cache.base import BaseCache, FullKey
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.types import Command, interrupt

from agentgraph.agents.agents import HistoryPolicy
from agentgraph.agents.context import Context
from agentgraph.agents.schemas import answer_fault, checkable, plain_at
from agentgraph.agents.signals import Kept, Signal
from agentgraph.errors import InvalidOutputError, LimitError
from agentgraph.graph.effects import Effect, Giver, MessageChange, Owner, change_by
from agentgraph.graph.failures import asked_beside, is_within, mark_border, mark_failure, mark_of_run
from agentgraph.graph.guarded_saver import saver_failure
from agentgraph.graph.history import visible
from agentgraph.graph.internals import RUNTIME
from agentgraph.graph.nodes.completion import Completion
from agentgraph.graph.nodes.context import ActivationContext, NodeContext, RunState
from agentgraph.graph.nodes.emitter import Emitter, Writer, with_writer
from agentgraph.graph.nodes.spending import Spent
from agentgraph.graph.nodes.stopping import Contained, Stop, is_cancelled
from agentgraph.graph.saving import check_names, check_saved
from agentgraph.graph.stamps import (
    STAMP,
    Entry,
    Note,
    address_of,
    addressed,
    agent_of,
    asker_of,
    stamped,
)
from agentgraph.graph.state import (
    Border,
    Change,
    Changes,
    LaneState,
    Position,
    Progress,
    Question,
    Record,
    Update,
    collected,
    folded,
    keeping,
)
from agentgraph.graph.stored_values import counts_for_values
from agentgraph.graph.sync_async import Calls
from agentgraph.graph.values import Write, in_order
from agentgraph.tree.addresses import address, as_cursor, attempt, attempts, keeper_node

_PLAIN_END = Border(given=[])
"""The end of an activation without a signal or a transfer, of which nothing was asked yet."""


class CacheEntry(NamedTuple):
    """Where the outcome of an activation is cached."""

    cache: BaseCache[Any]
    key: FullKey
    ttl: int | None
    """For how many seconds; None for good."""


class Activation:
    """One activation of a leaf or a fork.

    Attributes:
        node_context: Its place.
        cursor: The counters at the place.
        address: Its address.
        home_address: The address of its agent: for a node of a graph that is laid flat, the graph's.
        asked: The question that this step asks.
        progress: The progress of a chat agent.
        has_ended: Whether it ended in an earlier step, and only has to find the next position.
        seen: The messages and values visible to it.
        emitter: Emits its messages and notes.
        config: LangGraph's config for the code that runs in it.
        written_here: The messages of its lane.
        asked_after: How many changes of an inner graph's messages were saved before its questions.
        cache_entry: Where its outcome will be cached, if it is not there yet.
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
            runs_lanes: Whether the node runs lanes, which may emit concurrently.
            runs_trees: Whether the node runs a graph that may itself be a compiled tree.
        """
        self._control = config["configurable"][RUNTIME].control
        if isinstance(self._control, Stop):
            self._control.begin_step(config)
        self._given = config
        position = node_context.arrived(state.get("position"))
        self.node_context = node_context
        self.cursor = as_cursor(position["cursor"])
        self.address = node_context.address(self.cursor)
        is_inner = node_context.place.kind.is_inner
        self.home_address = self.address.rpartition("/")[0] if is_inner else self.address
        self.asked = position.get("ask")
        self.progress: Progress = position.get("chat", {})
        self.asked_after: int | None = None
        self.cache_entry: CacheEntry | None = None
        self.seen = node_context.run_state(state, config)
        self._transfers = self.seen.transfers
        is_concurrent = runs_lanes or node_context.is_inner
        self.emitter = Emitter(self.seen.clock, self.address, config, is_concurrent=is_concurrent)
        self.config = with_writer(config, Writer(self.emitter, passes_ours=runs_trees))
        self.written_here: Sequence[BaseMessage] = state.get("messages", ())
        self._answer = position.get("answer", [])
        self._said: list[BaseMessage] = []
        self._writes: list[Write] = []
        self.has_ended = "border" in position
        self._ending = position.get("border", _PLAIN_END)
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
    def mark(self) -> dict[str, Any]:
        """The metadata for the code that runs in it; the stamp has the number of the last event."""
        name, clock = self.name, self.seen.clock
        return {
            "agent_name": name,
            "agent_address": self.address,
            "lc_agent_name": name,
            STAMP: [self.address, clock.turn, clock.last, self.emitter.step],
        }

    @property
    def is_answered(self) -> bool:
        """Whether it follows the answer to a question."""
        return bool(self._answer)

    @property
    def values(self) -> Mapping[str, Any]:
        """The values at the start of this activation."""
        return self.seen.values

    @property
    def record(self) -> Record:
        """The saved record of this agent's middleware."""
        return self.seen.middleware.get(self.node_context.place.home.node, {})

    @property
    def untracked(self) -> Mapping[str, Any]:
        """The unsaved state of its middleware; empty at the start of each activation and resume."""
        at, values = self._untracked or ("", {})
        return values if at == self.home_address and self.progress else {}

    def context(self, history: HistoryPolicy, seen: RunState | None = None) -> Context:
        """Return the context for the agent's function; of `seen` instead of the state at the start."""
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
            records=seen.middleware,
        )

    def visible(self, history: HistoryPolicy) -> list[BaseMessage]:
        """Return the messages that the agent sees in mid-activation, when calls may be open."""
        return visible(
            self.seen.messages,
            history,
            self.node_context.place.home.name,
            self.home_address,
            self.node_context.paths.of,
            self._under_way,
            is_open=True,
            inner_names=self.node_context.paths.inner_names,
        )

    def emit_message(self, message: BaseMessage) -> None:
        """Write a new message to the history, and emit it when the node ends."""
        self.check("the message", message)
        self._said.append(self.stamped(message))
        self.emitter.add_message(self._said[-1])

    def take(
        self, message: BaseMessage, giver: Giver, *, is_seen: bool = False, live: bool = False
    ) -> Effect:
        """Make the change of the history that a message makes, and emit it.

        Args:
            message: The message.
            giver: Who gives it.
            is_seen: Whether a message with its id is in the agent's context.
            live: Whether to emit a new message at once instead of when the node ends. What makes others
                void waits for the end: the node may fail.
        """
        change = self.change_by(message, giver, is_seen=is_seen)
        if change.messages:
            self.check("the message", message)
            self.emitter.add_change(change)
            self._said += change.messages
        if live and change.effect == "said":
            self.emitter.flush()
        return change.effect

    def change_by(self, message: BaseMessage, giver: Giver, *, is_seen: bool = False) -> MessageChange:
        """Return the change of the history that a message makes, by the table in `effects.py`."""
        was = self.current_message(message.id) if message.id else None
        owner: Owner = "other" if is_seen else "nobody"
        if was is not None:
            owner = self._owner(was)
        name = self.node_context.place.home.name
        return change_by(message, was, owner, giver, self.address, name)

    def _owner(self, was: BaseMessage) -> Owner:
        """Return whose a message of the history is."""
        at = address_of(was)
        if at is None:
            is_here = was.type == "human" and any(each.id == was.id for each in self.written_here)
            return "user" if is_here else "other"
        home, inner_names = self.node_context.place.home, self.node_context.paths.inner_names
        if agent_of(was, inner_names) != home.name:
            return "other"
        here = [*self._said, *self.said_before()]
        return "here" if any(each.id == was.id for each in here) else "earlier"

    def say(self, text: str, message_id: str | None = None, *, live: bool = False) -> None:
        """Write a text of the agent to the history and emit it, as `emit_message` does a message.

        The message is made with its stamp: making it first and then a stamped copy costs twice.
        """
        if not text.isascii():
            self.check("the message", AIMessage(text))
        message = AIMessage(
            text,
            id=message_id or str(uuid4()),
            name=self.node_context.place.home.name,
            response_metadata={STAMP: [self.address]},
        )
        self._said.append(message)
        self.emitter.add_message(message)
        if live:
            self.emitter.flush()

    def stamped(self, message: BaseMessage) -> BaseMessage:
        """Return a message with the address at which it is said, and the name of its agent."""
        return stamped(message, self.address, self.node_context.place.home.name)

    def add_emitted(self, messages: Sequence[BaseMessage], notes: Sequence[Note] = ()) -> None:
        """Write messages and notes that tasks or a call have already emitted."""
        self._said += messages
        self.emitter.notes += notes

    def emit_note(self, kind: str, data: Any = None) -> None:
        """Emit a note at once: `custom` data or a signal."""
        self.check("custom data", data)
        self.emitter.add_note(kind, data)
        self.emitter.flush()

    def signal(self, signal: Signal, *, is_emitted: bool = False) -> None:
        """End with a signal, which overrides a transfer; emit it unless a lane has."""
        self._ending = Border(signal=signal, given=[])
        if not is_emitted:
            self.emit_note(signal)

    def transfer(self, target: str, *, is_granted: bool = False) -> None:
        """End with a transfer to one of the place's targets; it is emitted once the limits allow it.

        Args:
            target: The name of the target.
            is_granted: Whether it is counted already.
        """
        if "signal" not in self._ending:
            granted = {"granted": True} if is_granted else {}
            self._ending = cast(Border, {"target": target, **granted, "given": []})

    def count_transfer(self) -> None:
        """Count a transfer before it is made.

        Raises:
            LimitError: The turn has reached its limit of transfers.
        """
        bound = self.node_context.limits(self.config).transfers
        if not cast(Spent, self.seen.spent).take("transfers", bound):
            reached = LimitError(self.name, self.address, "transfers", cast(int, bound))
            mark_of_run(reached)
            raise reached
        self._transfers += 1

    def uncount_transfer(self) -> None:
        """Take back a transfer that was counted, and is not made."""
        cast(Spent, self.seen.spent).give_back("transfers")
        self._transfers -= 1

    def read_lanes(self) -> Calls[None]:
        """Count what the lanes of this step used before a resume."""
        if self.seen.spent is not None and not self.node_context.is_inner:
            yield from self.seen.spent.read_lanes(self.config, self.node_context.tree)

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Write values of the run."""
        self.write([Write(by=self.address, values=dict(values))])

    def keep_middleware(self, change: Change, untracked: Mapping[str, Any] | None) -> None:
        """Write the changes of the middleware's record, and its untracked state if that is new."""
        self._changes = {self.node_context.place.home.node: change} if change else {}
        self._new_untracked = untracked

    def keep_changes(self, *changes: Changes) -> None:
        """Write changes of records, such as those of middleware in the lanes of this activation."""
        self._changes = collected(self._changes, changes)

    def keep(self, kept: Kept) -> None:
        """Keep data for enclosing agents, each the nearest one with its name."""
        for name, entries in kept.items():
            self.check("what it keeps", dict(entries))
            self.keep_changes(keeping(keeper_node(self.node_context.place, name), entries))

    def write(self, writes: Sequence[Write]) -> None:
        """Write values of the run, in order; writes by "" are the package's own and never conflict."""
        for write in writes:
            if write["by"] in ("", self.address):
                values = write["values"]
                check_names(self.address, values)
                named = ((f"the value {name!r}", value) for name, value in values.items())
                check_saved(self.config, self.address, named)
        self._writes = self.node_context.reducers.collected(self._writes, writes)

    def plain(self, named: str, value: Any) -> Any:
        """Return a value of the agent as plain JSON data, or refuse it."""
        return plain_at(self.address, named, value)

    def check(self, named: str, value: Any) -> None:
        """Refuse a value that the run's saver cannot save."""
        check_saved(self.config, self.address, [(named, value)])

    def continue_at(self, node: str, **more: Any) -> None:
        """Continue at a node of this activation, with more keys in the position."""
        position = self.node_context.position(node, self.cursor)
        self._next = cast(Position, {**position, **more})

    def ask(self, question: Question) -> Any:
        """Ask a person again and again until the answer fits the schema, and return the answer."""
        schema = addressed(question["response_schema"], self.address)
        return ask_until_it_fits(question["value"], schema)

    def current_message(self, message_id: str | None) -> BaseMessage | None:
        """Return the current version of a message, or None if it is removed or not visible here."""
        for message in reversed(self._said):
            if message.id == message_id:
                return None if isinstance(message, RemoveMessage) else message
        return next((each for each in self.seen.messages if each.id == message_id), None)

    @property
    def said_ids(self) -> set[str | None]:
        """The ids of the messages of this step."""
        return {message.id for message in self._said if not isinstance(message, RemoveMessage)}

    def last_text(self) -> str | None:
        """Return the text of the last message of this step, or None."""
        gone: set[str | None] = set()
        for message in reversed(self._said):
            if isinstance(message, RemoveMessage):
                gone.add(message.id)
            elif address_of(message) is not None and message.id not in gone:
                return str(message.text)
        return None

    def outcome(self) -> tuple[list[Entry], list[Write]] | None:
        """Return the messages and notes of this step in order, and its writes.

        None if the step asks, or changes messages of the history: then it has an effect only here.
        """
        known = {message.id for message in self.seen.messages}
        if self._next is not None or any(message.id in known for message in self._said):
            return None
        left = [each for each in folded(self._said) if not isinstance(each, RemoveMessage)]
        target = self._ending.get("target")
        handed_over = [Note("", "transfer_to", target, self.address)] if target else []
        return [*self.emitter.in_order(left), *handed_over], self._writes

    def update(self) -> Update:
        """Return the update of the node, with the next position of the lane.

        Raises:
            BaseException: A function called at the end of this activation failed, in this step or the
                step before.
        """
        if self._failure is not None:
            raise self._failure
        if self._writes and self.node_context.reducers.fields:
            self._merge_values()
        position, failure = self._next, None
        if position is None and self._ending == _PLAIN_END:
            position = self.node_context.plain_position(self.cursor)
        if position is None:
            position, failure = self._completed()
        position["at"] = self.address
        if notes := self.emitter.end():
            position["told"] = notes
        position["clock"] = [self.seen.clock.turn, self.seen.clock.last]
        if self.seen.spent is not None:
            self._keep_spent(position, self.seen.spent)
        update = Update(position=position)
        if self._said or notes:  # LangGraph saves changes of the history before it continues
            update["messages"] = self._said
        if self._writes or self.seen.values:
            self._write_values(update)
        if self._changes:
            update["middleware"] = self._changes
        if self._new_untracked is not None:
            update["untracked"] = [self.home_address, self._new_untracked]
        if failure is not None:
            self._fail_next(update, failure)
        return update

    def _merge_values(self) -> None:
        """Check the values written; in the root also run the reducers of users, once and for all."""
        merged = self.seen.check(self.address, self._writes)
        if not self.node_context.is_inner:
            stored = self.node_context.update(self._writes, self.seen.values, merged)
            self._writes = [Write(by=self.address, values=dict(each)) for each in in_order(stored)]

    def _write_values(self, update: Update) -> None:
        """Write the values; in the root now and then none, so that steps without values count, too."""
        if self._writes:
            update["values"] = self.node_context.update(self._writes, self.seen.values)
        elif not self.node_context.is_inner and counts_for_values(self._given):
            update["values"] = {}

    def _completed(self) -> tuple[Position, BaseException | None]:
        """Return the next position, and the failure of a function that was asked for it."""
        completion = Completion(
            self.node_context,
            self.cursor,
            self._ending,
            lambda: self.seen.with_new(self._said, self._writes, self._changes),
            self.count_transfer,
            is_border=self.has_ended,
        )
        position = completion.position()
        completion.emit(self.emitter)
        self._said += completion.messages
        if completion.values:
            self._writes = [*self._writes, Write(by="", values=completion.values)]
            self.keep_changes(completion.changes)  # checks keep nothing without values
        return position, completion.failure

    def _keep_spent(self, position: Position, spent: Spent) -> None:
        """Write what the turn has used into the position; in an inner lane: the lane alone."""
        is_inner = self.node_context.is_inner
        if transfers := self._transfers if is_inner else spent.used("transfers"):
            position["transfers"] = transfers

    def _fail_next(self, update: Update, failure: BaseException) -> None:
        """Have the next step raise a failure."""
        update["failure"] = failure
        if isinstance(self._control, Stop):
            self._control.fail_next()

    def new_emitter(self, *, is_concurrent: bool) -> Emitter:
        """Return a new emitter for this activation, or for one of its tool calls."""
        return Emitter(self.seen.clock, self.address, self._given, is_concurrent=is_concurrent)

    def reported(self, call: int | None = None, emitter: Emitter | None = None) -> "_Reported":
        """Return a `with` block that adds this address to questions and failures, and voids its events.

        Args:
            call: The number of the tool call that runs in it, if any.
            emitter: The emitter of that call.
        """
        return _Reported(self, call, emitter or self.emitter)

    def leaving_error(self, error: BaseException, call: int | None, emitter: Emitter) -> BaseException:
        """Return the exception to raise for one from this activation, with the address added.

        A question also gets the number of the tool call that asks. A question of another tree, which
        runs as a graph in this activation, becomes the activation's own, as its failures do. Whatever
        leaves once the saver has failed is the saver's.
        """
        emitter.void_all()
        if (failure := saver_failure(self._given, error)) is not None:
            return failure
        if isinstance(error, GraphInterrupt) and not error.args[0]:
            return self._report(self._left_by_stop())
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
            if asker_of(one.response_schema).moment is None or not self._asks(one):
                self._report_question(one, call, emitter)

    def _asks(self, asked: Any) -> bool:
        """Return whether a question has the address of this activation, or of one in a lane of it."""
        at = asker_of(asked.response_schema).address
        is_here = at is not None and (at == self.address or is_within(at, self.address))
        return is_here and self.asked_after is None

    def _report_question(self, asked: Any, call: int | None, emitter: Emitter) -> None:
        """Write the address into a question, and emit it unless a tool call asks it."""
        is_ours = self._asks(asked)
        asker = asker_of(asked.response_schema if is_ours else checkable(asked.response_schema))
        schema, number = asker.schema, self.asked_after if call is None else call
        if is_ours:
            number = asker.call
        moment = emitter.emit_question(asked.id, asked.value, schema).moment if call is None else None
        asked.response_schema = addressed(schema, self.address, number, moment)

    def _check_questions(self, asked: Sequence[Any]) -> None:
        """Fail this activation for a question that cannot be saved."""
        try:
            for one in asked:
                if asker_of(one.response_schema).address in (None, self.address):
                    self.check("the question", one.value)
        except InvalidOutputError as error:
            mark_failure(error, self.address, self.name, self.emitter.step)
            self.emitter.stream_failures(error)
            raise error from None

    def said_before(self) -> list[BaseMessage]:
        """Return the messages of this activation from earlier steps."""
        before = self.seen.messages[len(self.seen.messages) - self._under_way :]
        inside = f"{self.home_address}/"
        at = [(message, address_of(message) or "") for message in before]
        return [each for each, there in at if there == self.home_address or there.startswith(inside)]

    @cached_property
    def _under_way(self) -> int:
        """How many messages at the end of the history are from this activation or earlier attempts."""
        home = self.node_context.place.home
        if not self.progress and not (home.repeats and attempt(home, self.cursor)):
            return 0
        mine = {self.home_address}
        if home.repeats:
            mine |= {address(home, each) for each in attempts(home, self.cursor[: len(home.counts)])}
        inside = tuple(f"{each}/" for each in mine) if home.kind.is_laid_flat else ()
        count = 0
        for message in reversed(self.seen.messages):
            at = (message.response_metadata.get(STAMP) or [""])[0]
            if at not in mine and not at.startswith(inside):
                break
            count += 1
        return count

    def _report(self, error: BaseException) -> BaseException:
        """Stream a failure, and return the exception to raise for it."""
        marked = mark_failure(error, self.address, self.name, self.emitter.step)
        if self.has_ended:
            mark_border(marked)
        self.emitter.stream_failures(marked)
        return marked

    def _left_by_command(self, command: Command[Any]) -> InvalidOutputError:
        """Return the error for a graph that ended with a command to its parent graph."""
        return InvalidOutputError(
            f"{self.address}: a LangGraph graph in the agent {self.name!r} ended by Command(goto="
            f"{command.goto!r}, graph=Command.PARENT), but the tree decides where the run continues, "
            "and nothing of the command was written; end that graph without it, and hand over by "
            "TransferTo(name), from a tool or a function agent in the sub_agents of a chat agent"
        )

    def _left_by_stop(self) -> InvalidOutputError:
        """Return the error for a graph that stopped without a question: nobody could answer it."""
        name = self.node_context.place.home.name
        return InvalidOutputError(
            f"{self.address}: a LangGraph graph in the agent {name!r} stopped before or after a node "
            "without a question: it is compiled or called with interrupt_before= or interrupt_after=; "
            "leave these out, and call interrupt() in the node. A resume continues after the stop"
        )


class _Reported(Contained):
    """Adds the address to questions and failures. Not a `@contextmanager`: that costs too much."""

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
    """Ask a person again and again until the answer fits a JSON schema, and return the answer."""
    while True:
        answer = interrupt(value, response_schema=schema)
        if answer_fault(asker_of(schema).schema, answer) is None:
            return answer
