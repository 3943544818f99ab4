"""How a function that runs agents ends: what becomes of its calls, and of what they wrote."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from agentgraph.errors import InvalidOutputError
from agentgraph.graph.failures import as_data, each_once
from agentgraph.graph.lane_position import Position
from agentgraph.graph.nodes.calling import is_cancelled
from agentgraph.graph.nodes.run_calls import CallPaused, RunCall, RunCalls
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import is_in_call

_NOWHERE = Position(next=None, cursor=[], tree="")
"""The position of a call that is reported already."""


async def end_calls(runs: RunCalls, error: BaseException | None) -> None:
    """End the calls of a function, after all of them have ended.

    Args:
        runs: The calls.
        error: The error that ended the function; None if it returned.

    Raises:
        GraphInterrupt: Some wait for answers.
        InvalidOutputError: The function made a call that it did not await.
        BaseException: The error that ended the function.
    """
    forgotten = [each for each in runs.calls.values() if _is_forgotten(each)]
    for each in runs.calls.values():
        if each.future is not None and not each.is_delivered:
            runs.note(each)
    if fatal := [each for each in runs.stops if not isinstance(each, GraphBubbleUp)]:
        raise fatal[0]
    if error is not None and is_cancelled(error):
        raise error
    failed = [each for each in runs.calls.values() if each.failure is not None]
    if pauses := [*runs.pauses, *_interrupts(error)]:
        is_group = isinstance(error, BaseExceptionGroup)  # of a TaskGroup, which cancels the others
        ending = _that_ended(error, failed)
        await _report(runs, ending, again=True)
        # Another failure than the one that ended the function may not have reached it.
        seen = [each for each in failed if each.is_abandoned or not (each.is_late or ending)]
        await _report(runs, [each for each in seen if not (is_group and each.is_abandoned)])
        raise GraphInterrupt(each_once(asked for paused in pauses for asked in paused.args[0]))
    if runs.stops:
        raise runs.stops[0]
    if error is not None:
        for each in _that_ended(error, failed):
            await runs.saved.save(each.unended(again=True))
        raise error
    if forgotten:
        raise InvalidOutputError(
            f"{runs.activation.address}: the function ended before its call "
            f"ctx.run({forgotten[0].agent!r}, {shown(forgotten[0].request)}) was awaited; await each "
            "ctx.run(...)"
        )
    await _report(runs, failed)
    _join(runs)
    _carry(runs)


def _is_forgotten(each: RunCall) -> bool:
    if each.coroutine is None or getcoroutinestate(each.coroutine) != CORO_CREATED:
        return False
    each.coroutine.close()
    return True


def _interrupts(error: BaseException | None) -> Iterator[GraphInterrupt]:
    if isinstance(error, GraphInterrupt):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _interrupts(each)


def _that_ended(error: BaseException | None, failed: Sequence[RunCall]) -> list[RunCall]:
    causes = [] if error is None else [*_causes(error)]
    return [each for each in failed if any(each.failure is cause for cause in causes)]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and those that it was raised for; what was caught before a pause is none."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        each = queue.pop()
        if each is not None and id(each) not in seen and not isinstance(each, CallPaused):
            seen.add(id(each))
            yield each
            queue += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


async def _report(runs: RunCalls, failed: Sequence[RunCall], *, again: bool = False) -> None:
    """Emit failures, once; discard the questions in lanes that do not run again.

    Args:
        runs: The calls.
        failed: Those whose failures the function has caught.
        again: Whether it has ended by them, so that they run again.
    """
    for each in failed:
        if each.is_reported or each.failure is None:
            continue
        emitter = runs.activation.output.new_emitter(is_concurrent=True)
        place, cursor = each.lane.place, runs.cursor(each)
        tree = runs.activation.node_context.tree
        if not again:
            emitter.discard_questions(partial(is_in_call, tree, place=place, cursor=cursor))
        emitter.add_errors(each.failure)
        at = runs.activation.address
        position = Position(next=None, cursor=[], tree="", at=at, told=emitter.end())
        unended = each.unended(failed=as_data(each.failure), position=position, again=again)
        await runs.saved.save(unended)
        each.is_reported = True


def _join(runs: RunCalls) -> None:
    """Write the values of the calls; concurrent calls must not have written different values."""
    written = [
        (each, each.result)
        for each in runs.calls.values()
        if each.result is not None and each.is_delivered and each.call not in runs.saved.carried
    ]

    def are_concurrent(one: int, other: int) -> bool:
        a, b = written[one][1], written[other][1]
        return a["began"] < b["ended"] and b["began"] < a["ended"]

    shared_writes = {number: result["values"] for number, (_, result) in enumerate(written)}
    activation = runs.activation
    joined = activation.view.state.joined(
        activation.address,
        shared_writes,
        are_concurrent,
        lambda number: f"call {written[number][0].call}",
    )
    count = sum(map(len, shared_writes.values()))
    activation.output.writes = runs.writes()
    activation.output.write(joined[count:])  # the resolved values


def _carry(runs: RunCalls) -> None:
    kept: dict[object, Mapping[str, object]] = dict(runs.saved.carried)
    for each in runs.calls.values():
        if each.result is not None:
            kept[each.call] = each.result
        elif each.failure is not None:
            kept[each.call] = each.unended(failed=as_data(each.failure), position=_NOWHERE)
    runs.activation.carry_calls([*kept.values()])
