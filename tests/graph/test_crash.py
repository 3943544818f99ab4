"""A process that is killed: what had finished does not run again, only the step in flight."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from commands import Commands, Running, wait_until
from helpers import check_heard, read, went_on

import agentgraph as ag

TREE = """
import os, sys, time
from pathlib import Path
from typing import NotRequired
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
import agentgraph as ag

FOLDER = Path(__file__).parent
LEDGER = FOLDER / "ledger"


def note(line):
    with LEDGER.open("a") as file:
        file.write(line + "\\n")
        file.flush()
        os.fsync(file.fileno())


def step(name, hang_at=None):
    def fn(ctx) -> str:
        note(f"start {ctx.address}")
        if ctx.address == hang_at and not (FOLDER / "go").exists():
            (FOLDER / "hanging").touch()
            time.sleep(60)
        note(f"end {ctx.address}")
        return ctx.address

    return ag.function_agent(name, fn)


loop = ag.loop("l", [step("a"), step("b", "l[7]/b")], max_iterations=12)
branches = ag.sequential(
    "s",
    [
        step("first"),
        ag.parallel(
            "p",
            [
                ag.sequential("x", [step("x1"), step("x2")]),
                ag.loop("y", [step("y1"), step("y2", "s/p/y[2]/y2")], max_iterations=4),
                step("z"),
            ],
        ),
        step("last"),
    ],
)
deep = ag.loop("o", [ag.parallel("p", [branches.sub_agents[0], ag.parallel("q", [
    ag.sequential("r", [step("r1"), step("r2", "o[1]/p/q/r/r2")]), step("t")])])], max_iterations=2)


def hang(name):
    note(f"start {name}")
    if not (FOLDER / "go").exists():
        (FOLDER / "hanging").touch()
        time.sleep(60)
    note(f"end {name}")


def quick(n: int) -> str:
    "A tool that is quick."
    note(f"start quick-{n}")
    return f"quick {n}"


def slow(n: int) -> str:
    "A tool that hangs once."
    hang(f"slow-{n}")
    return f"slow {n}"


