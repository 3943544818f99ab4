"""TARGET: trees, runners and functions; wrong files and names raise errors with a way out."""

import pytest
from helpers.commands import Commands

REFUSED = 2
FEW = """
import agentgraph as ag

first = ag.function_agent("first", lambda ctx: "one")
boss = ag.human("boss", "Print it?", output_key="word")
runner = ag.Runner(first)
number = 5


def nothing():
    return None


def raises():
    raise ValueError("no key")


def wants(config, *, key, more=1):
    return first


with ag.Runner(first, checkpointer="own.db") as closed:
    pass

kept = ag.Runner(first, checkpointer="own.db")
"""
LIST = """It defines:
  agents.py:first (function)
  agents.py:boss (human, writes word)
  agents.py:runner (Runner of first)
  agents.py:closed (Runner of first)
  agents.py:kept (Runner of first)"""
TREES = """
  agents.py:boss (human, writes word)
  agents.py:runner (Runner of first)
  agents.py:kept (Runner of first)"""
KINDS = "must be an agent, a Runner, or a function that returns one"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.py:report", "nowhere.py does not exist; name the file of a tree"),
        (".:report", ". is not a file; name the file of a tree"),
        ("agentgraph.txt:report", "agentgraph.txt is not a Python file; name one that ends with .py"),
        ("agents.py:lst", f"agents.py has no agent 'lst'. {LIST}"),
        ("agents.py:number", f"agents.py:number {KINDS}, got a int. {LIST}"),
        ("agents.py:nothing", "agents.py:nothing returned None; return an agent or a Runner"),
        ("agents.py:raises", "agents.py, line 15 cannot be loaded:\nValueError: no key"),
        (
            "agents.py:wants",
            "agents.py:wants needs the arguments config, key; name a function without arguments, or "
            "give them defaults",
        ),
        (
            "agents.py:closed",
            "agents.py:closed is closed; make it without a `with` block, or name a function that "
            "returns one",
        ),
        ("empty.py:a", "empty.py has no agent 'a'. The file defines no agent and no Runner."),
        ("empty.py", "empty.py defines no tree; name one as in empty.py:NAME"),
        ("divides.py:a", "divides.py, line 3 cannot be loaded:\nZeroDivisionError: division by zero"),
        ("bare", "bare has no file that defines a tree; name a file"),
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
    (command.folder / "bare").mkdir()
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


def test_a_file_with_several_trees_needs_a_name(command: Commands) -> None:
    (command.folder / "agents.py").write_text(FEW)
    ended = command("check", "agents.py:")
    several = f"agents.py has 3 trees; name one, as in agents.py:boss. It defines:{TREES}"
    assert (ended.code, ended.err) == (REFUSED, f"Error: {several}\n")


APP = """
import asyncio
from contextlib import asynccontextmanager, contextmanager
from operator import add
from typing import Annotated, TypedDict

import agentgraph as ag


class Words(TypedDict):
    words: Annotated[list[str], add]


def greets(ctx):
    return ag.SetValues(words=[f"{ctx.context['name']} on {ctx.config['metadata']['on']}"])


def counts(ctx):
    return f"{len(ctx.values['words'])} words, {ctx.values['words'][-1]}"


greeter, counter = ag.function_agent("greeter", greets), ag.function_agent("counter", counts)
boss = ag.human("boss", "Print it?")
greeting = ag.sequential("greeting", [greeter, greeter, counter, boss])
options = {"values": Words, "context": {"name": "Ada"}, "config": {"metadata": {"on": "day"}}}
runner = ag.Runner(greeting, **options)


async def kept():
    return ag.Runner(greeting, checkpointer="own.db", **options)


async def slow(ctx):
    return "Done."


@asynccontextmanager
async def opened():
    task = asyncio.current_task()
    yield ag.function_agent("slow", slow, timeout=60)
    print("closed", task is asyncio.current_task())


@contextmanager
def limited():
    yield ag.Runner(greeting, limits=ag.Limits(steps=1), **options)
    print("closed")
"""


def test_a_runner_keeps_its_options_and_its_threads(command: Commands) -> None:
    (command.folder / "app.py").write_text(APP)
    paused = command("run", "app.py", "Hi.", "--thread", "t", "--context", '{"name": "Bob"}')
    assert paused.lines[2] == "greeting/counter: 2 words, Bob on day"
    resume = 'agentgraph resume app.py t --db agentgraph.db --context \'{"name": "Bob"}\''
    assert paused.continue_command.endswith(resume)
    paused = command("run", "app.py:kept", "Hi.", "--thread", "k", "--no-input")
    assert paused.lines[2] == "greeting/counter: 2 words, Ada on day"
    assert paused.continue_command.endswith("agentgraph resume app.py:kept k")
    assert paused.err.startswith("Paused: thread k in own.db waits for answers to")
    assert command("answer", "app.py:kept", "k", "yes").lines == ["Answered: thread k in own.db."]
    assert [command("threads", "app.py:kept").out[:9], command("threads", "app.py").out[:9]] == [
        "k  stopped"[:9],
        "t  paused"[:9],
    ]
    for option in ("--db", "x.db"), ("--allow", "fractions:Fraction"):
        ended = command("show", "app.py:kept", "k", *option)
        assert ended.code == REFUSED
        assert ended.err.startswith("Error: app.py:kept stores its threads by its own checkpointer;")
    assert not (command.folder / "x.db").exists()


def test_functions_open_what_a_command_closes(command: Commands) -> None:
    (command.folder / "app.py").write_text(APP)
    assert command("run", "app.py:opened", "Hi.").lines == ["slow: Done.", "closed True"]
    advanced = command("advance", "app.py:opened", "a", "--turn-id", "one", "--message", "Hi.")
    assert (advanced.code, advanced.lines) == (0, ["a  done  Done.", "closed True"])
    failed = command("run", "app.py:limited", "Hi.")
    assert (failed.code, failed.lines[-1]) == (1, "closed")
    assert "Limits.steps" in failed.err
    assert command("check", "app.py:limited", "--strict").out == "closed\nlimited: no faults\n"
    assert command("draw", "app.py:kept", "--tree").lines[0] == "greeting (sequential)"
