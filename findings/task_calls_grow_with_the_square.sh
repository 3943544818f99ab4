#!/usr/bin/env bash
# Package: langgraph 1.2.24.
#
# Behaviour: each call of a task inside an entrypoint or a node goes through all calls that the same node
# has made before, to see whether it was made already. So n calls cost n squared; the tasks themselves
# and what they return play no part.
#
# Output seen (calls in one run, microseconds of processor time for each):
#   500 321
#   2000 552
#   8000 1393
#
# Why a good guess is wrong: `Send` hands out n items in linear time, and a future in a dict is found at
# once by its key, so a map written with tasks is expected to cost the same for each item, too. At some
# thousand items the search is most of the time.
#
# Exits with 1 if the behaviour changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  langgraph==1.2.24 langgraph-checkpoint==4.3.2
cat > "$folder/calls.py" <<'PY'
import sys
import time

from langgraph.func import entrypoint, task


@task
def double(number: int) -> int:
    return 2 * number


@entrypoint()
def all_of(count: int) -> int:
    return sum(future.result() for future in [double(number) for number in range(count)])


def microseconds(count: int) -> float:
    began = time.process_time()
    all_of.invoke(count)
    return (time.process_time() - began) / count * 1e6


all_of.invoke(10)
took = {count: min(microseconds(count) for _ in range(2)) for count in (500, 2000, 8000)}
for count, each in took.items():
    print(count, round(each))
if took[8000] < 2 * took[500]:
    sys.exit("one of 8,000 calls no longer costs twice one of 500")
PY
"$folder/venv/bin/python" -W ignore "$folder/calls.py"
