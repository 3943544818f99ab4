"""Chat agents: LangChain's agent, its nodes run in a lane, with what is ours around them."""
