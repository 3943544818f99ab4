"""A process that is killed while middleware runs the call of an agent again: no attempt runs twice."""

import signal
from collections import Counter
from pathlib import Path

import pytest
from commands import Commands
from helpers import check_heard, read

import agentgraph as ag

TREE = """
import asyncio, json, os, signal, sys
from pathlib import Path
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import ToolMessage
import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

folder, mode, method, point = sys.argv[1:]
ledger = Path(folder) / "ledger"
ledger.touch()


def note(line):
    with ledger.open("a") as file:
        file.write(line + "\\n")
        file.flush()
        os.fsync(file.fileno())


def die_at(here):
    if here == point:
        os.kill(os.getpid(), signal.SIGKILL)


def begin(ctx):
    note(f"begin {ctx.address}")
    return f"begun at {ctx.address}"


def work(ctx):
    note(f"work {ctx.address}")
    die_at(ctx.address)
    if "(0.2)" not in ctx.address:
        raise ConnectionError(f"down at {ctx.address}")
    return "found"


def reply(messages):
    if isinstance(messages[-1], ToolMessage):
        return "Done."
    return calls(call("helper", request="Look."))


inner = ag.sequential(
    "helper", [ag.function_agent("begin", begin), ag.function_agent("work", work)]
)
tree = ag.chat_agent(
    "boss",
    ScriptedChatModel(responses=reply),
    tools=[ag.agent_tool(inner, description="Looks.")],
    middleware=[ToolRetryMiddleware(max_retries=2, retry_on=(ConnectionError,), initial_delay=0.0)],
)
args = {"run": ("Go.",), "resume": ("t",)}[method]
options = {"run": {"thread_id": "t"}, "resume": {}}[method]


def tell(event):
    print(json.dumps(event.to_dict()), flush=True)


def dying(put):
    kept = lambda writes: any(name == "agentgraph_attempt" for name, _ in writes)

    def putting(config, writes, *rest):
        done = put(config, writes, *rest)
        if kept(writes):
            die_at("kept")
        return done

    async def aputting(config, writes, *rest):
        await put(config, writes, *rest)
        if kept(writes):
            die_at("kept")

    return aputting if asyncio.iscoroutinefunction(put) else putting


async def main():
    async with ag.async_sqlite_saver(folder + "/runs.db") as saver:
        saver.aput_writes = dying(saver.aput_writes)
        async for event in getattr(ag.Runner(tree, checkpointer=saver), "a" + method)(*args, **options):
            tell(event)


if mode == "async":
    asyncio.run(main())
else:
    with ag.sqlite_saver(folder + "/runs.db") as saver:
        saver.put_writes = dying(saver.put_writes)
        for event in getattr(ag.Runner(tree, checkpointer=saver), method)(*args, **options):
            tell(event)
with ag.sqlite_saver(folder + "/runs.db") as saver:
    again = [json.dumps(each.to_dict()) for each in ag.Runner(tree, checkpointer=saver).events("t")]
    (Path(folder) / "again").write_text("\\n".join(again))
"""


def process(program: Commands, *arguments: str) -> tuple[int, list[ag.AgentEvent]]:
    """Run the tree in a process of its own, and return how that ended and what it told."""
    script = program.folder / "tree.py"
    script.write_text(TREE)
    ran = program(str(script), str(program.folder), *arguments)
    assert ran.code in (0, -signal.SIGKILL), ran.err
    return ran.code, read(ran.lines)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("point", ["kept", "boss/helper(0.1)/work", "boss/helper(0)/work"])
def test_after_a_kill_only_the_step_in_flight_runs_again(
    program: Commands, tmp_path: Path, mode: str, point: str
) -> None:
    killed, told = process(program, mode, "run", point)
    assert killed == -signal.SIGKILL
    ended, rest = process(program, mode, "resume", "nowhere")
    assert ended == 0
    done = Counter((tmp_path / "ledger").read_text().splitlines())
    attempts = [f"boss/helper({n})" for n in ("0", "0.1", "0.2")]
    assert done == {
        f"{kind} {at}/{kind}": 1 + (f"{at}/{kind}" == point)
        for at in attempts
        for kind in ("begin", "work")
    }
    again = read((tmp_path / "again").read_text().splitlines())
    check_heard([*told, *rest], again)
    assert [e.text for e in again][-3:] == ["found", "found", "Done."]
