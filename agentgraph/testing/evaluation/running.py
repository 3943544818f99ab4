"""Evaluates a tree: runs its cases concurrently, sync or async, and makes the report."""

import asyncio
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from os import PathLike
from typing import cast

from agentgraph.agents.builders import as_tuple
from agentgraph.errors import AgentGraphError
from agentgraph.graph.nodes.calling import current_task
from agentgraph.graph.sync_async import arun_calls, run_calls
from agentgraph.journal.thread_status import CLOSED
from agentgraph.safe_repr import shown
from agentgraph.testing.cassettes import mode_of_environment
from agentgraph.testing.evaluation.cases import Cases, read_cases
from agentgraph.testing.evaluation.checks import Checks, check_sync, named_checks
from agentgraph.testing.evaluation.evaluation import Evaluation, Planned
from agentgraph.testing.evaluation.report import Report
from agentgraph.testing.evaluation.trials import Trial
from agentgraph.threads.live.steering import stop_here
from agentgraph.threads.runner import Runner, options_of, remade

_SECONDS = 0.1
"""Seconds between attempts to stop the active runs."""


def evaluate(
    runner: Runner,
    cases: Cases,
    checks: Checks,
    *,
    name: str,
    repeats: int = 1,
    max_concurrency: int = 4,
    cassettes: str | PathLike[str] | None = None,
    retry_failed: bool = False,
) -> Report:
    """Run cases, each on its own thread, and ask checks about the results.

    >>> from agentgraph.testing import Case
    >>> runner = Runner(function_agent("writer", lambda ctx: f"On {ctx.messages[-1].text}."))
    >>> cases = [Case("bees", "bees", expected="On bees."), Case("ants", "ants", expected="On aunts.")]
    >>> def as_expected(result, case):
    ...     return result.text == case.expected
    >>> report = evaluate(runner, cases, [as_expected], name="first")
    >>> [trial.case for trial in report.failed]
    ['ants']

    The thread of a case is `<name>/<case>/<number>`, with the number of the repeat from 0, in the
    checkpointer of the runner. After a kill, an exception or Ctrl-C the same call continues: it runs
    what is unfinished, and reads what has ended. Checks are asked in each call. A case with another
    input, other values or answers runs again: its thread is deleted. Without a checkpointer the threads
    are in memory, so another process begins from scratch. Each version of a tree has its own name:
    a changed one needs another.

    A case that waits for an answer it does not have is a result with the status "paused". A case whose
    run raises an exception is a failed one, and the others continue.

    Args:
        runner: Runs the tree.
        cases: The path of a file of JSON lines, or a list of cases; a text is the input of a case whose
            id is its number, from 1.
        checks: One check, several, or a dict of them by name: functions of a `Result`, or of a `Result`
            and its `Case`. A check returns True, False, or a score, which any number is; an exception
            is a failure.
        name: The name of the evaluation, the first part of its threads.
        repeats: How often each case runs.
        max_concurrency: Maximum number of cases that run at a time.
        cassettes: A folder for the answers of models and tools, a file for each thread,
            `<case>/<number>.json`; see `recorded`. `AGENTGRAPH_CASSETTES` sets the mode, as for
            `cassette`.
        retry_failed: Whether cases whose run failed in an earlier call continue at the failed step;
            otherwise they stay failed.

    Returns:
        The report, with a trial for each case and repeat.

    Raises:
        AgentGraphError: An argument is invalid, a check is async, or the runner needs async calls: use
            `aevaluate`.
        ThreadError: A thread of that name is not of an evaluation, or another tree ran it.
        SaverError: The checkpointer failed; the same call continues.
        CassetteError: The mode of the cassettes is unknown.
    """
    evaluation = _evaluation(
        runner, cases, checks, name, repeats, max_concurrency, cassettes, retry_failed
    )
    check_sync(evaluation.checks)
    evaluation.engine.check_sync("aevaluate", "that")
    run_calls(evaluation.look_up())
    return _run_all(evaluation, max_concurrency)


