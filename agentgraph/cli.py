"""The entry point of the command line, which says what to install where its packages are missing."""

import sys


def main() -> None:
    """Run the command line: `agentgraph run`, `resume`, `events`, `draw`, `check`, `demo`."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        missing = "agentgraph's command line needs two more packages: pip install 'agentgraph[cli]'"
        print(missing, file=sys.stderr)
        sys.exit(2)
    from agentgraph.command_line.commands import commands

    commands(prog_name="agentgraph")
