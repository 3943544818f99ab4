"""The command `new`: a folder with a tree, its tests, and the files that run it."""

import re
from pathlib import Path
from string import Template

import click

from agentgraph.cli.options import UserError

_TEMPLATES = Path(__file__).with_name("project")
_FILES = {
    "report.py": "report.txt",
    "test_report.py": "test_report.txt",
    ".env.example": "env.txt",
    "langgraph.json": "langgraph.txt",
    "pyproject.toml": "pyproject.txt",
    "README.md": "readme.txt",
    ".gitignore": "gitignore.txt",
}
"""The files of a project, and their templates; only `$name` is replaced."""
_NEXT = ('pip install -e ".[dev]"', "pytest", 'agentgraph run report.py:report "bees"')
"""The commands in the folder, one after the other."""
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")


@click.command()
@click.argument("name", metavar="NAME")
def new(name: str) -> None:
    """Make the folder NAME with a small project: a tree, its tests, and files for LangGraph Studio.

    It runs offline, and with a model of OpenAI if OPENAI_API_KEY is set, in the environment or in
    the file .env of the folder.
    """
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is not a valid name of a project; use letters, digits, - and _, and a letter "
            "first"
        )
    folder = Path(name)
    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"the folder {name} is not empty; choose another name, or empty it")
        for file, template in _FILES.items():
            text = (_TEMPLATES / template).read_text(encoding="utf-8")
            text = Template(text).safe_substitute(name=name)
            (folder / file).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UserError(f"{name} exists and is not a folder; choose another name") from None
    except OSError as error:
        raise UserError(
            f"the folder {name} cannot be made: {error.strerror}; choose another name or folder"
        ) from error
    click.echo(f"Made: {name}, with {', '.join(_FILES)}.\n")
    click.echo("\n  ".join(("Next:", f"cd {name}", *_NEXT)))
