"""A tree as a LangGraph graph: its channels, its history, its nodes, and how it is compiled."""

import agentgraph.graph.internals  # noqa: F401  # first: it names the parts that another LangGraph misses
