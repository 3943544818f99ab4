"""The treatment of a run on a busy thread: it waits, or its message or answers go to the active run.

A message that waits is saved as a request first: if its caller dies, it begins the next turn that any
caller starts. While the caller lives it holds a lock for the request, so that others, in other
processes too, leave the message to it, and see who came first.
"""

from functools import partial
from typing import Literal, NamedTuple

from agentgraph.errors import AgentGraphError, PendingInterruptError, ThreadBusyError, ThreadError
from agentgraph.graph.stamps import cursor_of
from agentgraph.graph.sync_async import Call, awaiting, get_next
from agentgraph.journal.answers import UNANSWERED
from agentgraph.journal.locks import ThreadLock
from agentgraph.journal.pending import are_answered, has_stored_answers
from agentgraph.journal.requests import (
    AlreadyReadError,
    Request,
    has_waiting_turn,
    ids_on,
    lock_of,
    new_id,
    put_request,
    unread,
)
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.thread_list import status_of
from agentgraph.safe_repr import shown
from agentgraph.threads.begin import Advance, Begin, NewTurn, Resume
from agentgraph.threads.engine import Engine, RunOptions
from agentgraph.threads.live.active_run import check_answer
from agentgraph.threads.live.answering import answer
from agentgraph.threads.live.following import (
    AsyncFollow,
    Follow,
    Following,
    followed,
    last_number,
    waiting,
)
from agentgraph.threads.live.run_answers import requested_answers
from agentgraph.threads.live.steering import sent
from agentgraph.threads.runs import AsyncRun, Driver, Run
from agentgraph.threads.turns import named_messages

WhileRunning = Literal["refuse", "queue", "steer"]
"""The treatment of a run that finds another one on its thread."""
_SECONDS = 0.1
"""How often a caller that waits looks whether its turn has come."""


class _QueuedTurn(NamedTuple):
    """A turn that is wanted on a thread.

    Attributes:
        engine: Runs it.
        begin: How it begins.
        thread_id: The thread.
        how: The options of the run.
    """

    engine: Engine
    begin: NewTurn
    thread_id: str
    how: RunOptions

    def run(self, request: str | None = None) -> Run:
        """Begin it, with the messages of a request that waits."""
        return self.engine.run(self._turn(request), self.thread_id, self.how)

    async def arun(self, request: str | None = None) -> AsyncRun:
        """Begin it as `run` does, on the event loop."""
        return await self.engine.arun(self._turn(request), self.thread_id, self.how)

    def start(self, request: str | None = None) -> Call:
        """Return the call that begins it, sync or async."""
        return Call(partial(self.run, request), partial(self.arun, request))

    def _turn(self, request: str | None) -> NewTurn:
        return self.begin._replace(messages=(), request=request)


def begin_run(
    engine: Engine, begin: Begin, thread_id: str, how: RunOptions, while_running: WhileRunning
) -> Run | Follow:
    """Begin a run; if it begins a turn and the thread is busy, do what `while_running` says.

    Raises:
        AgentGraphError: As in `Runner.run`.
    """
    _check(begin, while_running)
    if isinstance(begin, Resume) and _may_answer(begin, while_running):
        try:
            return engine.run(begin, thread_id, how)
        except ThreadBusyError:
            check_answer(engine.saver, thread_id)
            return Follow(thread_id, engine.read(_answered, thread_id, engine, begin, how))
    if while_running == "refuse" or not isinstance(begin, NewTurn):
        return engine.run(begin, thread_id, how)
    queued_turn = _QueuedTurn(engine, begin, thread_id, how)
    if while_running == "steer" or not engine.read(has_waiting_turn, thread_id):
        try:
            return engine.run(begin, thread_id, how)
        except ThreadBusyError:
            pass
    goes = _sent if while_running == "steer" else _enqueued
    return Follow(thread_id, engine.read(goes, thread_id, queued_turn))


def abegin_run(
    engine: Engine, begin: Begin, thread_id: str, how: RunOptions, while_running: WhileRunning
) -> AsyncRun:
    """Begin a run as `begin_run` does, on the event loop."""
    _check(begin, while_running)
    if isinstance(begin, Resume) and _may_answer(begin, while_running):
        return AsyncRun(thread_id, partial(_aanswering, engine, begin, thread_id, how))
    if while_running == "refuse" or not isinstance(begin, NewTurn):
        return engine.arun(begin, thread_id, how)
    queued_turn = _QueuedTurn(engine, begin, thread_id, how)

    async def start() -> Driver | AsyncFollow:
        if while_running == "steer" or not await engine.aread(has_waiting_turn, thread_id):
            try:
                return await engine.adriver(begin, thread_id, how)
            except ThreadBusyError:
                pass
        goes = _sent if while_running == "steer" else _enqueued
        return AsyncFollow(await engine.aread(goes, thread_id, queued_turn))

    return AsyncRun(thread_id, start)


def _may_answer(begin: Resume, while_running: WhileRunning) -> bool:
    """Return whether the answers of a resume go to the run that is active on its thread."""
    return while_running == "steer" and begin.answers is not UNANSWERED


async def _aanswering(
    engine: Engine, begin: Resume, thread_id: str, how: RunOptions
) -> Driver | AsyncFollow:
    try:
        return await engine.adriver(begin, thread_id, how)
    except ThreadBusyError:
        return AsyncFollow(await engine.aread(_answered, thread_id, engine, begin, how))


