"""TARGET: wrong files and names raise errors with a way out."""

import pytest
from helpers.commands import Commands

REFUSED = 2
FEW = """
import agentgraph as ag

first = ag.function_agent("first", lambda ctx: "one")
boss = ag.human("boss", "Print it?", output_key="word")
runner = ag.Runner(first)
"""
LIST = "It defines:\n  agents.py:first (function)\n  agents.py:boss (human, writes word)"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.py:report", "nowhere.py does not exist; name the file of a tree"),
        (".:report", ". is not a file; name the file of a tree"),
        ("agentgraph.txt:report", "agentgraph.txt is not a Python file; name one that ends with .py"),
        ("agents.py", f"name an agent, as in agents.py:NAME. {LIST}"),
        ("agents.py:", f"name an agent, as in agents.py:NAME. {LIST}"),
        ("agents.py:lst", f"agents.py has no agent 'lst'. {LIST}"),
        ("agents.py:runner", f"agents.py:runner must be an agent, got a Runner. {LIST}"),
        ("empty.py:a", "empty.py has no agent 'a'. The file defines no agent."),
        ("divides.py:a", "divides.py, line 3 cannot be loaded:\nZeroDivisionError: division by zero"),
    ],
)
def test_a_wrong_target_is_refused(command: Commands, target: str, message: str) -> None:
    files = {
        "agents.py": FEW,
        "agentgraph.txt": "",
        "empty.py": "",
        "divides.py": "import helper\n\nhelper.divide(1, 0)\n",
        "helper.py": "def divide(a, b):\n    return a / b\n",
    }
    for name, text in files.items():
        (command.folder / name).write_text(text)
    ended = command("check", target)
    assert (ended.code, ended.out, ended.err) == (REFUSED, "", f"Error: {message}\n")


def test_check_warns_of_a_part_of_a_value_in_an_instruction(command: Commands) -> None:
    (command.folder / "agents.py").write_text(
        "import agentgraph as ag\n"
        "boss = ag.human('boss', 'About what?', output_key='topic')\n"
        "writer = ag.chat_agent('writer', 'openai:gpt-5', instruction='About {topic.name}.')\n"
        "both = ag.sequential('both', [boss, writer])\n"
    )
    ended = command("check", "agents.py:both")
    assert (ended.code, ended.out) == (0, "both: no faults\n")
    assert ended.err == (
        "warning: writer: its instruction has {topic.name}, which is sent unchanged; write {topic}, or "
        "write the part to its own value; write {{topic.name}} to keep the braces\n"
    )
    ended = command("check", "agents.py:writer")
    assert (ended.code, ended.out, ended.err) == (0, "writer: no faults\n", "")


def test_a_syntax_error_is_shown_with_its_line(command: Commands) -> None:
    (command.folder / "agents.py").write_text("first = 1\nsecond = (\n")
    ended = command("run", "agents.py:first", "bees")
    assert ended.code == REFUSED
    assert ended.err.startswith("Error: agents.py, line 2 cannot be loaded:\n")
    assert "SyntaxError: '(' was never closed" in ended.err


def test_a_file_may_be_named_like_a_module_that_is_loaded(command: Commands) -> None:
    (command.folder / "json.py").write_text(FEW)
    assert command("run", "json.py:first", "bees", "--json").code == 0
