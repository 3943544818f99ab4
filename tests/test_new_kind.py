"""A new kind of agent, written as CONTRIBUTING.md says: nine files, and it works everywhere."""

import re
import subprocess
import sys
from pathlib import Path

from helpers.kinds import missing_rows
from helpers.new_kind import ROWS, VALUE, WORD, copied

ROOT = Path(__file__).parent.parent

USE = """
from pathlib import Path
import agentgraph as ag
from langgraph.checkpoint.memory import InMemorySaver
from agentgraph.show.drawing import mermaid
from agentgraph.skills import json_schema
from agentgraph.testing import transcript

tree = ag.sequential("s", [ag.echo("valley", times=2, output_key="said"), ag.echo("hill")])
print(tree)
graph = ag.compile_agent(tree)
print([each.text for each in graph.invoke({"messages": ["Ho."]})["messages"]])
runner = ag.Runner(tree, checkpointer=InMemorySaver())
print(transcript(runner.run("Hey.", thread_id="t")))
print([event.text for event in runner.events("t")], runner.thread("t").values)
print([each.address for each in runner.visits("t")])
print([line for line in mermaid(graph).splitlines() if "valley" in line or "classDef echo" in line])
Path("echo.yaml").write_text("{kind: parallel, name: p, sub_agents: [{kind: echo, name: e, times: 3}]}")
print(ag.load("echo.yaml"))
print(sorted(json_schema()["$defs"]["Echo"]["properties"]))
items = ag.each("all", ag.echo("one"), over="names")
print(transcript(ag.Runner(items).query("Hi.", values={"names": ["ann", "bob"]})))
checked = ag.validated(ag.echo("checked"), lambda ctx, said: None)
print(transcript(ag.Runner(checked).query("Ho.")))
try:
    ag.compile_agent(ag.swarm("w", [ag.echo("e", times=0, output_key="no name")]))
except ag.InvalidAgentError as error:
    print(*error.faults, sep="\\n")
"""

USED = """\
s (sequential)
├─ valley (echo, 2 times, writes said)
└─ hill (echo, 1 times)
['Ho.', 'Ho. Ho.', 'Ho. Ho.']
['s/valley: Hey. Hey.', 's/valley/hill: Hey. Hey.']
['Hey. Hey.', 'Hey. Hey.'] {'said': 'Hey. Hey.'}
['s/valley', 's/hill']
['    valley>"valley"]:::echo', '    __start__ --> valley', '    valley --> hill', \
'    classDef echo fill:#fae8ff,stroke:#a21caf,color:#1f2937']
p (parallel)
└─ e (echo, 3 times)
['description', 'kind', 'limits', 'name', 'output_key', 'times']
['all/one: Hi.', 'all/one: Hi.']
['checked: Ho.']
w: e is a echo; the agents of a swarm are chat, function and graph agents, and swarms; put it in the \
sub_agents of one of these
w/e: times=0 is not a limit; pass a whole number from 1, or None for no bound
w/e: output_key='no name' cannot be used in a template; use a plain name such as 'draft'
"""


def test_a_kind_touches_the_nine_files_that_contributing_lists() -> None:
    _, _, text = (ROOT / "CONTRIBUTING.md").read_text().partition("## A new kind of agent\n")
    listed = re.findall(r"^\d+\. `([\w/.]+)`", text.partition("\n## ")[0], re.MULTILINE)
    assert [*VALUE, *WORD, *ROWS] == listed
    assert len(listed) <= 9


def test_a_kind_that_is_written_as_contributing_says_works_everywhere(tmp_path: Path) -> None:
    package = copied(tmp_path, VALUE, WORD, ROWS)
    assert missing_rows(package) == []
    env = {"PYTHONPATH": str(tmp_path), "PYTHONUTF8": "1"}
    run = [sys.executable, "-W", "error", "-c", USE]
    ran = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8", check=False)
    assert (ran.stdout, ran.stderr) == (USED, "")


def test_a_kind_without_rows_is_named_by_each_file_that_lacks_it(tmp_path: Path) -> None:
    assert missing_rows(copied(tmp_path / "value", VALUE)) == ["agents/kinds.py: EchoAgent"]
    assert missing_rows(copied(tmp_path / "word", VALUE, WORD)) == [
        "tree/kinds.py: echo",
        "graph/kinds.py: echo",
        "show/kinds.py: echo",
        "skills/kinds.py: echo",
    ]