class Model(BaseChatModel):
    name: str
    rounds: list

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        asked = sum(isinstance(m, AIMessage) for m in messages)
        note(f"start {self.name}-{asked}")
        calls = [
            {"name": name, "args": args, "id": f"call_{i}", "type": "tool_call"}
            for i, (name, args) in enumerate(self.rounds[asked])
        ]
        said = AIMessage("" if calls else f"{self.name} is done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])

    @property
    def _llm_type(self):
        return "by rounds"


inner = ag.sequential("inner", [step("i1"), ag.chat_agent(
    "deep",
    Model(name="deep", rounds=[[("quick", {"n": 3}), ("slow", {"n": 4})], []]),
    tools=[quick, slow],
)])
tools = ag.chat_agent(
    "writer",
    Model(name="writer", rounds=[[("quick", {"n": 0})], [("quick", {"n": 1}), ("slow", {"n": 2})], []]),
    tools=[quick, slow],
)
agents = ag.chat_agent(
    "writer",
    Model(name="writer", rounds=[[("quick", {"n": 1}), ("inner", {"request": "Look."})], []]),
    tools=[quick, ag.agent_tool(inner)],
)
foreign = ag.sequential("s", [step("before"), ag.graph_agent("made", create_agent(
    Model(name="made", rounds=[[("quick", {"n": 0})], [("quick", {"n": 1}), ("slow", {"n": 2})], []]),
    [quick, slow],
))])


class Rounds(AgentMiddleware):
    class Counting(AgentState):
        rounds: NotRequired[int]

    state_schema = Counting

    def before_model(self, state, runtime):
        count = state.get("rounds", 0) + 1
        return {"rounds": count, "messages": [HumanMessage(f"round {count}")]}

    def after_agent(self, state, runtime):
        seen = [m.text.removeprefix("round ") for m in state["messages"] if "round" in m.text]
        note(f"start rounds-{state['rounds']}-{''.join(seen)}")


kept = ag.parallel("p", [step("z"), ag.chat_agent(
    "writer",
    Model(name="writer", rounds=[[("quick", {"n": 0})], [("quick", {"n": 1}), ("slow", {"n": 2})], []]),
    tools=[quick, slow],
    middleware=[Rounds()],
)])
"""

RUN = """
import json, sys
from pathlib import Path
folder, name, method = sys.argv[1:]
sys.path.insert(0, folder)
import agentgraph as ag
import tree
args, options = {"run": (["hi"], {"thread_id": "t"}), "resume": (["t"], {})}[method]
with ag.sqlite_saver(folder + "/runs.db") as saver:
    runner = ag.Runner(getattr(tree, name), checkpointer=saver)
    for event in getattr(runner, method)(*args, **options):
        print(json.dumps(event.to_dict()), flush=True)
    again = [json.dumps(event.to_dict()) for event in runner.events("t")]
    (Path(folder) / "again").write_text("\\n".join(again))
"""


def run(program: Commands, name: str, method: str) -> Running:
    """Start a run, or a resume, of a tree in a process of its own."""
    folder = program.folder
    (folder / "tree.py").write_text(TREE)
    (folder / "run.py").write_text(RUN)
    return program.start(str(folder / "run.py"), str(folder), name, method)


def hanging(program: Commands, name: str) -> Running:
    """Start a run, and wait until it hangs in a step."""
    first = run(program, name, "run")
    wait_until((program.folder / "hanging").exists)
    return first


def killed_then_resumed(program: Commands, name: str) -> tuple[list[str], list[str]]:
    """Kill a run with SIGKILL in the middle of a step, resume it, and return what both told.

    Of the second run that is what nobody had heard before.
    """
    first = hanging(program, name)
    time.sleep(1)  # for the branches beside it to come to their ends
    first.signal(signal.SIGKILL)
    killed = first.wait()
    assert killed.code == -signal.SIGKILL, killed.err
    heard = read(killed.lines)
    return lines_of(heard), resumed(program, name, heard)


def resumed(program: Commands, name: str, heard: list[ag.AgentEvent]) -> list[str]:
    """Go on to the end, and return what is new to those who heard what a process told before."""
    (program.folder / "go").touch()
    second = run(program, name, "resume").wait()
    assert second.code == 0, second.err
    rest = read(second.lines)
    check_heard([*heard, *rest], read((program.folder / "again").read_text().splitlines()))
    return lines_of(went_on(heard, rest))


def lines_of(events: list[ag.AgentEvent]) -> list[str]:
    return [f"{event.address} {event.text}" for event in events]


def starts(folder: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in (folder / "ledger").read_text().splitlines():
        kind, address = line.split()
        if kind == "start":
            counts[address] = counts.get(address, 0) + 1
    return counts


def test_killed_in_the_middle_of_a_loop_only_the_step_in_flight_runs_again(program):
    told, rest = killed_then_resumed(program, "loop")
    steps = [f"l[{i}]/{name}" for i in range(12) for name in "ab"]
    assert starts(program.folder) == {step: 1 + (step == "l[7]/b") for step in steps}
    assert [*told, *rest] == [f"{step} {step}" for step in steps]


def test_killed_in_the_middle_of_a_parallel_only_the_step_in_flight_runs_again(program):
    told, rest = killed_then_resumed(program, "branches")
    branches = [
        ["s/p/x/x1", "s/p/x/x2"],
        [f"s/p/y[{i}]/{name}" for i in range(4) for name in ("y1", "y2")],
        ["s/p/z"],
    ]
    steps = ["s/first", *(step for branch in branches for step in branch), "s/last"]
    assert starts(program.folder) == {step: 1 + (step == "s/p/y[2]/y2") for step in steps}
    lines = [*told, *rest]
    assert sorted(lines) == sorted(f"{step} {step}" for step in steps)
    for branch in branches:
        assert [line for line in lines if line.split()[0] in branch] == [f"{s} {s}" for s in branch]


def test_killed_in_a_parallel_in_a_parallel_in_a_loop_only_the_step_in_flight_runs_again(program):
    told, rest = killed_then_resumed(program, "deep")
    inside = ["p/first", "p/q/r/r1", "p/q/r/r2", "p/q/t"]
    steps = [f"o[{i}]/{step}" for i in range(2) for step in inside]
    assert starts(program.folder) == {step: 1 + (step == "o[1]/p/q/r/r2") for step in steps}
    assert sorted([*told, *rest]) == sorted(f"{step} {step}" for step in steps)


def once(*names: str, twice: str) -> dict[str, int]:
    return {name: 1 + (name == twice) for name in names}


def test_killed_in_the_middle_of_tool_calls_only_the_call_in_flight_runs_again(program):
    told, rest = killed_then_resumed(program, "tools")
    ran = ["writer-0", "quick-0", "writer-1", "quick-1", "slow-2", "writer-2"]
    assert starts(program.folder) == once(*ran, twice="slow-2")
    assert told == ["writer ", "writer quick 0", "writer ", "writer quick 1"]
    assert rest == ["writer slow 2", "writer writer is done"]


def test_killed_in_a_branch_the_middleware_has_what_it_kept(program):
    _, rest = killed_then_resumed(program, "kept")
    ran = ["p/z", "writer-0", "quick-0", "writer-1", "quick-1", "slow-2", "writer-2", "rounds-3-123"]
    assert starts(program.folder) == once(*ran, twice="slow-2")
    assert rest == ["p/writer slow 2", "p/writer writer is done"]


def test_killed_in_an_agent_that_runs_as_a_tool_only_its_call_in_flight_runs_again(program):
    told, rest = killed_then_resumed(program, "agents")
    at = "writer/inner(1)"
    ran = ["writer-0", "quick-1", f"{at}/i1", "deep-0", "quick-3", "slow-4", "deep-1", "writer-1"]
    assert starts(program.folder) == once(*ran, twice="slow-4")
    assert sorted(told) == sorted(
        ["writer ", "writer quick 1", f"{at}/i1 {at}/i1", f"{at}/deep ", f"{at}/deep quick 3"]
    )
    assert rest == [
        f"{at}/deep slow 4",
        f"{at}/deep deep is done",
        "writer deep is done",
        "writer writer is done",
    ]


def test_killed_in_a_graph_agent_nothing_that_it_said_is_told_again(program):
    told, rest = killed_then_resumed(program, "foreign")
    ran = ["s/before", "made-0", "quick-0", "made-1", "quick-1", "slow-2", "made-2"]
    assert starts(program.folder) == once(*ran, twice="slow-2")
    assert told == ["s/before s/before", "s/made ", "s/made quick 0", "s/made "]
    assert rest == ["s/made quick 1", "s/made slow 2", "s/made made is done"]


PAUSES = """
import sys, json
import agentgraph as ag
from agentgraph.testing import transcript

def fn(ctx):
    return "ok"

tree = ag.sequential("s", [
    ag.function_agent("a", fn),
    ag.parallel("p", [
        ag.sequential(f"q{i}", [ag.function_agent(f"b{i}", fn), ag.human(f"h{i}", f"{i}?")])
        for i in range(3)
    ]),
    ag.function_agent("z", lambda ctx: ", ".join(m.text for m in ctx.messages)),
])
with ag.sqlite_saver(sys.argv[1]) as saver:
    runner = ag.Runner(tree, checkpointer=saver)
    call, *rest = json.loads(sys.argv[2])
    events = list(getattr(runner, call)(*rest, **({"thread_id": "t"} if call == "run" else {})))
    print(json.dumps([transcript(events), [[q.id, q.address] for q in runner.pending("t")]]))
"""


def in_a_process(program: Commands, *call: object) -> tuple[list[str], list[list[str]]]:
    script = program.folder / "pauses.py"
    script.write_text(PAUSES)
    done = program(str(script), str(program.folder / "runs.db"), json.dumps(call))
    assert done.code == 0, done.err
    lines, pending = json.loads(done.out)
    return lines, pending


def test_three_questions_in_three_branches_are_answered_one_by_one_across_processes(program):
    lines, pending = in_a_process(program, "run", "hi")
    assert lines[0] == "s/a: ok"
    assert [address for _, address in pending] == [f"s/p/q{i}/h{i}" for i in range(3)]
    first = pending
    lines, pending = in_a_process(program, "resume", "t", {first[1][0]: "one"})
    assert "s/a/p/q1/b1/h1: one" in lines
    assert pending == [first[0], first[2]]
    lines, pending = in_a_process(program, "resume", "t", {"s/p/q2/h2": "two"})
    assert "s/a/p/q2/b2/h2: two" in lines
    assert pending == [first[0]]
    lines, pending = in_a_process(program, "resume", "t", "zero")
    assert pending == []
    said = (
        "[b0] said: ok, [h0] said: zero, [b1] said: ok, [h1] said: one, [b2] said: ok, [h2] said: two"
    )
    assert lines == ["s/a/p/q0/b0/h0: zero", f"s/a/p/z: hi, [a] said: ok, {said}"]


def test_two_processes_do_not_run_on_one_thread_at_once(program):
    first = hanging(program, "loop")
    folder = str(program.folder)
    command = [sys.executable, f"{folder}/run.py", folder, "loop", "run"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert "ThreadBusyError: thread 't' is busy" in second.stderr
    first.signal(signal.SIGKILL)
    rest = resumed(program, "loop", read(first.wait().lines))
    assert rest[0] == "l[7]/b l[7]/b"


def test_interrupted_by_the_keyboard_a_run_goes_on_where_it_was(program):
    first = hanging(program, "loop")
    first.signal(signal.SIGINT)
    interrupted = first.wait()
    assert "KeyboardInterrupt" in interrupted.err
    rest = resumed(program, "loop", read(interrupted.lines))
    assert rest[0] == "l[7]/b l[7]/b"
    assert starts(program.folder)["l[7]/b"] == 2
