"""`arun`: a run from AG-UI's input, as a stream of AG-UI's events."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
)
from functools import partial
from types import TracebackType
from typing import Any, Self

from ag_ui.core import BaseEvent, MessagesSnapshotEvent, RunAgentInput
from langchain_core.runnables import RunnableConfig

from agentgraph.agents.limits import Limits
from agentgraph.agui.frontend_tools import RUN_INPUT
from agentgraph.agui.going_back import WayBack, may_go_back, said_on, way_back
from agentgraph.agui.history import history
from agentgraph.agui.inputs import (
    Before,
    NewInput,
    before,
    live_answers,
    new_input,
    values_of,
    with_saved_texts,
)
from agentgraph.agui.plain import shown_values
from agentgraph.agui.translation import Translator
from agentgraph.errors import AgentGraphError, ThreadBusyError, ThreadError
from agentgraph.reports.result import Result
from agentgraph.safe_repr import shown
from agentgraph.threads.begin import Resume
from agentgraph.threads.engine import RunOptions
from agentgraph.threads.live.queueing import abegin_run
from agentgraph.threads.runner import Runner
from agentgraph.threads.runs import AsyncRun


class EventStream(AsyncIterator[BaseEvent]):
    """An async iterator of the AG-UI events of a run.

    Await it first, so that a rejected run raises before the first event; otherwise the first event
    raises the error. It can be closed by `aclose`, and is an async context manager that does so.
    """

    def __init__(self, begin: Callable[[], Awaitable[AsyncGenerator[BaseEvent, None]]]) -> None:
        self._begin = begin
        self._events: AsyncGenerator[BaseEvent, None] | None = None

    def __await__(self) -> Generator[object, None, Self]:
        yield from self._started().__await__()
        return self

    async def __anext__(self) -> BaseEvent:
        """Return the next event."""
        return await anext(await self._started())

    async def aclose(self) -> None:
        """Stop the run."""
        if self._events is not None:
            await self._events.aclose()

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _started(self) -> AsyncGenerator[BaseEvent, None]:
        if self._events is None:
            self._events = await self._begin()
        return self._events


def arun(
    runner: Runner,
    run_input: RunAgentInput,
    *,
    context: object = None,
    config: RunnableConfig | None = None,
    limits: Limits | None = None,
) -> EventStream:
    """Run the request of an AG-UI client, and yield AG-UI's events.

    The input names the thread. The runner's history counts, not the client's. New messages of the input
    are the user's messages after the last one on the thread, and the results of calls of the front
    end's tools (see `frontend_tools`). All others are ignored, including those of the roles "system"
    and "developer".

    - New messages start a turn.
    - An edited message goes back on the thread: a user's message under its own id with other content,
      or a new one after messages that the thread continues with another message of the user. Its turn
      runs again with the new message; later turns are on an older history line.
    - Known messages that end before an answer regenerate it: the turn runs again, or from the step that
      emitted the first missing answer, if the client has earlier messages of the turn.
    - `resume` answers questions by id, some or all. A cancelled approval is rejected. Other questions
      can only be cancelled all together with a new message, which abandons the turn.
    - Answers to questions of an active run go to that run. Then the stream has the events of that run
      from there on, and `state` is not read. Closing it leaves the run alone.
    - Without new input the messages of the thread are emitted, for a client that misses some. A thread
      that has not ended continues at the step that failed or was running, or emits its questions
      again.
    - `state` has values of the run by name. Those that differ from the thread's are written before the
      run. Names that start with "_" are neither read nor emitted.
    - The whole input is in `config["configurable"]["ag_ui"]`, where agents find its `context` and
      `forwarded_props`: `ctx.config["configurable"]["ag_ui"].context`.

    Args:
        runner: The runner; its checkpointer must support async calls.
        run_input: The input of a client. It names the thread, so check that the user may use
            that thread, or put the user's name before it:
            `run_input.model_copy(update={"thread_id": f"{user}-{run_input.thread_id}"})`.
        context: LangGraph's runtime context, as in `Runner.run`.
        config: LangGraph's config, as in `Runner.run`.
        limits: The limits of the turn, as in `Runner.run`.

    Returns:
        An async iterator of the events. Await it first, so that the following errors are raised before
        the first event: `events = await agui.arun(runner, run_input)`. From then on the thread is
        locked. A failure inside the run is emitted as `RUN_ERROR`, with the text of the exception.

    Raises:
        ThreadBusyError: Another run is active on the thread, and the input answers none of its
            questions.
        PendingInterruptError: There are new messages, an edit or an answer to regenerate, but questions
            are pending.
        UnknownInterruptError: An answer names a question that is not pending.
        InvalidAnswerError: An answer does not fit its question's schema, or a question cannot be
            cancelled.
        TreeChangedError: The thread was run by a tree of another shape.
        AgentGraphError: The state is not an object or has a typo, or as in `Runner.run`.
        SaverError: The checkpointer cannot be read or written.
    """
    if not isinstance(run_input, RunAgentInput):
        raise AgentGraphError(
            f"run_input={shown(run_input)} is not a RunAgentInput of ag_ui.core; make one with "
            "RunAgentInput.model_validate(...)"
        )
    configurable = {**(config or {}).get("configurable", {}), RUN_INPUT: run_input}
    options: dict[str, Any] = {
        "context": context,
        "config": {**(config or {}), "configurable": configurable},
        "limits": limits,
        "stream": True,
    }
    return EventStream(partial(_begin, runner, run_input, options))


async def _begin(
    runner: Runner, run_input: RunAgentInput, options: Mapping[str, Any]
) -> AsyncGenerator[BaseEvent, None]:
    merged = frozenset(runner.engine.reducers.channels)
    thread_id = run_input.thread_id
    thread = await runner.engine.aread(before, thread_id, run_input)
    if thread.is_running:
        try:  # raises an error unless that run is about to end
            await (await runner.aresume(thread_id)).aclose()
        except ThreadBusyError:
            if answers := live_answers(run_input, thread):
                return await _begin_answering(runner, run_input, answers, options)
            raise
        thread = await runner.engine.aread(before, thread_id, run_input)
    new, back = new_input(run_input, thread, merged), None
    if not (thread.is_new or new.answers) and may_go_back(run_input, thread):
        back = way_back(run_input, thread, await runner.engine.aread(said_on, thread_id), new.values)
    is_cut = back is not None and len(back.run_input.messages) < len(run_input.messages)
    run_input = with_saved_texts(
        back.run_input if back else run_input, thread, back.edited if back else ()
    )
    has_news = bool(back or new.answers or new.messages) or thread.is_new
    if not has_news:
        turns = (await runner.athread(thread_id)).turns
        run_input = run_input.model_copy(update={"messages": history(turns, run_input)})
    run = (
        _run_back(runner, thread_id, back, options)
        if back
        else _first_run(runner, thread_id, thread, new, options)
    )
    if run is not None:
        await run
    later = partial(runner.arun, new.messages, thread_id=thread_id, **options)
    follows = later if new.answers and new.messages else None
    translator = Translator(run_input, merged)
    first = [*translator.started(), *((translator.snapshot(),) if is_cut or not has_news else ())]
    shown = run_input if back is not None and back.is_in_place else None
    return _translated(runner, translator, thread_id, first, run, follows, shown)


async def _begin_answering(
    runner: Runner, run_input: RunAgentInput, answers: Mapping[str, object], options: Mapping[str, Any]
) -> AsyncGenerator[BaseEvent, None]:
    """Answer questions of an active run, and return the events of that run from there on."""
    thread_id, how = run_input.thread_id, RunOptions(**options)
    run = await abegin_run(runner.engine, Resume(answers), thread_id, how, "steer")
    translator = Translator(run_input, frozenset(runner.engine.reducers.channels))
    return _translated(runner, translator, thread_id, [*translator.started()], run, None, None)


def _run_back(runner: Runner, thread_id: str, back: WayBack, options: Mapping[str, Any]) -> AsyncRun:
    """Return the run that goes back."""
    return runner.engine.arun(back.target, thread_id, RunOptions(**options, values=back.target.values))


def _first_run(
    runner: Runner, thread_id: str, thread: Before, new: NewInput, options: Mapping[str, Any]
) -> AsyncRun | None:
    """Return the run for an input; None if there is nothing to do."""
    if new.answers:
        return runner.aresume(thread_id, new.answers, values=new.values, **options)
    if new.messages or thread.is_new:
        drops = new.drops and bool(thread.questions)
        return runner.arun(
            new.messages, thread_id=thread_id, values=new.values, drop_pending=drops, **options
        )
    if not thread.is_done:
        return runner.aresume(thread_id, values=new.values, **options)
    return None


def _check_ended(result: Result) -> None:
    """Raise an error if the run of another request did not run to its end or its questions.

    Raises:
        Exception: It failed, was stopped, or its client left it.
    """
    if result.error is not None:
        raise result.error
    if result.status == "stopped":
        raise ThreadError(
            f"thread {shown(result.thread_id)}: the run that took the answers was stopped, or its "
            "client left; a request without new input continues it",
            result.thread_id,
        )


async def _translated(
    runner: Runner,
    translator: Translator,
    thread_id: str,
    first: Iterable[BaseEvent],
    run: AsyncRun | None,
    later: Callable[[], AsyncRun] | None,
    shown: RunAgentInput | None,
) -> AsyncGenerator[BaseEvent, None]:
    """Yield the events of a run, and of a turn after it if the run leaves no questions.

    Args:
        runner: The runner.
        translator: Translates the events.
        thread_id: The thread.
        first: The events before those of the run.
        run: The run; None if there is none.
        later: Returns the run of the turn after it.
        shown: The input of a client that gets all messages of the thread at the end.
    """
    for sent in first:
        yield sent
    try:
        while run is not None:
            async with run:
                async for event in run:
                    for sent in translator.event(event):
                        yield sent
                if run.follows:
                    _check_ended(await runner.aresult(thread_id))
            if translator.asks:  # another client may have answered meanwhile
                translator.wait_for(await runner.apending(thread_id))
            run = later() if later and not translator.asks else None
            later = None
        if shown is not None and not translator.asks:
            turns = (await runner.athread(thread_id)).turns
            yield MessagesSnapshotEvent(messages=history(turns, shown))
        values = shown_values(await runner.engine.aread(values_of, thread_id))
    except Exception as error:
        for sent in translator.failed(error):
            yield sent
    else:
        for sent in translator.finished(values):
            yield sent
