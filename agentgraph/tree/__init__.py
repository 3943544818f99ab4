"""Lays out and checks a tree of agents: places, addresses, what runs next, all faults. Pure."""
