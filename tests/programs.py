"""Runs Python files as programs, in processes forked from one that has imported LangGraph already."""

import importlib
import runpy
import sys

from commands import redirect
from forking import serve


def _become(args: list[str], cwd: str, streams: list[str], **_: object) -> None:
    redirect(streams, cwd)
    sys.argv = args
    runpy.run_path(args[0], run_name="__main__")


if __name__ == "__main__":
    importlib.import_module("agentgraph.testing")
    serve(_become)
