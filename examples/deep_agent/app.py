"""A deep agent for tables: it plans with to-dos, and has sub-agents that code and that search the web.

Its files are a value, which the thread stores; code runs on a copy of the files.
"""

import subprocess
import sys
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from langchain.agents.middleware import TodoListMiddleware

import agentgraph as ag
from examples.deep_agent.offline import SCRIPTS, search
from examples.models import model_or_script, web_search_or
from examples.play import play

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)
INPUT = Path(__file__).parent / "input"
SECONDS = 60


def list_files(ctx: ag.Context) -> str:
    """List the files, with their sizes in characters."""
    return "\n".join(f"{name} ({len(text)})" for name, text in ctx.values["files"].items())


def read_file(name: str, ctx: ag.Context, first_line: int = 1, lines: int = 20) -> str:
    """Read some lines of a file."""
    text: str = ctx.values["files"][name]
    return "\n".join(text.splitlines()[first_line - 1 :][:lines])


def run_python(code: str, ctx: ag.Context) -> list[ag.SetValues | str]:
    """Run Python code in a folder with the files; files that it writes there are kept."""
    with TemporaryDirectory() as folder:
        for name, text in ctx.values["files"].items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", code]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        files = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).glob("*")}
    return [ag.SetValues(files=files), ran.stdout + ran.stderr or "Done; it printed nothing."]


@ag.agent
def load(ctx: ag.Context) -> ag.SetValues:
    """Read the files of the input folder, if the thread has none yet."""
    files = {path.name: path.read_text(encoding="utf-8") for path in INPUT.iterdir()}
    return ag.SetValues(files=ctx.values.get("files", files), today=date.today().isoformat())


coder = ag.chat_agent(
    "coder",
    MODEL,
    description="Writes Python code and runs it on the files, to make or change tables.",
    instruction="You write and run Python code for a task on the files. Look at a file before you use "
    "it. Write results to new files, and end with what they hold. Today is {today}.",
    tools=[list_files, read_file, run_python],
    approve=["run_python"],
    parallel_tools=False,  # each run starts with the files of the previous run
)
web_searcher = ag.chat_agent(
    "web_searcher",
    MODEL,
    description="Searches the web for a fact.",
    tools=[web_search_or(search)],
    max_iterations=10,
)
planner = ag.chat_agent(
    "planner",
    MODEL,
    instruction="You do tasks on tables. Plan, give each step to a sub-agent, and check what it did.",
    tools=[list_files, read_file, ag.agent_tool(coder), ag.agent_tool(web_searcher)],
    middleware=[TodoListMiddleware()],
    parallel_tools=False,
    max_iterations=100,
)
deep_agent = ag.sequential("deep_agent", [load, planner])

if __name__ == "__main__":
    play(deep_agent, "Take the first column of questions.csv into a new file.", "approve")
