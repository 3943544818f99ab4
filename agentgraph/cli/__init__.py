"""The command line: its commands and its entry point."""

import sys

from agentgraph.errors import pip_install


def main() -> None:
    """Run the command line: `agentgraph new`, `run`, `resume`, `events`, `draw`, `check`, `demo`."""
    try:
        import click  # noqa: F401
        import dotenv  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        missing = f"agentgraph's command line needs more packages: {pip_install('cli')}"
        print(missing, file=sys.stderr)
        sys.exit(2)
    from agentgraph.cli.commands import commands

    commands(prog_name="agentgraph")
