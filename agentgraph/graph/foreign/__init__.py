"""LangGraph graphs as agents, run in a node or flattened into the lane."""
