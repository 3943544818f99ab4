"""The derived agents, one file each: what they are in terms of the core kinds."""
