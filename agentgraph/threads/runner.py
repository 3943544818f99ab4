"""The runner: runs a tree on threads, tells what it does, and goes on where it stopped."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore

from agentgraph.agents.agents import Agent
from agentgraph.agents.limits import Limits
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.graph.compiler import compile_tree
from agentgraph.graph.values import declared
from agentgraph.threads.engine import Engine, RunOptions
from agentgraph.threads.pending import UNANSWERED, pending, resumption
from agentgraph.threads.replay import replayed
from agentgraph.threads.runs import AsyncRun, Run
from agentgraph.threads.threads import Reads
from agentgraph.threads.turns import Input, as_input, new_turn
from agentgraph.tree.validation import validate


class Runner:
    """Runs a tree of agents on threads, and tells what it does as `AgentEvent`s.

    >>> runner = Runner(human("boss", "Print it?"))
    >>> [event.kind for event in runner.run("Go.", thread_id="monday")]
    ['interrupted']
    >>> [event.text for event in runner.resume("monday", "yes")]
    ['yes']

    Attributes:
        agent: The root of the tree.
        graph: The LangGraph graph that it was compiled to.
        saver: Where the threads are kept.
        engine: What runs it and reads its threads; for what is built on runners.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        store: BaseStore | None = None,
        values: Any = None,
        limits: Limits | None = None,
        middleware: Iterable[Any] = (),
    ) -> None:
        """Compile `agent`.

        Args:
            agent: The root of the tree.
            checkpointer: LangGraph's saver for the threads; without one they are kept in memory.
            store: LangGraph's store, for `ctx.runtime.store`.
            values: Declares values and their reducers, as for `compile_agent`.
            limits: What a turn may use, where a run says nothing else.
            middleware: LangChain's middleware that every chat agent has, as for `compile_agent`.

        Raises:
            InvalidAgentError: The tree has faults; the error names all of them.
            AgentGraphError: `limits` are no `Limits`.
        """
        self.agent = agent
        self.saver = InMemorySaver() if checkpointer is None else checkpointer
        reducers = declared(values)
        tree = validate(agent, reducers.channels, middleware)
        self.graph = compile_tree(tree, reducers, limits=limits, checkpointer=self.saver, store=store)
        self.engine = Engine(tree, self.graph, self.saver)

    def run(
        self,
        messages: Input,
        *,
        thread_id: str | None = None,
        values: Mapping[str, Any] | None = None,
        stream: bool = False,
        drop_pending: bool = False,
        limits: Limits | None = None,
    ) -> Run:
        """Run a turn, and give its events as they happen.

        Args:
            messages: The input: a text, a message, or a list of messages.
            thread_id: The thread to run on; without one a new thread, named on every event.
            values: Values for the run, written over those of the thread.
            stream: Whether to tell a model's reply in chunks too, as `partial` events.
            drop_pending: Whether questions that wait on the thread are dropped.
            limits: What the turn may use; without them those of the runner.

        Returns:
            An iterator of the events, which holds the thread until it ends, is closed, or is dropped.
            An exception in an agent is reported as an event, then raised; `resume` tries the failed
            step again and nothing that had finished. Of ours these are `MissingValueError`,
            `InvalidOutputError`, `MaxIterationsError`, `CheckFailedError`, `StepFailedError`,
            `ValueConflictError` and `LimitError`.

        Raises:
            PendingInterruptError: Questions wait on the thread.
            ThreadBusyError: Another run is under way on the thread.
            AgentGraphError: The input cannot be read or saved, the thread's id is no text that can be
                kept, an agent has a timeout, or the saver serves the async calls only.
            SaverError: The saver cannot be read or written.
        """
        thread_id = str(uuid4()) if thread_id is None else thread_id
        given = as_input(messages, values)
        self.engine.check_sync()
        begin = partial(new_turn, self.engine.tree, thread_id, given, drop_pending)
        return self.engine.run(begin, thread_id, RunOptions(stream, limits))

    def query(self, text: str, **options: Any) -> Run:
        """Run a turn on a text, as `run` does: `query("Go.")` is `run("Go.")`.

        Args:
            text: The input.
            **options: Those of `run`.

        Returns:
            The events, as `run` does.
        """
        return self.run(text, **options)

    def resume(
        self,
        thread_id: str,
        answers: Any = UNANSWERED,
        *,
        values: Mapping[str, Any] | None = None,
        stream: bool = False,
        limits: Limits | None = None,
    ) -> Run:
        """Go on where a thread stopped: at its questions, or at the step that failed.

        Args:
            thread_id: The thread.
            answers: Answers by the id or the address of their question, all or some; with one
                question pending a bare answer will do. A dict is read as such a map if one of its
                keys is an id, or an address of the tree. None is an answer; leave it out to go on
                without one.
            values: Values to write before going on.
            stream: Whether to tell a model's reply in chunks too.
            limits: What the rest of the turn may use; without them those of the runner.

        Returns:
            The events, as `run` does. Questions left unanswered are told to be void and told again,
            under the same ids. Where the step that goes on was killed or left, the first event makes
            void what it had told, and what is kept of it is told again. On a thread that has ended
            there is nothing to do, and no event.

        Raises:
            UnknownThreadError: The saver knows nothing of the thread.
            UnknownInterruptError: An answer to a question that is not pending.
            InvalidAnswerError: An answer that does not fit its question's schema.
            TreeChangedError: The thread was left by a tree of another shape.
            ThreadBusyError: Another run is under way on the thread.
            AgentGraphError: An answer has no JSON form, an agent has a timeout, or the saver
                serves async calls only.
        """
        self.engine.check_sync()
        begin = partial(resumption, self.engine.tree, thread_id, answers, values)
        return self.engine.run(begin, thread_id, RunOptions(stream, limits))

    def pending(self, thread_id: str) -> list[Interrupt]:
        """Return the questions that wait for answers, in the order of the tree.

        Args:
            thread_id: The thread.

        Raises:
            UnknownThreadError: The saver knows nothing of the thread.
            TreeChangedError: The thread was left by a tree of another shape.
            AgentGraphError: The saver serves async calls only.
        """
        self.engine.check_saver()
        return self.engine.read(pending(self.engine.tree, thread_id), thread_id)

    def events(self, thread_id: str) -> Iterator[AgentEvent]:
        """Yield the events of a thread again, chunks aside, from the saver alone.

        They are those that were streamed and not told to be `discarded` later, in the order of the
        streams, equal to them with ids, times and steps. Of a thread that was forked (`update_state`
        on an older checkpoint, or a run from there) they are those of the line that leads to its latest
        checkpoint. Where a bare graph ran it, and not a runner, a failure is told while the thread
        stands at it, and of a tool that asked several times the last question.

        Args:
            thread_id: The thread.

        Raises:
            UnknownThreadError: The saver knows nothing of the thread.
            TreeChangedError: The thread was left by a tree of another shape.
            AgentGraphError: The saver serves async calls only.
        """
        self.engine.check_saver()
        return iter(self.engine.read(replayed(self.engine.tree, thread_id), thread_id))

    def arun(
        self,
        messages: Input,
        *,
        thread_id: str | None = None,
        values: Mapping[str, Any] | None = None,
        stream: bool = False,
        drop_pending: bool = False,
        limits: Limits | None = None,
    ) -> AsyncRun:
        """Run a turn as `run` does, on the event loop.

        What `run` refuses at the call is refused where the result is awaited, or at the first event:

        ```
        run = await runner.arun("Go.", thread_id="monday")
        async for event in run:
            ...
        ```
        """
        thread_id = str(uuid4()) if thread_id is None else thread_id

        def begin() -> Reads[Any]:
            return new_turn(self.engine.tree, thread_id, as_input(messages, values), drop_pending)

        return self.engine.arun(begin, thread_id, RunOptions(stream, limits))

    def aquery(self, text: str, **options: Any) -> AsyncRun:
        """Run a turn on a text as `query` does, on the event loop."""
        return self.arun(text, **options)

    def aresume(
        self,
        thread_id: str,
        answers: Any = UNANSWERED,
        *,
        values: Mapping[str, Any] | None = None,
        stream: bool = False,
        limits: Limits | None = None,
    ) -> AsyncRun:
        """Go on where a thread stopped as `resume` does, on the event loop; it may be awaited, too."""
        begin = partial(resumption, self.engine.tree, thread_id, answers, values)
        return self.engine.arun(begin, thread_id, RunOptions(stream, limits))

    async def apending(self, thread_id: str) -> list[Interrupt]:
        """Return the questions that wait for answers, as `pending` does."""
        return await self.engine.aread(pending(self.engine.tree, thread_id), thread_id)

    def aevents(self, thread_id: str) -> AsyncRun:
        """Give the events of a thread again, as `events` does.

        Returns:
            The events; what `events` refuses is refused where this is awaited, or at the first event.
        """

        async def admit() -> AsyncGenerator[AgentEvent, None]:
            reads = replayed(self.engine.tree, thread_id)
            return _each(await self.engine.aread(reads, thread_id))

        return AsyncRun(admit)


async def _each(events: Iterable[AgentEvent]) -> AsyncGenerator[AgentEvent, None]:
    for event in events:
        yield event
