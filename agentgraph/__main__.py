"""Runs the command line for `python -m agentgraph`."""

from agentgraph.cli import main

if __name__ == "__main__":
    main()
