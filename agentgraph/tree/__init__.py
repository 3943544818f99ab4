"""Lays out and checks a tree of agents: places, addresses, routes and faults. Pure."""
