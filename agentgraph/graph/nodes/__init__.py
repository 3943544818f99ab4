"""The nodes of compiled graphs, one file for each kind."""
