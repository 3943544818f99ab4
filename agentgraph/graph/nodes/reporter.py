"""Failures and questions of an activation: they leave it with its address, and discard its events.

Also asks questions until the answer fits the schema.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.types import Command, Interrupt, interrupt

from agentgraph.agents.schemas import answer_fault, checkable
from agentgraph.agents.signals import JsonSchema
from agentgraph.errors import InvalidOutputError, QuestionTimeoutError
from agentgraph.graph.deadlines import Substitute, begun, shown_time, substitute_in, take_timeout
from agentgraph.graph.failures import concurrent_questions, is_within, mark_boundary, mark_failure
from agentgraph.graph.guarded_saver import saver_failure
from agentgraph.graph.lane_position import Question
from agentgraph.graph.nodes.activation import Activation, TreeExit
from agentgraph.graph.nodes.activation_log import ACTIVATIONS
from agentgraph.graph.nodes.calling import Contained, is_cancelled
from agentgraph.graph.nodes.emitter import Emitter
from agentgraph.graph.stamps import Deadline, addressed, asker_of


class Reporter(Contained):
    """Adds the address to questions and failures that leave a `with` block, and discards its events.

    Not a `@contextmanager`: that costs too much.
    """

    __slots__ = ("_activation", "_address", "_began", "_call", "_emits", "_emitter")

    def __init__(
        self,
        activation: Activation,
        call: int | None = None,
        emitter: Emitter | None = None,
        *,
        emits: bool = False,
    ) -> None:
        """Report what leaves an activation, or one of its tool calls.

        Args:
            activation: The activation.
            call: The number of the tool call that runs in the block, if any.
            emitter: The emitter of that call.
            emits: Whether the questions of the call are emitted at once, and not as the node ends.
        """
        self._activation, self._address, self._call = activation, activation.address, call
        self._emitter, self._emits = emitter or activation.output.emitter, emits or call is None
        self._in_task = False
        is_logged = ACTIVATIONS.is_on and call is None
        self._began = ACTIVATIONS.begin(activation) if is_logged else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._began is not None:
            ACTIVATIONS.end(self._activation, self._began, error)
        if error is None:
            return
        contained = self.contained(error)
        leaves = self._leaving(contained)
        if leaves is error:
            return
        if leaves is contained:
            raise leaves from error
        raise leaves from None if isinstance(contained, ParentCommand) else contained

    def _leaving(self, error: BaseException) -> BaseException:
        """Return the exception to raise for one from the activation, with the address added.

        A question also gets the number of the tool call that asks. A question of another tree, which
        runs as a graph in the activation, becomes the activation's own, as its failures do. Whatever
        leaves once the saver has failed is the saver's.
        """
        self._emitter.discard_all()
        if self._call is None:
            self._activation.output.lose_chunks()
        if (failure := saver_failure(self._activation.node_config, error)) is not None:
            return failure
        if isinstance(error, GraphInterrupt) and not error.args[0]:
            return self._report(self._stop_error())
        if isinstance(error, GraphInterrupt):
            if self._activation.view.state.step:  # a leaf in a task, which will ask in its graph
                return error
            self._check_questions(error.args[0])
            self._report_questions(error.args[0])
        elif isinstance(error, ParentCommand) and not isinstance(error, TreeExit):
            return self._report(self._command_error(error.args[0]))
        elif not isinstance(error, GraphBubbleUp) and not is_cancelled(error):
            self._report_questions(concurrent_questions(error))
            return self._report(error)
        return error

    def _report_questions(self, asked: Sequence[Any]) -> None:
        for one in asked:
            if asker_of(one.response_schema).order is None or not self._asks(one):
                self._report_question(one)

    def _report_question(self, asked: Interrupt) -> None:
        """Write the address into a question, and emit it unless a tool call asks it."""
        is_ours = self._asks(asked)
        asker = asker_of(asked.response_schema if is_ours else checkable(asked.response_schema))
        schema, number, order, deadline = asker.schema, self._call, None, asker.deadline
        if deadline is not None:
            deadline = begun(deadline, asked.id, self._activation.node_config)
        if self._call is None:
            number = self._activation.asked_after
        if self._emits:
            order = self._emitter.emit_question(asked.id, asked.value, schema, deadline).order
        if is_ours:
            number = asker.call
        asked.response_schema = addressed(schema, self._address, number, order, deadline)

    def _asks(self, asked: Interrupt) -> bool:
        """Return whether a question has the address of the activation, or of one in a lane of it."""
        at = asker_of(asked.response_schema).address
        is_here = at is not None and (at == self._address or is_within(at, self._address))
        return is_here and self._activation.asked_after is None

    def _check_questions(self, asked: Sequence[Interrupt]) -> None:
        try:
            for one in asked:
                if asker_of(one.response_schema).address in (None, self._address):
                    one.value = self._activation.output.saved("the question", one.value)
        except InvalidOutputError as error:
            mark_failure(error, self._address, self._activation.name, self._emitter.step)
            self._emitter.stream_failures(error)
            raise error from None

    def _report(self, error: BaseException) -> BaseException:
        marked = mark_failure(error, self._address, self._activation.name, self._emitter.step)
        if self._activation.has_ended:
            mark_boundary(marked)
        self._emitter.stream_failures(marked)
        return marked

    def _command_error(self, command: Command[str]) -> InvalidOutputError:
        return InvalidOutputError(
            f"{self._address}: a LangGraph graph in the agent {self._activation.name!r} ended by "
            f"Command(goto={command.goto!r}, graph=Command.PARENT), but the tree decides where the run "
            "continues, and nothing of the command was written; end that graph without it, and hand "
            "over by TransferTo(name), from a tool or a function agent in the sub_agents of a chat "
            "agent"
        )

    def _stop_error(self) -> InvalidOutputError:
        """Return the error for a graph that stopped without a question, which no answer can resume."""
        name = self._activation.node_context.place.home.name
        return InvalidOutputError(
            f"{self._address}: a LangGraph graph in the agent {name!r} stopped before or after a "
            "node without a question: it is compiled or called with interrupt_before= or "
            "interrupt_after=; leave these out, and call interrupt() in the node. A resume "
            "continues after the stop"
        )


def ask(question: Question, activation: Activation) -> object:
    """Ask a question of an activation until the answer fits, and return the answer.

    Raises:
        QuestionTimeoutError: Its deadline has passed, and it has no default.
    """
    schema, value = question["response_schema"], question["value"]
    if "deadline" not in question:
        return ask_until_it_fits(value, addressed(schema, activation.address))
    deadline = Deadline(*question["deadline"])
    own_schema = addressed(schema, activation.address, deadline=deadline)
    while True:
        answer = ask_until_it_fits(value, own_schema)
        if (late := substitute_in(answer)) is None:
            return answer
        if late["kind"] == "default":
            return take_default(late, activation.output.emitter)
        if take_timeout(late, activation.config):
            at = late["deadline"]
            raise QuestionTimeoutError(activation.address, deadline.timeout, at, shown_time(at))


def take_default(late: Substitute, emitter: Emitter) -> object:
    """Return the default of a question whose deadline has passed, and emit that it is the answer."""
    emitter.add_note("default", late)
    emitter.flush()
    return late["answer"]


def ask_until_it_fits(value: object, schema: JsonSchema | None) -> object:
    """Ask a person again and again until the answer fits a JSON schema, and return the answer."""
    while True:
        answer = interrupt(value, response_schema=schema)
        if substitute_in(answer) or answer_fault(asker_of(schema).schema, answer) is None:
            return answer
