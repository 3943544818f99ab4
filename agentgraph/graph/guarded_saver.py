"""The saver of a run, guarded: its errors leave the run, and are not attributed to an agent.

The problem: LangGraph calls the saver in the middle of a run, and so do nodes. An error there looks
like the failure of the running branch, step or tool. It would be collected, retried, undone for, or
passed to a model, although no agent did anything wrong. The type of the exception does not help: a tool
may have its own database, and a saver may raise anything.

The rule: the place where it was raised decides. Each run calls its saver through a `GuardedSaver`. It
is passed in LangGraph's config, so lanes, LangGraph graphs and graphs that tools run have it, too.

- What the saver raises becomes a `SaverFailure`. That is a `BaseException`: no `except Exception` of a
  tool, a retry or a middleware takes it for a failure that it could handle.
- After the first failure all calls of this run fail. So the run ends even if some code did swallow the
  failure, and nothing is saved after it: a resume continues as if the process had been killed there.
- A run's saves happen in the order in which they begin. A node ends after its tasks, but LangGraph
  saves in several threads: if the result of a task is lost, the update that the node made of it must be
  lost, too.
- Where the run ends, the failure becomes a `SaverError`, with what the saver raised as its cause.

An exception of the serializer is not the saver's: the value that cannot be saved is at fault.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache, wraps
from inspect import signature
from json import JSONDecodeError
from threading import Lock
from traceback import walk_tb
from types import FrameType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.errors import SaverError
from agentgraph.graph.collecting import decoding
from agentgraph.graph.internals import RETURN, SAVER
from agentgraph.graph.open_types import Saver
from agentgraph.graph.question_records import keeps_questions, recording, restored, restoring
from agentgraph.graph.saver_trial import SaverTrial
from agentgraph.graph.saving import arose_in_saving
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.graph.strict_serializer import MALFORMED, UnreadableError
from agentgraph.graph.sync_async import running_loop
from agentgraph.safe_repr import reason
from agentgraph.tree.changes import FORMAT

_READS, _WRITES = ("get_tuple", "get_delta_channel_history"), ("put", "put_writes")
"""The methods that a run calls, and `list`."""
_OTHERS = ("delete_thread", "delete_for_runs", "copy_thread", "prune")
"""The other methods that `BaseCheckpointSaver` has, but `get_next_version`."""
_ENDING = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
"""Exceptions that end a process, a generator or a task: no other takes their place."""
_SQLITE_ADVICE = {
    "SQLITE_NOTADB": "it is not a SQLite database: name another file, or put a copy in its place",
    "SQLITE_CORRUPT": "the file is damaged: put a copy in its place, or start another file",
    "SQLITE_BUSY": "another process holds the file: try again when that is done",
    "SQLITE_LOCKED": "another connection holds the file: try again when that is done",
    "SQLITE_READONLY": "the file cannot be written: change its permissions, or use a copy",
    "SQLITE_FULL": "the disk is full: make room",
    "SQLITE_CANTOPEN": "look whether its folder is there, and the file may be read and written",
}
_POSTGRES_ADVICE = {
    "42P01": "its tables are not there: call the saver's setup() once",
    "42501": "the user may not do this: have the owner of the tables grant it",
    "25006": "the database is read only: name the server that takes writes",
    "53100": "the disk of the server is full: make room",
    "53300": "the server has too many connections: run fewer at a time, or raise max_connections",
}
"""Advice about PostgreSQL's errors, by their SQLSTATE."""
_LOST = ("server closed", "terminating connection", "connection is lost", "connection failed")
_CLOSED = ("closed", "no active connection")
_NO_LISTING = (NotImplementedError, ValueError, TypeError, LookupError, AttributeError)
"""The errors of savers that list the checkpoints of one thread only."""


class SaverFailure(BaseException):
    """Carries the error of a run's saver out of the run, past all code that handles exceptions."""

    def __init__(self, error: SaverError) -> None:
        super().__init__(error)
        self.__cause__ = error


class _Turn(Future[None]):
    """One call that saves something; it is done when the call has ended.

    Attributes:
        before: The last call before it, until all before it have ended.
    """

    before: "_Turn | None" = None

    def earlier(self) -> Iterator["_Turn"]:
        """Yield the calls to wait for, the last first; more than one if that has not waited itself."""
        turn = self.before
        while turn is not None:
            yield turn
            turn = turn.before


