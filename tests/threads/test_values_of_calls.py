"""What an agent that a function runs saw of the values that earlier calls wrote, told afterwards."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from helpers import Async, Drive, Sync
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag


class Older(InMemorySaver):
    """A saver of threads as an older version saved them, without the order of calls."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        checkpoint["channel_values"].get("position", {}).pop("after", None)
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        for _, value in writes:
            if isinstance(value, dict):
                value.pop("after", None), value.pop("made", None)
        super().put_writes(config, writes, task_id, task_path)


def _seen_and_told(
    fn: Any, drive: Drive, saver: Any = None
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return the values that each call saw when it ran, those that its report tells, and the order."""
    seen: dict[str, Any] = {}

    def note(ctx: ag.Context) -> ag.SetValues:
        seen[ctx.address] = dict(ctx.values)
        return ag.SetValues(last=ctx.address, **{ctx.address: True})

    tree = ag.function_agent("flow", fn, agents=[ag.function_agent("leaf", note)])
    with ag.Runner(tree, checkpointer=saver) as runner:
        list(drive.run(runner, "Go.", thread_id="t", config={"max_concurrency": 1}))
        if runner.thread("t").status == "paused":
            list(drive.resume(runner, "t", "yes"))
        assert runner.thread("t").status == "done"
        return seen, {at: dict(runner.activation("t", at).values_before) for at in seen}, [*seen]


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize("keys", [("k0", None, "k2"), (None, "k1", None), ("b", "a", "c")])
@pytest.mark.parametrize("asks", [False, True])
def test_values_of_calls_are_told_in_the_order_in_which_they_were_made(
    drive: Drive, keys: Sequence[str | None], asks: bool
) -> None:
    def flow(ctx: ag.Context) -> str | ag.Ask:
        for n, key in enumerate(keys):
            if asks and n == 2 and ctx.answer is None:
                return ag.Ask("Go on?")
            ctx.run("leaf", f"r{n}", key=key)
        return "Done."

    seen, told, _ = _seen_and_told(flow, drive)
    assert len(seen) == 3
    assert told == seen


@pytest.mark.parametrize("drive", [Sync, Async])
def test_values_of_calls_that_the_function_has_not_yet_are_not_told(drive: Drive) -> None:
    async def flow(ctx: ag.Context) -> str:
        return " ".join(await asyncio.gather(*(ctx.run("leaf", f"r{n}") for n in range(4))))

    seen, told, _ = _seen_and_told(flow, drive)
    assert len(seen) == 4
    assert told == seen


@pytest.mark.parametrize("drive", [Sync, Async])
def test_values_of_a_call_that_was_made_later_and_awaited_sooner_are_told(drive: Drive) -> None:
    async def flow(ctx: ag.Context) -> str:
        first, *rest = (ctx.run("leaf", f"r{n}") for n in range(3))
        return " ".join([await each for each in (*rest, first)])

    seen, told, order = _seen_and_told(flow, drive)
    assert order == ["flow/leaf(1)", "flow/leaf(2)", "flow/leaf(0)"]
    assert told == seen


def test_values_of_calls_of_a_thread_of_an_older_version_are_told_as_the_calls_ended() -> None:
    def flow(ctx: ag.Context) -> str:
        return ctx.run("leaf", "r0") + ctx.run("leaf", "r1")

    seen, told, _ = _seen_and_told(flow, Sync, Older())
    assert told["flow/leaf(1)"] == {"last": "flow/leaf(0)", "flow/leaf(0)": True}
    assert told == seen
