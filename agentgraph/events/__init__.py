"""Agent events, and their translation from the stream of a LangGraph graph."""
