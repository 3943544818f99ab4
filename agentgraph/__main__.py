"""Makes `python -m agentgraph` the command line."""

from agentgraph.cli import main

if __name__ == "__main__":
    main()