class Order:
    """The order in which the calls of a run save something: each waits for those that began before.

    It waits for the last of them, which has waited for the others: of a hundred that wait each would
    else wait a hundred times. A sync call on an event loop does not wait: others may need the loop to
    end. Nor does one that is cancelled; who comes after it waits for those before it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: _Turn | None = None

    def in_order(
        self, method: Callable[..., object], amethod: Callable[..., Awaitable[object]]
    ) -> tuple[Callable[..., object], Callable[..., Awaitable[object]]]:
        """Return a method, sync and async, that waits for the calls that have begun before."""

        @wraps(method)
        def call(*args: object, **options: object) -> object:
            mine = self._enter()
            try:
                for turn in mine.earlier() if mine.before and running_loop() is None else ():
                    turn.result()
                return method(*args, **options)
            finally:
                self._leave(mine)

        @wraps(amethod)
        async def acall(*args: object, **options: object) -> object:
            mine = self._enter()
            try:
                for turn in mine.earlier() if mine.before else ():
                    if not turn.done():
                        await asyncio.shield(asyncio.wrap_future(turn))
                return await amethod(*args, **options)
            finally:
                self._leave(mine)

        return call, acall

    def _enter(self) -> _Turn:
        mine = _Turn()
        with self._lock:
            mine.before, self._last = self._last, mine
        return mine

    def _leave(self, mine: _Turn) -> None:
        with self._lock:
            while (turn := mine.before) is not None and turn.done():
                mine.before = turn.before
            if mine.before is None and self._last is mine:
                self._last = None
        mine.set_result(None)


class GuardedSaver(Saver):
    """The saver of one run. Once it has failed it stays failed.

    Its methods are attributes, made of those of the saver: so they have the same parameters, which
    LangGraph looks at, and only one more call each.

    Attributes:
        inner: The saver.
        trial: Checks a saver that is not known; None for others.
    """

    def __init__(
        self,
        inner: Saver,
        thread_id: str | None = None,
        failed: list[SaverError] | None = None,
        order: "Order | None" = None,
        saved: set[str] | None = None,
        namespace: str | None = None,
        trial: SaverTrial | None = None,
    ) -> None:
        """Guard a saver.

        Args:
            inner: The saver.
            thread_id: The thread that is run, for the error.
            failed: Holds the error, if the saver has failed; guards of one run share it.
            order: The order of what is saved; without one it is LangGraph's.
            saved: The tasks whose results were saved before LangGraph saves them; shared as well.
            namespace: The namespace of the running graph, if the form of the data that it reads is
                checked.
            trial: Checks a saver that is not known; None for others.
        """
        self.inner, self._thread_id, self._namespace = inner, thread_id, namespace
        self._failed: list[SaverError] = [] if failed is None else failed
        self._order, self.trial = order, trial
        self._saved: set[str] = set() if saved is None else saved
        self._has_records = not keeps_questions(inner)
        own = {"serde": inner.serde, "get_next_version": inner.get_next_version}
        for name in _OTHERS:
            own[name], own[f"a{name}"] = getattr(inner, name), getattr(inner, f"a{name}")
        for name in (*_READS, *_WRITES):
            own[name], own[f"a{name}"] = self._guarded(name)
        vars(self).update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "inner"), name)

    @property
    def config_specs(self) -> list[object]:
        """The part of LangGraph's config that the saver reads."""
        return self.inner.config_specs

    def list(self, config: RunnableConfig | None, **bounds: Any) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, as the saver does."""
        self.check()
        try:
            for saved in self.inner.list(config, **bounds):
                yield restored(saved) if self._has_records else saved
        except Exception as error:
            raise self._raised(error, writes=False)  # noqa: B904

    async def alist(
        self, config: RunnableConfig | None, **bounds: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, as the saver does."""
        self.check()
        try:
            async for saved in self.inner.alist(config, **bounds):
                yield restored(saved) if self._has_records else saved
        except Exception as error:
            raise self._raised(error, writes=False)  # noqa: B904

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "GuardedSaver":
        """Return a guard for the same run of a saver that may read more types."""
        inner = self.inner.with_allowlist(extra_allowlist)
        shared = self._failed, self._order, self._saved, self._namespace, self.trial
        return GuardedSaver(inner, self._thread_id, *shared)

    def save_result(self, at: RunnableConfig, result: object, task_id: str, path: str) -> None:
        """Save the result of a task that is about to end; LangGraph does not save it again.

        Args:
            at: The checkpoint of the step in which the task runs.
            result: The result.
            task_id: The id of the task.
            path: LangGraph's path of the task.
        """
        self.put_result(at, result, task_id, path)
        self._saved.add(task_id)

    async def asave_result(self, at: RunnableConfig, result: object, task_id: str, path: str) -> None:
        """Save the result of a task on the event loop; if the task is cancelled, it is saved first."""
        await self.aput_result(at, result, task_id, path)
        self._saved.add(task_id)

    def put_result(
        self, at: RunnableConfig, result: object, task_id: str, path: str, channel: str = RETURN
    ) -> None:
        """Save a result that LangGraph does not save, as it saves the result of a task.

        Args:
            at: The checkpoint of the step in which it runs.
            result: The result.
            task_id: The id that its task would have.
            path: LangGraph's path of that.
            channel: Under which LangGraph saves it.
        """
        self.put_writes(at, [(channel, result)], task_id, *self._path(path))

    async def aput_result(
        self, at: RunnableConfig, result: object, task_id: str, path: str, channel: str = RETURN
    ) -> None:
        """Save it on the event loop, as `put_result` does; if it is cancelled, it is saved first."""
        put = self.aput_writes(at, [(channel, result)], task_id, *self._path(path))
        saving = asyncio.ensure_future(put)
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait({saving})
            raise

    def _path(self, path: str) -> tuple[str, ...]:
        return path_for(self.inner, path)

    def check(self) -> None:
        """Raise the failure of the saver, if it has failed."""
        if self._failed:
            raise SaverFailure(self._failed[0])

    def error(self, raised: BaseException) -> SaverError | None:
        """Return the error of the saver, to leave the run in place of `raised`; None if it works."""
        return self._failed[0] if self._failed and not isinstance(raised, _ENDING) else None

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise the error of the saver, if it has failed, where the run in a `with` block ends."""
        try:
            yield
            self.check()
        except BaseException as error:
            if (leaves := self.error(error)) is None:
                raise
            raise leaves from leaves.__cause__

    def _guarded(self, name: str) -> tuple[Callable[..., object], Callable[..., object]]:
        """Return a method of the saver, sync and async, that fails once the saver has failed."""
        method, amethod = getattr(self.inner, name), getattr(self.inner, f"a{name}")
        if name in _READS:
            method, amethod = decoding(method, amethod)
        if self._has_records:
            method, amethod = self._recorded(name, method, amethod)
        writes, own = name in _WRITES, self._namespace if name == "get_tuple" else None

        @wraps(method)
        def call(*args: object, **options: object) -> object:
            if self._failed:
                raise SaverFailure(self._failed[0])
            try:
                result = method(*args, **options)
                if own is not None and result is not None:
                    _check_form(result, own)
                return result
            except Exception as error:
                raise self._raised(error, writes=writes)  # noqa: B904

        @wraps(amethod)
        async def acall(*args: object, **options: object) -> object:
            if self._failed:
                raise SaverFailure(self._failed[0])
            try:
                result = await amethod(*args, **options)
                if own is not None and result is not None:
                    _check_form(result, own)
                return result
            except Exception as error:
                raise self._raised(error, writes=writes)  # noqa: B904

        if not writes or self._order is None:
            return call, acall
        kept = self._order.in_order(call, acall)
        return self._once(*kept) if name == "put_writes" else kept

    def _recorded(
        self, name: str, method: Callable[..., object], amethod: Callable[..., Awaitable[object]]
    ) -> tuple[Callable[..., object], Callable[..., object]]:
        if name == "get_tuple":
            return restoring(method, amethod)
        if name != "put_writes":
            return method, amethod
        method, amethod = recording(method, amethod)
        return (method, amethod) if self.trial is None else self.trial.noting(method, amethod)

    def _once(
        self, method: Callable[..., object], amethod: Callable[..., Awaitable[object]]
    ) -> tuple[Callable[..., object], Callable[..., object]]:
        saved = self._saved

        @wraps(method)
        def call(*args: Any, **options: object) -> object:
            if saved and args[2] in saved and len(args[1]) == 1 and args[1][0][0] == RETURN:
                saved.remove(args[2])
                return None
            return method(*args, **options)

        @wraps(amethod)
        async def acall(*args: Any, **options: object) -> object:
            if saved and args[2] in saved and len(args[1]) == 1 and args[1][0][0] == RETURN:
                saved.remove(args[2])
                return None
            return await amethod(*args, **options)

        return call, acall

    def _raised(self, error: Exception, *, writes: bool) -> BaseException:
        """Return the error to raise for an exception of the saver; that of the serializer stays."""
        if (writes and arose_in_saving(error)) or is_of_a_handler(error):
            return error
        named = error
        if not isinstance(named, SaverError):
            named = saver_error(error, self.inner, self._thread_id)
            named.__cause__ = error
        self._failed.append(named)
        return SaverFailure(self._failed[0])


def another_form() -> UnreadableError:
    """Return the error for a thread that another version of agentgraph saved."""
    return UnreadableError(
        f"saved in another form than this version of agentgraph reads, which is {FORMAT}",
        "continue it with the version of agentgraph that saved it, or start a new thread",
    )


def _check_form(saved: CheckpointTuple, namespace: str) -> None:
    """Check that a checkpoint of a graph's own namespace has the form that this version reads.

    Raises:
        UnreadableError: It has another one.
    """
    if saved.config["configurable"].get("checkpoint_ns", "") != namespace:
        return
    position = saved.checkpoint["channel_values"].get("position")
    tree = position.get("tree") if isinstance(position, dict) else None
    if isinstance(tree, str) and tree and not tree.startswith(f"{FORMAT}."):
        raise another_form()


def path_for(saver: Saver, path: str) -> tuple[str, ...]:
    """Return the path of a task as an argument of a saver's `put_writes`, if the saver takes it."""
    return (path,) if _takes_path(type(saver).put_writes) else ()


