"""A tree of agents laid out and checked: places, addresses, what comes next, all faults. Pure."""
