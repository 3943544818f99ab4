"""A server for the tests of the window: the page of `agentgraph inspect FOLDER`."""

import sys
from contextlib import ExitStack
from pathlib import Path

import uvicorn
from window_trees import TOKEN

from agentgraph.cli.page_trees import PageTrees
from agentgraph.cli.target import Target
from agentgraph.window.app import make_app

REPORT = """
from dataclasses import dataclass
from typing import Literal

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

MODELS = {
    name: ScriptedChatModel(responses=lambda messages, text=text: text)
    for name, text in {"quick": "Bees.", "careful": "All bees."}.items()
}


@dataclass
class Desk:
    reader: str
    words: int = 100
    model: Literal["quick", "careful"] = "quick"


def tell(ctx):
    return f"{ctx.context.reader}, {ctx.context.words}: {ctx.messages[-3].text}"


writer = ag.chat_agent("writer", lambda ctx: MODELS[ctx.context.model])
press = ag.parallel("press", [ag.loop("polish", [writer], max_iterations=4)])
report = ag.sequential(
    "report", [press, ag.human("boss", "Print it?"), ag.function_agent("teller", tell)]
)
runner = ag.Runner(report, context_schema=Desk, context=Desk("Ann"))
"""
CHAT = """
import agentgraph as ag

chat = ag.function_agent("chat", lambda ctx: "Hello.")
"""

if __name__ == "__main__":
    _, _, folder, port = sys.argv
    trees = Path(folder) / "agents"
    trees.mkdir(exist_ok=True)
    (trees / "report.py").write_text(REPORT)
    (trees / "chat.py").write_text(CHAT)
    with ExitStack() as opened:
        page = PageTrees(Target(name=str(trees)), f"{folder}/runs.db", opened).page("agents")
        app = make_app(page, TOKEN)
        uvicorn.run(app, port=int(port), log_level="warning", timeout_graceful_shutdown=1)
