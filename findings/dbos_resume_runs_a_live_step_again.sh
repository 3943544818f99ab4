#!/usr/bin/env bash
# Package: dbos 3.4.0.
#
# Behaviour: `DBOS.resume_workflow` of a workflow that is running starts it again next to itself: the step
# in progress begins a second time before its first call has ended, in the same process too. The result is
# that of the first one that ends; the other runs to its end nevertheless.
#
# Output seen:
#   begin
#   begin
#   end
#   end
#
# Why a good guess is wrong: DBOS runs a step once for each workflow id, and a workflow id begins once, so
# to resume what is not stopped looks like a call without effect. A supervisor that resumes the workflows
# of an executor which only seemed dead makes each step in progress run twice at a time: agents that pay
# or send need a lock or a key of their own against that.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check dbos==3.4.0 2>/dev/null
cat > "$folder/resumed.py" <<'PY'
import sys
import time

from dbos import DBOS, SetWorkflowID

ran: list[str] = []


def until(length: int) -> None:
    end = time.monotonic() + 60
    while len(ran) < length and time.monotonic() < end:
        time.sleep(0.05)


DBOS(config={"name": "desk", "system_database_url": f"sqlite:///{sys.argv[1]}"})


@DBOS.step()
def pay() -> str:
    ran.append("begin")
    time.sleep(6)
    ran.append("end")
    return "paid"


@DBOS.workflow()
def order() -> str:
    return pay()


DBOS.launch()
with SetWorkflowID("order"):
    handle = DBOS.start_workflow(order)
until(1)
DBOS.resume_workflow("order")
handle.get_result()
until(4)
DBOS.destroy()
print("\n".join(ran))
if ran != ["begin", "begin", "end", "end"]:
    sys.exit("a workflow that is running is resumed otherwise")
PY
"$folder/venv/bin/python" -W ignore "$folder/resumed.py" "$folder/dbos.sqlite" 2>/dev/null
