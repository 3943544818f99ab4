"""A tree as a LangGraph graph: its channels, its history, its nodes, and how it is compiled."""