def _check(begin: Begin, while_running: object) -> None:
    if while_running not in ("refuse", "queue", "steer"):
        raise AgentGraphError(
            f"while_running={shown(while_running)} is unknown; use 'refuse', 'queue' (the turn begins "
            "when the thread is free) or 'steer' (the messages or answers go to the active run)"
        )
    if isinstance(begin, Advance) and while_running != "refuse":
        raise AgentGraphError(
            f"while_running={shown(while_running)} with turn_id= could send messages of a turn twice; "
            "leave one of the two out"
        )


async def _enqueued(saver: ThreadSaver, queued_turn: _QueuedTurn) -> Following:
    """Save the input of a turn that has to wait, and return what yields its events."""
    several = saver.saved_messages(named_messages(queued_turn.begin.messages))
    saver.saved_values(queued_turn.begin.values)
    request_id = new_id()
    lock = lock_of(saver, request_id)
    await Call(lock.acquire, lock.aacquire)
    request = await put_request(saver, "queue", messages=several, request_id=request_id)
    return _queued(saver, request, lock, queued_turn)


def _queued(
    saver: ThreadSaver, request: Request, lock: ThreadLock, queued_turn: _QueuedTurn
) -> Following:
    """Wait until no other request is before this one, then yield the events of its turn.

    Raises:
        PendingInterruptError: The turn before has paused; the message stays queued.
        ThreadError: The turn before has failed or was stopped; the message stays queued.
    """
    try:
        while True:
            is_busy = yield from awaiting(saver.is_running())
            if not is_busy and not (yield from awaiting(has_waiting_turn(saver, before=request.id))):
                yield from awaiting(_check_ended(saver, drops=queued_turn.begin.drop_pending))
                try:
                    run: object = yield queued_turn.start(request.id)
                except ThreadBusyError:
                    continue
                yield Call(lock.release, lock.arelease)
                yield from _all_of(run)
                return
            yield from waiting(_SECONDS)
    finally:
        lock.release()


def _all_of(run: object) -> Following:
    while (event := (yield get_next(run))) is not None:
        yield event


async def _check_ended(saver: ThreadSaver, *, drops: bool) -> None:
    """Refuse to begin a turn before the last one has ended, unless its questions are dropped."""
    status = await status_of(saver)
    is_answered = status == "stopped" and await are_answered(saver)
    if (status == "paused" or is_answered) and not drops:
        why = (
            "has answers that no run has taken" if is_answered else "has paused, and waits for answers"
        )
        raise PendingInterruptError(
            f"thread {shown(saver.thread_id)} {why}; the message stays queued, and begins the next "
            "turn: resume() the thread, then run(...) once more",
            saver.thread_id,
        )
    if status in ("failed", "stopped") and not is_answered:
        raise ThreadError(
            f"thread {shown(saver.thread_id)} has {status}; the message stays queued, and begins the "
            "next turn: resume() the thread, or give its turn up with run(...)",
            saver.thread_id,
        )


async def _sent(saver: ThreadSaver, queued_turn: _QueuedTurn) -> Following:
    """Send the input of a turn to the run on its thread, and return what yields what happens there.

    Raises:
        AgentGraphError: The turn has values, which an active run does not take.
    """
    if queued_turn.begin.values:
        raise _values_error(saver, "leave them out, or use while_running='queue'")
    after = cursor_of(await last_number(saver))
    request = await sent(saver, queued_turn.begin.messages)
    return _steered(saver, after, request, queued_turn.start(request.id))


def _steered(saver: ThreadSaver, after: str, request: Request, begins: Call) -> Following:
    """Yield the events after messages were sent; if nothing has read them, they begin a turn."""
    yield from followed(saver, after)
    if not (yield from awaiting(_is_left(saver, request))):
        return
    try:
        run: object = yield begins
    except AlreadyReadError:
        return
    except ThreadBusyError:  # the run that another caller began has them
        yield from followed(saver, cursor_of((yield from awaiting(last_number(saver)))))
    else:
        yield from _all_of(run)


async def _answered(saver: ThreadSaver, engine: Engine, begin: Resume, how: RunOptions) -> Following:
    """Answer questions of the run on a thread, and return what yields what happens there.

    Raises:
        AgentGraphError: There are values, which an active run does not take; or as in `answer`.
    """
    if begin.values:
        raise _values_error(saver, "leave them out, or resume when it has ended")
    after = cursor_of(await last_number(saver))
    await answer(saver, begin.answers)
    start = engine.run, engine.arun
    return _after_answers(saver, after, Call(*start, (Resume(), saver.thread_id, how)))


def _after_answers(saver: ThreadSaver, after: str, resumes: Call) -> Following:
    """Yield the events after answers; if no run has taken them, resume the thread."""
    yield from followed(saver, after)
    if not (yield from awaiting(_waits_with_answers(saver))):
        return
    try:
        run: object = yield resumes
    except ThreadBusyError:  # the run that another caller began has them
        yield from followed(saver, cursor_of((yield from awaiting(last_number(saver)))))
    else:
        yield from _all_of(run)


async def _waits_with_answers(saver: ThreadSaver) -> bool:
    """Return whether a thread has answers that no run has taken, also of one that was killed."""
    return await has_stored_answers(saver) or bool(await requested_answers(saver))


def _values_error(saver: ThreadSaver, advice: str) -> AgentGraphError:
    return AgentGraphError(
        f"thread {shown(saver.thread_id)}: values= cannot be sent to an active run; {advice}"
    )


async def _is_left(saver: ThreadSaver, request: Request) -> bool:
    if await status_of(saver) != "done":
        return False
    return bool(unread([request], await ids_on(saver)))
