#!/usr/bin/env bash
# Package: langgraph 1.2.24 (with langgraph-checkpoint-sqlite 3.1.2).
#
# Behaviour: in a sync run, an entrypoint (or a node) that calls many tasks at once hands all of them to
# one pool of threads. The save of each task's result is handed to the same pool when the task has ended,
# so it stands behind all tasks that still wait for a thread. With more tasks than threads hardly any
# result is in the file before nearly all tasks have run, whatever `durability` says. A process that is
# killed half way loses most of the work that had ended, and the next run does it again.
#
# Output seen (durability, tasks that had ended, results in the file):
#   sync 199 13
#   async 199 8
#
# Why a good guess is wrong: results of tasks are said to be saved as they end, and durability "sync" to
# save before the run goes on, so that a crash costs what was under way: as many tasks as threads. The
# bound is as many tasks as were called.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2
cat > "$folder/run.py" <<'PY'
import os
import sys
import threading
import time

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task

begun, lock = [0], threading.Lock()


@task
def work(number: int) -> int:
    with lock:
        begun[0] += 1
        if begun[0] == 200:
            os._exit(9)
    time.sleep(0.01)
    return number


with SqliteSaver.from_conn_string(sys.argv[1]) as saver:

    @entrypoint(checkpointer=saver)
    def all_of(count: int) -> int:
        return sum(future.result() for future in [work(number) for number in range(count)])

    all_of.invoke(400, {"configurable": {"thread_id": "t"}}, durability=sys.argv[2])
PY
cat > "$folder/count.py" <<'PY'
import sqlite3
import subprocess
import sys
from pathlib import Path

folder = Path(sys.argv[1])
counts = []
for durability in ("sync", "async"):
    file = folder / f"{durability}.db"
    command = [sys.executable, "-W", "ignore", str(folder / "run.py"), str(file), durability]
    assert subprocess.run(command, check=False).returncode == 9
    query = "SELECT count(*) FROM writes WHERE channel = '__return__'"
    counts.append(sqlite3.connect(file).execute(query).fetchone()[0])
    print(durability, 199, counts[-1])
if max(counts) > 100:
    sys.exit("more than half of the results of tasks that had ended were in the file")
PY
"$folder/venv/bin/python" "$folder/count.py" "$folder"
