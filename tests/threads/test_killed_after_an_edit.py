"""A process that is killed in a step to which an edit of the state led."""

import json
from pathlib import Path

import pytest
from commands import Commands
from helpers import standing

import agentgraph as ag

PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
import agentgraph as ag

def draft(ctx):
    yield f"draft of {os.getpid()}"
    if sys.argv[2] == "die":
        while b"draft" not in Path(".out").read_bytes():  # until it was heard
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    yield "done"

def say(ctx) -> str:
    return ctx.address

a, v, z = (ag.function_agent(name, say) for name in "avz")
asks = ag.human("h", "Go on?")
first = asks if sys.argv[1] == "alone" else ag.parallel("w", [asks, v])
tree = ag.sequential("s", [a, first, ag.function_agent("g", draft), z])
with ag.sqlite_saver("t.db") as saver:
    runner = ag.Runner(tree, checkpointer=saver)
    match sys.argv[2]:
        case "edit":
            list(runner.run("Go.", thread_id="t"))
            list(runner.run("Again.", thread_id="t", drop_pending=True))
            history = runner.graph.get_state_history({"configurable": {"thread_id": "t"}})
            before_input = next(each.config for each in history if each.next == ("__start__",))
            runner.graph.update_state(before_input, {"values": {"edited": True}})
            events = []
        case "events":
            events = runner.events("t")
        case _:
            events = runner.resume("t")
    for event in events:
        print(json.dumps(event.to_dict()), flush=True)
"""


@pytest.mark.parametrize("waits", ["alone", "beside"])
def test_the_step_that_a_kill_cut_short_is_void(program: Commands, tmp_path: Path, waits: str) -> None:
    """LangGraph goes on behind what ran last, and not where the edited state says that it stands."""
    path = tmp_path / "edited.py"
    path.write_text(PROGRAM)

    def events(what: str, code: int = 0) -> list[ag.AgentEvent]:
        ran = program(str(path), waits, what)
        assert ran.code == code, ran.err
        return [ag.AgentEvent.from_dict(json.loads(line)) for line in ran.lines]

    events("edit")
    killed = events("die", code=-9)
    assert [each.text.split()[0] for each in killed if each.message] == ["draft"]
    resumed = events("resume")
    heard = standing([*killed, *resumed])
    assert [each.text.split()[0] for each in heard] == ["draft", "done", "s/z"]
    assert events("events")[-3:] == heard
