"""Pages that say what to type: their blocks of code and their commands run, and print what they say."""

import contextlib
import io
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from helpers.commands import Commands

BLOCK = re.compile(
    r"(?:`(?P<file>[\w.]+)`:\n\n)?```(?:(?P<language>\w+)|\{literalinclude\} (?P<source>\S+))\n"
    r"(?P<text>.*?)```",
    re.DOTALL,
)
NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\n\n```.*?```", re.DOTALL)
"""A block that needs packages which the tests do not install; the comment names them."""


def follow(blocks: Iterable[re.Match[str]], shell: Callable[[str], str], folder: Path = Path()) -> int:
    """Do what blocks say, one after the other, in the working folder.

    A block with the name of a file is saved there, or the file that it includes from the `folder` of
    the page. Other code runs by itself, and commands run in `shell`. A block of text is what the block
    before it must have printed.

    Returns:
        How many blocks of text were compared.
    """
    printed, compared = "", 0
    for block in blocks:
        if block["file"]:
            source = block["source"]
            text = (folder / source).read_text() if source else block["text"]
            Path(block["file"]).write_text(text)
            continue
        match block["language"]:
            case "python":
                printed = ran(block["text"])
            case "sh":
                typed = (line.partition("  #")[0] for line in block["text"].splitlines())
                printed = "".join(shell(line) for line in typed if line)
            case "text":
                assert printed == block["text"], printed
                compared += 1
    return compared


@contextlib.contextmanager
def forgetting(folder: Path) -> Iterator[None]:
    """Forget the modules that are imported from a folder: the next page has others of their names."""
    try:
        yield
    finally:
        for name, module in [*sys.modules.items()]:
            if str(getattr(module, "__file__", None)).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def ran(code: str) -> str:
    """Run a block of code by itself, and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "a block of code", "exec"), {"__name__": "page"})
    return out.getvalue()


def run_line(line: str, program: Commands) -> str:
    """Run a command as it is typed, and return what it prints; a run may pause.

    Programs in Python run in forked processes, as importing LangGraph takes seconds.
    """
    name, *args = shlex.split(line)
    if name in ("python", "agentgraph"):
        forked = program(*([".venv/bin/agentgraph"] if name == "agentgraph" else []), *args)
        assert forked.code in (0, 3), forked.err
        return forked.out
    found = f"{line} && command -v python agentgraph > /dev/null" if name == "." else line
    run = subprocess.run(["bash", "-c", found], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def free_port() -> int:
    """Return a free port of the loopback address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def named(text: str, file: str) -> str:
    """Return the block of a page that is saved under a name."""
    return next(block["text"] for block in BLOCK.finditer(text) if block["file"] == file)
