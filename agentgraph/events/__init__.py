"""What agents do, as events, translated from what a LangGraph graph streams."""