@cache
def _takes_path(put_writes: Callable[..., object]) -> bool:
    return "task_path" in signature(put_writes).parameters


def saver_failure(config: RunnableConfig, error: BaseException) -> SaverFailure | None:
    """Return the error that leaves an agent in place of `error`, if the saver of its run has failed.

    Args:
        config: LangGraph's config of the node.
        error: The error that is about to leave the agent.
    """
    if isinstance(error, SaverFailure):
        return error
    saver = config.get("configurable", {}).get(SAVER)
    failure = saver.error(error) if isinstance(saver, GuardedSaver) else None
    return SaverFailure(failure) if failure else None


def saver_error(error: BaseException, saver: Saver, thread_id: str | None = None) -> SaverError:
    """Return the error to raise from an exception of a saver.

    ```
    except sqlite3.Error as error:
        raise saver_error(error, saver, thread_id) from error
    ```

    Args:
        error: The error of the saver.
        saver: The saver.
        thread_id: The thread that was read or run; None or empty if it was none.
    """
    path: str | None = getattr(saver, "path", None)
    database: str | None = getattr(saver, "database", None)
    at = f", the file {path}," if path else f", the database {database}," if database else ""
    whose = f"thread {thread_id!r}: its saver" if thread_id else "the saver"
    named = f"{whose} {type(saver).__name__.lstrip('_')}{at}"
    if (missing := _missing_feature(error)) is not None:
        return SaverError(f"{named} {missing}", thread_id=thread_id or None, path=path)
    return SaverError(
        f"{named} failed with {type(error).__name__}: "
        f"{reason(error)}; {advice_for(error)}; what was saved before is kept",
        thread_id=thread_id or None,
        path=path,
    )


