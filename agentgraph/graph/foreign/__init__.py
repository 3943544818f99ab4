"""Foreign graphs: LangGraph graphs as agents, run in a node or laid flat in the lane."""
