"""Checks what a saver of LangGraph keeps: for its users, and for its authors."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from multiprocessing import get_context
from pickle import PicklingError
from time import monotonic
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from agentgraph.agents.agents import Agent
from agentgraph.agents.builders import function_agent, parallel, sequential
from agentgraph.agents.context import Context
from agentgraph.agents.middleware import Mode
from agentgraph.errors import AgentGraphError
from agentgraph.graph.open_types import Saver
from agentgraph.graph.saver_trial import package_of
from agentgraph.graph.sync_async import Call, arun_calls, run_calls, running_loop
from agentgraph.journal.savers.opening import saver_fault
from agentgraph.safe_repr import reason, shown
from agentgraph.testing.saver_checks import CHECKS, Checked, Lost, unchecked
from agentgraph.testing.saver_report import SaverReport, SaverRow

__all__ = ["check_saver"]

_KILLED = 9
"""The exit code of a process that ended itself in the middle of a run."""
_SECONDS = 60
"""Maximum duration of that process."""
_LONGEST = 300
"""Maximum length of a reason."""
MakeSaver = Callable[[], Any]


def check_saver(make_saver: MakeSaver) -> SaverReport:
    """Try what a saver of LangGraph keeps of runs, questions and threads.

    It runs small trees on threads named "check-...", which it deletes at the end if the saver can; use
    an empty database. A saver for sync and async calls is tried with both. It takes some seconds.

    ```
    print(check_saver(lambda: PostgresSaver.from_conn_string("postgresql://...")))
    ```

    Args:
        make_saver: Returns a saver that is ready to use, or a context manager of one, sync or async,
            which is entered and closed. It is called more than once; each saver must have the same
            threads. To try a kill, another process calls it, too: make it a function of a module, and
            open what processes share.

    Returns:
        The report, which prints as a table.

    Raises:
        AgentGraphError: `make_saver` returns no saver, or one without the methods that runs call.
    """
    if running_loop() is None:
        return _report(make_saver)
    with ThreadPoolExecutor(1) as thread:  # a notebook has an event loop
        return thread.submit(_report, make_saver).result()


def _report(make_saver: MakeSaver) -> SaverReport:
    began = monotonic()
    results: dict[Mode, dict[str, SaverRow]] = {}
    kinds: list[type] = []
    opened: Callable[[], Any] = make_saver
    try:
        with _opened(make_saver) as saver:
            if run_calls(_serves(saver, "sync")):
                results["sync"] = run_calls(_tried(saver, make_saver, "sync", tries_kill=True))
            kinds.append(type(saver))
    except _AsyncOnly as found:
        opened = found.open

    async def tried() -> None:
        async with _aopened(opened) as saver:
            if await arun_calls(_serves(saver, "async")):
                rows = _tried(saver, make_saver, "async", tries_kill=not results)
                results["async"] = await arun_calls(rows)
            kinds.append(type(saver))

    asyncio.run(tried())
    kind = kinds[-1]
    if not results:
        raise AgentGraphError(
            f"{kind.__name__} has no methods for sync or async calls; implement get_tuple, list, put "
            "and put_writes, or their twins with an a"
        )
    package = package_of(kind) or ("", "")
    rows = tuple(_joined({mode: each[name] for mode, each in results.items()}) for name in _NAMES)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return SaverReport(name, *package, tuple(results), rows, monotonic() - began)


_NAMES = (*CHECKS, "kill")


class _AsyncOnly(Exception):
    """A saver can be opened on an event loop only.

    Attributes:
        open: Returns what opens it.
    """

    def __init__(self, open: Callable[[], Any]) -> None:
        super().__init__()
        self.open = open


@contextmanager
def _opened(make_saver: MakeSaver) -> Iterator[Saver]:
    try:
        made = make_saver()
    except RuntimeError as error:
        if "event loop" not in str(error):
            raise
        raise _AsyncOnly(make_saver) from error
    if isinstance(made, AbstractContextManager):
        with made as saver:
            yield _checked(saver)
    elif isinstance(made, AbstractAsyncContextManager | Awaitable):
        raise _AsyncOnly(lambda: made)
    else:
        yield _checked(made)


@asynccontextmanager
async def _aopened(make_saver: MakeSaver) -> AsyncIterator[Saver]:
    made = make_saver()
    if isinstance(made, Awaitable) and not isinstance(made, AbstractAsyncContextManager):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        async with made as saver:
            yield _checked(saver)
    elif isinstance(made, AbstractContextManager):
        with made as saver:
            yield _checked(saver)
    else:
        yield _checked(made)


def _checked(made: object) -> Saver:
    if isinstance(made, BaseCheckpointSaver):
        return made
    raise AgentGraphError(
        f"make_saver returned {shown(made)}, which is not a saver of LangGraph; return one that is "
        "ready to use, or a context manager of one"
    )


async def _serves(saver: Saver, mode: Mode) -> bool:
    """Return whether a saver serves sync or async calls, and its methods do more than raise."""
    if saver_fault(saver, mode) is not None:
        return False
    at = {"configurable": {"thread_id": Checked(saver).thread(), "checkpoint_ns": ""}}
    try:
        await Call(saver.get_tuple, saver.aget_tuple, (at,))
    except NotImplementedError:
        return False
    return True


async def _tried(
    saver: Saver, make_saver: MakeSaver, mode: Mode, *, tries_kill: bool
) -> dict[str, SaverRow]:
    rows: dict[str, SaverRow] = {}
    for name, check in CHECKS.items():
        rows[name] = await _row(name, saver, check)
    if tries_kill:
        rows["kill"] = await _kill(saver, make_saver, mode)
    else:
        rows["kill"] = SaverRow("kill", None)
    return rows


async def _row(name: str, saver: Saver, check: Callable[[Checked], Any]) -> SaverRow:
    checked = Checked(saver)
    try:
        await check(checked)
    except Lost as lost:
        return SaverRow(name, False, _short(str(lost)))
    except Exception as error:
        return SaverRow(name, False, _short(f"{type(error).__name__}: {reason(error)}"))
    finally:
        for thread in checked.made:
            with suppress(Exception):
                await Call(saver.delete_thread, saver.adelete_thread, (thread,))
    return SaverRow(name, True)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _joined(rows: dict[Mode, SaverRow]) -> SaverRow:
    """Return one row for both modes: it works if it does in each that was tried."""
    tried = {mode: row for mode, row in rows.items() if row.works is not None}
    first = next(iter((tried or rows).values()))
    if not tried or all(row.works for row in tried.values()):
        return first
    failed = {mode: row for mode, row in tried.items() if not row.works}
    reasons = {row.reason for row in failed.values()}
    if len(failed) == len(rows) and len(reasons) == 1:
        return next(iter(failed.values()))
    text = "; ".join(f"{mode}: {row.reason}" for mode, row in failed.items())
    return SaverRow(first.name, False, text)


def _tree(dies: Callable[[Context], str], ran: list[str]) -> Agent:
    def works(name: str) -> Agent:
        def work(ctx: Context) -> str:
            ran.append(ctx.address)
            return f"{name} worked"

        return function_agent(name, work)

    branches = parallel("p", [works("done"), function_agent("dies", dies)], max_concurrency=1)
    return sequential("s", [works("first"), branches, works("last")])


async def _kill(saver: Saver, make_saver: MakeSaver, mode: Mode) -> SaverRow:
    """Resume a run in the middle of which another process was killed."""
    checked, ran = Checked(saver), list[str]()

    def dies(ctx: Context) -> str:
        ran.append(ctx.address)
        return "It lives."

    thread, tree = checked.thread(), _tree(dies, ran)
    fault = await Call(_run_killed, _arun_killed, (make_saver, thread, mode))
    if fault:
        return SaverRow("kill", None, _short(f"not tried: {fault}"))
    at = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    if await Call(saver.get_tuple, saver.aget_tuple, (at,)) is None:
        return SaverRow("kill", None, "not tried: another process does not see the threads")

    async def resumes(checked: Checked) -> None:
        checked.made.append(thread)
        await checked.events(tree, "resume", thread)
        checked.ran = ran
        checked.expect_runs("s/p/dies", "s/last")
        events = await checked.events(tree, "events", thread)
        said = [each.address for each in events if each.kind == "message"]
        if sorted(said) != ["s/first", "s/last", "s/p/dies", "s/p/done"]:
            raise Lost(f"the events after the kill are at {', '.join(said)}")

    return await _row("kill", saver, resumes)


async def _arun_killed(make_saver: MakeSaver, thread: str, mode: Mode) -> str:
    return await asyncio.to_thread(_run_killed, make_saver, thread, mode)


def _run_killed(make_saver: MakeSaver, thread: str, mode: Mode) -> str:
    """Have another process run a tree, and die in it; return why that was not possible, or nothing."""
    spawn = get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_run_and_die, args=(make_saver, thread, mode, sender))
    try:
        process.start()
    except (PicklingError, AttributeError, TypeError) as error:
        return f"another process cannot get make_saver ({reason(error)}); pass a function of a module"
    sender.close()
    process.join(_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        return f"another process had not come to its end after {_SECONDS} s"
    if process.exitcode == _KILLED:
        return ""
    with suppress(EOFError):
        return f"another process could not run: {receiver.recv()}"
    return "another process did not start; call check_saver under if __name__ == '__main__'"


def _run_and_die(make_saver: MakeSaver, thread: str, mode: Mode, sender: Any) -> None:
    def dies(ctx: Context) -> str:
        os._exit(_KILLED)

    async def arun() -> None:
        async with _aopened(make_saver) as saver:
            await unchecked(tree, saver).ainvoke("Go.", thread_id=thread)

    tree = _tree(dies, [])
    try:
        if mode == "async":
            asyncio.run(arun())
        else:
            with _opened(make_saver) as saver:
                unchecked(tree, saver).invoke("Go.", thread_id=thread)
    except BaseException as error:
        sender.send(f"{type(error).__name__}: {reason(error)}")