def _missing_feature(error: BaseException) -> str | None:
    """Return the call that a saver does not offer at all, and what to do; None if it only failed."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    said = str(error).strip().partition("\n")[0]
    why = f" ({said})" if said else ""
    if isinstance(error, _NO_LISTING) and any(map(_lists_all, frames)):
        return (
            f"does not list threads{why}; keep the ids of threads yourself, or use a saver that lists "
            "them, such as ag.sqlite_saver(path)"
        )
    if isinstance(error, NotImplementedError):
        method = frames[-1].f_code.co_name if frames else "this call"
        return f"does not offer {method}{why}; use a saver that does, such as ag.sqlite_saver(path)"
    return None


def _lists_all(frame: FrameType) -> bool:
    """Return whether a frame is that of a saver that is asked for the checkpoints of all threads."""
    is_list = frame.f_code.co_name in ("list", "alist")
    return is_list and frame.f_locals.get("config", frame) is None


def advice_for(error: BaseException) -> str:
    """Return the advice about an exception of a saver."""
    if isinstance(error, UnreadableError):
        return error.advice
    if isinstance(error, JSONDecodeError | UnicodeDecodeError):
        return MALFORMED
    code = "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])
    if code in _SQLITE_ADVICE:
        return _SQLITE_ADVICE[code]
    if (state := getattr(error, "sqlstate", None)) in _POSTGRES_ADVICE:
        return _POSTGRES_ADVICE[state]
    if any(word in reason(error) for word in _LOST):
        return "try again when the server can be reached"
    if any(word in reason(error) for word in _CLOSED):
        return "use the runner while its saver is open"
    return "try again when the saver works"
