"""The derived agents, built from the core agents."""