async def aevaluate(
    runner: Runner,
    cases: Cases,
    checks: Checks,
    *,
    name: str,
    repeats: int = 1,
    max_concurrency: int = 4,
    cassettes: str | PathLike[str] | None = None,
    retry_failed: bool = False,
) -> Report:
    """Run cases as `evaluate` does, on the event loop; checks may be async."""
    evaluation = _evaluation(
        runner, cases, checks, name, repeats, max_concurrency, cassettes, retry_failed
    )
    evaluation.engine.check_async()
    await arun_calls(evaluation.look_up())
    return await _arun_all(evaluation, max_concurrency)


def _evaluation(
    runner: object,
    cases: Cases,
    checks: Checks,
    name: object,
    repeats: object,
    max_concurrency: object,
    cassettes: str | PathLike[str] | None,
    retries: bool,
) -> Evaluation:
    """Return an evaluation after the checks of its arguments; nothing has run yet.

    Raises:
        AgentGraphError: An argument is invalid.
    """
    if not isinstance(runner, Runner):
        raise AgentGraphError(
            f"runner={shown(runner)} is not a Runner; pass ag.Runner(tree), with a checkpointer to "
            "continue in another process"
        )
    if not isinstance(name, str) or not name.strip("/"):
        raise AgentGraphError(f"name={shown(name)} is not a name of an evaluation; pass a text")
    for option, number in (("repeats", repeats), ("max_concurrency", max_concurrency)):
        if not isinstance(number, int) or number < 1:
            raise AgentGraphError(
                f"{option}={shown(number)} is out of range; pass an integer of at least 1"
            )
    planned = [
        Planned(case, number, f"{name}/{case.id}/{number}")
        for case in read_cases(cases)
        for number in range(cast(int, repeats))
    ]
    engine = runner.engine
    if cassettes is not None:
        files = {each.thread_id: f"{each.case.id}/{each.number}.json" for each in planned}
        from agentgraph.testing.recording import recorded_by_thread  # with LangChain's agents

        recording = recorded_by_thread(cassettes, files, mode_of_environment(cassettes))
        middleware = (*as_tuple(options_of(runner)["middleware"]), recording)
        engine = remade(runner, checkpointer=runner.saver, middleware=middleware).engine
    return Evaluation(engine, name, planned, named_checks(checks), retries=retries)


class _Ended(Exception):
    """A trial raised an exception that would end its task, or the event loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _run_all(evaluation: Evaluation, max_concurrency: int) -> Report:
    """Run all trials in threads; if this is interrupted, the active runs stop first."""

    def run(planned: Planned) -> Trial:
        return run_calls(evaluation.trial(planned))

    futures: list[Future[Trial]] = []
    with ThreadPoolExecutor(max_concurrency, "agentgraph-evaluate") as pool:
        try:
            futures += (pool.submit(copy_context().run, run, each) for each in evaluation.planned)
            wait(futures, return_when=FIRST_EXCEPTION)
            trials = [each.result() for each in futures]
        except BaseException:
            evaluation.is_stopping = True
            pool.shutdown(wait=False, cancel_futures=True)
            active = {each for each in futures if not each.done()}
            while active:
                for each in evaluation.planned:
                    stop_here(evaluation.engine.saver, each.thread_id, CLOSED)
                active = wait(active, _SECONDS).not_done
            raise
    return Report(evaluation.name, tuple(trials))


async def _arun_all(evaluation: Evaluation, max_concurrency: int) -> Report:
    """Run all trials on the event loop; if one raises or the caller is cancelled, all are."""
    slots = asyncio.Semaphore(max_concurrency)

    async def run(planned: Planned) -> Trial:
        async with slots:
            try:
                return await arun_calls(evaluation.trial(planned))
            except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
                if current_task() is None:  # the event loop has ended
                    raise
                raise _Ended(error) from None

    tasks = [asyncio.create_task(run(each)) for each in evaluation.planned]
    try:
        trials = await asyncio.gather(*tasks)
    except _Ended as ended:
        raise ended.error from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return Report(evaluation.name, tuple(trials))
