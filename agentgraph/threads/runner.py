"""The runner: runs a tree of agents on threads, yields events, and resumes threads that stopped."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from copy import copy as copy_of
from datetime import timedelta
from functools import partial
from os import PathLike
from typing import Any, Self, TypedDict, TypeVar, Unpack

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.types import Command

from agentgraph.agents.agents import Agent, Middleware
from agentgraph.agents.costs import PriceFunction
from agentgraph.agents.habits.names import HintsNames, hints_names
from agentgraph.agents.habits.options import hints_methods
from agentgraph.agents.limits import Limits, check_limits
from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.graph.compiler import compile_tree
from agentgraph.graph.named_types import allow_named, allowed_types
from agentgraph.graph.nodes.spending import Counts
from agentgraph.graph.open_types import Cache, Saver
from agentgraph.graph.strict_serializer import StrictSerializer
from agentgraph.graph.values_schema import declared
from agentgraph.journal.answers import UNANSWERED
from agentgraph.journal.event_parts import Part, replayed, replayed_next
from agentgraph.journal.savers.known import Unfit, fitness_of
from agentgraph.journal.savers.opening import open_saver
from agentgraph.journal.savers.thread_index import Scalar
from agentgraph.journal.states import ListedStatus, Status
from agentgraph.journal.steps import Visit
from agentgraph.journal.thread_status import CLOSED, DEFAULT_REASON
from agentgraph.reports.activations import ActivationReport, activation
from agentgraph.reports.comparison import Difference, Lines, compared
from agentgraph.reports.flame import Flame, flame
from agentgraph.reports.result import Result, result
from agentgraph.reports.thread import Pending, Thread, pending_on, thread
from agentgraph.reports.thread_list import Listing, ThreadSummary, delete, status_of, threads
from agentgraph.reports.timeline import Timeline, timeline
from agentgraph.reports.visits import visits
from agentgraph.safe_repr import shown
from agentgraph.threads.advancing import aadvance, advance, result_at, waited
from agentgraph.threads.begin import Begin, NewTurn, Resume, beginning, resumed, wanted_of
from agentgraph.threads.config import thread_for
from agentgraph.threads.engine import Engine, Former, RunOptions
from agentgraph.threads.live.active_run import check_answer, start_times
from agentgraph.threads.live.answering import answer
from agentgraph.threads.live.background import MAX_RUNNING, Background
from agentgraph.threads.live.following import Follow
from agentgraph.threads.live.queueing import WhileRunning, abegin_run, begin_run
from agentgraph.threads.live.server_sent import RETRY, aserved, served
from agentgraph.threads.live.steering import steer, stop, stop_here
from agentgraph.threads.pruning import Pruned, prune, prune_of
from agentgraph.threads.renaming import check_renames, former_engines
from agentgraph.threads.rewinds.copies import copy, put_new
from agentgraph.threads.rewinds.forks import (
    AT_ONCE,
    Forks,
    Variant,
    arun_all,
    engines_of,
    plans,
    run_all,
)
from agentgraph.threads.rewinds.rewinding import RewindArguments, TurnStart
from agentgraph.threads.rewinds.siblings import Siblings
from agentgraph.threads.runs import AsyncRun, Run
from agentgraph.threads.turns import Input
from agentgraph.tree.places import Tree
from agentgraph.tree.prices import cost_fault
from agentgraph.tree.validation import validate

T = TypeVar("T")

_ANY = ""
"""The thread of reads that are of no thread."""


class RunArguments(TypedDict, total=False):
    """The keyword arguments of `Runner.run`."""

    thread_id: str | None
    values: Mapping[str, object] | None
    context: object
    config: RunnableConfig | None
    stream: bool
    drop_pending: bool
    limits: Limits | None
    while_running: WhileRunning


@hints_names("Runner")
@hints_methods
class Runner(metaclass=HintsNames):
    """Runs a tree of agents on threads, and yields what the agents do as `AgentEvent`s.

    >>> runner = Runner(human("boss", "Print it?"))
    >>> [event.kind for event in runner.run("Go.", thread_id="monday")]
    ['interrupted']
    >>> [event.text for event in runner.resume("monday", "yes")]
    ['yes']

    A runner may be used inside anything that LangGraph runs: a tool, a node, a function agent. There it
    makes separate runs, on its threads and saver, as it would outside: nothing of them gets into the
    stream, the questions or the limits of the run around them. Context variables are passed on, so
    LangSmith and OpenTelemetry nest the traces. The callbacks of the config around are not: pass those
    that should receive a run in its `config`.

    Attributes:
        agent: The root of the tree.
        graph: The LangGraph graph that the tree was compiled to.
        saver: LangGraph's checkpoint saver, which stores the threads.
        engine: Runs the graph and reads its threads; for code that builds on runners.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        checkpointer: Saver | str | PathLike[str] | None = None,
        store: BaseStore | None = None,
        context_schema: type | None = None,
        values: type | None = None,
        limits: Limits | None = None,
        prices: "PriceFunction | None" = None,
        config: RunnableConfig | None = None,
        context: object = None,
        middleware: "Iterable[Middleware]" = (),
        cache: Cache | None = None,
        allow: Iterable[type | str] = (),
        renames: Mapping[str, str] | None = None,
        max_running: int = MAX_RUNNING,
        unfit: Unfit = "refuse",
    ) -> None:
        """Compile `agent`.

        Args:
            agent: The root of the tree.
            checkpointer: LangGraph's saver for the threads; by default they are stored in memory. Or
                the path of a SQLite file, or the URL of a PostgreSQL database, "postgresql://...", for
                sync and async calls; `close`, or the end of a `with` block, closes it. In a file or
                database that is opened so, or by `sqlite_saver` or `postgres_saver`, untrusted data
                cannot execute code, and threads are locked for all processes: see there. A custom saver
                reads as you made it, and locks threads within this process only: also a
                `PostgresSaver`.
            store: LangGraph's store, available to agents as `ctx.store`.
            context_schema: The type of the runtime context, as in `compile_agent`.
            values: Declares values and their reducers, as in `compile_agent`.
            limits: The limits of each turn; those of a run replace them one by one.
            prices: Returns the price of a reply of a model: a `Decimal` of at least 0, in any one
                currency, or None if it is not known. Its arguments are the name of the model, as it is
                called, and the usage of the reply, LangChain's `UsageMetadata`. It may be async. It is
                called once for each reply that has a usage, and the cost is saved: see `Result.spent`.
                Under a limit of cost it is first asked about each model, with a usage of 0 tokens.
            config: LangGraph's config for all runs: callbacks, tags, metadata, `configurable`. The
                config of a run is merged with it.
            context: LangGraph's runtime context, unless a run passes its own.
            middleware: LangChain middleware for every chat agent, as in `compile_agent`.
            cache: LangGraph's cache for agents with a `cache_policy`.
            allow: Your own types whose objects are read from there, as in `sqlite_saver`; those that
                `values=` and the tree name need not be listed.
            renames: Old names of agents, each with its new one. A thread that ran under old names
                continues under them, in addresses and events too; new threads have the new names.
                Addresses that are passed may have either.
            max_running: How many of the runs that `start` begins run at a time; others wait.
            unfit: For a custom saver that loses questions or results of branches: "refuse" raises, when
                the runner is made if its version is known to, and otherwise in the first run that
                notices; "warn" warns, and continues. Savers of LangGraph are never checked.

        Raises:
            InvalidAgentError: The tree has faults; the error names all of them.
            AgentGraphError: `checkpointer`, `limits`, `prices`, `config`, `cache`, `allow`, `renames`,
                `max_running`, `unfit`, `context` or its schema is invalid, or a cost is limited without
                prices.
            UnfitSaverError: The version of the saver is known to lose what runs rely on.
            SaverError: The SQLite file or the database cannot be opened, or the packages for PostgreSQL
                are not installed: `pip install 'langgraph-agentgraph[postgres]'`.
        """
        self._background, self._is_closed = Background(max_running, self._stop_one), False
        middleware, allow = _repeatable(middleware), _repeatable(allow)
        self._options = {
            "checkpointer": checkpointer,
            "store": store,
            "context_schema": context_schema,
            "values": values,
            "limits": limits,
            "prices": prices,
            "config": config,
            "context": context,
            "middleware": middleware,
            "cache": cache,
            "allow": allow,
            "renames": renames,
            "max_running": max_running,
            "unfit": unfit,
        }
        reducers = declared(values)
        tree = validate(agent, reducers.shared, middleware)
        self.agent, self.saver = agent, _saver(checkpointer, allow)
        self._closes = self.saver is not checkpointer

        def compiled(tree: Tree, former: Former | None = None) -> Engine:
            saver = allow_named(self.saver, tree, reducers)
            graph = compile_tree(
                tree,
                reducers,
                context_schema=context_schema,
                limits=limits,
                prices=prices,
                checkpointer=saver,
                store=store,
                cache=cache,
            )
            return Engine(tree, graph, saver, reducers, config, context, former, fitness)

        def under(known_as: Mapping[str, str]) -> Engine:
            return compiled(validate(agent, reducers.shared, middleware, known_as))

        try:
            fitness = fitness_of(self.saver, unfit)
            former = former_engines(tree, check_renames(tree, renames), under) if renames else None
            self.engine = compiled(tree, former)
            self.graph = self.engine.graph
            if prices is None and (fault := cost_fault(tree, check_limits(limits))) is not None:
                raise AgentGraphError(fault)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        messages: Input,
        *,
        thread_id: str | None = None,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        stream: bool = False,
        drop_pending: bool = False,
        limits: Limits | None = None,
        while_running: WhileRunning = "refuse",
    ) -> Run | Follow:
        """Run a turn, and yield its events as they happen.

        Args:
            messages: The input: a text, a message, or a list of messages.
            thread_id: The thread to run on; by default that of `config`, or else a new one, whose id is
                on every event.
            values: Values to write before the turn; they replace or are merged with the thread's.
            context: LangGraph's runtime context, available as `ctx.context`: an object, or a dict of
                its fields. It is not saved, so pass it again to resume.
            config: LangGraph's config: callbacks, tags, metadata, `run_name`, and `configurable` keys,
                such as those of a model with `configurable_fields`.
            stream: Whether to yield a model's reply in chunks too, as `partial` events.
            drop_pending: Whether to drop questions that are pending on the thread.
            limits: The limits of this turn; what is None there is as in those of the runner. A resume
                does not know the limits of the run before it: pass them again.
            while_running: The use of the input if another run is active on the thread: "refuse" raises;
                with "queue" the turn begins when the thread is free, first come, first served, and if
                the caller dies, the input begins the next turn that any caller starts; "steer" sends it
                to that run, as `steer` does, and returns the events as `follow` does. If that run ends
                without reading it, it begins a turn. Of `Command(resume=...)` the answers are sent, as
                by `answer`.

        Returns:
            An iterator of the events. It locks the thread until it is exhausted, closed (by any thread)
            or garbage collected. An exception in an agent is yielded as an event, then raised; `resume`
            runs the failed step again, but nothing that had finished. Exceptions of this library that
            can be raised here: `MissingValueError`, `InvalidOutputError`, `MaxIterationsError`,
            `CheckFailedError`, `StepFailedError`, `ValueConflictError` and `LimitError`.

        Raises:
            PendingInterruptError: Questions are pending on the thread, or no run has taken their
                answers.
            ThreadBusyError: Another run is active on the thread.
            ThreadError: The input was queued, and the turn before has not ended; it stays queued.
            AgentGraphError: The input cannot be read or saved, the name of a value is a typo of a known
                one (where the runner declares values), `thread_id`, `context` or `config` is invalid,
                an agent has a timeout, or the saver supports async calls only.
            SaverError: The saver cannot be read or written.
        """
        if isinstance(messages, Command):
            begin: Begin = resumed(messages, thread_id, values, config)
        else:
            begin = NewTurn(messages, values, drop_pending)
        thread_id = thread_for(thread_id, config)
        options = RunOptions(stream, limits, config, context, values=values)
        return begin_run(self.engine, begin, thread_id, options, while_running)

    def query(self, text: str, **options: Unpack[RunArguments]) -> Run | Follow:
        """Run a turn on a text: `query("Go.")` is the same as `run("Go.")`.

        Args:
            text: The input.
            **options: Keyword arguments of `run`.

        Returns:
            The events, as `run` does.
        """
        return self.run(text, **options)

    def resume(
        self,
        thread_id: str,
        answers: object = UNANSWERED,
        *,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        stream: bool = False,
        limits: Limits | None = None,
    ) -> Run:
        """Continue a thread where it stopped: at its questions, or at the step that failed.

        Args:
            thread_id: The thread.
            answers: A dict of answers, keyed by the id or the address of the question; it need not
                answer all of them. If only one question is pending, the answer itself will do: a dict
                is taken as keyed answers only if a key is an id, an address of the tree, or begins as
                one; a dict that fits the question's schema is the answer, unless it names the question.
                None is an answer; omit the argument to continue without one, or with those that
                `answer` has stored. The approval of a single
                call takes the bare word "approve" or "reject", too.
            values: Values to write before the thread continues.
            context: LangGraph's runtime context, as in `run`.
            config: LangGraph's config, as in `run`.
            stream: Whether to yield a model's reply in chunks too.
            limits: The limits of the turn, what is spent counted; else as in those of the runner.

        Returns:
            The events, as from `run`. A question whose deadline has passed takes its default, or its
            agent fails. Questions that remain unanswered are discarded and replayed under the same ids,
            with the same deadlines. If the last run was killed or closed in the middle of a step, the
            first event is a `discarded` one for the step's events, and those whose results were saved
            are replayed. A thread that has ended yields no events.

        Raises:
            UnknownThreadError: The saver has no such thread.
            UnknownInterruptError: An answer names a question that is not pending, or has an answer, or
                whose deadline has passed.
            InvalidAnswerError: An answer does not fit its question's schema.
            TreeChangedError: The thread was run by a tree of another shape.
            ThreadBusyError: Another run is active on the thread.
            AgentGraphError: An answer has no JSON form, the name of a value is a typo, `context` or
                `config` is invalid, an agent has a timeout, or the saver supports async calls only.
        """
        begin = Resume(answers, values)
        return self.engine.run(
            begin, thread_id, RunOptions(stream, limits, config, context, values=values)
        )

    def invoke(
        self,
        messages: Input | None = None,
        *,
        thread_id: str | None = None,
        answers: object = UNANSWERED,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        drop_pending: bool = False,
        limits: Limits | None = None,
    ) -> Result:
        """Run a turn, or without `messages` resume a thread, to its end or its questions.

        >>> runner = Runner(function_agent("writer", lambda ctx: "A draft."))
        >>> runner.invoke("Go.").text
        'A draft.'

        Args:
            messages: The input, as in `run`; without it the thread is resumed, as by `resume`.
            thread_id: The thread; a turn without one gets a new thread.
            answers: Answers to questions of the thread, as in `resume`.
            values: Values to write before, as in `run`.
            context: LangGraph's runtime context, as in `run`.
            config: LangGraph's config, as in `run`.
            drop_pending: Whether a turn drops the questions that are pending on the thread.
            limits: The limits of this turn; what is None there is as in those of the runner. A resume
                does not know the limits of the run before it: pass them again.

        Returns:
            The text, message and values that came of it, its events, the pending questions, and tokens.

        Raises:
            Exception: An agent failed; the thread can be resumed.
            AgentGraphError: As in `run` and `resume`.
        """
        engine = self.engine
        before: list[Counts] = []
        options = RunOptions(False, limits, config, context, values=values, before=before)
        begin, thread = beginning(messages, thread_id, answers, values, config, drop_pending)
        with engine.run(begin, thread, options) as run:
            events = list(run)
        return engine.read(result, thread, events, before)

    def advance(
        self,
        thread_id: str,
        messages: Input | None = None,
        *,
        turn_id: str | None = None,
        answers: object = UNANSWERED,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        limits: Limits | None = None,
        wait: bool = True,
    ) -> Result:
        """Bring a turn as far as it can go now: a call that is safe to repeat.

        >>> runner = Runner(sequential("report", [function_agent("writer", lambda ctx: "A draft."),
        ...     human("boss", "Print it?")]))
        >>> result = runner.advance("monday", "Go.", turn_id="order 17")
        >>> result.status, result.text
        ('paused', 'A draft.')
        >>> answers = {result.pending[0].id: "yes"}
        >>> [runner.advance("monday", "Go.", turn_id="order 17", answers=answers).status for _ in "12"]
        ['done', 'done']

        An engine, a queue that delivers twice or a web handler that is tried again calls with the same
        arguments, from any process, and nothing happens twice. The effect depends on the turn:

        - It has not begun: it begins, if the turn before has ended.
        - Another run is active on the thread: the call waits for its end, then looks again. If that
          run failed, the call raises, and does not run it again. If its process died, the result is
          "stopped" without a `stop_reason`: the next call continues.
        - It waits for answers: it continues with those to open questions, with those that `answer`
          has stored, and without one after the deadline of a question. Otherwise nothing runs.
        - Its process died, its caller left it, or it failed: it continues.
        - A person stopped it (`stop`), or it has ended: nothing runs.

        Args:
            thread_id: The thread; a new one begins.
            messages: The input of the turn, as in `run`; it may be left out once the turn has begun.
            turn_id: Your name of the turn, the same at each call. Without one it is the last turn of
                the thread, and `messages` are rejected.
            answers: Answers to questions of the turn: a dict by the ids of the questions, or by their
                addresses. An answered question takes the same answer again. Those that `answer` has
                stored are added.
            values: Values to write before the turn, as in `run`; they belong to its `messages`.
            context: LangGraph's runtime context, as in `run`.
            config: LangGraph's config, as in `run`.
            limits: The limits of the turn, as in `run`.
            wait: Whether to wait for another run on the thread.

        Returns:
            The result of the turn, with all of its events; of an older turn, as it was then.

        Raises:
            Exception: An agent failed; the next call continues there.
            TurnFailedError: The run that it waited for failed.
            TurnOpenError: The turn has not begun, and the one before was stopped or failed.
            PendingInterruptError: The turn has not begun, and the one before waits for answers.
            UnknownInterruptError: An answer to what the turn has not asked, or another answer than the
                one that was taken.
            UnknownThreadError: Without `turn_id`, and the saver has no such thread.
            ThreadError: The turn has begun with other messages or values, or has not begun and no
                messages are passed.
            ThreadBusyError: Another run is active, and `wait` is false; or the caller is inside that
                run, or on an event loop: there `await aadvance(...)`.
            AgentGraphError: As in `run` and `resume`.
        """
        wanted = wanted_of(messages, turn_id, answers, values)
        options = RunOptions(False, limits, config, context, values=values)
        return advance(self.engine, thread_id, wanted, options, wait=wait)

    def wait(self, thread_id: str, timeout: float | None = None) -> Status:
        """Wait until no run is active on a thread, in any process that shares its database.

        Args:
            thread_id: The thread.
            timeout: For how long, in seconds; None for as long as it takes.

        Returns:
            The status of the thread then.

        Raises:
            UnknownThreadError: The saver has no such thread, and nothing runs on it.
            ThreadBusyError: The run has not ended in time.
            AgentGraphError: `timeout` is not a number of seconds.
        """
        return self.engine.read(waited, thread_id, timeout)

    def result(self, thread_id: str, turn: int | None = None) -> Result:
        """Return the result of a turn from the saver, with all of its events.

        >>> runner = Runner(function_agent("writer", lambda ctx: "A draft."))
        >>> _ = runner.invoke("Go.", thread_id="monday")
        >>> runner.result("monday").text
        'A draft.'

        Args:
            thread_id: The thread.
            turn: The number of the turn, from 0; by default the last one.

        Returns:
            The result. If the last run of the turn failed, its `error` says so.

        Raises:
            UnknownThreadError: The saver has no such thread.
            ThreadError: The thread has no such turn.
            ThreadBusyError: A run is active in that turn.
            TreeChangedError: The thread was run by a tree of another shape.
        """
        return self.engine.read(result_at, thread_id, turn)

    def visits(self, thread_id: str) -> list[Visit]:
        """Return every agent step on the thread's current history line, in order.

        >>> runner = Runner(loop("talk", [function_agent("ann", lambda ctx: "Hi.")], max_iterations=2))
        >>> _ = runner.invoke("Go.", thread_id="monday")
        >>> [visit.address for visit in runner.visits("monday")]
        ['talk[0]/ann', 'talk[1]/ann']

        Args:
            thread_id: The thread.

        Raises:
            UnknownThreadError: The saver has no such thread.
            TreeChangedError: The thread was run by a tree of another shape.
            AgentGraphError: The saver supports async calls only.
        """
        return self.engine.read(visits, thread_id)

    def timeline(
        self,
        thread_id: str,
        *,
        since: str | None = None,
        last: int | None = None,
        line: str | None = None,
    ) -> Timeline:
        """Return the runs of agents, models, tools, hooks and questions of a thread as bars over time.

        >>> runner = Runner(loop("talk", [function_agent("ann", lambda ctx: "Hi.")], max_iterations=2))
        >>> _ = runner.invoke("Go.", thread_id="monday")
        >>> [(bar.address, bar.state) for bar in runner.timeline("monday", last=1).bars]
        [('talk', 'done'), ('talk[1]', 'done'), ('talk[1]/ann', 'done')]

        It is read from the saver alone, so it has the saved part of an active run, and of one that
        crashed. With `since` or `last` the cost does not grow with the thread.

        Args:
            thread_id: The thread.
            since: The `upto` of a timeline that was read before: only the bars of the step in which the
                thread was then, and of later ones, are returned. If the thread has gone back to before
                that (a rewind), all are, and `continues` is False.
            last: How many of the last steps of the root are wanted; None for all. It counts also with a
                `since` that is further back.
            line: The head of a line of the thread, as `thread(thread_id).lines` lists them.

        Returns:
            The bars in order of beginning, and how far it reads; see `Timeline` for what is not known.

        Raises:
            UnknownThreadError: The saver has no such thread.
            ThreadError: The thread has no such line.
            TreeChangedError: The thread was run by a tree of another shape.
            AgentGraphError: `last` is not a number of steps, or the saver supports async calls only.
        """
        return self.engine.read(timeline, thread_id, since=since, last=last, line=line)

    def flame(self, thread_id: str, *, turn: int | None = None) -> Flame:
        """Return where a turn spent time, tokens and money, by the agents of its tree.

        >>> runner = Runner(loop("talk", [function_agent("ann", lambda ctx: "Hi.")], max_iterations=2))
        >>> _ = runner.invoke("Go.", thread_id="monday")
        >>> [(frame.path, frame.times) for frame in runner.flame("monday").frames]
        [('talk', 1), ('talk/ann', 2)]

        Its text is a chart; `text(by="tokens", other=...)` compares it with that of another thread.

        Args:
            thread_id: The thread.
            turn: The number of the turn, from 0; None for the last one.

        Raises:
            UnknownThreadError: The saver has no such thread.
            ThreadError: The thread has no such turn.
            TreeChangedError: The thread was run by a tree of another shape.
            AgentGraphError: The saver supports async calls only.
        """
        return self.engine.read(flame, thread_id, self.engine.reducers, turn=turn)

    def activation(
        self, thread_id: str, at: str, *, turn: int | None = None, line: str | None = None
    ) -> ActivationReport:
        """Return one activation of a thread in detail: what it saw, said, called, wrote and asked.

        >>> runner = Runner(function_agent("ann", lambda ctx: "Hi.", output_key="greeting"))
        >>> _ = runner.invoke("Go.", thread_id="monday")
        >>> report = runner.activation("monday", "ann")
        >>> [message.text for message in report.saw], report.status, report.changed
        (['Go.'], 'done', ['greeting'])

        Nothing is run, and none of your functions is called but the reducers of values. Where a
        function decided the input of the activation, such as an `instruction=`, its `remarks` say so.

        Args:
            thread_id: The thread.
            at: The address of an activation, of a composite, or of one iteration of a loop; of an agent
                that a check has sent back, `writer` is the first attempt and `writer{1}` the second.
                Or a `step` of an event or a visit, also of an older line.
            turn: The turn of the address; by default the last one in which it was visited.
            line: The head of a line of the thread, as `thread(thread_id).lines` lists them.

        Raises:
            UnknownThreadError: The saver has no such thread.
            UnknownAddressError: The thread has not visited the address.
            ThreadError: The thread has no such line.
            TreeChangedError: The thread was run by a tree of another shape.
            AgentGraphError: Another argument makes no sense, or the saver supports async calls only.
        """
        return self.engine.read(activation, thread_id, at, turn, line)

    def compare(
        self,
        thread_id: str,
        other: str | None = None,
        *,
        line: str | None = None,
        other_line: str | None = None,
    ) -> list[Difference]:
        """Compare two lines of a thread, or two threads of this tree, activation by activation.

        Activations are aligned by turn and address. Their messages, calls, writes, questions and ends
        are compared by content, never by ids or times.

        >>> runner = Runner(function_agent("ann", lambda ctx: f"Hi, {ctx.values['name']}."))
        >>> _ = runner.invoke("Go.", values={"name": "Bob"}, thread_id="monday")
        >>> _ = list(runner.rewind("monday", "ann", values={"name": "Eve"}))
        >>> present, older = runner.thread("monday").lines
        >>> [each] = runner.compare("monday", line=older.head)
        >>> each.differs, each.left.text, each.right.text
        (('said',), 'Hi, Bob.', 'Hi, Eve.')

        Args:
            thread_id: The thread on the left.
            other: The thread on the right, such as a copy, or a variant of `fork_many`; by default the
                same thread.
            line: The head of the line on the left, as `thread(thread_id).lines` lists them; by default
                the present one.
            other_line: That on the right.

        Returns:
            The activations in the order of the left. An activation of the right alone follows the one
            before it on the right.

        Raises:
            UnknownThreadError: The saver has no such thread.
            ThreadError: A thread has no such line.
            TreeChangedError: A thread was run by a tree of another shape.
            AgentGraphError: Both sides are the same, or the saver supports async calls only.
        """
        return self.engine.read(compared, thread_id, Lines(other, line, other_line))

    def rewind(
        self,
        thread_id: str,
        at: str,
        *,
        turn: int | None = None,
        siblings: Siblings = "keep",
        values: Mapping[str, object] | None = None,
        messages: Input = (),
        answers: object = UNANSWERED,
        context: object = None,
        config: RunnableConfig | None = None,
        stream: bool = False,
        limits: Limits | None = None,
    ) -> Run:
        """Go back to what a thread has visited, and run on from there.

        The steps before it are preserved, and do not run again. The steps after it are gone from the
        line of the thread; the older line stays in the saver.

        Args:
            thread_id: The thread.
            at: The address of an activation; of a composite or of one iteration of a loop, its first
                visit. Or a `step` of an event or a visit, also of an older line, which it brings back.
            turn: The turn of the address; by default the last one in which it was visited.
            siblings: The treatment of concurrent work: "keep" preserves it, "rerun" runs it again. With
                "keep" all other branches and calls stay, and of the steps of a workflow those that do
                not depend on the target; the steps that it depends on stay in any case.
            values: Values to write before it begins.
            messages: Messages of the user to add before it begins. One under the id of a message that
                is there before it takes that one's place: of the user, of an agent, a result of a
                tool, a person's answer. It keeps the id, and who said it; the next agents read the new
                words. A later rewind to the same place keeps it, and a `step` of the older line brings
                the old one back.
            answers: A new answer to the question that was asked there, in a form that `resume` takes;
                by address also answers to questions that the run asks later.
            context: LangGraph's runtime context, as in `run`.
            config: LangGraph's config, as in `run`.
            stream: Whether to yield a model's reply in chunks too.
            limits: The limits of the turn; what was spent on the line counts.

        Returns:
            The events, as from `run`. The first is a `discarded` that names the events that are gone.
            Until it is asked for, the thread is unchanged.

        Raises:
            UnknownThreadError: The saver has no such thread.
            UnknownAddressError: The thread has not visited the address.
            UnknownInterruptError: There are answers, but nothing was asked there.
            InvalidAnswerError: An answer does not fit its question's schema.
            TreeChangedError: The thread was run by a tree of another shape.
            ThreadBusyError: A run is active on the thread.
            LangGraphChangedError: The installed LangGraph names tasks in an unknown way.
            AgentGraphError: Another argument is invalid, as in `resume`.
        """
        back = RewindArguments(at, turn, siblings, values, messages, answers)
        options = RunOptions(stream, limits, config, context, values=values)
        return self.engine.run(back, thread_id, options)

    def pending(self, thread_id: str) -> Pending:
        """Return the pending questions, in the order of the tree.

        Args:
            thread_id: The thread.

        Returns:
            A list of the questions. Its `queued` has the messages that were sent to the thread, and
            that nothing has read: they begin the next turn.

        Raises:
            UnknownThreadError: The saver has no such thread.
            TreeChangedError: The thread was run by a tree of another shape.
            AgentGraphError: The saver supports async calls only.
        """
        return self.engine.read(pending_on, thread_id)

    def events(self, thread_id: str, *, line: str | None = None) -> Iterator[AgentEvent]:
        """Yield the events of a thread again, without chunks, from the saver alone.

        These are the events that were streamed and not `discarded` later, in the same order and with
        the same ids, times and steps. If the thread was forked (by `rewind`, by `update_state` on an
        older checkpoint, or a run from there), they are those of the line that leads to its latest
        checkpoint, unless another one is named. If the graph was run directly, without a runner, two
        kinds are missing: failures of steps that have succeeded since, and all but the last question of
        a tool that asked several.

        SQLite and PostgreSQL know of most long threads that nothing was discarded. Their events are
        read as they are taken; what was saved after the call is not among them.

        Args:
            thread_id: The thread.
            line: The head of a line of the thread, as `thread(thread_id).lines` lists them.

        Raises:
            UnknownThreadError: The saver has no such thread.
            ThreadError: The thread has no such line.
            TreeChangedError: The thread was run by a tree of another shape.
            AgentGraphError: The saver supports async calls only.
        """
        return _each(self.engine, thread_id, self.engine.read(replayed, thread_id, line))

    def thread(self, thread_id: str) -> Thread:
        """Return the state of a thread: its status, values, messages and turns.

        >>> runner = Runner(function_agent("writer", lambda ctx: "A draft."))
        >>> _ = runner.invoke("Go.", thread_id="monday")
        >>> thread = runner.thread("monday")
        >>> thread.status, [message.text for message in thread.turns[0].messages]
        ('done', ['Go.'])

        Args:
            thread_id: The thread; one that the saver does not have is "new".

        Raises:
            TreeChangedError: The thread was run by a tree of another shape.
            AgentGraphError: The saver supports async calls only.
        """
        return self.engine.read(thread, thread_id, self.engine.reducers)

    def threads(
        self,
        status: ListedStatus | None = None,
        *,
        limit: int | None = None,
        before: str | None = None,
        metadata: Mapping[str, Scalar] | None = None,
        due: bool | None = None,
    ) -> list[ThreadSummary]:
        """Return the threads of the saver, or a page of them, newest first by when they began.

        >>> runner = Runner(function_agent("writer", lambda ctx: "A draft."))
        >>> for number, user in enumerate(["ann", "bob", "ann"]):
        ...     _ = runner.invoke("Go.", thread_id=f"t{number}", config={"metadata": {"user": user}})
        >>> [each.thread_id for each in runner.threads(limit=2)]
        ['t2', 't1']
        >>> [each.thread_id for each in runner.threads(limit=2, before="t1")]
        ['t0']
        >>> [each.thread_id for each in runner.threads(metadata={"user": "ann"})]
        ['t2', 't0']

        One that cannot be read, such as one of another version of agentgraph, is "unreadable" and says
        why; the others are listed as ever.

        A page costs the same however many threads there are, in files and databases that agentgraph has
        opened by name or with `sqlite_saver`, `async_sqlite_saver` or `postgres_saver`: they have an
        index, and only the threads of the page are read. With a status, threads without a status in the
        index are read too: those whose last run was killed, closed early or stopped, or was not run by
        a `Runner`, and copies. Other savers find the first checkpoints of all threads for each page,
        and then read one thread after the other, newest first, until the page is full.

        Args:
            status: Only threads with this status; see `ThreadSummary`.
            limit: The greatest number of threads, at least 1; by default all are returned.
            before: The id of a thread: only threads after it in this order, which makes the next page.
            metadata: Only threads whose runs were given all these pairs in the `metadata` of their
                configs; each pair may be from another run of the thread. LangGraph stores texts,
                numbers and booleans of it, and those of `configurable` in the same place. Without
                the index a resume that only fails or pauses again counts for new names alone.
            due: True for threads at rest with a question whose deadline has passed, which `advance`
                continues; False for all others. With the index only threads whose last run left such
                a deadline are read, and those without a status there.

        Raises:
            UnknownThreadError: The thread `before` does not exist.
            AgentGraphError: Another argument makes no sense, or the saver supports async calls only.
        """
        listing = Listing(status, limit, before, metadata, due)
        return self.engine.read(threads, _ANY, listing, start_times(self.saver))

    def delete(self, thread_id: str) -> None:
        """Delete a thread from the saver.

        Args:
            thread_id: The thread.

        Raises:
            UnknownThreadError: The saver has no such thread.
            ThreadBusyError: A run is active on it.
            AgentGraphError: The saver supports async calls only.
        """
        self.engine.read(self.engine.locked, thread_id, delete)

    def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_turns: int | None = None,
        older_than: float | timedelta | None = None,
        keep_lines: int | None = None,
        compact: bool = False,
    ) -> Pruned:
        """Remove old turns and history lines of a thread, or of all threads, and whole old threads.

        >>> runner = Runner(function_agent("writer", lambda ctx: "A draft."))
        >>> for text in ["One.", "Two.", "Three."]:
        ...     _ = runner.invoke(text, thread_id="monday")
        >>> print(runner.prune("monday", keep_turns=1))
        Removed: 0 threads, 2 turns, 0 older lines and 6 checkpoints
        >>> [turn.number for turn in runner.thread("monday").turns]
        [2]

        What stays is as it was: the messages and values of the thread, the events of the turns that
        stay with their numbers and cursors, rewinds to them, open questions. A turn that `advance`
        named never runs again; of its result the status and the text are left. Each thread is pruned
        in one transaction, so that a kill leaves it as it was, or pruned.

        SQLite files give the space back to the disk if this version of agentgraph has made them. Older
        files do so once they were compacted. PostgreSQL uses the space again for later saves.

        Args:
            thread_id: The thread; None for all threads of the checkpointer.
            keep_turns: The number of last turns that stay, at least 1; None for all. Older history
                lines that branch off before them are removed as well.
            older_than: Remove threads that are done, wait for nothing (a queued message, the result of
                a `long_running` call), and were last saved this long ago: seconds, or a `timedelta`.
            keep_lines: The number of older history lines that stay, the latest ones; None for all.
            compact: Whether to copy the SQLite file without the free space in it. It takes as much
                space again meanwhile, and no run may be active on the file.

        Returns:
            What was removed, and the threads that were skipped: without a `thread_id`, those on which a
            run is active, which cannot be read, or which another tree ran last.

        Raises:
            UnknownThreadError: The checkpointer has no such thread.
            ThreadBusyError: A run is active on it; or on any thread, with `compact=True`.
            ThreadError: Another tree ran the thread.
            AgentGraphError: An argument makes no sense, or the checkpointer removes whole threads only:
                of LangGraph's own the others remove parts.
        """
        wanted = prune_of(keep_turns, older_than, keep_lines, compact)
        return self.engine.read(prune, _ANY, self.engine, wanted, thread_id)

    def copy(self, thread_id: str, to: str, *, at: str | None = None, turn: int | None = None) -> None:
        """Copy a thread, with its questions and events; each can then be continued on its own.

        Args:
            thread_id: The thread.
            to: The id of the copy.
            at: An address or a step, as in `rewind`: the copy has the line up to there, and a resume
                runs on from it. By default all of the thread is copied.
            turn: The turn of the address, as in `rewind`.

        Raises:
            UnknownThreadError: The saver has no such thread.
            UnknownAddressError: The thread has not visited the address.
            ThreadBusyError: A run is active on it, or on `to`.
            ThreadError: There is a thread `to` already.
            AgentGraphError: The saver supports async calls only.
        """
        back = None if at is None else RewindArguments(at, turn)
        self.engine.read(self.engine.locked, thread_id, partial(copy, back=back), to)

    def fork_many(
        self,
        thread_id: str,
        at: str,
        variants: Mapping[str, Variant],
        *,
        max_concurrency: int = AT_ONCE,
    ) -> Forks:
        """Run variants from one visit on, concurrently, each on a separate thread.

        >>> asks = function_agent("boss", lambda ctx: f"{ctx.values['mood']}!")
        >>> runner = Runner(sequential("s", [function_agent("writer", lambda ctx: "A draft."), asks]))
        >>> _ = runner.invoke("Go.", thread_id="monday", values={"mood": "Fine"})
        >>> forks = runner.fork_many("monday", "s/boss", {"sad": {"values": {"mood": "Alas"}}})
        >>> forks["sad"].text, forks["sad"].thread_id
        ('Alas!', 'monday-sad')

        The thread itself is not changed. The steps before the visit are copied, and do not run again.

        Args:
            thread_id: The thread.
            at: An address or a step, as in `rewind`.
            variants: The keyword arguments of `rewind` for each variant, by its name; and a `runner`
                whose tree runs it, for other models, tools or instructions.
            max_concurrency: How many variants run at a time.

        Returns:
            The results by name, which show themselves as a table. A variant that fails has a result
            with the status "failed" and its `error`; its thread can be resumed.

        Raises:
            UnknownThreadError: The saver has no such thread.
            UnknownAddressError: The thread has not visited the address.
            ThreadError: There is a thread of a variant already, which is `<thread_id>-<name>`.
            ThreadBusyError: A run is active on the thread, or on that of a variant.
            AgentGraphError: The arguments of a variant are invalid; nothing is copied then.
        """
        engine = self.engine
        engines = engines_of(engine, variants, max_concurrency)
        for each in engines.values():
            each.check_sync("afork_many", "it")
        reads = partial(plans, at=at, variants=variants, engines=engines)
        several = engine.read(engine.locked, thread_id, reads)
        for plan in several:
            put = partial(put_new, every=plan.copies)
            plan.engine.read(plan.engine.locked, plan.thread_id, put)
        return run_all(several, max_concurrency)

    def stop(self, thread_id: str, reason: str = DEFAULT_REASON) -> None:
        """Have the run on a thread end before the next step of each of its lanes.

        The run ends without an error, after the active work in its steps; its thread is "stopped", and
        `resume` continues it. The run may be another thread's, or that of another process that has the
        saver, which looks four times a second. A thread at rest is left alone, and no later run is
        stopped.

        Args:
            thread_id: The thread.
            reason: Why, as LangGraph's `drain_reason` in the nodes of the run.

        Raises:
            UnknownThreadError: The saver has no such thread, and nothing runs on it.
            AgentGraphError: The saver supports async calls only, and the run is not of this process.
        """
        if not stop_here(self.saver, thread_id, reason):
            self.engine.read(stop, thread_id, reason)

    def steer(self, thread_id: str, messages: Input) -> list[str]:
        """Send messages of the user to the run on a thread.

        The next call of a model of a chat agent reads them, in whichever branch that is: they are
        saved and emitted there once, with its address, and all agents see them as the user's. Those
        that no model reads begin the next turn; on a thread that is paused, failed or stopped they
        wait for the resume.

        Args:
            thread_id: The thread; its run may be that of another process that has the saver.
            messages: A text, or messages of the user.

        Returns:
            The ids of the messages, which are those of their events.

        Raises:
            UnknownThreadError: The saver has no such thread, and nothing runs on it.
            AgentGraphError: They are not messages of a user, cannot be saved, or the saver supports
                async calls only.
        """
        return [*self.engine.read(steer, thread_id, messages)]

    def answer(self, thread_id: str, answers: object) -> None:
        """Answer questions of a thread: the active run or the next one takes the answers.

        >>> runner = Runner(human("boss", "Print it?"))
        >>> _ = runner.invoke("Go.", thread_id="monday")
        >>> runner.answer("monday", "yes")
        >>> thread = runner.thread("monday")
        >>> thread.status, [(each.question.address, each.answer) for each in thread.answered]
        ('stopped', [('boss', 'yes')])
        >>> runner.invoke(thread_id="monday").text
        'yes'

        While a run is active, also in another process, the branch that asked continues in it, and
        others are not disturbed. The loop that reads the events may answer, too. The method returns
        when the answer is saved. A question outside all branches ends the run, so its answer is for the
        next one.

        So does a call of `ctx.run`, while others of its function run; then the function pauses. A tool
        call runs again from its start, with the middleware around it, as in a resume. With
        `parallel_tools=False` the calls run one after the other, so one that asks pauses its agent.
        Answers to questions about limits wait for the next run.

        At rest the answers leave `pending`, and are stored until the next `resume` or `advance`
        continues the thread. They may be passed one after the other. Of two answers to a question the
        first counts. New input is rejected until a run has taken them. A rewind, a fork and a copy up
        to a visit ask again; a whole copy has the answers.

        Args:
            thread_id: The thread.
            answers: A dict of answers by id or address, or the answer to the only question, as in
                `resume`.

        Raises:
            UnknownThreadError: The saver has no such thread.
            UnknownInterruptError: An answer names a question that is not pending, or there is none.
            InvalidAnswerError: An answer does not fit its question's schema, or cannot be saved.
            TreeChangedError: The thread was run by a tree of another shape.
            ThreadBusyError: A run on the thread has not begun, or other calls answer it for too long.
            AgentGraphError: The saver supports async calls only; or the active run needs the event loop
                that this call would block.
        """
        check_answer(self.saver, thread_id)
        self.engine.read(answer, thread_id, answers)

    def to_sse(self, events: Run | Follow, *, retry: float = RETRY) -> Iterator[str]:
        r"""Yield the events of a run or of `follow` as server-sent events, for a web handler.

        The first line says when a browser is to connect again; then each event is as by
        `AgentEvent.to_sse`, its `id:` the cursor, so that the header `Last-Event-ID` of a browser that
        connects again is the `after` of `follow`. The last one is `event: end`, with the status of the
        thread: `{"thread_id": ..., "status": "done", "error": null}`. A failure does not raise.

        Args:
            events: The events; they are closed at the end, or when this iterator is closed.
            retry: After how many seconds a browser connects again.
        """
        status = partial(self.engine.read, status_of, events.thread_id)
        return served(events, status, retry)

    def follow(self, thread_id: str, after: str | None = None) -> Follow:
        """Yield the events of a thread: missed ones first, then new ones until its run ends.

        A follower may come back at any time, to any process that has the saver, and gets each event
        once and in order. A run of this process is followed as it happens, chunks included if it
        streams them; of a run of another process the saved events are yielded, at the end of each step
        of the root.

        Args:
            thread_id: The thread.
            after: The `cursor` of the last event that the follower has, also if that event is discarded
                by now: then a `discarded` event comes first. None for all events of the thread.

        Returns:
            An iterator of the events. It ends when nothing runs on the thread any more: after the error
            event of a run that failed, too. Closing it leaves the run alone. Cursors grow; an event
            that is replayed after a `discarded` one has another cursor than it had.

        Raises:
            UnknownThreadError: The saver has no such thread, and nothing runs on it.
            AgentGraphError: `after` is not a cursor, or the saver supports async calls only.
        """
        return self.engine.follow(thread_id, after)

    def start(
        self,
        messages: Input | None = None,
        *,
        thread_id: str | None = None,
        answers: object = UNANSWERED,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        stream: bool = True,
        drop_pending: bool = False,
        limits: Limits | None = None,
        while_running: WhileRunning = "refuse",
        at: str | RewindArguments | TurnStart | None = None,
        turn_id: str | None = None,
    ) -> str:
        """Run a turn, or without `messages` resume a thread, in the background of this process.

        The run needs no consumer: `follow` yields its events, to any number of followers. `max_running`
        of them run at a time; the others hold their threads and wait. A failure is in the status of the
        thread, and in the log `agentgraph`. Such a run lives as long as the program: its end stops the
        run before its next steps, as `stop` and `close` do, and a resume continues it.

        Args:
            messages: The input, as in `run`; without it the thread is resumed, as by `resume`.
            thread_id: The thread; a turn without one gets a new thread.
            answers: Answers to questions of the thread, as in `resume`.
            values: Values to write before, as in `run`.
            context: LangGraph's runtime context, as in `run`.
            config: LangGraph's config, as in `run`.
            stream: Whether followers in this process get a model's reply in chunks too.
            drop_pending: Whether a turn drops the questions that are pending on the thread.
            limits: The limits of this turn, as in `run`.
            while_running: The use of the input or the answers if another run is active, as in `run`:
                with "steer" answers go to that run, or if it ends without them, resume the thread.
            at: Where to go back to on the thread first, as in `rewind`; `RewindArguments` have all that
                a rewind takes.
            turn_id: Your name of the turn, which makes the call safe to repeat, as `advance` is: the
                turn begins, continues where its process died or it failed, or nothing runs. An active
                run on the thread is a `ThreadBusyError`, also if it is that of the turn.

        Returns:
            The id of the thread.

        Raises:
            AgentGraphError: As in `run`, `resume`, `rewind` and `advance`: invalid arguments are
                rejected here.
        """
        options = RunOptions(stream, limits, config, context, values=values)
        begin, thread = beginning(
            messages, thread_id, answers, values, config, drop_pending, at, turn_id
        )
        self._background.add(begin_run(self.engine, begin, thread, options, while_running))
        return thread

    def start_many(self, thread_id: str, at: str, variants: Mapping[str, Variant]) -> dict[str, str]:
        """Run variants of what came after a visit, as `fork_many` does, in the background.

        Args:
            thread_id: The thread.
            at: An address or a step, as in `rewind`.
            variants: As in `fork_many`.

        Returns:
            The ids of their threads, by the names of the variants.

        Raises:
            AgentGraphError: As in `fork_many`.
        """
        engine = self.engine
        engines = engines_of(engine, variants, AT_ONCE)
        for each in engines.values():
            each.check_sync("astart_many", "it")
        reads = partial(plans, at=at, variants=variants, engines=engines)
        several = engine.read(engine.locked, thread_id, reads)
        for plan in several:
            put = partial(put_new, every=plan.copies)
            plan.engine.read(plan.engine.locked, plan.thread_id, put)
        for plan in several:
            self._background.add(plan.engine.run(Resume(), plan.thread_id, plan.streamed))
        return {plan.name: plan.thread_id for plan in several}

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs that `start` or `astart` began."""
        return self._background.is_idle

    def close(self) -> None:
        """Stop what `start` began, wait for it, and close the file or database that the runner opened.

        A saver that was passed stays open. Runs that `astart` began are stopped by `aclose`.
        """
        self._background.close()
        if self._closes and (close := getattr(self.saver, "close", None)) is not None:
            close()
            self._is_closed = True

    def _stop_one(self, thread_id: str) -> None:
        stop_here(self.saver, thread_id, CLOSED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def arun(
        self,
        messages: Input,
        *,
        thread_id: str | None = None,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        stream: bool = False,
        drop_pending: bool = False,
        limits: Limits | None = None,
        while_running: WhileRunning = "refuse",
    ) -> AsyncRun:
        """Run a turn as `run` does, asynchronously.

        Exceptions that `run` raises when it is called are raised here when the result is awaited, or
        at the first event:

        ```
        run = await runner.arun("Go.", thread_id="monday")
        async for event in run:
            ...
        ```
        """
        if isinstance(messages, Command):
            begin: Begin = resumed(messages, thread_id, values, config)
        else:
            begin = NewTurn(messages, values, drop_pending)
        thread_id = thread_for(thread_id, config)
        options = RunOptions(stream, limits, config, context, values=values)
        return abegin_run(self.engine, begin, thread_id, options, while_running)

    def aquery(self, text: str, **options: Unpack[RunArguments]) -> AsyncRun:
        """Run a turn on a text as `query` does, asynchronously."""
        return self.arun(text, **options)

    def aresume(
        self,
        thread_id: str,
        answers: object = UNANSWERED,
        *,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        stream: bool = False,
        limits: Limits | None = None,
    ) -> AsyncRun:
        """Continue a thread as `resume` does, asynchronously; the result is used as that of `arun`."""
        begin = Resume(answers, values)
        return self.engine.arun(
            begin, thread_id, RunOptions(stream, limits, config, context, values=values)
        )

    async def ainvoke(
        self,
        messages: Input | None = None,
        *,
        thread_id: str | None = None,
        answers: object = UNANSWERED,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        drop_pending: bool = False,
        limits: Limits | None = None,
    ) -> Result:
        """Run a turn or resume a thread as `invoke` does, asynchronously."""
        engine = self.engine
        before: list[Counts] = []
        options = RunOptions(False, limits, config, context, values=values, before=before)
        begin, thread = beginning(messages, thread_id, answers, values, config, drop_pending)
        async with engine.arun(begin, thread, options) as run:
            events = [event async for event in run]
        return await engine.aread(result, thread, events, before)

    async def aadvance(
        self,
        thread_id: str,
        messages: Input | None = None,
        *,
        turn_id: str | None = None,
        answers: object = UNANSWERED,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        limits: Limits | None = None,
        wait: bool = True,
    ) -> Result:
        """Bring a turn as far as it can go now, as `advance` does, asynchronously."""
        wanted = wanted_of(messages, turn_id, answers, values)
        options = RunOptions(False, limits, config, context, values=values)
        return await aadvance(self.engine, thread_id, wanted, options, wait=wait)

    async def await_(self, thread_id: str, timeout: float | None = None) -> Status:
        """Wait until no run is active on a thread, as `wait` does, asynchronously."""
        return await self.engine.aread(waited, thread_id, timeout)

    async def aresult(self, thread_id: str, turn: int | None = None) -> Result:
        """Return the result of a turn from the saver, as `result` does, asynchronously."""
        return await self.engine.aread(result_at, thread_id, turn)

    async def avisits(self, thread_id: str) -> list[Visit]:
        """Return every agent step on a thread, as `visits` does."""
        return await self.engine.aread(visits, thread_id)

    async def atimeline(
        self,
        thread_id: str,
        *,
        since: str | None = None,
        last: int | None = None,
        line: str | None = None,
    ) -> Timeline:
        """Return the runs of agents of a thread as bars over time, as `timeline` does."""
        return await self.engine.aread(timeline, thread_id, since=since, last=last, line=line)

    async def aflame(self, thread_id: str, *, turn: int | None = None) -> Flame:
        """Return where a turn spent time, tokens and money, as `flame` does."""
        return await self.engine.aread(flame, thread_id, self.engine.reducers, turn=turn)

    async def aactivation(
        self, thread_id: str, at: str, *, turn: int | None = None, line: str | None = None
    ) -> ActivationReport:
        """Return one activation of a thread in detail, as `activation` does."""
        return await self.engine.aread(activation, thread_id, at, turn, line)

    async def acompare(
        self,
        thread_id: str,
        other: str | None = None,
        *,
        line: str | None = None,
        other_line: str | None = None,
    ) -> list[Difference]:
        """Compare two lines of a thread, or two threads, as `compare` does."""
        return await self.engine.aread(compared, thread_id, Lines(other, line, other_line))

    def arewind(
        self,
        thread_id: str,
        at: str,
        *,
        turn: int | None = None,
        siblings: Siblings = "keep",
        values: Mapping[str, object] | None = None,
        messages: Input = (),
        answers: object = UNANSWERED,
        context: object = None,
        config: RunnableConfig | None = None,
        stream: bool = False,
        limits: Limits | None = None,
    ) -> AsyncRun:
        """Go back as `rewind` does, asynchronously; the result is used as that of `arun`."""
        back = RewindArguments(at, turn, siblings, values, messages, answers)
        options = RunOptions(stream, limits, config, context, values=values)
        return self.engine.arun(back, thread_id, options)

    async def apending(self, thread_id: str) -> Pending:
        """Return the pending questions, as `pending` does."""
        return await self.engine.aread(pending_on, thread_id)

    def aevents(self, thread_id: str, *, line: str | None = None) -> AsyncRun:
        """Return the events of a thread again, as `events` does.

        Returns:
            An async iterator. Exceptions of `events` are raised when it is awaited, or at the first
            event.
        """

        async def start() -> AsyncGenerator[AgentEvent, None]:
            return _aeach(self.engine, thread_id, await self.engine.aread(replayed, thread_id, line))

        return AsyncRun(thread_id, start)

    async def athread(self, thread_id: str) -> Thread:
        """Return the state of a thread, as `thread` does."""
        return await self.engine.aread(thread, thread_id, self.engine.reducers)

    async def athreads(
        self,
        status: ListedStatus | None = None,
        *,
        limit: int | None = None,
        before: str | None = None,
        metadata: Mapping[str, Scalar] | None = None,
        due: bool | None = None,
    ) -> list[ThreadSummary]:
        """Return the threads of the saver, or a page of them, as `threads` does."""
        listing = Listing(status, limit, before, metadata, due)
        return await self.engine.aread(threads, _ANY, listing, start_times(self.saver))

    async def adelete(self, thread_id: str) -> None:
        """Delete a thread from the saver, as `delete` does."""
        await self.engine.aread(self.engine.locked, thread_id, delete)

    async def aprune(
        self,
        thread_id: str | None = None,
        *,
        keep_turns: int | None = None,
        older_than: float | timedelta | None = None,
        keep_lines: int | None = None,
        compact: bool = False,
    ) -> Pruned:
        """Remove old turns, history lines and threads, as `prune` does."""
        wanted = prune_of(keep_turns, older_than, keep_lines, compact)
        return await self.engine.aread(prune, _ANY, self.engine, wanted, thread_id)

    async def acopy(
        self, thread_id: str, to: str, *, at: str | None = None, turn: int | None = None
    ) -> None:
        """Copy a thread, as `copy` does."""
        back = None if at is None else RewindArguments(at, turn)
        await self.engine.aread(self.engine.locked, thread_id, partial(copy, back=back), to)

    async def afork_many(
        self,
        thread_id: str,
        at: str,
        variants: Mapping[str, Variant],
        *,
        max_concurrency: int = AT_ONCE,
    ) -> Forks:
        """Run variants of what came after a visit, as `fork_many` does, on the event loop."""
        engine = self.engine
        engines = engines_of(engine, variants, max_concurrency)
        for each in engines.values():
            each.check_async()
        reads = partial(plans, at=at, variants=variants, engines=engines)
        several = await engine.aread(engine.locked, thread_id, reads)
        for plan in several:
            put = partial(put_new, every=plan.copies)
            await plan.engine.aread(plan.engine.locked, plan.thread_id, put)
        return await arun_all(several, max_concurrency)

    def ato_sse(self, events: AsyncRun, *, retry: float = RETRY) -> AsyncIterator[str]:
        """Yield the events of an async run or of `afollow` as server-sent events, as `to_sse` does."""
        status = partial(self.engine.aread, status_of, events.thread_id)
        return aserved(events, status, retry)

    def afollow(self, thread_id: str, after: str | None = None) -> AsyncRun:
        """Follow a thread as `follow` does, asynchronously.

        Returns:
            An async iterator. Exceptions of `follow` are raised when it is awaited, or at the first
            event.
        """
        return self.engine.afollow(thread_id, after)

    async def astart(
        self,
        messages: Input | None = None,
        *,
        thread_id: str | None = None,
        answers: object = UNANSWERED,
        values: Mapping[str, object] | None = None,
        context: object = None,
        config: RunnableConfig | None = None,
        stream: bool = True,
        drop_pending: bool = False,
        limits: Limits | None = None,
        while_running: WhileRunning = "refuse",
        at: str | RewindArguments | TurnStart | None = None,
        turn_id: str | None = None,
    ) -> str:
        """Run a turn or resume a thread in the background as `start` does, in a task of the event loop.

        Such a run lives as long as the event loop; `aclose` stops it first.
        """
        options = RunOptions(stream, limits, config, context, values=values)
        begin, thread = beginning(
            messages, thread_id, answers, values, config, drop_pending, at, turn_id
        )
        run = await abegin_run(self.engine, begin, thread, options, while_running)
        self._background.aadd(run)
        return thread

    async def astart_many(
        self, thread_id: str, at: str, variants: Mapping[str, Variant]
    ) -> dict[str, str]:
        """Run variants in the background as `start_many` does, in tasks of the event loop."""
        engine = self.engine
        engines = engines_of(engine, variants, AT_ONCE)
        for each in engines.values():
            each.check_async()
        reads = partial(plans, at=at, variants=variants, engines=engines)
        several = await engine.aread(engine.locked, thread_id, reads)
        for plan in several:
            put = partial(put_new, every=plan.copies)
            await plan.engine.aread(plan.engine.locked, plan.thread_id, put)
        for plan in several:
            self._background.aadd(await plan.engine.arun(Resume(), plan.thread_id, plan.streamed))
        return {plan.name: plan.thread_id for plan in several}

    async def aclose(self) -> None:
        """Close the runner as `close` does, and stop what `astart` began on this event loop."""
        await self._background.aclose()
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def astop(self, thread_id: str, reason: str = DEFAULT_REASON) -> None:
        """Have the run on a thread end before its next steps, as `stop` does."""
        if not stop_here(self.saver, thread_id, reason):
            await self.engine.aread(stop, thread_id, reason)

    async def asteer(self, thread_id: str, messages: Input) -> list[str]:
        """Send messages of the user to the run on a thread, as `steer` does."""
        return [*await self.engine.aread(steer, thread_id, messages)]

    async def aanswer(self, thread_id: str, answers: object) -> None:
        """Answer questions of a thread, as `answer` does."""
        await self.engine.aread(answer, thread_id, answers)


def options_of(runner: Runner) -> Mapping[str, Any]:
    """Return the keyword arguments that a runner was made with."""
    return runner._options


def is_closed(runner: Runner) -> bool:
    """Return whether a runner has closed the file or database that it opened."""
    return runner._is_closed


def remade(runner: Runner, **options: Any) -> Runner:
    """Return a runner like another one, of the same class, with other options."""
    made = copy_of(runner)
    Runner.__init__(made, runner.agent, **{**runner._options, **options})
    return made


def _repeatable(items: Iterable[T]) -> Iterable[T]:
    """Return items that can be iterated several times; what is not iterable is left as it is."""
    return [*items] if isinstance(items, Iterator) else items


def _saver(saver: "Saver | str | PathLike[str] | None", allow: Iterable[type | str]) -> Saver:
    """Return the saver that is given, or a new one, which reads some types too.

    Without a saver nothing leaves the process. It is as strict as a file, so that what works there
    works with a file.
    """
    types = allowed_types(allow)
    if saver is None:
        return InMemorySaver(serde=StrictSerializer(types))
    if isinstance(saver, BaseCheckpointSaver):
        if isinstance(saver.serde, StrictSerializer):
            saver.serde.allow(types)
        elif types:
            raise AgentGraphError(
                f"allow= is for files that agentgraph opens; {type(saver).__name__} reads by its own "
                "serializer: leave allow= out, or give the saver "
                "serde=JsonPlusSerializer(allowed_msgpack_modules=[...])"
            )
        return saver
    if not isinstance(saver, str | PathLike):
        raise AgentGraphError(
            f"checkpointer={shown(saver)} is neither a saver of LangGraph nor a path; pass one, such "
            "as 'runs.db', or leave it out to store threads in memory"
        )
    return open_saver(saver, types.values())


def _each(engine: Engine, thread_id: str, part: Part) -> Iterator[AgentEvent]:
    """Yield the events of a part of a thread, and of those after it, which are read then."""
    yield from part.events
    while part.rest is not None:
        part = engine.read(replayed_next, thread_id, part.rest)
        yield from part.events


async def _aeach(engine: Engine, thread_id: str, part: Part) -> AsyncGenerator[AgentEvent, None]:
    for event in part.events:
        yield event
    while part.rest is not None:
        part = await engine.aread(replayed_next, thread_id, part.rest)
        for event in part.events:
            yield event
