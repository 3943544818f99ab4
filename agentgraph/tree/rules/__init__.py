"""The rules of each kind of agents, and of shared options: faults, functions, templates and values."""
