"""A program that runs a tree in a database: `locking_process.py URL THREAD`; its 2nd step hangs.

It prints its events, and a line "hanging" once it hangs; the file `go` lets it go on.
"""

import sys
import time
from pathlib import Path

import agentgraph as ag


def hang(ctx: ag.Context) -> str:
    print("hanging", flush=True)
    while not Path("go").exists():
        time.sleep(0.01)
    return "b"


TREE = ag.sequential(
    "s", [ag.function_agent("a", lambda ctx: "a"), ag.function_agent("b", hang), ag.human("c", "Well?")]
)

if __name__ == "__main__":
    with ag.Runner(TREE, checkpointer=sys.argv[1]) as runner:
        for event in runner.run("Go.", thread_id=sys.argv[2]):
            print(f"{event.address}: {event.text}", flush=True)
