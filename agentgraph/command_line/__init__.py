"""The commands of `agentgraph`: what they run, what they show, what they ask."""
