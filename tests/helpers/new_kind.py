"""A kind of agent that does not exist: `echo`, a leaf that says again what was said last.

It is written as CONTRIBUTING.md says, and added to a copy of the package.
"""

from pathlib import Path
from shutil import copytree, ignore_patterns

import agentgraph

PACKAGE = Path(agentgraph.__file__).parent

NODE = '''"""The node of an echo: says again what was said last."""

from typing import cast

from langchain_core.messages import AIMessage

from agentgraph.agents.agents import EchoAgent
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.leaf import LeafNode


class EchoNode(LeafNode):
    """Says again what was said last."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context)
        self.agent = cast(EchoAgent, node_context.place.agent)

    def run(self, activation: Activation) -> None:
        """Say it."""
        seen = activation.view.context(activation.view.history).seen
        text = " ".join([seen[-1].text] * self.agent.times)
        activation.output.emit_message(AIMessage(text))
        if self.agent.output_key:
            activation.output.set_values({self.agent.output_key: text})
'''

AGENT = '''@dataclass(frozen=True, slots=True, kw_only=True)
class EchoAgent(Shown):
    """A leaf that says again what was said last.

    Its fields are the options of `echo`.
    """

    name: str
    times: int = 1
    description: str = ""
    limits: Limits | None = None
    output_key: str | None = None


'''

BUILDER = '''def echo(
    name: str,
    *,
    times: int | None = 1,
    description: str = "",
    output_key: str | None = None,
    limits: Limits | None = None,
) -> EchoAgent:
    """Make an agent that says again what was said last.

    Args:
        name: The agent's name.
        times: How often it says it.
        description: Its purpose, in one sentence for other agents.
        output_key: The name of the value that stores what it says.
        limits: Its limits in a turn.

    Returns:
        The agent; `compile_agent` checks it.
    """
    return EchoAgent(**locals())


'''

RULES = """def _echo_faults(agent: EchoAgent, _: Around) -> Iterator[str]:
    yield from limit_faults("times", agent.times)


_ECHO = Rules(faults=_echo_faults)
"""

CASE = "        case _:\n            assert_never("

Edit = tuple[str, str]
"""A text of a file, and the text that is put before it."""

VALUE: dict[str, list[Edit]] = {
    "agents/agents.py": [
        ("@dataclass(frozen=True, slots=True, kw_only=True)\nclass SequentialAgent", AGENT),
        ("HumanAgent\nComposite = ", "EchoAgent | "),
    ],
    "agents/builders.py": [
        ("def class_fault(", BUILDER),
        ("    FunctionAgent,\n", "    EchoAgent,\n"),
    ],
    "__init__.py": [
        ("    function_agent,\n", "    echo,\n"),
        ('    "function_agent",\n', '    "echo",\n'),
    ],
}
"""The agent, its builder, and the name for users."""
WORD: dict[str, list[Edit]] = {
    "agents/kinds.py": [
        ("    FunctionAgent,\n", "    EchoAgent,\n"),
        ('"function", "graph"]', '"echo", '),
        (CASE, "        case EchoAgent():\n            return _ECHO\n"),
        ("_SEQUENTIAL = Kind(", '_ECHO = Kind("echo")\n'),
        ('        "sequential": _SEQUENTIAL,\n', '        "echo": _ECHO,\n'),
    ],
}
"""Its word, and what it means for its place."""
ROWS: dict[str, list[Edit]] = {
    "tree/kinds.py": [
        ("HumanAgent, ParallelAgent", "EchoAgent, "),
        (CASE, '        case "echo":\n            return _ECHO\n'),
        ("_HUMAN = Rules(", f"{RULES}\n\n"),
    ],
    "graph/nodes/echo.py": [],
    "graph/kinds.py": [
        (
            "from agentgraph.graph.nodes.lanes_node import",
            "from agentgraph.graph.nodes.echo import EchoNode\n",
        ),
        (CASE, '        case "echo":\n            return _leaf(EchoNode)\n'),
    ],
    "show/kinds.py": [
        ("        LANE: Style(", '        "echo": Style("echo", (">", "]"), "#fae8ff", "#a21caf"),\n'),
        (CASE, '        case "echo":\n            return Appearance("echo", _times)\n'),
        (
            "def _at_once(",
            'def _times(agent: Any) -> str:\n    return f", {agent.times} times{_writes(agent)}"\n\n\n',
        ),
    ],
    "skills/kinds.py": [
        ("    human,\n", "    echo,\n"),
        (CASE, '        case "echo":\n            return echo\n'),
    ],
}
"""Its rows in the other folders, and its node."""
NEW_FILES = {"graph/nodes/echo.py": NODE}


def copied(folder: Path, *steps: dict[str, list[Edit]]) -> Path:
    """Return a copy of the package in a folder, with the edits of some steps."""
    copy = folder / PACKAGE.name
    copytree(PACKAGE, copy, ignore=ignore_patterns("*.pyc.*"))  # those that are being written
    for name, edits in (each for step in steps for each in step.items()):
        text = NEW_FILES[name] if name in NEW_FILES else (copy / name).read_text()
        for before, added in edits:
            assert text.count(before) == 1, f"{name}: {before!r} is there {text.count(before)} times"
            text = text.replace(before, added + before)
        (copy / name).write_text(text)
    return copy
